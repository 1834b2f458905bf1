//! One more handle of a target that exists: `ibv_open_qp(3)`.
//!
//! # Safety
//! The QP's handle lives as long as this owner, and so does its domain. Only the number, the state and the end
//! of it are asked for. A transition through such a handle is not offered: RESET would be a write through
//! NULL in mlx5, whose structure of an opened QP has no doorbell record.
//!
//! **The end goes past the provider where [`PAST_PROVIDER`] says so.** mlx5's destroy gives a doorbell record
//! back for each QP, and an opened one never had any: it looks NULL up among its pages, finds none, takes the
//! end of the list for a page and writes there (an assertion guards it that release builds leave out). So the
//! kernel is asked to destroy the handle, and the provider's structure stays as it is:
//!
//! * It (976 bytes in rdma-core 44) cannot be freed here. `ibv_open_qp` returns a pointer into the middle of
//!   what mlx5 allocated, at a place that differs from release to release.
//! * Nothing else refers to it or misses it. libibverbs keeps no list and no count of QPs; mlx5 puts an
//!   opened QP into no table (neither that of numbers nor that of user indices, for it has no work queues) and
//!   gives it no buffers and no page of doorbells. A later QP of the same number is found as any other. mlx5's
//!   destroy also takes a lock and cleans the CQs, for the table's and the QP's own CQs' sake: there are none.
//! * The kernel forgets its address with the handle, and that of events not yet read. An event that was read
//!   and not acknowledged may still name it, which is why libibverbs waits before it frees one; this one stays.

use super::{
    context::{Changes, Context},
    cq::{end_of_qp, note_stale},
    domain::Domain,
    qp::{Close, Qp},
    sys::{self, ibv_qp_open_attr},
};
use crate::{Error, ErrorKind, QpNumber, Result, device::CHARACTER_DEVICES};
use std::sync::Arc;

/// A provider that must not be asked to destroy what it opened.
struct PastProvider {
    /// The kernel driver of its devices; more may follow after a dot (`mlx5_core.sf`, a sub-function).
    driver: &'static str,
    /// The driver's number in ioctls. The kernel refuses one that is not the device's.
    id: u32,
}

/// Each with what is wrong and in which releases of rdma-core. All others that open targets close them:
/// mlx4 and hns look whether a QP has queues or doorbells before they give any back. (qedr opens none; rxe and
/// the rest have no XRC.)
const PAST_PROVIDER: &[PastProvider] = &[
    // 40 to 64, the newest that was read: the destroy of an opened QP crashes, as above. 44 was seen to. Where a
    // later release has mended it, this way is as right as the provider's.
    PastProvider { driver: "mlx5_core", id: sys::RDMA_DRIVER_MLX5 },
];

/// Who is to destroy the handles of a device's opened targets. None: its driver is not known.
fn close(context: &Context) -> Option<Close> {
    let driver = context.driver()?;
    let base = driver.split('.').next().unwrap_or(driver);
    let past = PAST_PROVIDER.iter().find(|past| past.driver == base);
    Some(past.map_or(Close::Provider, |past| Close::Kernel(past.id)))
}

pub(crate) struct Opened {
    qp: Qp,
    domain: Arc<Domain>,
}

impl Opened {
    pub(crate) fn open(domain: &Arc<Domain>, number: QpNumber) -> Result<Self> {
        const VERB: &str = "ibv_open_qp";
        let context = domain.context();
        context.ours(VERB)?;
        let named = |error: Error| error.device(context.name()).object(format!("target QP {number}"));
        if !context.opens_targets() {
            let detail = "the provider of this device opens no targets";
            return Err(named(Error::refused(VERB, ErrorKind::Unsupported, detail)));
        }
        let close = close(context).ok_or_else(|| {
            let detail = format!(
                "sysfs does not say which driver the opened device has, so how its handles are closed is not \
                 known; the device's number must be in {CHARACTER_DEVICES}, with its driver under device"
            );
            named(Error::refused(VERB, ErrorKind::Unsupported, detail))
        })?;
        let mut attr = ibv_qp_open_attr {
            comp_mask: sys::IBV_QP_OPEN_ATTR_NUM | sys::IBV_QP_OPEN_ATTR_XRCD | sys::IBV_QP_OPEN_ATTR_TYPE,
            qp_num: number.get(),
            xrcd: domain.as_ptr(),
            qp_type: sys::IBV_QPT_XRC_RECV,
            ..Default::default()
        };
        let mut changes = context.queue_changes();
        let opened = Qp::open(context, &mut attr, close);
        if opened.is_ok() {
            changes.opened.push(number);
        }
        drop(changes);
        let qp = opened.map_err(|source| {
            let unknown = source.raw_os_error() == Some(libc::EINVAL);
            let error = named(Error::os(VERB, source));
            if unknown {
                error.with_kind(ErrorKind::NotFound).detail(
                    "the domain has no target of this number: it never had, it is another domain's, or its \
                     last holder has let go",
                )
            } else {
                error
            }
        })?;
        Ok(Self { qp, domain: Arc::clone(domain) })
    }

    pub(crate) fn qp(&self) -> &Qp {
        &self.qp
    }

    /// Lets go of this handle. The target is not stopped; it ends if nobody else holds it.
    pub(crate) fn destroy(&mut self) -> Result<()> {
        self.qp.context().ours("ibv_destroy_qp")?;
        if self.qp.ptr().is_none() {
            return Ok(());
        }
        let number = self.qp.number();
        // With the end itself, so that whoever is alone with the target from then on finds that it is.
        let forget = |changes: &mut Changes| {
            if let Some(at) = changes.opened.iter().position(|&open| open == number) {
                changes.opened.swap_remove(at);
            }
        };
        let stale = end_of_qp(&mut self.qp, None, |_| false, forget)?;
        note_stale(self.qp.context(), stale);
        Ok(())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if !self.qp.context().is_ours() {
            return;
        }
        if let Err(error) = self.destroy() {
            super::leak(&error, Arc::clone(&self.domain));
        }
    }
}

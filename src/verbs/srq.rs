//! An XRC SRQ.
//!
//! # Safety
//! The pointer is live from `ibv_create_srq_ex` to `ibv_destroy_srq`; the domain, the PD and the CQ that
//! it was made from live as long as the owner. A posted receive names one slot of an attached pool, which
//! this queue owns from before the call until its completion or the SRQ's end (`bookkeeping`).

use super::{
    convert::{errno_value, null_with_errno},
    cq::{Cq, Reservation, note_stale},
    domain::Domain,
    pd::Pd,
    pool::Pool,
    sys::{self, ibv_recv_wr, ibv_srq, ibv_srq_init_attr_ex},
};
use crate::{
    Buf, Error, ErrorKind, PostError, PostErrorReason, Result, SrqNumber,
    bookkeeping::{book::Book, pools::AttachedPools, srq_slots::SrqSlots, wr_id::QueueId},
};
use std::{ptr::NonNull, sync::Arc};

const VERB: &str = "ibv_create_srq_ex";

pub(crate) struct Srq {
    /// None once it was destroyed.
    ptr: Option<NonNull<ibv_srq>>,
    slots: Arc<SrqSlots>,
    /// None once it was destroyed, or leaked.
    parents: Option<(Arc<Pd>, Reservation)>,
    domain: Arc<Domain>,
}

// SAFETY: libibverbs lets any thread use an SRQ; all other fields are Send.
unsafe impl Send for Srq {}
// SAFETY: shared access only reads; posting is called with the owner borrowed exclusively.
unsafe impl Sync for Srq {}

impl Srq {
    pub(crate) fn create(
        domain: &Arc<Domain>,
        pd: &Arc<Pd>,
        cq: &Arc<Cq>,
        pools: &[Arc<Pool>],
        max_wr: u32,
    ) -> Result<Self> {
        let context = domain.context();
        context.ours(VERB)?;
        context.same(pd.context(), VERB, "protection domain")?;
        context.same(cq.context(), VERB, "completion queue")?;
        let refused = |kind, detail: &'static str| Error::refused(VERB, kind, detail).device(context.name());
        if max_wr == 0 {
            return Err(refused(ErrorKind::InvalidInput, "a depth of 0"));
        }
        if pools.iter().any(|pool| !Arc::ptr_eq(pool.pd(), pd)) {
            return Err(refused(ErrorKind::InvalidInput, "a pool is of another protection domain"));
        }
        let pools = AttachedPools::new(VERB, pools)?;
        let reservation = Reservation::new(cq, VERB, max_wr)?;
        let id = QueueId::allocate()
            .ok_or_else(|| refused(ErrorKind::CapacityExceeded, "2^31 queues were created"))?;
        let mut attr = ibv_srq_init_attr_ex {
            comp_mask: sys::IBV_SRQ_INIT_ATTR_TYPE
                | sys::IBV_SRQ_INIT_ATTR_PD
                | sys::IBV_SRQ_INIT_ATTR_XRCD
                | sys::IBV_SRQ_INIT_ATTR_CQ,
            srq_type: sys::IBV_SRQT_XRC,
            pd: pd.as_ptr(),
            xrcd: domain.as_ptr(),
            cq: cq.as_ptr(),
            ..Default::default()
        };
        attr.attr.max_wr = max_wr;
        attr.attr.max_sge = 1;
        let mut changes = context.queue_changes();
        let ptr = null_with_errno(|| {
            // SAFETY: the context and all that the attributes name are live during the call.
            unsafe { sys::ibv_create_srq_ex(context.as_ptr(), &raw mut attr) }
        })
        .map_err(|source| {
            Error::os(VERB, source).device(context.name()).detail(format!("an XRC SRQ of depth {max_wr}"))
        })?;
        let number = match number(ptr) {
            Ok(number) => number,
            Err(source) => {
                // SAFETY: live, made above, known to nobody else.
                let destroyed = errno_value(unsafe { sys::ibv_destroy_srq(ptr.as_ptr()) });
                drop(changes);
                if let Err(source) = destroyed {
                    let error = Error::os("ibv_destroy_srq", source).device(context.name());
                    super::leak(&error, (Arc::clone(pd), Arc::clone(domain), Arc::clone(cq)));
                }
                return Err(Error::os("ibv_get_srq_num", source).device(context.name()));
            }
        };
        let slots = Arc::new(SrqSlots::new(id, number, pools, max_wr));
        reservation.open_book(Book::Srq(Arc::clone(&slots)));
        changes.receivers.push((id, Arc::downgrade(cq)));
        let parents = Some((Arc::clone(pd), reservation));
        Ok(Self { ptr: Some(ptr), slots, parents, domain: Arc::clone(domain) })
    }

    pub(crate) fn number(&self) -> SrqNumber {
        self.slots.number()
    }

    pub(crate) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    pub(crate) fn slots(&self) -> &SrqSlots {
        &self.slots
    }

    /// `ibv_post_srq_recv(3)`, one buffer, its whole capacity.
    #[inline]
    pub(crate) fn post(&mut self, buf: Buf, tag: u64) -> std::result::Result<(), PostError> {
        let slots = &*self.slots;
        let Some(srq) = self.ptr else {
            return Err(PostError::new(PostErrorReason::NotConnected, Some(buf)));
        };
        if !self.domain.context().is_unforked() {
            return Err(PostError::new(PostErrorReason::Forked, Some(buf)));
        }
        if slots.is_full() {
            return Err(PostError::new(PostErrorReason::QueueFull { depth: slots.depth() }, Some(buf)));
        }
        let (len, capacity) = (buf.len(), buf.capacity());
        let posted = match slots.pools().give(buf, capacity, slots.id()) {
            Ok(posted) => posted,
            Err(buf) => return Err(PostError::new(PostErrorReason::PoolNotAttached, Some(buf))),
        };
        slots.claim(posted.slot, tag);
        let mut sge = posted.place.sge();
        let mut wr = ibv_recv_wr {
            wr_id: slots.id().wr_id(posted.slot),
            next: std::ptr::null_mut(),
            sg_list: &raw mut sge,
            num_sge: 1,
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the SRQ is live; the request and its one scatter entry are valid during the call, and
        // the slot that the entry names is this queue's until it completes or the SRQ is destroyed.
        let result = unsafe { sys::ibv_post_srq_recv(srq.as_ptr(), &raw mut wr, &raw mut bad) };
        errno_value(result).map_err(|source| {
            slots.undo();
            let buf = slots.pools().reclaim(posted.slot, len, slots.id());
            PostError::new(PostErrorReason::Os(source), buf)
        })
    }

    pub(crate) fn destroy(&mut self) -> Result<()> {
        self.domain.context().ours("ibv_destroy_srq")?;
        let (Some(ptr), Some((_, reservation))) = (self.ptr, &self.parents) else { return Ok(()) };
        let stale = reservation.cq().end_of_srq(self.slots.id(), || {
            // SAFETY: live until this call succeeds, after which the pointer is gone.
            errno_value(unsafe { sys::ibv_destroy_srq(ptr.as_ptr()) }).map_err(|source| {
                Error::os("ibv_destroy_srq", source)
                    .device(self.domain.context().name())
                    .object(format!("SRQ {}", self.slots.number()))
            })?;
            self.ptr = None;
            Ok(())
        })?;
        // The kernel has let go: the device touches none of the queue's slots any more.
        self.slots.pools().release_all(self.slots.id());
        self.parents = None;
        note_stale(self.domain.context(), stale);
        Ok(())
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        if !self.domain.context().is_ours() {
            // The parents' drops do nothing either.
            return;
        }
        if let Err(error) = self.destroy() {
            super::leak(&error, (self.parents.take(), Arc::clone(&self.domain), Arc::clone(&self.slots)));
        }
    }
}

/// `ibv_get_srq_num(3)`.
fn number(srq: NonNull<ibv_srq>) -> std::io::Result<SrqNumber> {
    let mut number = 0;
    // SAFETY: the SRQ is live and the number may be written.
    errno_value(unsafe { sys::ibv_get_srq_num(srq.as_ptr(), &raw mut number) })?;
    Ok(SrqNumber::masked(number))
}

//! What initiators and targets have in common: a QP's handle, its transitions, its end.
//!
//! # Safety
//! The pointer is live from `ibv_create_qp_ex` or `ibv_open_qp` to `ibv_destroy_qp`, or to [`Close::Kernel`]'s
//! call, after which nothing uses it. A [`Qp`] has no `Drop`: the initiator or target that owns it destroys
//! it and holds what it was made from.

use super::{
    context::Context,
    convert::{errno_value, null_with_errno},
    sys::{self, ibv_qp, ibv_qp_attr, ibv_qp_init_attr_ex, ibv_qp_open_attr},
};
use crate::{
    Error, QpNumber, QpState, Result,
    attributes::{Attributes, Role, Transition},
};
use std::{
    ffi::c_int,
    ptr::NonNull,
    sync::{Arc, Mutex, PoisonError},
};

/// Who destroys a QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Close {
    /// The provider, which frees what it has of it.
    Provider,
    /// The kernel, asked past the provider, as the driver of this number; the provider's structure stays
    /// in memory for good. See `opened` for why.
    Kernel(u32),
}

pub(crate) struct Qp {
    /// None once it was destroyed.
    ptr: Option<NonNull<ibv_qp>>,
    close: Close,
    number: QpNumber,
    role: Role,
    /// Whether it has left RESET.
    used: bool,
    /// Held while the state is asked for: `ibv_query_qp` writes it into the structure behind the pointer.
    query: Mutex<()>,
    context: Arc<Context>,
}

// SAFETY: libibverbs lets any thread use a QP; all other fields are Send.
unsafe impl Send for Qp {}
// SAFETY: shared access reads what does not change, and queries, one at a time; changes need `&mut`.
unsafe impl Sync for Qp {}

impl Qp {
    /// `ibv_create_qp_ex(3)`.
    pub(super) fn create(context: &Arc<Context>, role: Role, attr: &mut ibv_qp_init_attr_ex) -> Result<Self> {
        let _changes = context.queue_changes();
        let ptr = null_with_errno(|| {
            // SAFETY: the context is live, and so is whatever the attributes name: the callers, in this
            // module's siblings, fill them from owners that they hold.
            unsafe { sys::ibv_create_qp_ex(context.as_ptr(), attr) }
        })
        .map_err(|source| Error::os("ibv_create_qp_ex", source).device(context.name()).object(role.name()))?;
        // SAFETY: live, and the number is set when the QP is made.
        let number = QpNumber::masked(unsafe { (*ptr.as_ptr()).qp_num });
        Ok(Self::new(context, ptr, number, role, Close::Provider))
    }

    /// `ibv_open_qp(3)`: one more handle of a target that exists. The caller holds
    /// [`Context::queue_changes`].
    pub(super) fn open(
        context: &Arc<Context>,
        attr: &mut ibv_qp_open_attr,
        close: Close,
    ) -> std::io::Result<Self> {
        let number = QpNumber::masked(attr.qp_num);
        let ptr = null_with_errno(|| {
            // SAFETY: the context is live, and so is the domain that the attributes name: the caller fills
            // them from an owner that it holds.
            unsafe { sys::ibv_open_qp(context.as_ptr(), attr) }
        })?;
        Ok(Self::new(context, ptr, number, Role::Target, close))
    }

    fn new(context: &Arc<Context>, ptr: NonNull<ibv_qp>, number: QpNumber, role: Role, close: Close) -> Self {
        let (query, context) = (Mutex::default(), Arc::clone(context));
        Self { ptr: Some(ptr), close, number, role, used: false, query, context }
    }

    pub(crate) fn number(&self) -> QpNumber {
        self.number
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    #[inline]
    pub(super) fn ptr(&self) -> Option<NonNull<ibv_qp>> {
        self.ptr
    }

    fn as_ptr(&self) -> *mut ibv_qp {
        self.ptr.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    fn object(&self) -> String {
        format!("{} QP {}", self.role.name(), self.number)
    }

    /// `ibv_modify_qp(3)`. An `EINVAL` is explained by the role's own table.
    pub(super) fn modify(
        &mut self,
        attr: &mut ibv_qp_attr,
        given: Attributes,
        transition: Transition,
    ) -> Result<()> {
        attr.qp_state = transition.to.code();
        let mask = (given | Attributes::STATE).bits() as c_int;
        // SAFETY: the QP is live and the attributes are valid during the call.
        let modified = errno_value(unsafe { sys::ibv_modify_qp(self.as_ptr(), attr, mask) });
        if modified.is_ok() {
            self.used = transition.to != QpState::Reset;
        }
        modified.map_err(|source| {
            let invalid = source.raw_os_error() == Some(libc::EINVAL);
            let error = Error::os("ibv_modify_qp", source).device(self.context.name()).object(self.object());
            if invalid {
                error.detail(self.role.explain(transition, given))
            } else {
                error.detail(format!("from {transition}"))
            }
        })
    }

    /// Takes it to RESET from whatever state it is in, by way of ERR: some drivers take RESET from nowhere
    /// else. Afterwards the device writes no more completions of it.
    pub(super) fn quiesce(&mut self) -> Result<()> {
        if self.used {
            let none = Attributes::NONE;
            // Where it is now is not known, and both ends of a connection take this from any state.
            let stop = Transition { from: QpState::ReadyToSend, to: QpState::Error };
            self.modify(&mut ibv_qp_attr::default(), none, stop)?;
            let clear = Transition { from: QpState::Error, to: QpState::Reset };
            self.modify(&mut ibv_qp_attr::default(), none, clear)?;
        }
        Ok(())
    }

    /// The state by `ibv_query_qp(3)`: the device's, not what this process last set.
    pub(crate) fn state(&self) -> Result<QpState> {
        let mut attr = ibv_qp_attr::default();
        let mut init = sys::ibv_qp_init_attr::default();
        let mask = sys::IBV_QP_STATE as c_int;
        // In a forked child the lock may be held by a thread that the child does not have.
        self.context.ours("ibv_query_qp")?;
        let _one = self.query.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the QP is live and both structures may be written.
        errno_value(unsafe { sys::ibv_query_qp(self.as_ptr(), &raw mut attr, mask, &raw mut init) })
            .map_err(|source| {
                Error::os("ibv_query_qp", source).device(self.context.name()).object(self.object())
            })?;
        Ok(QpState::from_code(attr.qp_state))
    }

    pub(super) fn destroy(&mut self) -> Result<()> {
        let Some(ptr) = self.ptr else { return Ok(()) };
        let destroyed = match self.close {
            // SAFETY: live until this call succeeds, after which the pointer is gone.
            Close::Provider => errno_value(unsafe { sys::ibv_destroy_qp(ptr.as_ptr()) }),
            Close::Kernel(driver_id) => self.destroy_in_kernel(ptr, driver_id),
        };
        destroyed.map_err(|source| {
            Error::os("ibv_destroy_qp", source).device(self.context.name()).object(self.object())
        })?;
        self.ptr = None;
        Ok(())
    }

    /// The kernel's call to destroy a QP, in the newer form or, where the kernel lacks that, the older.
    fn destroy_in_kernel(&self, ptr: NonNull<ibv_qp>, driver_id: u32) -> std::io::Result<()> {
        // SAFETY: live until its handle is destroyed below.
        let handle = unsafe { (*ptr.as_ptr()).handle };
        let context = self.context.as_ptr();
        // SAFETY: the context is live, and the handle is the live QP's. The provider is never asked to destroy
        // the same QP.
        let call = unsafe { sys::uverbs_destroy_qp_ioctl(context, handle, driver_id) };
        match errno_value(call) {
            Err(lacking) if matches!(lacking.raw_os_error(), Some(libc::ENOTTY | libc::EPROTONOSUPPORT)) => {
                // SAFETY: as above; the call before did nothing.
                errno_value(unsafe { sys::uverbs_destroy_qp_write(context, handle) })
            }
            result => result,
        }
    }
}

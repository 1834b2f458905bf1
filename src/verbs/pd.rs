//! A protection domain.
//!
//! # Safety
//! The pointer is live from `ibv_alloc_pd` to `ibv_dealloc_pd`. Pools, SRQs and initiators hold an `Arc`
//! of the owner: deallocating before them would be refused with `EBUSY`.

use super::{
    context::Context,
    convert::{errno_value, null_with_errno},
    sys::{self, ibv_pd},
};
use crate::{Error, Result};
use std::{ptr::NonNull, sync::Arc};

pub(crate) struct Pd {
    /// None once it was deallocated.
    ptr: Option<NonNull<ibv_pd>>,
    context: Arc<Context>,
}

// SAFETY: libibverbs lets any thread use a PD, and the structure does not change.
unsafe impl Send for Pd {}
// SAFETY: as above.
unsafe impl Sync for Pd {}

impl Pd {
    pub(crate) fn alloc(context: &Arc<Context>) -> Result<Arc<Self>> {
        context.ours("ibv_alloc_pd")?;
        let ptr = null_with_errno(|| {
            // SAFETY: the context is live.
            unsafe { sys::ibv_alloc_pd(context.as_ptr()) }
        })
        .map_err(|source| Error::os("ibv_alloc_pd", source).device(context.name()))?;
        Ok(Arc::new(Self { ptr: Some(ptr), context: Arc::clone(context) }))
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_pd {
        self.ptr.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    pub(crate) fn destroy(&mut self) -> Result<()> {
        self.context.ours("ibv_dealloc_pd")?;
        let Some(ptr) = self.ptr else { return Ok(()) };
        // SAFETY: live until this call succeeds, after which the pointer is gone.
        errno_value(unsafe { sys::ibv_dealloc_pd(ptr.as_ptr()) })
            .map_err(|source| Error::os("ibv_dealloc_pd", source).device(self.context.name()))?;
        self.ptr = None;
        Ok(())
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        if !self.context.is_ours() {
            return;
        }
        if let Err(error) = self.destroy() {
            super::leak(&error, Arc::clone(&self.context));
        }
    }
}

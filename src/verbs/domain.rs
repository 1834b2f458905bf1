//! An XRC domain.
//!
//! # Safety
//! The pointer is live from `ibv_open_xrcd` to `ibv_close_xrcd`. SRQs and targets hold an `Arc` of the
//! owner: closing it before them would be refused with `EBUSY`.

use super::{
    context::{Changes, Context},
    convert::{errno_value, null_with_errno},
    sys::{self, ibv_xrcd, ibv_xrcd_init_attr},
};
use crate::{Error, ErrorKind, QpNumber, Result};
use std::{
    os::fd::{AsRawFd, BorrowedFd},
    ptr::NonNull,
    sync::Arc,
};

pub(crate) struct Domain {
    /// None once it was closed.
    ptr: Option<NonNull<ibv_xrcd>>,
    /// Whether it is a file's, so that other processes may have it open.
    shared: bool,
    context: Arc<Context>,
}

// SAFETY: libibverbs lets any thread use a domain, and the structure does not change; all other fields are
// Send.
unsafe impl Send for Domain {}
// SAFETY: as above; all other fields are Sync.
unsafe impl Sync for Domain {}

impl Domain {
    /// `ibv_open_xrcd(3)`: the domain of a file's inode, or a private one without a file.
    pub(crate) fn open(
        context: &Arc<Context>,
        file: Option<BorrowedFd<'_>>,
        create: bool,
        exclusive: bool,
    ) -> Result<Arc<Self>> {
        context.ours("ibv_open_xrcd")?;
        let oflags = if create { libc::O_CREAT } else { 0 } | if exclusive { libc::O_EXCL } else { 0 };
        let mut attr = ibv_xrcd_init_attr {
            // Both bits are required, for a private domain too.
            comp_mask: sys::IBV_XRCD_INIT_ATTR_FD | sys::IBV_XRCD_INIT_ATTR_OFLAGS,
            fd: file.map_or(-1, |file| file.as_raw_fd()),
            oflags,
        };
        let ptr = null_with_errno(|| {
            // SAFETY: the context is live and the attributes are valid during the call.
            unsafe { sys::ibv_open_xrcd(context.as_ptr(), &raw mut attr) }
        })
        .map_err(|source| explain_open(source, file.is_some(), exclusive).device(context.name()))?;
        Ok(Arc::new(Self { ptr: Some(ptr), shared: file.is_some(), context: Arc::clone(context) }))
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Whether somebody may hold this target of the domain beside the one who created it.
    pub(super) fn may_share(&self, target: QpNumber, changes: &Changes) -> bool {
        (self.shared && self.context.opens_targets()) || changes.opened.contains(&target)
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_xrcd {
        self.ptr.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    pub(crate) fn destroy(&mut self) -> Result<()> {
        self.context.ours("ibv_close_xrcd")?;
        let Some(ptr) = self.ptr else { return Ok(()) };
        // SAFETY: live until this call succeeds, after which the pointer is gone.
        errno_value(unsafe { sys::ibv_close_xrcd(ptr.as_ptr()) })
            .map_err(|source| Error::os("ibv_close_xrcd", source).device(self.context.name()))?;
        self.ptr = None;
        Ok(())
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if !self.context.is_ours() {
            return;
        }
        if let Err(error) = self.destroy() {
            super::leak(&error, Arc::clone(&self.context));
        }
    }
}

/// The kernel's numbers mean something of their own here.
fn explain_open(source: std::io::Error, with_file: bool, exclusive: bool) -> Error {
    let errno = source.raw_os_error();
    let error = Error::os("ibv_open_xrcd", source);
    match errno {
        _ if error.kind() == ErrorKind::Unsupported => error.detail("the device has no XRC"),
        Some(libc::EAGAIN) if with_file => error.with_kind(ErrorKind::NotFound).detail(
            "no process has a domain of this file open (or its file system gives each open an inode of its \
                 own, as 9p may), and creating one was not asked for",
        ),
        Some(libc::EINVAL) if with_file && exclusive => error
            .with_kind(ErrorKind::AlreadyExists)
            .detail("a domain of this file is open already, and it was asked for exclusively"),
        _ => error,
    }
}

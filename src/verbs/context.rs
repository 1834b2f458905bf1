//! An open device.
//!
//! # Safety
//! The pointer is live from `ibv_open_device` to `ibv_close_device` in `Drop`. Every object made from
//! the context holds an `Arc` of it, so it is closed last.

use super::{
    convert::{errno_value, null_with_errno},
    cq::Cq,
    device::DeviceHandle,
    sys::{self, ibv_context, ibv_device_attr, ibv_qp_open_attr},
};
use crate::{DeviceAttributes, Error, ErrorKind, Guid, QpNumber, Result, bookkeeping::wr_id::QueueId};
use once_cell::sync::OnceCell;
use std::{
    ffi::CStr,
    fs::File,
    io,
    os::{fd::BorrowedFd, unix::fs::MetadataExt},
    ptr::NonNull,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// What the ends of queues look at, and what changes as queues come and go.
#[derive(Default)]
pub(super) struct Changes {
    /// The SRQs that live, each with the completion queue that its receives go to.
    pub receivers: Vec<(QueueId, Weak<Cq>)>,
    /// The targets that are open here by number, each as often as it is. No two of a device have the same.
    pub opened: Vec<QpNumber>,
}

pub(crate) struct Context {
    ptr: NonNull<ibv_context>,
    name: Arc<str>,
    /// The kernel driver of what was opened, where sysfs says.
    driver: Option<String>,
    pid: u32,
    forks: u32,
    attributes: OnceCell<DeviceAttributes>,
    queue_changes: Mutex<Changes>,
}

// SAFETY: libibverbs lets any thread use a context; all other fields are Send.
unsafe impl Send for Context {}
// SAFETY: libibverbs serialises what needs it; shared access here only calls it and reads.
unsafe impl Sync for Context {}

impl Context {
    /// `ibv_open_device(3)`.
    pub(crate) fn open(device: &DeviceHandle) -> Result<Arc<Self>> {
        let name = device.name();
        let forks = count_forks().map_err(|source| Error::os("pthread_atfork", source).device(&name))?;
        let ptr = null_with_errno(|| {
            // SAFETY: the device is valid while its handle lives.
            unsafe { sys::ibv_open_device(device.as_ptr()) }
        })
        .map_err(|source| Error::os("ibv_open_device", source).device(&name))?;
        Ok(Arc::new(Self {
            ptr,
            name,
            driver: driver(ptr),
            pid: std::process::id(),
            forks,
            attributes: OnceCell::new(),
            queue_changes: Mutex::default(),
        }))
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_context {
        self.ptr.as_ptr()
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn driver(&self) -> Option<&str> {
        self.driver.as_deref()
    }

    /// Whether the provider can open a target by its number. Asked for nothing, one that can says that the
    /// request is incomplete (and leaves errno alone), without a system call; libibverbs answers for one
    /// that cannot.
    pub(super) fn opens_targets(&self) -> bool {
        let mut nothing = ibv_qp_open_attr::default();
        let opened = null_with_errno(|| {
            // SAFETY: the context is live and the attributes are valid during the call; their mask names none.
            unsafe { sys::ibv_open_qp(self.as_ptr(), &raw mut nothing) }
        });
        !matches!(opened, Err(source) if source.raw_os_error() == Some(libc::EOPNOTSUPP))
    }

    /// Whether this process opened the device, rather than a parent that forked it. A forked child's
    /// memory of queues is a copy; what it would destroy is its parent's.
    pub(super) fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Refuses what a forked child would do to its parent's objects.
    pub(super) fn ours(&self, verb: &'static str) -> Result<()> {
        if self.is_ours() {
            return Ok(());
        }
        let detail = "the object is the parent's of this forked process";
        Err(Error::refused(verb, ErrorKind::Forked, detail).device(&self.name))
    }

    /// As [`is_ours`](Self::is_ours), without a system call, for what is done a million times a second. It
    /// sees every fork that the C library made.
    #[inline]
    pub(super) fn is_unforked(&self) -> bool {
        self.forks == FORKS.load(Relaxed)
    }

    /// Held while a queue is created or destroyed. See `cq` for why a queue's end must be complete before
    /// another begins. Taken before a CQ's lock.
    pub(super) fn queue_changes(&self) -> MutexGuard<'_, Changes> {
        self.queue_changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses objects of another opening, with an error that names both devices.
    pub(crate) fn same(self: &Arc<Self>, other: &Arc<Self>, verb: &'static str, what: &str) -> Result<()> {
        if Arc::ptr_eq(self, other) {
            return Ok(());
        }
        let detail = if self.name == other.name {
            format!("the {what} is of another opening of {}", other.name)
        } else {
            format!("the {what} is of {}, not of {}", other.name, self.name)
        };
        Err(Error::refused(verb, ErrorKind::DeviceMismatch, detail).device(&self.name))
    }

    /// `ibv_query_device(3)`, once: these do not change while the device is open.
    pub(crate) fn attributes(&self) -> Result<&DeviceAttributes> {
        self.ours("ibv_query_device")?;
        self.attributes.get_or_try_init(|| {
            let mut attr = ibv_device_attr::default();
            // SAFETY: the context is live and the structure may be written.
            errno_value(unsafe { sys::ibv_query_device(self.as_ptr(), &raw mut attr) })
                .map_err(|source| Error::os("ibv_query_device", source).device(&self.name))?;
            Ok(attributes(&attr))
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.is_ours() {
            return;
        }
        // SAFETY: live, and closed once: whatever was made from it held an Arc of this owner.
        if let Err(reason) = errno_value(unsafe { sys::ibv_close_device(self.as_ptr()) }) {
            tracing::warn!(device = %self.name, %reason, "ibv_close_device refused; the context stays open");
        }
    }
}

/// The kernel driver of an open device. The name under which it was listed does not say: a device may have been
/// renamed since, and another have got its name.
fn driver(context: NonNull<ibv_context>) -> Option<String> {
    // SAFETY: the context is live, and the number is set when it is opened.
    let fd = unsafe { (*context.as_ptr()).cmd_fd };
    if fd < 0 {
        return None;
    }
    // SAFETY: the context is live, and its file is open as long.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let number = File::from(fd.try_clone_to_owned().ok()?).metadata().ok()?.rdev();
    let (major, minor) = (libc::major(number), libc::minor(number));
    #[cfg(not(test))]
    let driver = crate::device::driver_of_file(major, minor);
    #[cfg(test)]
    let driver = super::fake::driver_of_file(major, minor);
    driver
}

/// How many forks lie between this process and the one in which they were first counted.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Counts forks from now on. Returns how many there were.
fn count_forks() -> io::Result<u32> {
    static COUNTED: OnceCell<()> = OnceCell::new();
    extern "C" fn count() {
        FORKS.fetch_add(1, Relaxed);
    }
    COUNTED.get_or_try_init(|| {
        // SAFETY: the handler stays for as long as the program's code, and only changes an atomic number.
        errno_value(unsafe { libc::pthread_atfork(None, None, Some(count)) })
    })?;
    Ok(FORKS.load(Relaxed))
}

fn attributes(attr: &ibv_device_attr) -> DeviceAttributes {
    // A count that a driver reports as negative counts nothing.
    let count = |number: i32| u32::try_from(number).unwrap_or(0);
    // SAFETY: c_char and u8 have the same layout, and every byte of the array is initialised.
    let firmware = unsafe { &*(&raw const attr.fw_ver).cast::<[u8; 64]>() };
    DeviceAttributes {
        firmware: CStr::from_bytes_until_nul(firmware)
            .map(|text| text.to_string_lossy().into_owned())
            .unwrap_or_default(),
        node_guid: Guid::new(u64::from_be(attr.node_guid)),
        system_image_guid: Guid::new(u64::from_be(attr.sys_image_guid)),
        vendor_id: attr.vendor_id,
        vendor_part_id: attr.vendor_part_id,
        hardware_version: attr.hw_ver,
        ports: attr.phys_port_cnt,
        xrc_flag: attr.device_cap_flags & sys::IBV_DEVICE_XRC != 0,
        max_qp: count(attr.max_qp),
        max_qp_wr: count(attr.max_qp_wr),
        max_sge: count(attr.max_sge),
        max_cq: count(attr.max_cq),
        max_cqe: count(attr.max_cqe),
        max_mr: count(attr.max_mr),
        max_mr_size: attr.max_mr_size,
        max_pd: count(attr.max_pd),
        max_srq: count(attr.max_srq),
        max_srq_wr: count(attr.max_srq_wr),
        max_srq_sge: count(attr.max_srq_sge),
        max_qp_rd_atom: count(attr.max_qp_rd_atom),
        max_qp_init_rd_atom: count(attr.max_qp_init_rd_atom),
        max_pkeys: attr.max_pkeys,
    }
}

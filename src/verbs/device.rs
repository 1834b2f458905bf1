//! The list of devices.
//!
//! # Safety
//! `ibv_get_device_list` returns an array whose entries stay valid until `ibv_free_device_list`. The
//! array is read once, while it is owned here; a [`DeviceHandle`] holds the list, so its pointer is
//! valid as long as it lives.

use super::{
    convert::null_with_errno,
    sys::{self, ibv_device},
};
use std::{
    ffi::{CStr, OsStr, c_int},
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr::NonNull,
    sync::Arc,
};

struct List(NonNull<*mut ibv_device>);

// SAFETY: the array is never written after it was made, and freeing it needs no particular thread.
unsafe impl Send for List {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for List {}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the array came from ibv_get_device_list and is freed once, here.
        unsafe { sys::ibv_free_device_list(self.0.as_ptr()) };
    }
}

/// One device, and the list that keeps it valid.
#[derive(Clone)]
pub(crate) struct DeviceHandle {
    ptr: NonNull<ibv_device>,
    _list: Arc<List>,
}

// SAFETY: the structure behind the pointer does not change while the list lives, which `_list` ensures;
// libibverbs lets any thread open it.
unsafe impl Send for DeviceHandle {}
// SAFETY: as above.
unsafe impl Sync for DeviceHandle {}

/// `ibv_get_device_list(3)`.
pub(crate) fn devices() -> io::Result<Vec<DeviceHandle>> {
    let mut count: c_int = 0;
    let array = null_with_errno(|| {
        // SAFETY: the count is a valid place to write to.
        unsafe { sys::ibv_get_device_list(&raw mut count) }
    })?;
    let list = Arc::new(List(array));
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the array has `count` entries and a NULL after them, and nobody writes it.
    let entries = unsafe { std::slice::from_raw_parts(array.as_ptr(), count) };
    let handles = entries.iter().filter_map(|&entry| NonNull::new(entry));
    Ok(handles.map(|ptr| DeviceHandle { ptr, _list: Arc::clone(&list) }).collect())
}

impl DeviceHandle {
    pub(super) fn as_ptr(&self) -> *mut ibv_device {
        self.ptr.as_ptr()
    }

    /// `ibv_get_device_name(3)`.
    pub(crate) fn name(&self) -> Arc<str> {
        // SAFETY: the device is valid.
        let name = unsafe { sys::ibv_get_device_name(self.as_ptr()) };
        if name.is_null() {
            return Arc::from("?");
        }
        // SAFETY: libibverbs returns a string that lives as long as the device.
        let name = unsafe { CStr::from_ptr(name) };
        Arc::from(&*name.to_string_lossy())
    }

    /// `ibv_get_device_guid(3)`, in host order.
    pub(crate) fn guid(&self) -> u64 {
        // SAFETY: the device is valid.
        u64::from_be(unsafe { sys::ibv_get_device_guid(self.as_ptr()) })
    }

    /// The kernel driver, where sysfs says.
    pub(crate) fn driver(&self) -> Option<String> {
        // SAFETY: the device is valid.
        let path = unsafe { &(*self.as_ptr()).dev_path };
        // SAFETY: c_char and u8 have the same layout, and every byte of the array is initialised.
        let path = unsafe { &*(&raw const *path).cast::<[u8; 256]>() };
        let path = CStr::from_bytes_until_nul(path).ok()?;
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        #[cfg(not(test))]
        let driver = crate::device::driver_of_verbs(path);
        #[cfg(test)]
        let driver = super::fake::driver_of_verbs(path);
        driver
    }

    /// The transport's number.
    pub(crate) fn transport(&self) -> i32 {
        // SAFETY: the device is valid, and the field is set when the list is made.
        unsafe { (*self.as_ptr()).transport_type }
    }
}

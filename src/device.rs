//! The devices of this machine.

use crate::{
    Context, Error, ErrorKind, Guid, Result,
    verbs::{self, device::DeviceHandle},
};
use std::{fmt, fs, path::Path};

/// Lists the RDMA devices, in the order that libibverbs has them.
///
/// Verb: [`ibv_get_device_list`](https://man7.org/linux/man-pages/man3/ibv_get_device_list.3.html).
///
/// # Errors
/// The operating system's reason; a machine without devices gives an empty list.
#[doc(alias = "ibv_get_device_list")]
pub fn devices() -> Result<DeviceList> {
    let handles = verbs::device::devices().map_err(|source| Error::os("ibv_get_device_list", source))?;
    Ok(DeviceList(handles.into_iter().map(Device).collect()))
}

/// The devices of this machine.
#[derive(Debug)]
pub struct DeviceList(Vec<Device>);

impl DeviceList {
    /// The devices in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Device> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The device of a name.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchDevice`], and the text lists the names that there are.
    pub fn find(&self, name: &str) -> Result<Device> {
        self.iter().find(|device| device.name() == name).cloned().ok_or_else(|| {
            let names: Vec<String> = self.iter().map(Device::name).collect();
            let there_are = if names.is_empty() {
                "there is none".to_owned()
            } else {
                format!("there are: {}", names.join(", "))
            };
            Error::refused(
                "ibv_get_device_list",
                ErrorKind::NoSuchDevice,
                format!("no RDMA device {name:?}; {there_are}"),
            )
        })
    }
}

impl IntoIterator for DeviceList {
    type Item = Device;
    type IntoIter = std::vec::IntoIter<Device>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a DeviceList {
    type Item = &'a Device;
    type IntoIter = std::slice::Iter<'a, Device>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A transport that a device speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// InfiniBand, and RoCE.
    InfiniBand,
    /// iWARP.
    Iwarp,
    /// The device does not say.
    Unspecified,
    /// A number that this crate does not know.
    Unknown(i32),
}

/// An RDMA device, not opened.
#[derive(Clone)]
pub struct Device(DeviceHandle);

impl Device {
    /// The kernel's name, such as `mlx5_0`.
    pub fn name(&self) -> String {
        self.0.name().to_string()
    }

    /// The device's GUID.
    #[doc(alias = "ibv_get_device_guid")]
    pub fn guid(&self) -> Guid {
        Guid::new(self.0.guid())
    }

    /// The kernel driver, such as `mlx5_core`; None where sysfs does not say.
    pub fn driver(&self) -> Option<String> {
        driver_of(&self.name())
    }

    /// The transport.
    pub fn transport(&self) -> Transport {
        match self.0.transport() {
            0 => Transport::InfiniBand,
            1 => Transport::Iwarp,
            4 => Transport::Unspecified,
            other => Transport::Unknown(other),
        }
    }

    /// Opens the device.
    ///
    /// Verb: [`ibv_open_device`](https://man7.org/linux/man-pages/man3/ibv_open_device.3.html).
    ///
    /// # Errors
    /// [`ErrorKind::PermissionDenied`] without access to its file under /dev/infiniband, or the
    /// operating system's other reasons.
    #[doc(alias = "ibv_open_device")]
    pub fn open(&self) -> Result<Context> {
        verbs::context::Context::open(&self.0).map(Context::new)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("name", &self.name()).field("guid", &self.guid()).finish()
    }
}

/// The driver of the device of a name.
pub(crate) fn driver_of(name: &str) -> Option<String> {
    driver(&Path::new("/sys/class/infiniband").join(name))
}

/// The driver of a device in sysfs. A software device has no hardware behind it and so no link; rxe is
/// known by its attribute that names the network device.
fn driver(sysfs: &Path) -> Option<String> {
    let link = fs::read_link(sysfs.join("device/driver")).ok();
    let name = link.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    name.or_else(|| sysfs.join("parent").exists().then(|| "rdma_rxe".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_is_named_with_those_that_there_are() {
        let list = devices().unwrap();
        assert!(!list.is_empty());
        let error = list.find("mlx9_9").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSuchDevice);
        let text = error.to_string();
        assert!(text.contains("mlx9_9") && list.iter().all(|device| text.contains(&device.name())), "{text}");
    }

    #[test]
    fn the_driver_is_read_from_sysfs() {
        let dir = tempfile::tempdir().unwrap();
        let hardware = dir.path().join("mlx5_0");
        fs::create_dir_all(hardware.join("device")).unwrap();
        std::os::unix::fs::symlink("../../bus/pci/drivers/mlx5_core", hardware.join("device/driver"))
            .unwrap();
        assert_eq!(driver(&hardware).as_deref(), Some("mlx5_core"));
        let software = dir.path().join("rxe0");
        fs::create_dir_all(&software).unwrap();
        assert_eq!(driver(&software), None);
        fs::write(software.join("parent"), "eth0\n").unwrap();
        assert_eq!(driver(&software).as_deref(), Some("rdma_rxe"));
    }
}

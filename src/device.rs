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

    /// The kernel driver, such as `mlx5_core`; None where sysfs does not say, as for a device that has gone
    /// since it was listed.
    pub fn driver(&self) -> Option<String> {
        self.0.driver()
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

/// Where sysfs has each character device, by its number.
pub(crate) const CHARACTER_DEVICES: &str = "/sys/dev/char";

/// The driver of the device that a file under /dev/infiniband leads to. Unlike a name, which may be another
/// device's by now, the number of an open file's device cannot change.
#[cfg_attr(test, allow(dead_code))]
pub(crate) fn driver_of_file(major: u32, minor: u32) -> Option<String> {
    hardware_driver(&Path::new(CHARACTER_DEVICES).join(format!("{major}:{minor}")))
}

/// The driver of the device that has this directory in the class infiniband_verbs, whatever its name is now.
#[cfg_attr(test, allow(dead_code))]
pub(crate) fn driver_of_verbs(verbs: &Path) -> Option<String> {
    driver(verbs, Path::new("/sys/class/infiniband"))
}

/// A software device has no hardware behind it and so no link; rxe is known by its attribute that names the
/// network device, which stands in the other class, under the device's name.
fn driver(verbs: &Path, devices: &Path) -> Option<String> {
    hardware_driver(verbs).or_else(|| {
        let name = fs::read_to_string(verbs.join("ibdev")).ok()?;
        devices.join(name.trim_end()).join("parent").exists().then(|| "rdma_rxe".to_owned())
    })
}

fn hardware_driver(sysfs: &Path) -> Option<String> {
    let link = fs::read_link(sysfs.join("device/driver")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
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
        let devices = dir.path().join("infiniband");
        let hardware = dir.path().join("uverbs0");
        fs::create_dir_all(hardware.join("device")).unwrap();
        std::os::unix::fs::symlink("../../bus/pci/drivers/mlx5_core", hardware.join("device/driver"))
            .unwrap();
        // The name that it has is another device's.
        fs::write(hardware.join("ibdev"), "mlx5_0\n").unwrap();
        fs::create_dir_all(devices.join("mlx5_0")).unwrap();
        fs::write(devices.join("mlx5_0/parent"), "eth0\n").unwrap();
        assert_eq!(driver(&hardware, &devices).as_deref(), Some("mlx5_core"));
        let software = dir.path().join("uverbs1");
        fs::create_dir_all(&software).unwrap();
        assert_eq!(driver(&software, &devices), None);
        fs::write(software.join("ibdev"), "rxe0\n").unwrap();
        assert_eq!(driver(&software, &devices), None);
        fs::create_dir_all(devices.join("rxe0")).unwrap();
        fs::write(devices.join("rxe0/parent"), "eth0\n").unwrap();
        assert_eq!(driver(&software, &devices).as_deref(), Some("rdma_rxe"));
    }

    /// Of the devices with files that every machine has, none has a driver of its own; and of none there is
    /// neither.
    #[test]
    fn a_file_without_hardware_has_no_driver() {
        assert_eq!(driver_of_file(1, 3), None);
        assert_eq!(driver_of_file(0, 0), None);
    }
}

//! What the host must have before a guest can boot, each thing fetched or built once.

pub mod apt;
mod bundle;
pub mod download;
pub mod initramfs;
pub mod kernel;
pub mod kvm;
pub mod oldest_rust;
pub mod packages;
pub mod qemu;
pub mod rdma_core;

use std::fs;

use anyhow::{Context, Result};

use crate::lock::Lock;
use crate::paths::Paths;

pub use bundle::Bundle;

/// Which software the guest runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    pub kernel: kernel::Wish,
    pub rdma_core: rdma_core::Wish,
}

/// All that a guest boots from.
#[derive(Debug)]
pub struct Ground {
    pub qemu: qemu::Qemu,
    pub kernel: kernel::Kernel,
    pub rdma_core: rdma_core::RdmaCore,
    pub accel: kvm::Accel,
    /// Shared while in use, so that `clean` does not pull it away.
    _in_use: Lock,
}

/// Fetches and unpacks what is missing, one lab at a time.
pub fn prepare(paths: &Paths, versions: &Versions, accel: kvm::Wish) -> Result<Ground> {
    fs::create_dir_all(&paths.lab).with_context(|| paths.lab.display().to_string())?;
    fs::create_dir_all(&paths.cache).with_context(|| paths.cache.display().to_string())?;
    let in_use = Lock::shared(&paths.lab.join(".in-use"), "cleaning up")?;
    let _this_clone = Lock::exclusive(&paths.lab.join(".setup"), "setting up this clone")?;
    bundle::sweep(&paths.lab)?;
    packages::install_missing(paths)?;
    let kernel = versions.kernel.obtain(paths)?;
    let rdma_core = versions.rdma_core.obtain(paths)?;
    let qemu = qemu::obtain(paths)?;
    let accel = kvm::choose(paths, &qemu, &kernel, accel)?;
    Ok(Ground { qemu, kernel, rdma_core, accel, _in_use: in_use })
}

//! `ci/lab setup`: everything that the other verbs would fetch and build first.

use anyhow::Result;

use crate::cli::Common;
use crate::host;
use crate::paths::Paths;
use crate::report::say;

pub fn setup(paths: &Paths, common: &Common) -> Result<i32> {
    let ground = host::prepare(paths, &common.versions(), common.accel)?;
    if !common.no_build {
        common.device.build(paths)?;
    }
    say(&format!("QEMU {}, {}", ground.qemu.version, ground.qemu.origin()));
    say(&format!("rdma-core {}, {}", ground.rdma_core.version, ground.rdma_core.origin()));
    say(&format!("Linux {} for the guest, with {}", ground.kernel.release, ground.accel.name()));
    say("ready");
    Ok(0)
}

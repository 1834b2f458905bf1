//! `ci/lab setup`: everything that the other verbs would fetch and build first.

use anyhow::Result;

use crate::cli::Common;
use crate::host::{self, oldest_rust};
use crate::paths::Paths;
use crate::report::say;
use crate::suite;

pub fn setup(paths: &Paths, common: &Common) -> Result<i32> {
    let ground = host::prepare(paths, &common.versions(), common.accel)?;
    // What only `test` needs.
    for versions in suite::other_versions(common) {
        let other = host::prepare(paths, &versions, common.accel)?;
        say(&format!(
            "Linux {} and rdma-core {} for the tests",
            other.kernel.release, other.rdma_core.version
        ));
    }
    say(&format!("Rust {} for the tests", oldest_rust::obtain(paths)?.version));
    if !common.no_build {
        common.device.build(paths)?;
    }
    say(&format!("QEMU {}, {}", ground.qemu.version, ground.qemu.origin()));
    say(&format!("rdma-core {}, {}", ground.rdma_core.version, ground.rdma_core.origin()));
    say(&format!("Linux {} for the guest, with {}", ground.kernel.release, ground.accel.name()));
    say("ready");
    Ok(0)
}

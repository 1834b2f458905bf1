//! Turns what the sys crate found of rdma-core into what the crate can show and decide by.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DEP_RDMA_XRC_VERBS_VERSION");
    println!("cargo::rerun-if-env-changed=DEP_RDMA_XRC_VERBS_BINDINGS");
    println!("cargo::rustc-check-cfg=cfg(checked_in_bindings)");
    let version =
        env::var("DEP_RDMA_XRC_VERBS_VERSION").expect("the sys crate's build script gives a version");
    println!("cargo::rustc-env=RDMA_CORE_VERSION={version}");
    if env::var("DEP_RDMA_XRC_VERBS_BINDINGS").as_deref() == Ok("checked-in") {
        println!("cargo::rustc-cfg=checked_in_bindings");
    }
}

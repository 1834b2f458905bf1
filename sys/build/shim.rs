//! Compiles the C shim: the control verbs that exist only as static inlines of verbs.h, and the kernel's own
//! call to destroy a QP.

use super::Library;

pub(crate) fn compile(library: &Library) {
    println!("cargo::rerun-if-changed=shim");
    // The cc crate announces every variable it reads.
    cc::Build::new()
        .file("shim/verbs.c")
        .file("shim/uverbs.c")
        .includes(&library.include)
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .flag_if_supported("-Wno-unused-parameter")
        .compile("rdma_xrc_shim");
}

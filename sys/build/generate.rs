//! Generates the bindings from the installed verbs.h.

use super::Library;
use std::{env, fs, path::Path};

/// Functions that libibverbs.so exports and the crate uses. Those that are inline in the header are
/// in the shim or, for the data path, in `src/ops.rs`.
const FUNCTIONS: &[&str] = &[
    "ibv_get_device_list",
    "ibv_free_device_list",
    "ibv_get_device_name",
    "ibv_get_device_guid",
    "ibv_open_device",
    "ibv_close_device",
    "ibv_query_device",
    "ibv_query_gid",
    "ibv_query_pkey",
    "ibv_alloc_pd",
    "ibv_dealloc_pd",
    "ibv_reg_mr",
    "ibv_dereg_mr",
    "ibv_create_cq",
    "ibv_destroy_cq",
    "ibv_destroy_srq",
    "ibv_query_srq",
    "ibv_modify_qp",
    "ibv_query_qp",
    "ibv_destroy_qp",
    "ibv_wc_status_str",
];

const TYPES: &[&str] = &[
    "ibv_context",
    "ibv_device",
    "ibv_device_attr",
    "ibv_port_attr",
    "ibv_gid",
    "ibv_gid_entry",
    "ibv_gid_type",
    "ibv_pd",
    "ibv_mr",
    "ibv_cq",
    "ibv_wc",
    "ibv_wc_flags",
    "ibv_wc_opcode",
    "ibv_wc_status",
    "ibv_xrcd",
    "ibv_xrcd_init_attr",
    "ibv_xrcd_init_attr_mask",
    "ibv_srq",
    "ibv_srq_attr",
    "ibv_srq_init_attr_ex",
    "ibv_srq_init_attr_mask",
    "ibv_srq_type",
    "ibv_qp",
    "ibv_qp_attr",
    "ibv_qp_attr_mask",
    "ibv_qp_init_attr_ex",
    "ibv_qp_init_attr_mask",
    "ibv_qp_open_attr",
    "ibv_qp_open_attr_mask",
    "ibv_qp_state",
    "ibv_qp_type",
    "ibv_send_wr",
    "ibv_recv_wr",
    "ibv_sge",
    "ibv_send_flags",
    "ibv_wr_opcode",
    "ibv_access_flags",
    "ibv_device_cap_flags",
    "ibv_node_type",
    "ibv_transport_type",
    "ibv_port_state",
    "ibv_mtu",
];

/// Types that the allowlist would pull in and nobody looks into.
const OPAQUE: &[&str] =
    &["_ibv_device_ops", "ibv_mw.*", "ibv_ah", "ibv_comp_channel", "_compat_ibv_port_attr"];

pub(crate) fn bindings(library: &Library, out: &Path) -> Result<(), String> {
    for variable in ["LIBCLANG_PATH", "LLVM_CONFIG_PATH", "CLANG_PATH", "BINDGEN_EXTRA_CLANG_ARGS"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let mut builder = bindgen::Builder::default()
        .header_contents("wrapper.h", "#include <infiniband/verbs.h>\n")
        .clang_args(library.include.iter().map(|dir| format!("-I{}", dir.display())))
        // Enums are open integers: a device or a newer library may hand over any value.
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .size_t_is_usize(true)
        .derive_default(true)
        .derive_debug(true)
        .generate_comments(false)
        .layout_tests(true)
        .merge_extern_blocks(true)
        .sort_semantically(true)
        // Their layout differs between architectures, and libc knows it for each.
        .blocklist_type("pthread_mutex_t")
        .blocklist_type("pthread_cond_t")
        .blocklist_type("__pthread.*|__atomic_wide_counter.*")
        .allowlist_recursively(true)
        .formatter(bindgen::Formatter::Prettyplease)
        .rust_target(bindgen::RustTarget::stable(85, 0).map_err(|error| error.to_string())?)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .disable_header_comment();
    for name in FUNCTIONS {
        builder = builder.allowlist_function(name);
    }
    for name in TYPES {
        builder = builder.allowlist_type(name);
    }
    for name in OPAQUE {
        builder = builder.opaque_type(name);
    }
    let text = builder
        .generate()
        .map_err(|error| {
            format!(
                "bindgen could not read infiniband/verbs.h of rdma-core {}: {error}\n\
                 It needs libclang (package libclang-dev). Building without default features uses the \
                 checked-in bindings and needs none.",
                library.version
            )
        })?
        .to_string();
    fs::write(out, finish(&text)).map_err(|error| format!("{}: {error}", out.display()))
}

/// The layout checks hold for the architecture they were generated on, and say so.
fn finish(text: &str) -> String {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("Cargo sets CARGO_CFG_TARGET_ARCH");
    text.replace("const _: () = {", &format!("#[cfg(target_arch = \"{arch}\")]\nconst _: () = {{"))
}

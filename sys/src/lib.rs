//! Raw bindings to libibverbs, with the XRC verbs that `verbs.h` has only as static inlines.
//!
//! * **Exported functions, structures and constants** come from bindgen. With the default feature
//!   `bindgen` they are generated from the installed headers at build time (libclang is needed);
//!   without it the checked-in `src/bindings.rs` serves. docs.rs uses the checked-in ones too and links
//!   nothing.
//! * **Control verbs that are static inline** ([`ibv_open_xrcd`] and its kin) go through a small C shim
//!   that the build script compiles.
//! * **The kernel's own call to destroy a QP** ([`uverbs_destroy_qp_ioctl`]), for a provider that cannot be
//!   asked, is in the shim too.
//! * **The data path** ([`ibv_post_send`], [`ibv_post_srq_recv`], [`ibv_poll_cq`]) goes through the
//!   provider's operation tables in Rust, as the header's inlines do.
//!
//! C enums are open integers with constants; nothing here turns a value that C hands over into a Rust
//! enum. After a new release of rdma-core, or a change in `build/generate.rs`, the checked-in bindings
//! are made anew with
//!
//! ```text
//! RDMA_XRC_SYS_REGENERATE=1 cargo test -p rdma-xrc-sys --test bindings
//! ```
//!
//! and the same test, without the variable, compares the two.
//!
//! # Safety
//! Everything here is C: the functions demand what their manual pages demand. The crate `rdma-xrc` is
//! the safe side.

#[cfg(not(installed_headers))]
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]
#[rustfmt::skip]
#[path = "bindings.rs"]
mod bindings;
#[cfg(installed_headers)]
#[allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]
mod bindings {
    use libc::{pthread_cond_t, pthread_mutex_t};
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}
mod ops;
mod shim;

pub use bindings::*;
pub use ops::{ibv_poll_cq, ibv_post_send, ibv_post_srq_recv};
pub use shim::{
    ibv_close_xrcd, ibv_create_qp_ex, ibv_create_srq_ex, ibv_get_srq_num, ibv_open_qp, ibv_open_xrcd,
    ibv_query_gid_table, ibv_query_port, uverbs_destroy_qp_ioctl, uverbs_destroy_qp_write,
};

/// The kernel's number for the driver mlx5, in its ioctls.
pub const RDMA_DRIVER_MLX5: u32 = 1;

/// Value of `ibv_port_attr.link_layer`: the device does not say.
pub const IBV_LINK_LAYER_UNSPECIFIED: u8 = 0;
/// Value of `ibv_port_attr.link_layer`.
pub const IBV_LINK_LAYER_INFINIBAND: u8 = 1;
/// Value of `ibv_port_attr.link_layer`.
pub const IBV_LINK_LAYER_ETHERNET: u8 = 2;

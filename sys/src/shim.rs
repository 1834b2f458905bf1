//! The control verbs of `shim/verbs.c`, under the names that `verbs.h` gives them, and the kernel's own calls of
//! `shim/uverbs.c`.

use crate::bindings::*;
use std::ffi::c_int;

unsafe extern "C" {
    /// `ibv_open_xrcd(3)`: opens an XRC domain. NULL with errno on failure, `EOPNOTSUPP` where the
    /// provider has no XRC; a bad `comp_mask` may leave errno as it was.
    #[link_name = "rdma_xrc_open_xrcd"]
    pub fn ibv_open_xrcd(context: *mut ibv_context, attr: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd;
    /// `ibv_close_xrcd(3)`: closes an XRC domain. Returns an errno value; `EOPNOTSUPP` where the
    /// provider has no such operation, which the inline of `verbs.h` would call regardless.
    #[link_name = "rdma_xrc_close_xrcd"]
    pub fn ibv_close_xrcd(xrcd: *mut ibv_xrcd) -> c_int;
    /// `ibv_create_srq_ex(3)`: creates an SRQ of any type. NULL with errno on failure.
    #[link_name = "rdma_xrc_create_srq_ex"]
    pub fn ibv_create_srq_ex(context: *mut ibv_context, attr: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;
    /// `ibv_get_srq_num(3)`: the number by which peers name an XRC SRQ. Returns an errno value.
    #[link_name = "rdma_xrc_get_srq_num"]
    pub fn ibv_get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int;
    /// `ibv_create_qp_ex(3)`: creates a QP of any type. NULL with errno on failure.
    #[link_name = "rdma_xrc_create_qp_ex"]
    pub fn ibv_create_qp_ex(context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
    /// `ibv_open_qp(3)`: opens a target that exists, by its number. NULL with errno on failure, `EOPNOTSUPP`
    /// where the provider lacks it; a bad `comp_mask` may leave errno as it was.
    #[link_name = "rdma_xrc_open_qp"]
    pub fn ibv_open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp;
    /// Destroys the kernel's QP object of this handle, and nothing that the provider has of it: the kernel's
    /// ioctl for it. Returns an errno value: `EINVAL` where the driver is another than `driver_id` says,
    /// `ENOTTY` or `EPROTONOSUPPORT` where the kernel has no such ioctl.
    #[link_name = "rdma_xrc_uverbs_destroy_qp_ioctl"]
    pub fn uverbs_destroy_qp_ioctl(context: *mut ibv_context, handle: u32, driver_id: u32) -> c_int;
    /// The same by the older way, a write to the device's file, which names no driver.
    #[link_name = "rdma_xrc_uverbs_destroy_qp_write"]
    pub fn uverbs_destroy_qp_write(context: *mut ibv_context, handle: u32) -> c_int;
    /// `ibv_query_port(3)`, with the whole structure. Returns an errno value.
    #[link_name = "rdma_xrc_query_port"]
    pub fn ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int;
    /// `ibv_query_gid_table(3)`: the valid GIDs of all ports. A count, or a negative errno.
    #[link_name = "rdma_xrc_query_gid_table"]
    pub fn ibv_query_gid_table(
        context: *mut ibv_context,
        entries: *mut ibv_gid_entry,
        max_entries: usize,
        flags: u32,
    ) -> isize;
}

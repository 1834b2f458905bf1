// Made by bindgen from verbs.h; see lib.rs for the command that makes it anew.
use libc::{pthread_cond_t, pthread_mutex_t};

pub type __u16 = ::std::os::raw::c_ushort;
pub type __u32 = ::std::os::raw::c_uint;
pub type __u64 = ::std::os::raw::c_ulonglong;
pub type __be16 = __u16;
pub type __be32 = __u32;
pub type __be64 = __u64;
pub type ibv_gid_type = ::std::os::raw::c_uint;
pub type ibv_node_type = ::std::os::raw::c_int;
pub type ibv_transport_type = ::std::os::raw::c_int;
pub type ibv_device_cap_flags = ::std::os::raw::c_uint;
pub type ibv_atomic_cap = ::std::os::raw::c_uint;
pub type ibv_mtu = ::std::os::raw::c_uint;
pub type ibv_port_state = ::std::os::raw::c_uint;
pub type ibv_wc_status = ::std::os::raw::c_uint;
pub type ibv_wc_opcode = ::std::os::raw::c_uint;
pub type ibv_wc_flags = ::std::os::raw::c_uint;
pub type ibv_access_flags = ::std::os::raw::c_uint;
pub type ibv_xrcd_init_attr_mask = ::std::os::raw::c_uint;
pub type ibv_mw_type = ::std::os::raw::c_uint;
pub type ibv_srq_type = ::std::os::raw::c_uint;
pub type ibv_srq_init_attr_mask = ::std::os::raw::c_uint;
pub type ibv_qp_type = ::std::os::raw::c_uint;
pub type ibv_qp_init_attr_mask = ::std::os::raw::c_uint;
pub type ibv_qp_open_attr_mask = ::std::os::raw::c_uint;
pub type ibv_qp_attr_mask = ::std::os::raw::c_uint;
pub type ibv_qp_state = ::std::os::raw::c_uint;
pub type ibv_mig_state = ::std::os::raw::c_uint;
pub type ibv_wr_opcode = ::std::os::raw::c_uint;
pub type ibv_send_flags = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_gid__bindgen_ty_1 {
    pub subnet_prefix: __be64,
    pub interface_id: __be64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_gid_entry {
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_device_attr {
    pub fw_ver: [::std::os::raw::c_char; 64usize],
    pub node_guid: __be64,
    pub sys_image_guid: __be64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: ::std::os::raw::c_int,
    pub max_qp_wr: ::std::os::raw::c_int,
    pub device_cap_flags: ::std::os::raw::c_uint,
    pub max_sge: ::std::os::raw::c_int,
    pub max_sge_rd: ::std::os::raw::c_int,
    pub max_cq: ::std::os::raw::c_int,
    pub max_cqe: ::std::os::raw::c_int,
    pub max_mr: ::std::os::raw::c_int,
    pub max_pd: ::std::os::raw::c_int,
    pub max_qp_rd_atom: ::std::os::raw::c_int,
    pub max_ee_rd_atom: ::std::os::raw::c_int,
    pub max_res_rd_atom: ::std::os::raw::c_int,
    pub max_qp_init_rd_atom: ::std::os::raw::c_int,
    pub max_ee_init_rd_atom: ::std::os::raw::c_int,
    pub atomic_cap: ibv_atomic_cap,
    pub max_ee: ::std::os::raw::c_int,
    pub max_rdd: ::std::os::raw::c_int,
    pub max_mw: ::std::os::raw::c_int,
    pub max_raw_ipv6_qp: ::std::os::raw::c_int,
    pub max_raw_ethy_qp: ::std::os::raw::c_int,
    pub max_mcast_grp: ::std::os::raw::c_int,
    pub max_mcast_qp_attach: ::std::os::raw::c_int,
    pub max_total_mcast_qp_attach: ::std::os::raw::c_int,
    pub max_ah: ::std::os::raw::c_int,
    pub max_fmr: ::std::os::raw::c_int,
    pub max_map_per_fmr: ::std::os::raw::c_int,
    pub max_srq: ::std::os::raw::c_int,
    pub max_srq_wr: ::std::os::raw::c_int,
    pub max_srq_sge: ::std::os::raw::c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_port_attr {
    pub state: ibv_port_state,
    pub max_mtu: ibv_mtu,
    pub active_mtu: ibv_mtu,
    pub gid_tbl_len: ::std::os::raw::c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_wc {
    pub wr_id: u64,
    pub status: ibv_wc_status,
    pub opcode: ibv_wc_opcode,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub __bindgen_anon_1: ibv_wc__bindgen_ty_1,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: ::std::os::raw::c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_mw_bind_info {
    pub _bindgen_opaque_blob: [u64; 4usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_pd {
    pub context: *mut ibv_context,
    pub handle: u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_xrcd_init_attr {
    pub comp_mask: u32,
    pub fd: ::std::os::raw::c_int,
    pub oflags: ::std::os::raw::c_int,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_xrcd {
    pub context: *mut ibv_context,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut ::std::os::raw::c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_mw {
    pub _bindgen_opaque_blob: [u64; 4usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_srq_attr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_tm_cap {
    pub max_num_tags: u32,
    pub max_ops: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_srq_init_attr_ex {
    pub srq_context: *mut ::std::os::raw::c_void,
    pub attr: ibv_srq_attr,
    pub comp_mask: u32,
    pub srq_type: ibv_srq_type,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut ibv_xrcd,
    pub cq: *mut ibv_cq,
    pub tm_cap: ibv_tm_cap,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_rwq_ind_table {
    pub context: *mut ibv_context,
    pub ind_tbl_handle: ::std::os::raw::c_int,
    pub ind_tbl_num: ::std::os::raw::c_int,
    pub comp_mask: u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_qp_init_attr {
    pub qp_context: *mut ::std::os::raw::c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: ibv_qp_type,
    pub sq_sig_all: ::std::os::raw::c_int,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_rx_hash_conf {
    pub rx_hash_function: u8,
    pub rx_hash_key_len: u8,
    pub rx_hash_key: *mut u8,
    pub rx_hash_fields_mask: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_qp_init_attr_ex {
    pub qp_context: *mut ::std::os::raw::c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: ibv_qp_type,
    pub sq_sig_all: ::std::os::raw::c_int,
    pub comp_mask: u32,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut ibv_xrcd,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut ibv_rwq_ind_table,
    pub rx_hash_conf: ibv_rx_hash_conf,
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_qp_open_attr {
    pub comp_mask: u32,
    pub qp_num: u32,
    pub xrcd: *mut ibv_xrcd,
    pub qp_context: *mut ::std::os::raw::c_void,
    pub qp_type: ibv_qp_type,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_qp_attr {
    pub qp_state: ibv_qp_state,
    pub cur_qp_state: ibv_qp_state,
    pub path_mtu: ibv_mtu,
    pub path_mig_state: ibv_mig_state,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: ::std::os::raw::c_uint,
    pub cap: ibv_qp_cap,
    pub ah_attr: ibv_ah_attr,
    pub alt_ah_attr: ibv_ah_attr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: ::std::os::raw::c_int,
    pub opcode: ibv_wr_opcode,
    pub send_flags: ::std::os::raw::c_uint,
    pub __bindgen_anon_1: ibv_send_wr__bindgen_ty_1,
    pub wr: ibv_send_wr__bindgen_ty_2,
    pub qp_type: ibv_send_wr__bindgen_ty_3,
    pub __bindgen_anon_2: ibv_send_wr__bindgen_ty_4,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
    pub remote_addr: u64,
    pub rkey: u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_2__bindgen_ty_2 {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_3__bindgen_ty_1 {
    pub remote_srqn: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_send_wr__bindgen_ty_4__bindgen_ty_2 {
    pub hdr: *mut ::std::os::raw::c_void,
    pub hdr_sz: u16,
    pub mss: u16,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: ::std::os::raw::c_int,
}
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_mw_bind {
    pub _bindgen_opaque_blob: [u64; 6usize],
}
#[repr(C)]
pub struct ibv_srq {
    pub context: *mut ibv_context,
    pub srq_context: *mut ::std::os::raw::c_void,
    pub pd: *mut ibv_pd,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}
#[repr(C)]
pub struct ibv_qp {
    pub context: *mut ibv_context,
    pub qp_context: *mut ::std::os::raw::c_void,
    pub pd: *mut ibv_pd,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: ibv_qp_state,
    pub qp_type: ibv_qp_type,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_comp_channel {
    pub _bindgen_opaque_blob: [u64; 2usize],
}
#[repr(C)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut ::std::os::raw::c_void,
    pub handle: u32,
    pub cqe: ::std::os::raw::c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_ah {
    pub _bindgen_opaque_blob: [u64; 3usize],
}
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct _ibv_device_ops {
    pub _bindgen_opaque_blob: [u64; 2usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct ibv_device {
    pub _ops: _ibv_device_ops,
    pub node_type: ibv_node_type,
    pub transport_type: ibv_transport_type,
    pub name: [::std::os::raw::c_char; 64usize],
    pub dev_name: [::std::os::raw::c_char; 64usize],
    pub dev_path: [::std::os::raw::c_char; 256usize],
    pub ibdev_path: [::std::os::raw::c_char; 256usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct _compat_ibv_port_attr {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct ibv_context_ops {
    pub _compat_query_device: ::std::option::Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            device_attr: *mut ibv_device_attr,
        ) -> ::std::os::raw::c_int,
    >,
    pub _compat_query_port: ::std::option::Option<
        unsafe extern "C" fn(
            context: *mut ibv_context,
            port_num: u8,
            port_attr: *mut _compat_ibv_port_attr,
        ) -> ::std::os::raw::c_int,
    >,
    pub _compat_alloc_pd: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_dealloc_pd: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_reg_mr: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_rereg_mr: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_dereg_mr: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub alloc_mw: ::std::option::Option<
        unsafe extern "C" fn(pd: *mut ibv_pd, type_: ibv_mw_type) -> *mut ibv_mw,
    >,
    pub bind_mw: ::std::option::Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp,
            mw: *mut ibv_mw,
            mw_bind: *mut ibv_mw_bind,
        ) -> ::std::os::raw::c_int,
    >,
    pub dealloc_mw: ::std::option::Option<
        unsafe extern "C" fn(mw: *mut ibv_mw) -> ::std::os::raw::c_int,
    >,
    pub _compat_create_cq: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub poll_cq: ::std::option::Option<
        unsafe extern "C" fn(
            cq: *mut ibv_cq,
            num_entries: ::std::os::raw::c_int,
            wc: *mut ibv_wc,
        ) -> ::std::os::raw::c_int,
    >,
    pub req_notify_cq: ::std::option::Option<
        unsafe extern "C" fn(
            cq: *mut ibv_cq,
            solicited_only: ::std::os::raw::c_int,
        ) -> ::std::os::raw::c_int,
    >,
    pub _compat_cq_event: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_resize_cq: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_destroy_cq: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_create_srq: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_modify_srq: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_query_srq: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_destroy_srq: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub post_srq_recv: ::std::option::Option<
        unsafe extern "C" fn(
            srq: *mut ibv_srq,
            recv_wr: *mut ibv_recv_wr,
            bad_recv_wr: *mut *mut ibv_recv_wr,
        ) -> ::std::os::raw::c_int,
    >,
    pub _compat_create_qp: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_query_qp: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_modify_qp: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_destroy_qp: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub post_send: ::std::option::Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp,
            wr: *mut ibv_send_wr,
            bad_wr: *mut *mut ibv_send_wr,
        ) -> ::std::os::raw::c_int,
    >,
    pub post_recv: ::std::option::Option<
        unsafe extern "C" fn(
            qp: *mut ibv_qp,
            wr: *mut ibv_recv_wr,
            bad_wr: *mut *mut ibv_recv_wr,
        ) -> ::std::os::raw::c_int,
    >,
    pub _compat_create_ah: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_destroy_ah: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_attach_mcast: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_detach_mcast: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
    pub _compat_async_event: ::std::option::Option<
        unsafe extern "C" fn() -> *mut ::std::os::raw::c_void,
    >,
}
#[repr(C)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
    pub cmd_fd: ::std::os::raw::c_int,
    pub async_fd: ::std::os::raw::c_int,
    pub num_comp_vectors: ::std::os::raw::c_int,
    pub mutex: pthread_mutex_t,
    pub abi_compat: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_gid__bindgen_ty_1",
    ][::std::mem::size_of::<ibv_gid__bindgen_ty_1>() - 16usize];
    [
        "Alignment of ibv_gid__bindgen_ty_1",
    ][::std::mem::align_of::<ibv_gid__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ibv_gid__bindgen_ty_1::subnet_prefix",
    ][::std::mem::offset_of!(ibv_gid__bindgen_ty_1, subnet_prefix) - 0usize];
    [
        "Offset of field: ibv_gid__bindgen_ty_1::interface_id",
    ][::std::mem::offset_of!(ibv_gid__bindgen_ty_1, interface_id) - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_gid"][::std::mem::size_of::<ibv_gid>() - 16usize];
    ["Alignment of ibv_gid"][::std::mem::align_of::<ibv_gid>() - 8usize];
    ["Offset of field: ibv_gid::raw"][::std::mem::offset_of!(ibv_gid, raw) - 0usize];
    [
        "Offset of field: ibv_gid::global",
    ][::std::mem::offset_of!(ibv_gid, global) - 0usize];
};
pub const IBV_GID_TYPE_IB: ibv_gid_type = 0;
pub const IBV_GID_TYPE_ROCE_V1: ibv_gid_type = 1;
pub const IBV_GID_TYPE_ROCE_V2: ibv_gid_type = 2;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_gid_entry"][::std::mem::size_of::<ibv_gid_entry>() - 32usize];
    ["Alignment of ibv_gid_entry"][::std::mem::align_of::<ibv_gid_entry>() - 8usize];
    [
        "Offset of field: ibv_gid_entry::gid",
    ][::std::mem::offset_of!(ibv_gid_entry, gid) - 0usize];
    [
        "Offset of field: ibv_gid_entry::gid_index",
    ][::std::mem::offset_of!(ibv_gid_entry, gid_index) - 16usize];
    [
        "Offset of field: ibv_gid_entry::port_num",
    ][::std::mem::offset_of!(ibv_gid_entry, port_num) - 20usize];
    [
        "Offset of field: ibv_gid_entry::gid_type",
    ][::std::mem::offset_of!(ibv_gid_entry, gid_type) - 24usize];
    [
        "Offset of field: ibv_gid_entry::ndev_ifindex",
    ][::std::mem::offset_of!(ibv_gid_entry, ndev_ifindex) - 28usize];
};
pub const IBV_NODE_UNKNOWN: ibv_node_type = -1;
pub const IBV_NODE_CA: ibv_node_type = 1;
pub const IBV_NODE_SWITCH: ibv_node_type = 2;
pub const IBV_NODE_ROUTER: ibv_node_type = 3;
pub const IBV_NODE_RNIC: ibv_node_type = 4;
pub const IBV_NODE_USNIC: ibv_node_type = 5;
pub const IBV_NODE_USNIC_UDP: ibv_node_type = 6;
pub const IBV_NODE_UNSPECIFIED: ibv_node_type = 7;
pub const IBV_TRANSPORT_UNKNOWN: ibv_transport_type = -1;
pub const IBV_TRANSPORT_IB: ibv_transport_type = 0;
pub const IBV_TRANSPORT_IWARP: ibv_transport_type = 1;
pub const IBV_TRANSPORT_USNIC: ibv_transport_type = 2;
pub const IBV_TRANSPORT_USNIC_UDP: ibv_transport_type = 3;
pub const IBV_TRANSPORT_UNSPECIFIED: ibv_transport_type = 4;
pub const IBV_DEVICE_RESIZE_MAX_WR: ibv_device_cap_flags = 1;
pub const IBV_DEVICE_BAD_PKEY_CNTR: ibv_device_cap_flags = 2;
pub const IBV_DEVICE_BAD_QKEY_CNTR: ibv_device_cap_flags = 4;
pub const IBV_DEVICE_RAW_MULTI: ibv_device_cap_flags = 8;
pub const IBV_DEVICE_AUTO_PATH_MIG: ibv_device_cap_flags = 16;
pub const IBV_DEVICE_CHANGE_PHY_PORT: ibv_device_cap_flags = 32;
pub const IBV_DEVICE_UD_AV_PORT_ENFORCE: ibv_device_cap_flags = 64;
pub const IBV_DEVICE_CURR_QP_STATE_MOD: ibv_device_cap_flags = 128;
pub const IBV_DEVICE_SHUTDOWN_PORT: ibv_device_cap_flags = 256;
pub const IBV_DEVICE_INIT_TYPE: ibv_device_cap_flags = 512;
pub const IBV_DEVICE_PORT_ACTIVE_EVENT: ibv_device_cap_flags = 1024;
pub const IBV_DEVICE_SYS_IMAGE_GUID: ibv_device_cap_flags = 2048;
pub const IBV_DEVICE_RC_RNR_NAK_GEN: ibv_device_cap_flags = 4096;
pub const IBV_DEVICE_SRQ_RESIZE: ibv_device_cap_flags = 8192;
pub const IBV_DEVICE_N_NOTIFY_CQ: ibv_device_cap_flags = 16384;
pub const IBV_DEVICE_MEM_WINDOW: ibv_device_cap_flags = 131072;
pub const IBV_DEVICE_UD_IP_CSUM: ibv_device_cap_flags = 262144;
pub const IBV_DEVICE_XRC: ibv_device_cap_flags = 1048576;
pub const IBV_DEVICE_MEM_MGT_EXTENSIONS: ibv_device_cap_flags = 2097152;
pub const IBV_DEVICE_MEM_WINDOW_TYPE_2A: ibv_device_cap_flags = 8388608;
pub const IBV_DEVICE_MEM_WINDOW_TYPE_2B: ibv_device_cap_flags = 16777216;
pub const IBV_DEVICE_RC_IP_CSUM: ibv_device_cap_flags = 33554432;
pub const IBV_DEVICE_RAW_IP_CSUM: ibv_device_cap_flags = 67108864;
pub const IBV_DEVICE_MANAGED_FLOW_STEERING: ibv_device_cap_flags = 536870912;
pub const IBV_ATOMIC_NONE: ibv_atomic_cap = 0;
pub const IBV_ATOMIC_HCA: ibv_atomic_cap = 1;
pub const IBV_ATOMIC_GLOB: ibv_atomic_cap = 2;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_device_attr"][::std::mem::size_of::<ibv_device_attr>() - 232usize];
    ["Alignment of ibv_device_attr"][::std::mem::align_of::<ibv_device_attr>() - 8usize];
    [
        "Offset of field: ibv_device_attr::fw_ver",
    ][::std::mem::offset_of!(ibv_device_attr, fw_ver) - 0usize];
    [
        "Offset of field: ibv_device_attr::node_guid",
    ][::std::mem::offset_of!(ibv_device_attr, node_guid) - 64usize];
    [
        "Offset of field: ibv_device_attr::sys_image_guid",
    ][::std::mem::offset_of!(ibv_device_attr, sys_image_guid) - 72usize];
    [
        "Offset of field: ibv_device_attr::max_mr_size",
    ][::std::mem::offset_of!(ibv_device_attr, max_mr_size) - 80usize];
    [
        "Offset of field: ibv_device_attr::page_size_cap",
    ][::std::mem::offset_of!(ibv_device_attr, page_size_cap) - 88usize];
    [
        "Offset of field: ibv_device_attr::vendor_id",
    ][::std::mem::offset_of!(ibv_device_attr, vendor_id) - 96usize];
    [
        "Offset of field: ibv_device_attr::vendor_part_id",
    ][::std::mem::offset_of!(ibv_device_attr, vendor_part_id) - 100usize];
    [
        "Offset of field: ibv_device_attr::hw_ver",
    ][::std::mem::offset_of!(ibv_device_attr, hw_ver) - 104usize];
    [
        "Offset of field: ibv_device_attr::max_qp",
    ][::std::mem::offset_of!(ibv_device_attr, max_qp) - 108usize];
    [
        "Offset of field: ibv_device_attr::max_qp_wr",
    ][::std::mem::offset_of!(ibv_device_attr, max_qp_wr) - 112usize];
    [
        "Offset of field: ibv_device_attr::device_cap_flags",
    ][::std::mem::offset_of!(ibv_device_attr, device_cap_flags) - 116usize];
    [
        "Offset of field: ibv_device_attr::max_sge",
    ][::std::mem::offset_of!(ibv_device_attr, max_sge) - 120usize];
    [
        "Offset of field: ibv_device_attr::max_sge_rd",
    ][::std::mem::offset_of!(ibv_device_attr, max_sge_rd) - 124usize];
    [
        "Offset of field: ibv_device_attr::max_cq",
    ][::std::mem::offset_of!(ibv_device_attr, max_cq) - 128usize];
    [
        "Offset of field: ibv_device_attr::max_cqe",
    ][::std::mem::offset_of!(ibv_device_attr, max_cqe) - 132usize];
    [
        "Offset of field: ibv_device_attr::max_mr",
    ][::std::mem::offset_of!(ibv_device_attr, max_mr) - 136usize];
    [
        "Offset of field: ibv_device_attr::max_pd",
    ][::std::mem::offset_of!(ibv_device_attr, max_pd) - 140usize];
    [
        "Offset of field: ibv_device_attr::max_qp_rd_atom",
    ][::std::mem::offset_of!(ibv_device_attr, max_qp_rd_atom) - 144usize];
    [
        "Offset of field: ibv_device_attr::max_ee_rd_atom",
    ][::std::mem::offset_of!(ibv_device_attr, max_ee_rd_atom) - 148usize];
    [
        "Offset of field: ibv_device_attr::max_res_rd_atom",
    ][::std::mem::offset_of!(ibv_device_attr, max_res_rd_atom) - 152usize];
    [
        "Offset of field: ibv_device_attr::max_qp_init_rd_atom",
    ][::std::mem::offset_of!(ibv_device_attr, max_qp_init_rd_atom) - 156usize];
    [
        "Offset of field: ibv_device_attr::max_ee_init_rd_atom",
    ][::std::mem::offset_of!(ibv_device_attr, max_ee_init_rd_atom) - 160usize];
    [
        "Offset of field: ibv_device_attr::atomic_cap",
    ][::std::mem::offset_of!(ibv_device_attr, atomic_cap) - 164usize];
    [
        "Offset of field: ibv_device_attr::max_ee",
    ][::std::mem::offset_of!(ibv_device_attr, max_ee) - 168usize];
    [
        "Offset of field: ibv_device_attr::max_rdd",
    ][::std::mem::offset_of!(ibv_device_attr, max_rdd) - 172usize];
    [
        "Offset of field: ibv_device_attr::max_mw",
    ][::std::mem::offset_of!(ibv_device_attr, max_mw) - 176usize];
    [
        "Offset of field: ibv_device_attr::max_raw_ipv6_qp",
    ][::std::mem::offset_of!(ibv_device_attr, max_raw_ipv6_qp) - 180usize];
    [
        "Offset of field: ibv_device_attr::max_raw_ethy_qp",
    ][::std::mem::offset_of!(ibv_device_attr, max_raw_ethy_qp) - 184usize];
    [
        "Offset of field: ibv_device_attr::max_mcast_grp",
    ][::std::mem::offset_of!(ibv_device_attr, max_mcast_grp) - 188usize];
    [
        "Offset of field: ibv_device_attr::max_mcast_qp_attach",
    ][::std::mem::offset_of!(ibv_device_attr, max_mcast_qp_attach) - 192usize];
    [
        "Offset of field: ibv_device_attr::max_total_mcast_qp_attach",
    ][::std::mem::offset_of!(ibv_device_attr, max_total_mcast_qp_attach) - 196usize];
    [
        "Offset of field: ibv_device_attr::max_ah",
    ][::std::mem::offset_of!(ibv_device_attr, max_ah) - 200usize];
    [
        "Offset of field: ibv_device_attr::max_fmr",
    ][::std::mem::offset_of!(ibv_device_attr, max_fmr) - 204usize];
    [
        "Offset of field: ibv_device_attr::max_map_per_fmr",
    ][::std::mem::offset_of!(ibv_device_attr, max_map_per_fmr) - 208usize];
    [
        "Offset of field: ibv_device_attr::max_srq",
    ][::std::mem::offset_of!(ibv_device_attr, max_srq) - 212usize];
    [
        "Offset of field: ibv_device_attr::max_srq_wr",
    ][::std::mem::offset_of!(ibv_device_attr, max_srq_wr) - 216usize];
    [
        "Offset of field: ibv_device_attr::max_srq_sge",
    ][::std::mem::offset_of!(ibv_device_attr, max_srq_sge) - 220usize];
    [
        "Offset of field: ibv_device_attr::max_pkeys",
    ][::std::mem::offset_of!(ibv_device_attr, max_pkeys) - 224usize];
    [
        "Offset of field: ibv_device_attr::local_ca_ack_delay",
    ][::std::mem::offset_of!(ibv_device_attr, local_ca_ack_delay) - 226usize];
    [
        "Offset of field: ibv_device_attr::phys_port_cnt",
    ][::std::mem::offset_of!(ibv_device_attr, phys_port_cnt) - 227usize];
};
pub const IBV_MTU_256: ibv_mtu = 1;
pub const IBV_MTU_512: ibv_mtu = 2;
pub const IBV_MTU_1024: ibv_mtu = 3;
pub const IBV_MTU_2048: ibv_mtu = 4;
pub const IBV_MTU_4096: ibv_mtu = 5;
pub const IBV_PORT_NOP: ibv_port_state = 0;
pub const IBV_PORT_DOWN: ibv_port_state = 1;
pub const IBV_PORT_INIT: ibv_port_state = 2;
pub const IBV_PORT_ARMED: ibv_port_state = 3;
pub const IBV_PORT_ACTIVE: ibv_port_state = 4;
pub const IBV_PORT_ACTIVE_DEFER: ibv_port_state = 5;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_port_attr"][::std::mem::size_of::<ibv_port_attr>() - 52usize];
    ["Alignment of ibv_port_attr"][::std::mem::align_of::<ibv_port_attr>() - 4usize];
    [
        "Offset of field: ibv_port_attr::state",
    ][::std::mem::offset_of!(ibv_port_attr, state) - 0usize];
    [
        "Offset of field: ibv_port_attr::max_mtu",
    ][::std::mem::offset_of!(ibv_port_attr, max_mtu) - 4usize];
    [
        "Offset of field: ibv_port_attr::active_mtu",
    ][::std::mem::offset_of!(ibv_port_attr, active_mtu) - 8usize];
    [
        "Offset of field: ibv_port_attr::gid_tbl_len",
    ][::std::mem::offset_of!(ibv_port_attr, gid_tbl_len) - 12usize];
    [
        "Offset of field: ibv_port_attr::port_cap_flags",
    ][::std::mem::offset_of!(ibv_port_attr, port_cap_flags) - 16usize];
    [
        "Offset of field: ibv_port_attr::max_msg_sz",
    ][::std::mem::offset_of!(ibv_port_attr, max_msg_sz) - 20usize];
    [
        "Offset of field: ibv_port_attr::bad_pkey_cntr",
    ][::std::mem::offset_of!(ibv_port_attr, bad_pkey_cntr) - 24usize];
    [
        "Offset of field: ibv_port_attr::qkey_viol_cntr",
    ][::std::mem::offset_of!(ibv_port_attr, qkey_viol_cntr) - 28usize];
    [
        "Offset of field: ibv_port_attr::pkey_tbl_len",
    ][::std::mem::offset_of!(ibv_port_attr, pkey_tbl_len) - 32usize];
    [
        "Offset of field: ibv_port_attr::lid",
    ][::std::mem::offset_of!(ibv_port_attr, lid) - 34usize];
    [
        "Offset of field: ibv_port_attr::sm_lid",
    ][::std::mem::offset_of!(ibv_port_attr, sm_lid) - 36usize];
    [
        "Offset of field: ibv_port_attr::lmc",
    ][::std::mem::offset_of!(ibv_port_attr, lmc) - 38usize];
    [
        "Offset of field: ibv_port_attr::max_vl_num",
    ][::std::mem::offset_of!(ibv_port_attr, max_vl_num) - 39usize];
    [
        "Offset of field: ibv_port_attr::sm_sl",
    ][::std::mem::offset_of!(ibv_port_attr, sm_sl) - 40usize];
    [
        "Offset of field: ibv_port_attr::subnet_timeout",
    ][::std::mem::offset_of!(ibv_port_attr, subnet_timeout) - 41usize];
    [
        "Offset of field: ibv_port_attr::init_type_reply",
    ][::std::mem::offset_of!(ibv_port_attr, init_type_reply) - 42usize];
    [
        "Offset of field: ibv_port_attr::active_width",
    ][::std::mem::offset_of!(ibv_port_attr, active_width) - 43usize];
    [
        "Offset of field: ibv_port_attr::active_speed",
    ][::std::mem::offset_of!(ibv_port_attr, active_speed) - 44usize];
    [
        "Offset of field: ibv_port_attr::phys_state",
    ][::std::mem::offset_of!(ibv_port_attr, phys_state) - 45usize];
    [
        "Offset of field: ibv_port_attr::link_layer",
    ][::std::mem::offset_of!(ibv_port_attr, link_layer) - 46usize];
    [
        "Offset of field: ibv_port_attr::flags",
    ][::std::mem::offset_of!(ibv_port_attr, flags) - 47usize];
    [
        "Offset of field: ibv_port_attr::port_cap_flags2",
    ][::std::mem::offset_of!(ibv_port_attr, port_cap_flags2) - 48usize];
};
pub const IBV_WC_SUCCESS: ibv_wc_status = 0;
pub const IBV_WC_LOC_LEN_ERR: ibv_wc_status = 1;
pub const IBV_WC_LOC_QP_OP_ERR: ibv_wc_status = 2;
pub const IBV_WC_LOC_EEC_OP_ERR: ibv_wc_status = 3;
pub const IBV_WC_LOC_PROT_ERR: ibv_wc_status = 4;
pub const IBV_WC_WR_FLUSH_ERR: ibv_wc_status = 5;
pub const IBV_WC_MW_BIND_ERR: ibv_wc_status = 6;
pub const IBV_WC_BAD_RESP_ERR: ibv_wc_status = 7;
pub const IBV_WC_LOC_ACCESS_ERR: ibv_wc_status = 8;
pub const IBV_WC_REM_INV_REQ_ERR: ibv_wc_status = 9;
pub const IBV_WC_REM_ACCESS_ERR: ibv_wc_status = 10;
pub const IBV_WC_REM_OP_ERR: ibv_wc_status = 11;
pub const IBV_WC_RETRY_EXC_ERR: ibv_wc_status = 12;
pub const IBV_WC_RNR_RETRY_EXC_ERR: ibv_wc_status = 13;
pub const IBV_WC_LOC_RDD_VIOL_ERR: ibv_wc_status = 14;
pub const IBV_WC_REM_INV_RD_REQ_ERR: ibv_wc_status = 15;
pub const IBV_WC_REM_ABORT_ERR: ibv_wc_status = 16;
pub const IBV_WC_INV_EECN_ERR: ibv_wc_status = 17;
pub const IBV_WC_INV_EEC_STATE_ERR: ibv_wc_status = 18;
pub const IBV_WC_FATAL_ERR: ibv_wc_status = 19;
pub const IBV_WC_RESP_TIMEOUT_ERR: ibv_wc_status = 20;
pub const IBV_WC_GENERAL_ERR: ibv_wc_status = 21;
pub const IBV_WC_TM_ERR: ibv_wc_status = 22;
pub const IBV_WC_TM_RNDV_INCOMPLETE: ibv_wc_status = 23;
pub const IBV_WC_SEND: ibv_wc_opcode = 0;
pub const IBV_WC_RDMA_WRITE: ibv_wc_opcode = 1;
pub const IBV_WC_RDMA_READ: ibv_wc_opcode = 2;
pub const IBV_WC_COMP_SWAP: ibv_wc_opcode = 3;
pub const IBV_WC_FETCH_ADD: ibv_wc_opcode = 4;
pub const IBV_WC_BIND_MW: ibv_wc_opcode = 5;
pub const IBV_WC_LOCAL_INV: ibv_wc_opcode = 6;
pub const IBV_WC_TSO: ibv_wc_opcode = 7;
pub const IBV_WC_ATOMIC_WRITE: ibv_wc_opcode = 9;
pub const IBV_WC_RECV: ibv_wc_opcode = 128;
pub const IBV_WC_RECV_RDMA_WITH_IMM: ibv_wc_opcode = 129;
pub const IBV_WC_TM_ADD: ibv_wc_opcode = 130;
pub const IBV_WC_TM_DEL: ibv_wc_opcode = 131;
pub const IBV_WC_TM_SYNC: ibv_wc_opcode = 132;
pub const IBV_WC_TM_RECV: ibv_wc_opcode = 133;
pub const IBV_WC_TM_NO_TAG: ibv_wc_opcode = 134;
pub const IBV_WC_DRIVER1: ibv_wc_opcode = 135;
pub const IBV_WC_DRIVER2: ibv_wc_opcode = 136;
pub const IBV_WC_DRIVER3: ibv_wc_opcode = 137;
pub const IBV_WC_GRH: ibv_wc_flags = 1;
pub const IBV_WC_WITH_IMM: ibv_wc_flags = 2;
pub const IBV_WC_IP_CSUM_OK: ibv_wc_flags = 4;
pub const IBV_WC_WITH_INV: ibv_wc_flags = 8;
pub const IBV_WC_TM_SYNC_REQ: ibv_wc_flags = 16;
pub const IBV_WC_TM_MATCH: ibv_wc_flags = 32;
pub const IBV_WC_TM_DATA_VALID: ibv_wc_flags = 64;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_wc__bindgen_ty_1",
    ][::std::mem::size_of::<ibv_wc__bindgen_ty_1>() - 4usize];
    [
        "Alignment of ibv_wc__bindgen_ty_1",
    ][::std::mem::align_of::<ibv_wc__bindgen_ty_1>() - 4usize];
    [
        "Offset of field: ibv_wc__bindgen_ty_1::imm_data",
    ][::std::mem::offset_of!(ibv_wc__bindgen_ty_1, imm_data) - 0usize];
    [
        "Offset of field: ibv_wc__bindgen_ty_1::invalidated_rkey",
    ][::std::mem::offset_of!(ibv_wc__bindgen_ty_1, invalidated_rkey) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_wc"][::std::mem::size_of::<ibv_wc>() - 48usize];
    ["Alignment of ibv_wc"][::std::mem::align_of::<ibv_wc>() - 8usize];
    ["Offset of field: ibv_wc::wr_id"][::std::mem::offset_of!(ibv_wc, wr_id) - 0usize];
    ["Offset of field: ibv_wc::status"][::std::mem::offset_of!(ibv_wc, status) - 8usize];
    [
        "Offset of field: ibv_wc::opcode",
    ][::std::mem::offset_of!(ibv_wc, opcode) - 12usize];
    [
        "Offset of field: ibv_wc::vendor_err",
    ][::std::mem::offset_of!(ibv_wc, vendor_err) - 16usize];
    [
        "Offset of field: ibv_wc::byte_len",
    ][::std::mem::offset_of!(ibv_wc, byte_len) - 20usize];
    [
        "Offset of field: ibv_wc::qp_num",
    ][::std::mem::offset_of!(ibv_wc, qp_num) - 28usize];
    [
        "Offset of field: ibv_wc::src_qp",
    ][::std::mem::offset_of!(ibv_wc, src_qp) - 32usize];
    [
        "Offset of field: ibv_wc::wc_flags",
    ][::std::mem::offset_of!(ibv_wc, wc_flags) - 36usize];
    [
        "Offset of field: ibv_wc::pkey_index",
    ][::std::mem::offset_of!(ibv_wc, pkey_index) - 40usize];
    ["Offset of field: ibv_wc::slid"][::std::mem::offset_of!(ibv_wc, slid) - 42usize];
    ["Offset of field: ibv_wc::sl"][::std::mem::offset_of!(ibv_wc, sl) - 44usize];
    [
        "Offset of field: ibv_wc::dlid_path_bits",
    ][::std::mem::offset_of!(ibv_wc, dlid_path_bits) - 45usize];
};
pub const IBV_ACCESS_LOCAL_WRITE: ibv_access_flags = 1;
pub const IBV_ACCESS_REMOTE_WRITE: ibv_access_flags = 2;
pub const IBV_ACCESS_REMOTE_READ: ibv_access_flags = 4;
pub const IBV_ACCESS_REMOTE_ATOMIC: ibv_access_flags = 8;
pub const IBV_ACCESS_MW_BIND: ibv_access_flags = 16;
pub const IBV_ACCESS_ZERO_BASED: ibv_access_flags = 32;
pub const IBV_ACCESS_ON_DEMAND: ibv_access_flags = 64;
pub const IBV_ACCESS_HUGETLB: ibv_access_flags = 128;
pub const IBV_ACCESS_RELAXED_ORDERING: ibv_access_flags = 1048576;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_mw_bind_info"][::std::mem::size_of::<ibv_mw_bind_info>() - 32usize];
    [
        "Alignment of ibv_mw_bind_info",
    ][::std::mem::align_of::<ibv_mw_bind_info>() - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_pd"][::std::mem::size_of::<ibv_pd>() - 16usize];
    ["Alignment of ibv_pd"][::std::mem::align_of::<ibv_pd>() - 8usize];
    [
        "Offset of field: ibv_pd::context",
    ][::std::mem::offset_of!(ibv_pd, context) - 0usize];
    ["Offset of field: ibv_pd::handle"][::std::mem::offset_of!(ibv_pd, handle) - 8usize];
};
pub const IBV_XRCD_INIT_ATTR_FD: ibv_xrcd_init_attr_mask = 1;
pub const IBV_XRCD_INIT_ATTR_OFLAGS: ibv_xrcd_init_attr_mask = 2;
pub const IBV_XRCD_INIT_ATTR_RESERVED: ibv_xrcd_init_attr_mask = 4;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_xrcd_init_attr",
    ][::std::mem::size_of::<ibv_xrcd_init_attr>() - 12usize];
    [
        "Alignment of ibv_xrcd_init_attr",
    ][::std::mem::align_of::<ibv_xrcd_init_attr>() - 4usize];
    [
        "Offset of field: ibv_xrcd_init_attr::comp_mask",
    ][::std::mem::offset_of!(ibv_xrcd_init_attr, comp_mask) - 0usize];
    [
        "Offset of field: ibv_xrcd_init_attr::fd",
    ][::std::mem::offset_of!(ibv_xrcd_init_attr, fd) - 4usize];
    [
        "Offset of field: ibv_xrcd_init_attr::oflags",
    ][::std::mem::offset_of!(ibv_xrcd_init_attr, oflags) - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_xrcd"][::std::mem::size_of::<ibv_xrcd>() - 8usize];
    ["Alignment of ibv_xrcd"][::std::mem::align_of::<ibv_xrcd>() - 8usize];
    [
        "Offset of field: ibv_xrcd::context",
    ][::std::mem::offset_of!(ibv_xrcd, context) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_mr"][::std::mem::size_of::<ibv_mr>() - 48usize];
    ["Alignment of ibv_mr"][::std::mem::align_of::<ibv_mr>() - 8usize];
    [
        "Offset of field: ibv_mr::context",
    ][::std::mem::offset_of!(ibv_mr, context) - 0usize];
    ["Offset of field: ibv_mr::pd"][::std::mem::offset_of!(ibv_mr, pd) - 8usize];
    ["Offset of field: ibv_mr::addr"][::std::mem::offset_of!(ibv_mr, addr) - 16usize];
    [
        "Offset of field: ibv_mr::length",
    ][::std::mem::offset_of!(ibv_mr, length) - 24usize];
    [
        "Offset of field: ibv_mr::handle",
    ][::std::mem::offset_of!(ibv_mr, handle) - 32usize];
    ["Offset of field: ibv_mr::lkey"][::std::mem::offset_of!(ibv_mr, lkey) - 36usize];
    ["Offset of field: ibv_mr::rkey"][::std::mem::offset_of!(ibv_mr, rkey) - 40usize];
};
pub const IBV_MW_TYPE_1: ibv_mw_type = 1;
pub const IBV_MW_TYPE_2: ibv_mw_type = 2;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_mw"][::std::mem::size_of::<ibv_mw>() - 32usize];
    ["Alignment of ibv_mw"][::std::mem::align_of::<ibv_mw>() - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_global_route"][::std::mem::size_of::<ibv_global_route>() - 24usize];
    [
        "Alignment of ibv_global_route",
    ][::std::mem::align_of::<ibv_global_route>() - 8usize];
    [
        "Offset of field: ibv_global_route::dgid",
    ][::std::mem::offset_of!(ibv_global_route, dgid) - 0usize];
    [
        "Offset of field: ibv_global_route::flow_label",
    ][::std::mem::offset_of!(ibv_global_route, flow_label) - 16usize];
    [
        "Offset of field: ibv_global_route::sgid_index",
    ][::std::mem::offset_of!(ibv_global_route, sgid_index) - 20usize];
    [
        "Offset of field: ibv_global_route::hop_limit",
    ][::std::mem::offset_of!(ibv_global_route, hop_limit) - 21usize];
    [
        "Offset of field: ibv_global_route::traffic_class",
    ][::std::mem::offset_of!(ibv_global_route, traffic_class) - 22usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_ah_attr"][::std::mem::size_of::<ibv_ah_attr>() - 32usize];
    ["Alignment of ibv_ah_attr"][::std::mem::align_of::<ibv_ah_attr>() - 8usize];
    [
        "Offset of field: ibv_ah_attr::grh",
    ][::std::mem::offset_of!(ibv_ah_attr, grh) - 0usize];
    [
        "Offset of field: ibv_ah_attr::dlid",
    ][::std::mem::offset_of!(ibv_ah_attr, dlid) - 24usize];
    [
        "Offset of field: ibv_ah_attr::sl",
    ][::std::mem::offset_of!(ibv_ah_attr, sl) - 26usize];
    [
        "Offset of field: ibv_ah_attr::src_path_bits",
    ][::std::mem::offset_of!(ibv_ah_attr, src_path_bits) - 27usize];
    [
        "Offset of field: ibv_ah_attr::static_rate",
    ][::std::mem::offset_of!(ibv_ah_attr, static_rate) - 28usize];
    [
        "Offset of field: ibv_ah_attr::is_global",
    ][::std::mem::offset_of!(ibv_ah_attr, is_global) - 29usize];
    [
        "Offset of field: ibv_ah_attr::port_num",
    ][::std::mem::offset_of!(ibv_ah_attr, port_num) - 30usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_srq_attr"][::std::mem::size_of::<ibv_srq_attr>() - 12usize];
    ["Alignment of ibv_srq_attr"][::std::mem::align_of::<ibv_srq_attr>() - 4usize];
    [
        "Offset of field: ibv_srq_attr::max_wr",
    ][::std::mem::offset_of!(ibv_srq_attr, max_wr) - 0usize];
    [
        "Offset of field: ibv_srq_attr::max_sge",
    ][::std::mem::offset_of!(ibv_srq_attr, max_sge) - 4usize];
    [
        "Offset of field: ibv_srq_attr::srq_limit",
    ][::std::mem::offset_of!(ibv_srq_attr, srq_limit) - 8usize];
};
pub const IBV_SRQT_BASIC: ibv_srq_type = 0;
pub const IBV_SRQT_XRC: ibv_srq_type = 1;
pub const IBV_SRQT_TM: ibv_srq_type = 2;
pub const IBV_SRQ_INIT_ATTR_TYPE: ibv_srq_init_attr_mask = 1;
pub const IBV_SRQ_INIT_ATTR_PD: ibv_srq_init_attr_mask = 2;
pub const IBV_SRQ_INIT_ATTR_XRCD: ibv_srq_init_attr_mask = 4;
pub const IBV_SRQ_INIT_ATTR_CQ: ibv_srq_init_attr_mask = 8;
pub const IBV_SRQ_INIT_ATTR_TM: ibv_srq_init_attr_mask = 16;
pub const IBV_SRQ_INIT_ATTR_RESERVED: ibv_srq_init_attr_mask = 32;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_tm_cap"][::std::mem::size_of::<ibv_tm_cap>() - 8usize];
    ["Alignment of ibv_tm_cap"][::std::mem::align_of::<ibv_tm_cap>() - 4usize];
    [
        "Offset of field: ibv_tm_cap::max_num_tags",
    ][::std::mem::offset_of!(ibv_tm_cap, max_num_tags) - 0usize];
    [
        "Offset of field: ibv_tm_cap::max_ops",
    ][::std::mem::offset_of!(ibv_tm_cap, max_ops) - 4usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_srq_init_attr_ex",
    ][::std::mem::size_of::<ibv_srq_init_attr_ex>() - 64usize];
    [
        "Alignment of ibv_srq_init_attr_ex",
    ][::std::mem::align_of::<ibv_srq_init_attr_ex>() - 8usize];
    [
        "Offset of field: ibv_srq_init_attr_ex::srq_context",
    ][::std::mem::offset_of!(ibv_srq_init_attr_ex, srq_context) - 0usize];
    [
        "Offset of field: ibv_srq_init_attr_ex::attr",
    ][::std::mem::offset_of!(ibv_srq_init_attr_ex, attr) - 8usize];
    [
        "Offset of field: ibv_srq_init_attr_ex::comp_mask",
    ][::std::mem::offset_of!(ibv_srq_init_attr_ex, comp_mask) - 20usize];
    [
        "Offset of field: ibv_srq_init_attr_ex::srq_type",
    ][::std::mem::offset_of!(ibv_srq_init_attr_ex, srq_type) - 24usize];
    [
        "Offset of field: ibv_srq_init_attr_ex::pd",
    ][::std::mem::offset_of!(ibv_srq_init_attr_ex, pd) - 32usize];
    [
        "Offset of field: ibv_srq_init_attr_ex::xrcd",
    ][::std::mem::offset_of!(ibv_srq_init_attr_ex, xrcd) - 40usize];
    [
        "Offset of field: ibv_srq_init_attr_ex::cq",
    ][::std::mem::offset_of!(ibv_srq_init_attr_ex, cq) - 48usize];
    [
        "Offset of field: ibv_srq_init_attr_ex::tm_cap",
    ][::std::mem::offset_of!(ibv_srq_init_attr_ex, tm_cap) - 56usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_rwq_ind_table"][::std::mem::size_of::<ibv_rwq_ind_table>() - 24usize];
    [
        "Alignment of ibv_rwq_ind_table",
    ][::std::mem::align_of::<ibv_rwq_ind_table>() - 8usize];
    [
        "Offset of field: ibv_rwq_ind_table::context",
    ][::std::mem::offset_of!(ibv_rwq_ind_table, context) - 0usize];
    [
        "Offset of field: ibv_rwq_ind_table::ind_tbl_handle",
    ][::std::mem::offset_of!(ibv_rwq_ind_table, ind_tbl_handle) - 8usize];
    [
        "Offset of field: ibv_rwq_ind_table::ind_tbl_num",
    ][::std::mem::offset_of!(ibv_rwq_ind_table, ind_tbl_num) - 12usize];
    [
        "Offset of field: ibv_rwq_ind_table::comp_mask",
    ][::std::mem::offset_of!(ibv_rwq_ind_table, comp_mask) - 16usize];
};
pub const IBV_QPT_RC: ibv_qp_type = 2;
pub const IBV_QPT_UC: ibv_qp_type = 3;
pub const IBV_QPT_UD: ibv_qp_type = 4;
pub const IBV_QPT_RAW_PACKET: ibv_qp_type = 8;
pub const IBV_QPT_XRC_SEND: ibv_qp_type = 9;
pub const IBV_QPT_XRC_RECV: ibv_qp_type = 10;
pub const IBV_QPT_DRIVER: ibv_qp_type = 255;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_qp_cap"][::std::mem::size_of::<ibv_qp_cap>() - 20usize];
    ["Alignment of ibv_qp_cap"][::std::mem::align_of::<ibv_qp_cap>() - 4usize];
    [
        "Offset of field: ibv_qp_cap::max_send_wr",
    ][::std::mem::offset_of!(ibv_qp_cap, max_send_wr) - 0usize];
    [
        "Offset of field: ibv_qp_cap::max_recv_wr",
    ][::std::mem::offset_of!(ibv_qp_cap, max_recv_wr) - 4usize];
    [
        "Offset of field: ibv_qp_cap::max_send_sge",
    ][::std::mem::offset_of!(ibv_qp_cap, max_send_sge) - 8usize];
    [
        "Offset of field: ibv_qp_cap::max_recv_sge",
    ][::std::mem::offset_of!(ibv_qp_cap, max_recv_sge) - 12usize];
    [
        "Offset of field: ibv_qp_cap::max_inline_data",
    ][::std::mem::offset_of!(ibv_qp_cap, max_inline_data) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_qp_init_attr"][::std::mem::size_of::<ibv_qp_init_attr>() - 64usize];
    [
        "Alignment of ibv_qp_init_attr",
    ][::std::mem::align_of::<ibv_qp_init_attr>() - 8usize];
    [
        "Offset of field: ibv_qp_init_attr::qp_context",
    ][::std::mem::offset_of!(ibv_qp_init_attr, qp_context) - 0usize];
    [
        "Offset of field: ibv_qp_init_attr::send_cq",
    ][::std::mem::offset_of!(ibv_qp_init_attr, send_cq) - 8usize];
    [
        "Offset of field: ibv_qp_init_attr::recv_cq",
    ][::std::mem::offset_of!(ibv_qp_init_attr, recv_cq) - 16usize];
    [
        "Offset of field: ibv_qp_init_attr::srq",
    ][::std::mem::offset_of!(ibv_qp_init_attr, srq) - 24usize];
    [
        "Offset of field: ibv_qp_init_attr::cap",
    ][::std::mem::offset_of!(ibv_qp_init_attr, cap) - 32usize];
    [
        "Offset of field: ibv_qp_init_attr::qp_type",
    ][::std::mem::offset_of!(ibv_qp_init_attr, qp_type) - 52usize];
    [
        "Offset of field: ibv_qp_init_attr::sq_sig_all",
    ][::std::mem::offset_of!(ibv_qp_init_attr, sq_sig_all) - 56usize];
};
pub const IBV_QP_INIT_ATTR_PD: ibv_qp_init_attr_mask = 1;
pub const IBV_QP_INIT_ATTR_XRCD: ibv_qp_init_attr_mask = 2;
pub const IBV_QP_INIT_ATTR_CREATE_FLAGS: ibv_qp_init_attr_mask = 4;
pub const IBV_QP_INIT_ATTR_MAX_TSO_HEADER: ibv_qp_init_attr_mask = 8;
pub const IBV_QP_INIT_ATTR_IND_TABLE: ibv_qp_init_attr_mask = 16;
pub const IBV_QP_INIT_ATTR_RX_HASH: ibv_qp_init_attr_mask = 32;
pub const IBV_QP_INIT_ATTR_SEND_OPS_FLAGS: ibv_qp_init_attr_mask = 64;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_rx_hash_conf"][::std::mem::size_of::<ibv_rx_hash_conf>() - 24usize];
    [
        "Alignment of ibv_rx_hash_conf",
    ][::std::mem::align_of::<ibv_rx_hash_conf>() - 8usize];
    [
        "Offset of field: ibv_rx_hash_conf::rx_hash_function",
    ][::std::mem::offset_of!(ibv_rx_hash_conf, rx_hash_function) - 0usize];
    [
        "Offset of field: ibv_rx_hash_conf::rx_hash_key_len",
    ][::std::mem::offset_of!(ibv_rx_hash_conf, rx_hash_key_len) - 1usize];
    [
        "Offset of field: ibv_rx_hash_conf::rx_hash_key",
    ][::std::mem::offset_of!(ibv_rx_hash_conf, rx_hash_key) - 8usize];
    [
        "Offset of field: ibv_rx_hash_conf::rx_hash_fields_mask",
    ][::std::mem::offset_of!(ibv_rx_hash_conf, rx_hash_fields_mask) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_qp_init_attr_ex",
    ][::std::mem::size_of::<ibv_qp_init_attr_ex>() - 136usize];
    [
        "Alignment of ibv_qp_init_attr_ex",
    ][::std::mem::align_of::<ibv_qp_init_attr_ex>() - 8usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::qp_context",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, qp_context) - 0usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::send_cq",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, send_cq) - 8usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::recv_cq",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, recv_cq) - 16usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::srq",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, srq) - 24usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::cap",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, cap) - 32usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::qp_type",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, qp_type) - 52usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::sq_sig_all",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, sq_sig_all) - 56usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::comp_mask",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, comp_mask) - 60usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::pd",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, pd) - 64usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::xrcd",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, xrcd) - 72usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::create_flags",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, create_flags) - 80usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::max_tso_header",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, max_tso_header) - 84usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::rwq_ind_tbl",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, rwq_ind_tbl) - 88usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::rx_hash_conf",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, rx_hash_conf) - 96usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::source_qpn",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, source_qpn) - 120usize];
    [
        "Offset of field: ibv_qp_init_attr_ex::send_ops_flags",
    ][::std::mem::offset_of!(ibv_qp_init_attr_ex, send_ops_flags) - 128usize];
};
pub const IBV_QP_OPEN_ATTR_NUM: ibv_qp_open_attr_mask = 1;
pub const IBV_QP_OPEN_ATTR_XRCD: ibv_qp_open_attr_mask = 2;
pub const IBV_QP_OPEN_ATTR_CONTEXT: ibv_qp_open_attr_mask = 4;
pub const IBV_QP_OPEN_ATTR_TYPE: ibv_qp_open_attr_mask = 8;
pub const IBV_QP_OPEN_ATTR_RESERVED: ibv_qp_open_attr_mask = 16;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_qp_open_attr"][::std::mem::size_of::<ibv_qp_open_attr>() - 32usize];
    [
        "Alignment of ibv_qp_open_attr",
    ][::std::mem::align_of::<ibv_qp_open_attr>() - 8usize];
    [
        "Offset of field: ibv_qp_open_attr::comp_mask",
    ][::std::mem::offset_of!(ibv_qp_open_attr, comp_mask) - 0usize];
    [
        "Offset of field: ibv_qp_open_attr::qp_num",
    ][::std::mem::offset_of!(ibv_qp_open_attr, qp_num) - 4usize];
    [
        "Offset of field: ibv_qp_open_attr::xrcd",
    ][::std::mem::offset_of!(ibv_qp_open_attr, xrcd) - 8usize];
    [
        "Offset of field: ibv_qp_open_attr::qp_context",
    ][::std::mem::offset_of!(ibv_qp_open_attr, qp_context) - 16usize];
    [
        "Offset of field: ibv_qp_open_attr::qp_type",
    ][::std::mem::offset_of!(ibv_qp_open_attr, qp_type) - 24usize];
};
pub const IBV_QP_STATE: ibv_qp_attr_mask = 1;
pub const IBV_QP_CUR_STATE: ibv_qp_attr_mask = 2;
pub const IBV_QP_EN_SQD_ASYNC_NOTIFY: ibv_qp_attr_mask = 4;
pub const IBV_QP_ACCESS_FLAGS: ibv_qp_attr_mask = 8;
pub const IBV_QP_PKEY_INDEX: ibv_qp_attr_mask = 16;
pub const IBV_QP_PORT: ibv_qp_attr_mask = 32;
pub const IBV_QP_QKEY: ibv_qp_attr_mask = 64;
pub const IBV_QP_AV: ibv_qp_attr_mask = 128;
pub const IBV_QP_PATH_MTU: ibv_qp_attr_mask = 256;
pub const IBV_QP_TIMEOUT: ibv_qp_attr_mask = 512;
pub const IBV_QP_RETRY_CNT: ibv_qp_attr_mask = 1024;
pub const IBV_QP_RNR_RETRY: ibv_qp_attr_mask = 2048;
pub const IBV_QP_RQ_PSN: ibv_qp_attr_mask = 4096;
pub const IBV_QP_MAX_QP_RD_ATOMIC: ibv_qp_attr_mask = 8192;
pub const IBV_QP_ALT_PATH: ibv_qp_attr_mask = 16384;
pub const IBV_QP_MIN_RNR_TIMER: ibv_qp_attr_mask = 32768;
pub const IBV_QP_SQ_PSN: ibv_qp_attr_mask = 65536;
pub const IBV_QP_MAX_DEST_RD_ATOMIC: ibv_qp_attr_mask = 131072;
pub const IBV_QP_PATH_MIG_STATE: ibv_qp_attr_mask = 262144;
pub const IBV_QP_CAP: ibv_qp_attr_mask = 524288;
pub const IBV_QP_DEST_QPN: ibv_qp_attr_mask = 1048576;
pub const IBV_QP_RATE_LIMIT: ibv_qp_attr_mask = 33554432;
pub const IBV_QPS_RESET: ibv_qp_state = 0;
pub const IBV_QPS_INIT: ibv_qp_state = 1;
pub const IBV_QPS_RTR: ibv_qp_state = 2;
pub const IBV_QPS_RTS: ibv_qp_state = 3;
pub const IBV_QPS_SQD: ibv_qp_state = 4;
pub const IBV_QPS_SQE: ibv_qp_state = 5;
pub const IBV_QPS_ERR: ibv_qp_state = 6;
pub const IBV_QPS_UNKNOWN: ibv_qp_state = 7;
pub const IBV_MIG_MIGRATED: ibv_mig_state = 0;
pub const IBV_MIG_REARM: ibv_mig_state = 1;
pub const IBV_MIG_ARMED: ibv_mig_state = 2;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_qp_attr"][::std::mem::size_of::<ibv_qp_attr>() - 144usize];
    ["Alignment of ibv_qp_attr"][::std::mem::align_of::<ibv_qp_attr>() - 8usize];
    [
        "Offset of field: ibv_qp_attr::qp_state",
    ][::std::mem::offset_of!(ibv_qp_attr, qp_state) - 0usize];
    [
        "Offset of field: ibv_qp_attr::cur_qp_state",
    ][::std::mem::offset_of!(ibv_qp_attr, cur_qp_state) - 4usize];
    [
        "Offset of field: ibv_qp_attr::path_mtu",
    ][::std::mem::offset_of!(ibv_qp_attr, path_mtu) - 8usize];
    [
        "Offset of field: ibv_qp_attr::path_mig_state",
    ][::std::mem::offset_of!(ibv_qp_attr, path_mig_state) - 12usize];
    [
        "Offset of field: ibv_qp_attr::qkey",
    ][::std::mem::offset_of!(ibv_qp_attr, qkey) - 16usize];
    [
        "Offset of field: ibv_qp_attr::rq_psn",
    ][::std::mem::offset_of!(ibv_qp_attr, rq_psn) - 20usize];
    [
        "Offset of field: ibv_qp_attr::sq_psn",
    ][::std::mem::offset_of!(ibv_qp_attr, sq_psn) - 24usize];
    [
        "Offset of field: ibv_qp_attr::dest_qp_num",
    ][::std::mem::offset_of!(ibv_qp_attr, dest_qp_num) - 28usize];
    [
        "Offset of field: ibv_qp_attr::qp_access_flags",
    ][::std::mem::offset_of!(ibv_qp_attr, qp_access_flags) - 32usize];
    [
        "Offset of field: ibv_qp_attr::cap",
    ][::std::mem::offset_of!(ibv_qp_attr, cap) - 36usize];
    [
        "Offset of field: ibv_qp_attr::ah_attr",
    ][::std::mem::offset_of!(ibv_qp_attr, ah_attr) - 56usize];
    [
        "Offset of field: ibv_qp_attr::alt_ah_attr",
    ][::std::mem::offset_of!(ibv_qp_attr, alt_ah_attr) - 88usize];
    [
        "Offset of field: ibv_qp_attr::pkey_index",
    ][::std::mem::offset_of!(ibv_qp_attr, pkey_index) - 120usize];
    [
        "Offset of field: ibv_qp_attr::alt_pkey_index",
    ][::std::mem::offset_of!(ibv_qp_attr, alt_pkey_index) - 122usize];
    [
        "Offset of field: ibv_qp_attr::en_sqd_async_notify",
    ][::std::mem::offset_of!(ibv_qp_attr, en_sqd_async_notify) - 124usize];
    [
        "Offset of field: ibv_qp_attr::sq_draining",
    ][::std::mem::offset_of!(ibv_qp_attr, sq_draining) - 125usize];
    [
        "Offset of field: ibv_qp_attr::max_rd_atomic",
    ][::std::mem::offset_of!(ibv_qp_attr, max_rd_atomic) - 126usize];
    [
        "Offset of field: ibv_qp_attr::max_dest_rd_atomic",
    ][::std::mem::offset_of!(ibv_qp_attr, max_dest_rd_atomic) - 127usize];
    [
        "Offset of field: ibv_qp_attr::min_rnr_timer",
    ][::std::mem::offset_of!(ibv_qp_attr, min_rnr_timer) - 128usize];
    [
        "Offset of field: ibv_qp_attr::port_num",
    ][::std::mem::offset_of!(ibv_qp_attr, port_num) - 129usize];
    [
        "Offset of field: ibv_qp_attr::timeout",
    ][::std::mem::offset_of!(ibv_qp_attr, timeout) - 130usize];
    [
        "Offset of field: ibv_qp_attr::retry_cnt",
    ][::std::mem::offset_of!(ibv_qp_attr, retry_cnt) - 131usize];
    [
        "Offset of field: ibv_qp_attr::rnr_retry",
    ][::std::mem::offset_of!(ibv_qp_attr, rnr_retry) - 132usize];
    [
        "Offset of field: ibv_qp_attr::alt_port_num",
    ][::std::mem::offset_of!(ibv_qp_attr, alt_port_num) - 133usize];
    [
        "Offset of field: ibv_qp_attr::alt_timeout",
    ][::std::mem::offset_of!(ibv_qp_attr, alt_timeout) - 134usize];
    [
        "Offset of field: ibv_qp_attr::rate_limit",
    ][::std::mem::offset_of!(ibv_qp_attr, rate_limit) - 136usize];
};
pub const IBV_WR_RDMA_WRITE: ibv_wr_opcode = 0;
pub const IBV_WR_RDMA_WRITE_WITH_IMM: ibv_wr_opcode = 1;
pub const IBV_WR_SEND: ibv_wr_opcode = 2;
pub const IBV_WR_SEND_WITH_IMM: ibv_wr_opcode = 3;
pub const IBV_WR_RDMA_READ: ibv_wr_opcode = 4;
pub const IBV_WR_ATOMIC_CMP_AND_SWP: ibv_wr_opcode = 5;
pub const IBV_WR_ATOMIC_FETCH_AND_ADD: ibv_wr_opcode = 6;
pub const IBV_WR_LOCAL_INV: ibv_wr_opcode = 7;
pub const IBV_WR_BIND_MW: ibv_wr_opcode = 8;
pub const IBV_WR_SEND_WITH_INV: ibv_wr_opcode = 9;
pub const IBV_WR_TSO: ibv_wr_opcode = 10;
pub const IBV_WR_DRIVER1: ibv_wr_opcode = 11;
pub const IBV_WR_ATOMIC_WRITE: ibv_wr_opcode = 15;
pub const IBV_SEND_FENCE: ibv_send_flags = 1;
pub const IBV_SEND_SIGNALED: ibv_send_flags = 2;
pub const IBV_SEND_SOLICITED: ibv_send_flags = 4;
pub const IBV_SEND_INLINE: ibv_send_flags = 8;
pub const IBV_SEND_IP_CSUM: ibv_send_flags = 16;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_sge"][::std::mem::size_of::<ibv_sge>() - 16usize];
    ["Alignment of ibv_sge"][::std::mem::align_of::<ibv_sge>() - 8usize];
    ["Offset of field: ibv_sge::addr"][::std::mem::offset_of!(ibv_sge, addr) - 0usize];
    [
        "Offset of field: ibv_sge::length",
    ][::std::mem::offset_of!(ibv_sge, length) - 8usize];
    ["Offset of field: ibv_sge::lkey"][::std::mem::offset_of!(ibv_sge, lkey) - 12usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_1",
    ][::std::mem::size_of::<ibv_send_wr__bindgen_ty_1>() - 4usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_1",
    ][::std::mem::align_of::<ibv_send_wr__bindgen_ty_1>() - 4usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_1::imm_data",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_1, imm_data) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_1::invalidate_rkey",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_1, invalidate_rkey) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_2__bindgen_ty_1",
    ][::std::mem::size_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_1>() - 16usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_2__bindgen_ty_1",
    ][::std::mem::align_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_1::remote_addr",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_1, remote_addr)
        - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_1::rkey",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_1, rkey) - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_2__bindgen_ty_2",
    ][::std::mem::size_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_2>() - 32usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_2__bindgen_ty_2",
    ][::std::mem::align_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_2>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_2::remote_addr",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_2, remote_addr)
        - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_2::compare_add",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_2, compare_add)
        - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_2::swap",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_2, swap) - 16usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_2::rkey",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_2, rkey) - 24usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_2__bindgen_ty_3",
    ][::std::mem::size_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_3>() - 16usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_2__bindgen_ty_3",
    ][::std::mem::align_of::<ibv_send_wr__bindgen_ty_2__bindgen_ty_3>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_3::ah",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_3, ah) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_3::remote_qpn",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_3, remote_qpn)
        - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2__bindgen_ty_3::remote_qkey",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2__bindgen_ty_3, remote_qkey)
        - 12usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_2",
    ][::std::mem::size_of::<ibv_send_wr__bindgen_ty_2>() - 32usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_2",
    ][::std::mem::align_of::<ibv_send_wr__bindgen_ty_2>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2::rdma",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2, rdma) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2::atomic",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2, atomic) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_2::ud",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_2, ud) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_3__bindgen_ty_1",
    ][::std::mem::size_of::<ibv_send_wr__bindgen_ty_3__bindgen_ty_1>() - 4usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_3__bindgen_ty_1",
    ][::std::mem::align_of::<ibv_send_wr__bindgen_ty_3__bindgen_ty_1>() - 4usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_3__bindgen_ty_1::remote_srqn",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_3__bindgen_ty_1, remote_srqn)
        - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_3",
    ][::std::mem::size_of::<ibv_send_wr__bindgen_ty_3>() - 4usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_3",
    ][::std::mem::align_of::<ibv_send_wr__bindgen_ty_3>() - 4usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_3::xrc",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_3, xrc) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_4__bindgen_ty_1",
    ][::std::mem::size_of::<ibv_send_wr__bindgen_ty_4__bindgen_ty_1>() - 48usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_4__bindgen_ty_1",
    ][::std::mem::align_of::<ibv_send_wr__bindgen_ty_4__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_1::mw",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_1, mw) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_1::rkey",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_1, rkey) - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_1::bind_info",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_1, bind_info)
        - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_4__bindgen_ty_2",
    ][::std::mem::size_of::<ibv_send_wr__bindgen_ty_4__bindgen_ty_2>() - 16usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_4__bindgen_ty_2",
    ][::std::mem::align_of::<ibv_send_wr__bindgen_ty_4__bindgen_ty_2>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_2::hdr",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_2, hdr) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_2::hdr_sz",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_2, hdr_sz) - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4__bindgen_ty_2::mss",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_4__bindgen_ty_2, mss) - 10usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    [
        "Size of ibv_send_wr__bindgen_ty_4",
    ][::std::mem::size_of::<ibv_send_wr__bindgen_ty_4>() - 48usize];
    [
        "Alignment of ibv_send_wr__bindgen_ty_4",
    ][::std::mem::align_of::<ibv_send_wr__bindgen_ty_4>() - 8usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4::bind_mw",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_4, bind_mw) - 0usize];
    [
        "Offset of field: ibv_send_wr__bindgen_ty_4::tso",
    ][::std::mem::offset_of!(ibv_send_wr__bindgen_ty_4, tso) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_send_wr"][::std::mem::size_of::<ibv_send_wr>() - 128usize];
    ["Alignment of ibv_send_wr"][::std::mem::align_of::<ibv_send_wr>() - 8usize];
    [
        "Offset of field: ibv_send_wr::wr_id",
    ][::std::mem::offset_of!(ibv_send_wr, wr_id) - 0usize];
    [
        "Offset of field: ibv_send_wr::next",
    ][::std::mem::offset_of!(ibv_send_wr, next) - 8usize];
    [
        "Offset of field: ibv_send_wr::sg_list",
    ][::std::mem::offset_of!(ibv_send_wr, sg_list) - 16usize];
    [
        "Offset of field: ibv_send_wr::num_sge",
    ][::std::mem::offset_of!(ibv_send_wr, num_sge) - 24usize];
    [
        "Offset of field: ibv_send_wr::opcode",
    ][::std::mem::offset_of!(ibv_send_wr, opcode) - 28usize];
    [
        "Offset of field: ibv_send_wr::send_flags",
    ][::std::mem::offset_of!(ibv_send_wr, send_flags) - 32usize];
    [
        "Offset of field: ibv_send_wr::wr",
    ][::std::mem::offset_of!(ibv_send_wr, wr) - 40usize];
    [
        "Offset of field: ibv_send_wr::qp_type",
    ][::std::mem::offset_of!(ibv_send_wr, qp_type) - 72usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_recv_wr"][::std::mem::size_of::<ibv_recv_wr>() - 32usize];
    ["Alignment of ibv_recv_wr"][::std::mem::align_of::<ibv_recv_wr>() - 8usize];
    [
        "Offset of field: ibv_recv_wr::wr_id",
    ][::std::mem::offset_of!(ibv_recv_wr, wr_id) - 0usize];
    [
        "Offset of field: ibv_recv_wr::next",
    ][::std::mem::offset_of!(ibv_recv_wr, next) - 8usize];
    [
        "Offset of field: ibv_recv_wr::sg_list",
    ][::std::mem::offset_of!(ibv_recv_wr, sg_list) - 16usize];
    [
        "Offset of field: ibv_recv_wr::num_sge",
    ][::std::mem::offset_of!(ibv_recv_wr, num_sge) - 24usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_mw_bind"][::std::mem::size_of::<ibv_mw_bind>() - 48usize];
    ["Alignment of ibv_mw_bind"][::std::mem::align_of::<ibv_mw_bind>() - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_srq"][::std::mem::size_of::<ibv_srq>() - 128usize];
    ["Alignment of ibv_srq"][::std::mem::align_of::<ibv_srq>() - 8usize];
    [
        "Offset of field: ibv_srq::context",
    ][::std::mem::offset_of!(ibv_srq, context) - 0usize];
    [
        "Offset of field: ibv_srq::srq_context",
    ][::std::mem::offset_of!(ibv_srq, srq_context) - 8usize];
    ["Offset of field: ibv_srq::pd"][::std::mem::offset_of!(ibv_srq, pd) - 16usize];
    [
        "Offset of field: ibv_srq::handle",
    ][::std::mem::offset_of!(ibv_srq, handle) - 24usize];
    [
        "Offset of field: ibv_srq::mutex",
    ][::std::mem::offset_of!(ibv_srq, mutex) - 32usize];
    ["Offset of field: ibv_srq::cond"][::std::mem::offset_of!(ibv_srq, cond) - 72usize];
    [
        "Offset of field: ibv_srq::events_completed",
    ][::std::mem::offset_of!(ibv_srq, events_completed) - 120usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_qp"][::std::mem::size_of::<ibv_qp>() - 160usize];
    ["Alignment of ibv_qp"][::std::mem::align_of::<ibv_qp>() - 8usize];
    [
        "Offset of field: ibv_qp::context",
    ][::std::mem::offset_of!(ibv_qp, context) - 0usize];
    [
        "Offset of field: ibv_qp::qp_context",
    ][::std::mem::offset_of!(ibv_qp, qp_context) - 8usize];
    ["Offset of field: ibv_qp::pd"][::std::mem::offset_of!(ibv_qp, pd) - 16usize];
    [
        "Offset of field: ibv_qp::send_cq",
    ][::std::mem::offset_of!(ibv_qp, send_cq) - 24usize];
    [
        "Offset of field: ibv_qp::recv_cq",
    ][::std::mem::offset_of!(ibv_qp, recv_cq) - 32usize];
    ["Offset of field: ibv_qp::srq"][::std::mem::offset_of!(ibv_qp, srq) - 40usize];
    [
        "Offset of field: ibv_qp::handle",
    ][::std::mem::offset_of!(ibv_qp, handle) - 48usize];
    [
        "Offset of field: ibv_qp::qp_num",
    ][::std::mem::offset_of!(ibv_qp, qp_num) - 52usize];
    ["Offset of field: ibv_qp::state"][::std::mem::offset_of!(ibv_qp, state) - 56usize];
    [
        "Offset of field: ibv_qp::qp_type",
    ][::std::mem::offset_of!(ibv_qp, qp_type) - 60usize];
    ["Offset of field: ibv_qp::mutex"][::std::mem::offset_of!(ibv_qp, mutex) - 64usize];
    ["Offset of field: ibv_qp::cond"][::std::mem::offset_of!(ibv_qp, cond) - 104usize];
    [
        "Offset of field: ibv_qp::events_completed",
    ][::std::mem::offset_of!(ibv_qp, events_completed) - 152usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_comp_channel"][::std::mem::size_of::<ibv_comp_channel>() - 16usize];
    [
        "Alignment of ibv_comp_channel",
    ][::std::mem::align_of::<ibv_comp_channel>() - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_cq"][::std::mem::size_of::<ibv_cq>() - 128usize];
    ["Alignment of ibv_cq"][::std::mem::align_of::<ibv_cq>() - 8usize];
    [
        "Offset of field: ibv_cq::context",
    ][::std::mem::offset_of!(ibv_cq, context) - 0usize];
    [
        "Offset of field: ibv_cq::channel",
    ][::std::mem::offset_of!(ibv_cq, channel) - 8usize];
    [
        "Offset of field: ibv_cq::cq_context",
    ][::std::mem::offset_of!(ibv_cq, cq_context) - 16usize];
    [
        "Offset of field: ibv_cq::handle",
    ][::std::mem::offset_of!(ibv_cq, handle) - 24usize];
    ["Offset of field: ibv_cq::cqe"][::std::mem::offset_of!(ibv_cq, cqe) - 28usize];
    ["Offset of field: ibv_cq::mutex"][::std::mem::offset_of!(ibv_cq, mutex) - 32usize];
    ["Offset of field: ibv_cq::cond"][::std::mem::offset_of!(ibv_cq, cond) - 72usize];
    [
        "Offset of field: ibv_cq::comp_events_completed",
    ][::std::mem::offset_of!(ibv_cq, comp_events_completed) - 120usize];
    [
        "Offset of field: ibv_cq::async_events_completed",
    ][::std::mem::offset_of!(ibv_cq, async_events_completed) - 124usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_ah"][::std::mem::size_of::<ibv_ah>() - 24usize];
    ["Alignment of ibv_ah"][::std::mem::align_of::<ibv_ah>() - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of _ibv_device_ops"][::std::mem::size_of::<_ibv_device_ops>() - 16usize];
    ["Alignment of _ibv_device_ops"][::std::mem::align_of::<_ibv_device_ops>() - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_device"][::std::mem::size_of::<ibv_device>() - 664usize];
    ["Alignment of ibv_device"][::std::mem::align_of::<ibv_device>() - 8usize];
    [
        "Offset of field: ibv_device::_ops",
    ][::std::mem::offset_of!(ibv_device, _ops) - 0usize];
    [
        "Offset of field: ibv_device::node_type",
    ][::std::mem::offset_of!(ibv_device, node_type) - 16usize];
    [
        "Offset of field: ibv_device::transport_type",
    ][::std::mem::offset_of!(ibv_device, transport_type) - 20usize];
    [
        "Offset of field: ibv_device::name",
    ][::std::mem::offset_of!(ibv_device, name) - 24usize];
    [
        "Offset of field: ibv_device::dev_name",
    ][::std::mem::offset_of!(ibv_device, dev_name) - 88usize];
    [
        "Offset of field: ibv_device::dev_path",
    ][::std::mem::offset_of!(ibv_device, dev_path) - 152usize];
    [
        "Offset of field: ibv_device::ibdev_path",
    ][::std::mem::offset_of!(ibv_device, ibdev_path) - 408usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_context_ops"][::std::mem::size_of::<ibv_context_ops>() - 256usize];
    ["Alignment of ibv_context_ops"][::std::mem::align_of::<ibv_context_ops>() - 8usize];
    [
        "Offset of field: ibv_context_ops::_compat_query_device",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_query_device) - 0usize];
    [
        "Offset of field: ibv_context_ops::_compat_query_port",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_query_port) - 8usize];
    [
        "Offset of field: ibv_context_ops::_compat_alloc_pd",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_alloc_pd) - 16usize];
    [
        "Offset of field: ibv_context_ops::_compat_dealloc_pd",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_dealloc_pd) - 24usize];
    [
        "Offset of field: ibv_context_ops::_compat_reg_mr",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_reg_mr) - 32usize];
    [
        "Offset of field: ibv_context_ops::_compat_rereg_mr",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_rereg_mr) - 40usize];
    [
        "Offset of field: ibv_context_ops::_compat_dereg_mr",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_dereg_mr) - 48usize];
    [
        "Offset of field: ibv_context_ops::alloc_mw",
    ][::std::mem::offset_of!(ibv_context_ops, alloc_mw) - 56usize];
    [
        "Offset of field: ibv_context_ops::bind_mw",
    ][::std::mem::offset_of!(ibv_context_ops, bind_mw) - 64usize];
    [
        "Offset of field: ibv_context_ops::dealloc_mw",
    ][::std::mem::offset_of!(ibv_context_ops, dealloc_mw) - 72usize];
    [
        "Offset of field: ibv_context_ops::_compat_create_cq",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_create_cq) - 80usize];
    [
        "Offset of field: ibv_context_ops::poll_cq",
    ][::std::mem::offset_of!(ibv_context_ops, poll_cq) - 88usize];
    [
        "Offset of field: ibv_context_ops::req_notify_cq",
    ][::std::mem::offset_of!(ibv_context_ops, req_notify_cq) - 96usize];
    [
        "Offset of field: ibv_context_ops::_compat_cq_event",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_cq_event) - 104usize];
    [
        "Offset of field: ibv_context_ops::_compat_resize_cq",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_resize_cq) - 112usize];
    [
        "Offset of field: ibv_context_ops::_compat_destroy_cq",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_destroy_cq) - 120usize];
    [
        "Offset of field: ibv_context_ops::_compat_create_srq",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_create_srq) - 128usize];
    [
        "Offset of field: ibv_context_ops::_compat_modify_srq",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_modify_srq) - 136usize];
    [
        "Offset of field: ibv_context_ops::_compat_query_srq",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_query_srq) - 144usize];
    [
        "Offset of field: ibv_context_ops::_compat_destroy_srq",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_destroy_srq) - 152usize];
    [
        "Offset of field: ibv_context_ops::post_srq_recv",
    ][::std::mem::offset_of!(ibv_context_ops, post_srq_recv) - 160usize];
    [
        "Offset of field: ibv_context_ops::_compat_create_qp",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_create_qp) - 168usize];
    [
        "Offset of field: ibv_context_ops::_compat_query_qp",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_query_qp) - 176usize];
    [
        "Offset of field: ibv_context_ops::_compat_modify_qp",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_modify_qp) - 184usize];
    [
        "Offset of field: ibv_context_ops::_compat_destroy_qp",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_destroy_qp) - 192usize];
    [
        "Offset of field: ibv_context_ops::post_send",
    ][::std::mem::offset_of!(ibv_context_ops, post_send) - 200usize];
    [
        "Offset of field: ibv_context_ops::post_recv",
    ][::std::mem::offset_of!(ibv_context_ops, post_recv) - 208usize];
    [
        "Offset of field: ibv_context_ops::_compat_create_ah",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_create_ah) - 216usize];
    [
        "Offset of field: ibv_context_ops::_compat_destroy_ah",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_destroy_ah) - 224usize];
    [
        "Offset of field: ibv_context_ops::_compat_attach_mcast",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_attach_mcast) - 232usize];
    [
        "Offset of field: ibv_context_ops::_compat_detach_mcast",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_detach_mcast) - 240usize];
    [
        "Offset of field: ibv_context_ops::_compat_async_event",
    ][::std::mem::offset_of!(ibv_context_ops, _compat_async_event) - 248usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
#[cfg(target_arch = "x86_64")]
const _: () = {
    ["Size of ibv_context"][::std::mem::size_of::<ibv_context>() - 328usize];
    ["Alignment of ibv_context"][::std::mem::align_of::<ibv_context>() - 8usize];
    [
        "Offset of field: ibv_context::device",
    ][::std::mem::offset_of!(ibv_context, device) - 0usize];
    [
        "Offset of field: ibv_context::ops",
    ][::std::mem::offset_of!(ibv_context, ops) - 8usize];
    [
        "Offset of field: ibv_context::cmd_fd",
    ][::std::mem::offset_of!(ibv_context, cmd_fd) - 264usize];
    [
        "Offset of field: ibv_context::async_fd",
    ][::std::mem::offset_of!(ibv_context, async_fd) - 268usize];
    [
        "Offset of field: ibv_context::num_comp_vectors",
    ][::std::mem::offset_of!(ibv_context, num_comp_vectors) - 272usize];
    [
        "Offset of field: ibv_context::mutex",
    ][::std::mem::offset_of!(ibv_context, mutex) - 280usize];
    [
        "Offset of field: ibv_context::abi_compat",
    ][::std::mem::offset_of!(ibv_context, abi_compat) - 320usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_gid {
    pub raw: [u8; 16usize],
    pub global: ibv_gid__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_wc__bindgen_ty_1 {
    pub imm_data: __be32,
    pub invalidated_rkey: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_1 {
    pub imm_data: __be32,
    pub invalidate_rkey: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_2 {
    pub rdma: ibv_send_wr__bindgen_ty_2__bindgen_ty_1,
    pub atomic: ibv_send_wr__bindgen_ty_2__bindgen_ty_2,
    pub ud: ibv_send_wr__bindgen_ty_2__bindgen_ty_3,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_3 {
    pub xrc: ibv_send_wr__bindgen_ty_3__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union ibv_send_wr__bindgen_ty_4 {
    pub bind_mw: ibv_send_wr__bindgen_ty_4__bindgen_ty_1,
    pub tso: ibv_send_wr__bindgen_ty_4__bindgen_ty_2,
}
impl Default for ibv_gid {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_gid_entry {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_device_attr {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_port_attr {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_wc__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_wc {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_pd {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_xrcd {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_mr {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_global_route {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_ah_attr {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_srq_init_attr_ex {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_rwq_ind_table {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_qp_init_attr {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_rx_hash_conf {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_qp_init_attr_ex {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_qp_open_attr {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_qp_attr {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_send_wr__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_send_wr__bindgen_ty_2 {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_send_wr__bindgen_ty_3 {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_send_wr__bindgen_ty_4__bindgen_ty_2 {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_send_wr__bindgen_ty_4 {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_send_wr {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_recv_wr {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_srq {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_qp {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_cq {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_device {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for ibv_context {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
unsafe extern "C" {
    pub fn ibv_wc_status_str(status: ibv_wc_status) -> *const ::std::os::raw::c_char;
    pub fn ibv_get_device_list(
        num_devices: *mut ::std::os::raw::c_int,
    ) -> *mut *mut ibv_device;
    pub fn ibv_free_device_list(list: *mut *mut ibv_device);
    pub fn ibv_get_device_name(device: *mut ibv_device) -> *const ::std::os::raw::c_char;
    pub fn ibv_get_device_guid(device: *mut ibv_device) -> __be64;
    pub fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    pub fn ibv_close_device(context: *mut ibv_context) -> ::std::os::raw::c_int;
    pub fn ibv_query_device(
        context: *mut ibv_context,
        device_attr: *mut ibv_device_attr,
    ) -> ::std::os::raw::c_int;
    pub fn ibv_query_gid(
        context: *mut ibv_context,
        port_num: u8,
        index: ::std::os::raw::c_int,
        gid: *mut ibv_gid,
    ) -> ::std::os::raw::c_int;
    pub fn ibv_query_pkey(
        context: *mut ibv_context,
        port_num: u8,
        index: ::std::os::raw::c_int,
        pkey: *mut __be16,
    ) -> ::std::os::raw::c_int;
    pub fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    pub fn ibv_dealloc_pd(pd: *mut ibv_pd) -> ::std::os::raw::c_int;
    pub fn ibv_reg_mr(
        pd: *mut ibv_pd,
        addr: *mut ::std::os::raw::c_void,
        length: usize,
        access: ::std::os::raw::c_int,
    ) -> *mut ibv_mr;
    pub fn ibv_dereg_mr(mr: *mut ibv_mr) -> ::std::os::raw::c_int;
    pub fn ibv_create_cq(
        context: *mut ibv_context,
        cqe: ::std::os::raw::c_int,
        cq_context: *mut ::std::os::raw::c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: ::std::os::raw::c_int,
    ) -> *mut ibv_cq;
    pub fn ibv_destroy_cq(cq: *mut ibv_cq) -> ::std::os::raw::c_int;
    pub fn ibv_query_srq(
        srq: *mut ibv_srq,
        srq_attr: *mut ibv_srq_attr,
    ) -> ::std::os::raw::c_int;
    pub fn ibv_destroy_srq(srq: *mut ibv_srq) -> ::std::os::raw::c_int;
    pub fn ibv_modify_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        attr_mask: ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
    pub fn ibv_query_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        attr_mask: ::std::os::raw::c_int,
        init_attr: *mut ibv_qp_init_attr,
    ) -> ::std::os::raw::c_int;
    pub fn ibv_destroy_qp(qp: *mut ibv_qp) -> ::std::os::raw::c_int;
}

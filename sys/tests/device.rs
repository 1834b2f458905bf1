//! The shim's verbs on a device, and what the kernel says to arguments that the safe crate cannot even
//! write down. Ignored without a device; asked for without one, they fail.
//!
//! # Safety
//! One thread, straight down: every handle is used between its creation and the end of the process, which
//! takes all of them back.

use rdma_core_sys::*;
use std::{env, ffi::CStr, io, ptr};

struct Objects {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    xrcd: *mut ibv_xrcd,
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn made<T>(object: *mut T) -> Result<*mut T, i32> {
    if object.is_null() { Err(errno()) } else { Ok(object) }
}

fn objects() -> Objects {
    let wanted =
        env::var("RDMA_XRC_DEVICE").expect("RDMA_XRC_DEVICE is not set: this test needs an XRC device");
    let mut count = 0;
    // SAFETY: the count may be written.
    let list = made(unsafe { ibv_get_device_list(&raw mut count) }).expect("a device list");
    // SAFETY: the list has `count` entries.
    let devices = unsafe { std::slice::from_raw_parts(list, count as usize) };
    let named = devices.iter().find(|device| {
        // SAFETY: a device of the list.
        let name = unsafe { ibv_get_device_name(**device) };
        // SAFETY: its name is a string that lives as long as the list.
        unsafe { CStr::from_ptr(name) }.to_str() == Ok(&wanted)
    });
    let device = *named.unwrap_or_else(|| panic!("no device {wanted}"));
    // SAFETY: a device of the list.
    let context = made(unsafe { ibv_open_device(device) }).expect("a context");
    // SAFETY: an open context.
    let pd = made(unsafe { ibv_alloc_pd(context) }).expect("a PD");
    // SAFETY: an open context.
    let cq = made(unsafe { ibv_create_cq(context, 16, ptr::null_mut(), ptr::null_mut(), 0) }).expect("a CQ");
    let mut attr = ibv_xrcd_init_attr {
        comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
        fd: -1,
        oflags: libc::O_CREAT,
    };
    // SAFETY: an open context and valid attributes.
    let xrcd = made(unsafe { ibv_open_xrcd(context, &raw mut attr) }).expect("a domain");
    Objects { context, pd, cq, xrcd }
}

impl Objects {
    fn srq(&self, change: impl FnOnce(&mut ibv_srq_init_attr_ex)) -> Result<*mut ibv_srq, i32> {
        let mut attr = ibv_srq_init_attr_ex {
            comp_mask: IBV_SRQ_INIT_ATTR_TYPE
                | IBV_SRQ_INIT_ATTR_PD
                | IBV_SRQ_INIT_ATTR_XRCD
                | IBV_SRQ_INIT_ATTR_CQ,
            srq_type: IBV_SRQT_XRC,
            pd: self.pd,
            xrcd: self.xrcd,
            cq: self.cq,
            ..Default::default()
        };
        attr.attr.max_wr = 4;
        attr.attr.max_sge = 1;
        change(&mut attr);
        // SAFETY: an open context and attributes of live objects.
        made(unsafe { ibv_create_srq_ex(self.context, &raw mut attr) })
    }

    fn initiator(&self, change: impl FnOnce(&mut ibv_qp_init_attr_ex)) -> Result<*mut ibv_qp, i32> {
        let mut attr = ibv_qp_init_attr_ex {
            qp_type: IBV_QPT_XRC_SEND,
            comp_mask: IBV_QP_INIT_ATTR_PD,
            pd: self.pd,
            send_cq: self.cq,
            ..Default::default()
        };
        attr.cap.max_send_wr = 4;
        attr.cap.max_send_sge = 1;
        change(&mut attr);
        // SAFETY: an open context and attributes of live objects.
        made(unsafe { ibv_create_qp_ex(self.context, &raw mut attr) })
    }

    fn target(&self) -> *mut ibv_qp {
        let mut attr = ibv_qp_init_attr_ex {
            qp_type: IBV_QPT_XRC_RECV,
            comp_mask: IBV_QP_INIT_ATTR_XRCD,
            xrcd: self.xrcd,
            ..Default::default()
        };
        // SAFETY: an open context and attributes of live objects.
        made(unsafe { ibv_create_qp_ex(self.context, &raw mut attr) }).expect("a target")
    }

    fn lid(&self) -> u16 {
        let mut port = ibv_port_attr::default();
        // SAFETY: an open context, and the structure may be written.
        assert_eq!(unsafe { ibv_query_port(self.context, 1, &raw mut port) }, 0);
        port.lid
    }

    /// Modifies a QP with values that suit any transition, and the attributes of `mask`.
    fn modify(&self, qp: *mut ibv_qp, state: u32, mask: u32) -> i32 {
        let mut attr = ibv_qp_attr {
            qp_state: state,
            port_num: 1,
            path_mtu: IBV_MTU_256,
            dest_qp_num: 5,
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 12,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            ..Default::default()
        };
        attr.ah_attr.port_num = 1;
        attr.ah_attr.dlid = self.lid();
        // SAFETY: a live QP and valid attributes.
        unsafe { ibv_modify_qp(qp, &raw mut attr, (mask | IBV_QP_STATE) as i32) }
    }
}

const INIT: u32 = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
const RTR: u32 = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const RESPONDER: u32 = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
const REQUESTER: u32 = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
const RTS: u32 = IBV_QP_TIMEOUT | IBV_QP_SQ_PSN;

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_01_a_full_rc_mask_passes_for_an_initiator() {
    let objects = objects();
    let qp = objects.initiator(|_| {}).expect("an initiator");
    assert_eq!(objects.modify(qp, IBV_QPS_INIT, INIT), 0);
    assert_eq!(objects.modify(qp, IBV_QPS_RTR, RTR | RESPONDER), 0, "what an initiator has not is dropped");
    assert_eq!(objects.modify(qp, IBV_QPS_RTS, RTS), libc::EINVAL, "a requester's attributes are missing");
    assert_eq!(objects.modify(qp, IBV_QPS_RTS, RTS | REQUESTER | IBV_QP_QKEY), libc::EINVAL);
    assert_eq!(objects.modify(qp, IBV_QPS_RTS, RTS | REQUESTER), 0);
}

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_06_an_initiator_that_receives_is_refused() {
    let objects = objects();
    assert_eq!(objects.initiator(|attr| attr.cap.max_recv_wr = 1), Err(libc::EINVAL));
    let srq = objects.srq(|_| {}).expect("an SRQ");
    let with_srq = objects.initiator(|attr| attr.srq = srq);
    println!("an initiator with an SRQ: {with_srq:?}");
    assert_eq!(with_srq, Err(libc::EINVAL));
}

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_07_an_xrc_srq_without_a_part_is_refused() {
    let objects = objects();
    for part in [IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_INIT_ATTR_PD] {
        assert_eq!(objects.srq(|attr| attr.comp_mask &= !part), Err(libc::EINVAL), "without {part:#x}");
    }
    let srq = objects.srq(|_| {}).expect("with all three");
    let mut number = 0;
    // SAFETY: a live SRQ, and the number may be written.
    assert_eq!(unsafe { ibv_get_srq_num(srq, &raw mut number) }, 0);
    assert!(number < 1 << 24);
    // SAFETY: a live domain; the SRQ in it keeps it open.
    assert_eq!(unsafe { ibv_close_xrcd(objects.xrcd) }, libc::EBUSY);
}

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_08_a_target_without_an_attribute_is_refused() {
    let objects = objects();
    let qp = objects.target();
    assert_eq!(objects.modify(qp, IBV_QPS_INIT, INIT), 0);
    for missing in [IBV_QP_MIN_RNR_TIMER, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_DEST_QPN] {
        assert_eq!(
            objects.modify(qp, IBV_QPS_RTR, (RTR | RESPONDER) & !missing),
            libc::EINVAL,
            "{missing:#x}"
        );
    }
    assert_eq!(objects.modify(qp, IBV_QPS_RTR, RTR | RESPONDER), 0);
    for missing in [IBV_QP_TIMEOUT, IBV_QP_SQ_PSN] {
        assert_eq!(objects.modify(qp, IBV_QPS_RTS, RTS & !missing), libc::EINVAL, "{missing:#x}");
    }
    assert_eq!(objects.modify(qp, IBV_QPS_RTS, RTS | REQUESTER), 0, "what a target has not is dropped");
}

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn an_opened_target_is_destroyed_by_the_kernel_in_either_form() {
    let objects = objects();
    let target = objects.target();
    // SAFETY: a live QP.
    let number = unsafe { (*target).qp_num };
    let open = || {
        let mut attr = ibv_qp_open_attr {
            comp_mask: IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
            qp_num: number,
            xrcd: objects.xrcd,
            qp_type: IBV_QPT_XRC_RECV,
            ..Default::default()
        };
        // SAFETY: an open context and attributes of a live domain.
        let qp = made(unsafe { ibv_open_qp(objects.context, &raw mut attr) }).expect("the target is opened");
        // SAFETY: a live QP.
        unsafe { (*qp).handle }
    };
    let ioctl = |handle, driver_id| {
        // SAFETY: an open context and a handle that nothing else destroys.
        unsafe { uverbs_destroy_qp_ioctl(objects.context, handle, driver_id) }
    };
    let driver = format!("/sys/class/infiniband/{}/device/driver", env::var("RDMA_XRC_DEVICE").expect("set"));
    let driver = std::fs::read_link(&driver).expect("sysfs says which driver it is");
    let handle = open();
    let handle = if driver.to_string_lossy().contains("/mlx5_core") {
        assert_eq!(ioctl(handle, RDMA_DRIVER_MLX5 + 1), libc::EINVAL, "of another driver");
        assert_eq!(ioctl(handle, RDMA_DRIVER_MLX5), 0);
        assert_eq!(ioctl(handle, RDMA_DRIVER_MLX5), libc::ENOENT, "the handle is gone");
        open()
    } else {
        assert_eq!(ioctl(handle, RDMA_DRIVER_MLX5), libc::EINVAL, "this is no mlx5: {driver:?}");
        handle
    };
    let write = || {
        // SAFETY: as above.
        unsafe { uverbs_destroy_qp_write(objects.context, handle) }
    };
    assert_eq!((write(), write()), (0, libc::ENOENT));
    // What others hold lives on.
    assert_eq!(objects.modify(target, IBV_QPS_INIT, INIT), 0);
}

/// How the safe crate asks whether a provider opens targets at all.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn opening_nothing_fails_without_a_reason() {
    let objects = objects();
    let mut nothing = ibv_qp_open_attr::default();
    // SAFETY: the location is valid for this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { errno.write(0) };
    // SAFETY: an open context and attributes that name nothing.
    assert_eq!(made(unsafe { ibv_open_qp(objects.context, &raw mut nothing) }), Err(0));
}

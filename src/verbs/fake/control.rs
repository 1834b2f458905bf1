//! The control verbs of the fake: create, query, modify, destroy.
//!
//! # Safety
//! As in the sys crate: pointers are of live objects that this fake made.

use super::{
    CRASHING, DEVICES, FILES, FakeContext, GUID, INLINE, LONGEST, Modified, Object, PLAIN, State, context,
    create, data_path, destroy, end, granted, inodes, lock, set_errno, zeroed,
};
use rdma_core_sys::*;
use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    fs::File,
    os::fd::AsRawFd,
    sync::{Arc, OnceLock},
};

/// The devices, made once and never freed.
fn device_pointers() -> &'static [usize; DEVICES.len()] {
    static POINTERS: OnceLock<[usize; DEVICES.len()]> = OnceLock::new();
    POINTERS.get_or_init(|| {
        DEVICES.map(|name| {
            let mut device = Box::new(zeroed::<ibv_device>());
            for (to, from) in device.name.iter_mut().zip(name.bytes()) {
                *to = from as c_char;
            }
            for (to, from) in device.dev_path.iter_mut().zip(format!("/verbs/{name}").bytes()) {
                *to = from as c_char;
            }
            Box::into_raw(device) as usize
        })
    })
}

pub(in crate::verbs) unsafe fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let mut list: Vec<*mut ibv_device> = device_pointers().iter().map(|&at| at as *mut _).collect();
    // SAFETY: the caller's count may be written.
    unsafe { count.write(list.len() as c_int) };
    list.push(std::ptr::null_mut());
    Box::into_raw(list.into_boxed_slice()).cast()
}

pub(in crate::verbs) unsafe fn ibv_free_device_list(list: *mut *mut ibv_device) {
    let slice = std::ptr::slice_from_raw_parts_mut(list, DEVICES.len() + 1);
    // SAFETY: made above, of this length.
    drop(unsafe { Box::from_raw(slice) });
}

pub(in crate::verbs) unsafe fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: the device is one of ours.
    unsafe { &raw const (*device).name }.cast()
}

pub(in crate::verbs) unsafe fn ibv_get_device_guid(_: *mut ibv_device) -> u64 {
    GUID.to_be()
}

pub(in crate::verbs) unsafe fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let at =
        device_pointers().iter().position(|&pointer| pointer == device as usize).expect("a device of ours");
    let mut base = zeroed::<ibv_context>();
    base.device = device;
    base.ops.post_send = Some(data_path::post_send);
    base.ops.post_srq_recv = Some(data_path::post_srq_recv);
    base.ops.poll_cq = Some(data_path::poll_cq);
    let file = File::open(FILES[at]).expect("a device that every machine has");
    base.cmd_fd = file.as_raw_fd();
    Box::into_raw(Box::new(FakeContext { base, device: at, state: Arc::default(), _file: file })).cast()
}

pub(in crate::verbs) unsafe fn ibv_close_device(ctx: *mut ibv_context) -> c_int {
    // SAFETY: a live context of ours.
    let state = Arc::clone(&unsafe { context(ctx) }.state);
    let mut state = lock(&state);
    assert!(state.objects.is_empty(), "the context is closed before what was made from it");
    state.destroyed.push("ibv_close_device");
    // SAFETY: made by ibv_open_device, closed once.
    drop(unsafe { Box::from_raw(ctx.cast::<FakeContext>()) });
    0
}

pub(in crate::verbs) unsafe fn ibv_query_device(ctx: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: a live context of ours.
    let plain = unsafe { context(ctx) }.device == PLAIN;
    let mut filled = ibv_device_attr {
        node_guid: GUID.to_be(),
        max_qp: 1024,
        max_mr: -1,
        phys_port_cnt: 1,
        device_cap_flags: if plain { 0 } else { IBV_DEVICE_XRC },
        ..Default::default()
    };
    for (to, from) in filled.fw_ver.iter_mut().zip(b"1.2.3") {
        *to = *from as c_char;
    }
    // SAFETY: the caller's structure may be written.
    unsafe { attr.write(filled) };
    0
}

pub(in crate::verbs) unsafe fn ibv_query_port(
    ctx: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    assert_eq!(port, 1, "the crate refuses other ports itself");
    // SAFETY: a live context of ours.
    let scripted = lock(&unsafe { context(ctx) }.state).scripted("ibv_query_port");
    // SAFETY: the caller's structure may be written.
    let attr = unsafe { &mut *attr };
    // Positive numbers fail; a negative one stands for an Ethernet port.
    let ethernet = scripted < 0;
    attr.state = IBV_PORT_ACTIVE;
    attr.lid = if ethernet { 0 } else { 3 };
    attr.active_mtu = IBV_MTU_2048;
    attr.max_mtu = IBV_MTU_4096;
    attr.link_layer = if ethernet { IBV_LINK_LAYER_ETHERNET } else { IBV_LINK_LAYER_INFINIBAND };
    attr.max_msg_sz = LONGEST;
    attr.gid_tbl_len = 2;
    attr.pkey_tbl_len = 1;
    scripted.max(0)
}

pub(in crate::verbs) unsafe fn ibv_query_gid(
    _: *mut ibv_context,
    _: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    if index > 1 {
        set_errno(libc::ENODATA);
        return -1;
    }
    let mut raw = [0; 16];
    if index == 0 {
        raw[..2].copy_from_slice(&[0xfe, 0x80]);
        raw[8..].copy_from_slice(&GUID.to_be_bytes());
    }
    // SAFETY: the caller's structure may be written.
    unsafe { gid.write(ibv_gid { raw }) };
    0
}

pub(in crate::verbs) unsafe fn ibv_query_gid_table(
    ctx: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    _: u32,
) -> isize {
    assert_eq!(max_entries, 2);
    for index in 0..2u32 {
        let mut gid = ibv_gid::default();
        // SAFETY: the structure may be written.
        unsafe { ibv_query_gid(ctx, 1, index as c_int, &raw mut gid) };
        let gid_type = if index == 0 { IBV_GID_TYPE_IB } else { IBV_GID_TYPE_ROCE_V2 };
        let entry = ibv_gid_entry { gid, gid_index: index, port_num: 1, gid_type, ndev_ifindex: 0 };
        // SAFETY: there is room for `max_entries`, which is 2.
        let place = unsafe { entries.add(index as usize) };
        // SAFETY: as above.
        unsafe { place.write(entry) };
    }
    2
}

pub(in crate::verbs) unsafe fn ibv_query_pkey(
    _: *mut ibv_context,
    _: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    if index != 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the caller's number may be written.
    unsafe { pkey.write(0xffff) };
    0
}

pub(in crate::verbs) unsafe fn ibv_alloc_pd(ctx: *mut ibv_context) -> *mut ibv_pd {
    let fields = ibv_pd { context: ctx, handle: 0 };
    // SAFETY: the context is live.
    unsafe { create(ctx, "ibv_alloc_pd", fields, |_| Ok(Object::default())) }
}

pub(in crate::verbs) unsafe fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: a live PD of ours.
    let ctx = unsafe { (*pd).context };
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_dealloc_pd", pd) }
}

pub(in crate::verbs) unsafe fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    assert_eq!(access, IBV_ACCESS_LOCAL_WRITE as c_int, "pools are for local access only");
    // SAFETY: a live PD of ours.
    let ctx = unsafe { (*pd).context };
    let key = addr as usize as u32 | 1;
    let fields = ibv_mr { context: ctx, pd, addr, length, lkey: key, ..Default::default() };
    let range = (addr as u64, length as u64, key);
    let object = |_: &mut State| Ok(Object { parents: vec![pd as usize], range, ..Default::default() });
    // SAFETY: the context is live.
    unsafe { create(ctx, "ibv_reg_mr", fields, object) }
}

pub(in crate::verbs) unsafe fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: a live MR of ours.
    let ctx = unsafe { (*mr).context };
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_dereg_mr", mr) }
}

pub(in crate::verbs) unsafe fn ibv_create_cq(
    ctx: *mut ibv_context,
    depth: c_int,
    _: *mut c_void,
    channel: *mut ibv_comp_channel,
    _: c_int,
) -> *mut ibv_cq {
    assert!(channel.is_null() && depth > 0);
    let mut fields = zeroed::<ibv_cq>();
    fields.context = ctx;
    fields.cqe = granted(depth as u32) as c_int;
    // SAFETY: the context is live.
    unsafe { create(ctx, "ibv_create_cq", fields, |_| Ok(Object::default())) }
}

pub(in crate::verbs) unsafe fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: a live CQ of ours.
    let ctx = unsafe { (*cq).context };
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_destroy_cq", cq) }
}

pub(in crate::verbs) unsafe fn ibv_open_xrcd(
    ctx: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    // SAFETY: the caller's attributes are valid.
    let attr = unsafe { *attr };
    assert_eq!(attr.comp_mask, IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, "both are required");
    // SAFETY: the context is live.
    let plain = unsafe { context(ctx) }.device == PLAIN;
    let open = |_: &mut State| {
        if plain {
            return Err(libc::EOPNOTSUPP);
        }
        let inode = if attr.fd == -1 { None } else { Some(join_domain(attr.fd, attr.oflags)?) };
        Ok(Object { inode, ..Default::default() })
    };
    // SAFETY: the context is live.
    unsafe { create(ctx, "ibv_open_xrcd", ibv_xrcd { context: ctx }, open) }
}

/// The kernel's table of domains by inode.
fn join_domain(fd: c_int, oflags: c_int) -> Result<u64, c_int> {
    let mut stat = zeroed::<libc::stat>();
    // SAFETY: the structure may be written.
    if unsafe { libc::fstat(fd, &raw mut stat) } != 0 {
        return Err(libc::EBADF);
    }
    let mut inodes = lock(inodes());
    match inodes.get_mut(&stat.st_ino) {
        None if oflags & libc::O_CREAT == 0 => return Err(libc::EAGAIN),
        None => drop(inodes.insert(stat.st_ino, 1)),
        Some(_) if oflags & libc::O_EXCL != 0 => return Err(libc::EINVAL),
        Some(users) => *users += 1,
    }
    Ok(stat.st_ino)
}

pub(in crate::verbs) unsafe fn ibv_close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    // SAFETY: a live domain of ours.
    let ctx = unsafe { (*xrcd).context };
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_close_xrcd", xrcd) }
}

pub(in crate::verbs) unsafe fn ibv_create_srq_ex(
    ctx: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: the caller's attributes are valid.
    let attr = unsafe { &*attr };
    let mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    assert_eq!((attr.comp_mask, attr.srq_type), (mask, IBV_SRQT_XRC));
    let mut fields = zeroed::<ibv_srq>();
    fields.context = ctx;
    let object = |state: &mut State| {
        let parents = vec![attr.pd as usize, attr.xrcd as usize, attr.cq as usize];
        Ok(Object { parents, number: state.number(), cq: attr.cq as usize, ..Default::default() })
    };
    // SAFETY: the context is live.
    unsafe { create(ctx, "ibv_create_srq_ex", fields, object) }
}

pub(in crate::verbs) unsafe fn ibv_get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int {
    // SAFETY: a live SRQ of ours.
    let ctx = unsafe { (*srq).context };
    // SAFETY: the same.
    let mut state = lock(&unsafe { context(ctx) }.state);
    let scripted = state.scripted("ibv_get_srq_num");
    if scripted == 0 {
        // SAFETY: the caller's number may be written.
        unsafe { number.write(state.objects[&(srq as usize)].number) };
    }
    scripted
}

pub(in crate::verbs) unsafe fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: a live SRQ of ours.
    let ctx = unsafe { (*srq).context };
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_destroy_srq", srq) }
}

pub(in crate::verbs) unsafe fn ibv_create_qp_ex(
    ctx: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: the caller's attributes are valid and may be written.
    let attr = unsafe { &mut *attr };
    let parents = match (attr.qp_type, attr.comp_mask) {
        (IBV_QPT_XRC_SEND, IBV_QP_INIT_ATTR_PD) => {
            assert!(attr.cap.max_recv_wr == 0 && attr.cap.max_recv_sge == 0 && attr.srq.is_null());
            vec![attr.pd as usize, attr.send_cq as usize]
        }
        (IBV_QPT_XRC_RECV, IBV_QP_INIT_ATTR_XRCD) => {
            assert!(attr.send_cq.is_null() && attr.recv_cq.is_null() && attr.pd.is_null());
            vec![attr.xrcd as usize]
        }
        other => panic!("type and mask {other:?}"),
    };
    if attr.cap.max_inline_data > INLINE {
        set_errno(libc::EINVAL);
        return std::ptr::null_mut();
    }
    attr.cap.max_inline_data = INLINE;
    let mut fields = zeroed::<ibv_qp>();
    fields.context = ctx;
    // SAFETY: the context is live.
    let number = lock(&unsafe { context(ctx) }.state).number();
    fields.qp_num = number;
    let cq = attr.send_cq as usize;
    // SAFETY: the context is live.
    unsafe {
        create(ctx, "ibv_create_qp_ex", fields, |_| Ok(Object { parents, number, cq, ..Default::default() }))
    }
}

pub(in crate::verbs) unsafe fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: a live QP of ours.
    let fields = unsafe { &*qp };
    // SAFETY: the caller's attributes are valid.
    let attr = unsafe { *attr };
    // SAFETY: the context of a live QP is live.
    let mut state = lock(&unsafe { context(fields.context) }.state);
    let scripted = state.scripted("ibv_modify_qp");
    state.modified.push(Modified { qp_number: fields.qp_num, mask: mask as c_uint, attr });
    if scripted == 0 {
        let strict = state.looks_at_qps && attr.qp_state == IBV_QPS_RESET;
        assert!(!strict || state.by_number(fields.qp_num).qp_state == IBV_QPS_ERR, "RESET, and not from ERR");
        for handle in state.objects.values_mut().filter(|object| object.number == fields.qp_num) {
            handle.qp_state = attr.qp_state;
        }
    }
    scripted
}

pub(in crate::verbs) unsafe fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _: c_int,
    _: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: a live QP of ours.
    let fields = unsafe { &*qp };
    // SAFETY: the context of a live QP is live.
    let shared = &unsafe { context(fields.context) }.state;
    let key = qp as usize;
    let begun =
        lock(shared).objects.get_mut(&key).map(|object| std::mem::replace(&mut object.in_query, true));
    assert_eq!(begun, Some(false), "two queries write the QP's state at once");
    std::thread::yield_now();
    let mut state = lock(shared);
    let object = state.objects.get_mut(&key).expect("the QP lives");
    object.in_query = false;
    // SAFETY: the caller's structure may be written.
    unsafe { (*attr).qp_state = object.qp_state };
    0
}

pub(in crate::verbs) unsafe fn ibv_open_qp(
    ctx: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    // SAFETY: the caller's attributes are valid.
    let attr = unsafe { *attr };
    // SAFETY: the context is live.
    let device = unsafe { context(ctx) };
    let all = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if device.device == PLAIN || lock(&device.state).opens_no_targets {
        set_errno(libc::EOPNOTSUPP);
        return std::ptr::null_mut();
    }
    if attr.comp_mask != all {
        assert_eq!(attr.comp_mask, 0, "an incomplete request");
        return std::ptr::null_mut();
    }
    assert_eq!(attr.qp_type, IBV_QPT_XRC_RECV);
    let mut fields = zeroed::<ibv_qp>();
    fields.context = ctx;
    fields.qp_num = attr.qp_num;
    let xrcd = attr.xrcd as usize;
    let open = |state: &mut State| {
        let inode = state.objects[&xrcd].inode;
        let same_domain =
            |parent: &usize| *parent == xrcd || (inode.is_some() && state.objects[parent].inode == inode);
        let known = |object: &&Object| object.number == attr.qp_num && object.parents.iter().any(same_domain);
        let qp_state = state.objects.values().find(known).ok_or(libc::EINVAL)?.qp_state;
        Ok(Object { parents: vec![xrcd], number: attr.qp_num, qp_state, opened: true, ..Default::default() })
    };
    // SAFETY: the context is live.
    let qp = unsafe { create(ctx, "ibv_open_qp", fields, open) };
    if !qp.is_null() {
        // SAFETY: made just now.
        unsafe { (*qp).handle = State::handle(qp as usize) };
    }
    qp
}

/// As the kernel does: the structure stays, as the provider's would.
pub(in crate::verbs) unsafe fn uverbs_destroy_qp_ioctl(
    ctx: *mut ibv_context,
    handle: u32,
    driver_id: u32,
) -> c_int {
    // SAFETY: the context is live.
    if !CRASHING.contains(&unsafe { context(ctx) }.device) || driver_id != RDMA_DRIVER_MLX5 {
        return libc::EINVAL;
    }
    // SAFETY: the same.
    unsafe { end_by_handle(ctx, "uverbs_destroy_qp_ioctl", handle) }
}

pub(in crate::verbs) unsafe fn uverbs_destroy_qp_write(ctx: *mut ibv_context, handle: u32) -> c_int {
    // SAFETY: the context is live.
    unsafe { end_by_handle(ctx, "uverbs_destroy_qp_write", handle) }
}

unsafe fn end_by_handle(ctx: *mut ibv_context, verb: &'static str, handle: u32) -> c_int {
    // SAFETY: the context is live.
    let state = lock(&unsafe { context(ctx) }.state);
    let found = state.objects.iter().find(|(key, object)| object.opened && State::handle(**key) == handle);
    let Some((&key, _)) = found else { return libc::ENOENT };
    drop(state);
    // SAFETY: the context is live.
    unsafe { end(ctx, verb, key) }
}

pub(in crate::verbs) unsafe fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: a live QP of ours.
    let ctx = unsafe { (*qp).context };
    // SAFETY: the context of a live QP is live.
    let crashing = CRASHING.contains(&unsafe { context(ctx) }.device);
    // SAFETY: the same.
    let opened = lock(&unsafe { context(ctx) }.state).objects[&(qp as usize)].opened;
    assert!(!(crashing && opened), "a provider that would crash is asked to close what it opened");
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_destroy_qp", qp) }
}

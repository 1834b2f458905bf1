//! libibverbs, faked, for unit tests: the same names as the sys crate, in its place.
//!
//! It keeps what the kernel keeps: which objects live and which hold which (a destroy out of order is
//! `EBUSY`), the domains by inode, the QPs' states, the posted work. Tests decide what a device does,
//! with the methods of [`World`]: complete, fail, deliver, forget to clean up. It proves what the crate
//! sends and in which order it destroys; it proves nothing about a device.
//!
//! # Safety
//! Every pointer handed out is a leaked `Box` that the matching destroy takes back, so the tests may run
//! under valgrind. A fake context begins with the `ibv_context` that callers see.

pub(super) use rdma_core_sys::*;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ffi::{c_char, c_int, c_uint, c_void},
    sync::{Arc, Mutex, MutexGuard, OnceLock},
};

/// The devices of the fake machine: two that have XRC, one that has none.
const DEVICES: [&str; 3] = ["fake0", "fake1", "plain0"];
const GUID: u64 = 0x0002_c903_00a1_b2c3;
/// What every initiator is granted for inline sends.
pub(crate) const INLINE: u32 = 64;
/// A completion queue is granted one less than the next power of two, as mlx5 does.
pub(crate) fn granted(depth: u32) -> u32 {
    (depth + 1).next_power_of_two() - 1
}

#[repr(C)]
struct FakeContext {
    base: ibv_context,
    device: usize,
    state: Arc<Mutex<State>>,
}

/// What lives in one opened fake device.
#[derive(Default)]
struct State {
    objects: BTreeMap<usize, Object>,
    /// Destroys in order, by verb.
    destroyed: Vec<&'static str>,
    /// For each verb, the numbers of its next calls: 0 goes through, else it is the errno.
    script: HashMap<&'static str, VecDeque<c_int>>,
    modified: Vec<Modified>,
    next: u32,
}

#[derive(Default)]
struct Object {
    parents: Vec<usize>,
    inode: Option<u64>,
    number: u32,
    qp_state: u32,
    cq: usize,
    range: (u64, u64, u32),
    sends: VecDeque<Sent>,
    receives: VecDeque<Received>,
    completions: VecDeque<ibv_wc>,
}

pub(crate) type QpAttr = ibv_qp_attr;

/// The bytes of a GID that the crate wrote.
pub(crate) fn gid_bytes(gid: &ibv_gid) -> [u8; 16] {
    // SAFETY: every pattern is valid for the union's forms.
    unsafe { gid.raw }
}

/// One call of `ibv_modify_qp`.
#[derive(Clone, Copy)]
pub(crate) struct Modified {
    pub qp_number: u32,
    pub mask: u32,
    pub attr: ibv_qp_attr,
}

/// A posted send.
#[derive(Clone)]
pub(crate) struct Sent {
    pub wr_id: u64,
    pub flags: u32,
    pub srq: u32,
    pub imm: Option<u32>,
    data: Data,
}

#[derive(Clone)]
enum Data {
    Copied(Vec<u8>),
    Memory(u64, usize),
}

struct Received {
    wr_id: u64,
    address: u64,
    len: usize,
}

impl Sent {
    /// The bytes: those copied when it was posted, or what lies in memory now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match &self.data {
            Data::Copied(bytes) => bytes.clone(),
            Data::Memory(address, len) => {
                // SAFETY: the range was checked against a live registration when it was posted, and the
                // crate's claim is that it stays mapped until the send completes; valgrind checks it.
                unsafe { std::slice::from_raw_parts(*address as *const u8, *len) }.to_vec()
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn set_errno(number: c_int) {
    // SAFETY: the location is valid for this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { errno.write(number) };
}

/// A C structure of zeros.
fn zeroed<T>() -> T {
    // SAFETY: used for C structures of integers, pointers and arrays, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

/// The fake context behind a pointer that `ibv_open_device` made.
unsafe fn context<'a>(context: *mut ibv_context) -> &'a FakeContext {
    // SAFETY: the caller's pointer is to the first field of a live FakeContext.
    unsafe { &*context.cast::<FakeContext>() }
}

/// Tests' hold on one opened fake device; it outlives the context.
#[derive(Clone)]
pub(crate) struct World(Arc<Mutex<State>>);

impl World {
    pub(crate) fn of(opened: &super::context::Context) -> Self {
        // SAFETY: a live context of this fake.
        Self(Arc::clone(&unsafe { context(opened.as_ptr()) }.state))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// The next calls of a verb: 0 goes through, another number fails with it. For verbs that return a
    /// pointer, -1 fails without touching errno.
    pub(crate) fn script(&self, verb: &'static str, results: impl IntoIterator<Item = c_int>) {
        self.state().script.insert(verb, results.into_iter().collect());
    }

    /// How many objects live, the context not counted.
    pub(crate) fn alive(&self) -> usize {
        self.state().objects.len()
    }

    pub(crate) fn destroyed(&self) -> Vec<&'static str> {
        self.state().destroyed.clone()
    }

    pub(crate) fn modified(&self) -> Vec<Modified> {
        self.state().modified.clone()
    }

    pub(crate) fn sends(&self, qp: u32) -> Vec<Sent> {
        self.state().by_number(qp).sends.iter().cloned().collect()
    }

    /// Completes the oldest `count` sends of a QP: those that asked for it get a completion.
    pub(crate) fn complete(&self, qp: u32, count: usize) {
        let mut state = self.state();
        for _ in 0..count {
            let object = state.by_number(qp);
            let sent = object.sends.pop_front().expect("a send is posted");
            let cq = object.cq;
            if sent.flags & IBV_SEND_SIGNALED != 0 {
                state.push(cq, good(sent.wr_id, qp, IBV_WC_SEND));
            }
        }
    }

    /// Fails the oldest send of a QP and flushes the rest.
    pub(crate) fn fail(&self, qp: u32, status: u32) {
        let mut state = self.state();
        let object = state.by_number(qp);
        object.qp_state = IBV_QPS_ERR;
        let (cq, sends) = (object.cq, std::mem::take(&mut object.sends));
        for (at, sent) in sends.into_iter().enumerate() {
            state.push(cq, bad(sent.wr_id, qp, if at == 0 { status } else { IBV_WC_WR_FLUSH_ERR }));
        }
    }

    /// Delivers a message to an SRQ. False if no receive is posted.
    pub(crate) fn deliver(&self, srq: u32, bytes: &[u8], imm: Option<u32>) -> bool {
        let mut state = self.state();
        let object = state.by_number(srq);
        let Some(received) = object.receives.pop_front() else { return false };
        let cq = object.cq;
        let len = bytes.len().min(received.len);
        // SAFETY: the range was checked against a live registration when it was posted, and the crate's
        // claim is that nobody else touches it until the receive completes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), received.address as *mut u8, len) };
        let mut wc = good(received.wr_id, 0x77, IBV_WC_RECV);
        wc.byte_len = bytes.len() as u32;
        if let Some(imm) = imm {
            wc.wc_flags = IBV_WC_WITH_IMM;
            wc.__bindgen_anon_1.imm_data = imm.to_be();
        }
        state.push(cq, wc);
        true
    }

    /// Fails the oldest receive of an SRQ.
    pub(crate) fn fail_receive(&self, srq: u32, status: u32) {
        let mut state = self.state();
        let object = state.by_number(srq);
        let received = object.receives.pop_front().expect("a receive is posted");
        let cq = object.cq;
        state.push(cq, bad(received.wr_id, 0x77, status));
    }

    /// Puts a completion of any content in the queue to which a QP or SRQ completes.
    pub(crate) fn push(&self, number: u32, wc: ibv_wc) {
        let mut state = self.state();
        let cq = state.by_number(number).cq;
        state.push(cq, wc);
    }
}

/// A successful completion.
pub(crate) fn good(wr_id: u64, qp_num: u32, opcode: u32) -> ibv_wc {
    ibv_wc { wr_id, qp_num, opcode, status: IBV_WC_SUCCESS, ..Default::default() }
}

/// A failed completion, in which everything that an error leaves undefined is nonsense.
pub(crate) fn bad(wr_id: u64, qp_num: u32, status: u32) -> ibv_wc {
    let mut wc = ibv_wc {
        wr_id,
        qp_num,
        status,
        vendor_err: 0x99,
        opcode: IBV_WC_RECV,
        byte_len: u32::MAX,
        wc_flags: u32::MAX,
        ..Default::default()
    };
    wc.__bindgen_anon_1.imm_data = 0xdead_beef;
    wc
}

impl State {
    fn by_number(&mut self, number: u32) -> &mut Object {
        self.objects.values_mut().find(|object| object.number == number).expect("no such number")
    }

    fn push(&mut self, cq: usize, wc: ibv_wc) {
        self.objects.get_mut(&cq).expect("the CQ lives").completions.push_back(wc);
    }

    /// What the script says of a call.
    fn scripted(&mut self, verb: &str) -> c_int {
        self.script.get_mut(verb).and_then(VecDeque::pop_front).unwrap_or(0)
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        0x100 + self.next
    }
}

/// Makes an object of a fake context, unless the script says otherwise.
unsafe fn create<T>(
    ctx: *mut ibv_context,
    verb: &'static str,
    fields: T,
    make: impl FnOnce(&mut State) -> Result<Object, c_int>,
) -> *mut T {
    // SAFETY: the caller's context is live.
    let mut state = lock(&unsafe { context(ctx) }.state);
    let object = match state.scripted(verb) {
        0 => make(&mut state),
        number => Err(number),
    };
    match object {
        Ok(object) => {
            assert!(
                object.parents.iter().all(|parent| state.objects.contains_key(parent)),
                "{verb} with a parent that does not live"
            );
            let made = Box::into_raw(Box::new(fields));
            state.objects.insert(made as usize, object);
            made
        }
        Err(number) => {
            if number > 0 {
                set_errno(number);
            }
            std::ptr::null_mut()
        }
    }
}

/// Ends an object, unless another holds it or the script says otherwise. Returns an errno value.
unsafe fn destroy<T>(ctx: *mut ibv_context, verb: &'static str, object: *mut T) -> c_int {
    // SAFETY: the caller's context is live.
    let mut state = lock(&unsafe { context(ctx) }.state);
    let key = object as usize;
    assert!(state.objects.contains_key(&key), "{verb} of an object that does not live");
    let scripted = state.scripted(verb);
    if scripted != 0 {
        return scripted;
    }
    if state.objects.values().any(|other| other.parents.contains(&key)) {
        return libc::EBUSY;
    }
    let ended = state.objects.remove(&key);
    if let Some(inode) = ended.and_then(|object| object.inode) {
        let mut inodes = lock(inodes());
        let users = inodes.get_mut(&inode).expect("the inode is known");
        *users -= 1;
        if *users == 0 {
            inodes.remove(&inode);
        }
    }
    state.destroyed.push(verb);
    // SAFETY: made by `create`, which leaked this box, and taken out of the live ones just now.
    drop(unsafe { Box::from_raw(object) });
    0
}

/// Domains by inode: how many have each open.
fn inodes() -> &'static Mutex<HashMap<u64, u32>> {
    static INODES: OnceLock<Mutex<HashMap<u64, u32>>> = OnceLock::new();
    INODES.get_or_init(Default::default)
}

/// The devices, made once and never freed.
fn device_pointers() -> &'static [usize; 3] {
    static POINTERS: OnceLock<[usize; 3]> = OnceLock::new();
    POINTERS.get_or_init(|| {
        DEVICES.map(|name| {
            let mut device = Box::new(zeroed::<ibv_device>());
            for (to, from) in device.name.iter_mut().zip(name.bytes()) {
                *to = from as c_char;
            }
            Box::into_raw(device) as usize
        })
    })
}

pub(super) unsafe fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let mut list: Vec<*mut ibv_device> = device_pointers().iter().map(|&at| at as *mut _).collect();
    // SAFETY: the caller's count may be written.
    unsafe { count.write(list.len() as c_int) };
    list.push(std::ptr::null_mut());
    Box::into_raw(list.into_boxed_slice()).cast()
}

pub(super) unsafe fn ibv_free_device_list(list: *mut *mut ibv_device) {
    let slice = std::ptr::slice_from_raw_parts_mut(list, DEVICES.len() + 1);
    // SAFETY: made above, of this length.
    drop(unsafe { Box::from_raw(slice) });
}

pub(super) unsafe fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: the device is one of ours.
    unsafe { &raw const (*device).name }.cast()
}

pub(super) unsafe fn ibv_get_device_guid(_: *mut ibv_device) -> u64 {
    GUID.to_be()
}

pub(super) unsafe fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let at =
        device_pointers().iter().position(|&pointer| pointer == device as usize).expect("a device of ours");
    let mut base = zeroed::<ibv_context>();
    base.device = device;
    base.ops.post_send = Some(post_send);
    base.ops.post_srq_recv = Some(post_srq_recv);
    base.ops.poll_cq = Some(poll_cq);
    Box::into_raw(Box::new(FakeContext { base, device: at, state: Arc::default() })).cast()
}

pub(super) unsafe fn ibv_close_device(ctx: *mut ibv_context) -> c_int {
    // SAFETY: a live context of ours.
    let state = Arc::clone(&unsafe { context(ctx) }.state);
    let mut state = lock(&state);
    assert!(state.objects.is_empty(), "the context is closed before what was made from it");
    state.destroyed.push("ibv_close_device");
    // SAFETY: made by ibv_open_device, closed once.
    drop(unsafe { Box::from_raw(ctx.cast::<FakeContext>()) });
    0
}

pub(super) unsafe fn ibv_query_device(ctx: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: a live context of ours.
    let plain = unsafe { context(ctx) }.device == 2;
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

pub(super) unsafe fn ibv_query_port(ctx: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int {
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
    attr.gid_tbl_len = 2;
    attr.pkey_tbl_len = 1;
    scripted.max(0)
}

pub(super) unsafe fn ibv_query_gid(_: *mut ibv_context, _: u8, index: c_int, gid: *mut ibv_gid) -> c_int {
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

pub(super) unsafe fn ibv_query_gid_table(
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

pub(super) unsafe fn ibv_query_pkey(_: *mut ibv_context, _: u8, index: c_int, pkey: *mut u16) -> c_int {
    if index != 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the caller's number may be written.
    unsafe { pkey.write(0xffff) };
    0
}

pub(super) unsafe fn ibv_alloc_pd(ctx: *mut ibv_context) -> *mut ibv_pd {
    let fields = ibv_pd { context: ctx, handle: 0 };
    // SAFETY: the context is live.
    unsafe { create(ctx, "ibv_alloc_pd", fields, |_| Ok(Object::default())) }
}

pub(super) unsafe fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: a live PD of ours.
    let ctx = unsafe { (*pd).context };
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_dealloc_pd", pd) }
}

pub(super) unsafe fn ibv_reg_mr(
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

pub(super) unsafe fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: a live MR of ours.
    let ctx = unsafe { (*mr).context };
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_dereg_mr", mr) }
}

pub(super) unsafe fn ibv_create_cq(
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

pub(super) unsafe fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: a live CQ of ours.
    let ctx = unsafe { (*cq).context };
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_destroy_cq", cq) }
}

pub(super) unsafe fn ibv_open_xrcd(ctx: *mut ibv_context, attr: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd {
    // SAFETY: the caller's attributes are valid.
    let attr = unsafe { *attr };
    assert_eq!(attr.comp_mask, IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, "both are required");
    // SAFETY: the context is live.
    let plain = unsafe { context(ctx) }.device == 2;
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

pub(super) unsafe fn ibv_close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    // SAFETY: a live domain of ours.
    let ctx = unsafe { (*xrcd).context };
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_close_xrcd", xrcd) }
}

pub(super) unsafe fn ibv_create_srq_ex(
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

pub(super) unsafe fn ibv_get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int {
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

pub(super) unsafe fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: a live SRQ of ours.
    let ctx = unsafe { (*srq).context };
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_destroy_srq", srq) }
}

pub(super) unsafe fn ibv_create_qp_ex(ctx: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp {
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

pub(super) unsafe fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: a live QP of ours.
    let fields = unsafe { &*qp };
    // SAFETY: the caller's attributes are valid.
    let attr = unsafe { *attr };
    // SAFETY: the context of a live QP is live.
    let mut state = lock(&unsafe { context(fields.context) }.state);
    let scripted = state.scripted("ibv_modify_qp");
    state.modified.push(Modified { qp_number: fields.qp_num, mask: mask as c_uint, attr });
    if scripted == 0 {
        state.by_number(fields.qp_num).qp_state = attr.qp_state;
    }
    scripted
}

pub(super) unsafe fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _: c_int,
    _: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: a live QP of ours.
    let fields = unsafe { &*qp };
    // SAFETY: the context of a live QP is live.
    let mut state = lock(&unsafe { context(fields.context) }.state);
    // SAFETY: the caller's structure may be written.
    unsafe { (*attr).qp_state = state.by_number(fields.qp_num).qp_state };
    0
}

pub(super) unsafe fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: a live QP of ours.
    let ctx = unsafe { (*qp).context };
    // SAFETY: the same.
    unsafe { destroy(ctx, "ibv_destroy_qp", qp) }
}

unsafe extern "C" fn post_send(qp: *mut ibv_qp, wr: *mut ibv_send_wr, _: *mut *mut ibv_send_wr) -> c_int {
    // SAFETY: a live QP of ours.
    let fields = unsafe { &*qp };
    // SAFETY: the caller's request is valid.
    let wr = unsafe { &*wr };
    // SAFETY: the context of a live QP is live.
    let mut state = lock(&unsafe { context(fields.context) }.state);
    let scripted = state.scripted("ibv_post_send");
    if scripted != 0 {
        return scripted;
    }
    assert!(wr.next.is_null() && (0..=1).contains(&wr.num_sge));
    let data = if wr.num_sge == 0 {
        Data::Copied(Vec::new())
    } else {
        // SAFETY: the request has one scatter entry.
        let sge = unsafe { *wr.sg_list };
        if wr.send_flags & IBV_SEND_INLINE != 0 {
            assert!(sge.length <= INLINE);
            // SAFETY: inline bytes are valid during the call.
            Data::Copied(
                unsafe { std::slice::from_raw_parts(sge.addr as *const u8, sge.length as usize) }.to_vec(),
            )
        } else {
            state.check_range(&sge);
            Data::Memory(sge.addr, sge.length as usize)
        }
    };
    let imm = (wr.opcode == IBV_WR_SEND_WITH_IMM).then_some({
        // SAFETY: every pattern is valid for the union's forms.
        u32::from_be(unsafe { wr.__bindgen_anon_1.imm_data })
    });
    // SAFETY: an XRC request carries the SRQ's number here.
    let srq = unsafe { wr.qp_type.xrc.remote_srqn };
    let sent = Sent { wr_id: wr.wr_id, flags: wr.send_flags, srq, imm, data };
    state.by_number(fields.qp_num).sends.push_back(sent);
    0
}

unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    _: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a live SRQ of ours.
    let ctx = unsafe { (*srq).context };
    // SAFETY: the caller's request is valid.
    let wr = unsafe { &*wr };
    // SAFETY: the context of a live SRQ is live.
    let mut state = lock(&unsafe { context(ctx) }.state);
    let scripted = state.scripted("ibv_post_srq_recv");
    if scripted != 0 {
        return scripted;
    }
    assert!(wr.next.is_null() && wr.num_sge == 1);
    // SAFETY: the request has one scatter entry.
    let sge = unsafe { *wr.sg_list };
    state.check_range(&sge);
    let object = state.objects.get_mut(&(srq as usize)).expect("the SRQ lives");
    object.receives.push_back(Received { wr_id: wr.wr_id, address: sge.addr, len: sge.length as usize });
    0
}

unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: a live CQ of ours.
    let ctx = unsafe { (*cq).context };
    // SAFETY: the context of a live CQ is live.
    let mut state = lock(&unsafe { context(ctx) }.state);
    let scripted = state.scripted("ibv_poll_cq");
    if scripted != 0 {
        return -scripted;
    }
    let completions = &mut state.objects.get_mut(&(cq as usize)).expect("the CQ lives").completions;
    let count = completions.len().min(entries as usize);
    for (at, completion) in completions.drain(..count).enumerate() {
        // SAFETY: there is room for `entries`.
        let place = unsafe { wc.add(at) };
        // SAFETY: as above.
        unsafe { place.write(completion) };
    }
    count as c_int
}

impl State {
    /// A scatter entry lies in a live registration with its key.
    fn check_range(&self, sge: &ibv_sge) {
        let end = sge.addr + u64::from(sge.length);
        let inside = |&(start, length, key): &(u64, u64, u32)| {
            key == sge.lkey && start <= sge.addr && end <= start + length
        };
        assert!(self.objects.values().any(|object| inside(&object.range)), "{sge:?} is registered nowhere");
    }
}

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

mod control;
mod data_path;

// By name: these take the place of the sys crate's.
pub(super) use self::control::{
    ibv_alloc_pd, ibv_close_device, ibv_close_xrcd, ibv_create_cq, ibv_create_qp_ex, ibv_create_srq_ex,
    ibv_dealloc_pd, ibv_dereg_mr, ibv_destroy_cq, ibv_destroy_qp, ibv_destroy_srq, ibv_free_device_list,
    ibv_get_device_guid, ibv_get_device_list, ibv_get_device_name, ibv_get_srq_num, ibv_modify_qp,
    ibv_open_device, ibv_open_qp, ibv_open_xrcd, ibv_query_device, ibv_query_gid, ibv_query_gid_table,
    ibv_query_pkey, ibv_query_port, ibv_query_qp, ibv_reg_mr, uverbs_destroy_qp_ioctl,
    uverbs_destroy_qp_write,
};
pub(super) use rdma_core_sys::*;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ffi::c_int,
    fs::File,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
};

/// The devices of the fake machine: two that have XRC, one that has none, one whose driver is not known, and one
/// whose place in sysfs is another's by the time that it is opened.
const DEVICES: [&str; 5] = ["fake0", "fake1", "plain0", "odd0", "stale0"];

/// What each is when it is opened, by a character device that every machine has. The second and the last one's
/// provider crashes when it closes what it opened.
const FILES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/zero"];

/// Their kernel drivers, by the device's file.
pub(crate) fn driver_of_file(major: u32, minor: u32) -> Option<String> {
    let name = match (major, minor) {
        (1, 3) => "mlx4_core",
        (1, 5) => "mlx5_core.sf",
        (1, 7) => "rdma_rxe",
        _ => return None,
    };
    Some(name.to_owned())
}

/// Their kernel drivers, by what the list of devices has.
pub(crate) fn driver_of_verbs(path: &Path) -> Option<String> {
    match path.to_str() {
        Some("/verbs/fake0" | "/verbs/stale0") => Some("mlx4_core".to_owned()),
        Some("/verbs/fake1") => Some("mlx5_core.sf".to_owned()),
        Some("/verbs/plain0") => Some("rdma_rxe".to_owned()),
        _ => None,
    }
}

/// The fake device of this place has no XRC.
const PLAIN: usize = 2;
/// The fake devices of these places have a provider that crashes when it closes what it opened.
const CRASHING: [usize; 2] = [1, 4];
const GUID: u64 = 0x0002_c903_00a1_b2c3;
/// What every initiator is granted for inline sends.
pub(crate) const INLINE: u32 = 64;
/// The longest message of every port: short, so that tests have buffers that are longer.
pub(crate) const LONGEST: u32 = 1 << 20;
/// A completion queue is granted one less than the next power of two, as mlx5 does.
pub(crate) fn granted(depth: u32) -> u32 {
    (depth + 1).next_power_of_two() - 1
}

#[repr(C)]
struct FakeContext {
    base: ibv_context,
    device: usize,
    state: Arc<Mutex<State>>,
    /// `base` has its number.
    _file: File,
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
    /// Whether completions are found by index, as mlx5 does.
    like_mlx5: bool,
    /// Whether polling looks at the QP of each completion, as hns and qedr do.
    looks_at_qps: bool,
    /// Whether the provider lacks `ibv_open_qp`, as qedr does.
    opens_no_targets: bool,
    /// Polls under way.
    polls: u32,
    /// Completions that were given to another queue than theirs, or looked up in one that is gone.
    misplaced: u32,
}

#[derive(Default)]
struct Object {
    parents: Vec<usize>,
    inode: Option<u64>,
    number: u32,
    qp_state: u32,
    /// Whether it is a further handle of a QP.
    opened: bool,
    cq: usize,
    in_query: bool,
    range: (u64, u64, u32),
    sends: VecDeque<Sent>,
    receives: VecDeque<Received>,
    completions: VecDeque<Written>,
    /// The smallest that no living object had when it was made, as mlx5's user index.
    index: u32,
}

/// A completion in a CQ: whose it is, and the index of that queue.
struct Written {
    wc: ibv_wc,
    owner: usize,
    index: u32,
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

    /// From now on the provider does what mlx5 does: it finds a completion's queue by an index that is
    /// used again, takes a destroyed QP's completions out, and leaves those of a destroyed SRQ. One that
    /// it cannot place is a negative result, and those polled before it in the same call are lost.
    pub(crate) fn like_mlx5(&self) {
        self.state().like_mlx5 = true;
    }

    /// From now on the provider does what hns and qedr do between them: polling looks at the QP of each
    /// completion, with no lock. One of an initiator that is gone is a dangling address; one that came
    /// through a target that is gone has no place. RESET follows ERR only, and a QP is destroyed in RESET.
    pub(crate) fn looks_at_qps(&self) {
        self.state().looks_at_qps = true;
    }

    /// From now on the provider has no `ibv_open_qp`.
    pub(crate) fn opens_no_targets(&self) {
        self.state().opens_no_targets = true;
    }

    /// How many completions were taken for another queue's, or led to one that is gone.
    pub(crate) fn misplaced(&self) -> u32 {
        self.state().misplaced
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
            let sent = state.by_number(qp).sends.pop_front().expect("a send is posted");
            if sent.flags & IBV_SEND_SIGNALED != 0 {
                state.push(qp, good(sent.wr_id, qp, IBV_WC_SEND));
            }
        }
    }

    /// Fails the oldest send of a QP and flushes the rest.
    pub(crate) fn fail(&self, qp: u32, status: u32) {
        let mut state = self.state();
        let object = state.by_number(qp);
        object.qp_state = IBV_QPS_ERR;
        let sends = std::mem::take(&mut object.sends);
        for (at, sent) in sends.into_iter().enumerate() {
            state.push(qp, bad(sent.wr_id, qp, if at == 0 { status } else { IBV_WC_WR_FLUSH_ERR }));
        }
    }

    /// Delivers a message to an SRQ. False if no receive is posted.
    pub(crate) fn deliver(&self, srq: u32, bytes: &[u8], imm: Option<u32>) -> bool {
        self.deliver_through(0x77, srq, bytes, imm)
    }

    /// The same, through a target of this number.
    pub(crate) fn deliver_through(&self, target: u32, srq: u32, bytes: &[u8], imm: Option<u32>) -> bool {
        let mut state = self.state();
        let Some(received) = state.by_number(srq).receives.pop_front() else { return false };
        let len = bytes.len().min(received.len);
        // SAFETY: the range was checked against a live registration when it was posted, and the crate's
        // claim is that nobody else touches it until the receive completes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), received.address as *mut u8, len) };
        let mut wc = good(received.wr_id, target, IBV_WC_RECV);
        wc.byte_len = bytes.len() as u32;
        if let Some(imm) = imm {
            wc.wc_flags = IBV_WC_WITH_IMM;
            wc.__bindgen_anon_1.imm_data = imm.to_be();
        }
        state.push(srq, wc);
        true
    }

    /// Fails the oldest receive of an SRQ.
    pub(crate) fn fail_receive(&self, srq: u32, status: u32) {
        let mut state = self.state();
        let received = state.by_number(srq).receives.pop_front().expect("a receive is posted");
        state.push(srq, bad(received.wr_id, 0x77, status));
    }

    /// Puts a completion that the provider cannot place in the queue to which a QP or SRQ completes.
    pub(crate) fn push_unplaceable(&self, number: u32) {
        let mut state = self.state();
        let cq = state.by_number(number).cq;
        let cq = state.objects.get_mut(&cq).expect("the CQ lives");
        cq.completions.push_back(Written { wc: good(0, number, IBV_WC_RECV), owner: 0, index: u32::MAX });
    }

    /// Puts a completion of any content in the queue to which a QP or SRQ completes.
    pub(crate) fn push(&self, number: u32, wc: ibv_wc) {
        self.state().push(number, wc);
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

    /// Writes a completion of the QP or SRQ of this number.
    fn push(&mut self, number: u32, wc: ibv_wc) {
        let found = self.objects.iter().find(|(_, object)| object.number == number);
        let (&owner, object) = found.expect("no such number");
        let (cq, index) = (object.cq, object.index);
        let cq = self.objects.get_mut(&cq).expect("the CQ lives");
        cq.completions.push_back(Written { wc, owner, index });
    }

    /// The kernel's number of an object, which for a QP is not its number.
    fn handle(object: usize) -> u32 {
        (object >> 4) as u32
    }

    /// How many handles of a QP there are.
    fn handles(&self, number: u32) -> usize {
        self.objects.values().filter(|object| object.number == number).count()
    }

    fn free_index(&self) -> u32 {
        (0..).find(|index| self.objects.values().all(|object| object.index != *index)).unwrap_or(0)
    }

    /// What mlx5 makes of a completion: that of whoever has its index now.
    fn place(&mut self, written: &Written) -> Option<ibv_wc> {
        let mut wc = written.wc;
        if self.looks_at_qps {
            if !self.objects.contains_key(&written.owner) {
                // A provider would read freed memory here.
                self.misplaced += 1;
                return None;
            }
            self.objects.values().find(|object| object.number == wc.qp_num)?;
        }
        if self.like_mlx5 {
            let (&key, object) = self.objects.iter().find(|(_, object)| object.index == written.index)?;
            if key != written.owner {
                wc.wr_id = object.receives.front().map_or(0, |received| received.wr_id);
                self.misplaced += 1;
            }
        }
        Some(wc)
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
        Ok(mut object) => {
            object.index = state.free_index();
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
    let ended = unsafe { end(ctx, verb, object as usize) };
    if ended == 0 {
        // SAFETY: made by `create`, which leaked this box, and taken out of the live ones just now.
        drop(unsafe { Box::from_raw(object) });
    }
    ended
}

/// The same, without freeing the structure.
unsafe fn end(ctx: *mut ibv_context, verb: &'static str, key: usize) -> c_int {
    // SAFETY: the caller's context is live.
    let mut state = lock(&unsafe { context(ctx) }.state);
    assert!(state.objects.contains_key(&key), "{verb} of an object that does not live");
    let scripted = state.scripted(verb);
    if scripted != 0 {
        return scripted;
    }
    if state.looks_at_qps && verb == "ibv_destroy_qp" {
        let qp = &state.objects[&key];
        let shared = qp.parents.iter().any(|parent| state.objects[parent].inode.is_some());
        // A handle that opened it never stops it.
        assert!(
            qp.qp_state == IBV_QPS_RESET || qp.opened || shared || state.handles(qp.number) > 1,
            "a QP is destroyed that was not stopped"
        );
        assert_eq!(state.polls, 0, "a QP is freed while a poll may look at it");
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
    if state.like_mlx5 && verb == "ibv_destroy_qp" {
        for cq in state.objects.values_mut() {
            cq.completions.retain(|written| written.owner != key);
        }
    }
    state.destroyed.push(verb);
    0
}

/// Domains by inode: how many have each open.
fn inodes() -> &'static Mutex<HashMap<u64, u32>> {
    static INODES: OnceLock<Mutex<HashMap<u64, u32>>> = OnceLock::new();
    INODES.get_or_init(Default::default)
}

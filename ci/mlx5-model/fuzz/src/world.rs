//! Three guests on one device, and what must hold at the end whatever the first of them did.
//!
//! The *hostile* guest has a queue pair of every service, connected with the *peer*, so that there is something to
//! break. The peer behaves; the hostile one may break their connections and write where the peer let it, and nothing
//! else of the peer's. The *bystander* has nothing to do with either: nothing of it changes at all.

use std::{
    cell::RefCell,
    fs::File,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    sync::OnceLock,
    time::Instant,
};

use mlx5_model::{
    bits::Field,
    command::opcode::Opcode,
    fields::{command_in, command_out, cqc, eqc, qpc, rmpc, srq_next},
    hw::{QP1_QKEY, ReceiveQueueType, Service},
};

use crate::driver::{COMMAND_QUEUE, INPUT_BOXES, MEMORY, OUTPUT_BOXES, Queue, Region, Rig};

/// The guest that the fuzzer plays.
pub const HOSTILE: usize = 0;
/// The one that it is connected with.
pub const PEER: usize = 1;
/// The one that it is not.
pub const BYSTANDER: usize = 2;
const GUESTS: usize = 3;

/// Where the rig puts queues and everything else that it allocates.
pub const ALLOCATED: u64 = 0x10_0000;
const PAGE: u64 = 0x1000;
/// Where a page of doorbells takes what was read of an event queue.
pub const EQ_UPDATE: u64 = 0x48;
/// What is in pages that nobody gave to the device.
const CANARY: [u8; PAGE as usize] = [0xa5; PAGE as usize];

/// Entries of receive queues, log of their size, and of it over 16 bytes.
pub const RECEIVES: u64 = 8;
pub const RECEIVE_SHIFT: u64 = 5;
/// Blocks of send queues.
pub const BLOCKS: u64 = 32;
/// Log of the entries of completion queues.
const LOG_CQ: u64 = 7;

/// Runs of the device after which it must have come to rest: nothing is posted any more.
const MOST_RUNS: usize = 20_000;
/// Work requests of one run.
pub const RUN: usize = 64;

/// A queue pair's service and where it receives. An XRC target is the one that receives from shared queues.
pub type Shape = (Service, ReceiveQueueType);

/// What each of two connected guests may have, a few at a time so that a world is made quickly. An XRC initiator
/// has its target behind it: two guests' are connected crosswise.
pub mod shapes {
    use super::{ReceiveQueueType::*, Service::*, Shape};
    pub const RELIABLE: &[Shape] = &[(Rc, Own), (Rc, Shared)];
    pub const UNRELIABLE: &[Shape] = &[(Uc, Own), (Uc, Shared)];
    pub const DATAGRAM: &[Shape] = &[(Ud, Own), (Gsi, Own)];
    pub const SMALL: &[Shape] = &[(Ud, Shared), (Smi, Own), (Umr, Absent)];
    pub const XRC: &[Shape] = &[(Xrc, Absent), (Xrc, Shared)];
    pub const MIXED: &[Shape] =
        &[(Rc, Own), (Ud, Own), (Xrc, Absent), (Xrc, Shared), (Rc, Shared), (Gsi, Own)];
    /// Those that a target plays all of, one an input.
    pub const EACH: &[&[Shape]] = &[RELIABLE, XRC, UNRELIABLE, DATAGRAM, SMALL, MIXED];
}

/// A queue pair.
#[derive(Clone, Debug)]
pub struct Channel {
    pub number: u32,
    pub service: Service,
    pub receive: ReceiveQueueType,
    pub buffer: u64,
    pub doorbell: u64,
    /// Where in the buffer sends begin.
    pub base: u64,
    /// Blocks posted, and receives.
    pub sent: u16,
    pub received: u16,
}

/// What a guest has.
pub struct Assets {
    pub pd: u32,
    pub xrcd: u32,
    pub cq: Queue,
    pub region: Region,
    /// Of XRC, and basic.
    pub srq: [Queue; 2],
    pub channels: Vec<Channel>,
    canaries: Vec<u64>,
}

/// The device with its guests.
pub struct World {
    pub rig: Rig,
    pub shapes: Vec<Shape>,
    /// Of the hostile guest and the peer.
    pub assets: [Assets; 2],
    /// Numbers of objects, of all three, and those that the hostile guest has made since.
    pub numbers: Vec<u32>,
    /// The commands that made all that.
    pub history: Vec<Vec<u8>>,
    memories: Vec<File>,
    apart: &'static Apart,
    /// What the peer has, by kind and number.
    peer: String,
    /// Blocks that their memories take.
    blocks: [u64; GUESTS],
}

/// The bystander's objects in full, and its memory, before the hostile guest does anything.
struct Apart {
    objects: String,
    contents: Vec<(u64, Vec<u8>)>,
}

/// Until it is known.
static NOTHING: Apart = Apart { objects: String::new(), contents: Vec::new() };

thread_local! {
    /// Memories of guests that were: pages that exist already cost less than new ones.
    static USED: RefCell<Vec<Vec<File>>> = const { RefCell::new(Vec::new()) };
}

fn memory() -> File {
    let fd = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).expect("memory for a guest");
    let file = File::from(fd);
    file.set_len(MEMORY).expect("memory for a guest");
    file
}

/// Memories for all, with zeros.
fn memories() -> Vec<File> {
    let Some(used) = USED.with_borrow_mut(Vec::pop) else { return (0..GUESTS).map(|_| memory()).collect() };
    for file in &used {
        for part in extents(file) {
            static ZEROS: [u8; 0x1_0000] = [0; 0x1_0000];
            for at in part.clone().step_by(ZEROS.len()) {
                let length = ZEROS.len().min((part.end - at) as usize);
                file.write_all_at(&ZEROS[..length], at).expect("zeros");
            }
        }
    }
    used
}

/// The parts of a memory that have been written or read.
fn extents(file: &File) -> Vec<std::ops::Range<u64>> {
    use rustix::fs::{SeekFrom, seek};
    let mut all = Vec::new();
    let mut at = 0;
    while let Ok(data) = seek(file, SeekFrom::Data(at)) {
        at = seek(file, SeekFrom::Hole(data)).expect("a hole follows");
        all.push(data..at);
    }
    all
}

fn canary(rig: &mut Rig, guest: usize, canaries: &mut Vec<u64>) {
    let at = rig.alloc(guest, PAGE);
    rig.write(guest, at, &CANARY);
    canaries.push(at);
}

/// A basic SRQ like [`Rig::xrc_srq`].
fn basic_srq(rig: &mut Rig, guest: usize, pd: u32) -> Queue {
    let (buffer, doorbell) = (rig.alloc(guest, PAGE), rig.alloc(guest, 8));
    let mut c = vec![0; 272 - 16];
    let mut set = |f: Field, v: u64| f.within(16).set(&mut c, v);
    set(rmpc::WQ__PD, pd.into());
    set(rmpc::WQ__DBR_ADDR, doorbell);
    set(rmpc::WQ__LOG_WQ_STRIDE, RECEIVE_SHIFT);
    set(rmpc::WQ__LOG_WQ_SZ, RECEIVES.ilog2().into());
    c.extend_from_slice(&buffer.to_be_bytes());
    for n in 0..RECEIVES {
        let mut head = [0; 16];
        srq_next::NEXT_INDEX.set(&mut head, (n + 1) % RECEIVES);
        rig.write(guest, buffer + (n << RECEIVE_SHIFT), &head);
    }
    Queue { number: rig.made(guest, Opcode::CREATE_RMP, &c), buffer, doorbell }
}

fn channel(rig: &mut Rig, guest: usize, assets: &Assets, shape: Shape) -> Channel {
    let (service, receive) = shape;
    let (buffer, doorbell) = (rig.alloc(guest, PAGE), rig.alloc(guest, 8));
    let mut c = vec![0; 272 - 16];
    let mut set = |f: Field, v: u64| f.within(8).set(&mut c, v);
    let target = service == Service::Xrc && receive == ReceiveQueueType::Shared;
    set(qpc::ST, service as u64);
    set(qpc::RQ_TYPE, receive as u64);
    set(qpc::PD, assets.pd.into());
    set(qpc::CQN_SND, assets.cq.number.into());
    set(qpc::CQN_RCV, assets.cq.number.into());
    set(qpc::UAR_PAGE, rig.uar[guest].into());
    set(qpc::DBR_ADDR, doorbell);
    set(qpc::LOG_SQ_SIZE, BLOCKS.ilog2().into());
    set(qpc::NO_SQ, target.into());
    set(qpc::XRCD, if target { assets.xrcd.into() } else { 0 });
    set(qpc::SRQN_RMPN_XRQN, assets.srq[1].number.into());
    let own = receive == ReceiveQueueType::Own;
    if own {
        set(qpc::LOG_RQ_SIZE, RECEIVES.ilog2().into());
        set(qpc::LOG_RQ_STRIDE, RECEIVE_SHIFT - 4);
    }
    c.extend_from_slice(&buffer.to_be_bytes());
    let number = rig.made(guest, Opcode::CREATE_QP, &c);
    let base = if own { RECEIVES << RECEIVE_SHIFT } else { 0 };
    Channel { number, service, receive, buffer, doorbell, base, sent: 0, received: 0 }
}

fn assets(rig: &mut Rig, guest: usize, shapes: &[Shape]) -> Assets {
    let mut canaries = Vec::new();
    let pd = rig.made(guest, Opcode::ALLOC_PD, &[]);
    let xrcd = rig.made(guest, Opcode::ALLOC_XRCD, &[]);
    canary(rig, guest, &mut canaries);
    let cq = rig.cq(guest, LOG_CQ);
    canary(rig, guest, &mut canaries);
    let region = rig.region(guest, pd);
    canary(rig, guest, &mut canaries);
    let srq = [rig.xrc_srq(guest, pd, xrcd, cq.number), basic_srq(rig, guest, pd)];
    // What the device may write exists from the beginning.
    rig.write(guest, cq.buffer, &vec![0; 64 << LOG_CQ]);
    rig.write(guest, region.at, &[0; PAGE as usize]);
    let mut assets = Assets { pd, xrcd, cq, region, srq, channels: Vec::new(), canaries };
    assets.channels = shapes.iter().map(|shape| channel(rig, guest, &assets, *shape)).collect();
    canary(rig, guest, &mut assets.canaries);
    assets
}

/// Input of a command that moves a QP on.
pub fn transition(opcode: Opcode, qpn: u32, lid: u16, remote: u32) -> Vec<u8> {
    let mut input = vec![0; 272];
    command_in::OPCODE.set(&mut input, opcode as u64);
    command_in::OBJECT.set(&mut input, qpn.into());
    for (field, value) in [
        (qpc::RRE, 1),
        (qpc::RWE, 1),
        (qpc::RAE, 1),
        (qpc::MTU, 3),
        (qpc::Q_KEY, QP1_QKEY.into()),
        (qpc::REMOTE_QPN, remote.into()),
        (qpc::PRIMARY_ADDRESS_PATH__RLID, lid.into()),
        // The shortest times there are: silence and "not ready" end at once.
        (qpc::MIN_RNR_NAK, 1),
        (qpc::RNR_RETRY, 1),
        (qpc::PRIMARY_ADDRESS_PATH__ACK_TIMEOUT, 1),
    ] {
        field.within(24).set(&mut input, value);
    }
    input
}

/// The commands from RESET to ready to send.
pub const TO_READY: [Opcode; 3] = [Opcode::RST2INIT_QP, Opcode::INIT2RTR_QP, Opcode::RTR2RTS_QP];

fn connect(rig: &mut Rig, guest: usize, qpn: u32, to: (usize, u32)) {
    let lid = rig.device.guests[to.0].lid;
    for opcode in TO_READY {
        let out = rig.raw(guest, &transition(opcode, qpn, lid, to.1), 16);
        assert_eq!(command_out::STATUS.get(&out), 0, "{opcode:?}");
    }
}

impl World {
    /// Everybody up, with queue pairs of these shapes connected.
    pub fn new(shapes: &[Shape]) -> Self {
        let memories = memories();
        let shared = memories.iter().map(|m| m.try_clone().expect("a second handle")).collect();
        let mut rig = Rig::on(shared);
        // Time passes when it is told to, so that an input does the same whenever it is played.
        rig.device.engine.set_time(Instant::now());
        (0..GUESTS).for_each(|guest| rig.bring_up(guest));
        // First, so that it is the same in all worlds.
        let apart = assets(&mut rig, BYSTANDER, &shapes::RELIABLE[..1]);
        let lonely = apart.channels[0].number;
        connect(&mut rig, BYSTANDER, lonely, (BYSTANDER, lonely));
        let ours = [HOSTILE, PEER].map(|guest| assets(&mut rig, guest, shapes));
        for (guest, other) in [(HOSTILE, PEER), (PEER, HOSTILE)] {
            for n in 0..shapes.len() {
                let far = ours[other].channels[across(shapes, n)].number;
                connect(&mut rig, guest, ours[guest].channels[n].number, (other, far));
            }
        }
        let numbers = (0..GUESTS).flat_map(|g| rig.device.objects_held(g).into_values().flatten()).collect();
        let history = std::mem::take(&mut rig.history);
        let mut world = Self {
            rig,
            shapes: shapes.to_vec(),
            assets: ours,
            numbers,
            history,
            memories,
            apart: &NOTHING,
            peer: String::new(),
            blocks: [0; GUESTS],
        };
        for guest in [HOSTILE, PEER] {
            (0..shapes.len()).for_each(|n| world.refill(guest, n));
        }
        // Queue pairs that are ready have their turn, and every page that was allocated is there.
        world.run(MOST_RUNS);
        for guest in 0..GUESTS {
            let end = world.rig.alloc(guest, 0);
            let commands = [COMMAND_QUEUE, INPUT_BOXES, OUTPUT_BOXES];
            commands.into_iter().chain((ALLOCATED..end).step_by(PAGE as usize)).for_each(|at| {
                world.rig.read::<1>(guest, at);
            });
        }
        static APART: OnceLock<Apart> = OnceLock::new();
        world.apart = APART
            .get_or_init(|| Apart { objects: world.objects(BYSTANDER), contents: world.contents(BYSTANDER) });
        world.peer = world.held(PEER);
        world.blocks = [0, 1, 2].map(|guest| world.blocks_of(guest));
        world
    }

    fn held(&self, guest: usize) -> String {
        format!("{:?}", self.rig.device.objects_held(guest))
    }

    /// All objects of a guest's, in full.
    fn objects(&self, guest: usize) -> String {
        use mlx5_model::objects::{Object, Table};
        fn of<T: Object + std::fmt::Debug>(table: &Table<T>, guest: usize) -> String {
            let mut all: Vec<_> = table.iter().filter(|(_, o)| o.guest() == guest).collect();
            all.sort_by_key(|(number, _)| *number);
            format!("{all:?}\n")
        }
        let (o, g) = (&self.rig.device.objects, &self.rig.device.guests[guest]);
        [
            of(&o.pds, guest),
            of(&o.xrcds, guest),
            of(&o.transport_domains, guest),
            of(&o.mkeys, guest),
            of(&o.cqs, guest),
            of(&o.srqs, guest),
            of(&o.qps, guest),
            format!("{:?} {:?} {:?} {:?}", g.eqs, g.uars, g.pages, g.phase),
        ]
        .concat()
    }

    /// Blocks that a guest's memory takes: more if anybody wrote, or read, where nobody had been.
    fn blocks_of(&self, guest: usize) -> u64 {
        self.memories[guest].metadata().expect("metadata").blocks()
    }

    /// The pages of a guest's that have been written.
    fn contents(&self, guest: usize) -> Vec<(u64, Vec<u8>)> {
        let read = |part: std::ops::Range<u64>| {
            let mut bytes = vec![0; (part.end - part.start) as usize];
            self.rig.device.guests[guest].memory.read(part.start, &mut bytes).expect("it is mapped");
            (part.start, bytes)
        };
        extents(&self.memories[guest]).into_iter().map(read).collect()
    }

    /// Whether the hostile guest's canaries must live, as they must unless it gave them to the device by commands.
    pub fn check_canaries(&self, guest: usize) {
        for &at in &self.assets[guest].canaries {
            let page: [u8; PAGE as usize] = self.rig.read(guest, at);
            assert!(page == CANARY, "guest {guest}: the page at {at:#x} was never the device's");
        }
    }

    /// Serves what there is to do, but not for ever.
    pub fn run(&mut self, runs: usize) {
        for _ in 0..runs {
            if !self.rig.device.run(RUN) {
                break;
            }
        }
    }

    /// Everything that must hold in the end. Then the hostile guest leaves, by itself or not, and more must hold.
    pub fn finish(mut self, politely: bool) {
        self.check_others();
        self.check_held();
        if politely {
            let mut input = [0; 16];
            command_in::OPCODE.set(&mut input, Opcode::DISABLE_HCA as u64);
            // Refused if it has done so already.
            self.ask(HOSTILE, &input, 16);
        } else {
            self.rig.device.reset(HOSTILE);
        }
        let left = self.rig.device.held(HOSTILE);
        assert!(left.is_nothing(), "left behind: {left:?}");
        assert!((0..MOST_RUNS).any(|_| !self.rig.device.run(RUN)), "the device does not come to rest");
        self.check_others();
        self.rig.bring_up(HOSTILE);
        for guest in 0..GUESTS {
            assert_eq!(self.rig.status(guest, Opcode::NOP, 0, &[]), 0, "guest {guest} is served");
        }
        self.leave_all();
    }

    /// Everybody leaves, and nothing is left.
    pub fn leave_all(mut self) {
        for guest in 0..GUESTS {
            self.rig.device.reset(guest);
        }
        let o = &self.rig.device.objects;
        assert_eq!((o.in_use(), o.listed_pages()), (0, 0), "numbers and pages are given back");
        let report = self.rig.device.report();
        assert!(report.guests.iter().all(|g| g.held.is_nothing()));
        if self.blocks_of(HOSTILE) < 2 * self.blocks[HOSTILE] {
            USED.with_borrow_mut(|used| used.push(self.memories));
        }
    }

    fn check_others(&self) {
        self.check_canaries(PEER);
        assert_eq!(self.held(PEER), self.peer, "the peer's objects");
        assert_eq!(self.blocks_of(PEER), self.blocks[PEER], "the peer's memory");
        assert_eq!(self.blocks_of(BYSTANDER), self.blocks[BYSTANDER], "the bystander's memory");
        assert_eq!(self.objects(BYSTANDER), self.apart.objects, "the bystander's objects");
        assert!(self.contents(BYSTANDER) == self.apart.contents, "the bystander's memory");
    }

    /// What is held is what there is.
    fn check_held(&self) {
        let device = &self.rig.device;
        let mut all = std::collections::BTreeSet::new();
        let mut count = 0;
        for guest in 0..GUESTS {
            for (kind, numbers) in device.objects_held(guest) {
                use mlx5_model::objects::Kind::{Eq, MulticastMember, Uar};
                if !matches!(kind, Eq | Uar | MulticastMember) {
                    count += numbers.len();
                    all.extend(numbers);
                }
            }
        }
        assert_eq!((count, all.len()), (device.objects.in_use(), count), "numbers are unique and counted");
    }

    /// Posts as many receives as there is room for.
    pub fn refill(&mut self, guest: usize, n: usize) {
        let region = self.assets[guest].region;
        let c = self.assets[guest].channels[n].clone();
        let segment = crate::driver::data(region, 0x400);
        let taken = |srqn| self.rig.device.objects.srqs.get(srqn).map(|srq| srq.taken());
        let srq = match (c.service, c.receive) {
            (_, ReceiveQueueType::Own) => {
                for slot in 0..RECEIVES {
                    self.rig.write(guest, c.buffer + (slot << RECEIVE_SHIFT), &segment);
                    self.rig.write(guest, c.buffer + (slot << RECEIVE_SHIFT) + 16, &[0, 0, 0, 0, 0, 0, 1, 0]);
                }
                let next = match self.rig.device.objects.qps.get(c.number).map(|qp| &qp.receive) {
                    Some(mlx5_model::qp::Receive::Own { next, .. }) => *next,
                    _ => return,
                };
                let posted = next.wrapping_add(RECEIVES as u16);
                self.assets[guest].channels[n].received = posted;
                self.rig.write(guest, c.doorbell, &u32::from(posted).to_be_bytes());
                return;
            }
            (Service::Xrc, ReceiveQueueType::Shared) => &self.assets[guest].srq[0],
            (_, ReceiveQueueType::Shared) => &self.assets[guest].srq[1],
            _ => return,
        };
        let Some(taken) = taken(srq.number) else { return };
        for slot in 0..RECEIVES {
            self.rig.write(guest, srq.buffer + (slot << RECEIVE_SHIFT) + 16, &segment);
        }
        self.rig.write(guest, srq.doorbell, &u32::from(taken.wrapping_add(RECEIVES as u16)).to_be_bytes());
    }

    /// Issues a command; `None` if it was not served, which may be the hostile guest's own doing.
    pub fn ask(&mut self, guest: usize, input: &[u8], output: usize) -> Option<Vec<u8>> {
        self.rig.device.bar_write(guest, 0x10, &COMMAND_QUEUE.to_be_bytes());
        self.rig.issue(guest, input, output);
        self.rig.answer(guest, output)
    }

    fn query(&mut self, guest: usize, opcode: Opcode, number: u32) -> Option<Vec<u8>> {
        let mut input = [0; 16];
        command_in::OPCODE.set(&mut input, opcode as u64);
        command_in::OBJECT.set(&mut input, number.into());
        self.ask(guest, &input, 272)
    }

    /// Says that all completions and events were read.
    pub fn drain(&mut self, guest: usize) {
        let cq = &self.assets[guest].cq;
        let (number, doorbell, eqn) = (cq.number, cq.doorbell, self.rig.eqn[guest]);
        if let Some(out) = self.query(guest, Opcode::QUERY_CQ, number) {
            self.rig.write(guest, doorbell, &cqc::PRODUCER_COUNTER.get32(&out[16..]).to_be_bytes());
        }
        if let Some(out) = self.query(guest, Opcode::QUERY_EQ, eqn) {
            let word = eqn << 24 | eqc::PRODUCER_COUNTER.get32(&out[16..]) & 0xff_ffff;
            self.doorbell(guest, EQ_UPDATE, &word.to_be_bytes());
        }
    }

    /// Writes to the guest's page of doorbells.
    pub fn doorbell(&mut self, guest: usize, at: u64, bytes: &[u8]) {
        self.rig.device.bar_write(guest, u64::from(self.rig.uar[guest]) * PAGE + at, bytes);
    }

    /// Connects a pair of queue pairs anew, as far as they can be.
    pub fn reconnect(&mut self, n: usize) {
        for (guest, other) in [(HOSTILE, PEER), (PEER, HOSTILE)] {
            let far = across(&self.shapes, n);
            let (n, far) = if guest == HOSTILE { (n, far) } else { (far, n) };
            let (qpn, lid) = (self.assets[guest].channels[n].number, self.rig.device.guests[other].lid);
            let far = self.assets[other].channels[far].number;
            let reset = transition(Opcode::TO_RST_QP, qpn, lid, far);
            if self.ask(guest, &reset, 16).is_none() {
                continue;
            }
            self.assets[guest].channels[n].sent = 0;
            self.rig.write(guest, self.assets[guest].channels[n].doorbell, &[0; 8]);
            self.refill(guest, n);
            for opcode in TO_READY {
                self.ask(guest, &transition(opcode, qpn, lid, far), 16);
            }
        }
    }
}

/// Where a queue pair's other end is among the peer's.
pub fn across(shapes: &[Shape], n: usize) -> usize {
    match shapes[n] {
        (Service::Xrc, ReceiveQueueType::Absent) => n + 1,
        (Service::Xrc, _) => n - 1,
        _ => n,
    }
}

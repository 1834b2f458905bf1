//! Memory keys that work requests change, and CQs that move, as a driver and its programs see them.

mod driver;

use driver::{KeyChange, Queue, Region, Rig, Role, data, key_change, part, remote};
use mlx5_model::{
    bits::Field,
    command::opcode::Opcode,
    fields::{cqc, cqe, mkc, modify_cq_in},
    hw::{ANY_QPN, AccessMode, CompletionOpcode, WqeOpcode, WqeSyndrome},
    mkey::change_mask as mask,
};

const ENABLE: u64 = mask::FREE | mask::VARIANT | mask::LENGTH | mask::START | mask::PAGE_SIZE;
const RIGHTS: u64 =
    mask::LOCAL_READ | mask::LOCAL_WRITE | mask::REMOTE_READ | mask::REMOTE_WRITE | mask::ATOMIC;
/// First byte of the second segment.
const CHECK_FREE: u8 = 2 << 5;
const CHECK_NOT_FREE: u8 = 1 << 5;
const CHECK_QPN: u8 = 1 << 3;

/// A guest with a domain, the driver's own QP for keys, and an RC QP connected to itself.
struct Scene {
    rig: Rig,
    pd: u32,
    cq: Queue,
    keys: Queue,
    rc: Queue,
    memory: Region,
}

impl Scene {
    fn new(name: &str) -> Self {
        let mut rig = Rig::up(name, 1);
        let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
        let cq = rig.cq(0, 6);
        let keys = rig.qp(0, 0, cq.number, Role::Keys);
        let rc = rig.qp(0, pd, cq.number, Role::Rc);
        let memory = rig.region(0, pd);
        Self { rig, pd, cq, keys, rc, memory }
    }

    /// A key that is free, with room for so many entries of 16 bytes.
    fn free_key(&mut self, mode: AccessMode, room: u64, more: &[(Field, u64)]) -> u32 {
        let mut c = vec![0; 272 - 16];
        for (field, value) in [
            (mkc::FREE, 1),
            (mkc::UMR_EN, 1),
            (mkc::LR, 1),
            (mkc::ACCESS_MODE_1_0, mode as u64),
            (mkc::QPN, ANY_QPN.into()),
            (mkc::PD, self.pd.into()),
            (mkc::LOG_PAGE_SIZE, 12),
            (mkc::TRANSLATIONS_OCTWORD_SIZE, room),
        ]
        .iter()
        .chain(more)
        {
            field.set(&mut c, *value);
        }
        self.rig.made(0, Opcode::CREATE_MKEY, &c) << 8
    }

    /// Posts one work request to a QP fresh from RESET and answers with the syndrome of its completion, 0: fine.
    fn post(&mut self, driver: bool, opcode: WqeOpcode, word: u32, segments: &[[u8; 16]]) -> u64 {
        let rig = &mut self.rig;
        let qp = if driver { &self.keys } else { &self.rc };
        let number = qp.number;
        assert_eq!(rig.status(0, Opcode::TO_RST_QP, number, &[]), 0);
        rig.connect(0, qp.number, (0, qp.number), 1, 1);
        rig.drain(0, &self.cq);
        let out = rig.command(0, Opcode::QUERY_CQ, self.cq.number, &[], 272);
        let next = cqc::PRODUCER_COUNTER.get(&out[16..]);
        rig.post_with(0, qp, 0, opcode as u8, word, segments);
        rig.settle();
        let c = rig.completion(0, &self.cq, next % 64);
        assert_eq!(cqe::QPN.get32(&c), number, "a completion was written");
        match cqe::OPCODE.get(&c) {
            n if n == CompletionOpcode::Requester as u64 => 0,
            _ => cqe::SYNDROME.get(&c),
        }
    }

    fn change(&mut self, driver: bool, change: &KeyChange) -> u64 {
        self.post(driver, WqeOpcode::Umr, change.key, &key_change(change))
    }

    /// Writes five bytes to the key by RDMA.
    fn write(&mut self, key: u32, at: u64) -> u64 {
        let to = Region { key, at };
        let from = data(self.memory, 5);
        self.post(false, WqeOpcode::Write, 0, &[remote(to), from])
    }
}

const BIND_ERROR: u64 = WqeSyndrome::MemoryWindowBind as u64;
const REMOTE_ACCESS: u64 = WqeSyndrome::RemoteAccess as u64;

#[test]
fn the_driver_registers_moves_and_revokes() {
    let mut s = Scene::new("registers");
    let key = s.free_key(AccessMode::PageList, 4, &[]);
    assert_eq!(s.write(key, 0), REMOTE_ACCESS, "free");
    // The list lies in the driver's memory, padded with zeros.
    let (page, other, lists) = (s.rig.alloc(0, 0x1000), s.rig.alloc(0, 0x1000), s.memory);
    for (n, entry) in [page | 3, other | 3, 0, 0, 0, 0, 0, 0].iter().enumerate() {
        s.rig.write(0, lists.at + n as u64 * 8, &entry.to_be_bytes());
    }
    let context = [
        (mkc::LEN, 0x2000),
        (mkc::START_ADDR, 0x7000_0000),
        (mkc::LOG_PAGE_SIZE, 12),
        (mkc::MKEY_7_0, 0x42),
        (mkc::LW, 1),
        (mkc::LR, 1),
        (mkc::RW, 1),
    ];
    let register = KeyChange {
        key,
        flags: CHECK_NOT_FREE,
        mask: ENABLE | RIGHTS,
        context: &context,
        behind: Some((lists, 64)),
        ..KeyChange::default()
    };
    assert_eq!(
        s.change(false, &KeyChange { mask: ENABLE | mask::PD, ..register }),
        BIND_ERROR,
        "not its to give"
    );
    assert_eq!(s.change(true, &register), 0);
    assert_eq!(s.change(true, &register), BIND_ERROR, "not free any more");
    let named = key | 0x42;
    s.rig.write(0, s.memory.at, b"hello");
    assert_eq!(s.write(named, 0x7000_0ffe), 0);
    assert_eq!(&s.rig.read::<2>(0, page + 0xffe), b"he");
    assert_eq!(&s.rig.read::<3>(0, other), b"llo");
    assert_eq!(s.write(key, 0x7000_0000), REMOTE_ACCESS, "under its old name");
    assert_eq!(s.write(named, 0x7000_1ffc), REMOTE_ACCESS, "beyond its end");
    // Other rights, in place.
    let rights = KeyChange { key: named, flags: CHECK_FREE, mask: RIGHTS, ..KeyChange::default() };
    assert_eq!(s.change(true, &rights), 0);
    assert_eq!(s.write(named, 0x7000_0000), REMOTE_ACCESS, "no right");
    // And away with it: under a wrong name not, then yes.
    let free = [(mkc::FREE, 1)];
    let revoke = KeyChange { key: named, mask: mask::FREE, context: &free, ..KeyChange::default() };
    assert_eq!(s.change(true, &KeyChange { key, ..revoke }), BIND_ERROR);
    assert_eq!(s.change(true, &revoke), 0);
    assert_eq!(s.change(true, &rights), BIND_ERROR, "free again");
}

#[test]
fn lists_have_bounds() {
    let mut s = Scene::new("bounds");
    let key = s.free_key(AccessMode::PageList, 4, &[]);
    let context = [(mkc::LEN, 0x1000), (mkc::LOG_PAGE_SIZE, 12)];
    let list = [[0; 16]; 4];
    let change = KeyChange { key, mask: ENABLE, context: &context, ..KeyChange::default() };
    assert_eq!(s.change(true, &change), BIND_ERROR, "no list yet");
    assert_eq!(s.change(true, &KeyChange { list: &list, offset: 1, ..change }), BIND_ERROR, "no room");
    assert_eq!(s.change(true, &KeyChange { list: &list, offset: 1 << 47, ..change }), BIND_ERROR);
    let behind = Some((s.memory, 0x1000));
    assert_eq!(s.change(true, &KeyChange { behind, ..change }), BIND_ERROR, "no room for so much");
    let nowhere = Some((Region { key: 1, at: 0 }, 64));
    assert_eq!(s.change(true, &KeyChange { behind: nowhere, ..change }), WqeSyndrome::LocalProtection as u64);
    let too_long = [(mkc::LEN, 0x9000), (mkc::LOG_PAGE_SIZE, 12)];
    assert_eq!(s.change(true, &KeyChange { list: &list, context: &too_long, ..change }), BIND_ERROR);
    let signed = KeyChange { list: &list, mask: ENABLE | 1 << 12, ..change };
    assert_eq!(s.change(true, &signed), BIND_ERROR, "signatures");
    assert_eq!(s.change(true, &KeyChange { list: &list, ..change }), 0);
    // A key made by command has no room beyond what it lists, whatever its context says of it.
    let page = s.rig.alloc(0, 0x1000);
    let region = s.rig.region_of(0, s.pd, page, 12, &[page]);
    let far = KeyChange { key: region.key, list: &list, offset: 1 << 30, ..KeyChange::default() };
    assert_eq!(s.change(true, &far), BIND_ERROR);
    assert_eq!(s.rig.status(0, Opcode::DESTROY_MKEY, key >> 8, &[]), 0);
}

#[test]
fn a_program_binds_and_invalidates_a_window() {
    let mut s = Scene::new("window");
    let window = s.free_key(AccessMode::KeyList, 4, &[(mkc::EN_RINVAL, 1)]);
    let (memory, qpn) = (s.memory, u64::from(s.rc.number));
    let context = [
        (mkc::LEN, 0x100),
        (mkc::START_ADDR, memory.at + 0x80),
        (mkc::MKEY_7_0, 7),
        (mkc::RW, 1),
        (mkc::QPN, qpn),
    ];
    let list = [part(memory.key, memory.at + 0x80, 0x100), [0; 16], [0; 16], [0; 16]];
    let bind = KeyChange {
        key: window,
        flags: CHECK_NOT_FREE,
        mask: ENABLE & !mask::PAGE_SIZE | RIGHTS | mask::QPN,
        context: &context,
        list: &list,
        ..KeyChange::default()
    };
    assert_eq!(s.change(false, &bind), 0);
    let named = window | 7;
    s.rig.write(0, memory.at, b"world");
    assert_eq!(s.write(named, memory.at + 0x90), 0);
    assert_eq!(&s.rig.read::<5>(0, memory.at + 0x90), b"world");
    assert_eq!(s.write(named, memory.at + 0x7f), REMOTE_ACCESS, "before its start");
    // Another QP can neither use nor end it.
    let other = s.rig.qp(0, s.pd, s.cq.number, Role::Rc);
    let mine = std::mem::replace(&mut s.rc, other);
    assert_eq!(s.write(named, memory.at + 0x90), REMOTE_ACCESS);
    let free = [(mkc::FREE, 1)];
    let end = KeyChange {
        key: named,
        flags: CHECK_QPN,
        mask: mask::FREE | mask::VARIANT,
        context: &free,
        ..KeyChange::default()
    };
    assert_eq!(s.change(false, &end), BIND_ERROR);
    s.rc = mine;
    assert_eq!(s.change(false, &end), 0);
    assert_eq!(s.write(named, memory.at + 0x90), REMOTE_ACCESS, "ended");
    // What lies below a window is asked, too.
    assert_eq!(s.change(false, &bind), 0);
    assert_eq!(s.rig.status(0, Opcode::DESTROY_MKEY, memory.key >> 8, &[]), 0);
    s.memory = s.rig.region(0, s.pd);
    assert_eq!(s.write(named, memory.at + 0x90), REMOTE_ACCESS);
    // Programs leave keys alone that are not theirs to change, or of another domain.
    let fixed = s.free_key(AccessMode::KeyList, 4, &[(mkc::UMR_EN, 0)]);
    assert_eq!(s.change(false, &KeyChange { key: fixed, ..bind }), BIND_ERROR);
    let pd = s.rig.made(0, Opcode::ALLOC_PD, &[]);
    let foreign = s.free_key(AccessMode::KeyList, 4, &[(mkc::PD, pd.into())]);
    assert_eq!(s.change(false, &KeyChange { key: foreign, ..bind }), BIND_ERROR);
}

#[test]
fn keys_in_circles_and_in_crumbs_end() {
    let mut s = Scene::new("circles");
    let [a, b] = [0; 2].map(|_| s.free_key(AccessMode::KeyList, 4, &[]));
    let context = [(mkc::LEN, 64), (mkc::RW, 1), (mkc::LW, 1), (mkc::LR, 1), (mkc::QPN, ANY_QPN.into())];
    for (key, of) in [(a, b), (b, a)] {
        let list = [part(of, 0, 64), [0; 16], [0; 16], [0; 16]];
        let change =
            KeyChange { key, mask: ENABLE | RIGHTS, context: &context, list: &list, ..KeyChange::default() };
        assert_eq!(s.change(true, &change), 0);
    }
    assert_eq!(s.write(a, 0), REMOTE_ACCESS);
    // A gigabyte, one byte at a time: woven of one strand.
    let mut weave = [0; 16];
    weave[3] = 1;
    weave[6] = 4;
    weave[8] = 0x40;
    weave[15] = 1;
    let mut strand = [0; 16];
    strand[3] = 1;
    strand[4..8].copy_from_slice(&s.memory.key.to_be_bytes());
    strand[8..].copy_from_slice(&s.memory.at.to_be_bytes());
    let list = [weave, strand, [0; 16], [0; 16]];
    let whole = [(mkc::LEN, 1 << 30), (mkc::RW, 1), (mkc::LR, 1), (mkc::LW, 1)];
    let change =
        KeyChange { key: a, mask: ENABLE | RIGHTS, context: &whole, list: &list, ..KeyChange::default() };
    assert_eq!(s.change(true, &change), 0);
    let began = std::time::Instant::now();
    let all = Region { key: a, at: 0 };
    let status = s.post(false, WqeOpcode::Write, 0, &[remote(all), data(all, 1 << 30)]);
    assert_eq!(status, WqeSyndrome::LocalProtection as u64);
    assert!(began.elapsed().as_secs() < 4);
    assert_eq!(s.write(a, 12), 0, "in small pieces it is allowed");
}

#[test]
fn a_cq_goes_on_in_its_new_memory() {
    let mut s = Scene::new("resize");
    let (page, doorbell) = (s.rig.alloc(0, 0x1000), s.cq.doorbell);
    assert_eq!(s.write(s.memory.key, s.memory.at), 0);
    assert_eq!(s.write(s.memory.key, s.memory.at), 0);
    let resize = |log: u64, pages: &[u64], variant: u64| {
        let mut input = vec![0; 272];
        mlx5_model::fields::command_in::OPCODE.set(&mut input, Opcode::MODIFY_CQ as u64);
        mlx5_model::fields::command_in::OP_MOD.set(&mut input, variant);
        modify_cq_in::SELECT.set(&mut input, 7);
        cqc::LOG_CQ_SIZE.within(16).set(&mut input, log);
        pages.iter().for_each(|page| input.extend_from_slice(&page.to_be_bytes()));
        input
    };
    let number = s.cq.number;
    let mut ask = |mut input: Vec<u8>| {
        mlx5_model::fields::command_in::OBJECT.set(&mut input, number.into());
        s.rig.raw(0, &input, 16)[0]
    };
    assert_ne!(ask(resize(5, &[], 1)), 0, "no memory");
    assert_ne!(ask(resize(23, &[page], 1)), 0, "too large");
    assert_ne!(ask(resize(5, &[page], 2)), 0, "no such variant");
    assert_eq!(ask(resize(5, &[page], 1)), 0);
    // The program has read one of the two: an entry of its own kind ends the old memory.
    let entry = s.rig.completion(0, &s.cq, 2);
    assert_eq!(cqe::OPCODE.get(&entry), CompletionOpcode::Resize as u64);
    s.cq = Queue { number, buffer: page, doorbell };
    assert_eq!(s.write(s.memory.key, s.memory.at), 0);
    let out = s.rig.command(0, Opcode::QUERY_CQ, number, &[], 272);
    assert_eq!((cqc::LOG_CQ_SIZE.get(&out[16..]), cqc::PRODUCER_COUNTER.get(&out[16..])), (5, 4));
}

#[test]
fn what_an_unreliable_connection_may_not_write_is_dropped() {
    let mut s = Scene::new("uc");
    s.rc = s.rig.qp(0, s.pd, s.cq.number, Role::Uc);
    s.rig.write(0, s.memory.at, b"seven");
    let page = s.rig.alloc(0, 0x1000);
    let pd = s.rig.made(0, Opcode::ALLOC_PD, &[]);
    let foreign = s.rig.region_of(0, pd, page, 12, &[page]);
    let own = s.rig.region_of(0, s.pd, page, 12, &[page]);
    for (key, at) in [(foreign.key, page), (own.key, page + 0xffc), (own.key ^ 1, page), (0, page)] {
        assert_eq!(s.write(key, at), 0, "the sender never learns");
    }
    assert_eq!(s.rig.read::<5>(0, page), [0; 5]);
    assert_eq!(s.write(own.key, page), 0);
    assert_eq!(&s.rig.read::<5>(0, page), b"seven");
    // What it asks of its own side, it is told.
    s.memory.key ^= 1;
    assert_eq!(s.write(own.key, page), WqeSyndrome::LocalProtection as u64);
    s.memory.key ^= 1;
    let to = Region { key: own.key, at: page };
    let read = s.post(false, WqeOpcode::Read, 0, &[remote(to), data(s.memory, 5)]);
    assert_eq!(read, WqeSyndrome::LocalQpOperation as u64);
}

#[test]
fn changes_with_bytes_changed_end_one_way_or_another() {
    let mut s = Scene::new("noise");
    let keys = [AccessMode::PageList, AccessMode::KeyList].map(|mode| s.free_key(mode, 8, &[]));
    let page = s.rig.alloc(0, 0x1000);
    let context = [(mkc::LEN, 0x100), (mkc::RW, 1), (mkc::LR, 1), (mkc::LW, 1), (mkc::LOG_PAGE_SIZE, 12)];
    let (mut seed, mut done) = (0x9e37_79b9u32, [0u32; 2]);
    let mut dice = |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        (seed >> 8) as usize % n
    };
    for n in 0..1500 {
        let key = keys[n % 2];
        let list = [part(s.memory.key, s.memory.at, 0x100), [0; 16], [0; 16], [0; 16]];
        let pages = [[0, 0, 0, 0, 0, (page >> 16) as u8, (page >> 8) as u8, 3, 0, 0, 0, 0, 0, 0, 0, 0]; 4];
        let list = if n % 2 == 0 { &pages } else { &list };
        let behind = (dice(3) == 0).then_some((s.memory, 64));
        let change =
            KeyChange { key, mask: ENABLE | RIGHTS, context: &context, list, behind, ..KeyChange::default() };
        let mut segments = key_change(&change);
        for _ in 0..dice(6) {
            let at = dice(segments.len());
            segments[at][dice(16)] = [0, 1, 0xff, dice(256) as u8][dice(4)];
        }
        let status = s.post(dice(2) == 0, WqeOpcode::Umr, key, &segments);
        done[usize::from(status == 0)] += 1;
        // Whatever became of the key, it can be used, or not.
        s.write(key, 0);
        s.write(key, 0xfc);
    }
    assert!(done.iter().all(|count| *count > 100), "{done:?}");
    for key in keys {
        assert_eq!(s.rig.status(0, Opcode::DESTROY_MKEY, key >> 8, &[]), 0);
    }
}

//! How much one turn of the device does at most, whatever guests ask for. Work is counted, not timed.

mod driver;

use driver::{KeyChange, Queue, Region, Rig, Role, data, key_change, part, remote};
use mlx5_model::{
    command::opcode::Opcode,
    fields::{cqc, cqe, mkc},
    hw::{ANY_QPN, AccessMode, CompletionOpcode, WqeOpcode, WqeSyndrome},
    mkey::{
        change_mask as mask,
        steps::{MAX_STEPS, STEPS_PER_REQUEST},
    },
};

/// What a doorbell may have served.
const BUDGET: usize = 128;
/// Entries of the deepest key of keys, a byte each.
const CRUMBS: u64 = 4096;
const DEPTH: u64 = 4;

/// A key of keys of keys of a key of a page, of which each byte lies in a piece of its own.
fn crumbs(rig: &mut Rig, pd: u32, cq: &Queue) -> Region {
    let keys = rig.qp(0, 0, cq.number, Role::Keys);
    rig.connect(0, keys.number, (0, keys.number), 1, 1);
    let at = rig.alloc(0, CRUMBS * 16);
    let pages: Vec<u64> = (0..CRUMBS * 16 / 0x1000).map(|n| at + n * 0x1000).collect();
    let lists = rig.region_of(0, pd, at, 12, &pages);
    let (mut inner, mut block) = (rig.region(0, pd), 0);
    for level in 1..=DEPTH {
        let entries = if level == DEPTH { CRUMBS } else { 4 };
        let mut c = vec![0; 272 - 16];
        let free = [
            (mkc::FREE, 1),
            (mkc::UMR_EN, 1),
            (mkc::ACCESS_MODE_1_0, AccessMode::KeyList as u64),
            (mkc::QPN, ANY_QPN.into()),
            (mkc::PD, pd.into()),
            (mkc::TRANSLATIONS_OCTWORD_SIZE, entries),
        ];
        free.iter().for_each(|(field, value)| field.set(&mut c, *value));
        let key = rig.made(0, Opcode::CREATE_MKEY, &c) << 8;
        for n in 0..entries {
            let entry = match (level, n) {
                (DEPTH, _) => part(inner.key, inner.at + n, 1),
                (_, 0) => part(inner.key, inner.at, CRUMBS),
                _ => [0; 16],
            };
            rig.write(0, lists.at + n * 16, &entry);
        }
        let context =
            [(mkc::LEN, CRUMBS), (mkc::LR, 1), (mkc::LW, 1), (mkc::RW, 1), (mkc::QPN, ANY_QPN.into())];
        let rights = mask::LOCAL_READ | mask::LOCAL_WRITE | mask::REMOTE_WRITE;
        let change = KeyChange {
            key,
            mask: mask::FREE | mask::LENGTH | mask::START | rights,
            context: &context,
            behind: Some((lists, entries as u32 * 16)),
            ..KeyChange::default()
        };
        block = rig.post_with(0, &keys, block, WqeOpcode::Umr as u8, key, &key_change(&change));
        rig.settle();
        inner = Region { key, at: 0 };
    }
    rig.drain(0, cq);
    inner
}

struct Scene {
    rig: Rig,
    pd: u32,
    cq: Queue,
    crumbs: Region,
}

impl Scene {
    fn new(name: &str) -> Self {
        let mut rig = Rig::up(name, 1);
        let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
        let cq = rig.cq(0, 8);
        let crumbs = crumbs(&mut rig, pd, &cq);
        Self { rig, pd, cq, crumbs }
    }

    /// QPs that are connected to themselves, each with a write whose bytes lie there. Nobody rings yet.
    fn writers(&mut self, count: usize, segments: &[[u8; 16]]) -> Vec<Queue> {
        let Self { rig, pd, cq, .. } = self;
        let qps: Vec<Queue> = (0..count).map(|_| rig.qp(0, *pd, cq.number, Role::Rc)).collect();
        for qp in &qps {
            rig.connect(0, qp.number, (0, qp.number), 14, 7);
            rig.post(0, qp, 0, WqeOpcode::Write as u8, segments);
        }
        qps
    }

    fn syndromes(&mut self) -> Vec<u64> {
        let out = self.rig.command(0, Opcode::QUERY_CQ, self.cq.number, &[], 272);
        (DEPTH..cqc::PRODUCER_COUNTER.get(&out[16..]))
            .map(|n| self.rig.completion(0, &self.cq, n))
            .map(|c| match cqe::OPCODE.get(&c) {
                n if n == CompletionOpcode::Requester as u64 => 0,
                _ => cqe::SYNDROME.get(&c),
            })
            .collect()
    }

    /// Turns until nothing is left to do; says how many there were.
    fn turns(&mut self) -> usize {
        let most = BUDGET as u64 * STEPS_PER_REQUEST + MAX_STEPS;
        (1..)
            .find(|_| {
                let before = self.rig.device.engine.key_steps.taken();
                let more = self.rig.device.run(BUDGET);
                let steps = self.rig.device.engine.key_steps.taken() - before;
                assert!(steps <= most, "{steps} steps in one turn");
                !more
            })
            .unwrap()
    }
}

#[test]
fn a_message_in_crumbs_has_its_price() {
    let mut s = Scene::new("crumbs");
    let to = s.rig.region(0, s.pd);
    s.writers(32, &[remote(to), data(s.crumbs, 1000)]);
    let turns = s.turns();
    assert_eq!(s.syndromes(), [0; 32]);
    // Each byte is looked for once to check it and once to copy it.
    let steps = 32 * 1000 * DEPTH * 2;
    assert_eq!(s.rig.device.engine.key_steps.taken(), steps);
    let least = steps / (BUDGET as u64 * STEPS_PER_REQUEST + MAX_STEPS);
    assert!(turns as u64 >= least, "{turns} turns");
}

#[test]
fn a_message_in_too_many_crumbs_is_refused_however_they_are_divided() {
    let mut s = Scene::new("many");
    let at = s.rig.alloc(0, 64 * 0x1000);
    let pages: Vec<u64> = (0..64).map(|n| at + n * 0x1000).collect();
    let to = s.rig.region_of(0, s.pd, at, 12, &pages);
    let mut segments = vec![remote(to)];
    segments.extend([data(s.crumbs, 3200); 60]);
    s.writers(32, &segments);
    s.turns();
    assert_eq!(s.syndromes(), [WqeSyndrome::LocalProtection as u64; 32]);
    assert_eq!(s.rig.device.engine.key_steps.taken(), 32 * MAX_STEPS);
}

#[test]
fn asking_a_silent_peer_again_has_its_price() {
    let mut s = Scene::new("silent");
    let to = s.rig.region(0, s.pd);
    let begin = s.rig.device.engine.now();
    s.rig.device.engine.set_time(begin);
    s.rig.device.guests[0].port_up = false;
    s.writers(16, &[remote(to), data(s.crumbs, 4000)]);
    for _ in 0..5 {
        assert!(
            s.turns()
                > 16 * 4000 * DEPTH as usize / (BUDGET * STEPS_PER_REQUEST as usize + MAX_STEPS as usize)
        );
        let next = s.rig.device.engine.next_timer().unwrap();
        s.rig.device.engine.set_time(next);
    }
    assert!(s.syndromes().is_empty());
}

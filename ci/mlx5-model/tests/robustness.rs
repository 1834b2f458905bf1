//! A guest that writes what it likes: commands, doorbells, work requests and queue memory, valid ones with bytes
//! changed and plain noise. The model must neither panic nor loop, and must be able to serve the guest afterwards.

mod driver;

use driver::{MEMORY, Queue, Rig, Role, data, remote, xrc};
use mlx5_model::{
    bits::put,
    command::opcode::Opcode,
    fields::{command_in, command_out},
    hw::QpState,
    wire::LinkFaults,
};

/// A small generator, so that a failing seed can be run again.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    /// Mostly small numbers, zeros and ones: those that lead somewhere.
    fn byte(&mut self) -> u8 {
        match self.below(4) {
            0 => 0,
            1 => self.below(32) as u8,
            2 => 0xff,
            _ => self.next() as u8,
        }
    }

    fn mutate(&mut self, bytes: &mut [u8], times: usize) {
        for _ in 0..times {
            if !bytes.is_empty() {
                let at = self.below(bytes.len());
                bytes[at] = self.byte();
            }
        }
    }

    /// A number that may well be an object's.
    fn number(&mut self) -> u32 {
        if self.below(8) == 0 { self.next() as u32 } else { 0x40 + self.below(64) as u32 }
    }
}

/// Two guests with connected queue pairs, so that noise finds something to break.
fn lively(name: &str) -> (Rig, Vec<Queue>, Vec<Queue>) {
    let mut rig = Rig::up(name, 2);
    let pd = [0, 1].map(|g| rig.made(g, Opcode::ALLOC_PD, &[]));
    let xrcd = rig.made(1, Opcode::ALLOC_XRCD, &[]);
    let cq = [0, 1].map(|g| rig.cq(g, 4));
    let memory = [0, 1].map(|g| rig.region(g, pd[g]));
    let srq = rig.xrc_srq(1, pd[1], xrcd, cq[1].number);
    let initiator = rig.qp(0, pd[0], cq[0].number, Role::Initiator);
    let target = rig.qp(1, pd[1], 0, Role::Target(xrcd));
    rig.connect(1, target.number, (0, initiator.number), 1, 1);
    rig.connect(0, initiator.number, (1, target.number), 1, 1);
    let rc = [0, 1].map(|g| rig.qp(g, pd[g], cq[g].number, Role::Rc));
    rig.connect(0, rc[0].number, (1, rc[1].number), 1, 1);
    rig.connect(1, rc[1].number, (0, rc[0].number), 1, 1);
    rig.post_receive(1, &srq, 0, memory[1], 64);
    rig.post(0, &initiator, 0, 0x0a, &[xrc(srq.number), data(memory[0], 5)]);
    rig.post(0, &rc[0], 0, 0x08, &[remote(memory[1]), data(memory[0], 8)]);
    let [a, b] = rc;
    (rig, vec![initiator, a], vec![b, srq, target])
}

fn command(rig: &mut Rig, noise: &mut Noise) {
    let mut input = if noise.below(3) > 0 && !rig.history.is_empty() {
        let n = noise.below(rig.history.len());
        let mut input = rig.history[n].clone();
        let times = noise.below(6);
        noise.mutate(&mut input, times);
        input
    } else {
        let opcode = Opcode::ALL[noise.below(Opcode::ALL.len())];
        let mut input = vec![0; [8, 16, 64, 272, 280, 1296][noise.below(6)]];
        let times = noise.below(input.len());
        noise.mutate(&mut input, times);
        command_in::OPCODE.set(&mut input, opcode as u64);
        input
    };
    if noise.below(2) == 0 {
        command_in::OBJECT.set(&mut input, noise.number().into());
    }
    let output = [8, 16, 32, 272, 4112, 528][noise.below(6)];
    let guest = noise.below(2);
    rig.issue(guest, &input, output);
}

fn doorbell(rig: &mut Rig, noise: &mut Noise) {
    let guest = noise.below(2);
    let page = if noise.below(4) == 0 { noise.next() % 0x2000 } else { u64::from(rig.uar[guest]) };
    let at = [0x20, 0x40, 0x48, 0x800, 0x900, noise.next() & 0xfff][noise.below(6)];
    let mut bytes = [0; 8];
    let (first, second) = (noise.next() as u32, noise.number());
    put(&mut bytes, 0, &first.to_be_bytes());
    put(&mut bytes, 4, &if at >= 0x800 { second << 8 } else { second }.to_be_bytes());
    let length = [8, 8, 8, 4, 2][noise.below(5)];
    rig.device.bar_write(guest, page * 0x1000 + at, &bytes[..length]);
    rig.device.bar_read(guest, page * 0x1000 + at, &mut bytes[..length]);
}

/// Writes noise over queues, records and page tables alike.
fn scribble(rig: &mut Rig, noise: &mut Noise, queues: [&[Queue]; 2]) {
    let guest = noise.below(2);
    let queue = &queues[guest][noise.below(queues[guest].len())];
    match noise.below(3) {
        0 => {
            let mut b = [0; 8];
            let times = noise.below(8);
            noise.mutate(&mut b, times);
            rig.write(guest, queue.doorbell, &b);
        }
        1 => {
            let at = queue.buffer + noise.below(0x1000 - 64) as u64;
            let mut b: [u8; 64] = rig.read(guest, at);
            let times = noise.below(64);
            noise.mutate(&mut b, times);
            rig.write(guest, at, &b);
        }
        _ => {
            let at = 0x100_000 + noise.next() % (MEMORY - 0x100_000 - 8);
            rig.write(guest, at, &noise.next().to_be_bytes());
        }
    }
}

/// Noise where the command queue and its mailboxes are.
fn spoil_command_queue(rig: &mut Rig, noise: &mut Noise) {
    let guest = noise.below(2);
    let at = if noise.below(2) == 0 { 0x1000 } else { 0x10_000 };
    let mut b: [u8; 64] = rig.read(guest, at);
    let times = noise.below(16);
    noise.mutate(&mut b, times);
    rig.write(guest, at, &b);
    rig.device.bar_write(guest, 0x18, &(noise.next() as u32).to_be_bytes());
}

/// Brings the guest's driver down, whatever state it is in, and up again.
fn recover(rig: &mut Rig, guest: usize) {
    rig.device.reset(guest);
    assert!(rig.device.held(guest).is_nothing());
    rig.device.bar_write(guest, 0x10, &0x1000u64.to_be_bytes());
    for opcode in [Opcode::ENABLE_HCA, Opcode::INIT_HCA, Opcode::ALLOC_PD, Opcode::TEARDOWN_HCA] {
        let out = rig.command(guest, opcode, 0, &[], 16);
        assert_eq!(command_out::STATUS.get(&out), 0, "{opcode:?}");
    }
}

#[test]
fn noise_neither_panics_nor_hangs() {
    let mut refused = std::collections::BTreeSet::new();
    // A longer run, for once: MLX5_MODEL_SEEDS.
    let seeds = std::env::var("MLX5_MODEL_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(60u64);
    for seed in 1..=seeds {
        let (mut rig, mine, theirs) = lively("noise");
        if seed % 2 == 0 {
            let faults = LinkFaults { loss: 0.1, duplicate: 0.1, reorder: 0.1, ..LinkFaults::default() };
            rig.device.set_link_faults(None, None, faults, Some(seed)).unwrap();
        }
        let mut noise = Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..400 {
            match noise.below(8) {
                0..=2 => command(&mut rig, &mut noise),
                3 | 4 => doorbell(&mut rig, &mut noise),
                5 | 6 => scribble(&mut rig, &mut noise, [&mine, &theirs]),
                _ if noise.below(4) == 0 => spoil_command_queue(&mut rig, &mut noise),
                _ => {}
            }
            // Each turn is bounded, however much the guest asks for.
            rig.device.run(64);
        }
        let report = rig.device.report();
        assert!(serde_json::to_string(&report).is_ok());
        for g in &report.guests {
            refused.extend(g.activity.refusals.keys().cloned());
        }
        recover(&mut rig, 0);
        recover(&mut rig, 1);
    }
    // The noise got deep enough to mean something.
    assert!(refused.len() > 60, "{refused:#?}");
}

#[test]
fn work_requests_with_bytes_changed_end_one_way_or_another() {
    let mut rig = Rig::up("requests", 2);
    let pd = [0, 1].map(|g| rig.made(g, Opcode::ALLOC_PD, &[]));
    let xrcd = rig.made(1, Opcode::ALLOC_XRCD, &[]);
    let cq = [0, 1].map(|g| rig.cq(g, 6));
    let memory = [0, 1].map(|g| rig.region(g, pd[g]));
    let srq = rig.xrc_srq(1, pd[1], xrcd, cq[1].number);
    let initiator = rig.qp(0, pd[0], cq[0].number, Role::Initiator);
    let target = rig.qp(1, pd[1], 0, Role::Target(xrcd));
    let mut noise = Noise(99);
    for n in 0..3000u32 {
        for (guest, qp) in [(0, &initiator), (1, &target)] {
            assert_eq!(rig.status(guest, Opcode::TO_RST_QP, qp.number, &[]), 0);
            rig.drain(guest, &cq[guest]);
        }
        // Code 1 of the time-out: a request that gets no answer fails at once.
        rig.connect(1, target.number, (0, initiator.number), 1, 0);
        rig.connect(0, initiator.number, (1, target.number), 1, 0);
        rig.post_receive(
            1,
            &srq,
            rig.device.objects.srqs.get(srq.number).unwrap().taken().into(),
            memory[1],
            64,
        );
        let (head, far, near) = (xrc(srq.number), remote(memory[1]), data(memory[0], 8));
        let opcode = [0x0a, 0x0b, 0x08, 0x09, 0x10, 0x11, 0x12][noise.below(7)];
        let next = match opcode {
            0x0a | 0x0b => rig.post(0, &initiator, 0, opcode, &[head, near]),
            0x11 | 0x12 => rig.post(0, &initiator, 0, opcode, &[head, far, [0; 16], near]),
            _ => rig.post(0, &initiator, 0, opcode, &[head, far, near]),
        };
        let mut bytes = vec![0; usize::from(next) * 64];
        rig.device.guests[0].memory.read(initiator.buffer, &mut bytes).unwrap();
        let times = noise.below(4);
        noise.mutate(&mut bytes[..80.min(usize::from(next) * 64)], times);
        rig.write(0, initiator.buffer, &bytes);
        rig.settle();
        let state = rig.device.objects.qps.get(initiator.number).unwrap().state;
        assert!(matches!(state, QpState::ReadyToSend | QpState::Error), "{n}: {state:?}");
    }
    let activity = &rig.device.report().guests[0].activity;
    let failed: u64 = activity.work_request_errors.values().sum();
    assert!(activity.work_requests > 2000 && failed > 500, "{activity:?}");
    assert!(activity.work_request_errors.len() >= 5, "{:?}", activity.work_request_errors);
}

#[test]
fn a_queue_that_is_always_full_leaves_the_others_their_turn() {
    let (mut rig, mine, _) = lively("greedy");
    rig.device.run(100);
    // A ring of work requests that do nothing, posted over and over again without the device coming to rest.
    let greedy = &mine[1];
    for n in 0..32u64 {
        let mut nop = [0; 64];
        nop[7] = 1;
        rig.write(0, greedy.buffer + n * 64, &nop);
    }
    let before = rig.device.report().guests[0].activity.work_requests;
    for turn in 0..10u32 {
        rig.write(0, greedy.doorbell + 4, &((turn + 1) * 32).to_be_bytes());
        rig.device.ring(greedy.number);
        rig.device.run(8);
    }
    let done = rig.device.report().guests[0].activity.work_requests - before;
    assert!(done <= 80, "{done} work requests in ten runs of eight");
}

#[test]
fn long_messages_count_for_more() {
    let mut rig = Rig::up("long", 1);
    let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
    let cq = rig.cq(0, 4);
    // Sixteen megabytes that are the same two over and over.
    let memory = rig.region_of(0, pd, 0, 21, &[4 << 20; 8]);
    let qp = rig.qp(0, pd, cq.number, Role::Rc);
    rig.connect(0, qp.number, (0, qp.number), 14, 7);
    let mut next = 0;
    for _ in 0..8 {
        next = rig.post(0, &qp, next, 0x08, &[remote(memory), data(memory, 16 << 20)]);
    }
    for run in 1..=16 {
        rig.device.run(128);
        assert_eq!(rig.device.guests[0].activity.work_requests, run / 2, "half of one uses up a run of 128");
    }
    assert!(rig.device.guests[0].activity.work_request_errors.is_empty());
}

#[test]
fn a_connection_hears_its_own_peer_only() {
    let mut rig = Rig::up("stranger", 3);
    let pd = [0, 1, 2].map(|g| rig.made(g, Opcode::ALLOC_PD, &[]));
    let cq = [0, 1, 2].map(|g| rig.cq(g, 4));
    let memory = [0, 1, 2].map(|g| rig.region(g, pd[g]));
    let qp = [0, 1, 2].map(|g| rig.qp(g, pd[g], cq[g].number, Role::Rc));
    for (guest, to) in [(0, 1), (1, 0)] {
        rig.connect(guest, qp[guest].number, (to, qp[to].number), 1, 1);
    }
    // The third says that it is connected with the first, which is connected with the second. Neither a request that
    // would be refused nor one that would not may reach it.
    rig.write(2, memory[2].at, b"stranger");
    for key in [memory[0], driver::Region { key: 0, ..memory[0] }] {
        assert_eq!(rig.status(2, Opcode::TO_RST_QP, qp[2].number, &[]), 0);
        rig.connect(2, qp[2].number, (0, qp[0].number), 1, 1);
        rig.post(2, &qp[2], 0, 0x08, &[remote(key), data(memory[2], 8)]);
        rig.settle();
        assert_eq!(rig.device.objects.qps.get(qp[2].number).unwrap().state, QpState::Error);
        assert_eq!(rig.device.objects.qps.get(qp[0].number).unwrap().state, QpState::ReadyToSend);
        assert_eq!(rig.read::<8>(0, memory[0].at), [0; 8]);
    }
    rig.write(1, memory[1].at, b"a friend");
    rig.post(1, &qp[1], 0, 0x08, &[remote(memory[0]), data(memory[1], 8)]);
    rig.settle();
    assert_eq!(&rig.read::<8>(0, memory[0].at), b"a friend");
}

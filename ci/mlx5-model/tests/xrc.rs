//! XRC between two guests, from commands to completions: what must work and what must fail, and how.

mod driver;

use driver::{MEMORY, Queue, Region, Rig, Role, atomic, data, remote, xrc};
use mlx5_model::{
    command::{opcode::Opcode, status::Status},
    fields::cqe,
    hw::{CompletionOpcode, WqeOpcode, WqeSyndrome},
};

/// Guest 0 has an initiator, guest 1 domain, target and SRQ; each has a page of memory.
struct Pair {
    rig: Rig,
    pd: [u32; 2],
    cq: [Queue; 2],
    memory: [Region; 2],
    xrcd: u32,
    srq: Queue,
    initiator: Queue,
    target: Queue,
    posted: u16,
    completions: u64,
}

impl Pair {
    fn new(name: &str, timeout: u64, rnr_retry: u64) -> Self {
        let mut rig = Rig::up(name, 2);
        let pd = [rig.made(0, Opcode::ALLOC_PD, &[]), rig.made(1, Opcode::ALLOC_PD, &[])];
        let xrcd = rig.made(1, Opcode::ALLOC_XRCD, &[]);
        let cq = [rig.cq(0, 6), rig.cq(1, 6)];
        let memory = [rig.region(0, pd[0]), rig.region(1, pd[1])];
        let srq = rig.xrc_srq(1, pd[1], xrcd, cq[1].number);
        let initiator = rig.qp(0, pd[0], cq[0].number, Role::Initiator);
        let target = rig.qp(1, pd[1], 0, Role::Target(xrcd));
        rig.connect(1, target.number, (0, initiator.number), timeout, rnr_retry);
        rig.connect(0, initiator.number, (1, target.number), timeout, rnr_retry);
        Self { rig, pd, cq, memory, xrcd, srq, initiator, target, posted: 0, completions: 0 }
    }

    fn post(&mut self, opcode: WqeOpcode, segments: &[[u8; 16]]) {
        self.posted = self.rig.post(0, &self.initiator, self.posted, opcode as u8, segments);
    }

    /// Posts, lets it happen, and says how it ended at the initiator.
    fn go(&mut self, opcode: WqeOpcode, segments: &[[u8; 16]]) -> Result<(), WqeSyndrome> {
        self.post(opcode, segments);
        self.rig.settle();
        self.next_result()
    }

    fn next_result(&mut self) -> Result<(), WqeSyndrome> {
        let c = self.rig.completion(0, &self.cq[0], self.completions);
        self.completions += 1;
        match CompletionOpcode::from_number(cqe::OPCODE.get(&c)) {
            Some(CompletionOpcode::Requester) => Ok(()),
            _ => Err(WqeSyndrome::from_number(cqe::SYNDROME.get(&c)).unwrap()),
        }
    }

    fn target_state(&self) -> mlx5_model::hw::QpState {
        self.rig.device.objects.qps.get(self.target.number).unwrap().state
    }
}

#[test]
fn a_message_reaches_the_srq_that_it_names() {
    let mut p = Pair::new("send", 14, 7);
    let m = p.memory;
    p.rig.write(0, m[0].at, b"hello");
    p.rig.post_receive(1, &p.srq, 0, m[1], 64);
    assert_eq!(p.go(WqeOpcode::SendImmediate, &[xrc(p.srq.number), data(m[0], 5)]), Ok(()));
    assert_eq!(&p.rig.read::<5>(1, m[1].at), b"hello");
    let c = p.rig.completion(1, &p.cq[1], 0);
    assert_eq!(cqe::OPCODE.get(&c), CompletionOpcode::SendImmediate as u64);
    assert_eq!(cqe::QPN.get32(&c), p.target.number);
    assert_eq!(cqe::USER_INDEX.get(&c), 0x77, "the SRQ's, not the target's");
    assert_eq!(cqe::BYTE_COUNT.get(&c), 5);
}

#[test]
fn rdma_and_atomics_use_the_domain_of_the_srq() {
    let mut p = Pair::new("rdma", 14, 7);
    let m = p.memory;
    let srq = xrc(p.srq.number);
    p.rig.write(0, m[0].at, &[7; 8]);
    assert_eq!(p.go(WqeOpcode::Write, &[srq, remote(m[1]), data(m[0], 8)]), Ok(()));
    assert_eq!(p.rig.read(1, m[1].at), [7; 8]);
    p.rig.write(1, m[1].at, &5u64.to_le_bytes());
    assert_eq!(p.go(WqeOpcode::Read, &[srq, remote(m[1]), data(m[0], 8)]), Ok(()));
    assert_eq!(p.rig.read(0, m[0].at), 5u64.to_le_bytes());
    assert_eq!(p.go(WqeOpcode::FetchAdd, &[srq, remote(m[1]), atomic(3, 0), data(m[0], 8)]), Ok(()));
    assert_eq!(p.go(WqeOpcode::CompareSwap, &[srq, remote(m[1]), atomic(9, 8), data(m[0], 8)]), Ok(()));
    assert_eq!(p.rig.read(0, m[0].at), 8u64.to_le_bytes(), "what was there");
    assert_eq!(p.go(WqeOpcode::CompareSwap, &[srq, remote(m[1]), atomic(1, 1), data(m[0], 8)]), Ok(()));
    assert_eq!(p.rig.read(1, m[1].at), 9u64.to_le_bytes(), "no match, no swap");

    // An SRQ of the same XRC domain but another protection domain does not open this one's memory.
    let other_pd = p.rig.made(1, Opcode::ALLOC_PD, &[]);
    let other = p.rig.xrc_srq(1, other_pd, p.xrcd, p.cq[1].number);
    let refused = p.go(WqeOpcode::Write, &[xrc(other.number), remote(m[1]), data(m[0], 8)]);
    assert_eq!(refused, Err(WqeSyndrome::RemoteAccess));
}

#[test]
fn an_srq_that_is_unknown_or_of_another_domain_is_an_invalid_request() {
    for foreign in [false, true] {
        let mut p = Pair::new("foreign", 14, 7);
        let srqn = if foreign {
            let domain = p.rig.made(1, Opcode::ALLOC_XRCD, &[]);
            p.rig.xrc_srq(1, p.pd[1], domain, p.cq[1].number).number
        } else {
            0x12_3456
        };
        let m = p.memory;
        p.post(WqeOpcode::Send, &[xrc(srqn), data(m[0], 5)]);
        p.post(WqeOpcode::Send, &[xrc(p.srq.number), data(m[0], 5)]);
        p.rig.settle();
        assert_eq!(p.next_result(), Err(WqeSyndrome::RemoteInvalidRequest));
        assert_eq!(p.next_result(), Err(WqeSyndrome::Flushed), "what was posted behind it");
        assert_eq!(p.target_state(), mlx5_model::hw::QpState::Error);
    }
}

#[test]
fn without_a_receive_the_initiator_tries_as_often_as_it_was_told() {
    let mut p = Pair::new("rnr", 14, 2);
    let m = p.memory;
    let result = p.go(WqeOpcode::Send, &[xrc(p.srq.number), data(m[0], 5)]);
    assert_eq!(result, Err(WqeSyndrome::RnrRetryExceeded));
    assert_eq!(p.rig.device.guests[0].activity.receiver_not_ready, 3);
}

#[test]
fn a_receive_that_comes_late_is_used() {
    let mut p = Pair::new("late", 14, 7);
    let m = p.memory;
    p.post(WqeOpcode::Send, &[xrc(p.srq.number), data(m[0], 5)]);
    p.rig.device.run(10);
    assert!(p.rig.device.engine.next_timer().is_some());
    p.rig.post_receive(1, &p.srq, 0, m[1], 64);
    p.rig.settle();
    assert_eq!(p.next_result(), Ok(()));
}

#[test]
fn a_peer_that_is_gone_is_a_time_out() {
    let mut p = Pair::new("gone", 1, 7);
    let m = p.memory;
    assert_eq!(p.rig.status(1, Opcode::TO_RST_QP, p.target.number, &[]), 0);
    assert_eq!(p.rig.status(1, Opcode::DESTROY_QP, p.target.number, &[]), 0);
    let result = p.go(WqeOpcode::Send, &[xrc(p.srq.number), data(m[0], 5)]);
    assert_eq!(result, Err(WqeSyndrome::RetryExceeded));
}

#[test]
fn a_message_that_does_not_fit_fails_at_both_ends() {
    let mut p = Pair::new("fit", 14, 7);
    let m = p.memory;
    p.rig.post_receive(1, &p.srq, 0, m[1], 4);
    let result = p.go(WqeOpcode::Send, &[xrc(p.srq.number), data(m[0], 5)]);
    assert_eq!(result, Err(WqeSyndrome::RemoteInvalidRequest));
    let c = p.rig.completion(1, &p.cq[1], 0);
    assert_eq!(cqe::SYNDROME.get(&c), WqeSyndrome::LocalLength as u64);
}

#[test]
fn a_write_with_immediate_data_that_breaks_off_loses_no_receive() {
    for at_target in [false, true] {
        let mut p = Pair::new("breaks", 14, 7);
        let mut m = p.memory;
        // The key allows it, but there is no memory behind it.
        let guest = usize::from(at_target);
        m[guest] = p.rig.region_of(guest, p.pd[guest], 0, 12, &[MEMORY]);
        p.rig.post_receive(1, &p.srq, 0, p.memory[1], 64);
        let result = p.go(WqeOpcode::WriteImmediate, &[xrc(p.srq.number), remote(m[1]), data(m[0], 8)]);
        let (at_initiator, at_receive) = if at_target {
            (WqeSyndrome::RemoteOperation, WqeSyndrome::LocalAccess)
        } else {
            (WqeSyndrome::LocalAccess, WqeSyndrome::Flushed)
        };
        assert_eq!(result, Err(at_initiator));
        let c = p.rig.completion(1, &p.cq[1], 0);
        assert_eq!(cqe::OPCODE.get(&c), CompletionOpcode::ResponderError as u64);
        assert_eq!(cqe::SYNDROME.get(&c), at_receive as u64);
        assert_eq!(p.target_state(), mlx5_model::hw::QpState::Error);
    }
}

#[test]
fn local_keys_are_checked_before_anything_leaves() {
    let mut p = Pair::new("local", 14, 7);
    let m = p.memory;
    let beyond = Region { at: m[0].at + 0xffc, ..m[0] };
    p.rig.post_receive(1, &p.srq, 0, m[1], 64);
    let result = p.go(WqeOpcode::Send, &[xrc(p.srq.number), data(beyond, 5)]);
    assert_eq!(result, Err(WqeSyndrome::LocalProtection));
    assert_eq!(p.target_state(), mlx5_model::hw::QpState::ReadyToSend);
}

#[test]
fn what_is_in_use_stays_and_what_is_unused_goes() {
    let mut p = Pair::new("use", 14, 7);
    let busy = Status::BadResourceState as u64;
    assert_eq!(p.rig.status(1, Opcode::DEALLOC_XRCD, p.xrcd, &[]), busy);
    assert_eq!(p.rig.status(1, Opcode::DEALLOC_PD, p.pd[1], &[]), busy);
    assert_eq!(p.rig.status(0, Opcode::DESTROY_CQ, p.cq[0].number, &[]), busy);
    assert_eq!(p.rig.status(1, Opcode::DESTROY_CQ, p.cq[1].number, &[]), busy, "the SRQ's");
    let missing = Status::BadResource as u64;
    assert_eq!(p.rig.status(0, Opcode::DESTROY_QP, p.target.number, &[]), missing, "another guest's");
    // With work in flight.
    let m = p.memory;
    p.post(WqeOpcode::Send, &[xrc(p.srq.number), data(m[0], 5)]);
    p.rig.device.run(10);
    for (guest, opcode, number) in [
        (0, Opcode::DESTROY_QP, p.initiator.number),
        (1, Opcode::DESTROY_QP, p.target.number),
        (1, Opcode::DESTROY_XRC_SRQ, p.srq.number),
        (1, Opcode::DEALLOC_XRCD, p.xrcd),
        (0, Opcode::DESTROY_CQ, p.cq[0].number),
        (1, Opcode::DESTROY_CQ, p.cq[1].number),
        (0, Opcode::DESTROY_MKEY, m[0].key >> 8),
        (1, Opcode::DESTROY_MKEY, m[1].key >> 8),
        (0, Opcode::DEALLOC_PD, p.pd[0]),
        (1, Opcode::DEALLOC_PD, p.pd[1]),
    ] {
        assert_eq!(p.rig.status(guest, opcode, number, &[]), 0, "{opcode:?}");
    }
    p.rig.settle();
    for guest in 0..2 {
        let (eqn, uar) = (p.rig.eqn[guest], p.rig.uar[guest]);
        assert_eq!(p.rig.status(guest, Opcode::DESTROY_EQ, eqn, &[]), 0);
        assert_eq!(p.rig.status(guest, Opcode::DEALLOC_UAR, uar, &[]), 0);
        assert_eq!(p.rig.status(guest, Opcode::TEARDOWN_HCA, 0, &[]), 0);
        assert_eq!(p.rig.status(guest, Opcode::DISABLE_HCA, 0, &[]), 0);
        let removal = &p.rig.device.report().guests[guest].activity.driver_removals[0];
        assert!(removal.clean, "{removal:?}");
    }
}

#[test]
fn a_driver_that_leaves_objects_behind_is_found_out() {
    let mut p = Pair::new("leak", 14, 7);
    assert_eq!(p.rig.status(1, Opcode::TEARDOWN_HCA, 0, &[]), 0);
    assert_eq!(p.rig.status(1, Opcode::DISABLE_HCA, 0, &[]), 0);
    let report = p.rig.device.report();
    let removal = &report.guests[1].activity.driver_removals[0];
    assert!(!removal.clean);
    assert_eq!(removal.objects_at_teardown[&mlx5_model::objects::Kind::Qp], [p.target.number]);
    assert!(report.guests[1].held.is_nothing(), "the tear-down ended them");
    assert!(!report.guests[0].held.is_nothing());
}

//! Events: each is raised by its real cause, once, in the queue that wants it, and says whom it is about.

mod driver;

use driver::{Queue, Region, Rig, Role, data, remote, xrc};
use mlx5_model::{
    command::opcode::Opcode,
    control,
    fields::{cqe, srq_next},
    hw::{CompletionOpcode, EventType, PortChange, QpState, WqeOpcode, WqeSyndrome},
};

/// Obeys a line of the control protocol.
fn command(rig: &mut Rig, line: &str) {
    let answer = control::handle(&mut rig.device, line.as_bytes());
    assert_eq!(answer, b"{\"ok\":{}}\n", "{line}");
}

fn port_change(change: PortChange) -> (u64, u64, u64) {
    (EventType::PortChange as u64, change as u64, 1)
}

#[test]
fn a_port_goes_down_and_comes_up_once() {
    let mut rig = Rig::up("port", 2);
    let eqs = [0, 1].map(|guest| rig.async_eq(guest));
    for _ in 0..2 {
        command(&mut rig, r#"{"do":"port","node":2,"state":"down"}"#);
    }
    assert_eq!(rig.events(1, &eqs[1]), [port_change(PortChange::Down)]);
    for _ in 0..2 {
        command(&mut rig, r#"{"do":"port","node":2,"state":"up"}"#);
    }
    let both = [PortChange::Down, PortChange::Active].map(port_change);
    assert_eq!(rig.events(1, &eqs[1]), both);
    assert!(rig.events(0, &eqs[0]).is_empty(), "the other's port is up all the time");
}

#[test]
fn an_adapter_that_fails_loses_everything_and_can_be_started_anew() {
    let mut rig = Rig::up("fatal", 2);
    rig.async_eq(0);
    let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
    let other = rig.made(1, Opcode::ALLOC_PD, &[]);
    command(&mut rig, r#"{"do":"fatal","node":1}"#);
    let report = serde_json::to_value(rig.device.report()).unwrap();
    let (first, second) = (&report["guests"][0], &report["guests"][1]);
    assert_eq!(first["drops"][0]["cause"], "fatal");
    assert_eq!(first["drops"][0]["objects"]["pd"], serde_json::json!([pd]));
    assert_eq!(first["held"], serde_json::json!({"objects": {}, "counts": {}, "pages": 0}));
    assert_eq!((&second["held"]["objects"]["pd"][0], &second["drop_count"]), (&other.into(), &0.into()));
    // Commands are not even taken from the queue.
    let served = rig.device.guests[0].activity.commands;
    rig.issue(0, &[0; 16], 16);
    assert_eq!(rig.device.guests[0].activity.commands, served);
    // The driver comes back as it came first.
    rig.device.bar_write(0, 0x10, &0x1000u64.to_be_bytes());
    rig.ok(0, Opcode::ENABLE_HCA, &[], 16);
    rig.ok(0, Opcode::INIT_HCA, &[], 16);
    rig.made(0, Opcode::ALLOC_PD, &[]);
}

/// Guest 0 has initiators, guest 1 a target for each, an SRQ, and a queue for its events.
struct Fan {
    rig: Rig,
    xrcd: u32,
    pd: u32,
    cq: [Queue; 2],
    memory: [Region; 2],
    srq: Queue,
    eq: [Queue; 2],
    initiators: Vec<Queue>,
    targets: Vec<u32>,
    posted: Vec<u16>,
}

impl Fan {
    fn new(name: &str, targets: usize, log_receiver_cq: u64) -> Self {
        let mut rig = Rig::up(name, 2);
        let eq = [0, 1].map(|guest| rig.async_eq(guest));
        let pds = [0, 1].map(|guest| rig.made(guest, Opcode::ALLOC_PD, &[]));
        let xrcd = rig.made(1, Opcode::ALLOC_XRCD, &[]);
        let cq = [rig.cq(0, 6), rig.cq(1, log_receiver_cq)];
        let memory = [0, 1].map(|guest| rig.region(guest, pds[guest]));
        let srq = rig.xrc_srq(1, pds[1], xrcd, cq[1].number);
        let (mut initiators, mut numbers) = (Vec::new(), Vec::new());
        for _ in 0..targets {
            let initiator = rig.qp(0, pds[0], cq[0].number, Role::Initiator);
            let target = rig.qp(1, pds[1], 0, Role::Target(xrcd)).number;
            rig.connect(1, target, (0, initiator.number), 1, 0);
            rig.connect(0, initiator.number, (1, target), 1, 0);
            initiators.push(initiator);
            numbers.push(target);
        }
        let posted = vec![0; targets];
        Self { rig, xrcd, pd: pds[1], cq, memory, srq, eq, initiators, targets: numbers, posted }
    }

    /// Lets the nth initiator do something, and everything that follows happen.
    fn go(&mut self, n: usize, opcode: WqeOpcode, segments: &[[u8; 16]]) {
        self.posted[n] = self.rig.post(0, &self.initiators[n], self.posted[n], opcode as u8, segments);
        self.rig.settle();
    }

    fn send(&mut self, n: usize) {
        let segments = [xrc(self.srq.number), data(self.memory[0], 8)];
        self.go(n, WqeOpcode::Send, &segments);
    }

    fn receive(&mut self, n: u32) {
        self.rig.post_receive(1, &self.srq, n, self.memory[1], 64);
    }

    /// What the guest was told: the events and whom they are about.
    fn told(&self, guest: usize) -> Vec<(EventType, u64)> {
        self.rig
            .events(guest, &self.eq[guest])
            .into_iter()
            .map(|(event, _, number)| (EventType::from_number(event).unwrap(), number))
            .collect()
    }

    fn target(&self, n: usize) -> u64 {
        self.targets[n].into()
    }

    fn state(&self, qpn: u64) -> QpState {
        self.rig.device.objects.qps.get(qpn as u32).unwrap().state
    }

    /// How the nth work request that completed at the initiators ended.
    fn sender_saw(&self, n: u64) -> Option<WqeSyndrome> {
        let c = self.rig.completion(0, &self.cq[0], n);
        match CompletionOpcode::from_number(cqe::OPCODE.get(&c)) {
            Some(CompletionOpcode::Requester) => None,
            _ => WqeSyndrome::from_number(cqe::SYNDROME.get(&c)),
        }
    }
}

#[test]
fn an_srq_with_fewer_receives_than_its_limit_says_so_once_for_each_arming() {
    let mut f = Fan::new("limit", 1, 6);
    (0..4).for_each(|n| f.receive(n));
    f.rig.arm(1, f.srq.number, 2);
    let limit = (EventType::SrqLimit, f.srq.number.into());
    for told in [0, 0, 1, 1] {
        f.send(0);
        assert_eq!(f.told(1), vec![limit; told]);
    }
    // Armed when there are fewer already: the next receive that is taken says so.
    (4..6).for_each(|n| f.receive(n));
    f.rig.arm(1, f.srq.number, 7);
    assert_eq!(f.told(1).len(), 1);
    f.send(0);
    assert_eq!(f.told(1), [limit, limit]);
    assert!(f.told(0).is_empty());
}

#[test]
fn an_srq_that_breaks_says_so_once_and_each_qp_that_needs_it_for_itself() {
    let mut f = Fan::new("srq", 2, 6);
    f.receive(0);
    let mut head = [0; 16];
    srq_next::NEXT_INDEX.set(&mut head, 99);
    f.rig.write(1, f.srq.buffer, &head);
    f.send(0);
    let srq = (EventType::SrqCatastrophic, f.srq.number.into());
    let broken = |qpn| [(EventType::WqCatastrophic, qpn), (EventType::SrqLastWqe, qpn)];
    let first = broken(f.target(0));
    assert_eq!(f.told(1), [&[srq], &first[..]].concat());
    f.send(1);
    assert_eq!(f.told(1), [&[srq], &first[..], &broken(f.target(1))].concat());
    assert_eq!([0, 1].map(|n| f.sender_saw(n)), [Some(WqeSyndrome::RemoteOperation); 2]);
}

#[test]
fn a_refused_request_is_an_event_at_the_target() {
    let mut f = Fan::new("refused", 2, 6);
    let bad = Region { key: f.memory[1].key ^ 0xff00, ..f.memory[1] };
    let write = [xrc(f.srq.number), remote(bad), data(f.memory[0], 8)];
    f.go(0, WqeOpcode::Write, &write);
    let access = [(EventType::WqAccess, f.target(0)), (EventType::SrqLastWqe, f.target(0))];
    assert_eq!(f.told(1), access);
    let nobody = [xrc(0xf0_0000), data(f.memory[0], 8)];
    f.go(1, WqeOpcode::Send, &nobody);
    let invalid = [(EventType::WqInvalidRequest, f.target(1)), (EventType::SrqLastWqe, f.target(1))];
    assert_eq!(f.told(1), [access, invalid].concat());
    assert!(f.told(0).is_empty(), "the requesters have completions");
}

#[test]
fn a_send_queue_that_makes_no_sense_is_an_event() {
    let mut f = Fan::new("sends", 1, 6);
    let initiator = f.initiators[0].number.into();
    f.rig.write(0, f.initiators[0].doorbell + 4, &0x7000u32.to_be_bytes());
    let uar = u64::from(f.rig.uar[0]) * 0x1000;
    f.rig.device.bar_write(0, uar + 0x800, &(u64::from(f.initiators[0].number) << 8).to_be_bytes());
    f.rig.settle();
    assert_eq!(f.told(0), [(EventType::WqCatastrophic, initiator)]);
    assert_eq!(f.state(initiator), QpState::Error);
    assert!(f.told(1).is_empty());
}

#[test]
fn the_first_request_before_rts_is_an_event() {
    let mut f = Fan::new("first", 1, 6);
    let (target, initiator) = (f.targets[0], f.initiators[0].number);
    (0..5).for_each(|n| f.receive(n));
    f.send(0);
    assert!(f.told(1).is_empty(), "it is ready to send");
    for times in 1..=2 {
        for (guest, qpn) in [(0, initiator), (1, target)] {
            assert_eq!(f.rig.status(guest, Opcode::TO_RST_QP, qpn, &[]), 0);
        }
        f.posted[0] = 0;
        f.rig.listen(1, target, (0, initiator));
        f.rig.connect(0, initiator, (1, target), 1, 0);
        f.send(0);
        assert_eq!(f.told(1), vec![(EventType::CommunicationEstablished, target.into()); times]);
        f.send(0);
        assert_eq!(f.told(1).len(), times, "only the first");
    }
    assert_eq!((0..5).filter_map(|n| f.sender_saw(n)).count(), 0);
}

#[test]
fn a_qp_that_takes_no_more_from_an_srq_says_so() {
    let mut f = Fan::new("last", 2, 6);
    let last = |qpn| (EventType::SrqLastWqe, qpn);
    assert_eq!(f.rig.status(1, Opcode::TO_ERR_QP, f.targets[0], &[]), 0);
    assert_eq!(f.rig.status(1, Opcode::TO_ERR_QP, f.targets[0], &[]), 0);
    assert_eq!(f.told(1), [last(f.target(0))], "once");
    assert_eq!(f.rig.status(1, Opcode::TO_RST_QP, f.targets[1], &[]), 0);
    assert_eq!(f.rig.status(1, Opcode::TO_ERR_QP, f.targets[1], &[]), 0);
    assert_eq!(f.told(1).len(), 1, "out of RESET it has never taken any");
    assert_eq!(f.rig.status(0, Opcode::TO_ERR_QP, f.initiators[0].number, &[]), 0);
    assert!(f.told(0).is_empty(), "an initiator has no SRQ");
}

#[test]
fn a_cq_of_an_srq_that_overflows_breaks_the_srq_and_the_target_whose_completion_was_lost() {
    let mut f = Fan::new("overrun", 2, 1);
    (0..6).for_each(|n| f.receive(n));
    let other_srq = f.rig.xrc_srq(1, f.pd, f.xrcd, f.cq[1].number);
    (0..2).for_each(|_| f.send(0));
    assert!(f.told(1).is_empty());
    f.send(0);
    let told = f.told(1);
    assert_eq!(told[0], (EventType::CqError, f.cq[1].number.into()));
    assert_eq!(told[1..3], [EventType::WqCatastrophic, EventType::SrqLastWqe].map(|e| (e, f.target(0))));
    let mut srqs = told[3..].to_vec();
    srqs.sort_unstable();
    assert_eq!(srqs, [f.srq.number, other_srq.number].map(|n| (EventType::SrqCatastrophic, n.into())));
    // The other target has lost nothing yet: it breaks at its next message, and the SRQs are known to be broken.
    assert_eq!(f.state(f.target(1)), QpState::ReadyToSend);
    f.send(1);
    assert_eq!(f.told(1)[5..], [EventType::WqCatastrophic, EventType::SrqLastWqe].map(|e| (e, f.target(1))));
    assert_eq!(f.told(1).len(), 7);
}

#[test]
fn a_cq_of_sends_that_overflows_breaks_every_qp_that_uses_it_and_no_other() {
    let mut f = Fan::new("sends-overrun", 3, 6);
    let small = f.rig.cq(0, 1);
    let pd = f.rig.made(0, Opcode::ALLOC_PD, &[]);
    let users = [0, 1].map(|_| f.rig.qp(0, pd, small.number, Role::Rc));
    let (one, another) = (users[0].number, users[1].number);
    f.rig.connect(0, one, (0, another), 1, 0);
    f.rig.connect(0, another, (0, one), 1, 0);
    let memory = f.rig.region(0, pd);
    let mut posted = 0;
    for _ in 0..4 {
        let segments = [remote(memory), data(memory, 8)];
        posted = f.rig.post(0, &users[0], posted, WqeOpcode::Write as u8, &segments);
    }
    f.rig.settle();
    let fatal = |qpn: u32| (EventType::WqCatastrophic, qpn.into());
    let mut told = f.told(0);
    assert_eq!(told.remove(0), (EventType::CqError, small.number.into()));
    assert_eq!(told, [fatal(one), fatal(another)]);
    assert_eq!([one, another].map(|qpn| f.state(qpn.into())), [QpState::Error; 2]);
    f.receive(0);
    f.send(2);
    assert_eq!(f.sender_saw(0), None, "the others work on");
}

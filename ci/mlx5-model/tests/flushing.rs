//! Queue pairs that fail: what is posted to them ends with an error, in order, once, and a bit at a time.

mod driver;

use driver::{Queue, Region, Rig, data, remote};
use mlx5_model::{
    bits::Field,
    command::opcode::Opcode,
    cq::Completion,
    fields::{cqc, cqe, qpc, wqe_address},
    hw::{CompletionOpcode, QpState, ReceiveQueueType, Service, WqeOpcode, WqeSyndrome},
};

/// Two megabytes that many send queues lie in at once.
const SHARED: u64 = 0x20_0000;
const SHARED_LOG_PAGE: u64 = 21 - 12;
const SHARED_LOG_BLOCKS: u64 = 15;
const SHARED_BLOCKS: u16 = 1 << SHARED_LOG_BLOCKS;
const NO_OPERATION: [u8; 64] = {
    let mut wqe = [0; 64];
    wqe[7] = 1;
    wqe
};
const Q_KEY: u64 = 0x1234;

/// A QP as its context says, with a page of its own unless that says where it lies.
fn make(rig: &mut Rig, pd: u32, cqn: u32, buffer: u64, fields: &[(Field, u64)]) -> Queue {
    let doorbell = rig.alloc(0, 8);
    let mut c = vec![0; 272 - 16];
    let common = [
        (qpc::RQ_TYPE, ReceiveQueueType::Absent as u64),
        (qpc::PD, pd.into()),
        (qpc::CQN_SND, cqn.into()),
        (qpc::CQN_RCV, cqn.into()),
        (qpc::UAR_PAGE, rig.uar[0].into()),
        (qpc::DBR_ADDR, doorbell),
        (qpc::LOG_SQ_SIZE, 3),
    ];
    for (field, value) in common.iter().chain(fields) {
        field.within(8).set(&mut c, *value);
    }
    c.extend_from_slice(&buffer.to_be_bytes());
    Queue { number: rig.made(0, Opcode::CREATE_QP, &c), buffer, doorbell }
}

/// A QP whose send queue, full of work requests that do nothing, is others' as well.
fn crowded(rig: &mut Rig, pd: u32, cqn: u32) -> Queue {
    let fields = [(qpc::LOG_SQ_SIZE, SHARED_LOG_BLOCKS), (qpc::LOG_PAGE_SIZE, SHARED_LOG_PAGE)];
    let qp = make(rig, pd, cqn, SHARED, &fields);
    rig.connect(0, qp.number, (0, qp.number), 0, 7);
    rig.write(0, qp.doorbell + 4, &u32::from(SHARED_BLOCKS).to_be_bytes());
    qp
}

fn fill_shared(rig: &Rig) {
    for n in 0..u64::from(SHARED_BLOCKS) {
        rig.write(0, SHARED + n * 64, &NO_OPERATION);
    }
}

fn state(rig: &Rig, qp: &Queue) -> QpState {
    rig.device.objects.qps.get(qp.number).unwrap().state
}

/// How many blocks its send queue has behind it.
fn done(rig: &Rig, qp: &Queue) -> u16 {
    rig.device.objects.qps.get(qp.number).unwrap().send.as_ref().unwrap().next
}

/// Opcode, syndrome and counter of all completions of a CQ. Where there is no error, its place is the time's.
fn completions(rig: &mut Rig, cq: &Queue) -> Vec<(u64, u64, u64)> {
    let out = rig.command(0, Opcode::QUERY_CQ, cq.number, &[], 272);
    (0..cqc::PRODUCER_COUNTER.get(&out[16..]))
        .map(|n| rig.completion(0, cq, n))
        .map(|c| {
            let error = cqe::OPCODE.get(&c) >= CompletionOpcode::RequesterError as u64;
            (cqe::OPCODE.get(&c), if error { cqe::SYNDROME.get(&c) } else { 0 }, cqe::WQE_COUNTER.get(&c))
        })
        .collect()
}

fn failed(syndrome: WqeSyndrome, counter: u64) -> (u64, u64, u64) {
    (CompletionOpcode::RequesterError as u64, syndrome as u64, counter)
}

#[test]
fn a_queue_pair_in_error_is_flushed_a_turn_at_a_time() {
    let mut rig = Rig::up("turns", 1);
    let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
    let cq = rig.cq(0, 6);
    fill_shared(&rig);
    let qp = crowded(&mut rig, pd, cq.number);
    rig.device.run(8);
    assert_eq!(rig.status(0, Opcode::TO_ERR_QP, qp.number, &[0; 256]), 0);
    assert!(done(&rig, &qp) <= 8, "the command does not wait for the flush");
    for turn in 2..10u16 {
        // The guest goes on posting meanwhile.
        let posted = SHARED_BLOCKS.wrapping_add(done(&rig, &qp));
        rig.write(0, qp.doorbell + 4, &u32::from(posted).to_be_bytes());
        assert!(rig.device.run(8), "there is more");
        assert!(done(&rig, &qp) <= turn * 8, "{} after {turn} runs of eight", done(&rig, &qp));
    }
}

#[test]
fn a_completion_queue_that_dies_fails_its_users_without_holding_the_device() {
    let mut rig = Rig::up("users", 1);
    let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
    // One entry: the second completion kills it.
    let cq = rig.cq(0, 0);
    fill_shared(&rig);
    let mut unknown = NO_OPERATION;
    unknown[3] = 0xff;
    rig.write(0, SHARED, &unknown);
    let qps: Vec<Queue> = (0..4).map(|_| crowded(&mut rig, pd, cq.number)).collect();
    rig.device.run(128);
    rig.device.run(128);
    let flushed: u32 = qps.iter().map(|qp| u32::from(done(&rig, qp))).sum();
    assert!(flushed <= 256, "{flushed} in two runs of 128");
    rig.settle();
    for qp in &qps {
        assert_eq!((state(&rig, qp), done(&rig, qp)), (QpState::Error, SHARED_BLOCKS));
    }
}

#[test]
fn a_completion_queue_that_dies_outside_a_run_is_work_to_do() {
    let mut rig = Rig::up("outside", 1);
    let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
    let cq = rig.cq(0, 0);
    let buffer = rig.alloc(0, 0x1000);
    let qp = make(&mut rig, pd, cq.number, buffer, &[]);
    rig.connect(0, qp.number, (0, qp.number), 0, 7);
    rig.settle();
    for _ in 0..2 {
        rig.device.complete(cq.number, Completion::new(CompletionOpcode::Send, 0, 0, 0));
    }
    assert!(rig.device.engine.is_busy(), "the server asks this before it goes to sleep");
    rig.settle();
    assert_eq!(state(&rig, &qp), QpState::Error);
}

#[test]
fn a_queue_pair_connected_to_itself_completes_what_failed_first_and_once() {
    let mut rig = Rig::up("itself", 1);
    let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
    let cq = rig.cq(0, 4);
    let memory = rig.region(0, pd);
    let buffer = rig.alloc(0, 0x1000);
    let qp = make(&mut rig, pd, cq.number, buffer, &[]);
    rig.connect(0, qp.number, (0, qp.number), 14, 7);
    let nowhere = Region { key: 0xdead00, at: 0 };
    let mut next = 0;
    for _ in 0..3 {
        next = rig.post(0, &qp, next, WqeOpcode::Read as u8, &[remote(nowhere), data(memory, 8)]);
    }
    rig.settle();
    let flushed = |n| failed(WqeSyndrome::Flushed, n);
    assert_eq!(completions(&mut rig, &cq), [failed(WqeSyndrome::RemoteAccess, 0), flushed(1), flushed(2)]);
}

#[test]
fn a_datagram_to_oneself_that_does_not_fit_completes_once() {
    let mut rig = Rig::up("datagram", 1);
    let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
    let cq = rig.cq(0, 4);
    let memory = rig.region(0, pd);
    let buffer = rig.alloc(0, 0x1000);
    let own = ReceiveQueueType::Own as u64;
    let fields =
        [(qpc::ST, Service::Ud as u64), (qpc::RQ_TYPE, own), (qpc::LOG_RQ_SIZE, 2), (qpc::Q_KEY, Q_KEY)];
    let mut qp = make(&mut rig, pd, cq.number, buffer, &fields);
    rig.connect(0, qp.number, (0, qp.number), 0, 0);
    rig.device.objects.qps.get_mut(qp.number).map(|qp| qpc::Q_KEY.set(&mut qp.context, Q_KEY)).unwrap();
    // A receive with less room than a route header takes; sends lie behind the four receives.
    rig.write(0, qp.buffer, &data(memory, 8));
    rig.write(0, qp.doorbell, &1u32.to_be_bytes());
    qp.buffer += 4 * 16;
    let mut vector = [0; wqe_address::BYTES];
    wqe_address::Q_KEY.set(&mut vector, Q_KEY);
    wqe_address::QPN.set(&mut vector, qp.number.into());
    wqe_address::RLID.set(&mut vector, rig.device.guests[0].lid.into());
    let mut segments: Vec<[u8; 16]> = vector.chunks_exact(16).map(|s| s.try_into().unwrap()).collect();
    segments.push(data(memory, 8));
    let next = rig.post(0, &qp, 0, WqeOpcode::Send as u8, &segments);
    rig.post(0, &qp, next, WqeOpcode::Send as u8, &segments);
    while rig.device.run(8) {}
    let receive = (CompletionOpcode::ResponderError as u64, WqeSyndrome::LocalLength as u64, 0);
    let sent = (CompletionOpcode::Requester as u64, 0, 0);
    assert_eq!(completions(&mut rig, &cq), [receive, sent, failed(WqeSyndrome::Flushed, next.into())]);
}

#[test]
fn what_was_posted_before_leaving_send_error_is_flushed_and_the_rest_sent() {
    let mut rig = Rig::up("resumed", 1);
    let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
    let cq = rig.cq(0, 4);
    let memory = rig.region(0, pd);
    let buffer = rig.alloc(0, 0x1000);
    let qp = make(&mut rig, pd, cq.number, buffer, &[(qpc::ST, Service::Uc as u64)]);
    rig.connect(0, qp.number, (0, qp.number), 0, 0);
    rig.settle();
    let write = |rig: &mut Rig, n, from| {
        rig.post(0, &qp, n, WqeOpcode::Write as u8, &[remote(memory), data(from, 8)])
    };
    let next = write(&mut rig, 0, Region { key: 0xdead00, at: 0 });
    let next = write(&mut rig, next, memory);
    let next = write(&mut rig, next, memory);
    rig.device.run(1);
    assert_eq!(state(&rig, &qp), QpState::SendError);
    assert_eq!(rig.status(0, Opcode::SQERR2RTS_QP, qp.number, &[0; 256]), 0);
    write(&mut rig, next, memory);
    rig.settle();
    assert_eq!(
        completions(&mut rig, &cq),
        [
            failed(WqeSyndrome::LocalProtection, 0),
            failed(WqeSyndrome::Flushed, 1),
            failed(WqeSyndrome::Flushed, 2),
            (CompletionOpcode::Requester as u64, 0, 3),
        ]
    );
}

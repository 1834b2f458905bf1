//! What is under way when something ends, breaks or turns over: nothing of it is done twice, told to nobody's queue,
//! or left waiting.

mod driver;
mod pair;

use std::time::Duration;

use driver::{Region, Role, atomic, data, remote, xrc};
use mlx5_model::{
    bits::Field,
    command::opcode::Opcode,
    fields::qpc,
    hw::{QpState, Service, WqeOpcode, WqeSyndrome},
    qp::PSN_MASK,
    wire::LinkFaults,
};
use pair::{
    ACK_TIMEOUT, AGES, ANSWER_TIME, CAME, DONE, PERFECT, Pair, RETRIES, failed, lossy, receive_failed, slow,
};

/// Megabytes that are the same four over and over.
fn long(p: &mut Pair) -> [Region; 2] {
    [0, 1].map(|g| p.rig.region_of(g, p.pd[g], 0x4000_0000, 20, &[4 << 20; 8]))
}

fn connect_again(p: &mut Pair, more: &[(Field, u64)]) {
    for g in [1, 0] {
        assert_eq!(p.rig.status(g, Opcode::TO_RST_QP, p.qp[g].number, &[]), 0);
        let mut attributes = vec![
            (qpc::MTU, 1),
            (qpc::PRIMARY_ADDRESS_PATH__ACK_TIMEOUT, ACK_TIMEOUT),
            (qpc::RETRY_COUNT, RETRIES),
            (qpc::RNR_RETRY, 7),
            // 10 ms.
            (qpc::MIN_RNR_NAK, 20),
        ];
        attributes.extend_from_slice(more);
        p.rig.connect_with(g, p.qp[g].number, (1 - g, p.qp[1 - g].number), &attributes);
    }
}

#[test]
fn a_read_that_breaks_off_midway_is_refused_on_any_wire() {
    for timeout in [0, ACK_TIMEOUT] {
        for faults in [PERFECT, slow(Duration::from_micros(1))] {
            let mut p = Pair::xrc("midway");
            connect_again(&mut p, &[(qpc::PRIMARY_ADDRESS_PATH__ACK_TIMEOUT, timeout)]);
            p.wire(0, faults);
            // The second page is not there.
            let at = p.memory[1].at;
            let far = p.rig.region_of(1, p.pd[1], at, 12, &[at, 1 << 40]);
            let page = p.rig.alloc(0, 0x2000);
            let here = p.rig.region_of(0, p.pd[0], page, 12, &[page, page + 0x1000]);
            p.post(WqeOpcode::Read, &[xrc(p.srqs[0].number), remote(far), data(here, 0x2000)]);
            let took = p.rig.hurry(AGES);
            assert_eq!(p.completions(0), [failed(WqeSyndrome::RemoteOperation)], "{timeout} {faults:?}");
            assert_eq!((p.state(0), p.state(1)), (QpState::Error, QpState::Error));
            assert!(took < Duration::from_millis(1), "nobody waited: {took:?}");
        }
    }
}

#[test]
fn a_destroyed_srq_has_no_more_completions() {
    for faults in [PERFECT, slow(Duration::from_millis(1))] {
        for breaks_first in [false, true] {
            let mut p = Pair::xrc("srq");
            let m = long(&mut p);
            p.rig.post_receive(1, &p.srqs[0], 0, m[1], 8 << 20);
            p.wire(0, faults);
            let begin = p.rig.device.engine.now();
            p.rig.device.engine.set_time(begin);
            p.memory[0] = m[0];
            p.send(0, 4 << 20);
            p.rig.device.run(20);
            p.rig.device.engine.set_time(begin + Duration::from_millis(1));
            p.rig.device.run(8);
            let half =
                |p: &Pair| p.rig.device.objects.qps.get(p.qp[1].number).unwrap().answering.incoming.is_some();
            assert!(half(&p), "half a message is there, {faults:?}");
            assert_eq!(p.rig.status(1, Opcode::DESTROY_XRC_SRQ, p.srqs[0].number, &[]), 0);
            assert!(!half(&p));
            if breaks_first {
                assert_eq!(p.rig.status(1, Opcode::TO_ERR_QP, p.qp[1].number, &[]), 0);
            }
            p.rig.hurry(AGES);
            assert_eq!(p.completions(1), []);
            let why =
                if breaks_first { WqeSyndrome::RetryExceeded } else { WqeSyndrome::RemoteInvalidRequest };
            assert_eq!(p.completions(0), [failed(why)], "{faults:?}");
            assert_eq!(p.state(1), QpState::Error);
        }
    }
}

#[test]
fn the_other_srq_of_a_connection_lives_on_and_so_does_what_came_for_it() {
    let mut p = Pair::xrc("other");
    p.rig.post_receive(1, &p.srqs[0], 0, p.memory[1], 4096);
    p.wire(0, slow(Duration::from_millis(1)));
    p.send(0, 4096);
    p.rig.hurry(Duration::from_micros(1));
    assert_eq!(p.rig.status(1, Opcode::DESTROY_XRC_SRQ, p.srqs[1].number, &[]), 0);
    p.rig.hurry(AGES);
    assert_eq!((p.completions(0), p.completions(1)), (vec![DONE], vec![CAME]));
}

#[test]
fn an_atomic_that_comes_again_after_the_numbers_turned_over_is_not_done_again() {
    let mut p = Pair::xrc("over");
    let m = p.memory;
    let add = [xrc(p.srqs[0].number), remote(m[1]), atomic(1, 0), data(m[0], 8)];
    p.rig.write(1, m[1].at, &[0; 8]);
    // One of the two comes much later than the other.
    p.wire(0, LinkFaults { duplicate: 1.0, jitter: Duration::from_secs(10), ..PERFECT });
    let begin = p.rig.device.engine.now();
    p.rig.device.engine.set_time(begin);
    p.post(WqeOpcode::FetchAdd, &add);
    while p.completions(0).is_empty() {
        while p.rig.device.run(100) {}
        let next = p.rig.device.engine.next_timer().unwrap();
        p.rig.device.engine.set_time(next);
    }
    assert!(p.rig.device.engine.wire.next_arrival().is_some(), "another is under way");
    p.rig.device.clear_link_faults();
    // As if other messages had used all numbers but the one.
    for (guest, packets) in [(0, PSN_MASK), (1, PSN_MASK)] {
        let qp = p.rig.device.objects.qps.get_mut(p.qp[guest].number).unwrap();
        if guest == 0 { qp.sent(packets) } else { qp.received(packets) }
    }
    let expects = |p: &Pair| p.rig.device.objects.qps.get(p.qp[1].number).unwrap().receive_psn;
    assert_eq!(expects(&p), 0, "the number that it had");
    p.rig.hurry(AGES);
    assert_eq!(u64::from_le_bytes(p.rig.read(1, m[1].at)), 1);
    p.post(WqeOpcode::FetchAdd, &add);
    p.rig.hurry(AGES);
    assert_eq!(p.completions(0), [DONE; 2]);
    assert_eq!(u64::from_le_bytes(p.rig.read(1, m[1].at)), 2, "a new one is done");
}

#[test]
fn what_was_lost_before_the_peer_was_heard_does_not_count() {
    let mut p = Pair::xrc("heard");
    connect_again(&mut p, &[]);
    p.send(0, 5);
    for round in 1..=RETRIES + 2 {
        // It is heard, and has no receive.
        p.wire(0, slow(Duration::from_micros(1)));
        p.rig.hurry(Duration::from_secs(1));
        // Then one request is lost, which is noticed before the next change.
        p.wire(0, lossy(1.0));
        let lost = p.activity(0).packets_lost;
        let begin = p.rig.device.engine.now();
        while p.activity(0).packets_lost == lost {
            p.rig.hurry(Duration::from_millis(1));
            let now = p.rig.device.engine.now();
            p.rig.device.engine.set_time(now + Duration::from_millis(1));
            assert!(now - begin < ANSWER_TIME);
        }
        assert_eq!(p.completions(0), [], "round {round}");
    }
    p.wire(0, slow(Duration::from_micros(1)));
    p.rig.post_receive(1, &p.srqs[0], 0, p.memory[1], 64);
    p.rig.hurry(AGES);
    assert_eq!((p.completions(0), p.completions(1)), (vec![DONE], vec![CAME]));
}

#[test]
fn an_old_silence_does_not_count_after_progress() {
    let mut p = Pair::xrc("silence");
    let m = long(&mut p);
    // Silence on a perfect wire, then for much longer than it may last slow but sure progress in packets.
    p.rig.device.guests[1].port_up = false;
    p.post(WqeOpcode::Write, &[xrc(p.srqs[0].number), remote(m[1]), data(m[0], 8 << 20)]);
    p.rig.hurry(Duration::from_millis(10));
    p.rig.device.guests[1].port_up = true;
    p.wire(0, slow(Duration::from_millis(10)));
    let begin = p.rig.device.engine.now();
    while p.rig.device.engine.now() - begin < ANSWER_TIME * 6 {
        let now = p.rig.device.engine.now();
        p.rig.hurry(Duration::from_millis(10));
        p.rig.device.engine.set_time(now + Duration::from_millis(10));
    }
    assert_eq!(p.completions(0), []);
    // What is under way comes, so that the next bit goes over a wire that is perfect, to a port that is down.
    p.wire(0, PERFECT);
    while p.rig.device.engine.wire.next_arrival().is_some() {
        let next = p.rig.device.engine.next_timer().unwrap();
        p.rig.device.engine.set_time(next);
        p.rig.device.run(1);
    }
    p.rig.device.guests[1].port_up = false;
    p.rig.hurry(Duration::from_millis(20));
    assert_eq!(p.completions(0), [], "given up at once");
    p.rig.device.guests[1].port_up = true;
    p.rig.hurry(AGES);
    assert_eq!(p.completions(0), [DONE]);
}

#[test]
fn no_two_queue_pairs_have_the_same_life() {
    // So one that gets an old one's number hears nothing of what is under way to that.
    let mut p = Pair::xrc("lives");
    let old = p.rig.device.objects.qps.get(p.qp[1].number).unwrap().life;
    let xrcd = p.rig.device.objects.qps.get(p.qp[1].number).unwrap().xrcd;
    let new = p.rig.qp(1, p.pd[1], 0, Role::Target(xrcd));
    let new = p.rig.device.objects.qps.get(new.number).unwrap().life;
    assert!(!new.knows_requests_of(&old) && !new.knows_answers_of(&old));
}

#[test]
fn a_cq_that_is_destroyed_leaves_no_timer() {
    let mut p = Pair::xrc("moderated");
    let begin = p.rig.device.engine.now();
    p.rig.device.engine.set_time(begin);
    let cq = p.rig.cq(0, 4);
    p.rig.device.engine.cq_waits(cq.number, begin + Duration::from_secs(1));
    assert!(p.rig.device.engine.next_timer().is_some());
    assert_eq!(p.rig.status(0, Opcode::DESTROY_CQ, cq.number, &[]), 0);
    assert!(p.rig.device.engine.next_timer().is_none());
}

#[test]
fn a_queue_pair_in_error_is_looked_at_less_and_less_until_a_receive_is_there() {
    let mut p = Pair::of(Service::Rc, "looks");
    let begin = p.rig.device.engine.now();
    p.rig.device.engine.set_time(begin);
    assert_eq!(p.rig.status(1, Opcode::TO_ERR_QP, p.qp[1].number, &[]), 0);
    let looks = |p: &mut Pair, most: usize| {
        let mut pauses = Vec::new();
        for _ in 0..most {
            while p.rig.device.run(100) {}
            let (now, next) = (p.rig.device.engine.now(), p.rig.device.engine.next_timer().unwrap());
            pauses.push((next - now).as_millis());
            p.rig.device.engine.set_time(next);
        }
        pauses
    };
    assert_eq!(looks(&mut p, 9), [5, 10, 20, 40, 80, 160, 320, 320, 320]);
    p.post_receive(0, 64);
    assert_eq!(looks(&mut p, 2), [5, 10]);
    assert_eq!(p.completions(1), [receive_failed(WqeSyndrome::Flushed)]);
}

#[test]
fn timers_that_are_due_are_seen_to_a_few_at_a_time() {
    let mut p = Pair::of(Service::Rc, "timers");
    let begin = p.rig.device.engine.now();
    p.rig.device.engine.set_time(begin);
    for n in 0..1000 {
        p.rig.device.engine.cq_waits(0x50_0000 + n, begin + Duration::from_millis(1));
    }
    p.rig.device.engine.set_time(begin + Duration::from_millis(1));
    p.post(WqeOpcode::Write, &[remote(p.memory[1]), data(p.memory[0], 64)]);
    let mut turns = 1;
    while p.rig.device.run(100) {
        assert_eq!(p.completions(0), [DONE], "others have their share of each turn");
        turns += 1;
    }
    assert_eq!(turns, 1000 / 50);
}

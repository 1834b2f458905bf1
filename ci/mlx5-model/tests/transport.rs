//! What requester and responder do about packets that are missing, old, or never answered.

mod driver;
mod pair;

use std::time::Duration;

use driver::{Region, Role, atomic, data, remote, xrc};
use mlx5_model::{
    command::opcode::Opcode,
    fields::{cqe, qpc, wqe_address},
    hw::{QpState, Service, WqeOpcode, WqeSyndrome},
    wire::LinkFaults,
};
use pair::{
    AGES, ANSWER_TIME, CAME, DONE, MTU, PERFECT, Pair, Q_KEY, RETRIES, failed, lossy, receive_failed, slow,
};

#[test]
fn a_peer_that_is_never_heard_is_given_up_after_all_tries() {
    for (direction, port) in [(Some(0), None), (Some(1), None), (None, Some(0)), (None, Some(1))] {
        let mut p = Pair::xrc("silent");
        p.rig.post_receive(1, &p.srqs[0], 0, p.memory[1], 64);
        if let Some(from) = direction {
            p.wire(from, lossy(1.0));
        }
        if let Some(port) = port {
            p.rig.device.guests[port].port_up = false;
        }
        p.send(0, 5);
        p.send(0, 5);
        let took = p.rig.hurry(AGES);
        assert_eq!(p.completions(0), [failed(WqeSyndrome::RetryExceeded), failed(WqeSyndrome::Flushed)]);
        let tries = u32::try_from(RETRIES).unwrap() + 1;
        assert!(took >= ANSWER_TIME * tries && took < ANSWER_TIME * (tries + 1), "{took:?}");
        let arrived = direction == Some(1);
        assert_eq!(p.completions(1), if arrived { vec![CAME] } else { vec![] }, "{direction:?} {port:?}");
        if arrived {
            assert_eq!(p.activity(1).duplicate_requests, RETRIES);
        }
        if direction.is_some() {
            assert_eq!(p.activity(0).packets_retransmitted, RETRIES);
        }
        assert_eq!(p.state(1), QpState::ReadyToSend, "the target heard nothing of it");
    }
}

#[test]
fn a_port_that_comes_back_in_time_is_all_right() {
    let mut p = Pair::xrc("back");
    p.rig.post_receive(1, &p.srqs[0], 0, p.memory[1], 2048);
    p.wire(0, slow(Duration::from_millis(1)));
    p.rig.device.guests[1].port_up = false;
    p.send(0, 2000);
    p.rig.hurry(ANSWER_TIME * 2);
    p.rig.device.guests[1].port_up = true;
    p.rig.hurry(AGES);
    assert_eq!((p.completions(0), p.completions(1)), (vec![DONE], vec![CAME]));
}

#[test]
fn a_request_that_comes_twice_is_done_once() {
    let mut p = Pair::xrc("twice");
    let twice = LinkFaults { duplicate: 1.0, ..PERFECT };
    p.wire(0, twice);
    p.wire(1, twice);
    let m = p.memory;
    let head = xrc(p.srqs[0].number);
    p.rig.post_receive(1, &p.srqs[0], 0, m[1], 64);
    p.rig.post_receive(1, &p.srqs[0], 1, m[1], 64);
    p.send(0, 5);
    p.post(WqeOpcode::FetchAdd, &[head, remote(m[1]), atomic(1, 0), data(m[0], 8)]);
    p.post(WqeOpcode::FetchAdd, &[head, remote(m[1]), atomic(1, 0), data(m[0], 8)]);
    p.post(WqeOpcode::Read, &[head, remote(m[1]), data(m[0], 700)]);
    p.send(0, 5);
    p.rig.write(1, m[1].at, &[0; 8]);
    p.rig.hurry(AGES);
    assert_eq!((p.completions(0), p.completions(1)), (vec![DONE; 5], vec![CAME; 2]));
    // The second message is a copy of what the read brought: the counter's low bytes.
    assert_eq!(p.rig.read::<8>(0, m[0].at), p.rig.read::<8>(1, m[1].at));
    assert_eq!(u64::from_le_bytes(p.rig.read(1, m[1].at)) & 0xff, 2);
    assert!(p.activity(1).duplicate_requests >= 5, "{:?}", p.activity(1));
    assert_eq!(p.activity(0).packets_duplicated, p.activity(0).packets);
}

#[test]
fn what_is_overtaken_is_asked_for_again() {
    let mut p = Pair::xrc("overtaken");
    p.rig.post_receive(1, &p.srqs[0], 0, p.memory[1], 4096);
    p.wire(0, LinkFaults { reorder: 1.0, ..PERFECT });
    p.rig.write(0, p.memory[0].at, &[7; 4096]);
    p.send(0, 16 * MTU);
    let took = p.rig.hurry(AGES);
    assert_eq!((p.completions(0), p.completions(1)), (vec![DONE], vec![CAME]));
    assert_eq!(p.rig.read::<4096>(1, p.memory[1].at), [7; 4096]);
    assert!(p.activity(1).sequence_errors > 0 && p.activity(0).packets_reordered > 0);
    assert!(took < ANSWER_TIME, "nobody waited for a time-out: {took:?}");
}

#[test]
fn an_old_sequence_number_is_acknowledged_and_one_ahead_is_not() {
    for (psn, result) in [(90, DONE), (110, failed(WqeSyndrome::RetryExceeded))] {
        for faults in [PERFECT, slow(Duration::from_micros(1))] {
            let mut p = Pair::xrc("old");
            p.rig.post_receive(1, &p.srqs[0], 0, p.memory[1], 64);
            p.rig.device.objects.qps.get_mut(p.qp[1].number).unwrap().receive_psn = 100;
            p.rig.device.objects.qps.get_mut(p.qp[0].number).unwrap().send_psn = psn;
            p.wire(0, faults);
            p.send(0, 5);
            p.rig.hurry(AGES);
            assert_eq!((p.completions(0), p.completions(1)), (vec![result], vec![]), "{psn} {faults:?}");
        }
    }
}

#[test]
fn the_wire_may_change_in_the_midst_of_a_message() {
    let mut p = Pair::of(Service::Rc, "change");
    // Sixteen megabytes that are the same two over and over, so longer than what is handed over at once.
    let long = [0, 1].map(|g| p.rig.region_of(g, p.pd[g], 0, 21, &[4 << 20; 8]));
    p.rig.write(0, 4 << 20, &[1; 4096]);
    p.post(WqeOpcode::Write, &[remote(long[1]), data(long[0], 3 << 20)]);
    p.post(WqeOpcode::Read, &[remote(long[1]), data(long[0], 3 << 20)]);
    for turn in 0..200 {
        p.wire(0, if turn % 2 == 0 { lossy(0.01) } else { PERFECT });
        p.wire(1, if turn % 3 == 0 { lossy(0.01) } else { PERFECT });
        p.rig.device.run(20);
        p.rig.hurry(Duration::from_millis(5));
    }
    p.rig.hurry(AGES);
    assert_eq!(p.completions(0), [DONE; 2]);
    assert_eq!(p.rig.read::<4096>(1, 4 << 20), [1; 4096]);
    assert!(p.activity(0).packets > 100, "some of it went in packets: {}", p.activity(0).packets);
    assert!(p.activity(0).packets < 3 << 12, "and some did not");
}

#[test]
fn without_a_receive_the_initiator_is_told_and_waits_as_it_is_told() {
    for faults in [PERFECT, slow(Duration::from_micros(10))] {
        let mut p = Pair::xrc("notready");
        p.wire(0, faults);
        p.send(0, 600);
        let took = p.rig.hurry(AGES);
        assert_eq!(p.completions(0), [failed(WqeSyndrome::RnrRetryExceeded)]);
        assert_eq!(p.activity(0).receiver_not_ready, 3);
        // MIN_RNR_NAK code 20 is 10.24 ms.
        assert!(took >= Duration::from_micros(2 * 10_240) && took < Duration::from_millis(25), "{took:?}");
        assert_eq!(p.state(1), QpState::ReadyToSend);
    }
}

#[test]
fn an_empty_srq_keeps_the_others_of_the_connection_waiting() {
    for faults in [PERFECT, slow(Duration::from_micros(10))] {
        let mut p = Pair::xrc("line");
        p.wire(0, faults);
        p.rig.post_receive(1, &p.srqs[1], 0, p.memory[1], 64);
        p.send(0, 5);
        p.send(1, 6);
        p.rig.hurry(Duration::from_millis(5));
        assert_eq!(p.completions(1), [], "the second waits behind the first");
        p.rig.post_receive(1, &p.srqs[0], 0, p.memory[1], 64);
        p.rig.hurry(AGES);
        assert_eq!((p.completions(0), p.completions(1)), (vec![DONE; 2], vec![CAME; 2]));
        let bytes = [0, 1].map(|n| cqe::BYTE_COUNT.get(&p.rig.completion(1, &p.cq[1], n)));
        assert_eq!(bytes, [5, 6]);
    }
}

#[test]
fn a_guest_that_goes_in_the_midst_of_a_message_leaves_time_outs() {
    // Either end goes, with packets under way.
    for gone in [0, 1] {
        let mut p = Pair::xrc("gone");
        p.rig.post_receive(1, &p.srqs[0], 0, p.memory[1], 4096);
        p.wire(0, LinkFaults { jitter: Duration::from_millis(1), ..slow(Duration::from_millis(1)) });
        p.send(0, 4096);
        p.rig.hurry(Duration::from_micros(1300));
        p.rig.device.reset(gone);
        p.rig.hurry(AGES);
        if gone == 1 {
            assert_eq!(p.completions(0), [failed(WqeSyndrome::RetryExceeded)]);
        } else {
            assert_eq!(
                p.state(1),
                QpState::ReadyToSend,
                "the target waits for ever, as its peer may come back"
            );
        }
        assert!(p.rig.device.engine.next_timer().is_none());
    }
}

#[test]
fn a_half_filled_receive_is_flushed_before_the_others() {
    for faults in [PERFECT, slow(Duration::from_millis(1))] {
        let mut p = Pair::of(Service::Rc, "half");
        let long = [0, 1].map(|g| p.rig.region_of(g, p.pd[g], 0, 21, &[4 << 20; 8]));
        p.wire(0, faults);
        p.memory[1] = long[1];
        p.post_receive(0, 16 << 20);
        p.post_receive(1, 64);
        p.post(WqeOpcode::Send, &[data(long[0], 8 << 20)]);
        p.rig.device.run(20);
        if faults != PERFECT {
            p.rig.hurry(Duration::from_millis(3));
        }
        assert_eq!(p.completions(1), []);
        assert_eq!(p.rig.status(1, Opcode::TO_ERR_QP, p.qp[1].number, &[0; 256]), 0);
        p.rig.hurry(Duration::from_secs(5));
        assert_eq!(p.completions(1), [receive_failed(WqeSyndrome::Flushed); 2]);
        let counters = [0, 1].map(|n| cqe::WQE_COUNTER.get(&p.rig.completion(1, &p.cq[1], n)));
        assert_eq!(counters, [0, 1]);
        assert_eq!(p.completions(0), [failed(WqeSyndrome::RetryExceeded)]);
    }
}

#[test]
fn a_queue_pair_that_was_reset_hears_nothing_of_its_earlier_life() {
    let mut p = Pair::xrc("life");
    p.rig.post_receive(1, &p.srqs[0], 0, p.memory[1], 64);
    p.wire(0, slow(Duration::from_millis(50)));
    p.send(0, 5);
    p.rig.hurry(Duration::from_millis(1));
    for g in 0..2 {
        assert_eq!(p.rig.status(g, Opcode::TO_RST_QP, p.qp[g].number, &[]), 0);
    }
    p.rig.write(0, p.qp[0].doorbell, &[0; 8]);
    p.connect();
    p.rig.hurry(AGES);
    assert_eq!((p.completions(0), p.completions(1)), (vec![], vec![]));
}

#[test]
fn an_unreliable_connection_drops_a_message_with_a_gap_whole_and_uses_its_receive_again() {
    let mut p = Pair::of(Service::Uc, "gap");
    for n in 0..3 {
        p.post_receive(n, 4096);
    }
    // Of the first message the wire loses all but some.
    p.wire(0, lossy(0.5));
    p.post(WqeOpcode::Send, &[data(p.memory[0], 16 * MTU)]);
    p.rig.hurry(AGES);
    assert_eq!((p.completions(0), p.completions(1)), (vec![DONE], vec![]), "the sender never learns");
    assert!(p.activity(0).packets_lost < 16);
    p.wire(0, slow(Duration::from_micros(5)));
    p.rig.write(0, p.memory[0].at, &[9; 1000]);
    p.post(WqeOpcode::Send, &[data(p.memory[0], 1000)]);
    p.rig.hurry(Duration::ZERO);
    p.wire(0, PERFECT);
    p.post(WqeOpcode::Send, &[data(p.memory[0], 3 * MTU)]);
    p.rig.hurry(AGES);
    assert_eq!((p.completions(0), p.completions(1)), (vec![DONE; 3], vec![CAME; 2]));
    let counters = [0, 1].map(|n| cqe::WQE_COUNTER.get(&p.rig.completion(1, &p.cq[1], n)));
    assert_eq!(counters, [0, 1], "no receive is lost");
}

#[test]
fn datagrams_are_lost_doubled_and_overtaken() {
    let mut p = Pair::of(Service::Ud, "datagrams");
    for n in 0..8 {
        p.post_receive(n, 64);
    }
    let mut vector = [0; wqe_address::BYTES];
    wqe_address::Q_KEY.set(&mut vector, Q_KEY);
    wqe_address::QPN.set(&mut vector, p.qp[1].number.into());
    wqe_address::RLID.set(&mut vector, p.rig.device.guests[1].lid.into());
    let segments = |p: &Pair, length| {
        let mut s: Vec<[u8; 16]> = vector.chunks_exact(16).map(|s| s.try_into().unwrap()).collect();
        s.push(data(p.memory[0], length));
        s
    };
    let go = |p: &mut Pair, faults, lengths: &[u32]| {
        p.wire(0, faults);
        for &length in lengths {
            let s = segments(p, length);
            p.post(WqeOpcode::Send, &s);
        }
        p.rig.hurry(AGES);
    };
    go(&mut p, lossy(1.0), &[1, 2]);
    go(&mut p, LinkFaults { duplicate: 1.0, ..PERFECT }, &[3]);
    go(&mut p, LinkFaults { reorder: 1.0, ..PERFECT }, &[4, 5, 6]);
    go(&mut p, PERFECT, &[7]);
    assert_eq!(p.completions(0), [DONE; 7]);
    let n = p.completions(1).len() as u64;
    let lengths: Vec<u64> =
        (0..n).map(|n| cqe::BYTE_COUNT.get(&p.rig.completion(1, &p.cq[1], n)) - 40).collect();
    assert_eq!(lengths, [3, 3, 5, 4, 6, 7]);
}

#[test]
fn a_refusal_comes_back_and_breaks_both_ends() {
    let mut p = Pair::xrc("refused");
    p.wire(1, slow(Duration::from_micros(100)));
    let (here, there) = (p.memory[0], p.memory[1]);
    let beyond = Region { at: there.at + 4000, ..there };
    p.post(WqeOpcode::Write, &[xrc(p.srqs[0].number), remote(beyond), data(here, 1000)]);
    p.send(0, 5);
    p.rig.hurry(AGES);
    assert_eq!(p.completions(0), [failed(WqeSyndrome::RemoteAccess), failed(WqeSyndrome::Flushed)]);
    assert_eq!((p.state(0), p.state(1)), (QpState::Error, QpState::Error));
}

#[test]
fn a_message_longer_than_its_receive_fails_at_both_ends() {
    let mut p = Pair::xrc("longer");
    p.wire(0, slow(Duration::from_micros(100)));
    p.rig.post_receive(1, &p.srqs[0], 0, p.memory[1], 1000);
    p.send(0, 1001);
    p.rig.hurry(AGES);
    assert_eq!(p.completions(0), [failed(WqeSyndrome::RemoteInvalidRequest)]);
    assert_eq!(p.completions(1), [receive_failed(WqeSyndrome::LocalLength)]);
}

#[test]
fn a_flood_of_packets_ends_at_what_the_wire_holds() {
    let mut p = Pair::of(Service::Uc, "flood");
    let long = p.rig.region_of(0, p.pd[0], 0, 21, &[4 << 20; 8]);
    p.wire(0, slow(Duration::from_secs(10)));
    for _ in 0..2 {
        p.post(WqeOpcode::Send, &[data(long, 16 << 20)]);
    }
    while p.rig.device.run(1000) {}
    assert_eq!(p.completions(0), [DONE; 2]);
    let activity = p.activity(0);
    assert_eq!(activity.packets - activity.packets_lost, mlx5_model::wire::MAX_PACKETS as u64);
    p.rig.hurry(AGES);
    assert!(p.rig.device.engine.next_timer().is_none());
}

#[test]
fn a_flood_of_packets_is_on_its_own_link_alone() {
    let mut p = Pair::xrc("flooded");
    p.rig.device.set_link_faults(Some(0), Some(0), slow(Duration::from_secs(10)), Some(1)).unwrap();
    p.wire(0, slow(Duration::from_micros(1)));
    let now = p.rig.device.engine.now();
    p.rig.device.engine.set_time(now);
    let cq = p.rig.cq(0, 6);
    let long = p.rig.region_of(0, p.pd[0], 0x4000_0000, 21, &[4 << 20; 8]);
    let uc = p.rig.qp(0, p.pd[0], cq.number, Role::Uc);
    p.rig.connect_with(0, uc.number, (0, uc.number), &[(qpc::MTU, 1)]);
    for n in 0..2 {
        let write = [remote(long), data(long, 16 << 20)];
        p.rig.post(0, &uc, n, WqeOpcode::Write as u8, &write);
    }
    while p.rig.device.run(1000) {}
    let lost = p.activity(0).packets_lost;
    assert!(lost > 0);
    p.rig.post_receive(1, &p.srqs[0], 0, p.memory[1], 64);
    p.send(0, 5);
    p.rig.hurry(Duration::from_secs(3));
    assert_eq!(p.completions(0), [DONE]);
    assert_eq!(p.activity(0).packets_lost, lost);
}

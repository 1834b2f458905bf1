//! Objects' lives on a device: orders of drops, work in flight, connects that fail.

mod common;

use common::{LIMIT, Node, Pair, device, received, sent, wait};
use rdma_xrc::{ConnectOptions, Endpoint, ErrorKind, LocalPort, Mtu, PostErrorReason, QpState};
use std::{any::Any, time::Instant};

/// What a node and a pair are made of, in no order.
fn parts(node: Node, pair: Pair) -> Vec<(&'static str, Option<Box<dyn Any>>)> {
    let Node { context, port, pd, pool, domain, send_cq, receive_cq, srq } = node;
    vec![
        ("context", Some(Box::new(context))),
        ("port", Some(Box::new(port))),
        ("pd", Some(Box::new(pd))),
        ("pool", Some(Box::new(pool))),
        ("domain", Some(Box::new(domain))),
        ("send cq", Some(Box::new(send_cq))),
        ("receive cq", Some(Box::new(receive_cq))),
        ("srq", Some(Box::new(srq))),
        ("initiator", Some(Box::new(pair.initiator))),
        ("target", Some(Box::new(pair.target))),
    ]
}

/// With messages on their way and receives posted. Each ordered pair goes first, then the rest in
/// either direction.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_12_drops_in_any_order() {
    let _watched = common::no_leaks();
    let start = Instant::now();
    let mut rounds = 0;
    for first in 0..10 {
        for second in 0..10 {
            if first == second {
                continue;
            }
            let mut node = Node::new();
            let mut pair = node.loopback(&ConnectOptions::new());
            node.post_receives(2);
            for tag in 0..4 {
                pair.initiator.send(node.srq.number(), node.pool.take().unwrap(), tag).unwrap();
            }
            let mut parts = parts(node, pair);
            parts[first].1 = None;
            parts[second].1 = None;
            if rounds % 2 == 0 {
                parts.reverse();
            }
            for (_, part) in &mut parts {
                *part = None;
            }
            rounds += 1;
        }
    }
    println!("{rounds} orders in {:?}", start.elapsed());
    // And in an order that lets each be closed, nothing is refused.
    let node = Node::new();
    let pair = node.pair();
    drop(pair);
    let Node { pd, pool, domain, send_cq, receive_cq, srq, .. } = node;
    srq.close().unwrap();
    domain.close().unwrap();
    send_cq.close().unwrap();
    receive_cq.close().unwrap();
    drop(pool);
    pd.close().unwrap();
}

/// What the watch of the drop tests rests on: a leak is seen. The device refuses nothing, so it is one of
/// the watch's own making.
#[test]
fn a_leak_would_be_seen() {
    let caught = std::panic::catch_unwind(|| {
        let _watched = common::no_leaks();
        tracing::debug!("leftovers are no leak");
        tracing::warn!("an object was not destroyed");
    });
    assert!(caught.is_err(), "a warning went unseen");
    drop(common::no_leaks());
}

/// Queues go with work in flight and their slots are used again at once.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn destroyed_queues_give_their_buffers_back() {
    let _watched = common::no_leaks();
    let mut node = Node::new();
    for round in 0..50 {
        let mut pair = node.loopback(&ConnectOptions::new());
        let mut srq =
            node.domain.create_srq(&node.pd, &node.receive_cq).max_wr(8).pool(&node.pool).build().unwrap();
        for tag in 0..8 {
            srq.post(node.pool.take().unwrap(), tag).unwrap();
        }
        // More than are received: some complete, some do not, and nobody polls.
        for tag in 0..12 {
            pair.initiator.send(srq.number(), node.pool.take().unwrap(), tag).unwrap();
        }
        if round % 2 == 0 {
            drop(srq);
            drop(pair);
        } else {
            drop(pair);
            drop(srq);
        }
        assert_eq!(node.pool.free(), node.pool.slots(), "round {round}");
    }
    let mut late = Vec::new();
    node.send_cq.poll(&mut late, 1000).unwrap();
    node.receive_cq.poll(&mut late, 1000).unwrap();
    assert!(late.is_empty(), "completions of queues that are gone: {late:?}");
    println!(
        "stale: {} sends, {} receives",
        node.send_cq.stale_completions(),
        node.receive_cq.stale_completions()
    );
    let mut pair = node.loopback(&ConnectOptions::new());
    node.post_receives(1);
    pair.initiator.send_inline(node.srq.number(), b"and it still works", 0).unwrap();
    received(&mut node.receive_cq);
    sent(&mut node.send_cq);
}

/// What arrived before its target went is polled after.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn receives_come_home_after_both_ends_went() {
    let mut node = Node::new();
    let _watched = common::no_leaks();
    for round in 0..10u64 {
        let mut pair = node.loopback(&ConnectOptions::new());
        node.post_receives(3);
        for tag in 0..3 {
            pair.initiator.send_inline(node.srq.number(), &[round as u8], tag).unwrap();
        }
        // The sends are acknowledged when the receives are complete.
        wait(&mut node.send_cq, 3);
        pair.initiator.close().unwrap();
        pair.target.close().unwrap();
        for message in wait(&mut node.receive_cq, 3).into_iter().map(common::message) {
            assert_eq!(message.bytes, [round as u8]);
        }
    }
    assert_eq!((node.pool.free(), node.receive_cq.stale_completions()), (node.pool.slots(), 0));
}

/// `mem::forget` of queues with work in flight: the process leaves and the kernel cleans up; until then
/// what they use stays.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn forgotten_queues_go_on_until_the_process_ends() {
    let mut node = Node::new();
    let mut pair = node.loopback(&ConnectOptions::new());
    node.post_receives(1);
    pair.initiator.send(node.srq.number(), node.pool.take().unwrap(), 3).unwrap();
    let Node { context, port, pd, pool, domain, mut send_cq, mut receive_cq, srq } = node;
    std::mem::forget(pair);
    std::mem::forget(srq);
    drop((context, port, pd, pool, domain));
    received(&mut receive_cq);
    assert_eq!(sent(&mut send_cq).tag, 3);
}

/// A step fails: the driver refuses a partition key beyond the port's table. Both ends are in RESET again
/// and can be connected.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn a_connect_that_fails_leaves_reset() {
    let mut node = Node::new();
    let mut pair = node.pair();
    let endpoint = node.endpoint(&pair);
    let table = node.port.attributes().pkey_table_len;
    let beyond = LocalPort::query(&node.context, 1).unwrap().pkey_index(table);
    let options = ConnectOptions::new();
    for error in [
        pair.initiator.connect(&beyond, &endpoint, &options).unwrap_err(),
        pair.target.connect(&beyond, &endpoint, &options).unwrap_err(),
    ] {
        println!("{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(pair.initiator.state().unwrap(), QpState::Reset);
    assert_eq!(pair.target.state().unwrap(), QpState::Reset);
    let unsent = pair.initiator.send(node.srq.number(), node.pool.take().unwrap(), 0).unwrap_err();
    assert!(matches!(unsent.reason, PostErrorReason::NotConnected));
    pair.target.connect(&node.port, &endpoint, &ConnectOptions::new()).unwrap();
    pair.initiator.connect(&node.port, &endpoint, &ConnectOptions::new()).unwrap();
    assert_eq!(pair.initiator.state().unwrap(), QpState::ReadyToSend);
    assert_eq!(pair.target.state().unwrap(), QpState::ReadyToSend);
    assert_eq!(pair.initiator.connect(&node.port, &endpoint, &options).unwrap_err().kind(), ErrorKind::Busy);
    node.post_receives(1);
    pair.initiator.send_inline(node.srq.number(), b"x", 0).unwrap();
    received(&mut node.receive_cq);
    sent(&mut node.send_cq);
}

/// Nobody answers at the other end: the sends fail within the time that the options give, and come home.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn a_peer_that_is_not_there_fails_the_send() {
    let mut node = Node::new();
    let mut pair = node.pair();
    let endpoint = node.endpoint(&pair);
    // The target stays in RESET and answers nothing.
    let hasty = ConnectOptions::new().timeout(8).retry_count(1);
    pair.initiator.connect(&node.port, &endpoint, &hasty).unwrap();
    pair.initiator.send(node.srq.number(), node.pool.take().unwrap(), 1).unwrap();
    let start = Instant::now();
    let failed = wait(&mut node.send_cq, 1).remove(0);
    println!("{} after {:?}", failed.status.unwrap_err(), start.elapsed());
    assert!(start.elapsed() < LIMIT && failed.buf.is_some());
    assert_eq!(pair.initiator.state().unwrap(), QpState::Error);
}

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_16_queues_are_held_to_their_completion_queue() {
    let context = device();
    let pd = context.create_pd().unwrap();
    let domain = context.create_xrc_domain().unwrap();
    let cq = context.create_cq(16).unwrap();
    let room = cq.capacity();
    assert!(room >= 16);
    let srq = domain.create_srq(&pd, &cq).max_wr(room - 1).build().unwrap();
    let error = pd.create_initiator(&cq).max_send_wr(2).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CapacityExceeded);
    assert!(error.to_string().contains(&room.to_string()), "{error}");
    drop(srq);
    pd.create_initiator(&cq).max_send_wr(2).build().unwrap();
}

/// Two openings of the same device are two devices as far as mixing goes.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn objects_of_two_openings_do_not_mix() {
    let (here, there) = (Node::new(), Node::new());
    let error = here.domain.create_srq(&there.pd, &here.receive_cq).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMismatch);
    let pair = here.pair();
    assert!(there.port.endpoint(&pair.initiator, &pair.target, &here.srq).is_err());
}

/// Every MTU up to the path's, with messages of several packets.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn every_mtu_up_to_the_paths() {
    let mut node = Node::new();
    for code in 1..=u32::from(node.port.mtu().code()) {
        let mtu = Mtu::from_code(code).unwrap();
        let mut pair = node.loopback(&ConnectOptions::new().mtu(mtu));
        node.post_receives(1);
        let bytes = common::pattern(code.into(), common::SLOT);
        let mut buf = node.pool.take().unwrap();
        buf.copy_from_slice(&bytes);
        pair.initiator.send(node.srq.number(), buf, 0).unwrap();
        assert_eq!(received(&mut node.receive_cq).bytes, bytes, "MTU {mtu}");
        sent(&mut node.send_cq);
    }
    let mut pair = node.pair();
    let small = Endpoint { mtu: Mtu::Mtu256, ..node.endpoint(&pair) };
    let error = pair.target.connect(&node.port, &small, &ConnectOptions::new().mtu(Mtu::Mtu512)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

//! Messages on a device: bytes, immediates, who receives, what inline takes, who gets buffers back.

mod common;

use common::{DEPTH, Node, SLOT, message, pattern, received, sent, wait};
use rdma_xrc::{CompletionKind, ConnectOptions, PostErrorReason, QpState, SendOptions};

/// Several initiators, all of them sending, to SRQs of several sizes, each message checked.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn every_initiator_reaches_every_srq() {
    let mut node = Node::new();
    let mut pairs: Vec<_> = (0..4).map(|_| node.loopback(&ConnectOptions::new())).collect();
    let mut srqs: Vec<_> = [1, 5, 32]
        .into_iter()
        .map(|depth| {
            node.domain.create_srq(&node.pd, &node.receive_cq).max_wr(depth).pool(&node.pool).build().unwrap()
        })
        .collect();
    let mut seed = 0;
    for round in 0..3 {
        for (from, pair) in pairs.iter_mut().enumerate() {
            for srq in &mut srqs {
                for len in [0, 1, 63, 1024, 2049, SLOT] {
                    seed += 1;
                    srq.post(node.pool.take().unwrap(), seed).unwrap();
                    let bytes = pattern(seed, len);
                    let mut buf = node.pool.take().unwrap();
                    buf.set_len(len);
                    buf.copy_from_slice(&bytes);
                    let imm = (round + from) % 2 == 0;
                    if imm {
                        pair.initiator.send_with_imm(srq.number(), buf, seed as u32, !seed).unwrap();
                    } else {
                        pair.initiator.send(srq.number(), buf, !seed).unwrap();
                    }
                    let message = received(&mut node.receive_cq);
                    assert_eq!(message.bytes, bytes, "message {seed} of {len} bytes");
                    assert_eq!(message.imm, imm.then_some(seed as u32));
                    assert_eq!((message.srq, message.tag), (srq.number(), seed));
                    assert_eq!(message.target, pair.target.qp_number());
                    let done = sent(&mut node.send_cq);
                    assert_eq!((done.tag, done.qp_number), (!seed, pair.initiator.qp_number()));
                    assert_eq!(done.buf.expect("the buffer comes back").len(), len);
                }
            }
        }
    }
    assert_eq!(node.pool.free(), node.pool.slots());
}

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_23_an_immediate_arrives_as_the_same_number() {
    let mut node = Node::new();
    let mut pair = node.loopback(&ConnectOptions::new());
    node.post_receives(2);
    pair.initiator
        .send_with(node.srq.number(), node.pool.take().unwrap(), 0, SendOptions::new().imm(0x0102_0304))
        .unwrap();
    assert_eq!(received(&mut node.receive_cq).imm, Some(0x0102_0304));
    pair.initiator.send_inline(node.srq.number(), b"none", 0).unwrap();
    assert_eq!(received(&mut node.receive_cq).imm, None);
    wait(&mut node.send_cq, 2);
}

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_05_inline_up_to_what_was_granted_and_not_a_byte_more() {
    let mut node = Node::new();
    let mut pair = node.loopback(&ConnectOptions::new());
    let granted = pair.initiator.max_inline() as usize;
    assert!(granted >= 64, "{granted} granted, 64 asked for");
    node.post_receives(3);
    for len in [0, 1, granted] {
        let bytes = pattern(len as u64, len);
        pair.initiator.send_inline(node.srq.number(), &bytes, 7).unwrap();
        assert_eq!(received(&mut node.receive_cq).bytes, bytes);
        let done = sent(&mut node.send_cq);
        assert!(done.buf.is_none() && done.tag == 7);
    }
    let error = pair.initiator.send_inline(node.srq.number(), &pattern(0, granted + 1), 8).unwrap_err();
    assert!(
        matches!(error.reason, PostErrorReason::InlineTooLong { len, .. } if len == granted + 1),
        "{error}"
    );
    assert_eq!(pair.initiator.in_flight(), 0, "nothing was posted");
    let beyond = node.pd.create_initiator(&node.send_cq).max_send_wr(1).max_inline(1 << 20).build();
    println!("asking for 1 MiB inline: {beyond:?}");
    assert!(beyond.is_err_and(|error| error.errno().is_some()), "no device grants that");
}

/// Unsignalled sends fill the queue several times over: the crate makes one in every half queue ask for
/// a completion, and each completion brings all before it home.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn unsignalled_sends_come_home_with_forced_signals() {
    let mut node = Node::new();
    let mut pair = node.loopback(&ConnectOptions::new());
    let quiet = SendOptions::new().signalled(false);
    let (mut home, mut tag) = (Vec::new(), 0);
    for _ in 0..8 {
        for _ in 0..DEPTH / 2 {
            node.srq.post(node.pool.take().unwrap(), tag).unwrap();
            pair.initiator.send_with(node.srq.number(), node.pool.take().unwrap(), tag, quiet).unwrap();
            tag += 1;
        }
        home.extend(wait(&mut node.send_cq, DEPTH as usize / 2));
        wait(&mut node.receive_cq, DEPTH as usize / 2);
    }
    let tags: Vec<u64> = home.iter().map(|completion| completion.tag).collect();
    assert_eq!(tags, (0..tag).collect::<Vec<_>>());
    assert!(home.iter().all(|completion| completion.status.is_ok() && completion.buf.is_some()));
    assert_eq!(pair.initiator.in_flight(), 0);
}

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn a_full_queue_and_an_empty_pool_say_so_and_nothing_is_lost() {
    let mut node = Node::new();
    let mut pair = node.loopback(&ConnectOptions::new());
    let quiet = SendOptions::new().signalled(false);
    // Nothing is posted to the SRQ, so the sends stay in flight.
    for tag in 0..u64::from(DEPTH) {
        pair.initiator.send_with(node.srq.number(), node.pool.take().unwrap(), tag, quiet).unwrap();
    }
    let mut buf = node.pool.take().unwrap();
    buf.set_len(5);
    let error = pair.initiator.send(node.srq.number(), buf, 99).unwrap_err();
    assert!(matches!(error.reason, PostErrorReason::QueueFull { depth: DEPTH }), "{error}");
    assert_eq!(error.buf.as_ref().map(|buf| buf.len()), Some(5), "the buffer comes back as it was");
    let held: Vec<_> = std::iter::from_fn(|| node.pool.take()).collect();
    assert!(node.pool.take().is_none(), "the pool is empty");
    assert_eq!(held.len() as u32 + DEPTH + 1, node.pool.slots());
    drop(held);
    node.post_receives(DEPTH.into());
    wait(&mut node.receive_cq, DEPTH as usize);
    wait(&mut node.send_cq, DEPTH as usize);
    drop(error);
    assert_eq!(node.pool.free(), node.pool.slots());
}

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn an_srq_takes_what_it_holds_and_no_more() {
    let mut node = Node::new();
    let capacity = node.srq.capacity();
    node.post_receives(capacity.into());
    let error = node.srq.post(node.pool.take().unwrap(), 0).unwrap_err();
    assert!(matches!(error.reason, PostErrorReason::QueueFull { depth } if depth == capacity), "{error}");
    let other = node.pd.pool(1, 64).unwrap();
    let error = node.srq.post(other.take().unwrap(), 0).unwrap_err();
    assert!(error.buf.is_some());
    drop(error);
    assert_eq!(other.free(), 1);
}

/// The receiver posts nothing at first. With the retry count for ever the message waits; with none the
/// send fails, and its buffer and those behind it come home.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_21_an_empty_srq_makes_senders_wait_or_fail() {
    let mut node = Node::new();
    let mut patient = node.loopback(&ConnectOptions::new().rnr_retry(7));
    patient.initiator.send(node.srq.number(), node.pool.take().unwrap(), 1).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let mut none = Vec::new();
    assert_eq!(node.send_cq.poll(&mut none, 1).unwrap(), 0, "it waits: {none:?}");
    node.post_receives(1);
    received(&mut node.receive_cq);
    sent(&mut node.send_cq);

    let mut hasty = node.loopback(&ConnectOptions::new().rnr_retry(0).min_rnr_timer(1));
    for tag in 0..3 {
        hasty.initiator.send(node.srq.number(), node.pool.take().unwrap(), tag).unwrap();
    }
    let failed = wait(&mut node.send_cq, 3);
    assert_eq!(failed[0].status.unwrap_err().status, rdma_xrc::WcStatus::RnrRetryExceeded);
    for flushed in &failed[1..] {
        assert_eq!(flushed.status.unwrap_err().status, rdma_xrc::WcStatus::WorkRequestFlushed);
    }
    assert!(
        failed.iter().all(|completion| completion.kind == CompletionKind::Send && completion.buf.is_some())
    );
    drop(failed);
    assert_eq!(hasty.initiator.state().unwrap(), QpState::Error);
    assert_eq!(node.pool.free(), node.pool.slots());
}

/// A number that no SRQ has, the number of an SRQ of another domain, and that of one destroyed just now.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_20_a_wrong_srq_number_fails_the_send_and_buffers_come_home() {
    let mut node = Node::new();
    let other_domain = node.context.create_xrc_domain().unwrap();
    let other_srq =
        other_domain.create_srq(&node.pd, &node.receive_cq).max_wr(4).pool(&node.pool).build().unwrap();
    let gone = node.domain.create_srq(&node.pd, &node.receive_cq).max_wr(4).pool(&node.pool).build().unwrap();
    let gone_number = gone.number();
    gone.close().unwrap();
    let nobody = rdma_xrc::SrqNumber::try_from(0xfe_dcba).unwrap();
    for number in [nobody, other_srq.number(), gone_number] {
        let mut pair = node.loopback(&ConnectOptions::new().timeout(8).retry_count(1));
        for tag in 0..4 {
            pair.initiator.send(number, node.pool.take().unwrap(), tag).unwrap();
        }
        let failed = wait(&mut node.send_cq, 4);
        println!("SRQ {number}: {}", failed[0].status.unwrap_err());
        assert!(failed.iter().all(|completion| completion.status.is_err() && completion.buf.is_some()));
        assert_eq!(failed.iter().map(|completion| completion.tag).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(pair.initiator.state().unwrap(), QpState::Error);
    }
    assert_eq!(node.pool.free(), node.pool.slots());
}

/// A message longer than the buffer that receives it.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn a_message_too_long_for_the_buffer_fails_both_ends() {
    let mut node = Node::new();
    let small = node.pd.pool(2, 64).unwrap();
    let mut srq = node.domain.create_srq(&node.pd, &node.receive_cq).max_wr(2).pool(&small).build().unwrap();
    srq.post(small.take().unwrap(), 5).unwrap();
    let mut pair = node.loopback(&ConnectOptions::new());
    pair.initiator.send(srq.number(), node.pool.take().unwrap(), 6).unwrap();
    let sent = wait(&mut node.send_cq, 1).remove(0);
    println!("the sender: {}", sent.status.unwrap_err());
    let received = wait(&mut node.receive_cq, 1).remove(0);
    println!("the receiver: {}", received.status.unwrap_err());
    assert_eq!((received.tag, received.buf.map(|buf| buf.len())), (5, Some(0)));
}

/// The completion of one SRQ's receives names it, with several on one completion queue.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn receives_complete_by_srq_and_over_any_pair() {
    let mut node = Node::new();
    let mut pairs: Vec<_> = (0..3).map(|_| node.loopback(&ConnectOptions::new())).collect();
    let mut srqs: Vec<_> = (0..3)
        .map(|_| {
            node.domain.create_srq(&node.pd, &node.receive_cq).max_wr(8).pool(&node.pool).build().unwrap()
        })
        .collect();
    for (at, srq) in srqs.iter_mut().enumerate() {
        for tag in 0..3 {
            srq.post(node.pool.take().unwrap(), 10 * at as u64 + tag).unwrap();
        }
    }
    // Pair i sends to SRQs i+1 and i+2, never to its own.
    for (at, pair) in pairs.iter_mut().enumerate() {
        for step in 1..3 {
            let to = (at + step) % 3;
            pair.initiator.send_inline(srqs[to].number(), &[at as u8, to as u8], 0).unwrap();
        }
    }
    wait(&mut node.send_cq, 6);
    for message in wait(&mut node.receive_cq, 6).into_iter().map(message) {
        let (from, to) = (message.bytes[0] as usize, message.bytes[1] as usize);
        assert_eq!(message.srq, srqs[to].number());
        assert_eq!(message.target, pairs[from].target.qp_number());
        assert_eq!(message.tag / 10, to as u64);
    }
}

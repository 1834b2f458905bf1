//! The SRQ's bookkeeping.

use super::{DEPTH, Rig, SLOT, tags};
use crate::{CompletionKind, ErrorKind, PostErrorReason, WcStatus, verbs::fake};

const LOCAL_LENGTH: u32 = 1;

#[test]
fn a_message_comes_with_its_length_immediate_tag_and_srq() {
    let mut rig = Rig::new();
    for tag in 0..3 {
        rig.srq.post(rig.pool.take().unwrap(), 100 + tag).unwrap();
    }
    assert_eq!(rig.srq.posted(), 3);
    assert!(rig.world.deliver(rig.srq_number(), b"one", None));
    assert!(rig.world.deliver(rig.srq_number(), b"", Some(0x0102_0304)));
    let completions = rig.poll();
    assert_eq!(tags(&completions), [100, 101]);
    let srq = rig.srq.number();
    assert_eq!(completions[0].kind, CompletionKind::Receive { srq, byte_len: 3, imm: None });
    assert_eq!(completions[0].buf.as_deref(), Some(&b"one"[..]));
    assert_eq!(completions[1].kind, CompletionKind::Receive { srq, byte_len: 0, imm: Some(0x0102_0304) });
    assert_eq!(completions[1].qp_number.get(), 0x77, "the target it came through");
    assert_eq!(rig.srq.posted(), 1);
}

/// Whatever length was set, the whole slot is posted.
#[test]
fn a_receive_takes_the_whole_slot() {
    let mut rig = Rig::new();
    rig.srq.post(rig.buf(b"x"), 0).unwrap();
    rig.world.deliver(rig.srq_number(), &[5; SLOT], None);
    assert_eq!(rig.poll()[0].buf.as_deref(), Some(&[5; SLOT][..]));
}

#[test]
fn a_length_beyond_the_slot_is_reported_and_cut() {
    let mut rig = Rig::new();
    rig.srq.post(rig.pool.take().unwrap(), 0).unwrap();
    rig.world.deliver(rig.srq_number(), &[5; SLOT + 1], None);
    let completion = rig.poll().remove(0);
    assert!(
        matches!(completion.kind, CompletionKind::Receive { byte_len, .. } if byte_len as usize == SLOT + 1)
    );
    assert_eq!(completion.buf.unwrap().len(), SLOT);
}

#[test]
fn a_failed_receive_brings_an_empty_buffer() {
    let mut rig = Rig::new();
    rig.srq.post(rig.pool.take().unwrap(), 7).unwrap();
    rig.world.fail_receive(rig.srq_number(), LOCAL_LENGTH);
    let completion = rig.poll().remove(0);
    assert_eq!(completion.status.unwrap_err().status, WcStatus::LocalLength);
    let srq = rig.srq.number();
    assert_eq!(completion.kind, CompletionKind::Receive { srq, byte_len: 0, imm: None });
    assert_eq!((completion.tag, completion.buf.unwrap().len()), (7, 0));
}

/// A peer's RDMA write with immediate consumes a receive; its length is that of the write, elsewhere.
#[test]
fn a_write_with_immediate_says_nothing_about_the_buffer() {
    const RECV_RDMA_WITH_IMM: u32 = 129;
    let mut rig = Rig::new();
    let buf = rig.pool.take().unwrap();
    rig.srq.post(buf, 1).unwrap();
    let mut wc = fake::good(rig.srq.verbs().slots().id().wr_id(0), 0x77, RECV_RDMA_WITH_IMM);
    wc.byte_len = 1 << 30;
    rig.world.push(rig.srq_number(), wc);
    assert_eq!(rig.poll()[0].buf.as_ref().map(|buf| buf.len()), Some(0));
}

#[test]
fn receives_complete_in_any_order() {
    let mut rig = Rig::new();
    for tag in 0..4u64 {
        rig.srq.post(rig.pool.take().unwrap(), tag).unwrap();
    }
    let id = rig.srq.verbs().slots().id();
    for slot in [2, 0, 3, 1] {
        rig.world.push(rig.srq_number(), fake::good(id.wr_id(slot), 1, 128));
    }
    assert_eq!(tags(&rig.poll()), [2, 0, 3, 1]);
    assert_eq!(rig.srq.posted(), 0);
}

/// A provider that cannot place one completion returns an error for the whole call. Those before it are
/// taken from the device and come home all the same, and those after it with the next poll.
#[test]
fn an_unplaceable_completion_loses_no_other() {
    let mut rig = Rig::new();
    rig.world.like_mlx5();
    for tag in 0..5 {
        rig.srq.post(rig.pool.take().unwrap(), tag).unwrap();
    }
    let mut out = Vec::new();
    rig.world.deliver(rig.srq_number(), b"earlier", None);
    assert_eq!(rig.cq.poll(&mut out, 100).unwrap(), 1);
    for bytes in [b"a", b"b"] {
        rig.world.deliver(rig.srq_number(), bytes, None);
    }
    rig.world.push_unplaceable(rig.srq_number());
    rig.world.deliver(rig.srq_number(), b"c", None);
    let error = rig.cq.poll(&mut out, 100).unwrap_err();
    assert!(error.to_string().contains("returned -2"), "{error}");
    assert_eq!((tags(&out), rig.srq.posted()), (vec![0, 1, 2], 2));
    rig.cq.poll(&mut out, 100).unwrap();
    assert_eq!(tags(&out), [0, 1, 2, 3]);
    assert_eq!(out[3].buf.as_deref(), Some(&b"c"[..]));
    assert_eq!(rig.cq.stale_completions(), 0, "what was not written is nobody's and not counted twice");
}

#[test]
fn a_slot_that_is_not_posted_cannot_complete() {
    let mut rig = Rig::new();
    let mine = rig.pool.take().unwrap();
    let id = rig.srq.verbs().slots().id();
    for slot in [0, 1, 15, 16, u32::MAX] {
        rig.world.push(rig.srq_number(), fake::good(id.wr_id(slot), 1, 128));
    }
    assert!(rig.poll().is_empty());
    assert_eq!(rig.cq.stale_completions(), 5);
    drop(mine);
    assert_eq!((rig.pool.free(), rig.srq.posted()), (rig.pool.slots(), 0));
}

#[test]
fn a_full_srq_or_a_refused_post_returns_the_buffer() {
    let mut rig = Rig::new();
    rig.world.script("ibv_post_srq_recv", [libc::ENOMEM]);
    let error = rig.srq.post(rig.buf(b"abc"), 0).unwrap_err();
    assert!(
        matches!(&error.reason, PostErrorReason::Os(source) if source.raw_os_error() == Some(libc::ENOMEM))
    );
    assert_eq!(error.buf.as_deref(), Some(&b"abc"[..]));
    assert_eq!(rig.srq.posted(), 0);
    for tag in 0..DEPTH {
        rig.srq.post(rig.pool.take().unwrap(), tag.into()).unwrap();
    }
    let error = rig.srq.post(rig.buf(b"late"), 0).unwrap_err();
    assert!(matches!(error.reason, PostErrorReason::QueueFull { depth: DEPTH }), "{error}");
    assert_eq!(error.buf.as_deref(), Some(&b"late"[..]));
    let other = rig.pd.pool(1, 8).unwrap();
    rig.world.deliver(rig.srq_number(), b"", None);
    rig.poll();
    assert!(rig.srq.post(other.take().unwrap(), 0).is_err(), "its pool is not attached");
}

#[test]
fn case_16_queues_deeper_than_their_cq_are_refused_with_both_numbers() {
    let rig = Rig::new();
    // 127 granted; 8 and 8 are taken.
    assert_eq!(rig.cq.capacity(), fake::granted(64));
    let text = |error: crate::Error| {
        assert_eq!(error.kind(), ErrorKind::CapacityExceeded);
        error.to_string()
    };
    let error = text(rig.domain.create_srq(&rig.pd, &rig.cq).max_wr(112).build().unwrap_err());
    assert!(error.contains("127") && error.contains("128"), "{error}");
    let error = text(rig.pd.create_initiator(&rig.cq).max_send_wr(u32::MAX).build().unwrap_err());
    assert!(error.contains(&(u64::from(u32::MAX) + 16).to_string()), "{error}");
    let fits = rig.domain.create_srq(&rig.pd, &rig.cq).max_wr(111).build().unwrap();
    assert!(rig.pd.create_initiator(&rig.cq).max_send_wr(1).build().is_err());
    drop(fits);
    rig.world.script("ibv_create_srq_ex", [libc::ENOMEM]);
    assert!(rig.domain.create_srq(&rig.pd, &rig.cq).max_wr(111).build().is_err());
    rig.domain
        .create_srq(&rig.pd, &rig.cq)
        .max_wr(111)
        .build()
        .expect("a failed creation gives its share back");
}

#[test]
fn an_srq_without_a_number_is_not_left_behind() {
    let rig = Rig::new();
    let alive = rig.world.alive();
    rig.world.script("ibv_get_srq_num", [libc::EOPNOTSUPP]);
    let error = rig.domain.create_srq(&rig.pd, &rig.cq).max_wr(1).build().unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Unsupported, "ibv_get_srq_num"));
    assert_eq!(rig.world.alive(), alive);
}

//! The send queue's bookkeeping.

use super::{DEPTH, Rig, SLOT, tags};
use crate::{
    Completion, CompletionKind, ErrorKind, PostErrorReason, SendOptions, SrqNumber, WcStatus,
    verbs::fake::{self, INLINE, LONGEST},
};

const SIGNALLED: u32 = 2;
const INLINED: u32 = 8;
const RNR_RETRY_EXCEEDED: u32 = 13;

fn srq(number: u32) -> SrqNumber {
    SrqNumber::try_from(number).unwrap()
}

fn quiet() -> SendOptions {
    SendOptions::new().signalled(false)
}

#[test]
fn a_send_names_its_srq_and_brings_buffer_and_tag_back() {
    let mut rig = Rig::connected();
    let free = rig.pool.free();
    rig.initiator.send_with_imm(srq(0xabcdef), rig.buf(b"hello"), 0x0102_0304, u64::MAX).unwrap();
    assert_eq!(rig.pool.free(), free - 1);
    let sent = rig.world.sends(rig.qp()).remove(0);
    assert_eq!((sent.srq, sent.imm, sent.bytes()), (0xabcdef, Some(0x0102_0304), b"hello".to_vec()));
    assert_eq!(sent.flags & SIGNALLED, SIGNALLED);
    assert!(rig.poll().is_empty(), "nothing has arrived, and that is no error");
    rig.world.complete(rig.qp(), 1);
    let Completion { kind, tag, buf, status, qp_number, .. } = rig.poll().remove(0);
    assert_eq!((kind, tag, status), (CompletionKind::Send, u64::MAX, Ok(())));
    assert_eq!(qp_number, rig.initiator.qp_number());
    assert_eq!(&*buf.unwrap(), b"hello");
    assert_eq!(rig.pool.free(), free);
}

#[test]
fn a_zero_length_send_has_no_scatter_entry() {
    let mut rig = Rig::connected();
    rig.initiator.send(srq(1), rig.buf(b""), 1).unwrap();
    rig.initiator.send_inline(srq(1), b"", 2).unwrap();
    for sent in rig.world.sends(rig.qp()) {
        assert!(sent.bytes().is_empty());
        assert_eq!(sent.flags & INLINED, 0);
    }
    rig.world.complete(rig.qp(), 2);
    assert_eq!(tags(&rig.poll()), [1, 2]);
}

/// Several times round the ring: unsignalled work never fills it, because half a queue of it at most
/// goes without a signal, and all of it comes home in order.
#[test]
fn unsignalled_sends_come_home_with_the_next_signalled_one() {
    let mut rig = Rig::connected();
    let mut home = Vec::new();
    for tag in 0..u64::from(DEPTH) * 5 {
        if rig.initiator.in_flight() == DEPTH {
            rig.world.complete(rig.qp(), DEPTH as usize);
            home.extend(tags(&rig.poll()));
            assert_eq!(rig.initiator.in_flight(), 0);
        }
        rig.initiator.send_with(srq(1), rig.buf(&tag.to_ne_bytes()), tag, quiet()).unwrap();
        let unsignalled =
            rig.world.sends(rig.qp()).iter().rev().take_while(|sent| sent.flags & SIGNALLED == 0).count();
        assert!(unsignalled < DEPTH as usize / 2, "{unsignalled} in a row");
    }
    rig.world.complete(rig.qp(), DEPTH as usize);
    for completion in rig.poll() {
        assert_eq!(completion.buf.as_deref(), Some(&completion.tag.to_ne_bytes()[..]));
        home.push(completion.tag);
    }
    assert_eq!(home, (0..u64::from(DEPTH) * 5).collect::<Vec<_>>());
    assert_eq!(rig.pool.free(), rig.pool.slots());
}

#[test]
fn a_signal_restarts_the_count_towards_a_forced_one() {
    let mut rig = Rig::connected();
    // A forced signal is due at the fourth of eight; a signalled one in between puts it off.
    for signalled in [false, false, true, false, false, false, false] {
        rig.initiator.send_with(srq(1), rig.buf(b"x"), 0, quiet().signalled(signalled)).unwrap();
    }
    let flags: Vec<bool> = rig.world.sends(rig.qp()).iter().map(|sent| sent.flags & SIGNALLED != 0).collect();
    assert_eq!(flags, [false, false, true, false, false, false, true]);
    let mut shallow = rig.pd.create_initiator(&rig.cq).max_send_wr(1).pool(&rig.pool).build().unwrap();
    let endpoint = rig.endpoint();
    shallow.connect(&rig.port, &endpoint, &Default::default()).unwrap();
    shallow.send_with(srq(1), rig.buf(b"x"), 0, quiet()).unwrap();
    assert_ne!(rig.world.sends(shallow.qp_number().get())[0].flags & SIGNALLED, 0, "a queue of one");
}

#[test]
fn a_full_queue_refuses_and_returns_the_buffer_as_it_was() {
    let mut rig = Rig::connected();
    for tag in 0..DEPTH {
        rig.initiator.send(srq(1), rig.buf(b"x"), tag.into()).unwrap();
    }
    let error = rig.initiator.send(srq(1), rig.buf(b"late"), 9).unwrap_err();
    assert!(matches!(error.reason, PostErrorReason::QueueFull { depth: DEPTH }), "{error}");
    assert_eq!(error.buf.as_deref(), Some(&b"late"[..]));
    assert_eq!(crate::Error::from(error).kind(), ErrorKind::CapacityExceeded);
    rig.world.complete(rig.qp(), 1);
    assert_eq!(rig.poll().len(), 1);
    rig.initiator.send(srq(1), rig.buf(b"now"), 9).unwrap();
}

#[test]
fn a_message_longer_than_the_ports_longest_is_refused() {
    let mut rig = Rig::connected();
    let pool = rig.pd.pool(1, LONGEST as usize + 1).unwrap();
    let mut initiator = rig.pd.create_initiator(&rig.cq).max_send_wr(2).pool(&pool).build().unwrap();
    initiator.connect(&rig.port, &rig.endpoint(), &Default::default()).unwrap();
    let error = initiator.send(srq(1), pool.take().unwrap(), 0).unwrap_err();
    assert!(
        matches!(error.reason, PostErrorReason::MessageTooLong { len, max: LONGEST } if len == LONGEST as usize + 1),
        "{error}"
    );
    let mut buf = error.buf.expect("the buffer comes back");
    buf.set_len(LONGEST as usize);
    initiator.send(srq(1), buf, 0).unwrap();
    rig.world.complete(initiator.qp_number().get(), 1);
    assert_eq!(rig.poll().len(), 1);
}

#[test]
fn case_05_inline_is_held_to_what_the_device_granted() {
    let mut rig = Rig::connected();
    assert_eq!(rig.initiator.max_inline(), INLINE, "more than the 8 asked for");
    let bytes = [7; INLINE as usize + 1];
    let error = rig.initiator.send_inline(srq(1), &bytes, 0).unwrap_err();
    assert!(matches!(error.reason, PostErrorReason::InlineTooLong { len: 65, max: INLINE }), "{error}");
    assert!(rig.world.sends(rig.qp()).is_empty());
    let mut temporary = bytes[..INLINE as usize].to_vec();
    rig.initiator.send_inline(srq(1), &temporary, 3).unwrap();
    temporary.fill(0);
    assert_eq!(rig.world.sends(rig.qp())[0].bytes(), [7; INLINE as usize]);
    rig.world.complete(rig.qp(), 1);
    let completion = rig.poll().remove(0);
    assert!(completion.buf.is_none() && completion.tag == 3);
    let beyond = rig.pd.create_initiator(&rig.cq).max_send_wr(1).max_inline(INLINE + 1).build().unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::InvalidInput);
}

#[test]
fn an_inline_send_retires_those_before_it() {
    let mut rig = Rig::connected();
    rig.initiator.send_with(srq(1), rig.buf(b"a"), 1, quiet()).unwrap();
    rig.initiator.send_inline_with(srq(1), b"b", 2, quiet()).unwrap();
    rig.initiator.send_inline(srq(1), b"c", 3).unwrap();
    rig.world.complete(rig.qp(), 3);
    let completions = rig.poll();
    assert_eq!(tags(&completions), [1, 2, 3]);
    let bufs: Vec<bool> = completions.iter().map(|completion| completion.buf.is_some()).collect();
    assert_eq!(bufs, [true, false, false]);
}

/// Only the id, the status, the number and the vendor's code of a failed completion mean anything; the
/// fake fills the rest with nonsense.
#[test]
fn a_failed_send_flushes_the_rest_and_every_buffer_comes_home() {
    let mut rig = Rig::connected();
    for tag in 0..3 {
        rig.initiator.send_with(srq(1), rig.buf(&[tag; 9]), tag.into(), quiet()).unwrap();
    }
    rig.world.fail(rig.qp(), RNR_RETRY_EXCEEDED);
    let completions = rig.poll();
    assert_eq!(tags(&completions), [0, 1, 2]);
    let statuses: Vec<WcStatus> =
        completions.iter().map(|completion| completion.status.unwrap_err().status).collect();
    use WcStatus::{RnrRetryExceeded, WorkRequestFlushed};
    assert_eq!(statuses, [RnrRetryExceeded, WorkRequestFlushed, WorkRequestFlushed]);
    for (completion, byte) in completions.iter().zip(0..) {
        assert_eq!(completion.kind, CompletionKind::Send);
        assert_eq!(completion.buf.as_deref(), Some(&[byte; 9][..]));
        assert_eq!(completion.status.unwrap_err().vendor_err, 0x99);
    }
}

#[test]
fn a_post_that_the_provider_refuses_leaves_no_trace() {
    let mut rig = Rig::connected();
    rig.initiator.send(srq(1), rig.buf(b"first"), 1).unwrap();
    rig.world.script("ibv_post_send", [libc::ENOMEM, libc::EINVAL]);
    let error = rig.initiator.send(srq(1), rig.buf(b"second"), 2).unwrap_err();
    assert_eq!(error.buf.as_deref(), Some(&b"second"[..]));
    assert_eq!(crate::Error::from(error).kind(), ErrorKind::OutOfMemory);
    assert!(rig.initiator.send_inline(srq(1), b"x", 3).is_err_and(|error| error.buf.is_none()));
    assert_eq!(rig.initiator.in_flight(), 1);
    rig.initiator.send(srq(1), rig.buf(b"third"), 4).unwrap();
    rig.world.complete(rig.qp(), 2);
    assert_eq!(tags(&rig.poll()), [1, 4]);
    assert_eq!(rig.pool.free(), rig.pool.slots());
}

#[test]
fn what_was_not_connected_or_attached_is_not_posted() {
    let mut rig = Rig::new();
    let error = rig.initiator.send(srq(1), rig.buf(b"x"), 0).unwrap_err();
    assert!(matches!(error.reason, PostErrorReason::NotConnected), "{error}");
    assert!(rig.initiator.send_inline(srq(1), b"x", 0).is_err());
    let mut rig = Rig::connected();
    let other = rig.pd.pool(1, 8).unwrap();
    let error = rig.initiator.send(srq(1), other.take().unwrap(), 0).unwrap_err();
    assert!(matches!(error.reason, PostErrorReason::PoolNotAttached), "{error}");
    let elsewhere = Rig::on("fake1");
    assert!(rig.initiator.send(srq(1), elsewhere.buf(b"x"), 0).is_err());
    assert!(rig.world.sends(rig.qp()).is_empty());
    drop(error);
    assert_eq!(other.free(), 1, "the refused buffer went back to its own pool");
}

#[test]
fn a_queue_sends_from_each_of_its_pools() {
    let mut rig = Rig::new();
    let (small, large) = (rig.pd.pool(2, 8).unwrap(), rig.pd.pool(2, 100_000).unwrap());
    let mut initiator =
        rig.pd.create_initiator(&rig.cq).max_send_wr(4).pool(&small).pool(&large).build().unwrap();
    initiator.connect(&rig.port, &rig.endpoint(), &Default::default()).unwrap();
    for (tag, pool) in [&small, &large, &small, &large].into_iter().enumerate() {
        let mut buf = pool.take().unwrap();
        buf.fill(tag as u8);
        initiator.send(srq(1), buf, tag as u64).unwrap();
    }
    rig.world.complete(initiator.qp_number().get(), 4);
    for (tag, completion) in rig.poll().into_iter().enumerate() {
        let buf = completion.buf.unwrap();
        assert_eq!(buf.len(), if tag % 2 == 0 { 8 } else { 100_000 });
        assert!(buf.iter().all(|&byte| byte == tag as u8));
    }
    assert_eq!((small.free(), large.free()), (2, 2));
}

/// Completions that no correct device makes: of nobody's queue, of work that was never posted, twice.
#[test]
fn nonsense_completions_are_dropped_and_counted() {
    let mut rig = Rig::connected();
    rig.initiator.send(srq(1), rig.buf(b"x"), 1).unwrap();
    let real = rig.world.sends(rig.qp())[0].wr_id;
    for wr_id in [0, 1, u64::MAX, 1 << 63, real + 1, real + 1000, real ^ 1 << 40, real & !(1 << 63)] {
        rig.world.push(rig.qp(), fake::good(wr_id, 1, 0));
        rig.world.push(rig.qp(), fake::bad(wr_id, 1, 5));
    }
    assert!(rig.poll().is_empty());
    assert_eq!(rig.cq.stale_completions(), 16);
    rig.world.complete(rig.qp(), 1);
    rig.world.push(rig.qp(), fake::good(real, 1, 0));
    assert_eq!(tags(&rig.poll()), [1]);
    assert_eq!(rig.cq.stale_completions(), 17);
    assert_eq!(rig.pool.free(), rig.pool.slots());
}

#[test]
fn poll_takes_as_many_from_the_device_as_it_is_told() {
    let mut rig = Rig::connected();
    for tag in 0..6 {
        rig.initiator.send_with(srq(1), rig.buf(b"x"), tag, quiet().signalled(tag != 0)).unwrap();
    }
    rig.world.complete(rig.qp(), 6);
    let mut out = Vec::new();
    assert_eq!(rig.cq.poll(&mut out, 0).unwrap(), 0);
    assert_eq!(rig.cq.poll(&mut out, 1).unwrap(), 2, "the unsignalled one comes along");
    assert_eq!(rig.cq.poll(&mut out, 2).unwrap(), 2);
    assert_eq!(rig.cq.poll(&mut out, 100).unwrap(), 2);
    assert_eq!(tags(&out), [0, 1, 2, 3, 4, 5]);
    rig.world.script("ibv_poll_cq", [libc::EIO]);
    let error = rig.cq.poll(&mut out, 1).unwrap_err();
    assert_eq!(error.errno(), None, "a provider's number here is no errno value");
    assert!(error.to_string().contains("the provider returned -5"), "{error}");
}

#[test]
fn a_buffer_is_its_length_and_no_more() {
    let rig = Rig::new();
    let mut buf = rig.pool.take().unwrap();
    assert_eq!((buf.len(), buf.capacity()), (SLOT, SLOT));
    assert!(buf.iter().all(|&byte| byte == 0), "fresh memory is zero");
    buf.set_len(3);
    assert_eq!(buf.len(), 3);
    let too_long = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| buf.set_len(SLOT + 1)));
    assert!(too_long.is_err());
}

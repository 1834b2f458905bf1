//! The program's `tracing` subscriber runs inside of the crate's calls. Whatever it does there, panic or
//! drop objects of this crate, finds everything settled and no lock held.

use super::Rig;
use crate::{Completion, XrcSrq};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};
use tracing::{
    Event, Metadata, Subscriber,
    span::{Attributes, Id, Record},
    subscriber::with_default,
};

/// A subscriber that does nothing but call this for each event.
struct OnEvent<F>(F);

impl<F: Fn() + Send + Sync + 'static> Subscriber for OnEvent<F> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        (self.0)();
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Runs `work` under a subscriber that panics at the first event. Whether it came to that.
fn panics_at_an_event(work: impl FnOnce()) -> bool {
    let events = AtomicU32::new(0);
    let subscriber = OnEvent(move || assert!(events.fetch_add(1, Relaxed) > 0, "the subscriber's"));
    with_default(subscriber, || catch_unwind(AssertUnwindSafe(work))).is_err()
}

/// With an SRQ that leaves a completion and a posted receive, which its end reports.
fn with_leftovers() -> Rig {
    let mut rig = Rig::connected();
    rig.world.like_mlx5();
    for tag in 0..2 {
        rig.srq.post(rig.pool.take().unwrap(), tag).unwrap();
    }
    rig.world.deliver(rig.srq_number(), b"x", None);
    rig
}

#[test]
fn a_panic_at_the_end_of_an_srq_finds_it_destroyed_once_and_its_buffers_home() {
    let close = |srq: XrcSrq| drop(srq.close());
    for end in [close, drop] {
        let Rig { world, srq, pool, cq, .. } = with_leftovers();
        assert!(panics_at_an_event(|| end(srq)), "leftovers are reported");
        assert_eq!(world.destroyed().iter().filter(|&&verb| verb == "ibv_destroy_srq").count(), 1);
        assert_eq!((pool.free(), cq.stale_completions()), (pool.slots(), 1));
    }
}

#[test]
fn a_subscriber_may_drop_queues_of_the_same_device() {
    let Rig { srq, initiator, .. } = with_leftovers();
    let (done, finished) = mpsc::channel();
    // On a thread of its own, so that a lock that is still held fails the test rather than hang it.
    let worker = thread::spawn(move || {
        let initiator = Mutex::new(Some(initiator));
        let dropped = OnEvent(move || drop(initiator.lock().unwrap().take()));
        with_default(dropped, || drop(srq));
        done.send(()).unwrap();
    });
    finished.recv_timeout(Duration::from_secs(20)).expect("no lock is held during an event");
    worker.join().unwrap();
}

#[test]
fn a_panic_at_a_poll_loses_no_completion() {
    let mut rig = Rig::connected();
    rig.srq.post(rig.pool.take().unwrap(), 7).unwrap();
    rig.world.push(rig.srq_number(), crate::verbs::fake::good(0, 1, 128));
    rig.world.deliver(rig.srq_number(), b"x", None);
    let mut out: Vec<Completion> = Vec::new();
    assert!(panics_at_an_event(|| drop(rig.cq.poll(&mut out, 8))), "the nameless one is reported");
    assert_eq!(super::tags(&out), [7]);
    assert_eq!(rig.cq.poll(&mut out, 8).unwrap(), 0, "and the queue goes on");
}

/// What a device may still write stays, though the warning of it never returns.
#[test]
fn a_panic_at_the_warning_of_a_leak_frees_nothing() {
    let mut rig = Rig::connected();
    rig.srq.post(rig.pool.take().unwrap(), 1).unwrap();
    rig.world.script("ibv_destroy_srq", [libc::EIO]);
    let Rig { world, srq, pool, cq, initiator, target, pd, domain, context, port } = rig;
    drop((initiator, target));
    drop((pool, cq, pd, domain, context, port));
    assert!(panics_at_an_event(|| drop(srq)), "a leak is reported");
    assert_eq!(world.destroyed(), ["ibv_destroy_qp"; 2]);
}

/// The same where a queue is given up while it is being made.
#[test]
fn a_failed_creation_reports_with_no_lock_held() {
    let rig = Rig::connected();
    rig.world.script("ibv_get_srq_num", [libc::EOPNOTSUPP]);
    rig.world.script("ibv_destroy_srq", [libc::EIO]);
    let Rig { domain, pd, cq, initiator, .. } = rig;
    let (done, finished) = mpsc::channel();
    let worker = thread::spawn(move || {
        let initiator = Mutex::new(Some(initiator));
        let dropped = OnEvent(move || drop(initiator.lock().unwrap().take()));
        let failed = with_default(dropped, || domain.create_srq(&pd, &cq).max_wr(1).build().is_err());
        done.send(failed).unwrap();
    });
    assert!(finished.recv_timeout(Duration::from_secs(20)).expect("no lock is held during an event"));
    worker.join().unwrap();
}

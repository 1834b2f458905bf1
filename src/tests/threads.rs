//! What may go to another thread, and what happens when it does.

use super::{DEPTH, Rig};
use crate::{
    Buf, Completion, CompletionQueue, Context, Device, Endpoint, Error, ErrorKind, Initiator, LocalPort,
    OpenedTarget, Pool, PostError, ProtectionDomain, QpState, Target, XrcDomain, XrcSrq,
};
use std::{
    sync::{Barrier, Mutex},
    thread,
};

/// How often two threads race.
const ROUNDS: u32 = 3_000;

#[test]
fn everything_is_send_and_what_is_shared_is_sync() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<Buf>();
    send::<Completion>();
    send::<CompletionQueue>();
    send::<Initiator>();
    send::<XrcSrq>();
    send::<Target>();
    send::<PostError>();
    macro_rules! both {
        ($($name:ty),*) => { $(send::<$name>(); sync::<$name>();)* };
    }
    both!(Device, Context, ProtectionDomain, XrcDomain, OpenedTarget, Pool, LocalPort, Endpoint, Error);
}

/// `ibv_query_qp` writes into the queue pair that it asks about.
#[test]
fn two_threads_may_ask_for_a_state_at_once() {
    let rig = Rig::connected();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    assert_eq!(rig.initiator.state().unwrap(), QpState::ReadyToSend);
                    assert_eq!(rig.target.state().unwrap(), QpState::ReadyToSend);
                }
            });
        }
    });
}

/// One thread sends, one polls, one is the device. Every buffer comes back once.
#[test]
fn posting_and_polling_in_two_threads_lose_nothing() {
    const COUNT: u64 = 20_000;
    let rig = Rig::connected();
    let (qp, srq) = (rig.qp(), rig.srq.number());
    let Rig { world, pool, mut cq, mut initiator, .. } = rig;
    let seen = Mutex::new(vec![0u8; COUNT as usize]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut tag = 0;
            while tag < COUNT {
                if initiator.in_flight() == DEPTH {
                    thread::yield_now();
                    continue;
                }
                let mut buf = pool.take().expect("more slots than the queue is deep");
                buf[..8].copy_from_slice(&tag.to_ne_bytes());
                initiator.send(srq, buf, tag).expect("the queue has room");
                tag += 1;
            }
        });
        scope.spawn(|| {
            let mut done = 0;
            while done < COUNT {
                let posted = world.sends(qp).len();
                world.complete(qp, posted);
                done += posted as u64;
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            let (mut out, mut done) = (Vec::new(), 0);
            while done < COUNT {
                cq.poll(&mut out, 16).unwrap();
                for completion in out.drain(..) {
                    let buf = completion.buf.expect("each brings its buffer");
                    assert_eq!(buf[..8], completion.tag.to_ne_bytes());
                    seen.lock().unwrap()[completion.tag as usize] += 1;
                    done += 1;
                }
            }
        });
    });
    assert!(seen.lock().unwrap().iter().all(|&times| times == 1));
    assert_eq!(pool.free(), pool.slots());
}

/// Queues are destroyed with work in flight while another thread polls what the device completed late.
#[test]
fn destroying_and_polling_at_once_gives_each_buffer_back_once() {
    for round in 0..300 {
        let mut rig = Rig::connected();
        for tag in 0..u64::from(DEPTH) {
            rig.initiator.send(rig.srq.number(), rig.buf(b"x"), tag).unwrap();
        }
        rig.world.complete(rig.qp(), round % (DEPTH as usize + 1));
        let Rig { pool, mut cq, initiator, .. } = rig;
        let mut out = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| drop(initiator));
            scope.spawn(|| cq.poll(&mut out, 100).unwrap());
        });
        let back = out.iter().filter(|completion| completion.buf.is_some()).count() as u32;
        assert_eq!(pool.free() + back, pool.slots(), "round {round}");
        drop(out);
        assert_eq!(pool.free(), pool.slots());
    }
}

/// The same for an SRQ of a provider that leaves completions: they are never taken for those of the
/// queues that are created meanwhile.
#[test]
fn srqs_come_and_go_while_another_thread_polls() {
    let rig = Rig::connected();
    rig.world.like_mlx5();
    let Rig { world, pool, pd, domain, mut cq, srq, initiator, .. } = rig;
    let polled = &Mutex::new(Vec::new());
    let done = std::sync::atomic::AtomicBool::new(false);
    // Builders need the completion queue itself, so they are made before it goes to its thread.
    let builders: Vec<_> = (0..400).map(|_| domain.create_srq(&pd, &cq).max_wr(4).pool(&pool)).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            for (round, builder) in builders.into_iter().enumerate() {
                let mut srq = builder.build().unwrap();
                for tag in 0..2 {
                    srq.post(pool.take().unwrap(), tag).unwrap();
                }
                for _ in 0..round % 3 {
                    world.deliver(srq.number().get(), b"late", None);
                }
            }
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        scope.spawn(|| {
            let mut out = Vec::new();
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                cq.poll(&mut out, 8).expect("no leftover reaches a poll");
                polled.lock().unwrap().extend(out.drain(..).map(|completion| completion.buf.is_some()));
            }
        });
    });
    assert!(polled.lock().unwrap().iter().all(|&with_buf| with_buf));
    assert_eq!(world.misplaced(), 0);
    drop((srq, initiator));
    assert_eq!(pool.free(), pool.slots());
}

/// Targets come and go while another thread polls the SRQ that they deliver to. The fake sees a poll that
/// overlaps the end of a queue pair.
#[test]
fn targets_end_while_nobody_polls() {
    let mut rig = Rig::connected();
    rig.world.looks_at_qps();
    let (srq, own) = (rig.srq_number(), rig.target.qp_number().get());
    for tag in 0..u64::from(DEPTH) {
        rig.srq.post(rig.pool.take().unwrap(), tag).unwrap();
    }
    let Rig { world, pool, domain, mut cq, .. } = rig;
    let done = std::sync::atomic::AtomicBool::new(false);
    let mut out = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..400 {
                let target = domain.create_target().unwrap();
                if round < DEPTH - 1 {
                    world.deliver_through(target.qp_number().get(), srq, b"x", None);
                }
            }
            world.deliver_through(own, srq, b"last", None);
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                cq.poll(&mut out, 8).expect("each receive has its target when it is looked at");
            }
            cq.poll(&mut out, 8).unwrap();
        });
    });
    assert_eq!((out.len(), cq.stale_completions()), (DEPTH as usize, 0));
    drop(out);
    assert_eq!(pool.free(), pool.slots());
}

/// Sets a flag when it goes, so that nobody waits for a thread that has panicked.
struct SetAtEnd<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Release);
    }
}

/// The same for handles that opened a target.
#[test]
fn opened_handles_end_while_nobody_polls() {
    let mut rig = Rig::connected();
    rig.world.looks_at_qps();
    let (srq, number) = (rig.srq_number(), rig.target.qp_number());
    for tag in 0..u64::from(DEPTH) {
        rig.srq.post(rig.pool.take().unwrap(), tag).unwrap();
    }
    let Rig { world, pool, domain, mut cq, .. } = rig;
    let done = std::sync::atomic::AtomicBool::new(false);
    let mut out = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            // Whether it gets to its end or panics.
            let _done = SetAtEnd(&done);
            for round in 0..20_000 {
                let opened = domain.open_target(number).unwrap();
                if round < DEPTH {
                    world.deliver_through(number.get(), srq, b"x", None);
                }
                drop(opened);
            }
        });
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                cq.poll(&mut out, 8).expect("each receive has its target when it is looked at");
            }
            cq.poll(&mut out, 8).unwrap();
        });
    });
    assert_eq!((out.len(), cq.stale_completions()), (DEPTH as usize, 0));
    drop(out);
    assert_eq!(pool.free(), pool.slots());
}

/// Whoever ends while nobody else holds a target finds that it is alone: the fake sees a target that its creator
/// ends alone and has not stopped.
#[test]
fn the_creator_is_alone_once_the_other_handle_has_ended() {
    for _ in 0..ROUNDS {
        let Rig { world, domain, target, .. } = Rig::connected();
        world.looks_at_qps();
        let opened = domain.open_target(target.qp_number()).unwrap();
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            for end in [Box::new(|| drop(opened)) as Box<dyn FnOnce() + Send>, Box::new(|| drop(target))] {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    end();
                });
            }
        });
    }
}

/// A target that is opened while its creator lets go of it is either gone or running.
#[test]
fn a_target_that_is_opened_in_time_is_not_stopped() {
    for _ in 0..ROUNDS {
        let Rig { domain, target, .. } = Rig::connected();
        let (number, barrier) = (target.qp_number(), Barrier::new(2));
        let opened = thread::scope(|scope| {
            let opening = scope.spawn(|| {
                barrier.wait();
                domain.open_target(number)
            });
            barrier.wait();
            drop(target);
            opening.join().unwrap()
        });
        match opened {
            Ok(opened) => assert_eq!(opened.state().unwrap(), QpState::ReadyToSend),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
        }
        assert!(domain.open_target(number).is_err(), "it ended with its last holder");
    }
}

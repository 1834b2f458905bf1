//! A forked child's drops do nothing, and what else it would do to its parent's objects is refused.
//!
//! # Safety
//! The child uses and drops values and leaves by `_exit`, without returning into the test harness. An
//! alarm ends one that hangs.

use crate::{ConnectOptions, ErrorKind, PostErrorReason, tests::Rig};
use std::sync::Arc;

/// Runs in a forked child; its result is the child's exit status.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does nothing but `work` and `_exit`; glibc keeps its allocator usable after fork.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: the alarm's default action ends the child, which is what it is for.
        unsafe { libc::alarm(10) };
        let status = work();
        // SAFETY: leaves the process without running anything else.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child; the status may be written.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "the child crashed: {status:#x}");
    libc::WEXITSTATUS(status)
}

#[test]
fn case_17_a_forked_childs_drops_do_nothing() {
    let mut rig = Rig::connected();
    rig.srq.post(rig.pool.take().unwrap(), 1).unwrap();
    rig.initiator.send(rig.srq.number(), rig.buf(b"x"), 2).unwrap();
    let opened = rig.domain.open_target(rig.target.qp_number()).unwrap();
    let alive = rig.world.alive();
    let world = rig.world.clone();
    let mut rig = Some((rig, opened));
    let untouched = in_child(|| {
        drop(rig.take());
        i32::from(!(world.destroyed().is_empty() && world.alive() == alive))
    });
    assert_eq!(untouched, 0, "the child destroyed something");
    let world = rig.as_ref().map(|(rig, _)| rig.world.clone()).expect("the parent still has it");
    drop(rig);
    assert_eq!(world.alive(), 0, "the parent's drops work");
}

/// `close` destroys as drops do, so it is refused before it reaches the parent's objects.
#[test]
fn a_forked_child_cannot_close() {
    let rig = Rig::connected();
    let world = rig.world.clone();
    let opened = rig.domain.open_target(rig.target.qp_number()).unwrap();
    let mut rig = Some((rig, opened));
    let failed = in_child(|| {
        let (rig, opened) = rig.take().expect("set above");
        let Rig { srq, initiator, target, cq, pd, domain, pool, .. } = rig;
        let mut kinds = vec![
            opened.close().map_err(|(opened, error)| (drop(opened), error).1.kind()),
            srq.close().map_err(|(srq, error)| (drop(srq), error).1.kind()),
            initiator.close().map_err(|(initiator, error)| (drop(initiator), error).1.kind()),
            target.close().map_err(|(target, error)| (drop(target), error).1.kind()),
        ];
        drop(pool);
        kinds.push(domain.close().map_err(|(_, error)| error.kind()));
        kinds.push(cq.close().map_err(|(_, error)| error.kind()));
        kinds.push(pd.close().map_err(|(_, error)| error.kind()));
        let refused = kinds.iter().all(|kind| *kind == Err(ErrorKind::Forked));
        i32::from(!refused) + 2 * i32::from(!world.destroyed().is_empty())
    });
    assert_eq!(failed, 0, "1: something was not refused, 2: something was destroyed");
}

/// Each of these would change what the parent's device does, or wait for a lock that a thread of the
/// parent held when it forked.
#[test]
fn a_forked_child_cannot_create_connect_post_or_poll() {
    let mut rig = Rig::connected();
    let opened = rig.domain.open_target(rig.target.qp_number()).unwrap();
    let context = Arc::clone(rig.context.verbs());
    let held = context.queue_changes();
    let wrong = in_child(|| {
        let kind = |error: crate::Error| error.kind() == ErrorKind::Forked;
        let reason = |error: crate::PostError| {
            matches!(error.reason, PostErrorReason::Forked) && kind(crate::Error::from(error))
        };
        let (endpoint, options) = (rig.endpoint(), ConnectOptions::new());
        let (number, mut out) = (rig.srq.number(), Vec::new());
        let refused = [
            rig.context.create_pd().is_err_and(kind),
            rig.context.create_cq(1).is_err_and(kind),
            rig.context.create_xrc_domain().is_err_and(kind),
            rig.context.attributes().is_err_and(kind),
            rig.pd.pool(1, 1).is_err_and(kind),
            rig.domain.create_srq(&rig.pd, &rig.cq).build().is_err_and(kind),
            rig.domain.create_target().is_err_and(kind),
            rig.domain.open_target(rig.target.qp_number()).is_err_and(kind),
            opened.state().is_err_and(kind),
            rig.pd.create_initiator(&rig.cq).build().is_err_and(kind),
            rig.initiator.connect(&rig.port, &endpoint, &options).is_err_and(kind),
            rig.target.connect(&rig.port, &endpoint, &options).is_err_and(kind),
            rig.initiator.send(number, rig.buf(b"x"), 1).is_err_and(reason),
            rig.initiator.send_inline(number, b"x", 1).is_err_and(reason),
            rig.srq.post(rig.buf(b"x"), 1).is_err_and(reason),
            rig.cq.poll(&mut out, 1).is_err_and(kind),
        ];
        refused.iter().position(|&refused| !refused).map_or(0, |at| at as i32 + 1)
    });
    drop(held);
    assert_eq!(wrong, 0, "the call of this number was not refused");
    rig.initiator.send_inline(rig.srq.number(), b"x", 1).expect("the parent goes on");
}

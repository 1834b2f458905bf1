//! A forked child's drops do nothing.
//!
//! # Safety
//! The child drops values and leaves by `_exit`, without returning into the test harness.

use crate::tests::Rig;

/// Runs in a forked child; its result is the child's exit status.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does nothing but `work` and `_exit`; glibc keeps its allocator usable after fork.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
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
    let alive = rig.world.alive();
    let world = rig.world.clone();
    let mut rig = Some(rig);
    let untouched = in_child(|| {
        drop(rig.take());
        i32::from(!(world.destroyed().is_empty() && world.alive() == alive))
    });
    assert_eq!(untouched, 0, "the child destroyed something");
    let world = rig.as_ref().map(|rig| rig.world.clone()).expect("the parent still has it");
    drop(rig);
    assert_eq!(world.alive(), 0, "the parent's drops work");
}

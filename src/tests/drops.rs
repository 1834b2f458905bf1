//! Who outlives whom: every order of drops, refused destroys, work left in flight.

use super::{Rig, open, tags};
use crate::{ErrorKind, verbs::fake::World};

/// All permutations of 0..n.
fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(n - 1);
    shorter
        .into_iter()
        .flat_map(|order| {
            (0..n).map(move |at| {
                let mut order = order.clone();
                order.insert(at, n - 1);
                order
            })
        })
        .collect()
}

/// The fake refuses a destroy out of order, as the kernel does. With work in flight on both queues.
#[test]
fn case_12_every_order_of_drops_destroys_everything() {
    for order in permutations(8) {
        let mut rig = Rig::connected();
        for tag in 0..3 {
            rig.srq.post(rig.pool.take().unwrap(), tag).unwrap();
            rig.initiator.send(rig.srq.number(), rig.buf(b"in flight"), tag).unwrap();
        }
        let Rig { world, context, port, pd, pool, domain, cq, srq, initiator, target } = rig;
        drop(port);
        let mut things: Vec<Option<Box<dyn std::any::Any>>> = vec![
            Some(Box::new(context)),
            Some(Box::new(pd)),
            Some(Box::new(pool)),
            Some(Box::new(domain)),
            Some(Box::new(cq)),
            Some(Box::new(srq)),
            Some(Box::new(initiator)),
            Some(Box::new(target)),
        ];
        for &at in &order {
            things[at] = None;
        }
        assert_eq!(world.alive(), 0, "order {order:?}");
        let destroyed = world.destroyed();
        assert_eq!(destroyed.len(), 8, "order {order:?}: {destroyed:?}");
        assert_eq!(destroyed.last(), Some(&"ibv_close_device"));
    }
}

/// A `Buf` that outlives all else keeps the memory it lies in.
#[test]
fn a_buffer_keeps_its_pool_alive() {
    let rig = Rig::new();
    let world = rig.world.clone();
    let mut buf = rig.buf(b"still here");
    drop(rig);
    assert_eq!(world.alive(), 2, "the region and its protection domain");
    buf[0] = b'S';
    assert_eq!(&*buf, b"Still here");
    drop(buf);
    assert_eq!(world.alive(), 0);
}

#[test]
fn a_destroyed_queue_frees_its_slots_and_its_late_completions_find_nothing() {
    let mut rig = Rig::connected();
    let (qp, srq) = (rig.qp(), rig.srq_number());
    for tag in 0..2 {
        rig.srq.post(rig.pool.take().unwrap(), tag).unwrap();
        rig.initiator.send(rig.srq.number(), rig.buf(b"x"), tag).unwrap();
    }
    // Completed by the device and not polled when the queues go.
    rig.world.complete(qp, 1);
    rig.world.deliver(srq, b"y", None);
    let Rig { world, pool, mut cq, srq, initiator, pd, context, domain, .. } = rig;
    drop(initiator);
    drop(srq);
    assert_eq!(pool.free(), pool.slots());
    // The slots are used again at once, by a queue of another id, before the old completions are polled.
    let mut next = domain.create_srq(&pd, &cq).max_wr(16).pool(&pool).build().unwrap();
    for tag in 50..66 {
        next.post(pool.take().unwrap(), tag).unwrap();
    }
    let mut out = Vec::new();
    assert_eq!(cq.poll(&mut out, 100).unwrap(), 0);
    assert_eq!(cq.stale_completions(), 2);
    world.deliver(next.number().get(), b"new", None);
    assert_eq!(cq.poll(&mut out, 100).unwrap(), 1);
    assert_eq!((out[0].tag, out[0].buf.as_deref()), (50, Some(&b"new"[..])));
    drop(context);
}

/// mlx5 leaves the completions of a destroyed XRC SRQ in the queue. One of them would fail a later poll
/// with those around it, and once a new queue has the old one's index, complete its receives falsely.
#[test]
fn what_a_provider_leaves_of_an_srq_is_cleared_out_before_anything_else() {
    let mut rig = Rig::connected();
    rig.world.like_mlx5();
    let (qp, own) = (rig.qp(), rig.srq_number());
    let mut other = rig.domain.create_srq(&rig.pd, &rig.cq).max_wr(4).pool(&rig.pool).build().unwrap();
    let other_number = other.number().get();
    for tag in 0..3 {
        other.post(rig.pool.take().unwrap(), tag).unwrap();
        rig.srq.post(rig.pool.take().unwrap(), 10 + tag).unwrap();
        rig.initiator.send(rig.srq.number(), rig.buf(b"sent"), 20 + tag).unwrap();
    }
    // In the queue, mixed: two of the SRQ that goes, four of those that stay.
    rig.world.complete(qp, 1);
    rig.world.deliver(other_number, b"lost", None);
    rig.world.deliver(own, b"kept", None);
    rig.world.deliver(other_number, b"lost", None);
    rig.world.complete(qp, 1);
    rig.world.deliver(own, b"kept", None);
    drop(other);
    // This one gets the index of the one that went.
    let mut next = rig.domain.create_srq(&rig.pd, &rig.cq).max_wr(4).pool(&rig.pool).build().unwrap();
    next.post(rig.pool.take().unwrap(), 30).unwrap();
    rig.world.complete(qp, 1);
    let mut out = Vec::new();
    assert_eq!(rig.cq.poll(&mut out, 3).unwrap(), 3, "no more than it was told, of those kept");
    rig.cq.poll(&mut out, 100).unwrap();
    assert_eq!(tags(&out), [20, 10, 21, 11, 22], "in order, and nothing of those that stay is lost");
    assert!(out.iter().all(|completion| completion.status.is_ok() && completion.buf.is_some()));
    assert_eq!((rig.world.misplaced(), next.posted()), (0, 1));
    assert_eq!(rig.cq.stale_completions(), 2);
}

/// What was kept for the next poll is not yet the user's: if its queue goes too, it is dropped.
#[test]
fn what_was_kept_for_a_queue_goes_with_it() {
    let mut rig = Rig::connected();
    rig.world.like_mlx5();
    let other = rig.domain.create_srq(&rig.pd, &rig.cq).max_wr(4).build().unwrap();
    rig.initiator.send(rig.srq.number(), rig.buf(b"sent"), 1).unwrap();
    rig.world.complete(rig.qp(), 1);
    drop(other);
    let Rig { pool, mut cq, initiator, .. } = rig;
    drop(initiator);
    assert_eq!(pool.free(), pool.slots());
    let mut out = Vec::new();
    assert_eq!(cq.poll(&mut out, 10).unwrap(), 0);
    assert_eq!(cq.stale_completions(), 1);
}

/// SRQs and initiators that come and go, and nobody polls: what is kept stays below what can be in flight.
#[test]
fn what_is_kept_does_not_pile_up() {
    let rig = Rig::connected();
    let endpoint = rig.endpoint();
    for _ in 0..20 {
        let mut initiator = rig.pd.create_initiator(&rig.cq).max_send_wr(4).build().unwrap();
        initiator.connect(&rig.port, &endpoint, &Default::default()).unwrap();
        for tag in 0..4 {
            initiator.send_inline(rig.srq.number(), b"x", tag).unwrap();
        }
        rig.world.complete(initiator.qp_number().get(), 4);
        drop(rig.domain.create_srq(&rig.pd, &rig.cq).max_wr(1).build().unwrap());
        drop(initiator);
    }
    assert_eq!((rig.cq.verbs().deferred(), rig.cq.stale_completions()), (0, 80));
}

/// qedr reads the QP by an address in the completion.
#[test]
fn no_completion_outlives_its_initiator() {
    let mut rig = Rig::connected();
    rig.world.looks_at_qps();
    for tag in 0..3 {
        rig.initiator.send(rig.srq.number(), rig.buf(b"x"), tag).unwrap();
    }
    rig.world.complete(rig.qp(), 2);
    let Rig { world, pool, mut cq, initiator, target, .. } = rig;
    let number = initiator.qp_number().get();
    drop(initiator);
    let mut out = Vec::new();
    assert_eq!(cq.poll(&mut out, 10).unwrap(), 0);
    assert_eq!((pool.free(), cq.stale_completions()), (pool.slots(), 2));
    assert_eq!(world.misplaced(), 0);
    drop(target);
    let last: Vec<u32> = world
        .modified()
        .iter()
        .filter(|call| call.qp_number == number)
        .map(|call| call.attr.qp_state)
        .collect();
    assert_eq!(last[3..], [6, 0], "ERR, then RESET");
}

/// hns reads the target that a receive came through. What arrived before the target went comes home.
#[test]
fn receives_come_home_after_their_target_went() {
    let mut rig = Rig::connected();
    rig.world.looks_at_qps();
    // An SRQ of another completion queue, and of another domain: that may be the same file's.
    let mut other_cq = rig.context.create_cq(8).unwrap();
    let other_domain = rig.context.create_xrc_domain().unwrap();
    let mut other = other_domain.create_srq(&rig.pd, &other_cq).max_wr(2).pool(&rig.pool).build().unwrap();
    rig.srq.post(rig.pool.take().unwrap(), 1).unwrap();
    other.post(rig.pool.take().unwrap(), 2).unwrap();
    let through = rig.target.qp_number().get();
    rig.world.deliver_through(through, rig.srq_number(), b"one", None);
    rig.world.deliver_through(through, other.number().get(), b"two", None);
    let Rig { mut cq, target, pool, .. } = rig;
    target.close().unwrap();
    let mut out = Vec::new();
    cq.poll(&mut out, 10).unwrap();
    other_cq.poll(&mut out, 10).unwrap();
    assert_eq!(tags(&out), [1, 2]);
    assert_eq!(out[1].buf.as_deref(), Some(&b"two"[..]));
    drop(out);
    assert_eq!(pool.free(), pool.slots());
}

/// A refused end has stopped the queue pair: nothing is sent over it, and no later connection speaks for
/// the sends that it left.
#[test]
fn an_initiator_whose_end_was_refused_sends_no_more() {
    let mut rig = Rig::connected();
    rig.initiator.send(rig.srq.number(), rig.buf(b"x"), 1).unwrap();
    rig.world.script("ibv_destroy_qp", [libc::EBUSY]);
    let endpoint = rig.endpoint();
    let (mut initiator, _) = rig.initiator.close().unwrap_err();
    let unsent = initiator.send_inline(rig.srq.number(), b"x", 2).unwrap_err();
    assert!(matches!(unsent.reason, crate::PostErrorReason::NotConnected), "{unsent}");
    let error = initiator.connect(&rig.port, &endpoint, &Default::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    initiator.close().unwrap();
    assert_eq!(rig.pool.free(), rig.pool.slots());
}

/// A device that has gone stops nothing, and its queue pairs can be destroyed; another refusal counts.
#[test]
fn a_device_that_has_gone_does_not_keep_its_queue_pairs() {
    let Rig { world, initiator, target, .. } = Rig::connected();
    world.script("ibv_modify_qp", [libc::EIO, libc::EINVAL]);
    initiator.close().unwrap();
    let (target, error) = target.close().unwrap_err();
    assert!(error.to_string().contains("ibv_modify_qp"), "{error}");
    target.close().unwrap();
}

#[test]
fn a_refused_destroy_leaks_and_frees_nothing_that_a_device_may_write() {
    let mut rig = Rig::connected();
    rig.srq.post(rig.pool.take().unwrap(), 1).unwrap();
    rig.initiator.send(rig.srq.number(), rig.buf(b"x"), 2).unwrap();
    let (free, alive) = (rig.pool.free(), rig.world.alive());
    rig.world.script("ibv_destroy_srq", [libc::EIO]);
    rig.world.script("ibv_destroy_qp", [libc::EIO]);
    let (qp, srq_number) = (rig.qp(), rig.srq_number());
    let Rig { world, context, pd, pool, domain, mut cq, srq, initiator, target, port } = rig;
    drop(initiator);
    drop(srq);
    assert_eq!(pool.free(), free, "their slots stay theirs");
    // What they still complete comes home, for the books are open.
    world.complete(qp, 1);
    world.deliver(srq_number, b"late", None);
    let mut out = Vec::new();
    cq.poll(&mut out, 10).unwrap();
    assert_eq!(tags(&out), [2, 1]);
    drop(out);
    drop((context, pd, pool, domain, cq, target, port));
    assert_eq!(world.alive(), alive - 1, "all but the target, for the rest is held by what was leaked");
}

#[test]
fn a_builder_holds_what_it_names() {
    let rig = Rig::new();
    let Rig { pd, pool, domain, cq, srq, initiator, target, .. } = rig;
    drop((pool, srq, initiator, target));
    let builder = domain.create_srq(&pd, &cq);
    let (_, domain) = domain.close().unwrap_err();
    let (_, pd) = pd.close().unwrap_err();
    let (_, cq) = cq.close().unwrap_err();
    for error in [domain, pd, cq] {
        assert!(error.to_string().contains("builders"), "{error}");
    }
    drop(builder);
}

#[test]
fn close_gives_the_object_back_when_it_is_refused() {
    let rig = Rig::new();
    let Rig { world, context, pd, pool, domain, cq, srq, initiator, target, port } = rig;
    let (domain, error) = domain.close().unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, None), "no system call: {error}");
    let (pd, error) = pd.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let (cq, error) = cq.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(world.destroyed().is_empty());

    for verb in ["ibv_destroy_srq", "ibv_destroy_qp", "ibv_close_xrcd", "ibv_destroy_cq", "ibv_dealloc_pd"] {
        world.script(verb, [libc::EBUSY]);
    }
    let (srq, error) = srq.close().unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, Some(libc::EBUSY)));
    assert!(error.to_string().contains(&srq.number().to_string()));
    srq.close().unwrap();
    let (initiator, _) = initiator.close().unwrap_err();
    initiator.close().unwrap();
    target.close().unwrap();
    let (domain, error) = domain.close().unwrap_err();
    assert_eq!(error.errno(), Some(libc::EBUSY), "the kernel's reason, and the domain is back");
    drop(domain.create_target().unwrap());
    domain.close().unwrap();
    let (cq, _) = cq.close().unwrap_err();
    cq.close().unwrap();
    drop(pool);
    let (pd, _) = pd.close().unwrap_err();
    pd.close().unwrap();
    drop((context, port));
    assert_eq!(world.alive(), 0);
}

/// `mem::forget` is safe, so it must be harmless: it leaks, and what it leaks stays whole.
#[test]
fn forgotten_objects_leak_and_nothing_worse() {
    let mut rig = Rig::connected();
    let world = rig.world.clone();
    let (qp, srq_number) = (rig.qp(), rig.srq_number());
    rig.srq.post(rig.pool.take().unwrap(), 1).unwrap();
    rig.initiator.send(rig.srq.number(), rig.buf(b"forgotten"), 2).unwrap();
    std::mem::forget(rig.pool.take());
    let Rig { context, port, pd, pool, domain, mut cq, srq, initiator, target, .. } = rig;
    std::mem::forget(srq);
    std::mem::forget(initiator);
    std::mem::forget(target);
    drop((context, port, pd, pool, domain));
    // The device goes on with what was posted; the memory is still there.
    assert_eq!(world.sends(qp)[0].bytes(), b"forgotten");
    assert!(world.deliver(srq_number, b"arrives", None));
    let mut out = Vec::new();
    cq.poll(&mut out, 10).unwrap();
    assert_eq!(out[0].buf.as_deref(), Some(&b"arrives"[..]));
    std::mem::forget(out);
    drop(cq);
    assert_eq!(world.destroyed(), Vec::<&str>::new());
}

#[test]
fn a_failed_creation_leaves_nothing() {
    let context = open("fake0");
    let world = World::of(context.verbs());
    for verb in ["ibv_alloc_pd", "ibv_create_cq", "ibv_open_xrcd"] {
        world.script(verb, [libc::ENOMEM, -1]);
    }
    for _ in 0..2 {
        assert!(context.create_pd().is_err());
        assert!(context.create_cq(1).is_err());
        assert!(context.create_xrc_domain().is_err());
    }
    let pd = context.create_pd().unwrap();
    world.script("ibv_reg_mr", [libc::ENOMEM]);
    let error = pd.pool(4, 4096).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("16384 bytes"), "{error}");
    for (slots, size) in [(0, 1), (1, 0), (1, 1 << 31), (1, (1 << 31) + 1), (u32::MAX, i32::MAX as usize)] {
        assert!(pd.pool(slots, size).is_err(), "{slots} slots of {size}");
    }
    assert_eq!(context.create_cq(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(context.create_cq(u32::MAX).unwrap_err().kind(), ErrorKind::InvalidInput);
    drop(pd);
    assert_eq!(world.alive(), 0);
}

#[test]
fn objects_of_two_devices_never_mix() {
    let (here, there) = (Rig::new(), Rig::on("fake1"));
    let check = |error: crate::Error| {
        assert_eq!(error.kind(), ErrorKind::DeviceMismatch);
        let text = error.to_string();
        assert!(text.contains("fake0") && text.contains("fake1"), "{text}");
    };
    check(here.domain.create_srq(&there.pd, &here.cq).build().unwrap_err());
    check(here.domain.create_srq(&here.pd, &there.cq).build().unwrap_err());
    check(here.pd.create_initiator(&there.cq).build().unwrap_err());
    check(here.port.endpoint(&there.initiator, &here.target, &here.srq).unwrap_err());
    check(here.port.endpoint(&here.initiator, &there.target, &there.srq).unwrap_err());
    let (mut mine, mut theirs) = (
        here.pd.create_initiator(&here.cq).max_send_wr(1).build().unwrap(),
        there.domain.create_target().unwrap(),
    );
    check(mine.connect(&there.port, &there.endpoint(), &Default::default()).unwrap_err());
    check(theirs.connect(&here.port, &here.endpoint(), &Default::default()).unwrap_err());

    let again = Rig::new();
    let error = here.pd.create_initiator(&again.cq).build().unwrap_err();
    assert!(error.to_string().contains("another opening of fake0"), "{error}");
    let other_pd = here.context.create_pd().unwrap();
    let foreign = other_pd.pool(1, 8).unwrap();
    for error in [
        here.domain.create_srq(&here.pd, &here.cq).pool(&foreign).build().unwrap_err(),
        here.pd.create_initiator(&here.cq).pool(&foreign).build().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    let other_domain = here.context.create_xrc_domain().unwrap();
    let stranger = other_domain.create_target().unwrap();
    let error = here.port.endpoint(&here.initiator, &stranger, &here.srq).unwrap_err();
    assert!(error.to_string().contains("two XRC domains"), "{error}");
}

//! Targets opened by number: what is asked for, who closes a handle, and what closing leaves alone.

use super::{Rig, open};
use crate::{ConnectOptions, ErrorKind, QpNumber, QpState, verbs::fake::World};

/// The states that the driver was told to put a QP in, after it was connected.
fn stops(world: &World, number: QpNumber) -> Vec<u32> {
    let calls = world.modified().into_iter().filter(|call| call.qp_number == number.get());
    calls.skip(3).map(|call| call.attr.qp_state).collect()
}

#[test]
fn an_opened_target_is_the_one_that_was_created() {
    let mut rig = Rig::new();
    let number = rig.target.qp_number();
    let opened = rig.domain.open_target(number).unwrap();
    assert_eq!((opened.qp_number(), opened.state().unwrap()), (number, QpState::Reset));
    let endpoint = rig.endpoint();
    rig.target.connect(&rig.port, &endpoint, &ConnectOptions::new()).unwrap();
    assert_eq!(opened.state().unwrap(), QpState::ReadyToSend, "another handle changed it");
    assert!(format!("{opened:?}").contains("OpenedTarget"));
}

#[test]
fn a_target_goes_on_until_its_last_holder_lets_go() {
    let Rig { world, domain, target, .. } = Rig::connected();
    let number = target.qp_number();
    let (first, second) = (domain.open_target(number).unwrap(), domain.open_target(number).unwrap());
    target.close().unwrap();
    first.close().unwrap();
    assert_eq!(second.state().unwrap(), QpState::ReadyToSend);
    second.close().unwrap();
    assert_eq!(stops(&world, number), [0; 0], "nobody stopped it while others held it");
    let error = domain.open_target(number).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::NotFound, Some(libc::EINVAL)));
}

/// As it was before there were opened targets: one that nobody else can hold is stopped first.
#[test]
fn a_target_of_one_holder_is_stopped_before_its_end() {
    let Rig { world, domain, target, .. } = Rig::connected();
    let number = target.qp_number();
    domain.open_target(number).unwrap().close().unwrap();
    target.close().unwrap();
    assert_eq!(stops(&world, number), [6, 0], "ERR, then RESET");
}

/// As many as have opened it hold it, and not only one of them.
#[test]
fn a_target_is_not_stopped_while_one_handle_of_two_is_left() {
    let Rig { world, domain, target, .. } = Rig::connected();
    let number = target.qp_number();
    let (first, second) = (domain.open_target(number).unwrap(), domain.open_target(number).unwrap());
    first.close().unwrap();
    target.close().unwrap();
    assert_eq!(stops(&world, number), [0; 0]);
    assert_eq!(second.state().unwrap(), QpState::ReadyToSend);
    second.close().unwrap();
}

/// A provider that looks at queue pairs is asked to end a running one, if the last handle is one that opened it.
#[test]
fn the_last_handle_may_be_one_that_opened_it() {
    let Rig { world, domain, target, .. } = Rig::connected();
    world.looks_at_qps();
    let (number, opened) = (target.qp_number(), domain.open_target(target.qp_number()).unwrap());
    drop(target);
    drop(opened);
    assert_eq!(stops(&world, number), [0; 0]);
    assert_eq!(domain.open_target(number).unwrap_err().kind(), ErrorKind::NotFound);
}

/// Only one that was stopped for its end can be connected anew, if that end is refused.
#[test]
fn after_a_refused_close_a_target_is_connected_unless_it_was_stopped() {
    for others in [false, true] {
        let rig = Rig::connected();
        let number = rig.target.qp_number();
        let opened = others.then(|| rig.domain.open_target(number).unwrap());
        let (endpoint, port) = (rig.endpoint(), &rig.port);
        rig.world.script("ibv_destroy_qp", [libc::EBUSY]);
        let (mut target, error) = rig.target.close().unwrap_err();
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, Some(libc::EBUSY)));
        let again = target.connect(port, &endpoint, &ConnectOptions::new());
        if others {
            let error = again.unwrap_err();
            assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, None), "no system call: {error}");
        } else {
            again.unwrap();
        }
        assert_eq!(target.state().unwrap(), QpState::ReadyToSend);
        drop(opened);
    }
}

/// Other processes may hold the targets of a file's domain, and nobody can ask them.
#[test]
fn a_target_of_a_files_domain_is_not_stopped_unless_the_provider_opens_none() {
    for opens_none in [false, true] {
        let context = open("fake0");
        let world = World::of(context.verbs());
        if opens_none {
            world.opens_no_targets();
        }
        let dir = tempfile::tempdir().unwrap();
        let domain = context.open_xrc_domain(dir.path().join("domain")).create(true).open().unwrap();
        let rig = Rig::new();
        let mut target = domain.create_target().unwrap();
        let port = crate::LocalPort::query(&context, 1).unwrap();
        target.connect(&port, &rig.endpoint(), &ConnectOptions::new()).unwrap();
        let number = target.qp_number();
        target.close().unwrap();
        assert_eq!(stops(&world, number), if opens_none { vec![6, 0] } else { vec![] });
    }
}

#[test]
fn a_number_that_the_domain_does_not_have_is_not_found() {
    let rig = Rig::new();
    let other = rig.context.create_xrc_domain().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("domain");
    let of_a_file = rig.context.open_xrc_domain(&path).create(true).open().unwrap();
    for error in [
        rig.domain.open_target(QpNumber::MAX).unwrap_err(),
        rig.domain.open_target(rig.initiator.qp_number()).unwrap_err(),
        other.open_target(rig.target.qp_number()).unwrap_err(),
        of_a_file.open_target(rig.target.qp_number()).unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.verb()), (ErrorKind::NotFound, "ibv_open_qp"));
        let text = error.to_string();
        assert!(text.contains("fake0") && text.contains("target QP 0x"), "{text}");
    }
    let text = of_a_file.open_target(QpNumber::MAX).unwrap_err().to_string();
    assert!(text.contains(path.to_str().unwrap()) && text.contains("target QP 0xffffff"), "{text}");
    for (errno, kind) in [(libc::ENOMEM, ErrorKind::OutOfMemory), (-1, ErrorKind::Other)] {
        rig.world.script("ibv_open_qp", [errno]);
        assert_eq!(rig.domain.open_target(rig.target.qp_number()).unwrap_err().kind(), kind);
    }
}

#[test]
fn where_targets_cannot_be_opened_or_closed_it_is_said_in_words() {
    let rig = Rig::new();
    rig.world.opens_no_targets();
    let no_such_call = rig.domain.open_target(rig.target.qp_number()).unwrap_err();
    assert!(no_such_call.to_string().contains("opens no targets"), "{no_such_call}");
    let odd = Rig::on("odd0");
    let no_driver = odd.domain.open_target(odd.target.qp_number()).unwrap_err();
    assert!(no_driver.to_string().contains("must be in /sys/dev/char"), "{no_driver}");
    for error in [no_such_call, no_driver] {
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Unsupported, None), "no system call: {error}");
    }
}

/// The fake provider panics when it is asked to close what it opened, as mlx5 crashes.
#[test]
fn a_provider_that_would_crash_is_not_asked() {
    let rig = Rig::on("fake1");
    let number = rig.target.qp_number();
    for _ in 0..3 {
        rig.domain.open_target(number).unwrap().close().unwrap();
    }
    drop(rig.domain.open_target(number).unwrap());
    assert_eq!(rig.world.destroyed(), ["uverbs_destroy_qp_ioctl"; 4]);
    // A kernel without the ioctl has the older call.
    for lacking in [libc::ENOTTY, libc::EPROTONOSUPPORT] {
        rig.world.script("uverbs_destroy_qp_ioctl", [lacking]);
        rig.domain.open_target(number).unwrap().close().unwrap();
        assert_eq!(rig.world.destroyed().last(), Some(&"uverbs_destroy_qp_write"));
    }
    let Rig { world, target, .. } = rig;
    let before = world.destroyed().len();
    target.close().unwrap();
    assert_eq!(world.destroyed()[before], "ibv_destroy_qp", "what was created is the provider's to close");
}

/// A device may be renamed between its listing and its opening, and another get its name.
#[test]
fn what_was_opened_decides_and_not_what_was_listed() {
    let listed = crate::devices().unwrap().find("stale0").unwrap();
    assert_eq!(listed.driver().as_deref(), Some("mlx4_core"), "whose provider closes its own");
    let rig = Rig::on("stale0");
    rig.domain.open_target(rig.target.qp_number()).unwrap().close().unwrap();
    assert_eq!(rig.world.destroyed(), ["uverbs_destroy_qp_ioctl"]);
}

#[test]
fn another_provider_closes_its_own() {
    let rig = Rig::new();
    rig.domain.open_target(rig.target.qp_number()).unwrap().close().unwrap();
    assert_eq!(rig.world.destroyed(), ["ibv_destroy_qp"]);
}

#[test]
fn a_refused_close_gives_the_handle_back_and_a_refused_drop_leaks_it() {
    for (device, verb) in [("fake0", "ibv_destroy_qp"), ("fake1", "uverbs_destroy_qp_ioctl")] {
        let rig = Rig::on(device);
        let number = rig.target.qp_number();
        let opened = rig.domain.open_target(number).unwrap();
        rig.world.script(verb, [libc::EBUSY, libc::EIO]);
        let (opened, error) = opened.close().unwrap_err();
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, Some(libc::EBUSY)));
        let text = error.to_string();
        assert!(text.contains(&format!("target QP {number}")) && text.contains(device), "{text}");
        assert_eq!(opened.state().unwrap(), QpState::Reset);
        let alive = rig.world.alive();
        drop(opened);
        assert_eq!(rig.world.alive(), alive, "leaked");
        let Rig { world, context, port, pd, pool, domain, cq, srq, initiator, target } = rig;
        drop((context, port, pd, pool, cq, srq, initiator, target));
        let (domain, error) = domain.close().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "the leaked handle holds it");
        drop(domain);
        assert_eq!(world.alive(), 2, "the handle and its domain");
    }
}

#[test]
fn it_keeps_its_domain_and_forgetting_it_leaks_both() {
    let Rig { world, context, port, pd, pool, domain, cq, srq, initiator, target } = Rig::on("fake1");
    let number = target.qp_number();
    let opened = domain.open_target(number).unwrap();
    drop((port, pd, pool, cq, srq, initiator, target));
    let (domain, error) = domain.close().unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, None), "no system call: {error}");
    drop((context, domain));
    assert_eq!((world.alive(), opened.state().unwrap()), (2, QpState::Reset), "the handle and its domain");
    drop(opened);
    assert_eq!((world.alive(), world.destroyed().last()), (0, Some(&"ibv_close_device")));

    let Rig { world, domain, target, .. } = Rig::on("fake1");
    std::mem::forget(domain.open_target(target.qp_number()).unwrap());
    drop((domain, target));
    assert_eq!(world.alive(), 2, "the forgotten handle and its domain");
}

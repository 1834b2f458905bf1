//! Opened targets on a device, in the process that created them and in another: a target lives until its last
//! holder lets go, and no handle crashes or is left behind. This binary is both processes; see `common::sharer`.

mod common;

use common::{
    Pair, device, received, sent,
    sharer::{self, Sharer, open_and_close, shared_node},
};
use libtest_mimic::{Arguments, Failed, Trial};
use rdma_xrc::{
    CompletionQueue, ConnectOptions, Endpoint, ErrorKind, Initiator, QpNumber, QpState, SrqNumber,
};
use std::{process::ExitCode, time::Instant};

const WHY: &str = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test";

/// How often a handle is opened and closed in one process.
const TIMES: u32 = 1_000;

fn main() -> ExitCode {
    if sharer::was_asked_for() {
        return ExitCode::SUCCESS;
    }
    let trial = |name: &str, test: fn() -> Result<(), Failed>| {
        Trial::test(name, test).with_kind(WHY).with_ignored_flag(true)
    };
    let trials = vec![
        trial("handles_open_and_close_a_thousand_times_in_two_processes", thousand_times),
        trial("a_target_outlives_the_handle_of_its_creator", creator_closes),
        trial("a_target_outlives_a_creator_that_is_killed", creator_killed),
        trial("what_is_not_there_is_not_found", not_found),
        trial("handles_go_before_and_after_all_else", orders),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A message goes through the initiator and is acknowledged.
fn send(initiator: &mut Initiator, cq: &mut CompletionQueue, srq: SrqNumber, text: &str) {
    initiator.send_inline(srq, text.as_bytes(), 0).expect("it is posted");
    sent(cq);
}

/// The options of a connection whose initiator gives up soon on a target that is gone.
fn hasty() -> ConnectOptions {
    ConnectOptions::new().timeout(8).retry_count(1)
}

fn is_gone(result: rdma_xrc::Result<rdma_xrc::OpenedTarget>) {
    let error = result.expect_err("the target is gone");
    assert_eq!((error.kind(), error.errno()), (ErrorKind::NotFound, Some(libc::EINVAL)), "{error}");
}

/// If one handle of the many were left, the target would not end with its creator's.
fn thousand_times() -> Result<(), Failed> {
    let _watched = common::no_leaks();
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("domain");
    let mut node = shared_node(&path);
    let mut sharer = Sharer::start(&path);
    let Pair { mut initiator, target } = node.loopback(&ConnectOptions::new());
    let number = target.qp_number();
    node.post_receives(1);

    let start = Instant::now();
    open_and_close(&node.domain, number, TIMES);
    println!("{TIMES} times in the creating process: {:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(sharer.ask(&format!("open-and-close {} {TIMES}", number.get())), "done");
    println!("{TIMES} times in another: {:?}", start.elapsed());

    assert_eq!(target.state()?, QpState::ReadyToSend, "nobody stopped it");
    send(&mut initiator, &mut node.send_cq, node.srq.number(), "still here");
    assert_eq!(received(&mut node.receive_cq).bytes, b"still here");
    // A later target may have the number of an earlier one, and is opened as any other.
    target.close().map_err(|(_, error)| error)?;
    is_gone(node.domain.open_target(number));
    for _ in 0..100 {
        let next = node.target();
        open_and_close(&node.domain, next.qp_number(), 1);
    }
    sharer.leave();
    Ok(())
}

fn creator_closes() -> Result<(), Failed> {
    let _watched = common::no_leaks();
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("domain");
    let mut node = shared_node(&path);
    let mut sharer = Sharer::start(&path);
    let Pair { mut initiator, target } = node.loopback(&hasty());
    let number = target.qp_number();
    node.post_receives(1);
    let told = |text: &str| format!("{} {text:?}", number.get());

    assert_eq!(sharer.ask(&format!("open {}", number.get())), "ReadyToSend");
    send(&mut initiator, &mut node.send_cq, sharer.srq, "both hold it");
    assert_eq!(sharer.ask("receive"), told("both hold it"));
    target.close().map_err(|(_, error)| error)?;
    send(&mut initiator, &mut node.send_cq, sharer.srq, "its opener holds it");
    assert_eq!(sharer.ask("receive"), told("its opener holds it"));
    // It leads to the whole domain, its creator's SRQ included.
    send(&mut initiator, &mut node.send_cq, node.srq.number(), "mine");
    assert_eq!(received(&mut node.receive_cq).bytes, b"mine");

    // The creator may hold it again.
    let again = node.domain.open_target(number)?;
    assert_eq!(sharer.ask("close"), "closed");
    assert_eq!(again.state()?, QpState::ReadyToSend);
    send(&mut initiator, &mut node.send_cq, sharer.srq, "opened again");
    assert_eq!(sharer.ask("receive"), told("opened again"));
    drop(again);

    is_gone(node.domain.open_target(number));
    assert_eq!(sharer.ask(&format!("open {}", number.get())), format!("NotFound Some({})", libc::EINVAL));
    initiator.send_inline(sharer.srq, b"nobody", 0)?;
    assert!(common::wait(&mut node.send_cq, 1).remove(0).status.is_err(), "the target is gone");
    sharer.leave();
    Ok(())
}

fn creator_killed() -> Result<(), Failed> {
    let _watched = common::no_leaks();
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("domain");
    let mut node = shared_node(&path);
    node.post_receives(2);
    let mut creator = Sharer::start(&path);
    // Its target, to an initiator of this process.
    let mut pair = node.pair();
    let theirs: Endpoint = creator.ask(&format!("connect {}", node.endpoint(&pair))).parse()?;
    pair.initiator.connect(&node.port, &theirs, &hasty())?;
    let opened = node.domain.open_target(theirs.target)?;

    send(&mut pair.initiator, &mut node.send_cq, node.srq.number(), "before");
    assert_eq!(received(&mut node.receive_cq).target, theirs.target);
    creator.kill();
    assert_eq!(opened.state()?, QpState::ReadyToSend);
    send(&mut pair.initiator, &mut node.send_cq, node.srq.number(), "after");
    let after = received(&mut node.receive_cq);
    assert_eq!((after.target, after.bytes.as_slice()), (theirs.target, &b"after"[..]));

    opened.close().map_err(|(_, error)| error)?;
    is_gone(node.domain.open_target(theirs.target));
    pair.initiator.send_inline(node.srq.number(), b"nobody", 0)?;
    assert!(common::wait(&mut node.send_cq, 1).remove(0).status.is_err(), "the target is gone");

    // And one whose only holder is killed goes with it.
    let mut creator = Sharer::start(&path);
    let theirs: Endpoint = creator.ask(&format!("connect {}", node.endpoint(&node.pair()))).parse()?;
    creator.kill();
    is_gone(node.domain.open_target(theirs.target));
    Ok(())
}

fn not_found() -> Result<(), Failed> {
    let _watched = common::no_leaks();
    let context = device();
    let (domain, other) = (context.create_xrc_domain()?, context.create_xrc_domain()?);
    let target = domain.create_target()?;
    is_gone(domain.open_target(QpNumber::MAX));
    is_gone(other.open_target(target.qp_number()));
    let dir = tempfile::tempdir()?;
    let shared = context.open_xrc_domain(dir.path().join("domain")).create(true).open()?;
    is_gone(shared.open_target(target.qp_number()));
    let opened = domain.open_target(target.qp_number())?;
    assert_eq!((opened.state()?, opened.qp_number()), (QpState::Reset, target.qp_number()));
    Ok(())
}

/// A handle keeps its domain, its context and the target, whatever else is dropped before or after.
fn orders() -> Result<(), Failed> {
    let _watched = common::no_leaks();
    for first in 0..4 {
        let context = device();
        let domain = context.create_xrc_domain()?;
        let target = domain.create_target()?;
        let opened = domain.open_target(target.qp_number())?;
        let second = domain.open_target(target.qp_number())?;
        let (domain, busy) = domain.close().expect_err("handles of it live");
        assert_eq!((busy.kind(), busy.errno()), (ErrorKind::Busy, None), "no system call: {busy}");
        let mut parts: Vec<Option<Box<dyn std::any::Any>>> = vec![
            Some(Box::new(context)),
            Some(Box::new(domain)),
            Some(Box::new(target)),
            Some(Box::new(second)),
        ];
        parts.rotate_left(first);
        parts.iter_mut().for_each(|part| *part = None);
        assert_eq!(opened.state()?, QpState::Reset);
        opened.close().map_err(|(_, error)| error)?;
    }
    Ok(())
}

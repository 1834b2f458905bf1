//! Two processes that share an XRC domain by its file. This binary is both; see `common::sharer`.

mod common;

use common::{
    Node, Pair, device, received, sent,
    sharer::{self, Sharer, shared_node},
};
use libtest_mimic::{Arguments, Failed, Trial};
use rdma_xrc::{ConnectOptions, Endpoint, ErrorKind};
use std::process::ExitCode;

const WHY: &str = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test";

fn main() -> ExitCode {
    if sharer::was_asked_for() {
        return ExitCode::SUCCESS;
    }
    let trials = vec![
        Trial::test("one_target_reaches_the_srqs_of_two_processes", one_target_two_processes)
            .with_kind(WHY)
            .with_ignored_flag(true),
        Trial::test("case_18_a_domain_lives_with_its_last_process", last_process)
            .with_kind(WHY)
            .with_ignored_flag(true),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn one_target_two_processes() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("domain");
    let mut node = shared_node(&path);
    let mut sharers = [Sharer::start(&path), Sharer::start(&path)];
    // The one target of all three processes is this one's.
    let Pair { mut initiator, target } = node.loopback(&ConnectOptions::new());
    node.post_receives(4);
    for round in 0..4 {
        for (at, sharer) in sharers.iter_mut().enumerate() {
            let text = format!("message {round} for process {at}");
            initiator.send_inline(sharer.srq, text.as_bytes(), 0)?;
            let told = sharer.ask("receive");
            assert_eq!(told, format!("{} {text:?}", target.qp_number().get()));
            sent(&mut node.send_cq);
        }
        initiator.send_inline(node.srq.number(), b"mine", 0)?;
        assert_eq!(received(&mut node.receive_cq).bytes, b"mine");
        sent(&mut node.send_cq);
    }
    let [first, second] = sharers;
    let gone = first.srq;
    first.leave();
    initiator.send_inline(second.srq, b"x", 0)?;
    sent(&mut node.send_cq);
    // A private domain's initiator cannot be told from ours by the device; its SRQs can.
    let stranger = Node::new();
    let elsewhere = Endpoint { srq: stranger.srq.number(), ..node.endpoint(&node.pair()) };
    for number in [elsewhere.srq, gone] {
        let mut pair = node.loopback(&ConnectOptions::new().timeout(8).retry_count(1));
        pair.initiator.send_inline(number, b"nobody", 0)?;
        let failed = common::wait(&mut node.send_cq, 1).remove(0);
        assert!(failed.status.is_err(), "SRQ {number} is not of this domain any more, or never was");
    }
    second.leave();
    Ok(())
}

fn last_process() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("domain");
    let context = device();
    let sharer = Sharer::start(&path);
    let joined = context.open_xrc_domain(&path).open()?;
    let exclusive = context.open_xrc_domain(&path).exclusive(true).open();
    assert_eq!(exclusive.unwrap_err().kind(), ErrorKind::AlreadyExists);
    joined.close().map_err(|(_, error)| error)?;
    let again = context.open_xrc_domain(&path).open()?;
    sharer.leave();
    drop(context.open_xrc_domain(&path).open()?);
    drop(again);
    assert_eq!(context.open_xrc_domain(&path).open().unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}

//! Several guests on one fabric: programs that talk across it, a guest that stands still or dies, all with all. After
//! each test every node's driver must hold what it held before.

use std::ffi::OsString;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::tools::{self, words};
use super::{Scene, Tally, Test, crate_tests, hostile};
use crate::console;
use crate::device::{Device, MOST_NODES, Node};
use crate::lab::{Ending, Lab};
use crate::link::Job;
use crate::pair::Ready;

/// The programs of others that run across two guests, by their names among the tools.
const ACROSS: [&str; 3] = ["ibv_xsrq_pingpong", "ib_send_lat", "rdma_xserver and rdma_xclient"];
/// Those that run across two guests on a bad wire as well; the connection manager is not among them, since it gives
/// up by itself when too many of its datagrams are lost.
const ACROSS_BADLY: [&str; 3] = ["ib_send_bw", "ib_write_bw", "ib_read_bw"];
/// The bad wire: each lost end of a message costs a time-out of a quarter of a second.
const BAD: f64 = 0.01;
/// The same where there are few packets, so that some are struck.
const WORSE: f64 = 0.05;
/// The port of perftest's programs.
const PORT: u16 = 18515;
/// Messages from each node to each.
const ITERATIONS: u64 = 20;
/// How long the drivers may take to give back what an ended program held.
const SETTLE: Duration = Duration::from_secs(30);
/// How long traffic may take to begin or to go on.
const FLOW: Duration = Duration::from_secs(60);
/// Messages that show that traffic flows.
const SOME: u64 = 50;
/// How long a guest is frozen. Shorter than what a connection of perftest's bears, some seven seconds at most.
const FROZEN: Duration = Duration::from_secs(4);

pub fn tests(device: Device) -> Vec<Test> {
    let mut tests = Vec::new();
    for tool in tools::all(device).into_iter().filter(|tool| ACROSS.contains(&tool.name)) {
        let name = format!("two nodes: {}", tool.name);
        tests.push(Test::fabric(&name, 2, 150, move |lab, scene| {
            and_nothing_held(lab, |lab| tools::run(lab, scene, &tool))
        }));
    }
    tests.push(Test::fabric("two nodes: xrc_send_lat", 2, 150, |lab, scene| {
        and_nothing_held(lab, |lab| crate_tests::send_lat(lab, scene))
    }));
    for tool in tools::all(device).into_iter().filter(|tool| ACROSS_BADLY.contains(&tool.name)) {
        let name = format!("two nodes, a bad wire: {}", tool.name);
        tests.push(Test::fabric(&name, 2, 240, move |lab, scene| {
            and_nothing_held(lab, |lab| on_a_wire(lab, BAD, |lab| tools::run(lab, scene, &tool)))
        }));
    }
    tests.push(Test::fabric("two nodes, a bad wire: xrc_send_lat", 2, 240, |lab, scene| {
        and_nothing_held(lab, |lab| on_a_wire(lab, BAD, |lab| crate_tests::send_lat(lab, scene)))
    }));
    tests.push(Test::fabric("two nodes: one is frozen and thaws", 2, 240, |lab, scene| {
        and_nothing_held(lab, |lab| frozen(lab, scene))
    }));
    // Then node 1 has no IPoIB any more.
    tests.extend(hostile::tests());
    // The last on these two, since one of them does not come back.
    tests.push(Test::fabric("two nodes: one is killed", 2, 240, killed));
    tests.push(Test::fabric("eight nodes: xrc_all_to_all", MOST_NODES, 300, |lab, scene| {
        and_nothing_held(lab, |lab| all_to_all(lab, scene))
    }));
    tests.push(Test::fabric("eight nodes: xrc_all_to_all on a bad wire", MOST_NODES, 300, |lab, scene| {
        and_nothing_held(lab, |lab| on_a_wire(lab, WORSE, |lab| all_to_all(lab, scene)))
    }));
    tests.push(Test::fabric("eight nodes: ib_send_bw from each to each", MOST_NODES, 600, |lab, scene| {
        and_nothing_held(lab, |lab| each_to_each(lab, scene))
    }));
    tests
}

/// How many objects of each kind a node's drivers and programs hold.
fn held(lab: &Lab, node: u8) -> Result<Value> {
    Ok(lab.ask(&json!({"do": "held", "node": node}))?["counts"].clone())
}

/// What the model has to tell of a node.
pub fn report(lab: &Lab, node: u8) -> Result<Value> {
    let report = lab.ask(&json!({"do": "report"}))?;
    let found = report["guests"].get(usize::from(node) - 1);
    found.cloned().with_context(|| format!("the model's report has no node {node}"))
}

/// Waits until these nodes hold what they held before.
fn settled(lab: &Lab, before: &[(u8, Value)]) -> Result<()> {
    let until = Instant::now() + SETTLE;
    for (node, before) in before {
        loop {
            let now = held(lab, *node)?;
            if now == *before {
                break;
            }
            ensure!(Instant::now() < until, "node {node} held {before} before and holds {now} now");
            sleep(Duration::from_millis(200));
        }
    }
    Ok(())
}

/// Does `work` and requires that nothing is held afterwards that was not before.
fn and_nothing_held(lab: &mut Lab, work: impl FnOnce(&mut Lab) -> Result<Tally>) -> Result<Tally> {
    let before = (1..=lab.count()).map(|node| Ok((node, held(lab, node)?))).collect::<Result<Vec<_>>>()?;
    let tally = work(lab)?;
    settled(lab, &before)?;
    Ok(tally)
}

/// How often this happened to packets so far, on all nodes together.
fn packets(lab: &Lab, what: &str) -> Result<u64> {
    let of_node = |node| -> Result<u64> {
        report(lab, node)?[what].as_u64().with_context(|| format!("the model's report has no {what}"))
    };
    (1..=lab.count()).map(of_node).sum()
}

/// Does `work` on a wire that loses, doubles and reorders packets, each with this probability, and requires that it
/// did.
fn on_a_wire(lab: &mut Lab, chance: f64, work: impl FnOnce(&mut Lab) -> Result<Tally>) -> Result<Tally> {
    let signs = ["packets_lost", "packets_duplicated", "packets_reordered", "packets_retransmitted"];
    let before = signs.map(|sign| packets(lab, sign));
    lab.ask(&json!({"do": "link", "loss": chance, "duplicate": chance, "reorder": chance, "seed": 1}))?;
    let tally = work(lab);
    lab.ask(&json!({"do": "link"}))?;
    let tally = tally?;
    for (sign, before) in signs.into_iter().zip(before) {
        ensure!(packets(lab, sign)? > before?, "{sign}: none");
    }
    Ok(tally)
}

/// Messages that a node has sent so far.
fn sent(lab: &Lab, node: u8) -> Result<u64> {
    report(lab, node)?["work_requests"].as_u64().context("the model's report counts no work requests")
}

/// Waits until a node has sent some messages more, while these commands run.
fn flows(lab: &mut Lab, node: u8, jobs: [&Job; 2]) -> Result<()> {
    let (first, until) = (sent(lab, node)?, Instant::now() + FLOW);
    while sent(lab, node)? < first + SOME {
        ensure!(Instant::now() < until, "node {node} sends nothing within {} s", FLOW.as_secs());
        for job in jobs {
            let ended = lab.look(job)?;
            ensure!(ended.is_none(), "on node {} the program ended: {ended:?}", job.node());
        }
    }
    Ok(())
}

/// A pair of ib_send_bw over XRC that sends from node 1 to node 2 for some seconds.
fn stream(lab: &mut Lab, scene: &Scene, seconds: u32) -> Result<(Job, Job)> {
    let command = format!("ib_send_bw -c XRC -d {} -D {seconds} -F", lab.device.verbs_name());
    let start = |lab: &Lab, node: u8, argv: Vec<OsString>, name: &str| -> Result<Job> {
        let log = scene.log(name)?;
        let job = lab.start_on(node, argv, Box::new(log.try_clone()?), Box::new(log))?;
        job.end_input()?;
        Ok(job)
    };
    let server = start(lab, 2, words(&command), "server")?;
    Ready::Tcp(PORT).wait_for(lab, &server)?;
    let peer = lab.variable_on(1, "PEER_ADDR")?;
    let client = start(lab, 1, words(&format!("{command} {peer}")), "client")?;
    Ok((server, client))
}

fn tail(scene: &Scene, name: &str) -> String {
    console::tail(&scene.dir.join(name), 15).unwrap_or_default()
}

fn frozen(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let (server, client) = stream(lab, scene, 20)?;
    flows(lab, 1, [&server, &client])?;
    lab.ask(&json!({"do": "freeze", "node": 2}))?;
    // Its device takes what it has buffers for; then nothing moves.
    sleep(FROZEN / 2);
    let still = sent(lab, 1)?;
    sleep(FROZEN / 2);
    let moved = sent(lab, 1)? - still;
    lab.ask(&json!({"do": "thaw", "node": 2}))?;
    ensure!(moved < SOME, "node 1 sent {moved} messages more to a node that was frozen");
    flows(lab, 1, [&server, &client])?;
    let endings = lab.wait_all(&[server, client], Some(scene.limit))?;
    ensure!(
        endings == [Ending::Exited(0); 2],
        "server and client ended so: {endings:?}\n{}\n{}",
        tail(scene, "server"),
        tail(scene, "client")
    );
    Ok(Tally::ONE)
}

fn killed(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let before = [(1, held(lab, 1)?)];
    let (server, client) = stream(lab, scene, 60)?;
    flows(lab, 1, [&server, &client])?;
    let with_traffic = held(lab, 2)?;
    lab.ask(&json!({"do": "kill", "node": 2}))?;
    ensure!(lab.wait(&server, Some(scene.limit))? == Ending::Killed, "the server was not killed");

    // IBV_WC_RETRY_EXC_ERR: the peer did not answer, however often it was asked.
    let ending = lab.wait(&client, Some(scene.limit))?;
    let said = scene.text("client");
    ensure!(
        matches!(ending, Ending::Exited(1..)) && said.contains("Failed status 12"),
        "the client of a node that is gone ended so: {ending:?}\n{}",
        tail(scene, "client")
    );
    lab.check()?;
    settled(lab, &before)?;

    let gone = report(lab, 2)?;
    let drop = gone["drops"].as_array().and_then(|drops| drops.last()).context("the report has no drop")?;
    ensure!(drop["cause"] == "gone", "the report says of the node: {drop:#}");
    ensure!(
        drop["counts"]["qp"].is_u64() && drop["counts"] == with_traffic,
        "it held {with_traffic}, the report says {}",
        drop["counts"]
    );
    let nothing = gone["held"]["counts"].as_object().is_some_and(serde_json::Map::is_empty);
    ensure!(nothing && gone["held"]["pages"] == 0, "it is said to hold {:#}", gone["held"]);
    Ok(Tally::ONE)
}

/// One message from each node to each, itself included; the program checks every one of them.
fn all_to_all(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let count = lab.count();
    let program = scene.paths.built("examples").join("xrc_all_to_all").into_os_string();
    let name = |node: u8| format!("node-{node}");
    let mut jobs = Vec::new();
    for node in 1..=count {
        let argv = vec![program.clone(), "-d".into(), lab.device.verbs_name().into()];
        let log = scene.log(&name(node))?;
        let job = lab.start_on(node, argv, Box::new(log.try_clone()?), Box::new(log))?;
        job.end_input()?;
        jobs.push(job);
    }
    let endings = lab.wait_all(&jobs, Some(scene.limit))?;
    for (node, ending) in (1..).zip(endings) {
        let said = scene.text(&name(node));
        let done = format!("node {node} of {count}: {count} sent, {count} received, all as they should be");
        ensure!(ending == Ending::Exited(0) && said.contains(&done), "node {node}: {ending:?}\n{said}");
        let from = |peer: u8| said.matches(&format!("from node {peer}: ")).count();
        ensure!((1..=count).all(|peer| from(peer) == 1), "node {node} did not hear of each once:\n{said}");
    }
    Ok(Tally { passed: u32::from(count) * u32::from(count), ..Tally::default() })
}

/// ib_send_bw over XRC between all ordered pairs of nodes. In each round every node serves one peer and is the client
/// of another.
fn each_to_each(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let count = lab.count();
    let until = Instant::now() + scene.limit;
    let command = format!("ib_send_bw -c XRC -d {} -n {ITERATIONS} -F", lab.device.verbs_name());
    for distance in 1..count {
        let start = |lab: &Lab, node: u8, line: &str, side: &str| -> Result<(String, Job)> {
            let name = format!("round-{distance}-{side}-{node}");
            let log = scene.log(&name)?;
            let job = lab.start_on(node, words(line), Box::new(log.try_clone()?), Box::new(log))?;
            job.end_input()?;
            Ok((name, job))
        };
        let mut sides = Vec::new();
        for node in 1..=count {
            sides.push(start(lab, node, &command, "server")?);
        }
        for (_, server) in &sides {
            Ready::Tcp(PORT).wait_for(lab, server)?;
        }
        for node in 1..=count {
            let peer = Node::address((node - 1 + distance) % count + 1);
            sides.push(start(lab, node, &format!("{command} {peer}"), "client")?);
        }
        let (names, jobs): (Vec<_>, Vec<_>) = sides.into_iter().unzip();
        let endings = lab.wait_all(&jobs, Some(until.saturating_duration_since(Instant::now())))?;
        for (name, ending) in names.iter().zip(endings) {
            ensure!(ending == Ending::Exited(0), "{name} ended so: {ending:?}\n{}", tail(scene, name));
            let shown = name.contains("server") || tools::has_row(&scene.text(name), ITERATIONS);
            ensure!(shown, "{name} shows no {ITERATIONS} messages:\n{}", tail(scene, name));
        }
    }
    Ok(Tally { passed: u32::from(count) * u32::from(count - 1), ..Tally::default() })
}

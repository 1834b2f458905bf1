//! The Rust crate's own device tests: built on the host, run in the guest, one program after the other.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::host::test_results;
use super::{Scene, Tally, Test, opened};
use crate::console;
use crate::lab::{Ending, Lab};
use crate::paths::Paths;
use crate::proc::{capture, run_logged};
use crate::report::{Step, out};
use crate::verbs::{build_examples, latency};

/// How these tests' names begin.
pub const PREFIX: &str = "crate/";

const LOOPBACK: &str = "127.0.0.1";
const BUILD_LIMIT: Duration = Duration::from_secs(1500);

/// Builds what these tests run in the guest, before the guest is up: it would only wait.
pub fn build(paths: &Paths) -> Result<()> {
    build_examples(paths)?;
    let step = Step::begin("building the device tests");
    test_programs(paths)?;
    step.done();
    Ok(())
}

pub fn tests() -> Vec<Test> {
    vec![
        Test::guest("crate/device tests", 300, device_tests),
        Test::guest("crate/devinfo", 60, devinfo),
        Test::guest("crate/xrc_send_lat", 120, send_lat),
        Test::guest("crate/xrc_all_to_all", 180, all_to_all),
    ]
}

/// The test programs of the workspace's library and test targets, built and not run.
fn test_programs(paths: &Paths) -> Result<Vec<(String, PathBuf)>> {
    let mut command = paths.cargo();
    command.args(["test", "--no-run", "--lib", "--tests", "--message-format=json-render-diagnostics"]);
    let log = paths.lab.join("tests-build.log");
    run_logged(&mut command, &mut File::create(&log)?, BUILD_LIMIT, None)?;
    let mut programs = Vec::new();
    for line in console::read(&log).lines().filter(|line| line.starts_with('{')) {
        let message: serde_json::Value = serde_json::from_str(line).context("cargo's messages")?;
        let (Some(program), Some(name)) =
            (message["executable"].as_str(), message["target"]["name"].as_str())
        else {
            continue;
        };
        if message["profile"]["test"] == true {
            programs.push((name.to_owned(), program.into()));
        }
    }
    Ok(programs)
}

/// `cargo test -- --ignored` with a device. Every test that is listed must have run and passed.
fn device_tests(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let mut all = Tally::default();
    let before = opened::held(lab)?;
    for (name, program) in test_programs(scene.paths)? {
        let mut list = std::process::Command::new(&program);
        let listed = capture(list.args(["--ignored", "--list"]), Duration::from_secs(60))?;
        let listed = listed.lines().filter(|line| line.ends_with(": test")).count() as u32;
        if listed == 0 {
            continue;
        }
        let log = scene.log(&name)?;
        // One at a time: several of them count what the device holds.
        let argv = vec![program.into_os_string(), "--ignored".into(), "--test-threads=1".into()];
        let job = lab.start_in(argv, &scene.paths.project, Box::new(log.try_clone()?), Box::new(log))?;
        job.end_input()?;
        let ending = lab.wait(&job, Some(scene.limit))?;
        let tail = console::tail(&scene.dir.join(&name), 25)?;
        let results = test_results(&scene.text(&name));
        let counts =
            results.first().with_context(|| format!("{name} did not end well ({ending:?}):\n{tail}"))?;
        let ran = counts.passed + counts.failed;
        ensure!(ran == listed, "{name}: {listed} device tests are listed, {ran} ran:\n{tail}");
        ensure!(ending == Ending::Exited(0) || counts.failed > 0, "{name}: {ending:?}\n{tail}");
        if counts.failed > 0 {
            out!("         {name}:");
            tail.lines().for_each(|line| out!("         {line}"));
        }
        all.add(Tally { passed: counts.passed, failed: counts.failed, skipped: Vec::new() });
    }
    ensure!(all.passed + all.failed > 0, "there is no device test");
    opened::returns_to(lab, &before)?;
    Ok(all)
}

fn devinfo(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let program = scene.paths.built("examples").join("devinfo");
    let job = lab.start(vec![program.into()], Box::new(scene.log("out")?), Box::new(scene.log("err")?))?;
    job.end_input()?;
    let ending = lab.wait(&job, Some(scene.limit))?;
    let out = scene.text("out");
    ensure!(ending == Ending::Exited(0), "{ending:?}\n{}", scene.text("err"));
    let device = lab.device.verbs_name();
    let shown =
        out.lines().any(|line| line.contains(device) && line.contains("driver") && line.contains("XRC: yes"));
    ensure!(shown, "no line names {device}, its driver and \"XRC: yes\":\n{out}");
    Ok(Tally::ONE)
}

pub fn send_lat(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let (out, err) = (scene.log("client")?, scene.log("client-errors")?);
    let endings = latency(lab, scene.log("server")?, Box::new(out), Box::new(err), scene.limit)?;
    let said = || format!("{}{}", scene.text("client-errors"), scene.text("server"));
    ensure!(endings.iter().all(|ending| *ending == Ending::Exited(0)), "{endings:?}\n{}", said());
    let table = scene.text("client");
    ensure!(has_row(&table), "the table has no row for 2 bytes:\n{table}");
    Ok(Tally::ONE)
}

/// Four nodes of it in one guest.
fn all_to_all(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    const NODES: usize = 4;
    let program = scene.paths.built("examples").join("xrc_all_to_all");
    let mut jobs = Vec::new();
    for node in 1..=NODES {
        let (node, nodes) = (node.to_string(), NODES.to_string());
        let options = ["-d", lab.device.verbs_name(), "--node", &node, "--nodes", &nodes];
        let words = options.into_iter().chain([LOOPBACK; NODES]).map(Into::into);
        let argv: Vec<OsString> = std::iter::once(program.clone().into()).chain(words).collect();
        let log = scene.log(&format!("node-{node}"))?;
        let job = lab.start(argv, Box::new(log.try_clone()?), Box::new(log))?;
        job.end_input()?;
        jobs.push(job);
    }
    let endings = lab.wait_all(&jobs, Some(scene.limit))?;
    for (ending, node) in endings.into_iter().zip(1..) {
        let said = scene.text(&format!("node-{node}"));
        let sign = format!("node {node} of {NODES}: {NODES} sent, {NODES} received");
        ensure!(ending == Ending::Exited(0) && said.contains(&sign), "node {node}: {ending:?}\n{said}");
    }
    Ok(Tally::ONE)
}

/// A row for 2 bytes and at least 1,000 iterations.
fn has_row(table: &str) -> bool {
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.len() >= 9 && fields[0] == "2" && fields[1].parse::<u64>().is_ok_and(|count| count >= 1000)
    })
}

#[cfg(test)]
mod tests {
    use super::has_row;

    #[test]
    fn the_row_for_two_bytes() {
        assert!(has_row(" #bytes ...\n 2       1000          1.00 2.00 1.5 1.6 0.1 1.9 2.0\n"));
        assert!(!has_row(" 2       999          1.00 2.00 1.5 1.6 0.1 1.9 2.0\n"));
    }
}

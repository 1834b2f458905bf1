//! A guest that writes what it likes, to the device and to the lab, while another works: what the fuzz targets play, by
//! real guests.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::fabric::report;
use super::tools::words;
use super::{Scene, Tally, Test, compiled};
use crate::console;
use crate::device::Node;
use crate::lab::{Ending, Lab};
use crate::link::Job;
use crate::machine;
use crate::pair::{self, Ready, Side};
use crate::report::out;

/// The node that is hostile, and the one that works meanwhile.
const HOSTILE: u8 = 1;
const OTHER: u8 = 2;
/// What its noise is made of.
const SEED: &str = "0x5eed2bad";
/// How long it lasts at least.
const LASTS: Duration = Duration::from_secs(5);
/// What the other does meanwhile, so often at least.
const ROUNDS: u32 = 3;
/// How long one such round may take.
const ROUND: Duration = Duration::from_secs(60);
/// How long a program may take to begin or to end.
const SOON: Duration = Duration::from_secs(60);
/// Garbage for the control port, in bytes.
const GARBAGE: u32 = 4 << 20;
/// The port of the ping-pong program.
const PORT: u16 = 18515;

pub fn tests() -> Vec<Test> {
    vec![
        Test::fabric("two nodes: one floods the lab", 2, 300, floods),
        Test::fabric("two nodes: one writes noise into its device", 2, 300, noise),
    ]
}

/// Starts a line of shell on the hostile node; `$0` is the program.
fn start(lab: &Lab, scene: &Scene, name: &str, line: &str, program: &str) -> Result<Job> {
    let log = scene.log(name)?;
    let argv = ["/bin/sh", "-c", line, program, SEED].map(Into::into).into();
    lab.start_on(HOSTILE, argv, Box::new(log.try_clone()?), Box::new(log))
}

/// Runs a line of shell on the hostile node to its good end.
fn shell(lab: &mut Lab, scene: &Scene, name: &str, line: &str) -> Result<()> {
    let job = start(lab, scene, name, line, "sh")?;
    job.end_input()?;
    ended_well(lab, scene, name, &job)
}

fn ended_well(lab: &mut Lab, scene: &Scene, name: &str, job: &Job) -> Result<()> {
    let ending = lab.wait(job, Some(SOON))?;
    ensure!(
        ending == Ending::Exited(0),
        "{name} on node {} ended so: {ending:?}\n{}",
        job.node(),
        scene.text(name)
    );
    Ok(())
}

/// ibv_xsrq_pingpong within one node.
fn pingpong(lab: &mut Lab, scene: &Scene, node: u8) -> Result<()> {
    let command = format!("ibv_xsrq_pingpong -d {}", lab.device.verbs_name());
    let side = |name: &str, line: &str| -> Result<Side> {
        let log = scene.log(name)?;
        Ok(Side { node, argv: words(line), out: Box::new(log.try_clone()?), err: Box::new(log) })
    };
    let names = [format!("server-{node}"), format!("client-{node}")];
    let server = side(&names[0], &command)?;
    let client = side(&names[1], &format!("{command} {}", Node::address(node)))?;
    let endings = pair::run(lab, server, vec![client], Ready::Tcp(PORT), ROUND)?;
    for (name, ending) in names.iter().zip(endings) {
        let said = scene.text(name);
        let shown = said.lines().any(|line| line.starts_with("success"));
        ensure!(ending == Ending::Exited(0) && shown, "{name} ended so: {ending:?}\n{said}");
    }
    Ok(())
}

/// Lets the other node work as long as these programs rage, which end when their input does.
fn meanwhile(lab: &mut Lab, scene: &Scene, raging: &[(&str, Job)]) -> Result<u32> {
    let until = Instant::now() + SOON;
    for (name, job) in raging {
        while !scene.text(name).contains("begun") {
            let gone = lab.look(job)?;
            ensure!(gone.is_none() && Instant::now() < until, "{name}: {gone:?}: {}", scene.text(name));
        }
    }
    let (began, mut rounds) = (Instant::now(), 0);
    while rounds < ROUNDS || began.elapsed() < LASTS {
        pingpong(lab, scene, OTHER).with_context(|| format!("node {OTHER}, round {rounds}"))?;
        rounds += 1;
        lab.ask(&json!({"do": "held"})).context("the device model")?;
        for (name, job) in raging {
            let gone = lab.look(job)?;
            ensure!(gone.is_none(), "{name} ended too soon: {gone:?}\n{}", scene.text(name));
        }
    }
    for (name, job) in raging {
        job.end_input()?;
        ended_well(lab, scene, name, job)?;
        let said = scene.text(name);
        out!("         {name}: {}", said.lines().last().unwrap_or_default());
    }
    out!("         meanwhile {rounds} rounds on node {OTHER} in {:.1} s", began.elapsed().as_secs_f64());
    Ok(rounds)
}

/// A number of the model's report on a node.
fn number(report: &Value, what: &str) -> Result<u64> {
    report[what].as_u64().with_context(|| format!("the model's report has no {what}"))
}

/// What a sound driver and sound programs never cause.
const UNSOUND: [&str; 4] = ["bad_deliveries", "stray_doorbells", "dma_faults", "events_lost"];

/// Requires that the other node caused nothing unsound.
fn other_is_sound(lab: &Lab, before: &Value) -> Result<()> {
    let now = report(lab, OTHER)?;
    for what in UNSOUND {
        let (was, is) = (number(before, what)?, number(&now, what)?);
        ensure!(was == is, "of node {OTHER} the model counts {is} {what}, before {was}");
    }
    Ok(())
}

/// Not even the hostile guest's kernel has a reason to complain: it has no driver on what was written to.
fn no_complaints(lab: &Lab) -> Result<()> {
    for node in Node::all(lab.count()) {
        let log = console::read_whole(&lab.run.file(&machine::console_log(node)))?;
        let complaints = console::kernel_complaints(&log);
        ensure!(complaints.is_empty(), "node {}: {}", node.number, complaints.join("\n"));
    }
    Ok(())
}

/// Takes the driver off the device, and says where the device is.
const UNBIND: &str = "set -e
    device=$(readlink -f \"/sys/class/infiniband/$RDMA_XRC_DEVICE/device\")
    echo \"${device##*/}\" > \"$device/driver/unbind\"
    echo \"$device\"";

fn noise(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let program = compiled::program(scene, "hostile", &[])?;
    let before = [report(lab, HOSTILE)?, report(lab, OTHER)?];
    shell(lab, scene, "unbind", UNBIND)?;
    let device = scene.text("unbind").trim().to_owned();
    let line = format!("exec \"$0\" '{device}' \"$1\"");
    let hostile = start(lab, scene, "noise", &line, &program.to_string_lossy())?;
    meanwhile(lab, scene, &[("noise", hostile)])?;
    other_is_sound(lab, &before[1])?;

    let after = report(lab, HOSTILE)?;
    for what in ["bad_deliveries", "stray_doorbells"] {
        ensure!(number(&after, what)? > number(&before[0], what)?, "the noise caused no {what}");
    }
    let said = scene.text("noise");
    ensure!(!said.contains(" answered 0 commands"), "no command came as far as the device: {said}");

    // The kernel finds the function anew, with its registers as they were left, and its driver takes it.
    let line = format!(
        "echo 1 > '{device}/remove'; echo 1 > /sys/bus/pci/rescan
         until ibv_devinfo -d \"$RDMA_XRC_DEVICE\" | grep PORT_ACTIVE; do sleep 0.2; done"
    );
    shell(lab, scene, "again", &line)?;
    for node in [HOSTILE, OTHER] {
        pingpong(lab, scene, node).with_context(|| format!("node {node}, after the noise"))?;
    }
    let removed = number(&report(lab, HOSTILE)?, "unclean_removal_count")?;
    ensure!(removed == number(&before[0], "unclean_removal_count")?, "the driver left something behind");
    no_complaints(lab)?;
    Ok(Tally::ONE)
}

/// Noise into the control port, first by one who reads no answer, then by one who does. After each comes a question,
/// which gets its answer whatever was there before it.
const TALK: &str = "set -e
    timeout 3 cat /dev/urandom > \"$RDMA_XRC_CONTROL\" || [ $? = 124 ]
    \"$RDMA_XRC_LAB\" control held --node \"$NODE\" | grep -m 1 counts
    echo begun
    exec 3<> \"$RDMA_XRC_CONTROL\"
    cat <&3 > /dev/null 3>&- &
    head -c \"$1\" /dev/urandom >&3
    kill $!
    exec 3>&-
    wait
    read -r line || true
    \"$RDMA_XRC_LAB\" control held --node \"$NODE\" | grep -m 1 counts
    echo answered";

fn floods(lab: &mut Lab, scene: &Scene) -> Result<Tally> {
    let program = compiled::program(scene, "flood", &[])?;
    let before = report(lab, OTHER)?;
    let line = "for path in /sys/class/net/eth*; do exec \"$0\" \"${path##*/}\" \"$1\"; done";
    let ethernet = start(lab, scene, "ethernet", line, &program.to_string_lossy())?;
    let talk = TALK.replace("\"$1\"", &GARBAGE.to_string());
    let control = start(lab, scene, "control", &talk, "sh")?;
    meanwhile(lab, scene, &[("ethernet", ethernet), ("control", control)])?;
    ensure!(!scene.text("ethernet").contains("sent 0 frames"), "nothing was flooded");
    other_is_sound(lab, &before)?;
    pingpong(lab, scene, HOSTILE).context("the node that flooded")?;
    no_complaints(lab)?;
    Ok(Tally::ONE)
}

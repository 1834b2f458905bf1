//! `ci/lab demo`: real XRC traffic between two processes, as a latency table.

use std::ffi::OsString;
use std::fs::File;
use std::io::{stderr, stdout};
use std::time::Duration;

use anyhow::{Result, bail};

use super::{COMMAND_LIMIT, status};
use crate::cli::Common;
use crate::console;
use crate::lab::{Ending, Lab, with_guests};
use crate::link::{Sink, own};
use crate::pair::{self, Ready, Side};
use crate::paths::Paths;
use crate::proc::run_logged;
use crate::report::{Step, say};

const BUILD_LIMIT: Duration = Duration::from_secs(1500);
/// Where xrc_send_lat's two sides meet, as with the C tools.
const PORT: u16 = 18515;
const ITERATIONS: &str = "1000";

pub fn demo(paths: &Paths, common: &Common) -> Result<i32> {
    // First what the machine lacks: the examples need the verbs headers.
    crate::host::prepare(paths, &common.versions(), common.accel)?;
    build_examples(paths)?;
    let what = if common.guests == 1 { "a guest".to_owned() } else { format!("{} guests", common.guests) };
    say(&format!("booting {what} with a software {} device ...", common.device.name()));
    with_guests(paths, common, &[], |lab| show(lab, common))
}

/// Builds the programs that the demo and some tests run.
pub fn build_examples(paths: &Paths) -> Result<()> {
    let mut command = paths.cargo();
    command.args(["build", "--release", "--examples"]);
    let mut log = File::create(paths.lab.join("examples-build.log"))?;
    let step = Step::begin("building the examples");
    run_logged(&mut command, &mut log, BUILD_LIMIT, Some(&step))?;
    step.done();
    Ok(())
}

fn show(lab: &mut Lab, common: &Common) -> Result<i32> {
    let device = lab.device.verbs_name();
    say(&format!(
        "Linux {} with {}; the same commands work on a cluster:",
        lab.release,
        lab.ground.accel.name()
    ));
    let limit = common.limit(Some(COMMAND_LIMIT));
    let program = |lab: &Lab, name: &str| lab.paths.built("examples").join(name).into_os_string();

    say(&format!("$ devinfo -d {device}"));
    let argv = vec![program(lab, "devinfo"), "-d".into(), device.into()];
    let job = lab.start(argv, own(stdout())?, own(stderr())?)?;
    job.end_input()?;
    match lab.wait(&job, limit)? {
        Ending::Exited(0) => {}
        ending => return status(ending, limit),
    }

    let flags = latency_flags(device).join(" ");
    if lab.count() == 1 {
        say(&format!("$ xrc_send_lat {flags} & xrc_send_lat {flags} $PEER_ADDR"));
    } else {
        say(&format!("node 1$ xrc_send_lat {flags}"));
        say(&format!("node 2$ xrc_send_lat {flags} $PEER_ADDR"));
    }
    let longest = limit.unwrap_or(Duration::from_secs(u64::from(u32::MAX)));
    let log = lab.run.log("server.log")?;
    let endings = latency(lab, log, own(stdout())?, own(stderr())?, longest)?;
    match endings.as_slice() {
        [Ending::Exited(0), Ending::Exited(0)] => Ok(0),
        [Ending::Exited(0), client] => status(*client, limit),
        _ => {
            let said = console::tail(&lab.run.file("server.log"), 20)?;
            bail!("server and client ended so: {endings:?}. The server said:\n{said}")
        }
    }
}

fn latency_flags(device: &str) -> [&str; 4] {
    ["-d", device, "-n", ITERATIONS]
}

/// Runs xrc_send_lat between two processes: on nodes 1 and 2, or in the one guest that there is; the table is the client's output. The endings: the server's,
/// the client's.
pub fn latency(
    lab: &mut Lab,
    server_log: File,
    out: Sink,
    err: Sink,
    limit: Duration,
) -> Result<Vec<Ending>> {
    let program = lab.paths.built("examples").join("xrc_send_lat").into_os_string();
    let flags = latency_flags(lab.device.verbs_name()).map(Into::into);
    let argv: Vec<OsString> = std::iter::once(program).chain(flags).collect();
    let node = lab.count().min(2);
    let peer = lab.variable_on(node, "PEER_ADDR")?;
    let client = Side { node, argv: argv.iter().cloned().chain([peer.into()]).collect(), out, err };
    let server = Side { node: 1, argv, out: Box::new(server_log.try_clone()?), err: Box::new(server_log) };
    pair::run(lab, server, vec![client], Ready::Tcp(PORT), limit)
}

//! The software ConnectX: a process of ours that QEMU attaches as a vfio-user PCI device.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Node;
use crate::paths::{Paths, RunDir};
use crate::proc::{Process, run_logged, tail};
use crate::report::Step;
use crate::signals;

pub const VERBS_NAME: &str = "mlx5_0";
pub const BRING_UP: &str = include_str!("../../guest/mlx5.sh");
pub const TAKE_DOWN: &str = include_str!("../../guest/mlx5-down.sh");

/// The model's log in the run's folder.
pub const LOG: &str = "model.log";
/// Where the model takes orders, in the run's folder.
pub const CONTROL: &str = "model-control.sock";
/// What a driver left behind when it went, as the model saw it.
pub const LEAKS: &str = "leaks.json";

const PACKAGE: &str = "mlx5-model";
const BUILD_LIMIT: Duration = Duration::from_secs(1500);
const START_LIMIT: Duration = Duration::from_secs(20);

pub fn socket(node: Node) -> String {
    format!("mlx5-{}.sock", node.number)
}

pub fn build(paths: &Paths) -> Result<()> {
    let mut command = paths.cargo();
    command.args(["build", "--release", "-p", PACKAGE]);
    let mut log = std::fs::File::create(paths.lab.join("model-build.log"))?;
    if paths.built(PACKAGE).exists() {
        return run_logged(&mut command, &mut log, BUILD_LIMIT, None);
    }
    let step = Step::begin("building the software mlx5");
    run_logged(&mut command, &mut log, BUILD_LIMIT, Some(&step))?;
    step.done();
    Ok(())
}

pub fn start(paths: &Paths, run: &RunDir, count: u8) -> Result<Process> {
    let mut log = run.log(LOG)?;
    let mut command = Command::new(paths.built(PACKAGE));
    // Names relative to the run's folder keep the socket's address short enough wherever the clone lies.
    let sockets: Vec<String> = Node::all(count).map(socket).collect();
    command.current_dir(&run.path).args(["--leak-report", LEAKS, "--control", CONTROL]).args(&sockets);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    let mut process = Process::spawn(&mut command)?;
    process.name = "the device model".to_owned();
    let until = Instant::now() + START_LIMIT;
    while !sockets.iter().map(String::as_str).chain([CONTROL]).all(|name| run.file(name).exists()) {
        if let Some(status) = process.ended()? {
            bail!("the device model ended at once ({status}):\n{}", tail(&mut log, 20)?);
        }
        if Instant::now() > until {
            bail!(
                "the device model did not make its sockets in {} s:\n{}",
                START_LIMIT.as_secs(),
                tail(&mut log, 20)?
            );
        }
        signals::check()?;
        sleep(Duration::from_millis(10));
    }
    Ok(process)
}

pub fn attach(qemu: &mut Command, node: Node) {
    let socket = serde_json::json!({ "type": "unix", "path": socket(node) });
    let device = serde_json::json!({ "driver": "vfio-user-pci", "socket": socket });
    qemu.arg("-device").arg(device.to_string());
}

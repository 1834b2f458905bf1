//! Which accelerator a guest gets. A /dev/kvm that opens proves nothing: on some machines the guest then hangs before
//! it has unpacked its kernel. So a small guest is booted with a time limit, and the verdict kept until the machine
//! is started anew.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::initramfs;
use super::kernel::Kernel;
use super::qemu::Qemu;
use crate::guest::{BootConfig, PROBE_MARK};
use crate::paths::Paths;
use crate::proc::Process;
use crate::report::Step;

/// A guest that runs at all is in user space within a second or two.
const LIMIT: Duration = Duration::from_secs(12);
const DEVICE: &str = "/dev/kvm";

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Wish {
    /// KVM where a guest really boots with it, software emulation elsewhere
    Auto,
    Kvm,
    Tcg,
}

/// What the guest runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    Kvm,
    Tcg,
}

impl Accel {
    /// QEMU's options for it.
    pub fn arguments(self) -> [&'static str; 4] {
        match self {
            Accel::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Accel::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "max"],
        }
    }
}

/// What was found out, and for which machine, user and QEMU. Which kernel the guest has does not matter: where KVM
/// does not work, none of them gets as far as to user space.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    machine: String,
    pub works: bool,
    pub why: String,
}

fn file(paths: &Paths) -> PathBuf {
    paths.lab.join("kvm.json")
}

fn machine(qemu: &Qemu) -> Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let user = rustix::process::geteuid().as_raw();
    Ok(format!("{} {} {user}", boot.trim(), qemu.version))
}

/// The verdict that is on record for this machine.
pub fn recorded(paths: &Paths, qemu: &Qemu) -> Option<Verdict> {
    let verdict: Verdict = serde_json::from_slice(&fs::read(file(paths)).ok()?).ok()?;
    (verdict.machine == machine(qemu).ok()?).then_some(verdict)
}

/// Whether the last try in this clone, if there was one, got a guest up with KVM.
pub fn recorded_in(paths: &Paths) -> Option<bool> {
    let verdict: Verdict = serde_json::from_slice(&fs::read(file(paths)).ok()?).ok()?;
    Some(verdict.works)
}

/// Decides, trying KVM out if that was not done since the machine started.
pub fn choose(paths: &Paths, qemu: &Qemu, kernel: &Kernel, wish: Wish) -> Result<Accel> {
    match wish {
        Wish::Kvm => return Ok(Accel::Kvm),
        Wish::Tcg => return Ok(Accel::Tcg),
        Wish::Auto => {}
    }
    let verdict = match recorded(paths, qemu) {
        Some(verdict) => verdict,
        None => {
            let (works, why) = match try_out(paths, qemu, kernel) {
                Ok(why) => (true, why),
                Err(error) if error.is::<crate::signals::Interrupted>() => return Err(error),
                Err(error) => (false, format!("{error:#}")),
            };
            let verdict = Verdict { machine: machine(qemu)?, works, why };
            fs::write(file(paths), serde_json::to_vec_pretty(&verdict)?)?;
            verdict
        }
    };
    Ok(if verdict.works { Accel::Kvm } else { Accel::Tcg })
}

fn try_out(paths: &Paths, qemu: &Qemu, kernel: &Kernel) -> Result<String> {
    if !Path::new(DEVICE).exists() {
        bail!("there is no {DEVICE}");
    }
    OpenOptions::new().read(true).write(true).open(DEVICE).context(DEVICE)?;
    let mut step = Step::begin("trying a guest with KVM");
    let dir = tempfile::Builder::new().prefix(".kvm-").tempdir_in(&paths.lab)?;
    let initramfs = dir.path().join("initramfs");
    let config = BootConfig {
        probe: true,
        layer: false,
        modules: Vec::new(),
        shown: Vec::new(),
        run_dir: OsString::new(),
        hostname: String::new(),
    };
    initramfs::write(&initramfs, kernel, config)?;
    let console = dir.path().join("console");
    let mut command = qemu.command();
    command.args(Accel::Kvm.arguments()).args([
        "-machine",
        "pc",
        "-m",
        "256",
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
    ]);
    command.args(["-chardev", "file,id=console,path=console", "-serial", "chardev:console"]);
    command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&initramfs);
    command.args(["-append", "console=ttyS0 panic=-1 quiet"]).current_dir(dir.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let mut process = Process::spawn(&mut command)?;
    let seen = || fs::read_to_string(&console).is_ok_and(|text| text.contains(PROBE_MARK));
    let outcome = loop {
        if seen() {
            break Ok(format!("a guest reached user space in {:.1} s", began.elapsed().as_secs_f64()));
        }
        if let Some(status) = process.wait(Duration::from_millis(100))? {
            break if seen() { continue } else { Err(anyhow::anyhow!("QEMU ended with {status}")) };
        }
        if began.elapsed() > LIMIT {
            let limit = LIMIT.as_secs();
            break Err(anyhow::anyhow!("{DEVICE} opens, but a guest does not reach user space in {limit} s"));
        }
    };
    step.clear();
    outcome
}

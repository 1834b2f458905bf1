//! One run: the device, the guest on it, the commands in it, and the verdict on how it went.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGKILL, SIGTERM};

use crate::cli::Common;
use crate::console;
use crate::device::{self, Device, Node};
use crate::environment;
use crate::guest::BootConfig;
use crate::guest_view;
use crate::host::{self, Ground, initramfs};
use crate::link::{Job, Link, Sink};
use crate::machine;
use crate::paths::{FILES, Paths, RunDir, disarm};
use crate::proc::Process;
use crate::protocol::{Size, Start};
use crate::signals::{self, Interrupted};

/// How long a command may take to end once it was told to.
const GRACE: Duration = Duration::from_secs(3);
/// The same, and the guest's time for anything else, once the lab itself was told to stop.
const HASTE: Duration = Duration::from_secs(2);
/// How long the guest may take to answer when it has next to nothing to do.
const ANSWER: Duration = Duration::from_secs(20);
/// How long one look for the end of a command lasts.
const GLANCE: Duration = Duration::from_millis(50);
/// Lines of a log that an error shows.
const TAIL: usize = 25;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    TimedOut,
    Interrupted(Interrupted),
}

/// A guest that is up, with what belongs to it.
pub struct Lab {
    pub paths: Paths,
    pub device: Device,
    pub run: RunDir,
    pub ground: Ground,
    /// The guest's kernel.
    pub release: String,
    node: Node,
    link: Link,
    qemu: Process,
    model: Option<Process>,
    /// It was found to answer no more.
    hangs: bool,
}

/// Boots a guest, gives it to `work`, switches it off and judges the run. The number is a status for the shell: that
/// of `work`, unless the kernel or the model complained. What they complained about is said before anything else.
/// `argv` is a command whose words may name files that the guest must see.
pub fn with_guest(
    paths: &Paths,
    common: &Common,
    argv: &[OsString],
    work: impl FnOnce(&mut Lab) -> Result<i32>,
) -> Result<i32> {
    let ground = host::prepare(paths, &common.versions(), common.accel)?;
    let run = RunDir::create(paths)?;
    with_guest_in(paths, common, ground, run, argv, work)
}

/// The same, on ground that is prepared already and in a folder that is there already.
pub fn with_guest_in(
    paths: &Paths,
    common: &Common,
    ground: Ground,
    run: RunDir,
    argv: &[OsString],
    work: impl FnOnce(&mut Lab) -> Result<i32>,
) -> Result<i32> {
    if !common.no_build {
        common.device.build(paths)?;
    }
    let folder = run.path.clone();
    let (outcome, node) = match Lab::boot(paths, common, ground, run, argv) {
        Ok(mut lab) => {
            let outcome = work(&mut lab);
            let node = lab.node;
            lab.switch_off();
            (outcome, node)
        }
        Err(error) => (Err(error), Node::ALONE),
    };
    // What only this boot could use; the logs stay.
    for name in [machine::initramfs(node), machine::agent_socket(node), common.device.socket(node)] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let mut complaints = complaints(&folder, node, outcome.is_ok());
    if let Err(error) = disarm(&folder.join(FILES)) {
        complaints.push(("the lab", format!("what the guest left can't be made harmless: {error}")));
    }
    for (who, text) in &complaints {
        crate::report::quote(&format!("{who} complained:"), text);
    }
    let logs = format!("logs in {}", folder.display());
    match outcome {
        Err(error) if error.is::<Interrupted>() => Err(error),
        Err(error) => bail!("{error:#}\n{logs}"),
        Ok(status) if complaints.is_empty() => Ok(status),
        Ok(status) => bail!(
            "the command's own status was {status}, but the run failed: {} complaint(s), shown above\n{logs}",
            complaints.len()
        ),
    }
}

/// What the kernel and the model complained about, and who did. After a guest that was `up` their logs must be there:
/// without them nobody knows.
fn complaints(run: &Path, node: Node, up: bool) -> Vec<(&'static str, String)> {
    type Find = fn(&str) -> Vec<String>;
    let logs: [(_, _, Find); 2] = [
        (machine::console_log(node), "the guest's kernel", console::kernel_complaints),
        (device::MODEL_LOG.to_owned(), "the device model", console::panics),
    ];
    let mut all = Vec::new();
    for (name, who, find) in logs {
        match console::read_whole(&run.join(&name)) {
            Ok(log) => all.extend(find(&log).into_iter().map(|text| (who, text))),
            Err(error) if up => all.push(("the lab", format!("{name} can't be read: {error}"))),
            // A boot that failed early has an error of its own.
            Err(_) => {}
        }
    }
    all
}

impl Lab {
    fn boot(paths: &Paths, common: &Common, ground: Ground, run: RunDir, argv: &[OsString]) -> Result<Lab> {
        let (device, node) = (common.device, Node::ALONE);
        let until = Instant::now() + common.boot_limit();
        let mut step = crate::report::Step::on_terminal("booting the guest");
        let named: Vec<OsString> = argv.iter().cloned().chain([ground.kernel.root.clone().into()]).collect();
        let config = BootConfig {
            probe: false,
            layer: ground.rdma_core.root.is_some(),
            modules: Vec::new(),
            shown: guest_view::shown(paths, &std::env::current_dir()?, &named)
                .into_iter()
                .map(Into::into)
                .collect(),
            run_dir: run.files().into(),
            hostname: format!("node{}", node.number),
        };
        initramfs::write(&run.file(&machine::initramfs(node)), &ground.kernel, config)?;
        let model = device.start(paths, &run)?;
        let mut qemu = machine::start(&ground, device, &run, node)?;
        let (link, hello) = loop {
            match Link::connect(&run.path, &machine::agent_socket(node)) {
                Ok(connected) => break connected,
                Err(error) => {
                    if qemu.ended()?.is_some() || Instant::now() > until {
                        let said = console::tail(&run.file(&machine::qemu_log(node)), TAIL)?;
                        return Err(error.context(format!("QEMU does not start:\n{said}")));
                    }
                }
            }
            signals::check()?;
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut lab = Lab {
            paths: paths.clone(),
            device,
            run,
            ground,
            release: String::new(),
            node,
            link,
            qemu,
            model,
            hangs: false,
        };
        lab.release = loop {
            if let Ok(release) = hello.recv_timeout(GLANCE) {
                break release;
            }
            lab.check()?;
            signals::check()?;
            if Instant::now() > until {
                bail!(
                    "the guest was not up after {} s. {}",
                    common.boot_limit().as_secs(),
                    lab.console_tail()
                );
            }
        };
        step.at("bringing up the device");
        lab.bring_up(until)?;
        step.clear();
        Ok(lab)
    }

    fn bring_up(&mut self, until: Instant) -> Result<()> {
        let (script, arguments) = self.device.bring_up(&self.ground.kernel.root, self.node);
        let mut argv: Vec<OsString> = ["/bin/sh", "-c", script, "bring-up"].map(Into::into).into();
        argv.extend(arguments);
        let log = self.run.log("bring-up.log")?;
        let job = self.start_in(argv, Path::new("/"), Box::new(log.try_clone()?), Box::new(log))?;
        job.end_input()?;
        match self.wait(&job, Some(until.saturating_duration_since(Instant::now())))? {
            Ending::Exited(0) => Ok(()),
            Ending::Interrupted(signal) => Err(signal.into()),
            ending => {
                let said = console::tail(&self.run.file("bring-up.log"), TAIL)?;
                bail!(
                    "the device does not come up in the guest ({ending:?}):\n{said}\n{}",
                    self.console_tail()
                )
            }
        }
    }

    /// The environment of a command.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        environment::for_guest(std::env::vars_os(), &self.device.variables(self.node, &self.run))
    }

    /// What a command finds in its environment under one of the lab's own names.
    pub fn variable(&self, name: &str) -> Result<String> {
        let all = self.device.variables(self.node, &self.run);
        let found = all.into_iter().find(|(known, _)| known == name);
        let value = found.with_context(|| format!("the lab sets no {name}"))?.1;
        value
            .into_string()
            .map_err(|value| anyhow::anyhow!("{name} is not text: {}", value.to_string_lossy()))
    }

    /// Starts a command in the caller's directory.
    pub fn start(&self, argv: Vec<OsString>, out: Sink, err: Sink) -> Result<Job> {
        self.start_in(argv, &std::env::current_dir()?, out, err)
    }

    /// Starts a command in a directory of the host's.
    pub fn start_in(&self, argv: Vec<OsString>, cwd: &Path, out: Sink, err: Sink) -> Result<Job> {
        let start = Start { argv, env: self.environment(), cwd: cwd.into(), terminal: None };
        self.link.start(start, out, err)
    }

    /// Starts a command on a terminal of its own.
    pub fn start_on_terminal(&self, argv: Vec<OsString>, size: Size, out: Sink) -> Result<Job> {
        let cwd = std::env::current_dir()?.into();
        let start = Start { argv, env: self.environment(), cwd, terminal: Some(size) };
        self.link.start(start, out, Box::new(std::io::sink()))
    }

    /// Waits for a command's end, hears Ctrl-C, and notices when the guest or the model dies meanwhile.
    pub fn wait(&mut self, job: &Job, limit: Option<Duration>) -> Result<Ending> {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            if let Some(status) = self.look(job)? {
                return Ok(Ending::Exited(status));
            }
            if let Some(signal) = signals::pending() {
                self.end(job, signal.0)?;
                return Ok(Ending::Interrupted(signal));
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                self.end(job, SIGTERM)?;
                return Ok(Ending::TimedOut);
            }
        }
    }

    /// Looks once, for a moment, whether a command has ended; an error if it can't end well any more.
    pub fn look(&mut self, job: &Job) -> Result<Option<i32>> {
        match job.ended(GLANCE) {
            Ok(None) => self.check().map(|()| None),
            Ok(ended) => Ok(ended),
            Err(error) => {
                // Who died says more than that somebody did; give the processes a moment to be dead.
                std::thread::sleep(Duration::from_millis(300));
                self.check()?;
                Err(error)
            }
        }
    }

    /// Ends a command, gently first. Whoever told the lab to stop does not wait for long, and hears of nothing else.
    pub fn end(&mut self, job: &Job, signal: i32) -> Result<()> {
        let ended = self.try_end(job, signal);
        ended.map_err(|error| signals::pending().map_or(error, Into::into))
    }

    fn try_end(&mut self, job: &Job, signal: i32) -> Result<()> {
        for (signal, patience) in [(signal, GRACE), (SIGKILL, ANSWER)] {
            job.signal(signal)?;
            if signal == SIGKILL {
                // It may also be that nobody reads what it wrote.
                job.abandon()?;
            }
            let began = Instant::now();
            while began.elapsed() < signals::pending().map_or(patience, |_| patience.min(HASTE)) {
                if self.look(job)?.is_some() {
                    return Ok(());
                }
            }
        }
        self.hangs = true;
        bail!("the guest hangs: it does not end a command that was killed. {}", self.console_tail())
    }

    /// An error if the guest or the model has died.
    pub fn check(&mut self) -> Result<()> {
        if let Some(model) = &mut self.model {
            if let Some(status) = model.ended()? {
                let said = console::tail(&self.run.file(device::MODEL_LOG), TAIL)?;
                bail!("{} ended while the guest ran ({status}):\n{said}", model.name);
            }
        }
        if let Some(status) = self.qemu.ended()? {
            let said = console::tail(&self.run.file(&machine::qemu_log(self.node)), 5)?;
            bail!(
                "the guest ended ({} ended with {status}). {}\n{said}",
                self.qemu.name,
                self.console_tail()
            );
        }
        Ok(())
    }

    fn console_tail(&self) -> String {
        let log = self.run.file(&machine::console_log(self.node));
        let tail = console::tail(&log, TAIL).unwrap_or_default();
        if tail.is_empty() {
            "Its console is empty.".to_owned()
        } else {
            format!("Its console's last lines:\n{tail}")
        }
    }

    /// Lets the guest write back what it holds, then ends it and the model.
    fn switch_off(&mut self) {
        let patience = signals::pending().map_or(ANSWER, |_| HASTE);
        if matches!(self.check(), Ok(())) && !self.hangs && !self.link.sync(patience) {
            crate::report::say(&format!("the guest does not answer any more. {}", self.console_tail()));
        }
        self.qemu.kill();
        if let Some(model) = &mut self.model {
            // It ends by itself when its guest is gone, with its report written.
            let _ = model.wait(GRACE);
            model.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_that_are_missing_are_complaints() {
        let dir = tempfile::tempdir().unwrap();
        let judged = |up| complaints(dir.path(), Node::ALONE, up);
        assert_eq!((judged(true).len(), judged(false).len()), (2, 0));
        for name in [machine::console_log(Node::ALONE), device::MODEL_LOG.to_owned()] {
            std::fs::write(dir.path().join(name), "Kernel panic\nthread panicked at a.rs:1\n").unwrap();
        }
        let who: Vec<_> = judged(true).into_iter().map(|(who, _)| who).collect();
        assert_eq!(who, ["the guest's kernel", "the device model"]);
        for name in [machine::console_log(Node::ALONE), device::MODEL_LOG.to_owned()] {
            std::fs::write(dir.path().join(name), "fine\n").unwrap();
        }
        assert!(judged(true).is_empty());
    }
}

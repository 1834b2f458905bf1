//! One run: the device, the guests on it, the commands in them, and the verdict on how it went.

mod watch;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use serde_json::{Value, json};

use crate::cli::Common;
use crate::console;
use crate::control::{Broker, Power, SOCKET};
use crate::device::{self, Device, MODEL_CONTROL, Node};
use crate::ethernet::Switch;
use crate::guest_view;
use crate::host::{self, Ground};
use crate::link::{Job, Sink};
use crate::machine;
use crate::node::{Guest, Starting};
use crate::paths::{FILES, Paths, RunDir, disarm};
use crate::proc::Process;
use crate::protocol::Size;
use crate::signals::{self, Interrupted};
use crate::socket::Stop;
use crate::verdict::complaints;

/// How long a process may take to end once it was told to.
const GRACE: Duration = Duration::from_secs(3);
/// The same, and the guest's time for anything else, once the lab itself was told to stop.
const HASTE: Duration = Duration::from_secs(2);
/// How long a guest may take to answer when it has next to nothing to do.
const ANSWER: Duration = Duration::from_secs(20);
/// The same for each guest more that the host has to carry.
const ANSWER_MORE: Duration = Duration::from_secs(10);
/// How long one look for the end of a command lasts.
pub const GLANCE: Duration = Duration::from_millis(50);
/// Lines of a log that an error shows.
pub const TAIL: usize = 25;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    TimedOut,
    Interrupted(Interrupted),
    /// Its guest was killed on command.
    Killed,
    /// Its guest is gone, and nobody asked for that.
    Lost,
}

/// Guests that are up, with what belongs to them.
pub struct Lab {
    pub paths: Paths,
    pub device: Device,
    pub run: RunDir,
    pub ground: Ground,
    /// The guests' kernel.
    pub release: String,
    /// Node 1 first.
    guests: Vec<Guest>,
    power: Arc<Power>,
    broker: Arc<Broker>,
    ethernet: Option<Switch>,
    model: Option<Process>,
    _stop: Stop,
}

/// Boots guests, as many as the command line says, gives them to `work`, switches them off and judges the run. The
/// number is a status for the shell: that of `work`, unless a kernel or the model complained. What they complained
/// about is said before anything else. `argv` is a command whose words may name files that the guests must see.
pub fn with_guests(
    paths: &Paths,
    common: &Common,
    argv: &[OsString],
    work: impl FnOnce(&mut Lab) -> Result<i32>,
) -> Result<i32> {
    let ground = host::prepare(paths, &common.versions(), common.accel)?;
    let run = RunDir::create(paths)?;
    with_guests_in(paths, common, common.guests, ground, run, argv, work)
}

/// The same with so many guests, on ground that is prepared already and in a folder that is there already.
pub fn with_guests_in(
    paths: &Paths,
    common: &Common,
    count: u8,
    ground: Ground,
    run: RunDir,
    argv: &[OsString],
    work: impl FnOnce(&mut Lab) -> Result<i32>,
) -> Result<i32> {
    if !common.no_build {
        common.device.build(paths)?;
    }
    let folder = run.path.clone();
    let outcome = Lab::boot(paths, common, count, ground, run, argv).and_then(|mut lab| {
        // A guest that is gone is a failure, even if all commands had ended by then.
        let outcome = work(&mut lab).and_then(|status| lab.check().map(|()| status));
        lab.switch_off();
        outcome
    });
    // What only this boot could use; the logs stay.
    let sockets = [SOCKET, MODEL_CONTROL].map(str::to_owned);
    let of_node = |node| {
        let names =
            [machine::initramfs, machine::agent_socket, machine::control_socket, machine::ethernet_socket];
        names.map(|name| name(node)).into_iter().chain([common.device.socket(node)])
    };
    for name in Node::all(count).flat_map(of_node).chain(sockets) {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let mut complaints = complaints(&folder, count, outcome.is_ok());
    if let Err(error) = disarm(&folder.join(FILES)) {
        complaints.push(("the lab".to_owned(), format!("what a guest left can't be made harmless: {error}")));
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

impl Lab {
    fn boot(
        paths: &Paths,
        common: &Common,
        count: u8,
        ground: Ground,
        run: RunDir,
        argv: &[OsString],
    ) -> Result<Lab> {
        let device = common.device;
        let limit = common.boot_limit(count);
        let until = Instant::now() + limit;
        let what =
            if count == 1 { "booting the guest".to_owned() } else { format!("booting {count} guests") };
        let mut step = crate::report::Step::on_terminal(&what);
        run.make_files(count)?;
        let named: Vec<OsString> = argv.iter().cloned().chain([ground.kernel.root.clone().into()]).collect();
        let shown = guest_view::shown(paths, &std::env::current_dir()?, &named);
        let shown: Vec<OsString> = shown.into_iter().map(Into::into).collect();
        let ethernet = (count > 1).then(|| Switch::start(&run.path, count)).transpose()?;
        let model = device.start(paths, &run, count)?;
        let starting = Node::all(count).map(|node| Starting::begin(&ground, device, &run, node, &shown));
        let starting = starting.collect::<Result<Vec<_>>>()?;
        let processes: Vec<Pid> = starting.iter().map(|one| one.qemu.pid()).collect();
        let power = Arc::new(Power::new(&processes)?);
        let guests = starting.into_iter().map(|one| one.connect(&run, until));
        let mut guests = guests.collect::<Result<Vec<_>>>()?;
        let broker = Broker::new(&run.path, power.clone());
        let stop = Stop::default();
        broker.listen(&stop)?;
        for guest in &mut guests {
            let name = guest.name();
            if let Some(port) = guest.control.take() {
                broker.serve_guest(port, name);
            }
        }
        let mut lab = Lab {
            paths: paths.clone(),
            device,
            run,
            ground,
            release: String::new(),
            guests,
            power,
            broker,
            ethernet,
            model,
            _stop: stop,
        };
        lab.await_agents(until, limit)?;
        step.at("bringing up the device");
        lab.bring_up(until)?;
        step.clear();
        Ok(lab)
    }

    fn await_agents(&mut self, until: Instant, limit: Duration) -> Result<()> {
        while let Some(guest) = self.guests.iter_mut().find(|guest| guest.release.is_none()) {
            if !guest.is_up() && Instant::now() > until {
                let (name, console) = (guest.name(), guest.console_tail(&self.run));
                bail!("{name} was not up after {} s. {console}", limit.as_secs());
            }
            self.check()?;
            signals::check()?;
        }
        self.release = self.guests.iter().find_map(|guest| guest.release.clone()).unwrap_or_default();
        Ok(())
    }

    fn bring_up(&mut self, until: Instant) -> Result<()> {
        let mut jobs = Vec::new();
        for guest in &self.guests {
            let (script, arguments) = self.device.bring_up(&self.ground.kernel.root, guest.node);
            let mut argv: Vec<OsString> = ["/bin/sh", "-c", script, "bring-up"].map(Into::into).into();
            argv.extend(arguments);
            let log = self.run.log(&machine::bring_up_log(guest.node))?;
            let (out, err) = (Box::new(log.try_clone()?), Box::new(log));
            let job = guest.start((self.device, &self.run), argv, Path::new("/"), None, out, err)?;
            job.end_input()?;
            jobs.push(job);
        }
        let endings = self.wait_all(&jobs, Some(until.saturating_duration_since(Instant::now())))?;
        for (guest, ending) in self.guests.iter().zip(endings) {
            match ending {
                Ending::Exited(0) => {}
                Ending::Interrupted(signal) => return Err(signal.into()),
                ending => {
                    let said = console::tail(&self.run.file(&machine::bring_up_log(guest.node)), TAIL)?;
                    let (name, console) = (guest.name(), guest.console_tail(&self.run));
                    bail!("the device does not come up in {name} ({ending:?}):\n{said}\n{console}")
                }
            }
        }
        Ok(())
    }

    /// How many guests there are.
    pub fn count(&self) -> u8 {
        self.guests.len() as u8
    }

    fn guest(&self, node: u8) -> Result<&Guest> {
        let found = usize::from(node).checked_sub(1).and_then(|at| self.guests.get(at));
        found.with_context(|| {
            format!("there is no node {node}: this run has nodes 1 to {}", self.guests.len())
        })
    }

    fn guest_mut(&mut self, node: u8) -> Result<&mut Guest> {
        self.guest(node)?;
        Ok(&mut self.guests[usize::from(node) - 1])
    }

    /// What a command on node 1 finds in its environment under one of the lab's own names.
    pub fn variable(&self, name: &str) -> Result<String> {
        self.variable_on(1, name)
    }

    /// The same of any node.
    pub fn variable_on(&self, node: u8, name: &str) -> Result<String> {
        let all = self.device.variables(self.guest(node)?.node, &self.run);
        let found = all.into_iter().find(|(known, _)| known == name);
        let value = found.with_context(|| format!("the lab sets no {name}"))?.1;
        value
            .into_string()
            .map_err(|value| anyhow::anyhow!("{name} is not text: {}", value.to_string_lossy()))
    }

    /// Starts a command on node 1, in the caller's directory.
    pub fn start(&self, argv: Vec<OsString>, out: Sink, err: Sink) -> Result<Job> {
        self.start_on(1, argv, out, err)
    }

    /// The same on any node.
    pub fn start_on(&self, node: u8, argv: Vec<OsString>, out: Sink, err: Sink) -> Result<Job> {
        let cwd = std::env::current_dir()?;
        self.guest(node)?.start((self.device, &self.run), argv, &cwd, None, out, err)
    }

    /// Starts a command on node 1 in a directory of the host's.
    pub fn start_in(&self, argv: Vec<OsString>, cwd: &Path, out: Sink, err: Sink) -> Result<Job> {
        self.guest(1)?.start((self.device, &self.run), argv, cwd, None, out, err)
    }

    /// Starts a command on a terminal of its own.
    pub fn start_on_terminal(&self, node: u8, argv: Vec<OsString>, size: Size, out: Sink) -> Result<Job> {
        let cwd = std::env::current_dir()?;
        let err = Box::new(std::io::sink());
        self.guest(node)?.start((self.device, &self.run), argv, &cwd, Some(size), out, err)
    }

    /// Asks for a fault or a report, as over the control socket.
    pub fn ask(&self, request: &Value) -> Result<Value> {
        self.broker.ask(request)
    }

    /// Who answers such requests.
    pub fn broker(&self) -> Arc<Broker> {
        self.broker.clone()
    }

    /// The time that a guest has for an answer.
    fn answer(&self) -> Duration {
        ANSWER + ANSWER_MORE * u32::from(self.count().saturating_sub(1))
    }

    /// An error if the model has died, or a guest that was not killed on command.
    pub fn check(&mut self) -> Result<()> {
        self.check_model()?;
        let Lab { guests, run, power, .. } = self;
        let mut own = guests.iter_mut().filter(|guest| !power.is_killed(guest.node.number));
        own.try_for_each(|guest| guest.check(run))
    }

    fn check_model(&mut self) -> Result<()> {
        let Some(model) = &mut self.model else { return Ok(()) };
        if let Some(status) = model.ended()? {
            let said = console::tail(&self.run.file(device::MODEL_LOG), TAIL)?;
            bail!("{} ended while the guest ran ({status}):\n{said}", model.name);
        }
        Ok(())
    }

    /// Lets the guests write back what they hold, then ends them and the model.
    fn switch_off(&mut self) {
        let patience = signals::pending().map_or(self.answer(), |_| HASTE);
        let model = self.check_model().is_ok();
        let mut asked = Vec::new();
        for guest in &mut self.guests {
            if self.power.is_killed(guest.node.number) {
                continue;
            }
            // One that has ended can't be thawed, and need not be.
            let _ = self.power.thaw(guest.node.number);
            if model && matches!(guest.qemu.ended(), Ok(None)) && !guest.hangs {
                let link = guest.link.clone();
                asked.push((guest.node, std::thread::spawn(move || link.sync(patience))));
            }
        }
        for (node, answer) in asked {
            if !answer.join().unwrap_or(false) {
                if let Ok(guest) = self.guest(node.number) {
                    let console = guest.console_tail(&self.run);
                    crate::report::say(&format!("{} does not answer any more. {console}", guest.name()));
                }
            }
        }
        for guest in &mut self.guests {
            guest.qemu.kill();
        }
        if let Some(model) = &mut self.model {
            // It ends by itself when its guests are gone, with its report written.
            let _ = model.wait(GRACE);
            model.stop();
        }
        if let Some(ethernet) = &self.ethernet {
            let counts = ethernet.counts().into_iter().map(|(from, to, count)| {
                json!({"from": from, "to": to, "frames": count.frames, "dropped": count.dropped})
            });
            let text = format!("{:#}\n", Value::Array(counts.collect()));
            if let Err(error) = std::fs::write(self.run.file(ETHERNET), text) {
                crate::report::say(&format!("{ETHERNET} can't be written: {error}"));
            }
        }
    }
}

/// What the Ethernet carried and dropped, in the run's folder.
const ETHERNET: &str = "ethernet.json";

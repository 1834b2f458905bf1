//! One guest of a run, as the host has it: its QEMU, the way to its agent, its logs.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::console;
use crate::device::{Device, Node};
use crate::environment;
use crate::guest::BootConfig;
use crate::host::{Ground, initramfs};
use crate::lab::{GLANCE, TAIL};
use crate::link::{Job, Link};
use crate::machine;
use crate::paths::RunDir;
use crate::proc::Process;
use crate::protocol::{Size, Start};
use crate::{link::Sink, signals, socket};

/// A QEMU that was started.
#[derive(Debug)]
pub struct Starting {
    pub node: Node,
    pub qemu: Process,
}

/// A guest with an agent to talk to.
pub struct Guest {
    pub node: Node,
    pub link: Link,
    pub qemu: Process,
    /// It was found to answer no more.
    pub hangs: bool,
    hello: Receiver<String>,
    /// The host's end of its control port, until somebody serves it.
    pub control: Option<UnixStream>,
    /// Its kernel, once its agent has said so.
    pub release: Option<String>,
}

impl Starting {
    /// Writes the guest's first file system and starts its QEMU.
    pub fn begin(
        ground: &Ground,
        device: Device,
        run: &RunDir,
        node: Node,
        shown: &[OsString],
    ) -> Result<Starting> {
        let config = BootConfig {
            probe: false,
            layer: ground.rdma_core.root.is_some(),
            modules: Vec::new(),
            shown: shown.to_vec(),
            run_dir: run.files(node).into(),
            hostname: format!("node{}", node.number),
        };
        initramfs::write(&run.file(&machine::initramfs(node)), &ground.kernel, config)?;
        Ok(Starting { node, qemu: machine::start(ground, device, run, node)? })
    }

    /// Waits until QEMU listens at both of its sockets, which it makes one after the other.
    pub fn connect(mut self, run: &RunDir, until: Instant) -> Result<Guest> {
        let (agent, control) = (machine::agent_socket(self.node), machine::control_socket(self.node));
        let number = self.node.number;
        let control = self.retry(run, until, || {
            socket::connect(&run.path, &control).with_context(|| format!("connecting to {control}"))
        })?;
        let (link, hello) = self.retry(run, until, || Link::connect(&run.path, &agent, number))?;
        let Starting { node, qemu } = self;
        Ok(Guest { node, link, qemu, hangs: false, hello, release: None, control: Some(control) })
    }

    /// Tries until it works, QEMU has ended or it is too late.
    fn retry<T>(
        &mut self,
        run: &RunDir,
        until: Instant,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match attempt() {
                Ok(made) => return Ok(made),
                Err(error) => {
                    if self.qemu.ended()?.is_some() || Instant::now() > until {
                        let said = console::tail(&run.file(&machine::qemu_log(self.node)), TAIL)?;
                        return Err(error.context(format!("QEMU does not start:\n{said}")));
                    }
                }
            }
            signals::check()?;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

impl Guest {
    /// For people: there is but one, or it has a number.
    pub fn name(&self) -> String {
        if self.node.has_peers() { format!("node {}", self.node.number) } else { "the guest".to_owned() }
    }

    /// Looks for a moment whether its agent is there.
    pub fn is_up(&mut self) -> bool {
        if self.release.is_none() {
            self.release = self.hello.recv_timeout(GLANCE).ok();
        }
        self.release.is_some()
    }

    /// What a command finds in its environment.
    fn environment(&self, device: Device, run: &RunDir) -> Vec<(OsString, OsString)> {
        let mut variables = device.variables(self.node, run);
        variables.push(("MODPROBE_OPTIONS".to_owned(), environment::MODPROBE_OPTIONS.into()));
        environment::for_guest(std::env::vars_os(), &variables)
    }

    /// Starts a command: with a terminal of this size if there is one, on which its outputs are one.
    pub fn start(
        &self,
        (device, run): (Device, &RunDir),
        argv: Vec<OsString>,
        cwd: &Path,
        terminal: Option<Size>,
        out: Sink,
        err: Sink,
    ) -> Result<Job> {
        let start = Start { argv, env: self.environment(device, run), cwd: cwd.into(), terminal };
        self.link.start(start, out, err)
    }

    /// An error if its QEMU has ended.
    pub fn check(&mut self, run: &RunDir) -> Result<()> {
        if let Some(status) = self.qemu.ended()? {
            let said = console::tail(&run.file(&machine::qemu_log(self.node)), 5)?;
            bail!(
                "{} ended ({} ended with {status}). {}\n{said}",
                self.name(),
                self.qemu.name,
                self.console_tail(run)
            );
        }
        Ok(())
    }

    /// The end of its console, for people.
    pub fn console_tail(&self, run: &RunDir) -> String {
        let log = run.file(&machine::console_log(self.node));
        let tail = console::tail(&log, TAIL).unwrap_or_default();
        if tail.is_empty() {
            "Its console is empty.".to_owned()
        } else {
            format!("Its console's last lines:\n{tail}")
        }
    }
}

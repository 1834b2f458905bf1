//! A server and its clients, in one guest or in several: started in order, ended together.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use signal_hook::consts::SIGTERM;

use crate::lab::{Ending, Lab};
use crate::link::{Job, Sink};

/// How a server shows that a client may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It listens on this TCP port.
    Tcp(u16),
    /// It waits for an event of the connection manager.
    ConnectionManager,
}

impl Ready {
    /// A condition for the guest's shell. The tables under /proc hold the port in hexadecimal; 0A is LISTEN.
    fn condition(self) -> String {
        match self {
            Ready::Tcp(port) => format!("grep -qs ':{port:04X} [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6"),
            Ready::ConnectionManager => "grep -qs ucma_get_event /proc/[0-9]*/wchan".to_owned(),
        }
    }

    /// Waits until the server shows it, or has ended.
    pub fn wait_for(self, lab: &mut Lab, server: &Job) -> Result<()> {
        let script = format!("until {}; do sleep 0.05; done", self.condition());
        let argv = ["/bin/sh", "-c", &script].map(Into::into).into();
        let (out, err) = (Box::new(std::io::sink()), Box::new(std::io::sink()));
        let probe = lab.start_on(server.node(), argv, out, err)?;
        probe.end_input()?;
        let until = Instant::now() + READY_LIMIT;
        while lab.look(&probe)?.is_none() {
            if lab.look(server)?.is_some() || Instant::now() > until {
                lab.end(&probe, SIGTERM)?;
                bail!("the server did not get as far as waiting for a client ({self:?})");
            }
            crate::signals::check()?;
        }
        Ok(())
    }
}

/// A command with the places of its outputs.
pub struct Side {
    /// Where it runs.
    pub node: u8,
    pub argv: Vec<OsString>,
    pub out: Sink,
    pub err: Sink,
}

/// How long a server may take until it listens.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How long a server may take to end after its last client.
const SERVER_GRACE: Duration = Duration::from_secs(15);

/// Runs a server and, once it is ready, its clients side by side. The endings: the server's first. When one of them
/// fails the others are not waited for: a peer that is gone would only run into the time limit.
pub fn run(
    lab: &mut Lab,
    server: Side,
    clients: Vec<Side>,
    ready: Ready,
    limit: Duration,
) -> Result<Vec<Ending>> {
    let until = Instant::now() + limit;
    let server = start(lab, server)?;
    ready.wait_for(lab, &server)?;
    let clients: Vec<Job> = clients.into_iter().map(|side| start(lab, side)).collect::<Result<_>>()?;

    let mut jobs: Vec<Job> = std::iter::once(server).chain(clients).collect();
    let mut endings: Vec<Option<Ending>> = vec![None; jobs.len()];
    let mut until_server = until;
    loop {
        for (job, ending) in jobs.iter_mut().zip(&mut endings) {
            if ending.is_none() {
                *ending = lab.look(job)?;
            }
        }
        if endings.iter().all(Option::is_some) {
            break;
        }
        if let Some(signal) = crate::signals::pending() {
            return Err(signal.into());
        }
        let failed = endings.iter().flatten().any(|ending| *ending != Ending::Exited(0));
        let clients_done = endings[1..].iter().all(Option::is_some);
        if failed || clients_done {
            until_server = until_server.min(Instant::now() + SERVER_GRACE);
        }
        let now = Instant::now();
        if now >= until || now >= until_server {
            for (job, ending) in jobs.iter_mut().zip(&mut endings).filter(|(_, ending)| ending.is_none()) {
                lab.end(job, SIGTERM)?;
                *ending = Some(Ending::TimedOut);
            }
        }
    }
    Ok(endings.into_iter().flatten().collect())
}

fn start(lab: &mut Lab, side: Side) -> Result<Job> {
    let job = lab.start_on(side.node, side.argv, side.out, side.err)?;
    job.end_input()?;
    Ok(job)
}

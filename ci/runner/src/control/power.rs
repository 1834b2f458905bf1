//! The guests' power switches: a guest is stopped as it stands, goes on, or is ended, by signals to its QEMU.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// All switches of a run.
#[derive(Debug)]
pub struct Power {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    nodes: Vec<One>,
    over: bool,
}

#[derive(Debug)]
struct One {
    /// Names the process and never another one, even when its number is used again.
    process: OwnedFd,
    frozen: bool,
    /// When it is to go on by itself.
    until: Option<Instant>,
    killed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Thaws what is due, until the run is over. One thread for all, however often they are frozen.
    fn keep_time(&self) {
        let mut state = self.state();
        while !state.over {
            let now = Instant::now();
            for one in state.nodes.iter_mut().filter(|one| one.until.is_some_and(|until| until <= now)) {
                // Whoever is gone meanwhile needs no thawing.
                let _ = one.thaw();
            }
            let next = state.nodes.iter().filter_map(|one| one.until).min();
            state = match next {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let wait = next.saturating_duration_since(now);
                    self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl One {
    fn signal(&self, signal: Signal) -> Result<()> {
        if self.killed {
            bail!("it was killed before");
        }
        if self.has_ended()? {
            bail!("its QEMU has ended by itself");
        }
        pidfd_send_signal(&self.process, signal).context("its QEMU is gone")
    }

    /// A process that has ended takes signals until it is waited for. Its handle is readable from its end on.
    fn has_ended(&self) -> Result<bool> {
        let mut fds = [PollFd::new(&self.process, PollFlags::IN)];
        let ended = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        Ok(ended.context("a look at QEMU")? > 0)
    }

    fn thaw(&mut self) -> Result<()> {
        (self.frozen, self.until) = (false, None);
        self.signal(Signal::CONT)
    }
}

impl Power {
    /// The switches of these QEMUs, which are this process's children and not yet waited for: node 1's first.
    pub fn new(processes: &[Pid]) -> Result<Power> {
        let one = |pid: &Pid| {
            let process = pidfd_open(*pid, PidfdFlags::empty()).context("a handle on QEMU")?;
            Ok(One { process, frozen: false, until: None, killed: false })
        };
        let nodes = processes.iter().map(one).collect::<Result<_>>()?;
        let state = Mutex::new(State { nodes, over: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let time = shared.clone();
        thread::spawn(move || time.keep_time());
        Ok(Power { shared })
    }

    /// Stops a guest as it stands: for a while, or until it is thawed.
    pub fn freeze(&self, node: u8, period: Option<Duration>) -> Result<()> {
        let until = period.map(|period| {
            let until = Instant::now().checked_add(period);
            until.with_context(|| format!("{} ms is too long a time", period.as_millis()))
        });
        let until = until.transpose()?;
        self.with(node, |one| {
            one.signal(Signal::STOP)?;
            (one.frozen, one.until) = (true, until);
            Ok(())
        })?;
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Lets it go on; nothing happens if it does.
    pub fn thaw(&self, node: u8) -> Result<()> {
        self.with(node, One::thaw)
    }

    /// Ends it at once.
    pub fn kill(&self, node: u8) -> Result<()> {
        self.with(node, |one| {
            one.signal(Signal::KILL)?;
            (one.killed, one.frozen, one.until) = (true, false, None);
            Ok(())
        })
    }

    /// Whether it was ended on command.
    pub fn is_killed(&self, node: u8) -> bool {
        self.with(node, |one| Ok(one.killed)).unwrap_or(false)
    }

    fn with<T>(&self, node: u8, act: impl FnOnce(&mut One) -> Result<T>) -> Result<T> {
        let mut state = self.shared.state();
        let count = state.nodes.len();
        let one = usize::from(node).checked_sub(1).and_then(|at| state.nodes.get_mut(at));
        let one = one.with_context(|| format!("there is no node {node}; this run has nodes 1 to {count}"))?;
        act(one).with_context(|| format!("node {node}"))
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Process;
    use std::process::Command;

    fn state(process: &Process) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next().unwrap()
    }

    fn becomes(process: &Process, wanted: char) {
        let until = Instant::now() + Duration::from_secs(10);
        while state(process) != wanted {
            assert!(Instant::now() < until, "it is {}, not {wanted}", state(process));
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn frozen_thawed_killed() {
        let process = Process::spawn(Command::new("sleep").arg("60")).unwrap();
        let power = Power::new(&[process.pid()]).unwrap();
        becomes(&process, 'S');
        power.freeze(1, None).unwrap();
        becomes(&process, 'T');
        power.thaw(1).unwrap();
        becomes(&process, 'S');
        // By itself, and the last word counts.
        power.freeze(1, Some(Duration::from_secs(3600))).unwrap();
        power.freeze(1, Some(Duration::from_millis(50))).unwrap();
        becomes(&process, 'T');
        becomes(&process, 'S');
        power.freeze(1, None).unwrap();
        assert!(!power.is_killed(1));
        power.kill(1).unwrap();
        becomes(&process, 'Z');
        assert!(power.is_killed(1) && !power.is_killed(2));
        for wrong in [power.thaw(1), power.kill(1), power.freeze(1, None)] {
            assert!(format!("{:#}", wrong.unwrap_err()).contains("killed before"));
        }
        let error = format!("{:#}", power.freeze(2, None).unwrap_err());
        assert!(error.contains("no node 2") && error.contains("1 to 1"), "{error}");
        assert!(power.freeze(0, None).is_err());
    }

    #[test]
    fn who_ended_by_himself_was_not_killed_on_command() {
        let process = Process::spawn(&mut Command::new("true")).unwrap();
        let power = Power::new(&[process.pid()]).unwrap();
        becomes(&process, 'Z');
        for refused in [power.kill(1), power.freeze(1, None), power.thaw(1)] {
            assert!(format!("{:#}", refused.unwrap_err()).contains("ended by itself"));
        }
        assert!(!power.is_killed(1));
    }
}

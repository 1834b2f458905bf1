//! Commands under way: waiting for their ends, ending them, noticing when a guest or the model dies meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGKILL, SIGTERM};

use super::{Ending, GLANCE, GRACE, HASTE, Lab};
use crate::link::Job;
use crate::signals;

impl Lab {
    /// Waits for a command's end, hears Ctrl-C, and notices when its guest or the model dies meanwhile.
    pub fn wait(&mut self, job: &Job, limit: Option<Duration>) -> Result<Ending> {
        let endings = self.wait_all(std::slice::from_ref(job), limit)?;
        endings.first().copied().context("no command to wait for")
    }

    /// The same for several commands, side by side. One whose guest dies does not end the others, unless it is the
    /// only one.
    pub fn wait_all(&mut self, jobs: &[Job], limit: Option<Duration>) -> Result<Vec<Ending>> {
        let until = limit.map(|limit| Instant::now() + limit);
        let mut endings: Vec<Option<Ending>> = vec![None; jobs.len()];
        loop {
            for (job, ending) in jobs.iter().zip(&mut endings).filter(|(_, ending)| ending.is_none()) {
                *ending = match self.peek(job) {
                    Err(error) if jobs.len() > 1 => {
                        self.check_model()?;
                        crate::report::say(&format!("{error:#}"));
                        Some(Ending::Lost)
                    }
                    other => other?,
                };
            }
            if endings.iter().all(Option::is_some) {
                return Ok(endings.into_iter().flatten().collect());
            }
            let signal = signals::pending();
            if signal.is_some() || until.is_some_and(|until| Instant::now() >= until) {
                let left = jobs.iter().zip(&endings).filter(|(_, ending)| ending.is_none());
                let left: Vec<&Job> = left.map(|(job, _)| job).collect();
                self.end_all(&left, signal.map_or(SIGTERM, |signal| signal.0))?;
                let ending = signal.map_or(Ending::TimedOut, Ending::Interrupted);
                return Ok(endings.into_iter().map(|known| known.unwrap_or(ending)).collect());
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Looks once, for a moment, whether a command has ended; an error if it can't end well any more.
    pub fn look(&mut self, job: &Job) -> Result<Option<Ending>> {
        match self.peek(job)? {
            None => {
                std::thread::sleep(GLANCE);
                Ok(None)
            }
            ended => Ok(ended),
        }
    }

    /// The same without a moment's wait.
    fn peek(&mut self, job: &Job) -> Result<Option<Ending>> {
        let ended = job.ended(Duration::ZERO);
        if let Ok(Some(status)) = ended {
            return Ok(Some(Ending::Exited(status)));
        }
        if self.power.is_killed(job.node()) {
            return Ok(Some(Ending::Killed));
        }
        if ended.is_err() {
            // Who died says more than that somebody did; give the processes a moment to be dead.
            std::thread::sleep(Duration::from_millis(300));
        }
        self.check_model()?;
        let Lab { guests, run, .. } = self;
        let at = usize::from(job.node()).saturating_sub(1);
        guests.get_mut(at).map_or(Ok(()), |guest| guest.check(run))?;
        ended.map(|_| None)
    }

    /// Ends a command, gently first. Whoever told the lab to stop does not wait for long, and hears of nothing else.
    pub fn end(&mut self, job: &Job, signal: i32) -> Result<()> {
        self.end_all(&[job], signal)
    }

    /// The same for several.
    pub fn end_all(&mut self, jobs: &[&Job], signal: i32) -> Result<()> {
        let ended = self.try_end(jobs, signal);
        ended.map_err(|error| signals::pending().map_or(error, Into::into))
    }

    fn try_end(&mut self, jobs: &[&Job], signal: i32) -> Result<()> {
        let mut left = jobs.to_vec();
        for job in jobs {
            // A guest that stands still can't end anything.
            let _ = self.power.thaw(job.node());
        }
        for (signal, patience) in [(signal, GRACE), (SIGKILL, self.answer())] {
            for job in &left {
                if self.power.is_killed(job.node()) {
                    continue;
                }
                job.signal(signal)?;
                if signal == SIGKILL {
                    // It may also be that nobody reads what it wrote.
                    job.abandon()?;
                }
            }
            let began = Instant::now();
            while began.elapsed() < signals::pending().map_or(patience, |_| patience.min(HASTE)) {
                let mut still = Vec::new();
                for job in left {
                    // Of several, one whose guest is gone has ended as well.
                    match self.peek(job) {
                        Ok(None) => still.push(job),
                        Err(error) if jobs.len() == 1 => return Err(error),
                        _ => {}
                    }
                }
                left = still;
                if left.is_empty() {
                    return Ok(());
                }
                std::thread::sleep(GLANCE);
            }
        }
        let mut said = Vec::new();
        for job in left {
            let console = self.guest(job.node())?.console_tail(&self.run);
            let guest = self.guest_mut(job.node())?;
            guest.hangs = true;
            let name = guest.name();
            said.push(format!("{name} hangs: it does not end a command that was killed. {console}"));
        }
        bail!("{}", said.join("\n"))
    }
}

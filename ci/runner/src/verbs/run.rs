//! `ci/lab run -- CMD`: one command, as if it ran here, or one on each of several nodes.

use std::ffi::OsString;
use std::io::{stderr, stdin, stdout};
use std::time::Duration;

use anyhow::{Result, bail};

use super::{COMMAND_LIMIT, KILLED, TIMED_OUT, status};
use crate::LAB_FAILED;
use crate::cli::Common;
use crate::control::{At, Faults, Schedule};
use crate::lab::{Ending, Lab, with_guests};
use crate::link::{Job, own};
use crate::marked::Streams;
use crate::paths::Paths;
use crate::report::say;

/// What is asked for on the command line.
pub struct Run {
    /// Of the wire, from the command's start.
    pub faults: Faults,
    pub at: Vec<At>,
    pub command: Vec<OsString>,
}

pub fn run(paths: &Paths, common: &Common, asked: Run) -> Result<i32> {
    asked.at.iter().try_for_each(|at| at.check(common.guests))?;
    let argv = asked.command.clone();
    with_guests(paths, common, &argv, |lab| {
        if let Some(request) = asked.faults.request() {
            lab.ask(&request)?;
        }
        let jobs = start(lab, &asked.command)?;
        let schedule = Schedule::start(asked.at, lab.broker());
        let limit = common.limit(Some(COMMAND_LIMIT));
        let endings = lab.wait_all(&jobs, limit);
        let outcome = schedule.end();
        let status = match endings?.as_slice() {
            [ending] => status(*ending, limit)?,
            endings => statuses(endings, limit)?,
        };
        for action in outcome.left {
            say(&format!("not done, since the command had ended: {action}"));
        }
        if !outcome.refused.is_empty() {
            bail!("refused: {}", outcome.refused.join("; "));
        }
        Ok(status)
    })
}

/// Starts the command on all nodes. The first has this process's input; nobody else could have the same.
fn start(lab: &Lab, argv: &[OsString]) -> Result<Vec<Job>> {
    let streams = Streams::own()?;
    let count = lab.count();
    let mut jobs = Vec::new();
    for node in 1..=count {
        let (out, err) = if count == 1 { (own(stdout())?, own(stderr())?) } else { streams.of(node) };
        jobs.push(lab.start_on(node, argv.to_vec(), out, err)?);
    }
    for (at, job) in jobs.iter().enumerate() {
        if at == 0 { job.feed(stdin()) } else { job.end_input()? }
    }
    Ok(jobs)
}

/// Says how each ended, and makes one status of them.
fn statuses(endings: &[Ending], limit: Option<Duration>) -> Result<i32> {
    let words = endings.iter().zip(1..).map(|(ending, node)| format!("node {node}: {}", word(*ending)));
    say(&words.collect::<Vec<_>>().join(", "));
    if endings.contains(&Ending::TimedOut) {
        // Says so.
        status(Ending::TimedOut, limit)?;
    }
    fold(endings)
}

fn word(ending: Ending) -> String {
    match ending {
        Ending::Exited(status) => status.to_string(),
        Ending::TimedOut => "time limit".to_owned(),
        Ending::Interrupted(_) => "interrupted".to_owned(),
        Ending::Killed => "killed".to_owned(),
        Ending::Lost => "lost".to_owned(),
    }
}

/// 0 if all are; else the first that is not, by node. A node that was killed on command has none, unless all were.
fn fold(endings: &[Ending]) -> Result<i32> {
    let mut folded = None;
    for ending in endings {
        let status = match ending {
            Ending::Exited(status) => *status,
            Ending::TimedOut => TIMED_OUT,
            Ending::Interrupted(signal) => return Err((*signal).into()),
            Ending::Killed => continue,
            Ending::Lost => LAB_FAILED,
        };
        if matches!(folded, None | Some(0)) {
            folded = Some(status);
        }
    }
    Ok(folded.unwrap_or(KILLED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::Interrupted;

    #[test]
    fn one_status_of_many() {
        use Ending::{Exited, Killed, Lost, TimedOut};
        for (endings, status) in [
            (&[Exited(0), Exited(0)][..], 0),
            (&[Exited(0), Exited(3), Exited(2)], 3),
            (&[Exited(0), TimedOut, Exited(2)], 124),
            (&[Killed, Exited(0)], 0),
            (&[Exited(5), Killed], 5),
            (&[Killed, Killed], 137),
            (&[Exited(0), Lost], 125),
        ] {
            assert_eq!(fold(endings).unwrap(), status, "{endings:?}");
        }
        assert!(fold(&[Exited(0), Ending::Interrupted(Interrupted(2))]).unwrap_err().is::<Interrupted>());
    }
}

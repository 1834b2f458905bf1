//! What each word on the command line does. Each returns a status for the shell.

mod clean;
mod demo;
mod doctor;
mod run;
mod setup;
mod shell;

pub use clean::clean;
pub use demo::{build_examples, demo, latency};
pub use doctor::doctor;
pub use run::{Run, run};
pub use setup::setup;
pub use shell::shell;

use std::time::Duration;

use anyhow::{Result, bail};

use crate::lab::Ending;
use crate::report;

/// For a command that was ended at its time limit, as timeout(1) has it.
const TIMED_OUT: i32 = 124;

/// For a command whose guest was killed on command, as a shell has it for one that was killed itself.
const KILLED: i32 = 128 + signal_hook::consts::SIGKILL;

/// The time that a command has if the user does not say.
const COMMAND_LIMIT: Duration = Duration::from_secs(600);

/// A status for the shell.
fn status(ending: Ending, limit: Option<Duration>) -> Result<i32> {
    match ending {
        Ending::Exited(status) => Ok(status),
        Ending::TimedOut => {
            report::say(&format!(
                "the command was ended at its time limit, {} s",
                limit.unwrap_or_default().as_secs()
            ));
            Ok(TIMED_OUT)
        }
        Ending::Interrupted(signal) => Err(signal.into()),
        Ending::Killed => {
            report::say("the guest was killed");
            Ok(KILLED)
        }
        Ending::Lost => bail!("the guest is gone"),
    }
}

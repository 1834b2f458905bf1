//! ci/lab: boots guests that have an XRC device and runs commands in them.
//!
//! One program plays three parts: on the host it is what `ci/lab` starts; in the guest it is the first process, and
//! the agent that runs commands there.

mod cli;
mod console;
mod control;
mod device;
mod environment;
mod ethernet;
mod guest;
mod guest_view;
mod host;
mod lab;
mod link;
mod lock;
mod machine;
mod marked;
mod node;
mod pair;
mod paths;
mod proc;
mod protocol;
mod report;
mod signals;
mod socket;
mod suite;
mod verbs;
mod verdict;

use anyhow::Result;

use cli::{Cli, Verb};
use signals::Interrupted;

/// The lab itself failed, whatever a command in the guest said.
const LAB_FAILED: i32 = 125;

fn main() {
    if rustix::process::getpid().is_init() {
        // The host's runner may well be the first process of a container; only a guest has this file.
        if std::path::Path::new(guest::CONFIG).exists() {
            guest::init();
        }
    }
    if std::env::args_os().nth(1).is_some_and(|word| word == guest::AGENT_WORD) {
        if let Err(error) = guest::agent() {
            eprintln!("rdma-xrc: the agent failed: {error:#}");
        }
        return;
    }
    let code = match host(cli::parse()) {
        Ok(code) => code,
        Err(error) => match error.downcast_ref::<Interrupted>() {
            Some(signal) => {
                report::say(&signal.to_string());
                128 + signal.0
            }
            None => {
                // Not `{:?}`, which may add a backtrace of the lab's own: what went wrong is elsewhere.
                report::say(&format!("{error:#}"));
                LAB_FAILED
            }
        },
    };
    // What was to be flushed was: standard output is written by lines, and its reader may have stopped reading.
    std::process::exit(code);
}

fn host(cli: Cli) -> Result<i32> {
    signals::catch()?;
    let verb = match cli.verb {
        // In a guest there is no clone to find.
        Verb::Control { run, action } => return control::control(&cli.project, run, &action),
        _ if std::path::Path::new(control::GUEST_PATH).exists() => {
            anyhow::bail!("in a guest only 'control' works; all else is done on the host")
        }
        verb => verb,
    };
    let paths = paths::Paths::find(&cli.project)?;
    match verb {
        Verb::Demo => verbs::demo(&paths, &cli.common),
        Verb::Test { filter, list, soak } => suite::test(&paths, &cli.common, &filter, list, soak),
        Verb::Run { faults, at, command } => {
            verbs::run(&paths, &cli.common, verbs::Run { faults, at, command })
        }
        Verb::Shell { node } => verbs::shell(&paths, &cli.common, node),
        Verb::Control { run, action } => control::control(&cli.project, run, &action),
        Verb::Setup => verbs::setup(&paths, &cli.common),
        Verb::Clean { all } => verbs::clean(&paths, all),
        Verb::Doctor => verbs::doctor(&paths, &cli.common),
    }
}

//! `ci/lab shell`: a shell in the guest, on the caller's terminal.

use std::io::{IsTerminal, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::SIGWINCH;

use super::status;
use crate::cli::Common;
use crate::lab::Ending;
use crate::lab::with_guests;
use crate::link::own;
use crate::paths::Paths;
use crate::protocol::Size;
use crate::report::say;
use crate::signals;

/// The caller's terminal, passing every key on; as it was when this is dropped.
struct Raw(Termios);

impl Raw {
    fn begin() -> Result<Raw> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Drain, &raw)?;
        Ok(Raw(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.0);
    }
}

fn size() -> Result<Size> {
    let size = tcgetwinsize(stdin())?;
    Ok(Size { rows: size.ws_row, cols: size.ws_col })
}

/// `node` is the guest that the shell runs in.
pub fn shell(paths: &Paths, common: &Common, node: u8) -> Result<i32> {
    let count = common.guests;
    if !(1..=count).contains(&node) {
        bail!("there is no node {node} among {count} guest(s); --guests says how many there are");
    }
    if !stdin().is_terminal() || !stdout().is_terminal() {
        bail!("a shell needs a terminal; `ci/lab run -- CMD` does not");
    }
    let shell =
        std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/bash".into());
    let argv = vec![shell];
    with_guests(paths, common, &argv, |lab| {
        say(&format!("{} is {} here; leave with exit or Ctrl-D", lab.device.name(), lab.device.verbs_name()));
        let resized = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGWINCH, resized.clone())?;
        let raw = Raw::begin()?;
        let job = lab.start_on_terminal(node, argv.clone(), size()?, own(stdout())?)?;
        job.feed(stdin());
        let limit = common.limit(None);
        let until = limit.map(|limit| std::time::Instant::now() + limit);
        let ending = loop {
            if let Some(ending) = lab.look(&job)? {
                break ending;
            }
            if resized.swap(false, Ordering::Relaxed) {
                job.resize(size()?)?;
            }
            // The keys go to the guest, so this is a signal from elsewhere. A shell heeds no other.
            if let Some(signal) = signals::pending() {
                lab.end(&job, signal_hook::consts::SIGHUP)?;
                break Ending::Interrupted(signal);
            }
            if until.is_some_and(|until| std::time::Instant::now() >= until) {
                lab.end(&job, signal_hook::consts::SIGHUP)?;
                break Ending::TimedOut;
            }
        };
        drop(raw);
        status(ending, limit)
    })
}

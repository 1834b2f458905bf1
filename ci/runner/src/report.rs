//! What the lab itself has to say. All of it goes to standard error, each line marked, so that the standard output
//! of a command in the guest is the command's alone.

use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long the lab waits for a reader of its own words.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// What a pipe that can be written to takes without waiting.
const AT_ONCE: usize = 2048;

/// One line.
pub fn say(line: &str) {
    put(&format!("ci/lab: {line}\n"));
}

/// Writes to standard error. A reader that has left or stopped reading must not keep the lab from its end.
fn put(text: &str) {
    static STUCK: AtomicBool = AtomicBool::new(false);
    for piece in text.as_bytes().chunks(AT_ONCE) {
        let error = stderr();
        let mut fds = [PollFd::new(&error, PollFlags::OUT)];
        let patience = if STUCK.load(Ordering::Relaxed) { Timespec::default() } else { PATIENCE };
        if poll(&mut fds, Some(&patience)) == Ok(0) {
            STUCK.store(true, Ordering::Relaxed);
            return;
        }
        if stderr().write_all(piece).is_err() {
            return;
        }
    }
}

/// A line of what was asked for, on standard output. Like println, but a reader that has left is no failure.
macro_rules! out {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}
pub(crate) use out;

/// A text of several lines under a heading.
pub fn quote(heading: &str, text: &str) {
    say(heading);
    for line in text.lines() {
        put(&format!("    {line}\n"));
    }
}

/// A step that takes a while: says what it does, how far it is, and how long it took.
#[derive(Debug)]
pub struct Step {
    what: String,
    since: Instant,
    bar: Option<ProgressBar>,
    told: Option<u64>,
}

impl Step {
    /// Begins a step. On a terminal it has a live line, elsewhere a line now and one at the end.
    pub fn begin(what: &str) -> Step {
        let step = Step::on_terminal(what);
        if step.bar.is_none() {
            say(&format!("{what} ..."));
        }
        step
    }

    /// Begins a step that is worth no line where it is not seen live.
    pub fn on_terminal(what: &str) -> Step {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("ci/lab: {spinner} {prefix} {wide_msg} {elapsed}")
            {
                bar.set_style(style);
            }
            bar.set_prefix(what.to_owned());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Step { what: what.to_owned(), since: Instant::now(), bar, told: None }
    }

    /// What it is at right now; shown on a terminal only.
    pub fn at(&self, detail: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(detail.trim().to_owned());
        }
    }

    /// How far it is, in hundredths. Away from a terminal a line for every quarter is enough.
    pub fn percent(&mut self, percent: u64) {
        match &self.bar {
            Some(bar) => bar.set_message(format!("{percent} %")),
            None => {
                let quarter = percent / 25;
                if quarter > self.told.unwrap_or(0) && percent < 100 {
                    self.told = Some(quarter);
                    say(&format!("{} ... {percent} %", self.what));
                }
            }
        }
    }

    /// Ends it well.
    pub fn done(mut self) {
        let line = format!("{}: done in {:.1} s", self.what, self.since.elapsed().as_secs_f64());
        self.clear();
        say(&line);
    }

    /// Ends it without a word: what it was about is shown by what follows.
    pub fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.clear();
    }
}

//! What the tests came to: a line for each as it ends, and the last lines of the whole.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Place, Scene, Tally, Test};
use crate::cli::Common;
use crate::paths::Paths;
use crate::report::out;
use crate::signals::{self, Interrupted};

/// What ran in guests of one kind.
struct OnGuests {
    /// The device and the software, for people.
    what: String,
    tally: Tally,
}

/// Results so far, and where they are written.
pub struct Record<'a> {
    pub paths: &'a Paths,
    pub common: &'a Common,
    pub run: PathBuf,
    host: Tally,
    guests: Vec<OnGuests>,
    failures: Vec<String>,
    /// Tests that found no guest to run in.
    without_guest: u32,
}

impl<'a> Record<'a> {
    pub fn new(paths: &'a Paths, common: &'a Common, run: PathBuf) -> Record<'a> {
        Record {
            paths,
            common,
            run,
            host: Tally::default(),
            guests: Vec::new(),
            failures: Vec::new(),
            without_guest: 0,
        }
    }

    /// What follows in guests is counted apart from what was before.
    pub fn begin_guests(&mut self, what: &str) {
        self.guests.push(OnGuests { what: what.to_owned(), tally: Tally::default() });
    }

    /// What these guests are, once one of them has told.
    pub fn name_guests(&mut self, what: String) {
        if let Some(guests) = self.guests.last_mut() {
            guests.what = what;
        }
    }

    /// Runs one test and says what came of it.
    pub fn perform(
        &mut self,
        test: &Test,
        work: impl FnOnce(&Scene) -> Result<Tally>,
    ) -> Result<(), Interrupted> {
        signals::check()?;
        let began = Instant::now();
        let dir = self.run.join("tests").join(test.name.replace('/', "-").replace(' ', "_"));
        let limit = self.common.limit(Some(test.limit)).unwrap_or(Duration::from_secs(u64::from(u32::MAX)));
        let outcome = fs::create_dir_all(&dir)
            .map_err(anyhow::Error::from)
            .and_then(|()| work(&Scene { paths: self.paths, common: self.common, dir: dir.clone(), limit }));
        signals::check()?;
        let seconds = began.elapsed().as_secs_f64();
        let (tally, why) = match outcome {
            Ok(tally) if tally.failed == 0 => (tally, None),
            Ok(tally) => (tally, Some("see its output".to_owned())),
            Err(error) => (Tally { failed: 1, ..Tally::default() }, Some(format!("{error:#}"))),
        };
        out!("{}", line(&test.name, &tally, seconds));
        if let Some(why) = why {
            for line in why.lines() {
                out!("         {line}");
            }
            out!("         output in {}", dir.display());
            self.failures.push(test.name.clone());
        }
        let place = match test.place() {
            Place::Host => &mut self.host,
            Place::Guest => self.guests.last_mut().map_or(&mut self.host, |guests| &mut guests.tally),
        };
        place.add(tally);
        Ok(())
    }

    /// A test that finds no guest to run in.
    pub fn without_guest(&mut self, test: &Test, why: anyhow::Error) -> Result<(), Interrupted> {
        self.without_guest += 1;
        self.perform(test, |_| Err(why))
    }

    /// Something failed that is no test.
    pub fn failed(&mut self, what: &str, why: &anyhow::Error) {
        out!("FAIL {what}\n         {why:#}");
        if let Some(guests) = self.guests.last_mut() {
            guests.tally.failed += 1;
        }
        self.failures.push(what.to_owned());
    }

    /// The last lines, and a status for the shell.
    pub fn summary(&self, took: Duration) -> i32 {
        out!();
        if !self.failures.is_empty() {
            out!("failed: {}", self.failures.join(", "));
        }
        out!("logs: {}", self.run.display());
        out!("on the host: {} tests ran, {} failed", self.host.passed + self.host.failed, self.host.failed);
        let mut all = self.host.clone();
        for OnGuests { what, tally } in &self.guests {
            out!("in guests, on {what}: {} tests ran, {} failed", tally.passed + tally.failed, tally.failed);
            all.add(tally.clone());
        }
        for (reason, count) in counted(&all.skipped) {
            match count {
                1 => out!("skipped: {reason}"),
                _ => out!("skipped: {reason}: {count} tests"),
            }
        }
        let wanting =
            if self.without_guest == 0 { "none".to_owned() } else { self.without_guest.to_string() };
        out!(
            "skipped for want of a device: {wanting} ({} min {} s)",
            took.as_secs() / 60,
            took.as_secs() % 60
        );
        match all.skipped.len() {
            0 => out!("{} passed, {} failed", all.passed, all.failed),
            skipped => out!("{} passed, {} failed, {skipped} skipped", all.passed, all.failed),
        }
        i32::from(all.failed > 0)
    }
}

fn line(name: &str, tally: &Tally, seconds: f64) -> String {
    let mark = if tally.failed == 0 { "ok  " } else { "FAIL" };
    let mut counts = Vec::new();
    if tally.passed + tally.failed > 1 || !tally.skipped.is_empty() {
        counts.push(format!("{} passed", tally.passed));
        if tally.failed > 0 {
            counts.push(format!("{} failed", tally.failed));
        }
        if !tally.skipped.is_empty() {
            counts.push(format!("{} skipped", tally.skipped.len()));
        }
    }
    let counts = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    format!("{mark} {name}{counts} {seconds:.1} s")
}

/// Each of them once, in the order in which they came, and how often.
fn counted(all: &[String]) -> Vec<(&str, usize)> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for one in all {
        match counts.iter_mut().find(|(known, _)| known == one) {
            Some((_, count)) => *count += 1,
            None => counts.push((one, 1)),
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_tell_what_ran() {
        assert_eq!(line("a/b", &Tally::ONE, 1.26), "ok   a/b 1.3 s");
        let many = Tally { passed: 2, failed: 1, skipped: vec!["x".to_owned()] };
        assert_eq!(line("a", &many, 0.0), "FAIL a (2 passed, 1 failed, 1 skipped) 0.0 s");
    }

    #[test]
    fn reasons_are_counted() {
        let all = ["a", "b", "a"].map(str::to_owned);
        assert_eq!(counted(&all), [("a", 2), ("b", 1)]);
    }
}

//! `ci/lab test`: what needs no device runs on the host, everything else in guests that have one.

mod boots;
mod causes;
mod crate_tests;
mod drivers;
mod fabric;
mod host;
mod lab_tests;
mod pyverbs;
mod tools;
mod tree;
mod unittest;

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cli::Common;
use crate::console;
use crate::device::MOST_NODES;
use crate::host::Ground;
use crate::lab::{Lab, with_guests_in};
use crate::paths::{Paths, RunDir};
use crate::report::{out, say};
use crate::signals::{self, Interrupted};

/// Where a test runs, which is also how it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host,
    Guest,
}

/// What a test, which may hold many, has to say. A failure of the whole is an error instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u32,
    failed: u32,
    /// Tests that did not run, with the reason that is all right.
    skipped: Vec<String>,
}

impl Tally {
    /// A test that is one test.
    const ONE: Tally = Tally { passed: 1, failed: 0, skipped: Vec::new() };

    fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
    }
}

/// What a test on the host gets to work with.
struct Scene<'a> {
    paths: &'a Paths,
    common: &'a Common,
    /// A folder of its own for what it writes.
    dir: PathBuf,
    limit: Duration,
}

impl Scene<'_> {
    fn log(&self, name: &str) -> Result<File> {
        let path = self.dir.join(name);
        File::create(&path).with_context(|| path.display().to_string())
    }

    fn text(&self, name: &str) -> String {
        console::read(&self.dir.join(name))
    }
}

type OnHost = Box<dyn Fn(&Scene) -> Result<Tally>>;
type InGuest = Box<dyn Fn(&mut Lab, &Scene) -> Result<Tally>>;

enum Work {
    Host(OnHost),
    /// In the one guest that all of these share.
    Guest(InGuest),
    /// In so many guests on one fabric, which all of these share.
    Fabric(u8, InGuest),
    /// Boots guests of its own.
    Boots(OnHost),
}

/// A line of the suite.
struct Test {
    name: String,
    limit: Duration,
    work: Work,
}

impl Test {
    fn new(name: impl Into<String>, seconds: u64, work: Work) -> Test {
        Test { name: name.into(), limit: Duration::from_secs(seconds), work }
    }

    fn host(name: &str, seconds: u64, work: impl Fn(&Scene) -> Result<Tally> + 'static) -> Test {
        Test::new(format!("host/{name}"), seconds, Work::Host(Box::new(work)))
    }

    fn guest(name: &str, seconds: u64, work: impl Fn(&mut Lab, &Scene) -> Result<Tally> + 'static) -> Test {
        Test::new(name, seconds, Work::Guest(Box::new(work)))
    }

    fn fabric(
        name: &str,
        nodes: u8,
        seconds: u64,
        work: impl Fn(&mut Lab, &Scene) -> Result<Tally> + 'static,
    ) -> Test {
        Test::new(format!("{FABRIC}{name}"), seconds, Work::Fabric(nodes, Box::new(work)))
    }

    fn boots(name: &str, seconds: u64, work: impl Fn(&Scene) -> Result<Tally> + 'static) -> Test {
        Test::new(format!("boots/{name}"), seconds, Work::Boots(Box::new(work)))
    }

    /// Whether it runs in a boot of so many guests that others have as well.
    fn shares(&self, count: u8) -> bool {
        match self.work {
            Work::Guest(_) => count == 1,
            Work::Fabric(nodes, _) => count == nodes,
            Work::Host(_) | Work::Boots(_) => false,
        }
    }

    fn place(&self) -> Place {
        match self.work {
            Work::Host(_) => Place::Host,
            Work::Guest(_) | Work::Fabric(..) | Work::Boots(_) => Place::Guest,
        }
    }
}

/// How the names of tests on several guests begin.
const FABRIC: &str = "fabric/";

/// Every test, in the order in which they run: the last ones of each boot take away what it stands on.
fn all(common: &Common) -> Vec<Test> {
    let mut tests = host::tests();
    tests.extend(boots::tests());
    tests.extend(lab_tests::tests());
    tests.extend(tools::tests(common.device));
    tests.extend(pyverbs::tests());
    tests.extend(causes::tests());
    tests.extend(crate_tests::tests());
    tests.extend(drivers::tests());
    tests.extend(fabric::tests(common.device));
    tests
}

/// Results so far, and where they are written.
struct Record<'a> {
    paths: &'a Paths,
    common: &'a Common,
    run: PathBuf,
    host: Tally,
    guest: Tally,
    failures: Vec<String>,
    /// Tests that found no guest to run in.
    without_guest: u32,
}

impl Record<'_> {
    fn perform(
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
        match test.place() {
            Place::Host => self.host.add(tally),
            Place::Guest => self.guest.add(tally),
        }
        Ok(())
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

/// Runs the tests whose names hold one of the words, or all.
pub fn test(paths: &Paths, common: &Common, filter: &[String], list: bool) -> Result<i32> {
    let mut tests = all(common);
    tests.retain(|test| filter.is_empty() || filter.iter().any(|word| test.name.contains(word)));
    anyhow::ensure!(!tests.is_empty(), "no test's name holds {}", filter.join(" or "));
    if list {
        for test in &tests {
            out!("{}", test.name);
        }
        return Ok(0);
    }
    let began = Instant::now();
    let ground = crate::host::prepare(paths, &common.versions(), common.accel)?;
    let run = RunDir::create(paths)?;
    let folder = run.path.clone();
    let mut record = Record {
        paths,
        common,
        run: folder.clone(),
        host: Tally::default(),
        guest: Tally::default(),
        failures: Vec::new(),
        without_guest: 0,
    };
    for test in &tests {
        if let Work::Host(work) = &test.work {
            record.perform(test, |scene| work(scene))?;
        }
    }
    let on = format!("{} with Linux {}", common.device.verbs_name(), ground.kernel.release);
    let wants_crate = |test: &Test| [crate_tests::PREFIX, FABRIC].iter().any(|p| test.name.starts_with(p));
    if tests.iter().any(wants_crate) {
        crate_tests::build(paths)?;
    }
    let mut prepared = Some((ground, run));
    for count in 1..=MOST_NODES {
        let shared: Vec<&Test> = tests.iter().filter(|test| test.shares(count)).collect();
        if !shared.is_empty() {
            // The first boot has the folder of the whole.
            let (ground, run) = match prepared.take() {
                Some(prepared) => prepared,
                None => {
                    let ground = crate::host::prepare(paths, &common.versions(), common.accel)?;
                    (ground, RunDir::create(paths)?)
                }
            };
            share(&mut record, count, &shared, ground, run)?;
        }
    }
    for test in &tests {
        if let Work::Boots(work) = &test.work {
            record.perform(test, |scene| work(scene))?;
        }
    }
    RunDir::point_latest(&folder)?;
    Ok(summary(&record, &on, began.elapsed()))
}

/// Boots so many guests and runs the tests that share them.
fn share(record: &mut Record, count: u8, tests: &[&Test], ground: Ground, run: RunDir) -> Result<()> {
    let what = if count == 1 { "the guest".to_owned() } else { format!("{count} guests") };
    say(&format!("booting {what} for the device tests ..."));
    let (paths, common) = (record.paths, record.common);
    let mut begun = 0;
    let outcome = with_guests_in(paths, common, count, ground, run, &[], |lab| {
        begun = tests.len();
        in_guest(lab, tests, record)
    });
    match outcome {
        Ok(_) => {}
        Err(error) if error.is::<Interrupted>() => return Err(error),
        Err(error) => {
            out!("FAIL {what}\n         {error:#}");
            record.guest.failed += 1;
            record.failures.push(what);
        }
    }
    for test in tests.iter().skip(begun) {
        record.perform(test, |_| anyhow::bail!("not run: there is no guest"))?;
        record.without_guest += 1;
    }
    Ok(())
}

/// All tests of one boot. A guest that is gone fails those that are left, each by name.
fn in_guest(lab: &mut Lab, tests: &[&Test], record: &mut Record) -> Result<i32> {
    for test in tests {
        if let Work::Guest(work) | Work::Fabric(_, work) = &test.work {
            let gone = lab.check().err();
            record.without_guest += u32::from(gone.is_some());
            record.perform(test, |scene| match gone {
                Some(error) => Err(error.context("not run")),
                None => work(lab, scene),
            })?;
        }
    }
    lab.check().map(|()| 0)
}

/// The last lines, and a status for the shell.
fn summary(record: &Record, on: &str, took: Duration) -> i32 {
    let (host, guest) = (&record.host, &record.guest);
    out!();
    if !record.failures.is_empty() {
        out!("failed: {}", record.failures.join(", "));
    }
    out!("logs: {}", record.run.display());
    out!("on the host: {} tests ran, {} failed", host.passed + host.failed, host.failed);
    out!("in guests, on {on}: {} tests ran, {} failed", guest.passed + guest.failed, guest.failed);
    let skipped: Vec<&String> = host.skipped.iter().chain(&guest.skipped).collect();
    for reason in &skipped {
        out!("skipped: {reason}");
    }
    let wanting =
        if record.without_guest == 0 { "none".to_owned() } else { record.without_guest.to_string() };
    out!("skipped for want of a device: {wanting} ({} min {} s)", took.as_secs() / 60, took.as_secs() % 60);
    let (passed, failed) = (host.passed + guest.passed, host.failed + guest.failed);
    match skipped.len() {
        0 => out!("{passed} passed, {failed} failed"),
        skipped => out!("{passed} passed, {failed} failed, {skipped} skipped"),
    }
    i32::from(failed > 0)
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
    fn names_are_unique() {
        use clap::Parser;
        let cli = crate::cli::Cli::parse_from(["lab", "setup"]);
        let mut names: Vec<String> = all(&cli.common).into_iter().map(|test| test.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

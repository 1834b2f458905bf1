//! `ci/lab test`: what needs no device runs on the host, everything else in guests that have one.

mod absent;
mod baseline;
mod boots;
mod causes;
mod compiled;
mod crate_tests;
mod drivers;
mod fabric;
mod fuzz;
mod host;
mod hostile;
mod lab_tests;
mod opened;
mod pyverbs;
mod record;
mod tools;
mod tree;
mod unittest;
mod versions;

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cli::Common;
use crate::console;
use crate::host::{Ground, Versions};
use crate::lab::{Lab, with_guests_in};
use crate::paths::{Paths, RunDir};
use crate::report::{out, say};
use crate::signals::Interrupted;

use record::Record;

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
    /// In so many guests on one fabric, which all of the same [`Boot`] share.
    Guests(u8, InGuest),
    /// Boots guests of its own.
    Boots(OnHost),
}

/// Other software than what the command line says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Other {
    /// How the names of its tests begin.
    group: String,
    versions: Versions,
}

/// Guests that are up at the same time: tests that need the same ones share them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Boot {
    count: u8,
    /// `None`: the software that the command line says.
    other: Option<Other>,
}

/// A line of the suite.
struct Test {
    name: String,
    limit: Duration,
    work: Work,
    /// `None`: it runs on the software that the command line says.
    other: Option<Other>,
}

impl Test {
    fn new(name: impl Into<String>, seconds: u64, work: Work) -> Test {
        Test { name: name.into(), limit: Duration::from_secs(seconds), work, other: None }
    }

    fn host(name: &str, seconds: u64, work: impl Fn(&Scene) -> Result<Tally> + 'static) -> Test {
        Test::new(format!("host/{name}"), seconds, Work::Host(Box::new(work)))
    }

    fn guest(name: &str, seconds: u64, work: impl Fn(&mut Lab, &Scene) -> Result<Tally> + 'static) -> Test {
        Test::new(name, seconds, Work::Guests(1, Box::new(work)))
    }

    fn fabric(
        name: &str,
        nodes: u8,
        seconds: u64,
        work: impl Fn(&mut Lab, &Scene) -> Result<Tally> + 'static,
    ) -> Test {
        Test::new(format!("{FABRIC}{name}"), seconds, Work::Guests(nodes, Box::new(work)))
    }

    fn boots(name: &str, seconds: u64, work: impl Fn(&Scene) -> Result<Tally> + 'static) -> Test {
        Test::new(format!("boots/{name}"), seconds, Work::Boots(Box::new(work)))
    }

    /// The same test in a guest with other software.
    fn on(mut self, other: Other) -> Test {
        self.name = format!("{}/{}", other.group, self.name);
        self.other = Some(other);
        self
    }

    /// The guests that it runs in, if others run in them as well.
    fn boot(&self) -> Option<Boot> {
        match self.work {
            Work::Guests(count, _) => Some(Boot { count, other: self.other.clone() }),
            Work::Host(_) | Work::Boots(_) => None,
        }
    }

    /// Whether a word of the user's means this test. What runs on other software, and may be the same test as
    /// another, is meant only by a word that is in, or begins in, that group's name.
    fn is_meant(&self, word: &str) -> bool {
        let within = self.other.as_ref().map_or(usize::MAX, |other| other.group.len());
        self.name.find(word).is_some_and(|at| at < within)
    }

    fn place(&self) -> Place {
        match self.work {
            Work::Host(_) => Place::Host,
            Work::Guests(..) | Work::Boots(_) => Place::Guest,
        }
    }
}

/// How the names of tests on several guests begin.
const FABRIC: &str = "fabric/";

/// Every test, in the order in which they run: the last ones of each boot take away what it stands on.
fn all(common: &Common, soak: bool) -> Vec<Test> {
    let mut tests = host::tests();
    tests.extend(fuzz::tests(soak));
    tests.extend(boots::tests());
    tests.extend(lab_tests::tests());
    tests.extend(tools::tests(common.device));
    tests.extend(pyverbs::tests());
    tests.extend(causes::tests());
    tests.extend(opened::tests());
    tests.extend(crate_tests::tests());
    tests.extend(drivers::tests());
    tests.extend(fabric::tests(common.device));
    tests.extend(versions::tests(common));
    tests
}

/// Software that tests need besides what the user asks for.
pub fn other_versions(common: &Common) -> Vec<Versions> {
    distinct_boots(&all(common, false)).into_iter().filter_map(|boot| Some(boot.other?.versions)).collect()
}

/// Runs the tests whose names hold one of the words, or all; the long ones only in a `soak`.
pub fn test(paths: &Paths, common: &Common, filter: &[String], list: bool, soak: bool) -> Result<i32> {
    let mut tests = all(common, soak);
    tests.retain(|test| filter.is_empty() || filter.iter().any(|word| test.is_meant(word)));
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
    let mut record = Record::new(paths, common, folder.clone());
    for test in &tests {
        if let Work::Host(work) = &test.work {
            record.perform(test, |scene| work(scene))?;
        }
    }
    let wants_crate = |test: &Test| test.name.contains(crate_tests::PREFIX) || test.name.starts_with(FABRIC);
    if tests.iter().any(wants_crate) {
        crate_tests::build(paths)?;
    }
    // The first boot has the folder of the whole.
    let mut prepared = Some((ground, run));
    let boots = distinct_boots(&tests);
    let (others, usual): (Vec<&Boot>, Vec<&Boot>) = boots.iter().partition(|boot| boot.other.is_some());
    if tests.iter().any(|test| test.place() == Place::Guest && test.other.is_none()) {
        record.begin_guests(common.device.verbs_name());
        for boot in usual {
            let prepared = prepared.take().map_or_else(|| prepare(paths, common), Ok);
            share(&mut record, common, boot, &tests, prepared)?;
        }
        for test in &tests {
            if let Work::Boots(work) = &test.work {
                record.perform(test, |scene| work(scene))?;
            }
        }
    }
    for boot in others {
        if let Some(Other { group, versions: Versions { kernel, rdma_core } }) = boot.other.clone() {
            record.begin_guests(&group);
            let common = Common { kernel, rdma_core, ..common.clone() };
            share(&mut record, &common, boot, &tests, prepare(paths, &common))?;
        }
    }
    RunDir::point_latest(&folder)?;
    Ok(record.summary(began.elapsed()))
}

fn prepare(paths: &Paths, common: &Common) -> Result<(Ground, RunDir)> {
    let ground = crate::host::prepare(paths, &common.versions(), common.accel)?;
    Ok((ground, RunDir::create(paths)?))
}

/// Each once, in the tests' order.
fn distinct_boots(tests: &[Test]) -> Vec<Boot> {
    let mut boots = Vec::new();
    for boot in tests.iter().filter_map(Test::boot) {
        if !boots.contains(&boot) {
            boots.push(boot);
        }
    }
    boots
}

/// Boots guests, if what they take could be prepared, and runs the tests that share them. Without guests all of these
/// fail.
fn share(
    record: &mut Record,
    common: &Common,
    boot: &Boot,
    tests: &[Test],
    prepared: Result<(Ground, RunDir)>,
) -> Result<()> {
    let tests: Vec<&Test> = tests.iter().filter(|test| test.boot().as_ref() == Some(boot)).collect();
    let what = if boot.count == 1 { "the guest".to_owned() } else { format!("{} guests", boot.count) };
    let whose = boot.other.as_ref().map_or("the device tests", |other| &other.group);
    say(&format!("booting {what} for {whose} ..."));
    if let Ok((Ground { kernel, rdma_core, .. }, _)) = &prepared {
        let (device, release) = (common.device.verbs_name(), &kernel.release);
        record.name_guests(format!("{device} with Linux {release}, rdma-core {}", rdma_core.version));
    }
    let mut begun = 0;
    let outcome = prepared.and_then(|(ground, run)| {
        with_guests_in(record.paths, common, boot.count, ground, run, &[], |lab| {
            begun = tests.len();
            perform_in(lab, &tests, record)
        })
    });
    match outcome {
        Ok(_) => {}
        Err(error) if error.is::<Interrupted>() => return Err(error),
        Err(error) => record.failed(&format!("{what} for {whose}"), &error),
    }
    for test in tests.iter().skip(begun) {
        record.without_guest(test, anyhow::anyhow!("not run: there is no guest"))?;
    }
    Ok(())
}

/// All tests of one boot. A guest that is gone fails those that are left, each by name.
fn perform_in(lab: &mut Lab, tests: &[&Test], record: &mut Record) -> Result<i32> {
    for test in tests {
        if let Work::Guests(_, work) = &test.work {
            match lab.check() {
                Err(gone) => record.without_guest(test, gone.context("not run"))?,
                Ok(()) => record.perform(test, |scene| baseline::kept(lab, |lab| work(lab, scene)))?,
            }
        }
    }
    lab.check().map(|()| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_software_is_tested_only_where_it_is_meant() {
        use clap::Parser;
        let cli = crate::cli::Cli::parse_from(["lab", "test"]);
        let tests = all(&cli.common, true);
        let find = |name: &str| tests.iter().find(|test| test.name == name).unwrap();
        let (usual, other) = (find("drivers/kernel log"), find("versions/Linux 6.12/drivers/kernel log"));
        assert!(usual.is_meant("drivers") && !other.is_meant("drivers"));
        for word in ["versions", "6.12", "6.12/drivers"] {
            assert!(other.is_meant(word) && !usual.is_meant(word), "{word}");
        }
        assert_eq!(other_versions(&cli.common).len(), 2);
    }

    #[test]
    fn names_are_unique() {
        use clap::Parser;
        let cli = crate::cli::Cli::parse_from(["lab", "setup"]);
        let mut names: Vec<String> = all(&cli.common, true).into_iter().map(|test| test.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}

//! rdma-core's own tests in Python, as Debian's python3-pyverbs ships them: all of them, to the end. A test may only
//! skip for want of a feature that is listed as absent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::absent;
use super::{Scene, Tally, Test};
use crate::console;
use crate::lab::Lab;
use crate::report::out;

/// Where the package has them; some are compressed, as Debian does with long files of documentation.
const SOURCE: &str = "/usr/share/doc/rdma-core/tests";
/// The system's own, whose modules the package brings; another may come first in PATH.
const PYTHON: &str = "/usr/bin/python3";
/// What runs them, in the project.
const RUNNER: &str = "ci/runner/guest/rdma_core_tests.py";
/// The word in the names of the tests that this project is about.
const XRC: &str = "xrc";
/// Pages of 2 MiB that some of the tests want to find.
const HUGE_PAGES: u32 = 16;

pub fn tests() -> Vec<Test> {
    vec![
        Test::guest("pyverbs/xrc", 240, |lab, scene| run(lab, scene, Some(XRC))),
        Test::guest("pyverbs/whole", 900, |lab, scene| run(lab, scene, None)),
    ]
}

/// Runs those with the word in their names, or all.
fn run(lab: &mut Lab, scene: &Scene, word: Option<&str>) -> Result<Tally> {
    let folder = scene.dir.join("tests");
    unpack(&lab.ground.rdma_core.file(SOURCE), &folder, word)?;
    let runner = scene.paths.project.join(RUNNER);
    // Huge pages are memory that nothing else in the guest can use; few tests want them, and not for long.
    let pages = if word.is_none() { HUGE_PAGES } else { 0 };
    let line = format!(
        "[ {pages} = 0 ] || echo {pages} > /proc/sys/vm/nr_hugepages; \"$@\"; status=$?; \
         [ {pages} = 0 ] || echo 0 > /proc/sys/vm/nr_hugepages; exit $status"
    );
    let mut argv = vec!["/bin/sh".into(), "-c".into(), line.into(), "sh".into(), PYTHON.into(), "-B".into()];
    argv.extend([runner.into(), folder.clone().into(), lab.device.verbs_name().into()]);
    argv.extend(word.map(Into::into));
    let job = lab.start_in(argv, &folder, Box::new(scene.log("results")?), Box::new(scene.log("err")?))?;
    job.end_input()?;
    let ending = lab.wait(&job, Some(scene.limit))?;
    fs::remove_dir_all(&folder)?;
    let tail = || console::tail(&scene.dir.join("err"), 25).unwrap_or_default();
    let report = Report::read(&scene.text("results")).with_context(|| format!("{ending:?}\n{}", tail()))?;
    let verdict = report.judge();
    let mut features = scene.log("features")?;
    for (feature, tests) in &verdict.absent {
        writeln!(features, "{:4} {feature}", tests.len())?;
        tests.iter().try_for_each(|test| writeln!(features, "         {test}"))?;
    }
    ensure!(verdict.passed > 0 || !verdict.failures.is_empty(), "no test ran: {ending:?}\n{}", tail());
    if !report.done {
        out!("         the interpreter ended early: {ending:?}\n{}", tail());
    }
    verdict.failures.iter().for_each(|failure| out!("         {failure}"));
    Ok(verdict.tally())
}

fn unpack(from: &Path, to: &Path, word: Option<&str>) -> Result<()> {
    fs::create_dir_all(to)?;
    let entries = fs::read_dir(from)
        .with_context(|| format!("{}: the package python3-pyverbs holds the tests there", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut text = Vec::new();
        let plain = match name.strip_suffix(".gz") {
            Some(plain) => {
                flate2::read::GzDecoder::new(File::open(&path)?).read_to_end(&mut text)?;
                plain
            }
            None => {
                File::open(&path)?.read_to_end(&mut text)?;
                &name
            }
        };
        // Python in an emulated guest takes its time to read modules; those without such a test are not needed.
        let holds = |word: &str| String::from_utf8_lossy(&text).to_ascii_lowercase().contains(word);
        if !plain.starts_with("test_") || word.is_none_or(holds) {
            fs::write(to.join(plain), text)?;
        }
    }
    Ok(())
}

/// A line of what the runner in the guest says.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Listed { listed: Vec<String> },
    Ended { test: String, ended: How, why: String },
    Done { done: bool },
}

/// How a test ended; the worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    Ok,
    Skipped,
    Error,
    Failure,
}

/// All that it said.
#[derive(Debug, Default)]
struct Report {
    listed: BTreeSet<String>,
    /// The worst that each test said, and why.
    ended: BTreeMap<String, (How, String)>,
    /// What was said of whole classes or modules.
    others: Vec<(String, How, String)>,
    done: bool,
}

/// What is to be thought of it.
#[derive(Debug, Default, PartialEq)]
struct Verdict {
    passed: u32,
    /// Tests that did not run for want of a feature.
    absent: BTreeMap<&'static str, Vec<String>>,
    failures: Vec<String>,
}

impl Report {
    fn read(text: &str) -> Result<Report> {
        let mut report = Report::default();
        for line in text.lines() {
            match serde_json::from_str(line).with_context(|| format!("not a line of the runner: {line:?}"))? {
                Line::Listed { listed } => report.listed.extend(listed),
                Line::Ended { test, ended, why } if report.listed.contains(&test) => {
                    let worst = report.ended.entry(test).or_insert((ended, why.clone()));
                    if ended > worst.0 {
                        *worst = (ended, why);
                    }
                }
                Line::Ended { test, ended, why } => report.others.push((test, ended, why)),
                Line::Done { done } => report.done = done,
            }
        }
        if report.listed.is_empty() {
            bail!("the tests were not even listed");
        }
        Ok(report)
    }

    /// A test that has not ended may have been held up by its class: `setUpClass (tests.module.Class)`.
    fn of_class(&self, test: &str) -> Option<(How, &str)> {
        let class = test.rsplit_once('.')?.0;
        let of = |name: &str| name.split_once('(').is_some_and(|(_, of)| of.trim_end_matches(')') == class);
        self.others.iter().find(|(name, ..)| of(name)).map(|(_, how, why)| (*how, why.as_str()))
    }

    fn judge(&self) -> Verdict {
        let mut verdict = Verdict::default();
        for test in &self.listed {
            let own = self.ended.get(test).map(|(how, why)| (*how, why.as_str()));
            let (how, why) =
                own.or_else(|| self.of_class(test)).unwrap_or((How::Failure, "it has no result"));
            let feature = match how {
                How::Ok => {
                    verdict.passed += 1;
                    continue;
                }
                How::Skipped => absent::of_reason(why),
                How::Error => absent::of_test(test),
                How::Failure => None,
            };
            // Those that the project is about have no other excuse.
            match feature.filter(|feature| !test.contains(XRC) || *feature == absent::ON_DEMAND_PAGING) {
                Some(feature) => verdict.absent.entry(feature).or_default().push(test.clone()),
                None => verdict.failures.push(format!("{test}: {how:?}: {why}")),
            }
        }
        // What went wrong without being any test's: an import, or a fixture's end.
        for (name, how, why) in self.others.iter().filter(|(_, how, _)| *how > How::Skipped) {
            verdict.failures.push(format!("{name}: {how:?}: {why}"));
        }
        verdict
    }
}

impl Verdict {
    fn tally(&self) -> Tally {
        let skipped = self.absent.iter().flat_map(|(feature, tests)| {
            std::iter::repeat_n(format!("pyverbs, absent: {feature}"), tests.len())
        });
        Tally { passed: self.passed, failed: self.failures.len() as u32, skipped: skipped.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"listed": ["tests.test_x.T.test_a", "tests.test_x.T.test_xrc", "tests.test_y.U.test_b"]}
{"test": "tests.test_x.T.test_a", "ended": "ok", "why": ""}
{"test": "tests.test_x.T.test_xrc", "ended": "skipped", "why": "ODP is not supported - No ODP caps"}
{"test": "setUpClass (tests.test_y.U)", "ended": "skipped", "why": "Tag matching is not supported"}
{"done": true}
"#;

    fn judge(text: &str) -> Verdict {
        Report::read(text).unwrap().judge()
    }

    #[test]
    fn results_are_counted_by_feature() {
        let verdict = judge(GOOD);
        assert_eq!((verdict.passed, verdict.failures.len(), verdict.absent.len()), (1, 0, 2), "{verdict:?}");
        assert_eq!(verdict.absent[absent::ON_DEMAND_PAGING], ["tests.test_x.T.test_xrc"]);
        assert_eq!(verdict.tally().skipped.len(), 2);
        assert!(Report::read(GOOD).unwrap().done);
    }

    #[test]
    fn what_must_run_may_not_skip() {
        let failed = |text: &str| judge(text).failures.len();
        assert_eq!(failed(&GOOD.replace("ODP is not", "XRC is not")), 1);
        assert_eq!(failed(&GOOD.replace("ODP is not", "Tag matching is not")), 1, "no excuse for XRC");
        assert_eq!(failed(&GOOD.replace("ok", "error")), 1);
        assert_eq!(failed(&GOOD.replace("\"skipped\", \"why\": \"Tag", "\"error\", \"why\": \"Tag")), 2);
    }

    #[test]
    fn tests_without_a_result_have_failed() {
        let early: String = GOOD.lines().take(2).map(|line| format!("{line}\n")).collect();
        let report = Report::read(&early).unwrap();
        assert!(!report.done);
        assert_eq!(report.judge().failures.len(), 2);
        assert!(Report::read("").is_err());
        assert!(Report::read("Traceback").is_err());
    }

    #[test]
    fn the_worst_counts() {
        let twice = format!("{GOOD}{}", GOOD.lines().nth(1).unwrap().replace("ok", "failure"));
        assert_eq!(judge(&twice).failures.len(), 1);
    }
}

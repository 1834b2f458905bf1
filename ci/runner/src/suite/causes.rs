//! Each error, event and fault by its cause, seen by programs: Python on the stock libibverbs. What they must see stands
//! in `ci/mlx5-model/ERRORS.md`; the tests read it there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{Scene, Tally, Test, unittest};
use crate::console;
use crate::lab::{Ending, Lab, with_guests_in};
use crate::paths::RunDir;

/// Where the tests and the table are in the project.
const TESTS: &str = "ci/runner/guest/causes";
const TABLE: &str = "ci/mlx5-model/ERRORS.md";
/// Where the model's own tests are.
const MODELS_TESTS: &str = "ci/mlx5-model/tests";
/// What the tests have in common, which holds none.
const COMMON: &str = "bench.py";
/// The system's own, whose modules python3-pyverbs brings; another may come first in PATH.
const PYTHON: &str = "/usr/bin/python3";

/// The files of tests, each of them a test of the suite.
const MODULES: &[&str] =
    &["keys", "lengths", "srqs", "peers", "queues", "library", "events", "ports", "faults"];
/// The one whose device fails, which has a guest of its own.
const FATAL: &str = "fatal";

pub fn tests() -> Vec<Test> {
    let table = Test::host("causes are listed", 60, |scene| {
        let names: Vec<String> = super::all(scene.common, false).into_iter().map(|test| test.name).collect();
        listed(&scene.paths.project, &names)
    });
    let each = |module: &&'static str| {
        let module = *module;
        Test::guest(&format!("causes/{module}"), 600, move |lab, scene| run(lab, scene, module))
    };
    let fatal = Test::boots("device fatal", 300, fatal);
    [table, fatal].into_iter().chain(MODULES.iter().map(each)).collect()
}

/// A guest whose device fails once, and works again.
fn fatal(scene: &Scene) -> Result<Tally> {
    let common = scene.common;
    let ground = crate::host::prepare(scene.paths, &common.versions(), common.accel)?;
    let run_dir = RunDir::create(scene.paths)?;
    let mut tally = Err(anyhow::anyhow!("not run"));
    with_guests_in(scene.paths, common, 1, ground, run_dir, &[], |lab| {
        tally = run(lab, scene, FATAL);
        Ok(0)
    })?;
    tally
}

fn run(lab: &mut Lab, scene: &Scene, module: &str) -> Result<Tally> {
    let folder = scene.paths.project.join(TESTS);
    // Without -B the interpreter writes its own files beside them.
    let argv = [PYTHON, "-B", "-m", "unittest", "-v", module].map(Into::into).into();
    let job = lab.start_in(argv, &folder, Box::new(scene.log("out")?), Box::new(scene.log("err")?))?;
    job.end_input()?;
    let ending = lab.wait(&job, Some(scene.limit))?;
    let tail = console::tail(&scene.dir.join("err"), 25)?;
    let tally = unittest::read(&scene.text("err")).with_context(|| format!("{ending:?}\n{tail}"))?;
    ensure!(ending == Ending::Exited(0) || tally.failed > 0, "{ending:?}\n{tail}");
    Ok(tally)
}

/// Every test has its row in the table, every test that the table names is there, every file of tests is run.
fn listed(project: &Path, suite: &[String]) -> Result<Tally> {
    let tests = written(&project.join(TESTS), "py", "def test_")?;
    let models = written(&project.join(MODELS_TESTS), "rs", "fn ")?;
    let table = fs::read_to_string(project.join(TABLE)).context(TABLE)?;
    let named = named(&table);
    let missing: Vec<_> = tests.difference(&named).cloned().collect();
    ensure!(missing.is_empty(), "{TABLE} has no row for {}", missing.join(", "));
    let exists = |name: &&String| match name.strip_suffix('…') {
        Some(start) => suite.iter().any(|test| test.starts_with(start)),
        None if name.contains('/') => suite.contains(name),
        None if name.contains('.') => tests.contains(*name),
        None => models.iter().any(|test| test.ends_with(&format!(".{name}"))),
    };
    let invented: Vec<_> = named.iter().filter(|name| !exists(name)).cloned().collect();
    ensure!(invented.is_empty(), "{TABLE} names tests that do not exist: {}", invented.join(", "));
    ensure!(!named.is_empty(), "{TABLE} names no test");
    for test in &tests {
        let module = test.split('.').next().unwrap_or_default();
        ensure!(module == FATAL || MODULES.contains(&module), "{TESTS}/{module}.py is not run");
    }
    Ok(Tally::ONE)
}

/// The tests in the folder's files, as `file.name`; `start` is what a test's name follows.
fn written(folder: &Path, extension: &str, start: &str) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_none_or(|ext| ext != extension) || path.ends_with(COMMON) {
            continue;
        }
        let module = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path)?;
        found.extend(text.lines().filter_map(|line| {
            let (name, _) = line.trim_start().strip_prefix(start)?.split_once('(')?;
            Some(format!("{module}.{name}"))
        }));
    }
    Ok(found)
}

/// The tests that the last columns of the tables name, in backquotes: `file.name` is one of these, one with a slash is
/// the suite's, any other the model's own. Names of the model's files are none.
fn named(table: &str) -> BTreeSet<String> {
    let cells =
        table.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit(" | ").next());
    let tests = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    tests.filter(|test| !test.ends_with(".rs")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(tests: &str, table: &str) -> Result<Tally> {
        let dir = tempfile::tempdir()?;
        for folder in [TESTS, MODELS_TESTS] {
            fs::create_dir_all(dir.path().join(folder))?;
        }
        fs::write(dir.path().join(TESTS).join("keys.py"), tests)?;
        fs::write(dir.path().join(TESTS).join(COMMON), "def test_none(self):\n")?;
        fs::write(dir.path().join(MODELS_TESTS).join("wire.rs"), "#[test]\nfn c() {\n")?;
        fs::write(dir.path().join(TABLE), table)?;
        listed(dir.path(), &["boots/b".to_owned()])
    }

    #[test]
    fn tests_and_rows_belong_together() {
        let test = "class A:\n    def test_a(self):\n        pass\n";
        assert!(tree(test, "| cause | test |\n|---|---|\n| x | `keys.a` |\n").is_ok());
        assert!(tree(test, "| x | `keys.b` |\n").is_err());
        assert!(tree(test, "| x | `keys.a` |\n| x | `keys.b` |\n").is_err());
        for (name, exists) in [
            ("boots/b", true),
            ("boots/c", false),
            ("boots/…", true),
            ("drivers/…", false),
            ("c", true),
            ("d", false),
        ] {
            let table = format!("| x | `keys.a` |\n| x | `wire.rs`: `{name}` |\n");
            assert_eq!(tree(test, &table).is_ok(), exists, "{name}");
        }
        assert!(tree(test, "").is_err());
        assert!(tree("", "").is_err());
    }

    #[test]
    fn the_projects_own_are_complete() {
        use clap::Parser;
        let cli = crate::cli::Cli::parse_from(["lab", "test"]);
        let names: Vec<String> = super::super::all(&cli.common, false).into_iter().map(|t| t.name).collect();
        listed(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")), &names).unwrap();
    }
}

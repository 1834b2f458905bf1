//! Checks that need no device: format, lints, documentation, unit tests, scripts, the fence around unsafe code.

use anyhow::{Result, ensure};

use super::{Scene, Tally, Test, tree};
use crate::console;
use crate::host::oldest_rust;
use crate::proc::{run_logged, run_status, system_command};

/// A device name that no machine has.
const NO_SUCH_DEVICE: &str = "nosuch";

pub fn tests() -> Vec<Test> {
    vec![
        Test::host("format", 120, |scene| cargo(scene, &["fmt", "--all", "--check"])),
        Test::host("scripts", 60, shellcheck),
        Test::host("fence", 60, |scene| tree::fence(&scene.paths.project)),
        Test::host("names", 60, |scene| tree::names(&scene.paths.project)),
        Test::host("clippy", 1200, |scene| {
            cargo(scene, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
        }),
        Test::host("documentation", 1200, documentation),
        Test::host("unit tests", 1500, unit_tests),
        Test::host("oldest Rust", 1500, oldest_rust),
        Test::host("checked-in bindings", 600, |scene| cargo(scene, &["check", "--no-default-features"])),
        Test::host("device tests without a device", 600, without_a_device),
    ]
}

fn cargo(scene: &Scene, arguments: &[&str]) -> Result<Tally> {
    run_logged(scene.paths.cargo().args(arguments), &mut scene.log("output")?, scene.limit, None)?;
    Ok(Tally::ONE)
}

fn documentation(scene: &Scene) -> Result<Tally> {
    let mut command = scene.paths.cargo();
    command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    run_logged(&mut command, &mut scene.log("output")?, scene.limit, None)?;
    Ok(Tally::ONE)
}

/// The whole workspace compiles with the oldest Rust that it names.
fn oldest_rust(scene: &Scene) -> Result<Tally> {
    let rust = oldest_rust::obtain(scene.paths)?;
    let mut command = scene.paths.cargo();
    command.args(["check", "--workspace", "--all-targets"]);
    // Apart from the rest, which would else be compiled anew by whichever compiler comes next.
    command.env("CARGO_TARGET_DIR", scene.paths.lab.join("oldest-rust-target")).env("RUSTC", rust.wrapper());
    run_logged(&mut command, &mut scene.log("output")?, scene.limit, None)?;
    Ok(Tally::ONE)
}

fn shellcheck(scene: &Scene) -> Result<Tally> {
    let scripts = tree::scripts(&scene.paths.project)?;
    ensure!(!scripts.is_empty(), "there are no scripts to check");
    let mut command = system_command("shellcheck")?;
    command.current_dir(&scene.paths.project).args(scripts);
    run_logged(&mut command, &mut scene.log("output")?, scene.limit, None)?;
    Ok(Tally::ONE)
}

/// `cargo test` as anyone would type it, without a device: what needs one is listed as ignored, with its reason.
fn unit_tests(scene: &Scene) -> Result<Tally> {
    let mut command = scene.paths.cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).env_remove("RDMA_XRC_DEVICE");
    let outcome = run_logged(&mut command, &mut scene.log("output")?, scene.limit, None);
    let output = scene.text("output");
    let results = test_results(&output);
    let tally = results.iter().fold(Tally::default(), |mut all, one| {
        all.add(Tally { passed: one.passed, failed: one.failed, skipped: Vec::new() });
        all
    });
    if tally.failed == 0 {
        outcome?;
    }
    ensure!(tally.passed > 0, "cargo test ran no test");
    let bare: Vec<&str> = output.lines().filter(|line| ignored_without_reason(line)).collect();
    ensure!(bare.is_empty(), "ignored without a reason:\n{}", bare.join("\n"));
    ensure!(results.iter().any(|one| one.ignored > 0), "no device test is listed as ignored");
    Ok(tally)
}

/// Whether a line of the harness's output tells of an ignored test and not why. The reason stands behind the word, or
/// in brackets before the name where a test program has its own main. Examples in the documentation that are shown
/// and not compiled have none.
fn ignored_without_reason(line: &str) -> bool {
    let Some(test) = line.strip_prefix("test ").and_then(|rest| rest.trim_end().strip_suffix(" ... ignored"))
    else {
        return false;
    };
    !test.starts_with('[') && !test.contains(" (line ")
}

/// Device tests that are asked for where there is no device must fail, every one.
fn without_a_device(scene: &Scene) -> Result<Tally> {
    let mut command = scene.paths.cargo();
    command.args(["test", "--no-fail-fast", "--lib", "--tests", "--", "--ignored"]);
    command.env("RDMA_XRC_DEVICE", NO_SUCH_DEVICE);
    let status = run_status(&mut command, &mut scene.log("output")?, scene.limit, None)?;
    let results = test_results(&scene.text("output"));
    let (passed, failed): (u32, u32) =
        (results.iter().map(|r| r.passed).sum(), results.iter().map(|r| r.failed).sum());
    ensure!(!status.success(), "cargo test -- --ignored succeeded without a device");
    ensure!(failed > 0, "no device test failed:\n{}", console::tail(&scene.dir.join("output"), 20)?);
    ensure!(passed == 0, "{passed} device tests passed without a device");
    Ok(Tally::ONE)
}

/// One `test result:` line of Rust's test harness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u32,
    pub failed: u32,
    pub ignored: u32,
}

/// All of them in an output.
pub fn test_results(output: &str) -> Vec<Counts> {
    let number = |line: &str, what: &str| -> Option<u32> {
        let before = line.split([';', '.']).map(str::trim).find_map(|part| part.strip_suffix(what))?;
        before.trim().parse().ok()
    };
    let lines = output.lines().filter(|line| line.starts_with("test result:"));
    lines
        .filter_map(|line| {
            Some(Counts {
                passed: number(line, "passed")?,
                failed: number(line, "failed")?,
                ignored: number(line, "ignored")?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_looked_for() {
        assert!(ignored_without_reason("test a::b ... ignored"));
        for line in ["test a ... ignored, no device", "test [no device] a ... ignored", "test a ... ok"] {
            assert!(!ignored_without_reason(line), "{line}");
        }
        assert!(!ignored_without_reason("test src/lib.rs - (line 7) ... ignored"));
    }

    #[test]
    fn counts_are_read() {
        let output = "running 3 tests\ntest a ... ok\n\ntest result: ok. 12 passed; 1 failed; 2 ignored; 0 measured; \
                      0 filtered out; finished in 0.11s\nother\ntest result: FAILED. 0 passed; 3 failed; 0 ignored; 0 \
                      measured; 9 filtered out; finished in 1.00s\n";
        let counts = test_results(output);
        assert_eq!(counts[0], Counts { passed: 12, failed: 1, ignored: 2 });
        assert_eq!(counts[1], Counts { passed: 0, failed: 3, ignored: 0 });
    }
}

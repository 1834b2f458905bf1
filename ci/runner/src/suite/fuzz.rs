//! Hostile guests: the device model's fuzz targets, each from the inputs that are kept and on from there. Before CI a
//! few thousand inputs each, with the same seed every time; `--soak` a million in all, with another seed every time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use super::{Scene, Tally, Test};
use crate::proc::{display, run_logged, run_status};
use crate::report::out;

/// The package of the targets, and where it has them.
const PACKAGE: &str = "mlx5-model-fuzz";
const TARGETS: &str = "ci/mlx5-model/fuzz/fuzz_targets";
/// What libFuzzer looks at to see how far an input got, from a compiler that any Rust has; and arithmetic that does
/// not turn over unnoticed.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=3",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];
/// Flags hold for what runs on this, and not for build scripts, only if it is named.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Inputs of a target in CI, and of all targets in a soak.
const INPUTS: u64 = 2_000;
const SOAK_INPUTS: u64 = 1_000_000;
const SEED: u64 = 1;
/// The longest input.
const LONGEST: u32 = 1024;
/// An input that takes so long, on a busy machine, hangs.
const HANG: Duration = Duration::from_secs(60);
/// An input that takes so much has no bound.
const MEMORY_MIB: u32 = 1024;

pub fn tests(soak: bool) -> Vec<Test> {
    let mut tests = vec![Test::host("fuzz", 900, |scene| {
        let folder = scene.dir.join("corpus");
        all(scene, &folder, |_| INPUTS, SEED)
    })];
    if soak {
        tests.push(Test::host("fuzz soak", 6 * 60 * 60, |scene| {
            // What one soak finds new is where the next one begins.
            let folder = scene.paths.lab.join("fuzz-corpus");
            let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() & 0xffff_ffff;
            all(scene, &folder, |targets| SOAK_INPUTS.div_ceil(targets), seed)
        }));
    }
    tests
}

/// The targets' names.
fn targets(project: &Path) -> Result<Vec<String>> {
    let folder = project.join(TARGETS);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    ensure!(!names.is_empty(), "there are no targets in {}", folder.display());
    names.sort();
    Ok(names)
}

/// Builds all of them; where the programs are.
fn build(scene: &Scene) -> Result<PathBuf> {
    let folder = scene.paths.lab.join("fuzz-target");
    let mut command = scene.paths.cargo();
    command.args(["build", "--release", "-p", PACKAGE, "--bins", "--features", "libfuzzer"]);
    command.args(["--target", PLATFORM]).arg("--target-dir").arg(&folder);
    command.env("RUSTFLAGS", FLAGS.join(" ")).env_remove("CARGO_ENCODED_RUSTFLAGS");
    run_logged(&mut command, &mut scene.log("build")?, scene.limit, None)?;
    Ok(folder.join(PLATFORM).join("release"))
}

/// Runs every target with so many inputs, whatever becomes of the others.
fn all(scene: &Scene, corpus: &Path, inputs: impl Fn(u64) -> u64, seed: u64) -> Result<Tally> {
    let targets = targets(&scene.paths.project)?;
    let programs = build(scene)?;
    let mut unpack = scene.paths.cargo();
    unpack.args(["run", "--quiet", "-p", PACKAGE, "--example", "corpus", "--", "unpack"]).arg(corpus);
    run_logged(&mut unpack, &mut scene.log("corpus-log")?, scene.limit, None)?;
    let inputs = inputs(targets.len() as u64);
    let (mut tally, mut played) = (Tally::default(), 0);
    for target in &targets {
        match one(scene, &programs.join(target), target, &corpus.join(target), inputs, seed) {
            Ok(figures) => {
                tally.passed += 1;
                played += figures.inputs;
                let Figures { inputs, edges, features } = figures;
                out!("         {target}: {inputs} inputs, {edges} edges, {features} features, panics 0");
            }
            Err(error) => {
                tally.failed += 1;
                out!("         {target}: {error:#}");
            }
        }
    }
    out!(
        "         in all: {played} inputs with seed {seed}, {} of {} targets failed",
        tally.failed,
        targets.len()
    );
    Ok(tally)
}

/// What libFuzzer says in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    inputs: u64,
    edges: u64,
    features: u64,
}

fn one(
    scene: &Scene,
    program: &Path,
    target: &str,
    corpus: &Path,
    inputs: u64,
    seed: u64,
) -> Result<Figures> {
    let mut command = std::process::Command::new(program);
    command.arg(corpus).args([
        format!("-runs={inputs}"),
        format!("-seed={seed}"),
        format!("-max_len={LONGEST}"),
        format!("-timeout={}", HANG.as_secs()),
        format!("-rss_limit_mb={MEMORY_MIB}"),
        format!("-artifact_prefix={}/{target}-", scene.dir.display()),
        "-print_final_stats=1".to_owned(),
    ]);
    let log = format!("{target}.log");
    let status = run_status(&mut command, &mut scene.log(&log)?, scene.limit, None)?;
    let said = scene.text(&log);
    if !status.success() {
        let panic: Vec<&str> = said
            .lines()
            .skip_while(|line| !line.contains("panicked at"))
            .take(4)
            .chain(
                said.lines()
                    .filter(|line| line.starts_with("SUMMARY:") || line.contains("Test unit written")),
            )
            .collect();
        anyhow::bail!(
            "{}\n{}\nrun it again: {} FILE",
            display(&command),
            panic.join("\n"),
            program.display()
        );
    }
    figures(&said).with_context(|| format!("{log} has no figures"))
}

/// Reads them from its output.
fn figures(said: &str) -> Option<Figures> {
    let number = |line: &str, name: &str| -> Option<u64> {
        line.split(name).nth(1)?.split_whitespace().next()?.parse().ok()
    };
    let done = said.lines().rev().find(|line| line.contains("\tDONE ") && line.contains(" cov: "))?;
    let stat = "stat::number_of_executed_units:";
    let inputs = said.lines().find_map(|line| number(line.strip_prefix(stat).map(|_| line)?, stat))?;
    Some(Figures { inputs, edges: number(done, " cov: ")?, features: number(done, " ft: ")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let said = "#2\tINITED cov: 5 ft: 6 corp: 1/1b exec/s: 0 rss: 28Mb\n\
                    #31870\tDONE   cov: 2808 ft: 7321 corp: 1094/62Kb lim: 275 exec/s: 522 rss: 32Mb\n\
                    Done 31870 runs in 61 second(s)\n\
                    stat::number_of_executed_units: 31870\nstat::peak_rss_mb:              31\n";
        assert_eq!(figures(said), Some(Figures { inputs: 31870, edges: 2808, features: 7321 }));
        assert_eq!(figures("Done 31870 runs\n"), None);
    }

    #[test]
    fn every_target_is_a_program_of_the_package() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let manifest = fs::read_to_string(project.join(TARGETS).join("../Cargo.toml")).unwrap();
        for name in targets(&project).unwrap() {
            assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name} is not in Cargo.toml");
        }
    }
}

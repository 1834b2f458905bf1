//! Programs in C for the guest, compiled by the host's compiler when a test needs them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::Scene;
use crate::proc::run_logged;

/// Where their sources are in the project.
const SOURCES: &str = "ci/runner/guest";
const LIMIT: Duration = Duration::from_secs(60);

/// Compiles `NAME.c` with these libraries; the program lies in the test's folder, which the guest sees.
pub fn program(scene: &Scene, name: &str, libraries: &[&str]) -> Result<PathBuf> {
    let program = scene.dir.join(name);
    let mut compile = Command::new("cc");
    compile.args(["-Wall", "-Wextra", "-O1", "-o"]).arg(&program);
    compile.arg(scene.paths.project.join(SOURCES).join(format!("{name}.c"))).args(libraries);
    run_logged(&mut compile, &mut scene.log(&format!("{name}.cc"))?, LIMIT, None)?;
    Ok(program)
}

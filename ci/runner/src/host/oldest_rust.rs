//! The oldest Rust that the workspace names, as a Debian release ships it: unpacked, run by its own loader, and used
//! for nothing but to see that the workspace still compiles with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::bundle::{Bundle, Source};
use crate::lock::Lock;
use crate::paths::Paths;
use crate::proc::capture;

/// The release whose compiler is the oldest that we support.
const SUITE: &str = "trixie";

pub const BUNDLE: Bundle = Bundle {
    name: "oldest-rust",
    what: "the oldest Rust",
    packages: &["rustc"],
    // What the compiler's package asks for to link with: the machine's own does that.
    own: &["gcc", "libc-dev", "binutils"],
    sources: &[Source::of(&[SUITE])],
};

/// A compiler in `root`.
#[derive(Clone, Debug)]
pub struct OldestRust {
    root: PathBuf,
    /// As it names it: `1.85.1`.
    pub version: String,
}

impl OldestRust {
    fn open(root: PathBuf) -> Result<OldestRust> {
        let mut rust = OldestRust { root, version: String::new() };
        let text = capture(Command::new(rust.wrapper()).arg("--version"), Duration::from_secs(60))?;
        rust.version = text.split_whitespace().nth(1).context("rustc names no version")?.to_owned();
        Ok(rust)
    }

    /// A program that cargo can call as its compiler.
    pub fn wrapper(&self) -> PathBuf {
        self.root.join("rustc")
    }

    /// Adds the wrapper to what the package holds.
    fn complete(root: &Path) -> Result<()> {
        // It is linked with newer libraries than the machine's, and its build knows only Debian's own places. The
        // folder is found from the script's own place, so that a clone may move. It takes bash: other shells drop
        // variables with names like CARGO_BIN_EXE_mlx5-model.
        let script = r#"#!/bin/bash
root=$(dirname "$0")
libraries=$root/usr/lib/x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$root/usr/bin/rustc" --sysroot "$root/usr" "$@"
"#;
        let path = root.join("rustc");
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        OldestRust::open(root.to_owned()).map(drop)
    }
}

/// What is there, without fetching anything.
pub fn present(paths: &Paths) -> Option<OldestRust> {
    OldestRust::open(BUNDLE.root(paths)).ok()
}

/// The compiler, fetched and unpacked if it is not there yet.
pub fn obtain(paths: &Paths) -> Result<OldestRust> {
    let named = named_version(&paths.project)?;
    // Half-done folders are swept away by whoever sets a clone up.
    let _this_clone = Lock::exclusive(&paths.lab.join(".setup"), "setting up this clone")?;
    let rust = match present(paths) {
        Some(rust) => rust,
        None => OldestRust::open(BUNDLE.unpack(paths, |root, _| OldestRust::complete(root))?)?,
    };
    ensure!(
        rust.version == named || rust.version.starts_with(&format!("{named}.")),
        "Cargo.toml names Rust {named} as the oldest, and the one to check with, of Debian's {SUITE}, is {}",
        rust.version
    );
    Ok(rust)
}

/// The workspace's `rust-version`.
fn named_version(project: &Path) -> Result<String> {
    let manifest = fs::read_to_string(project.join("Cargo.toml")).context("Cargo.toml")?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    Ok(line.context("Cargo.toml names no rust-version")?.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_names_a_version() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let version = named_version(&project).unwrap();
        assert!(version.split('.').all(|part| part.parse::<u32>().is_ok()), "{version}");
    }
}

//! What the guest must see although it mounts a fresh /tmp and /run over the host's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::paths::Paths;

const COVERED: [&str; 2] = ["/tmp", "/run"];

/// Paths under /tmp or /run that a command needs: the clone, the caller's directory, what its arguments and its
/// environment name. Where the caller stands in /tmp itself, all that lies there.
pub fn shown(paths: &Paths, cwd: &Path, argv: &[OsString]) -> Vec<PathBuf> {
    let mut wanted: Vec<PathBuf> = vec![paths.project.clone(), paths.target.clone(), cwd.to_owned()];
    wanted.extend(argv.iter().map(PathBuf::from));
    for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "XDG_CACHE_HOME"] {
        wanted.extend(std::env::var_os(name).map(PathBuf::from));
    }
    for name in ["PATH", "LD_LIBRARY_PATH"] {
        wanted.extend(std::env::var_os(name).iter().flat_map(std::env::split_paths));
    }
    narrow(wanted.into_iter().filter_map(|path| path.canonicalize().ok()).collect())
}

/// Only what is covered, each once, and nothing that lies in another.
fn narrow(wanted: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut covered = Vec::new();
    for path in wanted {
        if COVERED.iter().any(|top| path == Path::new(top)) {
            covered.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if COVERED.iter().any(|top| path.starts_with(top)) {
            covered.push(path);
        }
    }
    covered.sort();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in covered {
        // Sorted: what holds a path comes before it.
        if !kept.iter().any(|outer| path.starts_with(outer)) {
            kept.push(path);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_covered() {
        let paths = ["/tmp/b/c", "/usr/bin", "/tmp/a", "/run/x", "/tmp/a/d", "/tmpx"].map(PathBuf::from);
        let expected = ["/run/x", "/tmp/a", "/tmp/b/c"].map(PathBuf::from);
        assert_eq!(narrow(paths.to_vec()), expected);
    }
}

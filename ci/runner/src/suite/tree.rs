//! Rules about the source tree that no compiler checks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::Tally;

/// Every file of the tree but what was built, with its path from the project's root.
pub fn files(project: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![project.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name();
            if entry.file_type()?.is_dir() {
                if name != "target" && name != ".git" {
                    folders.push(entry.path());
                }
            } else if entry.file_type()?.is_file() {
                found.push(entry.path().strip_prefix(project)?.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Shell scripts, by their name or their first line.
pub fn scripts(project: &Path) -> Result<Vec<PathBuf>> {
    let mut scripts = files(project)?;
    scripts.retain(|file| {
        let first = || {
            let text = fs::read(project.join(file)).unwrap_or_default();
            let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
            line.starts_with(b"#!") && (line.ends_with(b"/sh") || line.ends_with(b"bash"))
        };
        file.extension().is_some_and(|ext| ext == "sh") || first()
    });
    Ok(scripts)
}

/// In the safe crate unsafe code, and the bindings, are named in src/verbs/ only; in examples nowhere.
pub fn fence(project: &Path) -> Result<Tally> {
    let mut outside = Vec::new();
    let mut inside = 0;
    for file in files(project)?.iter().filter(|file| file.extension().is_some_and(|ext| ext == "rs")) {
        let fenced = file.starts_with("src/verbs");
        if !fenced && !["src", "examples"].iter().any(|top| file.starts_with(top)) {
            continue;
        }
        let text = fs::read_to_string(project.join(file))?;
        for (number, line) in text.lines().enumerate() {
            if !names_the_unsafe(line) {
                continue;
            }
            if fenced {
                inside += 1;
            } else {
                outside.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    ensure!(outside.is_empty(), "outside src/verbs/:\n{}", outside.join("\n"));
    ensure!(inside > 0, "no unsafe code was found even in src/verbs/: this check looks in the wrong place");
    Ok(Tally::ONE)
}

/// Whether a line of code, comments apart, has the word `unsafe` or names the bindings.
fn names_the_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.split(|c| !is_word(c)).any(|word| word == "unsafe" || word == "rdma_core_sys")
}

/// The tree names neither the machine it was written on nor the mirror that this machine uses.
pub fn names(project: &Path) -> Result<Tally> {
    // A clone in one of these may well have a name that the tree has every right to.
    let common = ["/dev", "/etc", "/lib", "/opt", "/proc", "/run", "/srv", "/sys", "/tmp", "/usr", "/var"];
    let mut forbidden = Vec::new();
    if project.components().count() > 2 && !common.iter().any(|top| project.starts_with(top)) {
        forbidden.push(project.display().to_string());
    }
    forbidden.extend(crate::host::apt::mirror_host().ok());
    let mut found = Vec::new();
    for file in files(project)? {
        let Ok(text) = fs::read_to_string(project.join(&file)) else { continue };
        for (number, line) in text.lines().enumerate() {
            if forbidden.iter().any(|name| line.contains(name.as_str())) {
                found.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    ensure!(found.is_empty(), "names of this machine or its mirror:\n{}", found.join("\n"));
    Ok(Tally::ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_counts_where_it_is_code() {
        for line in ["    unsafe { f() }", "unsafe impl Send for A {}", "use rdma_core_sys as ffi;"] {
            assert!(names_the_unsafe(line), "{line}");
        }
        for line in ["#![deny(unsafe_code)]", "// unsafe", "/// not unsafe at all", "let unsafely = 1;"] {
            assert!(!names_the_unsafe(line), "{line}");
        }
    }

    #[test]
    fn a_breach_is_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("src/verbs")).unwrap();
        fs::write(dir.path().join("src/verbs/a.rs"), "unsafe { a() }\n").unwrap();
        assert!(fence(dir.path()).is_ok());
        fs::write(dir.path().join("src/b.rs"), "fn b() {\n    unsafe { a() }\n}\n").unwrap();
        let error = fence(dir.path()).unwrap_err().to_string();
        assert!(error.contains("src/b.rs:2"), "{error}");
    }

    #[test]
    fn scripts_are_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "#!/bin/sh\n").unwrap();
        fs::write(dir.path().join("b"), "#!/usr/bin/env python3\n").unwrap();
        fs::write(dir.path().join("c.sh"), "").unwrap();
        assert_eq!(scripts(dir.path()).unwrap(), [Path::new("a"), Path::new("c.sh")]);
    }
}

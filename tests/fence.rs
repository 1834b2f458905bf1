//! The fence around `unsafe`: which files may name the bindings, and what each of them begins with.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The code of a file: its lines without those that are comments, and without the lint's name.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n").replace("unsafe_code", "")
}

#[test]
fn only_the_fenced_module_is_unsafe_or_names_the_bindings() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let fence = src.join("verbs");
    let (inside, outside): (Vec<_>, Vec<_>) =
        sources(&src).into_iter().partition(|path| path.starts_with(&fence));
    assert!(inside.len() > 10 && outside.len() > 20, "the sources are where this test looks");
    for path in outside {
        let code = code(&path);
        assert!(!code.contains("unsafe"), "unsafe in {}", path.display());
        assert!(!code.contains("rdma_core_sys"), "the bindings are named in {}", path.display());
    }
    for path in inside {
        let text = fs::read_to_string(&path).unwrap();
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(head.contains(&"//! # Safety"), "{} does not begin with its safety", path.display());
    }
}

/// Examples and benchmarks use the crate as anybody does.
#[test]
fn nothing_beside_the_crate_is_unsafe() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in ["examples", "benches"].iter().flat_map(|dir| sources(&root.join(dir))) {
        assert!(!code(&path).contains("unsafe"), "unsafe in {}", path.display());
    }
}

//! The checked-in bindings against those generated from the installed headers.
#![cfg(all(feature = "bindgen", target_arch = "x86_64"))]

use std::{collections::HashSet, env, fs, path::Path};

const GENERATED: &str = include_str!(concat!(env!("OUT_DIR"), "/bindings.rs"));

/// The checked-in file names its own source of the pthread types; the generated one is included where
/// they are in scope.
const HEAD: &str = "// Made by bindgen from verbs.h; see lib.rs for the command that makes it anew.\n\
                    use libc::{pthread_cond_t, pthread_mutex_t};\n\n";

#[test]
fn checked_in_bindings_are_what_bindgen_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bindings.rs");
    if env::var_os("RDMA_XRC_SYS_REGENERATE").is_some() {
        fs::write(&path, format!("{HEAD}{GENERATED}")).expect("src/bindings.rs can be written");
        return;
    }
    let checked_in = fs::read_to_string(&path).expect("src/bindings.rs can be read");
    let checked_in = checked_in.strip_prefix(HEAD).expect("src/bindings.rs begins with the usual lines");
    if env!("RDMA_CORE_VERSION") == env!("CHECKED_IN_VERSION") {
        assert!(checked_in == GENERATED, "src/bindings.rs is out of date; make it anew as lib.rs says");
        return;
    }
    // Another release may add structures, fields at the end and constants. It changes no value.
    let generated: HashSet<&str> = GENERATED.lines().collect();
    let missing: Vec<&str> = checked_in
        .lines()
        .filter(|line| line.starts_with("pub const IBV_") && !generated.contains(line))
        .collect();
    assert!(
        missing.is_empty(),
        "constants that rdma-core {} has otherwise: {missing:?}",
        env!("RDMA_CORE_VERSION")
    );
}

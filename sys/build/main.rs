//! Build script: finds libibverbs, compiles the shim, generates the bindings. One file per job.

mod find;
#[cfg(feature = "bindgen")]
mod generate;
mod shim;

use std::{env, path::PathBuf, process};

/// The version of rdma-core from whose headers the checked-in bindings were made.
const CHECKED_IN_VERSION: &str = "44.0";

fn main() {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rustc-check-cfg=cfg(installed_headers)");
    println!("cargo::rerun-if-env-changed=DOCS_RS");
    if env::var_os("DOCS_RS").is_some() {
        // docs.rs has no libibverbs. Documentation is made from the checked-in bindings and links nothing.
        println!("cargo::metadata=version={CHECKED_IN_VERSION}");
        println!("cargo::metadata=bindings=checked-in");
        return;
    }
    let library = match find::libibverbs() {
        Ok(library) => library,
        Err(reason) => fail(&reason),
    };
    println!("cargo::metadata=version={}", library.version);
    println!("cargo::rustc-env=RDMA_CORE_VERSION={}", library.version);
    println!("cargo::rustc-env=CHECKED_IN_VERSION={CHECKED_IN_VERSION}");
    shim::compile(&library);

    #[cfg(feature = "bindgen")]
    {
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR")).join("bindings.rs");
        if let Err(reason) = generate::bindings(&library, &out) {
            fail(&reason);
        }
        println!("cargo::rustc-cfg=installed_headers");
        println!("cargo::metadata=bindings=installed");
    }
    #[cfg(not(feature = "bindgen"))]
    println!("cargo::metadata=bindings=checked-in");
}

/// Ends the build with a reason that Cargo shows as an error, without a panic's noise around it.
fn fail(reason: &str) -> ! {
    for line in reason.lines() {
        println!("cargo::error={line}");
    }
    process::exit(1);
}

/// What was found of the installed rdma-core.
pub(crate) struct Library {
    /// "44.0": the release of rdma-core, not libibverbs' own "1.14.44.0".
    pub version: String,
    pub include: Vec<PathBuf>,
}

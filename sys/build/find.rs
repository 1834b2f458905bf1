//! Finds the installed libibverbs with pkg-config and tells Cargo how to link it.

use super::Library;

/// The oldest release that the project is tested with.
const OLDEST: u32 = 44;

pub(crate) fn libibverbs() -> Result<Library, String> {
    // The pkg-config crate announces every variable it reads.
    let found = pkg_config::Config::new().probe("libibverbs").map_err(|reason| {
        format!(
            "the headers of libibverbs were not found.\n\
             Install the package libibverbs-dev (Debian, Ubuntu) or rdma-core-devel (Fedora, RHEL), \
             rdma-core {OLDEST} or later, and pkg-config.\n{reason}"
        )
    })?;
    let version = rdma_core_version(&found.version).ok_or_else(|| {
        format!("libibverbs.pc gives the version {:?}, which is not of the form 1.x.RELEASE.y", found.version)
    })?;
    let release = version.split('.').next().and_then(|release| release.parse::<u32>().ok()).unwrap_or(0);
    if release < OLDEST {
        return Err(format!(
            "the installed libibverbs is of rdma-core {version}; {OLDEST} is the oldest that is supported.\n\
             Install a newer libibverbs-dev (Debian, Ubuntu) or rdma-core-devel (Fedora, RHEL)."
        ));
    }
    let mut include = found.include_paths;
    if include.is_empty() {
        include.push("/usr/include".into());
    }
    let header = include.iter().map(|dir| dir.join("infiniband/verbs.h")).find(|header| header.is_file());
    match header {
        Some(header) => println!("cargo::rerun-if-changed={}", header.display()),
        None => {
            return Err(format!(
                "pkg-config knows libibverbs {version}, but infiniband/verbs.h is in none of {include:?}.\n\
                 Install the package libibverbs-dev (Debian, Ubuntu) or rdma-core-devel (Fedora, RHEL)."
            ));
        }
    }
    Ok(Library { version, include })
}

/// `1.14.44.0` is the library's own version; its last two parts are rdma-core's.
fn rdma_core_version(library: &str) -> Option<String> {
    let parts: Vec<&str> = library.split('.').collect();
    match parts.as_slice() {
        [_, _, release, minor] => Some(format!("{release}.{minor}")),
        _ => None,
    }
}

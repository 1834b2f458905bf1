//! `ci/lab doctor`: what is needed, what is there, what is missing and how to mend it. It changes nothing.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::cli::Common;
use crate::host::kvm::{self, Wish};
use crate::host::{Bundle, kernel, oldest_rust, packages, qemu, rdma_core};
use crate::paths::Paths;
use crate::proc::{capture, find_program, system_command};
use crate::report::out;

/// Free space that the first setup takes: downloads, unpacked packages, builds.
const SPACE: u64 = 4 << 30;

/// The oldest Rust that builds the project.
const RUST: (u32, u32) = (1, 85);

enum Finding {
    Good(String),
    /// Not there yet, but the lab sees to it.
    Later(String),
    Bad(String),
}

use Finding::{Bad, Good, Later};

pub fn doctor(paths: &Paths, common: &Common) -> Result<i32> {
    let mut findings = vec![
        ("machine".to_owned(), machine()),
        ("Rust".to_owned(), rust()),
        ("packages".to_owned(), needed_packages()),
    ];
    findings.extend(versions(paths, common));
    findings.extend([
        ("QEMU with vfio-user".to_owned(), vfio_user(paths)),
        ("accelerator".to_owned(), accelerator(paths, common.accel)),
        ("device model".to_owned(), model(paths)),
        ("disk".to_owned(), disk(paths, common)),
    ]);
    let mut blocked = 0;
    for (what, finding) in findings {
        let (mark, text) = match finding {
            Good(text) => ("ok     ", text),
            Later(text) => ("later  ", text),
            Bad(text) => {
                blocked += 1;
                ("MISSING", text)
            }
        };
        out!("{mark} {what}: {text}");
    }
    out!("clone: {}\nbuilt and unpacked: {}", paths.project.display(), paths.lab.display());
    out!("downloads: {}", paths.cache.display());
    if blocked > 0 {
        out!("{blocked} of these must be mended by hand first");
    }
    Ok(i32::from(blocked > 0))
}

fn machine() -> Finding {
    let system = rustix::system::uname();
    let (kernel, machine) = (system.sysname().to_string_lossy(), system.machine().to_string_lossy());
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown system");
    let name = format!("{} on {machine}", name.trim_matches('"'));
    if (kernel.as_ref(), machine.as_ref()) != ("Linux", "x86_64") {
        return Bad(format!("{name}; the guest needs Linux on x86_64"));
    }
    Good(name)
}

fn rust() -> Finding {
    let mut cargo = std::process::Command::new("cargo");
    let text = match capture(cargo.arg("--version"), Duration::from_secs(30)) {
        Ok(text) => text.trim().to_owned(),
        Err(error) => return Bad(format!("{error:#}; install Rust {}.{} or later", RUST.0, RUST.1)),
    };
    let mut numbers = text.split([' ', '.']).filter_map(|word| word.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= RUST => Good(text),
        _ => Bad(format!("{text}; the project needs {}.{} or later", RUST.0, RUST.1)),
    }
}

fn needed_packages() -> Finding {
    let missing = packages::missing();
    if missing.is_empty() {
        return Good(format!("all {} are there", packages::all().len()));
    }
    let lines: Vec<_> =
        missing.iter().map(|one| format!("\n          {}: {}", one.name, one.purpose)).collect();
    let names: Vec<_> = missing.iter().map(|one| one.name).collect();
    let list = lines.concat();
    if packages::can_install() {
        return Later(format!("`ci/lab setup` installs with apt:{list}"));
    }
    if find_program("apt-get").is_some() {
        let command = packages::install_command(&names);
        return Bad(format!("type {command}; it brings:{list}"));
    }
    Bad(format!(
        "there is no apt here; install by this system's own means what these Debian packages hold:{list}"
    ))
}

/// All that the guest can run, and the compiler that only the tests want.
fn versions(paths: &Paths, common: &Common) -> Vec<(String, Finding)> {
    let mut findings = Vec::new();
    if let kernel::Wish::Folder(folder) = &common.kernel {
        let found = match common.kernel.obtain(paths) {
            Ok(kernel) => Good(kernel.release),
            Err(error) => Bad(format!("{error:#}")),
        };
        findings.push((format!("kernel in {}", folder.display()), found));
    }
    for known in &kernel::KNOWN {
        let found = known.present(paths).map(|kernel| kernel.release);
        findings.push((known.bundle.what.to_owned(), good_or_later(paths, found, &known.bundle)));
    }
    let own = match rdma_core::Wish::Own.obtain(paths) {
        Ok(own) => Good(format!("{}, {}", own.version, own.origin())),
        Err(error) => Bad(format!("{error:#}")),
    };
    findings.push(("rdma-core".to_owned(), own));
    for known in &rdma_core::KNOWN {
        let found = known.present(paths).map(|core| format!("{}, {}", core.version, core.origin()));
        findings.push((known.bundle.what.to_owned(), good_or_later(paths, found, &known.bundle)));
    }
    let rust = oldest_rust::present(paths).map(|rust| rust.version);
    findings.push((oldest_rust::BUNDLE.what.to_owned(), good_or_later(paths, rust, &oldest_rust::BUNDLE)));
    findings
}

fn vfio_user(paths: &Paths) -> Finding {
    let found = qemu::present(paths).map(|qemu| format!("{}, {}", qemu.version, qemu.origin()));
    good_or_later(paths, found, &qemu::BUNDLE)
}

fn good_or_later(paths: &Paths, found: Option<String>, bundle: &Bundle) -> Finding {
    if let Some(text) = found {
        return Good(text);
    }
    if let Some(download) = bundle.downloaded(paths) {
        let (origin, version) = (download.origin, download.version);
        return Later(format!("{version} of {origin} is downloaded and will be unpacked when it is wanted"));
    }
    match system_command("apt-get") {
        Ok(_) => Later(format!("the lab fetches {} when it is wanted", bundle.what)),
        Err(_) => Bad(format!("{} comes from Debian's mirror by apt, which this machine lacks", bundle.what)),
    }
}

fn accelerator(paths: &Paths, wish: Wish) -> Finding {
    match wish {
        Wish::Kvm => return Good("KVM, as asked for".to_owned()),
        Wish::Tcg => return Good("software emulation (TCG), as asked for".to_owned()),
        Wish::Auto => {}
    }
    let Some(qemu) = qemu::present(paths) else {
        return Later("found out with the first guest".to_owned());
    };
    match kvm::recorded(paths, &qemu) {
        None => Later("found out with the first guest".to_owned()),
        Some(verdict) if verdict.works => Good(format!("KVM: {}", verdict.why)),
        Some(verdict) => Good(format!("software emulation (TCG), which is slower. Not KVM: {}", verdict.why)),
    }
}

fn model(paths: &Paths) -> Finding {
    if paths.built("mlx5-model").exists() {
        Good("built".to_owned())
    } else {
        Later("built with the first guest".to_owned())
    }
}

fn disk(paths: &Paths, common: &Common) -> Finding {
    let place = paths.lab.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(place) {
        Ok(found) => {
            let free = found.f_bavail * found.f_frsize;
            let text = format!("{:.1} GiB free", free as f64 / (1u64 << 30) as f64);
            let set_up = qemu::present(paths).is_some() && common.kernel.present(paths).is_some();
            if free < SPACE && !set_up {
                return Bad(format!("{text}; the first setup takes up to {} GiB", SPACE >> 30));
            }
            Good(text)
        }
        Err(error) => Bad(format!("{}: {error}", place.display())),
    }
}

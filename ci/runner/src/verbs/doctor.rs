//! `ci/lab doctor`: what is needed, what is there, what is missing and how to mend it. It changes nothing.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::cli::Common;
use crate::host::download::Download;
use crate::host::kvm::{self, Wish};
use crate::host::{kernel, packages, qemu};
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
    let findings = [
        ("machine", machine()),
        ("Rust", rust()),
        ("packages", needed_packages()),
        ("guest kernel", guest_kernel(paths)),
        ("QEMU with vfio-user", vfio_user(paths)),
        ("accelerator", accelerator(paths, common.accel)),
        ("device model", model(paths)),
        ("disk", disk(paths)),
    ];
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

fn guest_kernel(paths: &Paths) -> Finding {
    match kernel::present(paths) {
        Some(kernel) => Good(kernel.release),
        None => later(&paths.cache.join("kernel"), "Debian's kernel"),
    }
}

fn vfio_user(paths: &Paths) -> Finding {
    match qemu::present(paths) {
        Some(qemu) => Good(format!("{}, {}", qemu.version, qemu.origin())),
        None => later(&paths.cache.join("qemu"), "a QEMU of 10.1 or later"),
    }
}

fn later(cache: &Path, what: &str) -> Finding {
    if let Some(download) = Download::open(cache) {
        return Later(format!(
            "`ci/lab setup` unpacks {} {}, which is downloaded",
            download.origin, download.version
        ));
    }
    match system_command("apt-get") {
        Ok(_) => Later(format!("`ci/lab setup` fetches {what}")),
        Err(_) => Bad(format!("{what} comes from Debian's mirror by apt, which this machine lacks")),
    }
}

fn accelerator(paths: &Paths, wish: Wish) -> Finding {
    match wish {
        Wish::Kvm => return Good("KVM, as asked for".to_owned()),
        Wish::Tcg => return Good("software emulation (TCG), as asked for".to_owned()),
        Wish::Auto => {}
    }
    let (Some(qemu), Some(kernel)) = (qemu::present(paths), kernel::present(paths)) else {
        return Later("found out with the first guest".to_owned());
    };
    match kvm::recorded(paths, &qemu, &kernel) {
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

fn disk(paths: &Paths) -> Finding {
    let place = paths.lab.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(place) {
        Ok(found) => {
            let free = found.f_bavail * found.f_frsize;
            let text = format!("{:.1} GiB free", free as f64 / (1u64 << 30) as f64);
            let set_up = qemu::present(paths).is_some() && kernel::present(paths).is_some();
            if free < SPACE && !set_up {
                return Bad(format!("{text}; the first setup takes up to {} GiB", SPACE >> 30));
            }
            Good(text)
        }
        Err(error) => Bad(format!("{}: {error}", place.display())),
    }
}

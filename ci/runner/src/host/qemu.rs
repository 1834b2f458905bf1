//! A QEMU that can attach a vfio-user device (10.1 or later): the machine's own, or one unpacked beside it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::bundle::{Bundle, Source};
use crate::paths::Paths;
use crate::proc::{capture, find_program};

const PROGRAM: &str = "qemu-system-x86_64";
/// All of one version; apt would else take some of them from the other suite.
pub const BUNDLE: Bundle = Bundle {
    name: "qemu",
    what: "QEMU",
    packages: &["qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios"],
    own: &[],
    sources: &[
        Source { suites: &["trixie", "trixie-backports"], from: Some("trixie-backports") },
        Source::of(&["forky"]),
        Source::of(&["sid"]),
    ],
};

/// How to start it.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// `None`: the machine's own, found in PATH.
    root: Option<PathBuf>,
    pub version: String,
}

impl Qemu {
    /// A command to which a machine's description is added.
    pub fn command(&self) -> Command {
        let Some(root) = &self.root else { return Command::new(PROGRAM) };
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        // Run by its own loader: it is linked with newer libraries than the machine's.
        let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
        let mut path = libraries.as_os_str().to_owned();
        path.push(":");
        path.push(libraries.join("pulseaudio"));
        command.arg("--library-path").arg(path).arg(root.join("usr/bin").join(PROGRAM));
        for data in ["usr/share/qemu", "usr/share/seabios"] {
            command.arg("-L").arg(root.join(data));
        }
        // Else it would load the modules of the machine's own QEMU and give up.
        command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
        command
    }

    fn open(root: Option<PathBuf>) -> Result<Qemu> {
        let mut qemu = Qemu { root, version: String::new() };
        let text = capture(qemu.command().arg("--version"), Duration::from_secs(30))?;
        let version = text.split_whitespace().skip_while(|word| *word != "version").nth(1);
        qemu.version = version.context("QEMU names no version")?.to_owned();
        Ok(qemu)
    }

    fn attaches_vfio_user(&self) -> Result<bool> {
        let text = capture(self.command().args(["-device", "help"]), Duration::from_secs(30))?;
        Ok(text.contains("vfio-user-pci"))
    }

    /// Where it comes from, for people.
    pub fn origin(&self) -> String {
        self.root
            .as_ref()
            .map_or("the machine's own".to_owned(), |root| format!("unpacked in {}", root.display()))
    }
}

/// What is there, without fetching anything.
pub fn present(paths: &Paths) -> Option<Qemu> {
    if let Ok(qemu) = Qemu::open(Some(BUNDLE.root(paths))) {
        return Some(qemu);
    }
    find_program(PROGRAM)?;
    Qemu::open(None).ok().filter(|own| own.attaches_vfio_user().unwrap_or(false))
}

/// QEMU, fetched and unpacked if there is none that serves.
pub fn obtain(paths: &Paths) -> Result<Qemu> {
    if let Some(qemu) = present(paths) {
        return Ok(qemu);
    }
    let root = BUNDLE.unpack(paths, |root, _| {
        let qemu = Qemu::open(Some(root.to_owned()))?;
        ensure!(qemu.attaches_vfio_user()?, "QEMU {} has no vfio-user-pci", qemu.version);
        Ok(())
    })?;
    Qemu::open(Some(root))
}

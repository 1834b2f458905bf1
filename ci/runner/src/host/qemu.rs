//! A QEMU that can attach a vfio-user device (10.1 or later): the machine's own, or one unpacked beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::apt::PrivateApt;
use super::download::Download;
use super::{finish, sweep, unpack};
use crate::lock::Lock;
use crate::paths::Paths;
use crate::proc::{capture, find_program};
use crate::report::{Step, say};
use crate::signals;

const PROGRAM: &str = "qemu-system-x86_64";
/// The suites to try, the steadiest first, and the one whose QEMU is meant.
const SUITES: [(&[&str], &str); 3] =
    [(&["trixie", "trixie-backports"], "trixie-backports"), (&["forky"], "forky"), (&["sid"], "sid")];
/// All of one version; apt would else take some of them from the other suite.
const PACKAGES: [&str; 4] = ["qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios"];

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

fn unpacked(paths: &Paths) -> PathBuf {
    paths.lab.join("qemu")
}

/// What is there, without fetching anything.
pub fn present(paths: &Paths) -> Option<Qemu> {
    if let Ok(qemu) = Qemu::open(Some(unpacked(paths))) {
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
    let dir = paths.cache.join("qemu");
    fs::create_dir_all(&dir)?;
    let _lock = Lock::exclusive(&paths.cache.join(".lock"), "the downloads")?;
    sweep(&paths.cache)?;
    let download = match Download::open(&dir) {
        Some(download) => download,
        None => fetch_any(paths, &dir)?,
    };
    unpack(&download.paths(&dir), &unpacked(paths), &format!("unpacking QEMU {}", download.version))?;
    let qemu = Qemu::open(Some(unpacked(paths)))?;
    anyhow::ensure!(qemu.attaches_vfio_user()?, "QEMU {} has no vfio-user-pci", qemu.version);
    Ok(qemu)
}

fn fetch_any(paths: &Paths, dir: &Path) -> Result<Download> {
    let mut failure = None;
    for (suites, from) in SUITES {
        match fetch(paths, suites, from) {
            Ok((download, fresh)) => {
                fs::remove_dir_all(dir)?;
                fs::rename(&fresh, dir)?;
                return Ok(download);
            }
            Err(error) => {
                signals::check()?;
                say(&format!("no QEMU from {from}: {error:#}"));
                failure.get_or_insert(error);
            }
        }
    }
    let failure = failure.unwrap_or_else(|| anyhow::anyhow!("no suite to fetch from"));
    Err(failure.context("no suite of this machine's Debian mirror gave a QEMU of 10.1 or later"))
}

/// Fetches into a folder that keeps its name, so that a run which was broken off is taken up again.
fn fetch(paths: &Paths, suites: &[&str], from: &str) -> Result<(Download, PathBuf)> {
    let folder = paths.cache.join(format!("qemu-{from}.part"));
    fs::create_dir_all(&folder)?;
    let mut step = Step::begin(&format!("downloading QEMU from Debian's {from}"));
    let apt = PrivateApt::new(suites, &folder)?;
    apt.update(&mut step)?;
    let wanted: Vec<String> = PACKAGES.iter().map(|name| format!("{name}/{from}")).collect();
    apt.fetch(&wanted, &mut step)?;
    let version = apt.version(&format!("{}/{from}", PACKAGES[0]))?;
    let fresh = tempfile::Builder::new().prefix(".qemu-").tempdir_in(&paths.cache)?;
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|ext| ext == "deb") {
            fs::rename(entry.path(), fresh.path().join(entry.file_name()))?;
        }
    }
    let download = Download::record(fresh.path(), &format!("Debian {from}"), &version)?;
    let whole = paths.cache.join("qemu.new");
    if whole.exists() {
        fs::remove_dir_all(&whole)?;
    }
    finish(fresh, &whole)?;
    fs::remove_dir_all(&folder)?;
    step.done();
    Ok((download, whole))
}

//! Debian's own kernel for the guest: its package unpacked, not installed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::download::Download;
use super::{apt, finish, packages, put, sweep, unpack};
use crate::lock::Lock;
use crate::paths::Paths;
use crate::proc::{capture, run_logged, system_command};
use crate::report::Step;

/// The package that depends on the kernel of the release.
const META: &str = "linux-image-amd64";

/// A kernel image and its modules.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub image: PathBuf,
    /// The folder that holds lib/modules.
    pub root: PathBuf,
    pub release: String,
}

impl Kernel {
    fn open(root: PathBuf) -> Result<Kernel> {
        let modules = fs::read_dir(root.join("lib/modules")).context("the kernel's modules")?;
        let release = modules.flatten().next().context("no modules")?.file_name().into_string();
        let release = release.map_err(|_| anyhow::anyhow!("the kernel's release is not text"))?;
        let image = root.join("boot").join(format!("vmlinuz-{release}"));
        anyhow::ensure!(image.is_file(), "there is no {}", image.display());
        Ok(Kernel { image, root, release })
    }

    /// Files of a module and of what it needs, in loading order. Modules that are built in have none.
    pub fn module_files(&self, name: &str) -> Result<Vec<PathBuf>> {
        let text = capture(self.modprobe()?.args(["--show-depends", name]), Duration::from_secs(30))?;
        Ok(text
            .lines()
            .filter_map(|line| line.strip_prefix("insmod "))
            .map(|file| file.trim_end().into())
            .collect())
    }

    fn modprobe(&self) -> Result<Command> {
        let mut command = system_command("modprobe")?;
        // Without the host's own configuration: it is about the host's hardware.
        command.args(["-C", "/dev/null", "-S", &self.release, "-d"]).arg(&self.root);
        Ok(command)
    }
}

fn unpacked(paths: &Paths) -> PathBuf {
    paths.lab.join("kernel")
}

/// What is there, without fetching anything.
pub fn present(paths: &Paths) -> Option<Kernel> {
    Kernel::open(unpacked(paths)).ok()
}

/// The kernel, fetched and unpacked if it is not there yet.
pub fn obtain(paths: &Paths) -> Result<Kernel> {
    if let Some(kernel) = present(paths) {
        return Ok(kernel);
    }
    let dir = paths.cache.join("kernel");
    fs::create_dir_all(&dir)?;
    let _lock = Lock::exclusive(&paths.cache.join(".lock"), "the downloads")?;
    sweep(&paths.cache)?;
    let download = match Download::open(&dir) {
        Some(download) => download,
        None => fetch(paths, &dir)?,
    };
    let scratch = tempfile::Builder::new().prefix(".kernel-").tempdir_in(&paths.lab)?;
    let root = scratch.path().join("root");
    unpack(&download.paths(&dir), &root, &format!("unpacking the kernel {}", download.version))?;
    // On a merged system the modules lie under /usr.
    if !root.join("lib/modules").exists() {
        fs::create_dir_all(root.join("lib"))?;
        fs::rename(root.join("usr/lib/modules"), root.join("lib/modules"))?;
    }
    let kernel = Kernel::open(root.clone())?;
    let mut depmod = system_command("depmod")?;
    depmod.arg("-b").arg(&root).arg(&kernel.release);
    run_logged(&mut depmod, &mut tempfile::tempfile()?, Duration::from_secs(120), None)?;
    put(&root, &unpacked(paths))?;
    Kernel::open(unpacked(paths))
}

fn fetch(paths: &Paths, dir: &std::path::Path) -> Result<Download> {
    let package = match package_name() {
        Ok(name) => name,
        Err(_) => {
            packages::update(paths)?;
            package_name()?
        }
    };
    let mut step = Step::begin(&format!("downloading Debian's {package}"));
    let fresh = tempfile::Builder::new().prefix(".kernel-").tempdir_in(&paths.cache)?;
    if let Err(error) = apt::download_own(&package, fresh.path(), &mut step) {
        // Lists that are older than the mirror name a version which is gone.
        step.at(&error.to_string());
        packages::update(paths)?;
        apt::download_own(&package_name()?, fresh.path(), &mut step)?;
    }
    let download = Download::record(fresh.path(), "the machine's own Debian suite", &package)?;
    fs::remove_dir_all(dir)?;
    finish(fresh, dir)?;
    step.done();
    Ok(download)
}

/// The package with the image, which `linux-image-amd64` only points to.
fn package_name() -> Result<String> {
    let text = capture(system_command("apt-cache")?.args(["depends", META]), Duration::from_secs(60))?;
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let image = names.map(str::trim).find(|name| name.starts_with("linux-image-"));
    Ok(image.with_context(|| format!("{META} depends on no image"))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_whole_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Kernel::open(dir.path().to_owned());
        assert!(open().is_err());
        fs::create_dir_all(dir.path().join("lib/modules/6.1")).unwrap();
        assert!(open().is_err());
        fs::create_dir(dir.path().join("boot")).unwrap();
        fs::write(dir.path().join("boot/vmlinuz-6.1"), "").unwrap();
        assert_eq!(open().unwrap().release, "6.1");
    }
}

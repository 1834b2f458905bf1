//! What the host must have before a guest can boot, each thing fetched or built once.

pub mod apt;
pub mod download;
pub mod initramfs;
pub mod kernel;
pub mod kvm;
pub mod oldest_rust;
pub mod packages;
pub mod qemu;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::lock::Lock;
use crate::paths::Paths;
use crate::proc;

/// All that a guest boots from.
#[derive(Debug)]
pub struct Ground {
    pub qemu: qemu::Qemu,
    pub kernel: kernel::Kernel,
    pub accel: kvm::Accel,
    /// Shared while in use, so that `clean` does not pull it away.
    _in_use: Lock,
}

/// Fetches and unpacks what is missing, one lab at a time.
pub fn prepare(paths: &Paths, wish: kvm::Wish) -> Result<Ground> {
    fs::create_dir_all(&paths.lab).with_context(|| paths.lab.display().to_string())?;
    fs::create_dir_all(&paths.cache).with_context(|| paths.cache.display().to_string())?;
    let in_use = Lock::shared(&paths.lab.join(".in-use"), "cleaning up")?;
    let _this_clone = Lock::exclusive(&paths.lab.join(".setup"), "setting up this clone")?;
    sweep(&paths.lab)?;
    packages::install_missing(paths)?;
    let kernel = kernel::obtain(paths)?;
    let qemu = qemu::obtain(paths)?;
    let accel = kvm::choose(paths, &qemu, &kernel, wish)?;
    Ok(Ground { qemu, kernel, accel, _in_use: in_use })
}

/// Takes away what a lab that was killed left half done. The folders' names begin with a dot until they are whole.
fn sweep(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && entry.file_name().as_encoded_bytes().starts_with(b".") {
            fs::remove_dir_all(entry.path()).with_context(|| entry.path().display().to_string())?;
        }
    }
    Ok(())
}

/// Unpacks Debian packages into `to`, which appears only when it is whole.
fn unpack(debs: &[std::path::PathBuf], to: &Path, what: &str) -> Result<()> {
    let parent = to.parent().context("nowhere to unpack to")?;
    let mut step = crate::report::Step::begin(what);
    let fresh = tempfile::Builder::new().prefix(".unpack-").tempdir_in(parent)?;
    let mut log = tempfile::tempfile()?;
    for (n, deb) in debs.iter().enumerate() {
        step.percent((100 * n / debs.len()) as u64);
        let mut command = proc::system_command("dpkg-deb")?;
        command.arg("-x").arg(deb).arg(fresh.path());
        proc::run_logged(&mut command, &mut log, std::time::Duration::from_secs(300), None)?;
    }
    finish(fresh, to)?;
    step.done();
    Ok(())
}

/// Gives a folder that is whole its name.
fn finish(fresh: tempfile::TempDir, to: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(fresh.path(), fs::Permissions::from_mode(0o755))?;
    put(fresh.path(), to)?;
    // It no longer has the name under which it would be removed.
    let _ = fresh.keep();
    Ok(())
}

/// Moves a folder to where another may be, whole or not: that one goes.
fn put(fresh: &Path, to: &Path) -> Result<()> {
    let name = || to.display().to_string();
    // Where `sweep` finds it if the lab is killed now.
    let aside = to.with_file_name(format!(".old-{}", std::process::id()));
    match fs::rename(to, &aside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).with_context(name),
        _ => {}
    }
    fs::rename(fresh, to).with_context(name)?;
    let _ = fs::remove_dir_all(&aside);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_whole_takes_the_place_of_what_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("kernel");
        for content in ["one", "two"] {
            let fresh = dir.path().join("fresh");
            fs::create_dir(&fresh).unwrap();
            fs::write(fresh.join("file"), content).unwrap();
            put(&fresh, &to).unwrap();
            assert_eq!(fs::read_to_string(to.join("file")).unwrap(), content);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }
}

//! Debian's own kernels for the guest: their packages unpacked, not installed. Or any other in a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::bundle::{Bundle, Source};
use crate::paths::Paths;
use crate::proc::{capture, run_logged, system_command};

/// A kernel whose package Debian has.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// As `--kernel` names it.
    pub version: &'static str,
    pub bundle: Bundle,
}

const fn known(
    version: &'static str,
    name: &'static str,
    what: &'static str,
    sources: &'static [Source],
) -> Known {
    // The package depends on the one with the release's image; what that wants for installing itself is not needed.
    let own = &["initramfs-tools", "kmod", "linux-base"];
    Known { version, bundle: Bundle { name, what, packages: &["linux-image-amd64"], own, sources } }
}

/// The kernels that can be named by their version: Debian 12's and Debian 13's.
pub static KNOWN: [Known; 2] = [
    known(
        "6.1",
        "kernel-6.1",
        "Linux 6.1",
        &[
            Source { suites: &["bookworm", "bookworm-security"], from: None },
            Source::of(&["bookworm"]),
            Source::of(&["bookworm-proposed-updates"]),
        ],
    ),
    known(
        "6.12",
        "kernel-6.12",
        "Linux 6.12",
        &[
            Source::of(&["trixie"]),
            Source { suites: &["bookworm", "bookworm-backports"], from: Some("bookworm-backports") },
        ],
    ),
];

/// What the user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    Known(&'static Known),
    /// A folder that holds boot/vmlinuz-RELEASE and lib/modules/RELEASE.
    Folder(PathBuf),
}

impl FromStr for Wish {
    type Err = String;

    fn from_str(word: &str) -> Result<Wish, String> {
        if let Some(known) = KNOWN.iter().find(|known| known.version == word) {
            return Ok(Wish::Known(known));
        }
        if word.contains('/') {
            return Ok(Wish::Folder(word.into()));
        }
        let versions = KNOWN.each_ref().map(|known| known.version).join(" and ");
        Err(format!(
            "no Linux of that name is known here. Known are {versions}; any other can be given as the path (with a \
             slash) of a folder that holds boot/vmlinuz-RELEASE and lib/modules/RELEASE"
        ))
    }
}

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
        let modules = root.join("lib/modules");
        let mut releases = Vec::new();
        for entry in fs::read_dir(&modules).with_context(|| format!("{}: no modules", modules.display()))? {
            releases.push(entry?.file_name());
        }
        let [release] = releases.as_slice() else {
            bail!("{} should hold the modules of one kernel, not of {}", modules.display(), releases.len())
        };
        let release = release.to_str().context("the kernel's release is not text")?.to_owned();
        let image = root.join("boot").join(format!("vmlinuz-{release}"));
        ensure!(image.is_file(), "there is no {}", image.display());
        ensure!(
            modules.join(&release).join("modules.dep").is_file(),
            "{} has no list of its modules; `depmod -b {} {release}` makes it",
            modules.display(),
            root.display()
        );
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

impl Known {
    /// What is there, without fetching anything.
    pub fn present(&self, paths: &Paths) -> Option<Kernel> {
        Kernel::open(self.bundle.root(paths)).ok()
    }

    fn obtain(&self, paths: &Paths) -> Result<Kernel> {
        if let Some(kernel) = self.present(paths) {
            return Ok(kernel);
        }
        let root = self.bundle.unpack(paths, |root, _| self.complete(root))?;
        Kernel::open(root)
    }

    /// What installing the package would do.
    fn complete(&self, root: &Path) -> Result<()> {
        // On a merged system the modules lie under /usr.
        if !root.join("lib/modules").exists() {
            fs::create_dir_all(root.join("lib"))?;
            fs::rename(root.join("usr/lib/modules"), root.join("lib/modules"))?;
        }
        for entry in fs::read_dir(root.join("lib/modules"))? {
            let release = entry?.file_name();
            ensure!(
                release.to_string_lossy().starts_with(&format!("{}.", self.version)),
                "the package of Linux {} holds Linux {}",
                self.version,
                release.to_string_lossy()
            );
            let mut depmod = system_command("depmod")?;
            depmod.arg("-b").arg(root).arg(&release);
            run_logged(&mut depmod, &mut tempfile::tempfile()?, Duration::from_secs(120), None)?;
        }
        Kernel::open(root.to_owned()).map(|_| ())
    }
}

impl Wish {
    /// What is there, without fetching anything.
    pub fn present(&self, paths: &Paths) -> Option<Kernel> {
        match self {
            Wish::Known(known) => known.present(paths),
            Wish::Folder(folder) => open_folder(folder).ok(),
        }
    }

    /// The kernel, fetched and unpacked if it is one that can be and is not there yet.
    pub fn obtain(&self, paths: &Paths) -> Result<Kernel> {
        match self {
            Wish::Known(known) => known.obtain(paths),
            Wish::Folder(folder) => open_folder(folder),
        }
    }
}

fn open_folder(folder: &Path) -> Result<Kernel> {
    // The guest reaches the modules by this path, from a directory that may be another.
    let root = folder.canonicalize().with_context(|| folder.display().to_string())?;
    Kernel::open(root).context("no kernel for the guest")
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
        assert!(open().unwrap_err().to_string().contains("depmod"));
        fs::write(dir.path().join("lib/modules/6.1/modules.dep"), "").unwrap();
        assert_eq!(open().unwrap().release, "6.1");
        fs::create_dir(dir.path().join("lib/modules/6.2")).unwrap();
        assert!(open().unwrap_err().to_string().contains("not of 2"));
    }

    #[test]
    fn kernels_are_named() {
        assert_eq!("6.12".parse(), Ok(Wish::Known(&KNOWN[1])));
        assert_eq!("./6.12".parse(), Ok(Wish::Folder("./6.12".into())));
        let error = "6.6".parse::<Wish>().unwrap_err();
        assert!(error.contains("6.1 and 6.12"), "{error}");
    }

    #[test]
    fn the_package_must_hold_what_it_is_named_for() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usr/lib/modules/6.12.1")).unwrap();
        let error = KNOWN[0].complete(dir.path()).unwrap_err().to_string();
        assert!(error.contains("Linux 6.1 holds Linux 6.12.1"), "{error}");
    }
}

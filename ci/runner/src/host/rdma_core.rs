//! rdma-core as the guest has it: the machine's own, or a later release that is laid over the machine's files.
//!
//! Later means that its packages come with a later libc, python and so on, which run everything that the machine has
//! as well. The other way round that would not be so: no release is laid over a machine whose own is later.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::bundle::{Bundle, Source};
use super::download::Download;
use crate::paths::Paths;
use crate::proc::{capture, system_command};

/// The library that tells which release there is.
const LIBRARY: &str = "libibverbs1";

/// A release that can be unpacked.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// As `--rdma-core` names it.
    pub name: &'static str,
    pub bundle: Bundle,
}

const fn known(
    name: &'static str,
    folder: &'static str,
    what: &'static str,
    sources: &'static [Source],
) -> Known {
    let packages = &[
        LIBRARY,
        "ibverbs-providers",
        "ibverbs-utils",
        "librdmacm1",
        "rdmacm-utils",
        "perftest",
        "python3-pyverbs",
    ];
    // What they want for being installed; their services don't run in the guest.
    let own = &["debconf", "dpkg", "init-system-helpers", "systemd", "udev"];
    Known { name, bundle: Bundle { name: folder, what, packages, own, sources } }
}

/// Debian 13's, and the one that Debian is working on.
pub static KNOWN: [Known; 2] = [
    known("56", "rdma-core-56", "rdma-core 56", &[Source::of(&["trixie"])]),
    known("sid", "rdma-core-sid", "the newest rdma-core", &[Source::of(&["sid"])]),
];

/// What the user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The machine's own, whatever it is.
    Own,
    /// The machine's own, which must be this release.
    OwnOf(u32),
    Known(&'static Known),
}

/// Debian 12's.
const OLDEST: u32 = 44;

impl FromStr for Wish {
    type Err = String;

    fn from_str(word: &str) -> Result<Wish, String> {
        if word == "own" {
            return Ok(Wish::Own);
        }
        if word == OLDEST.to_string() {
            return Ok(Wish::OwnOf(OLDEST));
        }
        if let Some(known) = KNOWN.iter().find(|known| known.name == word) {
            return Ok(Wish::Known(known));
        }
        let names = KNOWN.each_ref().map(|known| known.name).join(" and ");
        Err(format!(
            "no rdma-core of that name is known here. Known are {names}, {OLDEST} where it is the machine's own, and \
             own: whichever the machine has"
        ))
    }
}

/// What the guest has.
#[derive(Clone, Debug)]
pub struct RdmaCore {
    /// The tree that is laid over the machine's files. `None`: the machine's own rdma-core.
    pub root: Option<PathBuf>,
    /// The library's version.
    pub version: String,
}

impl RdmaCore {
    /// A file of rdma-core's packages, as the host reaches it.
    pub fn file(&self, path: &str) -> PathBuf {
        match &self.root {
            None => path.into(),
            Some(root) => root.join(path.trim_start_matches('/')),
        }
    }

    /// Where it comes from, for people.
    pub fn origin(&self) -> String {
        self.root
            .as_ref()
            .map_or("the machine's own".to_owned(), |root| format!("unpacked in {}", root.display()))
    }

    /// The machine's own.
    fn own() -> Result<RdmaCore> {
        let mut query = system_command("dpkg-query")?;
        query.args(["-W", "-f", "${Version}\\n", LIBRARY]);
        let text = capture(&mut query, Duration::from_secs(30))
            .with_context(|| format!("no {LIBRARY} is installed"))?;
        let version = text.lines().next().context("dpkg-query names no version")?;
        Ok(RdmaCore { root: None, version: version.to_owned() })
    }

    fn open(root: PathBuf) -> Result<RdmaCore> {
        let version = fs::read_to_string(root.join(VERSION)).context("no version")?;
        Ok(RdmaCore { root: Some(root), version: version.trim().to_owned() })
    }

    /// The release's number.
    pub fn release(&self) -> Result<u32> {
        let digits: String = self.version.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().with_context(|| format!("rdma-core's version is {:?}", self.version))
    }
}

/// The file that says which version was unpacked.
const VERSION: &str = ".rdma-core-version";

impl Known {
    /// What is there, without fetching anything.
    pub fn present(&self, paths: &Paths) -> Option<RdmaCore> {
        RdmaCore::open(self.bundle.root(paths)).ok()
    }

    fn obtain(&self, paths: &Paths) -> Result<RdmaCore> {
        let later = match self.present(paths) {
            Some(present) => present,
            None => {
                RdmaCore::open(self.bundle.unpack(paths, |root, download| self.complete(root, download))?)?
            }
        };
        let own = RdmaCore::own()?;
        ensure!(
            own.release()? <= later.release()?,
            "rdma-core {} can't be laid over this machine's own, {}, which is later; choose --rdma-core own",
            later.version,
            own.version
        );
        Ok(later)
    }

    fn complete(&self, root: &Path, download: &Download) -> Result<()> {
        for entry in fs::read_dir(root)? {
            // A folder like /lib would hide the machine's link of that name.
            let name = entry?.file_name();
            ensure!(
                ["etc", "usr", "var", VERSION].iter().any(|top| name == *top),
                "the packages of {} hold a top folder of their own, {}",
                self.bundle.what,
                name.to_string_lossy()
            );
        }
        Ok(fs::write(root.join(VERSION), &download.version)?)
    }
}

impl Wish {
    /// rdma-core, fetched and unpacked if it is one that can be and is not there yet.
    pub fn obtain(&self, paths: &Paths) -> Result<RdmaCore> {
        match self {
            Wish::Own => {
                Ok(RdmaCore::own().unwrap_or(RdmaCore { root: None, version: "unknown".to_owned() }))
            }
            Wish::OwnOf(release) => {
                let own = RdmaCore::own()?;
                if own.release()? != *release {
                    bail!(
                        "this machine's own rdma-core is {}, not {release}; choose --rdma-core own, or a later one",
                        own.version
                    );
                }
                Ok(own)
            }
            Wish::Known(known) => known.obtain(paths),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_named() {
        assert_eq!("own".parse(), Ok(Wish::Own));
        assert_eq!("44".parse(), Ok(Wish::OwnOf(44)));
        assert_eq!("56".parse(), Ok(Wish::Known(&KNOWN[0])));
        let error = "50".parse::<Wish>().unwrap_err();
        assert!(error.contains("56 and sid, 44"), "{error}");
    }

    #[test]
    fn releases_are_numbers() {
        let of = |version: &str| RdmaCore { root: None, version: version.to_owned() }.release();
        assert_eq!(of("56.1-1").unwrap(), 56);
        assert!(of("unknown").is_err());
    }

    #[test]
    fn files_are_found_in_the_tree() {
        let mut core = RdmaCore { root: None, version: String::new() };
        assert_eq!(core.file("/usr/x"), Path::new("/usr/x"));
        core.root = Some("/a".into());
        assert_eq!(core.file("/usr/x"), Path::new("/a/usr/x"));
    }

    #[test]
    fn a_tree_must_not_hide_the_machines_links() {
        let dir = tempfile::tempdir().unwrap();
        let download = Download { origin: String::new(), version: "56.1-1".to_owned(), files: Vec::new() };
        fs::create_dir_all(dir.path().join("usr/lib")).unwrap();
        KNOWN[0].complete(dir.path(), &download).unwrap();
        assert_eq!(RdmaCore::open(dir.path().to_owned()).unwrap().version, "56.1-1");
        fs::create_dir(dir.path().join("lib")).unwrap();
        let error = KNOWN[0].complete(dir.path(), &download).unwrap_err().to_string();
        assert!(error.contains("lib"), "{error}");
    }
}

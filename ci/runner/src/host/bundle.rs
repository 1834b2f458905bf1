//! Debian packages that the lab uses without installing them: fetched once for a user, unpacked once for a clone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::apt::PrivateApt;
use super::download::Download;
use crate::lock::Lock;
use crate::paths::Paths;
use crate::proc::{run_logged, system_command};
use crate::report::{Step, say};
use crate::signals;

const UNPACK_LIMIT: Duration = Duration::from_secs(300);

/// Packages that belong together, with all that they depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Its folder's name, in the user's cache and in target/lab.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    /// The first tells the version of the whole.
    pub packages: &'static [&'static str],
    /// What the machine has of its own: neither these nor what only they need is fetched.
    pub own: &'static [&'static str],
    /// Where it may come from, the best first.
    pub sources: &'static [Source],
}

/// Suites of Debian that packages are looked for in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub suites: &'static [&'static str],
    /// The one suite whose packages are meant; what they depend on may come from the others. `None`: the newest.
    pub from: Option<&'static str>,
}

impl Source {
    /// One suite.
    pub const fn of(suites: &'static [&'static str; 1]) -> Source {
        Source { suites, from: Some(suites[0]) }
    }

    fn name(&self) -> String {
        self.from.map_or_else(|| self.suites.join("+"), str::to_owned)
    }

    /// As apt wants a package named.
    fn package(&self, name: &str) -> String {
        self.from.map_or_else(|| name.to_owned(), |from| format!("{name}/{from}"))
    }
}

impl Bundle {
    /// Where it lies when it is unpacked.
    pub fn root(&self, paths: &Paths) -> PathBuf {
        paths.lab.join(self.name)
    }

    /// What is in the cache, whole.
    pub fn downloaded(&self, paths: &Paths) -> Option<Download> {
        Download::open(&paths.cache.join(self.name))
    }

    /// Fetches it if it is not in the cache and unpacks it. `complete` gets the folder before it has its final name,
    /// to add to it and to refuse it. Whoever calls this holds the clone's lock for setting up.
    pub fn unpack(
        &self,
        paths: &Paths,
        complete: impl FnOnce(&Path, &Download) -> Result<()>,
    ) -> Result<PathBuf> {
        let _lock = Lock::exclusive(&paths.cache.join(".lock"), "the downloads")?;
        let download = match self.downloaded(paths) {
            Some(download) => download,
            None => self.fetch(paths)?,
        };
        let debs = download.paths(&paths.cache.join(self.name));
        let mut step = Step::begin(&format!("unpacking {} {}", self.what, download.version));
        let fresh = tempfile::Builder::new().prefix(".unpack-").tempdir_in(&paths.lab)?;
        let mut log = tempfile::tempfile()?;
        for (n, deb) in debs.iter().enumerate() {
            step.percent((100 * n / debs.len()) as u64);
            let mut command = system_command("dpkg-deb")?;
            command.arg("-x").arg(deb).arg(fresh.path());
            run_logged(&mut command, &mut log, UNPACK_LIMIT, None)?;
        }
        complete(fresh.path(), &download)?;
        let root = self.root(paths);
        finish(fresh, &root)?;
        step.done();
        Ok(root)
    }

    /// Fetches it from the first source that gives it.
    fn fetch(&self, paths: &Paths) -> Result<Download> {
        sweep(&paths.cache)?;
        let mut failures = Vec::new();
        for source in self.sources {
            match self.fetch_from(paths, source) {
                Ok(download) => {
                    for source in self.sources {
                        let _ = fs::remove_dir_all(self.part(paths, source));
                    }
                    return Ok(download);
                }
                Err(error) => {
                    signals::check()?;
                    say(&format!("{} is not to be had from {}: {error:#}", self.what, source.name()));
                    failures.push(source.name());
                }
            }
        }
        anyhow::bail!(
            "none of these suites of this machine's Debian mirror gave {}: {}; what went wrong stands above",
            self.what,
            failures.join(", ")
        )
    }

    /// Keeps its name, so that a run which was broken off is taken up again.
    fn part(&self, paths: &Paths, source: &Source) -> PathBuf {
        paths.cache.join(format!("{}-{}.part", self.name, source.name()))
    }

    fn fetch_from(&self, paths: &Paths, source: &Source) -> Result<Download> {
        let archives = self.part(paths, source);
        fs::create_dir_all(&archives)?;
        let mut step = Step::begin(&format!("downloading {} from Debian's {}", self.what, source.name()));
        let apt = PrivateApt::new(source.suites, &archives)?;
        apt.count_as_installed(self.own)?;
        apt.update(&mut step)?;
        let wanted: Vec<String> = self.packages.iter().map(|name| source.package(name)).collect();
        apt.fetch(&wanted, &mut step)?;
        let version = apt.version(wanted.first().context("no package")?)?;
        let fresh = tempfile::Builder::new().prefix(".fetched-").tempdir_in(&paths.cache)?;
        for entry in fs::read_dir(&archives)? {
            let entry = entry?;
            if entry.path().extension().is_some_and(|ext| ext == "deb") {
                fs::rename(entry.path(), fresh.path().join(entry.file_name()))?;
            }
        }
        let download = Download::record(fresh.path(), &format!("Debian {}", source.name()), &version)?;
        finish(fresh, &paths.cache.join(self.name))?;
        step.done();
        Ok(download)
    }
}

/// Takes away what a lab that was killed left half done. The folders' names begin with a dot until they are whole.
pub fn sweep(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && entry.file_name().as_encoded_bytes().starts_with(b".") {
            fs::remove_dir_all(entry.path()).with_context(|| entry.path().display().to_string())?;
        }
    }
    Ok(())
}

/// Gives a folder that is whole its name. Another may be there, whole or not: that one goes.
fn finish(fresh: tempfile::TempDir, to: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(fresh.path(), fs::Permissions::from_mode(0o755))?;
    let name = || to.display().to_string();
    // Where `sweep` finds it if the lab is killed now.
    let aside = to.with_file_name(format!(".old-{}", std::process::id()));
    match fs::rename(to, &aside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).with_context(name),
        _ => {}
    }
    fs::rename(fresh.path(), to).with_context(name)?;
    // It no longer has the name under which it would be removed.
    let _ = fresh.keep();
    let _ = fs::remove_dir_all(&aside);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUNDLE: Bundle = Bundle {
        name: "thing",
        what: "a thing",
        packages: &["thing"],
        own: &[],
        // No mirror has it: what this test unpacks can only come from the cache.
        sources: &[],
    };

    fn places(dir: &Path) -> Paths {
        let paths =
            Paths { project: dir.into(), target: dir.into(), lab: dir.join("lab"), cache: dir.join("cache") };
        fs::create_dir_all(&paths.lab).unwrap();
        fs::create_dir_all(&paths.cache).unwrap();
        paths
    }

    /// A package with one file, in the cache as a download would leave it.
    fn downloaded(paths: &Paths, content: &str) {
        let tree = paths.project.join("tree");
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        fs::write(
            tree.join("DEBIAN/control"),
            "Package: thing\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: a\n",
        )
        .unwrap();
        fs::write(tree.join("file"), content).unwrap();
        let cache = paths.cache.join(BUNDLE.name);
        let _ = fs::remove_dir_all(&cache);
        fs::create_dir(&cache).unwrap();
        let mut build = system_command("dpkg-deb").unwrap();
        build.args(["-b"]).arg(&tree).arg(cache.join("thing.deb"));
        run_logged(&mut build, &mut tempfile::tempfile().unwrap(), UNPACK_LIMIT, None).unwrap();
        Download::record(&cache, "here", "1").unwrap();
    }

    #[test]
    fn what_is_whole_takes_the_place_of_what_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let paths = places(dir.path());
        for content in ["one", "two"] {
            downloaded(&paths, content);
            let root = BUNDLE.unpack(&paths, |root, _| Ok(fs::write(root.join("added"), "")?)).unwrap();
            assert_eq!(fs::read_to_string(root.join("file")).unwrap(), content);
            assert!(root.join("added").exists());
            assert_eq!(fs::read_dir(&paths.lab).unwrap().count(), 1);
        }
        // What is refused leaves everything as it was.
        downloaded(&paths, "three");
        assert!(BUNDLE.unpack(&paths, |_, _| anyhow::bail!("no")).is_err());
        assert_eq!(fs::read_to_string(BUNDLE.root(&paths).join("file")).unwrap(), "two");
        assert_eq!(fs::read_dir(&paths.lab).unwrap().count(), 1);
    }

    #[test]
    fn a_download_that_was_changed_is_fetched_anew() {
        let dir = tempfile::tempdir().unwrap();
        let paths = places(dir.path());
        downloaded(&paths, "one");
        fs::write(paths.cache.join("thing/thing.deb"), "else").unwrap();
        let error = BUNDLE.unpack(&paths, |_, _| Ok(())).unwrap_err().to_string();
        assert!(error.contains("gave a thing"), "{error}");
        assert!(!BUNDLE.root(&paths).exists());
    }

    #[test]
    fn half_done_folders_are_swept_away() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".fetched-1")).unwrap();
        fs::create_dir(dir.path().join("kernel")).unwrap();
        fs::write(dir.path().join(".lock"), "").unwrap();
        sweep(dir.path()).unwrap();
        assert!(!dir.path().join(".fetched-1").exists());
        assert!(dir.path().join("kernel").exists() && dir.path().join(".lock").exists());
    }

    #[test]
    fn packages_are_named_by_suite_where_one_is_meant() {
        let any = Source { suites: &["a", "b"], from: None };
        assert_eq!((any.package("p").as_str(), any.name().as_str()), ("p", "a+b"));
        assert_eq!(Source::of(&["a"]).package("p"), "p/a");
    }
}

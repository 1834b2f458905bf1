//! Where things lie: the clone, what was built, what was downloaded, the folder of one run.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::device::Node;
use crate::lock::Lock;

/// Old run folders that are kept.
const KEPT_RUNS: usize = 20;

/// The places of one clone and one user.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The clone.
    pub project: PathBuf,
    /// Cargo's target directory.
    pub target: PathBuf,
    /// What the lab builds, unpacks and writes: `target/lab` in the clone.
    pub lab: PathBuf,
    /// What the lab downloads, shared by all clones of a user.
    pub cache: PathBuf,
}

impl Paths {
    /// Finds them. The runner lies in Cargo's target directory, under the profile's name.
    pub fn find(project: &Path) -> Result<Paths> {
        let project = project.canonicalize().with_context(|| project.display().to_string())?;
        let program = std::env::current_exe()?;
        let target =
            program.ancestors().nth(2).context("the runner is not in a target directory")?.to_owned();
        let home = |rest: &str| std::env::var_os("HOME").map(|home| Path::new(&home).join(rest));
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| home(".cache"))
            .context("neither XDG_CACHE_HOME nor HOME says where downloads may be kept")?
            .join("rdma-xrc");
        Ok(Paths { lab: project.join("target/lab"), project, target, cache })
    }

    /// A program that the workspace builds in release mode.
    pub fn built(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name)
    }

    /// Cargo, on this workspace and this target directory.
    pub fn cargo(&self) -> std::process::Command {
        let mut cargo = std::process::Command::new("cargo");
        cargo
            .current_dir(&self.project)
            .env("CARGO_TARGET_DIR", &self.target)
            .env_remove("CARGO_BUILD_TARGET");
        cargo
    }
}

/// What the guest may write to, in a run's folder. It sees nothing else of that folder's but to read, so it cannot
/// touch the logs that it is judged by, nor lead a host process that writes there astray.
pub const FILES: &str = "files";

/// A guest's part of [`FILES`], in the run's folder: all of it if the guest is alone.
pub fn files(node: Node) -> String {
    if node.has_peers() { format!("{FILES}/node-{}", node.number) } else { FILES.to_owned() }
}

/// The folder of one run: logs, sockets, and a folder with all that the guest leaves.
#[derive(Debug)]
pub struct RunDir {
    pub path: PathBuf,
    // Held so that nobody prunes the folder under a guest.
    _lock: Lock,
}

impl RunDir {
    /// Makes the folder, points `latest` at it and takes away the oldest.
    pub fn create(paths: &Paths) -> Result<RunDir> {
        let runs = paths.lab.join("runs");
        fs::create_dir_all(&runs)?;
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace([':', '-'], "");
        let path = new_folder(&runs, &format!("{now}-{}", std::process::id()))?;
        let lock = Lock::exclusive(&path.join(".lock"), "this run")?;
        fs::create_dir(path.join(FILES))?;
        RunDir::point_latest(&path)?;
        prune(&runs);
        Ok(RunDir { path, _lock: lock })
    }

    /// Makes `latest` mean this folder.
    pub fn point_latest(path: &Path) -> Result<()> {
        let (runs, id) = (path.parent().context("no parent")?, path.file_name().context("no name")?);
        let link = runs.join(format!(".latest-{}", std::process::id()));
        // Left by a lab that was killed and had the same number.
        let _ = fs::remove_file(&link);
        symlink(id, &link)?;
        Ok(fs::rename(&link, runs.join("latest"))?)
    }

    /// Makes the folders in which so many guests write.
    pub fn make_files(&self, count: u8) -> Result<()> {
        for node in Node::all(count) {
            let path = self.files(node);
            fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// A file of this run.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A guest's own folder, which it finds as RDMA_XRC_RUN_DIR.
    pub fn files(&self, node: Node) -> PathBuf {
        self.path.join(files(node))
    }

    /// A new file of this run, to write to.
    pub fn log(&self, name: &str) -> Result<File> {
        let path = self.file(name);
        File::create(&path).with_context(|| path.display().to_string())
    }
}

/// Makes a folder of that name, or one that begins so: a run may boot several times within a second.
fn new_folder(parent: &Path, name: &str) -> Result<PathBuf> {
    let mut path = parent.join(name);
    let mut number = 1;
    loop {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                number += 1;
                path = parent.join(format!("{name}-{number}"));
            }
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
    }
}

/// Takes from what a guest has left whatever means more to the host than its content: device nodes, pipes, sockets,
/// the set-user-ID and set-group-ID bits, folders that their owner can't enter. The guest must be off. Links are not
/// followed.
pub fn disarm(folder: &Path) -> io::Result<()> {
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path)?;
        let (kind, mode) = (found.file_type(), found.permissions().mode());
        if kind.is_dir() {
            set_mode(&path, mode, mode & 0o777 | 0o700)?;
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        } else if kind.is_file() {
            set_mode(&path, mode, mode & 0o777)?;
        } else if kind.is_block_device() || kind.is_char_device() || kind.is_fifo() || kind.is_socket() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn set_mode(path: &Path, is: u32, should: u32) -> io::Result<()> {
    if is & 0o7777 == should { Ok(()) } else { fs::set_permissions(path, PermissionsExt::from_mode(should)) }
}

/// How the name of a folder begins that is being removed.
const ASIDE: &str = ".old-";

/// Removes the oldest runs. What can't be removed stays: that is no reason not to run.
fn prune(runs: &Path) {
    let mut ids: Vec<PathBuf> = fs::read_dir(runs)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok())
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    // The names begin with the time.
    ids.sort();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (aside, ids): (Vec<_>, Vec<_>) = ids.into_iter().partition(|path| name(path).starts_with(ASIDE));
    for broken_off in aside {
        remove(&broken_off);
    }
    for old in ids.iter().rev().skip(KEPT_RUNS) {
        if Lock::is_held(&old.join(".lock")) {
            continue;
        }
        // So that nobody finds half of it, and another run that prunes does not stumble.
        let aside = runs.join(format!("{ASIDE}{}", name(old)));
        if fs::rename(old, &aside).is_ok() {
            remove(&aside);
        }
    }
}

fn remove(folder: &Path) {
    // Its folders may be closed even to their owner.
    let _ = disarm(folder);
    let _ = fs::remove_dir_all(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_left_is_disarmed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mode = |name: &str| fs::symlink_metadata(at(name)).unwrap().permissions().mode() & 0o7777;
        fs::write(at("outside"), "").unwrap();
        set_mode(&at("outside"), 0, 0o4755).unwrap();
        fs::create_dir_all(at("files/closed")).unwrap();
        fs::write(at("files/closed/program"), "text").unwrap();
        set_mode(&at("files/closed/program"), 0, 0o6755).unwrap();
        set_mode(&at("files/closed"), 0o755, 0).unwrap();
        symlink("../outside", at("files/link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("files/socket")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("files/pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();

        disarm(&at("files")).unwrap();
        assert_eq!((mode("files/closed"), mode("files/closed/program")), (0o700, 0o755));
        assert_eq!(fs::read_to_string(at("files/closed/program")).unwrap(), "text");
        assert!(fs::symlink_metadata(at("files/pipe")).is_err());
        assert!(fs::symlink_metadata(at("files/socket")).is_err());
        assert_eq!(fs::read_link(at("files/link")).unwrap(), Path::new("../outside"));
        assert_eq!(mode("outside"), 0o4755);
    }

    #[test]
    fn folders_have_names_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [(); 3].map(|()| new_folder(dir.path(), "a").unwrap());
        assert_eq!(paths, ["a", "a-2", "a-3"].map(|name| dir.path().join(name)));
        assert!(new_folder(&dir.path().join("missing"), "a").is_err());
    }

    #[test]
    fn pruning_leaves_the_newest_and_those_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path();
        for n in 0..KEPT_RUNS + 5 {
            fs::create_dir_all(runs.join(format!("{n:03}/closed/inner"))).unwrap();
            fs::write(runs.join(format!("{n:03}/.lock")), "").unwrap();
        }
        let held = Lock::exclusive(&runs.join("001/.lock"), "a test").unwrap();
        // None of these may matter: no lock, a lock that is a folder, a folder that is closed.
        fs::remove_file(runs.join("002/.lock")).unwrap();
        fs::remove_file(runs.join("003/.lock")).unwrap();
        fs::create_dir(runs.join("003/.lock")).unwrap();
        set_mode(&runs.join("004/closed"), 0o755, 0).unwrap();
        fs::create_dir(runs.join(".old-x")).unwrap();
        prune(runs);
        drop(held);
        let mut left: Vec<_> = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left.len(), KEPT_RUNS + 1, "{left:?}");
        assert_eq!((left[0].to_str(), left[1].to_str()), (Some("001"), Some("005")));
    }
}

//! The guest's first process: from the initramfs to the host's file system, then keeper of the agent.
//!
//! It is this same program, packed with the libraries it is linked with, so that the guest needs nothing installed
//! but the kernel's modules.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount, mount_bind, mount_move};
use rustix::process::{Pid, WaitOptions, chdir, chroot, wait};
use rustix::system::{RebootCommand, finit_module, reboot, sethostname};
use serde::{Deserialize, Serialize};

use super::AGENT_WORD;

/// Where the initramfs holds the [`BootConfig`].
pub const CONFIG: &str = "/boot.json";

/// The line that a guest which was booted only to try the accelerator writes to its console.
pub const PROBE_MARK: &str = "rdma-xrc: the guest reached user space";

/// The host's root, before it becomes the guest's.
const ROOT: &str = "/root";
/// The same, without what is mounted over it.
const BARE: &str = "/bare";
/// What is laid over the host's root.
const LAYER: &str = "/layer";

/// What the first process has to know; written into the initramfs for each boot.
#[derive(Debug, Serialize, Deserialize)]
pub struct BootConfig {
    /// Only say [`PROBE_MARK`] and switch off.
    pub probe: bool,
    /// The host gives a tree, too, that is laid over its root: the guest sees its files in place of the root's.
    pub layer: bool,
    /// Files in the initramfs, in the order in which the kernel must have them.
    pub modules: Vec<PathBuf>,
    /// Paths under /tmp or /run which the guest is to see as the host has them.
    /// Not `PathBuf`s, which would have to be text.
    pub shown: Vec<OsString>,
    /// A folder of the run's: the only place where the guest writes to the host.
    pub run_dir: OsString,
    pub hostname: String,
}

/// Runs as process 1; never returns.
pub fn init() -> ! {
    if let Err(error) = stay() {
        eprintln!("rdma-xrc: the guest could not start: {error:#}");
    }
    let _ = reboot(RebootCommand::PowerOff);
    // Process 1 must not end, whatever the power switch does.
    loop {
        std::thread::park();
    }
}

fn stay() -> Result<()> {
    for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount_new(kind, kind, Path::new(at), MountFlags::empty(), "")?;
    }
    let config = fs::read(CONFIG).context("reading the boot configuration")?;
    let config: BootConfig = serde_json::from_slice(&config)?;
    if config.probe {
        println!("{PROBE_MARK}");
        return Ok(());
    }
    for module in &config.modules {
        let file = fs::File::open(module).with_context(|| module.display().to_string())?;
        finit_module(&file, c"", 0).with_context(|| format!("loading {}", module.display()))?;
    }
    mount_host(&config)?;
    switch_root()?;
    finish_dev()?;
    sethostname(config.hostname.as_bytes())?;

    let agent =
        Command::new("/proc/self/exe").arg(AGENT_WORD).env_clear().spawn().context("starting the agent")?;
    let agent = Pid::from_child(&agent);
    // Whatever loses its parent becomes ours: take all that end, until it is the agent.
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == agent => {
                println!("rdma-xrc: the agent ended ({status:?})");
                return Ok(());
            }
            Err(e) if e != rustix::io::Errno::INTR => return Err(e).context("waiting for the agent"),
            _ => {}
        }
    }
}

fn mount_new(kind: &str, source: &str, at: &Path, flags: MountFlags, options: &str) -> Result<()> {
    fs::create_dir_all(at)?;
    let options = std::ffi::CString::new(options)?;
    mount(source, at, kind, flags, options.as_c_str()).with_context(|| format!("mounting {}", at.display()))
}

/// A path of the host, as it is reached before the change of root.
fn under(root: &str, path: &Path) -> PathBuf {
    Path::new(root).join(path.strip_prefix("/").unwrap_or(path))
}

fn mount_host(config: &BootConfig) -> Result<()> {
    let read_only = "trans=virtio,version=9p2000.L,msize=512000,cache=loose";
    mount_new("9p", "hostroot", Path::new(BARE), MountFlags::RDONLY, read_only)?;
    if config.layer {
        mount_new("9p", "layer", Path::new(LAYER), MountFlags::RDONLY, read_only)?;
        let layers = format!("lowerdir={LAYER}:{BARE}");
        mount_new("overlay", "root", Path::new(ROOT), MountFlags::RDONLY, &layers)?;
    } else {
        fs::create_dir_all(ROOT)?;
        mount_bind(BARE, ROOT)?;
    }
    mount_new("tmpfs", "tmp", &under(ROOT, Path::new("/tmp")), MountFlags::empty(), "mode=1777")?;
    mount_new("tmpfs", "run", &under(ROOT, Path::new("/run")), MountFlags::empty(), "mode=755")?;
    fs::create_dir_all(under(ROOT, Path::new("/run/lock")))?;
    for path in config.shown.iter().map(Path::new) {
        // It may be gone by now, and the command may do without it.
        if let Err(error) = show(&under(BARE, path), &under(ROOT, path)) {
            println!("rdma-xrc: {} is not shown: {error:#}", path.display());
        }
    }
    // What the guest leaves there must come back at once, and programs may map it.
    let read_write = "trans=virtio,version=9p2000.L,msize=512000,cache=mmap";
    mount_new("9p", "run", &under(ROOT, Path::new(&config.run_dir)), MountFlags::empty(), read_write)
}

/// Shows a path of the host through the tmpfs that covers it. Sockets and the like have nobody behind them here.
/// A link stays a link, wherever it leads.
fn show(from: &Path, to: &Path) -> Result<()> {
    if place(from, to)? { Ok(mount_bind(from, to)?) } else { Ok(()) }
}

/// Makes what the host's path is to be mounted on. `false`: nothing is to be mounted.
fn place(from: &Path, to: &Path) -> io::Result<bool> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_dir() {
        return fs::create_dir_all(to).map(|()| true);
    }
    if !kind.is_file() && !kind.is_symlink() {
        return Ok(false);
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to).map(|()| false);
    }
    if !to.exists() {
        fs::write(to, "")?;
    }
    Ok(true)
}

fn switch_root() -> Result<()> {
    for at in ["/proc", "/sys", "/dev"] {
        mount_move(at, under(ROOT, Path::new(at))).with_context(|| format!("moving {at}"))?;
    }
    chdir(ROOT)?;
    mount_move(".", "/").context("moving the host's root into place")?;
    chroot(".")?;
    Ok(chdir("/")?)
}

/// What udev would add to the kernel's own device nodes.
fn finish_dev() -> Result<()> {
    mount_new("devpts", "devpts", Path::new("/dev/pts"), MountFlags::empty(), "gid=5,mode=620,ptmxmode=666")?;
    mount_new("tmpfs", "shm", Path::new("/dev/shm"), MountFlags::empty(), "mode=1777")?;
    let links = [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")];
    for (name, rest) in links {
        match symlink(format!("/proc/self/fd{rest}"), Path::new("/dev").join(name)) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e.into()),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_reaches_the_guest() {
        use std::os::unix::ffi::OsStringExt;
        let odd = OsString::from_vec(vec![b'/', 0xff, b'"']);
        let config = BootConfig {
            probe: false,
            layer: false,
            modules: Vec::new(),
            shown: vec![odd.clone()],
            run_dir: odd.clone(),
            hostname: String::new(),
        };
        let read: BootConfig = serde_json::from_slice(&serde_json::to_vec(&config).unwrap()).unwrap();
        assert_eq!((read.shown.as_slice(), &read.run_dir), ([odd.clone()].as_slice(), &odd));
    }

    #[test]
    fn what_is_shown_has_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let (host, guest) = (dir.path().join("host"), dir.path().join("guest"));
        fs::create_dir_all(host.join("folder")).unwrap();
        fs::write(host.join("file"), "text").unwrap();
        symlink("nowhere", host.join("dangling")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(host.join("socket")).unwrap();
        let placed = |name: &str| place(&host.join(name), &guest.join("deep").join(name));
        assert!(placed("folder").unwrap() && placed("file").unwrap());
        assert!(!placed("dangling").unwrap() && !placed("socket").unwrap());
        assert!(placed("gone").is_err());
        assert_eq!(fs::read_link(guest.join("deep/dangling")).unwrap(), Path::new("nowhere"));
        assert!(guest.join("deep/folder").is_dir() && guest.join("deep/file").is_file());
    }
}

//! Unix sockets in a run's folder.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How often a listener looks whether it is still wanted.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The address of a socket. Going through the open folder keeps it short, wherever the clone lies.
fn address(dir: &File, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", dir.as_raw_fd())
}

pub fn connect(dir: &Path, name: &str) -> io::Result<UnixStream> {
    let dir = File::open(dir)?;
    UnixStream::connect(address(&dir, name))
}

/// Tells listeners when it is dropped that they are wanted no more.
#[derive(Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Listens at a name that is free, on a thread of its own, and gives each connection to `serve`, which says whether
/// more are to come.
pub fn listen(
    dir: &Path,
    name: &str,
    stop: &Stop,
    mut serve: impl FnMut(UnixStream) -> bool + Send + 'static,
) -> io::Result<()> {
    let dir = File::open(dir)?;
    let listener = UnixListener::bind(address(&dir, name))?;
    listener.set_nonblocking(true)?;
    let stopped = stop.0.clone();
    thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            let mut fds = [PollFd::new(&listener, PollFlags::IN)];
            if !matches!(poll(&mut fds, Some(&GLANCE)), Ok(1..)) {
                continue;
            }
            // Somebody who left at once is no reason to stop; want of descriptors may pass.
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(std::time::Duration::from_millis(50));
                continue;
            };
            if stream.set_nonblocking(false).is_ok() && !serve(stream) {
                return;
            }
        }
    });
    Ok(())
}

//! Locks between runs of the lab: files locked with flock, which the kernel releases however a process ends.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::{report, signals};

/// A lock, held until it is dropped.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "the open file is the lock")] File);

impl Lock {
    /// Waits until nobody else holds it; says so when that takes a while, and gives up on Ctrl-C.
    pub fn exclusive(path: &Path, what: &str) -> Result<Lock> {
        Lock::wait(path, FlockOperation::NonBlockingLockExclusive, what)
    }

    /// The same, beside others who also only share it.
    pub fn shared(path: &Path, what: &str) -> Result<Lock> {
        Lock::wait(path, FlockOperation::NonBlockingLockShared, what)
    }

    /// Takes the lock if nobody holds it.
    pub fn try_exclusive(path: &Path) -> Result<Option<Lock>> {
        Lock::attempt(path, FlockOperation::NonBlockingLockExclusive)
    }

    /// Whether somebody holds the lock. One that was never made, or that is none, is held by nobody.
    pub fn is_held(path: &Path) -> bool {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        OpenOptions::new().read(true).custom_flags(flags).open(path).is_ok_and(|file| {
            flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
        })
    }

    fn attempt(path: &Path, how: FlockOperation) -> Result<Option<Lock>> {
        let name = || path.display().to_string();
        let file = OpenOptions::new().create(true).append(true).open(path).with_context(name)?;
        match flock(&file, how) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(e).with_context(name),
        }
    }

    fn wait(path: &Path, how: FlockOperation, what: &str) -> Result<Lock> {
        let mut said = false;
        loop {
            if let Some(lock) = Lock::attempt(path, how)? {
                return Ok(lock);
            }
            if !said {
                report::say(&format!("waiting: another ci/lab works on {what}"));
                said = true;
            }
            signals::check()?;
            sleep(Duration::from_millis(100));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_until_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = Lock::shared(&path, "a test").unwrap();
        let second = Lock::shared(&path, "a test").unwrap();
        assert!(Lock::try_exclusive(&path).unwrap().is_none() && Lock::is_held(&path));
        drop((first, second));
        assert!(!Lock::is_held(&path) && !Lock::is_held(dir.path()));
        assert!(!Lock::is_held(&dir.path().join("missing")) && !dir.path().join("missing").exists());
        assert!(Lock::try_exclusive(&path).unwrap().is_some());
    }
}

//! `ci/lab clean`: away with what the lab made.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::lock::Lock;
use crate::paths::Paths;
use crate::report::say;

pub fn clean(paths: &Paths, all: bool) -> Result<i32> {
    if paths.lab.exists() {
        // Every run shares this lock while it lasts.
        let Some(_nobody) = Lock::try_exclusive(&paths.lab.join(".in-use"))? else {
            bail!("another ci/lab is at work in {}", paths.lab.display());
        };
        remove(&paths.lab)?;
    }
    if all && paths.cache.exists() {
        let Some(_nobody) = Lock::try_exclusive(&paths.cache.join(".lock"))? else {
            bail!("another ci/lab is downloading to {}", paths.cache.display());
        };
        remove(&paths.cache)?;
    }
    Ok(0)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).context(format!("removing {}", path.display()))
        }
        _ => {
            say(&format!("removed {}", path.display()));
            Ok(())
        }
    }
}

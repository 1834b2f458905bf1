//! Downloads in the user's cache: what was fetched, with its hashes, so that the next clone fetches nothing.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A set of packages that was downloaded and whose signatures apt has checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Download {
    /// Where it came from, for people.
    pub origin: String,
    /// What it is, for people: a package and its version.
    pub version: String,
    /// File names and their SHA-256.
    pub files: Vec<(String, String)>,
}

const INDEX: &str = "index.json";

impl Download {
    /// The download in `dir`, if there is one and each file is what it was.
    pub fn open(dir: &Path) -> Option<Download> {
        let text = fs::read(dir.join(INDEX)).ok()?;
        let download: Download = serde_json::from_slice(&text).ok()?;
        let whole =
            |(name, hash): &(String, String)| sha256(&dir.join(name)).is_ok_and(|found| found == *hash);
        download.files.iter().all(whole).then_some(download)
    }

    /// Writes down what lies in `dir`: all its packages.
    pub fn record(dir: &Path, origin: &str, version: &str) -> Result<Download> {
        let mut names: Vec<String> = fs::read_dir(dir)?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".deb"))
            .collect();
        names.sort();
        if names.is_empty() {
            bail!("{} holds no package", dir.display());
        }
        let hashed = |name: String| sha256(&dir.join(&name)).map(|hash| (name, hash));
        let files = names.into_iter().map(hashed).collect::<Result<_>>()?;
        let download = Download { origin: origin.to_owned(), version: version.to_owned(), files };
        fs::write(dir.join(INDEX), serde_json::to_vec_pretty(&download)?)?;
        Ok(download)
    }

    /// The files' paths.
    pub fn paths(&self, dir: &Path) -> Vec<PathBuf> {
        self.files.iter().map(|(name, _)| dir.join(name)).collect()
    }
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = File::open(path).with_context(|| path.display().to_string())?;
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_no_download() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Download::record(dir.path(), "here", "1").is_err());
        fs::write(dir.path().join("a.deb"), "abc").unwrap();
        let download = Download::record(dir.path(), "here", "1").unwrap();
        assert_eq!(download.files[0].1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(Download::open(dir.path()), Some(download));
        fs::write(dir.path().join("a.deb"), "abd").unwrap();
        assert_eq!(Download::open(dir.path()), None);
    }
}

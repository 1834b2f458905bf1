//! Packages that are unpacked and not installed: apt fetches them and checks their signatures.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::pipe::PipeFlags;

use crate::proc::{Process, capture, system_command, tail};
use crate::report::Step;
use crate::signals;

const DEBIAN_KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const LIMIT: Duration = Duration::from_secs(1200);

/// A state of apt's of its own, for suites that the machine itself does not follow. The machine's is not touched and
/// no root is needed.
#[derive(Debug)]
pub struct PrivateApt {
    dir: tempfile::TempDir,
    /// Where the packages are put. What a broken-off run left there is used.
    archives: PathBuf,
}

impl PrivateApt {
    /// Suites of the machine's own Debian mirror.
    pub fn new(suites: &[&str], archives: &Path) -> Result<PrivateApt> {
        let dir =
            tempfile::Builder::new().prefix(".apt-").tempdir_in(archives.parent().context("archives")?)?;
        for folder in ["lists/partial", "cache"] {
            fs::create_dir_all(dir.path().join(folder))?;
        }
        fs::create_dir_all(archives.join("partial"))?;
        // An empty status: nothing counts as installed, so the whole closure comes.
        fs::write(dir.path().join("status"), "")?;
        let mut sources = File::create(dir.path().join("sources.list"))?;
        for suite in suites {
            writeln!(sources, "deb [signed-by={DEBIAN_KEYS}] {} {suite} main", mirror_of(suite)?)?;
        }
        Ok(PrivateApt { dir, archives: archives.to_owned() })
    }

    /// Leaves these packages out of what is fetched, and what only they need: the machine has its own.
    pub fn count_as_installed(&self, packages: &[&str]) -> Result<()> {
        let stanza = |name: &&str| {
            format!("Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: 999\n\n")
        };
        let status: String = packages.iter().map(stanza).collect();
        Ok(fs::write(self.dir.path().join("status"), status)?)
    }

    fn command(&self, program: &str) -> Result<Command> {
        let mut command = system_command(program)?;
        let quoted = |path: &Path| path.display().to_string();
        let options = [
            ("Dir::State", quoted(self.dir.path())),
            ("Dir::State::lists", quoted(&self.dir.path().join("lists"))),
            ("Dir::State::status", quoted(&self.dir.path().join("status"))),
            ("Dir::Cache", quoted(&self.dir.path().join("cache"))),
            ("Dir::Cache::archives", quoted(&self.archives)),
            ("Dir::Etc::sourcelist", quoted(&self.dir.path().join("sources.list"))),
            ("Dir::Etc::sourceparts", "/dev/null".to_owned()),
            // The user that apt would fetch as can't write to a private folder.
            ("APT::Sandbox::User", "root".to_owned()),
            ("Acquire::Retries", "5".to_owned()),
            ("Acquire::Languages", "none".to_owned()),
        ];
        for (key, value) in options {
            command.arg("-o").arg(format!("{key}={value}"));
        }
        Ok(command)
    }

    /// Fetches the suites' package lists.
    pub fn update(&self, step: &mut Step) -> Result<()> {
        let mut command = self.command("apt-get")?;
        command.args(["-q", "update", "--error-on=any"]);
        run_with_progress(command, step)
    }

    /// Fetches packages, each given as `name/suite`, with all that they depend on. A mirror may lack a file for a
    /// moment: apt keeps what it got, so trying again costs only what is still missing.
    pub fn fetch(&self, packages: &[String], step: &mut Step) -> Result<()> {
        let mut tries = 3;
        loop {
            let mut command = self.command("apt-get")?;
            command
                .args(["-q", "install", "--download-only", "-y", "--no-install-recommends"])
                .args(packages);
            match run_with_progress(command, step) {
                Err(error) if tries > 1 && signals::pending().is_none() => {
                    tries -= 1;
                    step.at(&format!("trying again: {error}"));
                    std::thread::sleep(Duration::from_secs(2));
                    self.update(step)?;
                }
                other => return other,
            }
        }
    }

    /// The version that would be installed.
    pub fn version(&self, package: &str) -> Result<String> {
        let mut command = self.command("apt-cache")?;
        let text = capture(command.args(["show", "--no-all-versions", package]), Duration::from_secs(60))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Version: "));
        Ok(line.context("apt-cache names no version")?.to_owned())
    }
}

/// Where this machine's own apt gets each suite's main part from: the suites' names and addresses.
fn own_sources() -> Result<Vec<(String, String)>> {
    let mut command = system_command("apt-get")?;
    command.args(["indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT) $(CREATED_BY)"]);
    let text = capture(&mut command, Duration::from_secs(60))?;
    let read = |line: &str| match line.split(' ').collect::<Vec<_>>().as_slice() {
        [site, suite, "main", "Packages"] => Some(((*suite).to_owned(), (*site).to_owned())),
        _ => None,
    };
    Ok(text.lines().filter_map(read).collect())
}

/// Where this machine gets Debian from.
fn mirror() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release").context("/etc/os-release")?;
    let codename =
        release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or("stable");
    let codename = codename.trim_matches('"');
    let own = own_sources()?;
    [codename, "stable", "testing", "unstable", "sid"]
        .into_iter()
        .find_map(|suite| own.iter().find(|(name, _)| name == suite))
        .map(|(_, site)| site.clone())
        .with_context(|| format!("this machine's apt has no source for Debian's {codename} main"))
}

/// Where a suite is to be had: security updates lie apart from the rest.
fn mirror_of(suite: &str) -> Result<String> {
    const SECURITY: &str = "-security";
    if !suite.ends_with(SECURITY) {
        return mirror();
    }
    let own = own_sources()?;
    let found = own.into_iter().find(|(name, _)| name.ends_with(SECURITY));
    Ok(found.context("this machine's apt has no source for security updates")?.1)
}

/// The host of [`mirror`].
pub fn mirror_host() -> Result<String> {
    let mirror = mirror()?;
    let host = mirror.split('/').nth(2).filter(|host| host.contains('.'));
    Ok(host.context("the mirror's address has no host's full name")?.to_owned())
}

/// Runs apt with its progress shown by the step.
fn run_with_progress(mut command: Command, step: &mut Step) -> Result<()> {
    let mut log = tempfile::tempfile()?;
    command.args(["-o", "APT::Status-Fd=1"]);
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    command.stdin(Stdio::null()).stdout(writer).stderr(log.try_clone()?);
    let mut process = Process::spawn(&mut command)?;
    // The command holds the pipe's other end open; ours must go, or the reader never sees the end.
    drop(command);
    let (lines, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(File::from(reader)).split(b'\n').map_while(Result::ok) {
            if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    let until = std::time::Instant::now() + LIMIT;
    let status = loop {
        while let Ok(line) = said.try_recv() {
            if let Some(percent) = percent(&line) {
                step.percent(percent);
            }
        }
        match process.wait(Duration::from_millis(200))? {
            Some(status) => break status,
            None if std::time::Instant::now() > until => bail!("apt took longer than {} s", LIMIT.as_secs()),
            None => {}
        }
    };
    if !status.success() {
        bail!("apt failed ({status}):\n{}", tail(&mut log, 15)?);
    }
    Ok(())
}

/// The hundredths in one of apt's status lines: `dlstatus:ITEM:PERCENT:TEXT`.
fn percent(line: &str) -> Option<u64> {
    let number = line.strip_prefix("dlstatus:")?.split(':').nth(1)?;
    number.parse::<f64>().ok().map(|percent| percent.clamp(0.0, 100.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn status_lines() {
        assert_eq!(percent("dlstatus:12:37.5000:Retrieving file 12 of 90"), Some(37));
        assert_eq!(percent("Get:12 somewhere"), None);
    }
}

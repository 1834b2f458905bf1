//! The machine's own packages: what is missing, and one apt call for it.

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::paths::Paths;
use crate::proc::{self, find_program, run_logged, system_command};
use crate::report::{Step, say};

const LIST: &str = include_str!("../../../packages");
const APT_LIMIT: Duration = Duration::from_secs(1500);

/// A line of `ci/packages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: &'static str,
    /// A program, or a file that begins with a slash, which shows that it is there where no dpkg tells.
    pub sign: &'static str,
    pub purpose: &'static str,
}

/// Every package that the lab asks for.
pub fn all() -> Vec<Package> {
    LIST.lines().filter(|line| !line.starts_with('#')).filter_map(parse).collect()
}

fn parse(line: &'static str) -> Option<Package> {
    let (name, rest) = line.split_once(' ')?;
    let (sign, purpose) = rest.trim_start().split_once(' ')?;
    Some(Package { name, sign, purpose: purpose.trim() })
}

impl Package {
    fn shows(&self) -> bool {
        if self.sign.starts_with('/') {
            std::path::Path::new(self.sign).exists()
        } else {
            find_program(self.sign).is_some()
        }
    }
}

/// Those that are not there. A package whose sign is there some other way (another compiler's `cc`) counts as there.
pub fn missing() -> Vec<Package> {
    let mut missing = all();
    missing.retain(|package| !package.shows());
    missing
}

/// Whether [`install_missing`] could do it without a person.
pub fn can_install() -> bool {
    find_program("apt-get").is_some() && as_root().is_some()
}

/// What a person would type to install packages.
pub fn install_command(names: &[&str]) -> String {
    let names = names.join(" ");
    format!("sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends {names}'")
}

/// Installs what is missing, with the names on the terminal; an ordinary user needs sudo, or is told what to type.
pub fn install_missing(paths: &Paths) -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    if find_program("apt-get").is_none() {
        bail!(
            "this machine has no apt and lacks what these Debian packages hold: {}\n\
             Install the same by its own means (`ci/lab doctor` lists each with its purpose).",
            names.join(" ")
        );
    }
    let Some(root) = as_root() else {
        bail!(
            "these packages are missing, and installing them takes root. Please type:\n    {}",
            install_command(&names)
        );
    };
    say(&format!("installing with apt: {}", names.join(" ")));
    let mut log = File::create(paths.lab.join("apt.log")).context("apt.log")?;
    let mut install = || -> Result<()> {
        let step = Step::begin("apt-get install");
        let mut command = apt_get(root)?;
        command.args(["install", "-y", "--no-install-recommends"]).args(&names);
        run_logged(&mut command, &mut log, APT_LIMIT, Some(&step))?;
        step.done();
        Ok(())
    };
    if !known(&names)? {
        update(paths)?;
        return install();
    }
    // The lists may be older than what the mirror still has.
    install().or_else(|_| {
        update(paths)?;
        install()
    })
}

/// Renews the machine's package lists.
pub fn update(paths: &Paths) -> Result<()> {
    let Some(root) = as_root() else {
        bail!(
            "the machine's package lists are missing or out of date. Please type:\n    sudo apt-get update"
        );
    };
    let mut log = File::create(paths.lab.join("apt-update.log")).context("apt-update.log")?;
    let step = Step::begin("apt-get update");
    run_logged(apt_get(root)?.arg("update"), &mut log, APT_LIMIT, Some(&step))?;
    step.done();
    Ok(())
}

/// Whether apt could install these from the lists that it has.
fn known(names: &[&str]) -> Result<bool> {
    let mut command = system_command("apt-get")?;
    command.args(["install", "-s", "--no-install-recommends"]).args(names);
    Ok(proc::capture(&mut command, Duration::from_secs(120)).is_ok())
}

/// How this process becomes root, if it can without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Root {
    Already,
    Sudo,
}

fn as_root() -> Option<Root> {
    if rustix::process::geteuid().is_root() {
        return Some(Root::Already);
    }
    let mut sudo = system_command("sudo").ok()?;
    proc::capture(sudo.args(["-n", "true"]), Duration::from_secs(10)).ok().map(|_| Root::Sudo)
}

fn apt_get(root: Root) -> Result<Command> {
    // The environment is given to apt by name: sudo hands on none of ours.
    let mut command = match root {
        Root::Already => system_command("env")?,
        Root::Sudo => {
            let mut sudo = system_command("sudo")?;
            sudo.args(["-n", "env"]);
            sudo
        }
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]);
    command.args(["-o", "Acquire::Retries=3"]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole() {
        let lines = LIST.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).count();
        assert_eq!(all().len(), lines);
        assert!(all().iter().all(|package| !package.purpose.is_empty()));
        assert!(all().iter().any(|package| package.name == "perftest" && package.sign == "ib_send_lat"));
    }
}

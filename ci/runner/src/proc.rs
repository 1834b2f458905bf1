//! Processes on the host: none outlives the lab, each wait has a limit and hears Ctrl-C.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};

use crate::report::Step;
use crate::signals;

/// How long a process may take to end once it was asked to.
const GRACE: Duration = Duration::from_secs(3);

/// A child that is ended when this is dropped, and by the kernel if the lab itself is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pub name: String,
}

impl Process {
    /// Starts it in a process group of its own: Ctrl-C goes to the lab, which ends things in order.
    ///
    /// Call this on the main thread: the kernel takes the end of the *thread* for the end of the parent.
    pub fn spawn(command: &mut Command) -> Result<Process> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.process_group(0);
        // SAFETY: the closure only makes one system call, which is allowed between fork and exec.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        Ok(Process { child, name })
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Its number, for /proc.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for the end, at most for `limit`; `None` if that passed.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            signals::check()?;
            sleep(Duration::from_millis(20));
        }
    }

    /// Asks it to end, then makes it.
    pub fn stop(&mut self) {
        self.end_with(Signal::TERM, GRACE);
        self.end_with(Signal::KILL, GRACE);
    }

    /// Makes it end now.
    pub fn kill(&mut self) {
        self.end_with(Signal::KILL, GRACE);
    }

    fn end_with(&mut self, signal: Signal, grace: Duration) {
        let until = Instant::now() + grace;
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.child), signal);
        }
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command to its end with its output in `log`. An error carries the log's last lines. The step, if there is
/// one, shows what the command said last.
pub fn run_logged(command: &mut Command, log: &mut File, limit: Duration, step: Option<&Step>) -> Result<()> {
    let status = run_status(command, log, limit, step)?;
    if !status.success() {
        let said = tail(log, 30)?;
        bail!("{} failed ({status}):\n{said}", display(command));
    }
    Ok(())
}

/// The same, but any status is an answer.
pub fn run_status(
    command: &mut Command,
    log: &mut File,
    limit: Duration,
    step: Option<&Step>,
) -> Result<ExitStatus> {
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    let mut process = Process::spawn(command)?;
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = process.wait(Duration::from_millis(500).min(limit))? {
            return Ok(status);
        }
        if let Some(step) = step {
            step.at(tail(log, 1)?.trim());
        }
        if Instant::now() >= until {
            process.stop();
            bail!("{} took longer than {} s:\n{}", display(command), limit.as_secs(), tail(log, 20)?);
        }
    }
}

/// Runs a short command and returns what it printed.
pub fn capture(command: &mut Command, limit: Duration) -> Result<String> {
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let Some(status) = Process::spawn(command)?.wait(limit)? else {
        bail!("{} took longer than {} s", display(command), limit.as_secs());
    };
    if !status.success() {
        bail!("{} failed ({status}): {}", display(command), tail(&mut err, 10)?);
    }
    out.seek(SeekFrom::Start(0))?;
    let mut text = Vec::new();
    out.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The last lines of a file that may be long.
pub fn tail(file: &mut File, lines: usize) -> Result<String> {
    // Through a handle of our own: a shared one would move the writer's position.
    let mut file = File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file)))?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(256 * lines.max(8) as u64)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end).replace('\r', "\n");
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    Ok(all[all.len().saturating_sub(lines)..].join("\n"))
}

/// A command as one would type it.
pub fn display(command: &Command) -> String {
    let word = |word: &OsStr| {
        let word = word.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.into()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    std::iter::once(command.get_program()).chain(command.get_args()).map(word).collect::<Vec<_>>().join(" ")
}

/// Where a program is, as the shell would find it, with the folders that only root's PATH has.
pub fn find_program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|dir| dir.join(name)).find(|file| {
        use std::os::unix::fs::PermissionsExt;
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

/// A command for a program that may lie where only root looks.
pub fn system_command(name: &str) -> Result<Command> {
    let found = find_program(name)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{name} is not installed")))?;
    Ok(Command::new(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold() {
        let began = Instant::now();
        let error = capture(Command::new("sleep").arg("60"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("took longer"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn failures_say_why() {
        let mut log = tempfile::tempfile().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let error =
            run_logged(&mut command, &mut log, Duration::from_secs(10), None).unwrap_err().to_string();
        assert!(error.contains("status: 3") && error.contains("one\ntwo"), "{error}");
    }

    #[test]
    fn displayed_as_typed() {
        assert_eq!(display(Command::new("a").args(["b c", "d'e", "--f=1"])), r"a 'b c' 'd'\''e' --f=1");
    }
}

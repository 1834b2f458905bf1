//! `ci/lab control`: asks a run for something, from the host or from within one of its guests.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::{Action, SOCKET};
use crate::paths::Paths;
use crate::report::{out, say};
use crate::{signals, socket};

/// How long an answer may take: the model may have to write a report, and a guest that freezes itself hears of it
/// afterwards.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long another process of the guest may hold the port.
const BUSY: Duration = Duration::from_secs(30);
/// The link to the folder of the latest run.
const LATEST: &str = "latest";
/// The variable that names the port in the guest.
const VARIABLE: &str = "RDMA_XRC_CONTROL";
/// For what was refused.
const REFUSED: i32 = 1;

/// Asks, prints what there is to tell, and returns a status for the shell. `run` is a run's folder.
pub fn control(project: &Path, run: Option<PathBuf>, action: &Action) -> Result<i32> {
    let mut request = action.request();
    let tag = Value::from(format!("{} {:?}", std::process::id(), std::time::SystemTime::now()));
    request["tag"] = tag.clone();
    let port = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
    let answer = match (run, port) {
        (None, Some(port)) => ask_port(Path::new(&port), &request, &tag)?,
        (Some(run), _) => ask_run(connect(&run)?, &request)?,
        (None, None) => ask_run(latest(project)?, &request)?,
    };
    if let Some(error) = answer["error"].as_str() {
        say(error);
        return Ok(REFUSED);
    }
    let told = answer.get("ok").with_context(|| format!("an answer that is none: {answer}"))?;
    if told.as_object().is_some_and(|told| !told.is_empty()) || told.is_array() {
        out!("{told:#}");
    }
    Ok(0)
}

/// The run in this folder, which must be on.
fn connect(run: &Path) -> Result<UnixStream> {
    // Why it can't be reached is of no use to anybody: there is no such folder, or nobody listens there.
    socket::connect(run, SOCKET).ok().with_context(|| format!("no run is on in {}", run.display()))
}

/// The latest run if it is on, else the only one that is.
fn latest(project: &Path) -> Result<UnixStream> {
    let runs = Paths::find(project)?.lab.join("runs");
    if let Ok(stream) = connect(&runs.join(LATEST)) {
        return Ok(stream);
    }
    let folders = fs::read_dir(&runs).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let folders = folders.filter(|path| !path.ends_with(LATEST));
    let mut on: Vec<_> =
        folders.filter_map(|path| connect(&path).ok().map(|stream| (path, stream))).collect();
    match on.pop() {
        None => bail!("no run is on in {}", runs.display()),
        Some((_, only)) if on.is_empty() => Ok(only),
        Some(last) => {
            on.push(last);
            let mut names: Vec<_> = on.iter().map(|(path, _)| path.display().to_string()).collect();
            names.sort();
            bail!("the latest run is over; say with --run which of those that are on: {}", names.join(", "))
        }
    }
}

fn ask_run(mut stream: UnixStream, request: &Value) -> Result<Value> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).context("waiting for the answer")?;
    serde_json::from_str(&answer).context("the run ended without an answer")
}

/// Asks by way of a guest's port, which one process at a time can open.
fn ask_port(path: &Path, request: &Value, tag: &Value) -> Result<Value> {
    let port = open(path)?;
    // Whoever had the port before may have left the beginning of a line, and so many answers unread that the lab takes
    // nothing more until they are: so the request begins a line, and goes out while answers come in.
    let (mut writer, line) = (port.try_clone()?, format!("\n{request}\n"));
    let (failed, failure) = mpsc::channel();
    thread::spawn(move || {
        if let Err(error) = writer.write_all(line.as_bytes()) {
            let _ = failed.send(error);
        }
    });
    let until = Instant::now() + PATIENCE;
    let mut answers = BufReader::new(Patient { port: &port, until, failure });
    loop {
        let mut answer = Vec::new();
        answers.read_until(b'\n', &mut answer).context("waiting for the answer")?;
        if answer.is_empty() {
            bail!("the lab has closed {}", path.display());
        }
        // What is left of another's talk may be cut off.
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        if answer["tag"] == *tag {
            return Ok(answer);
        }
    }
}

fn open(path: &Path) -> Result<File> {
    let until = Instant::now() + BUSY;
    loop {
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && Instant::now() < until => {
                signals::check()?;
                sleep(Duration::from_millis(20));
            }
            other => return other.with_context(|| path.display().to_string()),
        }
    }
}

/// A reader of the port that does not wait for ever.
struct Patient<'a> {
    port: &'a File,
    until: Instant,
    /// Why the request could not be sent.
    failure: Receiver<io::Error>,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if signals::pending().is_some() {
                return Err(io::Error::other("interrupted"));
            }
            if let Ok(error) = self.failure.try_recv() {
                return Err(error);
            }
            if Instant::now() >= self.until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut fds = [PollFd::new(self.port, PollFlags::IN)];
            match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 200_000_000 })) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return self.port.read(buffer),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

//! One command in the guest: its process group, its pipes or terminal, its end.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::agent::Answers;
use crate::protocol::{JobId, OUTPUT_WINDOW, PIECE, Size, Start, Stream, ToGuest, ToHost};

/// What a terminal may hold of a command that has ended; it does not tell.
const TERMINAL_HOLDS: u64 = 64 * 1024;

/// How often a reader looks whether it is still wanted.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A command that was started.
#[derive(Debug)]
pub struct Job {
    group: Pid,
    input: Option<Sender<Vec<u8>>>,
    terminal: Option<OwnedFd>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The command itself has ended; what it left in its pipes is still to come.
    ended: AtomicBool,
    /// The host no longer wants the output.
    deaf: [AtomicBool; 2],
    /// Bytes of each output that may still be sent.
    windows: Mutex<[usize; 2]>,
    widened: Condvar,
    over: AtomicBool,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            ended: AtomicBool::default(),
            deaf: Default::default(),
            windows: Mutex::new([OUTPUT_WINDOW; 2]),
            widened: Condvar::new(),
            over: AtomicBool::default(),
        }
    }

    fn windows(&self) -> MutexGuard<'_, [usize; 2]> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_deaf(&self, stream: Stream) -> bool {
        self.deaf[stream as usize].load(Ordering::Acquire)
    }

    /// Waits until at least one byte of an output may be sent. `None`: nobody wants it any more.
    fn room(&self, stream: Stream) -> Option<usize> {
        let mut windows = self.windows();
        loop {
            match windows[stream as usize] {
                _ if self.is_deaf(stream) => return None,
                0 => windows = self.widened.wait(windows).unwrap_or_else(PoisonError::into_inner),
                room => return Some(room),
            }
        }
    }
}

impl Job {
    /// Starts a command, or tells the host, in the shell's way, that it can't be.
    pub fn start(id: JobId, start: Start, answers: &Answers) -> Option<Job> {
        let name = start.argv.first().cloned().unwrap_or_default();
        match Job::try_start(id, start, answers) {
            Ok(job) => Some(job),
            Err(error) => {
                let missing =
                    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::NotFound);
                let text = format!("{}: {error:#}\n", name.to_string_lossy());
                // The writer ends the process when the port fails, so there is nobody to tell here.
                let _ = answers.send((id, ToHost::Output(Stream::Err, text.into_bytes())));
                let _ = answers.send((id, ToHost::Exit(if missing { 127 } else { 126 })));
                None
            }
        }
    }

    fn try_start(id: JobId, start: Start, answers: &Answers) -> Result<Job> {
        let shared = Arc::new(Shared::new());
        let (child, input, outputs, terminal) = match start.terminal {
            None => spawn_with_pipes(&start)?,
            Some(size) => spawn_on_terminal(&start, size)?,
        };
        let group = Pid::from_child(&child);
        let (feed, pieces) = channel();
        let to_host = answers.clone();
        thread::spawn(move || feed_input(id, input, &pieces, &to_host));
        let readers: Vec<_> = outputs
            .into_iter()
            .map(|(stream, from)| {
                let (to_host, shared) = (answers.clone(), shared.clone());
                thread::spawn(move || carry_output(id, stream, from, &to_host, &shared))
            })
            .collect();
        let (to_host, state) = (answers.clone(), shared.clone());
        thread::spawn(move || {
            let status = wait_for(child);
            // Nothing of a finished command stays behind to disturb the next one.
            let _ = kill_process_group(group, Signal::KILL);
            state.ended.store(true, Ordering::Release);
            for reader in readers {
                let _ = reader.join();
            }
            state.over.store(true, Ordering::Release);
            let _ = to_host.send((id, ToHost::Exit(status)));
        });
        Ok(Job { group, input: Some(feed), terminal, shared })
    }

    /// Everything about this command has been said.
    pub fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::Acquire)
    }

    /// Carries out an order about this command. One that comes too late is void.
    pub fn order(&mut self, order: ToGuest) {
        match order {
            ToGuest::Input(bytes) => {
                if let Some(input) = &self.input {
                    let _ = input.send(bytes);
                }
            }
            ToGuest::InputEnd => self.input = None,
            ToGuest::Signal(number) => {
                let signal =
                    Signal::from_named_raw(number).filter(|_| !self.shared.ended.load(Ordering::Acquire));
                if let Some(signal) = signal {
                    let _ = kill_process_group(self.group, signal);
                }
            }
            ToGuest::Resize(size) => {
                if let Some(terminal) = &self.terminal {
                    let _ = tcsetwinsize(terminal, winsize(size));
                }
            }
            ToGuest::Written(stream, bytes) => {
                self.shared.windows()[stream as usize] += bytes as usize;
                self.shared.widened.notify_all();
            }
            ToGuest::Deaf(stream) => {
                // Under the lock, so that nobody misses it between his look and his wait.
                let _windows = self.shared.windows();
                self.shared.deaf[stream as usize].store(true, Ordering::Release);
                self.shared.widened.notify_all();
            }
            ToGuest::Start(_) | ToGuest::Sync => {}
        }
    }
}

type Spawned = (Child, File, Vec<(Stream, File)>, Option<OwnedFd>);

fn command(start: &Start, program: Command) -> Command {
    let mut command = program;
    command.env_clear().envs(start.env.iter().map(|(k, v)| (k, v))).current_dir(&start.cwd);
    command
}

fn spawn_with_pipes(start: &Start) -> Result<Spawned> {
    let [program, arguments @ ..] = start.argv.as_slice() else { anyhow::bail!("no command") };
    let mut command = command(start, Command::new(program));
    command.args(arguments).process_group(0);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (Some(input), Some(out), Some(err)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        anyhow::bail!("the command's pipes are missing");
    };
    let file = |fd: OwnedFd| File::from(fd);
    Ok((
        child,
        file(input.into()),
        vec![(Stream::Out, file(out.into())), (Stream::Err, file(err.into()))],
        None,
    ))
}

fn spawn_on_terminal(start: &Start, size: Size) -> Result<Spawned> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    tcsetwinsize(&master, winsize(size))?;
    let name = ptsname(&master, Vec::new())?;
    let slave = OpenOptions::new().read(true).write(true).open(name.to_str()?)?;
    // setsid makes it the controlling terminal and becomes the command, so the process id is the group's.
    let mut command = command(start, Command::new("setsid"));
    command.arg("--ctty").args(&start.argv);
    command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    let child = command.spawn()?;
    let (input, output) = (File::from(master.try_clone()?), File::from(master.try_clone()?));
    Ok((child, input, vec![(Stream::Out, output)], Some(master)))
}

fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 }
}

/// 128 + n for signal n, as a shell has it.
fn wait_for(mut child: Child) -> i32 {
    let number = |status: ExitStatus| status.code().or(status.signal().map(|n| 128 + n));
    child.wait().ok().and_then(number).unwrap_or(255)
}

/// Writes input to the command. What it does not want is taken off the account all the same.
fn feed_input(id: JobId, to: File, pieces: &Receiver<Vec<u8>>, answers: &Answers) {
    let mut to = Some(to);
    for piece in pieces {
        if to.as_mut().is_some_and(|file| file.write_all(&piece).is_err()) {
            to = None;
        }
        if answers.send((id, ToHost::Taken(piece.len() as u32))).is_err() {
            return;
        }
    }
}

/// Sends what the command writes, until the end of its pipe. A process that outlives the command with the pipe in
/// hand does not count: once the command has ended, only what lies in the pipe then is still its output.
fn carry_output(id: JobId, stream: Stream, mut from: File, answers: &Answers, shared: &Shared) {
    let mut buffer = vec![0; PIECE];
    let mut left: Option<u64> = None;
    while left != Some(0) {
        let Some(room) = shared.room(stream) else { return };
        if left.is_none() && shared.ended.load(Ordering::Acquire) {
            left = Some(rest(&from));
            continue;
        }
        let mut fds = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&GLANCE)) {
            Ok(0) if left.is_some() => return,
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        let most = left.map_or(room, |left| room.min(usize::try_from(left).unwrap_or(room))).min(PIECE);
        match from.read(&mut buffer[..most]) {
            Ok(0) => return,
            Ok(n) => {
                left = left.map(|left| left.saturating_sub(n as u64));
                shared.windows()[stream as usize] -= n;
                if answers.send((id, ToHost::Output(stream, buffer[..n].to_vec()))).is_err() {
                    return;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // A terminal whose last user has gone reads as an error.
            Err(_) => return,
        }
    }
}

/// How much of its output a command that has ended may have left.
fn rest(from: &File) -> u64 {
    if from.is_terminal() { TERMINAL_HOLDS } else { rustix::io::ioctl_fionread(from).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    fn start(line: &str) -> (Job, Receiver<(JobId, ToHost)>) {
        let (answers, heard) = sync_channel(4);
        let argv = ["/bin/sh", "-c", line].map(Into::into).into();
        let env = vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())];
        let start = Start { argv, env, cwd: "/".into(), terminal: None };
        (Job::start(7, start, &answers).unwrap(), heard)
    }

    /// The output, its length acknowledged or not, and the status.
    fn finish(job: &mut Job, heard: &Receiver<(JobId, ToHost)>, acknowledge: bool) -> (Vec<u8>, i32) {
        let mut out = Vec::new();
        loop {
            match heard.recv_timeout(Duration::from_secs(20)).unwrap() {
                (7, ToHost::Output(stream, bytes)) => {
                    if acknowledge {
                        job.order(ToGuest::Written(stream, bytes.len() as u32));
                    }
                    out.extend(bytes);
                }
                (7, ToHost::Exit(status)) => return (out, status),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_daemon_that_keeps_writing_is_no_output() {
        let (mut job, heard) = start("echo first; setsid yes & sleep 0.2; exit 7");
        let (out, status) = finish(&mut job, &heard, true);
        assert_eq!(status, 7);
        assert!(out.starts_with(b"first\n"));
    }

    #[test]
    fn output_waits_for_its_reader() {
        let (mut job, heard) = start("yes | head -c 3000000; exit 3");
        let mut sent = 0;
        while let Ok((_, answer)) = heard.recv_timeout(Duration::from_secs(1)) {
            let ToHost::Output(Stream::Out, bytes) = answer else { panic!("{answer:?}") };
            sent += bytes.len();
        }
        assert_eq!(sent, OUTPUT_WINDOW);
        job.order(ToGuest::Written(Stream::Out, sent as u32));
        let (out, status) = finish(&mut job, &heard, true);
        assert_eq!((sent + out.len(), status), (3_000_000, 3));
    }

    #[test]
    fn deaf_ends_the_wait() {
        let (mut job, heard) = start("yes; exit 4");
        while heard.recv_timeout(Duration::from_secs(1)).is_ok() {}
        job.order(ToGuest::Deaf(Stream::Out));
        assert_eq!(finish(&mut job, &heard, false).1, 4);
    }
}

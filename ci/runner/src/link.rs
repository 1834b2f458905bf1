//! The host's end of the agent's port: starts jobs, carries their input and output, hears of their end.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::protocol::{self, INPUT_WINDOW, JobId, PIECE, Size, Start, Stream, ToGuest, ToHost};

/// Where an output of a command goes.
pub type Sink = Box<dyn Write + Send>;

/// A connection to one guest's agent.
#[derive(Clone)]
pub struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    to_guest: Mutex<UnixStream>,
    jobs: Mutex<HashMap<JobId, Arc<Entry>>>,
    next: AtomicU32,
}

struct Entry {
    /// Standard output and standard error; `None` once nobody reads it.
    sinks: Mutex<[Option<Sink>; 2]>,
    done: Sender<i32>,
    window: Mutex<usize>,
    widened: Condvar,
}

/// A command that runs in the guest.
pub struct Job {
    id: JobId,
    link: Link,
    entry: Arc<Entry>,
    done: Receiver<i32>,
}

/// A panicked thread elsewhere does not make the maps wrong.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Connects to a socket of QEMU's in `dir`. Going through the open folder keeps the address short, wherever the
    /// clone lies. The receiver gets the guest's kernel release as soon as its agent is there.
    pub fn connect(dir: &Path, socket: &str) -> Result<(Link, Receiver<String>)> {
        let dir = File::open(dir)?;
        let stream = UnixStream::connect(format!("/proc/self/fd/{}/{socket}", dir.as_raw_fd()))?;
        let from_guest = stream.try_clone()?;
        let shared = Arc::new(Shared {
            to_guest: Mutex::new(stream),
            jobs: Mutex::default(),
            next: AtomicU32::new(1),
        });
        let (hello, there) = channel();
        let link = Link { shared };
        let listener = link.clone();
        thread::spawn(move || listener.listen(from_guest, &hello));
        Ok((link, there))
    }

    /// Starts a command whose outputs go to `out` and `err`.
    pub fn start(&self, start: Start, out: Sink, err: Sink) -> Result<Job> {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (done, ended) = channel();
        let entry = Arc::new(Entry {
            sinks: Mutex::new([Some(out), Some(err)]),
            done,
            window: Mutex::new(INPUT_WINDOW),
            widened: Condvar::new(),
        });
        lock(&self.shared.jobs).insert(id, entry.clone());
        self.send(id, &ToGuest::Start(start))?;
        Ok(Job { id, link: self.clone(), entry, done: ended })
    }

    /// Has the guest write back what it holds for the host's files. `false` if it does not answer in time.
    pub fn sync(&self, limit: Duration) -> bool {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (done, synced) = channel();
        let entry =
            Entry { sinks: Mutex::new([None, None]), done, window: Mutex::new(0), widened: Condvar::new() };
        lock(&self.shared.jobs).insert(id, Arc::new(entry));
        self.send(id, &ToGuest::Sync).is_ok() && synced.recv_timeout(limit).is_ok()
    }

    fn send(&self, id: JobId, order: &ToGuest) -> Result<()> {
        protocol::send(&mut *lock(&self.shared.to_guest), id, order).context("the guest's agent is gone")
    }

    fn listen(&self, mut from_guest: UnixStream, hello: &Sender<String>) {
        while let Ok(Some((id, message))) = protocol::receive::<ToHost>(&mut from_guest) {
            if let ToHost::Hello(release) = message {
                let _ = hello.send(release);
                continue;
            }
            let Some(entry) = lock(&self.shared.jobs).get(&id).cloned() else { continue };
            match message {
                ToHost::Output(stream, bytes) => self.deliver(id, &entry, stream, &bytes),
                ToHost::Taken(bytes) => entry.widen(bytes as usize),
                ToHost::Exit(status) => {
                    entry.flush();
                    self.forget(id, &entry);
                    let _ = entry.done.send(status);
                }
                ToHost::Synced => {
                    self.forget(id, &entry);
                    let _ = entry.done.send(0);
                }
                ToHost::Hello(_) => {}
            }
        }
        // No job of this guest will hear anything more: each receiver finds its sender gone.
        lock(&self.shared.jobs).clear();
    }

    fn deliver(&self, id: JobId, entry: &Entry, stream: Stream, bytes: &[u8]) {
        let sink = &mut lock(&entry.sinks)[stream as usize];
        if let Some(to) = sink
            && to.write_all(bytes).and_then(|()| to.flush()).is_err()
        {
            *sink = None;
            // Without this the command would write for ever to a reader that has left.
            let _ = self.send(id, &ToGuest::Deaf(stream));
        }
    }

    fn forget(&self, id: JobId, entry: &Entry) {
        lock(&self.shared.jobs).remove(&id);
        entry.widen(INPUT_WINDOW);
    }
}

impl Entry {
    fn widen(&self, by: usize) {
        *lock(&self.window) += by;
        self.widened.notify_all();
    }

    fn flush(&self) {
        for sink in lock(&self.sinks).iter_mut().flatten() {
            let _ = sink.flush();
        }
    }

    /// Waits until at least one byte may be sent.
    fn room(&self) -> usize {
        let mut window = lock(&self.window);
        while *window == 0 {
            window = self.widened.wait(window).unwrap_or_else(PoisonError::into_inner);
        }
        *window
    }
}

impl Job {
    /// Waits at most `wait` for the end. `Ok(None)`: it still runs.
    pub fn ended(&self, wait: Duration) -> Result<Option<i32>> {
        match self.done.recv_timeout(wait) {
            Ok(status) => Ok(Some(status)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the guest went away while a command ran in it"),
        }
    }

    /// Sends a signal to the command's process group.
    pub fn signal(&self, number: i32) -> Result<()> {
        self.link.send(self.id, &ToGuest::Signal(number))
    }

    /// Tells the command's terminal its new size.
    pub fn resize(&self, size: Size) -> Result<()> {
        self.link.send(self.id, &ToGuest::Resize(size))
    }

    /// The command's input ends here.
    pub fn end_input(&self) -> Result<()> {
        self.link.send(self.id, &ToGuest::InputEnd)
    }

    /// Carries `from` to the command's input until its end, on a thread of its own: a read may wait for ever.
    pub fn feed(&self, mut from: impl Read + Send + 'static) {
        let (id, link, entry) = (self.id, self.link.clone(), self.entry.clone());
        thread::spawn(move || {
            let mut buffer = vec![0; PIECE];
            loop {
                let room = entry.room().min(PIECE);
                match from.read(&mut buffer[..room]) {
                    Ok(0) => break,
                    Ok(n) => {
                        *lock(&entry.window) -= n;
                        if link.send(id, &ToGuest::Input(buffer[..n].to_vec())).is_err() {
                            return;
                        }
                    }
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            let _ = link.send(id, &ToGuest::InputEnd);
        });
    }
}

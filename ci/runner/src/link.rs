//! The host's end of the agent's port: starts jobs, carries their input and output, hears of their end.

mod orders;

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::protocol::{
    self, INPUT_WINDOW, JobId, OUTPUT_WINDOW, PIECE, Size, Start, Stream, ToGuest, ToHost,
};
use crate::socket;
use orders::Orders;

/// Where an output of a command goes.
pub type Sink = Box<dyn Write + Send>;

/// One of the lab's own standard streams as a sink. Not by way of the library's handle: whoever waits in a write would
/// hold that handle's lock, and with it up everybody who has something else to say there.
pub fn own(stream: impl AsFd) -> Result<Sink> {
    Ok(Box::new(File::from(stream.as_fd().try_clone_to_owned()?)))
}

/// A connection to one guest's agent.
#[derive(Clone)]
pub struct Link {
    shared: Arc<Shared>,
    node: u8,
}

struct Shared {
    orders: Orders,
    jobs: Mutex<HashMap<JobId, Arc<Entry>>>,
    next: AtomicU32,
}

struct Entry {
    /// Ways to the threads that write standard output and standard error; `None` once nothing more is to come.
    outputs: Mutex<[Option<Sender<Vec<u8>>>; 2]>,
    /// Of each, bytes that wait to be written.
    unwritten: Mutex<[usize; 2]>,
    end: Mutex<End>,
    window: Mutex<usize>,
    widened: Condvar,
}

/// What is known of a command's end. The status is told when the outputs are written, or given up.
struct End {
    status: Option<i32>,
    writers: usize,
    done: Option<Sender<i32>>,
}

/// A command that runs in the guest.
pub struct Job {
    id: JobId,
    link: Link,
    entry: Arc<Entry>,
    done: Receiver<i32>,
}

/// What a piece of output takes of the window: an empty one, which no agent sends, has to take something as well.
fn cost(bytes: usize) -> usize {
    bytes.max(1)
}

/// A panicked thread elsewhere does not make the maps wrong.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Connects to a socket of QEMU's in `dir`. The receiver gets the kernel release of the guest, which is this
    /// `node`, as soon as its agent is there.
    pub fn connect(dir: &Path, socket: &str, node: u8) -> Result<(Link, Receiver<String>)> {
        let stream = socket::connect(dir, socket).with_context(|| format!("connecting to {socket}"))?;
        let from_guest = stream.try_clone()?;
        let shared =
            Arc::new(Shared { orders: Orders::default(), jobs: Mutex::default(), next: AtomicU32::new(1) });
        let (hello, there) = channel();
        let link = Link { shared: shared.clone(), node };
        let listener = link.clone();
        thread::spawn(move || listener.listen(from_guest, hello));
        thread::spawn(move || shared.orders.carry(stream));
        Ok((link, there))
    }

    /// Starts a command whose outputs go to `out` and `err`.
    pub fn start(&self, start: Start, out: Sink, err: Sink) -> Result<Job> {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (done, ended) = channel();
        let (to_out, pieces_out) = channel();
        let (to_err, pieces_err) = channel();
        let entry = Entry::new([Some(to_out), Some(to_err)], INPUT_WINDOW, done);
        for (stream, sink, pieces) in [(Stream::Out, out, pieces_out), (Stream::Err, err, pieces_err)] {
            let (link, entry) = (self.clone(), entry.clone());
            thread::spawn(move || {
                link.write((id, &entry), stream, sink, &pieces);
                entry.settle(|end| end.writers = end.writers.saturating_sub(1));
            });
        }
        lock(&self.shared.jobs).insert(id, entry.clone());
        self.send(id, ToGuest::Start(start))?;
        Ok(Job { id, link: self.clone(), entry, done: ended })
    }

    /// Has the guest write back what it holds for the host's files. `false` if it does not answer in time.
    pub fn sync(&self, limit: Duration) -> bool {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (done, synced) = channel();
        lock(&self.shared.jobs).insert(id, Entry::new([None, None], 0, done));
        self.send(id, ToGuest::Sync).is_ok() && synced.recv_timeout(limit).is_ok()
    }

    fn send(&self, id: JobId, order: ToGuest) -> Result<()> {
        self.shared.orders.push(id, order)
    }

    /// Hears the guest. Nothing here may wait for anybody else, or all jobs would wait with it.
    fn listen(&self, mut from_guest: UnixStream, hello: Sender<String>) {
        let mut hello = Some(hello);
        while let Ok(Some((id, message))) = protocol::receive::<ToHost>(&mut from_guest) {
            if let ToHost::Hello(release) = message {
                // Said once.
                let _ = hello.take().map(|hello| hello.send(release));
                continue;
            }
            let Some(entry) = lock(&self.shared.jobs).get(&id).cloned() else { continue };
            match message {
                ToHost::Output(stream, bytes) => {
                    if !entry.deliver(stream, bytes) {
                        break;
                    }
                }
                ToHost::Taken(bytes) => entry.widen(bytes as usize),
                ToHost::Exit(status) => self.over(id, &entry, status),
                ToHost::Synced => self.over(id, &entry, 0),
                ToHost::Hello(_) => {}
            }
        }
        // Also if it is the guest that lost step.
        self.shared.orders.close();
        let _ = from_guest.shutdown(Shutdown::Both);
        // No job of this guest will hear anything more: each receiver finds its sender gone.
        for (_, entry) in lock(&self.shared.jobs).drain() {
            entry.close();
            entry.settle(|end| end.done = None);
        }
    }

    /// Writes one output of a job to where it goes, on a thread of its own: a write may wait for ever.
    fn write(&self, (id, entry): (JobId, &Entry), stream: Stream, mut to: Sink, pieces: &Receiver<Vec<u8>>) {
        for bytes in pieces {
            let length = bytes.len();
            let told = match to.write_all(&bytes).and_then(|()| to.flush()) {
                Ok(()) => ToGuest::Written(stream, length as u32),
                // Else the command would write for ever to a reader that has left.
                Err(_) => ToGuest::Deaf(stream),
            };
            let failed = told == ToGuest::Deaf(stream);
            entry.wrote(stream, length);
            if self.send(id, told).is_err() || failed {
                return;
            }
        }
    }

    fn over(&self, id: JobId, entry: &Entry, status: i32) {
        lock(&self.shared.jobs).remove(&id);
        entry.widen(INPUT_WINDOW);
        entry.close();
        entry.settle(|end| end.status = Some(status));
    }
}

impl Entry {
    fn new(outputs: [Option<Sender<Vec<u8>>>; 2], window: usize, done: Sender<i32>) -> Arc<Entry> {
        let writers = outputs.iter().flatten().count();
        Arc::new(Entry {
            outputs: Mutex::new(outputs),
            unwritten: Mutex::default(),
            end: Mutex::new(End { status: None, writers, done: Some(done) }),
            window: Mutex::new(window),
            widened: Condvar::new(),
        })
    }

    /// Passes output on. `false`: the agent sent more than a window beyond what was written, so it lost step.
    fn deliver(&self, stream: Stream, bytes: Vec<u8>) -> bool {
        if let Some(to) = &lock(&self.outputs)[stream as usize] {
            let unwritten = &mut lock(&self.unwritten)[stream as usize];
            *unwritten += cost(bytes.len());
            if *unwritten > OUTPUT_WINDOW {
                return false;
            }
            if let Err(unsent) = to.send(bytes) {
                // Its writer found that nobody reads.
                *unwritten -= cost(unsent.0.len());
            }
        }
        true
    }

    fn wrote(&self, stream: Stream, bytes: usize) {
        lock(&self.unwritten)[stream as usize] -= cost(bytes);
    }

    /// No more output comes.
    fn close(&self) {
        *lock(&self.outputs) = [None, None];
    }

    /// Notes something about the end and tells the status if that was the last thing to wait for.
    fn settle(&self, note: impl FnOnce(&mut End)) {
        let mut end = lock(&self.end);
        note(&mut end);
        if let (Some(status), 0) = (end.status, end.writers) {
            if let Some(done) = end.done.take() {
                let _ = done.send(status);
            }
        }
    }

    fn widen(&self, by: usize) {
        *lock(&self.window) += by;
        self.widened.notify_all();
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
    /// The node on which it runs.
    pub fn node(&self) -> u8 {
        self.link.node
    }

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
        self.link.send(self.id, ToGuest::Signal(number))
    }

    /// Gives the outputs up: what is not written yet is lost, and nobody waits for it any more.
    pub fn abandon(&self) -> Result<()> {
        self.entry.close();
        self.entry.settle(|end| end.writers = 0);
        self.link.send(self.id, ToGuest::Deaf(Stream::Out))?;
        self.link.send(self.id, ToGuest::Deaf(Stream::Err))
    }

    /// Tells the command's terminal its new size.
    pub fn resize(&self, size: Size) -> Result<()> {
        self.link.send(self.id, ToGuest::Resize(size))
    }

    /// The command's input ends here.
    pub fn end_input(&self) -> Result<()> {
        self.link.send(self.id, ToGuest::InputEnd)
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
                        if link.send(id, ToGuest::Input(buffer[..n].to_vec())).is_err() {
                            return;
                        }
                    }
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            let _ = link.send(id, ToGuest::InputEnd);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A sink whose reader never reads.
    struct Stuck;

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            loop {
                thread::park();
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// A link and the agent's end of it.
    fn link() -> (Link, UnixStream) {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("agent")).unwrap();
        let (link, _) = Link::connect(dir.path(), "agent", 1).unwrap();
        (link, listener.accept().unwrap().0)
    }

    fn start(link: &Link, out: Sink) -> Job {
        let start = Start { argv: Vec::new(), env: Vec::new(), cwd: "/".into(), terminal: None };
        link.start(start, out, Box::new(std::io::sink())).unwrap()
    }

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn a_reader_that_stopped_holds_nobody_else_up() {
        let (link, mut agent) = link();
        let (stuck, other) = (start(&link, Box::new(Stuck)), start(&link, Box::new(std::io::sink())));
        for _ in 0..OUTPUT_WINDOW / PIECE {
            protocol::send(&mut agent, stuck.id, &ToHost::Output(Stream::Out, vec![1; PIECE])).unwrap();
        }
        protocol::send(&mut agent, stuck.id, &ToHost::Exit(5)).unwrap();
        protocol::send(&mut agent, other.id, &ToHost::Exit(6)).unwrap();
        assert_eq!(other.ended(SOON).unwrap(), Some(6));
        // Its own output is not out yet.
        assert_eq!(stuck.ended(Duration::from_millis(200)).unwrap(), None);
        stuck.abandon().unwrap();
        assert_eq!(stuck.ended(SOON).unwrap(), Some(5));
    }

    #[test]
    fn the_status_comes_after_the_output() {
        struct Slow(Arc<Mutex<usize>>);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                thread::sleep(Duration::from_millis(20));
                *lock(&self.0) += bytes.len();
                Ok(bytes.len())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (link, mut agent) = link();
        let written = Arc::new(Mutex::new(0));
        let job = start(&link, Box::new(Slow(written.clone())));
        for _ in 0..10 {
            protocol::send(&mut agent, job.id, &ToHost::Output(Stream::Out, vec![1; 100])).unwrap();
        }
        protocol::send(&mut agent, job.id, &ToHost::Exit(0)).unwrap();
        assert_eq!(job.ended(SOON).unwrap(), Some(0));
        assert_eq!(*lock(&written), 1000);
    }

    #[test]
    fn a_guest_that_is_gone_is_noticed() {
        let (link, agent) = link();
        let job = start(&link, Box::new(Stuck));
        drop(agent);
        assert!(job.ended(SOON).is_err());
    }

    #[test]
    fn an_agent_that_does_not_read_holds_nobody_up() {
        let (link, agent) = link();
        let job = start(&link, Box::new(std::io::sink()));
        job.feed(std::io::repeat(7));
        let other = start(&link, Box::new(std::io::sink()));
        // However much input its windows allow, there is an end to what waits for it.
        for job in [&job, &other] {
            job.entry.widen(1 << 40);
        }
        other.feed(std::io::repeat(8));
        thread::sleep(Duration::from_millis(500));
        let (said, heard) = channel();
        thread::spawn(move || {
            let synced = link.sync(Duration::from_millis(100));
            let told = (job.signal(2).is_ok(), job.resize(Size { rows: 1, cols: 1 }).is_ok());
            said.send((synced, told, job.abandon().is_ok(), other.end_input().is_ok()))
        });
        assert_eq!(heard.recv_timeout(SOON), Ok((false, (true, true), true, true)));
        drop(agent);
    }

    #[test]
    fn output_beyond_the_window_is_the_end_of_the_guest() {
        let (link, mut agent) = link();
        let (stuck, other) = (start(&link, Box::new(Stuck)), start(&link, Box::new(std::io::sink())));
        let mut sent = 0;
        // As much as an agent may send.
        while sent < OUTPUT_WINDOW {
            let piece = PIECE.min(OUTPUT_WINDOW - sent);
            protocol::send(&mut agent, stuck.id, &ToHost::Output(Stream::Out, vec![1; piece])).unwrap();
            sent += piece;
        }
        assert_eq!(stuck.ended(Duration::from_millis(200)).unwrap(), None);
        // An empty piece is not for nothing either.
        protocol::send(&mut agent, stuck.id, &ToHost::Output(Stream::Out, Vec::new())).unwrap();
        assert!(stuck.ended(SOON).is_err() && other.ended(SOON).is_err());
        assert!(other.signal(2).is_err());
        let more = (0..1000)
            .map(|_| protocol::send(&mut agent, stuck.id, &ToHost::Output(Stream::Out, vec![1; PIECE])));
        assert!(more.into_iter().any(|sent| sent.is_err()), "nobody listens");
    }
}

//! The socket of the control protocol: who may talk at once, and where a line ends.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    control::{self, MAX_LINE},
    server::Shared,
};

/// The most connections at once: each has a thread and a line.
pub const MAX_CONNECTIONS: usize = 32;
/// How long the listener pauses when it cannot take a connection, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// How long somebody who is turned away may take to read why.
const FAREWELL: Duration = Duration::from_millis(100);

/// A place among the connections, given back when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |n| (n < MAX_CONNECTIONS).then_some(n + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self(Arc::clone(taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Listens at the path.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    UnixListener::bind(path)
}

/// Serves all who connect. Does not return.
pub fn serve(listener: &UnixListener, shared: &Arc<Shared>) {
    let taken = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) => {
                tracing::warn!("control: {e}");
                thread::sleep(PAUSE);
                continue;
            }
        };
        let Some(place) = Place::take(&taken) else {
            turn_away(stream);
            continue;
        };
        let shared = Arc::clone(shared);
        let talk = move || {
            let _place = place;
            // A client that goes in the middle of something is no failure.
            if let Err(e) = converse(&stream, &shared) {
                tracing::debug!("control: {e}");
            }
        };
        if let Err(e) = thread::Builder::new().name("control".to_owned()).spawn(talk) {
            tracing::warn!("control: no thread: {e}");
        }
    }
}

fn turn_away(mut stream: UnixStream) {
    let why = format!("{MAX_CONNECTIONS} connections are open already; close one and try again");
    let said =
        stream.set_write_timeout(Some(FAREWELL)).and_then(|()| stream.write_all(&control::refuse(why)));
    if let Err(e) = said {
        tracing::debug!("control: {e}");
    }
}

/// Answers line by line until the client goes. A last line without an end counts as well.
fn converse(stream: &UnixStream, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = MAX_LINE as u64 + 1;
        if (&mut reader).take(limit).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let whole = line.ends_with(b"\n");
        line.truncate(line.len() - usize::from(whole));
        let answer = if line.len() > MAX_LINE {
            if !whole {
                reader.skip_until(b'\n')?;
            }
            control::refuse(control::too_long())
        } else {
            shared.control(&line)
        };
        writer.write_all(&answer)?;
    }
}

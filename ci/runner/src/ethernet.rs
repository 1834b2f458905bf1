//! The Ethernet between the guests: a switch in the lab itself, so that no port of the host's is taken and no run hears
//! another. Each QEMU sends its guest's frames over a socket, each with its length in four bytes before it.
//!
//! What a guest sends is carried at the speed of whoever takes it. For each way from one guest to another there is a
//! queue; when it is full the frame is dropped and counted, as any switch would. So a guest that floods another, or
//! does not listen, costs nobody else a frame.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};

use crate::device::Node;
use crate::machine;
use crate::socket::{self, Stop};

/// Frames that may wait on the way from one guest to another.
const QUEUE: usize = 512;
/// And their bytes: what two seconds of a slow guest's traffic take, and little for the host.
const QUEUE_BYTES: usize = 4 << 20;
/// The longest frame that QEMU can send. What says to be longer is no frame: the stream has lost step.
const LONGEST: usize = 68 * 1024;
/// Two addresses and a type.
const SHORTEST: usize = 14;

/// A guest's address on the Ethernet: locally administered, the node's number last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(u8);

const MAC_START: [u8; 5] = [0x52, 0x54, 0x00, 0x0a, 0x09];

impl Mac {
    pub fn of(node: Node) -> Mac {
        Mac(node.number)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        MAC_START.iter().try_for_each(|byte| write!(f, "{byte:02x}:"))?;
        write!(f, "{:02x}", self.0)
    }
}

/// What went one way from one guest to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub frames: u64,
    pub dropped: u64,
}

/// The frames on one way.
#[derive(Debug, Default)]
struct Way {
    waiting: VecDeque<Arc<[u8]>>,
    bytes: usize,
    count: Count,
}

/// All ways that lead to one guest.
#[derive(Debug)]
struct Port {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Debug)]
struct State {
    /// By source.
    ways: Vec<Way>,
    /// Whose turn it is.
    turn: usize,
    /// The guest is gone: nothing is kept for it.
    closed: bool,
}

impl Port {
    fn new(count: usize) -> Port {
        let ways = (0..count).map(|_| Way::default()).collect();
        Port { state: Mutex::new(State { ways, turn: 0, closed: false }), filled: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, from: usize, frame: &Arc<[u8]>) {
        let mut state = self.state();
        let closed = state.closed;
        let Some(way) = state.ways.get_mut(from) else { return };
        if closed || way.waiting.len() >= QUEUE || way.bytes + frame.len() > QUEUE_BYTES {
            way.count.dropped += 1;
            return;
        }
        way.count.frames += 1;
        way.bytes += frame.len();
        way.waiting.push_back(frame.clone());
        drop(state);
        self.filled.notify_one();
    }

    /// Waits for the next frame; each source that has one gets its turn. `None`: the guest is gone.
    fn take(&self) -> Option<Arc<[u8]>> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            let count = state.ways.len();
            for step in 0..count {
                let from = (state.turn + step) % count;
                let way = &mut state.ways[from];
                if let Some(frame) = way.waiting.pop_front() {
                    way.bytes -= frame.len();
                    state.turn = from + 1;
                    return Some(frame);
                }
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        self.state().closed = true;
        self.filled.notify_all();
    }
}

/// The switch. It works until it is dropped.
#[derive(Debug)]
pub struct Switch {
    ports: Arc<[Port]>,
    _stop: Stop,
}

impl Switch {
    /// Listens for the QEMUs of so many guests in the run's folder.
    pub fn start(run: &Path, count: u8) -> Result<Switch> {
        let ports: Arc<[Port]> = (0..count).map(|_| Port::new(count.into())).collect();
        let stop = Stop::default();
        for (at, node) in Node::all(count).enumerate() {
            let ports = ports.clone();
            let name = machine::ethernet_socket(node);
            socket::listen(run, &name, &stop, move |stream| {
                // A QEMU comes once; one that is gone does not come back.
                if let Ok(to_guest) = stream.try_clone() {
                    let (all, own) = (ports.clone(), ports.clone());
                    thread::spawn(move || hear(stream, at, &all));
                    thread::spawn(move || tell(to_guest, &own[at]));
                }
                false
            })
            .with_context(|| format!("listening at {name}"))?;
        }
        Ok(Switch { ports, _stop: stop })
    }

    /// What went from whom to whom so far, as far as anything did.
    pub fn counts(&self) -> Vec<(u8, u8, Count)> {
        let mut all = Vec::new();
        for (to, port) in (1..).zip(self.ports.iter()) {
            for (from, way) in (1..).zip(&port.state().ways) {
                if way.count != Count::default() {
                    all.push((from, to, way.count));
                }
            }
        }
        all.sort_by_key(|(from, to, _)| (*from, *to));
        all
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.ports.iter().for_each(Port::close);
    }
}

/// Carries a guest's frames to whom they are for, until its QEMU is gone.
fn hear(mut from_guest: UnixStream, from: usize, ports: &[Port]) {
    let mut from_guest = io::BufReader::with_capacity(LONGEST, &mut from_guest);
    while let Ok(frame) = receive(&mut from_guest) {
        if frame.len() < SHORTEST {
            continue;
        }
        let one = destination(&frame, ports.len());
        for (to, port) in ports.iter().enumerate() {
            if to != from && one.is_none_or(|one| one == to) {
                port.put(from, &frame);
            }
        }
    }
    if let Some(port) = ports.get(from) {
        port.close();
    }
}

/// Which guest a frame is for, counted from 0. `None`: for all, or for an address that none of them was given.
fn destination(frame: &[u8], count: usize) -> Option<usize> {
    let number = usize::from(*frame.strip_prefix(&MAC_START)?.first()?);
    (1..=count).contains(&number).then(|| number - 1)
}

fn receive(from: &mut impl Read) -> io::Result<Arc<[u8]>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::other(format!("a frame of {length} bytes")));
    }
    let mut frame = vec![0; length];
    from.read_exact(&mut frame)?;
    Ok(frame.into())
}

/// Gives a guest what has come for it, at the speed at which it takes it.
fn tell(mut to_guest: UnixStream, port: &Port) {
    let mut bytes = Vec::new();
    while let Some(frame) = port.take() {
        bytes.clear();
        bytes.extend((frame.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&frame);
        if to_guest.write_all(&bytes).is_err() {
            port.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn guests(count: u8) -> (tempfile::TempDir, Switch, Vec<UnixStream>) {
        let dir = tempfile::tempdir().unwrap();
        let switch = Switch::start(dir.path(), count).unwrap();
        let connect = |node| socket::connect(dir.path(), &machine::ethernet_socket(node)).unwrap();
        let streams: Vec<UnixStream> = Node::all(count).map(connect).collect();
        streams.iter().for_each(|one| one.set_read_timeout(Some(Duration::from_secs(10))).unwrap());
        (dir, switch, streams)
    }

    fn frame(to: u8, content: u8, length: usize) -> Vec<u8> {
        let mut frame = [MAC_START.as_slice(), &[to]].concat();
        frame.resize(length, content);
        frame
    }

    fn send(stream: &mut UnixStream, frame: &[u8]) {
        stream.write_all(&(frame.len() as u32).to_be_bytes()).unwrap();
        stream.write_all(frame).unwrap();
    }

    #[test]
    fn frames_reach_whom_they_are_for() {
        let (_dir, switch, mut guests) = guests(3);
        let (mine, all) = (frame(2, 7, 60), [[0xff; 60], [1; 60]].concat());
        send(&mut guests[0], &mine);
        send(&mut guests[0], &[]);
        send(&mut guests[0], &all);
        assert_eq!(*receive(&mut guests[1]).unwrap(), mine);
        assert_eq!(*receive(&mut guests[1]).unwrap(), all);
        assert_eq!(*receive(&mut guests[2]).unwrap(), all);
        let count = |frames| Count { frames, dropped: 0 };
        assert_eq!(switch.counts(), [(1, 2, count(2)), (1, 3, count(1))]);
    }

    #[test]
    fn a_guest_that_does_not_listen_holds_nobody_up() {
        let (_dir, switch, mut guests) = guests(3);
        let long = frame(2, 1, 60_000);
        // More than the sockets and the queue hold.
        for _ in 0..300 {
            send(&mut guests[0], &long);
        }
        send(&mut guests[0], &frame(3, 5, 60));
        assert_eq!(receive(&mut guests[2]).unwrap()[20], 5);
        let dropped = |switch: &Switch| switch.counts()[0].2.dropped;
        assert!(dropped(&switch) > 0, "{:?}", switch.counts());
        // And it has not cost another one its way to the same guest.
        send(&mut guests[2], &frame(2, 9, 60));
        let began = Instant::now();
        while receive(&mut guests[1]).unwrap()[20] != 9 {
            assert!(began.elapsed() < Duration::from_secs(10));
        }
    }

    #[test]
    fn lost_step_ends_one_guests_ethernet_only() {
        let (_dir, _switch, mut guests) = guests(3);
        guests[0].write_all(&[0xff; 64]).unwrap();
        send(&mut guests[1], &frame(3, 4, 60));
        assert_eq!(receive(&mut guests[2]).unwrap()[20], 4);
        assert!(receive(&mut [0, 2, 0, 0].as_slice()).is_err());
    }

    #[test]
    fn addresses() {
        let node = Node { number: 8, count: 8 };
        assert_eq!(Mac::of(node).to_string(), "52:54:00:0a:09:08");
        assert_eq!(destination(&frame(8, 0, 60), 8), Some(7));
        assert_eq!(destination(&frame(9, 0, 60), 8), None);
        assert_eq!(destination(&frame(0, 0, 60), 8), None);
    }
}

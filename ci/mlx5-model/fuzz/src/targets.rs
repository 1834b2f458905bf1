//! The targets: one for each thing of a guest's that the model reads.

use std::{fs::File, sync::Arc};

use mlx5_model::{
    control,
    device::Device,
    server::{Connection, Shared},
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, ServerBackend as _};

use crate::{
    program::Program,
    world::{HOSTILE, PEER, Shape, World, shapes},
};

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is its program's and its corpus's too.
    pub name: &'static str,
    /// What it plays.
    pub play: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "command_queue", play: command_queue },
    Target { name: "commands", play: commands },
    Target { name: "page_lists", play: page_lists },
    Target { name: "send_queues", play: send_queues },
    Target { name: "receive_queues", play: receive_queues },
    Target { name: "registers", play: registers },
    Target { name: "datagrams", play: datagrams },
    Target { name: "session", play: session },
    Target { name: "control_lines", play: control_lines },
    Target { name: "qemu", play: qemu },
];

/// Steps of one input; what comes behind them is not played.
const MOST_STEPS: usize = 48;
/// Runs of the device after each step.
const RUNS: usize = 4;
/// Timers that may run out at its end: a queue pair in error has itself looked at for ever.
const MOST_TIMERS: usize = 48;

/// Plays steps until the program is over; `step` gets the number of the step's kind.
fn play(bytes: &[u8], canaries: bool, each: &[&[Shape]], step: impl Fn(&mut World, &mut Program)) {
    let mut p = Program::new(bytes);
    let politely = p.u8() & 1 == 0;
    let mut world = World::new(p.pick(each));
    // Now and then the wire is bad, which no guest can tell from a hostile one.
    if let wish @ 0xe0.. = p.u8() {
        let seed = wish & 0xf;
        let line = format!(
            r#"{{"do":"link","loss":0.1,"duplicate":0.1,"reorder":0.1,"delay_us":{},"seed":{seed}}}"#,
            wish >> 4 & 1
        );
        control::handle(&mut world.rig.device, line.as_bytes());
    }
    for _ in 0..MOST_STEPS {
        if p.is_over() {
            break;
        }
        step(&mut world, &mut p);
        world.run(RUNS);
    }
    wait(&mut world);
    if canaries {
        world.check_canaries(HOSTILE);
    }
    world.finish(politely);
}

/// Lets time pass, from one timer to the next; the clock is the world's own.
fn wait(world: &mut World) {
    for _ in 0..MOST_TIMERS {
        let Some(at) = world.rig.device.engine.next_timer() else { break };
        world.rig.device.engine.set_time(at);
        world.run(RUNS);
    }
}

/// Entries of the command queue and chains of mailboxes.
pub fn command_queue(bytes: &[u8]) {
    play(bytes, false, &[&[]], |world, p| world.raw_command(p));
}

/// Commands that arrive whole, with the objects that they make and break.
pub fn commands(bytes: &[u8]) {
    play(bytes, false, &[shapes::RELIABLE, shapes::XRC, shapes::DATAGRAM], |world, p| match p.below(8) {
        0 => world.post_send(p),
        1 => world.peer_sends(p),
        2 => world.connect_anywhere(p),
        _ => world.command(p),
    });
}

/// Lists of pages behind queues and keys.
pub fn page_lists(bytes: &[u8]) {
    play(bytes, false, &[shapes::RELIABLE, shapes::XRC], |world, p| match p.below(8) {
        0 => world.post_send(p),
        1 => world.peer_sends(p),
        2 => world.ring_anything(p),
        3 => world.command(p),
        _ => world.pages(p),
    });
}

/// Send work requests of every service.
pub fn send_queues(bytes: &[u8]) {
    play(bytes, true, shapes::EACH, |world, p| match p.below(8) {
        0 => world.post_noise(p),
        1 => world.refill_all(PEER),
        2 => world.reconnect(p.below(world.shapes.len())),
        3 => world.drain(HOSTILE),
        4 => world.drain(PEER),
        _ => world.post_send(p),
    });
}

/// Receives, lists of shared receive queues and doorbell records, while a peer sends.
pub fn receive_queues(bytes: &[u8]) {
    play(bytes, true, shapes::EACH, |world, p| match p.below(8) {
        0..3 => world.scribble(p),
        3 => world.refill_all(HOSTILE),
        4 => world.reconnect(p.below(world.shapes.len())),
        5 => world.drain(PEER),
        _ => world.peer_sends(p),
    });
}

/// BAR 0 and the configuration space: registers, doorbells, arming.
pub fn registers(bytes: &[u8]) {
    play(bytes, true, &[shapes::RELIABLE, shapes::XRC], |world, p| match p.below(8) {
        0 => world.post_send(p),
        1 => world.peer_sends(p),
        2 => world.scribble(p),
        3..5 => world.ring_anything(p),
        _ => world.access(p),
    });
}

/// Management datagrams, to the port's agents and the subnet administrator.
pub fn datagrams(bytes: &[u8]) {
    play(bytes, true, &[shapes::DATAGRAM], |world, p| match p.below(8) {
        0 => world.post_send(p),
        1 => world.refill_all(HOSTILE),
        2 => world.reconnect(p.below(2)),
        3 => world.drain(HOSTILE),
        _ => world.send_mad(p),
    });
}

/// Everything in any order.
pub fn session(bytes: &[u8]) {
    play(bytes, false, shapes::EACH, |world, p| match p.below(16) {
        0..3 => world.command(p),
        3 => world.raw_command(p),
        4 => world.pages(p),
        5..7 => world.post_send(p),
        7 => world.post_noise(p),
        8 => world.peer_sends(p),
        9 if p.u8() & 1 == 0 => world.connect_anywhere(p),
        9 => world.scribble(p),
        10 => world.scribble_anywhere(p),
        11 => world.ring_anything(p),
        12 => world.access(p),
        13 => world.send_mad(p),
        14 => match p.below(4) {
            0 => world.refill_all(HOSTILE),
            1 => world.refill_all(PEER),
            2 => world.drain(HOSTILE),
            _ => world.drain(PEER),
        },
        _ => world.reconnect(p.below(world.shapes.len())),
    });
}

/// Lines of the control protocol, which come from people and tests rather than guests: anybody's ports may go down,
/// and nothing else may happen.
pub fn control_lines(bytes: &[u8]) {
    let mut world = World::new(shapes::RELIABLE);
    for line in bytes.split(|byte| *byte == b'\n').take(MOST_STEPS) {
        let answer = control::handle(&mut world.rig.device, line);
        let json: serde_json::Value = serde_json::from_slice(&answer).expect("an answer is JSON");
        let answers = ["ok", "error"].iter().filter(|key| json.get(key).is_some()).count();
        assert_eq!((answers, answer.iter().filter(|byte| **byte == b'\n').count()), (1, 1), "{json}");
        world.peer_sends(&mut Program::new(line));
        world.run(RUNS);
    }
    wait(&mut world);
    world.leave_all();
}

/// What a guest's QEMU asks of the function, which is partly the guest's choice: accesses, memory, interrupts.
pub fn qemu(bytes: &[u8]) {
    let mut p = Program::new(bytes);
    let shared = Shared::new(Device::new(2));
    let mut connection = Connection::new(Arc::clone(&shared), 0);
    let file = || rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).ok().map(File::from);
    let sizes = [0x1000, 0x10_0000, 0, 1, u64::MAX, 1 << 40];
    for _ in 0..MOST_STEPS {
        if p.is_over() {
            break;
        }
        let (step, region) = (p.below(8), p.pick(&[0, 7, 7, 1, 8, u32::MAX]));
        let at = match p.u8() {
            0xff => p.u64(),
            0xfe => u64::MAX - u64::from(p.u8()),
            n => u64::from(n) << 8 | u64::from(p.u8()),
        };
        // What fails says so, which is all that is asked of it.
        let _ = match step {
            0..2 => connection.region_read(region, at, &mut vec![0; usize::from(p.u16())]),
            2..4 => {
                let length = p.pick(&[4, 8, 1, 2, 0, 64, 0x1000]);
                let mut data = p.take(length).to_vec();
                data.resize(length, 0);
                connection.region_write(region, at, &data)
            }
            4 => {
                let size = p.pick(&sizes);
                let file = file().filter(|_| p.u8() != 0xff);
                if let Some(file) = &file {
                    let _ = file.set_len(size.min(0x10_0000));
                }
                connection.dma_map(DmaMapFlags::READ_WRITE, p.pick(&sizes), at & !0xfff, size, file)
            }
            5 => {
                let flags = if p.u8() == 0xff { DmaUnmapFlags::UNMAP_ALL } else { DmaUnmapFlags::empty() };
                connection.dma_unmap(flags, at & !0xfff, p.pick(&sizes))
            }
            6 => {
                let files = (0..p.below(4)).filter_map(|_| file()).collect();
                connection.set_irqs(p.pick(&[2, 0, 1, 9]), p.u32(), p.u8().into(), p.u32(), files)
            }
            _ => connection.reset(),
        };
    }
    assert!(connection.reset().is_ok() && shared.lock().held(0).is_nothing());
}

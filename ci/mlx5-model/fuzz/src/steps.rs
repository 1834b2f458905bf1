//! What a hostile guest can do, one step at a time. Each step reads what it needs of the program.

use mlx5_model::{
    bits::{Field, put},
    command::opcode::Opcode,
    fields::{
        command_entry, command_in, command_out, mailbox, wqe_address, wqe_atomic, wqe_control, wqe_data,
        wqe_remote, wqe_xrc,
    },
    hw::{QP1, QP1_QKEY, SEND_BLOCK_BYTES, Service, WqeOpcode},
};

use crate::{
    driver::{COMMAND_QUEUE, INPUT_BOXES, MEMORY, OUTPUT_BOXES, TOKEN, data},
    program::Program,
    world::{ALLOCATED, BLOCKS, Channel, HOSTILE, PEER, TO_READY, World, across, transition},
};

/// The operations of send work requests, unknown ones among them.
const OPERATIONS: &[u8] = &[
    WqeOpcode::Send as u8,
    WqeOpcode::SendImmediate as u8,
    WqeOpcode::Write as u8,
    WqeOpcode::WriteImmediate as u8,
    WqeOpcode::Read as u8,
    WqeOpcode::CompareSwap as u8,
    WqeOpcode::FetchAdd as u8,
    WqeOpcode::Nop as u8,
    0x25,
    0xff,
];
/// Those that a well-behaved guest asks for.
const USUAL: usize = 7;
/// Addresses that may be pages, or not.
const ADDRESSES: &[u64] =
    &[0, ALLOCATED, MEMORY - 0x1000, MEMORY, 0x10_0008, u64::MAX, u64::MAX - 0xfff, 1 << 63, COMMAND_QUEUE];
/// Lengths of command bodies and outputs that commands have, and some that none has.
const BODIES: &[usize] = &[0, 4, 16, 48, 64, 240, 256, 264, 272, 512, 1280, 4096];
const OUTPUTS: &[usize] = &[16, 8, 32, 272, 528, 4112, 17];
/// Places in a page of doorbells.
const DOORBELLS: &[u64] = &[0x20, 0x40, 0x48, 0x800, 0x900, 0xa00];

/// A send work request that fits the service.
fn request(world: &World, guest: usize, n: usize, operation: u8, p: &mut Program) -> Vec<u8> {
    let other = HOSTILE + PEER - guest;
    let (near, far) = (world.assets[guest].region, world.assets[other].region);
    let c = &world.assets[guest].channels[n];
    let mut wqe = vec![0; 16];
    let mut segment = |fields: &[(Field, u64)], bytes: usize| {
        let mut s = vec![0; bytes];
        fields.iter().for_each(|(field, value)| field.set(&mut s, *value));
        wqe.extend_from_slice(&s);
    };
    match c.service {
        Service::Xrc => segment(&[(wqe_xrc::SRQN, world.assets[other].srq[0].number.into())], 16),
        Service::Ud | Service::Gsi | Service::Smi => segment(
            &[
                (wqe_address::Q_KEY, QP1_QKEY.into()),
                (wqe_address::QPN, world.assets[other].channels[across(&world.shapes, n)].number.into()),
                (wqe_address::RLID, world.rig.device.guests[other].lid.into()),
            ],
            wqe_address::BYTES,
        ),
        _ => {}
    }
    let operation_is = |some: &[WqeOpcode]| some.iter().any(|o| *o as u8 == operation);
    use WqeOpcode::{CompareSwap, FetchAdd, Read, Write, WriteImmediate};
    let atomic = operation_is(&[CompareSwap, FetchAdd]);
    if atomic || operation_is(&[Read, Write, WriteImmediate]) {
        segment(&[(wqe_remote::ADDRESS, far.at), (wqe_remote::KEY, far.key.into())], 16);
    }
    if atomic {
        segment(&[(wqe_atomic::SWAP_OR_ADD, p.u8().into()), (wqe_atomic::COMPARE, 0)], 16);
    }
    let mut length = if atomic { 8 } else { u32::from(p.u8()) << 2 };
    if guest == HOSTILE && length & 0x200 != 0 && !atomic {
        // Some of it inline.
        let inline = (length & 0x7c) as usize;
        let bytes = (4 + inline).next_multiple_of(16);
        segment(&[(wqe_data::INLINE, 1), (wqe_data::BYTE_COUNT, inline as u64)], bytes);
        length >>= 3;
    }
    wqe.extend_from_slice(&data(near, length));
    wqe_control::OPCODE.set(&mut wqe, operation.into());
    wqe_control::INDEX.set(&mut wqe, c.sent.into());
    wqe_control::QPN.set(&mut wqe, c.number.into());
    wqe_control::COMPLETE.set(&mut wqe, 2);
    let segments = wqe.len().div_ceil(16) as u64;
    wqe_control::DS.set(&mut wqe, segments);
    wqe
}

impl World {
    fn put_request(&mut self, guest: usize, n: usize, wqe: &[u8]) {
        let Channel { buffer, base, sent, doorbell, .. } = self.assets[guest].channels[n];
        for (i, block) in wqe.chunks(SEND_BLOCK_BYTES).enumerate() {
            let slot = u64::from(sent.wrapping_add(i as u16)) % BLOCKS;
            self.rig.write(guest, buffer + base + slot * SEND_BLOCK_BYTES as u64, block);
        }
        let sent = sent.wrapping_add(wqe.len().div_ceil(SEND_BLOCK_BYTES) as u16);
        self.assets[guest].channels[n].sent = sent;
        self.rig.write(guest, doorbell + 4, &u32::from(sent).to_be_bytes());
    }

    fn ring_send(&mut self, guest: usize, n: usize, head: u32) {
        let mut bytes = [0; 8];
        put(&mut bytes, 0, &head.to_be_bytes());
        put(&mut bytes, 4, &(self.assets[guest].channels[n].number << 8).to_be_bytes());
        self.doorbell(guest, 0x800, &bytes);
    }

    /// Posts a send work request, more or less sound.
    pub fn post_send(&mut self, p: &mut Program) {
        let n = p.below(self.shapes.len());
        let operation = p.pick(OPERATIONS);
        let mut wqe = request(self, HOSTILE, n, operation, p);
        p.patch(&mut wqe);
        self.put_request(HOSTILE, n, &wqe);
        // A counter of one's own choosing, once in a while.
        let wish = p.u8();
        if wish >= 0xf0 {
            let at = self.assets[HOSTILE].channels[n].doorbell + 4;
            self.rig.write(HOSTILE, at, &u32::from(p.u16()).to_be_bytes());
        }
        self.ring_send(HOSTILE, n, u32::from(wish));
    }

    /// Posts bytes as they are.
    pub fn post_noise(&mut self, p: &mut Program) {
        let n = p.below(self.shapes.len());
        let length = 16 * (1 + p.below(63));
        let mut wqe = p.take(length).to_vec();
        wqe.resize(length, 0);
        self.put_request(HOSTILE, n, &wqe);
        self.ring_send(HOSTILE, n, 0);
    }

    /// The peer sends the hostile guest something sound.
    pub fn peer_sends(&mut self, p: &mut Program) {
        let n = p.below(self.shapes.len());
        let operation = p.pick(&OPERATIONS[..USUAL]);
        let wqe = request(self, PEER, n, operation, p);
        self.put_request(PEER, n, &wqe);
        self.ring_send(PEER, n, 0);
    }

    /// Sends a management datagram of these bytes, to the subnet administrator or the peer's agent, and asks the
    /// port's own agent the same.
    pub fn send_mad(&mut self, p: &mut Program) {
        let to_administrator = p.below(4) > 0;
        let mut mad = [0; 256];
        // Mostly of a class that is answered, with a method and an attribute that exist.
        mad[..4].copy_from_slice(&[
            1,
            p.pick(&[3, 3, 4, 1, 7, 0x81]),
            2,
            p.pick(&[1, 2, 0x12, 0x15, 0x81, 3]),
        ]);
        put(&mut mad, 16, &p.pick(&[0x35u16, 0x38, 1, 0x10, 0x11, 0x12, 0x1d, 0x31]).to_be_bytes());
        put(&mut mad, 48, &u64::from(p.u16()).to_be_bytes());
        let (at, count) = (p.below(256), p.below(64));
        put(&mut mad, at, p.take(count));
        let region = self.assets[HOSTILE].region;
        self.rig.write(HOSTILE, region.at, &mad);
        let gsi = self.shapes.iter().position(|(service, _)| *service == Service::Gsi).unwrap_or_default();
        let mut wqe = request(self, HOSTILE, gsi, WqeOpcode::Send as u8, &mut Program::new(&[]));
        let lid = if to_administrator { 1 } else { self.rig.device.guests[PEER].lid };
        wqe_address::RLID.within(16).set(&mut wqe, lid.into());
        wqe_address::QPN.within(16).set(&mut wqe, QP1.into());
        let length = if p.u8() < 0xf0 { 256 } else { u64::from(p.u16()) };
        let last = wqe.len() - 16;
        wqe_data::BYTE_COUNT.within(last).set(&mut wqe, length);
        self.put_request(HOSTILE, gsi, &wqe);
        self.ring_send(HOSTILE, gsi, 0);
        let mut input = vec![0; 16];
        command_in::OPCODE.set(&mut input, Opcode::MAD_IFC as u64);
        input.extend_from_slice(&mad);
        self.ask(HOSTILE, &input, 272);
    }

    /// A number that is an object's, or may be.
    fn number(&self, p: &mut Program) -> u32 {
        match p.u8() {
            0xff => p.u32(),
            n => self.numbers[usize::from(n) % self.numbers.len()],
        }
    }

    /// Issues a command: one of those that made the world, or zeros, with bytes changed.
    pub fn command(&mut self, p: &mut Program) {
        let opcode = p.pick(Opcode::ALL);
        let known: Vec<&Vec<u8>> =
            self.history.iter().filter(|i| command_in::OPCODE.get(i) == opcode as u64).collect();
        let like = usize::from(p.u8());
        let mut input = match known.get(like % (known.len() + 1)) {
            Some(input) => (*input).clone(),
            None => vec![0; 16 + p.pick(BODIES)],
        };
        p.patch(&mut input);
        let wish = p.u8();
        if wish & 1 == 0 {
            command_in::OBJECT.set(&mut input, self.number(p).into());
        }
        if wish & 6 == 6 {
            // Object numbers also stand in contexts.
            let at = usize::from(p.u16()) % input.len();
            let number = self.number(p);
            Field::new(8, 24).within(at & !3).set(&mut input, number.into());
        }
        if wish & 0x18 == 0x18 {
            for _ in 0..p.below(8) {
                input.extend_from_slice(&p.pick(ADDRESSES).to_be_bytes());
            }
        }
        if wish & 0x60 == 0x60 {
            input.truncate(usize::from(p.u16()) % (input.len() + 1));
        }
        // Only so long, and the opcode is the one that was meant: the rest has a target of its own.
        input.resize(input.len().max(16), 0);
        if wish & 0x80 == 0 {
            command_in::OPCODE.set(&mut input, opcode as u64);
        }
        let output = p.pick(OUTPUTS);
        if let Some(out) = self.ask(HOSTILE, &input, output) {
            if out.len() >= 16 && !command_out::STATUS.is_set(&out) && self.numbers.len() < 0xf0 {
                self.numbers.push(command_out::OBJECT.get32(&out));
            }
        }
    }

    /// Connects one of its queue pairs with any port and queue pair, and sends from it.
    pub fn connect_anywhere(&mut self, p: &mut Program) {
        let n = p.below(self.shapes.len());
        let qpn = self.assets[HOSTILE].channels[n].number;
        let lid = self.rig.device.guests[p.below(3)].lid;
        let remote = self.number(p);
        self.assets[HOSTILE].channels[n].sent = 0;
        self.rig.write(HOSTILE, self.assets[HOSTILE].channels[n].doorbell, &[0; 8]);
        for opcode in [Opcode::TO_RST_QP, TO_READY[0], TO_READY[1], TO_READY[2]] {
            self.ask(HOSTILE, &transition(opcode, qpn, lid, remote), 16);
        }
        let operation = p.pick(OPERATIONS);
        let wqe = request(self, HOSTILE, n, operation, p);
        self.put_request(HOSTILE, n, &wqe);
        self.ring_send(HOSTILE, n, 0);
    }

    /// Makes a queue or a key from a template with another list of pages.
    pub fn pages(&mut self, p: &mut Program) {
        let made = p.pick(&[
            Opcode::CREATE_MKEY,
            Opcode::CREATE_CQ,
            Opcode::CREATE_QP,
            Opcode::CREATE_XRC_SRQ,
            Opcode::CREATE_RMP,
            Opcode::CREATE_EQ,
            Opcode::MANAGE_PAGES,
        ]);
        let known = self.history.iter().find(|i| command_in::OPCODE.get(i) == made as u64);
        let mut input = known.cloned().unwrap_or_else(|| vec![0; 16]);
        let list = if made == Opcode::MANAGE_PAGES { 16 } else { 272 };
        input.resize(list, 0);
        command_in::OPCODE.set(&mut input, made as u64);
        if made == Opcode::MANAGE_PAGES {
            input[7] = p.pick(&[1, 2, 0, 3]);
            input[15] = p.u8();
        } else {
            p.patch(&mut input[16..]);
        }
        for _ in 0..p.below(16) {
            let page = match p.u8() {
                0xff => p.u64(),
                n @ 0xf0.. => ADDRESSES[usize::from(n) % ADDRESSES.len()],
                n => ALLOCATED + u64::from(n) * 0x1000,
            };
            input.extend_from_slice(&page.to_be_bytes());
        }
        if let Some(out) = self.ask(HOSTILE, &input, 272) {
            if !command_out::STATUS.is_set(&out) && self.numbers.len() < 0xf0 {
                self.numbers.push(command_out::OBJECT.get32(&out));
            }
        }
    }

    /// Writes an entry of the command queue and mailboxes as they come, and rings.
    pub fn raw_command(&mut self, p: &mut Program) {
        let wish = p.u8();
        let mut entry = [0; command_entry::BYTES];
        put(&mut entry, 16, p.take(16));
        let lengths = [16, 272, 1040, 4112, 0, 7, 600, 2064];
        for (field, good) in [
            (command_entry::INPUT_LENGTH, p.pick(&lengths)),
            (command_entry::OUTPUT_LENGTH, p.pick(&lengths)),
            (command_entry::INPUT_MAILBOX, INPUT_BOXES),
            (command_entry::OUTPUT_MAILBOX, OUTPUT_BOXES),
            (command_entry::TOKEN, TOKEN),
            (command_entry::OWNER, 1),
        ] {
            field.set(&mut entry, good);
        }
        p.patch(&mut entry);
        let slot = if wish & 1 == 0 { 0 } else { p.below(32) as u64 };
        self.rig.write(HOSTILE, COMMAND_QUEUE + slot * command_entry::BYTES as u64, &entry);
        for (first, count) in [(INPUT_BOXES, p.below(5)), (OUTPUT_BOXES, p.below(5))] {
            for n in 0..count as u64 {
                let mut b = [0; mailbox::BYTES];
                mailbox::TOKEN.set(&mut b, TOKEN);
                mailbox::BLOCK_NUMBER.set(&mut b, n);
                mailbox::NEXT.set(&mut b, first + (n + 1) * 0x400);
                if wish & 2 != 0 {
                    // The head of the chain's links lies behind the data.
                    p.patch(&mut b[512..]);
                }
                p.patch(&mut b);
                self.rig.write(HOSTILE, first + n * 0x400, &b);
            }
        }
        let at = match wish >> 4 {
            0xf => p.u64(),
            0xe => p.pick(ADDRESSES),
            _ => COMMAND_QUEUE,
        };
        self.rig.device.bar_write(HOSTILE, 0x10, &at.to_be_bytes());
        let bell = if wish & 4 == 0 { 1 << slot } else { p.u32() };
        self.rig.device.bar_write(HOSTILE, 0x18, &bell.to_be_bytes());
    }

    /// Writes anything over queues and their records.
    pub fn scribble(&mut self, p: &mut Program) {
        let a = &self.assets[HOSTILE];
        let c = &a.channels[p.below(a.channels.len())];
        let srq = &a.srq[p.below(2)];
        let (start, room) = p.pick(&[
            (c.doorbell, 8u64),
            (c.buffer, 0x1000),
            (srq.doorbell, 4),
            (srq.buffer, 0x100),
            (a.cq.doorbell, 8),
            (a.cq.buffer, 0x2000),
            (a.region.at, 0x1000),
        ]);
        let at = u64::from(p.u16()) % room;
        let length = p.below(65).min((room - at) as usize);
        let mut bytes = p.take(length).to_vec();
        bytes.resize(length, 0);
        self.rig.write(HOSTILE, start + at, &bytes);
    }

    /// Writes anything anywhere in its memory, where the device's own pages are as well.
    pub fn scribble_anywhere(&mut self, p: &mut Program) {
        let at = match p.u8() {
            n @ ..0x40 => COMMAND_QUEUE + u64::from(n) * 0x20,
            n @ 0x40..0x80 => INPUT_BOXES + u64::from(n - 0x40) * 0x90,
            n => ALLOCATED + u64::from(n & 0x7f) * 0x1000 + u64::from(p.u16() & 0xfff),
        };
        let length = p.below(65);
        self.rig.write(HOSTILE, at.min(MEMORY - 64), p.take(length));
    }

    /// Rings: a doorbell of a sound page, mostly with a number that is an object's.
    pub fn ring_anything(&mut self, p: &mut Program) {
        let page = match p.u8() {
            0xff => u64::from(p.u16()),
            _ => u64::from(self.rig.uar[HOSTILE]),
        };
        let at = match p.u8() {
            0xff => u64::from(p.u16() & 0xfff),
            n => DOORBELLS[usize::from(n) % DOORBELLS.len()],
        };
        let number = self.number(p);
        let mut bytes = [0; 64];
        put(&mut bytes, 0, &p.u32().to_be_bytes());
        put(&mut bytes, 4, &if at >= 0x800 { number << 8 } else { number }.to_be_bytes());
        let length = p.pick(&[8, 8, 8, 4, 1, 64, 0]);
        self.rig.device.bar_write(HOSTILE, page * 0x1000 + at, &bytes[..length]);
    }

    /// Reads or writes BAR 0 or the configuration space, any place, any length.
    pub fn access(&mut self, p: &mut Program) {
        let wish = p.u8();
        let at = match wish >> 5 {
            0 => p.u64(),
            1 => u64::from(p.u32()),
            2 => 0x4_0000 + u64::from(p.u16()),
            _ => u64::from(p.u16() & 0x1fff),
        };
        let length = p.pick(&[4, 8, 1, 2, 3, 0, 16, 200]);
        let mut bytes = p.take(length).to_vec();
        bytes.resize(length, 0);
        let device = &mut self.rig.device;
        match wish & 3 {
            0 => device.bar_read(HOSTILE, at, &mut bytes),
            1 => device.bar_write(HOSTILE, at, &bytes),
            2 => device.guests[HOSTILE].config.read(at, &mut bytes),
            _ => device.guests[HOSTILE].config.write(at, &bytes),
        }
    }

    /// Receives for all of the hostile guest's queues, or the peer's.
    pub fn refill_all(&mut self, guest: usize) {
        (0..self.shapes.len()).for_each(|n| self.refill(guest, n));
    }
}

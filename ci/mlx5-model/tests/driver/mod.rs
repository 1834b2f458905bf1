//! A driver in miniature: brings up a device and makes objects, as the real ones do, from guest memory that is a
//! file. Tests play the guest with it.
#![allow(dead_code, missing_docs, missing_debug_implementations)]

use std::{fs::File, path::PathBuf, time::Duration};

use mlx5_model::{
    bits::{Field, put},
    command::opcode::Opcode,
    device::Device,
    fields::{
        command_entry, command_in, command_out, cqc, create_eq_in, eqc, eqe, klm, mailbox, mkc, qpc,
        srq_next, wqe_data, wqe_umr, xrc_srqc,
    },
    hw::{ANY_QPN, AccessMode, EventType, ReceiveQueueType, Service},
};

pub const MEMORY: u64 = 8 << 20;
pub const COMMAND_QUEUE: u64 = 0x1000;
pub const INPUT_BOXES: u64 = 0x10_000;
pub const OUTPUT_BOXES: u64 = 0x80_000;
const FREE: u64 = 0x100_000;
pub const TOKEN: u64 = 0x5a;

/// The device and its guests.
pub struct Rig {
    pub device: Device,
    free: Vec<u64>,
    pub uar: Vec<u32>,
    pub eqn: Vec<u32>,
    /// Every input that went through [`Rig::raw`].
    pub history: Vec<Vec<u8>>,
}

pub struct Queue {
    pub number: u32,
    pub buffer: u64,
    pub doorbell: u64,
}

#[derive(Clone, Copy)]
pub struct Region {
    pub key: u32,
    pub at: u64,
}

/// A queue pair in its own words: XRC initiator, XRC target, RC, UC, or the driver's own for memory keys.
pub enum Role {
    Initiator,
    Target(u32),
    Rc,
    Uc,
    Keys,
}

fn memory_file(name: &str) -> File {
    // Cargo names a folder for tests, and none for a library that plays a guest with this.
    let folder = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = folder.join(format!("{name}-{}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file.set_len(MEMORY).unwrap();
    file
}

impl Rig {
    /// A device whose guests have memory and nothing else.
    pub fn bare(name: &str, guests: usize) -> Self {
        Self::on((0..guests).map(|n| memory_file(&format!("{name}{n}"))).collect())
    }

    /// The same; the files, of [`MEMORY`] bytes each, are the guests' memories.
    pub fn on(memories: Vec<File>) -> Self {
        let guests = memories.len();
        let mut device = Device::new(guests);
        for (g, file) in device.guests.iter_mut().zip(memories) {
            g.memory.map(0, MEMORY, file, 0).unwrap();
        }
        Self {
            device,
            free: vec![FREE; guests],
            uar: vec![0; guests],
            eqn: vec![0; guests],
            history: Vec::new(),
        }
    }

    /// A device whose drivers are up.
    pub fn up(name: &str, guests: usize) -> Self {
        let mut rig = Self::bare(name, guests);
        (0..guests).for_each(|g| rig.bring_up(g));
        rig
    }

    /// An event queue of 64 entries for everything but completions and commands.
    pub fn async_eq(&mut self, guest: usize) -> Queue {
        let buffer = self.alloc(guest, 0x1000);
        let mut input = vec![0; 272];
        command_in::OPCODE.set(&mut input, Opcode::CREATE_EQ as u64);
        create_eq_in::EVENT_BITMASK.set(&mut input, !(1 << 0 | 1 << 0xa));
        eqc::LOG_EQ_SIZE.within(16).set(&mut input, 6);
        eqc::UAR_PAGE.within(16).set(&mut input, self.uar[guest].into());
        input.extend_from_slice(&buffer.to_be_bytes());
        // What is in no round yet has the other owner bit.
        self.write(guest, buffer, &[0xff; 0x1000]);
        let out = self.raw(guest, &input, 16);
        assert_eq!(command_out::STATUS.get(&out), 0);
        Queue { number: command_out::OBJECT.get32(&out), buffer, doorbell: 0 }
    }

    /// What is in such a queue, of its first round: type, subtype, and the QP, SRQ, CQ or port.
    pub fn events(&self, guest: usize, eq: &Queue) -> Vec<(u64, u64, u64)> {
        (0..64)
            .map(|n| self.read::<64>(guest, eq.buffer + n * 64))
            .take_while(|e| eqe::OWNER.get(e) == 0)
            .map(|e| {
                let number = match EventType::from_number(eqe::TYPE.get(&e)).unwrap() {
                    EventType::CqError => eqe::CQ_ERROR_CQN,
                    EventType::PortChange => eqe::PORT,
                    _ => eqe::RESOURCE,
                };
                (eqe::TYPE.get(&e), eqe::SUB_TYPE.get(&e), number.get(&e))
            })
            .collect()
    }

    /// Brings a guest's driver up.
    pub fn bring_up(&mut self, guest: usize) {
        self.device.bar_write(guest, 0x10, &COMMAND_QUEUE.to_be_bytes());
        self.ok(guest, Opcode::ENABLE_HCA, &[], 16);
        self.ok(guest, Opcode::INIT_HCA, &[], 16);
        self.uar[guest] = self.made(guest, Opcode::ALLOC_UAR, &[]);
        let page = self.alloc(guest, 0x1000);
        let mut eq = vec![0; 272 - 16];
        eqc::LOG_EQ_SIZE.set(&mut eq, 6);
        eqc::UAR_PAGE.set(&mut eq, self.uar[guest].into());
        eq.extend_from_slice(&page.to_be_bytes());
        self.eqn[guest] = self.made(guest, Opcode::CREATE_EQ, &eq);
    }

    pub fn alloc(&mut self, guest: usize, bytes: u64) -> u64 {
        let at = self.free[guest];
        self.free[guest] += bytes.next_multiple_of(0x1000);
        assert!(self.free[guest] <= MEMORY);
        at
    }

    pub fn read<const N: usize>(&self, guest: usize, at: u64) -> [u8; N] {
        let mut b = [0; N];
        self.device.guests[guest].memory.read(at, &mut b).unwrap();
        b
    }

    pub fn write(&self, guest: usize, at: u64, bytes: &[u8]) {
        self.device.guests[guest].memory.write(at, bytes).unwrap();
    }

    /// Mailboxes that a message of the length needs.
    fn boxes(length: usize) -> u64 {
        length.saturating_sub(16).div_ceil(512) as u64
    }

    /// Issues a command through queue, mailboxes and doorbell; `input` is whole, with its head.
    pub fn raw(&mut self, guest: usize, input: &[u8], output: usize) -> Vec<u8> {
        self.history.push(input.to_vec());
        self.issue(guest, input, output);
        self.answer(guest, output).expect("the command was handed back")
    }

    /// The output of the command that was issued last, unless it could not be delivered.
    pub fn answer(&self, guest: usize, output: usize) -> Option<Vec<u8>> {
        let entry: [u8; command_entry::BYTES] = self.read(guest, COMMAND_QUEUE);
        if command_entry::OWNER.is_set(&entry) || command_entry::DELIVERY.is_set(&entry) {
            return None;
        }
        let mut out = entry[32..48].to_vec();
        for n in 0..Self::boxes(output) {
            out.extend_from_slice(&self.read::<512>(guest, OUTPUT_BOXES + n * 0x400));
        }
        out.truncate(output);
        Some(out)
    }

    /// Issues a command and does not look at the answer.
    pub fn issue(&mut self, guest: usize, input: &[u8], output: usize) {
        let mut entry = [0; command_entry::BYTES];
        command_entry::INPUT_LENGTH.set(&mut entry, input.len() as u64);
        command_entry::OUTPUT_LENGTH.set(&mut entry, output as u64);
        command_entry::INPUT_MAILBOX.set(&mut entry, INPUT_BOXES);
        command_entry::OUTPUT_MAILBOX.set(&mut entry, OUTPUT_BOXES);
        command_entry::TOKEN.set(&mut entry, TOKEN);
        command_entry::OWNER.set(&mut entry, 1);
        put(&mut entry, 16, &input[..input.len().min(16)]);
        self.write(guest, COMMAND_QUEUE, &entry);
        for (first, count) in [(INPUT_BOXES, Self::boxes(input.len())), (OUTPUT_BOXES, Self::boxes(output))] {
            for n in 0..count {
                let mut b = [0; mailbox::BYTES];
                if first == INPUT_BOXES {
                    let part = &input[16 + n as usize * 512..];
                    put(&mut b, 0, &part[..part.len().min(512)]);
                }
                mailbox::TOKEN.set(&mut b, TOKEN);
                mailbox::BLOCK_NUMBER.set(&mut b, n);
                mailbox::NEXT.set(&mut b, first + (n + 1) * 0x400);
                self.write(guest, first + n * 0x400, &b);
            }
        }
        self.device.bar_write(guest, 0x18, &1u32.to_be_bytes());
    }

    /// Issues a command with that body behind the head; answers with the status and the whole output.
    pub fn command(
        &mut self,
        guest: usize,
        opcode: Opcode,
        object: u32,
        body: &[u8],
        output: usize,
    ) -> Vec<u8> {
        let mut input = vec![0; 16];
        command_in::OPCODE.set(&mut input, opcode as u64);
        command_in::OBJECT.set(&mut input, object.into());
        input.extend_from_slice(body);
        self.raw(guest, &input, output)
    }

    pub fn status(&mut self, guest: usize, opcode: Opcode, object: u32, body: &[u8]) -> u64 {
        command_out::STATUS.get(&self.command(guest, opcode, object, body, 16))
    }

    pub fn ok(&mut self, guest: usize, opcode: Opcode, body: &[u8], output: usize) -> Vec<u8> {
        let out = self.command(guest, opcode, 0, body, output);
        assert_eq!(command_out::STATUS.get(&out), 0, "{opcode:?} {:#x}", command_out::SYNDROME.get(&out));
        out
    }

    pub fn made(&mut self, guest: usize, opcode: Opcode, body: &[u8]) -> u32 {
        command_out::OBJECT.get32(&self.ok(guest, opcode, body, 16))
    }

    pub fn cq(&mut self, guest: usize, log_size: u64) -> Queue {
        let (buffer, doorbell) = (self.alloc(guest, 64 << log_size), self.alloc(guest, 8));
        let mut c = vec![0; 272 - 16];
        cqc::LOG_CQ_SIZE.set(&mut c, log_size);
        cqc::UAR_PAGE.set(&mut c, self.uar[guest].into());
        cqc::C_EQN_OR_APU_ELEMENT.set(&mut c, self.eqn[guest].into());
        cqc::DBR_ADDR.set(&mut c, doorbell);
        for n in 0..(64u64 << log_size).div_ceil(0x1000) {
            c.extend_from_slice(&(buffer + n * 0x1000).to_be_bytes());
        }
        Queue { number: self.made(guest, Opcode::CREATE_CQ, &c), buffer, doorbell }
    }

    /// A page of memory, registered with all rights.
    pub fn region(&mut self, guest: usize, pd: u32) -> Region {
        let at = self.alloc(guest, 0x1000);
        self.region_of(guest, pd, at, 12, &[at])
    }

    /// Such pages, registered with all rights.
    pub fn region_of(&mut self, guest: usize, pd: u32, at: u64, log_page: u64, pages: &[u64]) -> Region {
        let mut c = vec![0; 272 - 16];
        for f in [mkc::A, mkc::RW, mkc::RR, mkc::LW, mkc::LR] {
            f.set(&mut c, 1);
        }
        mkc::ACCESS_MODE_1_0.set(&mut c, AccessMode::PageList as u64);
        mkc::QPN.set(&mut c, ANY_QPN.into());
        mkc::PD.set(&mut c, pd.into());
        mkc::START_ADDR.set(&mut c, at);
        mkc::LEN.set(&mut c, (pages.len() as u64) << log_page);
        mkc::LOG_PAGE_SIZE.set(&mut c, log_page);
        pages.iter().for_each(|page| c.extend_from_slice(&page.to_be_bytes()));
        Region { key: self.made(guest, Opcode::CREATE_MKEY, &c) << 8, at }
    }

    /// An XRC SRQ with 8 entries of one data segment, linked in order.
    pub fn xrc_srq(&mut self, guest: usize, pd: u32, xrcd: u32, cqn: u32) -> Queue {
        let (buffer, doorbell) = (self.alloc(guest, 0x1000), self.alloc(guest, 8));
        let mut c = vec![0; 272 - 16];
        xrc_srqc::LOG_XRC_SRQ_SIZE.set(&mut c, 3);
        xrc_srqc::LOG_RQ_STRIDE.set(&mut c, 1);
        xrc_srqc::XRCD.set(&mut c, xrcd.into());
        xrc_srqc::CQN.set(&mut c, cqn.into());
        xrc_srqc::USER_INDEX.set(&mut c, 0x77);
        xrc_srqc::PD.set(&mut c, pd.into());
        xrc_srqc::DB_RECORD_ADDR_L.set(&mut c, doorbell >> 2);
        c.extend_from_slice(&buffer.to_be_bytes());
        for n in 0..8u64 {
            let mut head = [0; 16];
            srq_next::NEXT_INDEX.set(&mut head, (n + 1) % 8);
            self.write(guest, buffer + n * 32, &head);
        }
        Queue { number: self.made(guest, Opcode::CREATE_XRC_SRQ, &c), buffer, doorbell }
    }

    /// Posts the nth receive (from 0) to an SRQ.
    pub fn post_receive(&mut self, guest: usize, srq: &Queue, n: u32, to: Region, length: u32) {
        let mut segment = [0; 16];
        wqe_data::BYTE_COUNT.set(&mut segment, length.into());
        wqe_data::KEY.set(&mut segment, to.key.into());
        wqe_data::ADDRESS.set(&mut segment, to.at);
        self.write(guest, srq.buffer + u64::from(n % 8) * 32 + 16, &segment);
        self.write(guest, srq.doorbell, &(n + 1).to_be_bytes());
    }

    pub fn qp(&mut self, guest: usize, pd: u32, cqn: u32, role: Role) -> Queue {
        let (buffer, doorbell) = (self.alloc(guest, 0x1000), self.alloc(guest, 8));
        let mut c = vec![0; 272 - 16];
        let q = |c: &mut Vec<u8>, f: Field, v: u64| f.within(8).set(c, v);
        let service = match role {
            Role::Rc => Service::Rc,
            Role::Uc => Service::Uc,
            Role::Keys => Service::Umr,
            Role::Initiator | Role::Target(_) => Service::Xrc,
        };
        q(&mut c, qpc::ST, service as u64);
        q(&mut c, qpc::RQ_TYPE, ReceiveQueueType::Absent as u64);
        q(&mut c, qpc::PD, pd.into());
        q(&mut c, qpc::CQN_SND, cqn.into());
        q(&mut c, qpc::UAR_PAGE, self.uar[guest].into());
        q(&mut c, qpc::DBR_ADDR, doorbell);
        q(&mut c, qpc::LOG_SQ_SIZE, 5);
        q(&mut c, qpc::USER_INDEX, 0x55);
        if let Role::Target(xrcd) = role {
            q(&mut c, qpc::NO_SQ, 1);
            q(&mut c, qpc::XRCD, xrcd.into());
        }
        c.extend_from_slice(&buffer.to_be_bytes());
        Queue { number: self.made(guest, Opcode::CREATE_QP, &c), buffer, doorbell }
    }

    /// RESET to RTS towards the QP of the guest.
    pub fn connect(&mut self, guest: usize, qpn: u32, to: (usize, u32), timeout: u64, rnr_retry: u64) {
        let fields = [(qpc::PRIMARY_ADDRESS_PATH__ACK_TIMEOUT, timeout), (qpc::RNR_RETRY, rnr_retry)];
        self.connect_with(guest, qpn, to, &fields);
    }

    /// The same with those attributes.
    pub fn connect_with(&mut self, guest: usize, qpn: u32, to: (usize, u32), fields: &[(Field, u64)]) {
        let lid = self.device.guests[to.0].lid;
        let mut body = vec![0; 272 - 16];
        let q = |c: &mut Vec<u8>, f: Field, v: u64| f.within(8).set(c, v);
        for f in [qpc::RRE, qpc::RWE, qpc::RAE] {
            q(&mut body, f, 1);
        }
        q(&mut body, qpc::MTU, 3);
        q(&mut body, qpc::REMOTE_QPN, to.1.into());
        q(&mut body, qpc::PRIMARY_ADDRESS_PATH__RLID, lid.into());
        q(&mut body, qpc::MIN_RNR_NAK, 1);
        fields.iter().for_each(|(f, v)| q(&mut body, *f, *v));
        for opcode in [Opcode::RST2INIT_QP, Opcode::INIT2RTR_QP, Opcode::RTR2RTS_QP] {
            assert_eq!(self.status(guest, opcode, qpn, &body), 0, "{opcode:?}");
        }
    }

    /// RESET to RTR, no further.
    pub fn listen(&mut self, guest: usize, qpn: u32, to: (usize, u32)) {
        let mut body = vec![0; 272 - 16];
        let lid = self.device.guests[to.0].lid;
        qpc::MTU.within(8).set(&mut body, 3);
        qpc::REMOTE_QPN.within(8).set(&mut body, to.1.into());
        qpc::PRIMARY_ADDRESS_PATH__RLID.within(8).set(&mut body, lid.into());
        for opcode in [Opcode::RST2INIT_QP, Opcode::INIT2RTR_QP] {
            assert_eq!(self.status(guest, opcode, qpn, &body), 0, "{opcode:?}");
        }
    }

    /// Asks for an event when an XRC SRQ has fewer receives than that.
    pub fn arm(&mut self, guest: usize, srqn: u32, limit: u16) {
        let mut input = vec![0; 16];
        command_in::OPCODE.set(&mut input, Opcode::ARM_XRC_SRQ as u64);
        command_in::OBJECT.set(&mut input, srqn.into());
        command_in::INDEX.set(&mut input, limit.into());
        assert_eq!(command_out::STATUS.get(&self.raw(guest, &input, 16)), 0);
    }

    /// Posts a work request of segments as the next one (`block` is its place) and rings.
    pub fn post(&mut self, guest: usize, qp: &Queue, block: u16, opcode: u8, segments: &[[u8; 16]]) -> u16 {
        self.post_with(guest, qp, block, opcode, 0, segments)
    }

    /// The same, with a last word of the control segment: immediate data, or a key.
    pub fn post_with(
        &mut self,
        guest: usize,
        qp: &Queue,
        block: u16,
        opcode: u8,
        word: u32,
        segments: &[[u8; 16]],
    ) -> u16 {
        let mut wqe = vec![0; 16];
        wqe[12..16].copy_from_slice(&word.to_be_bytes());
        wqe[1..3].copy_from_slice(&block.to_be_bytes());
        wqe[3] = opcode;
        wqe[4..8].copy_from_slice(&(qp.number << 8 | (segments.len() as u32 + 1)).to_be_bytes());
        // Always a completion.
        wqe[11] = 8;
        segments.iter().for_each(|s| wqe.extend_from_slice(s));
        for (n, part) in (0..).zip(wqe.chunks(64)) {
            self.write(guest, qp.buffer + u64::from(block.wrapping_add(n) % 32) * 64, part);
        }
        let next = block + wqe.len().div_ceil(64) as u16;
        self.write(guest, qp.doorbell + 4, &u32::from(next).to_be_bytes());
        let uar = u64::from(self.uar[guest]) * 0x1000;
        self.device.bar_write(guest, uar + 0x800, &wqe[..8]);
        next
    }

    /// Serves all there is to do, timers included, for a while.
    pub fn settle(&mut self) {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while self.device.run(100) || self.device.engine.next_timer().is_some() {
            assert!(std::time::Instant::now() < end, "the device does not come to rest");
        }
    }

    /// Serves all there is to do in a time of its own, in which nobody waits for timers; ends when nothing is left
    /// to do or that time is over. Says how long it took.
    pub fn hurry(&mut self, most: Duration) -> Duration {
        let begin = self.device.engine.now();
        self.device.engine.set_time(begin);
        loop {
            while self.device.run(100) {}
            match self.device.engine.next_timer() {
                Some(at) if at <= begin + most => {
                    self.device.engine.set_time(at.max(self.device.engine.now()));
                }
                _ => return self.device.engine.now() - begin,
            }
        }
    }

    /// Makes room in a CQ by having read all of it.
    pub fn drain(&mut self, guest: usize, cq: &Queue) {
        let out = self.command(guest, Opcode::QUERY_CQ, cq.number, &[], 272);
        let producer = cqc::PRODUCER_COUNTER.get32(&out[16..]);
        self.write(guest, cq.doorbell, &producer.to_be_bytes());
    }

    /// The nth completion of a CQ: opcode, syndrome, QP, user index, counter, bytes.
    pub fn completion(&self, guest: usize, cq: &Queue, n: u64) -> [u8; 64] {
        self.read(guest, cq.buffer + n * 64)
    }
}

/// What a work request that changes a memory key says: the key is in the control segment.
#[derive(Clone, Copy, Default)]
pub struct KeyChange<'a> {
    pub key: u32,
    /// First byte of the second segment.
    pub flags: u8,
    pub mask: u64,
    pub context: &'a [(Field, u64)],
    /// In the work request, in whole segments.
    pub list: &'a [[u8; 16]],
    /// In units of 16 bytes.
    pub offset: u64,
    /// Instead of `list`: so many bytes behind a data segment.
    pub behind: Option<(Region, u32)>,
}

/// Segments of such a work request.
pub fn key_change(change: &KeyChange) -> Vec<[u8; 16]> {
    let mut bytes = vec![0; wqe_umr::BYTES + mkc::BYTES];
    bytes[0] = change.flags;
    wqe_umr::INLINE.set(&mut bytes, change.behind.is_none().into());
    let octwords = change.behind.map_or(change.list.len() as u64, |(_, n)| u64::from(n) / 16);
    wqe_umr::TRANSLATION_OCTWORDS.set(&mut bytes, octwords);
    if change.offset > 0 {
        wqe_umr::TRANSLATION_OFFSET.set(&mut bytes, 1);
        wqe_umr::OFFSET_15_0.set(&mut bytes, change.offset & 0xffff);
        wqe_umr::OFFSET_47_16.set(&mut bytes, change.offset >> 16);
    }
    wqe_umr::MASK.set(&mut bytes, change.mask);
    change.context.iter().for_each(|(f, v)| f.within(wqe_umr::BYTES).set(&mut bytes, *v));
    let mut segments: Vec<[u8; 16]> = bytes.chunks_exact(16).map(|c| c.try_into().unwrap()).collect();
    match change.behind {
        Some((region, length)) => segments.push(data(region, length)),
        None => segments.extend_from_slice(change.list),
    }
    segments
}

/// Entry of a list of keys.
pub fn part(key: u32, address: u64, length: u64) -> [u8; 16] {
    let mut e = [0; 16];
    klm::BYTE_COUNT.set(&mut e, length);
    klm::KEY.set(&mut e, key.into());
    klm::ADDRESS.set(&mut e, address);
    e
}

/// Segment: data behind a key.
pub fn data(region: Region, length: u32) -> [u8; 16] {
    let mut s = [0; 16];
    wqe_data::BYTE_COUNT.set(&mut s, length.into());
    wqe_data::KEY.set(&mut s, region.key.into());
    wqe_data::ADDRESS.set(&mut s, region.at);
    s
}

/// Segment: the receiver's SRQ.
pub fn xrc(srqn: u32) -> [u8; 16] {
    let mut s = [0; 16];
    s[..4].copy_from_slice(&srqn.to_be_bytes());
    s
}

/// Segment: a remote address.
pub fn remote(region: Region) -> [u8; 16] {
    let mut s = [0; 16];
    s[..8].copy_from_slice(&region.at.to_be_bytes());
    s[8..12].copy_from_slice(&region.key.to_be_bytes());
    s
}

/// Segment: operands of an atomic.
pub fn atomic(swap_or_add: u64, compare: u64) -> [u8; 16] {
    let mut s = [0; 16];
    s[..8].copy_from_slice(&swap_or_add.to_be_bytes());
    s[8..].copy_from_slice(&compare.to_be_bytes());
    s
}

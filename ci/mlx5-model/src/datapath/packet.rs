//! What travels between queue pairs: as packets on a wire with faults, or handed over in one call on a perfect one.

use crate::{
    hw::{Service, WqeOpcode, WqeSyndrome},
    mkey::{Access, Accessor},
    objects::GuestId,
    qp::PSN_MASK,
};

use super::{
    datagram::Datagram,
    transfer::End,
    wqe::{Atomic, Piece, Remote, Wqe},
};

/// Operand of an atomic.
pub const ATOMIC_BYTES: usize = 8;

/// A request, or the part of one that begins with the packet `psn`. What InfiniBand says in the first packet only
/// is said in all of them here; the responder goes by the first.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Service of the sender.
    pub service: Service,
    /// Guest of the sender.
    pub guest: GuestId,
    /// QP of the sender.
    pub source: u32,
    /// LID of the receiver.
    pub lid: u16,
    /// QP of the receiver.
    pub destination: u32,
    /// What is asked for.
    pub opcode: WqeOpcode,
    /// First packet's sequence number.
    pub psn: u32,
    /// Sequence numbers that it takes: for a read, those of the answers.
    pub packets: u32,
    /// Where in the message it begins.
    pub offset: u64,
    /// Bytes of it.
    pub length: u64,
    /// Bytes of the message.
    pub total: u64,
    /// Where it works at the other end.
    pub remote: Remote,
    /// Operands.
    pub atomic: Atomic,
    /// Immediate data.
    pub immediate: u32,
    /// Whether the receiver shall have an event.
    pub solicited: bool,
    /// SRQ of the receiver (XRC).
    pub srqn: Option<u32>,
    /// Whether an acknowledgement is asked for.
    pub wants_answer: bool,
}

impl Request {
    /// Whether the message begins with it.
    pub fn is_first(&self) -> bool {
        self.offset == 0
    }

    /// Whether the message ends with it.
    pub fn is_last(&self) -> bool {
        self.offset + self.length == self.total
    }

    /// The sequence number of its nth packet.
    pub fn psn_after(&self, packets: u32) -> u32 {
        self.psn.wrapping_add(packets) & PSN_MASK
    }

    /// The other end of it: a remote address.
    pub fn remote_piece(&self, length: u64) -> Piece {
        Piece::Memory {
            address: self.remote.address.wrapping_add(self.offset),
            // Not longer than the longest message, which was checked.
            length: length as u32,
            key: self.remote.key,
        }
    }
}

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, as all before it.
    Acknowledged,
    /// The bytes of a read: copied already, or in packets of their own.
    Data,
    /// What an atomic found.
    Value([u8; ATOMIC_BYTES]),
    /// A packet before this one is missing.
    OutOfSequence,
    /// Refused; the requester sees this.
    NotAcknowledged(WqeSyndrome),
    /// There is no receive; the code of the time to wait.
    NotReady(u64),
    /// Nothing.
    Silence,
    /// It did not leave: something is wrong at the sender.
    Failed(WqeSyndrome),
}

/// The requester's end of a request: its memory, or what a packet has of it.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    pieces: &'a [Piece],
    inline: &'a [u8],
    who: Accessor,
    offset: u64,
    /// Whether it is in the requester's memory: bytes can be put there at once.
    pub is_direct: bool,
}

impl<'a> Load<'a> {
    /// A work request's own data, from the offset on.
    pub fn direct(wqe: &'a Wqe, who: Accessor, offset: u64) -> Self {
        Self { pieces: &wqe.pieces, inline: &wqe.bytes, who, offset, is_direct: true }
    }

    /// The payload of a packet, which is the one piece.
    pub fn of_packet(piece: &'a [Piece; 1], payload: &'a [u8], who: Accessor) -> Self {
        Self { pieces: piece, inline: payload, who, offset: 0, is_direct: false }
    }

    /// Its bytes, as an end of a transfer.
    pub fn end(&self, access: Access) -> End<'a> {
        let mut end = End::new(self.pieces, self.inline, self.who, access);
        end.skip(self.offset);
        end
    }
}

/// A packet under way.
#[derive(Clone, Debug)]
pub enum Packet {
    /// To a responder.
    Request {
        /// Its head.
        head: Box<Request>,
        /// Its payload.
        payload: Box<[u8]>,
    },
    /// To a requester.
    Answer {
        /// The requester.
        qpn: u32,
        /// Which packet of the request is answered.
        psn: u32,
        /// How.
        reply: Reply,
        /// Bytes of a read.
        payload: Box<[u8]>,
    },
    /// To a datagram QP.
    Datagram {
        /// The QP, as the datagram or the multicast group calls it.
        qpn: u32,
        /// Its head.
        head: Box<Datagram>,
        /// Its payload.
        payload: Box<[u8]>,
    },
}

impl Packet {
    /// The QP that it is for.
    pub fn destination(&self) -> u32 {
        match self {
            Self::Request { head, .. } => head.destination,
            Self::Answer { qpn, .. } | Self::Datagram { qpn, .. } => *qpn,
        }
    }

    /// Bytes of its payload.
    pub fn payload(&self) -> usize {
        match self {
            Self::Request { payload, .. } | Self::Answer { payload, .. } | Self::Datagram { payload, .. } => {
                payload.len()
            }
        }
    }
}

/// How far `to` is behind `from`, as sequence numbers go round.
pub fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) & PSN_MASK
}

/// Sequence numbers nearer than this lie ahead, the others behind.
pub const AHEAD: u32 = 1 << 23;

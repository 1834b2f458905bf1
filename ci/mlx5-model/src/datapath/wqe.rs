//! Send work requests, read as a guest wrote them: every length and count is checked.

use crate::{
    bits::Field,
    fields::{wqe_address, wqe_atomic, wqe_control, wqe_data, wqe_remote, wqe_xrc},
    hw::{MAX_WQE_BYTES, SEGMENT_BYTES, Service, TERMINATING_KEY, WqeOpcode, WqeSyndrome},
};

/// COMPLETE field: always make a completion.
const COMPLETE_ALWAYS: u64 = 2;
/// Length of the head of an inline segment.
const INLINE_HEAD: usize = 4;
/// Longest inline data.
const MAX_INLINE: usize = 1023;

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// In memory, behind a key.
    Memory {
        /// Virtual address.
        address: u64,
        /// Bytes.
        length: u32,
        /// Key.
        key: u32,
    },
    /// In the work request itself.
    Inline {
        /// Where.
        at: usize,
        /// Bytes.
        length: usize,
    },
}

impl Piece {
    /// Its length.
    pub fn size(&self) -> u64 {
        match *self {
            Self::Memory { length, .. } => length.into(),
            Self::Inline { length, .. } => length as u64,
        }
    }
}

/// Where a request works at the other end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Remote {
    /// Virtual address.
    pub address: u64,
    /// Key.
    pub key: u32,
}

/// Operands of an atomic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Atomic {
    /// What to store or add.
    pub swap_or_add: u64,
    /// What must be there.
    pub compare: u64,
}

/// A send work request. One is reused for all, so that none is allocated.
#[derive(Debug)]
pub struct Wqe {
    /// As read from the queue.
    pub bytes: [u8; MAX_WQE_BYTES],
    /// Bytes of it.
    pub length: usize,
    /// What it asks for.
    pub opcode: WqeOpcode,
    /// The number it asked by, known or not.
    pub raw_opcode: u8,
    /// Whether it wants a completion.
    pub signalled: bool,
    /// Whether the receiver shall have an event.
    pub solicited: bool,
    /// Immediate data.
    pub immediate: u32,
    /// The receiver's SRQ (XRC).
    pub srqn: u32,
    /// The other end.
    pub remote: Remote,
    /// Operands.
    pub atomic: Atomic,
    /// Where the address vector is (datagrams).
    pub address_at: usize,
    /// The local data.
    pub pieces: Vec<Piece>,
    /// Their length in all.
    pub total: u64,
}

impl Default for Wqe {
    fn default() -> Self {
        Self {
            bytes: [0; MAX_WQE_BYTES],
            length: 0,
            opcode: WqeOpcode::Nop,
            raw_opcode: 0,
            signalled: false,
            solicited: false,
            immediate: 0,
            srqn: 0,
            remote: Remote::default(),
            atomic: Atomic::default(),
            address_at: 0,
            pieces: Vec::with_capacity(MAX_WQE_BYTES / SEGMENT_BYTES),
            total: 0,
        }
    }
}

/// Length in bytes that a work request's first segment says; zero makes no sense.
pub fn wqe_length(control: &[u8]) -> usize {
    wqe_control::DS.get(control) as usize * SEGMENT_BYTES
}

/// Reads a receive's scatter list.
pub fn parse_scatter(list: &[u8], pieces: &mut Vec<Piece>) {
    pieces.clear();
    for segment in list.chunks_exact(SEGMENT_BYTES) {
        let (key, length) = (wqe_data::KEY.get32(segment), wqe_data::BYTE_COUNT.get32(segment));
        if key == TERMINATING_KEY && length == 0 {
            break;
        }
        pieces.push(Piece::Memory { address: wqe_data::ADDRESS.get(segment), length, key });
    }
}

impl Wqe {
    /// What completions and traces need even if the rest makes no sense.
    pub fn parse_control(&mut self) {
        self.raw_opcode = self.field(0, wqe_control::OPCODE) as u8;
        self.signalled = self.field(0, wqe_control::COMPLETE) & COMPLETE_ALWAYS != 0;
        self.solicited = self.field(0, wqe_control::SOLICITED) != 0;
        self.immediate = self.field(0, wqe_control::IMMEDIATE) as u32;
    }

    fn field(&self, at: usize, field: Field) -> u64 {
        field.within(at).get(&self.bytes[..self.length.min(MAX_WQE_BYTES)])
    }

    /// A field of the address vector of a datagram.
    pub fn address(&self, field: Field) -> u64 {
        self.field(self.address_at, field)
    }

    /// Reads the segments that the service and the operation call for. Their space is checked by the last one:
    /// fields beyond the end read as zero.
    pub fn parse(&mut self, service: Service) -> Result<(), WqeSyndrome> {
        use WqeOpcode::*;
        self.pieces.clear();
        self.total = 0;
        self.opcode = WqeOpcode::from_number(self.raw_opcode.into()).ok_or(WqeSyndrome::LocalQpOperation)?;
        if self.opcode == Nop {
            return Ok(());
        }
        let allowed = match service {
            Service::Rc | Service::Xrc => true,
            Service::Uc => matches!(self.opcode, Send | SendImmediate | Write | WriteImmediate | Umr),
            Service::Ud | Service::Smi | Service::Gsi => matches!(self.opcode, Send | SendImmediate),
            Service::Umr => self.opcode == Umr,
        };
        if !allowed {
            return Err(WqeSyndrome::LocalQpOperation);
        }
        if self.opcode == Umr {
            return self.parse_umr();
        }
        let mut at = SEGMENT_BYTES;
        match service {
            Service::Xrc => {
                self.srqn = self.field(at, wqe_xrc::SRQN) as u32;
                at += SEGMENT_BYTES;
            }
            Service::Ud | Service::Smi | Service::Gsi => {
                self.address_at = at;
                at += wqe_address::BYTES;
            }
            _ => {}
        }
        if matches!(self.opcode, Write | WriteImmediate | Read | CompareSwap | FetchAdd) {
            self.remote = Remote {
                address: self.field(at, wqe_remote::ADDRESS),
                key: self.field(at, wqe_remote::KEY) as u32,
            };
            at += SEGMENT_BYTES;
        }
        if matches!(self.opcode, CompareSwap | FetchAdd) {
            self.atomic = Atomic {
                swap_or_add: self.field(at, wqe_atomic::SWAP_OR_ADD),
                compare: self.field(at, wqe_atomic::COMPARE),
            };
            at += SEGMENT_BYTES;
        }
        if at > self.length {
            return Err(WqeSyndrome::LocalQpOperation);
        }
        self.parse_data(at)
    }

    pub(super) fn parse_data(&mut self, mut at: usize) -> Result<(), WqeSyndrome> {
        let gathers = !matches!(self.opcode, WqeOpcode::Read | WqeOpcode::CompareSwap | WqeOpcode::FetchAdd);
        while at < self.length {
            let count = self.field(at, wqe_data::BYTE_COUNT);
            let piece = if self.field(at, wqe_data::INLINE) == 1 {
                let (length, from) = (count as usize, at + INLINE_HEAD);
                if !gathers || length > MAX_INLINE || from + length > self.length {
                    return Err(WqeSyndrome::LocalQpOperation);
                }
                at += (INLINE_HEAD + length).next_multiple_of(SEGMENT_BYTES);
                Piece::Inline { at: from, length }
            } else {
                let from = at;
                at += SEGMENT_BYTES;
                Piece::Memory {
                    address: self.field(from, wqe_data::ADDRESS),
                    length: count as u32,
                    key: self.field(from, wqe_data::KEY) as u32,
                }
            };
            self.total += piece.size();
            self.pieces.push(piece);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wqe(opcode: u8, segments: &[[u8; 16]]) -> Wqe {
        let mut w = Wqe::default();
        w.bytes[3] = opcode;
        w.bytes[7] = segments.len() as u8 + 1;
        for (i, s) in segments.iter().enumerate() {
            w.bytes[16 * (i + 1)..16 * (i + 2)].copy_from_slice(s);
        }
        w.length = wqe_length(&w.bytes);
        w.parse_control();
        w
    }

    fn inline(length: u16) -> [u8; 16] {
        let mut s = [9; 16];
        s[..4].copy_from_slice(&(0x8000_0000 | u32::from(length)).to_be_bytes());
        s
    }

    #[test]
    fn an_xrc_send_names_the_srq_first() {
        let mut srq = [0; 16];
        srq[1..4].copy_from_slice(&[1, 2, 3]);
        let mut data = [0; 16];
        data[3] = 5;
        data[7] = 6;
        data[15] = 7;
        let mut w = wqe(0x0a, &[srq, data]);
        w.parse(Service::Xrc).unwrap();
        assert_eq!((w.srqn, w.total), (0x01_0203, 5));
        assert_eq!(w.pieces, [Piece::Memory { address: 7, length: 5, key: 6 }]);
    }

    #[test]
    fn inline_data_must_lie_inside() {
        let mut w = wqe(0x0a, &[inline(12), inline(3)]);
        w.parse(Service::Rc).unwrap();
        assert_eq!(w.pieces, [Piece::Inline { at: 20, length: 12 }, Piece::Inline { at: 36, length: 3 }]);
        for length in [13, 1023, 0x7fff] {
            let r = wqe(0x0a, &[inline(length)]).parse(Service::Rc);
            assert_eq!(r, Err(WqeSyndrome::LocalQpOperation), "{length}");
        }
    }

    #[test]
    fn operations_that_a_service_lacks_are_refused() {
        let bad = Err(WqeSyndrome::LocalQpOperation);
        assert_eq!(wqe(0x10, &[[0; 16]; 4]).parse(Service::Uc), bad);
        assert_eq!(wqe(0x08, &[[0; 16]; 8]).parse(Service::Ud), bad);
        assert_eq!(wqe(0x0a, &[[0; 16]; 8]).parse(Service::Umr), bad);
        assert_eq!(wqe(0x25, &[[0; 16]; 6]).parse(Service::Umr), bad, "no room for the context");
        assert_eq!(wqe(0x25, &[[0; 16]; 7]).parse(Service::Ud), bad);
        assert_eq!(wqe(0x0a, &[]).parse(Service::Ud), bad, "no room for the address");
        assert_eq!(wqe(0x11, &[[0; 16]]).parse(Service::Rc), bad, "no room for the operands");
    }

    #[test]
    fn no_bytes_whatever_panic() {
        let mut seed = 1u32;
        for _ in 0..20_000 {
            let mut w = Wqe::default();
            for b in &mut w.bytes {
                seed ^= seed << 13;
                seed ^= seed >> 17;
                seed ^= seed << 5;
                *b = if seed & 0x100 == 0 { seed as u8 } else { 0 };
            }
            w.bytes[3] = [0, 1, 8, 9, 0xa, 0xb, 0x10, 0x11, 0x12, 0x25, 0xff][seed as usize % 11];
            w.length = wqe_length(&w.bytes);
            w.parse_control();
            for service in [Service::Rc, Service::Uc, Service::Ud, Service::Xrc, Service::Gsi, Service::Umr] {
                let _ = w.parse(service);
                assert!(w.total <= 64 << 32);
            }
        }
    }
}

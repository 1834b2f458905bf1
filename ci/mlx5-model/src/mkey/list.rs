//! A key of keys: its address space is made of pieces of other keys', one after the other, or woven together.

use crate::{
    fields::{klm, strand, weave},
    hw::SEGMENT_BYTES,
};

/// Log of the most entries.
pub const LOG_MAX_LIST: u32 = 12;
/// The first entry of a woven list has this in the place of a key.
const WEAVE: u64 = 0x400;

/// A piece of another key's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The other key.
    pub key: u32,
    /// First address there.
    pub address: u64,
    /// Bytes.
    pub length: u64,
}

/// An entry, and where it begins in the list's address space or in one round of it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    part: Part,
    stride: u64,
}

/// The list.
#[derive(Debug, Default)]
pub struct KeyList {
    raw: Vec<u8>,
    entries: Vec<Entry>,
    /// Bytes of a round, and how many rounds there are.
    round: u64,
    rounds: u64,
}

impl KeyList {
    /// As how many page addresses it counts, if it is written up to that byte.
    pub fn counts_as(&self, end: usize) -> usize {
        const WORDS: usize = (SEGMENT_BYTES + size_of::<Entry>()).div_ceil(size_of::<u64>());
        self.raw.len().max(end).div_ceil(SEGMENT_BYTES) * WORDS
    }

    /// Writes entries from that byte on; what lies between the old end and there is zero.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.raw.len() < end {
            self.raw.reserve_exact(end - self.raw.len());
            self.raw.resize(end, 0);
        }
        self.raw[at..end].copy_from_slice(bytes);
        self.read_raw();
    }

    fn read_raw(&mut self) {
        let head = self.raw.get(..SEGMENT_BYTES).unwrap_or(&[]);
        let woven = weave::OPERATION.get(head) == WEAVE;
        let (skip, most) = if woven { (1, weave::ENTRIES.get(head) as usize) } else { (0, usize::MAX) };
        self.entries.clear();
        self.entries.reserve_exact(self.raw.len() / SEGMENT_BYTES);
        let mut start = 0;
        for segment in self.raw.chunks_exact(SEGMENT_BYTES).skip(skip).take(most) {
            let (length, stride, key, address) = if woven {
                let stride = strand::STRIDE.get(segment);
                (
                    strand::BYTE_COUNT.get(segment),
                    stride,
                    strand::KEY.get32(segment),
                    strand::ADDRESS.get(segment),
                )
            } else {
                (klm::BYTE_COUNT.get(segment), 0, klm::KEY.get32(segment), klm::ADDRESS.get(segment))
            };
            if length > 0 {
                let part = Part { key, address, length };
                self.entries.push(Entry { start, part, stride });
                start += length;
            }
        }
        self.round = start;
        self.rounds = match woven {
            true if weave::ROUND.get(head) != start => 0,
            true => weave::REPEATS.get(head),
            false => 1,
        };
    }

    /// Bytes of its address space.
    pub fn covers(&self) -> u64 {
        // A round has at most as many bytes as 2^12 entries of 2^31; times 2^32 it may not fit.
        self.round.saturating_mul(self.rounds)
    }

    /// The first part of a range of its address space, not longer than that.
    pub fn find(&self, at: u64, length: u64) -> Option<Part> {
        if at >= self.covers() {
            return None;
        }
        let (turn, within) = (at / self.round, at % self.round);
        let n = self.entries.partition_point(|entry| entry.start <= within).checked_sub(1)?;
        let Entry { start, part, stride } = *self.entries.get(n)?;
        let into = within - start;
        let address = part.address.checked_add(turn.checked_mul(stride)?)?.checked_add(into)?;
        Some(Part { address, length: length.min(part.length - into), ..part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(length: u32, key: u32, address: u64) -> [u8; SEGMENT_BYTES] {
        let mut e = [0; SEGMENT_BYTES];
        klm::BYTE_COUNT.set(&mut e, length.into());
        klm::KEY.set(&mut e, key.into());
        klm::ADDRESS.set(&mut e, address);
        e
    }

    #[test]
    fn parts_follow_each_other() {
        let mut list = KeyList::default();
        list.write(0, &[entry(8, 1, 100), entry(0, 9, 9), entry(4, 2, 200), [0; 16]].concat());
        assert_eq!((list.raw.len(), list.covers()), (64, 12));
        assert_eq!(list.find(3, 100), Some(Part { key: 1, address: 103, length: 5 }));
        assert_eq!(list.find(8, 2), Some(Part { key: 2, address: 200, length: 2 }));
        assert_eq!(list.find(12, 1), None);
        list.write(32, &entry(1, 3, 300));
        assert_eq!(list.find(8, 2), Some(Part { key: 3, address: 300, length: 1 }));
        assert_eq!(list.covers(), 9);
        assert_eq!(KeyList::default().find(0, 1), None);
    }

    #[test]
    fn strands_are_woven() {
        let mut head = [0; 16];
        weave::ROUND.set(&mut head, 12);
        weave::OPERATION.set(&mut head, WEAVE);
        weave::REPEATS.set(&mut head, 3);
        weave::ENTRIES.set(&mut head, 2);
        let strand = |length, stride, key, address| {
            let mut e = [0; 16];
            strand::BYTE_COUNT.set(&mut e, length);
            strand::STRIDE.set(&mut e, stride);
            strand::KEY.set(&mut e, key);
            strand::ADDRESS.set(&mut e, address);
            e
        };
        let mut list = KeyList::default();
        list.write(0, &[head, strand(8, 10, 1, 0), strand(4, 100, 2, 500), strand(9, 9, 9, 9)].concat());
        assert_eq!(list.covers(), 36);
        assert_eq!(list.find(12, 100), Some(Part { key: 1, address: 10, length: 8 }));
        assert_eq!(list.find(35, 9), Some(Part { key: 2, address: 703, length: 1 }));
        weave::ROUND.set(&mut head, 13);
        list.write(0, &head);
        assert_eq!(list.covers(), 0, "a round that is not the sum of its parts");
    }

    #[test]
    fn no_bytes_whatever_panic() {
        let mut list = KeyList::default();
        for fill in 0..=255u8 {
            list.write(usize::from(fill % 4) * 16, &[fill; 64]);
            let mut woven = [fill; 16];
            weave::OPERATION.set(&mut woven, WEAVE);
            list.write(0, &woven);
            for at in [0, 1, u64::MAX - 1, list.covers().wrapping_sub(1)] {
                let _ = list.find(at, u64::MAX);
            }
        }
    }
}

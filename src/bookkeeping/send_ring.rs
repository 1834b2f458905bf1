//! The record of a send queue: every work request in the order of posting.

use super::{pools::AttachedPools, wr_id::QueueId};
use crate::{
    buf::Buf,
    completion::{Completion, CompletionKind, WcError, WcStatus},
    numbers::QpNumber,
};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

const NO_SLOT: u32 = u32::MAX;

#[derive(Default)]
struct Entry {
    tag: AtomicU64,
    /// The buffer's slot, or [`NO_SLOT`] for a request that gave its buffer back at once or had none.
    slot: AtomicU32,
    len: AtomicU32,
}

/// Every work request takes an entry, with or without a buffer, signalled or not. Sends complete in
/// order, so a completion retires its own entry and all before it; that is how unsignalled buffers come
/// home.
///
/// One thread posts (the initiator's `&mut`), one polls (the completion queue's `&mut`). All fields are
/// atomic: should two ever do so at once, the record would be wrong and nothing worse, because only the
/// exchange on a slot's word makes a `Buf`.
pub(crate) struct SendRing {
    id: QueueId,
    pub(super) pools: AttachedPools,
    /// A power of two, so that sequence numbers may wrap.
    entries: Box<[Entry]>,
    depth: u32,
    /// The next sequence number to be posted.
    head: AtomicU32,
    /// The oldest that is not retired.
    tail: AtomicU32,
}

impl SendRing {
    pub(crate) fn new(id: QueueId, pools: AttachedPools, depth: u32) -> Self {
        Self::starting_at(id, pools, depth, 0)
    }

    fn starting_at(id: QueueId, pools: AttachedPools, depth: u32, sequence: u32) -> Self {
        let entries = (0..depth.next_power_of_two()).map(|_| Entry::default()).collect();
        Self { id, pools, entries, depth, head: AtomicU32::new(sequence), tail: AtomicU32::new(sequence) }
    }

    pub(crate) fn id(&self) -> QueueId {
        self.id
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    pub(crate) fn pools(&self) -> &AttachedPools {
        &self.pools
    }

    /// Work requests posted and not retired.
    pub(crate) fn in_flight(&self) -> u32 {
        self.head.load(Relaxed).wrapping_sub(self.tail.load(Acquire))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.in_flight() >= self.depth
    }

    /// Takes the next entry. The caller has seen that the ring is not full, and posts at once or calls
    /// [`undo`](Self::undo).
    #[inline]
    pub(crate) fn claim(&self, tag: u64, buffer: Option<(u32, u32)>) -> u32 {
        let sequence = self.head.load(Relaxed);
        let entry = self.entry(sequence);
        let (slot, len) = buffer.unwrap_or((NO_SLOT, 0));
        entry.tag.store(tag, Relaxed);
        entry.slot.store(slot, Relaxed);
        entry.len.store(len, Relaxed);
        self.head.store(sequence.wrapping_add(1), Release);
        sequence
    }

    /// Takes back the entry claimed last, whose post failed: the device has never heard of it.
    #[inline]
    pub(crate) fn undo(&self, sequence: u32) {
        debug_assert_eq!(sequence.wrapping_add(1), self.head.load(Relaxed));
        self.head.store(sequence, Release);
    }

    /// Retires the entries up to `sequence`, whose completion has arrived. False if none of that number
    /// is in flight.
    ///
    /// An error completion says that the requests before it were carried out, for a send queue works in
    /// order, unless it is a flush: then nothing is known of those before it, and they are reported as
    /// flushed too.
    #[inline]
    pub(crate) fn retire(
        &self,
        sequence: u32,
        status: Result<(), WcError>,
        qp_number: QpNumber,
        mut completed: impl FnMut(Completion),
    ) -> bool {
        let head = self.head.load(Acquire);
        let tail = self.tail.load(Relaxed);
        if sequence.wrapping_sub(tail) >= head.wrapping_sub(tail) {
            return false;
        }
        let earlier = match status {
            Err(WcError { status: WcStatus::WorkRequestFlushed, .. }) => status,
            _ => Ok(()),
        };
        let mut at = tail;
        loop {
            let entry = self.entry(at);
            let slot = entry.slot.load(Relaxed);
            let len = entry.len.load(Relaxed);
            let buf = if slot == NO_SLOT { None } else { self.reclaim(slot, len) };
            completed(Completion {
                kind: CompletionKind::Send,
                tag: entry.tag.load(Relaxed),
                buf,
                status: if at == sequence { status } else { earlier },
                qp_number,
            });
            at = at.wrapping_add(1);
            // Behind the entry just read: the poster may fill it again from here on.
            self.tail.store(at, Release);
            if at == sequence.wrapping_add(1) {
                return true;
            }
        }
    }

    fn reclaim(&self, slot: u32, len: u32) -> Option<Buf> {
        self.pools.reclaim(slot, len as usize, self.id)
    }

    fn entry(&self, sequence: u32) -> &Entry {
        &self.entries[sequence as usize & (self.entries.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(depth: u32, sequence: u32) -> SendRing {
        let pools = AttachedPools::new("test", &[]).unwrap();
        SendRing::starting_at(QueueId::allocate().unwrap(), pools, depth, sequence)
    }

    fn retire(ring: &SendRing, sequence: u32, status: Result<(), WcError>) -> Option<Vec<(u64, bool)>> {
        let mut seen = Vec::new();
        let known = ring.retire(sequence, status, QpNumber::masked(2), |completion| {
            seen.push((completion.tag, completion.status.is_ok()));
        });
        known.then_some(seen)
    }

    fn error(status: WcStatus) -> Result<(), WcError> {
        Err(WcError { status, vendor_err: 0 })
    }

    #[test]
    fn a_completion_retires_all_before_it_and_the_numbers_wrap() {
        let ring = ring(3, u32::MAX - 1);
        let sequences: Vec<u32> = (0..3).map(|tag| ring.claim(tag, None)).collect();
        assert_eq!(sequences, [u32::MAX - 1, u32::MAX, 0]);
        assert!(ring.is_full());
        assert_eq!(retire(&ring, u32::MAX, Ok(())), Some(vec![(0, true), (1, true)]));
        assert_eq!(ring.in_flight(), 1);
        assert_eq!(retire(&ring, u32::MAX, Ok(())), None, "twice");
        assert_eq!(retire(&ring, 1, Ok(())), None, "not posted yet");
        assert_eq!(retire(&ring, 0, Ok(())), Some(vec![(2, true)]));
        assert_eq!(retire(&ring, 0, Ok(())), None, "nothing in flight");
    }

    #[test]
    fn a_failed_post_leaves_no_entry() {
        let ring = ring(2, 0);
        ring.claim(1, None);
        let sequence = ring.claim(2, None);
        ring.undo(sequence);
        assert_eq!(retire(&ring, sequence, Ok(())), None);
        assert_eq!(ring.in_flight(), 1);
    }

    #[test]
    fn an_error_concerns_its_own_request_and_a_flush_those_before_it_too() {
        let ring = ring(4, 0);
        for tag in 0..4 {
            ring.claim(tag, None);
        }
        let failed = error(WcStatus::RetryExceeded);
        assert_eq!(retire(&ring, 1, failed), Some(vec![(0, true), (1, false)]));
        let flushed = error(WcStatus::WorkRequestFlushed);
        assert_eq!(retire(&ring, 3, flushed), Some(vec![(2, false), (3, false)]));
    }
}

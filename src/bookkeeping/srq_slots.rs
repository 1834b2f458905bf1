//! The record of an SRQ: its posted buffers by slot, for they complete in any order.

use super::{pools::AttachedPools, wr_id::QueueId};
use crate::{Buf, SrqNumber};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Relaxed},
};

/// A posted receive is known by its slot; the user's tag lies beside it. Which slots are posted is in
/// the slots' own words.
pub(crate) struct SrqSlots {
    id: QueueId,
    number: SrqNumber,
    pub(super) pools: AttachedPools,
    tags: Box<[AtomicU64]>,
    posted: AtomicU32,
    depth: u32,
}

impl SrqSlots {
    pub(crate) fn new(id: QueueId, number: SrqNumber, pools: AttachedPools, depth: u32) -> Self {
        let tags = (0..pools.slots()).map(|_| AtomicU64::new(0)).collect();
        Self { id, number, pools, tags, posted: AtomicU32::new(0), depth }
    }

    pub(crate) fn id(&self) -> QueueId {
        self.id
    }

    pub(crate) fn number(&self) -> SrqNumber {
        self.number
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    pub(crate) fn pools(&self) -> &AttachedPools {
        &self.pools
    }

    /// Receives posted and not completed.
    pub(crate) fn posted(&self) -> u32 {
        self.posted.load(Relaxed)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.posted() >= self.depth
    }

    /// Notes a receive that is about to be posted.
    #[inline]
    pub(crate) fn claim(&self, slot: u32, tag: u64) {
        if let Some(place) = self.tags.get(slot as usize) {
            place.store(tag, Relaxed);
        }
        self.posted.fetch_add(1, AcqRel);
    }

    /// Takes back the note of a receive whose post failed.
    #[inline]
    pub(crate) fn undo(&self) {
        self.posted.fetch_sub(1, AcqRel);
    }

    /// Takes a completed receive's buffer, `len` bytes of it. None if no such receive is posted.
    #[inline]
    pub(crate) fn complete(&self, slot: u32, len: usize) -> Option<(u64, Buf)> {
        // The tag first: once the slot is the user's, it can be posted again with another.
        let tag = self.tags.get(slot as usize)?.load(Relaxed);
        let buf = self.pools.reclaim(slot, len, self.id)?;
        self.posted.fetch_sub(1, AcqRel);
        Some((tag, buf))
    }
}

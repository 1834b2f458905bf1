//! The pools attached to a queue, their slots numbered through.

use super::wr_id::QueueId;
use crate::{
    Error, ErrorKind, Result,
    buf::Buf,
    verbs::pool::{Place, Pool},
};
use std::sync::Arc;

/// The pools that a queue may post from, attached when it is built. Slot numbers run through them in
/// order, so that 32 bits name a slot of any of them.
pub(crate) struct AttachedPools(Box<[(u32, Arc<Pool>)]>);

/// A posted buffer: its number among the queue's slots, and where it lies.
pub(crate) struct Posted {
    pub slot: u32,
    pub place: Place,
}

impl AttachedPools {
    pub(crate) fn new(verb: &'static str, pools: &[Arc<Pool>]) -> Result<Self> {
        let mut first = 0u32;
        let attached: Result<Box<[_]>> = pools
            .iter()
            .map(|pool| {
                let this = first;
                first = first.checked_add(pool.slots()).filter(|&end| end < u32::MAX).ok_or_else(|| {
                    Error::refused(verb, ErrorKind::CapacityExceeded, "the pools have 2^32 slots or more")
                })?;
                Ok((this, Arc::clone(pool)))
            })
            .collect();
        Ok(Self(attached?))
    }

    /// How many slots all of them have.
    pub(crate) fn slots(&self) -> u32 {
        self.0.last().map_or(0, |(first, pool)| first + pool.slots())
    }

    /// Whether a buffer's pool is attached.
    #[inline]
    pub(crate) fn has(&self, buf: &Buf) -> bool {
        self.first_of(buf).is_some()
    }

    /// Gives a buffer to the queue, its first `len` bytes for the device. The buffer comes back if its
    /// pool is not attached.
    #[inline]
    pub(crate) fn give(&self, buf: Buf, len: usize, queue: QueueId) -> std::result::Result<Posted, Buf> {
        match self.first_of(&buf) {
            Some(first) => buf.give(len, queue).map(|place| Posted { slot: first + place.index(), place }),
            None => Err(buf),
        }
    }

    /// Takes a slot back from the queue, with a length that is cut to the slot's size. None if the queue
    /// does not own it (any more), or if there is no such slot.
    #[inline]
    pub(crate) fn reclaim(&self, slot: u32, len: usize, queue: QueueId) -> Option<Buf> {
        let at = self.0.partition_point(|(first, _)| *first <= slot).checked_sub(1)?;
        let (first, pool) = self.0.get(at)?;
        Buf::reclaim(pool, slot - first, len, queue)
    }

    /// Frees whatever the queue owns, after its end.
    pub(crate) fn release_all(&self, queue: QueueId) -> u32 {
        self.0.iter().map(|(_, pool)| pool.release_all(queue)).sum()
    }

    fn first_of(&self, buf: &Buf) -> Option<u32> {
        self.0.iter().find(|(_, pool)| buf.is_of(pool)).map(|(first, _)| *first)
    }
}

//! What a work request's 64-bit id says: which layer, which queue, which entry.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Set in every id of the safe layer.
const SAFE_LAYER: u64 = 1 << 63;
const QUEUE_BITS: u32 = 31;

/// A queue's id, 1 to 2^31 - 1, never used twice in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueId(u32);

impl QueueId {
    /// A new one; None when they have run out.
    pub(crate) fn allocate() -> Option<Self> {
        static IDS: Ids = Ids::starting_at(1);
        IDS.next()
    }

    pub(crate) fn get(self) -> u32 {
        self.0
    }

    /// The id of a work request: this queue's entry or slot `low`.
    pub(crate) fn wr_id(self, low: u32) -> u64 {
        SAFE_LAYER | u64::from(self.0) << 32 | u64::from(low)
    }
}

struct Ids(AtomicU32);

impl Ids {
    const fn starting_at(first: u32) -> Self {
        Self(AtomicU32::new(first))
    }

    fn next(&self) -> Option<QueueId> {
        let advance = |id: u32| (id < 1 << QUEUE_BITS).then_some(id + 1);
        self.0.fetch_update(Relaxed, Relaxed, advance).ok().map(QueueId)
    }
}

/// The queue and the lower half of an id; None for an id that the safe layer never gave out.
pub(crate) fn parse(wr_id: u64) -> Option<(QueueId, u32)> {
    let queue = (wr_id >> 32) as u32 & !(1 << QUEUE_BITS);
    (wr_id & SAFE_LAYER != 0 && queue != 0).then_some((QueueId(queue), wr_id as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_run_out_and_are_not_used_again() {
        let ids = Ids::starting_at((1 << 31) - 2);
        assert_eq!(ids.next(), Some(QueueId((1 << 31) - 2)));
        assert_eq!(ids.next(), Some(QueueId((1 << 31) - 1)));
        for _ in 0..3 {
            assert_eq!(ids.next(), None);
        }
        let (first, second) = (QueueId::allocate().unwrap(), QueueId::allocate().unwrap());
        assert_ne!(first, second);
    }

    #[test]
    fn what_went_in_comes_out() {
        for queue in [1, 2, 0x1234_5678, (1 << 31) - 1] {
            for low in [0, 1, u32::MAX] {
                assert_eq!(parse(QueueId(queue).wr_id(low)), Some((QueueId(queue), low)));
            }
        }
        assert_eq!(parse(0), None);
        assert_eq!(parse(5 << 32 | 1), None, "the raw layer's");
        assert_eq!(parse(SAFE_LAYER | 7), None, "queue 0 is nobody");
    }
}

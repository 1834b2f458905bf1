//! The words that say who owns each slot of a pool, and the stack of free ones.

use super::wr_id::QueueId;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Who owns a slot. The word's values: 0 free, 1 the user's, the top bit and a queue's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Free,
    User,
    Queue(QueueId),
}

impl Owner {
    fn word(self) -> u32 {
        match self {
            Self::Free => 0,
            Self::User => 1,
            Self::Queue(id) => 1 << 31 | id.get(),
        }
    }
}

const NONE: u32 = u32::MAX;

/// The slots of one pool. A taken slot comes back through [`release`](Self::release), from whichever
/// owner it has.
pub(crate) struct Slots {
    owners: Box<[AtomicU32]>,
    /// For a free slot, the one below it on the stack.
    below: Box<[AtomicU32]>,
    /// Top of the stack in the lower half. The upper half counts changes: between a reader's look at the
    /// top and its exchange, the same slot may have left and come back with another below it.
    top: AtomicU64,
    free: AtomicU32,
}

impl Slots {
    /// `count` free slots, the first on top.
    pub(crate) fn new(count: u32) -> Self {
        let below = (1..=count).map(|next| AtomicU32::new(if next == count { NONE } else { next }));
        Self {
            owners: (0..count).map(|_| AtomicU32::new(Owner::Free.word())).collect(),
            below: below.collect(),
            top: AtomicU64::new(if count == 0 { NONE.into() } else { 0 }),
            free: AtomicU32::new(count),
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.owners.len() as u32
    }

    /// How many are free, at this moment.
    pub(crate) fn free(&self) -> u32 {
        self.free.load(Relaxed)
    }

    /// Takes a free slot for the user. The caller owns it alone.
    pub(crate) fn take(&self) -> Option<u32> {
        let slot = self.pop()?;
        let taken = self.change(slot, Owner::Free, Owner::User);
        debug_assert!(taken, "a slot on the free stack is free");
        taken.then_some(slot)
    }

    /// Changes a slot's owner, if it is `from`. This is the one way that an owner changes; true means
    /// that the caller made the change, and nobody else made it too.
    pub(crate) fn change(&self, slot: u32, from: Owner, to: Owner) -> bool {
        self.owners
            .get(slot as usize)
            .is_some_and(|owner| owner.compare_exchange(from.word(), to.word(), AcqRel, Relaxed).is_ok())
    }

    /// Frees a slot, if `from` owns it.
    pub(crate) fn release(&self, slot: u32, from: Owner) -> bool {
        let released = from != Owner::Free && self.change(slot, from, Owner::Free);
        if released {
            self.push(slot);
        }
        released
    }

    /// Frees every slot that a queue owns.
    pub(crate) fn release_all(&self, queue: QueueId) -> u32 {
        (0..self.count()).filter(|&slot| self.release(slot, Owner::Queue(queue))).count() as u32
    }

    fn pop(&self) -> Option<u32> {
        let mut top = self.top.load(Acquire);
        loop {
            let slot = top as u32;
            let below = self.below.get(slot as usize)?.load(Relaxed);
            match self.top.compare_exchange_weak(top, next(top, below), AcqRel, Acquire) {
                Ok(_) => {
                    self.free.fetch_sub(1, Relaxed);
                    return Some(slot);
                }
                Err(now) => top = now,
            }
        }
    }

    fn push(&self, slot: u32) {
        // Counted before it can be popped, so the count never wraps below zero.
        self.free.fetch_add(1, Relaxed);
        let mut top = self.top.load(Relaxed);
        loop {
            self.below[slot as usize].store(top as u32, Relaxed);
            match self.top.compare_exchange_weak(top, next(top, slot), Release, Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }
}

/// A new top with the change counted.
fn next(top: u64, slot: u32) -> u64 {
    u64::from(((top >> 32) as u32).wrapping_add(1)) << 32 | u64::from(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashSet, sync::Barrier, thread};

    #[test]
    fn every_slot_is_taken_once_and_comes_back() {
        let slots = Slots::new(3);
        let taken: HashSet<u32> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken, HashSet::from([0, 1, 2]));
        assert_eq!((slots.take(), slots.free()), (None, 0));
        assert!(slots.release(1, Owner::User));
        assert!(!slots.release(1, Owner::User), "it is free already");
        assert_eq!((slots.take(), slots.take()), (Some(1), None));
        assert_eq!(Slots::new(0).take(), None);
    }

    #[test]
    fn only_the_owner_can_give_a_slot_away() {
        let slots = Slots::new(1);
        let (mine, other) = (QueueId::allocate().unwrap(), QueueId::allocate().unwrap());
        let slot = slots.take().unwrap();
        assert!(slots.change(slot, Owner::User, Owner::Queue(mine)));
        assert!(!slots.change(slot, Owner::User, Owner::Queue(other)), "posted already");
        assert!(!slots.change(slot, Owner::Queue(other), Owner::User), "another queue's completion");
        assert!(!slots.release(slot, Owner::User));
        assert_eq!(slots.release_all(other), 0);
        assert_eq!(slots.release_all(mine), 1);
        assert!(!slots.change(slot, Owner::Queue(mine), Owner::User), "a completion after the queue's end");
        assert!(!slots.change(7, Owner::Free, Owner::User), "no such slot");
        assert_eq!(slots.free(), 1);
    }

    #[test]
    fn of_many_claimants_one_succeeds() {
        let (slots, queue) = (Slots::new(1), QueueId::allocate().unwrap());
        for _ in 0..200 {
            let slot = slots.take().unwrap();
            assert!(slots.change(slot, Owner::User, Owner::Queue(queue)));
            let barrier = Barrier::new(3);
            let claim = || {
                barrier.wait();
                slots.change(slot, Owner::Queue(queue), Owner::User)
            };
            let free = || {
                barrier.wait();
                slots.release(slot, Owner::Queue(queue))
            };
            let (a, b, freed) = thread::scope(|scope| {
                let (a, b, freed) = (scope.spawn(claim), scope.spawn(claim), scope.spawn(free));
                (a.join().unwrap(), b.join().unwrap(), freed.join().unwrap())
            });
            assert_eq!([a, b, freed].iter().filter(|&&won| won).count(), 1);
            assert!(freed || slots.release(slot, Owner::User));
        }
    }

    #[test]
    fn threads_that_take_and_release_lose_none_and_double_none() {
        const SLOTS: u32 = 5;
        let slots = Slots::new(SLOTS);
        let holders: Vec<AtomicU32> = (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        if let Some(slot) = slots.take() {
                            assert_eq!(holders[slot as usize].fetch_add(1, AcqRel), 0, "held twice");
                            holders[slot as usize].fetch_sub(1, AcqRel);
                            assert!(slots.release(slot, Owner::User));
                        }
                    }
                });
            }
        });
        assert_eq!(slots.free(), SLOTS);
        assert_eq!(std::iter::from_fn(|| slots.take()).collect::<HashSet<_>>().len(), SLOTS as usize);
    }
}

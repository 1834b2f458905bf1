//! The books of a completion queue: which queue ids are alive, and how many completions may come.

use super::{
    send_ring::SendRing,
    srq_slots::SrqSlots,
    wr_id::{QueueId, parse},
};
use crate::completion::{Arrival, Completion};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The record of one queue.
#[derive(Clone)]
pub(crate) enum Book {
    Send(Arc<SendRing>),
    Srq(Arc<SrqSlots>),
}

impl Book {
    fn id(&self) -> QueueId {
        match self {
            Self::Send(ring) => ring.id(),
            Self::Srq(slots) => slots.id(),
        }
    }
}

/// All queues that complete to one completion queue. Whoever polls holds the lock, and so does whoever
/// destroys a queue, so that a provider never looks at a queue that is being taken down.
#[derive(Default)]
pub(crate) struct Books(Mutex<Shelf>);

#[derive(Default)]
pub(crate) struct Shelf {
    /// Ordered by id.
    books: Vec<Book>,
    /// The sum of their depths, with those of queues that are being created.
    reserved: u64,
    /// Completions that were taken from the device when a queue was destroyed, for the next poll.
    deferred: VecDeque<Arrival>,
}

impl Books {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Shelf> {
        // Nothing panics half way through a change, so a poisoned shelf is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets room for `depth` completions aside. Err is what the sum would have been.
    pub(crate) fn reserve(&self, depth: u32, capacity: u32) -> Result<(), u64> {
        let mut shelf = self.lock();
        let sum = shelf.reserved + u64::from(depth);
        if sum > u64::from(capacity) {
            return Err(sum);
        }
        shelf.reserved = sum;
        Ok(())
    }

    pub(crate) fn unreserve(&self, depth: u32) {
        let mut shelf = self.lock();
        shelf.reserved = shelf.reserved.saturating_sub(depth.into());
    }

    pub(crate) fn insert(&self, book: Book) {
        let mut shelf = self.lock();
        let at = shelf.books.partition_point(|other| other.id() < book.id());
        shelf.books.insert(at, book);
    }
}

impl Shelf {
    /// Takes a queue out. Drop what it returns after the lock.
    pub(crate) fn remove(&mut self, id: QueueId) -> Option<Book> {
        let at = self.books.binary_search_by_key(&id, Book::id).ok()?;
        Some(self.books.remove(at))
    }

    /// Keeps a completion for the next poll. It is settled then: until that its buffer is the queue's.
    pub(crate) fn defer(&mut self, arrival: Arrival) {
        self.deferred.push_back(arrival);
    }

    /// Drops what was kept for a queue that ends. Returns how many there were.
    pub(crate) fn drop_deferred(&mut self, id: QueueId) -> u64 {
        let before = self.deferred.len();
        self.deferred.retain(|arrival| parse(arrival.wr_id).is_none_or(|(of, _)| of != id));
        (before - self.deferred.len()) as u64
    }

    #[cfg(test)]
    pub(crate) fn deferred(&self) -> usize {
        self.deferred.len()
    }

    /// The oldest completion that was kept.
    #[inline]
    pub(crate) fn next_deferred(&mut self) -> Option<Arrival> {
        self.deferred.pop_front()
    }

    /// Turns a completion of the device into the user's. False if it names no living queue, or nothing
    /// that such a queue has in flight.
    #[inline]
    pub(crate) fn settle(&self, arrival: &Arrival, out: &mut Vec<Completion>) -> bool {
        let Some((id, low)) = parse(arrival.wr_id) else { return false };
        let Ok(at) = self.books.binary_search_by_key(&id, Book::id) else { return false };
        match &self.books[at] {
            Book::Send(ring) => {
                ring.retire(low, arrival.status, arrival.qp_number, |completion| out.push(completion))
            }
            Book::Srq(slots) => match slots.complete(low, arrival.received()) {
                Some((tag, buf)) => {
                    out.push(Completion {
                        kind: arrival.receive(slots.number()),
                        tag,
                        buf: Some(buf),
                        status: arrival.status,
                        qp_number: arrival.qp_number,
                    });
                    true
                }
                None => false,
            },
        }
    }
}

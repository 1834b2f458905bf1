//! The books of a completion queue: which queue ids are alive, and how many completions may come.

use super::{
    send_ring::SendRing,
    srq_slots::SrqSlots,
    wr_id::{QueueId, parse},
};
use crate::completion::{Arrival, Completion};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// All queues that complete to one completion queue.
#[derive(Default)]
pub(crate) struct Books(Mutex<Shelf>);

#[derive(Default)]
struct Shelf {
    /// Ordered by id.
    books: Vec<Book>,
    /// The sum of their depths, with those of queues that are being created.
    reserved: u64,
}

impl Books {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // Nothing panics half way through a change, so a poisoned shelf is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets room for `depth` completions aside. Err is what the sum would have been.
    pub(crate) fn reserve(&self, depth: u32, capacity: u32) -> Result<(), u64> {
        let mut shelf = self.shelf();
        let sum = shelf.reserved + u64::from(depth);
        if sum > u64::from(capacity) {
            return Err(sum);
        }
        shelf.reserved = sum;
        Ok(())
    }

    pub(crate) fn unreserve(&self, depth: u32) {
        let mut shelf = self.shelf();
        shelf.reserved = shelf.reserved.saturating_sub(depth.into());
    }

    pub(crate) fn insert(&self, book: Book) {
        let mut shelf = self.shelf();
        let at = shelf.books.partition_point(|other| other.id() < book.id());
        shelf.books.insert(at, book);
    }

    /// Takes a queue out. What it returns is dropped outside the lock.
    pub(crate) fn remove(&self, id: QueueId) -> Option<Book> {
        let mut shelf = self.shelf();
        let at = shelf.books.binary_search_by_key(&id, Book::id).ok()?;
        Some(shelf.books.remove(at))
    }

    /// Turns completions of the device into the user's, in order. Returns how many of them named no
    /// living queue or nothing that such a queue has in flight.
    pub(crate) fn settle(&self, arrivals: impl Iterator<Item = Arrival>, out: &mut Vec<Completion>) -> u64 {
        let shelf = self.shelf();
        arrivals.filter(|arrival| !shelf.settle(arrival, out)).count() as u64
    }
}

impl Shelf {
    fn settle(&self, arrival: &Arrival, out: &mut Vec<Completion>) -> bool {
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

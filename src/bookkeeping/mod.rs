//! Who owns a slot of registered memory, and how completions give it back.
//!
//! No `unsafe` here, yet the crate's soundness rests on it: `verbs::pool` makes a slice of a slot for
//! whoever these words call its owner. The argument, step by step, each with its test:
//!
//! 1. **A slot has one word** ([`slots`]): free, the user's, or queue N's. It changes by compare-exchange
//!    only, so of two that claim it one succeeds. A `Buf` exists exactly while the word says "user": it is
//!    made by the exchange that sets this, and given up by the exchange that ends it.
//! 2. **Queue ids are never used twice in a process** ([`wr_id`]); when the 31 bits run out, creating a
//!    queue fails. So "queue N" in a word, or in a completion's `wr_id`, means one queue for all time.
//! 3. **Posting** exchanges user → queue N, and only then hands the address to the device. If the post
//!    fails, the device has nothing; the exchange back makes the `Buf` that the caller gets.
//! 4. **A completion** leads to a slot through the queue's own record, never through an address or a
//!    length that a device wrote: a send's sequence number picks the ring's entries up to it
//!    ([`send_ring`]), a receive's slot index is checked against the attached pools ([`srq_slots`]). The
//!    exchange queue N → user must succeed before a `Buf` comes of it. A second completion for the same
//!    work, one of a destroyed queue, or one that names nonsense fails there and is counted.
//! 5. **A completion queue knows its queues by id** ([`book`]). A destroyed queue is taken out, so what
//!    it left in the completion queue finds nothing. Polling and destroying exclude each other there:
//!    see `verbs::cq` for what a provider may do otherwise.
//! 6. **Destroying a queue**: the kernel first. When it agreed, the device is done with the queue's
//!    memory, and each of its slots goes queue N → free by the same exchange, so that a poller that still
//!    holds the record takes it before, or fails. When the kernel refused, the words stay as they are:
//!    nobody gets those slots again.
//! 7. **The slab outlives every use.** A queue's record holds its pools, the queue's owner holds the
//!    record until the kernel let go, every `Buf` holds its pool. `mem::forget` of any of them keeps the
//!    slab mapped for good: a leak, never a dangling address.
//! 8. **Lengths** that a device reports are cut to the slot before they become a `Buf`'s length, and all
//!    of a slot's bytes were initialised when the slab was made.
//!
//! Ordering: giving a slot away is a release, taking it an acquire, on the slot's word. A poster's entries
//! in the ring are published by a release of its head, which the poller acquires; so the fields read
//! are those written for that sequence number, even where hardware carried the news.

pub(crate) mod book;
pub(crate) mod pools;
pub(crate) mod send_ring;
pub(crate) mod slots;
pub(crate) mod srq_slots;
pub(crate) mod wr_id;

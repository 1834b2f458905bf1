//! A completion queue.

use crate::{
    Completion, Error, ErrorKind, Result,
    verbs::cq::{Cq, Poller},
};
use std::{fmt, sync::Arc};

/// A completion queue: where finished work requests arrive.
///
/// Polling takes `&mut`, so one CQ is polled from one place at a time. Threads share it behind a lock
/// of theirs, or have one each.
///
/// ```compile_fail,E0499
/// # use rdma_xrc::{Completion, CompletionQueue};
/// fn two_places(cq: &mut CompletionQueue, out: &mut Vec<Completion>) {
///     let (first, second) = (&mut *cq, &mut *cq);
///     let _ = (first.poll(out, 1), second.poll(out, 1));
/// }
/// ```
/// ```compile_fail,E0596
/// # use rdma_xrc::{Completion, CompletionQueue};
/// fn shared(cq: std::sync::Arc<CompletionQueue>, out: &mut Vec<Completion>) {
///     let _ = cq.poll(out, 1);
/// }
/// ```
/// ```
/// # use rdma_xrc::{Completion, CompletionQueue};
/// fn one_place(cq: &mut CompletionQueue, out: &mut Vec<Completion>) {
///     let _ = cq.poll(out, 1);
///     let _ = cq.poll(out, 1);
/// }
/// fn locked(cq: std::sync::Arc<std::sync::Mutex<CompletionQueue>>, out: &mut Vec<Completion>) {
///     let _ = cq.lock().unwrap().poll(out, 1);
/// }
/// ```
#[doc(alias = "ibv_cq")]
pub struct CompletionQueue {
    cq: Arc<Cq>,
    poller: Poller,
}

impl CompletionQueue {
    pub(crate) fn new(cq: Arc<Cq>) -> Self {
        Self { cq, poller: Poller::new() }
    }

    pub(crate) fn verbs(&self) -> &Arc<Cq> {
        &self.cq
    }

    /// How many completions it holds, as the device granted it. The depths of the queues that complete
    /// here add up to no more: creating one too many is refused.
    pub fn capacity(&self) -> u32 {
        self.cq.capacity()
    }

    /// Takes up to `max` completions from the device and appends what they finish to `out`. Returns how
    /// many were appended: more than `max` where a completion finishes sends before it that had asked for
    /// none, and 0 if nothing has arrived, which is no error.
    ///
    /// Verb: [`ibv_poll_cq`](https://man7.org/linux/man-pages/man3/ibv_poll_cq.3.html).
    ///
    /// # Errors
    /// The provider's reason; what was taken before is in `out`. A work request that failed is no error
    /// here: its [`Completion`] says so.
    #[doc(alias = "ibv_poll_cq")]
    #[inline]
    pub fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize> {
        self.poller.poll(&self.cq, out, max)
    }

    /// How many completions have arrived that named no living queue: leftovers of queues that were
    /// destroyed with work in flight. They were dropped.
    pub fn stale_completions(&self) -> u64 {
        self.cq.stale()
    }

    /// Destroys it.
    ///
    /// Verb: [`ibv_destroy_cq`](https://man7.org/linux/man-pages/man3/ibv_create_cq.3.html). Dropping does
    /// the same, later: when the queues that complete here are gone too.
    ///
    /// # Errors
    /// The queue comes back with the reason: [`ErrorKind::Busy`] while queues complete here, or
    /// builders live that name it.
    #[doc(alias = "ibv_destroy_cq")]
    pub fn close(self) -> std::result::Result<(), (Self, Error)> {
        let Self { cq, poller } = self;
        match Arc::try_unwrap(cq) {
            Err(cq) => {
                let error = Error::refused(
                    "ibv_destroy_cq",
                    ErrorKind::Busy,
                    "queues complete here, or are to, by their builders",
                )
                .device(cq.context().name());
                Err((Self { cq, poller }, error))
            }
            Ok(mut cq) => cq.destroy().map_err(|error| (Self { cq: Arc::new(cq), poller }, error)),
        }
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue")
            .field("device", self.cq.context().name())
            .field("capacity", &self.capacity())
            .finish()
    }
}

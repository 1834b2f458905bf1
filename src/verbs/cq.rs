//! A completion queue.
//!
//! # Safety
//! The pointer is live from `ibv_create_cq` to `ibv_destroy_cq`. Queues that complete here hold an `Arc`
//! of the owner (inside their [`Reservation`]): destroying it before them would be refused with `EBUSY`.
//! The array that a poll fills belongs to the [`Poller`], which one `&mut` at a time uses. Of a failed
//! completion only `wr_id`, `status`, `qp_num` and `vendor_err` are read; and what is read leads to
//! memory only through `bookkeeping`.
//!
//! **Polling and destroying exclude each other** ([`Cq::end_of_srq`], [`end_of_qp`]), because providers do
//! not see to it, and each finds the queue of a completion in a way of its own:
//!
//! * mlx5 finds its SRQ by a small index that it uses again, without a lock that would keep the SRQ from
//!   being freed meanwhile, and it leaves the completions of a destroyed XRC SRQ where they are. Polled
//!   later, such a one is an error that swallows those polled with it; or, if a new queue has the index by
//!   then, it completes a receive *of that queue* that is still posted, or reads past its end.
//! * hns finds its QP by number, for a receive the *target* that it came through, and without a lock too;
//!   one whose target is gone is an error.
//! * qedr has the QP's address in the completion itself and takes none out when the QP is freed.
//!
//! So a queue is destroyed with the locks of all CQs held that may have completions of it. A QP is stopped
//! before, and what it completed taken out while it lives; an SRQ cannot be stopped, so what is left of it
//! is taken out after its end too; and no queue of the context is created until that is done
//! ([`Context::queue_changes`]).

use super::{
    context::{Changes, Context},
    convert::{errno_value, null_with_errno},
    qp::Qp,
    sys::{self, ibv_cq, ibv_wc},
};
use crate::{
    Completion, Error, ErrorKind, QpNumber, Result, WcError, WcStatus,
    bookkeeping::{
        book::{Book, Books, Shelf},
        wr_id::QueueId,
    },
    completion::Arrival,
};
use std::{
    ffi::c_int,
    ptr::NonNull,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

pub(crate) struct Cq {
    /// None once it was destroyed.
    ptr: Option<NonNull<ibv_cq>>,
    capacity: u32,
    books: Books,
    stale: AtomicU64,
    context: Arc<Context>,
}

// SAFETY: libibverbs lets any thread use a CQ; all other fields are Send.
unsafe impl Send for Cq {}
// SAFETY: providers lock a CQ against polling and destroying its queues at once; our own fields are
// atomic or behind a lock.
unsafe impl Sync for Cq {}

impl Cq {
    /// `ibv_create_cq(3)`, without a completion channel.
    pub(crate) fn create(context: &Arc<Context>, depth: u32) -> Result<Arc<Self>> {
        context.ours("ibv_create_cq")?;
        let entries = c_int::try_from(depth).ok().filter(|&entries| entries > 0).ok_or_else(|| {
            Error::refused("ibv_create_cq", ErrorKind::InvalidInput, format!("a depth of {depth}"))
                .device(context.name())
        })?;
        let none = std::ptr::null_mut();
        let ptr = null_with_errno(|| {
            // SAFETY: the context is live; no user pointer, no channel.
            unsafe { sys::ibv_create_cq(context.as_ptr(), entries, none, std::ptr::null_mut(), 0) }
        })
        .map_err(|source| {
            Error::os("ibv_create_cq", source).device(context.name()).detail(format!("a depth of {depth}"))
        })?;
        // SAFETY: live, and the depth is set when the CQ is made.
        let capacity = u32::try_from(unsafe { (*ptr.as_ptr()).cqe }).unwrap_or(depth);
        let books = Books::default();
        let context = Arc::clone(context);
        Ok(Arc::new(Self { ptr: Some(ptr), capacity, books, stale: AtomicU64::new(0), context }))
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_cq {
        self.ptr.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Completions that named no living queue.
    pub(crate) fn stale(&self) -> u64 {
        self.stale.load(Relaxed)
    }

    /// How many completions wait for the next poll.
    #[cfg(test)]
    pub(crate) fn deferred(&self) -> usize {
        self.books.lock().deferred()
    }

    /// Destroys an SRQ that completes here and takes it out of the books. Returns how many completions were
    /// nobody's, for [`note_stale`] once the caller's own state is settled.
    pub(super) fn end_of_srq(&self, id: QueueId, destroy: impl FnOnce() -> Result<()>) -> Result<u64> {
        let mut changes = self.context.queue_changes();
        let mut shelf = self.books.lock();
        // Before, for a provider that looks at the SRQ of a completion; and after, for an SRQ cannot be
        // stopped, and a message may have arrived meanwhile.
        let mut stale = self.clear_out(&mut shelf);
        destroy()?;
        changes.receivers.retain(|(of, _)| *of != id);
        let book = shelf.remove(id);
        stale += self.clear_out(&mut shelf) + self.drop_deferred(&mut shelf, id);
        drop(shelf);
        drop(changes);
        drop(book);
        Ok(stale)
    }

    /// Takes everything out of the CQ that is in it when a queue ends. What belongs to a queue waits for the
    /// next poll. Returns how many were nobody's.
    fn clear_out(&self, shelf: &mut Shelf) -> u64 {
        let mut stale = 0;
        // All that the queue left was written before its destroy returned, and the CQ holds no more than
        // its capacity. One at a time, for a provider that meets one it cannot place forgets the batch.
        for _ in 0..self.capacity {
            let mut wc = ibv_wc::default();
            // SAFETY: the CQ is live and there is room for one completion.
            match unsafe { sys::ibv_poll_cq(self.as_ptr(), 1, &raw mut wc) } {
                0 => break,
                1 => shelf.defer(arrival(&wc)),
                _ => stale += 1,
            }
        }
        self.count_stale(stale)
    }

    fn drop_deferred(&self, shelf: &mut Shelf, id: QueueId) -> u64 {
        self.count_stale(shelf.drop_deferred(id))
    }

    fn count_stale(&self, stale: u64) -> u64 {
        self.stale.fetch_add(stale, Relaxed);
        stale
    }

    pub(crate) fn destroy(&mut self) -> Result<()> {
        self.context.ours("ibv_destroy_cq")?;
        let Some(ptr) = self.ptr else { return Ok(()) };
        // SAFETY: live until this call succeeds, after which the pointer is gone.
        errno_value(unsafe { sys::ibv_destroy_cq(ptr.as_ptr()) })
            .map_err(|source| Error::os("ibv_destroy_cq", source).device(self.context.name()))?;
        self.ptr = None;
        Ok(())
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        if !self.context.is_ours() {
            return;
        }
        if let Err(error) = self.destroy() {
            super::leak(&error, Arc::clone(&self.context));
        }
    }
}

/// Destroys a QP, with everybody excluded who might look at it: its own CQ's pollers, or for a target, which
/// has none, those of every CQ that an SRQ of the context completes to. The device is stopped first, and what
/// it has completed is taken out while the QP is there to be looked at. `own` is a send queue's CQ and id.
/// `ended` is called when it is destroyed, before another queue's end or beginning. Returns as
/// [`Cq::end_of_srq`] does.
///
/// A target that others may hold is not `stop`ped: this only lets go of one handle, and messages go on
/// arriving through it. Nor is one by a handle that opened it, which is as much as to say that it is not when
/// such a handle is the last: nobody can know in a file's domain, and in mlx5 RESET by it would crash. A provider that looks at targets (hns) finds none in a completion that comes
/// between clearing out and the end, nor in those after it, and says so: an error, no stray access. The one
/// that has addresses in its completions (qedr) opens no targets, so none of its can be held by others.
pub(super) fn end_of_qp(
    qp: &mut Qp,
    own: Option<(&Arc<Cq>, QueueId)>,
    stop: impl FnOnce(&Changes) -> bool,
    ended: impl FnOnce(&mut Changes),
) -> Result<u64> {
    let context = Arc::clone(qp.context());
    // Several CQs are locked at once only here, by whoever has this lock, so their order does not matter.
    let mut changes = context.queue_changes();
    let cqs = own.map_or_else(|| receiving(&changes.receivers), |(cq, _)| vec![Arc::clone(cq)]);
    let mut shelves: Vec<_> = cqs.iter().map(|cq| cq.books.lock()).collect();
    let stopped = if stop(&changes) { qp.quiesce() } else { Ok(()) };
    match stopped {
        // A device that has gone writes nothing any more; its objects can still be destroyed.
        Err(error) if error.kind() != ErrorKind::NoSuchDevice => return Err(error),
        _ => {}
    }
    let mut stale: u64 = cqs.iter().zip(&mut shelves).map(|(cq, shelf)| cq.clear_out(shelf)).sum();
    qp.destroy()?;
    ended(&mut changes);
    let mut book = None;
    if let (Some((cq, id)), Some(shelf)) = (own, shelves.first_mut()) {
        stale += cq.drop_deferred(shelf, id);
        book = shelf.remove(id);
    }
    drop(shelves);
    // None of these is the last: each has an SRQ or a QP, whose end waits for this one.
    drop(cqs);
    drop(changes);
    drop(book);
    Ok(stale)
}

/// The completion queues of the SRQs that live, each once.
fn receiving(receivers: &[(QueueId, Weak<Cq>)]) -> Vec<Arc<Cq>> {
    let mut cqs: Vec<_> = receivers.iter().filter_map(|(_, cq)| cq.upgrade()).collect();
    cqs.sort_unstable_by_key(Arc::as_ptr);
    cqs.dedup_by(|one, other| Arc::ptr_eq(one, other));
    cqs
}

/// Says that completions were nobody's. Called last: a subscriber may do anything.
pub(super) fn note_stale(context: &Context, stale: u64) {
    if stale > 0 {
        tracing::debug!(device = %context.name(), stale, "completions of no living queue");
    }
}

/// A queue's share of its completion queue: room for as many completions as it can have in flight, and
/// its record in the books. Given back when the queue is gone; forgotten with a queue that stays.
pub(crate) struct Reservation {
    cq: Arc<Cq>,
    depth: u32,
}

impl Reservation {
    pub(super) fn new(cq: &Arc<Cq>, verb: &'static str, depth: u32) -> Result<Self> {
        cq.books.reserve(depth, cq.capacity).map_err(|sum| {
            let detail = format!(
                "the completion queue holds {} completions and its queues could have {sum} in flight with this one",
                cq.capacity
            );
            Error::refused(verb, ErrorKind::CapacityExceeded, detail).device(cq.context.name())
        })?;
        Ok(Self { cq: Arc::clone(cq), depth })
    }

    pub(super) fn cq(&self) -> &Arc<Cq> {
        &self.cq
    }

    /// Makes a queue known, before its first work request.
    pub(super) fn open_book(&self, book: Book) {
        self.cq.books.insert(book);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that the child does not have.
        if self.cq.context.is_ours() {
            self.cq.books.unreserve(self.depth);
        }
    }
}

/// How many completions one call of the provider takes.
const BATCH: usize = 32;

/// A status that no provider writes.
const UNWRITTEN: u32 = u32::MAX;

fn unwritten() -> ibv_wc {
    ibv_wc { status: UNWRITTEN, ..Default::default() }
}

/// The array that polls fill. Between them, what is read of an entry that a call did not write is seen to
/// be unwritten.
pub(crate) struct Poller(Box<[ibv_wc]>);

impl Poller {
    pub(crate) fn new() -> Self {
        Self(vec![unwritten(); BATCH].into())
    }

    /// `ibv_poll_cq(3)`: takes up to `max` of the device's completions and appends what they finish.
    pub(crate) fn poll(&mut self, cq: &Cq, out: &mut Vec<Completion>, max: usize) -> Result<usize> {
        if !cq.context.is_unforked() {
            cq.context.ours("ibv_poll_cq")?;
        }
        let before = out.len();
        let (mut left, mut stale) = (max, 0);
        let mut shelf = cq.books.lock();
        while left > 0 {
            let Some(arrival) = shelf.next_deferred() else { break };
            stale += u64::from(!shelf.settle(&arrival, out));
            left -= 1;
        }
        let mut result = Ok(());
        while left > 0 {
            let room = left.min(BATCH);
            // SAFETY: the CQ is live and the array has at least `room` entries.
            let count = unsafe { sys::ibv_poll_cq(cq.as_ptr(), room as c_int, self.0.as_mut_ptr()) };
            let taken = usize::try_from(count).map_or(room, |taken| taken.min(room));
            // A provider that meets a completion it cannot place returns that, and not how many it had
            // taken before: those are in the array and nowhere else.
            for wc in self.0[..taken].iter_mut().filter(|wc| count >= 0 || wc.status != UNWRITTEN) {
                stale += u64::from(!shelf.settle(&arrival(wc), out));
                (wc.wr_id, wc.status) = (0, UNWRITTEN);
            }
            if count < 0 {
                // Providers have numbers of their own here, which are no errno values.
                let source = std::io::Error::other(format!("the provider returned {count}"));
                result = Err(Error::os("ibv_poll_cq", source).device(cq.context.name()));
                break;
            }
            left -= taken;
            if taken < room {
                break;
            }
        }
        drop(shelf);
        note_stale(&cq.context, cq.count_stale(stale));
        result.map(|()| out.len() - before)
    }
}

#[inline]
fn arrival(wc: &ibv_wc) -> Arrival {
    let qp_number = QpNumber::masked(wc.qp_num);
    if wc.status != sys::IBV_WC_SUCCESS {
        let status = WcStatus::from_code(wc.status);
        let status = Err(WcError { status, vendor_err: wc.vendor_err });
        return Arrival { wr_id: wc.wr_id, status, qp_number, byte_len: 0, imm: None, in_buffer: false };
    }
    // SAFETY: both forms of the union are 32 bits for which every pattern is valid.
    let imm_data = unsafe { wc.__bindgen_anon_1.imm_data };
    Arrival {
        wr_id: wc.wr_id,
        status: Ok(()),
        qp_number,
        byte_len: wc.byte_len,
        imm: (wc.wc_flags & sys::IBV_WC_WITH_IMM != 0).then_some(u32::from_be(imm_data)),
        in_buffer: wc.opcode == sys::IBV_WC_RECV,
    }
}

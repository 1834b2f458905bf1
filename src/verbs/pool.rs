//! A slab of registered memory, cut into slots.
//!
//! # Safety
//! Two things make slices of this memory sound.
//!
//! * *Where*: the slab is one private mapping, zeroed by the kernel, from `mmap` in [`Pool::new`] to
//!   `munmap` in `Drop`, and [`Pool::address`] is the one place that computes an address in it, with the
//!   index checked. Every [`Slot`] and every queue's record holds the pool, so `Drop` runs when neither a
//!   user nor a device can reach it; and it unmaps only after `ibv_dereg_mr` succeeded.
//! * *Who*: a [`Slot`] exists only while its word says "user", and one exchange of the word makes one
//!   `Slot` ([`Pool::take`], [`Slot::reclaim`]). The word changes from "user" only by [`Slot::give`] and
//!   `Drop`, which both consume the `Slot`. So its owner has the bytes alone: no other `Slot`, and no
//!   queue whose work a device could carry out in them. The memory is registered for local access only,
//!   so a peer cannot name it.

use super::{
    convert::{errno_value, null_with_errno},
    pd::Pd,
    sys::{self, ibv_mr, ibv_sge},
};
use crate::{
    Error, ErrorKind, Result,
    bookkeeping::{
        slots::{Owner, Slots},
        wr_id::QueueId,
    },
};
use std::{io, ptr::NonNull, sync::Arc};

/// Slots begin on cache lines of their own, so that neighbours do not slow each other.
const ALIGN: usize = 64;

const VERB: &str = "ProtectionDomain::pool";

pub(crate) struct Pool {
    base: NonNull<u8>,
    mapped: usize,
    slot_size: usize,
    stride: usize,
    slots: Slots,
    mr: NonNull<ibv_mr>,
    lkey: u32,
    pd: Arc<Pd>,
}

// SAFETY: the mapping belongs to no thread; who touches which bytes is what the slots' words say.
unsafe impl Send for Pool {}
// SAFETY: shared access reads constants and changes the slots' words, which are atomic; the bytes are
// reached through a `Slot`, which its one owner has.
unsafe impl Sync for Pool {}

impl Pool {
    /// Maps and registers a slab.
    pub(crate) fn new(pd: &Arc<Pd>, slots: u32, slot_size: usize) -> Result<Arc<Self>> {
        pd.context().ours(VERB)?;
        let device = pd.context().name();
        let invalid =
            |detail: &'static str| Error::refused(VERB, ErrorKind::InvalidInput, detail).device(device);
        if slots == 0 || slot_size == 0 {
            return Err(invalid("a pool has one slot and one byte a slot at least"));
        }
        // 2^31 itself is a length that providers' scatter entries have no room for: its bit is a flag.
        if slot_size > i32::MAX as usize {
            return Err(invalid("a slot has 2^31 - 1 bytes at most"));
        }
        let stride = slot_size.next_multiple_of(ALIGN);
        let mapped = stride
            .checked_mul(slots as usize)
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or_else(|| invalid("slots times their size do not fit the address space"))?;
        let base = map(mapped).map_err(|source| {
            Error::os("mmap", source).device(device).detail(format!("{mapped} bytes for a pool"))
        })?;
        let mr = null_with_errno(|| {
            let access = sys::IBV_ACCESS_LOCAL_WRITE as i32;
            // SAFETY: the PD is live and the range is a mapping of ours that outlives the registration.
            unsafe { sys::ibv_reg_mr(pd.as_ptr(), base.as_ptr().cast(), mapped, access) }
        });
        let mr = match mr {
            Ok(mr) => mr,
            Err(source) => {
                unmap(base, mapped);
                let detail = format!("{mapped} bytes for a pool{}", memlock_hint(&source));
                return Err(Error::os("ibv_reg_mr", source).device(device).detail(detail));
            }
        };
        // SAFETY: a live memory region's lkey is set when it is registered and does not change.
        let lkey = unsafe { (*mr.as_ptr()).lkey };
        let slots = Slots::new(slots);
        Ok(Arc::new(Self { base, mapped, slot_size, stride, slots, mr, lkey, pd: Arc::clone(pd) }))
    }

    pub(crate) fn slots(&self) -> u32 {
        self.slots.count()
    }

    pub(crate) fn slot_size(&self) -> usize {
        self.slot_size
    }

    pub(crate) fn free(&self) -> u32 {
        self.slots.free()
    }

    pub(crate) fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Takes a free slot.
    #[inline]
    pub(crate) fn take(self: &Arc<Self>) -> Option<Slot> {
        self.slots.take().map(|index| Slot { pool: Arc::clone(self), index })
    }

    /// Frees what a destroyed queue owned.
    pub(crate) fn release_all(&self, queue: QueueId) -> u32 {
        self.slots.release_all(queue)
    }

    /// The first byte of a slot.
    #[inline]
    fn address(&self, index: u32) -> NonNull<u8> {
        assert!(index < self.slots.count(), "slot {index} of {}", self.slots.count());
        // SAFETY: index < count, so the offset is below count * stride, which is the mapping's length.
        unsafe { self.base.add(index as usize * self.stride) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.pd.context().is_ours() {
            return;
        }
        // SAFETY: registered in `new` and deregistered once, here.
        match errno_value(unsafe { sys::ibv_dereg_mr(self.mr.as_ptr()) }) {
            Ok(()) => unmap(self.base, self.mapped),
            Err(source) => {
                let error = Error::os("ibv_dereg_mr", source).device(self.pd.context().name());
                super::leak(&error, Arc::clone(&self.pd));
            }
        }
    }
}

/// A slot that belongs to the user alone.
pub(crate) struct Slot {
    pool: Arc<Pool>,
    index: u32,
}

/// Where a slot that was given to a queue lies, for the work request.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    index: u32,
    address: u64,
    len: u32,
    lkey: u32,
}

impl Place {
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(super) fn sge(&self) -> ibv_sge {
        ibv_sge { addr: self.address, length: self.len, lkey: self.lkey }
    }
}

impl Slot {
    /// An index that no pool has: a `Slot` with it owns nothing, and dropping it does nothing.
    const NOWHERE: u32 = u32::MAX;

    pub(crate) fn size(&self) -> usize {
        self.pool.slot_size
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    #[inline]
    pub(crate) fn bytes(&self, len: usize) -> &[u8] {
        let start = self.pool.address(self.index);
        let len = len.min(self.size());
        // SAFETY: `len` bytes from a slot's start lie in the slot, all are initialised, and this `Slot`
        // owns them alone; it is borrowed for as long as the slice is.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len) }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        let start = self.pool.address(self.index);
        let len = len.min(self.size());
        // SAFETY: as in `bytes`, with the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// Gives the slot to a queue.
    #[inline]
    pub(crate) fn give(mut self, len: usize, queue: QueueId) -> std::result::Result<Place, Self> {
        let index = self.index;
        let place = Place {
            index,
            address: self.pool.address(index).as_ptr() as u64,
            len: len.min(self.size()) as u32,
            lkey: self.pool.lkey,
        };
        if !self.pool.slots.change(index, Owner::User, Owner::Queue(queue)) {
            return Err(self);
        }
        // From here on the slot is the queue's, whatever happens to this value.
        self.index = Self::NOWHERE;
        Ok(place)
    }

    /// Takes a slot back from a queue. None if that queue does not own it.
    #[inline]
    pub(crate) fn reclaim(pool: &Arc<Pool>, index: u32, queue: QueueId) -> Option<Self> {
        let ours = pool.slots.change(index, Owner::Queue(queue), Owner::User);
        ours.then(|| Self { pool: Arc::clone(pool), index })
    }
}

impl Drop for Slot {
    #[inline]
    fn drop(&mut self) {
        if self.index != Self::NOWHERE {
            self.pool.slots.release(self.index, Owner::User);
        }
    }
}

fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: the mapping is ours, of this length, and its callers have nothing that points into it.
    unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
}

/// What to say of an `ENOMEM` of a registration, which most often is the limit on locked memory.
fn memlock_hint(source: &io::Error) -> String {
    if source.raw_os_error() != Some(libc::ENOMEM) {
        return String::new();
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure may be written.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    if known && limit.rlim_cur != libc::RLIM_INFINITY {
        format!("; the limit on locked memory (ulimit -l) is {} bytes", limit.rlim_cur)
    } else {
        String::new()
    }
}

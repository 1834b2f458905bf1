//! A buffer of registered memory, owned by the program.

use crate::{
    bookkeeping::wr_id::QueueId,
    verbs::pool::{Place, Pool, Slot},
};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A buffer of a [`Pool`](crate::Pool): registered memory that its owner has alone.
///
/// It is a byte slice of its length. Posting moves it away and the completion brings it back, so it can
/// be neither posted twice nor looked at while the device has it. Dropping it returns its slot to the
/// pool.
///
/// ```compile_fail,E0382
/// # use rdma_xrc::{Buf, XrcSrq};
/// fn twice(srq: &mut XrcSrq, buf: Buf) {
///     let _ = srq.post(buf, 1);
///     let _ = srq.post(buf, 2);
/// }
/// ```
/// ```compile_fail,E0382
/// # use rdma_xrc::{Buf, XrcSrq};
/// fn look(srq: &mut XrcSrq, buf: Buf) -> u8 {
///     let _ = srq.post(buf, 1);
///     buf[0]
/// }
/// ```
/// ```compile_fail,E0505
/// # use rdma_xrc::{Buf, XrcSrq};
/// fn keep(srq: &mut XrcSrq, buf: Buf) -> u8 {
///     let bytes: &[u8] = &buf;
///     let _ = srq.post(buf, 1);
///     bytes[0]
/// }
/// ```
/// ```
/// # use rdma_xrc::{Buf, XrcSrq};
/// fn once(srq: &mut XrcSrq, buf: Buf) -> u8 {
///     let byte = buf[0];
///     let _ = srq.post(buf, 1);
///     byte
/// }
/// ```
pub struct Buf {
    slot: Slot,
    /// At most the slot's size.
    len: usize,
}

impl Buf {
    /// A buffer over a slot, its whole length.
    pub(crate) fn whole(slot: Slot) -> Self {
        Self { len: slot.size(), slot }
    }

    /// The length: how many bytes a send sends, or how many a receive has brought.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The largest length: the pool's slot size.
    pub fn capacity(&self) -> usize {
        self.slot.size()
    }

    /// Sets the length. Bytes past the old one keep what they last held.
    ///
    /// # Panics
    /// If `len` is above the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "{len} bytes in a buffer of {}", self.capacity());
        self.len = len;
    }

    pub(crate) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        self.slot.is_of(pool)
    }

    /// Gives the slot to a queue, `len` bytes of it for the device.
    #[inline]
    pub(crate) fn give(self, len: usize, queue: QueueId) -> Result<Place, Self> {
        let Self { slot, len: own } = self;
        slot.give(len, queue).map_err(|slot| Self { slot, len: own })
    }

    /// Takes a slot back from a queue. None if the queue does not own it.
    #[inline]
    pub(crate) fn reclaim(pool: &Arc<Pool>, slot: u32, len: usize, queue: QueueId) -> Option<Self> {
        let slot = Slot::reclaim(pool, slot, queue)?;
        Some(Self { len: len.min(slot.size()), slot })
    }
}

impl Deref for Buf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.slot.bytes(self.len)
    }
}

impl DerefMut for Buf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.slot.bytes_mut(self.len)
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buf")
            .field("slot", &self.slot.index())
            .field("len", &self.len)
            .field("capacity", &self.capacity())
            .finish()
    }
}

//! A pool of registered buffers.

use crate::{Buf, verbs};
use std::{fmt, sync::Arc};

/// Registered memory, cut into slots of one size. [`take`](Self::take) gives a [`Buf`]; a `Buf` that is
/// dropped returns its slot. Peers cannot reach it: it is registered for local access only.
///
/// A pool is shared by reference between threads. Dropping it frees the memory once no `Buf` and no
/// queue that it is attached to is left.
pub struct Pool(Arc<verbs::pool::Pool>);

impl Pool {
    pub(crate) fn new(pool: Arc<verbs::pool::Pool>) -> Self {
        Self(pool)
    }

    pub(crate) fn verbs(&self) -> &Arc<verbs::pool::Pool> {
        &self.0
    }

    /// Takes a buffer, its length the slot size; None if none is free. Its bytes are what the slot last
    /// held, zeros at first.
    #[inline]
    pub fn take(&self) -> Option<Buf> {
        self.0.take().map(Buf::whole)
    }

    /// How many slots it has.
    pub fn slots(&self) -> u32 {
        self.0.slots()
    }

    /// The size of a slot in bytes.
    pub fn slot_size(&self) -> usize {
        self.0.slot_size()
    }

    /// How many slots are free at this moment.
    pub fn free(&self) -> u32 {
        self.0.free()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("slots", &self.slots())
            .field("slot_size", &self.slot_size())
            .field("free", &self.free())
            .finish()
    }
}

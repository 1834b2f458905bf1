//! A protection domain, from which pools and initiators are made.

use crate::{
    CompletionQueue, Error, ErrorKind, InitiatorBuilder, Pool, Result,
    verbs::{self, pd::Pd},
};
use std::{fmt, sync::Arc};

/// A protection domain: memory and queues of one domain may be used together.
#[doc(alias = "ibv_pd")]
pub struct ProtectionDomain(Arc<Pd>);

impl ProtectionDomain {
    pub(crate) fn new(pd: Arc<Pd>) -> Self {
        Self(pd)
    }

    pub(crate) fn verbs(&self) -> &Arc<Pd> {
        &self.0
    }

    /// Creates a pool of `slots` buffers of `slot_size` bytes each, registered for local access.
    ///
    /// Verb: [`ibv_reg_mr`](https://man7.org/linux/man-pages/man3/ibv_reg_mr.3.html).
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] most often means that the limit on locked memory is too low; the text
    /// gives it. [`ErrorKind::InvalidInput`] for no slots, or slots of no size or of 2^31 bytes or more.
    #[doc(alias = "ibv_reg_mr")]
    pub fn pool(&self, slots: u32, slot_size: usize) -> Result<Pool> {
        verbs::pool::Pool::new(&self.0, slots, slot_size).map(Pool::new)
    }

    /// Creates an initiator that completes to `cq`.
    pub fn create_initiator(&self, cq: &CompletionQueue) -> InitiatorBuilder {
        InitiatorBuilder::new(Arc::clone(&self.0), Arc::clone(cq.verbs()))
    }

    /// Deallocates it.
    ///
    /// Verb: [`ibv_dealloc_pd`](https://man7.org/linux/man-pages/man3/ibv_alloc_pd.3.html). Dropping does
    /// the same, later: when what was made from it is gone too.
    ///
    /// # Errors
    /// The domain comes back with the reason: [`ErrorKind::Busy`] while pools, SRQs, initiators or
    /// builders of it live.
    #[doc(alias = "ibv_dealloc_pd")]
    pub fn close(self) -> std::result::Result<(), (Self, Error)> {
        match Arc::try_unwrap(self.0) {
            Err(shared) => {
                let error = Error::refused(
                    "ibv_dealloc_pd",
                    ErrorKind::Busy,
                    "pools, SRQs, initiators or builders of it live",
                )
                .device(shared.context().name());
                Err((Self(shared), error))
            }
            Ok(mut pd) => pd.destroy().map_err(|error| (Self(Arc::new(pd)), error)),
        }
    }
}

impl fmt::Debug for ProtectionDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtectionDomain").field("device", self.0.context().name()).finish()
    }
}

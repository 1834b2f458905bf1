//! An XRC SRQ: where a process receives.

use crate::{
    Buf, Error, Pool, PostError, Result, SrqNumber,
    verbs::{self, cq::Cq, domain::Domain, pd::Pd},
};
use std::{fmt, sync::Arc};

/// A shared receive queue of an XRC domain. Peers name it by its [number](Self::number); one SRQ
/// receives over all targets of its domain.
///
/// Its receives complete to its completion queue, in any order. Dropping it frees the buffers that are
/// posted, after the device has let go of them; messages that arrived and were not polled are lost.
///
/// It is made of a domain, a protection domain and a completion queue, and of no less:
/// ```compile_fail,E0061
/// # use rdma_xrc::{ProtectionDomain, Result, XrcDomain, XrcSrq};
/// fn without_a_cq(domain: &XrcDomain, pd: &ProtectionDomain) -> Result<XrcSrq> {
///     domain.create_srq(pd).build()
/// }
/// ```
/// ```
/// # use rdma_xrc::{CompletionQueue, ProtectionDomain, Result, XrcDomain, XrcSrq};
/// fn with_all(domain: &XrcDomain, pd: &ProtectionDomain, cq: &CompletionQueue) -> Result<XrcSrq> {
///     domain.create_srq(pd, cq).build()
/// }
/// ```
#[doc(alias("ibv_srq", "IBV_SRQT_XRC"))]
pub struct XrcSrq(verbs::srq::Srq);

impl XrcSrq {
    pub(crate) fn verbs(&self) -> &verbs::srq::Srq {
        &self.0
    }

    /// The number by which peers send to it.
    #[doc(alias = "ibv_get_srq_num")]
    pub fn number(&self) -> SrqNumber {
        self.0.number()
    }

    /// How many receives may be posted at a time.
    pub fn capacity(&self) -> u32 {
        self.0.slots().depth()
    }

    /// How many are posted and have not come back through the completion queue.
    pub fn posted(&self) -> u32 {
        self.0.slots().posted()
    }

    /// Posts a buffer to receive one message, up to its capacity. The completion brings the buffer and
    /// the tag back.
    ///
    /// Verb: [`ibv_post_srq_recv`](https://man7.org/linux/man-pages/man3/ibv_post_srq_recv.3.html).
    ///
    /// # Errors
    /// The buffer comes back with the reason.
    #[doc(alias = "ibv_post_srq_recv")]
    #[inline]
    pub fn post(&mut self, buf: Buf, tag: u64) -> std::result::Result<(), PostError> {
        self.0.post(buf, tag)
    }

    /// Destroys it. Buffers that are posted return to their pools.
    ///
    /// Verb: [`ibv_destroy_srq`](https://man7.org/linux/man-pages/man3/ibv_create_srq.3.html). Dropping
    /// does the same.
    ///
    /// # Errors
    /// The SRQ comes back with the kernel's reason.
    #[doc(alias = "ibv_destroy_srq")]
    pub fn close(mut self) -> std::result::Result<(), (Self, Error)> {
        self.0.destroy().map_err(|error| (self, error))
    }
}

impl fmt::Debug for XrcSrq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XrcSrq")
            .field("number", &self.number())
            .field("capacity", &self.capacity())
            .field("posted", &self.posted())
            .finish()
    }
}

/// What an SRQ is to be; see [`XrcDomain::create_srq`](crate::XrcDomain::create_srq).
#[must_use = "nothing is created before `build`"]
pub struct XrcSrqBuilder {
    domain: Arc<Domain>,
    pd: Arc<Pd>,
    cq: Arc<Cq>,
    pools: Vec<Arc<verbs::pool::Pool>>,
    max_wr: u32,
}

impl XrcSrqBuilder {
    pub(crate) fn new(domain: Arc<Domain>, pd: Arc<Pd>, cq: Arc<Cq>) -> Self {
        Self { domain, pd, cq, pools: Vec::new(), max_wr: 128 }
    }

    /// How many receives may be posted at a time. Default 128.
    pub fn max_wr(mut self, count: u32) -> Self {
        self.max_wr = count;
        self
    }

    /// Attaches a pool, whose buffers may be posted. May be called again for more pools.
    pub fn pool(mut self, pool: &Pool) -> Self {
        self.pools.push(Arc::clone(pool.verbs()));
        self
    }

    /// Creates it.
    ///
    /// Verb: [`ibv_create_srq_ex`](https://man7.org/linux/man-pages/man3/ibv_create_srq_ex.3.html) with
    /// type `XRC`.
    ///
    /// # Errors
    /// [`CapacityExceeded`](crate::ErrorKind::CapacityExceeded) if the completion queue cannot hold what
    /// this SRQ and the queues that use it already could have in flight;
    /// [`DeviceMismatch`](crate::ErrorKind::DeviceMismatch) if the parts are of different devices;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if a pool is of another protection domain.
    #[doc(alias = "ibv_create_srq_ex")]
    pub fn build(self) -> Result<XrcSrq> {
        verbs::srq::Srq::create(&self.domain, &self.pd, &self.cq, &self.pools, self.max_wr).map(XrcSrq)
    }
}

impl fmt::Debug for XrcSrqBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XrcSrqBuilder")
            .field("max_wr", &self.max_wr)
            .field("pools", &self.pools.len())
            .finish_non_exhaustive()
    }
}

//! An initiator: the sending end of a connection.

use crate::{
    Buf, ConnectOptions, Endpoint, Error, LocalPort, Pool, PostError, Psn, QpNumber, QpState, Result,
    SrqNumber,
    connect::Path,
    verbs::{
        self,
        cq::Cq,
        initiator::{Capacities, Payload},
        pd::Pd,
    },
};
use std::{fmt, sync::Arc};

/// An XRC initiator: it sends, and every send names the SRQ that receives it.
///
/// It receives nothing, so it has no receive queue and none of the responder's attributes. Its sends
/// complete in order. Dropping it frees the buffers that are in flight, after the device has let go of
/// them.
///
/// A number of a queue pair is no number of an SRQ, and there is no sending without one:
/// ```compile_fail,E0308
/// # use rdma_xrc::{Buf, Initiator, QpNumber};
/// fn send(initiator: &mut Initiator, buf: Buf, peer: QpNumber) {
///     let _ = initiator.send(peer, buf, 0);
/// }
/// ```
/// ```compile_fail,E0061
/// # use rdma_xrc::{Buf, Initiator};
/// fn send(initiator: &mut Initiator, buf: Buf) {
///     let _ = initiator.send(buf, 0);
/// }
/// ```
/// ```compile_fail,E0599
/// # use rdma_xrc::{InitiatorBuilder, Initiator, Result};
/// fn receiving(builder: InitiatorBuilder) -> Result<Initiator> {
///     builder.max_recv_wr(1).build()
/// }
/// ```
/// ```
/// # use rdma_xrc::{Buf, Initiator, InitiatorBuilder, Result, SrqNumber};
/// fn send(initiator: &mut Initiator, buf: Buf, peer: SrqNumber) {
///     let _ = initiator.send(peer, buf, 0);
/// }
/// fn sending(builder: InitiatorBuilder) -> Result<Initiator> {
///     builder.max_send_wr(1).build()
/// }
/// ```
#[doc(alias("ibv_qp", "IBV_QPT_XRC_SEND", "INI"))]
pub struct Initiator {
    initiator: verbs::initiator::Initiator,
    psn: Psn,
}

/// What a send is to be beside its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendOptions {
    pub(crate) imm: Option<u32>,
    pub(crate) signalled: bool,
    pub(crate) solicited: bool,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self { imm: None, signalled: true, solicited: false }
    }
}

impl SendOptions {
    /// No immediate value, with a completion of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// An immediate value for the receiver, which arrives there as the same number.
    pub fn imm(mut self, imm: u32) -> Self {
        self.imm = Some(imm);
        self
    }

    /// Whether the send asks for a completion of its own. Without one it is reported, and its buffer
    /// comes back, with the next completion of its initiator; at least one send in every half queue is
    /// made to ask. Default true.
    pub fn signalled(mut self, signalled: bool) -> Self {
        self.signalled = signalled;
        self
    }

    /// Whether the receiver's completion counts as solicited. Default false.
    pub fn solicited(mut self, solicited: bool) -> Self {
        self.solicited = solicited;
        self
    }
}

impl Initiator {
    pub(crate) fn verbs(&self) -> &verbs::initiator::Initiator {
        &self.initiator
    }

    /// Its number, which the peer's target is connected to.
    pub fn qp_number(&self) -> QpNumber {
        self.initiator.qp().number()
    }

    /// The sequence number it begins with, drawn when it was created.
    pub fn psn(&self) -> Psn {
        self.psn
    }

    /// How many bytes [`send_inline`](Self::send_inline) takes, as the device granted it.
    pub fn max_inline(&self) -> u32 {
        self.initiator.max_inline()
    }

    /// How many sends may be in flight.
    pub fn capacity(&self) -> u32 {
        self.initiator.ring().depth()
    }

    /// How many sends were posted and have not come back through the completion queue.
    pub fn in_flight(&self) -> u32 {
        self.initiator.ring().in_flight()
    }

    /// The state as the device has it.
    ///
    /// Verb: [`ibv_query_qp`](https://man7.org/linux/man-pages/man3/ibv_query_qp.3.html).
    ///
    /// # Errors
    /// The driver's reason.
    #[doc(alias = "ibv_query_qp")]
    pub fn state(&self) -> Result<QpState> {
        self.initiator.qp().state()
    }

    /// Connects to the peer's target: RESET to RTS in one step, all or nothing.
    ///
    /// Verb: [`ibv_modify_qp`](https://man7.org/linux/man-pages/man3/ibv_modify_qp.3.html), three times.
    ///
    /// # Errors
    /// The initiator is in RESET again and can be connected anew.
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a path that cannot work, refused before the
    /// first call; for an option out of range; or for a value that the driver refuses, with the
    /// transition named. [`Busy`](crate::ErrorKind::Busy) if it is connected already, and then it stays so.
    #[doc(alias = "ibv_modify_qp")]
    pub fn connect(&mut self, port: &LocalPort, remote: &Endpoint, options: &ConnectOptions) -> Result<()> {
        const CALL: &str = "Initiator::connect";
        self.initiator.qp().context().same(port.verbs(), CALL, "port")?;
        let path = Path::find(CALL, port, remote, options)?;
        self.initiator.connect(&path, self.psn, remote, options)
    }

    /// Sends a buffer's bytes to an SRQ of the peer's. The completion brings the buffer and the tag back.
    ///
    /// Verb: [`ibv_post_send`](https://man7.org/linux/man-pages/man3/ibv_post_send.3.html).
    ///
    /// # Errors
    /// The buffer comes back with the reason; nothing was sent.
    #[doc(alias = "ibv_post_send")]
    #[inline]
    pub fn send(&mut self, srq: SrqNumber, buf: Buf, tag: u64) -> std::result::Result<(), PostError> {
        self.send_with(srq, buf, tag, SendOptions::default())
    }

    /// As [`send`](Self::send), with an immediate value.
    ///
    /// # Errors
    /// As `send`.
    #[inline]
    pub fn send_with_imm(
        &mut self,
        srq: SrqNumber,
        buf: Buf,
        imm: u32,
        tag: u64,
    ) -> std::result::Result<(), PostError> {
        self.send_with(srq, buf, tag, SendOptions::default().imm(imm))
    }

    /// As [`send`](Self::send), with options.
    ///
    /// # Errors
    /// As `send`.
    #[inline]
    pub fn send_with(
        &mut self,
        srq: SrqNumber,
        buf: Buf,
        tag: u64,
        options: SendOptions,
    ) -> std::result::Result<(), PostError> {
        self.initiator.post(srq, Payload::Buf(buf), tag, options)
    }

    /// Sends a few bytes, which are copied into the work request before the call returns; they may lie
    /// anywhere. The completion has the tag and no buffer.
    ///
    /// # Errors
    /// [`InlineTooLong`](crate::PostErrorReason::InlineTooLong) above [`max_inline`](Self::max_inline), and
    /// as `send`.
    #[doc(alias = "IBV_SEND_INLINE")]
    #[inline]
    pub fn send_inline(
        &mut self,
        srq: SrqNumber,
        bytes: &[u8],
        tag: u64,
    ) -> std::result::Result<(), PostError> {
        self.send_inline_with(srq, bytes, tag, SendOptions::default())
    }

    /// As [`send_inline`](Self::send_inline), with options.
    ///
    /// # Errors
    /// As `send_inline`.
    #[inline]
    pub fn send_inline_with(
        &mut self,
        srq: SrqNumber,
        bytes: &[u8],
        tag: u64,
        options: SendOptions,
    ) -> std::result::Result<(), PostError> {
        self.initiator.post(srq, Payload::Inline(bytes), tag, options)
    }

    /// Destroys it. Buffers in flight return to their pools.
    ///
    /// Verb: [`ibv_destroy_qp`](https://man7.org/linux/man-pages/man3/ibv_create_qp.3.html). Dropping does
    /// the same.
    ///
    /// # Errors
    /// The initiator comes back with the kernel's reason.
    #[doc(alias = "ibv_destroy_qp")]
    pub fn close(mut self) -> std::result::Result<(), (Self, Error)> {
        self.initiator.destroy().map_err(|error| (self, error))
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator")
            .field("qp_number", &self.qp_number())
            .field("capacity", &self.capacity())
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

/// What an initiator is to be; see
/// [`ProtectionDomain::create_initiator`](crate::ProtectionDomain::create_initiator).
#[must_use = "nothing is created before `build`"]
pub struct InitiatorBuilder {
    pd: Arc<Pd>,
    cq: Arc<Cq>,
    pools: Vec<Arc<verbs::pool::Pool>>,
    capacities: Capacities,
}

impl InitiatorBuilder {
    pub(crate) fn new(pd: Arc<Pd>, cq: Arc<Cq>) -> Self {
        Self { pd, cq, pools: Vec::new(), capacities: Capacities { max_send_wr: 128, max_inline: 0 } }
    }

    /// How many sends may be in flight. Default 128.
    pub fn max_send_wr(mut self, count: u32) -> Self {
        self.capacities.max_send_wr = count;
        self
    }

    /// How many bytes may be sent inline; the device may grant more. Default 0.
    pub fn max_inline(mut self, bytes: u32) -> Self {
        self.capacities.max_inline = bytes;
        self
    }

    /// Attaches a pool, whose buffers may be sent. May be called again for more pools.
    pub fn pool(mut self, pool: &Pool) -> Self {
        self.pools.push(Arc::clone(pool.verbs()));
        self
    }

    /// Creates it, not connected.
    ///
    /// Verb: [`ibv_create_qp_ex`](https://man7.org/linux/man-pages/man3/ibv_create_qp_ex.3.html) with type
    /// `XRC_SEND`.
    ///
    /// # Errors
    /// [`CapacityExceeded`](crate::ErrorKind::CapacityExceeded) if the completion queue cannot hold what
    /// this initiator and the queues that use it already could have in flight;
    /// [`DeviceMismatch`](crate::ErrorKind::DeviceMismatch) if the parts are of different devices;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if a pool is of another protection domain, or for
    /// more than the device has.
    #[doc(alias = "ibv_create_qp_ex")]
    pub fn build(self) -> Result<Initiator> {
        let initiator =
            verbs::initiator::Initiator::create(&self.pd, &self.cq, &self.pools, &self.capacities)?;
        Ok(Initiator { initiator, psn: Psn::random() })
    }
}

impl fmt::Debug for InitiatorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitiatorBuilder")
            .field("max_send_wr", &self.capacities.max_send_wr)
            .field("max_inline", &self.capacities.max_inline)
            .field("pools", &self.pools.len())
            .finish_non_exhaustive()
    }
}

//! A target: the receiving end of a connection.

use crate::{
    ConnectOptions, Endpoint, Error, LocalPort, Psn, QpNumber, QpState, Result, connect::Path, verbs,
};
use std::fmt;

/// An XRC target: messages of one initiator arrive through it, for any SRQ of its domain.
///
/// This is its creator's handle. Others of the domain, in this process or another, can open it by its number
/// ([`OpenedTarget`](crate::OpenedTarget)), and then it lives until the last of them all lets go.
///
/// It has no protection domain, no completion queue and nothing to post to:
/// ```compile_fail,E0599
/// # use rdma_xrc::{Buf, SrqNumber, Target};
/// fn send(target: &mut Target, srq: SrqNumber, buf: Buf) {
///     let _ = target.send(srq, buf, 0);
/// }
/// ```
/// ```compile_fail,E0599
/// # use rdma_xrc::{Buf, Target};
/// fn receive(target: &mut Target, buf: Buf) {
///     let _ = target.post(buf, 0);
/// }
/// ```
/// ```
/// # use rdma_xrc::{Buf, XrcSrq};
/// fn receive(srq: &mut XrcSrq, buf: Buf) {
///     let _ = srq.post(buf, 0);
/// }
/// ```
#[doc(alias("ibv_qp", "IBV_QPT_XRC_RECV", "TGT"))]
pub struct Target {
    target: verbs::target::Target,
    psn: Psn,
}

impl Target {
    pub(crate) fn new(target: verbs::target::Target) -> Self {
        Self { target, psn: Psn::random() }
    }

    pub(crate) fn verbs(&self) -> &verbs::target::Target {
        &self.target
    }

    /// Its number, which the peer's initiator is connected to.
    pub fn qp_number(&self) -> QpNumber {
        self.target.qp().number()
    }

    /// The sequence number it begins with, drawn when it was created.
    pub fn psn(&self) -> Psn {
        self.psn
    }

    /// The state as the device has it.
    ///
    /// Verb: [`ibv_query_qp`](https://man7.org/linux/man-pages/man3/ibv_query_qp.3.html).
    ///
    /// # Errors
    /// The driver's reason.
    #[doc(alias = "ibv_query_qp")]
    pub fn state(&self) -> Result<QpState> {
        self.target.qp().state()
    }

    /// Connects to the peer's initiator: RESET to RTS in one step, all or nothing.
    ///
    /// Verb: [`ibv_modify_qp`](https://man7.org/linux/man-pages/man3/ibv_modify_qp.3.html), three times.
    ///
    /// # Errors
    /// The target is in RESET again and can be connected anew; the kinds are those of
    /// [`Initiator::connect`](crate::Initiator::connect).
    #[doc(alias = "ibv_modify_qp")]
    pub fn connect(&mut self, port: &LocalPort, remote: &Endpoint, options: &ConnectOptions) -> Result<()> {
        const CALL: &str = "Target::connect";
        self.target.qp().context().same(port.verbs(), CALL, "port")?;
        let path = Path::find(CALL, port, remote, options)?;
        self.target.connect(&path, self.psn, remote, options)
    }

    /// Lets go of it. One that nobody else can hold is stopped, so that no message is on its way through it,
    /// and destroyed. In the domain of a file others may hold it, as may an
    /// [`OpenedTarget`](crate::OpenedTarget) of this process: then it is not stopped, goes on if somebody does
    /// hold it, and is destroyed if not. A message that is on its way through it then may be lost after it was
    /// received: see [`OpenedTarget::close`](crate::OpenedTarget::close).
    ///
    /// Verb: [`ibv_destroy_qp`](https://man7.org/linux/man-pages/man3/ibv_create_qp.3.html). Dropping does
    /// the same.
    ///
    /// # Errors
    /// The target comes back with the kernel's reason.
    #[doc(alias = "ibv_destroy_qp")]
    pub fn close(mut self) -> std::result::Result<(), (Self, Error)> {
        self.target.destroy().map_err(|error| (self, error))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("qp_number", &self.qp_number()).finish_non_exhaustive()
    }
}

//! A target that somebody else created, opened by its number.

use crate::{Error, QpNumber, QpState, Result, verbs};
use std::fmt;

/// A further handle of a [`Target`](crate::Target), by which this process keeps it alive;
/// [`XrcDomain::open_target`](crate::XrcDomain::open_target) makes it.
///
/// A target lives until its last holder lets go of it: the one who created it, and each who has opened it,
/// in whatever process. A process that dies lets go. A target whose creator was alone with it ends with the
/// creator, though the domain lives on, so a process that is to keep it opens it before.
///
/// What it can do is to hold, and to say the [`state`](Self::state): the target was connected by its creator,
/// whatever arrives through it goes to the SRQs of the domain, and nothing is posted to a target:
/// ```compile_fail,E0599
/// # use rdma_xrc::{ConnectOptions, Endpoint, LocalPort, OpenedTarget};
/// fn connect(target: &mut OpenedTarget, port: &LocalPort, peer: &Endpoint) {
///     let _ = target.connect(port, peer, &ConnectOptions::new());
/// }
/// ```
/// ```
/// # use rdma_xrc::{ConnectOptions, Endpoint, LocalPort, Target};
/// fn connect(target: &mut Target, port: &LocalPort, peer: &Endpoint) {
///     let _ = target.connect(port, peer, &ConnectOptions::new());
/// }
/// ```
/// Today's kernels tell only the creator of a target's asynchronous events.
///
/// # What providers do
/// * mlx4: nothing of note.
/// * mlx5: each handle that was opened and closed leaves about 1 KB in memory (976 bytes with
///   rdma-core 44) until the process ends. The provider of rdma-core 40 and later (64 included) would crash if
///   it were asked to close one, so the crate asks the kernel instead, and cannot free what the provider
///   allocated.
/// * hns (from its source; it has not run): messages that come through another process's target are received
///   only while it is open here too, and a process that opens its own target a second time receives nothing
///   through it once it has closed either. What is not received is an error of
///   [`CompletionQueue::poll`](crate::CompletionQueue::poll).
/// * qedr: opens no targets.
#[doc(alias("ibv_open_qp", "ibv_qp", "IBV_QPT_XRC_RECV", "TGT"))]
pub struct OpenedTarget(verbs::opened::Opened);

impl OpenedTarget {
    pub(crate) fn new(opened: verbs::opened::Opened) -> Self {
        Self(opened)
    }

    /// Its number, the same for all its holders.
    pub fn qp_number(&self) -> QpNumber {
        self.0.qp().number()
    }

    /// The state as the device has it, whoever changed it.
    ///
    /// Verb: [`ibv_query_qp`](https://man7.org/linux/man-pages/man3/ibv_query_qp.3.html).
    ///
    /// # Errors
    /// The driver's reason.
    #[doc(alias = "ibv_query_qp")]
    pub fn state(&self) -> Result<QpState> {
        self.0.qp().state()
    }

    /// Lets go of it. The target goes on if others hold it, and ends if this was the last: as it is, for through
    /// such a handle a target cannot be stopped. So let its peer stop sending before. With a provider that looks
    /// at the target of each receive that it polls (hns), one that arrives in the very moment of the end is an
    /// error of [`CompletionQueue::poll`](crate::CompletionQueue::poll), and its buffer comes back with the end of
    /// the SRQ.
    ///
    /// Verb: [`ibv_destroy_qp`](https://man7.org/linux/man-pages/man3/ibv_create_qp.3.html); on mlx5 the
    /// kernel's call behind it. Dropping does the same.
    ///
    /// # Errors
    /// The handle comes back with the kernel's reason.
    #[doc(alias = "ibv_destroy_qp")]
    pub fn close(mut self) -> std::result::Result<(), (Self, Error)> {
        self.0.destroy().map_err(|error| (self, error))
    }
}

impl fmt::Debug for OpenedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedTarget").field("qp_number", &self.qp_number()).finish_non_exhaustive()
    }
}

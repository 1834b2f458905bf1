//! An initiator: the sending end of a connection.
//!
//! # Safety
//! The QP lives as long as this owner, and so do its PD and its CQ. A posted send names one slot of an
//! attached pool, which this queue owns from before the call until its completion or the QP's end
//! (`bookkeeping`); or it is inline, and then its bytes are read during the call only. Their number is
//! checked against what the device granted, because some providers do not.

use super::{
    convert::errno_value,
    cq::{Cq, Reservation, end_of_qp, note_stale},
    modify::{all_or_nothing, to_init, to_rtr, to_rts},
    pd::Pd,
    pool::Pool,
    qp::Qp,
    sys::{self, ibv_qp_init_attr_ex, ibv_send_wr, ibv_sge},
};
use crate::{
    Buf, Endpoint, Error, ErrorKind, PostError, PostErrorReason, Psn, Result, SendOptions, SrqNumber,
    attributes::Role,
    bookkeeping::{book::Book, pools::AttachedPools, send_ring::SendRing, wr_id::QueueId},
    connect::{ConnectOptions, Path},
};
use std::sync::Arc;

const VERB: &str = "ibv_create_qp_ex";

pub(crate) struct Initiator {
    qp: Qp,
    ring: Arc<SendRing>,
    /// None once it was destroyed, or leaked.
    parents: Option<(Arc<Pd>, Reservation)>,
    max_inline: u32,
    /// The longest message of the port that it is connected by.
    max_message: u32,
    connected: bool,
    /// Requests posted since the last that asked for a completion.
    unsignalled: u32,
}

/// What a send carries.
pub(crate) enum Payload<'a> {
    Buf(Buf),
    Inline(&'a [u8]),
}

/// What the builder collected.
pub(crate) struct Capacities {
    pub max_send_wr: u32,
    pub max_inline: u32,
}

impl Initiator {
    pub(crate) fn create(
        pd: &Arc<Pd>,
        cq: &Arc<Cq>,
        pools: &[Arc<Pool>],
        wanted: &Capacities,
    ) -> Result<Self> {
        let context = pd.context();
        context.ours(VERB)?;
        context.same(cq.context(), VERB, "completion queue")?;
        let refused = |kind, detail: &'static str| {
            Error::refused(VERB, kind, detail).device(context.name()).object("initiator")
        };
        if wanted.max_send_wr == 0 {
            return Err(refused(ErrorKind::InvalidInput, "a depth of 0"));
        }
        if pools.iter().any(|pool| !Arc::ptr_eq(pool.pd(), pd)) {
            return Err(refused(ErrorKind::InvalidInput, "a pool is of another protection domain"));
        }
        let pools = AttachedPools::new(VERB, pools)?;
        let reservation = Reservation::new(cq, VERB, wanted.max_send_wr)?;
        let id = QueueId::allocate()
            .ok_or_else(|| refused(ErrorKind::CapacityExceeded, "2^31 queues were created"))?;
        let mut attr = ibv_qp_init_attr_ex {
            qp_type: sys::IBV_QPT_XRC_SEND,
            comp_mask: sys::IBV_QP_INIT_ATTR_PD,
            pd: pd.as_ptr(),
            send_cq: cq.as_ptr(),
            ..Default::default()
        };
        attr.cap.max_send_wr = wanted.max_send_wr;
        attr.cap.max_send_sge = 1;
        attr.cap.max_inline_data = wanted.max_inline;
        let qp = Qp::create(context, Role::Initiator, &mut attr).map_err(|error| {
            error.detail(format!("depth {}, inline {}", wanted.max_send_wr, wanted.max_inline))
        })?;
        // The call wrote back what it granted. The ring keeps to what was asked for.
        let max_inline = attr.cap.max_inline_data;
        let ring = Arc::new(SendRing::new(id, pools, wanted.max_send_wr));
        reservation.open_book(Book::Send(Arc::clone(&ring)));
        let parents = Some((Arc::clone(pd), reservation));
        Ok(Self { qp, ring, parents, max_inline, max_message: 0, connected: false, unsignalled: 0 })
    }

    pub(crate) fn qp(&self) -> &Qp {
        &self.qp
    }

    pub(crate) fn ring(&self) -> &SendRing {
        &self.ring
    }

    pub(crate) fn max_inline(&self) -> u32 {
        self.max_inline
    }

    pub(crate) fn connect(
        &mut self,
        path: &Path,
        psn: Psn,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<()> {
        self.qp.context().ours("Initiator::connect")?;
        if self.connected {
            return Err(Error::refused("Initiator::connect", ErrorKind::Busy, "it is connected already")
                .device(self.qp.context().name()));
        }
        if self.ring.in_flight() > 0 {
            // What a refused end left: the next connection's completions would speak for these sends.
            return Err(Error::refused("Initiator::connect", ErrorKind::Busy, "sends of it are in flight")
                .device(self.qp.context().name()));
        }
        all_or_nothing(&mut self.qp, |qp| {
            to_init(qp, path)?;
            to_rtr(qp, path, (remote.target, remote.target_psn), None)?;
            to_rts(qp, psn, options, true)
        })?;
        self.connected = true;
        self.max_message = path.max_message;
        Ok(())
    }

    /// `ibv_post_send(3)`, one send. All that can be checked is checked first.
    #[inline]
    pub(crate) fn post(
        &mut self,
        srq: SrqNumber,
        payload: Payload<'_>,
        tag: u64,
        options: SendOptions,
    ) -> std::result::Result<(), PostError> {
        let qp = match self.check(&payload) {
            Ok(qp) => qp,
            Err(reason) => return Err(PostError::new(reason, payload.into_buf())),
        };
        let id = self.ring.id();
        let mut flags = if options.solicited { sys::IBV_SEND_SOLICITED } else { 0 };
        // At least one request in every half queue asks for a completion, so that the ring never fills
        // with work that nothing would retire.
        let signalled = options.signalled || self.unsignalled + 1 >= (self.ring.depth() / 2).max(1);
        if signalled {
            flags |= sys::IBV_SEND_SIGNALED;
        }
        let (mut sge, given) = match payload {
            Payload::Inline(bytes) => {
                flags |= if bytes.is_empty() { 0 } else { sys::IBV_SEND_INLINE };
                (ibv_sge { addr: bytes.as_ptr() as u64, length: bytes.len() as u32, lkey: 0 }, None)
            }
            Payload::Buf(buf) => {
                let len = buf.len();
                match self.ring.pools().give(buf, len, id) {
                    Ok(posted) => (posted.place.sge(), Some((posted.slot, len as u32))),
                    Err(buf) => return Err(PostError::new(PostErrorReason::PoolNotAttached, Some(buf))),
                }
            }
        };
        let sequence = self.ring.claim(tag, given);
        let mut wr = ibv_send_wr {
            wr_id: id.wr_id(sequence),
            sg_list: &raw mut sge,
            // Some providers take a scatter entry of length 0 for 2^31 bytes.
            num_sge: i32::from(sge.length != 0),
            opcode: sys::IBV_WR_SEND,
            send_flags: flags,
            ..Default::default()
        };
        if let Some(imm) = options.imm {
            wr.opcode = sys::IBV_WR_SEND_WITH_IMM;
            wr.__bindgen_anon_1.imm_data = imm.to_be();
        }
        wr.qp_type.xrc.remote_srqn = srq.get();
        let mut bad = std::ptr::null_mut();
        // SAFETY: the QP is live and connected; the request and its scatter entry are valid during the
        // call; the entry names inline bytes within the granted limit, or a slot that is this queue's
        // until it completes or the QP is destroyed.
        let result = unsafe { sys::ibv_post_send(qp, &raw mut wr, &raw mut bad) };
        errno_value(result).map_err(|source| {
            self.ring.undo(sequence);
            let buf = given.and_then(|(slot, len)| self.ring.pools().reclaim(slot, len as usize, id));
            PostError::new(PostErrorReason::Os(source), buf)
        })?;
        self.unsignalled = if signalled { 0 } else { self.unsignalled + 1 };
        Ok(())
    }

    #[inline]
    fn check(&self, payload: &Payload<'_>) -> std::result::Result<*mut sys::ibv_qp, PostErrorReason> {
        let Some(qp) = self.qp.ptr().filter(|_| self.connected) else {
            return Err(PostErrorReason::NotConnected);
        };
        if !self.qp.context().is_unforked() {
            return Err(PostErrorReason::Forked);
        }
        if self.ring.is_full() {
            return Err(PostErrorReason::QueueFull { depth: self.ring.depth() });
        }
        match payload {
            Payload::Inline(bytes) if bytes.len() > self.max_inline as usize => {
                Err(PostErrorReason::InlineTooLong { len: bytes.len(), max: self.max_inline })
            }
            Payload::Buf(buf) if buf.len() > self.max_message as usize => {
                Err(PostErrorReason::MessageTooLong { len: buf.len(), max: self.max_message })
            }
            Payload::Buf(buf) if !self.ring.pools().has(buf) => Err(PostErrorReason::PoolNotAttached),
            _ => Ok(qp.as_ptr()),
        }
    }

    pub(crate) fn destroy(&mut self) -> Result<()> {
        self.qp.context().ours("ibv_destroy_qp")?;
        let Some((_, reservation)) = &self.parents else { return Ok(()) };
        // If the kernel refuses the end, the QP may have been stopped.
        self.connected = false;
        let stale = end_of_qp(&mut self.qp, Some((reservation.cq(), self.ring.id())), |_| true, |_| ())?;
        // The kernel has let go: the device touches none of the queue's slots any more.
        self.ring.pools().release_all(self.ring.id());
        self.parents = None;
        note_stale(self.qp.context(), stale);
        Ok(())
    }
}

impl Drop for Initiator {
    fn drop(&mut self) {
        if !self.qp.context().is_ours() {
            return;
        }
        if let Err(error) = self.destroy() {
            super::leak(&error, (self.parents.take(), Arc::clone(&self.ring)));
        }
    }
}

impl Payload<'_> {
    fn into_buf(self) -> Option<Buf> {
        match self {
            Self::Buf(buf) => Some(buf),
            Self::Inline(_) => None,
        }
    }
}

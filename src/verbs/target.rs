//! A target: the receiving end of a connection. It has no PD, no CQ and no queue of its own.
//!
//! # Safety
//! The QP lives as long as this owner, and so does its domain. Nothing is posted here: messages that
//! arrive go to the SRQs of the domain, whose own records say what memory they may use.

use super::{
    context::Changes,
    cq::{end_of_qp, note_stale},
    domain::Domain,
    modify::{all_or_nothing, to_init, to_rtr, to_rts},
    qp::Qp,
    sys::{self, ibv_qp_init_attr_ex},
};
use crate::{
    Endpoint, Error, ErrorKind, Psn, Result,
    attributes::Role,
    connect::{ConnectOptions, Path},
};
use std::sync::Arc;

pub(crate) struct Target {
    qp: Qp,
    domain: Arc<Domain>,
    connected: bool,
}

impl Target {
    pub(crate) fn create(domain: &Arc<Domain>) -> Result<Self> {
        domain.context().ours("ibv_create_qp_ex")?;
        let mut attr = ibv_qp_init_attr_ex {
            qp_type: sys::IBV_QPT_XRC_RECV,
            comp_mask: sys::IBV_QP_INIT_ATTR_XRCD,
            xrcd: domain.as_ptr(),
            ..Default::default()
        };
        let qp = Qp::create(domain.context(), Role::Target, &mut attr)?;
        Ok(Self { qp, domain: Arc::clone(domain), connected: false })
    }

    pub(crate) fn qp(&self) -> &Qp {
        &self.qp
    }

    pub(crate) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    pub(crate) fn connect(
        &mut self,
        path: &Path,
        psn: Psn,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<()> {
        self.qp.context().ours("Target::connect")?;
        if self.connected {
            return Err(Error::refused("Target::connect", ErrorKind::Busy, "it is connected already")
                .device(self.qp.context().name()));
        }
        all_or_nothing(&mut self.qp, |qp| {
            to_init(qp, path)?;
            to_rtr(qp, path, (remote.initiator, remote.initiator_psn), Some(options))?;
            to_rts(qp, psn, options, false)
        })?;
        self.connected = true;
        Ok(())
    }

    pub(crate) fn destroy(&mut self) -> Result<()> {
        self.qp.context().ours("ibv_destroy_qp")?;
        if self.qp.ptr().is_none() {
            return Ok(());
        }
        let (domain, number) = (&self.domain, self.qp.number());
        let connected = &mut self.connected;
        let alone = |changes: &Changes| {
            let alone = !domain.may_share(number, changes);
            // If the kernel refuses the end, the QP may have been stopped.
            *connected &= !alone;
            alone
        };
        let stale = end_of_qp(&mut self.qp, None, alone, |_| ())?;
        note_stale(self.qp.context(), stale);
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.qp.context().is_ours() {
            return;
        }
        if let Err(error) = self.destroy() {
            super::leak(&error, Arc::clone(&self.domain));
        }
    }
}

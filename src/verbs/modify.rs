//! The steps of a connection, RESET to RTS, for either role.
//!
//! # Safety
//! No unsafe operation here: the steps fill structures whose every bit pattern is valid and hand them to
//! [`Qp::modify`].

use super::{
    qp::Qp,
    sys::{self, ibv_ah_attr, ibv_qp_attr},
};
use crate::{
    Psn, QpNumber, QpState, Result,
    attributes::{Attributes, Transition},
    connect::{ConnectOptions, Path},
};

const INIT: Transition = Transition { from: QpState::Reset, to: QpState::Init };
const READY_TO_RECEIVE: Transition = Transition { from: QpState::Init, to: QpState::ReadyToReceive };
const READY_TO_SEND: Transition = Transition { from: QpState::ReadyToReceive, to: QpState::ReadyToSend };

/// RDMA reads and atomics in flight. Nothing in this crate makes any; the kernel asks for a number.
const RD_ATOMIC: u8 = 1;

/// Runs the steps of a connection. If one fails, the QP goes back to RESET and the reason comes back.
pub(super) fn all_or_nothing(qp: &mut Qp, steps: impl FnOnce(&mut Qp) -> Result<()>) -> Result<()> {
    steps(qp).map_err(|error| match qp.quiesce() {
        Ok(()) => error,
        Err(second) => error.and(&second),
    })
}

pub(super) fn to_init(qp: &mut Qp, path: &Path) -> Result<()> {
    let mut attr = ibv_qp_attr {
        port_num: path.port,
        pkey_index: path.pkey_index,
        // Nothing that a peer may reach by address exists in this crate, so it may reach nothing.
        qp_access_flags: 0,
        ..Default::default()
    };
    qp.modify(&mut attr, Attributes::PKEY_INDEX | Attributes::PORT | Attributes::ACCESS_FLAGS, INIT)
}

/// What the RTR step of both roles takes. A target's responder has two attributes more.
pub(super) fn to_rtr(
    qp: &mut Qp,
    path: &Path,
    (destination, psn): (QpNumber, Psn),
    responder: Option<&ConnectOptions>,
) -> Result<()> {
    let mut given = Attributes::AV | Attributes::PATH_MTU | Attributes::DEST_QPN | Attributes::RQ_PSN;
    let mut attr = ibv_qp_attr {
        ah_attr: address(path),
        path_mtu: path.mtu.code().into(),
        dest_qp_num: destination.get(),
        rq_psn: psn.get(),
        ..Default::default()
    };
    if let Some(options) = responder {
        given |= Attributes::MAX_DEST_RD_ATOMIC | Attributes::MIN_RNR_TIMER;
        attr.max_dest_rd_atomic = RD_ATOMIC;
        attr.min_rnr_timer = options.min_rnr_timer;
    }
    qp.modify(&mut attr, given, READY_TO_RECEIVE)
}

/// What the RTS step of both roles takes. An initiator's requester has three attributes more.
pub(super) fn to_rts(qp: &mut Qp, psn: Psn, options: &ConnectOptions, requester: bool) -> Result<()> {
    let mut given = Attributes::TIMEOUT | Attributes::SQ_PSN;
    let mut attr = ibv_qp_attr { timeout: options.timeout, sq_psn: psn.get(), ..Default::default() };
    if requester {
        given |= Attributes::RETRY_CNT | Attributes::RNR_RETRY | Attributes::MAX_QP_RD_ATOMIC;
        attr.retry_cnt = options.retry_count;
        attr.rnr_retry = options.rnr_retry;
        attr.max_rd_atomic = RD_ATOMIC;
    }
    qp.modify(&mut attr, given, READY_TO_SEND)
}

fn address(path: &Path) -> ibv_ah_attr {
    let mut attr = ibv_ah_attr {
        dlid: path.dlid.get(),
        sl: path.service_level,
        port_num: path.port,
        ..Default::default()
    };
    if let Some(route) = &path.route {
        attr.is_global = 1;
        attr.grh.dgid = sys::ibv_gid { raw: route.destination.bytes() };
        attr.grh.sgid_index = route.source_index;
        attr.grh.hop_limit = route.hop_limit;
    }
    attr
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table outside the fence writes the numbers out; they are the ABI's.
    #[test]
    fn attribute_bits_and_states_are_the_headers() {
        for (ours, theirs) in [
            (Attributes::STATE, sys::IBV_QP_STATE),
            (Attributes::CUR_STATE, sys::IBV_QP_CUR_STATE),
            (Attributes::EN_SQD_ASYNC_NOTIFY, sys::IBV_QP_EN_SQD_ASYNC_NOTIFY),
            (Attributes::ACCESS_FLAGS, sys::IBV_QP_ACCESS_FLAGS),
            (Attributes::PKEY_INDEX, sys::IBV_QP_PKEY_INDEX),
            (Attributes::PORT, sys::IBV_QP_PORT),
            (Attributes::QKEY, sys::IBV_QP_QKEY),
            (Attributes::AV, sys::IBV_QP_AV),
            (Attributes::PATH_MTU, sys::IBV_QP_PATH_MTU),
            (Attributes::TIMEOUT, sys::IBV_QP_TIMEOUT),
            (Attributes::RETRY_CNT, sys::IBV_QP_RETRY_CNT),
            (Attributes::RNR_RETRY, sys::IBV_QP_RNR_RETRY),
            (Attributes::RQ_PSN, sys::IBV_QP_RQ_PSN),
            (Attributes::MAX_QP_RD_ATOMIC, sys::IBV_QP_MAX_QP_RD_ATOMIC),
            (Attributes::ALT_PATH, sys::IBV_QP_ALT_PATH),
            (Attributes::MIN_RNR_TIMER, sys::IBV_QP_MIN_RNR_TIMER),
            (Attributes::SQ_PSN, sys::IBV_QP_SQ_PSN),
            (Attributes::MAX_DEST_RD_ATOMIC, sys::IBV_QP_MAX_DEST_RD_ATOMIC),
            (Attributes::PATH_MIG_STATE, sys::IBV_QP_PATH_MIG_STATE),
            (Attributes::CAP, sys::IBV_QP_CAP),
            (Attributes::DEST_QPN, sys::IBV_QP_DEST_QPN),
            (Attributes::RATE_LIMIT, sys::IBV_QP_RATE_LIMIT),
        ] {
            assert_eq!(ours.bits(), theirs, "{ours}");
        }
        for (ours, theirs) in [
            (QpState::Reset, sys::IBV_QPS_RESET),
            (QpState::Init, sys::IBV_QPS_INIT),
            (QpState::ReadyToReceive, sys::IBV_QPS_RTR),
            (QpState::ReadyToSend, sys::IBV_QPS_RTS),
            (QpState::SendQueueDrained, sys::IBV_QPS_SQD),
            (QpState::SendQueueError, sys::IBV_QPS_SQE),
            (QpState::Error, sys::IBV_QPS_ERR),
        ] {
            assert_eq!((ours.code(), QpState::from_code(theirs)), (theirs, ours));
        }
    }
}

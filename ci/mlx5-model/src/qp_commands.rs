//! The commands about queue pairs, and their state machine.

use crate::{
    bits::Field,
    command::{
        mailbox::{Input, Output},
        opcode::Opcode,
        status::{Refusal, Status, Syndrome},
    },
    device::Device,
    fields::{qpc, rst2init_qp_in},
    hw::{QpState, Service},
    objects::GuestId,
    qp::{Life, QueuePair, Receive},
};

/// Where the commands have the context and CREATE_QP the page list.
const CONTEXT: usize = 24;
const PAGES: usize = 272;

/// MTU codes: 256 to 4096 bytes.
const MTU_CODES: std::ops::RangeInclusive<u64> = 1..=5;

/// Bits of the mask of optional attributes.
mod optional {
    pub const ALTERNATE_PATH: u32 = 1 << 0;
    pub const REMOTE_READ: u32 = 1 << 1;
    pub const REMOTE_ATOMIC: u32 = 1 << 2;
    pub const REMOTE_WRITE: u32 = 1 << 3;
    pub const PKEY_INDEX: u32 = 1 << 4;
    pub const Q_KEY: u32 = 1 << 5;
    pub const RNR_TIMER: u32 = 1 << 6;
    pub const READS_SENT: u32 = 1 << 8;
    pub const READS_ACCEPTED: u32 = 1 << 9;
    pub const MIGRATION: u32 = 1 << 10;
    pub const RETRY_COUNT: u32 = 1 << 12;
    pub const RNR_RETRY: u32 = 1 << 13;
    pub const ACK_TIMEOUT: u32 = 1 << 14;
    pub const PORT: u32 = 1 << 16;
}

/// The optional attributes: each is taken where its bit is set and the transition allows it.
const OPTIONAL: &[(u32, &[Field])] = &[
    (optional::REMOTE_READ, &[qpc::RRE]),
    (optional::REMOTE_ATOMIC, &[qpc::RAE, qpc::ATOMIC_MODE]),
    (optional::REMOTE_WRITE, &[qpc::RWE]),
    (optional::PKEY_INDEX, &[qpc::PRIMARY_ADDRESS_PATH__PKEY_INDEX]),
    (optional::Q_KEY, &[qpc::Q_KEY]),
    (optional::RNR_TIMER, &[qpc::MIN_RNR_NAK]),
    (optional::READS_SENT, &[qpc::LOG_SRA_MAX]),
    (optional::READS_ACCEPTED, &[qpc::LOG_RRA_MAX]),
    (optional::MIGRATION, &[qpc::PM_STATE]),
    (optional::RETRY_COUNT, &[qpc::RETRY_COUNT]),
    (optional::RNR_RETRY, &[qpc::RNR_RETRY]),
    (optional::ACK_TIMEOUT, &[qpc::PRIMARY_ADDRESS_PATH__ACK_TIMEOUT]),
    (optional::PORT, &[qpc::PRIMARY_ADDRESS_PATH__VHCA_PORT_NUM]),
];

const ACCESS: u32 = optional::REMOTE_READ | optional::REMOTE_ATOMIC | optional::REMOTE_WRITE;

/// A transition: the command, where it starts (anywhere if nothing is said), where it ends, what it takes always
/// and what if asked.
struct Transition {
    opcode: Opcode,
    from: Option<QpState>,
    to: QpState,
    required: &'static [Field],
    optional: u32,
}

const TRANSITIONS: &[Transition] = &[
    Transition {
        opcode: Opcode::RST2INIT_QP,
        from: Some(QpState::Reset),
        to: QpState::Init,
        required: &[
            qpc::PM_STATE,
            qpc::PRIMARY_ADDRESS_PATH__PKEY_INDEX,
            qpc::PRIMARY_ADDRESS_PATH__VHCA_PORT_NUM,
            qpc::RRE,
            qpc::RWE,
            qpc::RAE,
            qpc::ATOMIC_MODE,
            qpc::Q_KEY,
        ],
        optional: 0,
    },
    Transition {
        opcode: Opcode::INIT2INIT_QP,
        from: Some(QpState::Init),
        to: QpState::Init,
        required: &[],
        optional: ACCESS | optional::PKEY_INDEX | optional::PORT | optional::Q_KEY,
    },
    Transition {
        opcode: Opcode::INIT2RTR_QP,
        from: Some(QpState::Init),
        to: QpState::ReadyToReceive,
        required: &[
            qpc::MTU,
            qpc::LOG_MSG_MAX,
            qpc::REMOTE_QPN,
            qpc::NEXT_RCV_PSN,
            qpc::LOG_RRA_MAX,
            qpc::MIN_RNR_NAK,
        ],
        optional: ACCESS | optional::PKEY_INDEX | optional::Q_KEY | optional::ALTERNATE_PATH,
    },
    Transition {
        opcode: Opcode::RTR2RTS_QP,
        from: Some(QpState::ReadyToReceive),
        to: QpState::ReadyToSend,
        required: &[
            qpc::PRIMARY_ADDRESS_PATH__ACK_TIMEOUT,
            qpc::RETRY_COUNT,
            qpc::RNR_RETRY,
            qpc::NEXT_SEND_PSN,
            qpc::LOG_SRA_MAX,
        ],
        optional: ACCESS
            | optional::RNR_TIMER
            | optional::Q_KEY
            | optional::MIGRATION
            | optional::ALTERNATE_PATH,
    },
    Transition {
        opcode: Opcode::RTS2RTS_QP,
        from: Some(QpState::ReadyToSend),
        to: QpState::ReadyToSend,
        required: &[],
        optional: ACCESS
            | optional::RNR_TIMER
            | optional::Q_KEY
            | optional::MIGRATION
            | optional::ALTERNATE_PATH,
    },
    Transition {
        opcode: Opcode::SQERR2RTS_QP,
        from: Some(QpState::SendError),
        to: QpState::ReadyToSend,
        required: &[],
        optional: ACCESS | optional::RNR_TIMER | optional::Q_KEY,
    },
    Transition {
        opcode: Opcode::SQD_RTS_QP,
        from: Some(QpState::SendDrained),
        to: QpState::ReadyToSend,
        required: &[],
        optional: u32::MAX,
    },
    Transition { opcode: Opcode::TO_ERR_QP, from: None, to: QpState::Error, required: &[], optional: 0 },
    Transition { opcode: Opcode::TO_RST_QP, from: None, to: QpState::Reset, required: &[], optional: 0 },
];

/// Where the context has its two address paths, and their length.
const PRIMARY_PATH: usize = 24;
const ALTERNATE_PATH: usize = 68;
const PATH_BYTES: usize = 44;

/// Copies a whole address path.
fn take_path(new: &[u8; qpc::BYTES], old: &mut [u8; qpc::BYTES], at: usize) {
    let path = at..at + PATH_BYTES;
    old[path.clone()].copy_from_slice(&new[path]);
}

impl QueuePair {
    /// Makes the transition on the context and the numbers derived from it.
    fn transit(&mut self, t: &Transition, input: &Input) -> Result<(), Refusal> {
        if t.from.is_some_and(|from| from != self.state) {
            return Err(Refusal::new(Status::BadQpState, Syndrome::WrongQpState));
        }
        if matches!(t.to, QpState::Error | QpState::Reset) {
            return Ok(());
        }
        let new: [u8; qpc::BYTES] = input.context(CONTEXT)?;
        let mask = input.get(rst2init_qp_in::OPT_PARAM_MASK) as u32 & t.optional;
        if t.to == QpState::ReadyToReceive {
            let connected = matches!(self.service, Service::Rc | Service::Uc | Service::Xrc);
            if connected && !MTU_CODES.contains(&qpc::MTU.get(&new)) {
                return Err(Refusal::parameter(Syndrome::BadAttribute));
            }
            // P_Key index and port came with an earlier transition.
            let kept = [qpc::PRIMARY_ADDRESS_PATH__PKEY_INDEX, qpc::PRIMARY_ADDRESS_PATH__VHCA_PORT_NUM]
                .map(|f| (f, f.get(&self.context)));
            take_path(&new, &mut self.context, PRIMARY_PATH);
            kept.into_iter().for_each(|(f, v)| f.set(&mut self.context, v));
        }
        t.required.iter().for_each(|f| f.copy(&new, &mut self.context));
        for (_, fields) in OPTIONAL.iter().filter(|(bit, _)| mask & bit != 0) {
            fields.iter().for_each(|f| f.copy(&new, &mut self.context));
        }
        if mask & optional::ALTERNATE_PATH != 0 {
            take_path(&new, &mut self.context, ALTERNATE_PATH);
        }
        match t.opcode {
            Opcode::INIT2RTR_QP => self.receive_psn = qpc::NEXT_RCV_PSN.get32(&self.context),
            Opcode::RTR2RTS_QP => self.send_psn = qpc::NEXT_SEND_PSN.get32(&self.context),
            _ => {}
        }
        self.state = t.to;
        Ok(())
    }

    fn query(&self) -> [u8; qpc::BYTES] {
        let mut c = self.context;
        qpc::STATE.set(&mut c, self.state as u64);
        qpc::NEXT_SEND_PSN.set(&mut c, self.send_psn.into());
        qpc::NEXT_RCV_PSN.set(&mut c, self.receive_psn.into());
        if let Some(send) = &self.send {
            qpc::HW_SQ_WQEBB_COUNTER.set(&mut c, send.next.into());
        }
        if let Receive::Own { next, .. } = self.receive {
            qpc::HW_RQ_COUNTER.set(&mut c, next.into());
        }
        c
    }
}

impl Device {
    /// CREATE_QP.
    pub fn create_qp(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let mut qp = QueuePair::new(guest, input.context(CONTEXT)?, input.pages(PAGES))?;
        qp.life = Life::new(self.engine.next_life());
        let o = &self.objects;
        // The driver's own QP for registration has no domain.
        if qp.service != Service::Umr {
            o.pds.owned(guest, qp.pd)?;
        }
        if qp.is_xrc_target() {
            o.xrcds.owned(guest, qp.xrcd)?;
        }
        if qp.send.is_some() {
            o.cqs.owned(guest, qp.send_cqn)?;
            if !self.guests[guest].uars.contains(&qp.uar()) {
                return Err(Refusal::missing(Syndrome::NoSuchUar));
            }
        }
        if qp.receives() {
            o.cqs.owned(guest, qp.receive_cqn)?;
        }
        if let Receive::Shared(srqn) = qp.receive {
            if o.srqs.owned(guest, srqn)?.xrcd().is_some() {
                return Err(Refusal::parameter(Syndrome::BadQpShape));
            }
        }
        output.set_object(self.objects.insert(qp)?);
        Ok(())
    }

    /// DESTROY_QP.
    pub fn destroy_qp(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        let qpn = input.object();
        self.objects.qps.owned(guest, qpn)?;
        if self.fabric.is_member(guest, qpn) {
            return Err(Refusal::in_use());
        }
        self.engine.forget_timer(qpn);
        self.objects.remove::<QueuePair>(guest, qpn).map(|_| ())
    }

    /// The commands that move a QP from state to state.
    pub fn modify_qp(&mut self, guest: GuestId, opcode: Opcode, input: &Input) -> Result<(), Refusal> {
        let qpn = input.object();
        let qp = self.objects.qps.owned_mut(guest, qpn)?;
        let t = TRANSITIONS
            .iter()
            .find(|t| t.opcode == opcode)
            .ok_or(Refusal::parameter(Syndrome::UnknownVariant))?;
        let was = qp.state;
        qp.transit(t, input)?;
        if was == QpState::SendError {
            self.resume_sends(qpn);
        }
        match t.to {
            QpState::Reset => {
                let life = self.engine.next_life();
                self.objects.qps.owned_mut(guest, qpn)?.reset(life);
            }
            QpState::Error => self.fail_qp(qpn, None),
            QpState::ReadyToSend => self.ring(qpn),
            _ => {}
        }
        Ok(())
    }

    /// QUERY_QP.
    pub fn query_qp(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let qp = self.objects.qps.owned(guest, input.object())?;
        output.put(CONTEXT, &qp.query());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw::ReceiveQueueType;

    fn qp() -> QueuePair {
        let mut c = [0; qpc::BYTES];
        qpc::RQ_TYPE.set(&mut c, ReceiveQueueType::Absent as u64);
        QueuePair::new(0, c, vec![0x1000]).unwrap()
    }

    fn input(mask: u32, set: &[(Field, u64)]) -> Input {
        let mut b = vec![0; 272];
        rst2init_qp_in::OPT_PARAM_MASK.set(&mut b, mask.into());
        set.iter().for_each(|(f, v)| f.within(CONTEXT).set(&mut b, *v));
        Input::new(b)
    }

    fn go(qp: &mut QueuePair, opcode: Opcode, i: &Input) -> Result<(), Refusal> {
        qp.transit(TRANSITIONS.iter().find(|t| t.opcode == opcode).unwrap(), i)
    }

    #[test]
    fn transitions_start_where_they_start() {
        let all = [
            QpState::Reset,
            QpState::Init,
            QpState::ReadyToReceive,
            QpState::ReadyToSend,
            QpState::SendError,
            QpState::SendDrained,
            QpState::Error,
        ];
        for t in TRANSITIONS {
            for state in all {
                let mut qp = qp();
                qp.state = state;
                let r = go(&mut qp, t.opcode, &input(0, &[(qpc::MTU, 3)]));
                assert_eq!(r.is_ok(), t.from.is_none_or(|f| f == state), "{:?} from {state:?}", t.opcode);
            }
        }
    }

    #[test]
    fn optional_attributes_are_taken_only_when_asked_for() {
        let mut qp = qp();
        let port = qpc::PRIMARY_ADDRESS_PATH__VHCA_PORT_NUM;
        go(&mut qp, Opcode::RST2INIT_QP, &input(0, &[(qpc::RWE, 1), (port, 1)])).unwrap();
        let rtr =
            [(qpc::MTU, 5), (qpc::NEXT_RCV_PSN, 77), (qpc::RRE, 1), (qpc::PRIMARY_ADDRESS_PATH__RLID, 9)];
        go(&mut qp, Opcode::INIT2RTR_QP, &input(optional::REMOTE_WRITE, &rtr)).unwrap();
        assert!(!qp.accepts(qpc::RRE), "not asked for");
        assert!(!qp.accepts(qpc::RWE), "asked for, and zero");
        assert_eq!((qp.receive_psn, qp.remote_lid(), qp.mtu()), (77, 9, 4096));
        assert_eq!(port.get(&qp.context), 1, "kept");
    }

    #[test]
    fn a_bad_mtu_and_a_short_input_are_refused() {
        let mut qp = qp();
        qp.state = QpState::Init;
        let r = go(&mut qp, Opcode::INIT2RTR_QP, &input(0, &[(qpc::MTU, 6)]));
        assert_eq!(r.unwrap_err().syndrome, Syndrome::BadAttribute);
        let r = go(&mut qp, Opcode::INIT2RTR_QP, &Input::new(vec![0; 100]));
        assert_eq!(r.unwrap_err().status, Status::BadInputLength);
        assert_eq!(qp.state, QpState::Init);
    }
}

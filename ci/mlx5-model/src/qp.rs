//! Queue pairs: what they are made of, and the numbers that the data path uses.

use std::{collections::HashSet, time::Instant};

use crate::{
    buffer::QueueBuffer,
    command::status::{Refusal, Syndrome},
    datapath::{receive::Answering, sending::Sending},
    fields::qpc,
    hw::{QpState, ReceiveQueueType, SEND_BLOCK_BYTES, Service},
    mkey::Accessor,
    objects::{GuestId, Kind, Object, Uses},
};

/// Log of the most entries (blocks) of a QP's queues and of an SRQ.
pub const LOG_MAX_QUEUE: u64 = 15;
/// Log of the largest receive entry.
pub const LOG_MAX_STRIDE: u64 = 11;
/// Longest scatter list of a receive.
pub const MAX_RECEIVE_BYTES: usize = 1 << LOG_MAX_STRIDE;
/// Entries are a multiple of this.
const LOG_MIN_STRIDE: u64 = 4;
/// Packet sequence numbers have 24 bits.
pub const PSN_MASK: u32 = 0xff_ffff;
/// A packet is lost if so many sequence numbers were used while it was under way: what lies behind by that much, and
/// by what else may be under way, still is behind (see [`AHEAD`](crate::datapath::packet::AHEAD)).
const MAX_AGE: u64 = 1 << 22;
/// MTU code 1 is 256 bytes, each next one twice that.
const MTU_BASE: u32 = 128;

/// The send queue.
#[derive(Clone, Debug)]
pub struct SendQueue {
    /// Where it begins in the QP's buffer: behind the receive queue.
    pub base: u64,
    /// Log of its blocks.
    pub log_size: u32,
    /// Blocks executed.
    pub next: u16,
    /// The QP left send error: blocks before this one are still flushed.
    pub flush_until: Option<u16>,
}

impl SendQueue {
    /// Whether what was to be flushed is. A counter that is out of reach ends it too.
    pub fn is_flushed(&self) -> bool {
        self.flush_until.is_none_or(|until| {
            let left = until.wrapping_sub(self.next);
            left == 0 || u32::from(left) > 1 << self.log_size
        })
    }
}

/// What the QP receives from.
#[derive(Clone, Debug)]
pub enum Receive {
    /// Its own queue.
    Own {
        /// Log of its entries.
        log_size: u32,
        /// Log of their size.
        log_stride: u32,
        /// Entries consumed.
        next: u16,
    },
    /// A shared queue.
    Shared(u32),
    /// The queue that each request names: an XRC target.
    Named,
    /// Nothing.
    None,
}

/// How far repeating the oldest request has come.
#[derive(Clone, Debug, Default)]
pub struct Repeating {
    /// Times that the peer had no receive.
    pub not_ready: u8,
    /// Times that a QP in error was looked at and nothing was posted.
    pub idle_looks: u32,
    /// Since when the peer does not answer.
    pub silent_since: Option<Instant>,
    /// Nothing is sent before this.
    pub wake: Option<Instant>,
}

/// From a QP's making or reset to the next, and how far it has come: for a packet that is very late.
#[derive(Clone, Copy, Debug, Default)]
pub struct Life {
    /// No two of all QPs have the same.
    number: u64,
    /// Sequence numbers used by its requests that are done, and by those that it answered. These never turn over.
    sent: u64,
    received: u64,
}

impl Life {
    /// One of that number, at its beginning.
    pub fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// Whether it can tell where a request belongs that left for it back then. Sequence numbers turn over: one of
    /// which too many have been used since could be mistaken for a new one.
    pub fn knows_requests_of(&self, then: &Self) -> bool {
        self.number == then.number && self.received - then.received < MAX_AGE
    }

    /// The same of an answer.
    pub fn knows_answers_of(&self, then: &Self) -> bool {
        self.number == then.number && self.sent - then.sent < MAX_AGE
    }
}

/// A queue pair.
#[derive(Debug)]
pub struct QueuePair {
    /// The guest whose it is.
    pub guest: GuestId,
    /// The context: what commands set and queries show.
    pub context: [u8; qpc::BYTES],
    /// Service.
    pub service: Service,
    /// State.
    pub state: QpState,
    /// Memory of its queues.
    pub buffer: QueueBuffer,
    /// Doorbell record: receive counter, then send counter.
    pub doorbell: u64,
    /// Protection domain.
    pub pd: u32,
    /// XRC domain.
    pub xrcd: u32,
    /// Its send queue.
    pub send: Option<SendQueue>,
    /// What it receives from.
    pub receive: Receive,
    /// Where its sends complete.
    pub send_cqn: u32,
    /// Where its receives complete, unless the SRQ says.
    pub receive_cqn: u32,
    /// What its completions call it.
    pub user_index: u32,
    /// Sequence number of its next request.
    pub send_psn: u32,
    /// Sequence number that it expects.
    pub receive_psn: u32,
    /// Repeating of its oldest request.
    pub repeating: Repeating,
    /// Its message that has begun and not ended.
    pub sending: Option<Box<Sending>>,
    /// What it remembers of requests.
    pub answering: Answering,
    /// Packets for an earlier life are lost.
    pub life: Life,
    /// Whether it waits for its turn.
    pub queued: bool,
    /// Whether a request came since it is ready to receive.
    pub established: bool,
}

impl Object for QueuePair {
    fn guest(&self) -> GuestId {
        self.guest
    }

    fn listed_pages(&self) -> usize {
        self.buffer.pages()
    }

    fn uses(&self) -> Uses {
        let sends = self.send.as_ref().map(|_| (Kind::Cq, self.send_cqn));
        let receives = self.receives().then_some((Kind::Cq, self.receive_cqn));
        let from = match self.receive {
            Receive::Shared(srqn) => Some((Kind::Srq, srqn)),
            Receive::Named => Some((Kind::Xrcd, self.xrcd)),
            _ => None,
        };
        [Some((Kind::Pd, self.pd)), sends, receives, from]
    }
}

impl QueuePair {
    /// A QP in RESET.
    pub fn new(guest: GuestId, context: [u8; qpc::BYTES], pages: Vec<u64>) -> Result<Self, Refusal> {
        let c = &context;
        let shape = Refusal::parameter(Syndrome::BadQpShape);
        let service =
            Service::from_number(qpc::ST.get(c)).ok_or(Refusal::parameter(Syndrome::UnknownService))?;
        let queue = ReceiveQueueType::from_number(qpc::RQ_TYPE.get(c)).ok_or(shape)?;
        let (log_send, log_receive) = (qpc::LOG_SQ_SIZE.get(c), qpc::LOG_RQ_SIZE.get(c));
        if log_send > LOG_MAX_QUEUE || log_receive > LOG_MAX_QUEUE {
            return Err(Refusal::parameter(Syndrome::SizeBeyondCapability));
        }
        let no_send = qpc::NO_SQ.is_set(c);
        if no_send && service != Service::Xrc {
            return Err(shape);
        }
        let log_stride = qpc::LOG_RQ_STRIDE.get(c) + LOG_MIN_STRIDE;
        let receive = match (service, queue) {
            (_, ReceiveQueueType::Cyclic) | (Service::Xrc, ReceiveQueueType::Own) => return Err(shape),
            (Service::Xrc, _) if no_send => Receive::Named,
            (Service::Xrc, _) | (_, ReceiveQueueType::Absent) => Receive::None,
            (_, ReceiveQueueType::Shared) => Receive::Shared(qpc::SRQN_RMPN_XRQN.get32(c)),
            (_, ReceiveQueueType::Own) => {
                Receive::Own { log_size: log_receive as u32, log_stride: log_stride as u32, next: 0 }
            }
        };
        let base = match receive {
            Receive::Own { log_size, log_stride, .. } => 1 << (log_size + log_stride),
            _ => 0,
        };
        let send =
            (!no_send).then_some(SendQueue { base, log_size: log_send as u32, next: 0, flush_until: None });
        let bytes = base + if no_send { 0 } else { (SEND_BLOCK_BYTES as u64) << log_send };
        let buffer = QueueBuffer::new(pages, qpc::LOG_PAGE_SIZE.get(c), qpc::PAGE_OFFSET.get(c), bytes)?;
        Ok(Self {
            guest,
            service,
            state: QpState::Reset,
            buffer,
            doorbell: qpc::DBR_ADDR.get(c),
            pd: qpc::PD.get32(c),
            xrcd: qpc::XRCD.get32(c),
            send,
            receive,
            send_cqn: qpc::CQN_SND.get32(c),
            receive_cqn: qpc::CQN_RCV.get32(c),
            user_index: qpc::USER_INDEX.get32(c),
            send_psn: 0,
            receive_psn: 0,
            repeating: Repeating::default(),
            sending: None,
            answering: Answering::default(),
            life: Life::default(),
            queued: false,
            established: false,
            context,
        })
    }

    /// The page through which its sends are rung.
    pub fn uar(&self) -> u32 {
        qpc::UAR_PAGE.get32(&self.context)
    }

    /// Whether it is an XRC target: no send queue, receives from what requests name.
    pub fn is_xrc_target(&self) -> bool {
        matches!(self.receive, Receive::Named)
    }

    /// Whether it uses one of the CQs.
    pub fn completes_in_any(&self, cqns: &HashSet<u32>) -> bool {
        self.send.is_some() && cqns.contains(&self.send_cqn)
            || self.receives() && cqns.contains(&self.receive_cqn)
    }

    /// Whether receives complete in its own CQ.
    pub fn receives(&self) -> bool {
        matches!(self.receive, Receive::Own { .. } | Receive::Shared(_))
    }

    /// Whether it takes requests.
    pub fn answers(&self) -> bool {
        use QpState::*;
        matches!(self.state, ReadyToReceive | ReadyToSend | SendError | SendDrained)
    }

    /// Whether one of its remote access bits (RRE, RWE, RAE) is set.
    pub fn accepts(&self, right: crate::bits::Field) -> bool {
        right.is_set(&self.context)
    }

    /// The QP at the other end.
    pub fn remote_qpn(&self) -> u32 {
        qpc::REMOTE_QPN.get32(&self.context)
    }

    /// LID of the other end.
    pub fn remote_lid(&self) -> u16 {
        qpc::PRIMARY_ADDRESS_PATH__RLID.get(&self.context) as u16
    }

    /// Path MTU in bytes.
    pub fn mtu(&self) -> u32 {
        MTU_BASE << qpc::MTU.get32(&self.context)
    }

    /// How it uses local keys.
    pub fn accessor(&self, qpn: u32) -> Accessor {
        Accessor { guest: self.guest, pd: self.pd, qpn }
    }

    /// What a message takes of the sequence numbers.
    pub fn packets(&self, length: u64) -> u32 {
        length.div_ceil(u64::from(self.mtu())).max(1) as u32 & PSN_MASK
    }

    /// The sequence number that many packets after the one of the next request.
    pub fn psn_after(&self, packets: u32) -> u32 {
        self.send_psn.wrapping_add(packets) & PSN_MASK
    }

    /// A request is done: the numbers on its side go on.
    pub fn sent(&mut self, packets: u32) {
        self.send_psn = self.psn_after(packets);
        self.life.sent += u64::from(packets);
        self.repeating = Repeating::default();
    }

    /// Forgets how far the oldest request has come.
    pub fn stop_sending(&mut self) {
        self.repeating = Repeating::default();
        self.sending = None;
    }

    /// A request came in: the numbers on its side go on.
    pub fn received(&mut self, packets: u32) {
        self.receive_psn = self.receive_psn.wrapping_add(packets) & PSN_MASK;
        self.life.received += u64::from(packets);
        self.answering.told = false;
    }

    /// How many atomics it must be able to answer again.
    pub fn remembers(&self) -> usize {
        1 << qpc::LOG_RRA_MAX.get32(&self.context)
    }

    /// Back to where a new QP is, except for its shape; in a life of that number.
    pub fn reset(&mut self, life: u64) {
        self.state = QpState::Reset;
        self.stop_sending();
        self.answering = Answering::default();
        self.life = Life::new(life);
        self.established = false;
        if let Some(send) = &mut self.send {
            send.next = 0;
            send.flush_until = None;
        }
        if let Receive::Own { next, .. } = &mut self.receive {
            *next = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(service: Service, queue: ReceiveQueueType) -> [u8; qpc::BYTES] {
        let mut c = [0; qpc::BYTES];
        qpc::ST.set(&mut c, service as u64);
        qpc::RQ_TYPE.set(&mut c, queue as u64);
        c
    }

    #[test]
    fn sends_lie_behind_receives() {
        let mut c = context(Service::Rc, ReceiveQueueType::Own);
        qpc::LOG_RQ_SIZE.set(&mut c, 2);
        qpc::LOG_RQ_STRIDE.set(&mut c, 1);
        let qp = QueuePair::new(0, c, vec![0x1000]).unwrap();
        assert_eq!((qp.send.unwrap().base, qp.buffer.len()), (128, 192));
    }

    #[test]
    fn xrc_has_two_shapes_and_no_other() {
        let mut c = context(Service::Xrc, ReceiveQueueType::Shared);
        assert!(matches!(QueuePair::new(0, c, vec![0x1000]).unwrap().receive, Receive::None));
        qpc::NO_SQ.set(&mut c, 1);
        assert!(QueuePair::new(0, c, vec![]).unwrap().is_xrc_target());
        let own = context(Service::Xrc, ReceiveQueueType::Own);
        assert_eq!(QueuePair::new(0, own, vec![0x1000]).unwrap_err().syndrome, Syndrome::BadQpShape);
        let mut rc = context(Service::Rc, ReceiveQueueType::Absent);
        qpc::NO_SQ.set(&mut rc, 1);
        assert_eq!(QueuePair::new(0, rc, vec![]).unwrap_err().syndrome, Syndrome::BadQpShape);
    }

    #[test]
    fn hostile_contexts_are_refused() {
        for fill in 0..=255 {
            let c = [fill; qpc::BYTES];
            let _ = QueuePair::new(0, c, vec![]);
        }
        let c = context(Service::Rc, ReceiveQueueType::Own);
        assert_eq!(QueuePair::new(0, c, vec![]).unwrap_err().syndrome, Syndrome::ShortPageList);
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut c = context(Service::Rc, ReceiveQueueType::Absent);
        qpc::MTU.set(&mut c, 3);
        let mut qp = QueuePair::new(0, c, vec![0x1000]).unwrap();
        assert_eq!((qp.packets(0), qp.packets(1024), qp.packets(1025)), (1, 1, 2));
        qp.send_psn = PSN_MASK;
        qp.sent(1);
        assert_eq!(qp.send_psn, 0);
    }
}

//! The sending side of reliable and unreliable connections and of XRC initiators.

use std::time::{Duration, Instant};

use crate::{
    device::Device,
    fabric::Link,
    fields::qpc,
    hw::{LOG_MAX_MESSAGE, Service, WqeOpcode, WqeSyndrome},
    mkey::{Access, Accessor},
    qp::QueuePair,
};

use super::{
    packet::{ATOMIC_BYTES, Load, Reply, Request},
    sending::Sending,
    transfer::{Store, TransferFault},
    wqe::Wqe,
};

/// How a work request ended, or that it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done {
        /// What came back.
        bytes: u32,
    },
    /// The QP sends it bit by bit.
    Begun,
    /// Not yet: the same work request is to be tried again then.
    Wait(Instant),
    /// Failed.
    Failed(WqeSyndrome),
}

/// RNR_RETRY that means "for ever".
const RNR_FOREVER: u64 = 7;
/// While a peer does not answer on a perfect wire it is asked this often.
const SILENCE_POLL: Duration = Duration::from_millis(2);
/// Longer messages are handed over bit by bit: a multiple of every MTU.
pub const BIT_BYTES: u64 = 1 << 20;
/// The unit of the coded time-out, 4.096 µs.
const TIMEOUT_UNIT: Duration = Duration::from_nanos(4096);
/// A time-out lasts up to four times what its code says.
const TIMEOUT_FACTOR: u32 = 4;

/// The times that MIN_RNR_NAK codes, in units of 10 µs.
const RNR_TIMES: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// The time that a MIN_RNR_NAK code stands for.
fn rnr_time(code: u64) -> Duration {
    Duration::from_micros(10) * RNR_TIMES[code as usize % RNR_TIMES.len()]
}

/// How long an answer may take; `None`: for ever.
pub fn answer_time(qp: &QueuePair) -> Option<Duration> {
    let timeout = qpc::PRIMARY_ADDRESS_PATH__ACK_TIMEOUT.get32(&qp.context);
    (timeout != 0).then(|| TIMEOUT_UNIT * (1 << timeout.min(24)) * TIMEOUT_FACTOR)
}

/// How long a silent peer is waited for; `None`: for ever.
fn patience(qp: &QueuePair) -> Option<Duration> {
    answer_time(qp).map(|time| time * (qpc::RETRY_COUNT.get32(&qp.context) + 1))
}

/// What a fault in one's own memory is called.
pub fn local_syndrome(fault: TransferFault) -> WqeSyndrome {
    match fault {
        TransferFault::Key => WqeSyndrome::LocalProtection,
        TransferFault::Dma => WqeSyndrome::LocalAccess,
        TransferFault::Length => WqeSyndrome::LocalLength,
    }
}

/// Whether an operation brings bytes back.
pub fn fetches(opcode: WqeOpcode) -> bool {
    matches!(opcode, WqeOpcode::Read | WqeOpcode::CompareSwap | WqeOpcode::FetchAdd)
}

impl QueuePair {
    /// The request of the work request's packets from `first` on, `count` of them.
    pub fn request(&self, qpn: u32, wqe: &Wqe, first: u32, count: u32) -> Request {
        let mtu = u64::from(self.mtu());
        let offset = u64::from(first) * mtu;
        Request {
            service: self.service,
            guest: self.guest,
            source: qpn,
            lid: self.remote_lid(),
            destination: self.remote_qpn(),
            opcode: wqe.opcode,
            psn: self.psn_after(first),
            packets: count,
            offset,
            length: wqe.total.saturating_sub(offset).min(u64::from(count) * mtu),
            total: wqe.total,
            remote: wqe.remote,
            atomic: wqe.atomic,
            immediate: wqe.immediate,
            solicited: wqe.solicited,
            srqn: (self.service == Service::Xrc).then_some(wqe.srqn),
            wants_answer: true,
        }
    }
}

impl Device {
    /// Executes a work request, which has that index and so many blocks. If it takes longer, the QP keeps it.
    pub fn execute(&mut self, qpn: u32, wqe: &mut Box<Wqe>, place: (u16, u16)) -> Outcome {
        let Some(qp) = self.objects.qps.get(qpn) else { return Outcome::Done { bytes: 0 } };
        if wqe.opcode == WqeOpcode::Nop {
            return Outcome::Done { bytes: 0 };
        }
        if wqe.opcode == WqeOpcode::Umr {
            return self.execute_umr(qpn, wqe);
        }
        match qp.service {
            Service::Rc | Service::Uc | Service::Xrc => self.execute_connected(qpn, wqe, place),
            Service::Ud | Service::Smi | Service::Gsi => self.execute_datagram(qpn, wqe),
            Service::Umr => Outcome::Failed(WqeSyndrome::LocalQpOperation),
        }
    }

    /// Whether what the work request sends may leave.
    fn check_source(&self, who: Accessor, wqe: &Wqe) -> Result<(), WqeSyndrome> {
        if wqe.total > 1 << LOG_MAX_MESSAGE {
            return Err(WqeSyndrome::LocalLength);
        }
        match wqe.opcode {
            WqeOpcode::CompareSwap | WqeOpcode::FetchAdd if wqe.total != ATOMIC_BYTES as u64 => {
                Err(WqeSyndrome::LocalLength)
            }
            opcode if fetches(opcode) => Ok(()),
            _ => {
                let store =
                    Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
                let source = Load::direct(wqe, who, 0).end(Access::LocalRead);
                source.check(store, wqe.total).map_err(local_syndrome)
            }
        }
    }

    fn execute_connected(&mut self, qpn: u32, wqe: &mut Box<Wqe>, place: (u16, u16)) -> Outcome {
        let Some(qp) = self.objects.qps.get(qpn) else { return Outcome::Done { bytes: 0 } };
        let (who, packets) = (qp.accessor(qpn), qp.packets(wqe.total));
        if let Err(syndrome) = self.check_source(who, wqe) {
            return Outcome::Failed(syndrome);
        }
        let faulty =
            self.guest_at(qp.remote_lid()).is_some_and(|to| self.link(who.guest, to) == Link::Faulty);
        if faulty || wqe.total > BIT_BYTES {
            let sending = Sending::new(std::mem::take(wqe), place, packets);
            if let Some(qp) = self.objects.qps.get_mut(qpn) {
                qp.repeating.silent_since = None;
                qp.sending = Some(Box::new(sending));
            }
            return Outcome::Begun;
        }
        let request = qp.request(qpn, wqe, 0, packets);
        if let Some(outcome) = self.hand_over(&request, wqe) {
            return outcome;
        }
        if let Some(qp) = self.objects.qps.get_mut(qpn) {
            qp.sent(packets);
        }
        Outcome::Done { bytes: if fetches(wqe.opcode) { wqe.total as u32 } else { 0 } }
    }

    /// Hands a request over as it is, on a perfect wire. `None`: it is done.
    pub(super) fn hand_over(&mut self, request: &Request, wqe: &Wqe) -> Option<Outcome> {
        let qpn = request.source;
        let who = self.objects.qps.get(qpn)?.accessor(qpn);
        let load = Load::direct(wqe, who, request.offset);
        let reply = match self.guest_at(request.lid) {
            Some(guest) if self.link(who.guest, guest) != Link::Down => self.arrive(guest, request, &load),
            _ => Reply::Silence,
        };
        tracing::trace!("QP {qpn:#x}: {:?}, {} bytes: {reply:?}", request.opcode, request.length);
        let reliable = request.service != Service::Uc;
        match reply {
            Reply::Acknowledged | Reply::Data => None,
            Reply::Value(found) => {
                let store =
                    Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
                let result = load.end(Access::LocalWrite).write(store, &found);
                result.err().map(|fault| Outcome::Failed(local_syndrome(fault)))
            }
            Reply::Failed(syndrome) => Some(Outcome::Failed(syndrome)),
            // An unreliable connection never learns.
            _ if !reliable => None,
            Reply::NotAcknowledged(syndrome) => Some(Outcome::Failed(syndrome)),
            Reply::NotReady(code) => Some(self.not_ready(qpn, code)),
            Reply::Silence | Reply::OutOfSequence => Some(self.silence(qpn)),
        }
    }

    /// The peer has no receive.
    pub(super) fn not_ready(&mut self, qpn: u32, code: u64) -> Outcome {
        let now = self.engine.now();
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return Outcome::Wait(now) };
        self.guests[qp.guest].activity.receiver_not_ready += 1;
        qp.repeating.silent_since = None;
        let most = qpc::RNR_RETRY.get(&qp.context);
        if most != RNR_FOREVER && u64::from(qp.repeating.not_ready) >= most {
            return Outcome::Failed(WqeSyndrome::RnrRetryExceeded);
        }
        qp.repeating.not_ready = qp.repeating.not_ready.saturating_add(1);
        Outcome::Wait(now + rnr_time(code))
    }

    fn silence(&mut self, qpn: u32) -> Outcome {
        let now = self.engine.now();
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return Outcome::Wait(now) };
        let since = *qp.repeating.silent_since.get_or_insert(now);
        match patience(qp) {
            Some(patience) if now - since >= patience => Outcome::Failed(WqeSyndrome::RetryExceeded),
            _ => Outcome::Wait(now + SILENCE_POLL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hw::ReceiveQueueType;

    #[test]
    fn rnr_codes_are_infinibands() {
        assert_eq!(rnr_time(0), Duration::from_micros(655_360));
        assert_eq!(rnr_time(1), Duration::from_micros(10));
        assert_eq!(rnr_time(12), Duration::from_micros(640));
        assert_eq!(rnr_time(31), Duration::from_micros(491_520));
        assert!((2..31).all(|c| rnr_time(c) < rnr_time(c + 1)));
    }

    #[test]
    fn patience_follows_timeout_and_retries() {
        let mut c = [0; qpc::BYTES];
        qpc::RQ_TYPE.set(&mut c, ReceiveQueueType::Absent as u64);
        let mut qp = QueuePair::new(0, c, vec![0x1000]).unwrap();
        assert_eq!(patience(&qp), None);
        qpc::PRIMARY_ADDRESS_PATH__ACK_TIMEOUT.set(&mut qp.context, 14);
        qpc::RETRY_COUNT.set(&mut qp.context, 7);
        assert_eq!(patience(&qp).unwrap().as_millis(), 2147);
        qpc::PRIMARY_ADDRESS_PATH__ACK_TIMEOUT.set(&mut qp.context, 31);
        assert!(patience(&qp).is_some());
    }
}

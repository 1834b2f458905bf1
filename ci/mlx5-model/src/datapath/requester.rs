//! The sending side of reliable and unreliable connections and of XRC initiators.

use std::time::{Duration, Instant};

use crate::{
    device::Device,
    fields::qpc,
    hw::{LOG_MAX_MESSAGE, Service, WqeOpcode, WqeSyndrome},
    qp::QueuePair,
};

use super::{
    responder::{Reply, Request},
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
    /// Not yet: the same work request is to be tried again then.
    Wait(Instant),
    /// Failed.
    Failed(WqeSyndrome),
}

/// RNR_RETRY that means "for ever".
const RNR_FOREVER: u64 = 7;
/// While a peer does not answer it is asked this often: requests are not repeated by packets here.
const SILENCE_POLL: Duration = Duration::from_millis(2);
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

/// How long a silent peer is waited for; `None`: for ever.
fn patience(qp: &QueuePair) -> Option<Duration> {
    let timeout = qpc::PRIMARY_ADDRESS_PATH__ACK_TIMEOUT.get32(&qp.context);
    let tries = qpc::RETRY_COUNT.get32(&qp.context) + 1;
    (timeout != 0).then(|| TIMEOUT_UNIT * (1 << timeout.min(24)) * TIMEOUT_FACTOR * tries)
}

impl Device {
    /// Executes a work request.
    pub fn execute(&mut self, qpn: u32, wqe: &Wqe) -> Outcome {
        let Some(qp) = self.objects.qps.get(qpn) else { return Outcome::Done { bytes: 0 } };
        if wqe.opcode == WqeOpcode::Nop {
            return Outcome::Done { bytes: 0 };
        }
        if wqe.opcode == WqeOpcode::Umr {
            return self.execute_umr(qpn, wqe);
        }
        match qp.service {
            Service::Rc | Service::Uc | Service::Xrc => self.execute_connected(qpn, wqe),
            Service::Ud | Service::Smi | Service::Gsi => self.execute_datagram(qpn, wqe),
            Service::Umr => Outcome::Failed(WqeSyndrome::LocalQpOperation),
        }
    }

    fn execute_connected(&mut self, qpn: u32, wqe: &Wqe) -> Outcome {
        let Some(qp) = self.objects.qps.get(qpn) else { return Outcome::Done { bytes: 0 } };
        if wqe.total > 1 << LOG_MAX_MESSAGE {
            return Outcome::Failed(WqeSyndrome::LocalLength);
        }
        let request = Request {
            service: qp.service,
            source: qp.accessor(qpn),
            lid: qp.remote_lid(),
            destination: qp.remote_qpn(),
            psn: qp.send_psn,
            packets: qp.packets(wqe.total),
            srqn: (qp.service == Service::Xrc).then_some(wqe.srqn),
        };
        let reliable = qp.service != Service::Uc;
        let reply = self.carry(&request, wqe);
        tracing::trace!("QP {qpn:#x}: {:?}, {} bytes: {reply:?}", wqe.opcode, wqe.total);
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return Outcome::Done { bytes: 0 } };
        let bytes = match wqe.opcode {
            WqeOpcode::Read | WqeOpcode::CompareSwap | WqeOpcode::FetchAdd => wqe.total as u32,
            _ => 0,
        };
        match reply {
            Reply::Failed(syndrome) => Outcome::Failed(syndrome),
            Reply::Acknowledged => {
                qp.sent(request.packets);
                Outcome::Done { bytes }
            }
            // An unreliable connection never learns.
            Reply::NotAcknowledged(_) | Reply::NotReady(_) | Reply::Silence if !reliable => {
                qp.sent(request.packets);
                Outcome::Done { bytes }
            }
            Reply::NotAcknowledged(syndrome) => Outcome::Failed(syndrome),
            Reply::NotReady(code) => {
                self.guests[qp.guest].activity.receiver_not_ready += 1;
                qp.repeating.silent_since = None;
                let most = qpc::RNR_RETRY.get(&qp.context);
                if most != RNR_FOREVER && u64::from(qp.repeating.not_ready) >= most {
                    return Outcome::Failed(WqeSyndrome::RnrRetryExceeded);
                }
                qp.repeating.not_ready = qp.repeating.not_ready.saturating_add(1);
                Outcome::Wait(Instant::now() + rnr_time(code))
            }
            Reply::Silence => {
                let now = Instant::now();
                let since = *qp.repeating.silent_since.get_or_insert(now);
                match patience(qp) {
                    Some(patience) if now - since >= patience => Outcome::Failed(WqeSyndrome::RetryExceeded),
                    _ => Outcome::Wait(now + SILENCE_POLL),
                }
            }
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

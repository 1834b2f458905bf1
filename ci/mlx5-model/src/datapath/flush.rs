//! Queue pairs that fail, and what becomes of what is posted to them.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use crate::{
    cq::Completion,
    device::Device,
    eq::Event,
    fields::cqe,
    hw::{CompletionOpcode, EventType, QpState, WqeSyndrome},
    objects::GuestId,
    qp::Receive,
};

use super::wqe::Wqe;

/// A QP in error has its own receive queue looked at after this time, as there is no doorbell for receives, and as long
/// as nothing is posted each time after twice as long, up to [`FLUSH_DOUBLINGS`] times.
const FLUSH_INTERVAL: Duration = Duration::from_millis(5);
const FLUSH_DOUBLINGS: u32 = 6;

impl Device {
    /// Moves a QP to send error; its sends are flushed when its turn comes.
    pub(super) fn fail_sends(&mut self, qpn: u32) {
        // In error it stays, such as after the loss of its completion.
        if let Some(qp) = self.objects.qps.get_mut(qpn).filter(|qp| qp.state != QpState::Error) {
            qp.state = QpState::SendError;
            qp.stop_sending();
            self.ring(qpn);
        }
    }

    /// Moves a QP to error, and tells the guest why if it is not the guest's own doing. What is posted is flushed
    /// when the QP's turn comes: behind the completion of what failed, and without keeping the others waiting.
    pub fn fail_qp(&mut self, qpn: u32, event: Option<EventType>) {
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return };
        let was = std::mem::replace(&mut qp.state, QpState::Error);
        let shares = matches!(qp.receive, Receive::Shared(_) | Receive::Named);
        let guest = qp.guest;
        if was == QpState::Error {
            return self.ring(qpn);
        }
        qp.stop_sending();
        let broken_off = qp.answering.break_off();
        self.ring(qpn);
        // A receive that a message has half filled is the oldest of all.
        if let Some(taken) = broken_off {
            self.fail_receive(&taken, WqeSyndrome::Flushed);
        }
        let guest = &mut self.guests[guest];
        if let Some(event) = event {
            guest.raise_async(&Event::resource(event, qpn));
        }
        if shares && was != QpState::Reset {
            guest.raise_async(&Event::resource(EventType::SrqLastWqe, qpn));
        }
    }

    /// Fails the SRQs and QPs that use the completion queues: nothing that happens to them can be told any more.
    pub(super) fn fail_users(&mut self, cqns: &HashSet<u32>) {
        let guests: BTreeSet<GuestId> =
            cqns.iter().filter_map(|cqn| self.objects.cqs.get(*cqn)).map(|cq| cq.guest).collect();
        for guest in guests {
            for srqn in self.objects.fail_srqs(guest, cqns) {
                self.guests[guest].raise_async(&Event::resource(EventType::SrqCatastrophic, srqn));
            }
            let own = self.objects.qps.of(guest);
            let users: Vec<u32> = own.filter(|(_, qp)| qp.completes_in_any(cqns)).map(|(n, _)| n).collect();
            for qpn in users {
                self.fail_qp(qpn, Some(EventType::WqCatastrophic));
            }
        }
    }

    /// Ends one posted work request of a QP in error with an error; says whether there was one.
    pub(super) fn flush_one(&mut self, qpn: u32, wqe: &mut Wqe) -> bool {
        if self.flush_send(qpn, wqe) {
            return true;
        }
        let Some(qp) = self.objects.qps.get(qpn) else { return false };
        if qp.state != QpState::Error || !matches!(qp.receive, Receive::Own { .. }) {
            return false;
        }
        let waits = qp.repeating.wake.is_some();
        let flushed = self.flush_receive(qpn);
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return flushed };
        if flushed {
            qp.repeating.idle_looks = 0;
        } else if !waits {
            let pause = FLUSH_INTERVAL * (1 << qp.repeating.idle_looks);
            qp.repeating.idle_looks = (qp.repeating.idle_looks + 1).min(FLUSH_DOUBLINGS);
            self.wake_at(qpn, self.engine.now() + pause);
        }
        flushed
    }

    /// Ends the oldest posted send with an error; says whether there was one.
    pub(super) fn flush_send(&mut self, qpn: u32, wqe: &mut Wqe) -> bool {
        let Some(qp) = self.objects.qps.get(qpn) else { return false };
        let Some(send) = &qp.send else { return false };
        let index = send.next;
        if qp.state == QpState::ReadyToSend && send.is_flushed() {
            return false;
        }
        let Ok(blocks @ 1..) = self.fetch(qp, wqe) else { return false };
        wqe.parse_control();
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return false };
        if let Some(send) = &mut qp.send {
            send.next = send.next.wrapping_add(blocks);
        }
        let (cqn, user_index) = (qp.send_cqn, qp.user_index);
        let c = Completion::new(CompletionOpcode::RequesterError, qpn, user_index, index)
            .with(cqe::WQE_OPCODE, wqe.raw_opcode)
            .syndrome(WqeSyndrome::Flushed);
        self.complete(cqn, c);
        true
    }

    /// A QP leaves send error: what was posted until now is flushed all the same.
    pub fn resume_sends(&mut self, qpn: u32) {
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return };
        let posted = self.guests[qp.guest].memory.read_be32(qp.doorbell.wrapping_add(4));
        if let (Some(send), Ok(posted)) = (&mut qp.send, posted) {
            send.flush_until = Some(posted as u16);
        }
    }

    pub(super) fn end_flush(&mut self, qpn: u32) {
        if let Some(send) = self.objects.qps.get_mut(qpn).and_then(|qp| qp.send.as_mut()) {
            send.flush_until = None;
        }
    }
}

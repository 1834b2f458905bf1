//! A message on its way: the requester's side of packets. It keeps what is not acknowledged, begins again there when
//! it is told that a packet is missing or hears nothing, and gives up after as many times as it was told.
//!
//! A QP has one message on its way at a time, and of that at most [`WINDOW`] packets.

use std::time::Instant;

use crate::{
    device::Device,
    fabric::Link,
    fields::qpc,
    hw::{QpState, Service, WqeOpcode, WqeSyndrome},
    mkey::Access,
};

use super::{
    packet::{Load, Packet, Reply, distance},
    requester::{BIT_BYTES, Outcome, answer_time, fetches, local_syndrome},
    transfer::Store,
    wqe::Wqe,
};

/// Packets that may be on their way, and packets that one request for a read asks for.
pub const WINDOW: u32 = 32;
/// An acknowledgement is asked for after so many packets, so that the window moves on before it is used up.
const ANSWER_EVERY: u32 = WINDOW / 2;
/// What one bit of a message handed over counts as work requests (see `BYTES_PER_REQUEST`).
const BIT_COST: usize = (BIT_BYTES / super::BYTES_PER_REQUEST) as usize;

/// The message that a QP sends. Packets are counted from its first.
#[derive(Debug)]
pub struct Sending {
    wqe: Box<Wqe>,
    /// Index and blocks of the work request.
    place: (u16, u16),
    packets: u32,
    /// Those that are answered.
    acknowledged: u32,
    /// The next to be sent.
    next: u32,
    /// Those that have been sent at least once.
    sent: u32,
    /// When the answer to the oldest is overdue.
    deadline: Option<Instant>,
    /// How often in a row it was.
    overdue: u32,
    /// A gap in what a read brings was seen and asked for again.
    asked_again: bool,
}

/// What became of a turn, and how many work requests it counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There may be more to do.
    Made(usize),
    /// An answer or a timer must come first.
    Waiting(usize),
}

impl Sending {
    /// A message of which nothing has been sent.
    pub fn new(wqe: Box<Wqe>, place: (u16, u16), packets: u32) -> Self {
        Self {
            wqe,
            place,
            packets,
            acknowledged: 0,
            next: 0,
            sent: 0,
            deadline: None,
            overdue: 0,
            asked_again: false,
        }
    }

    /// All that was sent is answered: the responder expects the next.
    fn is_idle(&self) -> bool {
        self.acknowledged == self.sent
    }

    /// Begins again with the oldest that is not acknowledged.
    fn go_back(&mut self) {
        self.next = self.acknowledged;
        self.deadline = None;
    }

    /// How many packets the next request stands for; 0: it must wait.
    fn room(&self) -> u32 {
        let under_way = self.next - self.acknowledged;
        if !fetches(self.wqe.opcode) {
            return u32::from(self.next < self.packets && under_way < WINDOW);
        }
        if under_way > 0 {
            return 0;
        }
        // What was asked for before is asked for as it was: the responder knows that from something new.
        let end = if self.next < self.sent { self.sent } else { self.packets };
        (end - self.next).min(WINDOW)
    }
}

impl Device {
    /// Sends more of the QP's message, for at most about `most` work requests.
    pub(super) fn proceed(&mut self, qpn: u32, most: usize) -> Progress {
        let now = self.engine.now();
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return Progress::Made(0) };
        let tries = qpc::RETRY_COUNT.get32(&qp.context);
        let (guest, lid) = (qp.guest, qp.remote_lid());
        let Some(sending) = &mut qp.sending else { return Progress::Made(0) };
        if sending.deadline.is_some_and(|deadline| now >= deadline) {
            if sending.overdue >= tries {
                self.end_message(qpn, Outcome::Failed(WqeSyndrome::RetryExceeded));
                return Progress::Made(1);
            }
            sending.overdue += 1;
            sending.go_back();
        }
        let idle = sending.is_idle();
        let perfect = self.guest_at(lid).is_none_or(|to| self.link(guest, to) == Link::Perfect);
        if idle && perfect { self.hand_over_bit(qpn) } else { self.send_packets(qpn, most) }
    }

    /// On a perfect wire: the next bit of a long message.
    fn hand_over_bit(&mut self, qpn: u32) -> Progress {
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return Progress::Made(0) };
        let Some(mut sending) = qp.sending.take() else { return Progress::Made(0) };
        let bit = (BIT_BYTES / u64::from(qp.mtu())) as u32;
        let count = bit.min(sending.packets - sending.next);
        let request = qp.request(qpn, &sending.wqe, sending.next, count);
        let outcome = self.hand_over(&request, &sending.wqe);
        match outcome {
            None => {
                sending.next += count;
                sending.acknowledged = sending.next;
                sending.sent = sending.sent.max(sending.next);
                (sending.overdue, sending.deadline) = (0, None);
            }
            Some(Outcome::Wait(_)) => {}
            Some(outcome) => {
                self.retire(qpn, sending.place, &sending.wqe, outcome);
                return Progress::Made(BIT_COST);
            }
        }
        // A QP that is connected to itself may have broken by it.
        let Some(qp) = self.objects.qps.get_mut(qpn).filter(|qp| qp.state == QpState::ReadyToSend) else {
            return Progress::Made(BIT_COST);
        };
        if outcome.is_none() {
            qp.repeating = Default::default();
        }
        let over = sending.acknowledged == sending.packets;
        qp.sending = Some(sending);
        match outcome {
            Some(Outcome::Wait(until)) => {
                self.wake_at(qpn, until);
                Progress::Waiting(1)
            }
            _ => {
                if over {
                    self.end_message(qpn, Outcome::Begun);
                }
                Progress::Made(BIT_COST)
            }
        }
    }

    /// On a wire with faults: as many packets as the window allows.
    fn send_packets(&mut self, qpn: u32, most: usize) -> Progress {
        let mut used = 0;
        while used < most {
            self.engine.key_steps.begin();
            match self.send_packet(qpn) {
                Ok(true) => used += 1 + self.engine.charge(),
                Ok(false) => {
                    self.watch(qpn);
                    return Progress::Waiting(used);
                }
                Err(outcome) => {
                    self.end_message(qpn, outcome);
                    return Progress::Made(used);
                }
            }
        }
        self.watch(qpn);
        Progress::Made(used)
    }

    /// Sends the next packet, unless the window is used up.
    fn send_packet(&mut self, qpn: u32) -> Result<bool, Outcome> {
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return Ok(false) };
        let (who, unreliable) = (qp.accessor(qpn), qp.service == Service::Uc);
        let Some(sending) = &qp.sending else { return Ok(false) };
        let count = sending.room();
        if count == 0 {
            return if sending.acknowledged == sending.packets { Err(Outcome::Begun) } else { Ok(false) };
        }
        let (first, wqe) = (sending.next, &sending.wqe);
        let mut request = qp.request(qpn, wqe, first, count);
        let after = first + count;
        request.wants_answer =
            after == sending.packets || after % ANSWER_EVERY == 0 || after - sending.acknowledged == WINDOW;
        let mut payload = vec![0; if fetches(wqe.opcode) { 0 } else { request.length as usize }];
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
        let mut source = Load::direct(wqe, who, request.offset).end(Access::LocalRead);
        source.read(store, &mut payload).map_err(|fault| Outcome::Failed(local_syndrome(fault)))?;
        let again = first < sending.sent;
        if let Some(sending) = self.objects.qps.get_mut(qpn).and_then(|qp| qp.sending.as_mut()) {
            sending.next = after;
            sending.sent = sending.sent.max(after);
            if unreliable {
                sending.acknowledged = after;
            }
        }
        if again {
            self.guests[who.guest].activity.packets_retransmitted += 1;
        }
        let to = self.guest_at(request.lid);
        self.transmit(who.guest, to, Packet::Request { head: Box::new(request), payload: payload.into() });
        Ok(true)
    }

    /// Sees to it that the QP is looked at when an answer is overdue.
    fn watch(&mut self, qpn: u32) {
        let now = self.engine.now();
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return };
        let time = answer_time(qp);
        let Some(sending) = &mut qp.sending else { return };
        if sending.acknowledged < sending.next && sending.deadline.is_none() {
            sending.deadline = time.map(|time| now + time);
            if let Some(deadline) = sending.deadline {
                self.engine.timers.set(qpn, deadline);
            }
        }
    }

    /// The message is over, with that outcome; [`Outcome::Begun`] stands for success.
    fn end_message(&mut self, qpn: u32, outcome: Outcome) {
        self.engine.timers.cancel(qpn);
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return };
        let Some(sending) = qp.sending.take() else { return };
        let outcome = match outcome {
            Outcome::Begun => {
                qp.sent(sending.packets);
                let bytes = if fetches(sending.wqe.opcode) { sending.wqe.total as u32 } else { 0 };
                Outcome::Done { bytes }
            }
            failed => failed,
        };
        self.retire(qpn, sending.place, &sending.wqe, outcome);
        self.ring(qpn);
    }

    /// An answer to the packet `psn` of the QP's message comes.
    pub(super) fn answered(&mut self, qpn: u32, psn: u32, reply: Reply, payload: &[u8]) {
        let Some(qp) = self.objects.qps.get_mut(qpn).filter(|qp| qp.state == QpState::ReadyToSend) else {
            return;
        };
        let place = distance(qp.send_psn, psn);
        let resting = qp.repeating.wake.is_some();
        let Some(sending) = &mut qp.sending else { return };
        // An answer to something older, or to what was never asked, is no answer.
        if place > sending.sent || place < sending.acknowledged {
            return;
        }
        let (opcode, is_sent) = (sending.wqe.opcode, place < sending.sent);
        match reply {
            Reply::Acknowledged if is_sent && !fetches(opcode) => self.advance(qpn, place + 1),
            Reply::Data if opcode == WqeOpcode::Read && is_sent => {
                if place == sending.acknowledged {
                    self.bring(qpn, place, payload);
                } else if !std::mem::replace(&mut sending.asked_again, true) {
                    self.begin_again(qpn);
                }
            }
            Reply::Value(found) if fetches(opcode) && opcode != WqeOpcode::Read && is_sent => {
                self.bring(qpn, place, &found);
            }
            Reply::OutOfSequence => {
                // All before it have come; what a read brought is another matter.
                if !fetches(opcode) {
                    self.advance(qpn, place);
                }
                self.begin_again(qpn);
            }
            Reply::NotReady(code) if is_sent && !resting => {
                // It was heard: what was lost before does not count any more.
                sending.overdue = 0;
                self.advance(qpn, place);
                self.begin_again(qpn);
                match self.not_ready(qpn, code) {
                    Outcome::Wait(until) => self.wake_at(qpn, until),
                    outcome => self.end_message(qpn, outcome),
                }
            }
            Reply::NotAcknowledged(syndrome) if is_sent => self.end_message(qpn, Outcome::Failed(syndrome)),
            _ => {}
        }
    }

    /// Puts what was fetched where it belongs.
    fn bring(&mut self, qpn: u32, place: u32, bytes: &[u8]) {
        let Some(qp) = self.objects.qps.get(qpn) else { return };
        let Some(sending) = &qp.sending else { return };
        let asked = qp.request(qpn, &sending.wqe, place, 1);
        if asked.length != bytes.len() as u64 {
            self.end_message(qpn, Outcome::Failed(WqeSyndrome::BadResponse));
            return;
        }
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
        let mut sink = Load::direct(&sending.wqe, qp.accessor(qpn), asked.offset).end(Access::LocalWrite);
        match sink.write(store, bytes) {
            Ok(()) => self.advance(qpn, place + 1),
            Err(fault) => self.end_message(qpn, Outcome::Failed(local_syndrome(fault))),
        }
    }

    /// The first `packets` packets are answered.
    fn advance(&mut self, qpn: u32, packets: u32) {
        let now = self.engine.now();
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return };
        let (time, resting) = (answer_time(qp), qp.repeating.wake.is_some());
        let Some(sending) = &mut qp.sending else { return };
        if packets <= sending.acknowledged {
            return;
        }
        sending.acknowledged = packets;
        sending.next = sending.next.max(packets);
        sending.overdue = 0;
        sending.asked_again = false;
        sending.deadline = time.filter(|_| packets < sending.next).map(|time| now + time);
        let (over, deadline) = (packets == sending.packets, sending.deadline);
        qp.repeating.not_ready = 0;
        qp.repeating.silent_since = None;
        if over {
            self.end_message(qpn, Outcome::Begun);
            return;
        }
        if !resting {
            match deadline {
                Some(deadline) => self.engine.timers.set(qpn, deadline),
                None => self.engine.timers.cancel(qpn),
            }
        }
        self.ring(qpn);
    }

    /// What is not acknowledged is sent again.
    fn begin_again(&mut self, qpn: u32) {
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return };
        let resting = qp.repeating.wake.is_some();
        let Some(sending) = &mut qp.sending else { return };
        sending.go_back();
        if !resting {
            self.engine.timers.cancel(qpn);
        }
        self.ring(qpn);
    }
}

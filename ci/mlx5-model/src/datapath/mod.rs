//! The data path: queue pairs take turns, work requests become messages, messages become completions.
//!
//! A doorbell only puts its QP in line. [`Device::run`] serves the line for a bounded number of work requests, of
//! which a long message and one that lies in many pieces count as many, so that no guest can keep the device from
//! another, nor a doorbell from returning. Timers that are due, and packets that come, count as well.
//!
//! On a perfect wire a message is handed over in one call, or in a few if it is long ([`requester`]); on one with faults
//! it goes in packets ([`sending`], [`transmission`]). The responder ([`responder`], [`answers`]) is the same.

pub mod answers;
pub mod datagram;
pub mod flush;
pub mod packet;
pub mod receive;
pub mod requester;
pub mod responder;
pub mod sending;
pub mod timers;
pub mod transfer;
pub mod transmission;
pub mod umr;
pub mod wqe;

use std::{collections::VecDeque, time::Instant};

use crate::{
    cq::Completion,
    device::Device,
    fields::cqe,
    hw::{CompletionOpcode, EventType, MAX_DATAGRAM, QpState, SEGMENT_BYTES, SEND_BLOCK_BYTES, Service},
    mkey::steps::KeySteps,
    qp::{QueuePair, SendQueue},
    wire::Wire,
};

use self::{receive::ReceiveScratch, requester::Outcome, sending::Progress, timers::Timers, wqe::Wqe};

/// Work requests that a QP may have served before the next one's turn.
const TURN: usize = 64;
/// A message counts as another work request for each time that it has so many bytes.
const BYTES_PER_REQUEST: u64 = 64 << 10;
/// The buffer through which messages are copied.
const BOUNCE_BYTES: usize = 64 << 10;

/// Who is in line, who waits for a moment, and buffers that are reused.
#[derive(Debug)]
pub struct Engine {
    line: VecDeque<u32>,
    timers: Timers,
    clock: Option<Instant>,
    dead_cqs: Vec<u32>,
    lives: u64,
    wqe: Option<Box<Wqe>>,
    /// What lies between the ports.
    pub wire: Wire,
    /// How far keys of keys were followed.
    pub key_steps: KeySteps,
    /// Datagrams of multicast that nobody was charged for yet.
    copies: usize,
    pub(crate) receive: ReceiveScratch,
    pub(crate) bounce: Box<[u8]>,
    pub(crate) datagram: Vec<u8>,
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            line: VecDeque::new(),
            timers: Timers::default(),
            clock: None,
            dead_cqs: Vec::new(),
            lives: 0,
            wqe: Some(Box::default()),
            wire: Wire::default(),
            key_steps: KeySteps::default(),
            copies: 0,
            receive: ReceiveScratch::default(),
            bounce: vec![0; BOUNCE_BYTES].into(),
            datagram: Vec::with_capacity(MAX_DATAGRAM),
        }
    }
}

impl Engine {
    /// A completion queue cannot be written any more.
    pub fn cq_died(&mut self, cqn: u32) {
        self.dead_cqs.push(cqn);
    }

    /// A completion queue's event is due at that time at the latest.
    pub fn cq_waits(&mut self, cqn: u32, at: Instant) {
        self.timers.set(cqn, at);
    }

    /// The number of a QP's new life; 0 is nobody's.
    pub fn next_life(&mut self) -> u64 {
        self.lives += 1;
        self.lives
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.clock.unwrap_or_else(Instant::now)
    }

    /// From now on it is that time until the next call: tests need not wait for time-outs.
    pub fn set_time(&mut self, now: Instant) {
        self.clock = Some(now);
    }

    /// When there is something to do again, if there is: a QP wants to be looked at, or a packet arrives.
    pub fn next_timer(&self) -> Option<Instant> {
        [self.timers.next(), self.wire.next_arrival()].into_iter().flatten().min()
    }

    /// Whether QPs are in line, or completion queues died whose users have yet to fail.
    pub fn is_busy(&self) -> bool {
        !self.line.is_empty() || !self.dead_cqs.is_empty()
    }

    /// What was done on the way counts as so many work requests.
    pub(crate) fn charge(&mut self) -> usize {
        self.key_steps.charge() + std::mem::take(&mut self.copies)
    }

    /// Whether there is something to do now.
    fn has_more(&self) -> bool {
        self.is_busy() || self.next_timer().is_some_and(|at| at <= self.now())
    }

    /// QPs and CQs are gone: nothing is to be done for them any more.
    pub fn forget_timers(&mut self, keep: impl Fn(u32) -> bool) {
        self.timers.keep(keep);
    }

    /// The QP or CQ is gone.
    pub fn forget_timer(&mut self, number: u32) {
        self.timers.cancel(number);
    }
}

/// What is left to do for a QP after its turn.
enum Turn {
    Over,
    Again,
}

impl Device {
    /// Puts a QP in line.
    pub fn ring(&mut self, qpn: u32) {
        if let Some(qp) = self.objects.qps.get_mut(qpn) {
            if !std::mem::replace(&mut qp.queued, true) {
                self.engine.line.push_back(qpn);
            }
        }
    }

    /// Nothing is sent by the QP before that time.
    fn wake_at(&mut self, qpn: u32, at: Instant) {
        if let Some(qp) = self.objects.qps.get_mut(qpn) {
            qp.repeating.wake = Some(at);
            self.engine.timers.set(qpn, at);
        }
    }

    /// Serves timers, packets and the line for about `budget` work requests; says whether there is more.
    pub fn run(&mut self, budget: usize) -> bool {
        // However many timers are due, half of the time is for the others.
        let timers = self.run_timers(budget.div_ceil(2));
        let mut left = (budget - timers).max(1);
        let Some(mut wqe) = self.engine.wqe.take() else { return false };
        while left > 0 {
            self.engine.key_steps.begin();
            if self.deliver_next() {
                left = left.saturating_sub(1 + self.engine.charge());
                continue;
            }
            let Some(qpn) = self.engine.line.pop_front() else { break };
            if let Some(qp) = self.objects.qps.get_mut(qpn) {
                qp.queued = false;
            }
            let turn = left.min(TURN);
            let (result, used) = self.serve(qpn, turn, &mut wqe);
            left = left.saturating_sub((used + self.engine.charge()).max(1));
            if let Turn::Again = result {
                self.ring(qpn);
            }
        }
        self.engine.wqe = Some(wqe);
        if !self.engine.dead_cqs.is_empty() {
            let dead = self.engine.dead_cqs.drain(..).collect();
            self.fail_users(&dead);
        }
        self.engine.has_more()
    }

    /// Sees to at most so many timers that are due; says to how many.
    fn run_timers(&mut self, most: usize) -> usize {
        if self.engine.timers.next().is_none() {
            return 0;
        }
        let now = self.engine.now();
        for n in 0..most {
            let Some((at, qpn)) = self.engine.timers.due(now) else { return n };
            self.end_moderation(qpn, at);
            if let Some(qp) = self.objects.qps.get_mut(qpn) {
                qp.repeating.wake = None;
                self.ring(qpn);
            }
        }
        most
    }

    /// A QP's turn: at most `turn` work requests, flushed ones included.
    fn serve(&mut self, qpn: u32, turn: usize, wqe: &mut Box<Wqe>) -> (Turn, usize) {
        let mut used = 0;
        while used < turn {
            used += self.engine.charge();
            self.engine.key_steps.begin();
            let Some(qp) = self.objects.qps.get(qpn) else { return (Turn::Over, used) };
            let resumed = qp.send.as_ref().is_some_and(|s| s.flush_until.is_some());
            match qp.state {
                QpState::ReadyToSend if resumed => {
                    used += 1;
                    if !self.flush_send(qpn, wqe) {
                        self.end_flush(qpn);
                    }
                    continue;
                }
                QpState::ReadyToSend => {}
                QpState::Error | QpState::SendError => {
                    used += 1;
                    if self.flush_one(qpn, wqe) {
                        continue;
                    }
                    return (Turn::Over, used);
                }
                _ => return (Turn::Over, used),
            }
            if qp.repeating.wake.is_some() {
                return (Turn::Over, used);
            }
            if qp.sending.is_some() {
                match self.proceed(qpn, turn - used) {
                    Progress::Made(cost) => used += cost.max(1),
                    Progress::Waiting(cost) => return (Turn::Over, used + cost),
                }
                continue;
            }
            used += 1;
            let blocks = match self.fetch(qp, wqe) {
                Ok(0) => return (Turn::Over, used),
                Ok(blocks) => blocks,
                Err(QueueFault) => {
                    self.fail_qp(qpn, Some(EventType::WqCatastrophic));
                    continue;
                }
            };
            let index = qp.send.as_ref().map_or(0, |s| s.next);
            let service = qp.service;
            wqe.parse_control();
            let outcome = match wqe.parse(service) {
                Ok(()) => {
                    let outcome = self.execute(qpn, wqe, (index, blocks));
                    if matches!(outcome, Outcome::Begun) {
                        continue;
                    }
                    if !matches!(outcome, Outcome::Wait(_)) {
                        used += (wqe.total / BYTES_PER_REQUEST) as usize;
                    }
                    outcome
                }
                Err(syndrome) => Outcome::Failed(syndrome),
            };
            if let Outcome::Wait(until) = outcome {
                self.wake_at(qpn, until);
                return (Turn::Over, used);
            }
            self.retire(qpn, (index, blocks), wqe, outcome);
        }
        (Turn::Again, used)
    }

    /// Reads the next work request; 0 blocks: there is none.
    fn fetch(&self, qp: &QueuePair, wqe: &mut Wqe) -> Result<u16, QueueFault> {
        let Some(send) = &qp.send else { return Ok(0) };
        let memory = &self.guests[qp.guest].memory;
        let posted = memory.read_be32(qp.doorbell.wrapping_add(4)).map_err(|_| QueueFault)? as u16;
        let waiting = posted.wrapping_sub(send.next);
        if waiting == 0 {
            return Ok(0);
        }
        if u32::from(waiting) > 1 << send.log_size {
            return Err(QueueFault);
        }
        self.fetch_block(qp, send, 0, wqe)?;
        let length = wqe::wqe_length(&wqe.bytes);
        let blocks = length.div_ceil(SEND_BLOCK_BYTES) as u16;
        if length < SEGMENT_BYTES || blocks > waiting {
            return Err(QueueFault);
        }
        (1..blocks).try_for_each(|n| self.fetch_block(qp, send, n, wqe))?;
        wqe.length = length;
        Ok(blocks)
    }

    /// Reads the nth block of the next work request.
    fn fetch_block(&self, qp: &QueuePair, send: &SendQueue, n: u16, wqe: &mut Wqe) -> Result<(), QueueFault> {
        let slot = u64::from(send.next.wrapping_add(n)) & ((1 << send.log_size) - 1);
        let at = usize::from(n) * SEND_BLOCK_BYTES;
        // The longest work request ends within its last block.
        let end = wqe.bytes.len().min(at + SEND_BLOCK_BYTES);
        let to = wqe.bytes.get_mut(at..end).ok_or(QueueFault)?;
        qp.buffer
            .read(&self.guests[qp.guest].memory, send.base + slot * SEND_BLOCK_BYTES as u64, to)
            .map_err(|_| QueueFault)
    }

    /// A work request is over: completion, and on error the QP's state.
    fn retire(&mut self, qpn: u32, (index, blocks): (u16, u16), wqe: &Wqe, outcome: Outcome) {
        let Some(qp) = self.objects.qps.get_mut(qpn) else { return };
        if let Some(send) = &mut qp.send {
            send.next = send.next.wrapping_add(blocks);
        }
        let (cqn, user_index, service) = (qp.send_cqn, qp.user_index, qp.service);
        let activity = &mut self.guests[qp.guest].activity;
        activity.work_requests += 1;
        let completion =
            |kind| Completion::new(kind, qpn, user_index, index).with(cqe::WQE_OPCODE, wqe.raw_opcode);
        match outcome {
            Outcome::Wait(_) | Outcome::Begun => {}
            Outcome::Done { bytes } => {
                if wqe.signalled {
                    let c = completion(CompletionOpcode::Requester).with(cqe::BYTE_COUNT, bytes);
                    self.complete(cqn, c);
                }
            }
            Outcome::Failed(syndrome) => {
                *activity.work_request_errors.entry(format!("{syndrome:?}")).or_default() += 1;
                tracing::debug!("QP {qpn:#x}: work request {index} ({:#x}): {syndrome:?}", wqe.raw_opcode);
                self.complete(cqn, completion(CompletionOpcode::RequesterError).syndrome(syndrome));
                match service {
                    // A datagram QP goes on receiving.
                    Service::Ud | Service::Smi | Service::Gsi | Service::Uc => self.fail_sends(qpn),
                    _ => self.fail_qp(qpn, None),
                }
            }
        }
    }
}

/// A send queue cannot be read, or its counters make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QueueFault;

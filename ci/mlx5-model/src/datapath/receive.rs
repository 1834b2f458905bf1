//! Taking a receive: from the QP's own queue, a shared one, or the one that a request names; and what a responder
//! keeps of messages that have begun.

use std::collections::VecDeque;

use crate::{
    cq::{Completion, CompletionQueue},
    device::Device,
    eq::Event,
    hw::{CompletionOpcode, EventType, WqeOpcode, WqeSyndrome},
    mkey::{Access, Accessor},
    objects::GuestId,
    qp::{MAX_RECEIVE_BYTES, Receive},
    srq::SrqKind,
};

use super::{
    packet::ATOMIC_BYTES,
    wqe::{Piece, parse_scatter},
};

/// A message of which a part has come.
#[derive(Debug)]
pub struct Incoming {
    /// What it is.
    pub opcode: WqeOpcode,
    /// How long it is.
    pub total: u64,
    /// Bytes that have come.
    pub offset: u64,
    /// Whose keys count.
    pub who: Accessor,
    /// What they must allow.
    pub access: Access,
    /// The SRQ that it names (XRC).
    pub srqn: Option<u32>,
    /// The receive that was taken for it.
    pub taken: Option<Taken>,
    /// Where it goes to.
    pub pieces: Vec<Piece>,
}

/// What a QP remembers of the requests that it answers.
#[derive(Debug, Default)]
pub struct Answering {
    /// The message that has begun and not ended.
    pub incoming: Option<Box<Incoming>>,
    /// A receive that was taken for a message of which something is lost: it is for the next one. Only unreliable
    /// connections have it.
    pub spare: Option<(Taken, Vec<Piece>)>,
    /// The requester was told once what is missing, or that it must wait; what follows meanwhile is dropped.
    pub told: bool,
    /// Sequence numbers and results of the last atomics, oldest first, to answer them again.
    atomics: VecDeque<(u32, [u8; ATOMIC_BYTES])>,
}

impl Answering {
    /// The rest of the message that has begun is lost; its receive is not.
    pub fn abandon(&mut self) {
        if let Some(Incoming { taken: Some(taken), pieces, .. }) = self.incoming.take().map(|i| *i) {
            self.spare = Some((taken, pieces));
        }
    }

    /// Gives the receive up that a message has half filled.
    pub fn break_off(&mut self) -> Option<Taken> {
        self.abandon();
        self.spare.take().map(|(taken, _)| taken)
    }

    /// The SRQ ends: what was taken from it, and the message that it was taken for, end with it, and nobody is told.
    pub fn forget_srq(&mut self, srqn: u32) {
        let was_taken = |taken: &Taken| taken.srqn == Some(srqn);
        self.incoming.take_if(|incoming| incoming.taken.as_ref().is_some_and(was_taken));
        self.spare.take_if(|(taken, _)| was_taken(taken));
    }

    /// Remembers the result of an atomic, and forgets the oldest if there are more than `most`.
    pub fn remember(&mut self, psn: u32, found: [u8; ATOMIC_BYTES], most: usize) {
        while self.atomics.len() >= most.max(1) {
            self.atomics.pop_front();
        }
        self.atomics.push_back((psn, found));
    }

    /// The result of the atomic with that number.
    pub fn remembered(&self, psn: u32) -> Option<[u8; ATOMIC_BYTES]> {
        self.atomics.iter().rev().find(|(n, _)| *n == psn).map(|(_, found)| *found)
    }
}

/// The receive in hand; reused for all.
#[derive(Debug)]
pub struct ReceiveScratch {
    bytes: Box<[u8; MAX_RECEIVE_BYTES]>,
    /// Its scatter list.
    pub pieces: Vec<Piece>,
}

impl Default for ReceiveScratch {
    fn default() -> Self {
        Self { bytes: Box::new([0; MAX_RECEIVE_BYTES]), pieces: Vec::new() }
    }
}

/// A receive that was taken; its scatter list is in the scratch.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    qpn: u32,
    counter: u16,
    cqn: u32,
    user_index: u32,
    /// The SRQ that it was in.
    srqn: Option<u32>,
    /// Who its keys are for.
    pub who: Accessor,
}

impl Taken {
    /// Its completion.
    pub fn completion(&self, opcode: CompletionOpcode) -> Completion {
        Completion::new(opcode, self.qpn, self.user_index, self.counter)
    }

    /// Where it completes.
    pub fn cqn(&self) -> u32 {
        self.cqn
    }
}

/// Why there is no receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoReceive {
    /// None is posted.
    NotReady,
    /// The queue is broken.
    Broken,
}

impl Device {
    /// Takes a receive for a message to the QP; `named` is the SRQ of an XRC request.
    pub fn take_receive(&mut self, qpn: u32, named: Option<u32>) -> Result<Taken, NoReceive> {
        let qp = self.objects.qps.get_mut(qpn).ok_or(NoReceive::Broken)?;
        let who = qp.accessor(qpn);
        let (cqn, user_index) = (qp.receive_cqn, qp.user_index);
        let own = Taken { qpn, counter: 0, cqn, user_index, srqn: None, who };
        let srqn = match (&mut qp.receive, named) {
            (Receive::Own { log_size, log_stride, next }, _) => {
                let memory = &self.guests[qp.guest].memory;
                let posted = memory.read_be32(qp.doorbell).map_err(|_| NoReceive::Broken)? as u16;
                let waiting = posted.wrapping_sub(*next);
                if waiting == 0 {
                    return Err(NoReceive::NotReady);
                }
                if u32::from(waiting) > 1 << *log_size {
                    return Err(NoReceive::Broken);
                }
                let slot = u64::from(*next) & ((1 << *log_size) - 1);
                let scratch = &mut self.engine.receive;
                let list = &mut scratch.bytes[..1 << *log_stride];
                qp.buffer.read(memory, slot << *log_stride, list).map_err(|_| NoReceive::Broken)?;
                parse_scatter(list, &mut scratch.pieces);
                let counter = *next;
                *next = next.wrapping_add(1);
                return Ok(Taken { counter, ..own });
            }
            (Receive::Shared(srqn), _) => *srqn,
            (Receive::Named, Some(srqn)) => srqn,
            (Receive::Named, None) | (Receive::None, _) => return Err(NoReceive::Broken),
        };
        self.take_shared(srqn, own)
    }

    fn take_shared(&mut self, srqn: u32, own: Taken) -> Result<Taken, NoReceive> {
        let srq = self.objects.srqs.get_mut(srqn).ok_or(NoReceive::Broken)?;
        let guest: GuestId = own.who.guest;
        let was_dead = srq.is_dead();
        let cq = srq.cqn().and_then(|cqn| self.objects.cqs.get(cqn));
        if cq.is_some_and(CompletionQueue::is_dead) {
            // Its receives could not be told of.
            srq.die();
        }
        let scratch = &mut self.engine.receive;
        let entry = match srq.take(&self.guests[guest].memory, &mut scratch.bytes) {
            Ok(Some(entry)) => entry,
            Ok(None) => return Err(NoReceive::NotReady),
            Err(_) => {
                if !was_dead {
                    self.guests[guest].raise_async(&Event::resource(EventType::SrqCatastrophic, srqn));
                }
                return Err(NoReceive::Broken);
            }
        };
        parse_scatter(&scratch.bytes[..entry.length], &mut scratch.pieces);
        let who = Accessor { pd: srq.pd, ..own.who };
        let own = Taken { srqn: Some(srqn), ..own };
        let taken = match srq.kind {
            SrqKind::Xrc { cqn, user_index, .. } => {
                Taken { counter: entry.index, cqn, user_index, who, ..own }
            }
            _ => Taken { counter: entry.index, who, ..own },
        };
        if entry.limit_reached {
            self.guests[guest].raise_async(&Event::resource(EventType::SrqLimit, srqn));
        }
        Ok(taken)
    }

    /// The queue that the QP receives from cannot be read: no service goes on without.
    pub fn receive_queue_broke(&mut self, qpn: u32) {
        if self.objects.qps.get(qpn).is_some_and(|qp| qp.receives()) {
            self.fail_qp(qpn, Some(EventType::WqCatastrophic));
        }
    }

    /// Ends the oldest receive that is posted to the QP's own queue with an error; says whether there was one.
    pub fn flush_receive(&mut self, qpn: u32) -> bool {
        let Ok(taken) = self.take_receive(qpn, None) else { return false };
        self.fail_receive(&taken, WqeSyndrome::Flushed);
        true
    }

    /// Ends a receive that was taken with an error.
    pub fn fail_receive(&mut self, taken: &Taken, syndrome: WqeSyndrome) {
        let c = taken.completion(CompletionOpcode::ResponderError).syndrome(syndrome);
        self.complete(taken.cqn(), c);
    }
}

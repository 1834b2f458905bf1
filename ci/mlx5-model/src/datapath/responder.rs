//! The answering side of connections and XRC targets, and the wire to it.

use crate::{
    device::Device,
    eq::Event,
    fields::{cqe, qpc},
    hw::{CompletionOpcode, EventType, QpState, Service, WqeOpcode, WqeSyndrome},
    mkey::{Access, Accessor},
};

use super::{
    receive::{NoReceive, Taken},
    transfer::{End, Failed, Store, TransferFault, copy},
    wqe::{Piece, Wqe},
};

/// Operand of an atomic.
const ATOMIC_BYTES: usize = 8;

/// What travels with a work request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Service of the sender.
    pub service: Service,
    /// The sender, as its keys see it.
    pub source: Accessor,
    /// LID of the receiver.
    pub lid: u16,
    /// QP of the receiver.
    pub destination: u32,
    /// First packet's sequence number.
    pub psn: u32,
    /// Packets it takes.
    pub packets: u32,
    /// SRQ of the receiver (XRC).
    pub srqn: Option<u32>,
}

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Acknowledged,
    /// Refused; the requester sees this.
    NotAcknowledged(WqeSyndrome),
    /// There is no receive; the code of the time to wait.
    NotReady(u64),
    /// Nothing.
    Silence,
    /// It did not leave: something is wrong at the sender.
    Failed(WqeSyndrome),
}

/// What the receiver's side of a transfer says of its fault.
fn at_sender(fault: TransferFault) -> Reply {
    Reply::Failed(match fault {
        TransferFault::Key => WqeSyndrome::LocalProtection,
        TransferFault::Dma => WqeSyndrome::LocalAccess,
        TransferFault::Length => WqeSyndrome::LocalLength,
    })
}

impl Device {
    /// The wire between connected QPs: every request of every guest goes through here.
    pub fn carry(&mut self, request: &Request, wqe: &Wqe) -> Reply {
        let Some(guest) = self.guest_at(request.lid) else { return Reply::Silence };
        let target = request.destination;
        let Ok(qp) = self.objects.qps.owned_mut(guest, target) else { return Reply::Silence };
        let fits = qp.service == request.service
            && (qp.service != Service::Xrc || qp.is_xrc_target())
            && qp.answers();
        // A sequence number that is not the next one stays unanswered; unreliable connections do not look.
        if !fits || qp.service != Service::Uc && qp.receive_psn != request.psn {
            return Reply::Silence;
        }
        if qp.state == QpState::ReadyToReceive && !std::mem::replace(&mut qp.established, true) {
            self.guests[guest].raise_async(&Event::resource(EventType::CommunicationEstablished, target));
        }
        let reply = self.answer(request, wqe);
        if reply == Reply::Acknowledged {
            if let Some(qp) = self.objects.qps.get_mut(target) {
                qp.received(request.packets);
            }
        }
        reply
    }

    /// Refuses a request: the target breaks, and its owner hears why.
    fn refuse(&mut self, target: u32, syndrome: WqeSyndrome) -> Reply {
        let event = match syndrome {
            WqeSyndrome::RemoteInvalidRequest => Some(EventType::WqInvalidRequest),
            WqeSyndrome::RemoteAccess => Some(EventType::WqAccess),
            WqeSyndrome::RemoteOperation => Some(EventType::WqCatastrophic),
            _ => None,
        };
        self.fail_reliable(target, event);
        Reply::NotAcknowledged(syndrome)
    }

    /// Breaks a connection that has one to break.
    fn fail_reliable(&mut self, target: u32, event: Option<EventType>) {
        if self.objects.qps.get(target).is_some_and(|qp| qp.service != Service::Uc) {
            self.fail_qp(target, event);
        }
    }

    fn answer(&mut self, request: &Request, wqe: &Wqe) -> Reply {
        let target = request.destination;
        let Some(qp) = self.objects.qps.get(target) else { return Reply::Silence };
        let mut who = qp.accessor(target);
        if let Some(srqn) = request.srqn {
            // XRC: keys are checked against the domain of the SRQ that the request names, which must be of the
            // target's XRC domain.
            match self.objects.srqs.owned(who.guest, srqn) {
                Ok(srq) if srq.xrcd() == Some(qp.xrcd) => who.pd = srq.pd,
                _ => return self.refuse(target, WqeSyndrome::RemoteInvalidRequest),
            }
        }
        match wqe.opcode {
            // What changes a key does not travel.
            WqeOpcode::Nop | WqeOpcode::Umr => Reply::Acknowledged,
            WqeOpcode::SendInvalidate | WqeOpcode::Send | WqeOpcode::SendImmediate => {
                self.answer_send(request, wqe, who)
            }
            WqeOpcode::Write | WqeOpcode::WriteImmediate => self.answer_write(request, wqe, who),
            WqeOpcode::Read => self.answer_read(request, wqe, who),
            WqeOpcode::CompareSwap | WqeOpcode::FetchAdd => self.answer_atomic(request, wqe, who),
        }
    }

    fn no_receive(&mut self, target: u32, reason: NoReceive) -> Reply {
        match reason {
            NoReceive::NotReady => {
                let code = self.objects.qps.get(target).map_or(0, |qp| qpc::MIN_RNR_NAK.get(&qp.context));
                Reply::NotReady(code)
            }
            NoReceive::Broken => self.refuse(target, WqeSyndrome::RemoteOperation),
        }
    }

    fn answer_send(&mut self, request: &Request, wqe: &Wqe, who: Accessor) -> Reply {
        let target = request.destination;
        let invalidates = wqe.opcode == WqeOpcode::SendInvalidate;
        if invalidates && self.objects.mkeys.may_invalidate(&who, wqe.immediate).is_err() {
            return self.refuse(target, WqeSyndrome::RemoteAccess);
        }
        let mut source = End::new(&wqe.pieces, &wqe.bytes, request.source, Access::LocalRead);
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests };
        if let Err(fault) = source.check(store, wqe.total) {
            return at_sender(fault);
        }
        let taken = match self.take_receive(target, request.srqn) {
            Ok(taken) => taken,
            Err(reason) => return self.no_receive(target, reason),
        };
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests };
        let scratch = &self.engine.receive;
        let mut sink = End::new(&scratch.pieces, &[], taken.who, Access::LocalWrite);
        let result = sink
            .check(store, wqe.total)
            .map_err(Failed::Sink)
            .and_then(|()| copy(store, &mut self.engine.bounce, &mut source, &mut sink, wqe.total));
        if let Err(failed) = result {
            return self.break_off(target, &taken, failed);
        }
        let kind = match wqe.opcode {
            WqeOpcode::SendImmediate => CompletionOpcode::SendImmediate,
            WqeOpcode::SendInvalidate => {
                self.objects.mkeys.invalidate(wqe.immediate);
                CompletionOpcode::SendInvalidate
            }
            _ => CompletionOpcode::Send,
        };
        self.complete_receive(&taken, kind, wqe);
        Reply::Acknowledged
    }

    fn complete_receive(&mut self, taken: &Taken, kind: CompletionOpcode, wqe: &Wqe) {
        let c = taken
            .completion(kind)
            .with(cqe::BYTE_COUNT, wqe.total)
            .with(cqe::IMMEDIATE, wqe.immediate)
            .solicited(wqe.solicited);
        self.complete(taken.cqn(), c);
    }

    /// A transfer for which a receive was taken broke off: the receive ends with an error, then the connection.
    fn break_off(&mut self, target: u32, taken: &Taken, failed: Failed) -> Reply {
        let (syndrome, reply) = match failed {
            Failed::Sink(TransferFault::Length) => {
                (WqeSyndrome::LocalLength, Reply::NotAcknowledged(WqeSyndrome::RemoteInvalidRequest))
            }
            Failed::Sink(TransferFault::Key) => {
                (WqeSyndrome::LocalProtection, Reply::NotAcknowledged(WqeSyndrome::RemoteOperation))
            }
            Failed::Sink(TransferFault::Dma) => {
                (WqeSyndrome::LocalAccess, Reply::NotAcknowledged(WqeSyndrome::RemoteOperation))
            }
            // The sender's memory went away under way; the receive is lost with the connection.
            Failed::Source(fault) => (WqeSyndrome::Flushed, at_sender(fault)),
        };
        self.fail_receive(taken, syndrome);
        self.fail_reliable(target, None);
        reply
    }

    fn answer_write(&mut self, request: &Request, wqe: &Wqe, who: Accessor) -> Reply {
        let target = request.destination;
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests };
        let mut source = End::new(&wqe.pieces, &wqe.bytes, request.source, Access::LocalRead);
        if let Err(fault) = source.check(store, wqe.total) {
            return at_sender(fault);
        }
        let remote = remote_piece(wqe);
        let mut sink = End::new(&remote, &[], who, Access::RemoteWrite);
        let allowed = self.objects.qps.get(target).is_some_and(|qp| qp.accepts(qpc::RWE));
        if !allowed || sink.check(store, wqe.total).is_err() {
            return self.refuse(target, WqeSyndrome::RemoteAccess);
        }
        let receive = if wqe.opcode == WqeOpcode::WriteImmediate {
            match self.take_receive(target, request.srqn) {
                Ok(taken) => Some(taken),
                Err(reason) => return self.no_receive(target, reason),
            }
        } else {
            None
        };
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests };
        let result = copy(store, &mut self.engine.bounce, &mut source, &mut sink, wqe.total);
        match (result, receive) {
            (Ok(()), None) => Reply::Acknowledged,
            (Ok(()), Some(taken)) => {
                self.complete_receive(&taken, CompletionOpcode::WriteImmediate, wqe);
                Reply::Acknowledged
            }
            (Err(failed), Some(taken)) => self.break_off(target, &taken, failed),
            (Err(Failed::Source(fault)), None) => at_sender(fault),
            (Err(Failed::Sink(_)), None) => self.refuse(target, WqeSyndrome::RemoteOperation),
        }
    }

    fn answer_read(&mut self, request: &Request, wqe: &Wqe, who: Accessor) -> Reply {
        let target = request.destination;
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests };
        let remote = remote_piece(wqe);
        let mut source = End::new(&remote, &[], who, Access::RemoteRead);
        let allowed = self.objects.qps.get(target).is_some_and(|qp| qp.accepts(qpc::RRE));
        if !allowed || source.check(store, wqe.total).is_err() {
            return self.refuse(target, WqeSyndrome::RemoteAccess);
        }
        let mut sink = End::new(&wqe.pieces, &[], request.source, Access::LocalWrite);
        if let Err(fault) = sink.check(store, wqe.total) {
            return at_sender(fault);
        }
        match copy(store, &mut self.engine.bounce, &mut source, &mut sink, wqe.total) {
            Ok(()) => Reply::Acknowledged,
            Err(Failed::Sink(fault)) => at_sender(fault),
            Err(Failed::Source(_)) => self.refuse(target, WqeSyndrome::RemoteOperation),
        }
    }

    fn answer_atomic(&mut self, request: &Request, wqe: &Wqe, who: Accessor) -> Reply {
        let target = request.destination;
        if wqe.remote.address % ATOMIC_BYTES as u64 != 0 {
            return self.refuse(target, WqeSyndrome::RemoteInvalidRequest);
        }
        if wqe.total != ATOMIC_BYTES as u64 {
            return Reply::Failed(WqeSyndrome::LocalLength);
        }
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests };
        let remote = remote_piece(wqe);
        let operand = End::new(&remote, &[], who, Access::RemoteAtomic);
        let allowed = self.objects.qps.get(target).is_some_and(|qp| qp.accepts(qpc::RAE));
        if !allowed || operand.check(store, wqe.total).is_err() {
            return self.refuse(target, WqeSyndrome::RemoteAccess);
        }
        let mut sink = End::new(&wqe.pieces, &[], request.source, Access::LocalWrite);
        if let Err(fault) = sink.check(store, wqe.total) {
            return at_sender(fault);
        }
        // All requests go through this thread one by one: that makes them atomic to each other.
        let mut bytes = [0; ATOMIC_BYTES];
        if operand.clone().read(store, &mut bytes).is_err() {
            return self.refuse(target, WqeSyndrome::RemoteOperation);
        }
        // Memory operands are in the host's byte order, as the capabilities say.
        let old = u64::from_le_bytes(bytes);
        let new = match wqe.opcode {
            WqeOpcode::FetchAdd => old.wrapping_add(wqe.atomic.swap_or_add),
            _ if old == wqe.atomic.compare => wqe.atomic.swap_or_add,
            _ => old,
        };
        if operand.clone().write(store, &new.to_le_bytes()).is_err() {
            return self.refuse(target, WqeSyndrome::RemoteOperation);
        }
        match sink.write(store, &bytes) {
            Ok(()) => Reply::Acknowledged,
            Err(fault) => at_sender(fault),
        }
    }
}

/// The other end of an RDMA operation or atomic.
fn remote_piece(wqe: &Wqe) -> [Piece; 1] {
    // Not longer than the longest message, which was checked.
    let length = wqe.total as u32;
    [Piece::Memory { address: wqe.remote.address, length, key: wqe.remote.key }]
}

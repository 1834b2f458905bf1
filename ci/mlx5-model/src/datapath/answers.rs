//! What a responder does for each operation: messages and writes part by part, reads, atomics.

use crate::{
    device::Device,
    fields::{cqe, qpc},
    hw::{CompletionOpcode, WqeOpcode, WqeSyndrome},
    mkey::{Access, Accessor},
};

use super::{
    packet::{ATOMIC_BYTES, Load, Packet, Reply, Request},
    receive::{Incoming, Taken},
    requester::local_syndrome,
    transfer::{End, Failed, Store, TransferFault, copy},
    wqe::Piece,
};

impl Device {
    /// A message or a write, or a part of one.
    pub(super) fn answer_message(&mut self, request: &Request, load: &Load, who: Accessor) -> Reply {
        let target = request.destination;
        let begun = if request.is_first() { self.begin(request, who) } else { self.resume(request) };
        let mut incoming = match begun {
            Ok(incoming) => incoming,
            Err(reply) => return reply,
        };
        if request.opcode == WqeOpcode::WriteImmediate && request.is_last() {
            match self.receive_for(request) {
                Ok((taken, _)) => incoming.taken = Some(taken),
                Err(reply) => {
                    self.keep(target, incoming);
                    return reply;
                }
            }
        }
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
        let mut sink = End::new(&incoming.pieces, &[], incoming.who, incoming.access);
        sink.skip(incoming.offset);
        let mut source = load.end(Access::LocalRead);
        let result = copy(store, &mut self.engine.bounce, &mut source, &mut sink, request.length);
        match (result, incoming.taken) {
            (Ok(()), _) => {}
            (Err(failed), Some(taken)) => return self.break_off(target, &taken, failed),
            (Err(Failed::Source(fault)), None) => return Reply::Failed(local_syndrome(fault)),
            (Err(Failed::Sink(_)), None) => return self.refuse(target, WqeSyndrome::RemoteOperation),
        }
        incoming.offset += request.length;
        if !request.is_last() {
            self.keep(target, incoming);
            return Reply::Acknowledged;
        }
        let invalidates = request.opcode == WqeOpcode::SendInvalidate;
        if invalidates && self.objects.mkeys.may_invalidate(&who, request.immediate).is_ok() {
            self.objects.mkeys.invalidate(request.immediate);
        }
        if let Some(taken) = incoming.taken {
            self.complete_receive(&taken, request);
        }
        // The list goes back, so that the next message allocates none.
        self.engine.receive.pieces = incoming.pieces;
        Reply::Acknowledged
    }

    /// The first part: what the message needs must be there, and wide enough for all of it.
    fn begin(&mut self, request: &Request, who: Accessor) -> Result<Incoming, Reply> {
        let target = request.destination;
        let qp = self.objects.qps.get(target).ok_or(Reply::Silence)?;
        if qp.answering.incoming.is_some() {
            return Err(self.refuse(target, WqeSyndrome::RemoteInvalidRequest));
        }
        let may_write = qp.accepts(qpc::RWE);
        let (opcode, total, srqn) = (request.opcode, request.total, request.srqn);
        let invalidates = opcode == WqeOpcode::SendInvalidate;
        if invalidates && self.objects.mkeys.may_invalidate(&who, request.immediate).is_err() {
            return Err(self.refuse(target, WqeSyndrome::RemoteAccess));
        }
        if invalidates || matches!(opcode, WqeOpcode::Send | WqeOpcode::SendImmediate) {
            let (taken, pieces) = self.receive_for(request)?;
            let store =
                Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
            let sink = End::new(&pieces, &[], taken.who, Access::LocalWrite);
            if let Err(fault) = sink.check(store, total) {
                return Err(self.break_off(target, &taken, Failed::Sink(fault)));
            }
            let (who, access) = (taken.who, Access::LocalWrite);
            return Ok(Incoming { opcode, total, offset: 0, who, access, srqn, taken: Some(taken), pieces });
        }
        let mut pieces = std::mem::take(&mut self.engine.receive.pieces);
        pieces.clear();
        pieces.push(request.remote_piece(total));
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
        let sink = End::new(&pieces, &[], who, Access::RemoteWrite);
        if !may_write || sink.check(store, total).is_err() {
            return Err(self.refuse(target, WqeSyndrome::RemoteAccess));
        }
        Ok(Incoming { opcode, total, offset: 0, who, access: Access::RemoteWrite, srqn, taken: None, pieces })
    }

    /// A later part: it must go on where the message stands.
    fn resume(&mut self, request: &Request) -> Result<Incoming, Reply> {
        let target = request.destination;
        let qp = self.objects.qps.get_mut(target).ok_or(Reply::Silence)?;
        let fits = qp.answering.incoming.as_ref().is_some_and(|i| {
            (i.opcode, i.total, i.offset, i.srqn)
                == (request.opcode, request.total, request.offset, request.srqn)
        });
        match qp.answering.incoming.take_if(|_| fits) {
            Some(incoming) => Ok(*incoming),
            None => Err(self.refuse(target, WqeSyndrome::RemoteInvalidRequest)),
        }
    }

    /// Keeps what has come until the next part comes.
    fn keep(&mut self, target: u32, incoming: Incoming) {
        if incoming.offset > 0 {
            if let Some(qp) = self.objects.qps.get_mut(target) {
                qp.answering.incoming = Some(Box::new(incoming));
            }
        }
    }

    /// A receive and its scatter list.
    fn receive_for(&mut self, request: &Request) -> Result<(Taken, Vec<Piece>), Reply> {
        let target = request.destination;
        if let Some(spare) = self.objects.qps.get_mut(target).and_then(|qp| qp.answering.spare.take()) {
            return Ok(spare);
        }
        match self.take_receive(target, request.srqn) {
            Ok(taken) => Ok((taken, std::mem::take(&mut self.engine.receive.pieces))),
            Err(reason) => Err(self.no_receive(target, reason)),
        }
    }

    fn complete_receive(&mut self, taken: &Taken, request: &Request) {
        let kind = match request.opcode {
            WqeOpcode::WriteImmediate => CompletionOpcode::WriteImmediate,
            WqeOpcode::SendImmediate => CompletionOpcode::SendImmediate,
            WqeOpcode::SendInvalidate => CompletionOpcode::SendInvalidate,
            _ => CompletionOpcode::Send,
        };
        let c = taken
            .completion(kind)
            .with(cqe::BYTE_COUNT, request.total)
            .with(cqe::IMMEDIATE, request.immediate)
            .solicited(request.solicited);
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
            Failed::Source(fault) => (WqeSyndrome::Flushed, Reply::Failed(local_syndrome(fault))),
        };
        self.fail_receive(taken, syndrome);
        self.fail_reliable(target, None);
        reply
    }

    pub(super) fn answer_read(&mut self, request: &Request, load: &Load, who: Accessor) -> Reply {
        let target = request.destination;
        let allowed = self.objects.qps.get(target).is_some_and(|qp| qp.accepts(qpc::RRE));
        // The first part is for all of it.
        let length = if request.is_first() { request.total } else { request.length };
        let remote = [request.remote_piece(length)];
        let source = End::new(&remote, &[], who, Access::RemoteRead);
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
        if !allowed || source.check(store, length).is_err() {
            return self.refuse(target, WqeSyndrome::RemoteAccess);
        }
        match self.bring_data(request, load, source) {
            Ok(reply) => reply,
            Err(brought) => {
                let refusal = self.refuse(target, WqeSyndrome::RemoteOperation);
                if load.is_direct {
                    return refusal;
                }
                // The requester has what is before it, and would take a refusal of that for an old one.
                self.send_answer(who.guest, request, request.psn_after(brought), refusal);
                Reply::Silence
            }
        }
    }

    /// Brings what a read asks for: at once, or in packets. If it cannot be read, says how many packets were brought
    /// before.
    pub(super) fn bring_data(
        &mut self,
        request: &Request,
        load: &Load,
        mut source: End,
    ) -> Result<Reply, u32> {
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
        if load.is_direct {
            let mut sink = load.end(Access::LocalWrite);
            if let Err(fault) = sink.check(store, request.length) {
                return Ok(Reply::Failed(local_syndrome(fault)));
            }
            return match copy(store, &mut self.engine.bounce, &mut source, &mut sink, request.length) {
                Ok(()) => Ok(Reply::Data),
                Err(Failed::Sink(fault)) => Ok(Reply::Failed(local_syndrome(fault))),
                Err(Failed::Source(_)) => Err(0),
            };
        }
        let Some(qp) = self.objects.qps.get(request.destination) else { return Ok(Reply::Silence) };
        let (guest, mtu) = (qp.guest, u64::from(qp.mtu()));
        let mut left = request.length;
        for n in 0..request.packets {
            let mut payload = vec![0; left.min(mtu) as usize];
            let store =
                Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
            source.read(store, &mut payload).map_err(|_| n)?;
            left -= payload.len() as u64;
            let psn = request.psn_after(n);
            let (reply, payload) = (Reply::Data, payload.into());
            let data = Packet::Answer { qpn: request.source, psn, reply, payload };
            self.transmit(guest, Some(request.guest), data);
        }
        Ok(Reply::Data)
    }

    pub(super) fn answer_atomic(&mut self, request: &Request, who: Accessor) -> Reply {
        let target = request.destination;
        if request.remote.address % ATOMIC_BYTES as u64 != 0 {
            return self.refuse(target, WqeSyndrome::RemoteInvalidRequest);
        }
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
        let remote = [request.remote_piece(ATOMIC_BYTES as u64)];
        let operand = End::new(&remote, &[], who, Access::RemoteAtomic);
        let allowed = self.objects.qps.get(target).is_some_and(|qp| qp.accepts(qpc::RAE));
        if !allowed || operand.check(store, ATOMIC_BYTES as u64).is_err() {
            return self.refuse(target, WqeSyndrome::RemoteAccess);
        }
        // All requests go through this thread one by one: that makes them atomic to each other.
        let mut found = [0; ATOMIC_BYTES];
        if operand.clone().read(store, &mut found).is_err() {
            return self.refuse(target, WqeSyndrome::RemoteOperation);
        }
        // Memory operands are in the host's byte order, as the capabilities say.
        let old = u64::from_le_bytes(found);
        let new = match request.opcode {
            WqeOpcode::FetchAdd => old.wrapping_add(request.atomic.swap_or_add),
            _ if old == request.atomic.compare => request.atomic.swap_or_add,
            _ => old,
        };
        if operand.clone().write(store, &new.to_le_bytes()).is_err() {
            return self.refuse(target, WqeSyndrome::RemoteOperation);
        }
        if let Some(qp) = self.objects.qps.get_mut(target) {
            let most = qp.remembers();
            qp.answering.remember(request.psn, found, most);
        }
        Reply::Value(found)
    }
}

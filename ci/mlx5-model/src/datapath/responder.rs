//! The answering side of connections and XRC targets: is it the request that is expected, one that was answered
//! before, or one before which others are missing?

use crate::{
    device::Device,
    eq::Event,
    fields::qpc,
    hw::{EventType, QpState, Service, WqeOpcode, WqeSyndrome},
    mkey::{Access, Accessor},
    objects::GuestId,
};

use super::{
    packet::{AHEAD, Load, Reply, Request, distance},
    receive::NoReceive,
    transfer::{End, Store},
};

impl Device {
    /// A request, or a part of one, comes to the guest's port: every one of every guest goes through here.
    pub fn arrive(&mut self, guest: GuestId, request: &Request, load: &Load) -> Reply {
        let target = request.destination;
        let Ok(qp) = self.objects.qps.owned(guest, target) else { return Reply::Silence };
        // Whoever it is connected with, it is not with other ports.
        let fits = qp.service == request.service
            && (qp.service != Service::Xrc || qp.is_xrc_target())
            && qp.answers()
            && self.guest_at(qp.remote_lid()) == Some(request.guest);
        let Some(qp) = self.objects.qps.get_mut(target) else { return Reply::Silence };
        if !fits {
            return Reply::Silence;
        }
        if qp.service == Service::Uc {
            return self.arrive_unreliably(guest, request, load);
        }
        match distance(qp.receive_psn, request.psn) {
            0 => self.answer_new(guest, request, load),
            ahead if ahead < AHEAD => {
                // It is said once, until the missing one comes.
                if std::mem::replace(&mut qp.answering.told, true) {
                    return Reply::Silence;
                }
                self.guests[guest].activity.sequence_errors += 1;
                Reply::OutOfSequence
            }
            _ => {
                self.guests[guest].activity.duplicate_requests += 1;
                self.answer_again(request, load)
            }
        }
    }

    /// Unreliable connections take what comes; a message of which something is missing they do not.
    fn arrive_unreliably(&mut self, guest: GuestId, request: &Request, load: &Load) -> Reply {
        let Some(qp) = self.objects.qps.get_mut(request.destination) else { return Reply::Silence };
        let in_order = qp.receive_psn == request.psn;
        if !in_order {
            self.guests[guest].activity.sequence_errors += 1;
        }
        if !in_order || request.is_first() {
            qp.answering.abandon();
        }
        if !request.is_first() && qp.answering.incoming.is_none() {
            return Reply::Silence;
        }
        qp.receive_psn = request.psn;
        self.answer_new(guest, request, load)
    }

    fn answer_new(&mut self, guest: GuestId, request: &Request, load: &Load) -> Reply {
        let target = request.destination;
        let Some(qp) = self.objects.qps.get_mut(target) else { return Reply::Silence };
        if qp.state == QpState::ReadyToReceive && !std::mem::replace(&mut qp.established, true) {
            self.guests[guest].raise_async(&Event::resource(EventType::CommunicationEstablished, target));
        }
        let reply = self.answer(request, load);
        if let Some(qp) = self.objects.qps.get_mut(target) {
            match reply {
                Reply::Acknowledged | Reply::Data | Reply::Value(_) => qp.received(request.packets),
                Reply::NotReady(_) => qp.answering.told = true,
                _ => {}
            }
        }
        reply
    }

    /// Whose keys count. XRC: those of the domain of the SRQ that the request names, which must be of the target's
    /// XRC domain.
    fn whose_keys(&self, request: &Request) -> Option<Accessor> {
        let qp = self.objects.qps.get(request.destination)?;
        let mut who = qp.accessor(request.destination);
        if let Some(srqn) = request.srqn {
            let srq = self.objects.srqs.owned(who.guest, srqn).ok()?;
            if srq.xrcd() != Some(qp.xrcd) {
                return None;
            }
            who.pd = srq.pd;
        }
        Some(who)
    }

    fn answer(&mut self, request: &Request, load: &Load) -> Reply {
        let Some(who) = self.whose_keys(request) else {
            return self.refuse(request.destination, WqeSyndrome::RemoteInvalidRequest);
        };
        match request.opcode {
            // What changes a key does not travel.
            WqeOpcode::Nop | WqeOpcode::Umr => Reply::Acknowledged,
            WqeOpcode::Read => self.answer_read(request, load, who),
            WqeOpcode::CompareSwap | WqeOpcode::FetchAdd => self.answer_atomic(request, who),
            _ => self.answer_message(request, load, who),
        }
    }

    /// A request that was answered before. What it did is not done again, and it breaks nothing: the requester may
    /// long have had its answer, and given back what the request needs.
    fn answer_again(&mut self, request: &Request, load: &Load) -> Reply {
        let Some(qp) = self.objects.qps.get(request.destination) else { return Reply::Silence };
        match request.opcode {
            WqeOpcode::CompareSwap | WqeOpcode::FetchAdd => {
                qp.answering.remembered(request.psn).map_or(Reply::Silence, Reply::Value)
            }
            WqeOpcode::Read => {
                let Some(who) = self.whose_keys(request) else { return Reply::Silence };
                let remote = [request.remote_piece(request.length)];
                let source = End::new(&remote, &[], who, Access::RemoteRead);
                let store =
                    Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
                if !qp.accepts(qpc::RRE) || source.check(store, request.length).is_err() {
                    return Reply::Silence;
                }
                self.bring_data(request, load, source).unwrap_or(Reply::Silence)
            }
            // Handed over as it is, and only its beginning is old: its rest has no beginning.
            _ if load.is_direct && distance(request.psn, qp.receive_psn) < request.packets => {
                self.refuse(request.destination, WqeSyndrome::RemoteInvalidRequest)
            }
            _ => Reply::Acknowledged,
        }
    }

    /// Refuses a request: the target breaks, and its owner hears why.
    pub(super) fn refuse(&mut self, target: u32, syndrome: WqeSyndrome) -> Reply {
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
    pub(super) fn fail_reliable(&mut self, target: u32, event: Option<EventType>) {
        if self.objects.qps.get(target).is_some_and(|qp| qp.service != Service::Uc) {
            self.fail_qp(target, event);
        }
    }

    pub(super) fn no_receive(&mut self, target: u32, reason: NoReceive) -> Reply {
        match reason {
            NoReceive::NotReady => {
                let code = self.objects.qps.get(target).map_or(0, |qp| qpc::MIN_RNR_NAK.get(&qp.context));
                Reply::NotReady(code)
            }
            NoReceive::Broken => {
                let reply = self.refuse(target, WqeSyndrome::RemoteOperation);
                self.receive_queue_broke(target);
                reply
            }
        }
    }
}

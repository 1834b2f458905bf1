//! Packets from port to port: what leaves, what the wire does with it, who gets it.

use crate::{device::Device, hw::Service, mkey::Accessor, objects::GuestId, qp::Life, wire::Parcel};

use super::{
    packet::{Load, Packet, Reply, Request},
    wqe::Piece,
};

impl Device {
    /// Puts a packet on the wire; without a port to go to it is lost.
    pub(super) fn transmit(&mut self, from: GuestId, to: Option<GuestId>, packet: Packet) {
        let activity = &mut self.guests[from].activity;
        activity.packets += 1;
        let Some(to) = to.filter(|_| self.guests[from].is_on_the_wire()) else {
            self.guests[from].activity.packets_lost += 1;
            return;
        };
        let life = self.objects.qps.get(packet.destination()).map_or(Life::default(), |qp| qp.life);
        let now = self.engine.now();
        let fate = self.engine.wire.send(now, Parcel { from, to, life, packet });
        let activity = &mut self.guests[from].activity;
        activity.packets_lost += u64::from(fate.lost);
        activity.packets_duplicated += u64::from(fate.duplicated);
        activity.packets_reordered += u64::from(fate.reordered);
        activity.packets_delayed += u64::from(fate.delayed);
    }

    /// Delivers a packet that has arrived; says whether there was one.
    pub(super) fn deliver_next(&mut self) -> bool {
        if self.engine.wire.next_arrival().is_none() {
            return false;
        }
        let now = self.engine.now();
        let Some(Parcel { from, to, life, packet }) = self.engine.wire.arrived(now) else { return false };
        if !self.guests[to].is_on_the_wire() {
            self.guests[from].activity.packets_lost += 1;
            return true;
        }
        let destination = packet.destination();
        let life_now = self.objects.qps.owned(to, destination).map(|qp| qp.life);
        let alive = life_now.is_ok_and(|now| match packet {
            Packet::Answer { .. } => now.knows_answers_of(&life),
            _ => now.knows_requests_of(&life),
        });
        match packet {
            Packet::Request { head, payload } if alive => self.request_came(to, &head, &payload),
            Packet::Answer { qpn, psn, reply, payload } if alive => self.answered(qpn, psn, reply, &payload),
            Packet::Datagram { qpn, head, payload } => self.datagram_came(from, (to, qpn), &head, &payload),
            _ => {}
        }
        true
    }

    fn request_came(&mut self, guest: GuestId, request: &Request, payload: &[u8]) {
        let whole = [Piece::Inline { at: 0, length: payload.len() }];
        let sender = Accessor { guest: request.guest, pd: 0, qpn: request.source };
        let reply = self.arrive(guest, request, &Load::of_packet(&whole, payload, sender));
        tracing::trace!(
            "QP {:#x}: {:?}, PSN {:#x}: {reply:?}",
            request.destination,
            request.opcode,
            request.psn
        );
        if request.service != Service::Uc {
            self.reply(guest, request, reply);
        }
    }

    /// Sends the answer to a request, if it is one that is sent.
    fn reply(&mut self, guest: GuestId, request: &Request, reply: Reply) {
        let expected = self.objects.qps.get(request.destination).map_or(0, |qp| qp.receive_psn);
        let psn = match reply {
            Reply::Acknowledged if request.wants_answer => {
                request.psn_after(request.packets.saturating_sub(1))
            }
            Reply::OutOfSequence => expected,
            Reply::NotAcknowledged(_) | Reply::NotReady(_) | Reply::Value(_) => request.psn,
            Reply::Acknowledged | Reply::Data | Reply::Silence | Reply::Failed(_) => return,
        };
        self.send_answer(guest, request, psn, reply);
    }

    /// Sends an answer that has nothing with it.
    pub(super) fn send_answer(&mut self, guest: GuestId, request: &Request, psn: u32, reply: Reply) {
        let answer = Packet::Answer { qpn: request.source, psn, reply, payload: Box::default() };
        self.transmit(guest, Some(request.guest), answer);
    }
}

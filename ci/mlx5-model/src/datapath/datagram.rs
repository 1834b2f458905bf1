//! Datagrams: the sending side, the wire with its multicast, the receiving side.

use crate::{
    bits::put,
    device::Device,
    fabric::{Link, Place},
    fields::{cqe, qpc, wqe_address},
    hw::{
        CompletionOpcode, DEFAULT_PKEY, GRH_BYTES, MAX_DATAGRAM, MULTICAST_QPN, QKEY_PRIVILEGED, QP0, QP1,
        QP1_QKEY, Service, WqeOpcode, WqeSyndrome,
    },
    mkey::{Access, Accessor},
    objects::GuestId,
    sa,
};

use super::{
    packet::Packet,
    receive::NoReceive,
    requester::{Outcome, local_syndrome},
    transfer::{End, Store, TransferFault, copy},
    wqe::{Piece, Wqe},
};

/// Class of management datagrams for the subnet administrator, and where they say so.
const CLASS_SA: u8 = 3;
const CLASS_AT: usize = 1;
/// Places in a global route header.
mod grh {
    pub const VERSION_AND_CLASS: usize = 0;
    pub const LENGTH: usize = 4;
    pub const NEXT_HEADER: usize = 6;
    pub const HOP_LIMIT: usize = 7;
    pub const SOURCE: usize = 8;
    pub const DESTINATION: usize = 24;
    /// IP version 6 in the top four bits.
    pub const VERSION: u32 = 6 << 28;
    /// An InfiniBand transport header follows.
    pub const IBA: u8 = 0x1b;
}

/// What a datagram carries besides its payload.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// LID of the sender.
    pub source_lid: u16,
    /// QP of the sender.
    pub source_qpn: u32,
    /// LID of the receiver.
    pub lid: u16,
    /// QP of the receiver.
    pub qpn: u32,
    /// Must be the receiver's.
    pub q_key: u32,
    /// Service level.
    pub sl: u8,
    /// Global route header.
    pub grh: Option<[u8; GRH_BYTES]>,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Whether the receiver shall have an event.
    pub solicited: bool,
}

impl Datagram {
    /// Whether it is for the subnet administrator.
    fn is_for_sa(&self, payload: &[u8]) -> bool {
        self.qpn == QP1 && payload.get(CLASS_AT) == Some(&CLASS_SA)
    }
}

impl Device {
    /// Executes a work request of a datagram QP.
    pub(super) fn execute_datagram(&mut self, qpn: u32, wqe: &Wqe) -> Outcome {
        let Some(qp) = self.objects.qps.get(qpn) else { return Outcome::Done { bytes: 0 } };
        if wqe.total > MAX_DATAGRAM as u64 {
            return Outcome::Failed(WqeSyndrome::LocalLength);
        }
        let (who, own_key) = (qp.accessor(qpn), qpc::Q_KEY.get32(&qp.context));
        let guest = &self.guests[qp.guest];
        let q_key = wqe.address(wqe_address::Q_KEY) as u32;
        let datagram = Datagram {
            source_lid: guest.lid,
            source_qpn: match qp.service {
                Service::Smi => QP0,
                Service::Gsi => QP1,
                _ => qpn,
            },
            lid: wqe.address(wqe_address::RLID) as u16,
            qpn: wqe.address(wqe_address::QPN) as u32,
            q_key: if q_key & QKEY_PRIVILEGED != 0 { own_key } else { q_key },
            sl: wqe.address(wqe_address::SL) as u8,
            grh: (wqe.address(wqe_address::GRH) == 1).then(|| header(wqe, guest.gid())),
            immediate: (wqe.opcode == WqeOpcode::SendImmediate).then_some(wqe.immediate),
            solicited: wqe.solicited,
        };
        let mut payload = std::mem::take(&mut self.engine.datagram);
        payload.resize(wqe.total as usize, 0);
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
        let mut source = End::new(&wqe.pieces, &wqe.bytes, who, Access::LocalRead);
        let read = source.check(store, wqe.total).and_then(|()| source.read(store, &mut payload));
        if read.is_ok() {
            self.carry_datagram(who.guest, &datagram, &payload);
        }
        self.engine.datagram = payload;
        match read {
            Ok(()) => Outcome::Done { bytes: 0 },
            Err(fault) => Outcome::Failed(local_syndrome(fault)),
        }
    }

    /// The wire between datagram QPs: every datagram of every guest goes through here.
    fn carry_datagram(&mut self, sender: GuestId, datagram: &Datagram, payload: &[u8]) {
        tracing::trace!("datagram {datagram:?}, {} bytes", payload.len());
        if datagram.qpn == MULTICAST_QPN {
            let Some(gid) = datagram.grh.as_ref().and_then(|g| g[grh::DESTINATION..].first_chunk::<16>())
            else {
                return self.drop_datagram(sender);
            };
            for qpn in self.fabric.members(gid) {
                // What the receives of one are made of is not another's fault.
                self.engine.key_steps.begin();
                self.engine.copies += 1;
                if let Some(guest) = self.objects.qps.get(qpn).map(|qp| qp.guest) {
                    self.send_datagram(sender, (guest, qpn), datagram, payload);
                }
            }
            return;
        }
        match self.place_of(datagram.lid) {
            Place::Guest(guest) => self.send_datagram(sender, (guest, datagram.qpn), datagram, payload),
            Place::SubnetManager if datagram.is_for_sa(payload) && self.guests[sender].is_on_the_wire() => {
                let Some(answer) = sa::answer(self, datagram.source_lid, payload) else { return };
                let back = Datagram {
                    source_lid: datagram.lid,
                    source_qpn: QP1,
                    lid: datagram.source_lid,
                    qpn: datagram.source_qpn,
                    q_key: QP1_QKEY,
                    sl: datagram.sl,
                    grh: None,
                    immediate: None,
                    solicited: false,
                };
                self.datagram_came(sender, (sender, back.qpn), &back, &answer);
            }
            Place::SubnetManager | Place::Nowhere => self.drop_datagram(sender),
        }
    }

    /// From port to port, as the wire between them is.
    fn send_datagram(&mut self, sender: GuestId, to: (GuestId, u32), datagram: &Datagram, payload: &[u8]) {
        match self.link(sender, to.0) {
            Link::Perfect => self.datagram_came(sender, to, datagram, payload),
            Link::Faulty => {
                let head = Box::new(datagram.clone());
                let packet = Packet::Datagram { qpn: to.1, head, payload: payload.into() };
                self.transmit(sender, Some(to.0), packet);
            }
            Link::Down => self.drop_datagram(sender),
        }
    }

    /// A datagram comes to a guest's port.
    pub(super) fn datagram_came(
        &mut self,
        sender: GuestId,
        (guest, qpn): (GuestId, u32),
        datagram: &Datagram,
        payload: &[u8],
    ) {
        match self.find_receiver(guest, qpn) {
            Some(qpn) => self.deliver(qpn, datagram, payload),
            None => self.drop_datagram(sender),
        }
    }

    fn drop_datagram(&mut self, sender: GuestId) {
        self.guests[sender].activity.datagrams_dropped += 1;
    }

    /// The QP that answers to the number: QP0 and QP1 have others inside.
    fn find_receiver(&self, guest: GuestId, qpn: u32) -> Option<u32> {
        let special = match qpn {
            QP0 => Service::Smi,
            QP1 => Service::Gsi,
            _ => return self.objects.qps.owned(guest, qpn).ok().map(|_| qpn),
        };
        let mut own = self.objects.qps.of(guest);
        own.find(|(_, qp)| qp.service == special && qp.answers()).map(|(n, _)| n)
    }

    fn deliver(&mut self, qpn: u32, datagram: &Datagram, payload: &[u8]) {
        let Some(qp) = self.objects.qps.get(qpn) else { return };
        let (service, guest) = (qp.service, qp.guest);
        let datagrams = matches!(service, Service::Ud | Service::Smi | Service::Gsi);
        let key = service == Service::Smi || qpc::Q_KEY.get32(&qp.context) == datagram.q_key;
        if !datagrams || !qp.answers() || !key {
            tracing::debug!("datagram to QP {qpn:#x} dropped: state {:?}, Q_Key fits: {key}", qp.state);
            return self.drop_datagram(guest);
        }
        let taken = match self.take_receive(qpn, None) {
            Ok(taken) => taken,
            Err(reason) => {
                if reason == NoReceive::Broken {
                    self.receive_queue_broke(qpn);
                }
                return self.drop_datagram(guest);
            }
        };
        let mut head = [0; GRH_BYTES];
        if let Some(grh) = &datagram.grh {
            head = *grh;
        }
        let result = self.scatter(&head, payload, taken.who);
        // QP1 is told the P_Key where others have immediate data.
        let immediate = match service {
            Service::Gsi | Service::Smi => DEFAULT_PKEY.into(),
            _ => datagram.immediate.unwrap_or(0),
        };
        let kind = match (result, datagram.immediate) {
            (Err(_), _) => CompletionOpcode::ResponderError,
            (Ok(()), Some(_)) => CompletionOpcode::SendImmediate,
            (Ok(()), None) => CompletionOpcode::Send,
        };
        let mut c = taken
            .completion(kind)
            .with(cqe::SLID, datagram.source_lid)
            .with(cqe::GRH, datagram.grh.is_some())
            .with(cqe::SL, datagram.sl)
            .with(cqe::SOURCE_QPN, datagram.source_qpn)
            .with(cqe::IMMEDIATE, immediate)
            .with(cqe::BYTE_COUNT, (GRH_BYTES + payload.len()) as u64)
            .solicited(datagram.solicited);
        if let Err(fault) = result {
            c = c.syndrome(local_syndrome(fault));
        }
        self.complete(taken.cqn(), c);
        if result.is_err() {
            self.fail_qp(qpn, None);
        }
    }

    /// Scatters header and payload to the receive in hand.
    fn scatter(
        &mut self,
        head: &[u8; GRH_BYTES],
        payload: &[u8],
        who: Accessor,
    ) -> Result<(), TransferFault> {
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
        let mut sink = End::new(&self.engine.receive.pieces, &[], who, Access::LocalWrite);
        sink.check(store, (GRH_BYTES + payload.len()) as u64)?;
        sink.write(store, head)?;
        let whole = [Piece::Inline { at: 0, length: payload.len() }];
        let mut source = End::new(&whole, payload, who, Access::LocalRead);
        copy(store, &mut self.engine.bounce, &mut source, &mut sink, payload.len() as u64)
            .map_err(|_| TransferFault::Dma)
    }
}

/// The global route header that the address vector asks for.
fn header(wqe: &Wqe, source: [u8; 16]) -> [u8; GRH_BYTES] {
    let mut h = [0; GRH_BYTES];
    let class = wqe.address(wqe_address::TRAFFIC_CLASS) as u32;
    let flow = wqe.address(wqe_address::FLOW_LABEL) as u32;
    put(&mut h, grh::VERSION_AND_CLASS, &(grh::VERSION | class << 20 | flow).to_be_bytes());
    put(&mut h, grh::LENGTH, &(wqe.total as u16).to_be_bytes());
    h[grh::NEXT_HEADER] = grh::IBA;
    h[grh::HOP_LIMIT] = wqe.address(wqe_address::HOP_LIMIT) as u8;
    put(&mut h, grh::SOURCE, &source);
    let gid = wqe_address::GID;
    put(&mut h, grh::DESTINATION, &wqe.address(gid).to_be_bytes());
    put(&mut h, grh::DESTINATION + 8, &wqe.address(gid.within(8)).to_be_bytes());
    h
}

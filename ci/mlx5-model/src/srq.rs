//! Shared receive queues: of XRC (CREATE_XRC_SRQ), basic (CREATE_RMP) and of the old kind (CREATE_SRQ).
//!
//! All three are a linked list of entries: the device begins at entry 0, follows each entry's next index and
//! counts what it takes against the doorbell record.

use std::collections::HashSet;

use crate::{
    bits::be64,
    buffer::QueueBuffer,
    command::{
        mailbox::{Input, Output},
        status::{Refusal, Syndrome},
    },
    device::Device,
    fields::{command_in, rmpc, srq_next, srqc, xrc_srqc},
    hw::SEGMENT_BYTES,
    memory::GuestMemory,
    objects::{GuestId, Kind, Object, Objects, Uses},
    qp::{LOG_MAX_QUEUE, LOG_MAX_STRIDE, MAX_RECEIVE_BYTES},
};

/// Where the commands have the page list, and the contexts.
const PAGES: usize = 272;
const CONTEXT: usize = 16;
const RMP_CONTEXT: usize = 32;
/// Entries are a multiple of this.
const LOG_MIN_STRIDE: u64 = 4;
/// States of a basic SRQ's context: ready, in error.
const RMP_READY: u64 = 1;
const RMP_ERROR: u64 = 3;
/// State of the others' in error.
const STATE_ERROR: u64 = 1;

/// What kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SrqKind {
    /// Of XRC: named by the requester, has its own CQ.
    Xrc {
        /// Its domain.
        xrcd: u32,
        /// Where its receives complete.
        cqn: u32,
        /// What completions call it.
        user_index: u32,
    },
    /// Basic.
    Basic,
    /// Of the old kind.
    Old,
}

/// An entry that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its index.
    pub index: u16,
    /// Length of its scatter list.
    pub length: usize,
    /// There are fewer left than the limit, and the program wanted to know.
    pub limit_reached: bool,
}

/// The queue makes no sense or cannot be read. It is dead after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqFault;

/// A shared receive queue.
#[derive(Debug)]
pub struct SharedReceiveQueue {
    guest: GuestId,
    /// What kind it is.
    pub kind: SrqKind,
    /// Protection domain.
    pub pd: u32,
    context: Vec<u8>,
    buffer: QueueBuffer,
    log_size: u64,
    log_stride: u64,
    doorbell: u64,
    limit: u16,
    next: u16,
    taken: u16,
    dead: bool,
}

impl Object for SharedReceiveQueue {
    fn guest(&self) -> GuestId {
        self.guest
    }

    fn listed_pages(&self) -> usize {
        self.buffer.pages()
    }

    fn uses(&self) -> Uses {
        let (xrcd, cqn) = (self.xrcd().map(|n| (Kind::Xrcd, n)), self.cqn().map(|n| (Kind::Cq, n)));
        [Some((Kind::Pd, self.pd)), xrcd, cqn, None]
    }
}

impl SharedReceiveQueue {
    fn new(guest: GuestId, shape: Shape, pages: Vec<u64>) -> Result<Self, Refusal> {
        if shape.log_size > LOG_MAX_QUEUE || !(LOG_MIN_STRIDE..=LOG_MAX_STRIDE).contains(&shape.log_stride) {
            return Err(Refusal::parameter(Syndrome::SizeBeyondCapability));
        }
        let bytes = 1 << (shape.log_size + shape.log_stride);
        Ok(Self {
            guest,
            kind: shape.kind,
            pd: shape.pd,
            context: shape.context,
            buffer: QueueBuffer::new(pages, shape.log_page, shape.page_offset, bytes)?,
            log_size: shape.log_size,
            log_stride: shape.log_stride,
            doorbell: shape.doorbell,
            limit: shape.limit,
            next: 0,
            taken: 0,
            dead: false,
        })
    }

    /// Its XRC domain, if it has one.
    pub fn xrcd(&self) -> Option<u32> {
        match self.kind {
            SrqKind::Xrc { xrcd, .. } => Some(xrcd),
            _ => None,
        }
    }

    /// Entries taken so far; a driver never posts more than its size ahead of this.
    pub fn taken(&self) -> u16 {
        self.taken
    }

    /// Its own CQ, if it has one.
    pub fn cqn(&self) -> Option<u32> {
        match self.kind {
            SrqKind::Xrc { cqn, .. } => Some(cqn),
            _ => None,
        }
    }

    /// Whether nothing is taken from it any more.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Nothing is to be taken from it any more; says whether it was alive.
    pub fn die(&mut self) -> bool {
        !std::mem::replace(&mut self.dead, true)
    }

    fn posted(&self, memory: &GuestMemory) -> Result<u16, SrqFault> {
        let posted = memory.read_be32(self.doorbell).map_err(|_| SrqFault)? as u16;
        let waiting = posted.wrapping_sub(self.taken);
        if u64::from(waiting) > 1 << self.log_size { Err(SrqFault) } else { Ok(waiting) }
    }

    /// Takes the next entry and copies its scatter list; `None`: nothing is posted.
    pub fn take(
        &mut self,
        memory: &GuestMemory,
        to: &mut [u8; MAX_RECEIVE_BYTES],
    ) -> Result<Option<Taken>, SrqFault> {
        if self.dead {
            return Err(SrqFault);
        }
        let result = self.take_alive(memory, to);
        self.dead = result.is_err();
        result
    }

    fn take_alive(
        &mut self,
        memory: &GuestMemory,
        to: &mut [u8; MAX_RECEIVE_BYTES],
    ) -> Result<Option<Taken>, SrqFault> {
        let waiting = self.posted(memory)?;
        if waiting == 0 {
            return Ok(None);
        }
        let index = self.next;
        let at = u64::from(index) << self.log_stride;
        let length = (1 << self.log_stride) - SEGMENT_BYTES;
        let mut head = [0; SEGMENT_BYTES];
        self.buffer.read(memory, at, &mut head).map_err(|_| SrqFault)?;
        let list = to.get_mut(..length).ok_or(SrqFault)?;
        self.buffer.read(memory, at + SEGMENT_BYTES as u64, list).map_err(|_| SrqFault)?;
        let next = srq_next::NEXT_INDEX.get(&head);
        if next >= 1 << self.log_size {
            return Err(SrqFault);
        }
        self.next = next as u16;
        self.taken = self.taken.wrapping_add(1);
        // The limit is told once for each arming.
        let limit_reached = self.limit > waiting - 1;
        if limit_reached {
            self.limit = 0;
        }
        Ok(Some(Taken { index, length, limit_reached }))
    }

    fn query(&self, memory: &GuestMemory) -> Vec<u8> {
        let mut context = self.context.clone();
        let (limit, dead) = (u64::from(self.limit), u64::from(self.dead) * STATE_ERROR);
        let waiting = u64::from(self.posted(memory).unwrap_or(0));
        match self.kind {
            SrqKind::Basic => {
                rmpc::STATE.set(&mut context, if self.dead { RMP_ERROR } else { RMP_READY });
                rmpc::WQ__LWM.set(&mut context, limit);
            }
            SrqKind::Xrc { .. } => {
                xrc_srqc::STATE.set(&mut context, dead);
                xrc_srqc::LWM.set(&mut context, limit);
                xrc_srqc::WQE_CNT.set(&mut context, waiting);
            }
            SrqKind::Old => {
                srqc::STATE.set(&mut context, dead);
                srqc::LWM.set(&mut context, limit);
                srqc::WQE_CNT.set(&mut context, waiting);
            }
        }
        context
    }
}

/// What the three contexts have in common.
struct Shape {
    kind: SrqKind,
    context: Vec<u8>,
    log_size: u64,
    log_stride: u64,
    log_page: u64,
    page_offset: u64,
    pd: u32,
    doorbell: u64,
    limit: u16,
}

impl Shape {
    fn xrc(c: &[u8; xrc_srqc::BYTES]) -> Self {
        Self {
            kind: SrqKind::Xrc {
                xrcd: xrc_srqc::XRCD.get32(c),
                cqn: xrc_srqc::CQN.get32(c),
                user_index: xrc_srqc::USER_INDEX.get32(c),
            },
            log_size: xrc_srqc::LOG_XRC_SRQ_SIZE.get(c),
            log_stride: xrc_srqc::LOG_RQ_STRIDE.get(c) + LOG_MIN_STRIDE,
            log_page: xrc_srqc::LOG_PAGE_SIZE.get(c),
            page_offset: xrc_srqc::PAGE_OFFSET.get(c),
            pd: xrc_srqc::PD.get32(c),
            // The halves adjoin; the lowest two bits are not part of the address.
            doorbell: be64(c, xrc_srqc::DB_RECORD_ADDR_H.byte()) & !3,
            limit: xrc_srqc::LWM.get(c) as u16,
            context: c.to_vec(),
        }
    }

    fn old(c: &[u8; srqc::BYTES]) -> Self {
        Self {
            kind: SrqKind::Old,
            log_size: srqc::LOG_SRQ_SIZE.get(c),
            log_stride: srqc::LOG_RQ_STRIDE.get(c) + LOG_MIN_STRIDE,
            log_page: srqc::LOG_PAGE_SIZE.get(c),
            page_offset: srqc::PAGE_OFFSET.get(c),
            pd: srqc::PD.get32(c),
            doorbell: srqc::DBR_ADDR.get(c),
            limit: srqc::LWM.get(c) as u16,
            context: c.to_vec(),
        }
    }

    fn basic(c: &[u8; rmpc::BYTES]) -> Self {
        Self {
            kind: SrqKind::Basic,
            log_size: rmpc::WQ__LOG_WQ_SZ.get(c),
            log_stride: rmpc::WQ__LOG_WQ_STRIDE.get(c),
            log_page: rmpc::WQ__LOG_WQ_PG_SZ.get(c),
            page_offset: rmpc::WQ__PAGE_OFFSET.get(c),
            pd: rmpc::WQ__PD.get32(c),
            doorbell: rmpc::WQ__DBR_ADDR.get(c),
            limit: rmpc::WQ__LWM.get(c) as u16,
            context: c.to_vec(),
        }
    }
}

impl Objects {
    /// Puts the guest's SRQs that complete in the CQs into error; says which were not before.
    pub fn fail_srqs(&mut self, guest: GuestId, cqns: &HashSet<u32>) -> Vec<u32> {
        let uses = |srq: &SharedReceiveQueue| srq.cqn().is_some_and(|cqn| cqns.contains(&cqn));
        let mut srqns: Vec<u32> =
            self.srqs.of(guest).filter(|(_, srq)| uses(srq)).map(|(srqn, _)| srqn).collect();
        srqns.retain(|srqn| self.srqs.get_mut(*srqn).is_some_and(SharedReceiveQueue::die));
        srqns
    }
}

impl Device {
    fn create(
        &mut self,
        guest: GuestId,
        shape: Shape,
        input: &Input,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        self.objects.pds.owned(guest, shape.pd)?;
        if let SrqKind::Xrc { xrcd, cqn, .. } = shape.kind {
            self.objects.xrcds.owned(guest, xrcd)?;
            self.objects.cqs.owned(guest, cqn)?;
        }
        let srq = SharedReceiveQueue::new(guest, shape, input.pages(PAGES))?;
        output.set_object(self.objects.insert(srq)?);
        Ok(())
    }

    /// CREATE_XRC_SRQ.
    pub fn create_xrc_srq(
        &mut self,
        guest: GuestId,
        input: &Input,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        self.create(guest, Shape::xrc(&input.context(CONTEXT)?), input, output)
    }

    /// CREATE_SRQ.
    pub fn create_srq(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        self.create(guest, Shape::old(&input.context(CONTEXT)?), input, output)
    }

    /// CREATE_RMP.
    pub fn create_rmp(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        self.create(guest, Shape::basic(&input.context(RMP_CONTEXT)?), input, output)
    }

    /// DESTROY_XRC_SRQ, DESTROY_SRQ, DESTROY_RMP.
    pub fn destroy_srq(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        let srqn = input.object();
        self.objects.srqs.owned(guest, srqn)?;
        if self.objects.is_used(guest, Kind::Srq, srqn) {
            return Err(Refusal::in_use());
        }
        // Messages to it that have begun hold receives of it.
        self.objects.qps.each_of(guest, |qp| qp.answering.forget_srq(srqn));
        self.objects.remove::<SharedReceiveQueue>(guest, srqn).map(|_| ())
    }

    /// QUERY_XRC_SRQ, QUERY_SRQ, QUERY_RMP.
    pub fn query_srq(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let srq = self.objects.srqs.owned(guest, input.object())?;
        let at = if srq.kind == SrqKind::Basic { RMP_CONTEXT } else { CONTEXT };
        output.put(at, &srq.query(&self.guests[guest].memory));
        Ok(())
    }

    fn set_limit(&mut self, guest: GuestId, srqn: u32, limit: u64) -> Result<(), Refusal> {
        let srq = self.objects.srqs.owned_mut(guest, srqn)?;
        if limit > 1 << srq.log_size {
            return Err(Refusal::parameter(Syndrome::BadAttribute));
        }
        srq.limit = limit as u16;
        Ok(())
    }

    /// ARM_XRC_SRQ, ARM_RQ.
    pub fn arm_srq(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        self.set_limit(guest, input.object(), input.get(command_in::INDEX))
    }

    /// MODIFY_RMP.
    pub fn modify_rmp(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        let context: [u8; rmpc::BYTES] = input.context(RMP_CONTEXT)?;
        self.set_limit(guest, input.object(), rmpc::WQ__LWM.get(&context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOORBELL: u64 = 0x2000;

    fn srq(limit: u16) -> (GuestMemory, SharedReceiveQueue) {
        let m = GuestMemory::fake(&[(0x1000, 0x2000)]);
        let shape = Shape {
            kind: SrqKind::Basic,
            context: vec![0; rmpc::BYTES],
            log_size: 2,
            log_stride: 5,
            log_page: 0,
            page_offset: 0,
            pd: 0,
            doorbell: DOORBELL,
            limit,
        };
        for i in 0..4u8 {
            let next = [0, 0, 0, (i + 1) % 4];
            m.write(0x1000 + u64::from(i) * 32, &next).unwrap();
        }
        (m, SharedReceiveQueue::new(0, shape, vec![0x1000]).unwrap())
    }

    fn post(m: &GuestMemory, n: u32) {
        m.write(DOORBELL, &n.to_be_bytes()).unwrap();
    }

    #[test]
    fn follows_the_list_and_counts() {
        let (m, mut s) = srq(2);
        let mut b = [0; MAX_RECEIVE_BYTES];
        assert_eq!(s.take(&m, &mut b), Ok(None));
        post(&m, 3);
        let mut taken = || s.take(&m, &mut b).unwrap().map(|t| (t.index, t.limit_reached));
        assert_eq!(taken(), Some((0, false)));
        assert_eq!(taken(), Some((1, true)));
        assert_eq!(taken(), Some((2, false)), "told once");
        assert_eq!(taken(), None);
    }

    #[test]
    fn an_index_or_counter_that_makes_no_sense_kills_it() {
        let mut b = [0; MAX_RECEIVE_BYTES];
        let (m, mut s) = srq(0);
        m.write(0x1002, &[0, 4]).unwrap();
        post(&m, 1);
        assert_eq!(s.take(&m, &mut b), Err(SrqFault));
        m.write(0x1002, &[0, 1]).unwrap();
        assert_eq!(s.take(&m, &mut b), Err(SrqFault), "stays dead");
        let (m, mut s) = srq(0);
        post(&m, 5);
        assert_eq!(s.take(&m, &mut b), Err(SrqFault));
        let (_, mut s) = srq(0);
        assert_eq!(s.take(&GuestMemory::default(), &mut b), Err(SrqFault));
    }
}

//! Event queues.

use crate::{
    bits::Field,
    buffer::QueueBuffer,
    command::{
        mailbox::{Input, Output},
        status::{Refusal, Status, Syndrome},
    },
    device::Device,
    fields::{create_eq_in, eqc, eqe},
    hw::{EventType, PortChange, QUEUE_ENTRY_BYTES},
    interrupt::VECTORS,
    memory::GuestMemory,
    objects::GuestId,
};

/// Log of the most entries.
pub const LOG_MAX_EQ_SIZE: u64 = 22;
/// Log of the most EQs a guest may have.
pub const LOG_MAX_EQS: u32 = 6;
/// Where CREATE_EQ and QUERY_EQ have the context and the page list.
const CONTEXT: usize = 16;
const EVENT_BITMASK_OUT: Field = Field::new(0x2c0, 64);
const PAGES: usize = 272;
/// Indices in doorbells and contexts have 24 bits.
const INDEX_MASK: u32 = 0xff_ffff;

/// An event on its way to a queue.
#[derive(Clone, Debug)]
pub struct Event {
    event_type: EventType,
    bytes: [u8; QUEUE_ENTRY_BYTES],
}

impl Event {
    fn new(event_type: EventType, fields: &[(Field, u64)]) -> Self {
        let mut bytes = [0; QUEUE_ENTRY_BYTES];
        eqe::TYPE.set(&mut bytes, event_type as u64);
        for (field, value) in fields {
            field.set(&mut bytes, *value);
        }
        Self { event_type, bytes }
    }

    /// A completion queue has something new.
    pub fn completion(cqn: u32) -> Self {
        Self::new(EventType::Completion, &[(eqe::COMPLETION_CQN, cqn.into())])
    }

    /// Commands are done, one bit for each slot.
    pub fn command(slots: u32) -> Self {
        Self::new(EventType::Command, &[(eqe::COMMAND_VECTOR, slots.into())])
    }

    /// Something happened to a QP or SRQ.
    pub fn resource(event_type: EventType, number: u32) -> Self {
        Self::new(event_type, &[(eqe::RESOURCE, number.into())])
    }

    /// The port came up or went down.
    pub fn port(change: PortChange) -> Self {
        Self::new(EventType::PortChange, &[(eqe::SUB_TYPE, change as u64), (eqe::PORT, crate::port::NUMBER)])
    }

    /// A completion queue is in error.
    pub fn cq_error(cqn: u32, syndrome: u64) -> Self {
        Self::new(EventType::CqError, &[(eqe::CQ_ERROR_CQN, cqn.into()), (eqe::CQ_ERROR_SYNDROME, syndrome)])
    }

    /// Its type.
    pub fn event_type(&self) -> EventType {
        self.event_type
    }
}

/// Why an event got lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventLost {
    /// The driver has not read enough.
    #[error("the queue is full")]
    Full,
    /// The queue is not in the guest's memory.
    #[error("{0}")]
    Dma(#[from] crate::memory::DmaFault),
}

/// An event queue.
#[derive(Debug)]
pub struct EventQueue {
    context: [u8; eqc::BYTES],
    buffer: QueueBuffer,
    log_size: u32,
    producer: u32,
    consumer: u32,
    armed: bool,
    mask: u64,
}

impl EventQueue {
    fn new(context: [u8; eqc::BYTES], mask: u64, pages: Vec<u64>) -> Result<Self, Refusal> {
        let log_size = eqc::LOG_EQ_SIZE.get(&context);
        if log_size > LOG_MAX_EQ_SIZE {
            return Err(Refusal::parameter(Syndrome::SizeBeyondCapability));
        }
        if eqc::INTR.get(&context) >= VECTORS as u64 {
            return Err(Refusal::parameter(Syndrome::BadVector));
        }
        let bytes = (QUEUE_ENTRY_BYTES as u64) << log_size;
        let buffer = QueueBuffer::new(pages, eqc::LOG_PAGE_SIZE.get(&context), 0, bytes)?;
        let log_size = log_size as u32;
        Ok(Self { context, buffer, log_size, producer: 0, consumer: 0, armed: false, mask })
    }

    /// Its interrupt vector.
    pub fn vector(&self) -> usize {
        eqc::INTR.get(&self.context) as usize
    }

    /// The page of doorbells through which it is armed.
    pub fn uar(&self) -> u32 {
        eqc::UAR_PAGE.get32(&self.context)
    }

    /// Whether events of the type come here.
    pub fn wants(&self, event_type: EventType) -> bool {
        self.mask >> (event_type as u32) & 1 == 1
    }

    /// Writes an event; says whether to interrupt.
    pub fn push(&mut self, memory: &GuestMemory, event: &Event) -> Result<bool, EventLost> {
        if self.producer.wrapping_sub(self.consumer) & INDEX_MASK >= 1 << self.log_size {
            return Err(EventLost::Full);
        }
        let mut bytes = event.bytes;
        eqe::OWNER.set(&mut bytes, u64::from(self.producer >> self.log_size));
        let at = u64::from(self.producer & ((1 << self.log_size) - 1)) * QUEUE_ENTRY_BYTES as u64;
        // The owner bit makes the entry valid: it goes last.
        let last = QUEUE_ENTRY_BYTES - 1;
        self.buffer.write(memory, at, &bytes[..last])?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        self.buffer.write(memory, at + last as u64, &bytes[last..])?;
        self.producer = self.producer.wrapping_add(1);
        Ok(std::mem::take(&mut self.armed))
    }

    /// The driver has read up to `consumer` and, if `arm`, wants an interrupt for what comes after; says whether
    /// to interrupt at once.
    pub fn consumed(&mut self, consumer: u32, arm: bool) -> bool {
        self.consumer = consumer & INDEX_MASK;
        if !arm {
            return false;
        }
        let pending = self.consumer != self.producer & INDEX_MASK;
        self.armed = !pending;
        pending
    }
}

impl Device {
    /// CREATE_EQ.
    pub fn create_eq(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let eq = EventQueue::new(
            input.context(CONTEXT)?,
            input.get(create_eq_in::EVENT_BITMASK),
            input.pages(PAGES),
        )?;
        let guest = &mut self.guests[guest];
        if !guest.uars.contains(&eq.uar()) {
            return Err(Refusal::missing(Syndrome::NoSuchUar));
        }
        let eqn = (1..1 << LOG_MAX_EQS)
            .find(|n| !guest.eqs.contains_key(n))
            .ok_or(Refusal::new(Status::LimitExceeded, Syndrome::TooManyObjects))?;
        guest.eqs.insert(eqn, eq);
        output.set_object(eqn);
        Ok(())
    }

    /// DESTROY_EQ.
    pub fn destroy_eq(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        let eqn = input.object();
        if self.objects.cqs.of(guest).any(|(_, cq)| cq.eqn() == eqn) {
            return Err(Refusal::in_use());
        }
        self.guests[guest].eqs.remove(&eqn).map(|_| ()).ok_or(Refusal::missing(Syndrome::NoSuchEq))
    }

    /// QUERY_EQ.
    pub fn query_eq(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let eq = self.guests[guest].eqs.get(&input.object()).ok_or(Refusal::missing(Syndrome::NoSuchEq))?;
        let mut context = eq.context;
        eqc::CONSUMER_COUNTER.set(&mut context, eq.consumer.into());
        eqc::PRODUCER_COUNTER.set(&mut context, eq.producer.into());
        output.put(CONTEXT, &context);
        output.set(EVENT_BITMASK_OUT, eq.mask);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eq(log: u64) -> EventQueue {
        let mut c = [0; eqc::BYTES];
        eqc::LOG_EQ_SIZE.set(&mut c, log);
        EventQueue::new(c, 1 << 10, vec![0x1000]).unwrap()
    }

    #[test]
    fn interrupts_only_when_armed_and_at_once_when_something_is_there() {
        let m = GuestMemory::fake(&[(0x1000, 0x1000)]);
        let mut eq = eq(2);
        assert!(!eq.push(&m, &Event::command(1)).unwrap());
        assert!(eq.consumed(0, true), "one is pending");
        assert!(!eq.consumed(1, true));
        assert!(eq.push(&m, &Event::command(1)).unwrap());
        assert!(!eq.push(&m, &Event::command(1)).unwrap(), "fired once");
    }

    #[test]
    fn wraps_with_the_owner_bit_and_stops_when_full() {
        let m = GuestMemory::fake(&[(0x1000, 0x1000)]);
        let mut eq = eq(1);
        let owner = || {
            let mut b = [0; 64];
            m.read(0x1000, &mut b).unwrap();
            (b[1], b[63])
        };
        eq.push(&m, &Event::completion(7)).unwrap();
        assert_eq!(owner(), (0, 0));
        eq.push(&m, &Event::command(1)).unwrap();
        assert_eq!(eq.push(&m, &Event::command(1)), Err(EventLost::Full));
        eq.consumed(2, false);
        eq.push(&m, &Event::command(1)).unwrap();
        assert_eq!(owner(), (10, 1));
    }

    #[test]
    fn hostile_contexts_are_refused() {
        let mut c = [0; eqc::BYTES];
        eqc::LOG_EQ_SIZE.set(&mut c, 31);
        assert_eq!(EventQueue::new(c, 0, vec![]).unwrap_err().syndrome, Syndrome::SizeBeyondCapability);
        eqc::LOG_EQ_SIZE.set(&mut c, 7);
        assert_eq!(EventQueue::new(c, 0, vec![0x1000]).unwrap_err().syndrome, Syndrome::ShortPageList);
        eqc::INTR.set(&mut c, 0xfff);
        assert_eq!(EventQueue::new(c, 0, vec![0x1000]).unwrap_err().syndrome, Syndrome::BadVector);
    }
}

//! Completion queues: entries, arming, overruns.
//!
//! When an armed queue raises its event was settled by what programs do (see `README.md`, "What is guessed"):
//! an event for what was notified already would come twice, and perftest's event loop counts on it not to.

mod modify;

use std::time::Instant;

use crate::{
    buffer::QueueBuffer,
    command::{
        mailbox::{Input, Output},
        status::{Refusal, Syndrome},
    },
    device::Device,
    eq::Event,
    fields::{cqc, cqe},
    hw::{
        CQ_ERROR_ACCESS, CQ_ERROR_OVERRUN, CQ_STATUS_OVERFLOW, CQ_STATUS_WRITE_FAULT, CompletionOpcode,
        EventType, QUEUE_ENTRY_BYTES, QpState, WqeSyndrome,
    },
    memory::GuestMemory,
    objects::{GuestId, Kind, Object},
};

/// Log of the most entries.
pub const LOG_MAX_CQ_SIZE: u64 = 22;
/// Where CREATE_CQ and QUERY_CQ have the context and the page list.
const CONTEXT: usize = 16;
const PAGES: usize = 272;
/// Indices in doorbells have 24 bits.
const INDEX_MASK: u64 = 0xff_ffff;
/// CQE_SZ of entries of 128 bytes, of which the device uses the second half.
const CQE_SIZE_128: u64 = 1;
/// State of an armed and of a fired queue.
const STATE_ARMED: u64 = 9;
const STATE_FIRED: u64 = 10;

/// A completion on its way to a queue.
#[derive(Clone, Debug)]
pub struct Completion {
    bytes: [u8; QUEUE_ENTRY_BYTES],
    solicited: bool,
}

impl Completion {
    /// The parts that all completions have; `counter` names the work request.
    pub fn new(opcode: CompletionOpcode, qpn: u32, user_index: u32, counter: u16) -> Self {
        let mut bytes = [0; QUEUE_ENTRY_BYTES];
        cqe::OPCODE.set(&mut bytes, opcode as u64);
        cqe::QPN.set(&mut bytes, qpn.into());
        cqe::USER_INDEX.set(&mut bytes, user_index.into());
        cqe::WQE_COUNTER.set(&mut bytes, counter.into());
        let error = matches!(opcode, CompletionOpcode::RequesterError | CompletionOpcode::ResponderError);
        // An error is an event for those who wait for solicited completions only.
        Self { bytes, solicited: error }
    }

    /// Stamps it with the device's time; errors have other things to say in that place.
    fn at(self, time: u64) -> Self {
        let opcode = cqe::OPCODE.get(&self.bytes);
        let errors = [CompletionOpcode::RequesterError, CompletionOpcode::ResponderError].map(|e| e as u64);
        if errors.contains(&opcode) { self } else { self.with(cqe::TIMESTAMP, time) }
    }

    /// Sets a field.
    pub fn with(mut self, field: crate::bits::Field, value: impl Into<u64>) -> Self {
        field.set(&mut self.bytes, value.into());
        self
    }

    /// Why the work request failed.
    pub fn syndrome(self, syndrome: WqeSyndrome) -> Self {
        let of_receive = cqe::OPCODE.get(&self.bytes) == CompletionOpcode::ResponderError as u64;
        self.with(cqe::SYNDROME, syndrome as u64).with(cqe::VENDOR_SYNDROME, syndrome.vendor_code(of_receive))
    }

    /// The QP whose work request it is about.
    pub fn qpn(&self) -> u32 {
        cqe::QPN.get32(&self.bytes)
    }

    /// Whether the sender asked for an event.
    pub fn solicited(mut self, solicited: bool) -> Self {
        cqe::SOLICITED.set(&mut self.bytes, solicited.into());
        self.solicited |= solicited;
        self
    }
}

/// What the program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Next,
}

/// Why a completion could not be written. The queue is dead after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CqFault {
    /// The program did not read fast enough.
    Overrun,
    /// The queue or its doorbell record is not in the guest's memory.
    Access,
    /// It died earlier.
    Dead,
}

/// A completion queue.
#[derive(Debug)]
pub struct CompletionQueue {
    /// The guest whose it is.
    pub guest: GuestId,
    context: [u8; cqc::BYTES],
    buffer: QueueBuffer,
    log_size: u32,
    stride: u64,
    doorbell: u64,
    /// Completions written. Unlike the indices in doorbells this and the next two never turn over: between two
    /// events there may be more completions than half of what those can count.
    producer: u64,
    armed: Armed,
    /// The producer at the last event.
    notified: u64,
    /// The producer behind the last solicited completion.
    solicited: u64,
    /// Sequence number of the arming in force, and of the one that was last answered by an event.
    sequence: u8,
    answered: Option<u8>,
    /// Since when an event is due, and with how many completions, that moderation holds back.
    held_back: Option<(Instant, u32)>,
    dead: bool,
}

/// What follows from a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// Nothing.
    Quiet,
    /// An event.
    Event,
    /// An event, at that time at the latest.
    EventBy(Instant),
}

impl Object for CompletionQueue {
    fn guest(&self) -> GuestId {
        self.guest
    }

    fn listed_pages(&self) -> usize {
        self.buffer.pages()
    }
}

impl CompletionQueue {
    fn new(guest: GuestId, context: [u8; cqc::BYTES], pages: Vec<u64>) -> Result<Self, Refusal> {
        let log_size = cqc::LOG_CQ_SIZE.get(&context);
        if log_size > LOG_MAX_CQ_SIZE {
            return Err(Refusal::parameter(Syndrome::SizeBeyondCapability));
        }
        let stride = match cqc::CQE_SZ.get(&context) {
            CQE_SIZE_128 => 2 * QUEUE_ENTRY_BYTES as u64,
            _ => QUEUE_ENTRY_BYTES as u64,
        };
        let buffer = QueueBuffer::new(
            pages,
            cqc::LOG_PAGE_SIZE.get(&context),
            cqc::PAGE_OFFSET.get(&context),
            stride << log_size,
        )?;
        Ok(Self {
            guest,
            buffer,
            log_size: log_size as u32,
            stride,
            doorbell: cqc::DBR_ADDR.get(&context),
            context,
            producer: 0,
            armed: Armed::No,
            notified: 0,
            solicited: 0,
            sequence: 0,
            answered: None,
            held_back: None,
            dead: false,
        })
    }

    /// Its event queue.
    pub fn eqn(&self) -> u32 {
        cqc::C_EQN_OR_APU_ELEMENT.get32(&self.context)
    }

    /// Whether nothing can be written to it any more.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// The page of doorbells through which it is armed.
    pub fn uar(&self) -> u32 {
        cqc::UAR_PAGE.get32(&self.context)
    }

    /// Writes a completion; says whether to raise its event.
    pub fn push(&mut self, memory: &GuestMemory, completion: Completion) -> Result<Pushed, CqFault> {
        if self.dead {
            return Err(CqFault::Dead);
        }
        self.write(memory, &completion).inspect_err(|fault| {
            self.dead = true;
            let status = if *fault == CqFault::Overrun { CQ_STATUS_OVERFLOW } else { CQ_STATUS_WRITE_FAULT };
            cqc::STATUS.set(&mut self.context, status);
        })?;
        self.producer += 1;
        if completion.solicited {
            self.solicited = self.producer;
        }
        let due = match self.armed {
            Armed::No => false,
            Armed::Solicited => completion.solicited,
            Armed::Next => true,
        };
        Ok(if due { self.due() } else { Pushed::Quiet })
    }

    /// Completions behind a consumer index.
    fn unread(&self, consumer: u32) -> u64 {
        self.producer.wrapping_sub(consumer.into()) & INDEX_MASK
    }

    fn write(&self, memory: &GuestMemory, completion: &Completion) -> Result<(), CqFault> {
        if !cqc::OI.is_set(&self.context) {
            let consumer = memory.read_be32(self.doorbell).map_err(|_| CqFault::Access)?;
            if self.unread(consumer) >= 1 << self.log_size {
                return Err(CqFault::Overrun);
            }
        }
        let mut bytes = completion.bytes;
        cqe::OWNER.set(&mut bytes, self.producer >> self.log_size);
        let index = self.producer & ((1 << self.log_size) - 1);
        let at = index * self.stride + self.stride - QUEUE_ENTRY_BYTES as u64;
        // The owner bit makes the entry valid: it goes last.
        let last = QUEUE_ENTRY_BYTES - 1;
        self.buffer.write(memory, at, &bytes[..last]).map_err(|_| CqFault::Access)?;
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        self.buffer.write(memory, at + last as u64, &bytes[last..]).map_err(|_| CqFault::Access)
    }

    fn fire(&mut self) {
        self.armed = Armed::No;
        self.held_back = None;
        self.notified = self.producer;
        self.answered = Some(self.sequence);
    }

    /// The program wants an event: for the next completion, or the next solicited one. Says whether to raise it
    /// at once, because such a completion came after the last event and the program had not read it yet.
    pub fn arm(&mut self, sequence: u8, consumer: u32, solicited_only: bool) -> bool {
        if self.answered == Some(sequence) {
            // This arming had its event already; the program has yet to see it.
            return false;
        }
        self.sequence = sequence;
        let newest = if solicited_only { self.solicited } else { self.producer };
        let read = self.producer.saturating_sub(self.unread(consumer));
        if newest > read && newest > self.notified {
            self.fire();
            return true;
        }
        // To ask for solicited ones does not take back having asked for all.
        if self.armed != Armed::Next {
            self.armed = if solicited_only { Armed::Solicited } else { Armed::Next };
        }
        false
    }
}

impl Device {
    /// Writes a completion and what follows from it. A QP whose completion is lost is in error.
    pub fn complete(&mut self, cqn: u32, completion: Completion) {
        let qpn = completion.qpn();
        let completion = completion.at(self.clock());
        let Some(cq) = self.objects.cqs.get_mut(cqn) else { return };
        let guest = &mut self.guests[cq.guest];
        guest.activity.completions += 1;
        let error = match cq.push(&guest.memory, completion) {
            Ok(Pushed::Quiet) => return,
            Ok(Pushed::Event) => return guest.raise(cq.eqn(), &Event::completion(cqn)),
            Ok(Pushed::EventBy(at)) => return self.engine.cq_waits(cqn, at),
            Err(CqFault::Dead) => return self.lose_completions(qpn),
            Err(CqFault::Overrun) => CQ_ERROR_OVERRUN,
            Err(CqFault::Access) => CQ_ERROR_ACCESS,
        };
        tracing::warn!("CQ {cqn:#x} is dead, syndrome {error}");
        guest.raise_async(&Event::cq_error(cqn, error));
        self.engine.cq_died(cqn);
        self.lose_completions(qpn);
    }

    /// The QP's completions cannot be told any more.
    fn lose_completions(&mut self, qpn: u32) {
        if self.objects.qps.get(qpn).is_some_and(|qp| qp.state != QpState::Error) {
            self.fail_qp(qpn, Some(EventType::WqCatastrophic));
        }
    }

    /// CREATE_CQ.
    pub fn create_cq(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let cq = CompletionQueue::new(guest, input.context(CONTEXT)?, input.pages(PAGES))?;
        let owner = &self.guests[guest];
        if !owner.eqs.contains_key(&cq.eqn()) {
            return Err(Refusal::missing(Syndrome::NoSuchEq));
        }
        if !owner.uars.contains(&cq.uar()) {
            return Err(Refusal::missing(Syndrome::NoSuchUar));
        }
        output.set_object(self.objects.insert(cq)?);
        Ok(())
    }

    /// DESTROY_CQ.
    pub fn destroy_cq(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        let cqn = input.object();
        self.objects.cqs.owned(guest, cqn)?;
        if self.objects.is_used(guest, Kind::Cq, cqn) {
            return Err(Refusal::in_use());
        }
        self.engine.forget_timer(cqn);
        self.objects.remove::<CompletionQueue>(guest, cqn).map(|_| ())
    }

    /// QUERY_CQ.
    pub fn query_cq(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let cq = self.objects.cqs.owned(guest, input.object())?;
        let mut context = cq.context;
        cqc::PRODUCER_COUNTER.set(&mut context, cq.producer);
        cqc::LAST_NOTIFIED_INDEX.set(&mut context, cq.notified);
        cqc::LAST_SOLICIT_INDEX.set(&mut context, cq.solicited);
        cqc::ST.set(&mut context, if cq.armed == Armed::No { STATE_FIRED } else { STATE_ARMED });
        if let Ok(consumer) = self.guests[guest].memory.read_be32(cq.doorbell) {
            cqc::CONSUMER_COUNTER.set(&mut context, consumer.into());
        }
        output.put(CONTEXT, &context);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const DOORBELL: u64 = 0x2000;

    pub(super) fn cq(log: u64) -> (GuestMemory, CompletionQueue) {
        let mut c = [0; cqc::BYTES];
        cqc::LOG_CQ_SIZE.set(&mut c, log);
        cqc::DBR_ADDR.set(&mut c, DOORBELL);
        (GuestMemory::fake(&[(0x1000, 0x2000)]), CompletionQueue::new(0, c, vec![0x1000]).unwrap())
    }

    pub(super) fn send() -> Completion {
        Completion::new(CompletionOpcode::Send, 0x41, 5, 6)
    }

    #[test]
    fn an_arming_gets_one_event() {
        let (m, mut cq) = cq(4);
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Quiet), "not armed");
        assert!(cq.arm(0, 0, false), "one is there, unread and unannounced");
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Quiet));
        // The program has the event, has not read the queue, arms again: the second one is new.
        assert!(cq.arm(1, 0, false));
        // Again, and now nothing is new although nothing was read: no second event for the same completions.
        assert!(!cq.arm(2, 0, false));
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Event));
    }

    #[test]
    fn repeating_an_answered_arming_does_nothing() {
        let (m, mut cq) = cq(4);
        cq.arm(0, 0, false);
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Event));
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Quiet));
        assert!(!cq.arm(0, 0, false));
        assert!(cq.arm(1, 0, false));
    }

    #[test]
    fn solicited_waits_for_solicited_or_error_and_never_weakens() {
        let (m, mut cq) = cq(4);
        cq.arm(0, 0, true);
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Quiet));
        assert_eq!(cq.push(&m, send().solicited(true)), Ok(Pushed::Event));
        cq.arm(1, 2, true);
        assert_eq!(
            cq.push(&m, Completion::new(CompletionOpcode::ResponderError, 1, 1, 1)),
            Ok(Pushed::Event)
        );
        cq.arm(2, 3, false);
        cq.arm(2, 3, true);
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Event));
    }

    #[test]
    fn an_overrun_kills_it() {
        let (m, mut cq) = cq(1);
        cq.push(&m, send()).unwrap();
        cq.push(&m, send()).unwrap();
        assert_eq!(cq.push(&m, send()), Err(CqFault::Overrun));
        m.write(DOORBELL, &2u32.to_be_bytes()).unwrap();
        assert_eq!(cq.push(&m, send()), Err(CqFault::Dead));
        assert_eq!(cqc::STATUS.get(&cq.context), CQ_STATUS_OVERFLOW);
    }

    #[test]
    fn memory_that_is_not_there_kills_it_too() {
        let (_, mut cq) = cq(1);
        assert_eq!(cq.push(&GuestMemory::default(), send()), Err(CqFault::Access));
    }

    #[test]
    fn no_event_is_lost_after_many_completions_without_one() {
        for many in [(1 << 23) + 5, (1 << 24) + 5, (1 << 32) + 5] {
            let (m, mut cq) = cq(4);
            let read = many & INDEX_MASK;
            m.write(DOORBELL, &(read as u32).to_be_bytes()).unwrap();
            cq.producer = many;
            cq.push(&m, send().solicited(true)).unwrap();
            assert!(cq.arm(1, read as u32, true), "{many:#x}: one is unread");
            cq.push(&m, send()).unwrap();
            assert!(cq.arm(2, read as u32 + 1, false), "{many:#x}: the next");
        }
    }

    #[test]
    fn indices_in_doorbells_turn_over() {
        let (m, mut cq) = cq(1);
        cq.producer = INDEX_MASK;
        m.write(DOORBELL, &(INDEX_MASK as u32).to_be_bytes()).unwrap();
        cq.push(&m, send()).unwrap();
        cq.push(&m, send()).unwrap();
        assert_eq!((cq.unread(INDEX_MASK as u32), cq.unread(1)), (2, 0));
        assert!(cq.arm(0, 0, false), "the second is unread");
        assert_eq!(cq.push(&m, send()), Err(CqFault::Overrun));
    }
}

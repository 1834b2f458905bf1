//! MODIFY_CQ: moderation of events, and the move to other memory.
//!
//! A queue that is resized gets a last entry of its own kind in the old memory, and goes on in the new one with the
//! next index. What the program has not read yet it copies itself, one place up.

use std::time::{Duration, Instant};

use crate::{
    buffer::QueueBuffer,
    command::{
        mailbox::Input,
        status::{Refusal, Status, Syndrome},
    },
    device::Device,
    eq::Event,
    fields::{cqc, modify_cq_in},
    hw::CompletionOpcode,
    memory::GuestMemory,
    objects::{GuestId, Object},
};

use super::{CONTEXT, Completion, CompletionQueue, CqFault, LOG_MAX_CQ_SIZE, PAGES, Pushed};

/// Variants of the command.
const MODIFY: u16 = 0;
const RESIZE: u16 = 1;

/// What the first one changes.
mod select {
    pub const PERIOD: u64 = 1 << 0;
    pub const COUNT: u64 = 1 << 1;
    pub const OVERRUN: u64 = 1 << 2;
    pub const ALL: u64 = PERIOD | COUNT | OVERRUN;
}

impl CompletionQueue {
    /// An event is due: now, or when moderation lets it.
    pub(super) fn due(&mut self) -> Pushed {
        let most = cqc::CQ_MAX_COUNT.get32(&self.context);
        let period = cqc::CQ_PERIOD.get(&self.context);
        let (since, count) = match self.held_back {
            Some((since, count)) => (since, count + 1),
            None => (Instant::now(), 1),
        };
        if most == 0 && period == 0 || most != 0 && count >= most {
            self.fire();
            return Pushed::Event;
        }
        let first = self.held_back.replace((since, count)).is_none();
        // One timer serves all that come meanwhile.
        match period {
            0 => Pushed::Quiet,
            _ if first => Pushed::EventBy(since + Duration::from_micros(period)),
            _ => Pushed::Quiet,
        }
    }

    /// The time is up; says whether to raise the event that was held back.
    fn time_is_up(&mut self, at: Instant) -> bool {
        let period = Duration::from_micros(cqc::CQ_PERIOD.get(&self.context));
        let up = !period.is_zero() && self.held_back.is_some_and(|(since, _)| since + period <= at);
        if up {
            self.fire();
        }
        up
    }

    /// The queue in other memory, before anything moves.
    fn resized(&self, input: &Input) -> Result<(u32, QueueBuffer, [u8; cqc::BYTES]), Refusal> {
        let new: [u8; cqc::BYTES] = input.context(CONTEXT)?;
        let log_size = cqc::LOG_CQ_SIZE.get(&new);
        if log_size > LOG_MAX_CQ_SIZE {
            return Err(Refusal::parameter(Syndrome::SizeBeyondCapability));
        }
        let buffer = QueueBuffer::new(
            input.pages(PAGES),
            cqc::LOG_PAGE_SIZE.get(&new),
            cqc::PAGE_OFFSET.get(&new),
            self.stride << log_size,
        )?;
        let mut context = self.context;
        for field in [cqc::LOG_CQ_SIZE, cqc::LOG_PAGE_SIZE, cqc::PAGE_OFFSET] {
            field.copy(&new, &mut context);
        }
        Ok((log_size as u32, buffer, context))
    }

    /// Says good-bye to the old memory. Everything unread, with this one, must fit the new one.
    fn leave(&mut self, memory: &GuestMemory, log_size: u32) -> Result<(), Refusal> {
        if self.dead {
            return Err(Refusal::new(Status::BadResourceState, Syndrome::DeadCq));
        }
        let full = Refusal::new(Status::TooManyCompletions, Syndrome::CompletionsLeft);
        let consumer = memory
            .read_be32(self.doorbell)
            .map_err(|_| Refusal::new(Status::BadResourceState, Syndrome::DeadCq))?;
        if self.unread(consumer) >= 1 << log_size {
            return Err(full);
        }
        self.write(memory, &Completion::new(CompletionOpcode::Resize, 0, 0, 0)).map_err(|fault| match fault {
            CqFault::Overrun => full,
            _ => Refusal::new(Status::BadResourceState, Syndrome::DeadCq),
        })
    }
}

impl Device {
    /// MODIFY_CQ.
    pub fn modify_cq(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        match input.variant() {
            MODIFY => self.moderate_cq(guest, input),
            RESIZE => self.resize_cq(guest, input),
            _ => Err(Refusal::parameter(Syndrome::UnknownVariant)),
        }
    }

    fn moderate_cq(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        let cq = self.objects.cqs.owned_mut(guest, input.object())?;
        let new: [u8; cqc::BYTES] = input.context(CONTEXT)?;
        let select = input.get(modify_cq_in::SELECT);
        if select & !select::ALL != 0 {
            return Err(Refusal::parameter(Syndrome::BadAttribute));
        }
        for (bit, field) in
            [(select::PERIOD, cqc::CQ_PERIOD), (select::COUNT, cqc::CQ_MAX_COUNT), (select::OVERRUN, cqc::OI)]
        {
            if select & bit != 0 {
                field.copy(&new, &mut cq.context);
            }
        }
        // What the old terms held back would have nobody to let it go.
        if cq.held_back.is_some() {
            cq.fire();
            let (eqn, event) = (cq.eqn(), Event::completion(input.object()));
            self.guests[guest].raise(eqn, &event);
        }
        Ok(())
    }

    fn resize_cq(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        let cq = self.objects.cqs.owned(guest, input.object())?;
        let (log_size, buffer, context) = cq.resized(input)?;
        let (before, after) = (cq.listed_pages(), buffer.pages());
        self.objects.relist(guest, before, after)?;
        let cq = self.objects.cqs.owned_mut(guest, input.object())?;
        if let Err(refusal) = cq.leave(&self.guests[guest].memory, log_size) {
            self.objects.relist(guest, after, before)?;
            return Err(refusal);
        }
        cq.producer += 1;
        cq.log_size = log_size;
        cq.buffer = buffer;
        cq.context = context;
        Ok(())
    }

    /// A timer of moderation is up, if it is one.
    pub fn end_moderation(&mut self, cqn: u32, at: Instant) {
        if let Some(cq) = self.objects.cqs.get_mut(cqn) {
            if cq.time_is_up(at) {
                self.guests[cq.guest].raise(cq.eqn(), &Event::completion(cqn));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cq::tests::{DOORBELL, cq, send};

    fn moderate(cq: &mut CompletionQueue, count: u64, period: u64) {
        cqc::CQ_MAX_COUNT.set(&mut cq.context, count);
        cqc::CQ_PERIOD.set(&mut cq.context, period);
    }

    #[test]
    fn an_event_waits_for_enough_completions() {
        let (m, mut cq) = cq(4);
        moderate(&mut cq, 3, 0);
        cq.arm(0, 0, false);
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Quiet));
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Quiet));
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Event));
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Quiet), "not armed again");
    }

    #[test]
    fn an_event_waits_no_longer_than_the_period() {
        let (m, mut cq) = cq(4);
        moderate(&mut cq, 100, 50);
        cq.arm(0, 0, false);
        let Ok(Pushed::EventBy(at)) = cq.push(&m, send()) else { panic!("no timer") };
        assert_eq!(cq.push(&m, send()), Ok(Pushed::Quiet), "one timer is enough");
        assert!(!cq.time_is_up(at - Duration::from_micros(1)));
        assert!(cq.time_is_up(at));
        assert!(!cq.time_is_up(at), "once");
        cq.arm(1, 2, false);
        assert!(matches!(cq.push(&m, send()), Ok(Pushed::EventBy(_))));
    }

    #[test]
    fn a_queue_that_would_not_fit_stays() {
        let (m, mut cq) = cq(2);
        for _ in 0..2 {
            cq.push(&m, send()).unwrap();
        }
        assert_eq!(cq.leave(&m, 1).unwrap_err().status, Status::TooManyCompletions);
        for _ in 0..2 {
            cq.push(&m, send()).unwrap();
        }
        assert_eq!(
            cq.leave(&m, 4).unwrap_err().status,
            Status::TooManyCompletions,
            "no room to say good-bye"
        );
        m.write(DOORBELL, &4u32.to_be_bytes()).unwrap();
        cq.leave(&m, 0).unwrap();
        let mut entry = [0; 64];
        m.read(0x1000, &mut entry).unwrap();
        assert_eq!(entry[63] >> 4, CompletionOpcode::Resize as u8);
        cq.dead = true;
        assert_eq!(cq.leave(&m, 4).unwrap_err().syndrome, Syndrome::DeadCq);
    }
}

//! A command's input and output: 16 bytes in the queue entry, the rest in a chain of mailboxes.
//!
//! The chain is the guest's: it may loop, end early or lie. Its length follows from the entry, never from the
//! chain, so walking it ends.

use crate::{
    bits::{Field, be64, put},
    command::status::{Delivery, Refusal, Status, Syndrome},
    fields::{command_entry, command_in, command_out, mailbox},
    memory::GuestMemory,
};

/// Bytes of input, and of output, in the entry itself.
const IMMEDIATE_BYTES: usize = 16;
/// Where they are.
const IMMEDIATE_INPUT: usize = 16;
const IMMEDIATE_OUTPUT: usize = 32;
/// Data bytes of a mailbox.
const MAILBOX_DATA: usize = 512;
/// A mailbox lies on a boundary of this size.
const MAILBOX_ALIGNMENT: u64 = 64;
/// Shortest output: status and syndrome.
const MIN_OUTPUT: usize = 8;
/// Longest input: the page list of a 16 GiB region of small pages.
const MAX_INPUT: usize = 32 << 20;
/// Longest output.
const MAX_OUTPUT: usize = 1 << 20;

/// An entry of the command queue, as read from the guest.
#[derive(Clone, Debug)]
pub struct Entry {
    bytes: [u8; command_entry::BYTES],
}

impl Entry {
    /// Reads the entry at the address.
    pub fn read(memory: &GuestMemory, address: u64) -> Result<Self, Delivery> {
        let mut bytes = [0; command_entry::BYTES];
        memory.read(address, &mut bytes).map_err(|_| Delivery::DescriptorError)?;
        Ok(Self { bytes })
    }

    fn walk(
        &self,
        memory: &GuestMemory,
        first: Field,
        length: usize,
        fault: Delivery,
        mut block: impl FnMut(u64, &[u8; mailbox::BYTES], usize) -> Result<(), Delivery>,
    ) -> Result<(), Delivery> {
        let token = command_entry::TOKEN.get(&self.bytes);
        let mut next = first.get(&self.bytes);
        let mut buffer = [0; mailbox::BYTES];
        for n in 0..length.saturating_sub(IMMEDIATE_BYTES).div_ceil(MAILBOX_DATA) {
            if next % MAILBOX_ALIGNMENT != 0 {
                return Err(fault);
            }
            memory.read(next, &mut buffer).map_err(|_| fault)?;
            if mailbox::TOKEN.get(&buffer) != token {
                return Err(Delivery::TokenError);
            }
            if mailbox::BLOCK_NUMBER.get(&buffer) != n as u64 {
                return Err(Delivery::BadBlockNumber);
            }
            block(next, &buffer, n)?;
            next = mailbox::NEXT.get(&buffer);
        }
        Ok(())
    }

    /// The input, gathered.
    pub fn input(&self, memory: &GuestMemory) -> Result<Input, Delivery> {
        let length = command_entry::INPUT_LENGTH.get(&self.bytes) as usize;
        if !(MIN_OUTPUT..=MAX_INPUT).contains(&length) {
            return Err(Delivery::InputLengthError);
        }
        let mut bytes = self.bytes[IMMEDIATE_INPUT..IMMEDIATE_INPUT + IMMEDIATE_BYTES].to_vec();
        self.walk(
            memory,
            command_entry::INPUT_MAILBOX,
            length,
            Delivery::InputPointerError,
            |_, block, _| {
                bytes.extend_from_slice(&block[..MAILBOX_DATA]);
                Ok(())
            },
        )?;
        bytes.truncate(length);
        Ok(Input { bytes })
    }

    /// Room for the output.
    pub fn output(&self) -> Result<Output, Delivery> {
        let length = command_entry::OUTPUT_LENGTH.get(&self.bytes) as usize;
        if !(MIN_OUTPUT..=MAX_OUTPUT).contains(&length) {
            return Err(Delivery::OutputLengthError);
        }
        Ok(Output { bytes: vec![0; length] })
    }

    /// Writes the output, but does not hand the entry back yet.
    pub fn answer(&self, memory: &GuestMemory, address: u64, output: &Output) -> Result<(), Delivery> {
        let mut head = [0; IMMEDIATE_BYTES];
        put(&mut head, 0, &output.bytes);
        self.walk(
            memory,
            command_entry::OUTPUT_MAILBOX,
            output.bytes.len(),
            Delivery::OutputPointerError,
            |at, _, n| {
                let from = IMMEDIATE_BYTES + n * MAILBOX_DATA;
                let part = output.bytes.get(from..).unwrap_or(&[]);
                memory
                    .write(at, &part[..part.len().min(MAILBOX_DATA)])
                    .map_err(|_| Delivery::OutputPointerError)
            },
        )?;
        memory.write(address + IMMEDIATE_OUTPUT as u64, &head).map_err(|_| Delivery::OutputPointerError)
    }

    /// Hands the entry back; everything else must be written before.
    pub fn hand_back(memory: &GuestMemory, address: u64, delivery: Delivery) {
        let mut last = [0; command_entry::BYTES];
        command_entry::DELIVERY.set(&mut last, delivery as u64);
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        let at = command_entry::OWNER.byte();
        // If the entry cannot be written, the guest has nothing to look at: there is nobody to tell.
        let _ = memory.write(address + at as u64, &last[at..=at]);
    }
}

/// A command's input.
#[derive(Clone, Debug)]
pub struct Input {
    bytes: Vec<u8>,
}

impl Input {
    /// An input made up by a test.
    #[cfg(test)]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Which command.
    pub fn opcode(&self) -> u16 {
        self.get(command_in::OPCODE) as u16
    }

    /// Which variant of it.
    pub fn variant(&self) -> u16 {
        self.get(command_in::OP_MOD) as u16
    }

    /// The object it is about.
    pub fn object(&self) -> u32 {
        self.get(command_in::OBJECT) as u32
    }

    /// A field; zero beyond the end.
    pub fn get(&self, field: Field) -> u64 {
        field.get(&self.bytes)
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no input.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A context that must be there as a whole.
    pub fn context<const N: usize>(&self, at: usize) -> Result<[u8; N], Refusal> {
        self.bytes
            .get(at..)
            .and_then(|b| b.first_chunk())
            .copied()
            .ok_or(Refusal::new(Status::BadInputLength, Syndrome::ShortInput))
    }

    /// All that follows.
    pub fn rest(&self, at: usize) -> &[u8] {
        self.bytes.get(at..).unwrap_or(&[])
    }

    /// A list of page addresses, to the end of the input.
    pub fn pages(&self, at: usize) -> Vec<u64> {
        self.rest(at).chunks_exact(8).map(|c| be64(c, 0)).collect()
    }
}

/// A command's output, zero at first. What goes beyond the room that the driver gave is cut off, as on hardware.
#[derive(Clone, Debug)]
pub struct Output {
    bytes: Vec<u8>,
}

impl Output {
    /// Room for a test.
    #[cfg(test)]
    pub fn new(length: usize) -> Self {
        Self { bytes: vec![0; length] }
    }

    /// Sets a field.
    pub fn set(&mut self, field: Field, value: u64) {
        field.set(&mut self.bytes, value);
    }

    /// Names the object that was made.
    pub fn set_object(&mut self, number: u32) {
        self.set(command_out::OBJECT, u64::from(number));
    }

    /// Copies a context.
    pub fn put(&mut self, at: usize, from: &[u8]) {
        put(&mut self.bytes, at, from);
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no room.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Nothing but the refusal.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.bytes.fill(0);
        self.set(command_out::STATUS, refusal.status as u64);
        self.set(command_out::SYNDROME, refusal.syndrome as u64);
    }

    /// What a test looks at.
    #[cfg(test)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: u64 = 0x1000;
    const BOX: u64 = 0x2000;

    fn guest(input: u32, output: u32, boxes: usize) -> GuestMemory {
        let m = GuestMemory::fake(&[(0x1000, 0x9000)]);
        let mut e = [0; command_entry::BYTES];
        command_entry::INPUT_LENGTH.set(&mut e, input.into());
        command_entry::OUTPUT_LENGTH.set(&mut e, output.into());
        command_entry::INPUT_MAILBOX.set(&mut e, BOX);
        command_entry::OUTPUT_MAILBOX.set(&mut e, BOX);
        command_entry::TOKEN.set(&mut e, 0x77);
        m.write(ENTRY, &e).unwrap();
        for n in 0..boxes as u64 {
            let mut b = [n as u8; mailbox::BYTES];
            mailbox::TOKEN.set(&mut b, 0x77);
            mailbox::BLOCK_NUMBER.set(&mut b, n);
            mailbox::NEXT.set(&mut b, if n + 1 < boxes as u64 { BOX + (n + 1) * 0x400 } else { 0 });
            m.write(BOX + n * 0x400, &b).unwrap();
        }
        m
    }

    #[test]
    fn gathers_and_answers() {
        let m = guest(16 + 600, 16 + 600, 2);
        let e = Entry::read(&m, ENTRY).unwrap();
        let i = e.input(&m).unwrap();
        assert_eq!((i.len(), i.rest(16 + 511)), (616, [&[0u8][..], &[1; 88]].concat().as_slice()));
        let mut o = e.output().unwrap();
        o.put(0, &[9; 616]);
        e.answer(&m, ENTRY, &o).unwrap();
        Entry::hand_back(&m, ENTRY, Delivery::Ok);
        let mut b = [0; 600];
        m.read(BOX + 0x400, &mut b).unwrap();
        assert_eq!((b[87], b[88]), (9, 1), "no more than the output");
        m.read(ENTRY, &mut b).unwrap();
        assert_eq!((b[32], b[47], b[63]), (9, 9, 0));
    }

    #[test]
    fn hostile_chains_end() {
        let input = |m: &GuestMemory| Entry::read(m, ENTRY).unwrap().input(m).map(|i| i.len());
        // Ends early: the null mailbox is not mapped.
        assert_eq!(input(&guest(16 + 1024, 16, 1)), Err(Delivery::InputPointerError));
        // Loops: the second visit has the wrong number.
        let m = guest(16 + 2048, 16, 2);
        let mut b = [0; mailbox::BYTES];
        m.read(BOX + 0x400, &mut b).unwrap();
        mailbox::NEXT.set(&mut b, BOX);
        m.write(BOX + 0x400, &b).unwrap();
        assert_eq!(input(&m), Err(Delivery::BadBlockNumber));
        // Bears another token.
        mailbox::TOKEN.set(&mut b, 1);
        m.write(BOX + 0x400, &b).unwrap();
        assert_eq!(input(&m), Err(Delivery::TokenError));
        // Is huge or tiny.
        assert_eq!(input(&guest(u32::MAX, 16, 1)), Err(Delivery::InputLengthError));
        assert_eq!(input(&guest(0, 16, 1)), Err(Delivery::InputLengthError));
        for length in [0, u32::MAX] {
            let m = guest(16, length, 0);
            assert_eq!(Entry::read(&m, ENTRY).unwrap().output().unwrap_err(), Delivery::OutputLengthError);
        }
        assert_eq!(Entry::read(&GuestMemory::default(), ENTRY).unwrap_err(), Delivery::DescriptorError);
    }

    #[test]
    fn short_inputs_are_refused_where_a_context_is_needed() {
        let i = Input::new(vec![1; 20]);
        assert!(i.context::<4>(16).is_ok());
        assert_eq!(i.context::<5>(16).unwrap_err().status, Status::BadInputLength);
        assert_eq!(i.context::<1>(usize::MAX).unwrap_err().status, Status::BadInputLength);
        assert!(i.pages(99).is_empty());
    }
}

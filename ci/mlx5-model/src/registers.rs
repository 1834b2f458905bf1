//! BAR 0: the initialisation segment and the pages of doorbells.

use crate::{
    bits::{be32, put},
    device::Device,
    hw::PAGE_SHIFT,
    objects::GuestId,
    pci::BAR_BYTES,
};

/// Registers of the initialisation segment; big-endian words.
mod register {
    /// Firmware: minor, major.
    pub const FIRMWARE: u64 = 0x0;
    /// Command interface revision, firmware sub-minor.
    pub const COMMAND_REVISION: u64 = 0x4;
    /// Address of the command queue, upper half.
    pub const COMMAND_QUEUE_HIGH: u64 = 0x10;
    /// Lower half; its low bits tell the queue's shape.
    pub const COMMAND_QUEUE_LOW: u64 = 0x14;
    /// One bit for each command that waits.
    pub const COMMAND_DOORBELL: u64 = 0x18;
    /// A counter that shows that the device lives.
    pub const HEALTH_COUNTER: u64 = 0x1010;
}

const FIRMWARE_MAJOR: u32 = 16;
const FIRMWARE_MINOR: u32 = 35;
const FIRMWARE_SUB_MINOR: u32 = 1234;
/// The revision that drivers ask for.
const COMMAND_REVISION: u32 = 5;
/// The command queue: log of its entries, log of their size.
const LOG_COMMAND_SLOTS: u32 = 5;
const LOG_COMMAND_STRIDE: u32 = 6;
/// The bits of the lower half of its address that are the address.
const COMMAND_QUEUE_MASK: u32 = !0xfff;
/// The counter's step; drivers look every two seconds.
const HEALTH_STEP_MS: u128 = 100;

/// First page of doorbells; the registers and the MSI-X table come before.
pub const FIRST_UAR: u32 = 64;
/// Behind the last one.
pub const END_UAR: u32 = (BAR_BYTES >> PAGE_SHIFT) as u32;

/// Places in a page of doorbells.
mod doorbell {
    /// Completion queue: arm word, number. Eight bytes.
    pub const CQ_ARM: u64 = 0x20;
    /// Event queue: number and consumer index; arms.
    pub const EQ_ARM: u64 = 0x40;
    /// The same, does not arm.
    pub const EQ_UPDATE: u64 = 0x48;
    /// First of the registers for send work requests: the first 8 bytes of the request.
    pub const SEND: u64 = 0x800;
}

/// Fields of the first word of a completion queue's doorbell.
const CQ_SEQUENCE_SHIFT: u32 = 28;
const CQ_SEQUENCE_MASK: u32 = 3;
const CQ_SOLICITED_ONLY: u32 = 1 << 24;
const NUMBER_MASK: u32 = 0xff_ffff;
/// An event queue's doorbell has the number in its top byte.
const EQ_NUMBER_SHIFT: u32 = 24;
/// A send doorbell's second word has the QP number above the length.
const SEND_QPN_SHIFT: u32 = 8;

impl Device {
    fn register(&self, guest: GuestId, at: u64) -> u32 {
        match at {
            register::FIRMWARE => FIRMWARE_MINOR << 16 | FIRMWARE_MAJOR,
            register::COMMAND_REVISION => COMMAND_REVISION << 16 | FIRMWARE_SUB_MINOR,
            register::COMMAND_QUEUE_HIGH => (self.guests[guest].command_queue >> 32) as u32,
            register::COMMAND_QUEUE_LOW => {
                self.guests[guest].command_queue as u32 | LOG_COMMAND_SLOTS << 4 | LOG_COMMAND_STRIDE
            }
            register::HEALTH_COUNTER => (self.born.elapsed().as_millis() / HEALTH_STEP_MS) as u32,
            // All others read as zero; that also says "initialised" and "healthy".
            _ => 0,
        }
    }

    /// A read of BAR 0.
    pub fn bar_read(&mut self, guest: GuestId, at: u64, to: &mut [u8]) {
        for (i, chunk) in to.chunks_mut(4).enumerate() {
            let word = at.saturating_add(i as u64 * 4);
            let bytes = self.register(guest, word & !3).to_be_bytes();
            put(chunk, 0, &bytes[(word & 3) as usize..]);
        }
    }

    /// A write to BAR 0.
    pub fn bar_write(&mut self, guest: GuestId, at: u64, from: &[u8]) {
        let uar = u32::try_from(at >> PAGE_SHIFT).unwrap_or(u32::MAX);
        if uar >= FIRST_UAR {
            self.doorbell(guest, uar, at & ((1 << PAGE_SHIFT) - 1), from);
            return;
        }
        for (i, chunk) in from.chunks_exact(4).enumerate() {
            self.register_write(guest, at.saturating_add(i as u64 * 4), be32(chunk, 0));
        }
    }

    fn register_write(&mut self, guest: GuestId, at: u64, value: u32) {
        let queue = &mut self.guests[guest].command_queue;
        match at {
            register::COMMAND_QUEUE_HIGH => *queue = u64::from(value) << 32 | *queue & 0xffff_ffff,
            register::COMMAND_QUEUE_LOW => {
                *queue = *queue & !0xffff_ffff | u64::from(value & COMMAND_QUEUE_MASK);
            }
            register::COMMAND_DOORBELL => {
                for slot in (0..1 << LOG_COMMAND_SLOTS).filter(|slot| value >> slot & 1 == 1) {
                    let entry = self.guests[guest].command_queue.wrapping_add(slot << LOG_COMMAND_STRIDE);
                    self.command(guest, slot as u32, entry);
                }
            }
            _ => tracing::debug!("guest {}: write of {value:#x} to register {at:#x} ignored", guest + 1),
        }
    }

    fn doorbell(&mut self, guest: GuestId, uar: u32, at: u64, from: &[u8]) {
        let rung = self.guests[guest].uars.contains(&uar)
            && match at {
                doorbell::EQ_ARM | doorbell::EQ_UPDATE if from.len() >= 4 => {
                    self.eq_doorbell(guest, uar, be32(from, 0), at == doorbell::EQ_ARM)
                }
                doorbell::CQ_ARM if from.len() >= 8 => {
                    self.cq_doorbell(guest, uar, be32(from, 0), be32(from, 4) & NUMBER_MASK)
                }
                doorbell::SEND.. if from.len() >= 8 => {
                    self.send_doorbell(guest, uar, be32(from, 4) >> SEND_QPN_SHIFT)
                }
                _ => false,
            };
        if !rung {
            self.guests[guest].activity.stray_doorbells += 1;
            tracing::debug!("guest {}: stray doorbell at {at:#x} of page {uar}: {from:02x?}", guest + 1);
        }
    }

    fn eq_doorbell(&mut self, guest: GuestId, uar: u32, word: u32, arm: bool) -> bool {
        let guest = &mut self.guests[guest];
        let Some(eq) = guest.eqs.get_mut(&(word >> EQ_NUMBER_SHIFT)).filter(|eq| eq.uar() == uar) else {
            return false;
        };
        if eq.consumed(word & NUMBER_MASK, arm) {
            guest.interrupts.raise(eq.vector());
        }
        true
    }

    fn cq_doorbell(&mut self, guest: GuestId, uar: u32, word: u32, cqn: u32) -> bool {
        let Ok(cq) = self.objects.cqs.owned_mut(guest, cqn) else { return false };
        if cq.uar() != uar {
            return false;
        }
        let sequence = (word >> CQ_SEQUENCE_SHIFT & CQ_SEQUENCE_MASK) as u8;
        if cq.arm(sequence, word & NUMBER_MASK, word & CQ_SOLICITED_ONLY != 0) {
            let eqn = cq.eqn();
            self.guests[guest].raise(eqn, &crate::eq::Event::completion(cqn));
        }
        true
    }

    fn send_doorbell(&mut self, guest: GuestId, uar: u32, qpn: u32) -> bool {
        let own = self.objects.qps.owned(guest, qpn).is_ok_and(|qp| qp.uar() == uar);
        if own {
            self.ring(qpn);
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initialisation_segment_says_ready() {
        let mut d = Device::new(1);
        let mut b = [0; 8];
        d.bar_read(0, 4, &mut b);
        assert_eq!(b, [0, 5, 4, 210, 0, 0, 0, 0]);
        d.bar_write(0, 0x10, &[0, 0, 0, 1, 0x12, 0x34, 0x5f, 0xff]);
        d.bar_read(0, 0x10, &mut b);
        assert_eq!(b, [0, 0, 0, 1, 0x12, 0x34, 0x50, 0x56]);
        d.bar_read(0, 0x15, &mut b[..1]);
        assert_eq!(b[0], 0x34);
    }

    #[test]
    fn doorbells_of_nothing_are_counted() {
        let mut d = Device::new(1);
        for (at, length) in [(0x40_800, 8), (0x40_020, 4), (0x40_040, 4), (0x1ff_ff00, 8), (u64::MAX, 8)] {
            d.bar_write(0, at, &[0xff; 8][..length]);
        }
        assert_eq!(d.guests[0].activity.stray_doorbells, 5);
    }
}

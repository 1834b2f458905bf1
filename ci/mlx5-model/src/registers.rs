//! BAR 0: the initialisation segment and the pages of doorbells.

use crate::{
    bits::{be32, put},
    device::Device,
    guest::Guest,
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
    /// Whether the firmware wants a reset, how severe its trouble is, in the top byte.
    pub const HEALTH_SEVERITY: u64 = 0x238;
    /// What its trouble is: the second byte the kind, the lower half more of it.
    pub const HEALTH_SYNDROME: u64 = 0x23c;
    /// The clock, upper and lower half; a page that programs may read.
    pub const CLOCK_HIGH: u64 = 0x1000;
    pub const CLOCK_LOW: u64 = 0x1004;
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
/// Bits of the lower half that say what the function does as an interface: all (0), or nothing.
const INTERFACE_MASK: u32 = 7 << 8;
const INTERFACE_DISABLED: u32 = 1 << 8;
/// A failed adapter's health: wants a reset, and its severity ("error") counts.
const HEALTH_FAILED: u32 = 0x80 | 0x08 | 3;
const HEALTH_SEVERITY_SHIFT: u32 = 24;
/// The kind of trouble: an internal error of the firmware; the rest is the model's own number.
const SYNDROME_FIRMWARE: u32 = 1;
const SYNDROME_SHIFT: u32 = 16;
const SYNDROME_ON_COMMAND: u32 = 0x5c01;
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
                let interface = if self.guests[guest].failed { INTERFACE_DISABLED } else { 0 };
                self.guests[guest].command_queue as u32
                    | interface
                    | LOG_COMMAND_SLOTS << 4
                    | LOG_COMMAND_STRIDE
            }
            register::HEALTH_SEVERITY if self.guests[guest].failed => HEALTH_FAILED << HEALTH_SEVERITY_SHIFT,
            register::HEALTH_SYNDROME if self.guests[guest].failed => {
                SYNDROME_FIRMWARE << SYNDROME_SHIFT | SYNDROME_ON_COMMAND
            }
            register::CLOCK_HIGH => (self.clock() >> 32) as u32,
            register::CLOCK_LOW => self.clock() as u32,
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
        let Guest { command_queue: queue, failed, .. } = &mut self.guests[guest];
        match at {
            register::COMMAND_QUEUE_HIGH => *queue = u64::from(value) << 32 | *queue & 0xffff_ffff,
            register::COMMAND_QUEUE_LOW => {
                *queue = *queue & !0xffff_ffff | u64::from(value & COMMAND_QUEUE_MASK);
                // A driver that starts says where its queue is, and that it wants the whole interface.
                *failed &= value & INTERFACE_MASK != 0;
            }
            register::COMMAND_DOORBELL if *failed => {}
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
        // Programs ring on for a while after their adapter failed.
        if !rung && !self.guests[guest].failed {
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
    fn a_failed_adapter_says_so_until_a_driver_starts_it() {
        let mut d = Device::new(2);
        let low = |d: &mut Device, guest| {
            let mut b = [0; 4];
            d.bar_read(guest, 0x14, &mut b);
            (be32(&b, 0) >> 8 & 7, be32(&b, 0) & 0xff)
        };
        let health = |d: &mut Device| {
            let mut b = [0; 8];
            d.bar_read(0, 0x238, &mut b);
            b
        };
        assert_eq!((low(&mut d, 0), health(&mut d)), ((0, 0x56), [0; 8]));
        d.fatal(0);
        assert_eq!((low(&mut d, 0), low(&mut d, 1)), ((1, 0x56), (0, 0x56)));
        assert_eq!(health(&mut d), [0x8b, 0, 0, 0, 0, 1, 0x5c, 1]);
        // Neither a command nor a doorbell does anything, nor is it held against the guest.
        d.bar_write(0, 0x18, &u32::MAX.to_be_bytes());
        d.bar_write(0, 0x40_800, &[0; 8]);
        let a = &d.guests[0].activity;
        assert_eq!((a.commands, a.bad_deliveries, a.stray_doorbells), (0, 0, 0));
        // A write that does not ask for the interface does not wake it.
        d.bar_write(0, 0x14, &0x1700u32.to_be_bytes());
        assert_eq!(low(&mut d, 0).0, 1);
        d.bar_write(0, 0x10, &[0, 0, 0, 0, 0, 0, 0x10, 0]);
        assert_eq!((low(&mut d, 0), health(&mut d)), ((0, 0x56), [0; 8]));
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

//! The PCI function: identity, one BAR, one MSI-X capability.

use crate::interrupt::VECTORS;

/// Size of the configuration space.
pub const CONFIG_BYTES: usize = 256;
/// Size of BAR 0: registers in the first pages, doorbell pages after them.
pub const BAR_BYTES: u64 = 32 << 20;
/// Where in BAR 0 the MSI-X table and its pending bits are. QEMU keeps both itself.
const MSIX_TABLE: u32 = 0x4000;
const MSIX_PENDING: u32 = 0x5000;

/// The vendor whose driver is to bind.
const VENDOR: u16 = 0x15b3;
/// A virtual function of a ConnectX-5 Ex: the driver then asks for less.
const DEVICE: u16 = 0x1018;
const SUBSYSTEM: u16 = 1;
/// Network controller, InfiniBand.
const CLASS: u8 = 0x02;
const SUBCLASS: u8 = 0x07;

/// Registers of the configuration space.
mod register {
    pub const VENDOR: usize = 0x00;
    pub const DEVICE: usize = 0x02;
    pub const COMMAND: usize = 0x04;
    pub const STATUS: usize = 0x06;
    pub const SUBCLASS: usize = 0x0a;
    pub const CLASS: usize = 0x0b;
    pub const CACHE_LINE: usize = 0x0c;
    pub const BAR0: usize = 0x10;
    pub const SUBSYSTEM_VENDOR: usize = 0x2c;
    pub const SUBSYSTEM: usize = 0x2e;
    pub const CAPABILITIES: usize = 0x34;
    pub const INTERRUPT_LINE: usize = 0x3c;
    pub const MSIX: usize = 0x40;
    pub const MSIX_CONTROL: usize = 0x42;
    pub const MSIX_TABLE: usize = 0x44;
    pub const MSIX_PENDING: usize = 0x48;
}

/// Status: there is a capability list.
const HAS_CAPABILITIES: u16 = 0x10;
/// BAR: 64 bits, prefetchable.
const BAR_FLAGS: u8 = 0x0c;
const CAPABILITY_MSIX: u8 = 0x11;
/// Command: memory space, bus master, parity, SERR, no INTx.
const COMMAND_WRITABLE: u16 = 0x0546;
/// MSI-X control: enable and mask all.
const MSIX_CONTROL_WRITABLE: u16 = 0xc000;

/// The configuration space: what it says and which bits can be written.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: [u8; CONFIG_BYTES],
    writable: [u8; CONFIG_BYTES],
}

impl Default for ConfigSpace {
    fn default() -> Self {
        let mut c = Self { bytes: [0; CONFIG_BYTES], writable: [0; CONFIG_BYTES] };
        let put = crate::bits::put;
        for (at, value) in [
            (register::VENDOR, VENDOR),
            (register::DEVICE, DEVICE),
            (register::STATUS, HAS_CAPABILITIES),
            (register::SUBSYSTEM_VENDOR, VENDOR),
            (register::SUBSYSTEM, SUBSYSTEM),
            (register::MSIX_CONTROL, VECTORS as u16 - 1),
        ] {
            put(&mut c.bytes, at, &value.to_le_bytes());
        }
        for (at, value) in [
            (register::SUBCLASS, SUBCLASS),
            (register::CLASS, CLASS),
            (register::BAR0, BAR_FLAGS),
            (register::CAPABILITIES, register::MSIX as u8),
            (register::MSIX, CAPABILITY_MSIX),
        ] {
            c.bytes[at] = value;
        }
        put(&mut c.bytes, register::MSIX_TABLE, &MSIX_TABLE.to_le_bytes());
        put(&mut c.bytes, register::MSIX_PENDING, &MSIX_PENDING.to_le_bytes());

        put(&mut c.writable, register::COMMAND, &COMMAND_WRITABLE.to_le_bytes());
        put(&mut c.writable, register::MSIX_CONTROL, &MSIX_CONTROL_WRITABLE.to_le_bytes());
        // The low bits of a BAR do not change: that is how its size is found.
        put(&mut c.writable, register::BAR0, &(!(BAR_BYTES - 1)).to_le_bytes());
        c.writable[register::CACHE_LINE] = 0xff;
        c.writable[register::INTERRUPT_LINE] = 0xff;
        c
    }
}

impl ConfigSpace {
    /// Reads; zeros beyond the end.
    pub fn read(&self, at: u64, to: &mut [u8]) {
        for (i, b) in to.iter_mut().enumerate() {
            *b = usize::try_from(at)
                .ok()
                .and_then(|at| self.bytes.get(at.checked_add(i)?))
                .copied()
                .unwrap_or(0);
        }
    }

    /// Writes the bits that can be written.
    pub fn write(&mut self, at: u64, from: &[u8]) {
        let Ok(at) = usize::try_from(at) else { return };
        for ((old, mask), new) in self.bytes.iter_mut().zip(&self.writable).skip(at).zip(from) {
            *old = *old & !mask | new & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_tells_its_size() {
        let mut c = ConfigSpace::default();
        c.write(0x10, &[0xff; 8]);
        let mut b = [0; 8];
        c.read(0x10, &mut b);
        assert_eq!(!(u64::from_le_bytes(b) & !0xf) + 1, BAR_BYTES);
        assert_eq!(b[0], BAR_FLAGS);
    }

    #[test]
    fn identity_cannot_be_written_and_the_end_is_the_end() {
        let mut c = ConfigSpace::default();
        c.write(0, &[0xff; 300]);
        c.write(u64::MAX, &[0xff; 4]);
        let mut b = [0; 4];
        c.read(0, &mut b);
        assert_eq!(b, [0xb3, 0x15, 0x18, 0x10]);
        c.read(254, &mut b);
        assert_eq!(b[2..], [0, 0]);
        c.read(u64::MAX, &mut b);
        assert_eq!(b, [0; 4]);
    }
}

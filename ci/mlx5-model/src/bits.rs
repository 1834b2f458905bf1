//! Bit fields as the device's documents number them: bit 0 is the most significant bit of byte 0.
//!
//! Nothing here can panic: a field (partly) outside its buffer reads as zero bits and is not written. Buffers
//! come from a guest and may be short.

/// Where a field lies in its structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    bit: usize,
    width: usize,
}

impl Field {
    /// A field of `width` bits (at most 64) that starts at `bit`.
    pub const fn new(bit: usize, width: usize) -> Self {
        assert!(width >= 1 && width <= 64);
        Self { bit, width }
    }

    /// First bit.
    pub const fn bit(self) -> usize {
        self.bit
    }

    /// Number of bits.
    pub const fn width(self) -> usize {
        self.width
    }

    /// First byte; what starts on a byte boundary is often copied whole.
    pub const fn byte(self) -> usize {
        self.bit / 8
    }

    /// The same field of a structure that is embedded in another, `byte` bytes from its start.
    pub const fn within(self, byte: usize) -> Self {
        Self { bit: self.bit + byte * 8, width: self.width }
    }

    /// The largest value that fits.
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    const fn last_byte(self) -> usize {
        (self.bit + self.width - 1) / 8
    }

    /// Bits that lie behind the field in its last byte.
    const fn shift(self) -> usize {
        7 - (self.bit + self.width - 1) % 8
    }

    /// Reads the field.
    pub fn get(self, bytes: &[u8]) -> u64 {
        let mut v: u128 = 0;
        for i in self.byte()..=self.last_byte() {
            v = v << 8 | u128::from(bytes.get(i).copied().unwrap_or(0));
        }
        (v >> self.shift()) as u64 & self.max()
    }

    /// Reads a field of at most 32 bits.
    pub fn get32(self, bytes: &[u8]) -> u32 {
        self.get(bytes) as u32
    }

    /// Reads a one-bit field.
    pub fn is_set(self, bytes: &[u8]) -> bool {
        self.get(bytes) != 0
    }

    /// Writes the field; bits of `value` that do not fit are dropped.
    pub fn set(self, bytes: &mut [u8], value: u64) {
        let mut mask = u128::from(self.max()) << self.shift();
        let mut v = u128::from(value & self.max()) << self.shift();
        for i in (self.byte()..=self.last_byte()).rev() {
            if let Some(b) = bytes.get_mut(i) {
                *b = *b & !(mask as u8) | v as u8;
            }
            mask >>= 8;
            v >>= 8;
        }
    }

    /// Copies the field from one buffer to the other.
    pub fn copy(self, from: &[u8], to: &mut [u8]) {
        self.set(to, self.get(from));
    }
}

/// A big-endian word at a byte offset; what lies outside reads as zero.
pub fn be16(bytes: &[u8], at: usize) -> u16 {
    Field::new(0, 16).within(at).get(bytes) as u16
}

/// A big-endian double word at a byte offset; what lies outside reads as zero.
pub fn be32(bytes: &[u8], at: usize) -> u32 {
    Field::new(0, 32).within(at).get(bytes) as u32
}

/// A big-endian quad word at a byte offset; what lies outside reads as zero.
pub fn be64(bytes: &[u8], at: usize) -> u64 {
    Field::new(0, 64).within(at).get(bytes)
}

/// Copies `from` to the byte offset `at`, as much of it as fits.
pub fn put(bytes: &mut [u8], at: usize, from: &[u8]) {
    if let Some(to) = bytes.get_mut(at..) {
        let n = to.len().min(from.len());
        to[..n].copy_from_slice(&from[..n]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_zero_is_the_top_bit_of_byte_zero() {
        assert_eq!(Field::new(0, 1).get(&[0x80]), 1);
        assert_eq!(Field::new(7, 1).get(&[0x01]), 1);
        assert_eq!(Field::new(4, 8).get(&[0x0a, 0xb0]), 0xab);
    }

    #[test]
    fn every_position_and_width_reads_back_and_leaves_its_neighbours() {
        for bit in 0..16 {
            for width in 1..=64 {
                let f = Field::new(bit, width);
                for fill in [0u8, 0xff] {
                    let mut b = [fill; 11];
                    f.set(&mut b, 0x5a5a_5a5a_5a5a_5a5a);
                    assert_eq!(f.get(&b), 0x5a5a_5a5a_5a5a_5a5a & f.max(), "bit {bit} width {width}");
                    f.set(&mut b, if fill == 0 { 0 } else { u64::MAX });
                    assert_eq!(b, [fill; 11], "bit {bit} width {width}");
                }
            }
        }
    }

    #[test]
    fn outside_the_buffer_reads_zero_and_writes_nothing() {
        let f = Field::new(12, 16);
        let mut b = [0xff, 0xff];
        assert_eq!(f.get(&b), 0xf000);
        f.set(&mut b, 0);
        assert_eq!(b, [0xff, 0xf0]);
        assert_eq!(be64(&[], 5), 0);
        put(&mut b, 9, &[1, 2, 3]);
        put(&mut b, 1, &[1, 2, 3]);
        assert_eq!(b, [0xff, 1]);
    }
}

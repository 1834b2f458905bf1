//! A fuzzer's bytes, read one after the other as what a guest does. Written out rather than left to a library: a
//! byte changed or taken out changes one step and leaves the others in place, and seeds can be written by hand.

/// Bytes that are left.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    bytes: &'a [u8],
}

impl<'a> Program<'a> {
    /// All of them.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether there are none.
    pub fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next ones: as many as asked for, or as there are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, left) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = left;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// A number; zeros follow the end.
    pub fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// A number of two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// A number of four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// A number of eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    /// A number below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.u8()) % count
    }

    /// One of a list, which is not empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Changes a few bytes.
    pub fn patch(&mut self, bytes: &mut [u8]) {
        for _ in 0..self.below(8) {
            let (at, value) = (usize::from(self.u16()), self.u8());
            if !bytes.is_empty() {
                bytes[at % bytes.len()] = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_follow_the_end() {
        let mut p = Program::new(&[1, 2, 3, 4]);
        assert_eq!((p.u8(), p.u16(), p.is_over()), (1, 0x0203, false));
        assert_eq!((p.u32(), p.is_over(), p.u64()), (0x0400_0000, true, 0));
        assert_eq!((p.take(3), p.below(7)), (&[][..], 0));
    }

    #[test]
    fn patches_stay_inside() {
        let mut bytes = [0; 3];
        Program::new(&[2, 0, 4, 9, 0xff, 0xff, 7]).patch(&mut bytes);
        assert_eq!(bytes, [7, 9, 0]);
        Program::new(&[1, 0, 4, 9]).patch(&mut []);
    }
}

//! A queue's memory: a list of pages that the driver gave when it made the queue.

use crate::{
    command::status::{Refusal, Status, Syndrome},
    hw::{PAGE_BYTES, PAGE_SHIFT},
    memory::{DmaFault, GuestMemory},
};

/// The largest page a queue may have; the field could say more than a 64-bit address holds.
const MAX_PAGE_SHIFT: u32 = 31;
/// A queue begins at a multiple of this fraction of its page.
const OFFSETS_PER_PAGE_SHIFT: u32 = 6;

/// Pages and where in them the queue lies.
#[derive(Clone, Debug, Default)]
pub struct QueueBuffer {
    pages: Box<[u64]>,
    shift: u32,
    offset: u64,
    length: u64,
}

impl QueueBuffer {
    /// A queue of `length` bytes. `log_page` is the log of its page size over 4 KiB, `offset` where it begins in
    /// the first page, in 64ths of a page; both come from its context.
    pub fn new(pages: Vec<u64>, log_page: u64, offset: u64, length: u64) -> Result<Self, Refusal> {
        let shift = u32::try_from(log_page).unwrap_or(u32::MAX).saturating_add(PAGE_SHIFT);
        if shift > MAX_PAGE_SHIFT {
            return Err(Refusal::parameter(Syndrome::BadPageSize));
        }
        if pages.iter().any(|p| p % PAGE_BYTES != 0 || p.checked_add(1 << shift).is_none()) {
            return Err(Refusal::parameter(Syndrome::BadPage));
        }
        let offset = offset << (shift - OFFSETS_PER_PAGE_SHIFT);
        if ((pages.len() as u64) << shift) < offset.saturating_add(length) {
            return Err(Refusal::new(Status::BadParameter, Syndrome::ShortPageList));
        }
        let mut pages = pages;
        pages.truncate((offset + length).div_ceil(1 << shift) as usize);
        Ok(Self { pages: pages.into(), shift, offset, length })
    }

    /// Pages that it needs.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Bytes in the queue.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Calls `f` with each run of guest memory that the range of the queue covers, and its place in the range.
    fn runs(
        &self,
        at: u64,
        length: usize,
        mut f: impl FnMut(u64, std::ops::Range<usize>) -> Result<(), DmaFault>,
    ) -> Result<(), DmaFault> {
        let outside = DmaFault { address: at, length };
        if at.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(outside);
        }
        let mut done = 0;
        while done < length {
            let place = self.offset + at + done as u64;
            let within = place & ((1 << self.shift) - 1);
            let page = self.pages.get((place >> self.shift) as usize).ok_or(outside)?;
            let n = (length - done).min(((1u64 << self.shift) - within) as usize);
            f(page + within, done..done + n)?;
            done += n;
        }
        Ok(())
    }

    /// Copies from the queue.
    pub fn read(&self, memory: &GuestMemory, at: u64, to: &mut [u8]) -> Result<(), DmaFault> {
        let length = to.len();
        self.runs(at, length, |address, part| memory.read(address, &mut to[part]))
    }

    /// Copies to the queue.
    pub fn write(&self, memory: &GuestMemory, at: u64, from: &[u8]) -> Result<(), DmaFault> {
        self.runs(at, from.len(), |address, part| memory.write(address, &from[part]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crosses_pages_and_honours_the_offset() {
        let m = GuestMemory::fake(&[(0x1000, 0x1000), (0x8000, 0x1000)]);
        // Begins 63/64 into its first page.
        let q = QueueBuffer::new(vec![0x8000, 0x1000], 0, 63, 128).unwrap();
        q.write(&m, 0, &[7; 128]).unwrap();
        let mut b = [0; 64];
        m.read(0x8fc0, &mut b).unwrap();
        assert_eq!(b, [7; 64]);
        m.read(0x1000, &mut b).unwrap();
        assert_eq!(b, [7; 64]);
        let mut all = [0; 128];
        q.read(&m, 0, &mut all).unwrap();
        assert_eq!(all, [7; 128]);
    }

    #[test]
    fn outside_the_queue_is_a_fault_even_where_there_is_memory() {
        let m = GuestMemory::fake(&[(0x1000, 0x1000)]);
        let q = QueueBuffer::new(vec![0x1000], 0, 0, 64).unwrap();
        assert!(q.read(&m, 1, &mut [0; 64]).is_err());
        assert!(q.read(&m, u64::MAX, &mut [0; 2]).is_err());
        assert!(q.read(&m, 0, &mut [0; 64]).is_ok());
    }

    #[test]
    fn hostile_shapes_are_refused() {
        let refused =
            |pages, log, offset, length| QueueBuffer::new(pages, log, offset, length).unwrap_err().syndrome;
        assert_eq!(refused(vec![0x1000], 0, 0, 0x1001), Syndrome::ShortPageList);
        assert_eq!(refused(vec![0x1000], 0, 1, 0x1000), Syndrome::ShortPageList);
        assert_eq!(refused(vec![0x1000], 63, 0, 1), Syndrome::BadPageSize);
        assert_eq!(refused(vec![0x1000], u64::MAX, 0, 1), Syndrome::BadPageSize);
        assert_eq!(refused(vec![0x1008], 0, 0, 1), Syndrome::BadPage);
        assert_eq!(refused(vec![u64::MAX - 0xfff], 0, 0, 1), Syndrome::BadPage);
        assert_eq!(refused(vec![], 0, 0, u64::MAX), Syndrome::ShortPageList);
        assert!(QueueBuffer::new(vec![], 0, 0, 0).unwrap().is_empty());
    }
}

//! A guest's memory: copied in and out, checked, never lent.
//!
//! `vm-memory` keeps the mappings and does the copying; a range that is not mapped as a whole is a [`DmaFault`].

use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering, fence},
    },
};

use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap, MmapRegion,
};

/// The device reached for memory that the guest does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no guest memory at {address:#x}, {length} bytes")]
pub struct DmaFault {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub length: usize,
}

/// Why a mapping is refused.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// It cannot be mapped here.
    #[error("cannot map guest memory: {0}")]
    Map(#[from] vm_memory::mmap::FromRangesError),
    /// It overlaps another, or wraps.
    #[error("guest memory overlaps or wraps: {0}")]
    Place(#[from] vm_memory::GuestRegionCollectionError),
    /// The file ends before the memory does: touching what is missing would end the process.
    #[error("guest memory of {size:#x} bytes from {offset:#x} on in a file of {length:#x}")]
    Short {
        /// Bytes that were announced.
        size: usize,
        /// Where they begin.
        offset: u64,
        /// Length of the file.
        length: u64,
    },
    /// The file cannot be looked at.
    #[error("cannot look at guest memory: {0}")]
    File(#[from] std::io::Error),
    /// Nothing like it is mapped.
    #[error("no such mapping")]
    Unknown,
}

/// The memory of one guest.
#[derive(Debug, Default)]
pub struct GuestMemory {
    maps: Arc<GuestMemoryMmap>,
    faults: AtomicU64,
}

impl GuestMemory {
    /// Maps `size` bytes of `file` at the guest's physical address.
    pub fn map(&mut self, address: u64, size: u64, file: File, offset: u64) -> Result<(), MapError> {
        let size = usize::try_from(size).map_err(|_| MapError::Unknown)?;
        let length = file.metadata()?.len();
        if offset.checked_add(size as u64).is_none_or(|end| end > length) {
            return Err(MapError::Short { size, offset, length });
        }
        let region = MmapRegion::from_file(FileOffset::new(file, offset), size)
            .map_err(vm_memory::mmap::FromRangesError::MmapRegion)?;
        self.insert(region, address)
    }

    fn insert(&mut self, region: MmapRegion, address: u64) -> Result<(), MapError> {
        let region = GuestRegionMmap::new(region, GuestAddress(address)).ok_or(MapError::Unknown)?;
        self.maps = Arc::new(self.maps.insert_region(Arc::new(region))?);
        Ok(())
    }

    /// Ends the mappings that lie in the range.
    pub fn unmap(&mut self, address: u64, size: u64) -> Result<(), MapError> {
        let end = address.checked_add(size).ok_or(MapError::Unknown)?;
        let inside: Vec<_> = self
            .maps
            .iter()
            .map(|r| (r.start_addr(), r.len()))
            .filter(|(start, len)| start.0 >= address && start.0 + len <= end)
            .collect();
        if inside.is_empty() {
            return Err(MapError::Unknown);
        }
        for (start, len) in inside {
            self.maps = Arc::new(self.maps.remove_region(start, len)?.0);
        }
        Ok(())
    }

    /// Ends every mapping.
    pub fn clear(&mut self) {
        self.maps = Arc::default();
    }

    /// Copies from the guest.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), DmaFault> {
        self.maps.read_slice(to, GuestAddress(address)).map_err(|_| self.fault(address, to.len()))
    }

    /// Copies to the guest.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), DmaFault> {
        self.maps.write_slice(from, GuestAddress(address)).map_err(|_| self.fault(address, from.len()))
    }

    /// Reads a big-endian word that the guest may be writing.
    pub fn read_be32(&self, address: u64) -> Result<u32, DmaFault> {
        let mut b = [0; 4];
        self.read(address, &mut b)?;
        // What the word announces must not be read before the word itself.
        fence(Ordering::Acquire);
        Ok(u32::from_be_bytes(b))
    }

    /// Whether the whole range is mapped.
    pub fn contains(&self, address: u64, length: usize) -> bool {
        self.maps.check_range(GuestAddress(address), length)
    }

    /// How often the device reached for memory that is not there.
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    fn fault(&self, address: u64, length: usize) -> DmaFault {
        let fault = DmaFault { address, length };
        self.faults.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("{fault}");
        fault
    }

    /// Anonymous memory, for tests.
    #[cfg(test)]
    pub fn fake(ranges: &[(u64, usize)]) -> Self {
        let mut memory = Self::default();
        for &(address, size) in ranges {
            memory.insert(MmapRegion::new(size).unwrap(), address).unwrap();
        }
        memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_within_bounds_and_across_neighbours() {
        let m = GuestMemory::fake(&[(0x1000, 0x1000), (0x2000, 0x1000)]);
        m.write(0x1ffe, &[1, 2, 3, 4]).unwrap();
        assert_eq!(m.read_be32(0x1ffe), Ok(0x0102_0304));
        assert!(m.contains(0x1000, 0x2000));
        assert!(!m.contains(0x1000, 0x2001));
        assert_eq!(m.faults(), 0);
    }

    #[test]
    fn what_is_not_mapped_is_a_fault() {
        let m = GuestMemory::fake(&[(0x1000, 0x1000)]);
        let mut b = [0; 8];
        for address in [0, 0xff9, 0x1ff9, 0x2000, u64::MAX, u64::MAX - 3] {
            assert_eq!(m.read(address, &mut b), Err(DmaFault { address, length: 8 }), "{address:#x}");
            assert!(m.write(address, &b).is_err());
        }
        assert_eq!(m.faults(), 12);
    }

    #[test]
    fn memory_beyond_the_end_of_its_file_is_refused() {
        let path = std::env::temp_dir().join(format!("mlx5-model-memory-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(0x3000).unwrap();
        let mut m = GuestMemory::default();
        for (size, offset) in [(0x3001, 0), (0x3000, 0x1000), (0x1000, u64::MAX - 0xfff), (1 << 40, 0)] {
            let refused = m.map(0x1000, size, file.try_clone().unwrap(), offset);
            assert!(matches!(refused, Err(MapError::Short { .. })), "{size:#x} at {offset:#x}: {refused:?}");
        }
        m.map(0x1000, 0x2000, file, 0x1000).unwrap();
        assert_eq!(m.read_be32(0x2ffc), Ok(0));
    }

    #[test]
    fn mappings_come_and_go() {
        let mut m = GuestMemory::fake(&[(0x1000, 0x1000), (0x4000, 0x1000)]);
        assert!(m.insert(MmapRegion::new(0x1000).unwrap(), 0x1800).is_err(), "overlap");
        assert!(m.unmap(0x2000, 0x1000).is_err());
        assert!(m.unmap(u64::MAX, 2).is_err());
        m.unmap(0x1000, 0x1000).unwrap();
        assert!(m.read_be32(0x1000).is_err());
        m.unmap(0, 0x10000).unwrap();
        assert!(m.read_be32(0x4000).is_err());
    }
}

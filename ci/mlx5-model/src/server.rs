//! The vfio-user side: QEMU's requests become calls of the device; a second thread serves what must wait.

use std::{
    fs::File,
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_NORESIZE, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};

use crate::{
    device::Device,
    interrupt::VECTORS,
    objects::GuestId,
    pci::{BAR_BYTES, CONFIG_BYTES},
};

/// Work requests that a doorbell has served before it returns; the worker does the rest.
const DOORBELL_BUDGET: usize = 128;
/// Work requests that the worker serves before it lets others at the device.
const WORKER_BUDGET: usize = 256;

/// The device, and the bell of its worker.
#[derive(Debug)]
pub struct Shared {
    device: Mutex<Device>,
    work: Condvar,
}

impl Shared {
    /// Shares a device.
    pub fn new(device: Device) -> Arc<Self> {
        Arc::new(Self { device: Mutex::new(device), work: Condvar::new() })
    }

    /// The device, alone.
    pub fn lock(&self) -> MutexGuard<'_, Device> {
        // A panic ends the process (main.rs), so nobody ever sees a poisoned device.
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves QPs that wait for a moment or have more to do than a doorbell may take. Does not return.
    pub fn work(&self) {
        let mut device = self.lock();
        loop {
            if device.run(WORKER_BUDGET) {
                drop(device);
                // Those who wait for the device come first.
                std::thread::yield_now();
                device = self.lock();
                continue;
            }
            device = match device.engine.next_timer() {
                None => self.work.wait(device).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let pause = at.saturating_duration_since(Instant::now());
                    self.work.wait_timeout(device, pause).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// One guest's connection.
#[derive(Debug)]
pub struct Connection {
    shared: Arc<Shared>,
    guest: GuestId,
}

impl ServerBackend for Connection {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let mut device = self.shared.lock();
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => device.guests[self.guest].config.read(offset, data),
            VFIO_PCI_BAR0_REGION_INDEX => device.bar_read(self.guest, offset, data),
            _ => data.fill(0),
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut device = self.shared.lock();
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => device.guests[self.guest].config.write(offset, data),
            VFIO_PCI_BAR0_REGION_INDEX => {
                device.bar_write(self.guest, offset, data);
                let timer = device.engine.next_timer();
                if device.engine.is_busy() && device.run(DOORBELL_BUDGET)
                    || device.engine.next_timer() != timer
                {
                    self.shared.work.notify_one();
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        _: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        // Memory without a file, such as firmware, is not for the device.
        let Some(file) = file else { return Ok(()) };
        tracing::debug!("guest {}: memory {address:#x}, {size:#x} bytes", self.guest + 1);
        self.shared.lock().guests[self.guest]
            .memory
            .map(address, size, file, offset)
            .inspect_err(|e| tracing::error!("guest {}: {e}", self.guest + 1))
            .map_err(io::Error::other)
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        let memory = &mut self.shared.lock().guests[self.guest].memory;
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            memory.clear();
            return Ok(());
        }
        // What was not kept when it came (no file) is not there when it goes.
        if memory.unmap(address, size).is_err() {
            tracing::debug!("guest {}: nothing was mapped at {address:#x}", self.guest + 1);
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.shared.lock().reset(self.guest);
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        files: Vec<File>,
    ) -> io::Result<()> {
        if index != VFIO_PCI_MSIX_IRQ_INDEX {
            return Ok(());
        }
        let interrupts = &mut self.shared.lock().guests[self.guest].interrupts;
        if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 && !files.is_empty() {
            interrupts.connect(start as usize, files);
        } else if count == 0 {
            interrupts.disconnect(0, VECTORS);
        } else {
            interrupts.disconnect(start as usize, count as usize);
        }
        Ok(())
    }
}

fn regions() -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = match index {
                VFIO_PCI_BAR0_REGION_INDEX => BAR_BYTES,
                VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_BYTES as u64,
                _ => 0,
            };
            let flags = if size > 0 { VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE } else { 0 };
            let region_info = vfio_region_info {
                argsz: size_of::<vfio_region_info>() as u32,
                index,
                size,
                flags,
                ..Default::default()
            };
            ServerRegion { region_info, sparse_areas: vec![], mmap_fd: None }
        })
        .collect()
}

fn irqs() -> Vec<IrqInfo> {
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| match index {
            VFIO_PCI_MSIX_IRQ_INDEX => IrqInfo {
                index,
                count: VECTORS as u32,
                flags: VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_NORESIZE,
            },
            _ => IrqInfo { index, count: 0, flags: 0 },
        })
        .collect()
}

/// Listens at the socket for the guest's QEMU; [`Server::run`] then serves it until it goes away.
pub fn listen(socket: &Path) -> Result<Server, vfio_user::Error> {
    Server::new(socket, true, irqs(), regions())
}

/// Serves the guest until its QEMU goes away.
pub fn serve(server: &Server, shared: Arc<Shared>, guest: GuestId) -> Result<(), vfio_user::Error> {
    server.run(&mut Connection { shared, guest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GuestMemory;

    #[test]
    fn memory_goes_by_range_or_all_at_once() {
        let shared = Shared::new(Device::new(1));
        shared.lock().guests[0].memory =
            GuestMemory::fake(&[(0x1000, 0x1000), (0x4000, 0x1000), (0x8000, 0x1000)]);
        let mut connection = Connection { shared: Arc::clone(&shared), guest: 0 };
        let there = |address| shared.lock().guests[0].memory.contains(address, 1);
        connection.dma_unmap(DmaUnmapFlags::empty(), 0x1000, 0x1000).unwrap();
        assert_eq!([0x1000, 0x4000, 0x8000].map(there), [false, true, true]);
        connection.dma_unmap(DmaUnmapFlags::UNMAP_ALL, 0, 0).unwrap();
        assert_eq!([0x4000, 0x8000].map(there), [false, false]);
    }
}

//! The vfio-user side: QEMU's requests become calls of the device; a second thread serves what must wait.

use std::{
    any::Any,
    cell::Cell,
    fs::File,
    io::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
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
    control,
    device::Device,
    guest::Presence,
    interrupt::VECTORS,
    objects::GuestId,
    pci::{BAR_BYTES, CONFIG_BYTES},
};

/// Work requests that a doorbell has served before it returns; the worker does the rest.
const DOORBELL_BUDGET: usize = 128;
/// Work requests that the worker serves before it lets others at the device.
const WORKER_BUDGET: usize = 256;

/// The longest access of a region. QEMU's own are the width of a register, or the whole configuration space.
const MAX_ACCESS: usize = 1 << 20;

thread_local! {
    /// Whether this thread is in a guest's conversation, and not in the device.
    static CONVERSING: Cell<bool> = const { Cell::new(false) };
}

/// From now on a panic of the device ends the process at once, with the message: half a device would be worse than
/// none. One about a guest's vfio-user message ends that conversation and nothing else; [`serve`] tells of it.
pub fn abort_on_panic() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if CONVERSING.get() {
            return;
        }
        // Without a log there is still an end.
        let _ = writeln!(io::stderr(), "mlx5-model: PANIC");
        say(info);
        std::process::abort();
    }));
}

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

    /// Serves a line of the control protocol.
    pub fn control(&self, line: &[u8]) -> Vec<u8> {
        let mut device = self.lock();
        self.follow_up(&mut device, |device| control::handle(device, line))
    }

    /// Lets something happen to the device, and serves what follows from it.
    fn follow_up<R>(&self, device: &mut Device, act: impl FnOnce(&mut Device) -> R) -> R {
        let timer = device.engine.next_timer();
        let result = act(device);
        if device.engine.is_busy() && device.run(DOORBELL_BUDGET) || device.engine.next_timer() != timer {
            self.work.notify_one();
        }
        result
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
    is_known: bool,
}

impl Connection {
    /// The connection of that guest's QEMU.
    pub fn new(shared: Arc<Shared>, guest: GuestId) -> Self {
        Self { shared, guest, is_known: false }
    }

    /// Does something with the device. Meanwhile a panic is the device's.
    fn device<R>(&mut self, act: impl FnOnce(&mut Device, GuestId) -> R) -> R {
        let conversing = CONVERSING.replace(false);
        let mut device = self.shared.lock();
        if !std::mem::replace(&mut self.is_known, true) {
            device.connected(self.guest);
        }
        let result = act(&mut device, self.guest);
        CONVERSING.set(conversing);
        result
    }
}

impl ServerBackend for Connection {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        if data.len() > MAX_ACCESS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.device(|device, guest| match region {
            VFIO_PCI_CONFIG_REGION_INDEX => device.guests[guest].config.read(offset, data),
            VFIO_PCI_BAR0_REGION_INDEX => device.bar_read(guest, offset, data),
            _ => data.fill(0),
        });
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        if data.len() > MAX_ACCESS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let shared = Arc::clone(&self.shared);
        self.device(|device, guest| match region {
            VFIO_PCI_CONFIG_REGION_INDEX => device.guests[guest].config.write(offset, data),
            VFIO_PCI_BAR0_REGION_INDEX => shared.follow_up(device, |d| d.bar_write(guest, offset, data)),
            _ => {}
        });
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
        let guest = self.guest + 1;
        self.device(|device, guest| device.guests[guest].memory.map(address, size, file, offset))
            .inspect_err(|e| tracing::error!("guest {guest}: {e}"))
            .map_err(io::Error::other)
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        self.device(|device, guest| {
            let memory = &mut device.guests[guest].memory;
            if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
                memory.clear();
            } else if memory.unmap(address, size).is_err() {
                // What was not kept when it came (no file) is not there when it goes.
                tracing::debug!("guest {}: nothing was mapped at {address:#x}", guest + 1);
            }
        });
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.device(|device, guest| device.reset(guest));
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
        self.device(|device, guest| {
            let interrupts = &mut device.guests[guest].interrupts;
            if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 && !files.is_empty() {
                interrupts.connect(start as usize, files);
            } else if count == 0 {
                interrupts.disconnect(0, VECTORS);
            } else {
                interrupts.disconnect(start as usize, count as usize);
            }
        });
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

/// Why a guest's conversation was given up.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The protocol's crate says so.
    #[error(transparent)]
    Protocol(#[from] vfio_user::Error),
    /// The protocol's crate panicked about a message.
    #[error("a message that makes no sense ({0})")]
    Message(String),
}

/// Serves the guest until its QEMU goes away, and takes its port off the wire then.
pub fn serve(server: &Server, shared: &Arc<Shared>, guest: GuestId) -> Result<(), Broken> {
    let mut connection = Connection::new(Arc::clone(shared), guest);
    CONVERSING.set(true);
    // Of a conversation that panicked nothing is used any more; the device was not in it.
    let ended = catch_unwind(AssertUnwindSafe(|| server.run(&mut connection)));
    CONVERSING.set(false);
    let result = match ended {
        Ok(Err(e)) if !has_gone(&e) => Err(e.into()),
        Ok(_) => Ok(()),
        Err(panic) => Err(Broken::Message(said(panic.as_ref()))),
    };
    let presence = if result.is_ok() { Presence::Disconnected } else { Presence::ProtocolError };
    shared.lock().disconnected(guest, presence);
    result
}

/// Whether it says no more than that QEMU went, be it in the middle of a message.
fn has_gone(error: &vfio_user::Error) -> bool {
    use vfio_user::Error::*;
    let error = match error {
        StreamRead(e) | StreamWrite(e) => e.kind(),
        ReceiveWithFd(e) | SendWithFd(e) => io::Error::from_raw_os_error(e.errno()).kind(),
        _ => return false,
    };
    matches!(error, io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GuestMemory;

    #[test]
    fn a_panic_is_the_devices_only_while_it_is_at_work() {
        let mut connection = Connection::new(Shared::new(Device::new(1)), 0);
        CONVERSING.set(true);
        connection.device(|device, guest| {
            assert!(!CONVERSING.get());
            assert_eq!(device.guests[guest].presence, Presence::Connected);
        });
        assert!(CONVERSING.replace(false));
    }

    #[test]
    fn an_access_longer_than_any_of_qemus_is_refused() {
        let mut connection = Connection::new(Shared::new(Device::new(1)), 0);
        let mut data = vec![0; MAX_ACCESS + 1];
        assert!(connection.region_read(VFIO_PCI_BAR0_REGION_INDEX, 0, &mut data).is_err());
        assert!(connection.region_write(VFIO_PCI_BAR0_REGION_INDEX, 0, &data).is_err());
        assert!(connection.region_read(VFIO_PCI_BAR0_REGION_INDEX, 0, &mut data[1..]).is_ok());
    }

    #[test]
    fn memory_goes_by_range_or_all_at_once() {
        let shared = Shared::new(Device::new(1));
        shared.lock().guests[0].memory =
            GuestMemory::fake(&[(0x1000, 0x1000), (0x4000, 0x1000), (0x8000, 0x1000)]);
        let mut connection = Connection::new(Arc::clone(&shared), 0);
        let there = |address| shared.lock().guests[0].memory.contains(address, 1);
        connection.dma_unmap(DmaUnmapFlags::empty(), 0x1000, 0x1000).unwrap();
        assert_eq!([0x1000, 0x4000, 0x8000].map(there), [false, true, true]);
        connection.dma_unmap(DmaUnmapFlags::UNMAP_ALL, 0, 0).unwrap();
        assert_eq!([0x4000, 0x8000].map(there), [false, false]);
    }
}

//! The device: all guests, all objects, the wire between them.

use std::{path::PathBuf, time::Instant};

use crate::{
    datapath::Engine,
    fabric::Fabric,
    guest::{Guest, Phase, Presence},
    objects::{GuestId, Objects},
    report::{DropCause, GuestReport, Report},
};

/// Frequency of the clock, kHz: its ticks are nanoseconds.
pub const CLOCK_KHZ: u64 = 1_000_000;

/// Everything. One thread at a time works on it.
#[derive(Debug)]
pub struct Device {
    /// The guests.
    pub guests: Vec<Guest>,
    /// Their objects.
    pub objects: Objects,
    /// What lies between them.
    pub fabric: Fabric,
    /// The data path.
    pub engine: Engine,
    /// When the device came to life.
    pub born: Instant,
    report_file: Option<PathBuf>,
    state: &'static str,
}

impl Device {
    /// A device for that many guests.
    pub fn new(guests: usize) -> Self {
        Self {
            guests: (0..guests).map(Guest::new).collect(),
            objects: Objects::default(),
            fabric: Fabric::default(),
            engine: Engine::default(),
            born: Instant::now(),
            report_file: None,
            state: "running",
        }
    }

    /// The adapters' common clock, in ticks of [`CLOCK_KHZ`].
    pub fn clock(&self) -> u64 {
        self.born.elapsed().as_nanos() as u64
    }

    /// Where to write the report, now and at every removal of a driver.
    pub fn report_to(&mut self, file: PathBuf) {
        self.report_file = Some(file);
        self.save_report();
    }

    /// The guest's machine was reset: everything of its is gone but its memory and interrupts, which are QEMU's.
    pub fn reset(&mut self, guest: GuestId) {
        if self.guests[guest].phase != Phase::Disabled {
            self.note_drop(guest, DropCause::Reset);
        }
        self.restart(guest);
        let g = &mut self.guests[guest];
        g.failed = false;
        g.command_queue = 0;
        g.config = Default::default();
        self.save_report();
    }

    /// The guest's adapter fails as it does when its firmware is reset: all that it had is gone, it does nothing, and
    /// its registers say so until the driver, which looks every two seconds, starts it anew.
    pub fn fatal(&mut self, guest: GuestId) {
        self.note_drop(guest, DropCause::Fatal);
        self.restart(guest);
        self.guests[guest].failed = true;
        self.save_report();
    }

    /// The guest's QEMU is there.
    pub fn connected(&mut self, guest: GuestId) {
        self.guests[guest].presence = Presence::Connected;
    }

    /// The guest's QEMU is gone, and everything of the guest's with it. Its port leaves the wire: nobody answers its
    /// peers any more.
    pub fn disconnected(&mut self, guest: GuestId, presence: Presence) {
        self.note_drop(guest, DropCause::Gone);
        self.restart(guest);
        let g = &mut self.guests[guest];
        g.presence = presence;
        g.memory.clear();
        g.interrupts = Default::default();
        self.save_report();
    }

    /// What is held now goes without the driver's doing.
    fn note_drop(&mut self, guest: GuestId, cause: DropCause) {
        let held = self.held(guest);
        if !held.is_nothing() {
            tracing::info!("guest {}: {cause:?} with {held:?}", guest + 1);
        }
        self.guests[guest].activity.dropped(cause, held);
    }

    /// Back to where a guest's adapter is that no driver has enabled.
    fn restart(&mut self, guest: GuestId) {
        self.drop_objects(guest);
        let g = &mut self.guests[guest];
        g.pages.clear();
        g.capabilities = Default::default();
        g.phase = Phase::Disabled;
    }

    /// What was seen and is held.
    pub fn report(&self) -> Report {
        let guests = self
            .guests
            .iter()
            .map(|g| GuestReport {
                guest: g.id + 1,
                lid: g.lid,
                connection: g.presence,
                activity: g.activity.clone(),
                dma_faults: g.memory.faults(),
                held: self.held(g.id),
            })
            .collect();
        Report { model: env!("CARGO_PKG_VERSION"), state: self.state, guests }
    }

    /// Writes the report if it is wanted.
    pub fn save_report(&self) {
        if let Some(file) = &self.report_file {
            if let Err(e) = self.report().save(file) {
                tracing::error!("cannot write {}: {e}", file.display());
            }
        }
    }

    /// The last report; `state` says how it ended.
    pub fn finish(&mut self, state: &'static str) -> Report {
        self.state = state;
        self.save_report();
        self.report()
    }
}

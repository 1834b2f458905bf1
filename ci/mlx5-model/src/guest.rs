//! What belongs to one guest: its memory, its PCI function, its event queues, doorbell pages and given pages.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    caps::Capabilities,
    eq::{Event, EventQueue},
    hw::EventType,
    interrupt::Interrupts,
    memory::GuestMemory,
    objects::{GuestId, Kind, OwnNumbers},
    pci::ConfigSpace,
    registers::FIRST_UAR,
    report::Activity,
};

/// LID of the subnet manager, which the model plays.
pub const SM_LID: u16 = 1;
/// LID of the first guest; the others follow.
const FIRST_GUEST_LID: u16 = 2;
/// The most guests of a device.
pub const MAX_GUESTS: usize = 8;
/// GUID of the first guest's port; the others follow. The upper bytes are the vendor's, as the driver expects.
const FIRST_GUID: u64 = 0x0002_c903_00c0_ffe1;
/// Prefix of link-local GIDs, which every subnet has.
pub const GID_PREFIX: u64 = 0xfe80 << 48;

/// How far the driver has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing, or DISABLE_HCA.
    Disabled,
    /// ENABLE_HCA, or TEARDOWN_HCA.
    Enabled,
    /// INIT_HCA.
    Running,
}

/// Where a guest's QEMU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It has not come yet.
    Awaited,
    /// It is there.
    Connected,
    /// It came and went.
    Disconnected,
    /// It was given up, because its conversation made no sense.
    #[serde(rename = "protocol error")]
    ProtocolError,
}

/// One guest.
#[derive(Debug)]
pub struct Guest {
    /// Which one.
    pub id: GuestId,
    /// Where its QEMU is.
    pub presence: Presence,
    /// Its memory.
    pub memory: GuestMemory,
    /// Its interrupt vectors.
    pub interrupts: Interrupts,
    /// Its PCI configuration space.
    pub config: ConfigSpace,
    /// How far its driver has come.
    pub phase: Phase,
    /// Physical address of its command queue.
    pub command_queue: u64,
    /// What its driver chose of the capabilities.
    pub capabilities: Capabilities,
    /// Event queues; a guest has its own numbers.
    pub eqs: BTreeMap<u32, EventQueue>,
    /// Pages of doorbells in use.
    pub uars: BTreeSet<u32>,
    /// Where to look for the next free one.
    pub next_uar: u32,
    /// Pages that its driver gave.
    pub pages: Vec<u64>,
    /// Whether its adapter failed: it does nothing until the driver starts it anew.
    pub failed: bool,
    /// Whether its port is up. A packet from or to a port that is down is lost.
    pub port_up: bool,
    /// Local identifier of its port.
    pub lid: u16,
    /// GUID of its port, its adapter and itself.
    pub guid: u64,
    /// Its name in the subnet.
    pub node_description: [u8; 64],
    /// The port's CapabilityMask.
    pub capability_mask: u32,
    /// What it did.
    pub activity: Activity,
}

impl Guest {
    /// A guest that has not booted.
    pub fn new(id: GuestId) -> Self {
        let mut node_description = [0; 64];
        crate::bits::put(&mut node_description, 0, b"software mlx5");
        Self {
            id,
            presence: Presence::Awaited,
            memory: GuestMemory::default(),
            interrupts: Interrupts::default(),
            config: ConfigSpace::default(),
            phase: Phase::Disabled,
            command_queue: 0,
            capabilities: Capabilities::default(),
            eqs: BTreeMap::new(),
            uars: BTreeSet::new(),
            next_uar: FIRST_UAR,
            pages: Vec::new(),
            failed: false,
            port_up: true,
            lid: FIRST_GUEST_LID + id as u16,
            guid: FIRST_GUID + id as u64,
            node_description,
            capability_mask: crate::port::CAPABILITY_MASK,
            activity: Activity::default(),
        }
    }

    /// Whether packets come to its port and go from it: not while that is down or the adapter has failed, nor once
    /// its QEMU is gone.
    pub fn is_on_the_wire(&self) -> bool {
        self.port_up && !self.failed && matches!(self.presence, Presence::Awaited | Presence::Connected)
    }

    /// Its only GID.
    pub fn gid(&self) -> [u8; 16] {
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&GID_PREFIX.to_be_bytes());
        gid[8..].copy_from_slice(&self.guid.to_be_bytes());
        gid
    }

    /// Puts an event into one of its queues.
    pub fn raise(&mut self, eqn: u32, event: &Event) {
        let Some(eq) = self.eqs.get_mut(&eqn) else {
            self.activity.events_lost += 1;
            return;
        };
        match eq.push(&self.memory, event) {
            Ok(true) => self.interrupts.raise(eq.vector()),
            Ok(false) => {}
            Err(reason) => {
                self.activity.events_lost += 1;
                tracing::warn!("guest {}: event for EQ {eqn} lost: {reason}", self.id + 1);
            }
        }
    }

    /// Puts an event into the queue that wants its type; without one it is lost, as on hardware.
    pub fn raise_async(&mut self, event: &Event) {
        match self.eqs.iter().find(|(_, eq)| eq.wants(event.event_type())).map(|(n, _)| *n) {
            Some(eqn) => self.raise(eqn, event),
            None => self.activity.events_lost += 1,
        }
    }

    /// Whether the queue for command completions exists; without it the driver polls.
    pub fn has_command_events(&self) -> bool {
        self.eqs.values().any(|eq| eq.wants(EventType::Command))
    }

    /// The objects that are not in the common tables.
    pub fn held(&self) -> impl Iterator<Item = (Kind, OwnNumbers<'_>)> {
        let uars: OwnNumbers = Box::new(self.uars.iter().copied());
        [(Kind::Uar, uars), (Kind::Eq, Box::new(self.eqs.keys().copied()))].into_iter()
    }
}

//! What the model saw and what the guests still hold: the oracle for leaks.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    command::{opcode::Opcode, status::Refusal},
    guest::Presence,
    objects::Kind,
};

/// The most removals that are listed: a guest can load and unload its driver for ever.
pub const MAX_REMOVALS: usize = 64;
/// The most numbers of objects that are listed for each kind.
pub const MAX_NUMBERS: usize = 100;

/// What a guest holds at some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The first numbers of the objects by kind; kinds without any are left out.
    pub objects: BTreeMap<Kind, Vec<u32>>,
    /// How many objects there are of those kinds.
    pub counts: BTreeMap<Kind, usize>,
    /// Pages of its memory that it gave to the device and has not got back.
    pub pages: usize,
}

impl Held {
    /// Those objects, of which only the first numbers are kept, and that many pages.
    pub fn new<N: IntoIterator<Item = u32>>(
        objects: impl IntoIterator<Item = (Kind, N)>,
        pages: usize,
    ) -> Self {
        let mut held = Self { pages, ..Self::default() };
        for (kind, numbers) in objects {
            let mut numbers = numbers.into_iter();
            let first: Vec<u32> = numbers.by_ref().take(MAX_NUMBERS).collect();
            if !first.is_empty() {
                held.counts.insert(kind, first.len() + numbers.count());
                held.objects.insert(kind, first);
            }
        }
        held
    }

    /// Nothing at all.
    pub fn is_nothing(&self) -> bool {
        self.objects.is_empty() && self.pages == 0
    }
}

/// One removal of the driver, from TEARDOWN_HCA to DISABLE_HCA.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Removal {
    /// How many commands the guest had issued, DISABLE_HCA included.
    pub after_commands: u64,
    /// The objects that TEARDOWN_HCA found, their first numbers (the pages are given back after it).
    pub objects_at_teardown: BTreeMap<Kind, Vec<u32>>,
    /// How many it found.
    pub counts_at_teardown: BTreeMap<Kind, usize>,
    /// What DISABLE_HCA found.
    pub at_disable: Held,
    /// Every object ended before TEARDOWN_HCA and every page went back before DISABLE_HCA.
    pub clean: bool,
}

/// Why a guest's objects went without the driver's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DropCause {
    /// The guest or its function was reset.
    Reset,
    /// The adapter failed, on command.
    Fatal,
    /// The guest's QEMU went, or was given up.
    Gone,
}

/// One such drop.
#[derive(Clone, Debug, Serialize)]
pub struct Dropped {
    /// Why.
    pub cause: DropCause,
    /// How many commands the guest had issued.
    pub after_commands: u64,
    /// What was held then.
    #[serde(flatten)]
    pub held: Held,
}

/// What a guest did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Activity {
    /// Commands served.
    pub commands: u64,
    /// The same by name.
    pub commands_by_name: BTreeMap<&'static str, u64>,
    /// Commands refused, by name, status and syndrome.
    pub refusals: BTreeMap<String, u64>,
    /// Commands whose queue entry or mailboxes made no sense.
    pub bad_deliveries: u64,
    /// Send work requests executed.
    pub work_requests: u64,
    /// Work requests that ended in error, flushed ones not counted, by syndrome.
    pub work_request_errors: BTreeMap<String, u64>,
    /// Completions written.
    pub completions: u64,
    /// Times a sender was told that there is no receive.
    pub receiver_not_ready: u64,
    /// Packets that it sent one by one: those of messages that were handed over as a whole do not count.
    pub packets: u64,
    /// Of its packets, those that the wire lost.
    pub packets_lost: u64,
    /// Of its packets, those that the wire doubled.
    pub packets_duplicated: u64,
    /// Of its packets, those that another one was let past.
    pub packets_reordered: u64,
    /// Of its packets, those that the wire delayed.
    pub packets_delayed: u64,
    /// Packets that it sent again.
    pub packets_retransmitted: u64,
    /// Requests to it that it had answered before.
    pub duplicate_requests: u64,
    /// Requests to it before which others were missing.
    pub sequence_errors: u64,
    /// Datagrams that nobody took.
    pub datagrams_dropped: u64,
    /// Events for which there was no room or no queue.
    pub events_lost: u64,
    /// Doorbells of objects that do not exist or belong to another page.
    pub stray_doorbells: u64,
    /// The last removals of the driver, oldest first.
    pub driver_removals: VecDeque<Removal>,
    /// Removals in all.
    pub driver_removal_count: u64,
    /// Those of them that were not clean.
    pub unclean_removal_count: u64,
    /// The last times that the guest went without its driver's giving everything back, oldest first.
    pub drops: VecDeque<Dropped>,
    /// Such times in all.
    pub drop_count: u64,
    #[serde(skip)]
    teardown: Option<Held>,
}

impl Activity {
    /// Counts a command.
    pub fn command(&mut self, name: &'static str, result: Result<(), Refusal>) {
        self.commands += 1;
        *self.commands_by_name.entry(name).or_default() += 1;
        if let Err(r) = result {
            *self.refusals.entry(format!("{name}: {:?}, {:?}", r.status, r.syndrome)).or_default() += 1;
        }
    }

    /// Notes what TEARDOWN_HCA found.
    pub fn torn_down(&mut self, found: Held) {
        self.teardown = Some(found);
    }

    /// Notes what DISABLE_HCA found.
    pub fn disabled(&mut self, at_disable: Held) {
        let torn_down = self.teardown.take().unwrap_or_default();
        let clean = at_disable.is_nothing() && torn_down.objects.is_empty();
        if self.driver_removals.len() >= MAX_REMOVALS {
            self.driver_removals.pop_front();
        }
        self.driver_removals.push_back(Removal {
            after_commands: self.commands + 1,
            objects_at_teardown: torn_down.objects,
            counts_at_teardown: torn_down.counts,
            at_disable,
            clean,
        });
        self.driver_removal_count += 1;
        self.unclean_removal_count += u64::from(!clean);
    }

    /// Notes what went with the guest.
    pub fn dropped(&mut self, cause: DropCause, held: Held) {
        if self.drops.len() >= MAX_REMOVALS {
            self.drops.pop_front();
        }
        self.drops.push_back(Dropped { cause, after_commands: self.commands, held });
        self.drop_count += 1;
        self.teardown = None;
    }

    /// The name under which a command is counted.
    pub fn name_of(opcode: Option<Opcode>) -> &'static str {
        opcode.map_or("unknown", Opcode::name)
    }
}

/// A guest's part of the report.
#[derive(Clone, Debug, Serialize)]
pub struct GuestReport {
    /// Which guest, from 1.
    pub guest: usize,
    /// Its LID.
    pub lid: u16,
    /// Where its QEMU is.
    pub connection: Presence,
    /// What it did.
    #[serde(flatten)]
    pub activity: Activity,
    /// How often the device reached for memory that the guest does not have.
    pub dma_faults: u64,
    /// What it holds now.
    pub held: Held,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the model.
    pub model: &'static str,
    /// Why it was written: "running" while the model serves, else how it ended.
    pub state: &'static str,
    /// The guests.
    pub guests: Vec<GuestReport>,
}

impl Report {
    /// Writes it as JSON, so that a reader sees the old one or the new one whole.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        std::fs::write(&new, text)?;
        std::fs::rename(new, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_clean_only_if_nothing_was_left_at_either_end() {
        let leak = BTreeMap::from([(Kind::Qp, vec![0x41])]);
        let mut a = Activity::default();
        a.torn_down(Held::default());
        a.disabled(Held::default());
        a.torn_down(Held::new(leak.clone(), 0));
        a.disabled(Held::default());
        a.torn_down(Held::default());
        a.disabled(Held { pages: 1, ..Held::default() });
        a.disabled(Held::new(leak, 0));
        assert_eq!(
            a.driver_removals.iter().map(|r| r.clean).collect::<Vec<_>>(),
            [true, false, false, false]
        );
        assert_eq!((a.driver_removal_count, a.unclean_removal_count), (4, 3));
    }

    #[test]
    fn has_an_end_however_much_and_often_a_guest_leaves_behind() {
        let mut a = Activity::default();
        let many = BTreeMap::from([(Kind::Pd, (0..5000).collect::<Vec<u32>>())]);
        a.disabled(Held::new(many.clone(), 0));
        for _ in 0..MAX_REMOVALS + 10 {
            a.torn_down(Held::new(many.clone(), 0));
            a.disabled(Held::new(many.clone(), 0));
        }
        assert_eq!(a.driver_removals.len(), MAX_REMOVALS);
        assert_eq!((a.driver_removal_count, a.unclean_removal_count), (75, 75));
        for _ in 0..MAX_REMOVALS + 10 {
            a.dropped(DropCause::Reset, Held::new(many.clone(), 0));
        }
        assert_eq!((a.drops.len(), a.drop_count), (MAX_REMOVALS, 74));
        assert_eq!(a.drops[0].held.counts[&Kind::Pd], 5000);
        for r in &a.driver_removals {
            for (numbers, counts) in [
                (&r.objects_at_teardown, &r.counts_at_teardown),
                (&r.at_disable.objects, &r.at_disable.counts),
            ] {
                assert_eq!((numbers[&Kind::Pd].len(), counts[&Kind::Pd]), (MAX_NUMBERS, 5000));
            }
        }
    }

    #[test]
    fn is_json_with_names() {
        let dir = std::env::temp_dir().join(format!("mlx5-model-report-{}", std::process::id()));
        let report = Report {
            model: "0",
            state: "running",
            guests: vec![GuestReport {
                guest: 1,
                lid: 2,
                connection: Presence::ProtocolError,
                activity: Activity::default(),
                dma_faults: 0,
                held: Held::new(BTreeMap::from([(Kind::TransportDomain, vec![64])]), 3),
            }],
        };
        report.save(&dir).unwrap();
        let v: serde_json::Value = serde_json::from_slice(&std::fs::read(&dir).unwrap()).unwrap();
        std::fs::remove_file(&dir).unwrap();
        assert_eq!(v["guests"][0]["held"]["objects"]["transport_domain"][0], 64);
        assert_eq!(v["guests"][0]["held"]["counts"]["transport_domain"], 1);
        assert_eq!(v["guests"][0]["driver_removals"], serde_json::json!([]));
        assert_eq!(v["guests"][0]["connection"], "protocol error");
    }
}

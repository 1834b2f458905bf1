//! The objects of all guests. Numbers are unique among all of them and all kinds, so that a number can never be
//! mistaken for another object's, and are taken round robin, so that a stale one stays stale for long.
//!
//! Each guest has a share of its own of whatever has a limit, and nothing takes longer because of others' objects.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Serialize;

use crate::{
    command::status::{Refusal, Status, Syndrome},
    cq::CompletionQueue,
    mkey::MemoryKey,
    qp::QueuePair,
    srq::SharedReceiveQueue,
};

/// Which of the guests.
pub type GuestId = usize;

/// Lowest number: small ones have meanings of their own (QP0, QP1 …).
const FIRST_NUMBER: u32 = 0x40;
/// Highest number: fields have 24 bits, and all ones means "any".
const LAST_NUMBER: u32 = 0xff_fffe;

/// Log of the most objects of most kinds that a guest can have.
pub const LOG_MAX_OBJECTS: u32 = 13;
/// Log of the most memory keys that it can have.
pub const LOG_MAX_MKEYS: u32 = 17;
/// The most page addresses that a guest's objects together may list: what it can make the model allocate.
const MAX_LISTED_PAGES: usize = 1 << 23;

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Page of doorbells.
    Uar,
    /// Event queue.
    Eq,
    /// Protection domain.
    Pd,
    /// XRC domain.
    Xrcd,
    /// Transport domain.
    TransportDomain,
    /// Memory key.
    Mkey,
    /// Memory key that nobody can use: a driver keeps it for the next registration, or as an unbound window.
    FreeMkey,
    /// Completion queue.
    Cq,
    /// Shared receive queue, of XRC or basic.
    Srq,
    /// Queue pair.
    Qp,
    /// A QP's membership of a multicast group.
    MulticastMember,
}

/// What a table can hold.
pub trait Object {
    /// The guest whose it is.
    fn guest(&self) -> GuestId;

    /// Page addresses that it lists.
    fn listed_pages(&self) -> usize {
        0
    }

    /// What it uses of its guest's: that cannot end before it.
    fn uses(&self) -> Uses {
        [None; 4]
    }
}

/// Kinds and numbers of what an object uses.
pub type Uses = [Option<(Kind, u32)>; 4];

/// Numbers of a guest's objects of a kind, the lowest first.
pub type OwnNumbers<'a> = Box<dyn Iterator<Item = u32> + 'a>;

/// An object that is nothing but its number.
#[derive(Clone, Copy, Debug)]
pub struct Domain {
    /// The guest whose it is.
    pub guest: GuestId,
}

impl Object for Domain {
    fn guest(&self) -> GuestId {
        self.guest
    }
}

/// What a guest has of what is limited or counted.
#[derive(Debug, Default)]
struct Share {
    listed_pages: usize,
    /// How many of its objects use each one.
    users: HashMap<(Kind, u32), usize>,
}

impl Share {
    fn note_uses(&mut self, object: &impl Object) {
        for used in object.uses().into_iter().flatten() {
            *self.users.entry(used).or_default() += 1;
        }
    }

    fn forget_uses(&mut self, object: &impl Object) {
        for used in object.uses().into_iter().flatten() {
            if let Some(count) = self.users.get_mut(&used) {
                *count -= 1;
                if *count == 0 {
                    self.users.remove(&used);
                }
            }
        }
    }
}

/// The numbers in use.
#[derive(Debug)]
struct Numbers {
    next: u32,
    used: HashSet<u32>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { next: FIRST_NUMBER, used: HashSet::new() }
    }
}

impl Numbers {
    /// Ends because there are far fewer objects than numbers.
    fn take(&mut self) -> u32 {
        loop {
            let n = self.next;
            self.next = if n == LAST_NUMBER { FIRST_NUMBER } else { n + 1 };
            if self.used.insert(n) {
                return n;
            }
        }
    }
}

/// The objects of one kind.
#[derive(Debug)]
pub struct Table<T> {
    kind: Kind,
    missing: Syndrome,
    /// How many each guest can have.
    limit: usize,
    items: HashMap<u32, T>,
    own: BTreeMap<GuestId, BTreeSet<u32>>,
}

impl<T: Object> Table<T> {
    fn new(kind: Kind, missing: Syndrome, log_limit: u32) -> Self {
        Self { kind, missing, limit: 1 << log_limit, items: HashMap::new(), own: BTreeMap::new() }
    }

    /// The object, whoever's it is: for the data path.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.items.get(&number)
    }

    /// The object, whoever's it is: for the data path.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.items.get_mut(&number)
    }

    /// The guest's own object: for commands.
    pub fn owned(&self, guest: GuestId, number: u32) -> Result<&T, Refusal> {
        self.items.get(&number).filter(|o| o.guest() == guest).ok_or(Refusal::missing(self.missing))
    }

    /// The guest's own object: for commands.
    pub fn owned_mut(&mut self, guest: GuestId, number: u32) -> Result<&mut T, Refusal> {
        self.items.get_mut(&number).filter(|o| o.guest() == guest).ok_or(Refusal::missing(self.missing))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.items.iter().map(|(n, o)| (*n, o))
    }

    /// Those of the guest, the lowest number first.
    pub fn of(&self, guest: GuestId) -> impl Iterator<Item = (u32, &T)> {
        self.numbers_of(guest).filter_map(|n| Some((n, self.items.get(&n)?)))
    }

    /// Does something to each of the guest's.
    pub fn each_of(&mut self, guest: GuestId, mut act: impl FnMut(&mut T)) {
        for n in self.own.get(&guest).into_iter().flatten() {
            self.items.get_mut(n).into_iter().for_each(&mut act);
        }
    }

    fn numbers_of(&self, guest: GuestId) -> OwnNumbers<'_> {
        Box::new(self.own.get(&guest).into_iter().flatten().copied())
    }
}

/// Every object of every guest, event queues and doorbell pages excepted, which a guest numbers by itself.
#[derive(Debug)]
pub struct Objects {
    numbers: Numbers,
    shares: BTreeMap<GuestId, Share>,
    /// Protection domains.
    pub pds: Table<Domain>,
    /// XRC domains.
    pub xrcds: Table<Domain>,
    /// Transport domains.
    pub transport_domains: Table<Domain>,
    /// Memory keys by index: a key is its index and the driver's lowest byte.
    pub mkeys: Table<MemoryKey>,
    /// Completion queues.
    pub cqs: Table<CompletionQueue>,
    /// Shared receive queues.
    pub srqs: Table<SharedReceiveQueue>,
    /// Queue pairs.
    pub qps: Table<QueuePair>,
}

/// A kind of object that [`Objects`] holds: which table is its.
pub trait Stored: Object + Sized {
    /// Its table.
    fn table(objects: &mut Objects) -> &mut Table<Self>;
}

macro_rules! stored {
    ($($type:ty => $table:ident),*) => {$(
        impl Stored for $type {
            fn table(objects: &mut Objects) -> &mut Table<Self> {
                &mut objects.$table
            }
        }
    )*};
}
stored!(MemoryKey => mkeys, CompletionQueue => cqs, SharedReceiveQueue => srqs, QueuePair => qps);

impl Default for Objects {
    fn default() -> Self {
        Self {
            numbers: Numbers::default(),
            shares: BTreeMap::new(),
            pds: Table::new(Kind::Pd, Syndrome::NoSuchPd, LOG_MAX_OBJECTS),
            xrcds: Table::new(Kind::Xrcd, Syndrome::NoSuchXrcd, LOG_MAX_OBJECTS),
            transport_domains: Table::new(
                Kind::TransportDomain,
                Syndrome::NoSuchTransportDomain,
                LOG_MAX_OBJECTS,
            ),
            mkeys: Table::new(Kind::Mkey, Syndrome::NoSuchMkey, LOG_MAX_MKEYS),
            cqs: Table::new(Kind::Cq, Syndrome::NoSuchCq, LOG_MAX_OBJECTS),
            srqs: Table::new(Kind::Srq, Syndrome::NoSuchSrq, LOG_MAX_OBJECTS),
            qps: Table::new(Kind::Qp, Syndrome::NoSuchQp, LOG_MAX_OBJECTS),
        }
    }
}

impl Objects {
    fn insert_into<T: Object>(
        numbers: &mut Numbers,
        share: &mut Share,
        table: &mut Table<T>,
        object: T,
    ) -> Result<u32, Refusal> {
        let too_many = Refusal::new(Status::LimitExceeded, Syndrome::TooManyObjects);
        let own = table.own.entry(object.guest()).or_default();
        let listed_pages = share.listed_pages + object.listed_pages();
        if own.len() >= table.limit || listed_pages > MAX_LISTED_PAGES {
            return Err(too_many);
        }
        share.listed_pages = listed_pages;
        share.note_uses(&object);
        let n = numbers.take();
        own.insert(n);
        table.items.insert(n, object);
        Ok(n)
    }

    fn remove_from<T: Object>(
        numbers: &mut Numbers,
        share: &mut Share,
        table: &mut Table<T>,
        guest: GuestId,
        number: u32,
    ) -> Result<T, Refusal> {
        table.owned(guest, number)?;
        let object = table.items.remove(&number).ok_or(Refusal::missing(table.missing))?;
        if let Some(own) = table.own.get_mut(&guest) {
            own.remove(&number);
        }
        numbers.used.remove(&number);
        share.listed_pages -= object.listed_pages();
        share.forget_uses(&object);
        Ok(object)
    }

    /// Keeps a new object and names it.
    pub fn insert<T: Stored>(&mut self, object: T) -> Result<u32, Refusal> {
        // What is common is lent apart from the tables while the object goes in.
        let (mut numbers, mut shares) = (std::mem::take(&mut self.numbers), std::mem::take(&mut self.shares));
        let share = shares.entry(object.guest()).or_default();
        let result = Self::insert_into(&mut numbers, share, T::table(self), object);
        (self.numbers, self.shares) = (numbers, shares);
        result
    }

    /// An object of the guest's lists `after` page addresses where it listed `before`.
    pub fn relist(&mut self, guest: GuestId, before: usize, after: usize) -> Result<(), Refusal> {
        let share = self.shares.entry(guest).or_default();
        let listed_pages = share.listed_pages.saturating_sub(before) + after;
        if listed_pages > MAX_LISTED_PAGES {
            return Err(Refusal::new(Status::LimitExceeded, Syndrome::TooManyObjects));
        }
        share.listed_pages = listed_pages;
        Ok(())
    }

    /// Changes an object in a way that changes what it uses.
    pub fn change<T: Stored, R>(&mut self, number: u32, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut shares = std::mem::take(&mut self.shares);
        let object = T::table(self).get_mut(number);
        let result = object.map(|object| {
            let share = shares.entry(object.guest()).or_default();
            share.forget_uses(object);
            let result = change(object);
            share.note_uses(object);
            result
        });
        self.shares = shares;
        result
    }

    /// Ends an object of the guest's.
    pub fn remove<T: Stored>(&mut self, guest: GuestId, number: u32) -> Result<T, Refusal> {
        let (mut numbers, mut shares) = (std::mem::take(&mut self.numbers), std::mem::take(&mut self.shares));
        let share = shares.entry(guest).or_default();
        let result = Self::remove_from(&mut numbers, share, T::table(self), guest, number);
        (self.numbers, self.shares) = (numbers, shares);
        result
    }

    /// Makes a domain of the kind.
    pub fn insert_domain(&mut self, kind: Kind, guest: GuestId) -> Result<u32, Refusal> {
        let table = match kind {
            Kind::Xrcd => &mut self.xrcds,
            Kind::TransportDomain => &mut self.transport_domains,
            _ => &mut self.pds,
        };
        let share = self.shares.entry(guest).or_default();
        Self::insert_into(&mut self.numbers, share, table, Domain { guest })
    }

    /// Ends a domain of the kind.
    pub fn remove_domain(&mut self, kind: Kind, guest: GuestId, number: u32) -> Result<(), Refusal> {
        let table = match kind {
            Kind::Xrcd => &mut self.xrcds,
            Kind::TransportDomain => &mut self.transport_domains,
            _ => &mut self.pds,
        };
        let share = self.shares.entry(guest).or_default();
        Self::remove_from(&mut self.numbers, share, table, guest, number).map(|_| ())
    }

    /// Whether objects of the guest's use that one of its.
    pub fn is_used(&self, guest: GuestId, kind: Kind, number: u32) -> bool {
        self.shares.get(&guest).is_some_and(|share| share.users.contains_key(&(kind, number)))
    }

    /// Numbers in use, of all guests.
    pub fn in_use(&self) -> usize {
        self.numbers.used.len()
    }

    /// Page addresses that all objects together list.
    pub fn listed_pages(&self) -> usize {
        self.shares.values().map(|share| share.listed_pages).sum()
    }

    /// Ends everything of the guest's.
    pub fn clear(&mut self, guest: GuestId) {
        fn clear<T>(numbers: &mut Numbers, table: &mut Table<T>, guest: GuestId) {
            for n in table.own.remove(&guest).unwrap_or_default() {
                table.items.remove(&n);
                numbers.used.remove(&n);
            }
        }
        clear(&mut self.numbers, &mut self.pds, guest);
        clear(&mut self.numbers, &mut self.xrcds, guest);
        clear(&mut self.numbers, &mut self.transport_domains, guest);
        clear(&mut self.numbers, &mut self.mkeys, guest);
        clear(&mut self.numbers, &mut self.cqs, guest);
        clear(&mut self.numbers, &mut self.srqs, guest);
        clear(&mut self.numbers, &mut self.qps, guest);
        self.shares.remove(&guest);
    }

    /// What the guest has, by kind and number, the lowest first.
    pub fn held(&self, guest: GuestId) -> impl Iterator<Item = (Kind, OwnNumbers<'_>)> {
        let keys = |free| self.mkeys.of(guest).filter(move |(_, key)| key.is_free() == free).map(|(n, _)| n);
        [
            (self.pds.kind, self.pds.numbers_of(guest)),
            (self.xrcds.kind, self.xrcds.numbers_of(guest)),
            (self.transport_domains.kind, self.transport_domains.numbers_of(guest)),
            (self.mkeys.kind, Box::new(keys(false))),
            (Kind::FreeMkey, Box::new(keys(true))),
            (self.cqs.kind, self.cqs.numbers_of(guest)),
            (self.srqs.kind, self.srqs.numbers_of(guest)),
            (self.qps.kind, self.qps.numbers_of(guest)),
        ]
        .into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Held;

    #[test]
    fn numbers_are_unique_among_guests_and_kinds_and_not_reused_at_once() {
        let mut o = Objects::default();
        let a = o.insert_domain(Kind::Pd, 0).unwrap();
        let b = o.insert_domain(Kind::Xrcd, 1).unwrap();
        assert_ne!(a, b);
        o.remove_domain(Kind::Pd, 0, a).unwrap();
        assert_ne!(o.insert_domain(Kind::Pd, 0).unwrap(), a);
    }

    #[test]
    fn a_guest_cannot_touch_anothers() {
        let mut o = Objects::default();
        let a = o.insert_domain(Kind::Pd, 0).unwrap();
        assert_eq!(o.pds.owned(1, a).unwrap_err().syndrome, Syndrome::NoSuchPd);
        assert!(o.remove_domain(Kind::Pd, 1, a).is_err());
        o.clear(1);
        let held = |o: &Objects| Held::new(o.held(0), 0).objects;
        assert_eq!(held(&o)[&Kind::Pd], [a]);
        o.clear(0);
        assert!(held(&o).is_empty());
    }

    #[test]
    fn there_is_a_limit_and_the_numbers_wrap() {
        let mut o = Objects::default();
        o.numbers.next = LAST_NUMBER;
        assert_eq!(o.insert_domain(Kind::Pd, 0), Ok(LAST_NUMBER));
        assert_eq!(o.insert_domain(Kind::Pd, 0), Ok(FIRST_NUMBER));
        for _ in 2..1 << LOG_MAX_OBJECTS {
            o.insert_domain(Kind::Pd, 0).unwrap();
        }
        assert_eq!(o.insert_domain(Kind::Pd, 0).unwrap_err().status, Status::LimitExceeded);
        o.insert_domain(Kind::Pd, 1).expect("another guest has a share of its own");
        o.remove_domain(Kind::Pd, 0, FIRST_NUMBER).unwrap();
        o.insert_domain(Kind::Pd, 0).unwrap();
    }
}

//! The objects of all guests. Numbers are unique among all of them and all kinds, so that a number can never be
//! mistaken for another object's, and are taken round robin, so that a stale one stays stale for long.

use std::collections::{BTreeMap, HashMap, HashSet};

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

/// Log of the most objects of most kinds.
pub const LOG_MAX_OBJECTS: u32 = 16;
/// Log of the most memory keys.
pub const LOG_MAX_MKEYS: u32 = 20;
/// The most page addresses that all objects together may list: what a guest can make the model allocate.
const MAX_LISTED_PAGES: usize = 1 << 26;

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
}

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

/// The numbers in use.
#[derive(Debug)]
struct Numbers {
    next: u32,
    used: HashSet<u32>,
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
    limit: usize,
    items: HashMap<u32, T>,
}

impl<T: Object> Table<T> {
    fn new(kind: Kind, missing: Syndrome, log_limit: u32) -> Self {
        Self { kind, missing, limit: 1 << log_limit, items: HashMap::new() }
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

    /// All of them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.items.iter_mut().map(|(n, o)| (*n, o))
    }

    fn numbers_of(&self, guest: GuestId) -> Vec<u32> {
        self.numbers_where(guest, |_| true)
    }

    fn numbers_where(&self, guest: GuestId, which: impl Fn(&T) -> bool) -> Vec<u32> {
        let own = self.iter().filter(|(_, o)| o.guest() == guest && which(o));
        let mut v: Vec<u32> = own.map(|(n, _)| n).collect();
        v.sort_unstable();
        v
    }
}

/// Every object of every guest, event queues and doorbell pages excepted, which a guest numbers by itself.
#[derive(Debug)]
pub struct Objects {
    numbers: Numbers,
    listed_pages: usize,
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
            numbers: Numbers { next: FIRST_NUMBER, used: HashSet::new() },
            listed_pages: 0,
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
        table: &mut Table<T>,
        object: T,
    ) -> Result<u32, Refusal> {
        if table.items.len() >= table.limit {
            return Err(Refusal::new(Status::LimitExceeded, Syndrome::TooManyObjects));
        }
        let n = numbers.take();
        table.items.insert(n, object);
        Ok(n)
    }

    fn remove_from<T: Object>(
        numbers: &mut Numbers,
        table: &mut Table<T>,
        guest: GuestId,
        number: u32,
    ) -> Result<T, Refusal> {
        table.owned(guest, number)?;
        let object = table.items.remove(&number).ok_or(Refusal::missing(table.missing))?;
        numbers.used.remove(&number);
        Ok(object)
    }

    /// Keeps a new object and names it.
    pub fn insert<T: Stored>(&mut self, object: T) -> Result<u32, Refusal> {
        let listed_pages = self.listed_pages + object.listed_pages();
        if listed_pages > MAX_LISTED_PAGES {
            return Err(Refusal::new(Status::LimitExceeded, Syndrome::TooManyObjects));
        }
        // The numbers are lent apart from the tables while the object goes in.
        let mut numbers =
            std::mem::replace(&mut self.numbers, Numbers { next: FIRST_NUMBER, used: HashSet::new() });
        let result = Self::insert_into(&mut numbers, T::table(self), object);
        self.numbers = numbers;
        if result.is_ok() {
            self.listed_pages = listed_pages;
        }
        result
    }

    /// An object lists `after` page addresses where it listed `before`.
    pub fn relist(&mut self, before: usize, after: usize) -> Result<(), Refusal> {
        let listed_pages = self.listed_pages.saturating_sub(before) + after;
        if listed_pages > MAX_LISTED_PAGES {
            return Err(Refusal::new(Status::LimitExceeded, Syndrome::TooManyObjects));
        }
        self.listed_pages = listed_pages;
        Ok(())
    }

    /// Ends an object of the guest's.
    pub fn remove<T: Stored>(&mut self, guest: GuestId, number: u32) -> Result<T, Refusal> {
        let table = T::table(self);
        table.owned(guest, number)?;
        let object = table.items.remove(&number).ok_or(Refusal::missing(table.missing))?;
        self.numbers.used.remove(&number);
        self.listed_pages -= object.listed_pages();
        Ok(object)
    }

    /// Makes a domain of the kind.
    pub fn insert_domain(&mut self, kind: Kind, guest: GuestId) -> Result<u32, Refusal> {
        let table = match kind {
            Kind::Xrcd => &mut self.xrcds,
            Kind::TransportDomain => &mut self.transport_domains,
            _ => &mut self.pds,
        };
        Self::insert_into(&mut self.numbers, table, Domain { guest })
    }

    /// Ends a domain of the kind.
    pub fn remove_domain(&mut self, kind: Kind, guest: GuestId, number: u32) -> Result<(), Refusal> {
        let table = match kind {
            Kind::Xrcd => &mut self.xrcds,
            Kind::TransportDomain => &mut self.transport_domains,
            _ => &mut self.pds,
        };
        Self::remove_from(&mut self.numbers, table, guest, number).map(|_| ())
    }

    /// Numbers in use, of all guests.
    pub fn in_use(&self) -> usize {
        self.numbers.used.len()
    }

    /// Page addresses that all objects together list.
    pub fn listed_pages(&self) -> usize {
        self.listed_pages
    }

    /// Ends everything of the guest's.
    pub fn clear(&mut self, guest: GuestId) {
        fn clear<T: Object>(
            numbers: &mut Numbers,
            listed_pages: &mut usize,
            table: &mut Table<T>,
            guest: GuestId,
        ) {
            table.items.retain(|n, o| {
                let keep = o.guest() != guest;
                if !keep {
                    numbers.used.remove(n);
                    *listed_pages -= o.listed_pages();
                }
                keep
            });
        }
        clear(&mut self.numbers, &mut self.listed_pages, &mut self.pds, guest);
        clear(&mut self.numbers, &mut self.listed_pages, &mut self.xrcds, guest);
        clear(&mut self.numbers, &mut self.listed_pages, &mut self.transport_domains, guest);
        clear(&mut self.numbers, &mut self.listed_pages, &mut self.mkeys, guest);
        clear(&mut self.numbers, &mut self.listed_pages, &mut self.cqs, guest);
        clear(&mut self.numbers, &mut self.listed_pages, &mut self.srqs, guest);
        clear(&mut self.numbers, &mut self.listed_pages, &mut self.qps, guest);
    }

    /// What the guest has, by kind and number.
    pub fn held(&self, guest: GuestId) -> BTreeMap<Kind, Vec<u32>> {
        [
            (self.pds.kind, self.pds.numbers_of(guest)),
            (self.xrcds.kind, self.xrcds.numbers_of(guest)),
            (self.transport_domains.kind, self.transport_domains.numbers_of(guest)),
            (self.mkeys.kind, self.mkeys.numbers_where(guest, |key| !key.is_free())),
            (Kind::FreeMkey, self.mkeys.numbers_where(guest, MemoryKey::is_free)),
            (self.cqs.kind, self.cqs.numbers_of(guest)),
            (self.srqs.kind, self.srqs.numbers_of(guest)),
            (self.qps.kind, self.qps.numbers_of(guest)),
        ]
        .into_iter()
        .filter(|(_, numbers)| !numbers.is_empty())
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(o.held(0)[&Kind::Pd], [a]);
        o.clear(0);
        assert!(o.held(0).is_empty());
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
    }
}

//! Memory keys: what may be touched, by whom, how; and where it is.
//!
//! A key translates by a list of pages, or by a list of other keys' pieces: then those keys are asked in turn, for
//! local rights, and their owner's domain must be the same. How deep that goes, and into how many pieces a message
//! may fall on the way, has an end.

mod change;
mod list;
pub mod steps;

pub use change::{Change, LOG_MAX_PAGES, change_mask};
pub use list::LOG_MAX_LIST;

use list::{KeyList, Part};
use steps::KeySteps;

use crate::{
    bits::Field,
    caps::LOG_MAX_REGION,
    command::{
        mailbox::{Input, Output},
        status::{Refusal, Syndrome},
    },
    device::Device,
    fields::mkc,
    hw::{ANY_QPN, AccessMode, PAGE_BYTES, PAGE_SHIFT},
    objects::{GuestId, Kind, Object, Table, Uses},
};

/// Where CREATE_MKEY and QUERY_MKEY have the context and the page list.
const CONTEXT: usize = 16;
const PAGES: usize = 272;
/// A key is its index above this many bits of the driver's choosing.
const VARIANT_BITS: u32 = 8;
/// Flags of a listed page, in the lowest bits of its address: without them it is not there.
const PAGE_READABLE: u64 = 1 << 0;
const PAGE_WRITABLE: u64 = 1 << 1;
/// How deep keys may nest.
pub const MAX_INDIRECTION: u32 = 4;

/// What is to be done with the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read by the key's own host.
    LocalRead,
    /// Written by it.
    LocalWrite,
    /// Read by a peer.
    RemoteRead,
    /// Written by a peer.
    RemoteWrite,
    /// Changed by a peer's atomic.
    RemoteAtomic,
}

impl Access {
    fn bit(self) -> Field {
        match self {
            Self::LocalRead => mkc::LR,
            Self::LocalWrite => mkc::LW,
            Self::RemoteRead => mkc::RR,
            Self::RemoteWrite => mkc::RW,
            Self::RemoteAtomic => mkc::A,
        }
    }

    /// The flag of a page that it needs.
    fn of_page(self) -> u64 {
        match self {
            Self::LocalRead | Self::RemoteRead => PAGE_READABLE,
            Self::LocalWrite | Self::RemoteWrite | Self::RemoteAtomic => PAGE_WRITABLE,
        }
    }

    /// What a key of keys wants of those that it consists of: they are the host's own.
    fn of_parts(self) -> Self {
        match self {
            Self::LocalRead | Self::RemoteRead => Self::LocalRead,
            Self::LocalWrite | Self::RemoteWrite | Self::RemoteAtomic => Self::LocalWrite,
        }
    }
}

/// Who wants it.
#[derive(Clone, Copy, Debug)]
pub struct Accessor {
    /// The guest whose memory is meant.
    pub guest: GuestId,
    /// Protection domain of the QP or SRQ.
    pub pd: u32,
    /// The QP.
    pub qpn: u32,
}

/// The key does not allow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyViolation;

/// A run of guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First physical address.
    pub address: u64,
    /// Bytes.
    pub length: usize,
}

/// A memory key.
#[derive(Debug)]
pub struct MemoryKey {
    guest: GuestId,
    context: [u8; mkc::BYTES],
    mode: AccessMode,
    start: u64,
    length: u64,
    shift: u32,
    pages: Vec<u64>,
    keys: KeyList,
}

/// Where a range begins.
enum Step {
    /// In memory.
    Memory(Extent),
    /// In another key.
    Key(Part),
}

impl Object for MemoryKey {
    fn guest(&self) -> GuestId {
        self.guest
    }

    fn listed_pages(&self) -> usize {
        self.pages.len() + self.keys.counts_as(0)
    }

    fn uses(&self) -> Uses {
        [Some((Kind::Pd, self.pd())), None, None, None]
    }
}

impl MemoryKey {
    fn new(guest: GuestId, context: [u8; mkc::BYTES], pages: Vec<u64>) -> Result<Self, Refusal> {
        let mode = match (mkc::ACCESS_MODE_4_2.get(&context), mkc::ACCESS_MODE_1_0.get(&context)) {
            (0, low) => AccessMode::from_number(low),
            _ => None,
        }
        .ok_or(Refusal::parameter(Syndrome::BadAccessMode))?;
        let free = mkc::FREE.is_set(&context);
        let listed = matches!(mode, AccessMode::KeyList | AccessMode::FixedKeyList);
        if listed && !free || mode == AccessMode::Physical && free {
            return Err(Refusal::parameter(Syndrome::BadAccessMode));
        }
        let octwords = mkc::TRANSLATIONS_OCTWORD_SIZE.get(&context);
        if free && octwords > 1 << if listed { LOG_MAX_LIST } else { LOG_MAX_PAGES - 1 } {
            return Err(Refusal::parameter(Syndrome::SizeBeyondCapability));
        }
        let mut key =
            Self { guest, context, mode, start: 0, length: 0, shift: 0, pages, keys: KeyList::default() };
        key.pages.shrink_to_fit();
        // Without on-demand paging, what a command lists is there.
        key.pages.iter_mut().for_each(|page| *page |= PAGE_READABLE | PAGE_WRITABLE);
        key.take_range()?;
        if !free {
            key.check_list()?;
        }
        Ok(key)
    }

    /// Takes its range from the context.
    fn take_range(&mut self) -> Result<(), Refusal> {
        let c = &self.context;
        let (start, length) = match self.mode {
            AccessMode::Physical if mkc::LENGTH64.is_set(c) => (0, u64::MAX),
            _ => (mkc::START_ADDR.get(c), mkc::LEN.get(c)),
        };
        if start.checked_add(length).is_none() {
            return Err(Refusal::parameter(Syndrome::BadRegion));
        }
        (self.start, self.length, self.shift) = (start, length, mkc::LOG_PAGE_SIZE.get32(c));
        Ok(())
    }

    /// Whether the list covers the range.
    fn check_list(&self) -> Result<(), Refusal> {
        match self.mode {
            AccessMode::Physical => Ok(()),
            AccessMode::PageList => self.check_pages(),
            AccessMode::KeyList if self.length <= self.keys.covers() => Ok(()),
            AccessMode::KeyList => Err(Refusal::parameter(Syndrome::ShortPageList)),
            AccessMode::FixedKeyList => Err(Refusal::parameter(Syndrome::BadAccessMode)),
        }
    }

    fn check_pages(&self) -> Result<(), Refusal> {
        if self.length > 1 << LOG_MAX_REGION {
            return Err(Refusal::parameter(Syndrome::BadRegion));
        }
        if self.shift < PAGE_SHIFT {
            return Err(Refusal::parameter(Syndrome::BadPageSize));
        }
        let bytes = (self.start & self.page_mask()).saturating_add(self.length);
        if (self.pages.len() as u64) << self.shift < bytes {
            return Err(Refusal::parameter(Syndrome::ShortPageList));
        }
        Ok(())
    }

    fn page_mask(&self) -> u64 {
        (1 << self.shift) - 1
    }

    /// Its protection domain.
    pub fn pd(&self) -> u32 {
        mkc::PD.get32(&self.context)
    }

    fn allows(&self, who: &Accessor, key: u32, access: Access) -> bool {
        let qpn = mkc::QPN.get32(&self.context);
        self.guest == who.guest
            && mkc::MKEY_7_0.get32(&self.context) == key & ((1 << VARIANT_BITS) - 1)
            && !mkc::FREE.is_set(&self.context)
            && self.pd() == who.pd
            && (qpn == ANY_QPN || qpn == who.qpn)
            && access.bit().is_set(&self.context)
    }

    fn covers(&self, address: u64, length: u64) -> bool {
        address >= self.start
            && address.checked_add(length).is_some_and(|end| end <= self.start + self.length)
    }

    /// Whether it cannot be used: the driver keeps it for the next registration, or as an unbound window.
    pub fn is_free(&self) -> bool {
        mkc::FREE.is_set(&self.context)
    }

    fn step(&self, address: u64, length: u64, access: Access) -> Option<Step> {
        let fits = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        match self.mode {
            AccessMode::Physical => return Some(Step::Memory(Extent { address, length: fits(length) })),
            AccessMode::KeyList => return self.keys.find(address - self.start, length).map(Step::Key),
            _ => {}
        }
        // The first page holds the start address at its own place in the page.
        let at = (self.start & self.page_mask()) + (address - self.start);
        let within = at & self.page_mask();
        let entry = *self.pages.get((at >> self.shift) as usize)?;
        if entry & access.of_page() == 0 {
            return None;
        }
        let page = entry & !(PAGE_BYTES - 1);
        let length = fits(length.min((1u64 << self.shift) - within));
        Some(Step::Memory(Extent { address: page.checked_add(within)?, length }))
    }
}

impl Table<MemoryKey> {
    fn allowed(&self, who: &Accessor, key: u32, access: Access) -> Result<&MemoryKey, KeyViolation> {
        self.get(key >> VARIANT_BITS).filter(|k| k.allows(who, key, access)).ok_or(KeyViolation)
    }

    /// Whether all of the range may be touched in that way.
    pub fn check(
        &self,
        who: &Accessor,
        key: u32,
        access: Access,
        address: u64,
        length: u64,
        steps: &KeySteps,
    ) -> Result<(), KeyViolation> {
        self.check_part(who, access, Part { key, address, length }, MAX_INDIRECTION, steps)
    }

    fn check_part(
        &self,
        who: &Accessor,
        access: Access,
        part: Part,
        depth: u32,
        steps: &KeySteps,
    ) -> Result<(), KeyViolation> {
        let k = self.allowed(who, part.key, access)?;
        if !k.covers(part.address, part.length) {
            return Err(KeyViolation);
        }
        if k.mode != AccessMode::KeyList {
            return Ok(());
        }
        let depth = depth.checked_sub(1).ok_or(KeyViolation)?;
        let mut done = 0;
        while done < part.length {
            steps.step()?;
            let at = part.address - k.start + done;
            let inner = k.keys.find(at, part.length - done).ok_or(KeyViolation)?;
            self.check_part(who, access.of_parts(), inner, depth, steps)?;
            done += inner.length;
        }
        Ok(())
    }

    /// Where the first part of the range is.
    pub fn translate(
        &self,
        who: &Accessor,
        key: u32,
        access: Access,
        address: u64,
        length: usize,
        steps: &KeySteps,
    ) -> Result<Extent, KeyViolation> {
        let (mut part, mut access) = (Part { key, address, length: length as u64 }, access);
        for _ in 0..=MAX_INDIRECTION {
            let k = self.allowed(who, part.key, access)?;
            if !k.covers(part.address, part.length) {
                return Err(KeyViolation);
            }
            match k.step(part.address, part.length, access).ok_or(KeyViolation)? {
                Step::Memory(extent) => return Ok(extent),
                Step::Key(inner) => {
                    steps.step()?;
                    part = inner;
                }
            }
            access = access.of_parts();
        }
        Err(KeyViolation)
    }
}

impl Device {
    /// CREATE_MKEY.
    pub fn create_mkey(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let context: [u8; mkc::BYTES] = input.context(CONTEXT)?;
        // What a free key will list comes later.
        let pages = if mkc::FREE.is_set(&context) { Vec::new() } else { input.pages(PAGES) };
        let key = MemoryKey::new(guest, context, pages)?;
        // Keys that are to be filled later may come without a domain.
        if !mkc::FREE.is_set(&key.context) {
            self.objects.pds.owned(guest, key.pd())?;
        }
        output.set_object(self.objects.insert(key)?);
        Ok(())
    }

    /// DESTROY_MKEY.
    pub fn destroy_mkey(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        self.objects.remove::<MemoryKey>(guest, input.object()).map(|_| ())
    }

    /// QUERY_MKEY.
    pub fn query_mkey(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let key = self.objects.mkeys.owned(guest, input.object())?;
        output.put(CONTEXT, &key.context);
        Ok(())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::objects::Objects;

    /// A key over a list of pages, with all rights.
    pub fn key(pd: u32, start: u64, length: u64, pages: &[u64]) -> Result<MemoryKey, Refusal> {
        let mut c = [0; mkc::BYTES];
        for f in [mkc::A, mkc::RW, mkc::RR, mkc::LW, mkc::LR] {
            f.set(&mut c, 1);
        }
        mkc::ACCESS_MODE_1_0.set(&mut c, AccessMode::PageList as u64);
        mkc::QPN.set(&mut c, ANY_QPN.into());
        mkc::MKEY_7_0.set(&mut c, 0xab);
        mkc::PD.set(&mut c, pd.into());
        mkc::START_ADDR.set(&mut c, start);
        mkc::LEN.set(&mut c, length);
        mkc::LOG_PAGE_SIZE.set(&mut c, 12);
        MemoryKey::new(0, c, pages.to_vec())
    }

    const WHO: Accessor = Accessor { guest: 0, pd: 7, qpn: 1 };

    #[test]
    fn pages_and_bounds() {
        let mut o = Objects::default();
        let n = o.insert(key(7, 0x10_0800, 0x1000, &[0x8003, 0x2000]).unwrap()).unwrap() << 8 | 0xab;
        let t = |address, length| {
            o.mkeys.translate(&WHO, n, Access::LocalRead, address, length, &KeySteps::default())
        };
        assert_eq!(t(0x10_0800, 0x1000), Ok(Extent { address: 0x8800, length: 0x800 }));
        assert_eq!(t(0x10_1000, 0x800), Ok(Extent { address: 0x2000, length: 0x800 }));
        for (address, length) in
            [(0x10_07ff, 1), (0x10_1800, 1), (0x10_0800, 0x1001), (u64::MAX, 2), (0x10_0801, usize::MAX)]
        {
            assert_eq!(t(address, length), Err(KeyViolation), "{address:#x} {length:#x}");
        }
    }

    #[test]
    fn wrong_key_domain_guest_or_right() {
        let mut o = Objects::default();
        let mut k = key(7, 0, 8, &[0x1000]).unwrap();
        mkc::RW.set(&mut k.context, 0);
        let n = o.insert(k).unwrap() << 8 | 0xab;
        let check = |who, key, access| o.mkeys.check(&who, key, access, 0, 8, &KeySteps::default());
        assert!(check(WHO, n, Access::RemoteRead).is_ok());
        assert!(check(WHO, n, Access::RemoteWrite).is_err());
        assert!(check(WHO, n ^ 1, Access::RemoteRead).is_err());
        assert!(check(WHO, u32::MAX, Access::RemoteRead).is_err());
        assert!(check(Accessor { pd: 8, ..WHO }, n, Access::RemoteRead).is_err());
        assert!(check(Accessor { guest: 1, ..WHO }, n, Access::RemoteRead).is_err());
    }

    #[test]
    fn page_lists_have_a_limit_for_each_guest() {
        let mut o = Objects::default();
        let list = vec![0; 1 << 22];
        let mut keys = Vec::new();
        let refused = loop {
            match o.insert(key(7, 0, 8, &list).unwrap()) {
                Ok(n) => keys.push(n),
                Err(refusal) => break refusal,
            }
            assert!(keys.len() <= 2);
        };
        assert_eq!((refused.syndrome, keys.len()), (Syndrome::TooManyObjects, 2));
        let others = MemoryKey { guest: 1, ..key(7, 0, 8, &list).unwrap() };
        o.insert(others).expect("another guest has a share of its own");
        o.remove::<MemoryKey>(0, keys[0]).unwrap();
        o.insert(key(7, 0, 8, &list).unwrap()).unwrap();
        o.clear(0);
        o.insert(key(7, 0, 8, &list).unwrap()).unwrap();
    }

    #[test]
    fn hostile_regions_are_refused() {
        let syndrome = |k: Result<MemoryKey, Refusal>| k.unwrap_err().syndrome;
        assert_eq!(syndrome(key(7, u64::MAX, 2, &[0])), Syndrome::BadRegion);
        assert_eq!(syndrome(key(7, 0, 1 << 50, &[0])), Syndrome::BadRegion);
        assert_eq!(syndrome(key(7, 0xfff, 2, &[0])), Syndrome::ShortPageList);
        assert_eq!(syndrome(key(7, 0, 1, &[])), Syndrome::ShortPageList);
        let mut c = [0xff; mkc::BYTES];
        assert_eq!(syndrome(MemoryKey::new(0, c, vec![])), Syndrome::BadAccessMode);
        c = [0; mkc::BYTES];
        mkc::ACCESS_MODE_1_0.set(&mut c, AccessMode::KeyList as u64);
        assert_eq!(syndrome(MemoryKey::new(0, c, vec![])), Syndrome::BadAccessMode);
    }
}

//! Keys that work requests change: registration, windows, invalidation.

use crate::{
    bits::{Field, be64},
    command::status::{Refusal, Syndrome},
    fields::mkc,
    hw::{ANY_QPN, AccessMode, SEGMENT_BYTES},
    objects::{GuestId, Object as _, Objects, Table},
};

use super::{Accessor, KeyViolation, LOG_MAX_LIST, MemoryKey, VARIANT_BITS};

/// Log of the most pages that a work request may list for a key.
pub const LOG_MAX_PAGES: u32 = 22;
/// Translations are written, and room for them is made, in units of so many entries of 16 bytes.
const OCTWORD_ALIGNMENT: u64 = 4;

/// Bits of the mask: which fields of the context change.
pub mod change_mask {
    /// Length.
    pub const LENGTH: u64 = 1 << 0;
    /// Size of the pages.
    pub const PAGE_SIZE: u64 = 1 << 1;
    /// First address.
    pub const START: u64 = 1 << 6;
    /// Protection domain.
    pub const PD: u64 = 1 << 7;
    /// Whether a peer may make it free.
    pub const INVALIDATION: u64 = 1 << 8;
    /// Signatures, which the model does not have.
    pub const SIGNATURE: u64 = 1 << 9 | 1 << 12;
    /// The key's lowest byte.
    pub const VARIANT: u64 = 1 << 13;
    /// The one QP that may use it.
    pub const QPN: u64 = 1 << 14;
    /// Local reads and the other rights.
    pub const LOCAL_READ: u64 = 1 << 17;
    /// Local writes.
    pub const LOCAL_WRITE: u64 = 1 << 18;
    /// Remote reads.
    pub const REMOTE_READ: u64 = 1 << 19;
    /// Remote writes.
    pub const REMOTE_WRITE: u64 = 1 << 20;
    /// Remote atomics.
    pub const ATOMIC: u64 = 1 << 21;
    /// Whether it is free.
    pub const FREE: u64 = 1 << 29;
    /// How reads and writes are ordered on the host's bus, which makes no difference here.
    pub const ORDERING: u64 = 1 << 23 | 1 << 25 | 1 << 47;
}

/// The fields of the context behind the bits of the mask.
const FIELDS: &[(u64, &[Field])] = &[
    (change_mask::LENGTH, &[mkc::LEN, mkc::LENGTH64]),
    (change_mask::PAGE_SIZE, &[mkc::LOG_PAGE_SIZE]),
    (change_mask::START, &[mkc::START_ADDR]),
    (change_mask::PD, &[mkc::PD]),
    (change_mask::INVALIDATION, &[mkc::EN_RINVAL]),
    (change_mask::VARIANT, &[mkc::MKEY_7_0]),
    (change_mask::QPN, &[mkc::QPN]),
    (change_mask::LOCAL_READ, &[mkc::LR]),
    (change_mask::LOCAL_WRITE, &[mkc::LW]),
    (change_mask::REMOTE_READ, &[mkc::RR]),
    (change_mask::REMOTE_WRITE, &[mkc::RW]),
    (change_mask::ATOMIC, &[mkc::A]),
    (change_mask::FREE, &[mkc::FREE]),
];

/// What a work request wants of a key.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The key.
    pub key: u32,
    /// Who wants it.
    pub who: Accessor,
    /// The driver's own QP, which may do anything with its guest's keys.
    pub driver: bool,
    /// It fails if the key is free.
    pub check_free: bool,
    /// It fails if the key is not free.
    pub check_not_free: bool,
    /// It fails if the key is another QP's.
    pub check_qpn: bool,
    /// What changes in the context.
    pub mask: u64,
    /// From where.
    pub context: &'a [u8; mkc::BYTES],
    /// Where the list goes, in units of 16 bytes.
    pub offset: u64,
    /// New entries of the list, in whole units of 16 bytes.
    pub list: &'a [u8],
}

impl Change<'_> {
    /// Whether the key will be free.
    fn frees(&self) -> bool {
        self.mask & change_mask::FREE != 0 && mkc::FREE.is_set(self.context)
    }
}

impl MemoryKey {
    fn permits(&self, change: &Change) -> bool {
        let qpn = mkc::QPN.get32(&self.context);
        let own = change.driver
            || self.pd() == change.who.pd
                && mkc::UMR_EN.is_set(&self.context)
                && change.mask & change_mask::PD == 0;
        let variant = change.key & ((1 << VARIANT_BITS) - 1);
        self.guest == change.who.guest
            && own
            && self.mode != AccessMode::Physical
            && change.mask & change_mask::SIGNATURE == 0
            && !(change.check_free && self.is_free())
            && (!change.check_not_free || self.is_free())
            && !(change.check_qpn && qpn != ANY_QPN && qpn != change.who.qpn)
            // Who makes a key free must know it; who gives it a new name need not know the old one.
            && (!change.frees() || mkc::MKEY_7_0.get32(&self.context) == variant)
    }

    /// Bytes of list that there is room for.
    fn room(&self) -> u64 {
        let most = match self.mode {
            AccessMode::PageList => 1 << (LOG_MAX_PAGES - 1),
            _ => 1 << LOG_MAX_LIST,
        };
        let octwords = mkc::TRANSLATIONS_OCTWORD_SIZE.get(&self.context);
        octwords.next_multiple_of(OCTWORD_ALIGNMENT).min(most) * SEGMENT_BYTES as u64
    }

    fn write_list(&mut self, at: usize, list: &[u8]) {
        if self.mode == AccessMode::PageList {
            let (first, entries) = (at / size_of::<u64>(), list.chunks_exact(size_of::<u64>()));
            if self.pages.len() < first + entries.len() {
                self.pages.reserve_exact(first + entries.len() - self.pages.len());
                self.pages.resize(first + entries.len(), 0);
            }
            for (page, entry) in self.pages[first..].iter_mut().zip(entries) {
                *page = be64(entry, 0);
            }
        } else {
            self.keys.write(at, list);
        }
    }

    /// Page addresses, or what counts as such, that it lists with so many bytes of list.
    fn listed_with(&self, end: usize) -> usize {
        match self.mode {
            AccessMode::PageList => self.pages.len().max(end / size_of::<u64>()),
            _ => self.keys.counts_as(end),
        }
    }

    fn apply(&mut self, change: &Change, at: usize) -> Result<(), Refusal> {
        let before = (self.context, self.start, self.length, self.shift);
        for (_, fields) in FIELDS.iter().filter(|(bit, _)| change.mask & bit != 0) {
            fields.iter().for_each(|f| f.copy(change.context, &mut self.context));
        }
        // A list shorter than the range of a key in use only makes what lies behind it unreachable.
        if !change.list.is_empty() {
            self.write_list(at, change.list);
        }
        let checked =
            self.take_range().and_then(|()| if self.is_free() { Ok(()) } else { self.check_list() });
        if checked.is_err() {
            (self.context, self.start, self.length, self.shift) = before;
        }
        checked
    }
}

impl Objects {
    /// Changes a key. Refused, it is as before, except for its list.
    pub fn change_key(&mut self, change: &Change) -> Result<(), Refusal> {
        let number = change.key >> VARIANT_BITS;
        let refused = Refusal::missing(Syndrome::NoSuchMkey);
        if change.mask & change_mask::PD != 0 && !change.frees() {
            self.pds.owned(change.who.guest, mkc::PD.get32(change.context))?;
        }
        let key = self.mkeys.get(number).filter(|key| key.permits(change)).ok_or(refused)?;
        let at = change.offset.saturating_mul(SEGMENT_BYTES as u64);
        if at.saturating_add(change.list.len() as u64) > key.room() && !change.list.is_empty() {
            return Err(Refusal::parameter(Syndrome::SizeBeyondCapability));
        }
        let at = at as usize;
        let before = key.listed_pages();
        let end = if change.list.is_empty() { 0 } else { at + change.list.len() };
        self.relist(change.who.guest, before, key.listed_with(end))?;
        self.change(number, |key: &mut MemoryKey| key.apply(change, at)).ok_or(refused)?
    }
}

impl Table<MemoryKey> {
    /// Domain of a key of the guest's.
    pub fn owner_domain(&self, guest: GuestId, key: u32) -> Option<u32> {
        self.owned(guest, key >> VARIANT_BITS).ok().map(MemoryKey::pd)
    }

    /// Whether a peer may make the key free.
    pub fn may_invalidate(&self, who: &Accessor, key: u32) -> Result<(), KeyViolation> {
        let k = self.owned(who.guest, key >> VARIANT_BITS).map_err(|_| KeyViolation)?;
        let qpn = mkc::QPN.get32(&k.context);
        let may = k.pd() == who.pd
            && !k.is_free()
            && mkc::EN_RINVAL.is_set(&k.context)
            && mkc::MKEY_7_0.get32(&k.context) == key & ((1 << VARIANT_BITS) - 1)
            && (qpn == ANY_QPN || qpn == who.qpn);
        if may { Ok(()) } else { Err(KeyViolation) }
    }

    /// It does; that it may was checked.
    pub fn invalidate(&mut self, key: u32) {
        if let Some(k) = self.get_mut(key >> VARIANT_BITS) {
            mkc::FREE.set(&mut k.context, 1);
        }
    }
}

//! Work requests that change memory keys: the drivers' registrations, and programs' windows and invalidations.

use crate::{
    bits::Field,
    device::Device,
    fields::{mkc, wqe_umr},
    hw::{SEGMENT_BYTES, Service, WqeSyndrome},
    mkey::{Access, Accessor, Change},
};

use super::{
    requester::{Outcome, local_syndrome},
    transfer::{End, Store, TransferFault},
    wqe::{Piece, Wqe},
};

/// Where such a work request has its parts.
const CONTROL: usize = SEGMENT_BYTES;
const CONTEXT: usize = CONTROL + wqe_umr::BYTES;
const LIST: usize = CONTEXT + mkc::BYTES;
/// Bits of an offset that its first field has.
const OFFSET_LOW_BITS: u32 = 16;

impl Wqe {
    fn umr(&self, field: Field) -> u64 {
        field.within(CONTROL).get(&self.bytes)
    }

    /// Bytes of the list.
    fn list_length(&self) -> usize {
        self.umr(wqe_umr::TRANSLATION_OCTWORDS) as usize * SEGMENT_BYTES
    }

    /// Reads a work request that changes a key. Its length in all is that of its list, so that long ones count
    /// for more.
    pub(super) fn parse_umr(&mut self) -> Result<(), WqeSyndrome> {
        if self.length < LIST {
            return Err(WqeSyndrome::LocalQpOperation);
        }
        let list = self.list_length();
        if self.umr(wqe_umr::INLINE) == 1 {
            if LIST + list > self.length {
                return Err(WqeSyndrome::LocalQpOperation);
            }
            self.pieces.push(Piece::Inline { at: LIST, length: list });
        } else {
            self.parse_data(LIST)?;
        }
        self.total = list as u64;
        Ok(())
    }
}

impl Device {
    /// Executes a work request that changes a key.
    pub(super) fn execute_umr(&mut self, qpn: u32, wqe: &Wqe) -> Outcome {
        let Some(qp) = self.objects.qps.get(qpn) else { return Outcome::Done { bytes: 0 } };
        let (who, driver) = (qp.accessor(qpn), qp.service == Service::Umr);
        let mut list = vec![0; wqe.list_length()];
        if let Err(fault) = self.read_list(&mut list, wqe, who, driver) {
            return Outcome::Failed(local_syndrome(fault));
        }
        let Some(context) = wqe.bytes.get(CONTEXT..).and_then(|rest| rest.first_chunk()) else {
            return Outcome::Failed(WqeSyndrome::LocalQpOperation);
        };
        let flag = |field| wqe.umr(field) == 1;
        let offset = if flag(wqe_umr::TRANSLATION_OFFSET) {
            wqe.umr(wqe_umr::OFFSET_47_16) << OFFSET_LOW_BITS | wqe.umr(wqe_umr::OFFSET_15_0)
        } else {
            0
        };
        let change = Change {
            key: wqe.immediate,
            who,
            driver,
            check_free: flag(wqe_umr::CHECK_FREE),
            check_not_free: flag(wqe_umr::CHECK_NOT_FREE),
            check_qpn: flag(wqe_umr::CHECK_QPN),
            mask: wqe.umr(wqe_umr::MASK),
            context,
            offset,
            list: &list,
        };
        match self.objects.change_key(&change) {
            Ok(()) => Outcome::Done { bytes: 0 },
            Err(refusal) => {
                tracing::debug!(
                    "QP {qpn:#x}: key {:#x} stays: {refusal:?}, mask {:#x}",
                    change.key,
                    change.mask
                );
                Outcome::Failed(WqeSyndrome::MemoryWindowBind)
            }
        }
    }

    /// Gathers the list from the work request or from behind its data segment.
    fn read_list(
        &self,
        list: &mut [u8],
        wqe: &Wqe,
        mut who: Accessor,
        driver: bool,
    ) -> Result<(), TransferFault> {
        if let (true, Some(Piece::Memory { key, .. })) = (driver, wqe.pieces.first()) {
            // The driver's own QP has no domain; its lists lie in that of their key.
            who.pd = self.objects.mkeys.owner_domain(who.guest, *key).unwrap_or(who.pd);
        }
        let store = Store { keys: &self.objects.mkeys, guests: &self.guests, steps: &self.engine.key_steps };
        let mut source = End::new(&wqe.pieces, &wqe.bytes, who, Access::LocalRead);
        source.check(store, list.len() as u64)?;
        source.read(store, list)
    }
}

//! The adapter as a whole: life cycle, interface step, pages, identity.

use std::collections::{BTreeMap, HashSet};

use crate::{
    bits::Field,
    command::{
        mailbox::{Input, Output},
        opcode::Opcode,
        status::{Refusal, Status, Syndrome},
    },
    device::Device,
    fields::{command_out, manage_pages_in, query_adapter_param_block, query_issi_out, set_issi_in},
    guest::Phase,
    hw::PAGE_BYTES,
    objects::{GuestId, Kind, OwnNumbers},
    report::Held,
};

/// The interface steps: 0 and 1. Step 1 makes the drivers use CREATE_XRC_SRQ and CREATE_RMP.
const SUPPORTED_ISSI: u64 = 0b11;
const MAX_ISSI: u64 = 1;

/// Pages that a device of this size asks for before and after INIT_HCA. The model does not use them: it wants
/// them so that drivers give and reclaim some.
const BOOT_PAGES: usize = 4;
const INIT_PAGES: usize = 16;
/// The most that it takes.
const MAX_PAGES: usize = 1 << 16;

/// Variants of QUERY_PAGES.
const QUERY_BOOT: u16 = 1;
const QUERY_INIT: u16 = 2;
const QUERY_REGULAR: u16 = 3;
/// Variants of MANAGE_PAGES.
const PAGES_CANNOT_GIVE: u16 = 0;
const PAGES_GIVE: u16 = 1;
const PAGES_RECLAIM: u16 = 2;
/// Where its page lists are.
const PAGE_LIST: usize = 16;
const PAGE_ENTRY_BYTES: usize = 8;

/// Where QUERY_ADAPTER has its block.
const ADAPTER: usize = 16;
const VENDOR_OUI: u64 = 0x2c9;
const BOARD: &[u8] = b"XRC0000000001";

impl Device {
    /// Whether the command may be issued now.
    pub fn check_phase(&self, guest: GuestId, opcode: Opcode) -> Result<(), Refusal> {
        use Opcode::*;
        let phase = self.guests[guest].phase;
        let fits = match opcode {
            ENABLE_HCA => phase == Phase::Disabled,
            INIT_HCA => phase == Phase::Enabled,
            NOP | QUERY_ISSI | SET_ISSI | QUERY_PAGES | MANAGE_PAGES | QUERY_HCA_CAP | SET_HCA_CAP
            | QUERY_ADAPTER | ACCESS_REG | DISABLE_HCA => phase >= Phase::Enabled,
            _ => phase == Phase::Running,
        };
        if fits { Ok(()) } else { Err(Refusal::new(Status::BadSystemState, Syndrome::WrongPhase)) }
    }

    /// ENABLE_HCA.
    pub fn enable_hca(&mut self, guest: GuestId) -> Result<(), Refusal> {
        self.guests[guest].phase = Phase::Enabled;
        Ok(())
    }

    /// INIT_HCA.
    pub fn init_hca(&mut self, guest: GuestId) -> Result<(), Refusal> {
        self.guests[guest].phase = Phase::Running;
        Ok(())
    }

    fn numbers_held(&self, guest: GuestId) -> impl Iterator<Item = (Kind, OwnNumbers<'_>)> {
        let members: OwnNumbers = Box::new(self.fabric.memberships(guest));
        let others = self.guests[guest].held().chain([(Kind::MulticastMember, members)]);
        self.objects.held(guest).chain(others)
    }

    /// The guest's objects, by kind and number: all of them, however many.
    pub fn objects_held(&self, guest: GuestId) -> BTreeMap<Kind, Vec<u32>> {
        let all = self.numbers_held(guest).map(|(kind, numbers)| (kind, numbers.collect::<Vec<_>>()));
        all.filter(|(_, numbers)| !numbers.is_empty()).collect()
    }

    /// All that the guest holds.
    pub fn held(&self, guest: GuestId) -> Held {
        Held::new(self.numbers_held(guest), self.guests[guest].pages.len())
    }

    /// Ends everything of the guest's but its pages.
    pub fn drop_objects(&mut self, guest: GuestId) {
        self.fabric.forget(guest);
        self.fabric.forget_port(self.guests[guest].lid);
        self.objects.clear(guest);
        let o = &self.objects;
        self.engine.forget_timers(|n| o.qps.get(n).is_some() || o.cqs.get(n).is_some());
        let guest = &mut self.guests[guest];
        guest.eqs.clear();
        guest.uars.clear();
    }

    /// TEARDOWN_HCA.
    pub fn teardown_hca(&mut self, guest: GuestId) -> Result<(), Refusal> {
        let held = Held::new(self.numbers_held(guest), 0);
        if !held.objects.is_empty() {
            tracing::warn!("guest {}: TEARDOWN_HCA with objects: {held:?}", guest + 1);
        }
        self.drop_objects(guest);
        self.guests[guest].activity.torn_down(held);
        self.guests[guest].phase = Phase::Enabled;
        self.save_report();
        Ok(())
    }

    /// DISABLE_HCA.
    pub fn disable_hca(&mut self, guest: GuestId) -> Result<(), Refusal> {
        let held = self.held(guest);
        if !held.is_nothing() {
            tracing::warn!("guest {}: DISABLE_HCA with {held:?}", guest + 1);
        }
        self.drop_objects(guest);
        let g = &mut self.guests[guest];
        g.activity.disabled(held);
        g.pages.clear();
        g.capabilities = Default::default();
        g.phase = Phase::Disabled;
        self.save_report();
        Ok(())
    }

    /// QUERY_ISSI.
    pub fn query_issi(&mut self, output: &mut Output) -> Result<(), Refusal> {
        output.set(query_issi_out::SUPPORTED_ISSI_DW0, SUPPORTED_ISSI);
        Ok(())
    }

    /// SET_ISSI.
    pub fn set_issi(&mut self, input: &Input) -> Result<(), Refusal> {
        if input.get(set_issi_in::CURRENT_ISSI) > MAX_ISSI {
            return Err(Refusal::parameter(Syndrome::BadAttribute));
        }
        Ok(())
    }

    /// QUERY_PAGES.
    pub fn query_pages(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let wanted = match input.variant() {
            QUERY_BOOT => BOOT_PAGES,
            QUERY_INIT => BOOT_PAGES + INIT_PAGES,
            QUERY_REGULAR => 0,
            _ => return Err(Refusal::parameter(Syndrome::UnknownVariant)),
        };
        let missing = wanted.saturating_sub(self.guests[guest].pages.len());
        output.set(command_out::NUM_PAGES, missing as u64);
        Ok(())
    }

    /// MANAGE_PAGES.
    pub fn manage_pages(
        &mut self,
        guest: GuestId,
        input: &Input,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        let count = input.get(manage_pages_in::INPUT_NUM_ENTRIES) as usize;
        let pages = &mut self.guests[guest].pages;
        match input.variant() {
            PAGES_CANNOT_GIVE => Ok(()),
            PAGES_GIVE => {
                let given = input.pages(PAGE_LIST);
                if given.len() < count || pages.len() + count > MAX_PAGES {
                    return Err(Refusal::parameter(Syndrome::ShortPageList));
                }
                let mut known: HashSet<u64> = pages.iter().copied().collect();
                let given = &given[..count];
                if !given.iter().all(|p| p % PAGE_BYTES == 0 && known.insert(*p)) {
                    return Err(Refusal::parameter(Syndrome::BadPage));
                }
                pages.extend_from_slice(given);
                Ok(())
            }
            PAGES_RECLAIM => {
                let room = output.len().saturating_sub(PAGE_LIST) / PAGE_ENTRY_BYTES;
                let back = pages.split_off(pages.len() - pages.len().min(count).min(room));
                for (i, page) in back.iter().enumerate() {
                    output.put(PAGE_LIST + i * PAGE_ENTRY_BYTES, &page.to_be_bytes());
                }
                output.set(command_out::COUNT, back.len() as u64);
                Ok(())
            }
            _ => Err(Refusal::parameter(Syndrome::UnknownVariant)),
        }
    }

    /// QUERY_ADAPTER.
    pub fn query_adapter(&mut self, output: &mut Output) -> Result<(), Refusal> {
        let at = |field: Field| field.within(ADAPTER);
        output.set(at(query_adapter_param_block::IEEE_VENDOR_ID), VENDOR_OUI);
        output.put(at(query_adapter_param_block::VSD_CONTD_PSID).byte(), BOARD);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(variant: u16, count: u32, list: &[u64]) -> Input {
        let mut b = vec![0; 16];
        b[6..8].copy_from_slice(&variant.to_be_bytes());
        b[12..16].copy_from_slice(&count.to_be_bytes());
        list.iter().for_each(|p| b.extend_from_slice(&p.to_be_bytes()));
        Input::new(b)
    }

    #[test]
    fn the_very_pages_come_back() {
        let mut d = Device::new(1);
        let mut o = Output::new(16 + 3 * 8);
        let give = |d: &mut Device, count, list: &[u64]| {
            d.manage_pages(0, &pages(PAGES_GIVE, count, list), &mut Output::new(16))
        };
        give(&mut d, 2, &[0x1000, 0x2000]).unwrap();
        assert!(give(&mut d, 1, &[0x1000]).is_err(), "twice");
        assert!(give(&mut d, 2, &[0x7000, 0x7000]).is_err(), "twice in one list");
        assert!(give(&mut d, 1, &[0x1001]).is_err(), "crooked");
        assert!(give(&mut d, u32::MAX, &[0x3000]).is_err(), "fewer than said");
        d.manage_pages(0, &pages(PAGES_RECLAIM, u32::MAX, &[]), &mut o).unwrap();
        assert_eq!(o.bytes()[8..12], [0, 0, 0, 2]);
        assert_eq!(o.bytes()[16..32], [0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x20, 0]);
        assert!(d.held(0).is_nothing());
    }

    #[test]
    fn commands_have_their_time() {
        let mut d = Device::new(1);
        assert!(d.check_phase(0, Opcode::CREATE_CQ).is_err());
        assert!(d.check_phase(0, Opcode::DISABLE_HCA).is_err());
        d.enable_hca(0).unwrap();
        assert!(d.check_phase(0, Opcode::ENABLE_HCA).is_err());
        d.init_hca(0).unwrap();
        assert!(d.check_phase(0, Opcode::CREATE_CQ).is_ok());
        d.teardown_hca(0).unwrap();
        assert!(d.check_phase(0, Opcode::CREATE_CQ).is_err());
        d.disable_hca(0).unwrap();
        assert!(d.guests[0].activity.driver_removals[0].clean);
    }
}

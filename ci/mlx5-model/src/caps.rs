//! What the device can do: the capability pages, and what a driver chooses of them.

use crate::{
    bits::{Field, put},
    command::{
        mailbox::{Input, Output},
        status::{Refusal, Syndrome},
    },
    cq::LOG_MAX_CQ_SIZE,
    device::{CLOCK_KHZ, Device},
    eq::{LOG_MAX_EQ_SIZE, LOG_MAX_EQS},
    fields::{atomic_caps, cmd_hca_cap as general},
    hw::{LOG_MAX_MESSAGE, PAGE_SHIFT},
    mkey::{LOG_MAX_LIST, MAX_INDIRECTION},
    objects::{GuestId, LOG_MAX_MKEYS, LOG_MAX_OBJECTS},
    qp::LOG_MAX_QUEUE,
};

/// Size of a capability page.
const PAGE: usize = 4096;
/// Where QUERY_HCA_CAP and SET_HCA_CAP have it.
const CAPABILITY: usize = 16;

/// The pages that the model has.
const GENERAL: u16 = 0;
const ATOMIC: u16 = 3;
/// Lowest bit of the variant: what is in force rather than what is possible.
const CURRENT: u16 = 1;

/// Most QPs of a guest in a multicast group.
pub const MAX_GROUP_MEMBERS: usize = 64;
/// Log of the most multicast groups of a guest.
pub const LOG_MAX_GROUPS: u64 = 8;
/// Log of the longest memory region.
pub const LOG_MAX_REGION: u64 = 40;
/// Longest work requests, bytes: whole blocks, and no more than a length of 6 bits in units of 16 bytes can say.
const MAX_WQE_SEND: u64 = 960;
const MAX_WQE_RECEIVE: u64 = 512;

/// Operations and operand sizes of atomics.
const COMPARE_SWAP: u64 = 1;
const FETCH_ADD: u64 = 2;
const EIGHT_BYTES: u64 = 8;

const GENERAL_VALUES: &[(Field, u64)] = &[
    (general::LOG_MAX_SRQ_SZ, LOG_MAX_QUEUE),
    (general::LOG_MAX_QP_SZ, LOG_MAX_QUEUE),
    (general::LOG_MAX_QP, LOG_MAX_OBJECTS as u64),
    (general::LOG_MAX_SRQ, LOG_MAX_OBJECTS as u64),
    (general::LOG_MAX_CQ_SZ, LOG_MAX_CQ_SIZE),
    (general::LOG_MAX_CQ, LOG_MAX_OBJECTS as u64),
    (general::LOG_MAX_EQ_SZ, LOG_MAX_EQ_SIZE),
    (general::LOG_MAX_MKEY, LOG_MAX_MKEYS as u64),
    (general::LOG_MAX_EQ, LOG_MAX_EQS as u64),
    (general::MAX_INDIRECTION, MAX_INDIRECTION as u64),
    (general::LOG_MAX_MRW_SZ, LOG_MAX_REGION),
    (general::UMR_EXTENDED_TRANSLATION_OFFSET, 1),
    (general::LOG_MAX_KLM_LIST_SIZE, LOG_MAX_LIST as u64),
    (general::LOG_MAX_RA_REQ_QP, 4),
    (general::LOG_MAX_RA_RES_QP, 4),
    // The codes of the shortest tables: 8 GIDs, 128 P_Keys.
    (general::GID_TABLE_SIZE, 0),
    (general::PKEY_TABLE_SIZE, 0),
    (general::IB_VIRT, 1),
    (general::LOCAL_CA_ACK_DELAY, 16),
    (general::PORT_TYPE, 0),
    (general::NUM_PORTS, 1),
    (general::LOG_MAX_MSG, LOG_MAX_MESSAGE as u64),
    (general::CQE_VERSION, 1),
    (general::REPEATED_BLOCK_DISABLED, 0),
    (general::UMR_MODIFY_ENTITY_SIZE_DISABLED, 0),
    (general::IMAICL, 1),
    (general::CQ_RESIZE, 1),
    (general::CQ_MODERATION, 1),
    (general::ATOMIC, 1),
    (general::XRC, 1),
    (general::UD, 1),
    (general::UC, 1),
    (general::RC, 1),
    (general::LOG_PG_SZ, PAGE_SHIFT as u64),
    (general::BF, 0),
    (general::LOG_BF_REG_SIZE, 9),
    (general::MAX_WQE_SZ_SQ, MAX_WQE_SEND),
    (general::MAX_WQE_SZ_RQ, MAX_WQE_RECEIVE),
    (general::MAX_QP_MCG, MAX_GROUP_MEMBERS as u64),
    (general::LOG_MAX_MCG, LOG_MAX_GROUPS),
    (general::LOG_MAX_TRANSPORT_DOMAIN, LOG_MAX_OBJECTS as u64),
    (general::LOG_MAX_PD, LOG_MAX_OBJECTS as u64),
    (general::LOG_MAX_XRCD, LOG_MAX_OBJECTS as u64),
    (general::DEVICE_FREQUENCY_KHZ, CLOCK_KHZ),
    (general::LOG_MAX_RMP, LOG_MAX_OBJECTS as u64),
];

const ATOMIC_VALUES: &[(Field, u64)] = &[
    (atomic_caps::ATOMIC_REQ_8B_ENDIANNESS_MODE, 1),
    (atomic_caps::SUPPORTED_ATOMIC_REQ_8B_ENDIANNESS_MODE_1, 1),
    (atomic_caps::ATOMIC_OPERATIONS, COMPARE_SWAP | FETCH_ADD),
    (atomic_caps::ATOMIC_SIZE_QP, EIGHT_BYTES),
];

fn page(values: &[(Field, u64)]) -> Box<[u8; PAGE]> {
    let mut page = Box::new([0; PAGE]);
    for (field, value) in values {
        field.set(&mut page[..], *value);
    }
    page
}

/// The pages in force for a guest. They follow what its driver sets and bind the model to nothing.
#[derive(Clone, Debug)]
pub struct Capabilities {
    general: Box<[u8; PAGE]>,
    atomic: Box<[u8; PAGE]>,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { general: page(GENERAL_VALUES), atomic: page(ATOMIC_VALUES) }
    }
}

impl Capabilities {
    fn page(&self, kind: u16) -> Option<&[u8; PAGE]> {
        match kind {
            GENERAL => Some(&self.general),
            ATOMIC => Some(&self.atomic),
            _ => None,
        }
    }
}

impl Device {
    /// QUERY_HCA_CAP.
    pub fn query_hca_cap(
        &mut self,
        guest: GuestId,
        input: &Input,
        output: &mut Output,
    ) -> Result<(), Refusal> {
        let (kind, current) = (input.variant() >> 1, input.variant() & CURRENT != 0);
        let maximum = Capabilities::default();
        let from = if current { &self.guests[guest].capabilities } else { &maximum };
        let page = from.page(kind).ok_or(Refusal::parameter(Syndrome::UnknownVariant))?;
        output.put(CAPABILITY, &page[..]);
        Ok(())
    }

    /// SET_HCA_CAP.
    pub fn set_hca_cap(&mut self, guest: GuestId, input: &Input) -> Result<(), Refusal> {
        let in_force = &mut self.guests[guest].capabilities;
        let wanted = input.rest(CAPABILITY);
        match input.variant() >> 1 {
            GENERAL => put(&mut in_force.general[..], 0, wanted),
            // Drivers leave the rest of this page empty: only the mode is theirs to choose.
            ATOMIC => atomic_caps::ATOMIC_REQ_8B_ENDIANNESS_MODE.copy(wanted, &mut in_force.atomic[..]),
            _ => return Err(Refusal::parameter(Syndrome::UnknownVariant)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_fits_its_field() {
        let c = Capabilities::default();
        for (values, page) in [(GENERAL_VALUES, &c.general), (ATOMIC_VALUES, &c.atomic)] {
            for (field, value) in values {
                assert_eq!(field.get(&page[..]), *value, "{field:?}");
            }
        }
    }

    #[test]
    fn unknown_pages_and_overlong_ones() {
        let mut d = Device::new(1);
        let mut o = Output::new(32);
        let mut i = vec![0xff; 16 + 2 * PAGE];
        i[6..8].copy_from_slice(&7u16.to_be_bytes());
        assert!(d.set_hca_cap(0, &Input::new(i.clone())).is_ok());
        i[6..8].copy_from_slice(&20u16.to_be_bytes());
        assert!(d.set_hca_cap(0, &Input::new(i.clone())).is_err());
        assert!(d.query_hca_cap(0, &Input::new(i), &mut o).is_err());
    }
}

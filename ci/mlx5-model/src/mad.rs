//! Management datagrams: the head that all have, and the agents of the port that MAD_IFC reaches.

use crate::{
    bits::{Field, be16, put},
    command::{
        mailbox::{Input, Output},
        status::{Refusal, Status, Syndrome},
    },
    device::Device,
    guest::{GID_PREFIX, Guest, SM_LID},
    objects::GuestId,
    port,
};

/// Length of every management datagram.
pub const MAD_BYTES: usize = 256;
/// Where MAD_IFC has it.
const MAD: usize = 16;

/// Fields of the head.
pub mod head {
    use super::Field;
    /// Management class.
    pub const CLASS: Field = Field::new(8, 8);
    /// Method.
    pub const METHOD: Field = Field::new(24, 8);
    /// Status; in directed-route datagrams the top bit is a direction.
    pub const STATUS: Field = Field::new(32, 16);
    /// Attribute.
    pub const ATTRIBUTE: Field = Field::new(128, 16);
}

/// Methods.
pub mod method {
    /// Read.
    pub const GET: u8 = 0x01;
    /// Write.
    pub const SET: u8 = 0x02;
    /// Read a list.
    pub const GET_TABLE: u8 = 0x12;
    /// Take away.
    pub const DELETE: u8 = 0x15;
    /// Answer to GET and SET.
    pub const GET_RESPONSE: u8 = 0x81;
    /// A response has this bit.
    pub const RESPONSE: u8 = 0x80;
}

/// Status: the method does not go with the attribute.
pub const STATUS_UNSUPPORTED: u16 = 0x000c;

/// Classes that the port's agents answer.
const CLASS_SUBNET_LID: u8 = 0x01;
const CLASS_SUBNET_DIRECTED: u8 = 0x81;
const CLASS_PERFORMANCE: u8 = 0x04;
/// Bytes of a LID-routed subnet management or performance attribute, and where it is.
const ATTRIBUTE_AT: usize = 64;

/// Attributes of subnet management.
const NODE_DESCRIPTION: u16 = 0x0010;
const NODE_INFO: u16 = 0x0011;
const PORT_INFO: u16 = 0x0015;
/// Attributes of performance management.
const CLASS_PORT_INFO: u16 = 0x0001;
const PORT_COUNTERS: u16 = 0x0012;
const PORT_COUNTERS_EXTENDED: u16 = 0x001d;

/// Versions of the classes in ClassPortInfo.
const CLASS_VERSION: u8 = 1;
/// NodeInfo: channel adapter, one port.
const NODE_INFO_HEAD: [u8; 4] = [1, 1, 1, 1];
const NODE_INFO_GUIDS: usize = 4;

/// PortInfo: places of its fields.
mod port_info {
    pub const GID_PREFIX: usize = 8;
    pub const LID: usize = 16;
    pub const SM_LID: usize = 18;
    pub const CAPABILITY_MASK: usize = 20;
    pub const LOCAL_PORT: usize = 28;
    /// Link width enabled, supported and active.
    pub const WIDTHS: usize = 29;
    /// Speeds supported; state.
    pub const STATE: usize = 32;
    /// Physical state; the state that a link starts in, polling.
    pub const PHYSICAL_STATE: usize = 33;
    /// Speed active; speeds enabled.
    pub const SPEED: usize = 35;
    /// MTU of the neighbour; service level to the subnet manager.
    pub const NEIGHBOUR_MTU: usize = 36;
    /// MTU that the port is capable of, in the lower half.
    pub const MTU: usize = 41;
}
/// Four lanes of 10 Gb/s, and MTU 4096, as PortInfo codes them.
const FOUR_LANES: u8 = 2;
const SPEED: u8 = 4;
const MTU: u8 = 5;

/// PortInfo of the guest's port.
fn port_info(guest: &Guest) -> [u8; MAD_BYTES - ATTRIBUTE_AT] {
    let mut info = [0; MAD_BYTES - ATTRIBUTE_AT];
    let (physical, state) = guest.port_states();
    put(&mut info, port_info::GID_PREFIX, &GID_PREFIX.to_be_bytes());
    put(&mut info, port_info::LID, &guest.lid.to_be_bytes());
    put(&mut info, port_info::SM_LID, &SM_LID.to_be_bytes());
    put(&mut info, port_info::CAPABILITY_MASK, &guest.capability_mask.to_be_bytes());
    info[port_info::LOCAL_PORT] = port::NUMBER as u8;
    put(&mut info, port_info::WIDTHS, &[FOUR_LANES; 3]);
    info[port_info::STATE] = SPEED << 4 | state as u8;
    info[port_info::PHYSICAL_STATE] = (physical << 4 | port::POLLING) as u8;
    info[port_info::SPEED] = SPEED << 4 | SPEED;
    info[port_info::NEIGHBOUR_MTU] = MTU << 4;
    info[port_info::MTU] = MTU;
    info
}

/// Answers a datagram to one of the port's agents; counters are not kept and read as zero.
fn answer(guest: &Guest, mad: &[u8; MAD_BYTES]) -> [u8; MAD_BYTES] {
    let mut out = *mad;
    let (class, attribute) = (head::CLASS.get(mad) as u8, be16(mad, head::ATTRIBUTE.byte()));
    head::METHOD.set(&mut out, method::GET_RESPONSE.into());
    let subnet = matches!(class, CLASS_SUBNET_LID | CLASS_SUBNET_DIRECTED);
    let is_get = head::METHOD.get(mad) == u64::from(method::GET);
    let status = match (class, attribute) {
        (_, NODE_DESCRIPTION) if subnet && is_get => {
            put(&mut out, ATTRIBUTE_AT, &guest.node_description);
            0
        }
        (_, NODE_INFO) if subnet && is_get => {
            put(&mut out, ATTRIBUTE_AT, &NODE_INFO_HEAD);
            for n in 0..3 {
                put(&mut out, ATTRIBUTE_AT + NODE_INFO_GUIDS + n * 8, &guest.guid.to_be_bytes());
            }
            0
        }
        (_, PORT_INFO) if subnet && is_get => {
            put(&mut out, ATTRIBUTE_AT, &port_info(guest));
            0
        }
        (CLASS_PERFORMANCE, CLASS_PORT_INFO) if is_get => {
            put(&mut out, ATTRIBUTE_AT, &[CLASS_VERSION, CLASS_VERSION]);
            0
        }
        (CLASS_PERFORMANCE, PORT_COUNTERS | PORT_COUNTERS_EXTENDED) => {
            // All but the first word, which says which port and counters were asked for.
            out[ATTRIBUTE_AT + 4..].fill(0);
            0
        }
        _ => STATUS_UNSUPPORTED,
    };
    head::STATUS.set(&mut out, status.into());
    out
}

impl Device {
    /// MAD_IFC.
    pub fn mad_ifc(&mut self, guest: GuestId, input: &Input, output: &mut Output) -> Result<(), Refusal> {
        let mad: [u8; MAD_BYTES] = input.context(MAD)?;
        if head::METHOD.get(&mad) as u8 & method::RESPONSE != 0 {
            return Err(Refusal::new(Status::BadPacket, Syndrome::BadMad));
        }
        output.put(MAD, &answer(&self.guests[guest], &mad));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(class: u8, method: u8, attribute: u16) -> [u8; MAD_BYTES] {
        let mut m = [0x55; MAD_BYTES];
        head::CLASS.set(&mut m, class.into());
        head::METHOD.set(&mut m, method.into());
        head::ATTRIBUTE.set(&mut m, attribute.into());
        answer(&Guest::new(0), &m)
    }

    #[test]
    fn agents_answer_what_they_know() {
        let a = ask(1, method::GET, NODE_DESCRIPTION);
        assert_eq!((&a[64..77], a[3], be16(&a, 4)), (&b"software mlx5"[..], 0x81, 0));
        let a = ask(0x81, method::GET, PORT_INFO);
        assert_eq!((&a[80..84], a[96], a[97], be16(&a, 4)), (&[0, 2, 0, 1][..], 0x44, 0x52, 0));
        let a = ask(4, method::GET, PORT_COUNTERS);
        assert_eq!((&a[64..68], &a[68..]), (&[0x55; 4][..], &[0; 188][..]));
        for (class, m, attribute) in
            [(1, method::SET, NODE_INFO), (4, method::GET, 0x15), (7, method::GET, 1)]
        {
            assert_eq!(be16(&ask(class, m, attribute), 4), STATUS_UNSUPPORTED);
        }
    }
}

//! Management datagrams: the head that all have, and the agents of the port that MAD_IFC reaches.

use crate::{
    bits::{Field, be16, put},
    command::{
        mailbox::{Input, Output},
        status::{Refusal, Status, Syndrome},
    },
    device::Device,
    guest::Guest,
    objects::GuestId,
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
/// Attributes of performance management.
const CLASS_PORT_INFO: u16 = 0x0001;
const PORT_COUNTERS: u16 = 0x0012;
const PORT_COUNTERS_EXTENDED: u16 = 0x001d;

/// Versions of the classes in ClassPortInfo.
const CLASS_VERSION: u8 = 1;
/// NodeInfo: channel adapter, one port.
const NODE_INFO_HEAD: [u8; 4] = [1, 1, 1, 1];
const NODE_INFO_GUIDS: usize = 4;

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
        let a = ask(4, method::GET, PORT_COUNTERS);
        assert_eq!((&a[64..68], &a[68..]), (&[0x55; 4][..], &[0; 188][..]));
        for (class, m, attribute) in
            [(1, method::SET, NODE_INFO), (4, method::GET, 0x15), (7, method::GET, 1)]
        {
            assert_eq!(be16(&ask(class, m, attribute), 4), STATUS_UNSUPPORTED);
        }
    }
}

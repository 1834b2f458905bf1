//! The subnet administrator: paths, multicast membership, and what it says of itself.
//!
//! All that the connection manager and IPoIB ask. A fabric of guests on one wire has one answer to most questions:
//! the default partition, service level 0, MTU 4096.

use crate::{
    bits::{Field, be16, be64, put},
    device::Device,
    fabric::Gid,
    hw::DEFAULT_PKEY,
    mad::{MAD_BYTES, STATUS_UNSUPPORTED, head, method},
};

/// Attributes.
const CLASS_PORT_INFO: u16 = 0x0001;
const PATH_RECORD: u16 = 0x0035;
const MC_MEMBER_RECORD: u16 = 0x0038;

/// Where the record is, how long it may be, and what comes before it.
const RECORD: usize = 56;
const ATTRIBUTE_OFFSET: Field = Field::new(44 * 8, 16);
const COMPONENT_MASK: usize = 48;
/// The segmentation head of lists.
const RMPP: usize = 24;
/// Version 1, data, the only segment.
const RMPP_ONLY_SEGMENT: [u8; 4] = [1, 1, 0x07, 0];
const RMPP_SEGMENT_NUMBER: u32 = 1;
/// What a segment's length counts besides the records.
const SA_HEAD_BYTES: u32 = 20;

/// Status of the class.
const STATUS_NO_RECORDS: u16 = 0x0300;
const STATUS_REQUEST_INVALID: u16 = 0x0200;

/// Codes with "exactly" in the top bits: MTU 4096, 10 Gb/s, about 0.27 s.
const MTU: u8 = 0x80 | 5;
const RATE: u8 = 0x80 | 3;
const LIFETIME: u8 = 0x80 | 16;

/// PathRecord: places and mask bits.
mod path {
    pub const BYTES: u32 = 64;
    pub const DESTINATION_GID: usize = 8;
    pub const SOURCE_GID: usize = 24;
    pub const DLID: usize = 40;
    pub const SLID: usize = 42;
    pub const REVERSIBLE: usize = 49;
    pub const PKEY: usize = 50;
    pub const MTU: usize = 54;
    pub const RATE: usize = 55;
    pub const LIFETIME: usize = 56;
    pub const HAS_DGID: u64 = 1 << 2;
    pub const HAS_DLID: u64 = 1 << 4;
    /// Reversible, one path.
    pub const ONE_REVERSIBLE: u8 = 0x81;
}

/// MCMemberRecord: places and mask bits.
mod member {
    pub const UNITS: u64 = 7;
    pub const Q_KEY: usize = 32;
    pub const MLID: usize = 36;
    pub const MTU: usize = 38;
    pub const PKEY: usize = 40;
    pub const RATE: usize = 42;
    pub const LIFETIME: usize = 43;
    pub const SCOPE: usize = 48;
    pub const HAS_Q_KEY: u64 = 1 << 2;
    /// Link-local scope, in the upper half of its byte.
    pub const LINK_LOCAL: u8 = 0x20;
    /// The kinds of membership, in the lower half, and the usual one.
    pub const JOIN_STATE: u8 = 0x0f;
    pub const FULL: u8 = 1;
}

/// ClassPortInfo: base and class version, and the response time.
const VERSIONS: [u8; 2] = [1, 2];
const RESPONSE_TIME_AT: usize = 7;
const RESPONSE_TIME: u8 = 18;

/// Answers a request that came from the LID; `None` to what is no request.
pub fn answer(device: &mut Device, from: u16, request: &[u8]) -> Option<[u8; MAD_BYTES]> {
    let mut mad: [u8; MAD_BYTES] = *request.first_chunk()?;
    let asked = head::METHOD.get(&mad) as u8;
    if asked & method::RESPONSE != 0 {
        return None;
    }
    let attribute = be16(&mad, head::ATTRIBUTE.byte());
    // GET and SET have the same answer; the others have their own.
    let answered = if asked == method::SET { method::GET_RESPONSE } else { asked | method::RESPONSE };
    head::METHOD.set(&mut mad, answered.into());
    let status = match (attribute, asked) {
        (CLASS_PORT_INFO, method::GET) => class_port_info(&mut mad),
        (PATH_RECORD, method::GET | method::GET_TABLE) => path_record(device, from, &mut mad, asked),
        (MC_MEMBER_RECORD, method::GET | method::SET | method::DELETE) => {
            member_record(device, from, &mut mad, asked)
        }
        _ => STATUS_UNSUPPORTED,
    };
    head::STATUS.set(&mut mad, status.into());
    tracing::debug!("SA: method {asked:#x}, attribute {attribute:#x}: status {status:#x}");
    Some(mad)
}

fn class_port_info(mad: &mut [u8; MAD_BYTES]) -> u16 {
    mad[RECORD..].fill(0);
    put(mad, RECORD, &VERSIONS);
    mad[RECORD + RESPONSE_TIME_AT] = RESPONSE_TIME;
    0
}

fn path_record(device: &Device, from: u16, mad: &mut [u8; MAD_BYTES], asked: u8) -> u16 {
    let mask = be64(mad, COMPONENT_MASK);
    let to = if mask & path::HAS_DGID != 0 {
        let gid = RECORD + path::DESTINATION_GID;
        device.guest_with_gid(&mad[gid..gid + 16])
    } else if mask & path::HAS_DLID != 0 {
        device.guest_at(be16(mad, RECORD + path::DLID))
    } else {
        device.guest_at(from)
    };
    let (Some(to), Some(source)) = (to, device.guest_at(from)) else { return STATUS_NO_RECORDS };
    let (to, source) = (&device.guests[to], &device.guests[source]);
    put(mad, RECORD + path::DESTINATION_GID, &to.gid());
    put(mad, RECORD + path::SOURCE_GID, &source.gid());
    put(mad, RECORD + path::DLID, &to.lid.to_be_bytes());
    put(mad, RECORD + path::SLID, &source.lid.to_be_bytes());
    mad[RECORD + path::REVERSIBLE] = path::ONE_REVERSIBLE;
    put(mad, RECORD + path::PKEY, &DEFAULT_PKEY.to_be_bytes());
    mad[RECORD + path::MTU] = MTU;
    mad[RECORD + path::RATE] = RATE;
    mad[RECORD + path::LIFETIME] = LIFETIME;
    ATTRIBUTE_OFFSET.set(mad, u64::from(path::BYTES / 8));
    if asked == method::GET_TABLE {
        put(mad, RMPP, &RMPP_ONLY_SEGMENT);
        put(mad, RMPP + 4, &RMPP_SEGMENT_NUMBER.to_be_bytes());
        put(mad, RMPP + 8, &(SA_HEAD_BYTES + path::BYTES).to_be_bytes());
    }
    0
}

fn member_record(device: &mut Device, from: u16, mad: &mut [u8; MAD_BYTES], asked: u8) -> u16 {
    let Some(&gid) = mad[RECORD..].first_chunk::<16>() else { return STATUS_REQUEST_INVALID };
    let gid: Gid = gid;
    let has_q_key = be64(mad, COMPONENT_MASK) & member::HAS_Q_KEY != 0;
    let q_key = has_q_key.then(|| crate::bits::be32(mad, RECORD + member::Q_KEY));
    // A request that names no kind of membership means a full one.
    let states = match mad[RECORD + member::SCOPE] & member::JOIN_STATE {
        0 => member::FULL,
        states => states,
    };
    let group = match asked {
        method::SET => device.fabric.join(gid, q_key, from, states),
        method::DELETE => device.fabric.leave(gid, from, states),
        _ => device.fabric.group(&gid).cloned(),
    };
    let Some(group) = group else {
        return if asked == method::GET { STATUS_NO_RECORDS } else { STATUS_REQUEST_INVALID };
    };
    put(mad, RECORD + member::Q_KEY, &group.q_key.to_be_bytes());
    put(mad, RECORD + member::MLID, &group.mlid.to_be_bytes());
    mad[RECORD + member::MTU] = MTU;
    put(mad, RECORD + member::PKEY, &DEFAULT_PKEY.to_be_bytes());
    mad[RECORD + member::RATE] = RATE;
    mad[RECORD + member::LIFETIME] = LIFETIME;
    mad[RECORD + member::SCOPE] |= member::LINK_LOCAL;
    ATTRIBUTE_OFFSET.set(mad, member::UNITS);
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::BROADCAST;

    fn request(asked: u8, attribute: u16, mask: u64, record: &[(usize, &[u8])]) -> Vec<u8> {
        let mut m = vec![0; MAD_BYTES];
        m[1] = 3;
        m[3] = asked;
        head::ATTRIBUTE.set(&mut m, attribute.into());
        put(&mut m, COMPONENT_MASK, &mask.to_be_bytes());
        record.iter().for_each(|(at, b)| put(&mut m, RECORD + at, b));
        m
    }

    #[test]
    fn a_path_leads_to_the_gid_and_back() {
        let mut d = Device::new(2);
        let (from, to) = (d.guests[0].lid, d.guests[1].gid());
        let r = request(method::GET, PATH_RECORD, path::HAS_DGID, &[(path::DESTINATION_GID, &to)]);
        let a = answer(&mut d, from, &r).unwrap();
        assert_eq!((a[3], be16(&a, 4)), (0x81, 0));
        assert_eq!(be16(&a, RECORD + path::DLID), d.guests[1].lid);
        assert_eq!(be16(&a, RECORD + path::SLID), from);
        let r = request(method::GET_TABLE, PATH_RECORD, path::HAS_DGID, &[(path::DESTINATION_GID, &to)]);
        let a = answer(&mut d, from, &r).unwrap();
        assert_eq!((a[3], &a[RMPP..RMPP + 12]), (0x92, &[1, 1, 7, 0, 0, 0, 0, 1, 0, 0, 0, 84][..]));
    }

    #[test]
    fn nobody_is_no_record() {
        let mut d = Device::new(1);
        let r = request(method::GET, PATH_RECORD, path::HAS_DGID, &[(path::DESTINATION_GID, &[9; 16])]);
        assert_eq!(be16(&answer(&mut d, 2, &r).unwrap(), 4), STATUS_NO_RECORDS);
        assert_eq!(be16(&answer(&mut d, 0x999, &r).unwrap(), 4), STATUS_NO_RECORDS);
    }

    #[test]
    fn joins_and_leaves() {
        let mut d = Device::new(1);
        let a = answer(&mut d, 2, &request(method::SET, MC_MEMBER_RECORD, 1, &[(0, &BROADCAST)])).unwrap();
        assert_eq!((be16(&a, 4), be16(&a, RECORD + member::MLID)), (0, 0xc000));
        let mut other = BROADCAST;
        other[15] = 1;
        let get = request(method::GET, MC_MEMBER_RECORD, 1, &[(0, &other)]);
        assert_eq!(be16(&answer(&mut d, 2, &get).unwrap(), 4), STATUS_NO_RECORDS);
        let set = request(method::SET, MC_MEMBER_RECORD, 5, &[(0, &other), (member::Q_KEY, &[1, 2, 3, 4])]);
        answer(&mut d, 2, &set).unwrap();
        let a = answer(&mut d, 2, &get).unwrap();
        assert_eq!(a[RECORD + member::Q_KEY..][..4], [1, 2, 3, 4]);
        let a = answer(&mut d, 2, &request(method::DELETE, MC_MEMBER_RECORD, 1, &[(0, &other)])).unwrap();
        assert_eq!((a[3], be16(&a, 4)), (0x95, 0));
        assert_eq!(be16(&answer(&mut d, 2, &get).unwrap(), 4), STATUS_NO_RECORDS, "nobody is left");
        let again = request(method::DELETE, MC_MEMBER_RECORD, 1, &[(0, &other)]);
        assert_eq!(be16(&answer(&mut d, 2, &again).unwrap(), 4), STATUS_REQUEST_INVALID);
    }

    #[test]
    fn answers_no_answers_and_nothing_short() {
        let mut d = Device::new(1);
        assert!(answer(&mut d, 2, &request(0x81, PATH_RECORD, 0, &[])).is_none());
        assert!(answer(&mut d, 2, &[0; 255]).is_none());
        let a = answer(&mut d, 2, &request(method::GET, 0x31, 0, &[])).unwrap();
        assert_eq!(be16(&a, 4), STATUS_UNSUPPORTED);
    }
}

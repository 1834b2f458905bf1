//! What one side of a connection tells the other.

use crate::{Gid, Lid, Mtu, Psn, QpNumber, SrqNumber};
use std::{fmt, str::FromStr};
use thiserror::Error;

/// What one side tells the other so that both can connect: its address, its initiator, its target and
/// the SRQ that receives.
///
/// It goes over any channel that the program has: as [bytes](Self::to_bytes) of fixed length, or as one
/// word of text through [`Display`](fmt::Display) and [`FromStr`]. Both forms begin with a version, and
/// both refuse what is not exactly an endpoint.
///
/// The peer connects its *target* to this `initiator`, and its *initiator* to this `target`.
///
/// ```
/// # use rdma_xrc::{Endpoint, Lid, Mtu, Psn, QpNumber, SrqNumber};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let endpoint = Endpoint {
///     lid: Lid::new(3),
///     gid: None,
///     mtu: Mtu::Mtu4096,
///     initiator: QpNumber::try_from(0x41)?,
///     initiator_psn: Psn::random(),
///     target: QpNumber::try_from(0x42)?,
///     target_psn: Psn::random(),
///     srq: SrqNumber::try_from(7)?,
/// };
/// assert_eq!(Endpoint::from_bytes(&endpoint.to_bytes())?, endpoint);
/// assert_eq!(endpoint.to_string().parse::<Endpoint>()?, endpoint);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The port's LID, [`Lid::NONE`] on Ethernet.
    pub lid: Lid,
    /// The port's GID, where the side chose one.
    pub gid: Option<Gid>,
    /// The port's active MTU.
    pub mtu: Mtu,
    /// The side's initiator.
    pub initiator: QpNumber,
    /// The sequence number that the initiator begins with.
    pub initiator_psn: Psn,
    /// The side's target.
    pub target: QpNumber,
    /// The sequence number that the target begins with.
    pub target_psn: Psn,
    /// The SRQ that receives for this side.
    pub srq: SrqNumber,
}

/// Why bytes or a text are no [`Endpoint`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Bytes or characters missing, or too many.
    #[error("an endpoint has {expected} bytes, not {found}")]
    Length {
        /// What this form has.
        expected: usize,
        /// What there was.
        found: usize,
    },
    /// It does not begin as an endpoint does.
    #[error("it does not begin as an endpoint does")]
    Magic,
    /// A version that this crate does not speak.
    #[error("endpoint version {0}; this crate speaks version {version}", version = VERSION)]
    Version(u8),
    /// A field holds what it cannot hold.
    #[error("the field {0} holds no valid value")]
    Field(&'static str),
}

const MAGIC: [u8; 4] = *b"XRCE";
const VERSION: u8 = 1;

impl Endpoint {
    /// Length of the byte form.
    pub const WIRE_LEN: usize = 44;
    /// Length of the text form.
    pub const TEXT_LEN: usize = 79;

    /// The byte form, all numbers in network order: magic "XRCE" (4), version (1), MTU code (1), LID (2),
    /// GID or zeros (16), initiator and its PSN, target and its PSN, SRQ (4 each).
    pub fn to_bytes(&self) -> [u8; Self::WIRE_LEN] {
        let mut bytes = [0; Self::WIRE_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.mtu.code();
        bytes[6..8].copy_from_slice(&self.lid.get().to_be_bytes());
        bytes[8..24].copy_from_slice(&self.gid.unwrap_or_default().bytes());
        for (field, number) in bytes[24..].chunks_exact_mut(4).zip(self.numbers()) {
            field.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Reads the byte form.
    ///
    /// # Errors
    /// Anything but an endpoint of this version, whole and with every number in its range, is refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EndpointError> {
        // Magic and version first: another version may have another length.
        let head = &bytes[..bytes.len().min(MAGIC.len())];
        if head != &MAGIC[..head.len()] {
            return Err(EndpointError::Magic);
        }
        match bytes.get(MAGIC.len()) {
            Some(&version) if version != VERSION => return Err(EndpointError::Version(version)),
            _ => {}
        }
        let Ok(bytes) = <&[u8; Self::WIRE_LEN]>::try_from(bytes) else {
            return Err(EndpointError::Length { expected: Self::WIRE_LEN, found: bytes.len() });
        };
        let mut gid = [0; 16];
        gid.copy_from_slice(&bytes[8..24]);
        let mut numbers = [0; 5];
        for (number, field) in numbers.iter_mut().zip(bytes[24..].chunks_exact(4)) {
            *number = u32::from_be_bytes([field[0], field[1], field[2], field[3]]);
        }
        Self::checked(bytes[5], u16::from_be_bytes([bytes[6], bytes[7]]), gid, numbers)
    }

    fn numbers(&self) -> [u32; 5] {
        [
            self.initiator.get(),
            self.initiator_psn.get(),
            self.target.get(),
            self.target_psn.get(),
            self.srq.get(),
        ]
    }

    /// The one place where values from outside become an endpoint.
    fn checked(mtu: u8, lid: u16, gid: [u8; 16], numbers: [u32; 5]) -> Result<Self, EndpointError> {
        let lid = Lid::new(lid);
        if lid > Lid::MAX_UNICAST {
            return Err(EndpointError::Field("LID"));
        }
        // Numbers 0 and 1 are the management queue pairs of every port.
        let qp = |number, name| match QpNumber::try_from(number) {
            Ok(qp) if number > 1 => Ok(qp),
            _ => Err(EndpointError::Field(name)),
        };
        let psn = |number, name| Psn::try_from(number).map_err(|_| EndpointError::Field(name));
        let gid = Gid::from_bytes(gid);
        Ok(Self {
            lid,
            gid: (!gid.is_zero()).then_some(gid),
            mtu: Mtu::from_code(mtu.into()).ok_or(EndpointError::Field("MTU"))?,
            initiator: qp(numbers[0], "initiator")?,
            initiator_psn: psn(numbers[1], "initiator PSN")?,
            target: qp(numbers[2], "target")?,
            target_psn: psn(numbers[3], "target PSN")?,
            srq: SrqNumber::try_from(numbers[4]).map_err(|_| EndpointError::Field("SRQ"))?,
        })
    }
}

/// One word of fixed length, numbers in hexadecimal:
/// `xrc1:MTU:LID:GID:INITIATOR:PSN:TARGET:PSN:SRQ`.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xrc{VERSION}:{:x}:{:04x}:", self.mtu.code(), self.lid.get())?;
        write!(f, "{:032x}", u128::from_be_bytes(self.gid.unwrap_or_default().bytes()))?;
        self.numbers().iter().try_for_each(|number| write!(f, ":{number:06x}"))
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        // Magic and version first, as in the byte form. Nothing looks at more than a first few bytes
        // before the length is known to be right.
        const LONGEST_HEAD: usize = "xrc255:".len();
        let wrong_length = EndpointError::Length { expected: Self::TEXT_LEN, found: text.len() };
        let head = text.as_bytes().get(..LONGEST_HEAD).unwrap_or(text.as_bytes());
        match head.iter().position(|&byte| byte == b':') {
            Some(end) => {
                let version = text.get(..end).and_then(|word| word.strip_prefix("xrc"));
                match version.and_then(|version| version.parse().ok()) {
                    Some(VERSION) => {}
                    Some(version) => return Err(EndpointError::Version(version)),
                    None => return Err(EndpointError::Magic),
                }
            }
            // Cut off within its head, or something else.
            None if format!("xrc{VERSION}").as_bytes().starts_with(head) => return Err(wrong_length),
            None => return Err(EndpointError::Magic),
        }
        if text.len() != Self::TEXT_LEN {
            return Err(wrong_length);
        }
        let mut fields = text.split(':').skip(1);
        let mut field = |width, name| hex(fields.next(), width).ok_or(EndpointError::Field(name));
        let mtu = field(1, "MTU")? as u8;
        let lid = field(4, "LID")? as u16;
        let gid = field(32, "GID")?.to_be_bytes();
        let mut numbers = [0; 5];
        for (number, name) in
            numbers.iter_mut().zip(["initiator", "initiator PSN", "target", "target PSN", "SRQ"])
        {
            *number = field(6, name)? as u32;
        }
        // The lengths add up to TEXT_LEN, so no field can be left over.
        Self::checked(mtu, lid, gid, numbers)
    }
}

/// Exactly `width` lower-case hexadecimal digits, at most 32.
fn hex(field: Option<&str>, width: usize) -> Option<u128> {
    let field = field.filter(|field| field.len() == width)?;
    let digits = field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    digits.then(|| u128::from_str_radix(field, 16).ok()).flatten()
}

/// As one word of text where the format is for people, else as the byte form.
#[cfg(feature = "serde")]
impl serde::Serialize for Endpoint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_bytes(&self.to_bytes())
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Endpoint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Endpoint;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an endpoint of version {VERSION}")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Endpoint, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Endpoint, E> {
                Endpoint::from_bytes(bytes).map_err(E::custom)
            }
        }
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(Visitor)
        } else {
            deserializer.deserialize_bytes(Visitor)
        }
    }
}

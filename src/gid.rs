//! Global identifiers: GUIDs, GIDs and the entries of a port's GID table.

use std::{fmt, net::Ipv6Addr, str::FromStr};

/// A 64-bit identifier of a node, a port or a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(u64);

impl Guid {
    /// From a number in host order.
    pub const fn new(guid: u64) -> Self {
        Self(guid)
    }

    /// The number in host order.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = [self.0 >> 48, self.0 >> 32, self.0 >> 16, self.0].map(|part| part & 0xffff);
        write!(f, "{a:04x}:{b:04x}:{c:04x}:{d:04x}")
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({self})")
    }
}

/// A 128-bit global identifier of a port: subnet prefix and interface id, or an IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gid([u8; 16]);

impl Gid {
    /// From its bytes in network order.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes in network order.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Whether it is all zero, which names nothing.
    pub fn is_zero(self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({self})")
    }
}

impl FromStr for Gid {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ipv6Addr::from_str(text).map(|address| Self(address.octets()))
    }
}

/// What a GID table entry is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GidType {
    /// InfiniBand.
    InfiniBand,
    /// RoCE version 1: Ethernet frames.
    RoceV1,
    /// RoCE version 2: UDP.
    RoceV2,
    /// A type that this crate does not know.
    Unknown(u32),
}

/// One entry of a port's GID table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GidEntry {
    /// Its index in the port's table.
    pub index: u32,
    /// What it is for.
    pub gid_type: GidType,
    /// The identifier.
    pub gid: Gid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms() {
        assert_eq!(Guid::new(0x0002_c903_00a1_b2c3).to_string(), "0002:c903:00a1:b2c3");
        let gid: Gid = "fe80::2:c903:a1:b2c3".parse().unwrap();
        assert_eq!(gid.to_string(), "fe80::2:c903:a1:b2c3");
        assert_eq!(gid.bytes()[..2], [0xfe, 0x80]);
        assert!(!gid.is_zero() && Gid::default().is_zero());
        assert!("fe80::".repeat(3).parse::<Gid>().is_err());
    }
}

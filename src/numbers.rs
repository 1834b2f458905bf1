//! The numbers of the wire, each a type of its own so that none is taken for another.

use std::fmt;
use thiserror::Error;

/// A number that does not fit its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{value:#x} is no {what}: it has {bits} bits")]
pub struct NumberError {
    what: &'static str,
    bits: u32,
    value: u32,
}

macro_rules! number24 {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The largest, 2^24 - 1.
            pub const MAX: Self = Self(0xff_ffff);

            /// The number itself.
            pub const fn get(self) -> u32 {
                self.0
            }

            /// The lower 24 bits, for numbers that come from a device.
            pub(crate) const fn masked(value: u32) -> Self {
                Self(value & Self::MAX.0)
            }
        }

        impl TryFrom<u32> for $name {
            type Error = NumberError;

            fn try_from(value: u32) -> Result<Self, NumberError> {
                if value > Self::MAX.0 {
                    return Err(NumberError { what: $what, bits: 24, value });
                }
                Ok(Self(value))
            }
        }

        impl From<$name> for u32 {
            fn from(number: $name) -> u32 {
                number.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "0x{:06x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "(0x{:06x})"), self.0)
            }
        }
    };
}

number24! {
    /// The number of a queue pair, 24 bits.
    QpNumber, "queue pair number"
}
number24! {
    /// The number of an XRC SRQ, 24 bits: it selects the receiver of a message.
    ///
    /// A type of its own, so that a queue pair's number is never taken for it:
    /// ```compile_fail,E0308
    /// # use rdma_xrc::{QpNumber, SrqNumber};
    /// fn receiver(_: SrqNumber) {}
    /// receiver(QpNumber::try_from(1).unwrap());
    /// ```
    /// ```
    /// # use rdma_xrc::SrqNumber;
    /// fn receiver(_: SrqNumber) {}
    /// receiver(SrqNumber::try_from(1).unwrap());
    /// ```
    SrqNumber, "SRQ number"
}
number24! {
    /// A packet sequence number, 24 bits.
    Psn, "packet sequence number"
}

impl Psn {
    /// A random one, for the start of a connection.
    pub fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        // A thread's first RandomState has keys from the operating system's generator, and each further one
        // differs; the hash makes unlike numbers of them.
        Self::masked((RandomState::new().hash_one(0u8) >> 16) as u32)
    }
}

/// A port's local identifier on an InfiniBand subnet. 0: none (Ethernet, or no subnet manager yet).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lid(u16);

impl Lid {
    /// No LID.
    pub const NONE: Self = Self(0);
    /// The largest that names a single port; those above are multicast.
    pub const MAX_UNICAST: Self = Self(0xbfff);

    /// Any number is a LID; see [`is_unicast`](Self::is_unicast).
    pub const fn new(lid: u16) -> Self {
        Self(lid)
    }

    /// The number itself.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Whether it names a single port: neither 0 nor multicast.
    pub const fn is_unicast(self) -> bool {
        self.0 != 0 && self.0 <= Self::MAX_UNICAST.0
    }
}

impl fmt::Display for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

impl fmt::Debug for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lid({self})")
    }
}

/// A path MTU: the payload of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    Mtu256 = 1,
    /// 512 bytes.
    Mtu512 = 2,
    /// 1024 bytes.
    Mtu1024 = 3,
    /// 2048 bytes.
    Mtu2048 = 4,
    /// 4096 bytes.
    Mtu4096 = 5,
}

impl Mtu {
    /// The size in bytes.
    pub const fn bytes(self) -> u32 {
        128 << self.code()
    }

    /// The code that verbs and the wire use, 1 to 5.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// From the code that verbs and the wire use; None for one that this crate does not know.
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Mtu256),
            2 => Some(Self::Mtu512),
            3 => Some(Self::Mtu1024),
            4 => Some(Self::Mtu2048),
            5 => Some(Self::Mtu4096),
            _ => None,
        }
    }

    /// From a size in bytes, as the tools' `-m` takes it.
    pub const fn from_bytes(bytes: u32) -> Option<Self> {
        match bytes {
            256 => Some(Self::Mtu256),
            512 => Some(Self::Mtu512),
            1024 => Some(Self::Mtu1024),
            2048 => Some(Self::Mtu2048),
            4096 => Some(Self::Mtu4096),
            _ => None,
        }
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_four_bits_and_not_one_more() {
        assert_eq!(QpNumber::try_from(0xff_ffff).unwrap(), QpNumber::MAX);
        let error = SrqNumber::try_from(0x100_0000).unwrap_err();
        assert_eq!(error.to_string(), "0x1000000 is no SRQ number: it has 24 bits");
        assert_eq!(Psn::masked(0xfe12_3456).get(), 0x12_3456);
    }

    #[test]
    fn random_sequence_numbers_differ() {
        let drawn: std::collections::HashSet<u32> = (0..64).map(|_| Psn::random().get()).collect();
        assert!(drawn.len() > 32, "64 draws of 2^24 gave only {} values", drawn.len());
    }

    #[test]
    fn mtu_codes_and_bytes_agree() {
        for code in 1..=5 {
            let mtu = Mtu::from_code(code).unwrap();
            assert_eq!(u32::from(mtu.code()), code);
            assert_eq!(Mtu::from_bytes(mtu.bytes()), Some(mtu));
        }
        assert_eq!(Mtu::Mtu4096.bytes(), 4096);
        assert_eq!((Mtu::from_code(0), Mtu::from_code(6), Mtu::from_bytes(1500)), (None, None, None));
    }

    #[test]
    fn multicast_lids_are_not_unicast() {
        assert!(!Lid::NONE.is_unicast());
        assert!(Lid::new(1).is_unicast());
        assert!(Lid::MAX_UNICAST.is_unicast());
        assert!(!Lid::new(0xc000).is_unicast());
    }
}

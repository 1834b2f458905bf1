//! How two ends are connected: the choices, and the path that follows from them.

use crate::{Endpoint, Error, ErrorKind, Gid, Lid, LinkLayer, LocalPort, Mtu, Result};

/// The choices of a connection. The defaults suit a quiet network.
///
/// ```
/// let options = rdma_xrc::ConnectOptions::new().rnr_retry(0).timeout(10);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectOptions {
    pub(crate) mtu: Option<Mtu>,
    pub(crate) service_level: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) min_rnr_timer: u8,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self { mtu: None, service_level: 0, timeout: 14, retry_count: 7, rnr_retry: 7, min_rnr_timer: 12 }
    }
}

impl ConnectOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Path MTU. Default: the smaller of both ports' active MTUs, which is also the largest allowed.
    pub fn mtu(mut self, mtu: Mtu) -> Self {
        self.mtu = Some(mtu);
        self
    }

    /// Service level, 0 to 15. Default 0.
    pub fn service_level(mut self, level: u8) -> Self {
        self.service_level = level;
        self
    }

    /// Time without an acknowledgement after which an initiator sends again, as an exponent: 4.096 µs
    /// times 2 to this, 0 (never) to 31. Default 14, about 67 ms.
    pub fn timeout(mut self, exponent: u8) -> Self {
        self.timeout = exponent;
        self
    }

    /// How often an initiator sends again before it gives up, 0 to 7. Default 7.
    pub fn retry_count(mut self, count: u8) -> Self {
        self.retry_count = count;
        self
    }

    /// How often an initiator tries again when the SRQ has no receive posted, 0 to 6; 7 is for ever.
    /// Default 7.
    pub fn rnr_retry(mut self, count: u8) -> Self {
        self.rnr_retry = count;
        self
    }

    /// How long a target tells initiators to wait when the SRQ has no receive posted, as a code of the
    /// InfiniBand specification, 0 to 31. Default 12, 0.64 ms.
    pub fn min_rnr_timer(mut self, code: u8) -> Self {
        self.min_rnr_timer = code;
        self
    }

    fn check(&self) -> std::result::Result<(), String> {
        for (name, value, max) in [
            ("service_level", self.service_level, 15),
            ("timeout", self.timeout, 31),
            ("retry_count", self.retry_count, 7),
            ("rnr_retry", self.rnr_retry, 7),
            ("min_rnr_timer", self.min_rnr_timer, 31),
        ] {
            if value > max {
                return Err(format!("{name} {value} is above {max}"));
            }
        }
        Ok(())
    }
}

/// A global route: what the GRH says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub destination: Gid,
    pub source_index: u8,
    pub hop_limit: u8,
}

/// The way to a peer, complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Path {
    pub port: u8,
    /// The longest message of the port.
    pub max_message: u32,
    pub pkey_index: u16,
    pub mtu: Mtu,
    pub service_level: u8,
    pub dlid: Lid,
    pub route: Option<Route>,
}

/// Enough for any fabric of today; a packet that stays on its subnet does not count it down.
const HOP_LIMIT: u8 = 64;

impl Path {
    /// Finds the way from a port to a peer. One that cannot work is refused here, before the driver
    /// would take it and send nothing.
    pub(crate) fn find(
        call: &'static str,
        local: &LocalPort,
        remote: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<Self> {
        let refused = |detail: String| {
            Error::refused(call, ErrorKind::InvalidInput, detail)
                .device(local.verbs().name())
                .object(format!("port {}", local.number()))
        };
        options.check().map_err(&refused)?;
        let largest = local.mtu().min(remote.mtu);
        let mtu = options.mtu.unwrap_or(largest);
        if mtu > largest {
            return Err(refused(format!("an MTU of {mtu}, and the path has {largest}")));
        }
        let ethernet = local.attributes().link_layer == LinkLayer::Ethernet;
        let route = match remote.gid {
            Some(destination) if ethernet || !remote.lid.is_unicast() || local.chosen_gid().is_some() => {
                let Some((source_index, _)) = local.chosen_gid() else {
                    return Err(refused(
                        "the peer is reached by its GID, and no GID of this port was chosen".into(),
                    ));
                };
                Some(Route { destination, source_index, hop_limit: HOP_LIMIT })
            }
            Some(_) => None,
            None if ethernet => {
                return Err(refused("the link is Ethernet, and the peer gave no GID".into()));
            }
            None if !remote.lid.is_unicast() => {
                return Err(refused(format!("the peer gave LID {} and no GID", remote.lid)));
            }
            None => None,
        };
        Ok(Self {
            port: local.number(),
            max_message: local.attributes().max_message,
            pkey_index: local.pkey(),
            mtu,
            service_level: options.service_level,
            dlid: remote.lid,
            route,
        })
    }
}

//! A port: its attributes, and its choice of addresses for connections.

use crate::{Context, Endpoint, Error, ErrorKind, Gid, Initiator, Lid, Mtu, Result, Target, XrcSrq, verbs};
use std::{fmt, sync::Arc};

/// The logical state of a port's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PortState {
    /// Nothing is known.
    NoChange,
    /// No link.
    Down,
    /// A link, and no subnet manager has been here.
    Init,
    /// Configured, and not yet active.
    Armed,
    /// Packets flow.
    Active,
    /// Active, with the link lost for a moment.
    ActiveDefer,
    /// A number that this crate does not know.
    Unknown(u32),
}

/// What carries a port's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LinkLayer {
    /// InfiniBand: ports have LIDs.
    InfiniBand,
    /// Ethernet (RoCE): ports have GIDs.
    Ethernet,
    /// The device does not say.
    Unspecified,
    /// A number that this crate does not know.
    Unknown(u8),
}

/// What a port says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortAttributes {
    /// The link's state.
    pub state: PortState,
    /// The port's LID; [`Lid::NONE`] on Ethernet or before a subnet manager assigned one.
    pub lid: Lid,
    /// The subnet manager's LID.
    pub sm_lid: Lid,
    /// How many low bits of the LID may vary by path.
    pub lmc: u8,
    /// The MTU in use.
    pub active_mtu: Mtu,
    /// The largest MTU.
    pub max_mtu: Mtu,
    /// What carries the packets.
    pub link_layer: LinkLayer,
    /// The longest message in bytes.
    pub max_message: u32,
    /// Length of the GID table.
    pub gid_table_len: u32,
    /// Length of the partition key table.
    pub pkey_table_len: u16,
    /// The link's width, as a code of the InfiniBand specification.
    pub active_width: u8,
    /// The link's speed, as a code of the InfiniBand specification.
    pub active_speed: u8,
    /// The physical state, as a code of the InfiniBand specification.
    pub physical_state: u8,
}

/// A port, as connections use it: its addresses and what of its tables they take.
///
/// On InfiniBand the LID suffices, and packets have a global route only where a GID was chosen with
/// [`gid_index`](Self::gid_index) on both sides. On Ethernet, or where the peer has no usable LID, that is
/// the only way.
pub struct LocalPort {
    context: Arc<verbs::context::Context>,
    number: u8,
    attributes: PortAttributes,
    pkey_index: u16,
    gid: Option<(u8, Gid)>,
}

impl LocalPort {
    /// Asks a port for its attributes. Partition key index 0 and no GID are chosen to begin with.
    ///
    /// # Errors
    /// As [`Context::port`].
    pub fn query(context: &Context, number: u8) -> Result<Self> {
        let attributes = context.port(number)?;
        Ok(Self { context: Arc::clone(context.verbs()), number, attributes, pkey_index: 0, gid: None })
    }

    /// Chooses the GID at an index of the port's table.
    ///
    /// # Errors
    /// If there is no GID at that index.
    pub fn gid_index(mut self, index: u8) -> Result<Self> {
        let gid = verbs::port::gid(&self.context, self.number, index.into())?;
        if gid.is_zero() {
            let detail = format!("the GID at index {index} is zero");
            return Err(Error::refused("LocalPort::gid_index", ErrorKind::InvalidInput, detail)
                .device(self.context.name())
                .object(format!("port {}", self.number)));
        }
        self.gid = Some((index, gid));
        Ok(self)
    }

    /// Chooses the partition key by its index in the port's table.
    pub fn pkey_index(mut self, index: u16) -> Self {
        self.pkey_index = index;
        self
    }

    /// The port's number.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// What the port said of itself.
    pub fn attributes(&self) -> &PortAttributes {
        &self.attributes
    }

    /// Its LID.
    pub fn lid(&self) -> Lid {
        self.attributes.lid
    }

    /// Its active MTU.
    pub fn mtu(&self) -> Mtu {
        self.attributes.active_mtu
    }

    /// The chosen GID.
    pub fn gid(&self) -> Option<Gid> {
        self.gid.map(|(_, gid)| gid)
    }

    /// What to tell a peer that is to connect to these.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceMismatch`] if they are of different devices, and [`ErrorKind::InvalidInput`] if
    /// the SRQ is not of the target's domain: no message of that target would reach it.
    pub fn endpoint(&self, initiator: &Initiator, target: &Target, srq: &XrcSrq) -> Result<Endpoint> {
        const CALL: &str = "LocalPort::endpoint";
        self.context.same(initiator.verbs().qp().context(), CALL, "initiator")?;
        self.context.same(target.verbs().qp().context(), CALL, "target")?;
        if !Arc::ptr_eq(target.verbs().domain(), srq.verbs().domain()) {
            let detail = "the SRQ and the target are of two XRC domains";
            return Err(Error::refused(CALL, ErrorKind::InvalidInput, detail).device(self.context.name()));
        }
        Ok(Endpoint {
            lid: self.lid(),
            gid: self.gid(),
            mtu: self.mtu(),
            initiator: initiator.qp_number(),
            initiator_psn: initiator.psn(),
            target: target.qp_number(),
            target_psn: target.psn(),
            srq: srq.number(),
        })
    }

    pub(crate) fn verbs(&self) -> &Arc<verbs::context::Context> {
        &self.context
    }

    pub(crate) fn pkey(&self) -> u16 {
        self.pkey_index
    }

    pub(crate) fn chosen_gid(&self) -> Option<(u8, Gid)> {
        self.gid
    }
}

impl fmt::Debug for LocalPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalPort")
            .field("device", &self.context.name())
            .field("number", &self.number)
            .field("lid", &self.lid())
            .field("gid", &self.gid())
            .finish_non_exhaustive()
    }
}

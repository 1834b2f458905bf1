//! What a port says of itself.
//!
//! # Safety
//! Queries only: each hands a live context and a structure of our own to be written.

use super::{
    context::Context,
    convert::{count_or_negative_errno, errno_value, minus_one_with_errno},
    sys::{self, ibv_gid, ibv_gid_entry, ibv_port_attr},
};
use crate::{
    Error, ErrorKind, Gid, GidEntry, GidType, Lid, LinkLayer, Mtu, PortAttributes, PortState, Result,
};
use std::ffi::c_int;

/// `ibv_query_port(3)`.
pub(crate) fn query(context: &Context, port: u8) -> Result<PortAttributes> {
    let mut attr = ibv_port_attr::default();
    // SAFETY: the context is live and the structure may be written.
    errno_value(unsafe { sys::ibv_query_port(context.as_ptr(), port, &raw mut attr) })
        .map_err(|source| on_port("ibv_query_port", context, port, source))?;
    let mtu = |code: u32| Mtu::from_code(code).unwrap_or(Mtu::Mtu256);
    Ok(PortAttributes {
        state: match attr.state {
            sys::IBV_PORT_NOP => PortState::NoChange,
            sys::IBV_PORT_DOWN => PortState::Down,
            sys::IBV_PORT_INIT => PortState::Init,
            sys::IBV_PORT_ARMED => PortState::Armed,
            sys::IBV_PORT_ACTIVE => PortState::Active,
            sys::IBV_PORT_ACTIVE_DEFER => PortState::ActiveDefer,
            other => PortState::Unknown(other),
        },
        lid: Lid::new(attr.lid),
        sm_lid: Lid::new(attr.sm_lid),
        lmc: attr.lmc,
        active_mtu: mtu(attr.active_mtu),
        max_mtu: mtu(attr.max_mtu),
        link_layer: match attr.link_layer {
            // The interface's own rule: a device that does not say is InfiniBand if it is an HCA.
            sys::IBV_LINK_LAYER_UNSPECIFIED => LinkLayer::Unspecified,
            sys::IBV_LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
            sys::IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
            other => LinkLayer::Unknown(other),
        },
        max_message: attr.max_msg_sz,
        gid_table_len: u32::try_from(attr.gid_tbl_len).unwrap_or(0),
        pkey_table_len: attr.pkey_tbl_len,
        active_width: attr.active_width,
        active_speed: attr.active_speed,
        physical_state: attr.phys_state,
    })
}

/// `ibv_query_gid(3)`.
pub(crate) fn gid(context: &Context, port: u8, index: u32) -> Result<Gid> {
    const VERB: &str = "ibv_query_gid";
    let mut gid = ibv_gid::default();
    let missing = format!("no GID at index {index}");
    let Ok(index) = c_int::try_from(index) else {
        return Err(Error::refused(VERB, ErrorKind::InvalidInput, missing)
            .device(context.name())
            .object(format!("port {port}")));
    };
    minus_one_with_errno(|| {
        // SAFETY: the context is live and the structure may be written.
        unsafe { sys::ibv_query_gid(context.as_ptr(), port, index, &raw mut gid) }
    })
    .map_err(|source| on_port(VERB, context, port, source).detail(missing))?;
    Ok(from_union(&gid))
}

/// `ibv_query_gid_table(3)`, the entries of one port.
pub(crate) fn gids(context: &Context, port: u8) -> Result<Vec<GidEntry>> {
    let ports = u32::from(context.attributes()?.ports);
    let mut room = 0;
    for port in 1..=ports.min(255) {
        room += query(context, port as u8)?.gid_table_len as usize;
    }
    let mut entries = vec![ibv_gid_entry::default(); room];
    // SAFETY: the context is live and there is room for as many entries as the call is told.
    let count = count_or_negative_errno(unsafe {
        sys::ibv_query_gid_table(context.as_ptr(), entries.as_mut_ptr(), room, 0)
    })
    .map_err(|source| on_port("ibv_query_gid_table", context, port, source))?;
    entries.truncate(count);
    let of_port = entries.iter().filter(|entry| entry.port_num == u32::from(port));
    let entries = of_port.map(|entry| GidEntry {
        index: entry.gid_index,
        gid_type: match entry.gid_type {
            sys::IBV_GID_TYPE_IB => GidType::InfiniBand,
            sys::IBV_GID_TYPE_ROCE_V1 => GidType::RoceV1,
            sys::IBV_GID_TYPE_ROCE_V2 => GidType::RoceV2,
            other => GidType::Unknown(other),
        },
        gid: from_union(&entry.gid),
    });
    Ok(entries.filter(|entry| !entry.gid.is_zero()).collect())
}

/// `ibv_query_pkey(3)`, in host order.
pub(crate) fn pkey(context: &Context, port: u8, index: u16) -> Result<u16> {
    let mut pkey = 0u16;
    minus_one_with_errno(|| {
        // SAFETY: the context is live and the number may be written.
        unsafe { sys::ibv_query_pkey(context.as_ptr(), port, index.into(), &raw mut pkey) }
    })
    .map_err(|source| {
        on_port("ibv_query_pkey", context, port, source).detail(format!("no partition key at index {index}"))
    })?;
    Ok(u16::from_be(pkey))
}

fn from_union(gid: &ibv_gid) -> Gid {
    // SAFETY: every bit pattern is valid for each of the union's forms.
    Gid::from_bytes(unsafe { gid.raw })
}

fn on_port(verb: &'static str, context: &Context, port: u8, source: std::io::Error) -> Error {
    Error::os(verb, source).device(context.name()).object(format!("port {port}"))
}

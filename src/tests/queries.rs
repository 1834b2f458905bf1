//! What devices and ports say, and what is refused before it is asked.

use super::open;
use crate::{ErrorKind, GidType, LinkLayer, Mtu, PortState, Transport, devices, verbs::fake::World};

#[test]
fn a_device_list() {
    let list = devices().unwrap();
    let names: Vec<String> = list.iter().map(|device| device.name()).collect();
    assert_eq!(names, ["fake0", "fake1", "plain0", "odd0", "stale0"]);
    let device = list.find("fake1").unwrap();
    assert_eq!(device.guid().to_string(), "0002:c903:00a1:b2c3");
    assert_eq!(device.driver().as_deref(), Some("mlx5_core.sf"));
    assert_eq!(list.find("odd0").unwrap().driver(), None);
    assert_eq!(device.transport(), Transport::InfiniBand);
    drop(list);
    assert_eq!(device.open().unwrap().device_name(), "fake1", "a device outlives its list");
}

#[test]
fn attributes_in_host_order_and_without_negative_counts() {
    let context = open("fake0");
    let attributes = context.attributes().unwrap();
    assert_eq!((attributes.firmware.as_str(), attributes.ports), ("1.2.3", 1));
    assert_eq!(attributes.node_guid.to_string(), "0002:c903:00a1:b2c3");
    assert_eq!((attributes.max_qp, attributes.max_mr), (1024, 0));
    assert!(attributes.xrc_flag);
}

#[test]
fn a_port() {
    let context = open("fake0");
    let port = context.port(1).unwrap();
    assert_eq!((port.state, port.link_layer, port.lid.get()), (PortState::Active, LinkLayer::InfiniBand, 3));
    assert_eq!((port.active_mtu, port.max_mtu), (Mtu::Mtu2048, Mtu::Mtu4096));
    for number in [0, 2, 255] {
        let error = context.port(number).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("ports 1 to 1"), "{error}");
    }
    World::of(context.verbs()).script("ibv_query_port", [libc::EIO]);
    let error = context.port(1).unwrap_err();
    assert!(error.to_string().contains("port 1") && error.to_string().contains("fake0"), "{error}");
}

#[test]
fn gids_and_partition_keys() {
    let context = open("fake0");
    let gids = context.gids(1).unwrap();
    assert_eq!(gids.len(), 1, "the zero one is left out");
    assert_eq!((gids[0].index, gids[0].gid_type), (0, GidType::InfiniBand));
    assert_eq!(gids[0].gid.to_string(), "fe80::2:c903:a1:b2c3");
    assert_eq!(context.gid(1, 0).unwrap(), gids[0].gid);
    assert!(context.gid(1, 1).unwrap().is_zero());
    assert_eq!(context.gid(1, 77).unwrap_err().errno(), Some(libc::ENODATA));
    let error = context.gid(1, u32::MAX).unwrap_err();
    assert!(error.to_string().contains("no GID at index 4294967295"), "{error}");
    assert!(context.gids(2).is_err());
    assert_eq!(context.pkey(1, 0).unwrap(), 0xffff);
    assert_eq!(context.pkey(1, 1).unwrap_err().errno(), Some(libc::EINVAL));
}

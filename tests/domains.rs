//! XRC domains on a device: the kernel's results, each as a kind of its own, and what a device says of
//! itself.

mod common;

use common::{Node, device, received, sent};
use rdma_xrc::{ConnectOptions, ErrorKind, QpState, XrcDomain, XrcSupport, devices};
use std::fs;

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_09_the_device_is_probed_by_opening_a_domain() {
    let context = device();
    let support = context.xrc_support();
    println!("{}: flag {}, {support:?}", context.device_name(), context.attributes().unwrap().xrc_flag);
    assert!(matches!(support, XrcSupport::Yes));
}

#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_18_the_domain_of_a_file() {
    let context = device();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("domain");
    let at = || context.open_xrc_domain(&path);
    let kind = |result: rdma_xrc::Result<XrcDomain>| {
        let error = result.unwrap_err();
        println!("{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error} does not name the path");
        error.kind()
    };
    assert_eq!(kind(at().open()), ErrorKind::NotFound, "no file");
    fs::write(&path, "").unwrap();
    assert_eq!(kind(at().open()), ErrorKind::NotFound, "a file, and nobody has its domain open");

    let first = at().create(true).exclusive(true).open().unwrap();
    assert_eq!(kind(at().exclusive(true).open()), ErrorKind::AlreadyExists);
    assert_eq!(kind(at().create(true).exclusive(true).open()), ErrorKind::AlreadyExists);
    let second = device();
    let shared = second.open_xrc_domain(&path).open().unwrap();
    first.close().unwrap();
    // It lives with its last holder, even when the name is gone and another file has it.
    fs::remove_file(&path).unwrap();
    let target = shared.create_target().unwrap();
    assert_eq!(target.state().unwrap(), QpState::Reset);
    fs::write(&path, "").unwrap();
    assert_eq!(kind(at().open()), ErrorKind::NotFound, "another inode");
    drop(target);
    shared.close().unwrap();
}

/// While a child lives the domain comes back; afterwards it closes. It still works in between.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn case_18_a_busy_domain_comes_back() {
    let mut node = Node::new();
    let pair = node.loopback(&ConnectOptions::new());
    let Node { domain, .. } = node;
    let (domain, error) = domain.close().unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, None), "{error}");
    node = Node { domain, ..node };
    node.post_receives(1);
    let mut pair = pair;
    pair.initiator.send_inline(node.srq.number(), b"still here", 0).unwrap();
    assert_eq!(received(&mut node.receive_cq).bytes, b"still here");
    sent(&mut node.send_cq);
    pair.target.close().unwrap();
    node.srq.close().unwrap();
    node.domain.close().unwrap();
}

/// Queries a port, its tables and the device, and compares what two of them say of the same.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn what_the_device_says_of_itself() {
    let context = device();
    let attributes = context.attributes().unwrap();
    let listed = devices().unwrap().find(context.device_name()).unwrap();
    println!("{listed:?}, driver {:?}\n{attributes:#?}", listed.driver());
    assert!(attributes.ports >= 1 && attributes.max_srq > 0 && attributes.max_cqe > 0);
    for number in 1..=attributes.ports {
        let port = context.port(number).unwrap();
        println!("port {number}: {port:?}");
        let gids = context.gids(number).unwrap();
        for entry in &gids {
            println!("  {entry:?}");
            assert_eq!(context.gid(number, entry.index).unwrap(), entry.gid);
        }
        assert_ne!(context.pkey(number, 0).unwrap() & 0x7fff, 0, "a partition");
    }
    assert_eq!(context.port(attributes.ports + 1).unwrap_err().kind(), ErrorKind::InvalidInput);
}

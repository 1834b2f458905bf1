//! A device test that is asked for, with no device, fails and says why. It is never skipped.

use std::process::Command;

/// The device tests live in binaries of their own; this one has one, so that it can run itself.
#[test]
#[ignore = "needs an XRC device: set RDMA_XRC_DEVICE, or run ci/lab test"]
fn the_device_opens() {
    let name = common::device().device_name().to_owned();
    assert_eq!(std::env::var("RDMA_XRC_DEVICE"), Ok(name));
}

mod common;

fn run(device: Option<&str>) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "the_device_opens"]);
    match device {
        Some(name) => command.env("RDMA_XRC_DEVICE", name),
        None => command.env_remove("RDMA_XRC_DEVICE"),
    };
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn asked_for_without_a_device_it_fails() {
    let (passed, text) = run(None);
    assert!(!passed && text.contains("RDMA_XRC_DEVICE is not set"), "{text}");
    let (passed, text) = run(Some("nosuch"));
    // Which of two reasons it is depends on the machine: other devices, or a kernel without any.
    let named = text.contains("no RDMA device \"nosuch\"") || text.contains("RDMA_XRC_DEVICE is \"nosuch\"");
    assert!(!passed && named, "{text}");
}

//! Events: each is raised by its real cause, once, in the queue that wants it, and says whom it is about.

mod driver;

use driver::Rig;
use mlx5_model::{command::opcode::Opcode, control, hw::EventType, hw::PortChange};

/// Obeys a line of the control protocol.
fn command(rig: &mut Rig, line: &str) {
    let answer = control::handle(&mut rig.device, line.as_bytes());
    assert_eq!(answer, b"{\"ok\":{}}\n", "{line}");
}

fn port_change(change: PortChange) -> (u64, u64, u64) {
    (EventType::PortChange as u64, change as u64, 1)
}

#[test]
fn a_port_goes_down_and_comes_up_once() {
    let mut rig = Rig::up("port", 2);
    let eqs = [0, 1].map(|guest| rig.async_eq(guest));
    for _ in 0..2 {
        command(&mut rig, r#"{"do":"port","node":2,"state":"down"}"#);
    }
    assert_eq!(rig.events(1, &eqs[1]), [port_change(PortChange::Down)]);
    for _ in 0..2 {
        command(&mut rig, r#"{"do":"port","node":2,"state":"up"}"#);
    }
    let both = [PortChange::Down, PortChange::Active].map(port_change);
    assert_eq!(rig.events(1, &eqs[1]), both);
    assert!(rig.events(0, &eqs[0]).is_empty(), "the other's port is up all the time");
}

#[test]
fn an_adapter_that_fails_loses_everything_and_can_be_started_anew() {
    let mut rig = Rig::up("fatal", 2);
    rig.async_eq(0);
    let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
    let other = rig.made(1, Opcode::ALLOC_PD, &[]);
    command(&mut rig, r#"{"do":"fatal","node":1}"#);
    let report = serde_json::to_value(rig.device.report()).unwrap();
    let (first, second) = (&report["guests"][0], &report["guests"][1]);
    assert_eq!(first["drops"][0]["cause"], "fatal");
    assert_eq!(first["drops"][0]["objects"]["pd"], serde_json::json!([pd]));
    assert_eq!(first["held"], serde_json::json!({"objects": {}, "counts": {}, "pages": 0}));
    assert_eq!((&second["held"]["objects"]["pd"][0], &second["drop_count"]), (&other.into(), &0.into()));
    // Commands are not even taken from the queue.
    let served = rig.device.guests[0].activity.commands;
    rig.issue(0, &[0; 16], 16);
    assert_eq!(rig.device.guests[0].activity.commands, served);
    // The driver comes back as it came first.
    rig.device.bar_write(0, 0x10, &0x1000u64.to_be_bytes());
    rig.ok(0, Opcode::ENABLE_HCA, &[], 16);
    rig.ok(0, Opcode::INIT_HCA, &[], 16);
    rig.made(0, Opcode::ALLOC_PD, &[]);
}

//! What a guest holds, and what is said of it when its driver leaves, its function is reset or its QEMU dies.

mod driver;

use driver::{Queue, Rig, Role, data, remote};
use mlx5_model::{
    command::opcode::Opcode,
    control,
    fields::{cqe, manage_pages_in},
    guest::Presence,
    hw::{CompletionOpcode, WqeOpcode, WqeSyndrome},
};
use serde_json::{Value, json};

const PAGES_GIVE: u8 = 1;

fn ask(rig: &mut Rig, line: &str) -> Value {
    let answer: Value = serde_json::from_slice(&control::handle(&mut rig.device, line.as_bytes())).unwrap();
    answer["ok"].clone()
}

fn guest(rig: &Rig, n: usize) -> Value {
    serde_json::to_value(rig.device.report()).unwrap()["guests"][n].clone()
}

/// Gives the device a page.
fn give_page(rig: &mut Rig, guest: usize) {
    let mut input = vec![0; 24];
    input[..2].copy_from_slice(&(Opcode::MANAGE_PAGES as u16).to_be_bytes());
    input[7] = PAGES_GIVE;
    manage_pages_in::INPUT_NUM_ENTRIES.set(&mut input, 1);
    input[16..].copy_from_slice(&0x7f_0000u64.to_be_bytes());
    assert_eq!(rig.raw(guest, &input, 16)[0], 0);
}

/// Makes one object of every kind; what `held` is to say of them.
fn one_of_each(rig: &mut Rig, guest: usize) -> Value {
    let pd = rig.made(guest, Opcode::ALLOC_PD, &[]);
    let xrcd = rig.made(guest, Opcode::ALLOC_XRCD, &[]);
    let transport = rig.made(guest, Opcode::ALLOC_TRANSPORT_DOMAIN, &[]);
    let cq = rig.cq(guest, 4).number;
    let mkey = rig.region(guest, pd).key >> 8;
    let srq = rig.xrc_srq(guest, pd, xrcd, cq).number;
    let qp = rig.qp(guest, pd, cq, Role::Initiator).number;
    let mut gid = [0xff; 16];
    gid[15] = guest as u8;
    assert_eq!(rig.status(guest, Opcode::ATTACH_TO_MCG, qp, &gid), 0);
    give_page(rig, guest);
    json!({
        "uar": [rig.uar[guest]], "eq": [rig.eqn[guest]], "pd": [pd], "xrcd": [xrcd],
        "transport_domain": [transport], "mkey": [mkey], "cq": [cq], "srq": [srq], "qp": [qp],
        "multicast_member": [qp],
    })
}

fn nothing() -> Value {
    json!({"objects": {}, "counts": {}, "pages": 0})
}

#[test]
fn every_kind_is_listed_by_number_and_node() {
    let mut rig = Rig::up("kinds", 2);
    let objects = one_of_each(&mut rig, 1);
    let counts: Value = objects.as_object().unwrap().keys().map(|kind| (kind.clone(), json!(1))).collect();
    let held = ask(&mut rig, r#"{"do":"held","node":2}"#);
    assert_eq!(held, json!({"objects": objects, "counts": counts, "pages": 1}));
    assert_eq!(guest(&rig, 1)["held"], held, "the report says the same");
    let first = ask(&mut rig, r#"{"do":"held","node":1}"#);
    assert_eq!(first["counts"], json!({"uar": 1, "eq": 1}));
    let all = ask(&mut rig, r#"{"do":"held"}"#);
    assert_eq!((&all[0]["counts"], &all[1]["objects"]), (&first["counts"], &objects));
}

#[test]
fn a_driver_that_leaves_is_told_apart_from_a_guest_that_goes() {
    let mut rig = Rig::up("leaving", 3);
    // Clean: everything is given back first.
    let (uar, eqn) = (rig.uar[0], rig.eqn[0]);
    assert_eq!(rig.status(0, Opcode::DESTROY_EQ, eqn, &[]), 0);
    assert_eq!(rig.status(0, Opcode::DEALLOC_UAR, uar, &[]), 0);
    rig.ok(0, Opcode::TEARDOWN_HCA, &[], 16);
    rig.ok(0, Opcode::DISABLE_HCA, &[], 16);
    let clean = guest(&rig, 0);
    assert_eq!((&clean["driver_removals"][0]["clean"], &clean["drop_count"]), (&json!(true), &json!(0)));
    // Not clean.
    let objects = one_of_each(&mut rig, 1);
    rig.ok(1, Opcode::TEARDOWN_HCA, &[], 16);
    rig.ok(1, Opcode::DISABLE_HCA, &[], 16);
    let unclean = guest(&rig, 1);
    assert_eq!(unclean["driver_removals"][0]["clean"], false);
    assert_eq!(unclean["driver_removals"][0]["objects_at_teardown"], objects);
    assert_eq!((&unclean["unclean_removal_count"], &unclean["drop_count"]), (&json!(1), &json!(0)));
    // Reset, killed: no removal of the driver at all.
    let objects = one_of_each(&mut rig, 2);
    rig.device.reset(2);
    let reset = guest(&rig, 2);
    assert_eq!((&reset["drops"][0]["cause"], &reset["drops"][0]["objects"]), (&json!("reset"), &objects));
    assert_eq!((&reset["drops"][0]["pages"], &reset["held"]), (&json!(1), &nothing()));
    rig.device.reset(2);
    assert_eq!(guest(&rig, 2)["drop_count"], 1, "a reset before any driver drops nothing");
    rig.device.disconnected(2, Presence::Disconnected);
    let gone = guest(&rig, 2);
    assert_eq!((&gone["drops"][1]["cause"], &gone["connection"]), (&json!("gone"), &json!("disconnected")));
    assert_eq!((&gone["drop_count"], &gone["driver_removal_count"]), (&json!(2), &json!(0)));
}

/// An RC QP of each guest towards the other's, and what the first writes with.
fn connected(rig: &mut Rig) -> (Queue, Queue, [[u8; 16]; 2]) {
    let pds = [0, 1].map(|guest| rig.made(guest, Opcode::ALLOC_PD, &[]));
    let cqs = [rig.cq(0, 4), rig.cq(1, 4)];
    let memory = [0, 1].map(|guest| rig.region(guest, pds[guest]));
    let qps = [0, 1].map(|guest| rig.qp(guest, pds[guest], cqs[guest].number, Role::Rc));
    rig.connect(0, qps[0].number, (1, qps[1].number), 1, 0);
    rig.connect(1, qps[1].number, (0, qps[0].number), 1, 0);
    let [sender, _] = qps;
    let [cq, _] = cqs;
    (sender, cq, [remote(memory[1]), data(memory[0], 8)])
}

#[test]
fn peers_of_a_guest_that_died_hear_nothing_and_live() {
    let mut rig = Rig::up("peers", 2);
    let (sender, cq, segments) = connected(&mut rig);
    let mut posted = rig.post(0, &sender, 0, WqeOpcode::Write as u8, &segments);
    rig.settle();
    assert_eq!(cqe::OPCODE.get(&rig.completion(0, &cq, 0)), CompletionOpcode::Requester as u64);
    rig.device.disconnected(1, Presence::Disconnected);
    posted = rig.post(0, &sender, posted, WqeOpcode::Write as u8, &segments);
    rig.post(0, &sender, posted, WqeOpcode::Write as u8, &segments);
    rig.settle();
    let syndromes = [1, 2].map(|n| cqe::SYNDROME.get(&rig.completion(0, &cq, n)));
    assert_eq!(syndromes, [WqeSyndrome::RetryExceeded, WqeSyndrome::Flushed].map(|s| s as u64));
    assert_eq!(guest(&rig, 0)["dma_faults"], 0);
    // Its numbers are nobody's, its port is off the wire.
    assert!(!rig.device.guests[1].is_on_the_wire());
    assert_eq!(ask(&mut rig, r#"{"do":"held","node":2}"#), nothing());
}

#[test]
fn nothing_comes_from_or_to_a_port_that_is_down_nor_a_failed_adapter() {
    for (name, line, heals) in [
        ("down-there", r#"{"do":"port","node":2,"state":"down"}"#, true),
        ("down-here", r#"{"do":"port","node":1,"state":"down"}"#, true),
        ("failed", r#"{"do":"fatal","node":2}"#, false),
    ] {
        let mut rig = Rig::up(name, 2);
        let (sender, cq, segments) = connected(&mut rig);
        ask(&mut rig, line);
        if heals {
            // Up again before the sender gives up: what was lost is sent once more.
            rig.post(0, &sender, 0, WqeOpcode::Write as u8, &segments);
            rig.device.run(1);
            ask(&mut rig, &line.replace("down", "up"));
            rig.settle();
            assert_eq!(cqe::OPCODE.get(&rig.completion(0, &cq, 0)), CompletionOpcode::Requester as u64);
            ask(&mut rig, line);
        }
        let posted = u16::from(heals);
        rig.post(0, &sender, posted, WqeOpcode::Write as u8, &segments);
        rig.settle();
        let syndrome = cqe::SYNDROME.get(&rig.completion(0, &cq, posted.into()));
        assert_eq!(syndrome, WqeSyndrome::RetryExceeded as u64, "{name}");
    }
}

//! No guest takes what is another's share, or makes what another does take longer.

mod driver;

use std::time::{Duration, Instant};

use driver::{KeyChange, Queue, Rig, Role, key_change};
use mlx5_model::{
    command::opcode::Opcode,
    fields::{cmd_hca_cap, cqc, mkc},
    hw::{ANY_QPN, AccessMode, WqeOpcode},
    mkey::change_mask as mask,
    objects::{Kind, LOG_MAX_MKEYS},
    report::MAX_NUMBERS,
};

/// Bytes of a key's context with the head of the list behind it.
const KEY: usize = 272 - 16;

/// A key that is free, of that domain, with room for so many units of 16 bytes.
fn free_key(mode: AccessMode, pd: u32, octwords: u64) -> Vec<u8> {
    let mut c = vec![0; KEY];
    for (field, value) in [
        (mkc::FREE, 1),
        (mkc::UMR_EN, 1),
        (mkc::ACCESS_MODE_1_0, mode as u64),
        (mkc::QPN, ANY_QPN.into()),
        (mkc::PD, pd.into()),
        (mkc::LOG_PAGE_SIZE, 12),
        (mkc::TRANSLATIONS_OCTWORD_SIZE, octwords),
    ] {
        field.set(&mut c, value);
    }
    c
}

/// A guest's CQ and its QP that changes keys.
fn key_changer(rig: &mut Rig, guest: usize) -> (Queue, Queue) {
    let cq = rig.cq(guest, 6);
    let keys = rig.qp(guest, 0, cq.number, Role::Keys);
    rig.connect(guest, keys.number, (guest, keys.number), 1, 1);
    (cq, keys)
}

#[test]
fn each_guest_has_as_many_objects_as_its_device_says() {
    let mut rig = Rig::up("objects", 2);
    let caps = rig.command(0, Opcode::QUERY_HCA_CAP, 0, &[], 16 + 4096);
    let most = 1 << cmd_hca_cap::LOG_MAX_PD.get(&caps[16..]);
    let mut made = rig.device.held(0).counts.get(&Kind::Pd).copied().unwrap_or_default();
    while rig.status(0, Opcode::ALLOC_PD, 0, &[]) == 0 {
        rig.history.clear();
        made += 1;
        assert!(made <= most);
    }
    assert_eq!(made, most);
    assert_eq!(rig.status(1, Opcode::ALLOC_PD, 0, &[]), 0);
    assert_eq!(rig.status(0, Opcode::ALLOC_XRCD, 0, &[]), 0, "another kind");
}

#[test]
fn lists_that_begin_far_off_count_for_what_they_take() {
    let mut rig = Rig::up("far", 2);
    let pd = rig.made(0, Opcode::ALLOC_PD, &[]);
    let (cq, keys) = key_changer(&mut rig, 0);
    let (mut block, mut refused) = (0, 0);
    for _ in 0..16 {
        let room = 1 << 21;
        let key = rig.made(0, Opcode::CREATE_MKEY, &free_key(AccessMode::PageList, pd, room)) << 8;
        let list = [[0; 16]; 4];
        let change = KeyChange { key, list: &list, offset: room - 4, ..KeyChange::default() };
        let errors = rig.device.guests[0].activity.work_request_errors.len();
        block = rig.post_with(0, &keys, block, WqeOpcode::Umr as u8, key, &key_change(&change));
        rig.settle();
        rig.drain(0, &cq);
        if rig.device.guests[0].activity.work_request_errors.len() > errors {
            refused += 1;
            break;
        }
    }
    assert_eq!(refused, 1);
    // 8 bytes each.
    assert!(rig.device.objects.listed_pages() <= 1 << 23, "{}", rig.device.objects.listed_pages());
    let at = rig.alloc(1, 64 << 12);
    let mut c = vec![0; KEY];
    cqc::LOG_CQ_SIZE.set(&mut c, 12);
    cqc::UAR_PAGE.set(&mut c, rig.uar[1].into());
    cqc::C_EQN_OR_APU_ELEMENT.set(&mut c, rig.eqn[1].into());
    for n in 0..64u64 {
        c.extend_from_slice(&(at + n * 0x1000).to_be_bytes());
    }
    assert_eq!(rig.status(1, Opcode::CREATE_CQ, 0, &c), 0);
}

/// The shortest time that one of several tries takes.
fn shortest(mut act: impl FnMut()) -> Duration {
    let times = (0..20).map(|_| {
        let began = Instant::now();
        act();
        began.elapsed()
    });
    times.min().unwrap_or_default()
}

#[test]
fn what_a_guest_does_takes_no_longer_for_anothers_objects() {
    let mut rig = Rig::up("longer", 2);
    let domains = |rig: &mut Rig| {
        shortest(|| {
            let pd = rig.made(1, Opcode::ALLOC_PD, &[]);
            assert_eq!(rig.status(1, Opcode::DEALLOC_PD, pd, &[]), 0);
            assert!(!rig.device.held(1).is_nothing());
        })
    };
    let alone = domains(&mut rig);
    let key = free_key(AccessMode::PageList, 0, 0);
    let before = rig.device.held(0).counts.get(&Kind::FreeMkey).copied().unwrap_or_default();
    for _ in before..1 << LOG_MAX_MKEYS {
        rig.history.clear();
        rig.made(0, Opcode::CREATE_MKEY, &key);
    }
    assert_ne!(rig.status(0, Opcode::CREATE_MKEY, 0, &key), 0);
    let beside = domains(&mut rig);
    // Looking at each of the keys would take thousands of times as long.
    assert!(beside < alone * 20, "{alone:?}, then {beside:?}");
    let held = rig.device.held(0);
    assert_eq!(
        (held.counts[&Kind::FreeMkey], held.objects[&Kind::FreeMkey].len()),
        (1 << LOG_MAX_MKEYS, MAX_NUMBERS)
    );
    assert!(held.objects[&Kind::FreeMkey].is_sorted());
}

#[test]
fn a_domain_is_in_use_while_a_key_of_its_own_guest_names_it() {
    let mut rig = Rig::up("named", 2);
    let (_, keys) = key_changer(&mut rig, 0);
    let [one, other] = [0; 2].map(|g| rig.made(g, Opcode::ALLOC_PD, &[]));
    let index = rig.made(0, Opcode::CREATE_MKEY, &free_key(AccessMode::PageList, one, 4));
    assert_ne!(rig.status(0, Opcode::DEALLOC_PD, one, &[]), 0);
    let context = [(mkc::PD, other.into())];
    let change = KeyChange { key: index << 8, mask: mask::PD, context: &context, ..KeyChange::default() };
    rig.post_with(0, &keys, 0, WqeOpcode::Umr as u8, index << 8, &key_change(&change));
    rig.settle();
    assert!(rig.device.guests[0].activity.work_request_errors.is_empty());
    assert_eq!(rig.status(0, Opcode::DEALLOC_PD, one, &[]), 0);
    assert_ne!(rig.status(0, Opcode::DEALLOC_PD, other, &[]), 0);
    assert_eq!(rig.status(0, Opcode::DESTROY_MKEY, index, &[]), 0);
    assert_eq!(rig.status(0, Opcode::DEALLOC_PD, other, &[]), 0);
    // Another guest's key may name anything.
    let theirs = rig.made(1, Opcode::ALLOC_PD, &[]);
    rig.made(0, Opcode::CREATE_MKEY, &free_key(AccessMode::PageList, theirs, 4));
    assert_eq!(rig.status(1, Opcode::DEALLOC_PD, theirs, &[]), 0);
}

//! What connecting sends to the driver, in which order, and what is left when it fails.

use super::Rig;
use crate::{
    ConnectOptions, Endpoint, ErrorKind, Gid, Lid, LocalPort, Mtu, PostErrorReason, QpState,
    attributes::{Attributes as A, Role, Transition},
};

fn masks(rig: &Rig, qp: u32) -> Vec<u32> {
    rig.world.modified().iter().filter(|call| call.qp_number == qp).map(|call| call.mask).collect()
}

#[test]
fn an_initiator_takes_a_requesters_attributes_and_no_other() {
    let rig = Rig::connected();
    let expected = [
        A::STATE | A::PKEY_INDEX | A::PORT | A::ACCESS_FLAGS,
        A::STATE | A::AV | A::PATH_MTU | A::DEST_QPN | A::RQ_PSN,
        A::STATE | A::TIMEOUT | A::RETRY_CNT | A::RNR_RETRY | A::SQ_PSN | A::MAX_QP_RD_ATOMIC,
    ];
    assert_eq!(masks(&rig, rig.qp()), expected.map(A::bits));
}

#[test]
fn a_target_takes_a_responders_attributes_and_no_other() {
    let rig = Rig::connected();
    let expected = [
        A::STATE | A::PKEY_INDEX | A::PORT | A::ACCESS_FLAGS,
        A::STATE | A::AV | A::PATH_MTU | A::DEST_QPN | A::RQ_PSN | A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER,
        A::STATE | A::TIMEOUT | A::SQ_PSN,
    ];
    assert_eq!(masks(&rig, rig.target.qp_number().get()), expected.map(A::bits));
}

#[test]
fn the_values_are_the_peers_our_own_and_the_options() {
    let mut rig = Rig::new();
    let remote = Endpoint { mtu: Mtu::Mtu1024, lid: Lid::new(0x55), ..rig.endpoint() };
    let options =
        ConnectOptions::new().service_level(3).timeout(20).retry_count(2).rnr_retry(5).min_rnr_timer(9);
    rig.initiator.connect(&rig.port, &remote, &options).unwrap();
    rig.target.connect(&rig.port, &remote, &options).unwrap();
    let calls = rig.world.modified();
    let [init, rtr, rts, _, target_rtr, target_rts] = calls.each_attr();
    assert_eq!((init.port_num, init.pkey_index, init.qp_access_flags), (1, 0, 0));
    assert_eq!((rtr.dest_qp_num, rtr.rq_psn), (remote.target.get(), remote.target_psn.get()));
    assert_eq!((rtr.path_mtu, rtr.ah_attr.dlid, rtr.ah_attr.sl), (3, 0x55, 3), "the smaller MTU");
    assert_eq!((rtr.ah_attr.is_global, rtr.ah_attr.port_num), (0, 1));
    assert_eq!((rts.timeout, rts.retry_cnt, rts.rnr_retry), (20, 2, 5));
    assert_eq!((rts.sq_psn, rts.max_rd_atomic), (rig.initiator.psn().get(), 1));
    assert_eq!(
        (target_rtr.dest_qp_num, target_rtr.rq_psn),
        (remote.initiator.get(), remote.initiator_psn.get())
    );
    assert_eq!((target_rtr.min_rnr_timer, target_rtr.max_dest_rd_atomic), (9, 1));
    assert_eq!((target_rts.timeout, target_rts.sq_psn), (20, rig.target.psn().get()));
    assert_eq!(rig.initiator.state().unwrap(), QpState::ReadyToSend);
}

trait EachAttr {
    fn each_attr(&self) -> [&crate::verbs::fake::QpAttr; 6];
}

impl EachAttr for Vec<crate::verbs::fake::Modified> {
    fn each_attr(&self) -> [&crate::verbs::fake::QpAttr; 6] {
        assert_eq!(self.len(), 6);
        std::array::from_fn(|at| &self[at].attr)
    }
}

/// Fails each of the three steps in turn, for both roles.
#[test]
fn a_connect_that_fails_goes_back_to_reset_and_can_be_repeated() {
    for step in 0..3 {
        let script = || (0..=step).map(move |at| if at == step { libc::EINVAL } else { 0 });
        let mut rig = Rig::new();
        let endpoint = rig.endpoint();
        let from = ["RESET to INIT", "INIT to RTR", "RTR to RTS"][step];

        rig.world.script("ibv_modify_qp", script());
        let error = rig.initiator.connect(&rig.port, &endpoint, &ConnectOptions::new()).unwrap_err();
        assert_eq!((error.kind(), error.errno()), (ErrorKind::InvalidInput, Some(libc::EINVAL)));
        let text = error.to_string();
        assert!(text.contains(from) && text.contains("initiator") && text.contains("fake0"), "{text}");
        assert_eq!(rig.initiator.state().unwrap(), QpState::Reset);
        let states: Vec<u32> = rig.world.modified().iter().map(|call| call.attr.qp_state).collect();
        let back: &[u32] = if step == 0 { &[] } else { &[6, 0] };
        assert_eq!(&states[step + 1..], back, "through ERR, unless it never left RESET");
        let unsent = rig.initiator.send(rig.srq.number(), rig.buf(b"x"), 0).unwrap_err();
        assert!(matches!(unsent.reason, PostErrorReason::NotConnected));

        rig.world.script("ibv_modify_qp", script());
        let error = rig.target.connect(&rig.port, &endpoint, &ConnectOptions::new()).unwrap_err();
        assert!(error.to_string().contains(&format!("target from {from}")), "{error}");
        assert_eq!(rig.target.state().unwrap(), QpState::Reset);

        rig.initiator.connect(&rig.port, &endpoint, &ConnectOptions::new()).unwrap();
        rig.target.connect(&rig.port, &endpoint, &ConnectOptions::new()).unwrap();
    }
}

#[test]
fn a_way_back_that_fails_too_is_told_with_the_first_reason() {
    let mut rig = Rig::new();
    rig.world.script("ibv_modify_qp", [0, libc::ENOMEM, libc::EIO]);
    let error = rig.initiator.connect(&rig.port, &rig.endpoint(), &ConnectOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "the first reason");
    assert!(error.to_string().contains("and then ibv_modify_qp"), "{error}");
}

#[test]
fn a_second_connect_is_refused_and_changes_nothing() {
    let mut rig = Rig::connected();
    let endpoint = rig.endpoint();
    let calls = rig.world.modified().len();
    assert_eq!(
        rig.initiator.connect(&rig.port, &endpoint, &ConnectOptions::new()).unwrap_err().kind(),
        ErrorKind::Busy
    );
    assert_eq!(
        rig.target.connect(&rig.port, &endpoint, &ConnectOptions::new()).unwrap_err().kind(),
        ErrorKind::Busy
    );
    assert_eq!(rig.world.modified().len(), calls);
    rig.initiator.send(rig.srq.number(), rig.buf(b"x"), 0).unwrap();
}

#[test]
fn what_cannot_work_is_refused_before_the_first_call() {
    let mut rig = Rig::new();
    let good = rig.endpoint();
    let gid = Some("fe80::1".parse::<Gid>().unwrap());
    let multicast = Endpoint { lid: Lid::new(0xc001), ..good };
    let cases = [
        (Endpoint { lid: Lid::NONE, ..good }, ConnectOptions::new(), "LID 0x0000 and no GID"),
        (multicast, ConnectOptions::new(), "LID 0xc001 and no GID"),
        (Endpoint { lid: Lid::NONE, gid, ..good }, ConnectOptions::new(), "no GID of this port was chosen"),
        (good, ConnectOptions::new().mtu(Mtu::Mtu4096), "an MTU of 4096, and the path has 2048"),
        (good, ConnectOptions::new().service_level(16), "service_level 16 is above 15"),
        (good, ConnectOptions::new().timeout(32), "timeout 32 is above 31"),
        (good, ConnectOptions::new().retry_count(8), "retry_count 8 is above 7"),
        (good, ConnectOptions::new().rnr_retry(8), "rnr_retry 8 is above 7"),
        (good, ConnectOptions::new().min_rnr_timer(32), "min_rnr_timer 32 is above 31"),
    ];
    for (remote, options, reason) in cases {
        for error in [
            rig.initiator.connect(&rig.port, &remote, &options).unwrap_err(),
            rig.target.connect(&rig.port, &remote, &options).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
    assert!(rig.world.modified().is_empty());
}

#[test]
fn case_04_a_global_route_is_used_where_it_must_be() {
    let destination: Gid = "fe80::1234".parse().unwrap();
    let route_of = |port: &LocalPort, remote: Endpoint| {
        let mut rig = Rig::new();
        // The port of this rig's own device, chosen as `port` was.
        let own = LocalPort::query(&rig.context, 1).unwrap();
        let own = if port.gid().is_some() { own.gid_index(0).unwrap() } else { own };
        rig.initiator.connect(&own, &remote, &ConnectOptions::new()).unwrap();
        rig.world.modified()[1].attr.ah_attr
    };
    let rig = Rig::new();
    let plain = LocalPort::query(&rig.context, 1).unwrap();
    let chosen = LocalPort::query(&rig.context, 1).unwrap().gid_index(0).unwrap();
    let remote = Endpoint { gid: Some(destination), ..rig.endpoint() };
    assert_eq!(route_of(&plain, remote).is_global, 0, "InfiniBand with a usable LID");
    let routed = route_of(&chosen, Endpoint { lid: Lid::NONE, ..remote });
    assert_eq!((routed.is_global, routed.grh.sgid_index, routed.grh.hop_limit), (1, 0, 64));
    assert_eq!(crate::verbs::fake::gid_bytes(&routed.grh.dgid), destination.bytes());
}

#[test]
fn case_04_on_ethernet_a_peer_without_a_gid_is_refused() {
    let mut rig = Rig::new();
    // The fake's way to say Ethernet.
    rig.world.script("ibv_query_port", [-1, -1]);
    let port = LocalPort::query(&rig.context, 1).unwrap();
    assert_eq!(port.lid(), Lid::NONE);
    let remote = rig.endpoint();
    let error = rig.initiator.connect(&port, &remote, &ConnectOptions::new()).unwrap_err();
    assert!(error.to_string().contains("Ethernet"), "{error}");
    let remote = Endpoint { gid: Some("::ffff:10.0.0.1".parse().unwrap()), ..remote };
    let error = rig.initiator.connect(&port, &remote, &ConnectOptions::new()).unwrap_err();
    assert!(error.to_string().contains("no GID of this port was chosen"), "{error}");
    let port = LocalPort::query(&rig.context, 1).unwrap().gid_index(0).unwrap();
    rig.initiator.connect(&port, &remote, &ConnectOptions::new()).unwrap();
    assert_eq!(rig.world.modified()[1].attr.ah_attr.is_global, 1);
}

#[test]
fn a_gid_that_is_not_there_cannot_be_chosen() {
    let rig = Rig::new();
    let zero = LocalPort::query(&rig.context, 1).unwrap().gid_index(1).unwrap_err();
    assert!(zero.to_string().contains("zero"), "{zero}");
    let missing = LocalPort::query(&rig.context, 1).unwrap().gid_index(9).unwrap_err();
    assert!(missing.to_string().contains("index 9"), "{missing}");
}

/// The kernel's table, in words, for what a caller can get wrong.
#[test]
fn case_08_a_missing_attribute_is_named() {
    let rtr_to_rts = Transition { from: QpState::ReadyToReceive, to: QpState::ReadyToSend };
    let init_to_rtr = Transition { from: QpState::Init, to: QpState::ReadyToReceive };
    let target = |transition, given| Role::Target.explain(transition, given);
    assert_eq!(target(rtr_to_rts, A::SQ_PSN), "target from RTR to RTS: missing: TIMEOUT");
    assert_eq!(target(rtr_to_rts, A::TIMEOUT), "target from RTR to RTS: missing: SQ_PSN");
    let basic = A::AV | A::PATH_MTU | A::DEST_QPN | A::RQ_PSN;
    assert_eq!(
        target(init_to_rtr, basic | A::MAX_DEST_RD_ATOMIC),
        "target from INIT to RTR: missing: MIN_RNR_TIMER"
    );
    assert!(target(init_to_rtr, basic | A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER).contains("values"));
}

#[test]
fn case_01_what_uverbs_strips_is_named() {
    let init_to_rtr = Transition { from: QpState::Init, to: QpState::ReadyToReceive };
    let rc = A::AV | A::PATH_MTU | A::DEST_QPN | A::RQ_PSN | A::MAX_DEST_RD_ATOMIC | A::MIN_RNR_TIMER;
    assert_eq!(
        Role::Initiator.explain(init_to_rtr, rc | A::QKEY),
        "initiator from INIT to RTR: without effect on an initiator: MIN_RNR_TIMER, MAX_DEST_RD_ATOMIC; \
         not allowed: QKEY"
    );
    let skip = Transition { from: QpState::Reset, to: QpState::ReadyToSend };
    assert_eq!(Role::Target.explain(skip, A::NONE), "a target does not go from RESET to RTS");
    assert_eq!(Role::Initiator.explain(skip, A::NONE), "an initiator does not go from RESET to RTS");
}

/// Every pair of states, against the list of those that the kernel's table has.
#[test]
fn the_states_that_follow_each_other_are_the_kernels() {
    use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendQueueDrained, SendQueueError};
    let follow: [(QpState, &[QpState]); 7] = [
        (Reset, &[Reset, Init]),
        (Init, &[Reset, Error, Init, ReadyToReceive]),
        (ReadyToReceive, &[Reset, Error, ReadyToSend]),
        (ReadyToSend, &[Reset, Error, ReadyToSend, SendQueueDrained]),
        (SendQueueDrained, &[Reset, Error, ReadyToSend, SendQueueDrained]),
        (SendQueueError, &[Reset, Error, ReadyToSend]),
        (Error, &[Reset, Error]),
    ];
    for (from, allowed) in follow {
        for (to, _) in follow {
            for role in [Role::Initiator, Role::Target] {
                let refused = role.explain(Transition { from, to }, A::NONE).contains("does not go");
                assert_eq!(!refused, allowed.contains(&to), "{from} to {to}");
            }
        }
    }
}

//! What a cluster that is made from another one's state begins with.

use super::OrderConfig;
use crate::{Changes, Protocol};
use quorate_types::{FaultModel, InstanceId, ReplicaId, Slot};

fn ids(numbers: &[u16]) -> Vec<ReplicaId> {
    numbers.iter().copied().map(ReplicaId::new).collect()
}

fn configs(members: &[u16]) -> [OrderConfig; 2] {
    Protocol::ALL.map(|protocol| OrderConfig::new(protocol, ReplicaId::new(members[0]), ids(members), 1))
}

/// Whatever protocol wrote an anchor, each can go on from its slot with other members.
#[test]
fn anchors_of_each_protocol_become_those_of_each() {
    let old = configs(&[1, 2, 3]);
    let mut anchors = vec![];
    for (config, slot) in old.iter().zip([Slot::ZERO, Slot::ZERO]) {
        anchors.push((slot, config.build(InstanceId::new(1), 0).anchor(slot).expect("it begins there")));
    }
    let later = Protocol::RAFT.anchor_anew(Slot::new(7), &anchors[1].1);
    anchors.push((Slot::new(7), later));
    anchors.push((Slot::new(9), Protocol::MOD_SMART.anchor_anew(Slot::new(9), &anchors[0].1)));
    for (slot, anchor) in anchors {
        for config in configs(&[4, 5, 6, 7]) {
            let anew = config.protocol.anchor_anew(slot, &anchor);
            let mut order = config.build(InstanceId::new(1), 0);
            order.restore_anchor(slot, &anew).unwrap_or_else(|why| panic!("{config:?} of {anchor:?}: {why}"));
            assert_eq!(order.anchor(slot).as_ref(), Some(&anew));
            assert_eq!(config.stay_of(slot, &anew).ok(), Some(0));
        }
    }
}

/// One protocol refuses what another one wrote, instead of reading something into it.
#[test]
fn anchors_of_another_protocol_are_refused() {
    let both = configs(&[1, 2, 3]);
    for (one, other) in [(&both[0], &both[1]), (&both[1], &both[0])] {
        let anchor = one.build(InstanceId::new(1), 0).anchor(Slot::ZERO).expect("it begins there");
        assert!(other.build(InstanceId::new(1), 0).restore_anchor(Slot::ZERO, &anchor).is_err(), "{one:?}");
    }
}

/// A row is found by its name and by its number on the wire, and no two rows have one in common.
#[test]
fn rows_are_told_apart() {
    for (at, one) in Protocol::ALL.into_iter().enumerate() {
        assert_eq!(Protocol::named(one.name()), Some(one));
        for other in &Protocol::ALL[at + 1..] {
            assert!(one.row().number != other.row().number && one.name() != other.name(), "{one:?}");
        }
    }
    assert_eq!(Protocol::named("no such protocol"), None);
    assert_eq!(Protocol::default(), Protocol::RAFT);
}

/// What a protocol does in a cluster is what it can do and is asked for.
#[test]
fn settings_choose_from_what_a_protocol_can_do() {
    let [raft, smart] = configs(&[1, 2, 3, 4]);
    assert!(!raft.nature().leases && !smart.nature().rotates && !smart.nature().lies);
    let leased = OrderConfig { lease_drift_percent: Some(10), rotate_after: 3, ..raft };
    assert!(leased.nature().leases && !leased.nature().rotates, "what it can not do it does not");
    let liars = OrderConfig { faults: FaultModel::Byzantine.into(), rotate_after: 3, ..smart };
    assert!(liars.nature().rotates && liars.nature().lies);
    assert_eq!(liars.nature().membership, Changes::Tenure);
}

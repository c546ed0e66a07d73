//! What a cluster that is made from another one's state begins with.

use super::{OrderConfig, anchor_anew};
use crate::mod_smart::ModSmartConfig;
use crate::raft::RaftConfig;
use quorate_auth::Keys;
use quorate_types::{FaultModel, InstanceId, Protocol, ReplicaId, Slot};

fn ids(numbers: &[u16]) -> Vec<ReplicaId> {
    numbers.iter().copied().map(ReplicaId::new).collect()
}

fn configs(members: &[u16]) -> [OrderConfig; 2] {
    let (me, ids) = (ReplicaId::new(members[0]), ids(members));
    [
        OrderConfig::Raft(RaftConfig::new(me, ids.clone(), 1)),
        OrderConfig::ModSmart {
            config: ModSmartConfig::new(me, ids, FaultModel::Crash, 1),
            keys: Keys::Trusting,
        },
    ]
}

/// Whatever protocol wrote an anchor, each can go on from its slot with other members.
#[test]
fn anchors_of_each_protocol_become_those_of_each() {
    let old = configs(&[1, 2, 3]);
    let mut anchors = vec![];
    for (config, slot) in old.iter().zip([Slot::ZERO, Slot::ZERO]) {
        anchors.push((slot, config.build(InstanceId::new(1), 0).anchor(slot).expect("it begins there")));
    }
    let later = anchor_anew(Protocol::Raft, Slot::new(7), &anchors[1].1);
    anchors.push((Slot::new(7), later));
    anchors.push((Slot::new(9), anchor_anew(Protocol::ModSmart, Slot::new(9), &anchors[0].1)));
    for (slot, anchor) in anchors {
        for config in configs(&[4, 5, 6, 7]) {
            let anew = anchor_anew(config.protocol(), slot, &anchor);
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

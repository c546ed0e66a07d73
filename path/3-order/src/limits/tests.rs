//! The table, against what the protocols say of themselves.

use super::*;
use crate::OrderConfig;
use quorate_types::{FaultModel, ReplicaId, Visigoth};

const ALL: [Feature; 7] = [
    Feature::SurviveLies,
    Feature::Leases,
    Feature::Rotate,
    Feature::ChangeMembers,
    Feature::ChangeInstances,
    Feature::CountOnFast,
    Feature::WeighVotes,
];

/// Nobody is told to take a protocol that can not do it either.
#[test]
fn for_each_feature_there_is_a_protocol() {
    for feature in ALL {
        let can = feature.protocol().able().can(feature);
        assert!(can.is_ok(), "{feature:?}: {can:?}");
    }
}

/// What lacks nothing can do everything.
#[test]
fn each_row_is_about_one_property() {
    let all = Nature {
        pipelined: true,
        rotates: true,
        named_by_views: true,
        leases: true,
        membership: Changes::Joint,
        stays: true,
        lies: false,
        fetches: true,
        few: true,
        weighs: true,
    };
    let lacks =
        |nature: Nature| ALL.into_iter().filter(|feature| nature.can(*feature).is_err()).collect::<Vec<_>>();
    assert_eq!(lacks(all), [Feature::SurviveLies]);
    assert_eq!(lacks(Nature { leases: false, ..all }), [Feature::SurviveLies, Feature::Leases]);
    assert_eq!(lacks(Nature { rotates: false, ..all }), [Feature::SurviveLies, Feature::Rotate]);
    assert_eq!(lacks(Nature { stays: false, ..all }), [Feature::SurviveLies, Feature::ChangeInstances]);
    assert_eq!(lacks(Nature { few: false, ..all }), [Feature::SurviveLies, Feature::CountOnFast]);
    assert_eq!(lacks(Nature { weighs: false, ..all }), [Feature::SurviveLies, Feature::WeighVotes]);
    let fixed = Nature { membership: Changes::Fixed, ..all };
    assert_eq!(lacks(fixed), [Feature::SurviveLies, Feature::ChangeMembers]);
    assert_eq!(lacks(Nature { lies: true, ..all }), []);
}

/// What a cluster can do follows from its protocol and from how that is set up.
#[test]
fn clusters_can_do_what_they_are_made_for() {
    let me = ReplicaId::new(1);
    let smart = OrderConfig::new(Protocol::MOD_SMART, me, (1..=4).map(ReplicaId::new).collect(), 7);
    assert!(smart.nature().can(Feature::ChangeMembers).is_ok());
    let liars = OrderConfig { faults: FaultModel::Byzantine.into(), ..smart };
    assert!(liars.nature().can(Feature::ChangeMembers).is_ok());
    let few = FaultModel::Visigoth(Visigoth { u: 2, s: 1, o: 1, t_ms: 20 });
    let few = OrderConfig { faults: few.into(), ..liars.clone() };
    assert!(few.nature().can(Feature::ChangeMembers).is_err(), "its oracle knows the members");
    assert!(liars.nature().can(Feature::SurviveLies).is_ok());
    assert_eq!(Feature::SurviveLies.protocol(), Protocol::MOD_SMART);
    assert_eq!(Feature::Leases.protocol(), Protocol::RAFT);
}

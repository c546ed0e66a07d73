//! Clusters with more members than their faults need, where the votes of the first ones count more.

use super::chaos::{schedule, seeds};
use super::liars::ALL;
use super::members::{batch_of, change, holds, membership};
use super::one::{One, SEED, decisions, rejected};
use super::world::{Plan, World, replica, value};
use crate::ledger::Proof;
use crate::mod_smart::message::ModSmartBody as Body;
use crate::mod_smart::{ModSmart, ModSmartConfig, Statements};
use crate::quorums::Quorums;
use crate::{Anchor, Order};
use quorate_auth::Keyed;
use quorate_types::{ClusterId, FaultModel, Faults, InstanceId, MembershipId, ReplicaId, Slot, Span, View};
use quorate_wire::Batch;

/// One fault is survived, however many members there are; the first two have heavy votes, or the first one where nobody lies.
pub(super) fn weighted(config: ModSmartConfig) -> ModSmartConfig {
    let faults = config.faults.at_most(1).weighted();
    let heavy = if faults.may_lie() { 2 } else { 1 };
    ModSmartConfig { faults, heavy: (0..heavy).map(replica).collect(), ..config }
}

fn plan(members: usize, model: FaultModel) -> Plan {
    Plan { configure: weighted, model, ..Plan::crash(members) }
}

/// Where nobody lies two members are a quorum: the heavy one and another.
#[test]
fn the_near_ones_decide_alone() {
    for (model, members, near) in [(FaultModel::Byzantine, 6, 3), (FaultModel::Crash, 5, 2)] {
        for (count, decides) in [(near, true), (near - 1, false)] {
            let mut world = World::new(1, plan(members, model));
            world.run(Span::from_millis(50));
            for far in count..members {
                for peer in 0..members {
                    world.cut.extend([(far, peer), (peer, far)]);
                }
            }
            // Shorter than the patience of the others.
            world.ask(100);
            let done = world.run_until(Span::from_millis(200), |world| world.decided_at(0) > 0);
            assert_eq!(done, decides, "{model:?}: {count} of {members}");
        }
    }
}

/// The light ones are as many, and decide nothing without a heavy one unless only the faulty are missing.
#[test]
fn the_far_ones_do_not_decide_without_the_near_ones() {
    let faults = Faults::of(FaultModel::Byzantine).at_most(1).weighted();
    let all: Vec<ReplicaId> = (0..6).map(replica).collect();
    let (heavy, trust) = (&all[..2], faults.among(6));
    let quorums = Quorums::new(trust, &[]).weighing(heavy, &all);
    let holds = |set: &[usize]| quorums.hold(set.len(), |id| set.iter().any(|at| replica(*at) == id));
    assert!(holds(&[0, 1, 2]) && holds(&[1, 2, 3, 4, 5]));
    assert!(!holds(&[2, 3, 4, 5]) && !holds(&[0, 1]) && !holds(&[0, 2, 3]));
    // Rounds of reads count in the same way.
    let rounds = [7, 6, 5, 0, 0, 0];
    assert_eq!(quorums.reach(&all, |id| all.iter().position(|one| *one == id).map(|at| rounds[at])), 5);
    // With one heavy member gone any other number of heavy votes would be unsafe.
    let left = Quorums::new(trust, &[]).weighing(heavy, &all[1..]);
    assert!(!left.hold(3, |id| all[1..4].contains(&id)));
}

#[test]
fn weighted_clusters_survive_crashes() {
    for members in [4, 5, 6] {
        seeds(40).for_each(|seed| drop(schedule(seed, plan(members, FaultModel::Crash), &[])));
    }
}

#[test]
fn weighted_clusters_survive_every_liar() {
    for how in ALL {
        for (members, count) in [(5, 6), (6, 4)] {
            seeds(count).for_each(|seed| drop(schedule(seed, plan(members, FaultModel::Byzantine), &[how])));
        }
    }
}

/// Members with heavy votes come and go, too: with other members, all votes count alike.
#[test]
fn weighted_clusters_change_their_members() {
    let mut done = 0;
    for model in [FaultModel::Crash, FaultModel::Byzantine] {
        for seed in seeds(30) {
            done += schedule(seed, Plan { changes: true, ..plan(6, model) }, &[]).changes.done;
        }
    }
    assert!(done > 60, "{done} changes");
}

/// The fourth member of six, of which two have heavy votes; with a checkpoint at the first slot, if there is one.
fn fourth(anchor: Option<&Anchor>) -> One {
    let config = weighted(One::config(3, 6, FaultModel::Byzantine));
    let mut order = ModSmart::new(config, Box::new(Keyed::new(replica(3), SEED)));
    anchor.iter().for_each(|anchor| order.restore_anchor(Slot::FIRST, anchor).expect("an anchor of ours"));
    One::begun(order, 3, 6, FaultModel::Byzantine, Vec::new())
}

/// A member with a heavy vote leaves. That was decided with its vote, and three members prove it.
#[test]
pub(super) fn a_slot_is_proven_by_the_weights_of_its_own_membership() {
    let mut one = fourth(None);
    let all: Vec<usize> = (0..6).collect();
    let change = change(&membership(1, &all, &[]), &membership(2, &all[1..], &[]));
    let batch = batch_of(holds(one.order.core.members.tenures(), &change, 1));
    let proof = proof(&one, &batch, &[0, 1, 2]);
    let effects = one.hear(1, 1, Body::Decision { proof: proof.clone(), batch: batch.clone() });
    assert_eq!(decisions(&effects).len(), 1, "two heavy votes and another one");
    // After a checkpoint it hears the proof again, and of others.
    let anchor = one.order.anchor(Slot::FIRST).expect("known");
    let shows = |proof| {
        let mut again = fourth(Some(&anchor));
        let view = again.order.core.office.view().number();
        rejected(&again.hear_in(2, 1, view, Body::Gone { slot: Slot::FIRST, proof: Some(proof) })) == 0
    };
    assert!(shows(proof), "by the weights of those that decided it");
    assert!(!shows(self::proof(&one, &batch, &[2, 3, 4, 5])), "four light votes are no quorum");
    assert!(shows(self::proof(&one, &batch, &[1, 2, 3, 4, 5])), "all but one are");
}

/// A proof of the first slot, as members of the first membership sign it in its first view.
fn proof(one: &One, batch: &Batch, members: &[usize]) -> Proof {
    let (view, slot, digest) = (View::FIRST, Slot::FIRST, value(batch));
    let (cluster, instance) = (ClusterId::new(0), InstanceId::new(1));
    let statement =
        Statements { cluster, membership: MembershipId::FIRST, instance }.accept(view, slot, digest);
    let accepts = members.iter().map(|id| (replica(*id), one.sign(*id, &statement))).collect();
    Proof { slot, view, digest, accepts }
}

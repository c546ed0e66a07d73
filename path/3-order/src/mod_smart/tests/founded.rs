//! Clusters that begin with a state: a backup, or what another cluster's replicas had. Nobody can show a proof of the slot that it ends
//! with, and nobody need.

use super::chaos::{schedule, seeds};
use super::liars::How;
use super::one::{One, sent, some};
use super::world::{Plan, World};
use crate::mod_smart::message::ModSmartBody as Body;
use crate::mod_smart::{ModSmart, first_anchor};
use crate::{Anchor, Effects, Input, Order, Stored};
use quorate_types::FaultModel::{self, Byzantine, Crash};
use quorate_types::{RecordId, Slot, Span};
use quorate_wire::Batch;

const STATE: u64 = 13;

fn founded(members: usize, model: FaultModel) -> Plan {
    let plan = if model == Crash { Plan::crash(members) } else { Plan::byzantine(members) };
    Plan { state: STATE, ..plan }
}

/// Member `me` of a cluster with that state, in its first life.
fn begun(me: usize, members: usize, model: FaultModel) -> One {
    let mut order = One::fresh(me, members, model);
    order.restore_anchor(Slot::new(STATE), &first_anchor(Slot::new(STATE))).expect("an anchor of ours");
    One::begun(order, me, members, model, Vec::new())
}

/// The same member in its next life, with a checkpoint of this slot.
fn again(one: &One, model: FaultModel, slot: u64, anchor: &Anchor, records: &[Stored]) -> ModSmart {
    let mut order = One::fresh(0, if model == Crash { 3 } else { 4 }, model);
    order.restore_anchor(Slot::new(slot), anchor).expect("an anchor of ours");
    for (id, record) in (1..).zip(records) {
        order.restore(RecordId::new(id), record.clone()).expect("records of ours");
    }
    order.start(one.now, &mut Effects::new());
    order.invariants(true);
    order
}

/// Member 2 leads view 2. The others say that they have what the state has, and show nothing.
#[test]
pub(super) fn a_state_that_all_began_with_needs_no_proof() {
    let mut one = begun(2, 4, Byzantine);
    let stops = one.stops(2, &[0, 1, 3]);
    one.hear(0, 2, Body::Certificate { stops });
    let mut syncs = 0;
    for from in [0, 3] {
        let collect = one.collect(from, 2, STATE, None, &[]);
        let out = one.hear(from, 2, Body::StopData { collect, last: None, batches: vec![] });
        let all = sent(&out, 1);
        syncs += all.iter().filter(|body| matches!(body, Body::Sync { value: None, .. })).count();
    }
    assert_eq!(syncs, 1, "the view begins");
    let out = one.step(Input::Propose(some(1)));
    let slot = Slot::new(STATE + 1);
    assert!(sent(&out, 1).iter().any(|body| matches!(body, Body::Propose { slot: of, .. } if *of == slot)));
}

/// The leader dies before it proposed anything, or all do and come back, and then the leader dies: the others go on.
#[test]
pub(super) fn a_cluster_with_a_state_survives_its_first_leader() {
    for (members, model) in [(3, Crash), (4, Byzantine), (7, Byzantine)] {
        for all in [false, true] {
            for seed in seeds(5) {
                let mut world = World::new(seed, founded(members, model));
                world.run(Span::from_millis(20));
                if all {
                    (0..members).for_each(|at| world.crash(at));
                    (0..members).for_each(|at| world.start(at));
                    world.run(Span::from_millis(20));
                }
                if let Some(leader) = world.leader() {
                    world.crash(leader);
                }
                for _ in 0..3 {
                    world.ask(10);
                }
                let wanted = STATE as usize + 3;
                let done = world.run_until(Span::from_secs(10), |world| world.decided.len() >= wanted);
                assert!(done, "seed {seed}, {members} members: {}", world.describe());
            }
        }
    }
}

/// Everything else that happens to clusters happens to those, too; from their first moment on.
#[test]
fn random_schedules_begin_with_a_state() {
    for seed in seeds(12) {
        schedule(seed, founded(3, Crash), &[]);
        schedule(seed, founded(4, Byzantine), &[]);
        schedule(seed, Plan { changes: true, ..founded(3, Crash) }, &[]);
        schedule(seed, founded(4, Byzantine), &[How::FalseDecisions]);
        schedule(seed, founded(4, Byzantine), &[How::FalseSync]);
    }
}

/// A log that ends before its checkpoint tells with which state it began, whatever the checkpoint says of members.
#[test]
fn a_log_knows_the_state_that_it_began_with() {
    for model in [Crash, Byzantine] {
        let members = if model == Crash { 3 } else { 4 };
        let mut one = begun(0, members, model);
        let slot = STATE + 1;
        let decided = |slot| Slot::new(slot);
        one.hear(1, 1, Body::Propose { slot: decided(slot), batch: some(slot) });
        let ends_here = one.disk.clone();
        one.decide(1, slot, 1, &some(slot));
        let anchor = one.order.anchor(decided(slot)).expect("known");
        assert_eq!(anchor, first_anchor(Slot::new(STATE)), "all name the same");
        let order = again(&one, model, slot, &anchor, &ends_here);
        assert_eq!(
            (order.core.decided(), order.core.members.tenures().now().since),
            (Slot::new(STATE), Slot::new(STATE))
        );
        assert_eq!(order.restored().begins_after, Slot::new(STATE));
    }
}

/// Where the cluster began empty, that is after slot 0.
#[test]
fn an_empty_state_ends_before_the_first_slot() {
    assert_eq!(first_anchor(Slot::ZERO).encode(), [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut empty = One::new(0, 3, Crash);
    let batch: Batch = some(1);
    empty.decide(1, 1, 1, &batch);
    assert_eq!(empty.order.anchor(Slot::FIRST), Some(first_anchor(Slot::ZERO)));
    for wrong in
        [&[1][..], &[1, 1, 0, 0, 0, 0, 0, 0], &[1, 9, 0, 0, 0, 0, 0, 0, 0], &[3, 1, 0, 0, 0, 0, 0, 0, 0]]
    {
        let anchor = Anchor::decode(wrong).expect("an anchor");
        assert!(One::fresh(0, 3, Crash).restore_anchor(Slot::new(8), &anchor).is_err(), "{wrong:?}");
    }
}

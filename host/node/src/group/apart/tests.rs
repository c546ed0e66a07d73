//! The stand-in, stepped alone, for a protocol of one member.

use super::*;
use quorate_order::{Effect, OrderConfig, Protocol};
use quorate_types::{InstanceId, ReplicaId};
use quorate_wire::{Batch, BatchHeader};

const NOW: Time = Time::ZERO;

/// A stand-in that leads, because its member is alone; all its effects were carried out.
fn leader() -> StandIn {
    let me = ReplicaId::new(1);
    let order = OrderConfig::new(Protocol::RAFT, me, vec![me], 6).build(InstanceId::new(1), 0);
    let (mut order, mut out) = (StandIn::new(order), Effects::new());
    order.start(NOW, &mut out);
    let mut durable = RecordId::ZERO;
    while !order.standing().settled {
        for effect in out.drain() {
            if let Effect::Persist { id, .. } = effect {
                durable = durable.max(id);
            }
        }
        order.step(NOW, Input::Durable(durable), &mut out);
        order.take_turn(NOW);
        assert!(order.hear(&mut out), "there was something to take");
    }
    out.drain().for_each(drop);
    order
}

fn batch() -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    Batch::seal(bytes, BatchHeader::default())
}

#[test]
fn what_it_wants_is_heard_after_its_turn() {
    let (mut order, mut out) = (leader(), Effects::new());
    order.step(NOW, Input::Propose(batch()), &mut out);
    assert!(!order.hear(&mut out) && out.is_empty(), "its lane had no turn");
    order.take_turn(NOW);
    assert!(out.is_empty(), "nobody has heard of it");
    assert!(order.hear(&mut out) && !out.is_empty());
    order.take_turn(NOW);
    assert!(!order.hear(&mut out), "that was all");
}

#[test]
fn a_lane_is_asked_once() {
    let (mut order, mut out) = (leader(), Effects::new());
    assert!(!order.asks(), "there is nothing to take");
    order.step(NOW, Input::Propose(batch()), &mut out);
    order.step(NOW, Input::Propose(batch()), &mut out);
    assert!(order.asks() && !order.asks());
    order.take_turn(NOW);
    order.step(NOW, Input::Deadline, &mut out);
    assert!(order.asks(), "it took what it was asked to take");
}

/// The host counts the proposals that are on their way to decide how much to propose.
#[test]
fn what_was_proposed_counts_at_once_and_once() {
    let (mut order, mut out) = (leader(), Effects::new());
    let before = order.standing();
    order.step(NOW, Input::Propose(batch()), &mut out);
    let counts = |order: &StandIn| {
        let now = order.standing();
        assert!(now.in_flight_bytes >= before.in_flight_bytes + batch().bytes().len());
        now.in_flight - before.in_flight
    };
    assert_eq!(counts(&order), 1);
    order.take_turn(NOW);
    assert_eq!(counts(&order), 1);
    order.hear(&mut out);
    assert_eq!(counts(&order), 1, "now the protocol itself says so");
}

/// The stand-in answers only with what the main lane has heard.
#[test]
fn nothing_is_known_that_was_not_heard() {
    let (mut order, mut out) = (leader(), Effects::new());
    let (decided, last) = (order.status().decided, order.keep_from());
    order.step(NOW, Input::Propose(batch()), &mut out);
    order.take_turn(NOW);
    order.hear(&mut out);
    let persisted = out.drain().filter_map(|effect| match effect {
        Effect::Persist { id, .. } => Some(id),
        _ => None,
    });
    let record = persisted.max().expect("a proposal is written down");
    order.step(NOW, Input::Durable(record), &mut out);
    order.take_turn(NOW);
    assert_eq!(order.status().decided, decided);
    order.hear(&mut out);
    assert_eq!(order.status().decided, decided.next());
    assert_eq!(order.keep_from(), last);
}

#[test]
fn it_has_no_deadline_while_its_lane_has_something_to_take() {
    let (mut order, mut out) = (leader(), Effects::new());
    assert!(order.deadline().is_some(), "a leader has one");
    order.step(NOW, Input::Propose(batch()), &mut out);
    assert!(order.deadline().is_none(), "the turn that was asked for comes first");
}

#[test]
#[should_panic = "INV-NODE-11"]
fn nobody_looks_into_it_while_its_lane_has_something_to_take() {
    let (mut order, mut out) = (leader(), Effects::new());
    order.step(NOW, Input::Propose(batch()), &mut out);
    let _ = order.anchor(Slot::ZERO);
}

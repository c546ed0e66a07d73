//! PROPOSE, WRITE, ACCEPT at one replica.

use super::one::{One, decisions, rejected, sent, some};
use super::world::{replica, value};
use crate::OrderMessage;
use crate::mod_smart::SLOT_MAX;
use crate::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use crate::{Effect, Input, Order};
use quorate_auth::Signature;
use quorate_types::FaultModel::{Byzantine, Crash};
use quorate_types::{Digest, MembershipId, Slot, View};
use quorate_wire::Verified;

/// Member 1 leads view 1.
const LEADER: usize = 1;

fn propose(slot: u64, number: u64) -> Body {
    Body::Propose { slot: Slot::new(slot), batch: some(number) }
}

fn write(slot: u64, number: u64) -> Body {
    Body::Write { slot: Slot::new(slot), digest: value(&some(number)) }
}

fn accepts(effects: &[Effect]) -> usize {
    sent(effects, 2).iter().filter(|body| matches!(body, Body::Accept { .. })).count()
}

#[test]
fn a_slot_takes_a_quorum_of_writes_and_one_of_accepts() {
    let mut one = One::new(0, 4, Byzantine);
    let out = one.hear(LEADER, 1, propose(1, 7));
    for other in 1..4 {
        assert_eq!(sent(&out, other), [write(1, 7)], "it takes the proposal");
    }
    assert_eq!(accepts(&one.hear(1, 1, write(1, 7))), 0, "two of four");
    let out = one.hear(2, 1, write(1, 7));
    assert_eq!(accepts(&out), 1, "three of four");
    let digest = value(&some(7));
    let vote = one.accept(1, 1, 1, digest);
    assert_eq!(decisions(&one.hear(1, 1, vote)), []);
    let vote = one.accept(3, 1, 1, digest);
    assert_eq!(decisions(&one.hear(3, 1, vote)), [(1, some(7))]);
    let proof = one.order.core.ledger.proof(Slot::new(1)).expect("it is kept").clone();
    assert!(one.order.core.proves(&proof), "whoever decided can show it");
    assert_eq!(proof.accepts.len(), 3);
}

#[test]
fn where_nobody_lies_nobody_writes() {
    let mut one = One::new(0, 3, Crash);
    let out = one.hear(LEADER, 1, propose(1, 7));
    assert!(matches!(sent(&out, 2)[..], [Body::Accept { .. }]), "{out:?}");
    let vote = one.accept(1, 1, 1, value(&some(7)));
    assert_eq!(decisions(&one.hear(1, 1, vote)), [(1, some(7))], "two of three");
}

/// The leader proposes the next batch when the one before is decided.
#[test]
fn one_slot_is_in_flight() {
    let mut one = One::new(1, 4, Byzantine);
    let out = one.step(Input::Propose(some(1)));
    assert_eq!(sent(&out, 0), [propose(1, 1), write(1, 1)]);
    assert_eq!(sent(&one.step(Input::Propose(some(2))), 0), []);
    assert_eq!(one.order.standing().in_flight, 2);
    for from in [0, 2] {
        one.hear(from, 1, write(1, 1));
    }
    let mut out = Vec::new();
    for from in [0, 2] {
        let vote = one.accept(from, 1, 1, value(&some(1)));
        out.extend(one.hear(from, 1, vote));
    }
    assert_eq!(decisions(&out), [(1, some(1))]);
    assert!(sent(&out, 0).contains(&propose(2, 2)));
    assert_eq!(one.order.standing().in_flight, 1);
}

#[test]
pub(super) fn only_the_leader_proposes_and_only_once() {
    let mut one = One::new(0, 4, Byzantine);
    let out = one.hear(2, 1, propose(1, 7));
    assert_eq!((rejected(&out), sent(&out, 3).len()), (1, 0), "it does not lead");
    one.hear(LEADER, 1, propose(1, 7));
    let out = one.hear(LEADER, 1, propose(1, 8));
    assert_eq!((rejected(&out), sent(&out, 3).len()), (1, 0), "another value: evidence");
    assert_eq!(rejected(&one.hear(LEADER, 1, propose(1, 7))), 0, "the same again is no harm");
}

/// What one other says may be a lie; of two others one is honest, and got from the leader what it wrote.
#[test]
pub(super) fn a_leader_with_two_faces_is_told_by_what_others_write() {
    let against_leader = |out: &[Effect]| {
        out.iter()
            .filter(|effect| matches!(effect, Effect::Rejected { from, .. } if *from == replica(LEADER)))
            .count()
    };
    let mut one = One::new(0, 4, Byzantine);
    one.hear(LEADER, 1, propose(1, 7));
    assert_eq!(rejected(&one.hear(2, 1, write(1, 8))), 0, "one alone may lie");
    let out = one.hear(3, 1, write(1, 8));
    assert_eq!((against_leader(&out), rejected(&out)), (1, 1));
    assert_eq!(rejected(&one.hear(1, 1, write(1, 8))), 0, "once");

    let mut one = One::new(0, 4, Byzantine);
    for other in 2..4 {
        assert_eq!(rejected(&one.hear(other, 1, write(1, 8))), 0, "nothing was proposed here");
    }
    let out = one.hear(LEADER, 1, propose(1, 7));
    assert_eq!((against_leader(&out), rejected(&out)), (1, 1));

    let mut one = One::new(0, 4, Byzantine);
    one.hear(LEADER, 1, propose(1, 7));
    one.hear(2, 1, write(1, 8));
    assert_eq!(rejected(&one.hear(3, 1, write(1, 9))), 0, "they do not say the same");
}

/// A leader knows what it proposed; nobody else can tell whether the leader or the member that wrote something else lies.
#[test]
pub(super) fn who_writes_what_was_not_proposed_is_told_by_the_leader() {
    let against = |out: &[Effect], member| {
        out.iter()
            .filter(|effect| matches!(effect, Effect::Rejected { from, .. } if *from == replica(member)))
            .count()
    };
    let mut one = One::new(LEADER, 4, Byzantine);
    assert_eq!(rejected(&one.hear(3, 1, write(1, 9))), 0, "nothing was proposed yet");
    one.step(Input::Propose(some(7)));
    assert_eq!(rejected(&one.hear(0, 1, write(1, 7))), 0);
    let out = one.hear(2, 1, write(1, 8));
    assert_eq!((against(&out, 2), rejected(&out)), (1, 1));
    assert_eq!(rejected(&one.hear(2, 1, write(1, 8))), 0, "once");

    let mut one = One::new(0, 4, Byzantine);
    one.hear(LEADER, 1, propose(1, 7));
    assert_eq!(rejected(&one.hear(2, 1, write(1, 8))), 0, "who does not lead does not know who lies");
}

/// The first vote of a member counts, whatever it says later.
#[test]
pub(super) fn a_second_vote_counts_for_nothing() {
    let mut one = One::new(0, 4, Byzantine);
    one.hear(LEADER, 1, propose(1, 7));
    one.hear(2, 1, write(1, 8));
    assert_eq!(rejected(&one.hear(2, 1, write(1, 7))), 1);
    let out = one.hear(1, 1, write(1, 7));
    assert_eq!(accepts(&out), 0, "two of four wrote it");
    let other = one.accept(2, 1, 1, value(&some(8)));
    one.hear(2, 1, other);
    let first = one.accept(2, 1, 1, value(&some(7)));
    assert_eq!(rejected(&one.hear(2, 1, first)), 1);
}

/// T3: a vote is for one slot, view and value, and of one member.
#[test]
pub(super) fn accepts_bind_slot_view_value_and_signer() {
    let mut one = One::new(0, 4, Byzantine);
    one.hear(LEADER, 1, propose(1, 7));
    let digest = value(&some(7));
    let wrong = [
        one.accept(2, 1, 2, digest),
        one.accept(2, 2, 1, digest),
        one.accept(2, 1, 1, Digest::new([9; 32])),
        one.accept(3, 1, 1, digest),
    ];
    // Signatures are looked at when a quorum could decide with them.
    one.hear(1, 1, write(1, 7));
    one.hear(2, 1, write(1, 7));
    let right = one.accept(1, 1, 1, digest);
    one.hear(1, 1, right);
    for vote in wrong {
        let Body::Accept { signature, .. } = vote else { panic!("a vote") };
        let out = one.hear(2, 1, Body::Accept { slot: Slot::new(1), digest, signature });
        assert_eq!((rejected(&out), decisions(&out)), (1, vec![]), "{signature:?}");
    }
    let none = Body::Accept { slot: Slot::new(1), digest, signature: Signature::NONE };
    assert_eq!(rejected(&one.hear(2, 1, none)), 1);
    assert_eq!(one.order.voting.tallies[&Slot::new(1)].accepts.len(), 2, "its own and one more");
    let right = one.accept(3, 1, 1, digest);
    assert_eq!(decisions(&one.hear(3, 1, right)), [(1, some(7))]);
}

/// Seven replicas, of which two sign wrongly: what they say is not counted, and the proof has none of it.
#[test]
fn wrong_signatures_are_in_no_proof() {
    let mut one = One::new(0, 7, Byzantine);
    let digest = value(&some(7));
    one.hear(LEADER, 1, propose(1, 7));
    for other in 1..5 {
        one.hear(other, 1, write(1, 7));
    }
    for liar in 1..3 {
        let wrong = Body::Accept { slot: Slot::new(1), digest, signature: Signature::NONE };
        one.hear(liar, 1, wrong);
    }
    let mut refused = 0;
    for other in 3..7 {
        let vote = one.accept(other, 1, 1, digest);
        let out = one.hear(other, 1, vote);
        refused += rejected(&out);
        assert_eq!(decisions(&out).len(), usize::from(other == 6), "{other}");
    }
    assert_eq!(refused, 2);
    let proof = one.order.core.ledger.proof(Slot::new(1)).expect("it is kept");
    assert!(
        proof.accepts.iter().all(|(id, _)| ![1, 2].map(replica).contains(id)) && proof.accepts.len() == 5
    );
}

/// An own vote leaves, and counts, when it is durable.
#[test]
pub(super) fn votes_wait_for_the_disk() {
    let mut one = One::new(0, 4, Byzantine);
    one.autosync = false;
    let out = one.hear(LEADER, 1, propose(1, 7));
    let waits = |effect: &Effect| matches!(effect, Effect::Send { after: Some(_), .. });
    assert!(out.iter().filter(|effect| matches!(effect, Effect::Send { .. })).all(waits));
    one.hear(1, 1, write(1, 7));
    assert_eq!(accepts(&one.hear(2, 1, write(1, 7))), 0, "its own is not durable");
    let out = one.sync();
    assert_eq!(accepts(&out), 1);
    assert!(
        out.iter().filter(|effect| matches!(effect, Effect::Send { .. })).all(waits),
        "the lock is not yet"
    );
    for other in 1..3 {
        let vote = one.accept(other, 1, 1, value(&some(7)));
        assert_eq!(decisions(&one.hear(other, 1, vote)), []);
    }
    assert_eq!(decisions(&one.sync()), [(1, some(7))]);
}

/// Votes come in any order, and a little ahead.
#[test]
fn votes_may_come_before_what_they_are_about() {
    let mut one = One::new(0, 4, Byzantine);
    for slot in [2, 1] {
        for other in 1..4 {
            let vote = one.accept(other, 1, slot, value(&some(slot)));
            assert_eq!(decisions(&one.hear(other, 1, vote)), []);
        }
    }
    assert_eq!(decisions(&one.hear(LEADER, 1, propose(2, 2))), []);
    let out = one.hear(LEADER, 1, propose(1, 1));
    assert_eq!(decisions(&out), [(1, some(1)), (2, some(2))]);
}

/// Nobody makes a replica keep votes on slots that are far away.
#[test]
pub(super) fn votes_far_ahead_are_not_kept() {
    let mut one = One::new(0, 4, Byzantine);
    for slot in (1..200).chain([SLOT_MAX.number() - 1, SLOT_MAX.number(), u64::MAX - 1, u64::MAX]) {
        one.hear(2, 1, write(slot, 7));
        one.hear(LEADER, 1, propose(slot, 7));
        let vote = one.accept(3, 1, slot, value(&some(7)));
        one.hear(3, 1, vote);
    }
    assert!(one.order.voting.tallies.len() <= 4, "{} slots", one.order.voting.tallies.len());
}

/// What was said for another membership counts for nothing, whoever signed it.
#[test]
fn messages_of_another_membership_are_refused() {
    let mut one = One::new(0, 4, Byzantine);
    let body = one.accept(2, 1, 1, value(&some(7)));
    let message = ModSmartMessage { membership: MembershipId::new(2), view: View::FIRST, body };
    let message = OrderMessage::of(message);
    let out = one.step(Input::Receive(Verified::vouch(super::world::replica(2), message)));
    assert_eq!(rejected(&out), 1);
    assert!(one.order.voting.tallies.is_empty());
}

#[test]
fn what_has_no_effect_is_said_again() {
    let mut one = One::new(1, 4, Byzantine);
    one.step(Input::Propose(some(1)));
    let out = one.pass(quorate_types::Span::from_millis(250));
    let again = sent(&out, 2);
    assert!(again.contains(&propose(1, 1)) && again.contains(&write(1, 1)), "{again:?}");
}

//! Changes of membership, each delicate point by itself.

use super::one::{One, decisions, rejected, sent, some};
use super::world::{place, replica, value};
use crate::ledger::Proof;
use crate::mod_smart::Statements;
use crate::mod_smart::message::{Complaint, ModSmartBody as Body};
use crate::mod_smart::tenures::Tenures;
use crate::{Effect, Effects, Input, Order, Stored};
use quorate_auth::{Authenticator, Ed25519, MembershipLink, Signature};
use quorate_types::FaultModel::{self, Byzantine, Crash};
use quorate_types::{AgreedTime, ClusterId, Faults, InstanceId, MembershipId, ReplicaId, Slot, Span, View};
use quorate_wire::{Batch, BatchHeader, Holds, Member, Membership, Memberships, SystemCommand};
use std::sync::Arc;

/// The view with which a second membership of so many voters begins, if its first member leads there.
fn second(voters: u64) -> u64 {
    ((1 << 40) + 1..).find(|view| view % voters == 0).unwrap_or_default()
}

pub(super) fn membership(number: u64, voters: &[usize], learners: &[usize]) -> Membership {
    let voters = voters.iter().map(|at| Member::voter(replica(*at)));
    let learners = learners.iter().map(|at| Member::learner(replica(*at)));
    Membership::new(MembershipId::new(number), voters.chain(learners).collect()).expect("a membership")
}

pub(super) fn change(before: &Membership, now: &Membership) -> Arc<Memberships> {
    Arc::new(Memberships::change(before.clone(), now.clone()).expect("the next one"))
}

pub(super) fn holds(tenures: &Tenures, change: &Memberships, leader: usize) -> Holds {
    let now = tenures.now();
    Holds { change: change.clone(), since: now.since, begins: now.begins, leader: replica(leader) }
}

pub(super) fn batch_of(holds: Holds) -> Batch {
    let header =
        BatchHeader { time: AgreedTime::ZERO, seed: 0, count: 0, border: false, base: None, ruling: None };
    SystemCommand::Holds(holds).batch(header)
}

/// The change of the first membership, as its leader proposes it.
fn first_change(members: usize, now: &Membership, leader: usize) -> (Arc<Memberships>, Batch) {
    let all: Vec<usize> = (0..members).collect();
    let change = change(&membership(1, &all, &[]), now);
    let (since, begins) = (Slot::ZERO, View::FIRST);
    let leader = replica(leader);
    (change.clone(), batch_of(Holds { change: (*change).clone(), since, begins, leader }))
}

fn told(effects: &[Effect]) -> Vec<(u64, bool)> {
    let of = |effect: &Effect| match effect {
        Effect::Members { memberships, committed } => Some((memberships.now().number().number(), *committed)),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

fn receivers(effects: &[Effect], kind: fn(&Body) -> bool) -> Vec<usize> {
    (0..9).filter(|to| sent(effects, *to).iter().any(kind)).collect()
}

/// A proof as members of this membership sign it.
fn proof_in(one: &One, membership: u64, view: u64, slot: u64, batch: &Batch, members: &[usize]) -> Proof {
    let (view, slot, digest) = (View::new(view), Slot::new(slot), value(batch));
    let (cluster, instance) = (ClusterId::new(0), InstanceId::new(1));
    let statements = Statements { cluster, membership: MembershipId::new(membership), instance };
    let statement = statements.accept(view, slot, digest);
    let accepts = members.iter().map(|id| (replica(*id), one.sign(*id, &statement))).collect();
    Proof { slot, view, digest, accepts }
}

/// Somebody who was told by others that the first slot changes the membership.
fn after_change(me: usize, model: FaultModel, members: usize, now: &Membership) -> (One, Batch) {
    let mut one = One::new(me, members, model);
    let (_, batch) = first_change(members, now, 0);
    let all: Vec<usize> = (0..members).collect();
    let proof = proof_in(&one, 1, 1, 1, &batch, &all);
    let effects = one.hear(1, 1, Body::Decision { proof, batch: batch.clone() });
    let voters: Vec<_> = now.voters().collect();
    let begins = if voters.contains(&replica(0)) { second(voters.len() as u64) } else { (1 << 40) + 1 };
    assert_eq!((decisions(&effects).len(), one.order.core.office.view().number()), (1, begins));
    (one, batch)
}

#[test]
fn the_old_members_decide_the_change_and_the_new_ones_what_follows() {
    let mut one = One::new(1, 3, Crash);
    let now = membership(2, &[1, 2, 3], &[]);
    let (change, batch) = first_change(3, &now, 1);
    one.step(Input::Propose(some(1)));
    let effects = one.step(Input::Membership(change));
    assert!(receivers(&effects, |_| true).is_empty(), "one slot after the other: {effects:?}");
    let accept = one.accept(0, 1, 1, value(&some(1)));
    let effects = one.hear(0, 1, accept);
    let proposed = Body::Propose { slot: Slot::new(2), batch: batch.clone() };
    assert_eq!(sent(&effects, 0).iter().filter(|body| **body == proposed).count(), 1);
    assert!(sent(&effects, 3).is_empty(), "the new one has no say in it");
    assert_eq!(one.order.status().membership.now().number(), MembershipId::FIRST);
    let accept = one.accept(2, 1, 2, value(&batch));
    let effects = one.hear(2, 1, accept);
    assert_eq!(decisions(&effects), [(2, batch)]);
    assert_eq!(told(&effects), [(2, false)]);
    // The leader stays the leader, in a view of the new membership: place 1 of it.
    let status = one.order.status();
    assert_eq!((status.view.number(), status.leader), (second(3), Some(replica(1))));
    let proposal = |body: &Body| matches!(body, Body::Propose { slot, .. } if slot.number() == 3);
    assert_eq!(receivers(&effects, proposal), [2, 3], "the next slot is for the new ones");
    assert_eq!(status.committed_membership, MembershipId::FIRST, "nobody knows yet that they are there");
    let own = one.order.core.members.tenures().batch(None, replica(1));
    let accept = |one: &One, from| one.accept(from, second(3), 3, value(&own));
    let left = accept(&one, 0);
    let effects = one.hear_in(2, 0, second(3), left);
    assert_eq!((decisions(&effects).len(), rejected(&effects)), (0, 1), "who left has no vote");
    let new = accept(&one, 3);
    let effects = one.hear_in(2, 3, second(3), new);
    assert_eq!((decisions(&effects).len(), told(&effects)), (1, vec![(2, true)]));
    assert_eq!(one.order.status().committed_membership.number(), 2);
}

/// Views of two memberships are never compared: a slot may have been decided in one view here and in another one there.
#[test]
pub(super) fn a_membership_begins_in_a_view_of_its_own_wherever_its_slot_was_decided() {
    let now = membership(2, &[0, 1, 3], &[]);
    let (here, _) = after_change(0, Crash, 3, &now);
    let mut there = One::new(2, 3, Crash);
    let stops = there.stops(7, &[0, 1]);
    there.hear(1, 7, Body::Certificate { stops });
    assert_eq!(there.order.core.office.view().number(), 7);
    let (_, batch) = first_change(3, &now, 0);
    let proof = proof_in(&there, 1, 7, 1, &batch, &[]);
    there.hear(1, 7, Body::Decision { proof, batch });
    assert_eq!(
        (here.order.core.office.view(), there.order.core.office.view()),
        (View::new(second(3)), View::new(second(3)))
    );
}

/// T13: who proves a slot are those who voted on it, not those who vote now.
#[test]
pub(super) fn a_slot_is_proven_by_its_own_membership() {
    let now = membership(2, &[0, 1, 4, 5], &[]);
    let (one, batch) = after_change(0, Byzantine, 4, &now);
    // A checkpoint at the slot of the change brings no proof of it.
    let anchor = one.order.anchor(Slot::FIRST).expect("known");
    let fresh = || {
        let mut order = One::fresh(0, 4, Byzantine);
        order.restore_anchor(Slot::FIRST, &anchor).expect("an anchor of ours");
        One::begun(order, 0, 4, Byzantine, Vec::new())
    };
    let gone = |proof| Body::Gone { slot: Slot::FIRST, proof: Some(proof) };
    let mut two = fresh();
    let new_ones = proof_in(&two, 2, second(4), 1, &batch, &[0, 1, 4, 5]);
    assert_eq!(
        rejected(&two.hear_in(2, 1, second(4), gone(new_ones))),
        1,
        "the new ones decided nothing there"
    );
    assert!(two.order.core.ledger.proof(Slot::FIRST).is_none());
    let old_ones = proof_in(&two, 1, 1, 1, &batch, &[0, 2, 3]);
    assert_eq!(rejected(&two.hear_in(2, 1, second(4), gone(old_ones.clone()))), 0);
    assert_eq!(two.order.core.ledger.proof(Slot::FIRST), Some(&old_ones));
    let decision = |proof| Body::Decision { proof, batch: some(2) };
    let old_ones = proof_in(&two, 1, 9, 2, &some(2), &[0, 1, 2, 3]);
    let effects = two.hear_in(2, 1, second(4), decision(old_ones));
    assert_eq!((decisions(&effects).len(), rejected(&effects)), (0, 1), "the old ones have no say any more");
    let posing = proof_in(&two, 1, second(4), 2, &some(2), &[0, 1, 4]);
    assert_eq!(rejected(&two.hear_in(2, 1, second(4), decision(posing))), 1, "signed for another membership");
    let new_ones = proof_in(&two, 2, second(4), 2, &some(2), &[0, 1, 4]);
    assert_eq!(decisions(&two.hear_in(2, 1, second(4), decision(new_ones))).len(), 1);
}

#[test]
fn who_is_behind_is_shown_what_ended_its_membership() {
    let now = membership(2, &[0, 1, 3], &[]);
    let (mut one, batch) = after_change(0, Crash, 3, &now);
    let stop = Body::Stop {
        asked: View::new(2),
        why: Complaint::Silence,
        decided: Slot::ZERO,
        signature: Signature::NONE,
    };
    let effects = one.hear_in(1, 2, 1, stop.clone());
    let shown = sent(&effects, 2);
    assert!(matches!(&shown[..], [Body::Decision { batch: one, .. }] if *one == batch), "{shown:?}");
    assert_eq!(one.order.core.office.view().number(), second(3), "and has no say");
    assert!(sent(&one.hear_in(1, 2, 1, stop.clone()), 2).is_empty(), "once a tick");
    let effects = one.hear_in(1, 8, 1, stop);
    assert_eq!((rejected(&effects), sent(&effects, 8).len()), (1, 0), "a stranger is shown nothing");
}

#[test]
fn who_is_ahead_is_asked_for_what_is_missing() {
    let mut one = One::new(0, 3, Crash);
    let alive = Body::Alive { decided: Slot::new(4), round: 1 };
    let effects = one.hear_in(2, 3, second(3), alive);
    assert!(
        matches!(&sent(&effects, 3)[..], [Body::Fetch { slot, .. }] if *slot == Slot::FIRST),
        "{effects:?}"
    );
    assert_eq!((one.order.core.office.view(), rejected(&effects)), (View::FIRST, 0));
    let effects = one.hear_in(2, 1, 1, Body::Alive { decided: Slot::new(4), round: 1 });
    assert_eq!(rejected(&effects), 1, "no view of that membership");
}

#[test]
fn nobody_asks_for_a_view_of_another_membership() {
    let mut one = One::new(0, 4, Byzantine);
    let stop = one.stop(1, second(4), Complaint::Silence);
    assert_eq!(rejected(&one.hear(1, 1, stop)), 1);
    let stops = one.stops(second(4), &[1, 2, 3]);
    assert_eq!(rejected(&one.hear_in(1, 1, second(4), Body::Certificate { stops })), 1);
    assert_eq!(one.order.core.office.view(), View::FIRST);
}

/// A learner is sent what is decided, asks for what it lacks, and votes for nothing.
#[test]
fn a_learner_listens() {
    let now = membership(2, &[0, 1, 2], &[3]);
    let (mut one, _) = after_change(3, Crash, 3, &now);
    let effects = one.hear_in(2, 0, second(3), Body::Propose { slot: Slot::new(2), batch: some(1) });
    assert!(receivers(&effects, |body| matches!(body, Body::Accept { .. })).is_empty());
    let effects = one.hear_in(2, 0, second(3), Body::Alive { decided: Slot::new(3), round: 7 });
    let answered =
        |body: &Body| matches!(body, Body::AliveReply { decided, round: 7 } if decided.number() == 1);
    assert_eq!(receivers(&effects, answered), [0]);
    let effects = one.pass(Span::from_millis(100));
    assert_eq!(receivers(&effects, |body| matches!(body, Body::Fetch { .. })), [0]);
    let proof = proof_in(&one, 2, second(3), 2, &some(1), &[]);
    one.hear_in(2, 0, second(3), Body::Decision { proof, batch: some(1) });
    assert_eq!(one.order.core.decided().number(), 2);
    let effects = one.pass(Span::from_secs(5));
    assert!(
        receivers(&effects, |body| matches!(body, Body::Stop { .. })).is_empty(),
        "it complains about nobody"
    );
    let asked = receivers(&effects, |body| matches!(body, Body::Fetch { .. }));
    assert_eq!(asked, [0, 1, 2], "where nothing comes it asks one after the other");
}

#[test]
fn the_leader_tells_those_who_listen_and_knows_who_has_caught_up() {
    let now = membership(2, &[0, 1, 2], &[3]);
    let (mut one, _) = after_change(0, Crash, 3, &now);
    let establishing = one.order.core.members.tenures().batch(None, replica(0));
    let accept = one.accept(1, second(3), 2, value(&establishing));
    one.hear_in(2, 1, second(3), accept);
    assert!(one.order.status().caught_up.is_empty());
    let round = |effects: &[Effect]| {
        let round = sent(effects, 3).iter().find_map(|body| match body {
            Body::Alive { round, .. } => Some(*round),
            _ => None,
        });
        round.expect("learners hear that the leader lives")
    };
    let alive = round(&one.pass(Span::from_millis(60)));
    one.hear_in(2, 3, second(3), Body::AliveReply { decided: Slot::FIRST, round: alive });
    assert_eq!(one.order.status().caught_up, [replica(3)]);
    one.hear_in(2, 1, second(3), Body::AliveReply { decided: Slot::FIRST, round: alive });
    one.step(Input::Propose(some(5)));
    let accept = one.accept(1, second(3), 3, value(&some(5)));
    let effects = one.hear_in(2, 1, second(3), accept);
    let decided = |body: &Body| matches!(body, Body::Decision { .. });
    assert_eq!(receivers(&effects, decided), [3], "a voter decides itself");
    assert_eq!(one.order.status().there, [replica(1), replica(3)]);
}

/// Others may have decided the change, and more behind it, of which the old members know nothing.
#[test]
fn a_read_waits_while_a_change_is_open() {
    let mut one = One::new(1, 3, Crash);
    let confirmed = |effects: &[Effect]| effects.iter().any(|e| matches!(e, Effect::ReadConfirmed { .. }));
    let failed = |effects: &[Effect]| effects.iter().any(|e| matches!(e, Effect::ReadFailed { read: 7 }));
    let round = |effects: &[Effect]| {
        let round = sent(effects, 0).iter().find_map(|body| match body {
            Body::Alive { round, .. } => Some(*round),
            _ => None,
        });
        round.expect("the leader asks whether it still leads")
    };
    let alive = round(&one.step(Input::Read(6)));
    let reply = |round| Body::AliveReply { decided: Slot::ZERO, round };
    assert!(confirmed(&one.hear(0, 1, reply(alive))), "usually one answer is enough");
    let (change, batch) = first_change(3, &membership(2, &[1, 3, 4], &[]), 1);
    one.step(Input::Membership(change));
    let alive = round(&one.step(Input::Read(7)));
    assert!(!confirmed(&one.hear(0, 1, reply(alive))));
    let accept = one.accept(0, 1, 1, value(&batch));
    assert!(failed(&one.hear(0, 1, accept)), "the new members are to be asked");
}

/// T17: who leaves answers until the new ones have everything.
#[test]
fn who_left_hears_and_answers() {
    let now = membership(2, &[1, 2, 3], &[]);
    let (mut one, batch) = after_change(0, Crash, 3, &now);
    assert!(!one.order.core.votes());
    let view = one.order.core.office.view().number();
    one.step(Input::Propose(some(1)));
    let effects = one.hear_in(2, 3, view, Body::Fetch { slot: Slot::FIRST, count: 9 });
    assert!(matches!(&sent(&effects, 3)[..], [Body::Decision { batch: one, .. }] if *one == batch));
    let effects = one.hear_in(1, 3, 1, Body::Fetch { slot: Slot::FIRST, count: 10 });
    assert_eq!(sent(&effects, 3).len(), 1, "also those who do not know yet that they vote");
    let leader: ReplicaId = one.order.core.leader();
    let proof = proof_in(&one, 2, view, 2, &some(3), &[]);
    let from = usize::from(leader.number());
    one.hear_in(2, from, view, Body::Decision { proof, batch: some(3) });
    assert_eq!(one.order.core.decided().number(), 2);
}

/// Where replicas may lie a change is voted for by who executed the command that asks for it.
#[test]
fn a_change_that_nobody_ordered_finds_no_votes() {
    let now = membership(2, &[0, 1, 2, 3], &[4]);
    let (change, batch) = first_change(4, &now, 1);
    let mut one = One::new(0, 4, Byzantine);
    let effects = one.hear(1, 1, Body::Propose { slot: Slot::FIRST, batch });
    let wrote = |body: &Body| matches!(body, Body::Write { .. });
    assert!(receivers(&effects, wrote).is_empty());
    assert!(
        !effects.iter().any(|effect| matches!(effect, Effect::Examine { .. })),
        "no client can have sent it"
    );
    let effects = one.step(Input::Membership(change));
    assert_eq!(receivers(&effects, wrote), [1, 2, 3]);
}

/// The host would not see a time that a lying leader puts beside a change: all sessions would be over.
#[test]
pub(super) fn a_change_with_a_time_beside_it_is_none() {
    let now = membership(2, &[0, 1, 2, 3], &[4]);
    let (change, batch) = first_change(4, &now, 1);
    let Some(SystemCommand::Holds(holds)) = SystemCommand::of(&batch) else { panic!("{batch:?}") };
    let header = batch.header();
    for header in [
        BatchHeader { time: AgreedTime::from_nanos(u64::MAX), ..header },
        BatchHeader { base: Some(AgreedTime::ZERO), ..header },
        BatchHeader { border: true, ..header },
        BatchHeader { seed: 1, ..header },
    ] {
        let mut one = One::new(0, 4, Byzantine);
        one.vouches = false;
        one.step(Input::Membership(change.clone()));
        let batch = SystemCommand::Holds(holds.clone()).batch(header);
        let effects = one.hear(1, 1, Body::Propose { slot: Slot::FIRST, batch });
        assert!(receivers(&effects, |body| matches!(body, Body::Write { .. })).is_empty(), "{header:?}");
        let asked = effects.iter().filter(|effect| matches!(effect, Effect::Examine { .. }));
        assert_eq!(asked.count(), 1, "as about any other batch: {header:?}");
    }
}

#[test]
fn a_restart_in_the_middle_goes_on_with_the_new_members() {
    let now = membership(2, &[0, 1, 3], &[]);
    let (one, _) = after_change(0, Crash, 3, &now);
    // The last that is durable is the decision, or its own view, or what it proposed there.
    for kept in 2..=one.disk.len() {
        let again = One::restored(0, 3, Crash, one.disk[..kept].to_vec());
        assert_eq!(
            (again.order.core.office.view().number(), again.order.core.decided().number()),
            (second(3), 1)
        );
        assert_eq!(again.order.core.members.voters(), [replica(0), replica(1), replica(3)]);
        // Who led in an earlier life leads no more; nobody did in a life that did not know of it.
        assert_eq!(again.order.core.office.is_barred(), kept > 2);
    }
}

#[test]
fn a_checkpoint_beyond_the_log_brings_the_membership() {
    let now = membership(2, &[0, 1, 3], &[]);
    let (mut ahead, _) = after_change(0, Crash, 3, &now);
    let establishing = ahead.order.core.members.tenures().batch(None, replica(0));
    let accept = ahead.accept(1, second(3), 2, value(&establishing));
    ahead.hear_in(2, 1, second(3), accept);
    let (slot, anchor) = (Slot::new(2), ahead.order.anchor(Slot::new(2)).expect("known"));
    let mut one = One::new(3, 3, Crash);
    let effects = one.step(Input::Installed { slot, anchor: anchor.clone() });
    assert_eq!((told(&effects), one.order.core.office.view().number()), (vec![(2, true)], second(3)));
    assert_eq!(one.order.anchor(slot), Some(anchor.clone()));
    let mut order = One::fresh(3, 3, Crash);
    order.restore_anchor(slot, &anchor).expect("an anchor of ours");
    for kept in 0..=one.disk.len() {
        let mut order = One::fresh(3, 3, Crash);
        order.restore_anchor(slot, &anchor).expect("an anchor of ours");
        let again = One::begun(order, 3, 3, Crash, one.disk[..kept].to_vec());
        assert_eq!(
            (again.order.core.office.view().number(), again.order.core.decided()),
            (second(3), slot),
            "{kept} records"
        );
    }
}

/// A replica begins with a checkpoint of a later membership, and its log ends before the next checkpoint: nothing but its log says which
/// membership holds where it ends.
#[test]
fn a_log_that_begins_with_a_later_membership_says_so() {
    let (ahead, _) = after_change(0, Crash, 3, &membership(2, &[0, 1, 3], &[]));
    let tenures = ahead.order.core.members.tenures();
    let begin = |slot: u64, records: Vec<Stored>| {
        let anchor = tenures.anchor(Slot::new(slot)).expect("known");
        let mut order = One::fresh(3, 3, Crash);
        order.restore_anchor(Slot::new(slot), &anchor).expect("an anchor of ours");
        One::begun(order, 3, 3, Crash, records)
    };
    let mut one = begin(2, Vec::new());
    for slot in 3..=4 {
        one.hear_in(2, 0, second(3), Body::Propose { slot: Slot::new(slot), batch: some(slot) });
        let accept = one.accept(0, second(3), slot, value(&some(slot)));
        one.hear_in(2, 0, second(3), accept);
    }
    assert_eq!(one.order.core.decided(), Slot::new(4));
    for kept in 1..=one.disk.len() {
        let again = begin(5, one.disk[..kept].to_vec());
        let core = &again.order.core;
        assert_eq!(
            (core.office.view().number(), core.membership_number().number()),
            (second(3), 2),
            "{kept}"
        );
        assert!((2..=5).contains(&core.decided().number()), "{kept} records: {}", core.decided());
    }
}

/// A leader that lies might never propose what all others wait for.
#[test]
pub(super) fn a_leader_that_leaves_a_change_out_is_complained_about() {
    let (change, batch) = first_change(4, &membership(2, &[0, 1, 2, 3], &[4]), 1);
    let complains = |model, carries_out: bool| {
        let mut one = One::new(0, 4, model);
        one.step(Input::Membership(change.clone()));
        if carries_out {
            let proof = proof_in(&one, 1, 1, 1, &batch, &[0, 1, 2]);
            one.hear(1, 1, Body::Decision { proof, batch: batch.clone() });
        }
        let mut out = Vec::new();
        for round in 0..40 {
            out.extend(one.hear(1, 1, Body::Alive { decided: one.order.core.decided(), round }));
            out.extend(one.pass(Span::from_millis(50)));
        }
        sent(&out, 2).iter().any(|body| matches!(body, Body::Stop { .. }))
    };
    assert!(complains(Byzantine, false));
    assert!(!complains(Crash, false), "who does not lie proposes it as soon as it can");
}

/// It guesses that those founded the cluster of which it was told. What others decided proves nothing to it then, and nobody lied.
#[test]
pub(super) fn who_joins_and_does_not_know_the_founders_asks_for_a_checkpoint() {
    let mut one = One::new(5, 5, Byzantine);
    let proof = proof_in(&one, 1, 1, 1, &some(7), &[0, 1, 2]);
    let out = one.hear(1, 1, Body::Decision { proof, batch: some(7) });
    assert_eq!((rejected(&out), decisions(&out).len()), (0, 0));
    assert!(out.iter().any(|effect| matches!(effect, Effect::Behind { .. })), "{out:?}");

    // It guessed right.
    let mut one = One::new(4, 4, Byzantine);
    let proof = proof_in(&one, 1, 1, 1, &some(7), &[0, 1, 2]);
    let out = one.hear(1, 1, Body::Decision { proof, batch: some(7) });
    assert_eq!(decisions(&out).len(), 1);
}

/// All who have to vote for its promotion know how far a learner is.
#[test]
fn a_learner_says_to_all_voters_how_far_it_is() {
    let now = membership(2, &[0, 1, 2, 3], &[4]);
    let (mut voter, batch) = after_change(2, Byzantine, 4, &now);
    let (view, decided) = (voter.order.core.office.view(), voter.order.core.decided());
    let leader = place(voter.order.core.leader());
    let mut learner = One::new(4, 4, Byzantine);
    let proof = proof_in(&learner, 1, 1, 1, &batch, &[0, 1, 2, 3]);
    learner.hear(1, 1, Body::Decision { proof, batch });
    let alive = Body::Alive { decided, round: 1 };
    let out = learner.hear_in(2, leader, view.number(), alive);
    let reply = Body::AliveReply { decided, round: 1 };
    for voter in 0..4 {
        assert!(sent(&out, voter).contains(&reply), "{voter}: {out:?}");
    }
    assert_ne!(leader, 2);
    assert!(voter.order.status().caught_up.is_empty());
    voter.hear_in(2, 4, view.number(), reply);
    assert_eq!(voter.order.status().caught_up, [replica(4)]);
}

/// Who decides a change in the first instance gives what proves it to others: to those who know the members before, and their keys.
/// [mod_smart L190]
#[test]
fn a_change_gives_a_link_to_the_next_membership() {
    let secret = |at: usize| [at as u8 + 1; 32];
    let keys: Vec<_> = (0..5).map(|at| (replica(at), Ed25519::public(secret(at)))).collect();
    let real =
        |at: usize| Ed25519::new(replica(at), secret(at), keys[..4].iter().copied()).expect("keys of ours");
    let with_keys = |membership: &Membership| {
        let key = |member: &Member| Some(*keys[place(member.replica)].1.bytes());
        let member = |member: &Member| Member { key: key(member), ..member.clone() };
        let members = membership.members().iter().map(member).collect();
        Membership::new(membership.number(), members).expect("a membership")
    };
    let (before, now) =
        (with_keys(&membership(1, &[0, 1, 2, 3], &[])), with_keys(&membership(2, &[0, 1, 3, 4], &[])));
    let change = change(&before, &now);
    let holds =
        Holds { change: (*change).clone(), since: Slot::ZERO, begins: View::FIRST, leader: replica(0) };
    let batch = batch_of(holds);
    let decides = |instance: u16, signers: &[usize], known: bool| {
        let mut order = One::fresh(0, 4, Byzantine);
        order.core.config.instance = InstanceId::new(instance);
        if known {
            order.core.auth = Box::new(real(0));
        }
        let mut one = One::begun(order, 0, 4, Byzantine, Vec::new());
        let (view, slot, digest) = (View::FIRST, Slot::FIRST, value(&batch));
        let (cluster, instance) = (ClusterId::new(0), InstanceId::new(instance));
        let statement =
            Statements { cluster, membership: MembershipId::FIRST, instance }.accept(view, slot, digest);
        let sign = |at: &usize| {
            let signature = if known { real(*at).sign(&statement) } else { one.sign(*at, &statement) };
            (replica(*at), signature)
        };
        let accepts = signers.iter().map(sign).collect();
        let proof = Proof { slot, view, digest, accepts };
        let mut out = Effects::new();
        one.order.decide(proof, batch.clone(), &mut out);
        let link = |effect| match effect {
            Effect::Link(link) => Some(*link),
            _ => None,
        };
        out.drain().filter_map(link).collect::<Vec<_>>()
    };
    let given = decides(1, &[0, 1, 3], true);
    let [link] = &given[..] else { panic!("one link: {given:?}") };
    let faults = Faults::from(Byzantine);
    assert_eq!(link.verify(ClusterId::new(0), &before, faults), Ok(now.clone()));
    assert_eq!(MembershipLink::decode(&link.encode()).as_ref(), Ok(link));
    assert_eq!(decides(2, &[0, 1, 3], true), [], "one instance's word is enough");
    assert_eq!(
        decides(1, &[0, 1], true),
        [],
        "a small quorum proves nothing to who does not know that it was granted"
    );
    assert_eq!(decides(1, &[0, 1, 3], false), [], "keys that nobody else has prove nothing");
}

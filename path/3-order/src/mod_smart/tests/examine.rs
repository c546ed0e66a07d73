//! Nobody votes for a proposal of which it is not known that clients sent it.

use super::one::{One, rejected, sent, some};
use super::world::value;
use crate::mod_smart::message::{Complaint, ModSmartBody as Body};
use crate::{Effect, Input};
use quorate_types::FaultModel::{Byzantine, Crash};
use quorate_types::{Digest, Slot, Span};
use quorate_wire::Batch;

/// A replica whose host does not answer.
fn held(me: usize, members: usize) -> One {
    let mut one = One::new(me, members, Byzantine);
    one.vouches = false;
    one
}

fn propose(slot: u64, number: u64) -> Body {
    Body::Propose { slot: Slot::new(slot), batch: some(number) }
}

fn write(slot: u64, number: u64) -> Body {
    Body::Write { slot: Slot::new(slot), digest: value(&some(number)) }
}

fn vouched(slot: u64, number: u64) -> Input {
    Input::Vouched { slot: Slot::new(slot), digest: value(&some(number)), waited: None }
}

fn asked(effects: &[Effect]) -> Vec<(u64, Digest, Batch)> {
    let question = |effect: &Effect| match effect {
        Effect::Examine { slot, digest, batch } => Some((slot.number(), *digest, batch.clone())),
        _ => None,
    };
    effects.iter().filter_map(question).collect()
}

fn writes(effects: &[Effect]) -> usize {
    sent(effects, 3).iter().filter(|body| matches!(body, Body::Write { .. })).count()
}

/// View 2, which member 2 leads, begins free.
fn free_second_view(one: &mut One) -> Vec<Effect> {
    let (stops, collects) =
        (one.stops(2, &[1, 2, 3]), (1..4).map(|from| one.collect(from, 2, 0, None, &[])).collect());
    one.hear(2, 2, Body::Sync { stops, collects, last: None, value: None })
}

#[test]
pub(super) fn nobody_votes_for_what_nobody_vouches_for() {
    let mut one = held(0, 4);
    let out = one.hear(1, 1, propose(1, 7));
    assert_eq!(asked(&out), [(1, value(&some(7)), some(7))]);
    assert_eq!(writes(&out), 0, "it does not know who sent it");
    assert_eq!(asked(&one.hear(1, 1, propose(1, 7))), [], "once");
    assert_eq!(writes(&one.hear(1, 1, write(1, 7))), 0, "the leader's own vote shows nothing");
    assert_eq!(writes(&one.step(vouched(2, 7))), 0, "another slot");
    assert_eq!(writes(&one.step(vouched(1, 8))), 0, "another batch");
    assert_eq!(writes(&one.step(vouched(1, 7))), 1);
    assert_eq!(writes(&one.step(vouched(1, 7))), 0, "it votes once");
}

/// Of f+1 that wrote it one is honest.
#[test]
fn what_more_than_f_wrote_is_taken() {
    for (members, others) in [(4, 2), (7, 3)] {
        let mut one = held(0, members);
        one.hear(1, 1, propose(1, 7));
        one.hear(others + 1, 1, write(1, 8));
        for from in 1..others {
            assert_eq!(writes(&one.hear(from, 1, write(1, 7))), 0, "{from} of {members}");
        }
        assert_eq!(writes(&one.hear(others, 1, write(1, 7))), 1, "{others} of {members}");
    }
}

/// Without the proposal f+1 votes are not enough to vote: the batch must be here.
#[test]
fn votes_without_a_proposal_are_not_followed() {
    let mut one = held(0, 4);
    for from in [2, 3] {
        assert_eq!(writes(&one.hear(from, 1, write(1, 7))), 0);
    }
    let out = one.hear(1, 1, propose(1, 7));
    assert_eq!(writes(&out), 1);
}

#[test]
fn a_leader_votes_for_its_own_by_the_same_rule() {
    let mut one = held(1, 4);
    let out = one.step(Input::Propose(some(7)));
    assert_eq!((asked(&out).len(), sent(&out, 3)), (1, vec![propose(1, 7)]));
    let again = one.pass(Span::from_millis(250));
    assert!(sent(&again, 3).contains(&propose(1, 7)), "what may be lost is said again, voted for or not");
    assert_eq!((asked(&again).len(), writes(&again)), (0, 0));
    assert_eq!(writes(&one.step(vouched(1, 7))), 1);
}

/// What the next slots bring is asked about when it arrives, and waits for its turn.
#[test]
fn answers_may_come_before_their_turn() {
    let mut one = held(0, 4);
    assert_eq!(asked(&one.hear(1, 1, propose(2, 2))), [(2, value(&some(2)), some(2))]);
    assert_eq!(writes(&one.step(vouched(2, 2))), 0);
    one.vouches = true;
    let out = one.decide(1, 1, 1, &some(1));
    assert!(sent(&out, 3).contains(&write(2, 2)), "{out:?}");
}

#[test]
fn an_answer_holds_in_later_views() {
    for answer in ["before", "between", "after"] {
        let mut one = held(0, 4);
        one.hear(1, 1, propose(1, 7));
        if answer == "before" {
            // It votes in view 1, and says so on entering view 2.
            assert_eq!(writes(&one.step(vouched(1, 7))), 1);
        }
        free_second_view(&mut one);
        if answer == "between" {
            assert_eq!(writes(&one.step(vouched(1, 7))), 0, "nothing is proposed in this view");
        }
        let out = one.hear(2, 2, propose(1, 7));
        let known = answer != "after";
        assert_eq!((asked(&out).len(), writes(&out)), (usize::from(!known), usize::from(known)), "{answer}");
        if !known {
            assert_eq!(writes(&one.step(vouched(1, 7))), 1);
        }
    }
}

/// f+1 wrote what binds a view, so one honest member knew it.
#[test]
fn what_binds_a_view_is_not_asked_about() {
    let mut one = held(0, 4);
    let digest = value(&some(7));
    let (stops, collects) = (
        one.stops(2, &[1, 2, 3]),
        (1..4).map(|from| one.collect(from, 2, 0, Some((1, digest)), &[(1, digest)])).collect(),
    );
    let out = one.hear(2, 2, Body::Sync { stops, collects, last: None, value: Some(some(7)) });
    assert_eq!((asked(&out).len(), writes(&out), rejected(&out)), (0, 1, 0));
}

/// Nobody waits for ever: the slot is late.
#[test]
fn a_vote_held_back_makes_its_slot_late() {
    let mut one = held(0, 4);
    one.hear(1, 1, propose(1, 7));
    let mut out = Vec::new();
    for round in 0..40 {
        out.extend(one.hear(1, 1, Body::Alive { decided: Slot::ZERO, round }));
        out.extend(one.pass(Span::from_millis(20)));
    }
    let late = |body: &Body| matches!(body, Body::Stop { why: Complaint::Slot(_), .. });
    assert!(sent(&out, 2).iter().any(late));
    assert_eq!(writes(&out), 0);
}

#[test]
fn where_nobody_lies_nobody_asks() {
    let mut one = One::new(0, 3, Crash);
    one.vouches = false;
    let out = one.hear(1, 1, propose(1, 7));
    assert_eq!(asked(&out), []);
    assert!(matches!(sent(&out, 2)[..], [Body::Accept { .. }]));
}

/// INV-SMART-10, which is looked at after each step, holds whatever the host says.
#[test]
fn little_is_remembered() {
    let mut one = held(0, 4);
    for slot in [0, 1, 2, 3, 4, 5, 9, u64::MAX] {
        for number in 0..40 {
            one.step(vouched(slot, number));
        }
    }
    let out = one.hear(1, 1, propose(1, 39));
    assert_eq!((asked(&out).len(), writes(&out)), (0, 1), "the latest are kept");
    let mut one = held(0, 4);
    one.step(vouched(1, 7));
    one.vouches = true;
    one.decide(1, 1, 1, &some(1));
    assert!(one.order.voting.vouched.is_empty(), "what is decided is over");
}

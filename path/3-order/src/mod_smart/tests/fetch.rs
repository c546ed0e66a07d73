//! Decided slots from others.

use super::one::{One, decisions, rejected, sent, some};
use crate::ledger::Proof;
use crate::mod_smart::SLOT_MAX;
use crate::mod_smart::message::ModSmartBody as Body;
use crate::{Effect, Input};
use quorate_types::FaultModel::{Byzantine, Crash};
use quorate_types::{Slot, Span};
use quorate_wire::Batch;

fn fetches(effects: &[Effect]) -> Vec<usize> {
    let asked = |to: &usize| sent(effects, *to).iter().any(|body| matches!(body, Body::Fetch { .. }));
    (0..4).filter(asked).collect()
}

fn behind(effects: &[Effect]) -> Vec<u64> {
    let slot = |effect: &Effect| match effect {
        Effect::Behind { slot } => Some(slot.number()),
        _ => None,
    };
    effects.iter().filter_map(slot).collect()
}

#[test]
fn what_others_seem_to_have_is_asked_for() {
    let mut one = One::new(0, 4, Byzantine);
    one.hear(1, 1, Body::Alive { decided: Slot::new(2), round: 1 });
    assert_eq!(fetches(&one.pass(Span::from_millis(60))), [1]);
    for slot in [1, 2] {
        let proof = one.proof(1, slot, &some(slot), &[1, 2, 3]);
        let out = one.hear(1, 1, Body::Decision { proof, batch: some(slot) });
        assert_eq!(decisions(&out), [(slot, some(slot))]);
    }
    assert_eq!(fetches(&one.pass(Span::from_millis(300))), [] as [usize; 0], "nothing is missing");
}

/// Whoever had as much as an answer holds is asked for more at once: a replica that waited for word of each next window would be slower
/// than those whom it follows.
#[test]
fn a_full_answer_is_followed_by_the_next_question() {
    let big = |slot: u64| super::world::batch(slot, 1 << 20);
    for (count, batch) in [(32, some as fn(u64) -> Batch), (4, big)] {
        let mut one = One::new(0, 4, Byzantine);
        one.hear(1, 1, Body::Alive { decided: Slot::new(count), round: 1 });
        assert_eq!(fetches(&one.pass(Span::from_millis(60))), [1]);
        for slot in 1..=count {
            let proof = one.proof(1, slot, &batch(slot), &[1, 2, 3]);
            let out = one.hear(1, 1, Body::Decision { proof, batch: batch(slot) });
            assert_eq!(fetches(&out).len(), usize::from(slot == count), "{slot} of {count}");
        }
        // Once, if there is none.
        for _ in 0..10 {
            let out = one.pass(Span::from_millis(200));
            assert_eq!(fetches(&out), [] as [usize; 0]);
            one.hear(1, 1, Body::Alive { decided: Slot::new(count), round: 1 });
        }
    }
}

/// The proof is believed, not the member.
#[test]
pub(super) fn decisions_are_proven() {
    let mut one = One::new(0, 4, Byzantine);
    let proof = one.proof(1, 1, &some(1), &[1, 2, 3]);
    let wrong = [
        (one.proof(1, 1, &some(1), &[1, 2]), some(1), "too few"),
        (proof.clone(), some(2), "another batch"),
        (
            Proof { accepts: one.proof(1, 2, &some(1), &[1, 2, 3]).accepts, ..proof.clone() },
            some(1),
            "of another slot",
        ),
        (
            Proof { accepts: one.proof(2, 1, &some(1), &[1, 2, 3]).accepts, ..proof.clone() },
            some(1),
            "of another view",
        ),
        (
            Proof { accepts: one.proof(1, 1, &some(2), &[1, 2, 3]).accepts, ..proof.clone() },
            some(1),
            "of another value",
        ),
        (
            {
                let mut forged = proof.clone();
                forged.accepts[1].1 = forged.accepts[0].1;
                forged
            },
            some(1),
            "signed by another",
        ),
        (
            {
                let mut forged = proof.clone();
                forged.accepts[2].0 = super::world::replica(7);
                forged
            },
            some(1),
            "of no member",
        ),
    ];
    for (proof, batch, why) in wrong {
        let out = one.hear(2, 1, Body::Decision { proof, batch });
        assert_eq!((rejected(&out), decisions(&out).len()), (1, 0), "{why}");
    }
    let out = one.hear(2, 1, Body::Decision { proof, batch: some(1) });
    assert_eq!(decisions(&out).len(), 1);
}

/// Whoever does not answer is not asked alone for ever.
#[test]
fn the_next_one_is_asked() {
    let mut one = One::new(0, 4, Byzantine);
    for from in 1..4 {
        one.hear(from, 1, Body::Write { slot: Slot::new(9), digest: super::world::value(&some(1)) });
    }
    let mut asked = std::collections::BTreeSet::new();
    for _ in 0..6 {
        asked.extend(fetches(&one.pass(Span::from_millis(120))));
    }
    assert_eq!(asked.len(), 3);
}

#[test]
fn absurd_slots_are_not_asked_for() {
    let mut one = One::new(0, 4, Byzantine);
    one.hear(1, 1, Body::Alive { decided: Slot::new(SLOT_MAX.number() + 1), round: 1 });
    one.hear(2, 1, Body::Write { slot: Slot::new(u64::MAX), digest: super::world::value(&some(1)) });
    assert_eq!(fetches(&one.pass(Span::from_millis(100))), [] as [usize; 0]);
}

#[test]
fn decided_slots_are_given_to_whoever_asks() {
    let mut one = One::new(0, 4, Byzantine);
    (1..=40).for_each(|slot| drop(one.decide(1, slot, 1, &some(slot))));
    let out = one.hear(3, 1, Body::Fetch { slot: Slot::new(5), count: 3 });
    let slots: Vec<u64> = sent(&out, 3)
        .iter()
        .map(|body| match body {
            Body::Decision { proof, .. } => proof.slot.number(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(slots, [5, 6, 7]);
    assert_eq!(sent(&one.hear(3, 1, Body::Fetch { slot: Slot::new(41), count: 3 }), 3), []);
    assert_eq!(sent(&one.hear(3, 1, Body::Fetch { slot: Slot::ZERO, count: 3 }), 3), []);
    assert_eq!(sent(&one.hear(3, 1, Body::Fetch { slot: Slot::new(u64::MAX), count: 3 }), 3), []);
}

/// Whoever asks again and again, for the same or for others, gets no more than a share of what this replica can send.
#[test]
pub(super) fn a_flood_of_questions_gets_few_answers() {
    let mut one = One::new(0, 4, Byzantine);
    let big = |slot: u64| super::world::batch(slot, 1 << 20);
    (1..=40).for_each(|slot| drop(one.decide(1, slot, 1, &big(slot))));
    let bytes = |out: &[Effect]| -> usize {
        let size = |body: &Body| match body {
            Body::Decision { batch, .. } => batch.bytes().len(),
            _ => 0,
        };
        sent(out, 3).iter().map(size).sum()
    };
    let fetch = |slot, count| Body::Fetch { slot: Slot::new(slot), count };
    assert!(bytes(&one.hear(3, 1, fetch(1, 32))) > 4 << 20);
    assert_eq!(bytes(&one.hear(3, 1, fetch(1, 32))), 0, "it is on its way");
    assert_eq!(bytes(&one.hear(3, 1, fetch(1, 1))), 0, "it is on its way");
    assert!(bytes(&one.hear(3, 1, fetch(6, 32))) > 4 << 20, "the next ones are another question");
    let mut given = 0;
    for round in 0..1000 {
        one.now = one.now.plus(Span::from_millis(1));
        given += bytes(&one.hear(3, 1, fetch(1 + round % 30, 32)));
    }
    assert!((32 << 20..80 << 20).contains(&given), "{given} bytes in a second");
    assert!(!sent(&one.hear(2, 1, fetch(1, 1)), 2).is_empty(), "another one has its own share");
    one.now = one.now.plus(Span::from_secs(1));
    assert!(bytes(&one.hear(3, 1, fetch(1, 1))) > 1 << 20);
}

/// One that says that only a checkpoint helps may lie; two do not both, and one that shows it does not.
#[test]
fn a_checkpoint_is_asked_for_when_that_is_certain() {
    let mut one = One::new(0, 4, Byzantine);
    let gone = |proof| Body::Gone { slot: Slot::new(9), proof };
    assert_eq!(behind(&one.hear(1, 1, gone(None))), [] as [u64; 0]);
    assert_eq!(behind(&one.hear(1, 1, gone(None))), [] as [u64; 0], "the same one");
    assert_eq!(behind(&one.hear(2, 1, gone(None))), [9]);
    let mut one = One::new(0, 4, Byzantine);
    let proof = one.proof(1, 9, &some(9), &[1, 2, 3]);
    let few = one.proof(1, 9, &some(9), &[1, 2]);
    assert_eq!(rejected(&one.hear(1, 1, gone(Some(few)))), 1);
    assert_eq!(behind(&one.hear(1, 1, gone(Some(proof)))), [9]);
    let mut one = One::new(0, 3, Crash);
    assert_eq!(behind(&one.hear(1, 1, gone(None))), [9], "nobody lies");
}

/// Whoever begins with somebody else's checkpoint can not show that its slot is decided, until it is told.
#[test]
fn the_proof_of_a_foreign_checkpoint_is_asked_for() {
    let mut one = One::new(0, 4, Byzantine);
    let anchor = crate::Order::anchor(&one.order, Slot::ZERO).expect("all have the same");
    one.step(Input::Installed { slot: Slot::new(6), anchor });
    assert!(!fetches(&one.pass(Span::from_millis(120))).is_empty());
    let proof = one.proof(1, 6, &some(6), &[1, 2, 3]);
    one.hear(2, 1, Body::Gone { slot: Slot::new(6), proof: Some(proof.clone()) });
    assert_eq!(one.order.core.ledger.proof(Slot::new(6)), Some(&proof));
    assert_eq!(fetches(&one.pass(Span::from_millis(200))), [] as [usize; 0]);
}

/// Nobody may have that proof any more: that is no reason not to ask for what follows.
#[test]
fn who_can_not_show_its_checkpoint_goes_on_behind_it() {
    let mut one = One::new(0, 4, Byzantine);
    let anchor = crate::Order::anchor(&one.order, Slot::ZERO).expect("all have the same");
    one.step(Input::Installed { slot: Slot::new(6), anchor });
    one.hear(2, 1, Body::Write { slot: Slot::new(9), digest: super::world::value(&some(1)) });
    let out = one.hear(2, 1, Body::Gone { slot: Slot::new(6), proof: None });
    let asked: Vec<u64> = sent(&out, 2)
        .iter()
        .filter_map(|body| match body {
            Body::Fetch { slot, .. } => Some(slot.number()),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [7]);
    let out = one.hear(3, 1, Body::Gone { slot: Slot::new(6), proof: None });
    assert_eq!(sent(&out, 3), [], "it does not seem to have more");
}

/// A checkpoint that one member holds is less than what all decided: whoever may still have the slots is asked before one is wanted.
#[test]
fn everybody_is_asked_before_a_checkpoint_is_wanted() {
    let mut one = One::new(0, 3, Crash);
    one.hear(1, 1, Body::Alive { decided: Slot::new(9), round: 1 });
    let proof = one.proof(1, 9, &some(9), &[1, 2]);
    one.hear(2, 1, Body::Decision { proof: proof.clone(), batch: some(9) });
    let first = fetches(&one.pass(Span::from_millis(60)));
    let other = 3 - first[0];
    let out = one.hear(first[0], 1, Body::Gone { slot: Slot::new(9), proof: Some(proof.clone()) });
    assert_eq!((behind(&out), fetches(&out)), (vec![], vec![other]));
    let out = one.hear(other, 1, Body::Gone { slot: Slot::new(9), proof: Some(proof) });
    assert_eq!(behind(&out), [9]);
}

/// Who decided a slot with our vote may have it in a checkpoint only, which nobody else vouches for: with the proof our copy is enough.
#[test]
fn what_was_voted_for_is_not_needed_again() {
    for (model, members) in [(Crash, 3), (Byzantine, 4)] {
        let mut one = One::new(0, members, model);
        one.hear(1, 1, Body::Propose { slot: Slot::new(1), batch: some(7) });
        let proof = one.proof(1, 1, &some(7), &[0, 1, 2]);
        let out = one.hear(2, 1, Body::Gone { slot: Slot::new(1), proof: Some(proof) });
        assert_eq!((decisions(&out), behind(&out)), (vec![(1, some(7))], vec![]));
    }
}

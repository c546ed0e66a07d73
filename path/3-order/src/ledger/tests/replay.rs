//! What a restart makes of the records, whole and with gaps, and of a checkpoint before, within or beyond them.

use super::{batch, id, proof, slot};
use crate::Anchor;
use crate::ledger::{Ledger, Votes};
use quorate_types::Slot;

const NONE: Votes = Votes { any: false, whole: true };

/// A ledger that begins with a checkpoint of this slot, where there is one.
fn begun(checkpoint: u64) -> Ledger {
    let mut ledger = Ledger::new(Some(1 << 20));
    if checkpoint > 0 {
        ledger.restore_position(slot(checkpoint), Anchor::decode(b"anchor").expect("short"));
    }
    ledger
}

/// Gives the decided slots `from..=to` back, one record each.
fn decided(ledger: &mut Ledger, from: u64, to: u64) {
    for number in from..=to {
        let next = ledger.records().last().next();
        ledger.restore(next).expect("the next one");
        let found = Some((batch(number), next));
        ledger.restore_decided(slot(number), proof(number, number), found).expect("it continues");
    }
}

/// Whether nothing is missing.
fn whole(ledger: &Ledger) -> bool {
    let restored = ledger.restored(NONE);
    restored.knows_vote && !restored.needs_checkpoint
}

fn state(ledger: &Ledger) -> (u64, u64, u64) {
    (ledger.floor().number(), ledger.last().number(), ledger.delivered().number())
}

#[test]
fn whole_records_give_the_log_back() {
    let mut ledger = begun(0);
    decided(&mut ledger, 1, 5);
    assert!(whole(&ledger) && ledger.go_on(NONE));
    assert_eq!(state(&ledger), (0, 5, 0), "nothing was handed on");
    ledger.check();
}

/// What leads to the checkpoint without a gap is kept for those who lack it, and is not handed on.
#[test]
fn what_leads_to_the_checkpoint_is_kept() {
    let mut ledger = begun(4);
    decided(&mut ledger, 2, 6);
    assert_eq!(ledger.restored(NONE).begins_after, slot(1));
    assert!(ledger.go_on(NONE));
    assert_eq!(state(&ledger), (1, 6, 4));
    ledger.check();
}

/// The checkpoint was durable before the records of the last slots in it: the log goes on where it ends.
#[test]
fn the_log_goes_on_where_it_ends_before_the_checkpoint() {
    let mut ledger = begun(9);
    decided(&mut ledger, 1, 6);
    assert!(ledger.go_on(NONE));
    assert_eq!(state(&ledger), (0, 6, 9));
    assert_eq!(ledger.ahead().map(|(slot, _)| *slot), Some(slot(9)));
    ledger.check();
}

/// A slot that follows nothing is a contradiction, unless records are missing: then a checkpoint is needed that holds what lies between.
#[test]
fn missing_slots_need_a_checkpoint() {
    let mut ledger = begun(0);
    decided(&mut ledger, 1, 2);
    ledger.restore(id(3)).expect("the next one");
    let found = || Some((batch(5), id(3)));
    assert!(ledger.restore_decided(slot(5), proof(5, 5), found()).is_err(), "slots are missing");
    let mut ledger = begun(0);
    decided(&mut ledger, 1, 2);
    ledger.restore_gap();
    assert!(!ledger.restored(NONE).knows_vote, "what was lost may have been a vote");
    decided(&mut ledger, 5, 6);
    assert!(ledger.restored(NONE).knows_vote && ledger.restored(NONE).needs_checkpoint);
    let anchor = Anchor::decode(b"anchor").expect("short");
    assert!(!ledger.restore_over(slot(5), anchor), "the votes are behind it");
    assert!(whole(&ledger) && ledger.floor_is_due() == Some(false) && ledger.go_on(NONE));
    assert_eq!(state(&ledger), (5, 6, 5));
    ledger.check();
}

#[test]
#[should_panic(expected = "INV-LEDGER-5")]
fn nobody_goes_on_with_slots_missing() {
    let mut ledger = begun(0);
    ledger.restore_gap();
    decided(&mut ledger, 5, 6);
    let _ = ledger.go_on(NONE);
}

/// A floor says that a checkpoint holds what lies before; with `cleared` what was read before is of no use.
#[test]
fn floors_are_believed_where_a_checkpoint_stands_before_them() {
    let mut ledger = begun(0);
    ledger.restore(id(1)).expect("the first one");
    assert!(ledger.restore_floor(slot(3), false, None).is_err(), "no checkpoint holds that");
    let mut ledger = begun(3);
    decided(&mut ledger, 1, 3);
    ledger.restore(id(4)).expect("the next one");
    assert_eq!(ledger.restore_floor(slot(3), false, Some(proof(3, 3))), Ok(false));
    assert_eq!(ledger.proof(slot(3)), Some(&proof(3, 3)));
    ledger.restore(id(5)).expect("the next one");
    assert_eq!(ledger.restore_floor(slot(3), true, None), Ok(true), "votes so far are over");
    decided(&mut ledger, 4, 4);
    assert!(ledger.go_on(NONE));
    assert_eq!((state(&ledger), ledger.records().stated()), ((3, 4, 3), slot(3)));
}

/// The checkpoint before a floor is lost, and nothing was decided since: the votes stay, and another checkpoint is needed.
#[test]
fn a_floor_whose_checkpoint_is_lost_asks_for_another_one() {
    let votes = Votes { any: true, whole: true };
    let mut ledger = begun(0);
    ledger.restore_outdated();
    ledger.restore(id(1)).expect("the first one");
    ledger.restore_vote(slot(6));
    ledger.restore(id(2)).expect("the next one");
    assert_eq!(ledger.restore_floor(slot(5), false, None), Ok(false), "the votes are not over");
    let restored = ledger.restored(votes);
    assert!(restored.knows_vote && restored.needs_checkpoint);
    assert!(!ledger.restore_over(slot(5), Anchor::decode(b"anchor").expect("short")), "they are on slot 6");
    assert!(ledger.go_on(votes), "and still are");
    assert_eq!(state(&ledger), (5, 5, 5));
    ledger.check();
}

/// Votes are on the slot that is not decided, or over.
#[test]
fn votes_are_on_the_open_slot_or_over() {
    let mut ledger = begun(0);
    decided(&mut ledger, 1, 1);
    assert!(!ledger.restore_vote(slot(2)) && ledger.votes_are_on(slot(2)), "the next one, as expected");
    assert!(ledger.restore_vote(slot(3)) && !ledger.votes_are_on(slot(2)));
    assert!(!ledger.go_on(Votes { any: true, whole: true }), "slot 3 is not the next one");
    assert_eq!(ledger.last(), Slot::FIRST);
}

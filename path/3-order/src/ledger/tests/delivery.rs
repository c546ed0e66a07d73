//! Slots are handed on in order.

use super::{batch, decided, slot};
use crate::Effects;
use crate::ledger::{Delivery, Question};

#[test]
fn batches_are_slots_and_other_entries_are_none() {
    let (mut delivery, mut out) = (Delivery::default(), Effects::new());
    for entry in [None, Some(7), Some(8), None, Some(9)] {
        delivery.hand_on(entry.map(batch), &mut out);
    }
    assert_eq!(decided(&mut out), [(1, 7), (2, 8), (3, 9)]);
    assert_eq!((delivery.position(), delivery.slot()), (5, slot(3)));
}

/// A checkpoint takes the place of what was handed on, also if that goes back.
#[test]
fn a_checkpoint_says_what_comes_next() {
    let (mut delivery, mut out) = (Delivery::default(), Effects::new());
    delivery.go_on_after(40, slot(30));
    delivery.hand_on(Some(batch(1)), &mut out);
    delivery.go_on_after(38, slot(29));
    delivery.hand_on(Some(batch(2)), &mut out);
    assert_eq!(decided(&mut out), [(31, 1), (30, 2)]);
}

/// Only the answer to the question that is open is taken, and none after a checkpoint.
#[test]
fn delivery_waits_for_one_answer() {
    let mut delivery = Delivery::default();
    let question = |load, first| Question { load, first, count: 1 };
    delivery.wait_for(Some(question(3, 1)));
    assert_eq!((delivery.answered(2), delivery.waits()), (None, true));
    assert_eq!((delivery.answered(3), delivery.waits()), (Some(question(3, 1)), false));
    delivery.wait_for(Some(question(4, 1)));
    delivery.go_on_after(9, slot(9));
    assert_eq!((delivery.answered(4), delivery.waits()), (None, false));
}

#[test]
#[should_panic(expected = "INV-LEDGER-3")]
fn delivery_waits_for_nothing_but_what_comes_next() {
    Delivery::default().wait_for(Some(Question { load: 1, first: 2, count: 1 }));
}

//! Decided slots in memory and on disk.

use super::{batch, id, proof, slot};
use crate::ledger::slots::{Entry, Slots};

/// The slots 1 to `count`, slot n in records 2n-1 and 2n.
fn slots(count: u64) -> Slots {
    let mut slots = Slots::default();
    for number in 1..=count {
        slots.push(Entry {
            batch_record: id(2 * number - 1),
            record: id(2 * number),
            kept: Some((batch(number), proof(number, number))),
        });
    }
    slots.check();
    slots
}

/// The slots in memory.
fn kept(slots: &Slots) -> Vec<u64> {
    let last = slots.last().number();
    (1..=last).filter(|number| slots.get(slot(*number)).is_some_and(|entry| entry.kept.is_some())).collect()
}

/// The oldest leave the memory first, never what is needed or not durable, and never the last.
#[test]
fn what_is_not_needed_leaves_the_memory() {
    let mut slots = slots(5);
    slots.evict(usize::MAX, slot(5), id(10));
    assert_eq!(kept(&slots), [1, 2, 3, 4, 5], "there is room");
    slots.evict(0, slot(2), id(10));
    assert_eq!(kept(&slots), [3, 4, 5], "the third is still to be handed on");
    slots.evict(0, slot(5), id(7));
    assert_eq!(kept(&slots), [4, 5], "the fourth is not durable");
    slots.evict(0, slot(5), id(10));
    assert_eq!(kept(&slots), [5], "its proof is what this replica shows");
    slots.check();
    assert!(slots.proof(slot(4)).is_none() && slots.proof(slot(5)).is_some());
}

#[test]
fn the_floor_rises_and_its_proof_stays() {
    let mut slots = slots(5);
    let of = slots.proof(slot(3)).cloned();
    slots.raise_floor(slot(3), of.clone());
    slots.check();
    assert_eq!((slots.floor(), slots.last(), slots.first_record()), (slot(3), slot(5), Some(id(7))));
    assert_eq!((slots.proof(slot(3)).cloned(), slots.get(slot(3)).is_none()), (of, true));
    slots.reset(slot(9), None);
    slots.check();
    assert_eq!((slots.floor(), slots.last(), slots.first_record()), (slot(9), slot(9), None));
}

#[test]
#[should_panic(expected = "INV-LEDGER-4")]
fn what_is_not_decided_is_not_forgotten() {
    slots(5).raise_floor(slot(6), None);
}

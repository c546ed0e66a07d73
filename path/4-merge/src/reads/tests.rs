//! Reads stepped alone: what they wait for, and how that ends.

use super::{ReadEnd, Reads};
use crate::generation::Place;
use crate::local::{Decided, Local, RecordIndex, Stay};
use quorate_types::Slot;

/// Two instances; the first decided a no-op for three slots in one record.
fn locals() -> Vec<Local<()>> {
    let mut first = Local::new(0, 0, Stay::Here);
    first.take(1, Decided::Noop { target: Slot::new(3) }, 0, None).expect("a record");
    vec![first, Local::new(0, 0, Stay::Here)]
}

fn step(reads: &mut Reads, cursor: Place, locals: &[Local<()>]) -> (Vec<(u64, ReadEnd)>, Option<Place>) {
    let mut ended = Vec::new();
    let wanted = reads.step(cursor, locals, |read, how| ended.push((read, how)));
    (ended, wanted)
}

#[test]
fn a_read_wants_what_lies_before_its_place_and_ends_there() {
    let (mut reads, locals) = (Reads::default(), locals());
    reads.confirmed(7, Some(0), RecordIndex(1));
    let before = Place::new(3, crate::INSTANCES_MAX);
    assert_eq!(step(&mut reads, Place::new(1, 1), &locals), (vec![], Some(before)));
    assert_eq!(step(&mut reads, Place::new(4, 1), &locals), (vec![(7, ReadEnd::Ready)], None));
    assert!(!reads.are_there());
}

#[test]
fn a_record_that_is_not_decided_here_wants_nothing() {
    let (mut reads, locals) = (Reads::default(), locals());
    reads.confirmed(7, Some(1), RecordIndex(1));
    assert_eq!(step(&mut reads, Place::new(1, 1), &locals), (vec![], None));
    assert!(reads.are_there());
}

#[test]
fn whoever_leaves_proves_nothing() {
    let (mut reads, mut locals) = (Reads::default(), locals());
    reads.confirmed(1, None, RecordIndex(1));
    reads.confirmed(2, Some(0), RecordIndex(1));
    reads.confirmed(3, Some(1), RecordIndex(0));
    assert_eq!(step(&mut reads, Place::new(1, 1), &locals).0, [(1, ReadEnd::AskAnother)]);
    locals[0].stay = Stay::Leaves(3);
    reads.forget_behind(3, &locals);
    let ended = step(&mut reads, Place::new(1, 2), &locals).0;
    assert_eq!(ended, [(2, ReadEnd::AskAnother), (3, ReadEnd::Ready)]);
}

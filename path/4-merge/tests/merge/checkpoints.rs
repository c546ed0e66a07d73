//! Checkpoints: what they say, what is refused, one point each.

use crate::common::{Rec, config, decided, instance};
use crate::deliver::{give, merge, pull};
use quorate_merge::{
    Checkpoint, Delivered, Generation, InstanceAt, Leader, Merge, Place, ReadEnd, RecordIndex, Refused,
};
use quorate_types::{Random, Seq, Slot};

fn at(slot: u64, record: u64, offset: u64) -> InstanceAt {
    InstanceAt { slot: Slot::new(slot), record: RecordIndex(record), offset }
}

/// Three slots of instance 1 are in it, and two; instance 2 has a no-op of five slots, which it holds in part.
fn in_the_middle() -> (Merge<Rec>, Checkpoint) {
    let mut merge = merge(2, 9);
    give(&mut merge, 1, Rec::Noop(0));
    give(&mut merge, 1, Rec::Noop(5));
    for number in 1..=3 {
        give(&mut merge, 0, Rec::Work(number));
    }
    pull(&mut merge);
    let checkpoint = merge.checkpoint();
    (merge, checkpoint)
}

#[test]
fn a_checkpoint_may_end_inside_a_no_op() {
    let (_, checkpoint) = in_the_middle();
    assert_eq!(checkpoint.seq, Seq::new(6));
    // Its second record comes again; the first one, which stood for nothing, too.
    assert_eq!(checkpoint.instances, [at(3, 3, 0), at(3, 0, 3)]);
    let mut merge: Merge<Rec> = Merge::restore(config(9), &checkpoint).expect("a sound checkpoint");
    assert_eq!(merge.checkpoint(), checkpoint);
    give(&mut merge, 1, Rec::Noop(0));
    give(&mut merge, 1, Rec::Noop(5));
    for number in 4..=6 {
        give(&mut merge, 0, Rec::Work(number));
    }
    assert_eq!(pull(&mut merge), ["q7 Work(4)", "q8-q8", "q9 Work(5)", "q10-q10", "q11 Work(6)"]);
    assert_eq!(merge.checkpoint().instances, [at(6, 6, 0), at(5, 2, 0)]);
}

/// The record that a checkpoint ends in is the one that reached beyond it when the checkpoint was made.
#[test]
fn another_record_than_the_one_it_ends_in_is_refused() {
    let (_, checkpoint) = in_the_middle();
    for record in [Rec::Work(1), Rec::Noop(2), Rec::Noop(3)] {
        let mut merge: Merge<Rec> = Merge::restore(config(9), &checkpoint).expect("a sound checkpoint");
        let why = merge.decided(instance(1), RecordIndex(1), decided(record));
        assert_eq!(why, Err(Refused::NotContinued), "{record:?}");
    }
}

/// What an instance decided beyond the checkpoint stays, and may be handed in again; nothing else may.
#[test]
fn a_jump_keeps_what_lies_beyond() {
    let (_, checkpoint) = in_the_middle();
    let mut behind = merge(2, 9);
    for number in 1..=5 {
        give(&mut behind, 0, Rec::Work(number));
    }
    pull(&mut behind);
    behind.jump(&checkpoint).expect("a sound checkpoint");
    assert_eq!(behind.checkpoint(), checkpoint);
    assert_eq!(behind.next_record(instance(0)), Some(RecordIndex(6)));
    for record in 4..=5 {
        let again = behind.decided(instance(0), RecordIndex(record), decided(Rec::Work(record as u32)));
        assert_eq!(again, Ok(()));
    }
    let why = behind.decided(instance(0), RecordIndex(7), decided(Rec::Work(7)));
    assert_eq!(why, Err(Refused::OutOfOrder { next: 6, came: 7 }));
    give(&mut behind, 1, Rec::Noop(0));
    give(&mut behind, 1, Rec::Noop(4));
    assert_eq!(pull(&mut behind), ["q7 Work(4)", "q8-q8", "q9 Work(5)"]);
}

/// A log that departs from the checkpoint is not kept: it comes again, or what comes is refused.
#[test]
fn a_jump_drops_what_departs_from_it() {
    let (_, checkpoint) = in_the_middle();
    let mut other = merge(2, 9);
    for record in [Rec::Noop(2), Rec::Work(2), Rec::Work(3), Rec::Work(4)] {
        give(&mut other, 0, record);
    }
    other.jump(&checkpoint).expect("a sound checkpoint");
    assert_eq!(other.next_record(instance(0)), Some(RecordIndex(4)));
    assert!(pull(&mut other).is_empty());
}

/// Whoever waits behind a jump asks anew; what was wanted is wanted still.
#[test]
fn a_jump_ends_reads_and_forgets_no_demand() {
    let (_, checkpoint) = in_the_middle();
    let mut other = merge(2, 9);
    other.leader(instance(0), Leader::Here);
    other.settled(instance(0));
    other.asked(Place::new(5, 1));
    other.read_confirmed(3, instance(1), RecordIndex(0));
    other.jump(&checkpoint).expect("a sound checkpoint");
    let mut ends = vec![];
    other.reads(|read, end| ends.push((read, end)));
    assert_eq!(ends, [(3, ReadEnd::AskAnother)]);
    assert_eq!(other.fill(instance(0)), Some(Slot::new(5)));
}

/// A change that a checkpoint holds, and whose border is not reached, is filled after a restart, too.
#[test]
fn a_change_goes_on_after_a_restart() {
    let mut first = merge(2, 3);
    give(&mut first, 0, Rec::Change(1, 1));
    pull_with_change(&mut first, 1);
    let mut again: Merge<Rec> = Merge::restore(config(3), &first.checkpoint()).expect("a sound checkpoint");
    again.leader(instance(1), Leader::Here);
    again.settled(instance(1));
    assert_eq!(again.fill(instance(1)), Some(Slot::new(3)), "up to the window first");
}

/// Work that came before the change which brings its instance back gets its slot from a checkpoint behind that change.
#[test]
fn a_jump_places_what_kept() {
    let mut ahead = merge(2, 2);
    give(&mut ahead, 1, Rec::Noop(3));
    give(&mut ahead, 0, Rec::Change(1, 1));
    pull_with_change(&mut ahead, 1);
    give(&mut ahead, 0, Rec::Noop(3));
    give(&mut ahead, 0, Rec::Noop(4));
    pull(&mut ahead);
    give(&mut ahead, 0, Rec::Change(2, 2));
    pull_with_change(&mut ahead, 2);
    let checkpoint = ahead.checkpoint();
    let mut behind = merge(2, 2);
    give(&mut behind, 1, Rec::Noop(3));
    give(&mut behind, 1, Rec::Work(99));
    assert_eq!(behind.bounds(instance(0)).map(|bounds| bounds.wanted), Some(Slot::new(4)));
    behind.jump(&checkpoint).expect("a sound checkpoint");
    behind.invariants(true);
    // Slot 5 held the second change; its border is slot 7.
    let bounds = behind.bounds(instance(0)).expect("an instance");
    assert_eq!((bounds.wanted, bounds.border), (Slot::new(8), Some(Slot::new(7))));
    give(&mut behind, 0, Rec::Noop(7));
    give(&mut behind, 0, Rec::Work(8));
    assert_eq!(pull(&mut behind), ["q9-q10", "q11 Work(8)", "q12 Work(99)"]);
}

fn pull_with_change(merge: &mut Merge<Rec>, instances: u16) {
    while let Some(piece) = merge.next(crate::common::NOW) {
        if matches!(piece, Delivered::Batch { .. }) {
            merge.change(instances).expect("a change");
        }
    }
}

#[test]
fn a_refused_jump_changes_nothing() {
    let (mut merge, checkpoint) = in_the_middle();
    let wrong = Checkpoint { seq: Seq::new(5), ..checkpoint.clone() };
    assert!(merge.jump(&wrong).is_err());
    assert_eq!(merge.checkpoint(), checkpoint);
    give(&mut merge, 0, Rec::Work(4));
    assert_eq!(pull(&mut merge), ["q7 Work(4)", "q8-q8"]);
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let (_, sound) = in_the_middle();
    let refuse = |what: &str, change: &dyn Fn(&mut Checkpoint)| {
        let mut checkpoint = sound.clone();
        change(&mut checkpoint);
        let restored = Merge::<Rec>::restore(config(9), &checkpoint);
        assert!(restored.is_err(), "{what}: {checkpoint:?}");
    };
    let next = |instances, first, base| {
        Some(Generation { instances, first: Slot::new(first), base: Seq::new(base) })
    };
    refuse("another window", &|c| c.window = 8);
    refuse("no instances", &|c| c.generation.instances = 0);
    refuse("absurd instances", &|c| c.generation.instances = u16::MAX);
    refuse("one instance more", &|c| c.generation.instances = 3);
    refuse("a generation that begins later", &|c| c.generation.first = Slot::new(2));
    refuse("a generation before all slots", &|c| c.generation.first = Slot::ZERO);
    refuse("a generation behind it", &|c| c.generation.base = Seq::new(7));
    refuse("an absurd base", &|c| c.generation.base = Seq::new(u64::MAX));
    refuse("an absurd seq", &|c| c.seq = Seq::new(u64::MAX));
    refuse("another seq", &|c| c.seq = Seq::new(7));
    refuse("an instance too few", &|c| c.instances.truncate(1));
    refuse("too many of them", &|c| c.instances.resize(300, at(0, 0, 0)));
    refuse("an instance that is ahead", &|c| c.instances.push(at(4, 0, 0)));
    refuse("an instance that is away, and in a record", &|c| c.instances.push(at(2, 0, 1)));
    refuse("another slot", &|c| c.instances[0].slot = Slot::new(2));
    refuse("an absurd slot", &|c| c.instances[1].slot = Slot::new(u64::MAX));
    refuse("more offset than slots", &|c| c.instances[1].offset = 4);
    refuse("an absurd offset", &|c| c.instances[1].offset = u64::MAX);
    refuse("an absurd record", &|c| c.instances[0].record = RecordIndex(u64::MAX));
    refuse("a border behind", &|c| c.next = next(1, 3, 4));
    refuse("as many instances as before", &|c| c.next = next(2, 6, 10));
    refuse("another base", &|c| c.next = next(1, 6, 11));
    refuse("an absurd border", &|c| c.next = next(1, u64::MAX, 11));
    refuse("a border at nothing", &|c| c.next = next(1, 0, 0));
    refuse("no instance to come", &|c| c.next = next(3, 6, 10));
    let mut coming = sound.clone();
    coming.next = next(3, 6, 10);
    coming.instances.push(at(5, 7, 0));
    assert!(Merge::<Rec>::restore(config(9), &coming).is_ok());
    coming.instances[2] = at(4, 7, 0);
    assert!(Merge::<Rec>::restore(config(9), &coming).is_err());
}

/// Any numbers at all: refused or taken, never a panic, and what is taken holds.
#[test]
fn no_number_makes_it_panic() {
    let mut random = Random::new(1);
    let (_, first) = in_the_middle();
    let mut second = first.clone();
    second.next = Some(Generation { instances: 3, first: Slot::new(6), base: Seq::new(10) });
    second.instances.push(at(5, 7, 0));
    let sound = [first, second];
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut number = |scale: u64| match random.below(8) {
            0 => u64::MAX - random.below(3),
            1 => random.next(),
            2 => (1 << 48) - random.below(3),
            _ => random.below(scale),
        };
        let mut checkpoint = sound[number(2).min(1) as usize].clone();
        for _ in 0..number(3).min(3) {
            let (value, which) = (number(9), number(3).min(2) as usize);
            match number(10) {
                0 => checkpoint.seq = Seq::new(value),
                1 => checkpoint.generation.instances = value as u16,
                2 => checkpoint.generation.first = Slot::new(value),
                3 => checkpoint.generation.base = Seq::new(value),
                4 => checkpoint.next = None,
                5 => drop(checkpoint.next.as_mut().map(|next| next.first = Slot::new(value))),
                6 => checkpoint.instances.resize(which + 1, at(5, 7, 0)),
                7 => drop(checkpoint.instances.get_mut(which).map(|part| part.slot = Slot::new(value))),
                8 => drop(checkpoint.instances.get_mut(which).map(|part| part.record = RecordIndex(value))),
                _ => drop(checkpoint.instances.get_mut(which).map(|part| part.offset = value)),
            }
        }
        let Ok(mut merge) = Merge::<Rec>::restore(config(9), &checkpoint) else { continue };
        taken += 1;
        merge.invariants(true);
        assert_eq!(merge.checkpoint(), checkpoint);
        for _ in 0..6 {
            let what = if number(2) == 0 { Rec::Work(1) } else { Rec::Noop(number(9)) };
            let whom = instance(number(3).min(300) as usize);
            let index = merge.next_record(whom).unwrap_or_default();
            let index = if number(9) == 0 { RecordIndex(number(9)) } else { index };
            let _ = merge.decided(whom, index, decided(what));
            merge.read_confirmed(1, whom, RecordIndex(number(5)));
            merge.asked(quorate_merge::Place::new(number(9), number(9) as u16));
            pull(&mut merge);
            let _ = merge.change(number(5) as u16);
            merge.reads(|_, _| ());
            merge.asks(|_, _| ());
        }
    }
    assert!(taken > 1000, "{taken}");
}

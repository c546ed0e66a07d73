//! Numbers of places, and changes of the number of instances, one point each.

use crate::common::{NOW, Rec, config, decided, instance};
use crate::deliver::{give, merge, pull};
use quorate_merge::{
    Delivered, Generation, INSTANCES_MAX, Leader, Merge, Place, ReadEnd, RecordIndex, Refused, SLOT_MAX,
    WINDOW_MAX,
};
use quorate_types::{Seq, Slot};

/// Counting places one by one gives what the formula gives, in both directions.
#[test]
fn places_are_counted() {
    for (instances, first, base) in [(1, 1, 0), (3, 1, 0), (5, 7, 40), (256, 1 << 40, 1 << 50)] {
        let generation = Generation { instances, first: Slot::new(first), base: Seq::new(base) };
        let mut seq = base;
        for slot in first..first + 5 {
            for instance in 1..=instances {
                seq += 1;
                let place = Place::new(slot, instance);
                assert_eq!(generation.seq(place), Some(Seq::new(seq)));
                assert_eq!(generation.place(Seq::new(seq)), Some(place));
            }
        }
        assert_eq!(generation.place(Seq::new(base)), None, "before it");
        for (slot, instance) in [(first - 1, 1), (first, 0), (first, instances + 1)] {
            assert_eq!(generation.seq(Place::new(slot, instance)), None);
        }
    }
    let last = Generation { instances: 256, first: Slot::new(1), base: Seq::new(u64::MAX - 9) };
    assert_eq!(last.seq(Place::new(1, 10)), None, "no number is that high");
    assert_eq!(last.seq(Place::new(u64::MAX, 256)), None);
    let none = Generation { instances: 0, first: Slot::new(1), base: Seq::ZERO };
    assert_eq!(none.place(Seq::new(1)), None);
}

/// Takes the next batch, which asks for so many instances.
fn change(merge: &mut Merge<Rec>, instances: u16) -> Result<Generation, Refused> {
    give(merge, 0, Rec::Change(0, instances));
    assert!(matches!(merge.next(NOW), Some(Delivered::Batch { .. })));
    merge.change(instances)
}

/// The command at slot 1 with a window of 3: slot 4 is the last of its generation, in all instances.
#[test]
fn a_generation_ends_a_window_after_the_command() {
    let mut merge = merge(2, 3);
    let next = Generation { instances: 3, first: Slot::new(5), base: Seq::new(8) };
    assert_eq!(change(&mut merge, 3), Ok(next));
    assert_eq!(merge.next_generation(), Some(next));
    give(&mut merge, 0, Rec::Noop(4));
    give(&mut merge, 0, Rec::Work(15));
    give(&mut merge, 1, Rec::Noop(4));
    assert_eq!(pull(&mut merge), ["q2-q8", "q9 Work(15)"]);
    assert_eq!(merge.cursor(), Place::new(5, 2));
    give(&mut merge, 1, Rec::Work(25));
    give(&mut merge, 2, Rec::Work(35));
    assert_eq!(pull(&mut merge), ["q10 Work(25)", "q11 Work(35)"]);
    assert_eq!((merge.generation(), merge.next_generation()), (next, None));
    // Places of the generation before are known until a checkpoint holds them.
    assert_eq!(merge.place(Seq::new(8)), Some(Place::new(4, 2)));
    assert_eq!(merge.place(Seq::new(9)), Some(Place::new(5, 1)));
    assert_eq!(merge.seq_of(Place::new(4, 2)), Some(Seq::new(8)));
    merge.trim(Seq::new(7));
    assert_eq!(merge.place(Seq::new(8)), Some(Place::new(4, 2)));
    merge.trim(Seq::new(8));
    assert_eq!(merge.place(Seq::new(8)), None);
    assert_eq!(merge.place(Seq::new(9)), Some(Place::new(5, 1)));
}

/// All leaders fill up to the border by themselves, and not beyond; then they go on.
#[test]
fn a_change_is_filled_up_to_its_border() {
    let mut merge = merge(2, 3);
    for at in 0..2 {
        merge.leader(instance(at), Leader::Here);
        merge.settled(instance(at));
    }
    assert!(change(&mut merge, 1).is_ok());
    let mut steps = 0;
    while merge.generation().instances == 2 {
        for at in 0..2 {
            if let Some(target) = merge.fill(instance(at)) {
                assert!(target.number() <= 4);
                give(&mut merge, at, Rec::Noop(target.number()));
            }
        }
        pull(&mut merge);
        steps += 1;
        assert!(steps < 9, "{:?}", merge.cursor());
    }
    assert_eq!(merge.cursor(), Place::new(5, 1));
    assert_eq!((merge.room(instance(0)), merge.room(instance(1))), (3, 0), "the second one is away");
    assert_eq!(merge.fill(instance(0)), None, "and then there is nothing to fill");
}

/// What an instance says after it left belongs to the time when it is back, whenever it is heard.
#[test]
fn an_instance_comes_back() {
    let mut merge = merge(2, 2);
    give(&mut merge, 1, Rec::Noop(3));
    give(&mut merge, 1, Rec::Work(99));
    assert!(change(&mut merge, 1).is_ok());
    give(&mut merge, 0, Rec::Noop(3));
    assert_eq!(pull(&mut merge), ["q2-q6"]);
    give(&mut merge, 0, Rec::Work(14));
    assert_eq!(pull(&mut merge), ["q7 Work(14)"]);
    assert!(change(&mut merge, 2).is_ok());
    give(&mut merge, 0, Rec::Noop(7));
    give(&mut merge, 0, Rec::Noop(8));
    // Slot 5 held the command, slot 7 is the last one; in slot 8 the second instance is back.
    assert_eq!(pull(&mut merge), ["q9-q11", "q12 Work(99)"]);
    assert_eq!(merge.cursor(), Place::new(9, 1));
}

/// A read through an instance that has decided all that it will is answered in vain, again and again.
#[test]
fn reads_go_through_instances_that_still_decide() {
    let mut merge = merge(2, 3);
    assert!(change(&mut merge, 1).is_ok());
    let second = |merge: &Merge<Rec>| merge.read_through(|of| of == instance(1));
    let confirm = |merge: &mut Merge<Rec>, record| {
        merge.read_confirmed(1, instance(1), RecordIndex(record));
        let mut ends = Vec::new();
        merge.reads(|_, end| ends.push(end));
        merge.drop_read(1);
        ends
    };
    assert_eq!(confirm(&mut merge, 0), [ReadEnd::Ready], "everything before its place is delivered");
    assert_eq!(second(&merge), Some(instance(1)), "nobody else has a leader");
    assert_eq!(merge.read_through(|_| true), Some(instance(0)), "those that stay come first");
    give(&mut merge, 1, Rec::Noop(4));
    assert_eq!(confirm(&mut merge, 1), [ReadEnd::AskAnother]);
    assert_eq!(second(&merge), None);
    give(&mut merge, 0, Rec::Noop(4));
    pull(&mut merge);
    assert_eq!((confirm(&mut merge, 1), second(&merge)), (vec![ReadEnd::AskAnother], None), "it has left");
}

#[test]
fn changes_come_one_after_the_other() {
    let mut merge = merge(1, 2);
    assert_eq!(merge.change(2), Err(Refused::NoCommand));
    assert_eq!(change(&mut merge, 0), Err(Refused::Instances));
    assert_eq!(change(&mut merge, INSTANCES_MAX + 1), Err(Refused::Instances));
    assert_eq!(change(&mut merge, 1), Err(Refused::NothingChanges));
    assert!(change(&mut merge, 2).is_ok());
    assert_eq!(change(&mut merge, 3), Err(Refused::ChangeUnderWay));
    give(&mut merge, 1, Rec::Work(1));
    give(&mut merge, 0, Rec::Noop(6));
    pull(&mut merge);
    assert_eq!(merge.change(3), Err(Refused::NoCommand), "a no-op came last");
    // The last slot before a border is still before it.
    let mut merge = crate::deliver::merge(1, 2);
    assert!(change(&mut merge, 2).is_ok());
    give(&mut merge, 0, Rec::Noop(2));
    pull(&mut merge);
    assert_eq!(change(&mut merge, 3), Err(Refused::ChangeUnderWay));
    merge.invariants(true);
}

/// No honest leader proposes across a border. If it is decided all the same, nobody goes on.
#[test]
fn a_no_op_across_a_border_is_refused() {
    let across = |after: u16, at: usize, before: bool| {
        let mut merge = merge(2, 3);
        if before {
            give(&mut merge, at, Rec::Noop(5));
        }
        if at == 0 {
            return merge.decided(instance(0), RecordIndex(1), decided(Rec::Noop(5))).and(Ok(()));
        }
        let changed = change(&mut merge, after);
        if before {
            return changed.map(|_| ());
        }
        merge.decided(instance(1), RecordIndex(1), decided(Rec::Noop(5)))
    };
    for after in [1, 3] {
        for before in [false, true] {
            assert_eq!(across(after, 1, before), Err(Refused::AcrossBorder), "{after} {before}");
        }
    }
}

#[test]
fn numbers_stay_small_enough() {
    for (window, instances) in [(1, 1), (0, 1), (WINDOW_MAX + 1, 1)] {
        assert_eq!(Merge::<Rec>::new(config(window), instances).err(), Some(Refused::Window));
    }
    for instances in [0, INSTANCES_MAX + 1, u16::MAX] {
        assert_eq!(Merge::<Rec>::new(config(9), instances).err(), Some(Refused::Instances));
    }
    let mut merge = merge(1, 9);
    give(&mut merge, 0, Rec::Noop(SLOT_MAX - 10));
    pull(&mut merge);
    assert_eq!(change(&mut merge, 2), Err(Refused::NoSuchSlot));
}

//! What comes out when, one point each.

use crate::common::{NOW, Rec, config, decided, instance};
use quorate_merge::{Config, Decided, Delivered, Merge, Place, RecordIndex, Refused};
use quorate_types::{Seq, Slot, Span, Time};

pub(crate) fn merge(instances: u16, window: u64) -> Merge<Rec> {
    Merge::new(config(window), instances).expect("a sound configuration")
}

/// Hands in an instance's next record.
pub(crate) fn give(merge: &mut Merge<Rec>, at: usize, record: Rec) {
    let index = merge.next_record(instance(at)).expect("an instance");
    merge.decided(instance(at), index, decided(record)).expect("an honest record");
}

/// What comes out, as text: numbers of batches, runs of no-ops.
pub(crate) fn pull(merge: &mut Merge<Rec>) -> Vec<String> {
    let mut out = vec![];
    while let Some(piece) = merge.next(NOW) {
        out.push(match piece {
            Delivered::Batch { seq, payload, .. } => format!("{seq} {payload:?}"),
            Delivered::Noops { first, last } => format!("{first}-{last}"),
        });
        merge.invariants(true);
    }
    out
}

#[test]
fn one_instance_is_its_own_global_log() {
    let mut merge = merge(1, 9);
    give(&mut merge, 0, Rec::Work(1));
    assert_eq!(pull(&mut merge), ["q1 Work(1)"]);
    give(&mut merge, 0, Rec::Work(2));
    give(&mut merge, 0, Rec::Noop(5));
    give(&mut merge, 0, Rec::Work(6));
    assert_eq!(pull(&mut merge), ["q2 Work(2)", "q3-q5", "q6 Work(6)"]);
    assert_eq!(merge.cursor(), Place::new(7, 1));
}

#[test]
fn instances_take_turns_and_nobody_is_passed() {
    let mut merge = merge(3, 9);
    give(&mut merge, 1, Rec::Work(21));
    give(&mut merge, 2, Rec::Work(31));
    assert!(pull(&mut merge).is_empty(), "instance 1 comes first");
    give(&mut merge, 0, Rec::Work(11));
    assert_eq!(pull(&mut merge), ["q1 Work(11)", "q2 Work(21)", "q3 Work(31)"]);
}

/// A no-op names its last slot, so one that comes again stands for nothing.
#[test]
fn a_repeated_no_op_stands_for_nothing() {
    let mut merge = merge(2, 9);
    for target in [3, 3, 2, 0] {
        give(&mut merge, 1, Rec::Noop(target));
    }
    give(&mut merge, 1, Rec::Work(24));
    for number in 1..=4 {
        give(&mut merge, 0, Rec::Work(number));
    }
    let all =
        ["q1 Work(1)", "q2-q2", "q3 Work(2)", "q4-q4", "q5 Work(3)", "q6-q6", "q7 Work(4)", "q8 Work(24)"];
    assert_eq!(pull(&mut merge), all);
    let counts = merge.counts();
    assert_eq!((counts.noop_records, counts.noop_records_empty, counts.noop_slots), (4, 3, 3));
    assert_eq!((counts.batches, counts.noop_share()), (5, 3.0 / 8.0));
}

/// As many slots as there can be, in all instances: a test that steps slot by slot does not end.
#[test]
fn a_run_of_no_ops_is_one_step() {
    let far = quorate_merge::SLOT_MAX - 1;
    for count in [1, 2, 8, 256] {
        let mut merge = merge(count, 9);
        for at in 0..usize::from(count) {
            give(&mut merge, at, Rec::Noop(far - at as u64));
        }
        let last = far * u64::from(count) - (0..u64::from(count)).sum::<u64>();
        let Some(Delivered::Noops { first, last: until }) = merge.next(NOW) else { panic!("no-ops") };
        assert_eq!(first, Seq::FIRST);
        assert!(until.number() <= last && merge.next(NOW).is_none(), "{until} {last}");
        assert_eq!(merge.cursor().slot.number(), far + 2 - u64::from(count));
        merge.invariants(true);
    }
}

/// Whoever is ahead may be told to stay where it is; what the merge waits for never is.
#[test]
fn a_full_instance_is_closed_until_the_others_catch_up() {
    let config = Config { window: 9, held_bytes_max: 30 };
    let mut merge: Merge<Rec> = Merge::new(config, 2).expect("a sound configuration");
    for number in 1..=3 {
        assert!(merge.is_open(instance(1)));
        give(&mut merge, 1, Rec::Work(number));
    }
    assert!(!merge.is_open(instance(1)) && merge.is_open(instance(0)) && !merge.is_open(instance(2)));
    let huge = Decided::Batch { payload: Rec::Work(9), bytes: 1000 };
    merge.decided(instance(0), RecordIndex(1), huge).expect("an honest record");
    assert!(!merge.is_open(instance(0)));
    assert_eq!(pull(&mut merge).len(), 2);
    assert!(merge.is_open(instance(0)) && merge.is_open(instance(1)));
    let none = Config { window: 9, held_bytes_max: 0 };
    let merge: Merge<Rec> = Merge::new(none, 2).expect("a sound configuration");
    assert!(merge.is_open(instance(0)), "or nothing would ever come");
}

/// It counts how long work waited for an instance; a cluster at rest waits for nobody.
#[test]
fn waiting_is_counted_while_work_waits() {
    let mut merge = merge(2, 9);
    let at = |millis| Time::ZERO.plus(Span::from_millis(millis));
    assert_eq!(merge.next(at(1)), None);
    assert_eq!(merge.waits(), None, "nothing is decided");
    give(&mut merge, 1, Rec::Work(21));
    assert_eq!(merge.next(at(5)), None);
    let waits = merge.waits().expect("work waits");
    assert_eq!((waits.instance, waits.slot, waits.since), (instance(0), Slot::new(1), at(5)));
    assert_eq!(merge.status(at(8)).instances[0].waited, Span::from_millis(3));
    assert_eq!(merge.status(at(8)).skew, 1);
    give(&mut merge, 0, Rec::Noop(1));
    assert!(merge.next(at(9)).is_some() && merge.next(at(9)).is_some() && merge.next(at(20)).is_none());
    assert_eq!(merge.status(at(30)).instances[0].waited, Span::from_millis(4));
    assert_eq!(merge.waits(), None);
}

#[test]
fn records_come_in_order() {
    let mut merge = merge(2, 9);
    let mut refuse = |at: u16, record, what, why| {
        let before = merge.checkpoint();
        assert_eq!(merge.decided(quorate_types::InstanceId::new(at), RecordIndex(record), what), Err(why));
        assert_eq!(merge.checkpoint(), before);
        merge.invariants(true);
    };
    let work = || decided(Rec::Work(1));
    refuse(0, 1, work(), Refused::UnknownInstance);
    refuse(3, 1, work(), Refused::UnknownInstance);
    refuse(u16::MAX, 1, work(), Refused::UnknownInstance);
    refuse(1, 0, work(), Refused::OutOfOrder { next: 1, came: 0 });
    refuse(1, 2, work(), Refused::OutOfOrder { next: 1, came: 2 });
    refuse(1, u64::MAX, work(), Refused::OutOfOrder { next: 1, came: u64::MAX });
    refuse(1, 1, decided(Rec::Noop(u64::MAX)), Refused::NoSuchSlot);
    refuse(1, 1, decided(Rec::Noop(quorate_merge::SLOT_MAX + 1)), Refused::NoSuchSlot);
    give(&mut merge, 0, Rec::Noop(quorate_merge::SLOT_MAX));
    let why = merge.decided(instance(0), RecordIndex(2), work());
    assert_eq!(why, Err(Refused::NoSuchSlot));
}

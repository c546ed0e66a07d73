//! The course stepped alone, without records.

use super::Course;
use crate::generation::{Generation, Place};
use crate::refused::Refused;
use quorate_types::{Seq, Slot};

fn begin(instances: u16) -> Course {
    Course::behind(Seq::ZERO, Place::new(1, 1), Generation::begin(instances), None)
}

#[test]
fn the_cursor_goes_through_all_instances_of_a_slot_before_the_next() {
    let mut course = begin(3);
    let mut places = Vec::new();
    for _ in 0..4 {
        places.push(course.cursor());
        assert_eq!(course.step(), None);
        course.check();
    }
    let expected = [(1, 1), (1, 2), (1, 3), (2, 1)].map(|(slot, instance)| Place::new(slot, instance));
    assert_eq!(places, expected);
    assert_eq!((course.done(0), course.done(1), course.done(3)), (Some(2), Some(1), None));
}

#[test]
fn a_generation_begins_right_behind_its_border_however_the_cursor_gets_there() {
    let mut stepped = begin(2);
    let (border, next) = stepped.plan(Place::new(1, 2), 4, 3).expect("a change");
    assert_eq!((border, next.first, next.base), (5, Slot::new(6), Seq::new(10)));
    stepped.announce(next);
    let mut skipped = stepped.clone();
    let begun: Vec<_> = (0..10).filter_map(|_| stepped.step()).collect();
    assert_eq!((begun, skipped.skip(5)), (vec![next], Some(next)));
    assert_eq!((stepped.cursor(), stepped.seq()), (skipped.cursor(), skipped.seq()));
    stepped.check();
    assert_eq!(stepped.place(Seq::new(10)), Some(Place::new(5, 2)), "the one before is known");
    stepped.trim(Seq::new(10));
    assert_eq!(stepped.place(Seq::new(10)), None, "it was forgotten");
}

#[test]
fn one_change_at_a_time() {
    let mut course = begin(2);
    let (_, next) = course.plan(Place::new(1, 1), 4, 3).expect("a change");
    assert_eq!(course.plan(Place::new(1, 1), 4, 2), Err(Refused::NothingChanges));
    assert_eq!(course.plan(Place::new(1, 1), 4, 0), Err(Refused::Instances));
    course.announce(next);
    assert_eq!(course.plan(Place::new(1, 2), 4, 4), Err(Refused::ChangeUnderWay));
}

//! What is wanted, without a merge.

use super::Wanted;
use crate::generation::Place;
use crate::local::{Local, Stay};

fn asked_of(wanted: &Wanted, cursor: Place, locals: &mut [Local<()>]) -> Vec<(usize, Place)> {
    let mut asked = Vec::new();
    wanted.ask(cursor, locals, |at, place| asked.push((at, place)));
    asked
}

#[test]
fn each_leader_elsewhere_is_asked_once() {
    let mut locals = vec![Local::new(0, 0, Stay::Here), Local::new(0, 0, Stay::Away)];
    let (cursor, place) = (Place::new(1, 1), Place::new(4, 2));
    let mut wanted = Wanted::NOTHING;
    wanted.want(place, false);
    assert_eq!(asked_of(&wanted, cursor, &mut locals), [], "others want it, and ask themselves");
    wanted.want(place, true);
    assert_eq!(asked_of(&wanted, cursor, &mut locals), [(0, place)]);
    assert_eq!(asked_of(&wanted, cursor, &mut locals), [], "it was asked");
    locals[0].asked = 0;
    assert_eq!(asked_of(&wanted, Place::new(5, 1), &mut locals), [], "it is delivered");
}

#[test]
fn what_is_asked_too_early_is_kept_for_the_next_leader() {
    let mut wanted = Wanted::NOTHING;
    wanted.asked(Place::new(9, 1), 6);
    assert_eq!((wanted.needs(0), wanted.needs_with_early(0)), (6, 9));
    assert_eq!(wanted.take_early(), Place::new(9, 1));
    wanted.asked(Place::new(9, 1), 20);
    assert_eq!((wanted.needs(0), wanted.take_early()), (9, Place::new(0, 0)));
}

#[test]
fn a_checkpoint_takes_nothing_back() {
    let (mut before, mut after) = (Wanted::NOTHING, Wanted::NOTHING);
    before.want(Place::new(3, 1), true);
    after.want(Place::new(2, 1), false);
    after.keep(before);
    assert!(after.reaches(Place::new(3, 1)) && !after.reaches(Place::new(3, 2)));
    assert_eq!(asked_of(&after, Place::new(1, 1), &mut [Local::new(0, 0, Stay::Here)]).len(), 1);
}

//! What is wanted, without a merge.

use super::Wanted;
use crate::generation::Position;
use crate::local::{Local, Stay};

fn asked_of(wanted: &Wanted, cursor: Position, locals: &mut [Local<()>]) -> Vec<(usize, Position)> {
    let mut asked = Vec::new();
    wanted.ask(cursor, locals, |at, position| asked.push((at, position)));
    asked
}

#[test]
fn each_leader_elsewhere_is_asked_once() {
    let mut locals = vec![Local::new(0, 0, Stay::Here), Local::new(0, 0, Stay::Away)];
    let (cursor, place) = (Position::new(1, 1), Position::new(4, 2));
    let mut wanted = Wanted::NOTHING;
    wanted.want(place, false);
    assert_eq!(asked_of(&wanted, cursor, &mut locals), [], "others want it, and ask themselves");
    wanted.want(place, true);
    assert_eq!(asked_of(&wanted, cursor, &mut locals), [(0, place)]);
    assert_eq!(asked_of(&wanted, cursor, &mut locals), [], "it was asked");
    locals[0].asked = 0;
    assert_eq!(asked_of(&wanted, Position::new(5, 1), &mut locals), [], "it is delivered");
}

#[test]
fn what_is_asked_too_early_is_kept_for_the_next_leader() {
    let mut wanted = Wanted::NOTHING;
    wanted.asked(Position::new(9, 1), 6);
    assert_eq!((wanted.needs(0), wanted.needs_with_early(0)), (6, 9));
    assert_eq!(wanted.take_early(), Position::new(9, 1));
    wanted.asked(Position::new(9, 1), 20);
    assert_eq!((wanted.needs(0), wanted.take_early()), (9, Position::new(0, 0)));
}

#[test]
fn a_checkpoint_takes_nothing_back() {
    let (mut before, mut after) = (Wanted::NOTHING, Wanted::NOTHING);
    before.want(Position::new(3, 1), true);
    after.want(Position::new(2, 1), false);
    after.keep(before);
    assert!(after.reaches(Position::new(3, 1)) && !after.reaches(Position::new(3, 2)));
    assert_eq!(asked_of(&after, Position::new(1, 1), &mut [Local::new(0, 0, Stay::Here)]).len(), 1);
}

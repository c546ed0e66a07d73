//! Who is told to answer how, by connections and time alone.

use super::{Begun, Repliers};
use crate::parts::Parts;
use crate::step::tests::{Desk, ONE};
use quorate_wire::{AnswerMode, ClientMessage};

fn bench() -> (Desk, Parts, Repliers) {
    let mut desk = Desk::new();
    let parts = desk.parts(4, ONE);
    let mut repliers = Repliers::new(4, 2);
    repliers.connected();
    (desk, parts, repliers)
}

/// How each was told to answer now, if it was.
fn appoint(desk: &mut Desk, parts: &mut Parts, repliers: &mut Repliers) -> (Vec<Option<AnswerMode>>, u64) {
    let more = repliers.appoint(&mut desk.step(), &mut parts.contacts);
    let told = |frames: Vec<quorate_wire::OutFrame>| {
        let frame = frames.first().map(crate::step::tests::arrives)?;
        match ClientMessage::decode(frame) {
            Ok(ClientMessage::AnswerMode(mode)) => Some(mode),
            other => panic!("{other:?}"),
        }
    };
    (desk.sent(&parts.contacts).into_iter().map(told).collect(), more)
}

fn count(told: &[Option<AnswerMode>], mode: AnswerMode) -> usize {
    told.iter().filter(|told| **told == Some(mode)).count()
}

#[test]
fn enough_answer_and_one_of_them_whole() {
    let (mut desk, mut parts, mut repliers) = bench();
    let (told, more) = appoint(&mut desk, &mut parts, &mut repliers);
    assert_eq!((count(&told, AnswerMode::Full), count(&told, AnswerMode::Digests)), (1, 1));
    assert_eq!((count(&told, AnswerMode::Silent), more), (2, 0));
    let (told, _) = appoint(&mut desk, &mut parts, &mut repliers);
    assert_eq!(told, [None; 4], "told once");
}

#[test]
fn who_is_gone_is_replaced_and_its_successor_gets_everything() {
    let (mut desk, mut parts, mut repliers) = bench();
    let (told, _) = appoint(&mut desk, &mut parts, &mut repliers);
    let whole = told.iter().position(|told| *told == Some(AnswerMode::Full)).expect("one");
    parts.lost(&mut desk.step(), None, whole, "cut".into());
    desk.effects();
    repliers.lost(whole);
    let (again, more) = appoint(&mut desk, &mut parts, &mut repliers);
    assert_eq!((count(&again, AnswerMode::Full), count(&again, AnswerMode::Digests)), (1, 1));
    assert_eq!(more.count_ones(), 2, "one answers whole, and one at all, that did not");
    assert_eq!(again[whole], None);
}

#[test]
fn all_are_asked_for_a_while_when_answers_differ() {
    let (mut desk, mut parts, mut repliers) = bench();
    appoint(&mut desk, &mut parts, &mut repliers);
    repliers.ask_all(desk.now);
    let (told, more) = appoint(&mut desk, &mut parts, &mut repliers);
    assert_eq!((count(&told, AnswerMode::Digests), more.count_ones()), (2, 2));
    desk.now = repliers.deadline().expect("an end");
    repliers.due(desk.now, &mut parts.sessions);
    let (told, more) = appoint(&mut desk, &mut parts, &mut repliers);
    assert_eq!((count(&told, AnswerMode::Silent), more), (2, 0), "and then no more");
}

#[test]
fn what_ended_meanwhile_makes_nobody_late() {
    let (mut desk, mut parts, mut repliers) = bench();
    appoint(&mut desk, &mut parts, &mut repliers);
    repliers.begun.push_back(Begun { since: desk.now, cell: 0, generation: 1, number: 1, tries: 0 });
    desk.now = repliers.deadline().expect("a look");
    repliers.due(desk.now, &mut parts.sessions);
    assert_eq!((appoint(&mut desk, &mut parts, &mut repliers).0, repliers.deadline()), (vec![None; 4], None));
}

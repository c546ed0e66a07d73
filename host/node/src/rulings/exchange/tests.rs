//! Whom a replica asks that lacks something, and whom it answers.

use super::{Exchange, Next, PATIENCE, PAUSE};
use quorate_execute::Worth;
use quorate_types::{ReplicaId, Seq, Time};
use quorate_wire::{Memos, MemosWanted};

fn r(id: u16) -> ReplicaId {
    ReplicaId::new(id)
}

fn wanted(from: u64, up_to: u64) -> MemosWanted {
    MemosWanted { after: Seq::new(2), up_to: Seq::new(up_to), from: Seq::new(from) }
}

fn memos(wanted: MemosWanted) -> Memos {
    Memos { wanted, steps: Vec::new(), through: wanted.up_to, list: Vec::new() }
}

fn members() -> Vec<ReplicaId> {
    [1, 3, 4].map(r).to_vec()
}

struct Asker {
    exchange: Exchange,
    now: Time,
    wanted: MemosWanted,
    offered: bool,
}

impl Asker {
    fn new() -> Self {
        Self { exchange: Exchange::default(), now: Time::ZERO, wanted: wanted(3, 9), offered: false }
    }
    fn next(&mut self, worth: Option<(u16, Worth)>) -> Next {
        let worth = worth.map(|(from, worth)| (r(from), worth));
        self.exchange.next(self.now, (Some(self.wanted), worth), (&members(), self.offered))
    }
    /// Once the time is up.
    fn later(&mut self) -> Next {
        self.now = self.exchange.deadline().expect("it asks");
        self.next(None)
    }
}

#[test]
fn one_member_after_the_other_is_asked() {
    let mut asker = Asker::new();
    assert_eq!(asker.next(None), Next::Ask(r(1)));
    assert_eq!(asker.next(None), Next::Nothing, "it may answer");
    assert_eq!(asker.exchange.deadline(), Some(Time::ZERO.plus(PATIENCE.0)));
    assert_eq!(asker.later(), Next::Ask(r(3)));
    assert_eq!(asker.next(Some((3, Worth::Nothing))), Next::Ask(r(4)), "what was wrong is not waited for");
    assert_eq!(asker.next(Some((4, Worth::Nothing))), Next::Nothing, "all were asked");
    let before = asker.now;
    assert_eq!(asker.later(), Next::Ask(r(1)));
    assert_eq!(asker.now, before.plus(PATIENCE.0.times(2)), "links may be slow");
}

#[test]
fn a_member_that_has_it_is_asked_for_all_of_it() {
    let mut asker = Asker::new();
    assert_eq!(asker.next(None), Next::Ask(r(1)));
    assert_eq!(asker.next(Some((1, Worth::Nothing))), Next::Ask(r(3)));
    for from in [5, 6, 7] {
        asker.wanted = wanted(from, 9);
        assert_eq!(asker.next(Some((3, Worth::Some))), Next::More(r(3)));
    }
    assert_eq!(asker.later(), Next::Ask(r(4)), "the rest did not come");
    asker.exchange.answered(r(4), memos(wanted(3, 9)));
    assert!(asker.exchange.answer().is_some(), "it is asked from the beginning");
    let end = asker.exchange.next(asker.now, (None, Some((r(4), Worth::All))), (&members(), false));
    assert_eq!((end, asker.exchange.deadline()), (Next::Nothing, None));
}

#[test]
fn who_was_asked_may_answer_once() {
    let mut asker = Asker::new();
    let question = asker.wanted;
    asker.exchange.answered(r(1), memos(question));
    assert_eq!(asker.exchange.answer(), None, "nobody was asked");
    assert_eq!(asker.next(None), Next::Ask(r(1)));
    asker.exchange.answered(r(3), memos(question));
    asker.exchange.answered(r(1), memos(wanted(4, 9)));
    assert_eq!(asker.exchange.answer(), None, "another member, and another question");
    assert_eq!(asker.later(), Next::Ask(r(3)));
    asker.exchange.answered(r(1), memos(question));
    assert_eq!(asker.exchange.answer(), Some((r(1), memos(question))), "it is slow");
    asker.exchange.answered(r(1), memos(question));
    assert_eq!(asker.exchange.answer(), None);
    assert_eq!(asker.next(Some((1, Worth::Nothing))), Next::Nothing, "r3 is waited for");
    asker.exchange.answered(r(3), memos(question));
    assert!(asker.exchange.answer().is_some());
}

#[test]
fn a_checkpoint_is_fetched_once_nobody_else_helps() {
    let mut asker = Asker::new();
    assert_eq!(asker.next(None), Next::Ask(r(1)));
    for member in [3, 4] {
        assert_eq!(asker.later(), Next::Ask(r(member)));
    }
    assert_eq!(asker.later(), Next::Nothing, "there is no checkpoint that has it");
    asker.offered = true;
    assert_eq!(asker.later(), Next::Ask(r(1)), "all are asked once more");
    for member in [3, 4] {
        assert_eq!(asker.later(), Next::Ask(r(member)));
    }
    assert_eq!(asker.later(), Next::GiveUp);
}

#[test]
fn a_replica_alone_waits_for_a_checkpoint() {
    let mut exchange = Exchange::default();
    let mut next = |offered| exchange.next(Time::ZERO, (Some(wanted(3, 9)), None), (&[], offered));
    assert_eq!(next(false), Next::Nothing);
    assert_eq!(next(true), Next::GiveUp);
}

#[test]
fn who_asks_often_waits_for_its_turn() {
    let (mut exchange, mut now) = (Exchange::default(), Time::ZERO.plus(PAUSE));
    exchange.asked(r(1), wanted(3, 9));
    exchange.asked(r(1), wanted(4, 9));
    exchange.asked(r(2), wanted(5, 9));
    assert_eq!(exchange.due(now), [(r(1), wanted(4, 9)), (r(2), wanted(5, 9))], "the last one of each");
    exchange.served(now, r(1));
    exchange.asked(r(1), wanted(5, 9));
    exchange.asked(r(2), wanted(6, 9));
    assert_eq!(exchange.due(now), [(r(2), wanted(6, 9))], "r2 got no answer");
    now = now.plus(PAUSE);
    assert_eq!(exchange.deadline(), Some(now));
    assert_eq!(exchange.due(now), [(r(1), wanted(5, 9))]);
}

//! Letters alone: copies of members, honest or not, and time.

use super::LetterLimits;
use crate::effects::Effect;
use crate::parts::Parts;
use crate::sessions::Rules;
use crate::step::tests::{Desk, ID, ONE};
use bytes::Bytes;
use quorate_types::{Random, SessionId};
use quorate_wire::LetterFrame;

/// Two members must say the same.
const TWO: Rules = Rules { needed: 2, takes_back: 0, ..ONE };

struct Bench {
    desk: Desk,
    parts: Parts,
}

impl Bench {
    /// Four members, and an open session.
    fn new(rules: Rules, limits: LetterLimits) -> Self {
        let mut desk = Desk::new();
        desk.config.letters = Some(limits);
        let mut parts = desk.parts(4, rules);
        desk.open(&mut parts.sessions, 1, ID);
        desk.effects();
        Self { desk, parts }
    }

    fn of_two() -> Self {
        Self::new(TWO, LetterLimits::default())
    }

    /// A member sends a letter. Whether it is of use.
    fn send(&mut self, from: usize, number: u64, body: &[u8]) -> bool {
        self.send_to(from, ID, number, body)
    }

    fn send_to(&mut self, from: usize, session: SessionId, number: u64, body: &[u8]) -> bool {
        let payload = Bytes::copy_from_slice(body);
        let letter = LetterFrame { session, number, body: &payload };
        let Self { desk, parts } = self;
        let used = parts.letters.arrived(&mut desk.step(), &parts.sessions, from, &letter, &payload);
        parts.letters.check();
        used
    }

    /// What was passed on: number, how many were missed, and body.
    fn passed(&mut self) -> Vec<(u64, u64, Vec<u8>)> {
        let letter = |effect| match effect {
            Effect::Letter { session, number, missed, body } => {
                assert_eq!(session, ID);
                Some((number, missed, body.to_vec()))
            }
            _ => None,
        };
        self.desk.effects().into_iter().filter_map(letter).collect()
    }

    fn numbers(&mut self) -> Vec<u64> {
        self.passed().into_iter().map(|(number, ..)| number).collect()
    }

    fn later(&mut self, millis: u64) {
        self.desk.later(millis);
        if self.parts.letters.deadline() <= self.desk.now {
            self.parts.letters.due(&mut self.desk.step());
            assert!(self.parts.letters.deadline() > self.desk.now, "INV-CLIENT-8");
        }
        self.parts.letters.check();
    }
}

#[test]
fn where_replicas_only_crash_the_first_copy_counts() {
    let mut bench = Bench::new(ONE, LetterLimits::default());
    assert!(bench.send(2, 1, b"a"));
    assert!(!bench.send(0, 1, b"a"), "it is there already");
    assert!(bench.send(0, 2, b"b"));
    assert_eq!(bench.passed(), [(1, 0, b"a".to_vec()), (2, 0, b"b".to_vec())]);
}

#[test]
fn a_letter_counts_when_two_sent_the_same() {
    let mut bench = Bench::of_two();
    assert!(bench.send(3, 1, b"lie"));
    assert!(bench.send(0, 1, b"true"));
    assert!(!bench.send(3, 1, b"true"), "it said something else");
    assert_eq!(bench.passed(), []);
    assert!(bench.send(2, 1, b"true"));
    assert_eq!(bench.passed(), [(1, 0, b"true".to_vec())]);
    assert!(!bench.send(1, 1, b"true"), "others were faster");
    bench.later(10_000);
    assert_eq!((bench.passed(), bench.parts.letters.held.total()), (vec![], 0));
}

#[test]
fn letters_come_in_their_order() {
    let mut bench = Bench::of_two();
    for (from, number) in [(0, 2), (1, 2), (0, 3), (1, 1)] {
        bench.send(from, number, b"x");
    }
    assert_eq!(bench.numbers(), []);
    bench.send(2, 1, b"x");
    assert_eq!(bench.numbers(), [1, 2]);
    bench.send(2, 3, b"x");
    assert_eq!(bench.numbers(), [3]);
}

/// What is lost is counted, once nobody can be expected to send it any more.
#[test]
fn a_gap_is_waited_for_and_told() {
    let mut bench = Bench::of_two();
    for (from, number) in [(0, 1), (1, 1), (0, 2), (0, 4), (1, 4), (0, 5), (1, 5), (0, 7), (1, 7)] {
        bench.send(from, number, b"x");
    }
    assert_eq!(bench.numbers(), [1]);
    bench.later(999);
    assert_eq!(bench.numbers(), []);
    bench.later(1);
    assert_eq!(bench.passed(), [(4, 2, b"x".to_vec()), (5, 0, b"x".to_vec())]);
    bench.send(1, 6, b"x");
    bench.send(2, 6, b"x");
    assert_eq!(bench.numbers(), [6, 7], "this one was not lost");
    assert!(!bench.send(1, 2, b"x"), "too late");
    assert_eq!(bench.parts.letters.held.total(), 0);
}

/// A member that makes up letters, of any number, holds up nobody and takes no more memory than it may.
#[test]
fn a_liar_holds_up_nothing() {
    let limits = LetterLimits { held_bytes_max: 10_000, ..LetterLimits::default() };
    let mut bench = Bench::new(TWO, limits);
    for number in 0..1000 {
        bench.send(3, 1 + number * 7, &[0; 100]);
    }
    assert!(bench.parts.letters.held.total() <= 10_000);
    for number in 1..=50 {
        bench.send(0, number, b"x");
        bench.send(1, number, b"x");
    }
    assert_eq!(bench.numbers(), (1..=50).collect::<Vec<_>>());
    assert!(!bench.send_to(3, SessionId { index: 9, generation: 9 }, 1, b"x"), "no session of this client");
}

/// Three honest members with streams that stand still and go on, and one that lies: what is passed on is true, in order, and complete.
#[test]
fn streams_in_any_order_give_one_sequence() {
    for seed in 0..300 {
        let (mut bench, mut random) = (Bench::of_two(), Random::new(seed));
        let (mut next, mut got) = ([1_u64; 3], Vec::new());
        while next.iter().any(|next| *next <= 40) {
            let who = (random.next() % 4) as usize;
            if who == 3 {
                let (number, lie) = (1 + random.next() % 60, random.next() as u8);
                bench.send(3, number, &[if lie % 2 == 0 { lie } else { number as u8 }]);
            } else if next[who] <= 40 {
                bench.send(who, next[who], &[next[who] as u8]);
                next[who] += 1;
            }
            got.extend(bench.passed());
        }
        let all: Vec<_> = (1..=40).map(|number| (number, 0, vec![number as u8])).collect();
        assert_eq!(got, all, "seed {seed}");
    }
}

/// A member that lied and was replaced does not count beside one that lies and stays.
#[test]
fn what_members_sent_that_left_counts_no_more() {
    let mut bench = Bench::of_two();
    assert!(bench.send(0, 1, b"false"));
    assert!(bench.send(2, 1, b"right"));
    bench.parts.letters.members_changed(&mut bench.desk.step(), 2, &[false, true, true, true]);
    bench.parts.letters.check();
    assert!(bench.send(1, 1, b"false"));
    assert_eq!(bench.passed(), []);
    assert!(bench.send(3, 1, b"right"));
    assert_eq!(bench.passed(), [(1, 0, b"right".to_vec())]);
}

/// Of five copies three are needed where two may lie. With fewer members, of which one may lie, the two that are here are enough.
#[test]
fn what_waited_counts_once_fewer_are_needed() {
    let mut bench = Bench::new(Rules { needed: 3, ..TWO }, LetterLimits::default());
    assert!(bench.send(1, 1, b"right") && bench.send(2, 1, b"right"));
    assert_eq!(bench.passed(), []);
    bench.parts.letters.members_changed(&mut bench.desk.step(), 2, &[true; 4]);
    assert_eq!(bench.passed(), [(1, 0, b"right".to_vec())]);
}

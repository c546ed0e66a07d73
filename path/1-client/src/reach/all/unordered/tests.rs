//! A quorum's answer, and what happens without one.

use super::Unordered;
use crate::effects::{CallId, Completion, ReadConsistency};
use crate::parts::Parts;
use crate::reads::Question;
use crate::step::NEVER;
use crate::step::tests::{Desk, ONE};
use bytes::Bytes;
use quorate_types::{FaultModel, Faults, Seq};
use quorate_wire::{ReadReply, ReadStatus};

/// Four members, of which three are a quorum.
fn bench() -> (Desk, Parts, Unordered) {
    let mut desk = Desk::new();
    let parts = desk.parts(4, ONE);
    (desk, parts, Unordered::new(Faults::of(FaultModel::Byzantine).among(4)))
}

fn ask(desk: &mut Desk, parts: &mut Parts, unordered: &Unordered, call: u64) {
    let (call, query, consistency) = (CallId(call), Bytes::from_static(b"?"), ReadConsistency::Strong);
    let question =
        Question { call, reader: 0, consistency, after: Seq::ZERO, pinned: None, query, deadline: NEVER };
    unordered.read(&mut desk.step(), parts, question);
}

fn answer(
    desk: &mut Desk,
    parts: &mut Parts,
    unordered: &mut Unordered,
    from: usize,
    seq: u64,
    body: &'static [u8],
) {
    let (payload, seq) = (Bytes::from_static(body), Seq::new(seq));
    let reply = ReadReply { read: 1, seq, status: ReadStatus::Done, body: &payload };
    unordered.reply(&mut desk.step(), parts, from, &reply, &payload);
}

#[test]
fn a_quorum_says_so_and_the_seq_is_one_that_was_surely_reached() {
    let (mut desk, mut parts, mut unordered) = bench();
    ask(&mut desk, &mut parts, &unordered, 1);
    answer(&mut desk, &mut parts, &mut unordered, 0, 1 << 40, b"a");
    answer(&mut desk, &mut parts, &mut unordered, 1, 8, b"a");
    answer(&mut desk, &mut parts, &mut unordered, 2, 9, b"b");
    assert_eq!(desk.ended(), [], "INV-CLIENT-11: two of four");
    answer(&mut desk, &mut parts, &mut unordered, 3, 7, b"a");
    let read = Completion::Read { seq: Seq::new(8), body: Bytes::from_static(b"a") };
    assert_eq!((desk.ended(), parts.stats.reads_unordered), (vec![(1, Ok(read))], 1));
    assert_eq!(parts.reads.check(), 0);
}

#[test]
fn where_none_can_agree_reads_are_ordered_for_a_while() {
    let (mut desk, mut parts, mut unordered) = bench();
    ask(&mut desk, &mut parts, &unordered, 1);
    for (from, body) in [(0, b"a"), (1, b"b"), (2, b"a")] {
        answer(&mut desk, &mut parts, &mut unordered, from, 5, body);
    }
    assert_eq!((parts.stats.reads_asked_again, parts.reads.check()), (0, 1), "the last one may agree");
    answer(&mut desk, &mut parts, &mut unordered, 3, 5, b"c");
    assert_eq!((parts.stats.reads_asked_again, parts.reads.check(), parts.sessions.check(8)), (1, 0, 1));
    ask(&mut desk, &mut parts, &unordered, 2);
    assert_eq!((parts.reads.check(), parts.sessions.check(8)), (0, 2), "ordered at once");
    desk.later(10);
    ask(&mut desk, &mut parts, &unordered, 3);
    assert_eq!((parts.reads.check(), parts.sessions.check(8)), (1, 2));
}

//! Reads alone: where each goes, when it goes elsewhere, and which answers count.

use super::Question;
use crate::effects::{CallId, Completion, ReadConsistency};
use crate::parts::Parts;
use crate::step::NEVER;
use crate::step::tests::{Desk, ONE, arrives};
use bytes::Bytes;
use quorate_types::Seq;
use quorate_wire::{ReadReply, ReadRequest, ReadStatus};

const LEADER: Option<usize> = Some(2);

fn question(call: u64, consistency: ReadConsistency) -> Question {
    let (call, query) = (CallId(call), Bytes::from_static(b"?"));
    Question { call, reader: 1, consistency, after: Seq::ZERO, pinned: None, query, deadline: NEVER }
}

fn ask(desk: &mut Desk, parts: &mut Parts, call: u64, consistency: ReadConsistency) {
    parts.reads.ask(&mut desk.step(), &parts.contacts, LEADER, question(call, consistency));
}

/// The reads that each member is sent, with what their answers must have seen.
fn sent(desk: &mut Desk, parts: &mut Parts) -> Vec<Vec<(u64, u64)>> {
    parts.reads.send(&mut desk.step(), &mut parts.contacts);
    let reads = |frames: Vec<quorate_wire::OutFrame>| {
        let mut all = Vec::new();
        for frame in frames {
            let payload = arrives(&frame).payload;
            all.extend(
                ReadRequest::walk(&payload)
                    .map(|read| read.expect("well formed"))
                    .map(|read| (read.read, read.seen.number())),
            );
        }
        all
    };
    desk.sent(&parts.contacts).into_iter().map(reads).collect()
}

fn reply(desk: &mut Desk, parts: &mut Parts, from: usize, read: u64, seq: u64, status: ReadStatus) {
    let (payload, seq) = (Bytes::from_static(b"answer"), Seq::new(seq));
    let reply = ReadReply { read, seq, status, body: &payload };
    assert!(parts.reads.waits_for(read, from));
    parts.reads.reply(&mut desk.step(), from, &reply, &payload, true);
}

fn due(desk: &mut Desk, parts: &mut Parts) {
    for read in parts.reads.due(desk.now) {
        parts.reads.hedge(&mut desk.step(), &parts.contacts, LEADER, read);
    }
    parts.reads.look_on(desk.now);
}

#[test]
fn strong_reads_go_to_the_leader_and_others_by_turns() {
    let mut desk = Desk::new();
    let mut parts = desk.parts(3, ONE);
    ask(&mut desk, &mut parts, 1, ReadConsistency::Strong);
    ask(&mut desk, &mut parts, 2, ReadConsistency::Weak);
    ask(&mut desk, &mut parts, 3, ReadConsistency::Weak);
    let sent = sent(&mut desk, &mut parts);
    assert_eq!(sent[2][0].0, 1);
    assert!(
        sent.iter().all(|reads| reads.len() <= 2)
            && sent.iter().filter(|reads| !reads.is_empty()).count() >= 2
    );
    assert_eq!(parts.reads.check(), 3);
}

#[test]
fn who_lets_a_read_wait_or_is_lost_is_not_the_only_one() {
    let mut desk = Desk::new();
    let mut parts = desk.parts(3, ONE);
    ask(&mut desk, &mut parts, 1, ReadConsistency::Strong);
    sent(&mut desk, &mut parts);
    desk.later(100);
    due(&mut desk, &mut parts);
    let second = sent(&mut desk, &mut parts).iter().position(|reads| !reads.is_empty()).expect("another one");
    assert_ne!(Some(second), LEADER);
    assert!(parts.lost(&mut desk.step(), LEADER, 2, "cut".into()));
    assert!(parts.lost(&mut desk.step(), LEADER, second, "cut".into()));
    desk.effects();
    let third = sent(&mut desk, &mut parts).iter().position(|reads| !reads.is_empty()).expect("the last one");
    reply(&mut desk, &mut parts, third, 1, 5, ReadStatus::Done);
    assert_eq!(desk.ended().len(), 1);
    assert_eq!((parts.reads.check(), parts.reads.queued()), (0, 0));
}

#[test]
fn no_reader_goes_back() {
    let mut desk = Desk::new();
    let mut parts = desk.parts(3, ONE);
    parts.reads.wrote(Seq::new(7));
    ask(&mut desk, &mut parts, 1, ReadConsistency::Session);
    let first = sent(&mut desk, &mut parts);
    let from = first.iter().position(|reads| *reads == [(1, 7)]).expect("it names the newest write");
    reply(&mut desk, &mut parts, from, 1, 6, ReadStatus::Done);
    assert_eq!(desk.ended(), [], "INV-CLIENT-6: too old");
    desk.later(100);
    due(&mut desk, &mut parts);
    let next = sent(&mut desk, &mut parts).iter().position(|reads| !reads.is_empty()).expect("elsewhere");
    reply(&mut desk, &mut parts, next, 1, 9, ReadStatus::Done);
    let body = Bytes::from_static(b"answer");
    assert_eq!(desk.ended(), [(1, Ok(Completion::Read { seq: Seq::new(9), body }))]);
    ask(&mut desk, &mut parts, 2, ReadConsistency::Session);
    assert!(sent(&mut desk, &mut parts).concat().contains(&(2, 9)));
}

#[test]
fn what_many_answer_is_kept_until_it_is_taken() {
    let mut desk = Desk::new();
    let mut parts = desk.parts(3, ONE);
    parts.reads.ask_many(&desk.step(), 0b011, question(1, ReadConsistency::Strong));
    assert_eq!(sent(&mut desk, &mut parts).iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0]);
    let payload = Bytes::from_static(b"answer");
    let answer = ReadReply { read: 1, seq: Seq::new(3), status: ReadStatus::Done, body: &payload };
    let (answers, open) = parts.reads.keep(0, &answer, &payload).expect("all are asked");
    assert_eq!((answers.len(), open), (1, 1));
    parts.reads.check();
    assert_eq!(parts.reads.take(1).map(|ended| ended.call), Some(CallId(1)));
    assert_eq!((parts.reads.check(), parts.reads.queued()), (0, 0));
}

//! Replies that each replica makes its own: compared in a way of the client's, and put together.

mod many;

use many::hand::{Hand, SESSION};
use many::{config, list};
use quorate_client::{Combiner, Combines, Completion, Config, ReadConsistency, SessionHandle};
use quorate_types::Span;
use quorate_wire::{AnswerMode, ReplyStatus, RequestKind};
use std::sync::Arc;

/// The last byte is a replica's own, and the rest is what was executed. Of own bytes 0 is a forged one, which shows when they are put
/// together: two sound ones are needed.
#[derive(Debug)]
struct Shares;

impl Combiner for Shares {
    fn same(&self, one: &[u8], other: &[u8]) -> bool {
        match (one, other) {
            ([one @ .., _], [other @ .., _]) => one == other,
            _ => one == other,
        }
    }

    fn combine(&self, replies: &[&[u8]]) -> Option<Vec<u8>> {
        let (_, common) = replies.first()?.split_last()?;
        let mut own: Vec<u8> = replies.iter().filter_map(|reply| reply.last().copied()).collect();
        own.retain(|byte| *byte != 0);
        own.sort_unstable();
        (own.len() >= 2).then(|| [common, &own].concat())
    }
}

fn combining() -> Config {
    Config { combiner: Some(Combines(Arc::new(Shares))), ordered_reads: false, ..config(3) }
}

fn session() -> (Hand, SessionHandle) {
    let mut hand = Hand::with(4, combining());
    let handle = hand.opened(1000, SESSION);
    (hand, handle)
}

#[test]
fn who_puts_replies_together_gets_them_whole() {
    let (hand, _) = session();
    let told = |mode| hand.modes.iter().filter(|told| **told == Some(mode)).count();
    assert_eq!((told(AnswerMode::Full), told(AnswerMode::Silent)), (2, 2));
}

#[test]
fn what_is_the_same_in_other_bytes_counts_and_is_put_together() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    hand.done(0, 1, b"sum7");
    assert_eq!(hand.ended(1), None, "one may lie");
    hand.done(2, 1, b"sum5");
    hand.replied(1, b"sum57");
}

#[test]
fn who_says_something_else_is_not_counted() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    hand.done(0, 1, b"lie7");
    hand.done(1, 1, b"sum6");
    hand.done(1, 1, b"sum8");
    assert_eq!(hand.ended(1), None, "one member, whatever it says how often");
    hand.done(2, 1, b"sum5");
    hand.replied(1, b"sum56");
}

/// A share that is none shows only when it is put together; then others are asked, and waited for.
#[test]
fn what_does_not_combine_waits_for_more() {
    let (mut hand, handle) = session();
    let silent: Vec<usize> = (0..4).filter(|at| hand.modes[*at] == Some(AnswerMode::Silent)).collect();
    let asked: Vec<usize> = (0..4).filter(|at| !silent.contains(at)).collect();
    hand.call(1, handle, b"x");
    hand.done(asked[0], 1, b"sum\0");
    hand.done(asked[1], 1, b"sum4");
    assert_eq!(hand.ended(1), None);
    hand.advance(Span::from_millis(120));
    assert!((0..4).all(|at| hand.modes[at] == Some(AnswerMode::Full)), "{:?}", hand.modes);
    assert!(hand.got[silent[0]].iter().filter(|got| got.number == 1).count() > 1, "it is asked to answer");
    hand.done(silent[0], 1, b"sum9");
    hand.replied(1, b"sum49");
}

/// Each reply of a call is looked at by itself.
#[test]
fn calls_have_several_replies() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    hand.say(0, SESSION, 1, ReplyStatus::Done, &list(&[b"a1", b"b3"]));
    hand.say(1, SESSION, 1, ReplyStatus::Done, &list(&[b"a2"]));
    assert_eq!(hand.ended(1), None, "it says less");
    hand.say(2, SESSION, 1, ReplyStatus::Done, &list(&[b"a2", b"b4"]));
    assert_eq!(hand.ended(1), Some(Ok(Completion::Replies(list(&[b"a12", b"b34"]).into()))));
}

#[test]
fn digests_count_for_nothing() {
    let (mut hand, handle) = session();
    hand.call(1, handle, b"x");
    for member in 0..4 {
        let digest = quorate_wire::reply_digest(&list(&[b"sum4"]));
        hand.say(member, SESSION, 1, ReplyStatus::DoneDigest, digest.bytes());
    }
    assert_eq!(hand.ended(1), None);
    hand.done(0, 1, b"sum1");
    hand.done(3, 1, b"sum2");
    hand.replied(1, b"sum12");
}

/// What replicas make of a query they make only of one that is ordered.
#[test]
fn reads_are_ordered() {
    let (mut hand, _) = session();
    hand.read(1, ReadConsistency::Strong, None, None);
    hand.advance(Span::from_millis(1));
    assert!(hand.reads.iter().all(Vec::is_empty), "{:?}", hand.reads);
    let openings = |got: &Vec<many::hand::Got>| got.iter().any(|got| got.kind == RequestKind::OpenSession);
    assert!(hand.got.iter().all(openings), "they get a session for that");
}

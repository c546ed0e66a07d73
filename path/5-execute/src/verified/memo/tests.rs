//! Memos are read as they were written; what is cut off or changed gives nothing, and never a panic.

use super::{Memo, Memos};
use crate::outcomes::Outcomes;
use bytes::Bytes;
use quorate_state::store::{Changed, Store};
use quorate_types::{ClientId, Digest, RequestNumber, Seq, SessionId};
use quorate_wire::ReplyStatus;

fn outcomes() -> Outcomes {
    let mut outcomes = Outcomes::new();
    outcomes.begin(Seq::new(7));
    let session = SessionId { index: 3, generation: 9 };
    outcomes.push_opening(ClientId::new(5), RequestNumber::new(1), Some(session));
    for (number, body) in [(1, &b"one"[..]), (2, b""), (3, b"three")] {
        outcomes.push(session, RequestNumber::new(number), |arena| {
            arena.extend_from_slice(body);
            ReplyStatus::Done
        });
    }
    outcomes.push_withheld(session, RequestNumber::new(4), ReplyStatus::Done);
    outcomes
}

fn changed() -> Changed {
    let mut store = Store::new();
    store.put(b"kept", b"k");
    store.put(b"gone", b"g");
    drop(store.take_changed());
    store.remove(b"gone");
    store.put(b"new", b"");
    store.put(b"kept", b"changed");
    store.take_changed().expect("all of it was noted")
}

fn memo() -> Memo {
    let body = Memo::write(None, &outcomes(), &changed(), 1000).expect("it is short");
    Memo {
        number: 1,
        attempt: 2,
        seq: Seq::new(7),
        before: Digest::new([4; 32]),
        life: 3,
        ruled: false,
        body,
    }
}

#[test]
fn a_memo_says_what_the_batch_did() {
    let memo = memo();
    let read = Memo::read(&memo.head(), memo.body.clone()).expect("it is one");
    assert_eq!(read, Memo { number: 0, ..memo.clone() });
    let (found, changes) = memo.open(None).expect("it is whole");
    assert_eq!(
        (found.seq(), found.list(), found.arena()),
        (outcomes().seq(), outcomes().list(), outcomes().arena())
    );
    assert_eq!(changes, changed());
}

#[test]
fn what_is_cut_off_is_no_memo() {
    let memo = memo();
    assert_eq!(Memo::read(&memo.head()[1..], Bytes::new()), None);
    for len in 0..memo.body.len() {
        let cut = Memo { body: memo.body.slice(..len), ..memo.clone() };
        // It may end between two objects.
        if let Some((found, _)) = cut.open(None) {
            assert_eq!(found.list(), outcomes().list());
        }
        for bits in [1, 0x80, 0xff] {
            let mut body = memo.body.to_vec();
            body[len] ^= bits;
            drop(Memo { body: body.into(), ..memo.clone() }.open(None));
        }
    }
}

#[test]
fn memos_are_taken_for_their_past_and_attempt() {
    let memo = memo();
    let other = Memo { before: Digest::new([5; 32]), ..memo.clone() };
    let mut memos = Memos::default();
    memos.recall(vec![memo.clone(), other.clone()], Seq::new(6));
    assert!(memos.has(2, Seq::new(7)) && !memos.has(1, Seq::new(7)));
    assert_eq!(memos.of((2, Seq::new(7)), &other.before, Some(3)), Some(&other));
    assert_eq!(
        memos.of((2, Seq::new(7)), &memo.before, Some(3)),
        Some(&memo),
        "it may run again after another past"
    );
    assert_eq!(memos.of((2, Seq::new(7)), &Digest::new([6; 32]), Some(3)), None);
    assert_eq!(memos.of((2, Seq::new(7)), &memo.before, Some(2)), None, "it was not there in that life");
    assert_eq!(memos.of((2, Seq::new(7)), &memo.before, None), None, "it runs one request after the other");
    assert_eq!(memos.life_before(2, Seq::new(7), u64::MAX), Some(3));
    assert_eq!(memos.life_before(2, Seq::new(7), 3), None);
    memos.trimmed(Seq::new(7));
    memos.recall(vec![memo.clone()], Seq::new(7));
    assert!(!memos.has(2, Seq::new(7)), "the checkpoint has it");
    memos.recall(vec![memo], Seq::new(6));
    memos.attempt(3);
    assert!(!memos.has(2, Seq::new(7)));
}

#[test]
fn tokens_wait_for_memos() {
    let mut memos = Memos::default();
    let outcomes = outcomes();
    for seq in [3, 5] {
        let past = Digest::new([1; 32]);
        assert!(memos.add((0, Seq::new(seq)), past, None, (&outcomes, &changed())).is_some());
    }
    assert!(memos.may_tell(Seq::new(2)) && !memos.may_tell(Seq::new(3)) && !memos.may_tell(Seq::new(4)));
    let first = memos.unkept().expect("one").number;
    memos.is_noted();
    let second = memos.unkept().expect("another").number;
    memos.is_kept(second);
    assert!(!memos.may_tell(Seq::new(5)), "it was not noted");
    assert!(memos.may_tell(Seq::new(4)));
    memos.is_noted();
    memos.is_kept(first);
    assert!(!memos.may_tell(Seq::new(5)));
    memos.is_kept(second);
    assert!(memos.may_tell(Seq::new(5)) && memos.unkept().is_none());
}

#[test]
fn what_is_final_is_kept_when_the_rest_is_forgotten() {
    let mut memos = Memos::default();
    for seq in [3, 5, 6] {
        let past = Digest::new([1; 32]);
        assert!(memos.add((0, Seq::new(seq)), past, None, (&outcomes(), &changed())).is_some());
        memos.is_noted();
    }
    memos.forget_after(Seq::new(4));
    assert!(!memos.may_tell(Seq::new(3)), "its memo is under way");
    assert!(memos.unkept().is_none() && memos.bytes() > 0);
    memos.is_kept(3);
    assert!(memos.may_tell(Seq::new(6)) && memos.bytes() == 0);
    memos.limit(100);
    let past = Digest::new([1; 32]);
    assert!(memos.add((0, Seq::new(7)), past, None, (&outcomes(), &changed())).is_none(), "it is too large");
}

#[test]
fn what_was_ruled_counts_before_what_this_replica_did() {
    let own = memo();
    let ruled = Memo { ruled: true, life: 9, body: Bytes::from_static(b"ruled"), ..own.clone() };
    let (at, mut memos) = ((2, Seq::new(7)), Memos::default());
    memos.recall(vec![own.clone(), ruled.clone()], Seq::new(6));
    for life in [None, Some(0), Some(3), Some(u64::MAX)] {
        assert_eq!(memos.of(at, &own.before, life), Some(&ruled));
    }
    assert_eq!(Memo::read(&ruled.head(), ruled.body.clone()), Some(Memo { number: 0, ..ruled }));
}

//! A leader hands its office on.

use super::one::{One, append, at, decided, entry, matched, sent, sent_to, start_of, view};
use super::world::replica;
use crate::raft::message::RaftMessage;
use crate::{Input, Order};
use std::collections::BTreeSet;

fn leader() -> One {
    let mut one = One::new(3);
    one.elect();
    one.sync();
    one.receive(1, matched(1, 1));
    one.receive(2, matched(1, 1));
    one
}

/// It stops proposing, and asks the target as soon as that has everything.
#[test]
fn a_transfer_waits_for_the_target() {
    let mut one = leader();
    one.propose(1);
    one.sync();
    let effects = one.step(Input::Transfer(Some(replica(2))));
    assert!(sent(&effects).is_empty(), "the target lacks an entry");
    assert!(!one.raft.standing().leading);
    assert!(one.propose(2).is_empty(), "nothing is proposed");
    let effects = one.receive(1, matched(1, 2));
    assert_eq!(decided(&effects), vec![1], "what was proposed is still decided");
    let (_, message) = sent_to(&one.receive(2, matched(1, 2)), 2);
    assert_eq!(message, RaftMessage::TimeoutNow { view: view(1) });
    let effects = one.expire();
    assert!(!sent(&effects).is_empty());
}

/// Without a target the most advanced member gets it; a target that is no member, or itself, is ignored.
#[test]
fn the_most_advanced_member_is_chosen() {
    let mut one = leader();
    one.propose(1);
    one.receive(2, matched(1, 2));
    for nobody in [0, 9] {
        one.step(Input::Transfer(Some(replica(nobody))));
        assert!(one.raft.standing().leading);
    }
    let (_, message) = sent_to(&one.step(Input::Transfer(None)), 2);
    assert_eq!(message, RaftMessage::TimeoutNow { view: view(1) });
}

/// Of several that have everything it is not always the same one: that one may be unable to lead, and hand over to this one again.
#[test]
fn who_has_everything_gets_it_by_chance() {
    let mut one = One::new(5);
    one.elect();
    one.sync();
    (1..=4).for_each(|peer| drop(one.receive(peer, matched(1, 1))));
    let mut chosen = BTreeSet::new();
    for _ in 0..40 {
        for (to, _, message) in sent(&one.step(Input::Transfer(None))) {
            assert_eq!(message, RaftMessage::TimeoutNow { view: view(1) });
            chosen.insert(to);
        }
        // The one that was asked does nothing.
        while !one.raft.standing().leading {
            one.expire();
            (1..=4).for_each(|peer| drop(one.receive(peer, matched(1, 1))));
        }
    }
    assert_eq!(chosen.len(), 4, "{chosen:?}");
}

/// A target that does nothing costs one election time-out.
#[test]
fn a_transfer_is_given_up() {
    let mut one = leader();
    one.step(Input::Transfer(Some(replica(2))));
    let begun = one.now;
    while !one.raft.standing().leading {
        one.expire();
        one.receive(1, matched(1, 1));
    }
    assert_eq!(one.now.since(begun).millis(), 600);
    assert!(!one.propose(1).is_empty());
}

/// The target asks for votes at once, without pre-votes, and says why.
#[test]
fn the_target_stands_at_once() {
    let mut one = One::new(3);
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1), entry(1, 1)]));
    let now = RaftMessage::TimeoutNow { view: view(1) };
    one.receive(2, now.clone());
    assert_eq!(one.raft.status().view, view(1), "only the leader hands on");
    let effects = one.receive(1, now.clone());
    assert_eq!(one.raft.status().view, view(2));
    for (_, after, message) in sent(&effects) {
        assert_eq!(after, Some(one.disk.len() as u64));
        let wanted = RaftMessage::RequestVote { view: view(2), last: at(2, 1), pre: false, transfer: true };
        assert_eq!(message, wanted);
    }
    assert!(one.receive(1, now).is_empty(), "a repeated question is old");
}

//! Who votes for whom, and when.

use super::one::{
    One, append, ask_pre_vote, ask_vote, at, entry, matched, pre_vote, sent, sent_to, start_of, view, vote,
};
use super::world::replica;
use crate::raft::message::RaftMessage;
use crate::{Effect, Input, Order};

fn granted(message: &RaftMessage) -> bool {
    match message {
        RaftMessage::RequestVoteReply { granted, .. } => *granted,
        other => panic!("no vote: {other:?}"),
    }
}

/// Asking for pre-votes changes no view and writes nothing; the view changes when a quorum would vote.
#[test]
fn a_pre_vote_changes_no_view() {
    let mut one = One::new(3);
    let effects = one.expire();
    assert_eq!(one.raft.status().view, view(0));
    assert!(one.disk.is_empty());
    assert_eq!(sent(&effects).len(), 2);
    one.receive(1, pre_vote(0, false));
    assert_eq!(one.raft.status().view, view(0));
    one.receive(2, pre_vote(1, true));
    assert_eq!(one.raft.status().view, view(1));
}

/// The request for votes, and the candidate's own vote, wait for the candidate's disk.
#[test]
fn a_candidates_own_vote_waits_for_its_disk() {
    let mut one = One::new(3);
    one.expire();
    let effects = one.receive(1, pre_vote(1, true));
    assert!(sent(&effects).iter().all(|(_, after, _)| *after == Some(1)), "{effects:?}");
    assert!(matches!(effects.as_slice(), [.., Effect::Send { .. }]));
    one.receive(1, vote(1, true));
    assert!(!one.raft.standing().leading, "one vote of three is durable");
    one.sync();
    assert!(one.raft.standing().leading);
}

/// A vote is written down before it leaves, and nobody else gets it in that view.
#[test]
fn a_vote_is_durable_before_it_leaves() {
    let mut one = One::new(3);
    let (after, reply) = sent_to(&one.receive(1, ask_vote(1, at(0, 0))), 1);
    assert_eq!((after, granted(&reply)), (Some(1), true));
    assert!(!granted(&sent_to(&one.receive(2, ask_vote(1, at(0, 0))), 2).1), "the view's vote is given");
    let (after, reply) = sent_to(&one.receive(1, ask_vote(1, at(0, 0))), 1);
    assert_eq!((after, granted(&reply)), (Some(1), true), "a repeated question gets the same answer");
    assert_eq!(one.disk.len(), 1);
}

/// A candidate whose log lacks something gets no vote; its view counts all the same.
#[test]
fn a_shorter_log_gets_no_vote() {
    let mut one = One::new(3);
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1), entry(1, 1)]));
    one.wait(1000);
    assert!(!granted(&sent_to(&one.receive(2, ask_pre_vote(2, at(1, 1))), 2).1));
    assert!(!granted(&sent_to(&one.receive(2, ask_vote(2, at(1, 1))), 2).1));
    assert_eq!(one.raft.status().view, view(2));
    assert!(granted(&sent_to(&one.receive(2, ask_vote(3, at(2, 1))), 2).1));
}

/// Who heard of a live leader votes for nobody and stays in its view, until the leader falls silent, asks for the change
/// itself, or its connection closes.
#[test]
fn a_live_leader_keeps_its_voters() {
    let mut one = One::new(3);
    let hello = || append(1, at(0, 0), 0, vec![start_of(1)]);
    one.receive(1, hello());
    one.wait(299);
    assert!(!granted(&sent_to(&one.receive(2, ask_pre_vote(2, at(1, 1))), 2).1));
    assert!(!granted(&sent_to(&one.receive(2, ask_vote(2, at(1, 1))), 2).1));
    assert_eq!(one.raft.status().view, view(1));
    one.wait(1);
    assert!(granted(&sent_to(&one.receive(2, ask_pre_vote(2, at(1, 1))), 2).1), "silent for election_min");

    one.receive(1, hello());
    assert!(!granted(&sent_to(&one.receive(2, ask_pre_vote(2, at(1, 1))), 2).1));
    one.step(Input::Disconnected(replica(2)));
    assert!(
        !granted(&sent_to(&one.receive(2, ask_pre_vote(2, at(1, 1))), 2).1),
        "not the leader's connection"
    );
    one.step(Input::Disconnected(replica(1)));
    assert!(granted(&sent_to(&one.receive(2, ask_pre_vote(2, at(1, 1))), 2).1));

    one.receive(1, hello());
    let handed = RaftMessage::RequestVote { view: view(2), last: at(1, 1), pre: false, transfer: true };
    assert!(granted(&sent_to(&one.receive(2, handed), 2).1));
    assert_eq!(one.raft.status().view, view(2));
}

/// A closed connection to the leader starts an election within the hint's delay.
#[test]
fn a_closed_connection_speeds_up_the_election() {
    let mut one = One::new(3);
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1)]));
    one.step(Input::Disconnected(replica(1)));
    let due = one.raft.deadline().expect("an election");
    assert!(due.since(one.now).millis() < 20);
    let effects = one.expire();
    assert_eq!(sent(&effects).len(), 2, "pre-votes are asked for");
    assert!(effects.contains(&Effect::LeaderChanged { view: view(1), leader: None, planned: false }));
    // The leader lives: everything is as before.
    let effects = one.receive(1, append(1, at(1, 1), 0, vec![]));
    assert!(effects.contains(&Effect::LeaderChanged {
        view: view(1),
        leader: Some(replica(1)),
        planned: false
    }));
}

/// A leader that hears no quorum for the longest time-out steps down, in the same view.
#[test]
fn a_leader_without_a_quorum_steps_down() {
    let mut one = One::new(3);
    one.elect();
    one.sync();
    for _ in 0..20 {
        one.expire();
        one.receive(2, matched(1, 1));
    }
    assert!(one.raft.standing().leading, "one follower and itself are a quorum");
    let silent_from = one.now;
    while one.raft.standing().leading {
        one.expire();
    }
    let silent = one.now.since(silent_from).millis();
    assert!((600..=650).contains(&silent), "stepped down after {silent} ms");
    assert_eq!(one.raft.status().view, view(1));
    assert_eq!(one.raft.status().leader, None);
}

/// Time-outs of a candidate that finds no quorum grow, and a new connection makes it try soon.
#[test]
fn candidates_back_off_until_somebody_appears() {
    let mut one = One::new(3);
    let mut longest = 0;
    for _ in 0..40 {
        let before = one.now;
        one.expire();
        longest = longest.max(one.now.since(before).millis());
    }
    assert!(longest > 600 && longest < 1800, "{longest}");
    one.step(Input::Connected(replica(1)));
    assert!(one.raft.deadline().expect("an election").since(one.now).millis() <= 600);
}

/// A candidate that can not win any more follows again, without waiting.
#[test]
fn refusals_end_a_candidacy() {
    let mut one = One::new(3);
    one.expire();
    one.receive(1, pre_vote(1, true));
    one.receive(1, vote(1, false));
    one.receive(2, vote(1, false));
    one.sync();
    one.receive(1, vote(1, true));
    assert!(!one.raft.standing().leading, "the candidacy was over");
}

/// Two leaders in one view can not be: the second is evidence, and is not followed.
#[test]
fn a_second_leader_in_a_view_is_rejected() {
    let mut one = One::new(3);
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1)]));
    let effects = one.receive(2, append(1, at(1, 1), 0, vec![entry(1, 1)]));
    assert!(
        matches!(effects.as_slice(), [Effect::Rejected { from, .. }] if *from == replica(2)),
        "{effects:?}"
    );
    assert_eq!(one.raft.status().leader, Some(replica(1)));
}

//! Leases: from when on, for how long, and what a promise forbids. Time-outs: 300 to 600 ms, heartbeats every 50.

use super::one::{
    One, append, ask_pre_vote, ask_vote, at, matched, matched_in, pre_vote, sent, sent_to, start_of, view,
};
use super::world::replica;
use crate::raft::RaftConfig;
use crate::raft::message::RaftMessage;
use crate::{Effect, Input, Order};
use quorate_types::{MembershipId, ReplicaId};
use quorate_wire::{Member, Membership, Memberships};
use std::sync::Arc;

/// Clocks differ by up to 10 %: a lease lasts 270 ms.
fn leased(config: RaftConfig) -> RaftConfig {
    RaftConfig { lease_drift_percent: Some(10), ..config }
}

/// A leader of so many that decided its first record and heard of a quorum; it was elected `age` ms ago.
fn leader(members: usize, age: u64) -> One {
    let mut one = One::with(members, leased);
    one.elect();
    one.wait(age);
    one.sync();
    for from in 1..=members / 2 {
        one.receive(from, matched(1, 1));
    }
    one
}

fn confirms(one: &mut One, read: u64) -> bool {
    let effects = one.step(Input::Read(read));
    effects.iter().any(|effect| matches!(effect, Effect::ReadConfirmed { read: id, .. } if *id == read))
}

/// The round that the next heartbeat carries.
fn heartbeat(one: &mut One) -> u64 {
    let before = one.now;
    loop {
        let round = round_of(&one.expire());
        // Before it comes what tells the followers of a commit.
        if one.now.since(before).millis() >= 40 {
            return round;
        }
    }
}

/// The round that the messages among effects carry; 0 without any.
fn round_of(effects: &[Effect]) -> u64 {
    let rounds = sent(effects).into_iter().filter_map(|(_, _, message)| match message {
        RaftMessage::AppendEntries { round, .. } => Some(round),
        _ => None,
    });
    rounds.max().unwrap_or(0)
}

/// Without the option every read takes a round, and heartbeats are no rounds.
#[test]
fn leases_are_off_by_default() {
    let mut one = One::new(3);
    one.elect();
    one.sync();
    one.receive(1, matched(1, 1));
    assert!(!confirms(&mut one, 1));
    let mut other = One::new(3);
    other.elect();
    assert_eq!((heartbeat(&mut other), heartbeat(&mut other)), (0, 0));
}

/// The lease begins when what a quorum answered was sent, not when the answer came.
#[test]
fn a_lease_counts_from_the_sending() {
    let mut one = leader(3, 40);
    assert!(confirms(&mut one, 1), "elected 40 ms ago");
    one.wait(229);
    assert!(confirms(&mut one, 2), "269 ms ago");
    one.wait(1);
    assert!(!confirms(&mut one, 3), "270 ms ago");
}

/// Answers to heartbeats extend it; a late answer to an old one does not.
#[test]
fn heartbeats_extend_a_lease() {
    let mut one = leader(3, 0);
    let (first, began) = (heartbeat(&mut one), one.now);
    let second = heartbeat(&mut one);
    assert!(first > 0 && second > first, "each is a round of its own");
    one.receive(2, matched_in(1, 1, first));
    while one.now.since(began).millis() < 269 {
        one.wait(1);
    }
    assert!(confirms(&mut one, 1));
    one.wait(1);
    assert!(!confirms(&mut one, 2));
}

/// It takes a quorum: two of the four others.
#[test]
fn one_promise_of_five_is_no_lease() {
    let mut one = One::with(5, leased);
    one.elect();
    one.sync();
    one.receive(1, matched(1, 1));
    one.receive(2, matched(1, 1));
    for _ in 0..6 {
        let round = heartbeat(&mut one);
        one.receive(1, matched_in(1, 1, round));
    }
    assert!(!confirms(&mut one, 1), "only one of them promised lately");
    let round = heartbeat(&mut one);
    one.receive(3, matched_in(1, 1, round));
    assert!(confirms(&mut one, 2));
}

/// A leader that has committed nothing in its view does not know what is decided; then its reads go at once.
#[test]
fn a_new_leader_has_no_lease_before_it_commits() {
    let mut one = One::with(3, leased);
    one.elect();
    one.receive(1, matched(1, 1));
    assert!(!confirms(&mut one, 1), "its own disk is not done");
    let effects = one.sync();
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::ReadConfirmed { read: 1, .. })),
        "{effects:?}"
    );
}

/// A follower's question is answered by the lease, too.
#[test]
fn a_follower_is_answered_at_once() {
    let mut one = leader(3, 0);
    let effects = one.receive(2, RaftMessage::ReadIndex { view: view(1), read: 5 });
    let (_, reply) = sent_to(&effects, 2);
    assert!(matches!(reply, RaftMessage::ReadIndexReply { read: 5, slot: Some(0), .. }), "{reply:?}");
}

/// A transfer ends the lease. Once the target was asked there is none in this view any more: the question may arrive late.
#[test]
fn a_transfer_ends_the_lease() {
    let mut one = leader(3, 0);
    one.step(Input::Transfer(Some(replica(1))));
    assert!(!confirms(&mut one, 1));
    while !one.raft.standing().leading {
        let round = round_of(&one.expire());
        one.receive(2, matched_in(1, 1, round));
    }
    assert!(!confirms(&mut one, 2), "the transfer was given up, and TimeoutNow may still be under way");
}

/// A target that never had everything was never asked: the lease goes on.
#[test]
fn a_transfer_that_asked_nobody_costs_no_lease() {
    let mut one = leader(3, 0);
    one.step(Input::Transfer(Some(replica(2))));
    while !one.raft.standing().leading {
        let round = round_of(&one.expire());
        one.receive(1, matched_in(1, 1, round));
    }
    assert!(confirms(&mut one, 1));
}

/// Both quorums of a joint membership have to promise; who does not vote any more has no lease.
#[test]
fn a_joint_membership_needs_both_quorums() {
    let mut one = leader(3, 0);
    let members = |ids: &[usize]| ids.iter().map(|id| Member::voter(replica(*id))).collect();
    let before = one.raft.status().membership.now().clone();
    let now = Membership::new(MembershipId::new(2), members(&[0, 3, 4])).expect("a membership");
    let change = Memberships::change(before, now).expect("a change");
    one.step(Input::Membership(Arc::new(change)));
    assert!(!confirms(&mut one, 1), "none of the new voters promised anything");
    let round = heartbeat(&mut one);
    one.receive(3, matched_in(1, 0, round));
    assert!(confirms(&mut one, 2), "r1 of the old ones and r3 of the new ones");
}

#[test]
fn a_leader_that_leaves_has_no_lease() {
    let mut one = leader(3, 0);
    let members = |ids: &[usize]| ids.iter().map(|id| Member::voter(replica(*id))).collect();
    let before = one.raft.status().membership.now().clone();
    let now = Membership::new(MembershipId::new(2), members(&[1, 2])).expect("a membership");
    one.step(Input::Membership(Arc::new(Memberships::change(before, now).expect("a change"))));
    while one.raft.status().membership.before().is_none() {
        let round = round_of(&one.expire());
        one.receive(1, matched_in(1, 1, round));
        one.receive(2, matched_in(1, 1, round));
    }
    one.sync();
    one.receive(1, matched(1, 2));
    one.receive(2, matched(1, 2));
    assert!(one.raft.status().membership.before().is_none(), "its own end is appended");
    assert!(!confirms(&mut one, 1));
}

fn granted(effects: &[Effect], to: usize) -> bool {
    match sent_to(effects, to).1 {
        RaftMessage::RequestVoteReply { granted, .. } => granted,
        other => panic!("no vote: {other:?}"),
    }
}

fn transferred(in_view: u64) -> RaftMessage {
    RaftMessage::RequestVote { view: view(in_view), last: at(1, 1), pre: false, transfer: true }
}

/// A follower of replica 1 that heard of it just now.
fn follower() -> One {
    let mut one = One::with(3, leased);
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1)]));
    one.sync();
    one
}

/// A closed connection frees nobody from a promise: the leader may live, and have its lease.
#[test]
fn a_closed_connection_ends_no_promise() {
    let mut one = follower();
    one.step(Input::Disconnected(replica(1)));
    assert!(!granted(&one.receive(2, ask_pre_vote(2, at(1, 1))), 2));
    one.wait(299);
    assert!(!granted(&one.receive(2, ask_vote(2, at(1, 1))), 2));
    assert_eq!(one.raft.status().view, view(1));
    one.wait(1);
    assert!(granted(&one.receive(2, ask_pre_vote(2, at(1, 1))), 2));
    assert!(granted(&one.receive(2, ask_vote(2, at(1, 1))), 2));
}

/// It does not stand itself before either, and not long after.
#[test]
fn who_promised_does_not_stand() {
    let mut one = follower();
    one.step(Input::Disconnected(replica(1)));
    let due = one.raft.deadline().expect("a deadline").since(one.now).millis();
    assert!((300..350).contains(&due), "{due}");
    let effects = one.expire();
    assert!(matches!(sent_to(&effects, 2).1, RaftMessage::RequestVote { pre: true, .. }));
}

/// Not in a view either that it entered without a vote.
#[test]
fn a_higher_view_ends_no_promise() {
    let mut one = follower();
    one.receive(2, pre_vote(3, false));
    one.sync();
    assert_eq!(one.raft.status().view, view(3));
    assert!(!granted(&one.receive(2, ask_vote(3, at(1, 1))), 2), "the same view");
    assert!(!granted(&one.receive(2, ask_vote(4, at(1, 1))), 2));
    one.wait(300);
    assert!(granted(&one.receive(2, ask_vote(4, at(1, 1))), 2));
}

/// Whom the leader wants gets the vote: there is no lease any more.
#[test]
fn a_transfer_frees_from_the_promise() {
    let mut one = follower();
    assert!(granted(&one.receive(2, transferred(2)), 2));
    let mut other = follower();
    other.receive(1, RaftMessage::TimeoutNow { view: view(1) });
    assert_eq!(other.raft.status().view, view(2), "it stands at once");
}

/// A restarted replica keeps the promise that it may have given; one that never was there gave none.
#[test]
fn a_restarted_replica_holds_still() {
    let disk = follower().disk;
    let mut one = One::restored(3, disk, leased);
    assert!(!granted(&one.receive(2, ask_pre_vote(2, at(1, 1))), 2));
    assert!(!granted(&one.receive(2, ask_vote(2, at(1, 1))), 2));
    one.step(Input::Connected(ReplicaId::new(2)));
    assert!(one.raft.deadline().expect("a deadline").since(one.now).millis() >= 300, "nor does it stand");
    one.wait(300);
    assert!(granted(&one.receive(2, ask_vote(2, at(1, 1))), 2));
    let mut fresh = One::with(3, leased);
    assert!(granted(&fresh.receive(2, ask_vote(1, at(0, 0))), 2));
}

/// Who is alone asks nobody and waits for nobody.
#[test]
fn a_replica_alone_starts_at_once() {
    let mut one = One::with(1, leased);
    one.sync();
    one.sync();
    let disk = one.disk.clone();
    let mut again = One::restored(1, disk, leased);
    again.sync();
    again.sync();
    assert!(again.raft.standing().leading);
    assert!(confirms(&mut again, 1));
}

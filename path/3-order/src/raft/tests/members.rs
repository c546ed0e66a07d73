//! Changes of membership, each delicate point by itself. Replica 0 is the one under test.

use super::one::{
    One, append, ask_pre_vote, ask_vote, at, entry, index, matched, matched_in, pre_vote, sent, sent_to,
    start_of, view, vote,
};
use super::world::replica;
use crate::raft::message::{Entry, EntryBody, RaftMessage};
use crate::raft::{Raft, RaftConfig};
use crate::{Anchor, Effect, Effects, Input, Order};
use quorate_types::{MembershipId, RecordId, ReplicaId, Slot, Time};
use quorate_wire::{Member, Membership, Memberships};
use std::sync::Arc;

fn ids(numbers: &[usize]) -> Vec<ReplicaId> {
    numbers.iter().copied().map(replica).collect()
}

pub(super) fn membership(number: u64, voters: &[usize], learners: &[usize]) -> Membership {
    let voters = ids(voters).into_iter().map(Member::voter);
    let learners = ids(learners).into_iter().map(Member::learner);
    Membership::new(MembershipId::new(number), voters.chain(learners).collect()).expect("a membership")
}

pub(super) fn change(before: &Membership, now: &Membership) -> Arc<Memberships> {
    Arc::new(Memberships::change(before.clone(), now.clone()).expect("the next one"))
}

fn members_entry(in_view: u64, memberships: &Arc<Memberships>) -> Entry {
    Entry { view: view(in_view), body: EntryBody::Members(memberships.clone()) }
}

fn wants(one: &mut One, change: &Arc<Memberships>) -> Vec<Effect> {
    one.step(Input::Membership(change.clone()))
}

/// A leader of three whose view's first entry is committed.
fn settled(members: usize) -> One {
    let mut one = One::new(members);
    one.elect();
    one.sync();
    (1..members).for_each(|from| drop(one.receive(from, matched(1, 1))));
    assert!(one.raft.standing().settled);
    one
}

fn told(effects: &[Effect]) -> Vec<(u64, bool, bool)> {
    let of = |effect: &Effect| match effect {
        Effect::Members { memberships, committed } => {
            Some((memberships.now().number().number(), memberships.before().is_some(), *committed))
        }
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

fn commit(one: &One) -> u64 {
    one.raft.store.commit().number()
}

#[test]
fn both_majorities_commit_the_first_entry_and_the_new_one_the_second() {
    let mut one = settled(3);
    let (old, new) = (membership(1, &[0, 1, 2], &[]), membership(2, &[0, 3, 4], &[]));
    let effects = wants(&mut one, &change(&old, &new));
    assert_eq!(told(&effects), [(2, true, false)], "it holds from the moment at which it is appended");
    let to: Vec<_> = sent(&effects).iter().map(|(to, ..)| to.number()).collect();
    assert_eq!(to, [1, 2, 3, 4], "the new ones are sent the log at once");
    one.sync();
    one.receive(1, matched(1, 2));
    assert_eq!(commit(&one), 1, "a majority of the old ones is not enough");
    one.receive(3, matched(1, 1));
    assert_eq!(commit(&one), 1);
    let effects = one.receive(3, matched(1, 2));
    assert_eq!(commit(&one), 2, "with a majority of the new ones it is");
    assert_eq!(told(&effects), [(2, false, false)], "so the second entry follows");
    one.sync();
    one.receive(1, matched(1, 3));
    one.receive(2, matched(1, 3));
    assert_eq!(commit(&one), 2, "the old ones count no more");
    let effects = one.receive(4, matched(1, 3));
    assert_eq!((commit(&one), told(&effects)), (3, vec![(2, false, true)]));
    let informed: Vec<_> = sent(&effects).iter().map(|(to, ..)| to.number()).collect();
    assert!(informed.contains(&1) && informed.contains(&2), "who leaves hears that it is over: {effects:?}");
    let effects = one.propose(1);
    let to: Vec<_> = sent(&effects).iter().map(|(to, ..)| to.number()).collect();
    assert!(!to.contains(&1) && !to.contains(&2), "and nothing after that");
}

/// Whoever leaves this instance may lead another one.
#[test]
fn listeners_are_sent_the_log_until_the_host_names_others() {
    let mut one = settled(3);
    let (old, new) = (membership(1, &[0, 1, 2], &[]), membership(2, &[0, 1], &[]));
    one.step(Input::Listeners(ids(&[0, 1, 2]).into()));
    wants(&mut one, &change(&old, &new));
    one.sync();
    one.receive(1, matched(1, 2));
    one.sync();
    let effects = one.receive(1, matched(1, 3));
    assert_eq!((commit(&one), told(&effects)), (3, vec![(2, false, true)]), "the change is over");
    let to = |effects: &[Effect]| sent(effects).iter().map(|(to, ..)| to.number()).collect::<Vec<_>>();
    one.receive(2, matched(1, 3));
    assert_eq!(to(&one.propose(1)), [1, 2], "and still it is sent what comes");
    one.sync();
    one.receive(2, matched(1, 4));
    assert_eq!(commit(&one), 3, "which counts for nothing");
    let effects = one.step(Input::Listeners(Arc::from([])));
    assert!(to(&effects).iter().all(|to| *to == 2), "at last it hears of the commit: {effects:?}");
    assert_eq!(to(&one.propose(2)), [1]);
}

#[test]
fn learners_join_at_once_and_count_for_nothing() {
    let mut one = settled(3);
    let (old, new) = (membership(1, &[0, 1, 2], &[]), membership(2, &[0, 1, 2], &[3, 4]));
    let effects = wants(&mut one, &change(&old, &new));
    assert_eq!(told(&effects), [(2, false, false)], "one entry is enough where the voters stay");
    one.sync();
    (3..=4).for_each(|from| drop(one.receive(from, matched(1, 2))));
    assert_eq!(commit(&one), 1);
    one.receive(1, matched(1, 2));
    assert_eq!(commit(&one), 2);
    // Neither for reads,
    let effects = one.step(Input::Read(7));
    assert!(matches!(sent(&effects)[0].2, RaftMessage::AppendEntries { round: 1, .. }));
    (3..=4).for_each(|from| assert_eq!(sent(&one.receive(from, matched_in(1, 2, 1))), []));
    let effects = one.receive(2, matched_in(1, 2, 1));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::ReadConfirmed { read: 7, .. })));
    // nor for the office.
    for _ in 0..30 {
        one.expire();
        (3..=4).for_each(|from| drop(one.receive(from, matched(1, 2))));
    }
    assert!(!one.raft.standing().leading);
}

/// Nobody is left who could answer a round that went out before a change: the change itself makes it a quorum.
#[test]
fn a_round_of_reads_ends_when_a_change_makes_its_answers_enough() {
    let mut one = settled(2);
    let confirmed = |effects: &[Effect]| -> Vec<u64> {
        let of = |effect: &Effect| match effect {
            Effect::ReadConfirmed { read, .. } => Some(*read),
            _ => None,
        };
        effects.iter().filter_map(of).collect()
    };
    let (old, new) = (membership(1, &[0, 1], &[]), membership(2, &[0], &[]));
    wants(&mut one, &change(&old, &new));
    assert_eq!(confirmed(&one.step(Input::Read(7))), [0; 0]);
    one.receive(1, matched(1, 2));
    // The last that the change waits for is this replica's own disk.
    let effects = one.sync();
    assert_eq!(told(&effects), [(2, false, false)], "r0 alone counts from here on");
    assert_eq!(confirmed(&effects), [7]);
    assert_eq!(confirmed(&one.step(Input::Read(8))), [8]);
}

#[test]
fn the_leader_knows_who_has_caught_up() {
    let mut one = settled(3);
    (1..=3).for_each(|seed| drop(one.propose(seed)));
    let (old, new) = (membership(1, &[0, 1, 2], &[]), membership(2, &[0, 1, 2], &[3]));
    wants(&mut one, &change(&old, &new));
    one.sync();
    (1..=2).for_each(|from| drop(one.receive(from, matched(1, 5))));
    assert_eq!(one.raft.status().caught_up, ids(&[1, 2]));
    one.wait(400);
    one.receive(3, matched(1, 4));
    let caught_up = one.raft.status().caught_up;
    assert!(!caught_up.contains(&replica(3)), "that took long, and not all is there");
    one.receive(3, matched(1, 5));
    assert!(one.raft.status().caught_up.contains(&replica(3)));
}

#[test]
fn a_membership_that_is_replaced_holds_no_more() {
    let mut one = One::new(3);
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1)]));
    let (old, new) = (membership(1, &[0, 1, 2], &[]), membership(2, &[1, 3, 4], &[]));
    let joint = change(&old, &new);
    let effects = one.receive(1, append(1, at(1, 1), 1, vec![members_entry(1, &joint)]));
    assert_eq!(told(&effects), [(2, true, false)]);
    assert!(one.raft.status().membership.is_voter(replica(4)));
    let effects = one.receive(2, append(2, at(1, 1), 1, vec![start_of(2)]));
    assert_eq!(told(&effects), [(1, false, true)]);
    assert!(!one.raft.status().membership.is_voter(replica(4)));
}

#[test]
fn a_new_leader_ends_what_its_predecessor_began() {
    let mut one = One::new(3);
    let (old, new) = (membership(1, &[0, 1, 2], &[]), membership(2, &[0, 1, 3], &[]));
    let joint = change(&old, &new);
    let entries = vec![start_of(1), members_entry(1, &joint)];
    one.receive(1, append(1, at(0, 0), 1, entries));
    one.sync();
    one.step(Input::Disconnected(replica(1)));
    let effects = one.expire();
    assert_eq!(sent(&effects).len(), 3, "all voters of both are asked");
    one.receive(2, pre_vote(2, true));
    assert_eq!(one.raft.status().view, view(1), "the old ones alone do not elect");
    one.receive(3, pre_vote(2, true));
    one.sync();
    one.receive(2, vote(2, true));
    assert!(!one.raft.standing().leading);
    one.receive(3, vote(2, true));
    assert!(one.raft.standing().leading);
    one.sync();
    one.receive(2, matched(2, 3));
    assert_eq!(commit(&one), 1, "its first entry needs both, too");
    let effects = one.receive(3, matched(2, 3));
    assert_eq!((commit(&one), told(&effects)), (3, vec![(2, false, false)]), "then the change ends");
}

#[test]
fn one_change_after_the_other_and_none_before_a_commit_of_this_view() {
    let mut one = One::new(3);
    one.elect();
    let first = membership(1, &[0, 1, 2], &[]);
    let (second, third) = (membership(2, &[0, 1, 2], &[3]), membership(3, &[0, 1, 2, 3], &[]));
    assert_eq!(told(&wants(&mut one, &change(&first, &second))), [], "nothing of this view is committed");
    one.sync();
    let effects = one.receive(1, matched(1, 1));
    assert_eq!(told(&effects), [(2, false, false)], "now it begins by itself");
    assert_eq!(told(&wants(&mut one, &change(&second, &third))), [], "one is under way");
    one.sync();
    let effects = one.receive(1, matched(1, 2));
    assert_eq!(told(&effects), [(3, true, false)], "the next follows");
    one.sync();
    one.receive(1, matched(1, 3));
    let effects = one.receive(2, matched(1, 3));
    assert_eq!(told(&effects), [(3, false, false)]);
    assert_eq!(told(&wants(&mut one, &change(&second, &third))), [], "what is done is not done again");
}

#[test]
fn a_leader_that_leaves_hands_over_first() {
    let mut one = settled(3);
    one.receive(2, matched(1, 1));
    let (old, new) = (membership(1, &[0, 1, 2], &[]), membership(2, &[1, 2], &[]));
    let effects = wants(&mut one, &change(&old, &new));
    assert_eq!(told(&effects), []);
    assert!(sent(&effects).iter().any(|(.., message)| *message == RaftMessage::TimeoutNow { view: view(1) }));
    // Nobody takes it.
    let mut last = Vec::new();
    for _ in 0..40 {
        last = one.expire();
        (1..3).for_each(|from| drop(one.receive(from, matched(1, 1))));
        if !told(&last).is_empty() {
            break;
        }
    }
    assert_eq!(told(&last), [(2, true, false)], "so it begins by itself");
    one.sync();
    one.receive(1, matched(1, 2));
    one.receive(2, matched(1, 2));
    one.sync();
    one.receive(1, matched(1, 3));
    assert!(one.raft.standing().leading && commit(&one) == 2, "it leads on, and does not count itself");
    let effects = one.receive(2, matched(1, 3));
    assert_eq!(told(&effects), [(2, false, true)]);
    assert!(!one.raft.standing().leading, "with the commit its office ends");
    assert!(sent(&effects).iter().any(|(.., message)| *message == RaftMessage::TimeoutNow { view: view(1) }));
    for _ in 0..5 {
        assert_eq!(sent(&one.expire()), [], "and it stands for no election");
    }
}

#[test]
fn who_is_no_voter_votes_and_hears_but_never_stands() {
    let config = RaftConfig::new(replica(9), ids(&[0, 1, 2]), 3);
    let mut raft = Raft::new(config);
    let mut out = Effects::new();
    raft.start(Time::ZERO, &mut out);
    assert!(out.is_empty());
    for _ in 0..5 {
        let due = raft.deadline().expect("a deadline");
        raft.step(due, Input::Deadline, &mut out);
        assert!(out.is_empty(), "nobody is asked for anything");
    }
    let mut one = One::with(3, |config| RaftConfig { me: replica(0), members: ids(&[1, 2, 3]), ..config });
    assert_eq!(sent(&one.expire()), []);
    // A candidate may count on its vote: it was promoted, and has not heard of that.
    let effects = one.receive(7, ask_vote(1, at(0, 0)));
    assert!(matches!(sent_to(&effects, 7), (Some(_), RaftMessage::RequestVoteReply { granted: true, .. })));
    let effects = one.receive(8, append(2, at(0, 0), 0, vec![start_of(2)]));
    assert_eq!(sent_to(&effects, 8).1, matched(2, 1));
    assert_eq!(one.raft.status().leader, Some(replica(8)));
    let effects = one.receive(8, RaftMessage::TimeoutNow { view: view(2) });
    assert_eq!(sent(&effects), [], "not even when it is asked to");
}

#[test]
fn who_was_removed_does_not_disturb() {
    let mut one = settled(3);
    let effects = one.receive(9, ask_pre_vote(7, at(9, 6)));
    assert_eq!(sent_to(&effects, 9).1, pre_vote(1, false));
    let effects = one.receive(9, ask_vote(7, at(9, 6)));
    assert_eq!(sent_to(&effects, 9).1, vote(1, false));
    assert!(one.raft.standing().leading);
}

#[test]
fn a_restart_in_the_middle_knows_both() {
    let mut one = One::new(3);
    let (old, new) = (membership(1, &[0, 1, 2], &[]), membership(2, &[3, 4, 5], &[]));
    let joint = change(&old, &new);
    let entries = vec![start_of(1), entry(1, 1), members_entry(1, &joint), entry(1, 2)];
    one.receive(1, append(1, at(0, 0), 2, entries));
    let again = One::restored(3, one.disk.clone(), |config| config);
    assert_eq!(again.raft.status().membership, joint);
    let created = Arc::new(Memberships::created(&ids(&[0, 1, 2])));
    assert_eq!(
        again.raft.status().memberships,
        [created, joint],
        "whoever had a part since the log's beginning"
    );
    let cut: Vec<_> = one.disk[..3].to_vec();
    let before = One::restored(3, cut, |config| config);
    assert_eq!(before.raft.status().membership.now().number(), MembershipId::FIRST);
}

#[test]
fn a_checkpoint_says_who_is_a_member_there() {
    let mut one = One::new(3);
    let (old, new) = (membership(1, &[0, 1, 2], &[]), membership(2, &[0, 3, 4], &[]));
    let joint = change(&old, &new);
    let done = Arc::new(joint.ended());
    let entries = vec![
        start_of(1),
        entry(1, 1),
        members_entry(1, &joint),
        entry(1, 2),
        members_entry(1, &done),
        entry(1, 3),
    ];
    one.receive(1, append(1, at(0, 0), 6, entries.clone()));
    one.sync();
    let anchors: Vec<Anchor> =
        (1..=3).map(|slot| one.raft.anchor(Slot::new(slot)).expect("decided")).collect();
    assert_eq!(anchors[0].encode().len(), 16, "as long as nothing changed there is nothing to say");
    for (slot, who, position) in [(2, &joint, at(4, 1)), (3, &done, at(6, 1))] {
        // A replica that has nothing else, not even the right list of members.
        let config = RaftConfig::new(replica(0), ids(&[7, 8]), 1);
        let mut raft = Raft::new(config);
        raft.restore_anchor(Slot::new(slot), &anchors[slot as usize - 1]).expect("an anchor");
        let mut out = Effects::new();
        raft.start(Time::ZERO, &mut out);
        assert_eq!((&raft.status().membership, raft.store.log().floor()), (who, position));
        assert_eq!(raft.status().memberships, std::slice::from_ref(who), "nothing is known of before");
        // The same for one that jumps.
        let mut other = One::new(3);
        other.step(Input::Installed { slot: Slot::new(slot), anchor: anchors[slot as usize - 1].clone() });
        assert_eq!(other.raft.status().membership, *who);
        assert_eq!(other.raft.anchor(Slot::new(slot)).expect("its own"), anchors[slot as usize - 1]);
    }
    // What is forgotten takes nothing with it.
    one.trim(2);
    assert_eq!(one.raft.anchor(Slot::new(2)), Some(anchors[1].clone()));
    assert_eq!(one.raft.status().membership, done);
    let again = One::anchored(3, Some((2, anchors[1].clone())), one.disk.clone(), |config| config);
    assert_eq!(again.raft.status().membership, done);
    assert_eq!(one.raft.store.log().record_at(index(5)), RecordId::new(6));
}

/// The leader that leaves is the only one that has the second entry, and stops: nobody else can be elected without its vote, which
/// goes to nobody with a shorter log.
#[test]
fn who_left_stands_as_long_as_that_is_not_committed() {
    let mut one = One::new(3);
    let (old, new) = (membership(1, &[0, 1], &[]), membership(2, &[1], &[]));
    let joint = change(&old, &new);
    let done = Arc::new(joint.ended());
    let entries = vec![start_of(1), members_entry(1, &joint), members_entry(1, &done)];
    one.receive(1, append(1, at(0, 0), 1, entries));
    one.sync();
    one.step(Input::Disconnected(replica(1)));
    assert_eq!(sent(&one.expire()).len(), 1, "it asks who votes");
    one.receive(1, pre_vote(2, true));
    one.sync();
    assert!(!one.raft.standing().leading, "its own vote does not count");
    one.receive(1, vote(2, true));
    assert!(one.raft.standing().leading);
    one.sync();
    assert_eq!(commit(&one), 1);
    let effects = one.receive(1, matched(2, 4));
    assert_eq!(told(&effects), [(2, false, true)]);
    assert!(!one.raft.standing().leading);
    assert_eq!(sent(&one.expire()), [], "now it is over");
}

#[test]
fn a_new_leader_does_not_take_the_dead_for_alive() {
    let mut one = settled(3);
    one.receive(2, matched(1, 1));
    assert_eq!(one.raft.status().there, ids(&[1, 2]));
    let mut one = One::new(3);
    one.elect();
    assert_eq!(one.raft.status().there, [], "nobody accepted anything so far");
    one.receive(1, matched(1, 1));
    assert_eq!(one.raft.status().there, ids(&[1]));
    one.wait(700);
    assert_eq!(one.raft.status().there, ids(&[1]), "as of its last step");
    one.receive(2, matched(1, 1));
    assert_eq!(one.raft.status().there, ids(&[2]));
}

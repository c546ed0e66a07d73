//! Entries on their way: what a follower acknowledges, and what a leader sends.

use super::one::{
    One, append, at, decided, entries_to, entry, index, matched, matched_in, rejected, sent, sent_to,
    start_of, view, vote,
};
use super::world::replica;
use crate::raft::RaftConfig;
use crate::raft::message::{AppendOutcome, Position, RaftMessage};
use crate::{Effect, Input, Order};

fn outcome(message: &RaftMessage) -> AppendOutcome {
    match message {
        RaftMessage::AppendEntriesReply { outcome, .. } => *outcome,
        other => panic!("no answer: {other:?}"),
    }
}
fn ok(number: u64) -> AppendOutcome {
    AppendOutcome::Matched(index(number))
}

/// An acknowledgement waits for the last record that it covers, also when the entries came twice; a heartbeat's answer
/// waits for nothing and counts only what is durable.
#[test]
fn acknowledgements_wait_for_what_they_cover() {
    let mut one = One::new(3);
    let message = || append(1, at(0, 0), 0, vec![start_of(1), entry(1, 1)]);
    // Record 1 is the view, 2 and 3 are the entries.
    let (after, reply) = sent_to(&one.receive(1, message()), 1);
    assert_eq!((after, outcome(&reply)), (Some(3), ok(2)));
    let (after, reply) = sent_to(&one.receive(1, message()), 1);
    assert_eq!((after, outcome(&reply)), (Some(3), ok(2)));
    one.durable(2);
    let (after, reply) = sent_to(&one.receive(1, append(1, at(2, 1), 0, vec![])), 1);
    assert_eq!((after, outcome(&reply)), (None, ok(1)));
    one.durable(3);
    let (after, reply) = sent_to(&one.receive(1, message()), 1);
    assert_eq!((after, outcome(&reply)), (None, ok(2)));
}

/// An entry that was replaced before it was durable: the old record's sync says nothing about the replacement.
#[test]
fn a_replaced_entry_never_vouches_for_its_replacement() {
    let mut one = One::new(3);
    // Records: 1 view, 2..=4 the entries of view 1.
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1), entry(1, 1), entry(1, 2)]));
    // Records: 5 view, 6 and 7 replace indexes 2 and 3.
    let replaced = one.receive(2, append(2, at(1, 1), 0, vec![start_of(2), entry(2, 3)]));
    assert_eq!(sent_to(&replaced, 2).0, Some(7));
    one.durable(5);
    let (_, reply) = sent_to(&one.receive(2, append(2, at(3, 2), 0, vec![])), 2);
    assert_eq!(outcome(&reply), ok(1), "indexes 2 and 3 are on disk as what they were in view 1");
    one.durable(6);
    let (_, reply) = sent_to(&one.receive(2, append(2, at(3, 2), 0, vec![])), 2);
    assert_eq!(outcome(&reply), ok(2));
    one.durable(7);
    let (_, reply) = sent_to(&one.receive(2, append(2, at(3, 2), 0, vec![])), 2);
    assert_eq!(outcome(&reply), ok(3));
}

/// The same index again after a truncation, by the same leader's view: still the new record counts.
#[test]
fn an_entry_that_comes_back_is_written_again() {
    let mut one = One::new(3);
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1), entry(1, 1)]));
    one.sync();
    one.receive(2, append(2, at(1, 1), 0, vec![start_of(2)]));
    // View 3's leader still has the entry of view 1.
    let back = one.receive(1, append(3, at(1, 1), 0, vec![entry(1, 1)]));
    let written = back.iter().filter(|effect| matches!(effect, Effect::Persist { vital: false, .. })).count();
    assert_eq!(written, 1, "{back:?}");
    assert_eq!(sent_to(&back, 1).0, Some(one.disk.len() as u64));
}

/// A rejection names the last position that could match, so that the leader skips whole views.
#[test]
fn a_rejection_skips_views() {
    let mut one = One::new(3);
    let old = vec![start_of(1), start_of(3), entry(3, 1), entry(3, 2)];
    one.receive(1, append(3, at(0, 0), 0, old));
    // View 4's leader has entries of view 2 at the end.
    let (_, reply) = sent_to(&one.receive(2, append(4, at(3, 2), 0, vec![])), 2);
    assert_eq!(outcome(&reply), AppendOutcome::Rejected { asked: index(3), hint: at(1, 1) });
    let (_, reply) = sent_to(&one.receive(2, append(4, at(9, 4), 0, vec![])), 2);
    assert_eq!(outcome(&reply), AppendOutcome::Rejected { asked: index(9), hint: at(4, 3) });
}

/// The leader looks for its own last entry that is not above the hint's view.
#[test]
fn a_leader_goes_back_to_where_the_hint_leads() {
    let mut one = One::new(3);
    let old = vec![start_of(1), entry(1, 1), start_of(2), entry(2, 2), start_of(5)];
    one.receive(1, append(5, at(0, 0), 0, old));
    one.sync();
    one.elect();
    // It probed at index 5; the follower has views 1 and 4 only, up to index 9.
    let effects = one.receive(2, rejected(6, 5, at(5, 4)));
    let RaftMessage::AppendEntries { previous, .. } = sent_to(&effects, 2).1 else { panic!("{effects:?}") };
    assert_eq!(previous, at(4, 2), "entry 5 is of view 5, entry 4 of view 2");
    assert!(sent(&one.receive(2, rejected(6, 5, at(5, 4)))).is_empty(), "a late rejection is ignored");
}

/// Entries flow ahead of the acknowledgements, up to the window, in messages of bounded size.
#[test]
fn entries_flow_up_to_the_window() {
    let config = |config| RaftConfig { window_bytes: 500, message_bytes_max: 250, ..config };
    let mut one = One::with(3, config);
    one.elect();
    assert_eq!(entries_to(&one.propose(1), 1), 0, "probing: one message is out");
    let effects = one.receive(1, matched(1, 1));
    assert_eq!(entries_to(&effects, 1), 1);
    let mut flowing = 1;
    for seed in 2..20 {
        let effects = one.propose(seed);
        flowing += entries_to(&effects, 1);
        assert_eq!(entries_to(&effects, 2), 0, "the other one is still probed");
    }
    let size = one.raft.store.log().bytes() / 20;
    assert_eq!(flowing as u64, 500 / size + 1, "the window, and the entry that crosses it");
    let effects = one.receive(1, matched(1, 1 + flowing as u64));
    assert!(sent(&effects).len() > 1, "several messages");
    for (_, _, message) in sent(&effects) {
        let RaftMessage::AppendEntries { entries, .. } = message else { panic!("{message:?}") };
        assert!((1..=250 / size as usize).contains(&entries.len()));
    }
}

/// A lost message shows at the next heartbeat: the follower lacks what the heartbeat builds on.
#[test]
fn a_heartbeat_reveals_a_lost_message() {
    let mut one = One::new(3);
    one.elect();
    one.receive(1, matched(1, 1));
    one.propose(1);
    one.propose(2);
    let effects = one.expire();
    let RaftMessage::AppendEntries { previous, entries, .. } = sent_to(&effects, 1).1 else { panic!() };
    assert_eq!((previous, entries.len()), (at(3, 1), 0));
    let effects = one.receive(1, rejected(1, 3, at(1, 1)));
    assert_eq!(entries_to(&effects, 1), 2, "what was lost is sent again");
    assert!(sent(&one.receive(1, rejected(1, 2, at(1, 1)))).is_empty(), "further rejections are no news");
}

/// A new connection, or a closed one, leads back to probing behind what was acknowledged.
#[test]
fn a_new_connection_is_probed() {
    for up in [true, false] {
        let mut one = One::new(3);
        one.elect();
        one.receive(1, matched(1, 1));
        one.propose(1);
        one.propose(2);
        let input = if up { Input::Connected(replica(1)) } else { Input::Disconnected(replica(1)) };
        let RaftMessage::AppendEntries { previous, entries, .. } = sent_to(&one.step(input), 1).1 else {
            panic!()
        };
        assert_eq!((previous, entries.len()), (at(1, 1), 2));
        assert_eq!(entries_to(&one.propose(3), 1), 0, "one message, then it waits");
        assert_eq!(entries_to(&one.receive(1, matched(1, 3)), 1), 1);
    }
}

fn refused(asked: u64, hint: Position, round: u64) -> RaftMessage {
    let outcome = AppendOutcome::Rejected { asked: index(asked), hint };
    RaftMessage::AppendEntriesReply { view: view(1), round, outcome }
}

/// A disk lost the end of a follower's log, after the follower had acknowledged it. What the follower says then may be as old as its
/// log: so the leader asks once more, and sends what is missing when the answer is the same.
pub(super) fn a_lost_end_is_sent_again() {
    let mut one = One::new(3);
    one.elect();
    one.sync();
    one.receive(1, matched(1, 1));
    (1..=4).for_each(|seed| drop(one.propose(seed)));
    one.sync();
    one.receive(1, matched(1, 5));
    assert_eq!(one.raft.status().decided.number(), 4, "with this one and the leader it is decided");
    one.step(Input::Disconnected(replica(1)));
    one.step(Input::Connected(replica(1)));
    let asked = sent_to(&one.receive(1, refused(5, at(2, 1), 0)), 1).1;
    let RaftMessage::AppendEntries { previous, round, entries, .. } = asked else { panic!("{asked:?}") };
    assert_eq!((previous, round, entries.len()), (at(5, 1), 1, 0), "the same question, in a new round");
    assert!(one.raft.status().lost.is_empty());
    let effects = one.receive(1, refused(5, at(2, 1), round));
    let RaftMessage::AppendEntries { previous, entries, .. } = sent_to(&effects, 1).1 else { panic!() };
    assert_eq!((previous, entries.len()), (at(2, 1), 3), "what is missing");
    assert_eq!(one.raft.status().lost, vec![(replica(1), 3)]);
    one.receive(1, matched_in(1, 5, round));
    assert_eq!(entries_to(&one.propose(5), 1), 1, "entries flow again");
    one.sync();
    one.receive(1, matched_in(1, 6, round));
    assert_eq!(one.raft.status().decided.number(), 5, "and it counts again");
}

#[test]
fn a_lost_end_of_a_log_is_sent_again() {
    a_lost_end_is_sent_again();
}

/// The log does not reach back to what was lost: the follower is told to fetch a checkpoint.
#[test]
fn a_lost_end_before_the_floor_takes_a_checkpoint() {
    let mut one = One::new(3);
    one.elect();
    one.sync();
    one.receive(1, matched(1, 1));
    (1..=4).for_each(|seed| drop(one.propose(seed)));
    one.sync();
    one.receive(1, matched(1, 5));
    one.trim(3);
    one.step(Input::Connected(replica(1)));
    one.receive(1, refused(5, at(2, 1), 0));
    one.receive(1, refused(5, at(2, 1), 1));
    let needs = |(to, _, message): (_, _, RaftMessage)| {
        to == replica(1) && matches!(message, RaftMessage::NeedsCheckpoint { slot: 3, .. })
    };
    let told = (0..3).any(|_| sent(&one.expire()).into_iter().any(needs));
    assert!(told, "with a heartbeat");
    one.sync();
    one.receive(1, matched_in(1, 4, 1));
    assert_eq!(one.raft.status().lost.len(), 1);
}

/// A rejection that was under way while the follower acknowledged is late, however it arrives: nothing is lost.
#[test]
fn a_late_rejection_is_no_loss() {
    let mut one = One::new(3);
    one.elect();
    one.receive(1, matched(1, 1));
    (1..=2).for_each(|seed| drop(one.propose(seed)));
    one.receive(1, matched(1, 3));
    one.receive(1, refused(3, at(1, 1), 0));
    one.receive(1, matched_in(1, 3, 1));
    one.receive(1, refused(3, at(1, 1), 0));
    assert!(one.raft.status().lost.is_empty());
    assert_eq!(entries_to(&one.propose(3), 1), 1, "it is streamed to as before");
}

/// Followers learn of a commit from an empty message when no entry carries it.
#[test]
fn an_idle_leader_tells_of_a_commit() {
    let mut one = One::new(3);
    one.elect();
    one.sync();
    one.receive(1, matched(1, 1));
    one.receive(2, matched(1, 1));
    one.expire();
    one.propose(1);
    one.sync();
    one.receive(1, matched(1, 2));
    let due = one.raft.deadline().expect("a notice");
    assert_eq!(due.since(one.now).millis(), 5);
    let effects = one.expire();
    for peer in [1, 2] {
        let RaftMessage::AppendEntries { commit, entries, .. } = sent_to(&effects, peer).1 else { panic!() };
        assert_eq!((commit, entries.len()), (index(2), 0));
    }
    assert!(one.raft.deadline().expect("a heartbeat").since(one.now).millis() > 5, "told once");
}

/// A message of an older view is answered with the view and nothing else: its sender may lead the newer view by the time
/// the answer arrives, where a repeated round would confirm reads that nobody vouched for.
#[test]
fn an_older_view_is_told_the_newer_one_and_nothing_else() {
    let mut one = One::new(3);
    one.receive(1, append(2, at(0, 0), 0, vec![start_of(2)]));
    one.sync();
    let round = RaftMessage::AppendEntries {
        view: view(1),
        previous: at(7, 1),
        commit: index(7),
        round: 9,
        entries: vec![],
    };
    let (_, reply) = sent_to(&one.receive(2, round), 2);
    let RaftMessage::AppendEntriesReply { view: told, round, outcome } = reply else { panic!("{reply:?}") };
    assert_eq!((told, round), (view(2), 0));
    assert_eq!(outcome, AppendOutcome::Rejected { asked: index(0), hint: at(0, 0) });

    let mut one = One::new(3);
    one.elect();
    let none = RaftMessage::AppendEntriesReply { view: view(1), round: 0, outcome };
    assert!(one.receive(1, none).is_empty(), "such an answer from the own view means nothing");
}

/// A leader's acknowledgement of an older view counts for nothing, and one beyond its log is evidence.
#[test]
fn odd_acknowledgements_do_not_count() {
    let mut one = One::new(3);
    one.elect();
    one.sync();
    assert!(matches!(one.receive(1, matched(1, 2)).as_slice(), [Effect::Rejected { .. }]));
    one.receive(2, vote(4, false));
    one.elect();
    one.sync();
    assert_eq!(one.raft.status().view.number(), 5);
    one.propose(1);
    one.sync();
    assert_eq!(decided(&one.receive(1, matched(1, 1))), Vec::<u64>::new());
    assert_eq!(decided(&one.receive(1, matched(5, 3))), vec![1]);
}

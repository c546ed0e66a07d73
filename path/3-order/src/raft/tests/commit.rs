//! When an entry is committed.

use super::one::{One, append, at, decided, entry, matched, sent, start_of, vote};
use crate::raft::RaftConfig;
use crate::{Effect, Order, OrderConfig, protocols::Protocol};

/// The paper's figure 8: an entry of an older view lies on a majority, and still is not committed, until an entry of the
/// leader's own view is. Five members; replica 0 led view 1 and leads view 2 again.
#[test]
fn entries_of_older_views_are_not_committed_by_counting() {
    let mut one = One::new(5);
    one.elect();
    one.propose(11);
    one.sync();
    // Nobody else got index 2 in view 1. Replica 4 led view 2, which nobody else heard of; replica 0 leads view 3.
    one.receive(4, vote(2, false));
    one.elect();
    assert_eq!(one.raft.status().view.number(), 3);
    // Two others hold index 2, of view 1, durably: a majority with replica 0.
    one.receive(1, matched(3, 2));
    let effects = one.receive(2, matched(3, 2));
    assert_eq!(decided(&effects), Vec::<u64>::new(), "a majority holds it, but it is of an older view");
    // The first record of view 3 makes it to a majority, and everything before is committed with it.
    one.sync();
    one.receive(1, matched(3, 3));
    let effects = one.receive(2, matched(3, 3));
    assert_eq!(decided(&effects), vec![11]);
}

/// A leader's own copy counts when its disk says so, and not earlier.
#[test]
fn the_leaders_own_copy_counts_when_durable() {
    let mut one = One::new(3);
    one.elect();
    one.sync();
    one.receive(1, matched(1, 1));
    one.propose(5);
    let synced = one.sync();
    assert_eq!(decided(&synced), Vec::<u64>::new(), "one of three");
    assert_eq!(decided(&one.receive(1, matched(1, 2))), vec![5]);

    one.propose(6);
    assert_eq!(decided(&one.receive(1, matched(1, 3))), Vec::<u64>::new(), "its own copy is not durable");
    assert_eq!(decided(&one.sync()), vec![6]);
}

/// Where clients wait for what followers do, they hear of a commit in the same moment, and otherwise a little later. [raft L36]
#[test]
fn followers_hear_of_a_commit_at_once_if_that_is_wanted() {
    for at_once in [true, false] {
        let mut one = One::with(3, |config| {
            let new = OrderConfig::new(Protocol::RAFT, config.me, config.members.clone(), config.seed);
            let of = RaftConfig::of(&OrderConfig { tells_at_once: at_once, ..new });
            RaftConfig { commit_delay: of.commit_delay, ..config }
        });
        one.elect();
        one.sync();
        [1, 2].iter().for_each(|who| drop(one.receive(*who, matched(1, 1))));
        one.propose(5);
        one.sync();
        assert_eq!(decided(&one.receive(1, matched(1, 2))), vec![5]);
        let is_due = one.raft.deadline().is_some_and(|due| due <= one.now);
        assert_eq!(is_due, at_once);
        assert_eq!(is_due && sent(&one.expire()).len() == 2, at_once, "it is told both");
    }
}

/// Whoever wants it hears of each batch in the log, and of what takes its place, with the view of its leader.
#[test]
fn proposals_are_told_if_that_is_wanted() {
    let proposed = |effects: &[Effect]| -> Vec<(u64, u64)> {
        let told = effects.iter().filter_map(|effect| match effect {
            Effect::Proposed { slot, view, .. } => Some((slot.number(), view.number())),
            _ => None,
        });
        told.collect()
    };
    for wanted in [true, false] {
        let mut one = One::with(3, |config| {
            let new = OrderConfig::new(Protocol::RAFT, config.me, config.members.clone(), config.seed);
            let of = RaftConfig::of(&OrderConfig { tells_proposed: wanted, ..new });
            RaftConfig { tells_proposed: of.tells_proposed, ..config }
        });
        one.elect();
        let own = proposed(&one.propose(5));
        // It is not decided, and another leader has something else, and more.
        let entries = vec![start_of(2), entry(2, 6), entry(2, 7)];
        let others = proposed(&one.receive(1, append(2, at(1, 1), 0, entries.clone())));
        assert_eq!(
            (own, others),
            if wanted { (vec![(1, 1)], vec![(1, 2), (2, 2)]) } else { Default::default() }
        );
        assert_eq!(proposed(&one.receive(1, append(2, at(1, 1), 0, entries))), [], "they are there already");
    }
}

/// Two followers are a majority without the leader's disk.
#[test]
fn followers_commit_without_the_leaders_disk() {
    let mut one = One::new(3);
    one.elect();
    one.propose(5);
    one.receive(1, matched(1, 2));
    assert_eq!(decided(&one.receive(2, matched(1, 2))), vec![5]);
    one.propose(6);
    one.receive(1, matched(1, 3));
    assert_eq!(decided(&one.receive(1, matched(1, 3))), Vec::<u64>::new(), "the same follower counts once");
}

/// A member alone elects itself once its vote is durable, and decides once its entry is.
#[test]
fn a_single_member_waits_for_its_disk() {
    let mut one = One::new(1);
    assert!(!one.raft.standing().leading, "its vote is not durable");
    one.sync();
    assert!(one.raft.standing().leading);
    assert_eq!(decided(&one.propose(1)), Vec::<u64>::new());
    assert_eq!(decided(&one.sync()), vec![1]);
    assert_eq!(one.raft.standing().in_flight, 0);
}

/// A follower commits what its leader vouches for, not what merely lies at that index.
#[test]
fn a_follower_commits_only_what_the_message_reached() {
    let mut one = One::new(3);
    one.receive(1, append(1, at(0, 0), 0, vec![start_of(1), entry(1, 1), entry(1, 2)]));
    one.sync();
    // The leader of view 2 holds another entry 3 and committed it; its message reaches to index 2.
    let effects = one.receive(2, append(2, at(2, 1), 3, vec![]));
    assert_eq!(decided(&effects), vec![1]);
    let effects = one.receive(2, append(2, at(2, 1), 3, vec![entry(2, 9)]));
    assert_eq!(decided(&effects), vec![9]);
}

/// What a leader proposes and does not decide is in flight, with its bytes, until its leadership ends.
#[test]
fn in_flight_counts_own_open_batches() {
    let mut one = One::new(3);
    one.elect();
    one.propose(1);
    one.propose(2);
    let status = one.raft.standing();
    assert_eq!(status.in_flight, 2);
    assert!(status.in_flight_bytes > 0);
    one.sync();
    one.receive(1, matched(1, 2));
    assert_eq!(one.raft.standing().in_flight, 1);
    one.receive(1, matched(1, 3));
    assert_eq!((one.raft.standing().in_flight, one.raft.standing().in_flight_bytes), (0, 0));
    one.propose(3);
    one.receive(2, vote(9, false));
    assert_eq!(one.raft.standing().in_flight, 0, "it leads no more");
}

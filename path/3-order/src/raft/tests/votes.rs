//! Votes are counted, without an election.

use super::world::replica;
use crate::raft::RaftConfig;
use crate::raft::election::{VoteResult, Votes};
use crate::raft::store::Store;

fn store(members: usize) -> Store {
    Store::new(&RaftConfig::new(replica(0), (0..members).map(replica).collect(), 7))
}

fn count(members: usize, answers: &[(usize, bool)]) -> VoteResult {
    let (mut votes, store) = (Votes::default(), store(members));
    let results =
        answers.iter().map(|(who, granted)| votes.count(replica(*who), *granted, &store, replica(0)));
    results.last().expect("an answer")
}

#[test]
fn a_quorum_wins_with_the_own_vote_among_it() {
    assert_eq!(count(3, &[(0, true)]), VoteResult::Open);
    assert_eq!(count(3, &[(0, true), (2, true)]), VoteResult::Won);
    assert_eq!(count(3, &[(1, true), (2, true)]), VoteResult::Open, "its own vote is not durable yet");
    assert_eq!(count(1, &[(0, true)]), VoteResult::Won);
}

#[test]
fn it_is_lost_when_no_quorum_is_left() {
    assert_eq!(count(5, &[(0, true), (1, false), (2, false)]), VoteResult::Open);
    assert_eq!(count(5, &[(0, true), (1, false), (2, false), (3, false)]), VoteResult::Lost);
    assert_eq!(count(3, &[(0, true), (1, false), (1, true)]), VoteResult::Won, "a voter may think again");
    assert_eq!(count(3, &[(0, true), (1, true), (1, false)]), VoteResult::Won, "and takes nothing back");
}

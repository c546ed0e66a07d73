//! Reads that wait for a leader elsewhere, without an instance.

use super::one::view;
use super::world::replica;
use crate::raft::RaftConfig;
use crate::raft::asking::Asking;
use crate::raft::message::RaftMessage;
use crate::raft::store::Store;
use crate::{Effect, Effects};
use quorate_types::{ReplicaId, Slot, Span, Time};

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

/// Replica 0 knows whom it follows, if it follows somebody.
fn store(leader: Option<usize>) -> Store {
    let members: Vec<ReplicaId> = (0..3).map(replica).collect();
    let mut store = Store::new(&RaftConfig::new(replica(0), members, 7));
    store.persist_vote(view(1), None, &mut Effects::new());
    store.set_leader(leader.map(replica));
    store
}

/// What it did: reads that may run, reads that failed, questions asked.
fn did(out: &mut Effects) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
    let (mut ready, mut failed, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    for effect in out.drain() {
        match effect {
            Effect::ReadConfirmed { read, slot } => {
                assert_eq!(slot, Slot::new(5));
                ready.push(read);
            }
            Effect::ReadFailed { read } => failed.push(read),
            Effect::Send { message, .. } => match message.get::<RaftMessage>() {
                Some(RaftMessage::ReadIndex { read, .. }) => asked.push(*read),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
    (ready, failed, asked)
}

#[test]
fn one_question_serves_all_that_wait() {
    let (mut asking, mut out, store) =
        (Asking::new(replica(0), Span::from_millis(300)), Effects::new(), store(Some(1)));
    for read in 1..=3 {
        asking.read(read, at(0), &store, &mut out);
    }
    assert_eq!(did(&mut out), (vec![], vec![], vec![1]), "the others wait for the answer");
    asking.on_reply((replica(2), view(1), 1, Some(5)), at(1), &store, &mut out);
    asking.on_reply((replica(1), view(1), 9, Some(5)), at(1), &store, &mut out);
    assert_eq!(did(&mut out), (vec![], vec![], vec![]), "no answer to what was asked");
    asking.on_reply((replica(1), view(1), 1, Some(5)), at(1), &store, &mut out);
    assert_eq!(did(&mut out), (vec![1], vec![], vec![2]));
    asking.on_reply((replica(1), view(1), 2, None), at(2), &store, &mut out);
    assert_eq!(did(&mut out), (vec![], vec![2, 3], vec![]));
    assert_eq!(asking.deadline(), None);
}

#[test]
fn nobody_waits_for_ever() {
    let (mut asking, mut out) = (Asking::new(replica(0), Span::from_millis(300)), Effects::new());
    asking.read(1, at(0), &store(None), &mut out);
    assert_eq!((asking.deadline(), did(&mut out)), (Some(at(300)), (vec![], vec![], vec![])));
    asking.ask(at(100), &store(Some(1)), &mut out);
    asking.read(2, at(200), &store(Some(1)), &mut out);
    assert_eq!((asking.deadline(), did(&mut out).2), (Some(at(400)), vec![1]));
    asking.expire(at(400), &store(Some(1)), &mut out);
    assert_eq!(did(&mut out), (vec![], vec![1], vec![2]), "the question is given up, and the next is asked");
    assert_eq!(asking.take_waiting(), []);
}

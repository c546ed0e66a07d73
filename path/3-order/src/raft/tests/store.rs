//! What a replica knows, stepped alone: writing, replacing, committing, forgetting.

use super::one::{at, entry, index, start_of, view};
use super::world::replica;
use crate::raft::RaftConfig;
use crate::raft::store::{Loaded, Store};
use crate::{Effect, Effects};
use quorate_types::{RecordId, Reject, ReplicaId, Slot};

fn config() -> RaftConfig {
    let members: Vec<ReplicaId> = (0..3).map(replica).collect();
    RaftConfig { cache_bytes: 0, ..RaftConfig::new(replica(0), members, 7) }
}

/// It took a view's first entry and two batches, and knows the view.
fn store(out: &mut Effects) -> Store {
    let mut store = Store::new(&config());
    store.persist_vote(view(1), None, out);
    store.take(index(0), vec![start_of(1), entry(1, 1), entry(1, 2)], out).expect("it follows");
    store.check(true);
    store
}

fn slots(out: &mut Effects) -> Vec<u64> {
    let slot = |effect: Effect| match effect {
        Effect::Decided { slot, .. } => Some(slot.number()),
        _ => None,
    };
    out.drain().filter_map(slot).collect()
}

/// A message waits for the record of its view, an acknowledgement for the entries that it names.
#[test]
fn messages_wait_for_what_they_say() {
    let mut out = Effects::new();
    let mut store = store(&mut out);
    let record = RecordId::new;
    assert_eq!((store.view_pending(), store.pending_up_to(index(2))), (Some(record(1)), Some(record(3))));
    assert!(store.on_durable(record(3)) && !store.on_durable(record(2)));
    assert_eq!((store.view_pending(), store.pending_up_to(index(2))), (None, None));
    assert_eq!((store.pending_up_to(index(3)), store.log().durable()), (Some(record(4)), index(2)));
}

#[test]
fn what_departs_is_replaced_unless_it_is_committed() {
    let mut out = Effects::new();
    let mut store = store(&mut out);
    store.commit_to(index(2), &mut out);
    assert_eq!(slots(&mut out), [1]);
    store.take(index(2), vec![entry(2, 9)], &mut out).expect("it is not committed");
    assert_eq!(store.log().last(), at(3, 2));
    let refused = store.take(index(1), vec![entry(2, 9)], &mut out);
    assert_eq!(refused, Err(Reject::NotAllowed("raft: replaces what is committed")));
}

/// Entries that left the memory are read back before they are handed on.
#[test]
fn old_entries_are_read_back() {
    let mut out = Effects::new();
    let mut store = store(&mut out);
    let written: Vec<_> = out.drain().collect();
    store.on_durable(RecordId::new(4));
    store.evict(index(0));
    store.commit_to(index(3), &mut out);
    let asked = out.drain().find_map(|effect| match effect {
        Effect::Load { load, records } => Some((load, records)),
        _ => None,
    });
    let (load, records) = asked.expect("they are not in memory");
    let read = written.into_iter().filter_map(|effect| match effect {
        Effect::Persist { id, record, .. } if records.contains(&id) => Some(record),
        _ => None,
    });
    let loaded = store.on_loaded(load, read.collect(), &mut out);
    assert!(matches!(loaded, Ok(Loaded::Delivered)));
    assert_eq!((slots(&mut out), store.delivered()), (vec![1, 2], index(3)));
    assert!(matches!(store.on_loaded(77, Vec::new(), &mut out), Ok(Loaded::Other(_))));
}

#[test]
fn what_a_checkpoint_holds_is_forgotten_once() {
    let mut out = Effects::new();
    let mut store = store(&mut out);
    store.on_durable(RecordId::new(4));
    store.commit_to(index(3), &mut out);
    assert!(store.forget(Slot::new(1), &mut out) && !store.forget(Slot::new(1), &mut out));
    assert_eq!((store.log().floor(), store.records().stated()), (at(2, 1), Slot::new(1)));
    assert_eq!(store.records_needed_from(), Some(RecordId::FIRST), "the floor is not durable yet");
    store.on_durable(store.records().last());
    assert_eq!(store.records_needed_from(), Some(RecordId::new(4)));
    store.check(true);
}

#[test]
fn members_follow_from_the_log() {
    let store = store(&mut Effects::new());
    assert!(store.votes() && store.may_stand() && !store.is_quorum_alone());
    assert_eq!(store.other_voters(), [replica(1), replica(2)]);
    assert_eq!(store.audience(&[replica(7), replica(1)]), [replica(1), replica(2), replica(7)]);
}

//! Records lost in the middle of the log: what is still known, and from where on such a replica takes part again.

use super::one::{anchor, at, entry, start_of, view};
use super::world::replica;
use crate::raft::message::{Index, Position};
use crate::raft::persist::{entry_record, floor_record, vote_record};
use crate::raft::{RECORD_FLOOR, Raft, RaftConfig};
use crate::{Effect, Effects, Order as _, Stored};
use quorate_types::{Halt, RecordId, Slot, Time, View};

/// A record, or so many that are missing.
enum Found {
    Here(Stored),
    Lost(u64),
}
use Found::{Here, Lost};

fn vote(in_view: u64) -> Found {
    Here(vote_record(view(in_view), Some(replica(1))))
}
fn start(of: u64, index: u64) -> Found {
    Here(entry_record(Index::new(index), &start_of(of)))
}
fn batch(of: u64, index: u64) -> Found {
    Here(entry_record(Index::new(index), &entry(of, index)))
}
fn floor(position: Position, slot: u64, cleared: bool, in_view: u64) -> Found {
    Here(floor_record(position, slot, cleared, (view(in_view), Some(replica(1)))))
}

/// View 1 begins at index 1, so an index is one more than its slot.
fn raft(checkpoint: u64, found: Vec<Found>) -> Result<Raft, Halt> {
    let mut raft = Raft::new(RaftConfig::new(replica(0), vec![replica(0), replica(1), replica(2)], 1));
    if checkpoint > 0 {
        raft.restore_anchor(Slot::new(checkpoint), &anchor(at(checkpoint + 1, 1)))?;
    }
    let mut id = RecordId::ZERO;
    for found in found {
        match found {
            Lost(missing) => raft.restore_gap(missing),
            Here(record) => {
                id = id.next();
                raft.restore(id, record)?;
            }
        }
    }
    Ok(raft)
}

/// The first index that a checkpoint must reach, if one is needed.
fn needed(raft: &Raft) -> Option<u64> {
    let covers = |index: &u64| raft.covers(Slot::new(index - 1), &anchor(at(*index, 1)));
    raft.restored().needs_checkpoint.then(|| (2..100).find(covers).expect("some checkpoint does"))
}

fn begin(raft: &mut Raft) -> Vec<Effect> {
    let mut out = Effects::new();
    raft.start(Time::ZERO, &mut out);
    raft.invariants(true);
    out.drain().collect()
}

/// What was voted must be said again behind the gap.
#[test]
fn the_vote_must_follow_the_gap() {
    let before = || vec![vote(1), start(1, 1), batch(1, 2)];
    let knows = |after: Vec<Found>| {
        let found = before().into_iter().chain([Lost(2)]).chain(after).collect();
        raft(0, found).map(|raft| raft.restored().knows_vote)
    };
    assert_eq!(knows(vec![batch(1, 3)]), Ok(false));
    assert_eq!(knows(vec![batch(1, 3), vote(2)]), Ok(true));
    assert_eq!(knows(vec![vote(2), batch(1, 3), Lost(1), batch(1, 5)]), Ok(false), "behind the last gap");
    assert_eq!(knows(vec![floor(Position::ZERO, 0, false, 1)]), Ok(true));
    assert_eq!(knows(vec![floor(Position::ZERO, 0, false, 4)]), Ok(true), "views may have passed");
    for backward in [floor(Position::ZERO, 0, false, 0), vote(1)] {
        assert!(matches!(knows(vec![backward]), Err(Halt::LogInconsistent { .. })));
    }
    let other = floor_record(Position::ZERO, 0, false, (view(1), Some(replica(2))));
    assert!(knows(vec![Here(other)]).is_err(), "another vote in the same view");
    assert_eq!(knows(vec![batch(3, 3), vote(3)]), Ok(true), "the record of its view was lost");
    assert!(knows(vec![batch(3, 3), vote(2)]).is_err(), "entries of views that were not entered");
    assert!(raft(0, before()).expect("whole").restored().knows_vote);
}

/// The checkpoint must hold every index that was ever named; where no entry follows, as many more as records are missing.
#[test]
fn a_checkpoint_must_cover_what_was_acknowledged() {
    let before = || vec![vote(1), start(1, 1), batch(1, 2), batch(1, 3)];
    let needs = |checkpoint: u64, after: Vec<Found>| {
        let found = before().into_iter().chain(after).collect();
        needed(&raft(checkpoint, found).expect("it fits"))
    };
    assert_eq!(needs(0, vec![]), None);
    assert_eq!(needs(0, vec![Lost(2), vote(2)]), Some(5));
    assert_eq!(needs(0, vec![Lost(2), vote(2), batch(1, 4)]), Some(4));
    assert_eq!(needs(0, vec![Lost(2), vote(2), batch(1, 9)]), Some(9));
    assert_eq!(needs(0, vec![Lost(2), batch(1, 9), Lost(3), vote(2)]), Some(12));
    assert_eq!(needs(0, vec![Lost(2), vote(2), Lost(3), vote(3)]), Some(8));
    assert_eq!(
        needs(8, vec![Lost(2), vote(2)]),
        Some(11),
        "from the checkpoint on, which may have come later"
    );
    assert_eq!(needs(8, vec![Lost(2), vote(2), batch(1, 12)]), Some(12));
    // What lay at the anchor is not known, so it is not known whether this one continues it.
    assert_eq!(needs(8, vec![Lost(2), vote(2), batch(1, 10)]), Some(10));
    // Everything after the anchor is known, because an entry at it or before it replaced what there was.
    assert_eq!(needs(8, vec![Lost(2), vote(2), batch(1, 9)]), None);
    assert_eq!(needs(8, vec![Lost(2), vote(2), batch(1, 12), batch(2, 5)]), None);
    let cleared = |position, slot| floor(position, slot, true, 2);
    assert_eq!(needs(8, vec![Lost(2), vote(2), cleared(at(9, 1), 8)]), None, "the log begins anew there");
    assert_eq!(needs(8, vec![Lost(2), vote(2), cleared(at(6, 1), 5), batch(1, 7)]), None);
    assert_eq!(
        needs(8, vec![Lost(2), cleared(at(9, 1), 8), Lost(1), vote(3)]),
        Some(10),
        "and is damaged again"
    );
    assert_eq!(needs(8, vec![Lost(2), floor(at(9, 1), 8, false, 2)]), Some(11), "only if it says so");
}

/// Entries behind a gap that reach back to the anchor are the log, and no others.
#[test]
fn what_is_known_stays() {
    let found =
        vec![vote(1), start(1, 1), batch(1, 2), Lost(3), vote(2), batch(1, 9), batch(1, 10), batch(2, 11)];
    let mut one = raft(8, found).expect("it fits");
    assert_eq!((one.restored().needs_checkpoint, begin(&mut one)), (false, vec![]));
    assert_eq!(one.store.log().last(), at(11, 2));
    assert_eq!(
        (one.store.log().record_at(Index::new(10)), one.store.term().view()),
        (RecordId::new(6), view(2))
    );
}

/// With the checkpoint it goes on from there, keeps view and vote, and says so in its log; then the gap matters no more.
#[test]
fn it_goes_on_from_the_checkpoint() {
    let found =
        || vec![vote(1), start(1, 1), batch(1, 2), Lost(3), batch(1, 6), floor(Position::ZERO, 0, false, 2)];
    let mut one = raft(0, found()).expect("it fits");
    assert_eq!((one.restored().knows_vote, needed(&one)), (true, Some(6)));
    assert!(
        !one.covers(Slot::new(4), &crate::Anchor::decode(&[1]).expect("short")),
        "an anchor of another kind"
    );
    one.restore_installed(Slot::new(7), &anchor(at(8, 1))).expect("an anchor");
    assert!(!one.restored().needs_checkpoint);
    let effects = begin(&mut one);
    let [Effect::Persist { id, record, vital: true }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((id.number(), record.kind), (6, RECORD_FLOOR));
    assert_eq!(*record, floor_record(at(8, 1), 7, true, (view(2), Some(replica(1)))));
    let status = one.status();
    assert_eq!((one.store.log().last(), status.decided, status.view), (at(8, 1), Slot::new(7), view(2)));
    assert_eq!(one.keep_from(), Some(RecordId::FIRST), "until that is durable");
    let mut out = Effects::new();
    one.step(Time::ZERO, crate::Input::Durable(*id), &mut out);
    assert_eq!(one.keep_from(), Some(*id));
    // Without that record, since a crash came before it, the checkpoint is enough; with it, too.
    let with = found().into_iter().chain([Here(record.clone()), batch(2, 9)]).collect();
    for (found, last, views) in [(found(), at(8, 1), 2), (with, at(9, 2), 2)] {
        let mut again = raft(7, found).expect("it fits");
        assert!(again.restored().knows_vote && !again.restored().needs_checkpoint);
        begin(&mut again);
        assert_eq!((again.store.log().last(), again.store.term().view()), (last, View::new(views)));
    }
}

/// The log is whole, and the checkpoint after which it begins is lost; there is an older one.
#[test]
fn a_log_that_begins_after_a_lost_checkpoint_waits_for_another() {
    let restored = |lost: bool, records: Vec<Found>| {
        let mut raft = Raft::new(RaftConfig::new(replica(0), vec![replica(0), replica(1), replica(2)], 1));
        raft.restore_anchor(Slot::new(3), &anchor(at(4, 1)))?;
        if lost {
            raft.restore_outdated();
        }
        for (id, record) in (1..).zip(records) {
            let Here(record) = record else { panic!("none is lost here") };
            raft.restore(RecordId::new(id), record)?;
        }
        Ok::<_, Halt>(raft)
    };
    for cleared in [true, false] {
        let begins = |slot: u64| floor(at(slot + 1, 1), slot, cleared, 2);
        let found = || vec![vote(2), batch(1, 8), batch(1, 9), begins(8), batch(2, 10), batch(2, 11)];
        assert!(matches!(restored(false, found()), Err(Halt::LogInconsistent { .. })));
        let mut one = restored(true, found()).expect("it is known that one is lost");
        assert_eq!((one.restored().knows_vote, needed(&one)), (true, Some(11)), "all that was acknowledged");
        one.restore_installed(Slot::new(10), &anchor(at(11, 1))).expect("an anchor");
        let effects = begin(&mut one);
        assert!(matches!(effects.as_slice(), [Effect::Persist { vital: true, .. }]), "{effects:?}");
        assert_eq!((one.store.log().last(), one.store.term().view()), (at(11, 1), view(2)));
        let none_after = restored(true, vec![vote(2), batch(1, 8), batch(1, 9), begins(8)]).expect("it fits");
        assert_eq!(needed(&none_after), Some(9));
    }
    // What the older one reaches goes on by itself.
    let mut whole =
        restored(true, vec![floor(at(3, 1), 2, false, 1), batch(1, 4), batch(1, 5)]).expect("it fits");
    assert_eq!((whole.restored().needs_checkpoint, begin(&mut whole)), (false, vec![]));
    assert_eq!(whole.store.log().last(), at(5, 1));
}

/// A host that starts it all the same has a bug.
#[test]
#[should_panic(expected = "INV-RAFT-17")]
fn it_does_not_start_before() {
    begin(&mut raft(0, vec![vote(1), start(1, 1), Lost(1), vote(2)]).expect("it fits"));
}

/// Nor with a checkpoint that holds too little.
#[test]
#[should_panic(expected = "INV-RAFT-17")]
fn it_takes_no_checkpoint_that_holds_too_little() {
    let mut one = raft(0, vec![vote(1), start(1, 1), Lost(1), vote(2), batch(1, 4)]).expect("it fits");
    let _ = one.restore_installed(Slot::new(2), &anchor(at(3, 1)));
}

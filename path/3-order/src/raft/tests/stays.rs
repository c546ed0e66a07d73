//! An instance that comes back: its stays have nothing in common.

use super::one::{One, anchor, append, ask_vote, at, sent};
use super::world::replica;
use crate::raft::message::RaftMessage;
use crate::raft::{first_anchor, next_anchor, stay_of, stay_of_record};
use crate::{Anchor, Effect};
use quorate_types::Slot;
use quorate_wire::Memberships;

const STAY: u64 = 1 << 40;

fn place(index: u64, in_view: u64) -> Anchor {
    anchor(at(index, in_view))
}

#[test]
fn each_stay_begins_far_behind_the_one_before() {
    let first = first_anchor(None).expect("an anchor");
    assert_eq!((stay_of(Slot::ZERO, &first), &first), (Ok(0), &place(0, 0)));
    let slot = Slot::new(9);
    let second = next_anchor(slot, &place(12, 3), None).expect("an anchor");
    assert_eq!((stay_of(slot, &second), &second), (Ok(1), &place(STAY, STAY)));
    let third = next_anchor(slot, &place(STAY + 7, STAY + 2), None).expect("an anchor");
    assert_eq!((stay_of(slot, &third), &third), (Ok(2), &place(2 * STAY, 2 * STAY)));
    let last = next_anchor(slot, &place(STAY, (1 << 62) - 1), None);
    assert!(last.is_err(), "there are no more");
    let members = Memberships::created(&[replica(4)]);
    let named = next_anchor(slot, &place(12, 3), Some(&members)).expect("an anchor");
    assert!(named.encode().len() > second.encode().len(), "it says who takes part");
}

#[test]
fn messages_of_another_stay_are_dropped() {
    let slot = Slot::new(9);
    let second = next_anchor(slot, &place(12, 3), None).expect("an anchor");
    let mut one = One::anchored(3, Some((slot.number(), second)), Vec::new(), |config| config);
    for (in_view, last) in [(4, at(12, 3)), (2 * STAY + 1, at(2 * STAY, 2 * STAY))] {
        assert_eq!(one.receive(1, ask_vote(in_view, last)), [], "a vote in {in_view}");
        assert_eq!(one.receive(1, append(in_view, last, 0, Vec::new())), [], "a leader of {in_view}");
    }
    let effects = one.receive(1, ask_vote(STAY + 1, at(STAY, STAY)));
    one.sync();
    let granted = |effect: &Effect| matches!(effect, Effect::Send { .. });
    assert!(effects.iter().any(granted), "a vote in its own stay: {effects:?}");
    let replies = sent(&effects);
    assert!(matches!(replies[0].2, RaftMessage::RequestVoteReply { granted: true, .. }), "{replies:?}");
    let stays: Vec<_> = one.disk.iter().map(stay_of_record).collect();
    assert!(!stays.is_empty() && stays.iter().all(|stay| *stay == Some(1)), "{stays:?}");
}

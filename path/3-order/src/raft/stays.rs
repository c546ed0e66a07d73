//! An instance that left a cluster may come back. Its new messages and records must not be mixed up with those of its earlier stay: a
//! replica that lags may still be in the old stay, and vote and win votes there. docs/protocols/raft.md L142-L144.
//!
//! So each stay begins with an anchor of its own, in index and in view far beyond everything that the stay before can have reached. Two
//! stays have no view in common, and a message of another stay is dropped. So a vote in one never counts in another.
//!
//! Tests: tests/stays.rs.

use super::checkpoints::{read_anchor, write_anchor};
use super::persist::{RECORD_ENTRY, RECORD_FLOOR, RECORD_VOTE};
use super::{VIEW_MAX, persist};
use crate::ledger::inconsistent;
use crate::raft::message::{Index, Position};
use crate::{Anchor, Stored};
use quorate_types::{Halt, Slot, View};
use quorate_wire::Memberships;

/// A stay has at most 2 to the power of this many views and indexes.
const STAY_BITS: u32 = 40;

/// Which stay of its instance a view belongs to. [raft L142]
pub(super) const fn stay_of_view(view: View) -> u64 {
    view.number() >> STAY_BITS
}

/// The part of a view that grows within a stay.
pub(crate) const fn rank_of(view: View) -> u64 {
    view.number() % (1 << STAY_BITS)
}

/// Whether this is the last view of its stay, so that no election can follow.
pub(super) const fn ends_stay(view: View) -> bool {
    stay_of_view(view) != (view.number() + 1) >> STAY_BITS
}

/// Which stay of its instance an anchor of this slot belongs to; the first stay is 0.
///
/// # Errors
/// When the anchor is not one of this protocol.
pub(crate) fn stay_of(slot: Slot, anchor: &Anchor) -> Result<u64, Halt> {
    read_anchor(slot, anchor).map(|(position, _)| stay_of_view(position.view))
}

/// Which stay a record belongs to, as far as it says so.
pub(crate) fn stay_of_record(record: &Stored) -> Option<u64> {
    let view = match record.kind {
        RECORD_ENTRY | RECORD_FLOOR => 8,
        RECORD_VOTE => 0,
        _ => return None,
    };
    persist::checked_u64_at(&record.head, view).map(|view| stay_of_view(View::new(view)))
}

/// Where an instance begins that was never in the cluster before. `members` are given if they are not those that the cluster was made with.
pub(crate) fn first_anchor(members: Option<&Memberships>) -> Option<Anchor> {
    write_anchor(Position::new(Index::ZERO, View::ZERO), members)
}

/// Where the next stay of an instance begins, given the anchor of its last slot. [raft L143]
///
/// # Errors
/// When the anchor is not one of this protocol, or there were as many stays as there can be.
pub(crate) fn next_anchor(slot: Slot, last: &Anchor, members: Option<&Memberships>) -> Result<Anchor, Halt> {
    let (position, _) = read_anchor(slot, last)?;
    let behind = |number: u64| ((number >> STAY_BITS) + 1) << STAY_BITS;
    let (index, view) = (behind(position.index.number()), behind(position.view.number()));
    let too_many = || inconsistent("the instance came and left too often".to_owned());
    if view >= VIEW_MAX.number() || index >= VIEW_MAX.number() {
        return Err(too_many());
    }
    write_anchor(Position::new(Index::new(index), View::new(view)), members).ok_or_else(too_many)
}

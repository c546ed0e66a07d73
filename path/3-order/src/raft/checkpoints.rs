//! Anchors: what a checkpoint says of the log that continues after it. docs/protocols/raft.md L78, L125. `store` and `follower` replace the
//! log's beginning by a checkpoint.
//!
//! Tests: tests/checkpoints.rs.

use super::VIEW_MAX;
use super::store::Store;
use crate::Anchor;
use crate::ledger::inconsistent;
use crate::raft::message::{Index, Position};
use bytes::Bytes;
use quorate_types::{Halt, Slot, View};
use quorate_wire::Memberships;
use std::sync::Arc;

const POSITION_BYTES: usize = 16;

/// Writes an anchor: a position, and the memberships that hold there if an entry up to there names them. [raft L78, L125]
pub(super) fn write_anchor(position: Position, members: Option<&Memberships>) -> Option<Anchor> {
    let mut bytes = Vec::with_capacity(POSITION_BYTES);
    bytes.extend_from_slice(&position.index.number().to_le_bytes());
    bytes.extend_from_slice(&position.view.number().to_le_bytes());
    if let Some(members) = members {
        bytes.extend_from_slice(&members.encode());
    }
    Anchor::decode(&bytes).ok()
}

/// The anchor of this slot in the log of another cluster, whose replicas begin with the members that they were made with. The position
/// stays the same; if the anchor is of another protocol, it is one that Raft chooses.
pub(crate) fn anchor_anew(slot: Slot, anchor: &Anchor) -> Anchor {
    let begins = slot == Slot::ZERO;
    let own = Position::new(Index::new(slot.number()), if begins { View::ZERO } else { View::FIRST });
    let position = read_anchor(slot, anchor).map_or(own, |(position, _)| position);
    write_anchor(position, None).unwrap_or_else(|| anchor.clone())
}

/// The content of an anchor: the position of its slot, and the memberships there.
pub(super) type Anchored = (Position, Option<Arc<Memberships>>);

/// Reads the anchor of a checkpoint at `slot`.
pub(super) fn read_anchor(slot: Slot, anchor: &Anchor) -> Result<Anchored, Halt> {
    let foreign = || inconsistent(format!("the checkpoint of {slot} has an anchor that is none of raft"));
    let (position, members) = anchor.encode().split_at_checked(POSITION_BYTES).ok_or_else(foreign)?;
    let ([index, view], []) = position.as_chunks::<8>() else { return Err(foreign()) };
    let position =
        Position::new(Index::new(u64::from_le_bytes(*index)), View::new(u64::from_le_bytes(*view)));
    let (index, view) = (position.index.number(), position.view);
    let begins = [index == 0, view == View::ZERO, slot == Slot::ZERO];
    let possible = begins == [true; 3] || begins == [false; 3];
    if !possible || index < slot.number() || index == u64::MAX || view > VIEW_MAX {
        return Err(inconsistent(format!("the checkpoint of {slot} has the anchor {position}")));
    }
    if members.is_empty() {
        return Ok((position, None));
    }
    let members = Memberships::decode(Bytes::copy_from_slice(members)).map_err(|_| foreign())?;
    Ok((position, Some(Arc::new(members))))
}

/// The anchor of a checkpoint at this slot, if the slot was decided here and its position is known.
pub(super) fn anchor_at(slot: Slot, store: &Store) -> Option<Anchor> {
    let log = store.log();
    let index = log.index_of(slot.number()).filter(|_| slot <= store.slot())?;
    let members = log.members_up_to(index)?;
    write_anchor(log.position(index), members.map(|members| &**members))
}

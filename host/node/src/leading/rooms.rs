//! What there is room for, here and on the members' disks. A leader takes only what a majority has room for: entries that found none
//! would be dropped as if lost (docs/decisions/0004), and every entry after them would wait, the first one of the next view, too.
//!
//! Members say so when it changes and when they are connected. Tests: rooms/tests.rs, host/runtime/tests/all/faults.rs, front/cli/tests/hurt/tmpfs.rs.

use quorate_types::{ReplicaId, Room};
use std::collections::BTreeMap;

/// What is known of the members' room. Whoever says nothing has room.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    /// What this replica told the others last.
    pub(super) told: Room,
    pub(super) others: BTreeMap<ReplicaId, Room>,
}

impl Rooms {
    pub(super) fn of(&self, member: ReplicaId) -> Room {
        self.others.get(&member).copied().unwrap_or_default()
    }

    /// What this replica may take from clients, if it leads and has room for `own`.
    pub(super) fn to_take(&self, own: Room, others: impl Iterator<Item = ReplicaId>) -> Room {
        if self.others.is_empty() {
            return own; // nearly always, and asked for each frame
        }
        own.min(self.of_majority(own, others))
    }

    /// Whether a member has room for everything, as far as it said.
    pub(super) fn has_all(&self, member: ReplicaId) -> bool {
        self.of(member) == Room::Data
    }

    /// What a majority of so many members has room for, if the others are these and this replica has room for `own`.
    pub(super) fn of_majority(&self, own: Room, others: impl Iterator<Item = ReplicaId>) -> Room {
        let mut rooms: Vec<Room> = others.map(|member| self.of(member)).chain([own]).collect();
        rooms.sort_unstable_by(|a, b| b.cmp(a));
        rooms[rooms.len() / 2]
    }
}

#[cfg(test)]
mod tests;

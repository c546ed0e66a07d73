//! The room for records, here and on the members' disks. A leader takes only requests for which a quorum has room. Entries without room
//! would be dropped as if lost (docs/decisions/0004), and every later entry would wait, even the first one of the next view.
//!
//! A member says so when its room changes, and when it is connected. Tests: rooms/tests.rs, host/runtime/tests/all/faults.rs,
//! front/cli/tests/hurt/tmpfs.rs.

use quorate_types::{Faults, ReplicaId, Room};
use std::collections::BTreeMap;

/// The known room of the members. A member that says nothing has room.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    /// What this replica last told the others.
    pub(super) told: Room,
    pub(super) others: BTreeMap<ReplicaId, Room>,
}

impl Rooms {
    pub(super) fn of(&self, member: ReplicaId) -> Room {
        self.others.get(&member).copied().unwrap_or_default()
    }

    /// The room for requests at this replica, if it leads and has room for `own`.
    pub(super) fn to_take(&self, own: Room, others: impl Iterator<Item = ReplicaId>, faults: Faults) -> Room {
        if self.others.is_empty() {
            return own; // nearly always; this is asked for each frame
        }
        own.min(self.of_quorum(own, others, faults))
    }

    /// Whether a member has room for everything, as far as it has said.
    pub(super) fn has_all(&self, member: ReplicaId) -> bool {
        self.of(member) == Room::Data
    }

    /// The room that enough members have to decide something, if these are the other members and this replica has room for `own`.
    pub(super) fn of_quorum(
        &self,
        own: Room,
        others: impl Iterator<Item = ReplicaId>,
        faults: Faults,
    ) -> Room {
        let mut rooms: Vec<Room> = others.map(|member| self.of(member)).chain([own]).collect();
        rooms.sort_unstable_by(|a, b| b.cmp(a));
        let enough = faults.among(rooms.len() as u32).smallest() as usize;
        rooms[enough - 1]
    }
}

#[cfg(test)]
mod tests;

//! What there is room for, here and on the members' disks. A leader takes only what a majority has room for: entries that found none
//! would be dropped as if lost (docs/decisions/0004), and every entry after them would wait, the first one of the next view, too.
//!
//! Members say so when it changes and when they are connected. Tests: `rooms/tests.rs`, host/runtime/tests/all/faults.rs, front/cli/tests/hurt/tmpfs.rs.

use crate::effects::Effects;
use crate::node::Node;
use quorate_types::{ConnId, ReplicaId, Room, Time};
use quorate_wire::{read_room, room_frame};
use std::collections::BTreeMap;

/// What is known of the members' room. Whoever says nothing has room.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    /// What this replica told the others last.
    told: Room,
    others: BTreeMap<ReplicaId, Room>,
}

impl Rooms {
    fn of(&self, member: ReplicaId) -> Room {
        self.others.get(&member).copied().unwrap_or_default()
    }

    /// What a majority of so many members has room for, if the others are these and this replica has room for `own`.
    fn of_majority(&self, own: Room, others: impl Iterator<Item = ReplicaId>) -> Room {
        let mut rooms: Vec<Room> = others.map(|member| self.of(member)).chain([own]).collect();
        rooms.sort_unstable_by(|a, b| b.cmp(a));
        rooms[rooms.len() / 2]
    }
}

impl Node {
    /// What this replica may take from clients, if it leads.
    pub(crate) fn room(&self) -> Room {
        let own = self.journal.room();
        if self.rooms.others.is_empty() {
            return own; // nearly always, and asked for each frame
        }
        own.min(self.rooms.of_majority(own, self.other_members()))
    }

    /// Who would better lead since this replica's disk is full: a member with room, if with it a majority has some.
    pub(crate) fn with_room(&self) -> Option<ReplicaId> {
        let majority = self.rooms.of_majority(Room::Full, self.other_members()) == Room::Data;
        let connected = |member: &ReplicaId| self.peers.to(*member).is_some();
        let found =
            self.other_members().find(|member| connected(member) && self.rooms.of(*member) == Room::Data);
        found.filter(|_| majority)
    }

    /// Whether another member has room for everything, as far as it said.
    pub(crate) fn has_room(&self, member: ReplicaId) -> bool {
        self.rooms.of(member) == Room::Data
    }

    fn other_members(&self) -> impl Iterator<Item = ReplicaId> {
        self.config.members.others().map(|member| member.replica)
    }

    /// Tells the members if there is more or less room than they know. While a segment is only being prepared there is room.
    pub(crate) fn tell_room(&mut self, out: &mut Effects) {
        let room = if self.journal.disk().is_full() { self.journal.room() } else { Room::Data };
        if room != self.rooms.told {
            self.rooms.told = room;
            self.other_members().for_each(|member| self.tell_room_to(member, out));
        }
    }

    /// Who has no room, if that keeps a majority from taking writes.
    pub(crate) fn without_room(&self) -> Vec<ReplicaId> {
        let lacks = |member: &ReplicaId| self.rooms.of(*member) != Room::Data;
        if self.room() == Room::Data { Vec::new() } else { self.other_members().filter(lacks).collect() }
    }

    /// Whose disks are full, as far as they said.
    pub(crate) fn full_disks(&self) -> Vec<u16> {
        let own = self.journal.disk().is_full().then_some(self.config.members.me());
        let others = self.other_members().filter(|member| !self.has_room(*member));
        own.into_iter().chain(others).map(ReplicaId::number).collect()
    }

    /// A member is connected from now on.
    pub(crate) fn greet_with_room(&self, member: ReplicaId, out: &mut Effects) {
        if self.rooms.told != Room::Data {
            self.tell_room_to(member, out);
        }
    }

    fn tell_room_to(&self, member: ReplicaId, out: &mut Effects) {
        if let Some(conn) = self.peers.to(member) {
            out.send(conn, room_frame(self.rooms.told));
        }
    }

    /// A member says what it has room for.
    pub(crate) fn on_room(
        &mut self,
        now: Time,
        (conn, from): (ConnId, ReplicaId),
        payload: &[u8],
        out: &mut Effects,
    ) {
        match read_room(payload) {
            Ok(room) => drop(self.rooms.others.insert(from, room)),
            Err(why) => self.reject(now, conn, why.to_string(), out),
        }
    }

    /// A member's connection is gone, and it will say so again.
    pub(crate) fn forget_room(&mut self, member: ReplicaId) {
        self.rooms.others.remove(&member);
    }
}

#[cfg(test)]
mod tests;

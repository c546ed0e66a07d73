//! The log and checkpoints: what a durable checkpoint holds is forgotten, a replica that lacks more than its leader still has
//! is told to fetch one, and one that was installed takes the place of the log's beginning. docs/protocols/raft.md L78-L101.
//!
//! INV-RAFT-15, INV-RAFT-16. Tests: tests/checkpoints.rs, tests/chaos.rs.

use super::{Raft, Role, VIEW_MAX, reject};
use crate::ledger::inconsistent;
use crate::raft::message::{AppendOutcome, Index, Position};
use crate::{Anchor, Effect, Effects};
use bytes::Bytes;
use quorate_types::{Halt, ReplicaId, Slot, View, planted};
use quorate_wire::Memberships;
use std::sync::Arc;

const POSITION_BYTES: usize = 16;

/// A position, and what memberships hold there if any entry up to it says so. [raft L78, L125]
pub(super) fn write_anchor(position: Position, members: Option<&Memberships>) -> Option<Anchor> {
    let mut bytes = Vec::with_capacity(POSITION_BYTES);
    bytes.extend_from_slice(&position.index.number().to_le_bytes());
    bytes.extend_from_slice(&position.view.number().to_le_bytes());
    if let Some(members) = members {
        bytes.extend_from_slice(&members.encode());
    }
    Anchor::decode(&bytes).ok()
}

/// The anchor of this slot in the log of other replicas, which begin with the members that they were made with: the same place, or where
/// another protocol's log had it, one of its own.
pub(crate) fn anchor_anew(slot: Slot, anchor: &Anchor) -> Anchor {
    let begins = slot == Slot::ZERO;
    let own = Position::new(Index::new(slot.number()), if begins { View::ZERO } else { View::FIRST });
    let position = read_anchor(slot, anchor).map_or(own, |(position, _)| position);
    write_anchor(position, None).unwrap_or_else(|| anchor.clone())
}

/// What an anchor says: where its slot lies, and who is a member there.
pub(super) type Anchored = (Position, Option<Arc<Memberships>>);

/// What is in an anchor of a checkpoint at `slot`.
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

impl Raft {
    pub(super) fn anchor_at(&self, slot: Slot) -> Option<Anchor> {
        let index = self.log.index_of(slot.number()).filter(|_| slot <= self.delivery.slot())?;
        let members = self.log.members_up_to(index)?;
        write_anchor(self.log.position(index), members.map(|members| &**members))
    }

    /// [raft L85-L86]
    pub(super) fn on_trim(&mut self, slot: Slot, out: &mut Effects) {
        assert!(slot <= self.delivery.slot(), "INV-RAFT-15: only what was decided here is forgotten");
        if slot.number() > self.log.floor_slots()
            && let Some(index) = self.log.index_of(slot.number())
        {
            let next = index.next();
            let beyond = planted("floor-off-by-one") && next <= self.delivered();
            self.log.raise_floor(if beyond { next } else { index });
            self.floor_rose();
        }
        if self.records.stated().number() < self.log.floor_slots() {
            self.persist_floor(false, out);
        }
    }

    /// The leader can not send what this replica lacks. [raft L93-L95]
    pub(super) fn on_needs_checkpoint(
        &mut self,
        from: ReplicaId,
        view: View,
        previous: Position,
        round: u64,
        slot: u64,
        out: &mut Effects,
    ) {
        if let Err(why) = super::follower::check_shape(view, previous, &[]) {
            return reject(out, from, why);
        }
        if !self.hears_leader(from, view, out) {
            return;
        }
        if self.log.holds(previous) {
            let matched = previous.index.min(self.log.durable()).max(self.log.floor().index);
            return self.answer_append(from, round, AppendOutcome::Matched(matched), out);
        }
        out.push(Effect::Behind { slot: Slot::new(slot) });
        self.answer_departed(from, round, previous, out);
    }

    /// [raft L96-L101]
    pub(super) fn on_installed(&mut self, slot: Slot, anchor: &Anchor, out: &mut Effects) {
        let (position, members) = match read_anchor(slot, anchor) {
            Ok(anchored) => anchored,
            Err(why) => return self.halt(why, out),
        };
        let floor = self.log.floor();
        assert!(
            position.index >= floor.index,
            "INV-RAFT-16: no checkpoint from before the log's beginning at {floor} is installed"
        );
        if position.view > self.term.view() {
            self.become_follower(position.view, None, out);
        }
        let holds = self.log.view_at(position.index) == Some(position.view);
        if holds && self.log.slots_at(position.index) != slot.number() {
            let slots = self.log.slots_at(position.index);
            let why =
                format!("the checkpoint of {slot} ends at {position}, and the log has {slots} slots there");
            return self.halt(inconsistent(why), out);
        }
        // [raft L126]
        if holds && !self.log.learn_members(position.index, members.clone()) {
            let why = format!("the checkpoint of {slot} has other members than the log at {position}");
            return self.halt(inconsistent(why), out);
        }
        if !holds || planted("suffix-dropped-at-jump") {
            self.begin_after(position, slot, members, out);
        }
        self.delivery.go_on_after(position.index.number(), slot);
        self.learn_commit(position.index, out);
        if matches!(self.role, Role::PreCandidate(_) | Role::Candidate(_)) && !self.may_stand() {
            // It learned that it does not vote any more.
            self.become_follower(self.term.view(), None, out);
        }
        self.deliver(out);
    }

    /// The log does not hold the checkpoint's position: it is of no use any more. No entry after that position can ever be
    /// decided, or it would contain it. [raft L98-L99]
    fn begin_after(
        &mut self,
        position: Position,
        slot: Slot,
        members: Option<Arc<Memberships>>,
        out: &mut Effects,
    ) {
        if !matches!(self.role, Role::Follower) {
            self.become_follower(self.term.view(), None, out);
        }
        self.hold_records();
        self.log.reset(position, slot.number(), members);
        self.commit = position.index;
        self.persist_floor(true, out);
    }
}

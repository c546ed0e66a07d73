//! A follower takes entries from its leader; where the leader no longer has them, it takes a checkpoint. docs/protocols/raft.md L37-L46,
//! L78-L101.
//!
//! A follower acknowledges only what is durable, and replaces only what is not committed. On a mismatch it says how far back the leader has
//! to look. It answers an empty message at once, even while its disk is slow. So a leader stays leader, and reads are confirmed, without
//! waiting for a sync.
//!
//! What a durable checkpoint holds is forgotten. If the leader lacks entries that a replica needs, the replica is told to fetch a
//! checkpoint; the installed checkpoint replaces the beginning of the log.
//!
//! INV-RAFT-5, INV-RAFT-12, INV-RAFT-15, INV-RAFT-16. Tests: tests/replication.rs, tests/checkpoints.rs, tests/chaos.rs.

use super::checkpoints::{Anchored, read_anchor};
use super::{Raft, Role, reject, send};
use crate::ledger::inconsistent;
use crate::raft::message::{AppendOutcome, ENTRIES_MAX, Entry, Index, Position, RaftMessage};
use crate::{Anchor, Effect, Effects};
use quorate_types::{Reject, ReplicaId, Slot, View, planted};

/// Finds what no correct leader sends.
pub(super) fn check_shape(view: View, previous: Position, entries: &[Entry]) -> Result<Index, Reject> {
    if view == View::ZERO
        || previous.view > view
        || (previous.index == Index::ZERO) != (previous.view == View::ZERO)
    {
        return Err(Reject::Malformed("raft: position before the entries"));
    }
    if entries.len() > ENTRIES_MAX {
        let (size, max) = (entries.len() as u64, ENTRIES_MAX as u64);
        return Err(Reject::TooLarge { what: "entries", size, max });
    }
    let mut before = previous.view.max(View::FIRST);
    for entry in entries {
        if entry.view < before || entry.view > view {
            return Err(Reject::Malformed("raft: views of entries"));
        }
        before = entry.view;
    }
    // The highest number is never an index, so that "the next one" always exists.
    match previous.index.number().checked_add(entries.len() as u64) {
        Some(end) if end < u64::MAX => Ok(Index::new(end)),
        _ => Err(Reject::Malformed("raft: index")),
    }
}

impl Raft {
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_append_entries(
        &mut self,
        from: ReplicaId,
        view: View,
        previous: Position,
        commit: Index,
        round: u64,
        entries: Vec<Entry>,
        out: &mut Effects,
    ) {
        let end = match check_shape(view, previous, &entries) {
            Ok(end) => end,
            Err(why) => return reject(out, from, why),
        };
        if !self.hears_leader(from, view, out) {
            return;
        }
        if !self.store.log().holds(previous) {
            return self.answer_departed(from, round, previous, out);
        }
        let empty = entries.is_empty();
        assert!(!matches!(self.role, Role::Leader(_)), "INV-RAFT-12: a leader never replaces its own log");
        if let Err(why) = self.store.take(previous.index, entries, out) {
            return reject(out, from, why);
        }
        // [raft L44]
        let end_known = if planted("commit-beyond-match") { self.store.log().last().index } else { end };
        self.store.commit_to(commit.min(end_known), out);
        // [raft L45-L46]
        let matched = if empty { end.min(self.store.log().durable()) } else { end };
        // [raft L92] What the checkpoint holds is decided: the leader has it, too.
        let matched = matched.max(self.store.log().floor().index);
        self.answer_append(from, round, AppendOutcome::Matched(matched), out);
    }

    /// Follows the sender of a leader's message, unless that is not the leader of the present view. [raft L37-L38]
    pub(super) fn hears_leader(&mut self, from: ReplicaId, view: View, out: &mut Effects) -> bool {
        if view < self.store.view() {
            // Only the view counts: it tells a former leader that it is one. Nothing of the message is repeated,
            // since the sender may lead our view by the time it reads this, and must not take it for an answer there.
            let outcome = AppendOutcome::Rejected { asked: Index::ZERO, hint: Position::ZERO };
            self.answer_append(from, 0, outcome, out);
            return false;
        }
        if view == self.store.view() && self.store.term().is_led_by_another(from) {
            reject(out, from, Reject::NotAllowed("raft: a second leader in one view"));
            return false;
        }
        self.become_follower(view, Some(from), out);
        self.store.see_leading(from);
        self.timer.hear_leader(self.life.now);
        true
    }

    /// The log has another entry at this position, or ends before it. [raft L39-L40]
    pub(super) fn answer_departed(&mut self, to: ReplicaId, round: u64, asked: Position, out: &mut Effects) {
        let hint = self.store.log().last_with_view_up_to(asked.index, asked.view);
        let hint = hint.map_or(Position::ZERO, |index| self.store.log().position(index));
        self.answer_append(to, round, AppendOutcome::Rejected { asked: asked.index, hint }, out);
    }

    pub(super) fn answer_append(
        &mut self,
        to: ReplicaId,
        round: u64,
        outcome: AppendOutcome,
        out: &mut Effects,
    ) {
        let after = match outcome {
            AppendOutcome::Matched(index) => self.store.pending_up_to(index),
            AppendOutcome::Rejected { .. } => self.store.view_pending(),
        };
        send(out, to, RaftMessage::AppendEntriesReply { view: self.store.view(), round, outcome }, after);
    }

    /// [raft L85-L86]
    pub(super) fn on_trim(&mut self, slot: Slot, out: &mut Effects) {
        let rose = self.store.forget(slot, out);
        if let (true, Role::Leader(lead)) = (rose, &mut self.role) {
            lead.floor_rose(&self.store);
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
        if let Err(why) = check_shape(view, previous, &[]) {
            return reject(out, from, why);
        }
        if !self.hears_leader(from, view, out) {
            return;
        }
        if self.store.log().holds(previous) {
            let matched = previous.index.min(self.store.log().durable()).max(self.store.log().floor().index);
            return self.answer_append(from, round, AppendOutcome::Matched(matched), out);
        }
        out.push(Effect::Behind { slot: Slot::new(slot) });
        self.answer_departed(from, round, previous, out);
    }

    /// [raft L96-L101]
    pub(super) fn on_installed(&mut self, slot: Slot, anchor: &Anchor, out: &mut Effects) {
        match read_anchor(slot, anchor) {
            Ok(anchored) => self.install(slot, anchored, out),
            Err(why) => self.halt(why, out),
        }
    }

    fn install(&mut self, slot: Slot, (position, members): Anchored, out: &mut Effects) {
        let floor = self.store.log().floor();
        assert!(
            position.index >= floor.index,
            "INV-RAFT-16: no checkpoint from before the log's beginning at {floor} is installed"
        );
        if position.view > self.store.view() {
            self.become_follower(position.view, None, out);
        }
        let holds = self.store.log().view_at(position.index) == Some(position.view);
        if holds && self.store.log().slots_at(position.index) != slot.number() {
            let slots = self.store.log().slots_at(position.index);
            let why =
                format!("the checkpoint of {slot} ends at {position}, and the log has {slots} slots there");
            return self.halt(inconsistent(why), out);
        }
        // [raft L126]
        if holds && !self.store.learn_members(position.index, members.clone()) {
            let why = format!("the checkpoint of {slot} has other members than the log at {position}");
            return self.halt(inconsistent(why), out);
        }
        if !holds || planted("suffix-dropped-at-jump") {
            // The log does not hold the checkpoint's position: it is of no use any more. No entry after that position can ever be
            // decided, or it would contain it. [raft L98-L99]
            if !matches!(self.role, Role::Follower) {
                self.become_follower(self.store.view(), None, out);
            }
            self.store.begin_after(position, slot, members, out);
        }
        self.store.go_on_after(position, slot);
        if let Role::Leader(_) = self.role {
            self.lead_on(out, |lead, scene| lead.learn_commit(position.index, scene));
        } else {
            self.store.commit_to(position.index, out);
        }
        if matches!(self.role, Role::PreCandidate(_) | Role::Candidate(_)) && !self.store.may_stand() {
            // It learned that it does not vote any more.
            self.become_follower(self.store.view(), None, out);
        }
        self.store.deliver(out);
    }
}

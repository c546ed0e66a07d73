//! A follower takes entries. docs/protocols/raft.md L37-L46.
//!
//! It acknowledges only what is durable, replaces only what is not committed, and says on a mismatch how far back the
//! leader has to look. An empty message is answered at once, also while the disk is slow: leaders stay leaders and reads
//! are confirmed without waiting for a sync.
//!
//! INV-RAFT-5, INV-RAFT-11, INV-RAFT-12. Tests: tests/replication.rs.

use super::{Raft, Role, reject, send};
use crate::Effects;
use crate::raft::message::{AppendOutcome, ENTRIES_MAX, Entry, Index, Position, RaftMessage};
use quorate_types::{Reject, ReplicaId, View, planted};

/// What no correct leader sends.
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
        if !self.log.holds(previous) {
            return self.answer_departed(from, round, previous, out);
        }
        let empty = entries.is_empty();
        if let Err(why) = self.take_entries(previous.index, entries, out) {
            return reject(out, from, why);
        }
        // [raft L44]
        let end_known = if planted("commit-beyond-match") { self.log.last().index } else { end };
        self.commit_to(commit.min(end_known), out);
        // [raft L45-L46]
        let matched = if empty { end.min(self.log.durable()) } else { end };
        // [raft L92] What the checkpoint holds is decided: the leader has it, too.
        let matched = matched.max(self.log.floor().index);
        self.answer_append(from, round, AppendOutcome::Matched(matched), out);
    }

    /// Follows the sender of a leader's message, unless it leads no more or never did. [raft L37-L38]
    pub(super) fn hears_leader(&mut self, from: ReplicaId, view: View, out: &mut Effects) -> bool {
        if view < self.term.view() {
            // Only the view counts: it tells a former leader that it is one. Nothing of the message is repeated,
            // since the sender may lead our view by the time it reads this, and must not take it for an answer there.
            let outcome = AppendOutcome::Rejected { asked: Index::ZERO, hint: Position::ZERO };
            self.answer_append(from, 0, outcome, out);
            return false;
        }
        if view == self.term.view() && self.term.is_led_by_another(from) {
            reject(out, from, Reject::NotAllowed("raft: a second leader in one view"));
            return false;
        }
        self.become_follower(view, Some(from), out);
        self.term.see_leading(from);
        self.timer.hear_leader(self.life.now);
        true
    }

    /// The log has something else at this position, or ends before it. [raft L39-L40]
    pub(super) fn answer_departed(&mut self, to: ReplicaId, round: u64, asked: Position, out: &mut Effects) {
        let hint = self.log.last_with_view_up_to(asked.index, asked.view);
        let hint = hint.map_or(Position::ZERO, |index| self.log.position(index));
        self.answer_append(to, round, AppendOutcome::Rejected { asked: asked.index, hint }, out);
    }

    /// Skips what is there already, replaces what departs, appends the rest. [raft L41-L43]
    fn take_entries(
        &mut self,
        previous: Index,
        entries: Vec<Entry>,
        out: &mut Effects,
    ) -> Result<(), Reject> {
        let floor = self.log.floor();
        let mut index = previous;
        for entry in entries {
            index = index.next();
            if index < floor.index {
                continue;
            }
            match self.log.view_at(index) {
                Some(view) if view == entry.view => continue,
                Some(_) if index <= self.commit => {
                    return Err(Reject::NotAllowed("raft: replaces what is committed"));
                }
                Some(_) if planted("conflict-off-by-one") => self.truncate(index),
                Some(_) => self.truncate(index.previous()),
                None => {}
            }
            self.append(entry, out);
        }
        Ok(())
    }

    fn truncate(&mut self, last: Index) {
        assert!(last >= self.commit, "INV-RAFT-11: what is committed is never replaced");
        assert!(!matches!(self.role, Role::Leader(_)), "INV-RAFT-12: a leader never replaces its own log");
        self.hold_records();
        self.log.truncate(last);
    }

    pub(super) fn answer_append(
        &mut self,
        to: ReplicaId,
        round: u64,
        outcome: AppendOutcome,
        out: &mut Effects,
    ) {
        let after = match outcome {
            AppendOutcome::Matched(index) => self.pending_up_to(index),
            AppendOutcome::Rejected { .. } => self.view_pending(),
        };
        send(out, to, RaftMessage::AppendEntriesReply { view: self.term.view(), round, outcome }, after);
    }
}

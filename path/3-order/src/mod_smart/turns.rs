//! Leaders that take turns: each leads for so many slots, then all ask for the next one.
//!
//! A turn is a view: what makes one leader follow another safely is there already, and costs a few messages for each turn, not for each
//! slot. Nobody has to believe the leader that its turn is over, since all count. Those whose views failed last are passed over, f at most,
//! each replica by what it saw itself: they would cost a time-out in every round. Where replicas differ in whom, they join one another
//! as they do in complaints. [mod_smart L149-L152]
//!
//! Source of the idea: Veronese, Correia, Bessani and Lung, "Spin One's Wheels? Byzantine Fault Tolerance with a Spinning Primary", SRDS
//! 2009, which turns with every slot and needs no messages for it. docs/decisions/0023-turns-are-views.md.
//!
//! Tests: tests/turns.rs, tests/chaos.rs.

use super::{ModSmart, Phase};
use crate::Effects;
use quorate_types::{ReplicaId, Time, View};
use quorate_wire::mod_smart::Complaint;
use std::collections::VecDeque;

/// How this replica sees whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Since when the turn of this view is over.
    over: Option<Time>,
    /// Whether the view before this one was a whole turn.
    whole: bool,
    /// Those whose views failed, the last one last.
    passed_over: VecDeque<ReplicaId>,
}

impl Turns {
    /// Others vote from now on, and nothing failed.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_bounded(&self, f: u32) -> bool {
        self.passed_over.len() <= f as usize
    }
}

impl ModSmart {
    /// So many slots of this view are decided, or, with what is on its way, will be.
    fn turn_is_used_by(&self, slots: u64) -> bool {
        let Phase::Normal { base, .. } = &self.phase else { return false };
        let turn = self.config.turn_slots;
        turn > 0 && self.voters.len() > 1 && slots.saturating_add(self.decided().next().since(*base)) >= turn
    }

    /// All that this view's leader may lead is decided. [mod_smart L149]
    pub(super) fn turn_is_over(&self) -> bool {
        // Whoever lacks slots counts fewer of them.
        self.turn_is_used_by(0)
    }

    /// Whether the leader may propose no more than it did. [mod_smart L149]
    pub(super) fn turn_is_full(&self) -> bool {
        self.turn_is_used_by(self.proposed_and_open().0 as u64)
    }

    /// Whether the view before was left because its turn was over.
    pub(super) const fn was_whole_turn(&self) -> bool {
        self.turns.whole
    }

    /// Asks for the next leader as soon as the turn is over. [mod_smart L150]
    pub(super) fn end_turn(&mut self, out: &mut Effects) {
        if self.turns.over.is_none() && self.turn_is_over() {
            self.turns.over = Some(self.now);
            self.ask_for_view(out);
        }
    }

    /// The view for which to ask. [mod_smart L150-L151]
    pub(super) fn view_after(&self, why: Complaint) -> View {
        let next = self.view.next();
        let stuck = self.turns.over.is_some_and(|over| self.now.since(over) >= self.config.repeat);
        if why != Complaint::Turn || stuck {
            return next;
        }
        let round = self.voters.len() as u64;
        let able = |view: &View| !self.turns.passed_over.contains(&self.leader_of(*view));
        (1..=round).map(|step| self.view.plus(step)).find(able).unwrap_or(next)
    }

    /// A view ends. Who only lacks slots, or joined others, blames nobody. [mod_smart L152]
    pub(super) fn note_turn(&mut self) {
        let leader = self.leader();
        self.turns.over = None;
        self.turns.whole = self.turn_is_over();
        let why = self.complaint().filter(|why| *why != Complaint::Leaves && self.config.turn_slots > 0);
        if why.is_none() {
            return;
        }
        self.turns.passed_over.retain(|id| *id != leader);
        if !self.turns.whole {
            self.turns.passed_over.push_back(leader);
        }
        while !self.turns.is_bounded(self.quorums.f()) {
            self.turns.passed_over.pop_front();
        }
    }
}

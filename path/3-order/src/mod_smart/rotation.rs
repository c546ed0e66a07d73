//! Leaders that rotate: each leads for so many slots, then all ask for the next one.
//!
//! A shift is a view: what makes one leader follow another safely is there already, and costs a few messages for each shift, not for each
//! slot. Nobody has to believe the leader that its shift is over, since all count. Those whose views failed last are passed over, f at most,
//! each replica by what it saw itself: they would cost a time-out in every round. Where replicas differ in whom, they join one another
//! as they do in complaints. [mod_smart L149-L152]
//!
//! Source of the idea: Veronese, Correia, Bessani and Lung, "Spin One's Wheels? Byzantine Fault Tolerance with a Spinning Primary", SRDS
//! 2009, which rotates with every slot and needs no messages for it. docs/decisions/0023-rotation-by-views.md.
//!
//! Tests: tests/rotation.rs, tests/chaos.rs.

use super::{ModSmart, Phase};
use crate::Effects;
use quorate_types::{ReplicaId, Time, View};
use quorate_wire::mod_smart::Complaint;
use std::collections::VecDeque;

/// How this replica sees whose shift it is.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    /// Since when the shift of this view is over.
    over: Option<Time>,
    /// Whether the view before this one was a whole shift.
    whole: bool,
    /// Those whose views failed, the last one last.
    passed_over: VecDeque<ReplicaId>,
}

impl Rotation {
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
    fn shift_is_used_by(&self, slots: u64) -> bool {
        let Phase::Normal { base, .. } = &self.phase else { return false };
        let most = self.config.rotate_after;
        most > 0 && self.voters.len() > 1 && slots.saturating_add(self.decided().next().since(*base)) >= most
    }

    /// All that this view's leader may lead is decided. [mod_smart L149]
    pub(super) fn shift_is_over(&self) -> bool {
        // Whoever lacks slots counts fewer of them.
        self.shift_is_used_by(0)
    }

    /// Whether the leader may propose no more than it did. [mod_smart L149]
    pub(super) fn shift_is_full(&self) -> bool {
        self.shift_is_used_by(self.proposed_and_open().0 as u64)
    }

    /// Whether the view before was left because its shift was over.
    pub(super) const fn was_whole_shift(&self) -> bool {
        self.rotation.whole
    }

    /// Asks for the next leader as soon as the shift is over. [mod_smart L150]
    pub(super) fn end_shift(&mut self, out: &mut Effects) {
        if self.rotation.over.is_none() && self.shift_is_over() {
            self.rotation.over = Some(self.now);
            self.ask_for_view(out);
        }
    }

    /// The complaint at the end of a shift. Who leads is let go at once, also by those that do not rotate. [mod_smart L150]
    pub(super) fn rotates(&self) -> Option<Complaint> {
        let mine = self.leader() == self.config.me;
        self.shift_is_over().then_some(if mine { Complaint::Leaves } else { Complaint::Rotation })
    }

    /// The view for which to ask. [mod_smart L150-L151]
    pub(super) fn view_after(&self, why: Complaint) -> View {
        let next = self.view.next();
        let fresh = self.rotation.over.is_some_and(|over| self.now.since(over) < self.config.repeat);
        if Some(why) != self.rotates() || !fresh {
            return next;
        }
        let round = self.voters.len() as u64;
        let able = |view: &View| !self.rotation.passed_over.contains(&self.leader_of(*view));
        (1..=round).map(|step| self.view.plus(step)).find(able).unwrap_or(next)
    }

    /// A view ends. Who only lacks slots, or joined others, blames nobody. [mod_smart L152]
    pub(super) fn note_shift(&mut self) {
        let leader = self.leader();
        self.rotation.over = None;
        self.rotation.whole = self.shift_is_over();
        let blames = self.complaint().is_some_and(|why| why != Complaint::Leaves);
        if self.config.rotate_after == 0 || !(self.rotation.whole || blames) {
            return;
        }
        self.rotation.passed_over.retain(|id| *id != leader);
        if !self.rotation.whole {
            self.rotation.passed_over.push_back(leader);
        }
        while !self.rotation.is_bounded(self.quorums.f()) {
            self.rotation.passed_over.pop_front();
        }
    }
}

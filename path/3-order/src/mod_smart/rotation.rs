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
use crate::mod_smart::message::Complaint;
use quorate_types::{ReplicaId, Slot, Time, View, planted};
use std::collections::VecDeque;

/// For so many whole shifts of others somebody leads none, next time for twice as many; so that who is well again is back at some time.
const PASSED_FIRST: u32 = 64;
const PASSED_MAX: u32 = 1 << 14;

/// Somebody whose view failed.
#[derive(Clone, Copy, Debug)]
struct PassedOver {
    who: ReplicaId,
    /// For so many shifts from now on, and from when it failed.
    left: u32,
    of: u32,
}

/// What is known of the view before.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    /// Its first slot, if it began here.
    begun: Option<Slot>,
    /// This replica complained of it.
    failed: bool,
    /// Its leader gave its office up.
    left: bool,
}

/// How this replica sees whose shift it is.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    /// Since when the shift of this view is over.
    over: Option<Time>,
    /// Whether the view before this one was a whole shift, as far as was known when this one was entered.
    whole: bool,
    before: Before,
    /// Those whose views failed, the last one last.
    passed_over: VecDeque<PassedOver>,
}

impl Rotation {
    /// Others vote from now on, and nothing failed.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    fn passes_over(&self, who: ReplicaId) -> bool {
        let passed = self.passed_over.iter().any(|passed| passed.who == who && passed.left > 0);
        passed && !planted("smart-all-have-shifts")
    }

    /// Somebody led a whole shift.
    fn led(&mut self, who: ReplicaId) {
        self.passed_over.retain(|passed| passed.who != who);
        self.passed_over.iter_mut().for_each(|passed| passed.left = passed.left.saturating_sub(1));
    }

    fn failed(&mut self, who: ReplicaId, f: u32) {
        let before = self.passed_over.iter().find(|passed| passed.who == who).map(|passed| passed.of);
        let of = before.map_or(PASSED_FIRST, |of| of.saturating_mul(2).min(PASSED_MAX));
        self.passed_over.retain(|passed| passed.who != who);
        self.passed_over.push_back(PassedOver { who, left: of, of });
        while !self.is_bounded(f) {
            self.passed_over.pop_front();
        }
    }

    pub(super) fn is_bounded(&self, f: u32) -> bool {
        self.passed_over.len() <= f as usize
    }
}

impl ModSmart {
    /// So many slots of this view are decided, or, with what is on its way, will be.
    fn shift_is_used_by(&self, slots: u64) -> bool {
        let Phase::Normal { base, .. } = &self.office.phase else { return false };
        let most = self.config.rotate_after;
        most > 0
            && self.members.voters.len() > 1
            && slots.saturating_add(self.decided().next().since(*base)) >= most
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

    /// Whether the view before was left because its shift was over, as far as was known on entering this one.
    pub(super) const fn was_whole_shift(&self) -> bool {
        self.rotation.whole
    }

    /// Asks for the next leader as soon as the shift is over. [mod_smart L150]
    pub(super) fn end_shift(&mut self, out: &mut Effects) {
        if self.rotation.over.is_none() && self.shift_is_over() {
            self.rotation.over = Some(self.life.now);
            // Whom an operator wanted to lead waits for its shift.
            self.stops.leaving = None;
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
        let next = self.office.view.next();
        let fresh = self.rotation.over.is_some_and(|over| self.life.now.since(over) < self.config.repeat);
        if Some(why) != self.rotates() || !fresh {
            return next;
        }
        let round = self.members.voters.len() as u64;
        let able = |view: &View| !self.rotation.passes_over(self.leader_of(*view));
        (1..=round).map(|step| self.office.view.plus(step)).find(able).unwrap_or(next)
    }

    /// A view ends, and this one is entered. Who only lacks slots, or joined others, blames nobody. [mod_smart L152]
    pub(super) fn note_shift(&mut self, left: bool, entered: View) {
        let blames =
            self.complaint().is_some_and(|why| !matches!(why, Complaint::Leaves | Complaint::Rotation));
        let over = self.shift_is_over() || self.stops.say_rotates(entered, self.members.trust.truth());
        let begun = match &self.office.phase {
            Phase::Normal { base, .. } => Some(*base),
            Phase::Syncing => None,
        };
        let rotates = self.config.rotate_after > 0;
        self.rotation.over = None;
        self.rotation.whole = rotates && over;
        self.rotation.before = Before { begun, failed: blames && !self.shift_is_over(), left };
        if !rotates {
            return;
        }
        let (leader, f) = (self.leader(), self.members.trust.faults());
        if self.rotation.whole {
            self.watch.shift_was_whole();
            self.keep_rates();
            self.rotation.led(leader);
        } else if blames {
            self.rotation.failed(leader, f);
        }
    }

    /// Whether nothing failed before this view: its first slot tells all alike how much was decided in the one before, also those who did not
    /// see that yet. Who does not know when that began does not know better, and blames nobody. [mod_smart L153]
    pub(super) fn follows_whole_shift(&self) -> bool {
        let Phase::Normal { base, .. } = &self.office.phase else { return false };
        let Before { begun, failed, left } = self.rotation.before;
        let enough = |begun: Slot| base.since(begun) >= self.config.rotate_after;
        self.config.rotate_after > 0 && (left || begun.map_or(!failed, enough))
    }
}

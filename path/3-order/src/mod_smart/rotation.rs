//! Leaders that rotate: each leads a number of slots, then all members ask for the next one.
//!
//! A shift is a view. The change of views, which already makes it safe for one leader to follow another, costs a few messages for each
//! shift, not for each slot. Nobody has to believe the leader that its shift is over, since all members count slots. Leaders whose views
//! failed last are passed over, at most f of them, since each would cost a time-out in every round. Each replica decides that by what it
//! saw itself; where replicas differ, they join one another as they do in complaints. [mod_smart L149-L152]
//!
//! Source of the idea: Veronese, Correia, Bessani and Lung, "Spin One's Wheels? Byzantine Fault Tolerance with a Spinning Primary", SRDS
//! 2009, which rotates with every slot and needs no messages for it. docs/decisions/0023-rotation-by-views.md.
//!
//! Tests: tests/parts.rs, tests/rotation.rs, tests/chaos.rs.

use super::core::Core;
use super::office::Phase;
use crate::mod_smart::message::Complaint;
use quorate_types::{ReplicaId, Slot, Time, View, planted};
use std::collections::VecDeque;

/// A leader that failed leads none of the next shifts of others: this many whole ones, and next time twice as many. So a leader that
/// recovered is back after a while.
const PASSED_FIRST: u32 = 64;
const PASSED_MAX: u32 = 1 << 14;

/// A member whose view failed.
#[derive(Clone, Copy, Debug)]
struct PassedOver {
    who: ReplicaId,
    /// How many more shifts it is passed over, and how many there were when it failed.
    left: u32,
    of: u32,
}

/// How the view before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// This replica complained about its leader.
    pub(super) blames: bool,
    /// This many members asked for the next view because its shift was over.
    pub(super) rotates: bool,
    /// Its leader gave up its office.
    pub(super) left: bool,
}

/// What is known of the view before.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    /// Its first slot, if it began here.
    begun: Option<Slot>,
    /// This replica complained about its leader.
    failed: bool,
    /// Its leader gave up its office.
    left: bool,
}

/// What this replica knows of shifts and failed leaders.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    /// When the shift of this view ended.
    over: Option<Time>,
    /// Whether the view before this one was a whole shift, as far as was known when this view was entered.
    whole: bool,
    before: Before,
    /// The members whose views failed, the last one last.
    passed_over: VecDeque<PassedOver>,
}

impl Rotation {
    /// The members changed; nothing failed among the new ones.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    fn passes_over(&self, who: ReplicaId) -> bool {
        let passed = self.passed_over.iter().any(|passed| passed.who == who && passed.left > 0);
        passed && !planted("smart-all-have-shifts")
    }

    /// A member led a whole shift.
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

    /// The shift of this view may be over. Returns whether it ended just now. [mod_smart L150]
    pub(super) fn ends(&mut self, core: &Core) -> bool {
        let ends = self.over.is_none() && is_over(core);
        if ends {
            self.over = Some(core.now());
        }
        ends
    }

    /// Whether the view before was left because its shift was over, as far as was known when this view was entered.
    pub(super) const fn was_whole(&self) -> bool {
        self.whole
    }

    /// The view to ask for. [mod_smart L150-L151]
    pub(super) fn view_after(&self, why: Complaint, core: &Core) -> View {
        let (view, next) = (core.office.view(), core.office.view().next());
        let fresh = self.over.is_some_and(|over| core.now().since(over) < core.config.repeat);
        if Some(why) != complaint(core) || !fresh {
            return next;
        }
        let round = core.members.voters().len() as u64;
        let able = |view: &View| !self.passes_over(core.leader_of(*view));
        (1..=round).map(|step| view.plus(step)).find(able).unwrap_or(next)
    }

    /// The present view ends. A replica that only lacks slots, or joined others, blames nobody. Returns whether the view was a whole shift.
    /// [mod_smart L152]
    pub(super) fn note(&mut self, ended: Ended, core: &Core) -> bool {
        let over = is_over(core);
        let begun = match core.office.phase() {
            Phase::Normal { base, .. } => Some(*base),
            Phase::Syncing => None,
        };
        let rotates = core.config.rotate_after > 0;
        self.over = None;
        self.whole = rotates && (over || ended.rotates);
        self.before = Before { begun, failed: ended.blames && !over, left: ended.left };
        if self.whole {
            self.led(core.leader());
        } else if rotates && ended.blames {
            self.failed(core.leader(), core.members.trust().faults());
        }
        self.whole
    }

    /// Whether nothing failed before this view: its leader gave up its office, or led a whole shift. The view's first slot tells all members
    /// alike how many slots were decided in the view before, even members that did not see those decisions yet. A replica that does not know
    /// when the view before began blames nobody. [mod_smart L153]
    pub(super) fn follows_no_failure(&self, core: &Core) -> bool {
        let Phase::Normal { base, .. } = core.office.phase() else { return false };
        let Before { begun, failed, left } = self.before;
        let most = core.config.rotate_after;
        left || (most > 0 && begun.map_or(!failed, |begun| base.since(begun) >= most))
    }
}

/// Whether this many slots of this view are decided, or will be with those under way.
fn is_used_by(core: &Core, slots: u64) -> bool {
    let Phase::Normal { base, .. } = core.office.phase() else { return false };
    let most = core.config.rotate_after;
    // Each view that begins with few members waits for the oracle, so a leader that needs them stays. A liar might make itself need them.
    let stays = !core.may_lie() && !core.granted.of(core.office.view()).is_empty();
    most > 0
        && !stays
        && core.members.voters().len() > 1
        && slots.saturating_add(core.decided().next().since(*base)) >= most
}

/// Whether all slots that this view's leader may lead are decided. [mod_smart L149]
pub(super) fn is_over(core: &Core) -> bool {
    // A replica that lacks slots counts fewer of them.
    is_used_by(core, 0)
}

/// Whether the leader, with this many proposed slots still open, may propose no more. [mod_smart L149]
pub(super) fn is_full(core: &Core, proposed: usize) -> bool {
    is_used_by(core, proposed as u64)
}

/// The complaint at the end of a shift. A leader that gives up its office is let go at once, even by members that do not rotate. [mod_smart
/// L150]
pub(super) fn complaint(core: &Core) -> Option<Complaint> {
    is_over(core).then(|| if core.is_leader() { Complaint::Leaves } else { Complaint::Rotation })
}

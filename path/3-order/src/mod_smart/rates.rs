//! With Byzantine faults: finds a leader that is slower than the group could be. Such a leader delays everything, or proposes little of
//! what waits, but stays below what `watch` notices.
//!
//! The group's speed is measured here, from taking a proposal to its decision. The leader adds the time that requests waited although it
//! could have proposed them; where that exceeds a limit, time is late. A replica complains about a leader if more than a quarter of the
//! time in which anything waits is late. A replica that complains alone, because its own link is slow, deposes nobody. [mod_smart
//! L140-L147]
//!
//! INV-SMART-11: the remembered measurements are bounded. Tests: tests/parts.rs, tests/rates.rs.

use super::core::Core;
use crate::Waited;
use quorate_types::{ReplicaId, Slot, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// How many of the last decisions tell what the group can do.
const SPANS_MAX: usize = 32;
/// Fewer decisions tell nothing.
const SPANS_MIN: usize = 4;
/// A leader may add this many times what the group needs. [`PARTS`] comes on top.
const FACTOR: u64 = 8;
/// A leader may also add this part of the time-out.
const PARTS: u64 = 8;
/// This part of the time in which something waits may be late.
const SHARE: u64 = 4;
/// This many decisions are remembered, to see how many of them left a request out.
const DECIDED_MAX: usize = 256;
/// A request that arrives here while a slot is under way may reach the leader only during the next slot. [mod_smart L141]
const PASSED: usize = 2;
/// Late time as long as one time-out is forgotten in this many time-outs. In that time a doubled limit also comes back by one step.
const CALM: u64 = 200;
/// Limits double this often at most.
const DOUBLINGS_MAX: u32 = 16;

/// The proposal that was taken last.
#[derive(Clone, Copy, Debug)]
struct Took {
    slot: Slot,
    at: Time,
    full: bool,
}

/// The measurements. All times are of this replica's own clock.
#[derive(Debug, Default)]
pub(super) struct Rates {
    /// When the view began here. The leader is not to blame for anything before.
    began: Time,
    took: Option<Took>,
    /// How long the last slots took from taking the proposal to its decision.
    spans: VecDeque<Span>,
    /// When a slot was decided last.
    decided: Time,
    /// When those slots of this view were decided whose batches had room left.
    roomy: VecDeque<Time>,
    /// The waiting time before this moment is counted already; the next field says the same of late time.
    waited_until: Time,
    late_until: Time,
    /// Late time beyond the part that is allowed.
    late: Span,
    /// The same, of leaders whose shifts were whole; they begin their next shift with it.
    kept: BTreeMap<ReplicaId, Span>,
    /// Whether the leader was found slow.
    slow: bool,
    /// How many views ended because the leader was slow, without enough calm between.
    streak: u32,
    calm_since: Time,
    looked: Time,
}

impl Rates {
    /// How long the group needs for a slot, by its quicker slots: a leader that lies can delay some slots, but can make none quicker.
    /// [mod_smart L140]
    fn quick(&self) -> Option<Span> {
        let mut spans: Vec<Span> = self.spans.iter().copied().collect();
        spans.sort_unstable();
        spans.get(spans.len() / 8).copied().filter(|_| spans.len() >= SPANS_MIN)
    }

    /// Since when the leader could have proposed what waited. Requests that came while slots were under way, or batches sealed, wait for
    /// those: for [`PASSED`] slots with room left, and for all full ones. [mod_smart L141]
    fn could_since(&self, waited: Waited) -> Time {
        let after = self.roomy.partition_point(|at| *at <= waited.since);
        let passed = self.roomy.get(after + PASSED - 1).copied();
        let free = passed.filter(|_| !waited.full).unwrap_or(self.decided);
        waited.since.max(free).max(self.began)
    }

    /// Counts the time from `since` to `now`, in which something waited that the leader could have proposed; at most `most` of it.
    /// [mod_smart L143-L144]
    fn count(&mut self, since: Time, now: Time, limit: Span, most: Span) {
        let since = since.max(Time::from_nanos(now.nanos().saturating_sub(most.nanos())));
        let waited = now.since(since.max(self.waited_until));
        let late = now.since(since.plus(limit).max(self.late_until));
        self.waited_until = now;
        if late > Span::ZERO {
            self.late_until = now;
        }
        self.late = self.late.plus(late).minus(waited.divided(SHARE));
    }

    /// How much a leader may add to what the group needs, if that is known. The limit doubles each time all leaders in a row were too slow,
    /// since then the cause is something else. [mod_smart L142, L146]
    pub(super) fn limit(&self, core: &Core) -> Option<Span> {
        let base = self.quick()?.times(FACTOR).plus(core.config.timeout.divided(PARTS));
        let rows = self.streak / core.members.voters().len().max(1) as u32;
        Some(base.times(1 << rows.min(DOUBLINGS_MAX)))
    }

    /// A proposal was taken whose requests waited for this long here. The leader does not measure itself.
    pub(super) fn take(&mut self, slot: Slot, waited: Option<Waited>, core: &Core) {
        if !core.may_lie() {
            return;
        }
        let (now, full) = (core.now(), waited.is_some_and(|waited| waited.full));
        self.took = Some(Took { slot, at: now, full });
        let Some((waited, limit)) = waited.zip(self.limit(core)) else { return };
        if !core.is_leader() {
            let since = self.could_since(waited);
            let most = limit.times(4).max(core.config.timeout);
            self.count(since, now, limit, most);
        }
    }

    /// A slot is decided. [mod_smart L140-L141]
    pub(super) fn decide(&mut self, slot: Slot, now: Time) {
        self.decided = now;
        let took = self.took.take().filter(|took| took.slot == slot);
        let Some(Took { at, full, .. }) = took else { return };
        push(&mut self.spans, now.since(at), SPANS_MAX);
        if !full {
            push(&mut self.roomy, now, DECIDED_MAX);
        }
        let waited = now.since(at.max(self.waited_until));
        self.late = self.late.minus(waited.divided(SHARE));
        self.waited_until = now;
    }

    /// Another view was entered, with this leader.
    pub(super) fn enter(&mut self, now: Time, leader: ReplicaId) {
        if self.slow {
            self.streak += 1;
        }
        (self.took, self.late, self.slow) = (None, Span::ZERO, false);
        self.roomy.clear();
        (self.waited_until, self.late_until, self.calm_since) = (now, now, now);
        self.begin(now);
        self.late = self.kept.remove(&leader).unwrap_or_default();
    }

    /// A leader ends its shift and will lead again. It keeps its late time, so that it does not begin with none. [mod_smart L144]
    pub(super) fn keep(&mut self, leader: ReplicaId) {
        if !self.slow {
            self.kept.insert(leader, self.late);
        }
    }

    /// Whether the leader is found slow. [mod_smart L144]
    pub(super) fn is_slow(&self, core: &Core) -> bool {
        self.slow && !core.is_leader()
    }

    /// What binds the view is known, so votes are cast from now on.
    pub(super) fn begin(&mut self, now: Time) {
        (self.began, self.decided) = (now, now);
    }

    /// Time passes. [mod_smart L144, L147]
    pub(super) fn look(&mut self, now: Time, timeout: Span) {
        let passed = now.since(std::mem::replace(&mut self.looked, now));
        // A leader that was slow for long can soon show that it is not any more.
        self.late = self.late.minus(passed.divided(CALM)).min(timeout.times(3));
        self.slow = self.late > if self.slow { timeout } else { timeout.times(2) };
        if self.slow {
            self.calm_since = now;
        }
        if now.since(self.calm_since) >= timeout.times(CALM) {
            self.calm_since = now;
            self.streak = self.streak.saturating_sub(1);
        }
    }

    /// The members changed, so the remembered leaders are dropped.
    pub(super) fn forget_leaders(&mut self) {
        self.kept.clear();
    }

    pub(super) fn is_bounded(&self, members: usize) -> bool {
        self.kept.len() <= members && self.spans.len() <= SPANS_MAX && self.roomy.len() <= DECIDED_MAX
    }
}

fn push<T>(list: &mut VecDeque<T>, last: T, most: usize) {
    list.push_back(last);
    if list.len() > most {
        list.pop_front();
    }
}

//! Which instance proposes no-ops, and how far a leader may run ahead. docs/protocols/merge.md L9-L16.
//!
//! What must be filled is remembered as one place of the global log, the furthest: everything up to there must be decided. That place only
//! grows, and a place before the cursor asks for nothing, so a cluster at rest is silent. No-ops never cause no-ops. One no-op per instance
//! is under way at a time; what is wanted meanwhile goes into the next no-op, which grows with load as batches do. [`Proposer`] is the
//! leader's side.
//! INV-MERGE-6. Tests: tests/merge/fill.rs, tests/merge/cluster.rs.

use crate::generation::{Place, SLOT_MAX};
use crate::local::{Local, Stay};
use crate::merge::Merge;
use crate::propose::{Bounds, Proposer};
use quorate_types::{InstanceId, Slot};

/// The leader of an instance, as far as this replica knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leader {
    /// No replica leads, or it is not known which.
    Nobody,
    /// This replica.
    Here,
    /// Another replica.
    Elsewhere,
}

impl<T> Merge<T> {
    /// An instance has another leader, or the same one in another view. The leader that was asked before has forgotten the question.
    /// [merge L15]
    pub fn leader(&mut self, instance: InstanceId, leader: Leader) {
        let Ok(at) = self.index(instance) else { return };
        let local = &mut self.locals[at];
        local.lead = (leader == Leader::Here).then(Proposer::default);
        local.asked = 0;
    }

    /// The connection to an instance's leader broke, so a question to it may be lost. It is asked again.
    pub fn ask_again(&mut self, instance: InstanceId) {
        if let Ok(at) = self.index(instance) {
            self.locals[at].asked = 0;
        }
    }

    /// The leader here was handed everything that was decided in its instance before its view, so it may propose now. [merge L12]
    pub fn settled(&mut self, instance: InstanceId) {
        let Some((at, bounds)) = self.led(instance) else { return };
        let Some(lead) = self.locals[at].lead.as_mut().filter(|lead| !lead.is_settled()) else { return };
        lead.settle(&bounds);
        let early = self.wanted.take_early();
        self.asked(early);
    }

    /// What the leader of an instance must know of the merge. A leader on another lane is told whenever it changes.
    pub fn bounds(&self, instance: InstanceId) -> Option<Bounds> {
        self.index(instance).ok().map(|at| self.bounds_at(at))
    }

    fn bounds_at(&self, at: usize) -> Bounds {
        let local = &self.locals[at];
        let window = self.course.delivered().number().saturating_add(self.config.window).min(SLOT_MAX);
        let last = match local.stay {
            Stay::Here => window,
            Stay::Leaves(border) => window.min(border),
            Stay::Away => 0,
        };
        Bounds {
            decided: Slot::new(local.placed),
            last: Slot::new(last),
            border: self.course.border().map(Slot::new),
            wanted: Slot::new(self.wanted.needs(at)),
        }
    }

    /// The index and bounds of an instance that is led here.
    fn led(&self, instance: InstanceId) -> Option<(usize, Bounds)> {
        let at = self.index(instance).ok()?;
        self.locals[at].lead.map(|_| (at, self.bounds_at(at)))
    }

    /// How many more slots the leader of an instance here may propose. [merge L12]
    pub fn room(&self, instance: InstanceId) -> u64 {
        let led = self.led(instance);
        led.map_or(0, |(at, bounds)| self.locals[at].lead.map_or(0, |lead| lead.room(&bounds)))
    }

    /// Whether batches of other instances wait for the next proposal of an instance that is led here.
    pub fn is_wanted(&self, instance: InstanceId) -> bool {
        let led = self.led(instance);
        led.is_some_and(|(at, bounds)| self.locals[at].lead.is_some_and(|lead| lead.is_wanted(&bounds)))
    }

    /// Whether others wait for more slots of an instance led here than may be proposed. Then they executed what this replica did not. If
    /// everyone waits for the same leader, no replica wants that much, and another leader could propose no more either.
    pub fn lags(&self, instance: InstanceId) -> bool {
        let Some((at, bounds)) = self.led(instance) else { return false };
        let wanted = self.wanted.needs_with_early(at);
        let stuck =
            |lead: Proposer| lead.is_settled() && lead.room(&bounds) == 0 && lead.tail().number() < wanted;
        self.locals[at].lead.is_some_and(stuck)
    }

    /// Work waits for an instance led here, whose window is used up although nothing is under way. What the window waits for must be
    /// filled. Usually the batches that used up the window ask for that already; but these may have been no-ops alone, for a batch that its
    /// leader lost. [merge L10]
    pub fn waits_for_room(&mut self, instance: InstanceId) {
        let Some((at, bounds)) = self.led(instance) else { return };
        let stuck =
            |lead: Proposer| lead.is_settled() && lead.room(&bounds) == 0 && lead.tail() <= bounds.decided;
        if self.locals[at].lead.is_some_and(stuck) {
            let last = self.course.count() - 1;
            self.wanted.want(Place::at(self.course.slot(), last), true);
        }
    }

    /// The leader here proposes a batch. The batch asks for filling at once, so that batch and no-ops are decided in parallel. Returns the
    /// slot that the batch gets, if this leader stays. Call [`Merge::room`] before.
    pub fn proposed(&mut self, instance: InstanceId) -> Option<Slot> {
        let (at, bounds) = self.led(instance)?;
        let slot = self.locals[at].lead.as_mut()?.propose(&bounds);
        self.wanted.want(Place::at(slot.number(), at), true);
        Some(slot)
    }

    /// A leader of this replica on another lane has proposed so far, and a batch for this slot, if it proposed one.
    pub fn proposes_apart(&mut self, instance: InstanceId, proposer: Proposer, batch: Option<Slot>) {
        let Ok(at) = self.index(instance) else { return };
        if let Some(slot) = batch {
            self.wanted.want(Place::at(slot.number(), at), true);
        }
        let placed = self.locals[at].placed;
        let Some(lead) = &mut self.locals[at].lead else { return };
        let settles = proposer.is_settled() && !lead.is_settled();
        *lead = proposer;
        // It may not know of everything that was decided meanwhile.
        lead.decided(Slot::new(placed));
        if settles {
            let early = self.wanted.take_early();
            self.asked(early);
        }
    }

    /// The target of the no-op that the leader of an instance here should propose now. The host proposes it at once, after the batches that
    /// it has. [merge L10, L11, L14]
    pub fn fill(&mut self, instance: InstanceId) -> Option<Slot> {
        let (at, bounds) = self.led(instance)?;
        let target = self.locals[at].lead.as_mut()?.fill(&bounds)?;
        self.counts.fills += 1;
        Some(target)
    }

    /// Whether decided batches, a change, or a read known here need a no-op with this target. With commission faults, a replica does not
    /// vote for a no-op before that.
    pub fn is_needed(&self, instance: InstanceId, target: Slot) -> bool {
        self.index(instance).is_ok_and(|at| target.number() <= self.wanted.needs(at))
    }

    /// Names each instance that is led elsewhere and lacks what is waited for here, with the place up to which everything is wanted. The
    /// host sends that to the leader, once for all instances that it leads. [merge L14]
    pub fn asks(&mut self, mut ask: impl FnMut(InstanceId, Place)) {
        let (wanted, counts) = (self.wanted, &mut self.counts);
        wanted.ask(self.course.cursor(), &mut self.locals, |at, place| {
            counts.asks += 1;
            ask(InstanceId::new(at as u16 + 1), place);
        });
    }

    /// Another replica wants everything up to this place. A leader that can not propose so far has not led for long enough, or does not
    /// lead any more; it looks again when it is settled. [merge L15]
    pub fn asked(&mut self, place: Place) {
        let settled = |local: &&Local<T>| local.lead.is_some_and(|lead| lead.is_settled());
        let led = self.locals.iter().filter(settled).map(|local| local.placed).max();
        // The asking replica waits at most one slot behind a window that begins where our own instance is decided.
        let last = led.map_or(0, |placed| placed.saturating_add(self.config.window).saturating_add(1));
        self.wanted.asked(place, last);
    }
}

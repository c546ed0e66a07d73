//! The stand-in for a protocol that has a lane of its own. The main lane steps and asks the stand-in as it would the protocol. Inputs wait
//! until the protocol's lane has a turn, and effects wait until the main lane hears of that turn. In between the main lane knows what the
//! protocol said last.
//!
//! INV-NODE-11: the main lane never looks into a protocol while its lane has something to take. Tests: apart/tests.rs, check/sim.

use quorate_order::{Anchor, Effects, Input, Order, Restored, Standing, Status, Stored};
use quorate_types::{Halt, RecordId, Slot, Time};
use std::collections::VecDeque;

/// What the main lane knows of a protocol.
#[derive(Debug)]
struct Known {
    standing: Standing,
    status: Status,
    keep_from: Option<RecordId>,
}

impl Known {
    fn of(order: &dyn Order) -> Self {
        Self { standing: order.standing(), status: order.status(), keep_from: order.keep_from() }
    }
}

/// One turn of the lane.
#[derive(Debug)]
struct Turn {
    effects: Effects,
    known: Known,
    /// How many proposals it took.
    proposals: usize,
}

/// The stand-in of a protocol; see the module.
#[derive(Debug)]
pub(super) struct StandIn {
    order: Box<dyn Order>,
    /// What is known of the protocol once it has started. From then on only its lane steps it.
    known: Option<Known>,
    /// Inputs that the lane has not taken yet.
    told: VecDeque<Input>,
    /// Whether the lane was asked to take them.
    asked: bool,
    /// The sizes of proposed batches that are not yet part of what is known.
    proposed: VecDeque<usize>,
    /// Turns of the lane that the main lane has not heard of yet.
    turns: VecDeque<Turn>,
}

impl StandIn {
    /// A stand-in for a protocol that has not started.
    pub(super) fn new(order: Box<dyn Order>) -> Self {
        Self {
            order,
            known: None,
            told: VecDeque::new(),
            asked: false,
            proposed: VecDeque::new(),
            turns: VecDeque::new(),
        }
    }

    /// Whether the lane has something to take and was not asked yet.
    pub(super) fn asks(&mut self) -> bool {
        !self.told.is_empty() && !std::mem::replace(&mut self.asked, true)
    }

    /// A turn of the lane: the protocol takes its inputs, if there are any.
    pub(super) fn take_turn(&mut self, now: Time) {
        self.asked = false;
        if self.told.is_empty() {
            return;
        }
        let (mut effects, mut proposals) = (Effects::new(), 0);
        for input in self.told.drain(..) {
            proposals += usize::from(matches!(input, Input::Propose(_)));
            self.order.step(now, input, &mut effects);
        }
        self.turns.push_back(Turn { effects, known: Known::of(&*self.order), proposals });
    }

    /// The main lane hears the lane's turns: their effects are added to the list. Whether there was a turn.
    pub(super) fn hear(&mut self, out: &mut Effects) -> bool {
        let any = !self.turns.is_empty();
        for Turn { mut effects, known, proposals } in self.turns.drain(..) {
            self.proposed.drain(..proposals);
            self.known = Some(known);
            effects.drain().for_each(|effect| out.push(effect));
        }
        any
    }

    /// Where the protocol stands, as its lane knows it.
    pub(super) fn own_status(&self) -> Status {
        self.order.status()
    }

    /// The protocol itself, while its lane has nothing to take.
    fn here(&self) -> &dyn Order {
        assert!(
            self.told.is_empty(),
            "INV-NODE-11 the main lane looks into a protocol while its lane steps it"
        );
        &*self.order
    }
}

impl Order for StandIn {
    fn restore_anchor(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        self.order.restore_anchor(slot, anchor)
    }
    fn restore_outdated(&mut self) {
        self.order.restore_outdated();
    }
    fn restore(&mut self, id: RecordId, record: Stored) -> Result<(), Halt> {
        self.order.restore(id, record)
    }
    fn restore_gap(&mut self, missing: u64) {
        self.order.restore_gap(missing);
    }
    fn restored(&self) -> Restored {
        self.here().restored()
    }
    fn covers(&self, slot: Slot, anchor: &Anchor) -> bool {
        self.here().covers(slot, anchor)
    }
    fn restore_installed(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        self.order.restore_installed(slot, anchor)
    }
    fn start(&mut self, now: Time, out: &mut Effects) {
        self.order.start(now, out);
        self.known = Some(Known::of(&*self.order));
    }
    fn step(&mut self, _: Time, input: Input, _: &mut Effects) {
        if let Input::Propose(batch) = &input {
            self.proposed.push_back(batch.bytes().len());
        }
        self.told.push_back(input);
    }
    fn deadline(&self) -> Option<Time> {
        self.told.is_empty().then(|| self.order.deadline()).flatten()
    }
    /// The protocol's standing as it will be when it has taken the proposed batches.
    fn standing(&self) -> Standing {
        let Some(known) = &self.known else { return self.order.standing() };
        let mut standing = known.standing;
        standing.in_flight += self.proposed.len();
        standing.in_flight_bytes += self.proposed.iter().sum::<usize>();
        standing
    }
    fn status(&self) -> Status {
        self.known.as_ref().map_or_else(|| self.order.status(), |known| known.status.clone())
    }
    fn anchor(&self, slot: Slot) -> Option<Anchor> {
        self.here().anchor(slot)
    }
    fn keep_from(&self) -> Option<RecordId> {
        self.known.as_ref().map_or_else(|| self.order.keep_from(), |known| known.keep_from)
    }
    fn invariants(&self, thorough: bool) {
        self.order.invariants(thorough);
    }
}

#[cfg(test)]
mod tests;

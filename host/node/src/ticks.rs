//! Deadlines of the service: when one passes and nothing else is ordered, the leader orders an empty batch that carries the time.
//!
//! Execution decides whether the deadline is reached: the batch's time may be that of another leader whose clock runs behind. While
//! batches are under way they carry the time themselves, so that a busy system orders nothing more for it.
//! Tests: `host/quorate/tests/deadlines.rs`.

use crate::effects::Effects;
use crate::merging::FIRST;
use crate::node::Node;
use quorate_types::{Span, Time};
use quorate_wire::{Batch, BatchHeader};

/// A batch that was not executed after so long is no reason to wait on: it may be lost.
const AGAIN: Span = Span::from_millis(200);

impl Node {
    /// Whether this replica would order a batch for the time alone: it leads, and nothing else is under way.
    fn may_tick(&self) -> bool {
        let instance = self.first();
        self.may_propose(FIRST)
            && instance.order.settled()
            && instance.order.in_flight().0 == 0
            && instance.admission.waiting_bytes() == 0
            && self.log.has_room()
    }

    /// When the service's deadline passes by this replica's extension of the agreed time, if it is this replica that says so.
    pub(crate) fn tick_at(&self) -> Option<Time> {
        let due = self.executor.next_deadline().filter(|_| self.may_tick())?;
        let (agreed, at) = self.clock;
        let passes = at.plus(due.since(agreed));
        // The one before was not executed yet.
        let before = self.turn.ticked.filter(|(time, _)| self.executor.time() < *time);
        Some(before.map_or(passes, |(_, since)| passes.max(since.plus(AGAIN))))
    }

    pub(crate) fn tick(&mut self, now: Time, out: &mut Effects) {
        if self.tick_at().is_none_or(|at| at > now) {
            return;
        }
        let (time, seed) = (self.propose_time(now), self.turn.draw());
        self.turn.ticked = Some((time, now));
        let mut bytes = Vec::new();
        Batch::begin(&mut bytes);
        let batch = Batch::seal(bytes, BatchHeader { time, seed, count: 0, border: false });
        self.propose_in(FIRST, now, batch, out);
    }
}

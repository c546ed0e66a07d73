//! Deadlines of the service: when one passes and nothing else is ordered, the leader orders an empty batch that carries the time.
//!
//! Execution decides whether the deadline is reached: the batch's time may be that of another leader whose clock runs behind. While
//! batches are under way they carry the time themselves, so that a busy system orders nothing more for it.
//! Tests: `host/quorate/tests/deadlines.rs`.

use crate::effects::Effects;
use crate::merging::FIRST;
use crate::node::Node;
use quorate_order::Input as OrderInput;
use quorate_types::{AgreedTime, Digest, Span, Time, planted};
use quorate_wire::Batch;

/// Without a batch for so long the time is ordered, as long as there is a deadline.
const EVERY: Span = Span::from_secs(5);
/// A batch that was not executed after so long is no reason to wait on: it may be lost.
const AGAIN: Span = Span::from_millis(200);

/// Clocks differ, and a leader may have taken its office a moment ago.
const GRACE: Span = Span::from_secs(1);

/// Under which name a deadline is watched: no request has it, since theirs are hashes.
fn name_of(due: AgreedTime) -> Digest {
    let mut name = [0; 32];
    name[..8].copy_from_slice(&due.nanos().to_le_bytes());
    Digest::new(name)
}

impl Node {
    /// Whether this replica would order a batch for the time alone: it leads, and nothing else is under way.
    fn may_tick(&self) -> bool {
        let instance = self.first();
        self.may_propose(FIRST)
            && instance.order.settled()
            && instance.order.in_flight().0 == 0
            && instance.admission.waiting_bytes() == 0
            && self.journal.log().has_room()
    }

    /// When the service's deadline passes by this replica's extension of the agreed time, if it is this replica that says so.
    pub(crate) fn tick_at(&self) -> Option<Time> {
        // In an idle cluster each start would lose the time since the last batch.
        let passes = self.clock.reaches(self.awaited().filter(|_| self.may_tick())?);
        // The one before was not executed yet.
        let before = self.turn.ticked.filter(|(time, _)| self.executor.time() < *time);
        Some(before.map_or(passes, |(_, since)| passes.max(since.plus(AGAIN))))
    }

    /// When whoever leads should order the time, if nothing else tells it: a deadline passes, or long nothing was ordered.
    fn awaited(&self) -> Option<AgreedTime> {
        let due = self.executor.next_deadline()?;
        Some(due.min(self.executor.time().plus(EVERY)))
    }

    /// When that has passed for so long that whoever leads has to be asked why. Where nobody lies a leader that lives orders it. Who waited for ten
    /// seconds would not trust its own clock any more, and vote for any time.
    pub(crate) fn overdue_at(&self) -> Option<Time> {
        if !self.may_lie() {
            return None;
        }
        let over = |before| self.executor.time() >= before || self.executor.next_deadline().is_none();
        match self.turn.overdue {
            Some(before) => over(before).then_some(self.now),
            None => self.awaited().map(|time| self.clock.reaches(time).plus(GRACE)),
        }
    }

    /// A deadline that nobody orders is waited for like a request of a client.
    pub(crate) fn watch_deadline(&mut self, now: Time, out: &mut Effects) {
        if self.overdue_at().is_none_or(|at| at > now) || planted("deadlines-unwatched") {
            return;
        }
        if let Some(before) = self.turn.overdue.take() {
            self.step_in(FIRST, now, OrderInput::Unwatch(name_of(before)));
        } else if let Some(time) = self.awaited() {
            self.turn.overdue = Some(time);
            self.step_in(FIRST, now, OrderInput::Watch(name_of(time)));
        }
        self.after_order(now, out);
    }

    pub(crate) fn tick(&mut self, now: Time, out: &mut Effects) {
        if self.tick_at().is_none_or(|at| at > now) {
            return;
        }
        let header = self.propose_header(now);
        self.turn.ticked = Some((header.time, now));
        let mut bytes = Vec::new();
        Batch::begin(&mut bytes);
        let batch = Batch::seal(bytes, header);
        self.propose_in(FIRST, now, batch, out);
    }
}

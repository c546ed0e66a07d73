//! Deadlines of the service: when one passes and nothing else is ordered, the leader orders an empty batch that carries the time.
//!
//! Execution decides whether the deadline is reached: the batch's time may be that of another leader whose clock runs behind. While
//! batches are under way they carry the time themselves, so that a busy system orders nothing more for it.
//! Tests: `host/quorate/tests/all/deadlines.rs`.

use crate::effects::Effects;
use crate::engine::Overdue;
use crate::merging::FIRST;
use crate::node::Node;
use quorate_order::Input as OrderInput;
use quorate_types::{AgreedTime, Digest, Time, planted};
use quorate_wire::Batch;

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
            && instance.standing().settled
            && instance.standing().in_flight == 0
            && instance.admission().waiting_bytes() == 0
            && self.journal.log().has_room()
    }

    /// When a batch is ordered for the time alone, if this replica does that.
    pub(crate) fn tick_at(&self) -> Option<Time> {
        self.may_tick().then(|| self.engine.tick_at()).flatten()
    }

    /// When whoever leads is asked why it does not order a deadline that passed.
    pub(crate) fn overdue_at(&self) -> Option<Time> {
        self.engine.overdue_at(self.now)
    }

    /// A deadline that nobody orders is waited for like a request of a client.
    pub(crate) fn watch_deadline(&mut self, now: Time, out: &mut Effects) {
        if self.overdue_at().is_none_or(|at| at > now) || planted("deadlines-unwatched") {
            return;
        }
        match self.engine.overdue() {
            Some(Overdue::Watch(time)) => self.step_in(FIRST, now, OrderInput::Watch(name_of(time))),
            Some(Overdue::Unwatch(time)) => self.step_in(FIRST, now, OrderInput::Unwatch(name_of(time))),
            None => {}
        }
        self.after_order(now, out);
    }

    pub(crate) fn tick(&mut self, now: Time, out: &mut Effects) {
        if self.tick_at().is_none_or(|at| at > now) {
            return;
        }
        let header = self.propose_header(now);
        self.engine.ticked(now, header.time);
        let mut bytes = Vec::new();
        Batch::begin(&mut bytes);
        let batch = Batch::seal(bytes, header);
        self.propose_in(FIRST, now, batch, out);
    }
}

//! Decided slots are handed on in order, each once between two installed checkpoints; what left the memory is read back first.
//!
//! Positions are those of the protocol's log: where each entry is a slot they are slots. INV-LEDGER-3. Tests: tests/delivery.rs.

use super::loads::Question;
use crate::{Effect, Effects};
use quorate_types::Slot;
use quorate_wire::Batch;

/// How far decided slots were handed on.
#[derive(Debug, Default)]
pub struct Delivery {
    /// The last position of the log that was handed on, and the last slot.
    position: u64,
    slot: Slot,
    /// What is being read back for what comes next.
    load: Option<Question>,
}

impl Delivery {
    /// The last position of the log that was handed on, or that a checkpoint holds.
    pub fn position(&self) -> u64 {
        self.position
    }
    /// The last slot that was handed on, or that a checkpoint holds.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// The entry at the next position is handed on: a batch is the next slot, anything else is none.
    pub fn hand_on(&mut self, batch: Option<Batch>, out: &mut Effects) {
        self.position += 1;
        if let Some(batch) = batch {
            self.slot = self.slot.next();
            out.push(Effect::Decided { slot: self.slot, batch });
        }
    }

    /// A checkpoint holds everything up to here: what follows is handed on next, also if that goes back.
    pub fn go_on_after(&mut self, position: u64, slot: Slot) {
        *self = Self { position, slot, load: None };
    }

    /// Whether what comes next is being read back.
    pub fn waits(&self) -> bool {
        self.load.is_some()
    }

    /// What comes next is asked for, as long as that is possible.
    pub fn wait_for(&mut self, question: Option<Question>) {
        assert!(
            question.is_none_or(|question| question.first == self.position + 1),
            "INV-LEDGER-3: delivery waits for what comes next"
        );
        self.load = question;
    }

    /// The question whose answer this is, if delivery waits for it.
    pub fn answered(&mut self, load: u64) -> Option<Question> {
        let question = self.load.take_if(|question| question.load == load)?;
        assert!(question.first == self.position + 1, "INV-LEDGER-3: delivery waits for what comes next");
        Some(question)
    }
}

//! Hands decided slots on in order, each once between two installed checkpoints. Batches that left memory are read back first.
//!
//! Positions are those of the protocol's log; where every entry of that log is a slot, they are slots. INV-LEDGER-3. Tests:
//! tests/delivery.rs.

use super::loads::Question;
use crate::{Effect, Effects};
use quorate_types::Slot;
use quorate_wire::Batch;

/// How far decided slots were handed on, and what delivery waits for.
#[derive(Debug, Default)]
pub struct Delivery {
    /// The last position of the log that was handed on, and the last slot.
    position: u64,
    slot: Slot,
    /// The question to the disk that delivery waits for.
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

    /// Hands on the entry at the next position: a batch is the next slot; an entry without a batch is no slot.
    pub fn hand_on(&mut self, batch: Option<Batch>, out: &mut Effects) {
        self.position += 1;
        if let Some(batch) = batch {
            self.slot = self.slot.next();
            out.push(Effect::Decided { slot: self.slot, batch });
        }
    }

    /// A checkpoint holds everything up to this position and slot. Delivery continues after it, even if that goes back.
    pub fn go_on_after(&mut self, position: u64, slot: Slot) {
        *self = Self { position, slot, load: None };
    }

    /// Whether delivery waits for the disk.
    pub fn waits(&self) -> bool {
        self.load.is_some()
    }

    /// Delivery waits for this question, if there is one.
    pub fn wait_for(&mut self, question: Option<Question>) {
        assert!(
            question.is_none_or(|question| question.first == self.position + 1),
            "INV-LEDGER-3: delivery waits for what comes next"
        );
        self.load = question;
    }

    /// If delivery waits for this answer: the question, and delivery waits no longer.
    pub fn answered(&mut self, load: u64) -> Option<Question> {
        let question = self.load.take_if(|question| question.load == load)?;
        assert!(question.first == self.position + 1, "INV-LEDGER-3: delivery waits for what comes next");
        Some(question)
    }
}

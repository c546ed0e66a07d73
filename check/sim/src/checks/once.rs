//! INV-SIM-ONCE: every operation runs at most once. An acknowledged one ran, and its client got the reply of that run. If a client was told
//! that an operation did not run, it never runs.

use super::Failure;
use crate::client::{Done, Way};
use crate::service::Row;
use quorate_history::Outcome;
use std::collections::BTreeMap;

/// Where each operation ran.
#[derive(Debug, Default)]
pub struct Once {
    at: BTreeMap<(u32, u32), usize>,
}

impl Once {
    /// The command with this index ran for the first time anywhere.
    ///
    /// # Errors
    /// When its operation ran before.
    pub fn ran(&mut self, index: usize, row: &Row) -> Result<(), Failure> {
        let first = *self.at.entry(row.op).or_insert(index);
        if first == index {
            return Ok(());
        }
        let text = format!("operation {:?} ran as command {} and again as {}", row.op, first + 1, index + 1);
        Err(Failure::new("once", text))
    }

    /// Where an operation ran, if it did.
    pub fn index(&self, op: (u32, u32)) -> Option<usize> {
        self.at.get(&op).copied()
    }

    /// Compares what a client was told with what ran.
    ///
    /// # Errors
    /// When they differ.
    pub fn compare(&self, done: &Done, rows: &[Row]) -> Result<(), Failure> {
        if done.way != Way::Command {
            return Ok(());
        }
        let index = self.index(done.id);
        match (&done.outcome, index) {
            (Some(Outcome::Ok { .. }), None) => {
                Err(Failure::new("once", format!("{done:?} was answered and never ran")))
            }
            (Some(Outcome::Ok { .. }), Some(index)) if rows[index].reply != done.reply => Err(Failure::new(
                "once",
                format!("{done:?} was answered otherwise than it ran: {:?}", rows[index]),
            )),
            (Some(Outcome::Fail { .. }), Some(index)) => Err(Failure::new(
                "once",
                format!("{done:?} failed for certain, and ran as command {}", index + 1),
            )),
            _ => Ok(()),
        }
    }
}

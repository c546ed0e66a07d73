//! INV-SIM-AGREE: all replicas, in all their lives, execute the same commands in the same order, in the same batches, with the
//! same agreed time, randomness and replies.

use super::Failure;
use crate::service::Row;

/// What the first replica to execute it executed, for every command.
#[derive(Debug, Default)]
pub struct Agreement {
    rows: Vec<Row>,
}

impl Agreement {
    /// A replica executed its command number `index`. Returns whether it is the first to do so.
    ///
    /// # Errors
    /// When another replica executed something else there.
    pub fn executed(&mut self, name: &str, index: usize, row: &Row) -> Result<bool, Failure> {
        match self.rows.get(index) {
            None => {
                self.rows.push(row.clone());
                Ok(true)
            }
            Some(first) if first == row => Ok(false),
            Some(first) if (Row { state: first.state, ..row.clone() }) == *first => Err(Failure::new(
                "agreement",
                format!(
                    "after command {} the state of {name} differs from that of another replica: {row:?}",
                    index + 1
                ),
            )),
            Some(first) => Err(Failure::new(
                "agreement",
                format!("command {} of {name} is {row:?}, and was {first:?} elsewhere", index + 1),
            )),
        }
    }

    /// The index of the first command in this batch or a later one.
    pub fn first_from(&self, seq: u64) -> usize {
        self.rows.partition_point(|row| row.seq < seq)
    }

    /// All commands in order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

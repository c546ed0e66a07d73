//! Up to which seq the log was given up, where that does not follow from the records that the instances gave up: with several instances, whose
//! records may stand for many slots.

use crate::lives::NODE;
use bytes::Bytes;
use quorate_log::Record;
use quorate_types::{Halt, Seq};

/// A record of the node that says it.
pub(crate) const TRIMMED: u8 = 3;

/// What the log says of its own beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trimmed(pub(crate) Seq);

impl Trimmed {
    /// Takes back what an earlier run wrote down.
    pub(crate) fn restore(&mut self, record: &Record) -> Result<(), Halt> {
        let Some(seq) = record.head.first_chunk::<8>().filter(|_| record.head.len() == 8) else {
            return Err(Halt::LogInconsistent { why: "a record about the log's beginning is none".into() });
        };
        self.0 = self.0.max(Seq::new(u64::from_le_bytes(*seq)));
        Ok(())
    }

    pub(crate) fn record(self) -> Record {
        let head = Bytes::copy_from_slice(&self.0.number().to_le_bytes());
        Record { instance: NODE, kind: TRIMMED, head, payload: Bytes::new() }
    }
}

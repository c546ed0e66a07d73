//! The log's beginning: what durable checkpoints hold goes from it, segment by segment.
//!
//! The log itself says up to which seq. With several instances that does not follow from the records that are left, since one may stand for many
//! slots. With one instance a log may also begin behind a checkpoint that nobody agreed on. Tests: journal/tests.rs,
//! check/sim/tests/all/stopped.rs.

use super::{Journal, NODE, VolumeId};
use bytes::Bytes;
use quorate_log::Record;
use quorate_types::{Halt, RecordId, Seq};
use std::ops::Range;

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

    fn record(self) -> Record {
        let head = Bytes::copy_from_slice(&self.0.number().to_le_bytes());
        Record { instance: NODE, kind: TRIMMED, head, payload: Bytes::new() }
    }
}

/// Trimming under way: the records that say again what old ones said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trimming {
    /// The first of them.
    first: Option<RecordId>,
    /// They are durable once this one is.
    end: RecordId,
}

impl Journal {
    /// The log begins after this checkpoint from now on. A record of its own says so: where records stand for many slots nothing else does,
    /// and a log that begins there may also have ended before it, which is no reason to stand for the checkpoint.
    pub(crate) fn note_trimmed(&mut self, seq: Seq) {
        // Without room the replica knows less after a restart, and keeps more.
        let _ = self.note(Trimmed(seq).record());
    }

    /// Begins to forget what a durable checkpoint of this seq holds. What of the node's own older records still counts is written again
    /// first. Whether there was room for that; where there was none the next checkpoint tries it again.
    pub(crate) fn begin_trim(&mut self, seq: Seq, counts: Vec<Record>) -> bool {
        let mut first = None;
        for record in counts {
            match self.note(record) {
                Ok(id) => first = first.or(Some(id)),
                Err(_) => return false,
            }
        }
        self.note_trimmed(seq);
        self.trimming = Some(Trimming { first, end: self.log.appended() });
        true
    }

    /// Segments that nothing needs any more go, if there are some: those before what instances need of their own records.
    pub(crate) fn go_on_trimming(
        &mut self,
        needed: impl Iterator<Item = (VolumeId, RecordId)>,
    ) -> Option<Range<u64>> {
        let Trimming { first, end } = self.trimming?;
        if self.log.durable() < end || self.is_in_memory() {
            return None;
        }
        let mut keep_from = first;
        for (volume, own) in needed {
            let id = self.locate(volume, own)?;
            keep_from = Some(keep_from.map_or(id, |from| from.min(id)));
        }
        let keep_from = keep_from?;
        let gone = self.log.trim(keep_from);
        if gone.is_empty() {
            return None;
        }
        self.volumes.forget_below(keep_from);
        // There may be room again.
        self.log.retry_prepare();
        Some(gone)
    }
}

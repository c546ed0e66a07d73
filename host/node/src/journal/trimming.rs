//! Trimming: the beginning of the log is removed, segment by segment, as far as durable checkpoints hold it.
//!
//! A record in the log says up to which seq it was trimmed. With several instances that does not follow from the remaining records, since
//! one record may stand for many slots. With one instance a log may also begin behind a checkpoint that was not agreed on. Tests:
//! journal/tests.rs, check/sim/tests/all/stopped.rs.

use super::{Journal, NODE, VolumeId};
use bytes::Bytes;
use quorate_log::Record;
use quorate_types::{Halt, RecordId, Seq};
use std::ops::Range;

/// The kind of the node's record that says it.
pub(crate) const TRIMMED: u8 = 3;

/// The seq up to which the log was trimmed, as the log says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trimmed(pub(crate) Seq);

impl Trimmed {
    /// Restores it from a record.
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

/// A trimming under way: the records that repeat what older ones said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trimming {
    /// The first of them.
    first: Option<RecordId>,
    /// The last of them: all are durable once this one is.
    end: RecordId,
}

impl Journal {
    /// The log begins after this checkpoint from now on. A record says so: where records stand for many slots nothing else does. A log that
    /// begins there may also have ended before the checkpoint, so it alone is no reason to vouch for the checkpoint.
    pub(crate) fn note_trimmed(&mut self, seq: Seq) {
        // Without room for the record the replica knows less after a restart, and keeps more.
        let _ = self.note(Trimmed(seq).record());
    }

    /// Begins to trim what a durable checkpoint of this seq holds. Older records of the node that still count are written again first.
    /// Whether there was room for them; if not, the next checkpoint tries again.
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

    /// Gives the segments that nothing needs any more, if there are some: those before the records that instances need, and before this one of
    /// the node.
    pub(crate) fn go_on_trimming(
        &mut self,
        needed: impl Iterator<Item = (VolumeId, RecordId)>,
        of_node: Option<RecordId>,
    ) -> Option<Range<u64>> {
        let Trimming { first, end } = self.trimming?;
        if self.log.durable() < end || self.is_in_memory() {
            return None;
        }
        let mut keep_from = first.into_iter().chain(of_node).min();
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

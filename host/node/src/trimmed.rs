//! The log's beginning: what durable checkpoints hold goes from it, segment by segment.
//!
//! The log itself says up to which seq. With several instances that does not follow from the records that are left, since one may stand for many
//! slots. With one instance a log may also begin behind a checkpoint that nobody agreed on. Tests: check/sim/tests/all/stopped.rs.

use crate::effects::{Effect, Effects};
use crate::engine;
use crate::gate::NODE;
use crate::node::Node;
use bytes::Bytes;
use quorate_log::Record;
use quorate_order::Input as OrderInput;
use quorate_types::{Halt, RecordId, Seq, Slot, Time};

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

/// Trimming under way: the records that say again what old ones said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trimming {
    /// The first of the node's own records that were written again.
    lives: Option<RecordId>,
    /// All of them.
    lives_end: RecordId,
}

impl Node {
    /// The log begins after this checkpoint from now on. A record of its own says so: where records stand for many slots nothing else does,
    /// and a log that begins there may also have ended before it, which is no reason to stand for the checkpoint.
    pub(crate) fn note_trimmed(&mut self, seq: Seq) {
        // Without room the replica knows less after a restart, and keeps more.
        let _ = self.journal.note(Trimmed(seq).record());
    }

    /// Forgets what a durable checkpoint holds, up to these records of the instances. What of the older records still counts is written
    /// again first: the lives of the members here, view and vote by the protocol.
    pub(crate) fn trim(&mut self, now: Time, seq: Seq, records: Vec<Slot>, out: &mut Effects) {
        let mut trimming = Trimming { lives: None, lives_end: self.journal.log().appended() };
        for record in self.gate.lives().all() {
            match self.journal.note(record) {
                Ok(id) => {
                    trimming.lives = trimming.lives.or(Some(id));
                    trimming.lives_end = id;
                }
                // No room now; at the next checkpoint, or when there is.
                Err(_) => return,
            }
        }
        self.keeping.trimmed(seq);
        self.note_trimmed(seq);
        trimming.lives_end = trimming.lives_end.max(self.journal.log().appended());
        self.trimming = Some(trimming);
        for (instance, slot) in self.groups.iter_mut().zip(records) {
            instance.step(now, OrderInput::Trim { slot });
        }
        self.fall_asleep(now, seq, out);
        self.engine.step(engine::In::Trimmed(seq));
        self.after_order(now, out);
        self.trim_log(out);
    }

    /// Segments that nothing needs any more go.
    pub(crate) fn trim_log(&mut self, out: &mut Effects) {
        let Some(Trimming { lives, lives_end }) = self.trimming else { return };
        if self.journal.log().durable() < lives_end || self.journal.is_in_memory() {
            return;
        }
        let mut keep_from = lives;
        for instance in self.groups.stays() {
            let Some(own) = instance.keep_from() else { continue };
            let Some(id) = self.journal.locate(instance.volume(), own) else { return };
            keep_from = Some(keep_from.map_or(id, |from| from.min(id)));
        }
        let Some(keep_from) = keep_from else { return };
        let gone = self.journal.trim(keep_from);
        if !gone.is_empty() {
            out.push(Effect::RemoveSegments(gone));
            self.keeping.log_begins(self.journal.log().first_segment());
            // There may be room again.
            self.journal.retry_prepare();
        }
    }
}

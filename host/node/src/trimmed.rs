//! What durable checkpoints hold is given up: the log's older segments, and older checkpoints.
//!
//! The log itself says up to which seq. With several instances that does not follow from the records that are left, since one may stand for many
//! slots. With one instance a log may also begin behind a checkpoint that nobody agreed on. Tests: check/sim/tests/stopped.rs.

use crate::effects::{Effect, Effects};
use crate::keeping::{Checkpoints, Trimming};
use crate::lives::NODE;
use crate::node::Node;
use crate::ordering::Instance;
use crate::state::keep;
use bytes::Bytes;
use quorate_log::{Class, Record, SyncMode};
use quorate_order::Input as OrderInput;
use quorate_state::checkpoint::Job;
use quorate_types::{Halt, Seq, Slot, Time};

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

impl Node {
    /// The log begins after this checkpoint from now on. A record of its own says so: where records stand for many slots nothing else does,
    /// and a log that begins there may also have ended before it, which is no reason to stand for the checkpoint.
    pub(crate) fn gave_up(&mut self, seq: Seq) {
        self.checkpoints.gone = self.checkpoints.gone.max(seq);
        // Without room the replica knows less after a restart, and keeps more.
        let _ = self.log.append(Trimmed(seq).record(), Class::Vital);
    }

    /// All stays that may have records in the log.
    fn stays(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().chain(&self.stays.others)
    }

    /// Forgets what a durable checkpoint holds. What of the older records still counts is written again first: the lives
    /// of the members here, view and vote by the protocol.
    pub(crate) fn trim(&mut self, now: Time, out: &mut Effects) {
        let log = (self.log.first_segment() * self.log.segment_bytes(), self.log.position());
        let most = self.config.log_bytes_max;
        let Some(own) = self.checkpoints.trim_to(log, most, self.scrubs.rotten.is_some()) else {
            return;
        };
        if own.seq > self.merge.seq() || !self.has_begun() {
            return;
        }
        if own.seq > self.checkpoints.forgotten {
            self.checkpoints.forgotten = own.seq;
            keep(out, Job::Forget { keep: own.seq });
            // Who wanted one of those before gets this one instead, agreed on or not.
            self.checkpoints.agreement.vouch(own.seq);
            self.tell_own(own.seq, out);
        }
        let Checkpoints { holds, own: all, .. } = &self.checkpoints;
        let most = if self.turn.disk_full { 0 } else { most };
        let Some(own) = holds.hold_back(own, all.iter(), log, most) else { return };
        if own.seq <= self.checkpoints.trimmed {
            return;
        }
        // Of one from before a restart it may not be known.
        let Some(records) = self.records_at(own.seq) else { return };
        let mut trimming = Trimming { lives: None, lives_end: self.log.appended() };
        for record in self.lives.all() {
            match self.log.append(record, Class::Vital) {
                Ok(id) => {
                    trimming.lives = trimming.lives.or(Some(id));
                    trimming.lives_end = id;
                }
                // No room now; at the next checkpoint, or when there is.
                Err(_) => return,
            }
        }
        // Who lacks what is forgotten now gets this checkpoint instead: it was vouched for when those before it went.
        self.checkpoints.trimmed = own.seq;
        self.gave_up(own.seq);
        trimming.lives_end = trimming.lives_end.max(self.log.appended());
        self.checkpoints.trimming = Some(trimming);
        for (instance, slot) in self.instances.iter_mut().zip(records) {
            instance.step(now, OrderInput::Trim { slot });
        }
        self.fall_asleep(own.seq, out);
        self.merge.trim(own.seq);
        self.checkpoints.own.retain(|other| other.seq >= own.seq);
        self.checkpoints.records.retain(|seq, _| *seq >= own.seq);
        self.after_order(now, out);
        self.trim_log(out);
    }

    /// The last record of each instance that a checkpoint here holds. While there is one instance, its records are the seqs.
    fn records_at(&self, seq: Seq) -> Option<Vec<Slot>> {
        let one = || (self.instances.len() == 1).then(|| vec![Slot::new(seq.number())]);
        self.checkpoints.records.get(&seq).cloned().or_else(one)
    }

    /// Segments that nothing needs any more go.
    pub(crate) fn trim_log(&mut self, out: &mut Effects) {
        let Some(Trimming { lives, lives_end }) = self.checkpoints.trimming else { return };
        if self.log.durable() < lives_end || self.config.log.sync == SyncMode::Memory {
            return;
        }
        let mut keep_from = lives;
        for instance in self.stays() {
            let Some(own) = instance.order.keep_from() else { continue };
            let Some(id) = instance.records.log(own) else { return };
            keep_from = Some(keep_from.map_or(id, |from| from.min(id)));
        }
        let Some(keep_from) = keep_from else { return };
        let gone = self.log.trim(keep_from);
        if !gone.is_empty() {
            let stays = self.instances.iter_mut().chain(&mut self.stays.others);
            stays.for_each(|instance| instance.records.forget_below(keep_from));
            out.push(Effect::RemoveSegments(gone));
            let first = self.log.first_segment();
            self.scrubs.rotten = self.scrubs.rotten.filter(|rotten| *rotten >= first);
            // There may be room again.
            self.log.retry_prepare();
        }
    }
}

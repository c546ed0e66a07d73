//! What was trimmed because durable checkpoints hold it: how far the log is gone, and older checkpoints.

use quorate_types::{Seq, Slot};
use std::collections::BTreeMap;

/// How far this replica has trimmed.
#[derive(Debug, Default)]
pub(super) struct Trims {
    /// The log was trimmed up to this checkpoint, or need not be.
    trimmed: Seq,
    /// The log begins after this checkpoint.
    gone: Seq,
    /// Files of checkpoints before this one were deleted.
    forgotten: Seq,
    /// The last record of each instance in the checkpoints here, where it is known.
    records: BTreeMap<Seq, Vec<Slot>>,
}

impl Trims {
    /// Starts with what an earlier run has left: the log begins after `gone`, and goes on from `base`.
    pub(super) fn new(base: Seq, gone: Seq) -> Self {
        Self { trimmed: base, gone, ..Self::default() }
    }

    /// A checkpoint holds these last records of the instances.
    pub(super) fn holds(&mut self, seq: Seq, records: Vec<Slot>) {
        self.records.insert(seq, records);
    }

    /// The last record of each instance in a checkpoint here. With one instance, its records have the numbers of the seqs.
    pub(super) fn records_at(&self, seq: Seq, instances: usize) -> Option<Vec<Slot>> {
        let one = || (instances == 1).then(|| vec![Slot::new(seq.number())]);
        self.records.get(&seq).cloned().or_else(one)
    }

    /// Files of checkpoints before this one are deleted. Whether there may be any.
    pub(super) fn forget_before(&mut self, seq: Seq) -> bool {
        let more = seq > self.forgotten;
        self.forgotten = self.forgotten.max(seq);
        more
    }

    /// The log was trimmed up to this checkpoint.
    pub(super) fn trimmed_to(&mut self, seq: Seq) {
        self.trimmed = seq;
        self.begins_after(seq);
        self.records.retain(|of, _| *of >= seq);
    }

    /// The log begins after this checkpoint from now on.
    pub(super) fn begins_after(&mut self, seq: Seq) {
        self.gone = self.gone.max(seq);
    }

    /// The checkpoint up to which the log was trimmed.
    pub(super) fn trimmed(&self) -> Seq {
        self.trimmed
    }

    /// The checkpoint after which the log begins.
    pub(super) fn gone(&self) -> Seq {
        self.gone
    }
}

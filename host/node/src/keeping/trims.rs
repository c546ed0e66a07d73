//! What durable checkpoints hold and is given up: how far the log went, and older checkpoints.

use quorate_types::{Seq, Slot};
use std::collections::BTreeMap;

/// How far this replica gave up what it had.
#[derive(Debug, Default)]
pub(super) struct Trims {
    /// The log was trimmed up to this checkpoint, or needs not be.
    trimmed: Seq,
    /// The log begins after this checkpoint.
    gone: Seq,
    /// Files of checkpoints before this one were given up.
    forgotten: Seq,
    /// The last record of each instance that a checkpoint here holds, where that is known.
    records: BTreeMap<Seq, Vec<Slot>>,
}

impl Trims {
    /// As an earlier run left it: the log begins after `gone`, and goes on from `base`.
    pub(super) fn new(base: Seq, gone: Seq) -> Self {
        Self { trimmed: base, gone, ..Self::default() }
    }

    /// A checkpoint holds the records of the instances up to these.
    pub(super) fn holds(&mut self, seq: Seq, records: Vec<Slot>) {
        self.records.insert(seq, records);
    }

    /// The last record of each instance that a checkpoint here holds. While there is one instance, its records are the seqs.
    pub(super) fn records_at(&self, seq: Seq, instances: usize) -> Option<Vec<Slot>> {
        let one = || (instances == 1).then(|| vec![Slot::new(seq.number())]);
        self.records.get(&seq).cloned().or_else(one)
    }

    /// Files of checkpoints before this one are given up. Whether there may be some that were not yet.
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

    /// Up to which checkpoint the log was trimmed.
    pub(super) fn trimmed(&self) -> Seq {
        self.trimmed
    }

    /// After which checkpoint the log begins.
    pub(super) fn gone(&self) -> Seq {
        self.gone
    }
}

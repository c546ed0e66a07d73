//! Questions to the disk for old records. Whoever asked holds the question, and waits for its answer or does not any more; the records stay
//! in the log until the answer came. Tests: tests/loads.rs.

use crate::{Effect, Effects};
use quorate_types::RecordId;
use std::collections::BTreeMap;

/// A question to the disk that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its number.
    pub load: u64,
    /// The position of the first entry that is asked for.
    pub first: u64,
    /// For how many entries.
    pub count: usize,
}

/// All questions, also those whose answer nobody waits for any more.
#[derive(Debug, Default)]
pub(super) struct Loads {
    asked: u64,
    /// The lowest record that each open question names.
    open: BTreeMap<u64, RecordId>,
}

impl Loads {
    /// Asks for these records of `count` entries from `first` on; none where there are no records.
    pub(super) fn ask(
        &mut self,
        first: u64,
        count: usize,
        records: Vec<RecordId>,
        out: &mut Effects,
    ) -> Option<Question> {
        let lowest = records.iter().min().copied()?;
        self.asked += 1;
        self.open.insert(self.asked, lowest);
        out.push(Effect::Load { load: self.asked, records });
        Some(Question { load: self.asked, first, count })
    }

    /// The answer came.
    pub(super) fn answered(&mut self, load: u64) {
        self.open.remove(&load);
    }

    /// The lowest record that is being read.
    pub(super) fn lowest(&self) -> Option<RecordId> {
        self.open.values().min().copied()
    }
}

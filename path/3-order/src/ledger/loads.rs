//! Questions to the disk for old records. The caller keeps its [`Question`] and may stop waiting for the answer; the records stay in the
//! log until the answer came. Tests: tests/loads.rs.

use crate::{Effect, Effects};
use quorate_types::RecordId;
use std::collections::BTreeMap;

/// A question to the disk that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its number.
    pub load: u64,
    /// The position of the first entry that it asks for.
    pub first: u64,
    /// How many entries it asks for.
    pub count: usize,
}

/// All open questions, even those whose answer nobody waits for any more.
#[derive(Debug, Default)]
pub(super) struct Loads {
    asked: u64,
    /// For each open question, the lowest record that it asks for.
    open: BTreeMap<u64, RecordId>,
}

impl Loads {
    /// Asks for these records, which hold `count` entries from position `first` on; none without records.
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

    /// This question was answered.
    pub(super) fn answered(&mut self, load: u64) {
        self.open.remove(&load);
    }

    /// The lowest record that is being read.
    pub(super) fn lowest(&self) -> Option<RecordId> {
        self.open.values().min().copied()
    }
}

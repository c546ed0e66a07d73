//! Memos in the log: what batches did that may come out differently when they run again. Only where results are verified and may vary.
//!
//! Each turn, memos of what ran go into the log, as records of the replica itself; the tokens of those batches are told once they are durable. A
//! memo is needed until a durable checkpoint has its batch, so the log is not trimmed behind it. Docs: docs/protocols/speculative.md. Tests: check/sim
//! (`--executor speculative`).

use crate::journal::{Journal, NODE};
use quorate_execute::{Memo, Verified};
use quorate_log::Record;
use quorate_types::{Halt, RecordId, Seq};
use std::collections::{BTreeMap, VecDeque};

/// The kind of the node's record with a memo.
pub(crate) const MEMO: u8 = 5;
/// Room for the head of such a record.
const HEAD: usize = 128;

/// Where memos are in the log.
#[derive(Debug, Default)]
pub(crate) struct Memos {
    /// Those that are not known to be durable, with their numbers.
    open: VecDeque<(RecordId, u64)>,
    /// The first record of each seq that no durable checkpoint has.
    needed: BTreeMap<Seq, RecordId>,
    /// What the log had at the start, until execution takes it.
    restored: Vec<Memo>,
}

impl Memos {
    /// Restores a record of an earlier run.
    pub(crate) fn restore(&mut self, id: RecordId, record: &Record) -> Result<(), Halt> {
        let Some(memo) = Memo::read(&record.head, record.payload.clone()) else {
            return Err(Halt::LogInconsistent {
                why: "a record about the results of a batch is none".into(),
            });
        };
        self.needed.entry(memo.seq).or_insert(id);
        self.restored.push(memo);
        Ok(())
    }

    /// Execution takes what the log had.
    pub(crate) fn recall(&mut self, journal: &Journal, verified: Option<&mut Verified>) {
        let restored = std::mem::take(&mut self.restored);
        if let Some(verified) = verified {
            let most = usize::try_from(journal.log().record_bytes_max()).unwrap_or(usize::MAX);
            verified.limit_memos(most.saturating_sub(HEAD));
            verified.recall(restored);
        }
    }

    /// Writes what ran, and looks what became durable. What has no room on the disk runs again in another way.
    /// Whether more may be final now.
    pub(crate) fn step(&mut self, journal: &mut Journal, verified: Option<&mut Verified>) -> bool {
        let Some(verified) = verified else { return false };
        let mut changed = false;
        while let Some(memo) = verified.unkept() {
            let (seq, number, head, payload) = (memo.seq, memo.number, memo.head(), memo.body.clone());
            match journal.note_data(Record { instance: NODE, kind: MEMO, head, payload }) {
                Ok(id) => {
                    self.open.push_back((id, number));
                    self.needed.entry(seq).or_insert(id);
                    verified.is_noted();
                }
                Err(why) if !journal.waits_for_room(&why) && verified.can_not_keep() => changed = true,
                Err(_) => break,
            }
        }
        while let Some((_, number)) = self.open.pop_front_if(|(id, _)| *id <= journal.log().durable()) {
            verified.is_kept(number);
        }
        changed
    }

    /// A durable checkpoint has everything up to this seq.
    pub(crate) fn trimmed(&mut self, seq: Seq, verified: Option<&mut Verified>) {
        if let Some(verified) = verified {
            verified.trimmed(seq);
        }
        self.needed = self.needed.split_off(&seq.next());
    }

    /// The first record that is needed.
    pub(crate) fn first_needed(&self) -> Option<RecordId> {
        self.needed.values().min().copied()
    }
}

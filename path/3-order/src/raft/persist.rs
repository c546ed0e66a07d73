//! Raft's records: how votes, views and entries lie in the log; `restore` takes them back.
//!
//! ```text
//! ENTRY  head: index u64, view u64, kind u8                       payload: the batch; memberships; nothing for a view's first record
//! VOTE   head: view u64, voted u8, for u16                        payload: empty
//! FLOOR  head: index u64, view u64, slot u64, cleared u8, VOTE    payload: empty
//! ```
//!
//! A later ENTRY whose index is not beyond the end replaces the log from there on. A later VOTE replaces the former. FLOOR
//! says that a durable checkpoint stands for everything up to that position, repeats the vote, and when `cleared` is 1 also
//! that the log is empty after it.
//!
//! docs/protocols/raft.md L1-L8, L86-L88. INV-RAFT-1, INV-RAFT-3, INV-RAFT-4. Tests: tests/restart.rs.

use super::Raft;
use crate::ledger::{Question, Records, inconsistent};
use crate::raft::message::{Entry, EntryBody, Index, Position};
use crate::{Effects, Stored};
use bytes::Bytes;
use quorate_types::{Halt, RecordId, ReplicaId, Slot, View, planted};

/// [`Stored::kind`] of an entry.
pub const RECORD_ENTRY: u8 = 1;
/// [`Stored::kind`] of a view and a vote in it.
pub const RECORD_VOTE: u8 = 2;

/// [`Stored::kind`] of the position after which the log begins.
pub const RECORD_FLOOR: u8 = 3;

const ENTRY_HEAD: usize = 17;
const VOTE_HEAD: usize = 11;
const FLOOR_HEAD: usize = 25 + VOTE_HEAD;

/// The number there, if it is there.
pub(super) fn checked_u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

pub(super) fn entry_record(index: Index, entry: &Entry) -> Stored {
    let mut head = Vec::with_capacity(ENTRY_HEAD);
    head.extend_from_slice(&index.number().to_le_bytes());
    head.extend_from_slice(&entry.view.number().to_le_bytes());
    head.push(entry.kind());
    Stored { kind: RECORD_ENTRY, head: Bytes::from(head), payload: entry.payload() }
}

pub(super) fn read_entry(record: Stored) -> Result<(Index, Entry), Halt> {
    if record.kind != RECORD_ENTRY || record.head.len() != ENTRY_HEAD {
        return Err(inconsistent(format!("a record of kind {} is no entry", record.kind)));
    }
    let (index, view) = (Index::new(u64_at(&record.head, 0)), View::new(u64_at(&record.head, 8)));
    let entry = Entry::from_parts(view, record.head[16], record.payload)
        .map_err(|why| inconsistent(format!("the entry at index {index} is unreadable: {why}")))?;
    Ok((index, entry))
}

fn put_vote(head: &mut Vec<u8>, view: View, voted: Option<ReplicaId>) {
    head.extend_from_slice(&view.number().to_le_bytes());
    head.push(u8::from(voted.is_some()));
    head.extend_from_slice(&voted.map_or(0, ReplicaId::number).to_le_bytes());
}

pub(super) fn vote_record(view: View, voted: Option<ReplicaId>) -> Stored {
    let mut head = Vec::with_capacity(VOTE_HEAD);
    put_vote(&mut head, view, voted);
    Stored { kind: RECORD_VOTE, head: Bytes::from(head), payload: Bytes::new() }
}

fn vote_at(head: &[u8], at: usize) -> Option<(View, Option<ReplicaId>)> {
    let voted = ReplicaId::new(u16::from_le_bytes([head[at + 9], head[at + 10]]));
    (head[at + 8] <= 1).then(|| (View::new(u64_at(head, at)), (head[at + 8] == 1).then_some(voted)))
}

pub(super) fn read_vote(record: &Stored) -> Result<(View, Option<ReplicaId>), Halt> {
    let whole = record.head.len() == VOTE_HEAD && record.payload.is_empty();
    let vote = whole.then(|| vote_at(&record.head, 0)).flatten();
    vote.ok_or_else(|| inconsistent("a vote's record is unreadable".to_owned()))
}

pub(super) fn floor_record(
    floor: Position,
    slot: u64,
    cleared: bool,
    vote: (View, Option<ReplicaId>),
) -> Stored {
    let mut head = Vec::with_capacity(FLOOR_HEAD);
    for number in [floor.index.number(), floor.view.number(), slot] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.push(u8::from(cleared));
    put_vote(&mut head, vote.0, vote.1);
    Stored { kind: RECORD_FLOOR, head: Bytes::from(head), payload: Bytes::new() }
}

/// The position, its slot, whether the log was empty after it, and the vote.
pub(super) type Floor = (Position, Slot, bool, (View, Option<ReplicaId>));

pub(super) fn read_floor(record: &Stored) -> Result<Floor, Halt> {
    let head = &record.head;
    let whole = head.len() == FLOOR_HEAD && record.payload.is_empty() && head[24] <= 1;
    let vote = whole.then(|| vote_at(head, 25)).flatten();
    let vote = vote.ok_or_else(|| inconsistent("the record of the log's floor is unreadable".to_owned()))?;
    let floor = Position::new(Index::new(u64_at(head, 0)), View::new(u64_at(head, 8)));
    Ok((floor, Slot::new(u64_at(head, 16)), head[24] == 1, vote))
}

impl Raft {
    /// Appends an entry to the log and to the disk. [raft L6]
    pub(super) fn append(&mut self, entry: Entry, out: &mut Effects) -> Index {
        let index = self.log.last().index.next();
        // Without the first record of its view a leader can not even confirm a read.
        let vital = matches!(entry.body, EntryBody::ViewStart);
        let id = self.records.persist(entry_record(index, &entry), vital, out);
        self.log.push(entry, id);
        index
    }

    /// Enters a higher view, or casts the one vote in the present one, and writes it down. [raft L2-L4]
    pub(super) fn persist_vote(&mut self, view: View, voted: Option<ReplicaId>, out: &mut Effects) {
        self.term.cast(view, voted);
        self.term.written(self.records.persist(vote_record(view, voted), true, out));
    }

    /// Writes down where the log begins, and our view and vote again: with that, older records are not needed. With
    /// `cleared` the log is empty. [raft L86]
    pub(super) fn persist_floor(&mut self, cleared: bool, out: &mut Effects) {
        let (floor, slot) = (self.log.floor(), self.log.floor_slots());
        let record = floor_record(floor, slot, cleared, (self.term.view(), self.term.voted()));
        self.records.persist_floor(record, Slot::new(slot), out);
    }

    /// The next record replaces entries that may be durable. [raft L88]
    pub(super) fn hold_records(&mut self) {
        self.records.hold([self.first_record(), None]);
    }

    /// The record of the first entry after the log's floor.
    fn first_record(&self) -> Option<RecordId> {
        let first = self.log.record_at(self.log.floor().index.next());
        (first > RecordId::ZERO).then_some(first)
    }

    /// The lowest record that a restart needs, or that is being read back. [raft L87-L88]
    pub(super) fn records_needed_from(&self) -> Option<RecordId> {
        self.records.keep_from([self.first_record(), None])
    }

    /// The record that a message with our view must wait for, if it is not durable yet. [raft L5]
    pub(super) fn view_pending(&self) -> Option<RecordId> {
        self.records.pending(self.term.record())
    }

    /// The record that an acknowledgement of the log up to `index` must wait for.
    pub(super) fn pending_up_to(&self, index: Index) -> Option<RecordId> {
        let needed = self.log.record_at(index).max(self.term.record());
        self.records.pending(needed).filter(|_| !planted("ack-before-sync"))
    }

    /// Asks the disk for entries from `first` on, up to `to`. All of them are durable.
    pub(super) fn load(
        log: &super::log::Log,
        records: &mut Records,
        first: Index,
        to: Index,
        out: &mut Effects,
    ) -> Option<Question> {
        let asked = log.records_to_load(first, to);
        records.load(first.number(), asked.len(), asked, out)
    }

    /// The entries that a question to the disk brought, compared with what the log knows of them.
    pub(super) fn loaded_entries(
        &self,
        question: Question,
        records: Vec<Stored>,
    ) -> Result<Vec<Entry>, Halt> {
        if records.len() != question.count {
            return Err(inconsistent(format!(
                "{} records asked for, {} read",
                question.count,
                records.len()
            )));
        }
        let mut entries = Vec::with_capacity(records.len());
        let mut expected = Index::new(question.first);
        for record in records {
            let (index, entry) = read_entry(record)?;
            let slots = self.log.slots_at(expected) - self.log.slots_at(expected.previous());
            let same_kind = matches!(entry.body, EntryBody::Batch(_)) == (slots == 1);
            if index != expected || self.log.view_at(index) != Some(entry.view) || !same_kind {
                return Err(inconsistent(format!(
                    "index {expected} was asked for, {index} of {} read",
                    entry.view
                )));
            }
            entries.push(entry);
            expected = expected.next();
        }
        Ok(entries)
    }
}

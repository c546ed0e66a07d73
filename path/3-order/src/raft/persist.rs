//! Raft's records: how votes, views and entries lie in the log, and how they come back.
//!
//! ```text
//! ENTRY  head: index u64, view u64, kind u8      payload: the batch, or nothing for a view's first record
//! VOTE   head: view u64, voted u8, for u16       payload: empty
//! ```
//!
//! A later ENTRY whose index is not beyond the end replaces the log from there on. A later VOTE replaces the former.
//! docs/protocols/raft.md L1-L8. INV-RAFT-1, INV-RAFT-3, INV-RAFT-4. Tests: tests/restart.rs.

use super::Raft;
use crate::{Effect, Effects, Stored};
use bytes::Bytes;
use quorate_types::{Halt, RecordId, ReplicaId, View, planted};
use quorate_wire::raft::{Entry, EntryBody, Index};

/// [`Stored::kind`] of an entry.
pub const RECORD_ENTRY: u8 = 1;
/// [`Stored::kind`] of a view and a vote in it.
pub const RECORD_VOTE: u8 = 2;

const ENTRY_HEAD: usize = 17;
const VOTE_HEAD: usize = 11;

/// A question to the disk that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) load: u64,
    pub(super) first: Index,
    pub(super) count: usize,
}

fn inconsistent(why: String) -> Halt {
    Halt::LogInconsistent { why }
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

fn vote_record(view: View, voted: Option<ReplicaId>) -> Stored {
    let mut head = Vec::with_capacity(VOTE_HEAD);
    head.extend_from_slice(&view.number().to_le_bytes());
    head.push(u8::from(voted.is_some()));
    head.extend_from_slice(&voted.map_or(0, ReplicaId::number).to_le_bytes());
    Stored { kind: RECORD_VOTE, head: Bytes::from(head), payload: Bytes::new() }
}

fn read_vote(record: &Stored) -> Result<(View, Option<ReplicaId>), Halt> {
    if record.head.len() != VOTE_HEAD || record.head[8] > 1 || !record.payload.is_empty() {
        return Err(inconsistent("a vote's record is unreadable".to_owned()));
    }
    let voted = ReplicaId::new(u16::from_le_bytes([record.head[9], record.head[10]]));
    Ok((View::new(u64_at(&record.head, 0)), (record.head[8] == 1).then_some(voted)))
}

impl Raft {
    fn next_record(&mut self) -> RecordId {
        self.records = self.records.next();
        self.records
    }

    /// Appends an entry to the log and to the disk. [raft L6]
    pub(super) fn append(&mut self, entry: Entry, out: &mut Effects) -> Index {
        let index = self.log.last().index.next();
        let id = self.next_record();
        // Without the first record of its view a leader can not even confirm a read.
        let vital = matches!(entry.body, EntryBody::ViewStart);
        out.push(Effect::Persist { id, record: entry_record(index, &entry), vital });
        self.log.push(entry, id);
        index
    }

    /// Enters a higher view, or casts the one vote in the present one, and writes it down. [raft L2-L4]
    pub(super) fn persist_vote(&mut self, view: View, voted: Option<ReplicaId>, out: &mut Effects) {
        let entered = view > self.view;
        assert!(entered || (view == self.view && self.voted.is_none()), "INV-RAFT-1: one vote in a view");
        if entered {
            self.view_leader = None;
        }
        (self.view, self.voted) = (view, voted);
        self.view_record = self.next_record();
        out.push(Effect::Persist { id: self.view_record, record: vote_record(view, voted), vital: true });
    }

    /// The record that a message with our view must wait for, if it is not durable yet. [raft L5]
    pub(super) fn view_pending(&self) -> Option<RecordId> {
        (self.view_record > self.durable_record).then_some(self.view_record)
    }

    /// The record that an acknowledgement of the log up to `index` must wait for.
    pub(super) fn pending_up_to(&self, index: Index) -> Option<RecordId> {
        let needed = self.log.record_at(index).max(self.view_record);
        (needed > self.durable_record && !planted("ack-before-sync")).then_some(needed)
    }

    /// [raft L7-L8]
    pub(super) fn restore_record(&mut self, id: RecordId, record: Stored) -> Result<(), Halt> {
        if id != self.records.next() {
            return Err(inconsistent(format!("record {id} follows record {}", self.records)));
        }
        match record.kind {
            RECORD_ENTRY => {
                let (index, entry) = read_entry(record)?;
                self.restore_entry(id, index, entry)?;
            }
            RECORD_VOTE => {
                let (view, voted) = read_vote(&record)?;
                let first = view == self.view && self.voted.is_none() && voted.is_some();
                if view <= self.view && !first {
                    return Err(inconsistent(format!("a vote in {view} follows one in {}", self.view)));
                }
                (self.view, self.voted, self.view_record) = (view, voted, id);
            }
            kind => return Err(inconsistent(format!("unknown kind of record {kind}"))),
        }
        self.records = id;
        self.durable_record = id;
        Ok(())
    }

    fn restore_entry(&mut self, id: RecordId, index: Index, entry: Entry) -> Result<(), Halt> {
        let last = self.log.last();
        if index == Index::ZERO || index > last.index.next() {
            return Err(inconsistent(format!("the entry at index {index} follows index {}", last.index)));
        }
        let before = self.log.position(index.previous()).view;
        if entry.view < before || entry.view > self.view || entry.view == View::ZERO {
            let why = format!(
                "the entry at index {index} of {} lies between {before} and {}",
                entry.view, self.view
            );
            return Err(inconsistent(why));
        }
        self.log.truncate(index.previous());
        self.log.push(entry, id);
        self.log.advance_durable(id);
        self.trim();
        Ok(())
    }

    /// Asks the disk for entries from `first` on, up to `to`. All of them are durable.
    pub(super) fn load(
        log: &super::log::Log,
        loads: &mut u64,
        first: Index,
        to: Index,
        out: &mut Effects,
    ) -> Option<Pending> {
        let records = log.records_to_load(first, to);
        if records.is_empty() {
            return None;
        }
        *loads += 1;
        let pending = Pending { load: *loads, first, count: records.len() };
        out.push(Effect::Load { load: *loads, records });
        Some(pending)
    }

    /// The entries that a question to the disk brought, compared with what the log knows of them.
    pub(super) fn loaded_entries(&self, pending: Pending, records: Vec<Stored>) -> Result<Vec<Entry>, Halt> {
        if records.len() != pending.count {
            return Err(inconsistent(format!("{} records asked for, {} read", pending.count, records.len())));
        }
        let mut entries = Vec::with_capacity(records.len());
        let mut expected = pending.first;
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

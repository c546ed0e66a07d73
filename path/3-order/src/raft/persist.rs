//! Raft's records: how votes, views and entries lie in the log. `store` writes them, `restore` takes them back.
//!
//! ```text
//! ENTRY  head: index u64, view u64, kind u8                       payload: the batch; memberships; nothing for a view's first record
//! VOTE   head: view u64, voted u8, for u16                        payload: empty
//! FLOOR  head: index u64, view u64, slot u64, cleared u8, VOTE    payload: empty
//! ```
//!
//! A later ENTRY whose index is not beyond the end replaces the log from that index on. A later VOTE replaces the earlier one. FLOOR says
//! that a durable checkpoint holds everything up to that position, and repeats the vote. With `cleared` = 1 it also says that the log is
//! empty after that position.
//!
//! docs/protocols/raft.md L1-L8, L86-L88. INV-RAFT-1, INV-RAFT-3, INV-RAFT-4. Tests: tests/restart.rs.

use crate::Stored;
use crate::ledger::inconsistent;
use crate::raft::message::{Entry, Index, Position};
use bytes::Bytes;
use quorate_types::{Halt, ReplicaId, Slot, View};

/// [`Stored::kind`] of an entry.
pub const RECORD_ENTRY: u8 = 1;
/// [`Stored::kind`] of a view and a vote in it.
pub const RECORD_VOTE: u8 = 2;

/// [`Stored::kind`] of the position after which the log begins.
pub const RECORD_FLOOR: u8 = 3;

const ENTRY_HEAD: usize = 17;
const VOTE_HEAD: usize = 11;
const FLOOR_HEAD: usize = 25 + VOTE_HEAD;

/// The number at this offset, if the bytes reach so far.
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

/// The content of a FLOOR record: the position, its slot, whether the log was empty after it, and the vote.
pub(super) type Floor = (Position, Slot, bool, (View, Option<ReplicaId>));

pub(super) fn read_floor(record: &Stored) -> Result<Floor, Halt> {
    let head = &record.head;
    let whole = head.len() == FLOOR_HEAD && record.payload.is_empty() && head[24] <= 1;
    let vote = whole.then(|| vote_at(head, 25)).flatten();
    let vote = vote.ok_or_else(|| inconsistent("the record of the log's floor is unreadable".to_owned()))?;
    let floor = Position::new(Index::new(u64_at(head, 0)), View::new(u64_at(head, 8)));
    Ok((floor, Slot::new(u64_at(head, 16)), head[24] == 1, vote))
}

//! How the harness reads Raft's records, and which record each message must wait for.
//!
//! INV-SCRIPT-7: what a message says about its sender is durable there: its view, its vote, the entries that it acknowledges.
//! This is the table "what must be durable before a message leaves" of docs/protocols/raft.md, checked from the outside.

use crate::world::Disk;
use quorate_order::OrderMessage;
use quorate_order::raft::message::{AppendOutcome, Entry, Index, Position, RaftMessage};
use quorate_order::raft::{RECORD_ENTRY, RECORD_FLOOR, RECORD_VOTE};
use quorate_order::{Anchor, Stored};
use quorate_types::{ReplicaId, Slot, View};
use std::collections::BTreeMap;

/// What a replica's vote record says.
pub(super) type Vote = (View, Option<ReplicaId>);

/// What a record says: an entry, a vote or the log's beginning. Its layout is drawn in path/3-order/src/raft/persist.rs.
pub(super) enum OnDisk {
    Entry(Index, Entry),
    Vote(Vote),
    /// The log begins after this position, which holds that slot. The flag says whether the log was empty then.
    Floor(Position, Slot, bool, Vote),
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk::<8>().map(|word| u64::from_le_bytes(*word))
}

fn vote_at(head: &[u8], at: usize) -> Option<Vote> {
    let id = head.get(at + 9..)?.first_chunk::<2>().map(|word| u16::from_le_bytes(*word))?;
    Some((View::new(u64_at(head, at)?), (*head.get(at + 8)? == 1).then_some(ReplicaId::new(id))))
}

/// The position in an anchor.
pub(super) fn anchor_position(anchor: &Anchor) -> Option<Position> {
    let bytes = anchor.encode();
    Some(Position::new(Index::new(u64_at(bytes, 0)?), View::new(u64_at(bytes, 8)?)))
}

pub(super) fn read_record(record: &Stored) -> Option<OnDisk> {
    let head = &record.head;
    match record.kind {
        RECORD_ENTRY => {
            let (index, view) = (Index::new(u64_at(head, 0)?), View::new(u64_at(head, 8)?));
            let entry = Entry::from_parts(view, *head.get(16)?, record.payload.clone()).ok()?;
            Some(OnDisk::Entry(index, entry))
        }
        RECORD_VOTE => Some(OnDisk::Vote(vote_at(head, 0)?)),
        RECORD_FLOOR => {
            let position = Position::new(Index::new(u64_at(head, 0)?), View::new(u64_at(head, 8)?));
            let (slot, cleared) = (Slot::new(u64_at(head, 16)?), *head.get(24)? == 1);
            Some(OnDisk::Floor(position, slot, cleared, vote_at(head, 25)?))
        }
        _ => None,
    }
}

/// A [`crate::world::CheckSend`] for Raft.
///
/// # Panics
/// When `message` leaves too early.
pub fn check_send(disk: Disk<'_>, from: ReplicaId, to: ReplicaId, message: &OrderMessage) {
    let Some(message) = message.get::<RaftMessage>() else { return };
    let mut vote = (View::ZERO, None);
    let mut entries = BTreeMap::new();
    for (number, record) in (1..).zip(disk.records) {
        match read_record(record) {
            Some(OnDisk::Vote(said)) if number <= disk.durable => vote = said,
            Some(OnDisk::Floor(_, _, cleared, said)) => {
                if number <= disk.durable {
                    vote = said;
                }
                if cleared {
                    entries.clear();
                }
            }
            Some(OnDisk::Entry(index, _)) => {
                entries.retain(|at, _| *at < index);
                entries.insert(index, number);
            }
            _ => {}
        }
    }
    let anchor = disk.checkpoint.and_then(|(_, anchor)| anchor_position(anchor)).unwrap_or_default().index;
    let (view, voted) = vote;
    let why = match message {
        // Says nothing about its sender's view but that it is the one before.
        RaftMessage::RequestVote { view: asked, pre: true, .. } => (*asked > view.next()).then_some("view"),
        // Repeats the view that it was asked about.
        RaftMessage::RequestVoteReply { granted: true, pre: true, .. } => None,
        _ if message.view() > view => Some("view"),
        RaftMessage::RequestVote { view: asked, pre: false, .. } => {
            (*asked == view && voted != Some(from)).then_some("own vote")
        }
        RaftMessage::RequestVoteReply { view: asked, granted: true, pre: false } => {
            (*asked == view && voted != Some(to)).then_some("vote")
        }
        RaftMessage::AppendEntriesReply { outcome: AppendOutcome::Matched(index), .. } => {
            // A durable checkpoint holds everything up to its anchor.
            let needed = entries.range(..=*index).filter(|(at, _)| **at > anchor);
            let safe = needed.into_iter().all(|(_, number)| *number <= disk.durable);
            let there = *index <= anchor || entries.contains_key(index);
            (!safe || !there).then_some("entries")
        }
        _ => None,
    };
    if let Some(why) = why {
        panic!(
            "INV-SCRIPT-7: {from} sends {message:?} to {to} before its {why} is durable ({} records are)",
            disk.durable
        );
    }
}

//! Raft's records as the harness reads them, and the rule which of them a message must wait for.
//!
//! INV-SCRIPT-7: what a message says about its sender is durable there: its view, its vote, the entries that it acknowledges.
//! This is the table "what must be durable before a message leaves" of docs/protocols/raft.md, checked from the outside.

use quorate_order::Stored;
use quorate_order::raft::{RECORD_ENTRY, RECORD_VOTE};
use quorate_types::{RecordId, ReplicaId, View};
use quorate_wire::OrderMessage;
use quorate_wire::raft::{AppendOutcome, Entry, Index, RaftMessage};
use std::collections::BTreeMap;

/// An entry or a vote as it lies on disk; their layout is drawn in path/3-order/src/raft/persist.rs.
pub(super) enum OnDisk {
    Entry(Index, Entry),
    Vote(View, Option<ReplicaId>),
}

pub(super) fn read_record(record: &Stored) -> Option<OnDisk> {
    let u64_at = |at: usize| record.head.get(at..)?.first_chunk::<8>().map(|word| u64::from_le_bytes(*word));
    match record.kind {
        RECORD_ENTRY => {
            let (index, view) = (Index::new(u64_at(0)?), View::new(u64_at(8)?));
            let entry = Entry::from_parts(view, *record.head.get(16)?, record.payload.clone()).ok()?;
            Some(OnDisk::Entry(index, entry))
        }
        RECORD_VOTE => {
            let id = record.head.get(9..)?.first_chunk::<2>().map(|word| u16::from_le_bytes(*word))?;
            let voted = (*record.head.get(8)? == 1).then_some(ReplicaId::new(id));
            Some(OnDisk::Vote(View::new(u64_at(0)?), voted))
        }
        _ => None,
    }
}

/// A [`crate::world::CheckSend`] for Raft.
///
/// # Panics
/// When `message` leaves too early.
pub fn check_send(all: &[Stored], durable: RecordId, from: ReplicaId, to: ReplicaId, message: &OrderMessage) {
    let OrderMessage::Raft(message) = message;
    let mut vote = (View::ZERO, None);
    let mut entries = BTreeMap::new();
    for (number, record) in (1..).zip(all) {
        match read_record(record) {
            Some(OnDisk::Vote(view, voted)) if number <= durable.number() => vote = (view, voted),
            Some(OnDisk::Entry(index, _)) => {
                entries.retain(|at, _| *at < index);
                entries.insert(index, number);
            }
            _ => {}
        }
    }
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
            let safe = entries.range(..=*index).all(|(_, number)| *number <= durable.number());
            let there = *index == Index::ZERO || entries.contains_key(index);
            (!safe || !there).then_some("entries")
        }
        _ => None,
    };
    if let Some(why) = why {
        panic!(
            "INV-SCRIPT-7: {from} sends {message:?} to {to} before its {why} is durable (up to {durable})"
        );
    }
}

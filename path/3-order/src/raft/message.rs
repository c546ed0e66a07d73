//! Raft's messages, named as in the paper (Ongaro and Ousterhout, USENIX ATC 2014; pre-vote, leader transfer and
//! ReadIndex from Ongaro's dissertation, sections 9.6, 3.10 and 6.4).
//!
//! One entry is one batch. An index counts records of the instance's log; a slot counts batches. A view's first record takes an index and
//! no slot.

use crate::{Message, OrderMessage};
use bytes::Bytes;
use quorate_types::{Reject, View};
use quorate_wire::{Batch, Memberships, Payload, Put, Reader};
use std::fmt;
use std::sync::Arc;

/// The number of Raft on the wire.
pub const RAFT: u16 = 1;

/// A message carries at most this many entries, which bounds what a receiver allocates for their headers.
pub const ENTRIES_MAX: usize = 4096;

/// A position in the record log of one instance, from 1; 0 is before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Index(u64);

impl Index {
    /// Before the first record.
    pub const ZERO: Self = Self(0);

    /// The index with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }
    /// The next one, saturating.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
    /// The one before; zero stays zero.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
    /// `count` further on, saturating.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An index and the view in which its record was made. Two logs with an equal position are equal up to there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// The view. Comparisons look at it first: a log whose last view is higher is more advanced.
    pub view: View,
    /// The index.
    pub index: Index,
}

impl Position {
    /// Before the first record.
    pub const ZERO: Self = Self { view: View::ZERO, index: Index::ZERO };

    /// The position of `index` in `view`.
    pub const fn new(index: Index, view: View) -> Self {
        Self { view, index }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.index, self.view.number())
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What a record of the instance's log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryBody {
    /// The first record of a view: takes an index and no slot.
    ViewStart,
    /// A batch: one slot.
    Batch(Batch),
    /// The memberships that hold from this entry on: takes an index and no slot.
    Members(Arc<Memberships>),
}

/// One record of the instance's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The view in which a leader made it.
    pub view: View,
    /// The contents of the entry.
    pub body: EntryBody,
}

impl Entry {
    const VIEW_START: u8 = 1;
    const BATCH: u8 = 2;
    const MEMBERS: u8 = 3;

    /// The payload that is shared and never copied.
    pub fn payload(&self) -> Bytes {
        match &self.body {
            EntryBody::ViewStart => Bytes::new(),
            EntryBody::Batch(batch) => batch.bytes().clone(),
            EntryBody::Members(memberships) => memberships.encode(),
        }
    }
    /// Tells the kind of body beside its payload, on the wire and in the log.
    pub fn kind(&self) -> u8 {
        match self.body {
            EntryBody::ViewStart => Self::VIEW_START,
            EntryBody::Batch(_) => Self::BATCH,
            EntryBody::Members(_) => Self::MEMBERS,
        }
    }
    /// The entry that [`Self::kind`] and [`Self::payload`] describe.
    ///
    /// # Errors
    /// When there is no such kind, or the payload is not of that kind.
    pub fn from_parts(view: View, kind: u8, payload: Bytes) -> Result<Self, Reject> {
        let body = match kind {
            Self::VIEW_START if payload.is_empty() => EntryBody::ViewStart,
            Self::BATCH => EntryBody::Batch(Batch::decode(payload)?),
            Self::MEMBERS => EntryBody::Members(Arc::new(Memberships::decode(payload)?)),
            _ => return Err(Reject::Malformed("entry")),
        };
        Ok(Self { view, body })
    }
}

/// The messages of Raft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaftMessage {
    /// A candidate asks for a vote, or with `pre` only whether it would get one.
    RequestVote {
        /// The view that the candidate wants to lead.
        view: View,
        /// The end of its log.
        last: Position,
        /// The candidate only asks; no replica's view changes.
        pre: bool,
        /// The leader itself asked for this election, so voters need not wait until it falls silent.
        transfer: bool,
    },
    /// The answer to [`Self::RequestVote`].
    RequestVoteReply {
        /// The voter's view; with a granted pre-vote the view that was asked about.
        view: View,
        /// Whether it votes for the candidate.
        granted: bool,
        /// It answers a pre-vote.
        pre: bool,
    },
    /// The leader sends entries; without entries this is its heartbeat.
    AppendEntries {
        /// The leader's view.
        view: View,
        /// The position before the first entry.
        previous: Position,
        /// The leader's commit index.
        commit: Index,
        /// The number of the leader's round of heartbeats. The reply repeats it, which confirms reads (ReadIndex).
        round: u64,
        /// The entries that follow `previous`.
        entries: Vec<Entry>,
    },
    /// The answer to [`Self::AppendEntries`].
    AppendEntriesReply {
        /// The follower's view.
        view: View,
        /// The round that is answered.
        round: u64,
        /// Accepted: the follower's log equals the leader's up to some index, durably. Rejected: where to look next.
        outcome: AppendOutcome,
    },
    /// A heartbeat for a follower that lacks entries which the leader does not have any more.
    NeedsCheckpoint {
        /// The leader's view.
        view: View,
        /// The position after which the leader can send entries again.
        previous: Position,
        /// As in [`Self::AppendEntries`]; the answer is that to an empty one.
        round: u64,
        /// A checkpoint of this slot, or a later one, holds that position.
        slot: u64,
    },
    /// The leader asks this follower to start an election at once.
    TimeoutNow {
        /// The leader's view.
        view: View,
    },
    /// A follower asks the leader for a slot up to which a strong read must wait.
    ReadIndex {
        /// The follower's view.
        view: View,
        /// The follower's number for its waiting reads.
        read: u64,
    },
    /// The answer to [`Self::ReadIndex`].
    ReadIndexReply {
        /// The leader's view.
        view: View,
        /// The number in the question.
        read: u64,
        /// The slot to wait for; none when the replica that was asked does not lead.
        slot: Option<u64>,
    },
}

/// How a follower took entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// The log is equal to the leader's, and durable, up to here.
    Matched(Index),
    /// The position before the first entry is not in the follower's log. Nothing in that log after `hint` can match: `hint` is the last
    /// position whose view is at most the one asked for, or the end of the log.
    Rejected {
        /// The index that was asked for, by which a late rejection is recognized.
        asked: Index,
        /// The position from which to look next.
        hint: Position,
    },
}

const REQUEST_VOTE: u8 = 1;
const REQUEST_VOTE_REPLY: u8 = 2;
const APPEND_ENTRIES: u8 = 3;
const APPEND_ENTRIES_REPLY: u8 = 4;
const TIMEOUT_NOW: u8 = 5;
const READ_INDEX: u8 = 6;
const READ_INDEX_REPLY: u8 = 7;
const NEEDS_CHECKPOINT: u8 = 8;

impl RaftMessage {
    /// The view that the sender is in, or asks for.
    pub const fn view(&self) -> View {
        match self {
            Self::RequestVote { view, .. }
            | Self::RequestVoteReply { view, .. }
            | Self::AppendEntries { view, .. }
            | Self::AppendEntriesReply { view, .. }
            | Self::NeedsCheckpoint { view, .. }
            | Self::TimeoutNow { view }
            | Self::ReadIndex { view, .. }
            | Self::ReadIndexReply { view, .. } => *view,
        }
    }

    /// Reads a message. Batches in it share these bytes and are checked request by request.
    ///
    /// # Errors
    /// When the bytes are not a message.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(bytes, "ordering message");
        let (kind, view) = (r.u8()?, View::new(r.u64()?));
        let message = match kind {
            REQUEST_VOTE => {
                let last = read_position(&mut r)?;
                Self::RequestVote { view, last, pre: r.bool()?, transfer: r.bool()? }
            }
            REQUEST_VOTE_REPLY => Self::RequestVoteReply { view, granted: r.bool()?, pre: r.bool()? },
            APPEND_ENTRIES => return decode_append_entries(view, r),
            APPEND_ENTRIES_REPLY => {
                let round = r.u64()?;
                let outcome = if r.bool()? {
                    AppendOutcome::Matched(Index::new(r.u64()?))
                } else {
                    AppendOutcome::Rejected { asked: Index::new(r.u64()?), hint: read_position(&mut r)? }
                };
                Self::AppendEntriesReply { view, round, outcome }
            }
            NEEDS_CHECKPOINT => {
                let (previous, round, slot) = (read_position(&mut r)?, r.u64()?, r.u64()?);
                Self::NeedsCheckpoint { view, previous, round, slot }
            }
            TIMEOUT_NOW => Self::TimeoutNow { view },
            READ_INDEX => Self::ReadIndex { view, read: r.u64()? },
            READ_INDEX_REPLY => {
                let (read, known, slot) = (r.u64()?, r.bool()?, r.u64()?);
                Self::ReadIndexReply { view, read, slot: known.then_some(slot) }
            }
            _ => return Err(Reject::Malformed("raft message: kind")),
        };
        r.end()?;
        Ok(message)
    }
}

impl Message for RaftMessage {
    fn protocol(&self) -> u16 {
        RAFT
    }

    fn brings(&self) -> Vec<&Batch> {
        let Self::AppendEntries { entries, .. } = self else { return Vec::new() };
        let bodies = entries.iter().map(|entry| &entry.body);
        let batches = bodies.filter_map(|body| match body {
            EntryBody::Batch(batch) => Some(batch),
            EntryBody::ViewStart | EntryBody::Members(_) => None,
        });
        batches.collect()
    }

    fn copy(&self) -> OrderMessage {
        OrderMessage::of(self.clone())
    }

    fn equals(&self, other: &OrderMessage) -> bool {
        other.get() == Some(self)
    }

    fn encode(&self, out: &mut Vec<u8>) -> Vec<Payload> {
        let mut payloads = Vec::new();
        match self {
            Self::RequestVote { view, last, pre, transfer } => {
                out.put_u8(REQUEST_VOTE);
                out.put_u64(view.number());
                put_position(out, *last);
                out.put_u8(u8::from(*pre));
                out.put_u8(u8::from(*transfer));
            }
            Self::RequestVoteReply { view, granted, pre } => {
                out.put_u8(REQUEST_VOTE_REPLY);
                out.put_u64(view.number());
                out.put_u8(u8::from(*granted));
                out.put_u8(u8::from(*pre));
            }
            Self::AppendEntries { view, previous, commit, round, entries } => {
                assert!(entries.len() <= ENTRIES_MAX, "a message has at most {ENTRIES_MAX} entries");
                out.put_u8(APPEND_ENTRIES);
                out.put_u64(view.number());
                put_position(out, *previous);
                out.put_u64(commit.number());
                out.put_u64(*round);
                out.put_u32(entries.len() as u32);
                entries.iter().for_each(|entry| put_entry(out, entry, &mut payloads));
            }
            Self::AppendEntriesReply { view, round, outcome } => {
                out.put_u8(APPEND_ENTRIES_REPLY);
                out.put_u64(view.number());
                out.put_u64(*round);
                match outcome {
                    AppendOutcome::Matched(index) => {
                        out.put_u8(1);
                        out.put_u64(index.number());
                    }
                    AppendOutcome::Rejected { asked, hint } => {
                        out.put_u8(0);
                        out.put_u64(asked.number());
                        put_position(out, *hint);
                    }
                }
            }
            Self::NeedsCheckpoint { view, previous, round, slot } => {
                out.put_u8(NEEDS_CHECKPOINT);
                out.put_u64(view.number());
                put_position(out, *previous);
                out.put_u64(*round);
                out.put_u64(*slot);
            }
            Self::TimeoutNow { view } => {
                out.put_u8(TIMEOUT_NOW);
                out.put_u64(view.number());
            }
            Self::ReadIndex { view, read } => {
                out.put_u8(READ_INDEX);
                out.put_u64(view.number());
                out.put_u64(*read);
            }
            Self::ReadIndexReply { view, read, slot } => {
                out.put_u8(READ_INDEX_REPLY);
                out.put_u64(view.number());
                out.put_u64(*read);
                out.put_u8(u8::from(slot.is_some()));
                out.put_u64(slot.unwrap_or(0));
            }
        }
        payloads
    }
}

fn decode_append_entries(view: View, mut r: Reader) -> Result<RaftMessage, Reject> {
    const ENTRY_HEADER: usize = 13;
    let previous = read_position(&mut r)?;
    let (commit, round) = (Index::new(r.u64()?), r.u64()?);
    let count = r.u32()? as usize;
    if count > ENTRIES_MAX || count * ENTRY_HEADER > r.remaining() {
        return Err(Reject::TooLarge { what: "entries", size: count as u64, max: ENTRIES_MAX as u64 });
    }
    let mut heads = Reader::new(r.bytes(count * ENTRY_HEADER)?, "entry");
    let mut entries = Vec::with_capacity(count);
    let mut last = previous.view;
    for _ in 0..count {
        let (entry_view, kind, len) = (View::new(heads.u64()?), heads.u8()?, heads.u32()?);
        if entry_view < last || entry_view > view {
            return Err(Reject::Malformed("entry: views out of order"));
        }
        last = entry_view;
        entries.push(Entry::from_parts(entry_view, kind, r.bytes(len as usize)?)?);
    }
    r.end()?;
    Ok(RaftMessage::AppendEntries { view, previous, commit, round, entries })
}

/// Appends an entry's fixed part; its payload follows all of them.
fn put_entry(out: &mut Vec<u8>, entry: &Entry, payloads: &mut Vec<Payload>) {
    out.put_u64(entry.view.number());
    out.put_u8(entry.kind());
    match &entry.body {
        EntryBody::ViewStart => out.put_u32(0),
        EntryBody::Batch(batch) => {
            out.put_u32(batch.bytes().len() as u32);
            payloads.push(batch.payload());
        }
        EntryBody::Members(memberships) => {
            let bytes = memberships.encode();
            out.put_u32(bytes.len() as u32);
            payloads.push(Payload::from(bytes));
        }
    }
}

fn put_position(out: &mut Vec<u8>, position: Position) {
    out.put_u64(position.index.number());
    out.put_u64(position.view.number());
}

fn read_position(r: &mut Reader) -> Result<Position, Reject> {
    Ok(Position::new(Index::new(r.u64()?), View::new(r.u64()?)))
}

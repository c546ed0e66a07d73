//! The journal of a command: what it did so far, with what it read and was answered. With the request it is all that is needed to go on.
//!
//! Source: durable execution, where a journal is replayed to resume; Kapritsos (Adam), section 4.4, has continuations of the language's stack in
//! its place.

use super::service::Answer;
use bytes::Bytes;

/// The most bytes in the name of a lock.
pub(super) const LOCK_NAME_MAX: usize = 256;

/// What stands for what a command asked for or wrote, so that a replay that does something else is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(pub(super) u64);

/// What a mark is about.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Doing {
    Get = 1,
    Range,
    Put,
    Remove,
    Lock,
    Unlock,
    Ask,
}

impl Mark {
    /// The mark of an operation with these arguments.
    pub(super) fn of(doing: Doing, arguments: &[&[u8]]) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(&[doing as u8]);
        for argument in arguments {
            hash.update(&(argument.len() as u64).to_le_bytes());
            hash.update(argument);
        }
        let digest = hash.finalize();
        Self(digest.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first)))
    }
}

/// One operation of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It read a key, and saw this.
    Read(Mark, Option<Bytes>),
    /// It read a range, and saw these entries.
    Range(Mark, Vec<(Bytes, Bytes)>),
    /// It wrote or removed a key.
    Wrote(Mark),
    /// It asked for a lock: whether it got it.
    Locked(Mark, bool),
    /// It gave a lock back.
    Unlocked(Mark),
    /// It asked a service, with so many bytes. Questions are numbered from 0 in their order.
    Asked(Mark, u32),
    /// It took the answer to the question with this number.
    Answered(u32, Answer),
}

impl Entry {
    /// How many bytes count for it.
    pub(super) fn bytes(&self) -> u64 {
        let content = match self {
            Self::Read(_, value) => value.as_ref().map_or(0, Bytes::len),
            Self::Range(_, found) => found.iter().map(|(key, value)| key.len() + value.len() + 8).sum(),
            Self::Asked(_, len) => *len as usize,
            Self::Answered(_, answer) => answer.content_len(),
            Self::Locked(..) => LOCK_NAME_MAX,
            Self::Wrote(_) | Self::Unlocked(_) => 0,
        };
        24 + content as u64
    }

    /// What it is, for whoever has to find where a service is not deterministic.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Read(..) => "reads a key",
            Self::Range(..) => "reads a range",
            Self::Wrote(_) => "writes",
            Self::Locked(..) => "takes a lock",
            Self::Unlocked(_) => "gives a lock back",
            Self::Asked(..) => "asks a service",
            Self::Answered(..) => "takes an answer",
        }
    }
}

impl Answer {
    pub(super) fn content_len(&self) -> usize {
        match self {
            Self::Reply(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

/// What a command did so far, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Journal {
    entries: Vec<Entry>,
    bytes: u64,
}

impl Journal {
    pub(super) fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes();
        self.entries.push(entry);
    }
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
    /// How many bytes count for it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Forgets all entries from this one on, and gives them.
    pub(super) fn split_off(&mut self, len: usize) -> Vec<Entry> {
        let gone = self.entries.split_off(len.min(self.entries.len()));
        self.bytes -= gone.iter().map(Entry::bytes).sum::<u64>();
        gone
    }
}

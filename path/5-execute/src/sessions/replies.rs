//! The replies that one session keeps: those of the numbers from the lowest unanswered one to the last one executed.

use quorate_wire::ReplyStatus;
use std::collections::VecDeque;

/// A session without replies holds on to no more than this, so that a hundred thousand idle sessions stay small.
const CAPACITY_KEPT: usize = 4096;

/// Replies in order, their bytes in one buffer that is reused: no allocation per request once it has its size.
#[derive(Debug, Default)]
pub(super) struct Replies {
    bytes: Vec<u8>,
    /// Where `bytes` begins, counted from the session's first reply on, so that cutting the front moves no entry.
    base: u64,
    /// Where the oldest reply begins, counted likewise.
    start: u64,
    /// Status and end of each reply.
    entries: VecDeque<(ReplyStatus, u64)>,
}

impl Replies {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
    /// Bytes of all kept replies.
    pub(super) fn byte_len(&self) -> u64 {
        self.end() - self.start
    }
    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }
    pub(super) fn push(&mut self, status: ReplyStatus, body: &[u8]) {
        self.bytes.extend_from_slice(body);
        self.entries.push_back((status, self.end()));
    }
    /// The reply that `index` others precede.
    pub(super) fn get(&self, index: usize) -> Option<(ReplyStatus, &[u8])> {
        let (status, end) = *self.entries.get(index)?;
        let start = match index {
            0 => self.start,
            _ => self.entries.get(index - 1)?.1,
        };
        Some((status, self.bytes.get((start - self.base) as usize..(end - self.base) as usize)?))
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = (ReplyStatus, &[u8])> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
    /// Forgets the `count` oldest.
    pub(super) fn forget(&mut self, count: usize) {
        let Some((_, end)) = self.entries.drain(..count).next_back() else { return };
        self.start = end;
        if self.entries.is_empty() {
            self.base = self.start;
            self.bytes.clear();
            self.bytes.shrink_to(CAPACITY_KEPT);
            self.entries.shrink_to(CAPACITY_KEPT / 64);
        } else if self.start - self.base > self.bytes.len() as u64 / 2 {
            // Over half is forgotten: moving the rest costs less than what was appended since the last move.
            self.bytes.drain(..(self.start - self.base) as usize);
            self.base = self.start;
        }
    }
}

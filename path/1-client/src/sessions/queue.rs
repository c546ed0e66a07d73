//! The numbered requests of one session.
//!
//! The queue's first entry has the number `base`, and each later entry the next number. A number is bound to its entry when the entry is
//! first sent. From `high` on nothing was ever sent, so entries there can be removed and later ones move up.
//!
//! ```text
//! base         sent           high            end
//!  | in flight  | to send again | never sent   |
//! ```
//!
//! INV-CLIENT-2: base <= sent <= high <= end, and a request that may have been sent keeps its number and its body.
//! INV-CLIENT-5: at most a window of numbers is sent beyond the first unanswered one.
//! Tests: queue/tests.rs, tests/core.rs, tests/cluster.rs.

use super::entry::{Entry, Fixed, cost};
use crate::effects::CallId;
use crate::step::NEVER;
use crate::votes::{KeptAnswers, Votes};
use bytes::Bytes;
use quorate_types::Time;
use quorate_wire::RequestKind;
use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub(super) struct Queue {
    entries: VecDeque<Entry>,
    base: u64,
    sent: u64,
    high: u64,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self { entries: VecDeque::new(), base: 1, sent: 1, high: 1 }
    }

    /// The first number without an answer.
    pub(super) const fn base(&self) -> u64 {
        self.base
    }
    /// From this number on nothing was sent since the last rewind.
    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }
    /// From this number on nothing was ever sent.
    pub(super) const fn high(&self) -> u64 {
        self.high
    }
    /// The number of the next entry that is queued.
    pub(super) fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
    }

    /// The entry with this number, if it was sent and is not answered.
    pub(super) fn sent_entry(&mut self, number: u64) -> Option<&mut Entry> {
        if number < self.base || number >= self.high {
            return None;
        }
        self.entries.get_mut((number - self.base) as usize).filter(|entry| !entry.done)
    }

    /// The entry with this number, if it is on its way: it was sent, is not answered, and is not about to be sent again.
    pub(super) fn under_way(&self, number: u64) -> Option<&Entry> {
        if number < self.base || number >= self.sent {
            return None;
        }
        self.entries.get((number - self.base) as usize).filter(|entry| !entry.done)
    }

    /// The numbers of requests for which all members were asked in vain; they are looked at again from now on.
    pub(super) fn take_resting(&mut self) -> Vec<u64> {
        let base = self.base;
        let resting = (base..).zip(&mut self.entries).filter(|(_, entry)| !entry.done && entry.votes.rests);
        resting
            .map(|(number, entry)| {
                entry.votes.rests = false;
                number
            })
            .collect()
    }

    /// The next entry is about to be sent. Returns what all its copies say; if it was never sent, with keys of this epoch.
    pub(super) fn fix(&mut self, epoch: u64) -> Fixed {
        let at = (self.sent - self.base) as usize;
        let now = Fixed { lowest: self.base, epoch };
        self.entries.get_mut(at).map_or(now, |entry| *entry.fixed.get_or_insert(now))
    }

    /// The next entry to send, with its number; answered ones are skipped. A close waits until everything before it is answered, since the
    /// replies are lost with the session.
    pub(super) fn next_to_send(&mut self, window: u32) -> Option<(u64, &Entry)> {
        let limit = self.end().min(self.base + u64::from(window));
        while self.sent < limit && self.entries[(self.sent - self.base) as usize].done {
            self.sent += 1;
        }
        if self.sent >= limit {
            return None;
        }
        let entry = &self.entries[(self.sent - self.base) as usize];
        let early = entry.kind == RequestKind::CloseSession && self.sent > self.base;
        (!early).then_some((self.sent, entry))
    }

    /// The entry that [`Self::next_to_send`] named was sent.
    pub(super) fn mark_sent(&mut self) {
        let entry = &mut self.entries[(self.sent - self.base) as usize];
        entry.open_sends = entry.open_sends.saturating_add(1);
        self.sent += 1;
        self.high = self.high.max(self.sent);
    }

    /// Sends again from this number on.
    pub(super) fn rewind(&mut self, number: u64) {
        self.sent = self.sent.min(number.max(self.base));
    }

    /// This number is answered. Removes it, and all answered ones before it, from the queue. Returns the caller that waited and the bytes
    /// that became free; nothing when the number was not sent, or was answered before.
    pub(super) fn finish(&mut self, number: u64, held: &mut KeptAnswers) -> Option<(Option<CallId>, usize)> {
        let entry = self.sent_entry(number)?;
        entry.done = true;
        entry.votes.clear(held);
        let call = entry.call.take();
        let mut freed = entry.body.len();
        entry.body = Bytes::new();
        while self.entries.front().is_some_and(|entry| entry.done) {
            self.entries.pop_front();
            self.base += 1;
            freed += cost(0);
        }
        self.sent = self.sent.max(self.base);
        self.high = self.high.max(self.base);
        Some((call, freed))
    }

    /// Hands every call whose deadline passed to `tell`, with its entry. Returns the bytes that became free, and the earliest deadline that
    /// is left.
    pub(super) fn give_up_late(&mut self, now: Time, tell: &mut impl FnMut(CallId, &Entry)) -> (usize, Time) {
        let (mut freed, mut index, mut earliest) = (0, 0u64, NEVER);
        let sent_ever = self.high - self.base;
        self.entries.retain_mut(|entry| {
            let cell = index;
            index += 1;
            if entry.done || entry.call.is_none() {
                return true;
            }
            if entry.deadline > now {
                earliest = earliest.min(entry.deadline);
                return true;
            }
            if let Some(call) = entry.call.take() {
                tell(call, entry);
            }
            if cell >= sent_ever {
                freed += entry.cost();
                return false;
            }
            if entry.open_sends == 0 && entry.kind == RequestKind::Commands {
                freed += entry.make_empty();
            }
            true
        });
        (freed, earliest)
    }

    /// What members answered so far counts no more.
    pub(super) fn count_anew(&mut self, held: &mut KeptAnswers) {
        for entry in &mut self.entries {
            entry.votes.clear(held);
            entry.votes = Votes::default();
        }
    }

    /// Later copies of requests are made anew.
    pub(super) fn say_anew(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.fixed = None);
    }

    /// The oldest epoch of keys that made tags of a request which is not answered yet.
    pub(super) fn oldest_epoch(&self) -> Option<u64> {
        let unanswered = self.entries.iter().filter(|entry| !entry.done);
        unanswered.filter_map(|entry| entry.fixed.map(|fixed| fixed.epoch)).min()
    }

    /// Takes everything out, since the session ends.
    pub(super) fn take(&mut self, held: &mut KeptAnswers) -> VecDeque<Entry> {
        self.entries.iter_mut().for_each(|entry| entry.votes.clear(held));
        self.base = self.end();
        self.sent = self.base;
        self.high = self.base;
        std::mem::take(&mut self.entries)
    }

    /// The earliest deadline of a caller that waits.
    pub(super) fn earliest(&self) -> Time {
        let waiting = self.entries.iter().filter(|entry| entry.call.is_some());
        waiting.map(|entry| entry.deadline).min().unwrap_or(NEVER)
    }

    /// The deadline of the close in the queue. It holds even when no caller waits for the close.
    pub(super) fn close_deadline(&self) -> Option<Time> {
        let close = self.entries.back().filter(|last| last.kind == RequestKind::CloseSession);
        close.map(|close| close.deadline)
    }

    /// Bytes of the answers that are kept.
    pub(super) fn held(&self) -> usize {
        self.entries.iter().map(|entry| entry.votes.held()).sum()
    }

    /// Checks INV-CLIENT-2 and 5. Returns the queued bytes and how many calls wait.
    pub(super) fn check(&self, window: u32) -> (usize, usize) {
        assert!(
            self.base <= self.sent && self.sent <= self.high && self.high <= self.end(),
            "INV-CLIENT-2: {} <= {} <= {} <= {}",
            self.base,
            self.sent,
            self.high,
            self.end()
        );
        assert!(self.high <= self.base + u64::from(window), "INV-CLIENT-5: more than a window was sent");
        let sent_ever = (self.high - self.base) as usize;
        assert!(
            self.entries.iter().skip(sent_ever).all(|entry| entry.open_sends == 0 && !entry.done),
            "INV-CLIENT-2: nothing behind `high` was ever sent"
        );
        assert!(
            self.entries.front().is_none_or(|entry| !entry.done),
            "INV-CLIENT-2: the front is unanswered"
        );
        let calls = self.entries.iter().filter(|entry| entry.call.is_some()).count();
        (self.entries.iter().map(Entry::cost).sum(), calls)
    }
}

#[cfg(test)]
mod tests;

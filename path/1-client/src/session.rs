//! One session: its queue of numbered requests, and what was sent of it.
//!
//! The queue's front has the number `base`, each entry behind it the next one. A number is bound to its entry when it is
//! first sent; behind `high` nothing ever was, so entries there can vanish and the ones behind move up.
//!
//! ```text
//! base         sent           high            end
//!  | in flight  | to send again | never sent   |
//! ```
//!
//! INV-CLIENT-2: base <= sent <= high <= end, and what may have been sent keeps its number and its body.
//! INV-CLIENT-5: no more than a window of numbers is ever sent beyond the first unanswered one.
//! Tests: tests/core.rs, tests/cluster.rs.

use crate::effects::CallId;
use crate::votes::{Held, Votes};
use bytes::Bytes;
use quorate_types::{Seq, SessionId, Time};
use quorate_wire::{ReplyStatus, RequestKind};
use std::collections::VecDeque;

/// Later than any moment.
pub(crate) const NEVER: Time = Time::from_nanos(u64::MAX);
/// What an entry costs beside its commands.
const ENTRY_COST: usize = 128;

/// What a call or read of so many bytes counts in the bound on queued bytes.
pub(crate) const fn cost(len: usize) -> usize {
    ENTRY_COST + len
}

/// What is known of a request that was over a limit, or not allowed.
#[derive(Debug)]
pub(crate) struct TooLarge {
    pub(crate) detail: String,
    /// It was not a limit, but not allowed.
    pub(crate) forbidden: bool,
    /// A copy of it may run.
    pub(crate) outcome_unknown: bool,
    /// Copies of it that may still be refused in the same way; such a refusal says nothing of the empty one.
    pub(crate) copies: u32,
}

/// What else than its body has to be the same in all copies of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    /// The lowest unanswered number that they name.
    pub(crate) lowest: u64,
    /// The epoch of the keys that made their tags, if they have any.
    pub(crate) epoch: u64,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Who waits; nobody any more when the caller gave up.
    pub(crate) call: Option<CallId>,
    pub(crate) kind: RequestKind,
    pub(crate) body: Bytes,
    pub(crate) deadline: Time,
    /// Copies that were sent and not refused: while there is one, the request may run.
    pub(crate) open_sends: u32,
    /// The last refusal.
    pub(crate) refused: Option<ReplyStatus>,
    /// It was over a limit, and an empty one took its place.
    pub(crate) too_large: Option<TooLarge>,
    pub(crate) done: bool,
    /// What is the same in all copies of it, once one was sent where replicas compare the bytes.
    pub(crate) fixed: Option<Fixed>,
    /// Of a query: everything up to this seq was executed before it was asked.
    pub(crate) seen: Seq,
    /// What the members answered so far, where one answer is not enough.
    pub(crate) votes: Votes,
}

impl Entry {
    pub(crate) fn new(call: Option<CallId>, kind: RequestKind, body: Bytes, deadline: Time) -> Self {
        Self {
            call,
            kind,
            body,
            deadline,
            open_sends: 0,
            refused: None,
            too_large: None,
            done: false,
            fixed: None,
            seen: Seq::ZERO,
            votes: Votes::default(),
        }
    }

    /// Whether it may have changed something, or may still. Queries never do.
    pub(crate) const fn may_run(&self) -> bool {
        self.open_sends > 0 && !matches!(self.kind, RequestKind::Query)
    }

    pub(crate) fn cost(&self) -> usize {
        cost(self.body.len())
    }

    /// Puts an empty request in the place of this one: its number is used, and nothing runs.
    ///
    /// # Panics
    /// INV-CLIENT-3 when a copy of it may run and its caller is not to be told so.
    pub(crate) fn make_empty(&mut self) {
        let told = self.too_large.as_ref().is_some_and(|too_large| too_large.outcome_unknown);
        assert!(!self.may_run() || told, "INV-CLIENT-3: what may run keeps its number and its body");
        self.fixed = None;
        self.kind = RequestKind::Empty;
        self.body = Bytes::new();
        self.refused = None;
    }
}

/// A session that the cluster has not confirmed yet.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) nonce: u64,
    pub(crate) call: Option<CallId>,
    pub(crate) deadline: Time,
    /// Sent on the present connection.
    pub(crate) sent: bool,
    pub(crate) open_sends: u32,
    pub(crate) refused: Option<ReplyStatus>,
    /// What the members answered so far, where one answer is not enough.
    pub(crate) votes: Votes,
}

/// Why a session takes no more calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    Expired,
    Broken(String),
    Stopped,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Opening(Opening),
    Open,
    Dead(Death),
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) phase: Phase,
    pub(crate) id: SessionId,
    entries: VecDeque<Entry>,
    base: u64,
    sent: u64,
    high: u64,
    /// A close is in the queue: nothing may follow it.
    pub(crate) closing: bool,
    /// Is in the list of sessions that have something to send.
    pub(crate) dirty: bool,
    /// Nothing is sent before; after a refusal.
    pub(crate) hold_until: Option<Time>,
    /// How often in a row it was refused.
    pub(crate) refusals: u32,
    /// Why it is held.
    pub(crate) refused: Option<ReplyStatus>,
    /// The last number that the cluster said it expects, on this connection.
    pub(crate) expected: Option<u64>,
    /// When to send again from this number, unless it was answered.
    pub(crate) recheck: Option<(Time, u64)>,
    /// The last answer, or the first sending after quiet.
    pub(crate) progress: Time,
    /// How often in a row it was sent again for want of an answer.
    pub(crate) resends: u32,
    /// No entry's deadline is earlier.
    pub(crate) deadline_min: Time,
    /// It is the core's own, for reads that are ordered (`queries.rs`).
    pub(crate) queries: bool,
    /// The members, as bits, that say it is over; where one such word is not enough.
    pub(crate) expired: u64,
    /// The members, as bits, that got something of it over the present connection, and so send its replies there.
    pub(crate) met: u64,
    /// From which number on, and before which, something went to the leader only (`first.rs`).
    pub(crate) alone: Option<(u64, u64)>,
}

impl Session {
    pub(crate) fn new(opening: Opening, now: Time) -> Self {
        Self {
            deadline_min: opening.deadline,
            phase: Phase::Opening(opening),
            id: SessionId::NONE,
            entries: VecDeque::new(),
            base: 1,
            sent: 1,
            high: 1,
            closing: false,
            dirty: false,
            hold_until: None,
            refusals: 0,
            refused: None,
            expected: None,
            recheck: None,
            progress: now,
            resends: 0,
            queries: false,
            expired: 0,
            met: 0,
            alone: None,
        }
    }

    /// The first number without an answer.
    pub(crate) const fn base(&self) -> u64 {
        self.base
    }
    /// The number of the next entry that is queued.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }
    /// Whether requests were sent on the present connection and are not answered.
    pub(crate) const fn in_flight(&self) -> bool {
        match &self.phase {
            Phase::Opening(opening) => opening.sent,
            Phase::Open => self.sent > self.base,
            Phase::Dead(_) => false,
        }
    }
    /// Whether anything waits for an answer.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.phase, Phase::Opening(_)) || !self.entries.is_empty()
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.deadline_min = self.deadline_min.min(entry.deadline);
        self.closing |= entry.kind == RequestKind::CloseSession;
        self.entries.push_back(entry);
    }

    /// The entry with this number, if it was sent and is not answered.
    pub(crate) fn sent_entry(&mut self, number: u64) -> Option<&mut Entry> {
        if number < self.base || number >= self.high {
            return None;
        }
        self.entries.get_mut((number - self.base) as usize).filter(|entry| !entry.done)
    }

    /// The numbers of those for which others were asked to answer in vain; they rest no more.
    pub(crate) fn take_resting(&mut self) -> Vec<u64> {
        let base = self.base;
        let resting = (base..).zip(&mut self.entries).filter(|(_, entry)| !entry.done && entry.votes.rests);
        resting
            .map(|(number, entry)| {
                entry.votes.rests = false;
                number
            })
            .collect()
    }

    /// The entry with this number, if it is on its way: it was sent, is not answered, and is not about to be sent again.
    pub(crate) fn under_way(&self, number: u64) -> Option<&Entry> {
        if number < self.base || number >= self.sent {
            return None;
        }
        self.entries.get((number - self.base) as usize).filter(|entry| !entry.done)
    }

    /// From it on nothing was sent since the last rewind.
    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }
    /// From it on nothing was ever sent.
    pub(crate) const fn high(&self) -> u64 {
        self.high
    }

    /// The next entry to send is about to be, with keys of this epoch if it never was: what all its copies say.
    pub(crate) fn fix(&mut self, epoch: u64) -> Fixed {
        let at = (self.sent - self.base) as usize;
        let now = Fixed { lowest: self.base, epoch };
        self.entries.get_mut(at).map_or(now, |entry| *entry.fixed.get_or_insert(now))
    }

    /// Later copies of this request name the lowest unanswered number of then.
    pub(crate) fn renew_lowest(&mut self, number: u64) {
        if let Some(entry) = self.sent_entry(number) {
            entry.fixed = None;
        }
    }

    /// Since which number something is under way that only the leader got.
    pub(crate) fn alone(&self) -> Option<u64> {
        let (from, to) = self.alone.filter(|_| self.in_flight())?;
        (to > self.base).then_some(from.max(self.base))
    }

    /// The entry that was marked as sent last went to the leader only.
    pub(crate) fn sent_alone(&mut self) {
        let number = self.sent.saturating_sub(1);
        let from = self.alone().map_or(number, |from| from.min(number));
        self.alone = Some((from, self.sent));
    }

    /// The earliest deadline in the queue.
    pub(crate) fn earliest(&self) -> Time {
        let waiting = self.entries.iter().filter(|entry| entry.call.is_some());
        waiting.map(|entry| entry.deadline).min().unwrap_or(NEVER)
    }

    /// Bytes of answers that are kept.
    pub(crate) fn held(&self) -> usize {
        self.entries.iter().map(|entry| entry.votes.held()).sum()
    }

    /// The next entry to send, with its number; answered ones are passed over. A close waits until all before it is
    /// answered, since the replies are lost with the session.
    pub(crate) fn next_to_send(&mut self, window: u32) -> Option<(u64, &Entry)> {
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

    /// The entry that [`Self::next_to_send`] named is on its way.
    pub(crate) fn mark_sent(&mut self, now: Time) {
        if self.sent == self.base {
            self.progress = now;
        }
        let entry = &mut self.entries[(self.sent - self.base) as usize];
        entry.open_sends = entry.open_sends.saturating_add(1);
        self.sent += 1;
        self.high = self.high.max(self.sent);
    }

    /// Sends again from this number on.
    pub(crate) fn rewind(&mut self, number: u64) {
        self.sent = self.sent.min(number.max(self.base));
        self.alone = self.alone.map(|(from, to)| (from, to.min(self.sent)));
        if let Phase::Opening(opening) = &mut self.phase {
            opening.sent = false;
        }
    }

    /// This number is answered; takes it and all answered ones before it off the queue. Returns who waited and the bytes
    /// that became free; nothing when the number was not sent, or was answered before.
    pub(crate) fn finish(
        &mut self,
        number: u64,
        now: Time,
        held: &mut Held,
    ) -> Option<(Option<CallId>, usize)> {
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
        self.progress = now;
        self.refusals = 0;
        self.resends = 0;
        self.refused = None;
        Some((call, freed))
    }

    /// Hands every call whose time is up to `tell`, with its entry as it was, and returns the bytes that became free.
    pub(crate) fn give_up_late(&mut self, now: Time, tell: &mut impl FnMut(CallId, &Entry)) -> usize {
        let (mut freed, mut index, mut earliest) = (0, 0u64, NEVER);
        let sent_ever = self.high - self.base;
        self.entries.retain_mut(|entry| {
            let place = index;
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
            if place >= sent_ever {
                freed += entry.cost();
                return false;
            }
            if entry.open_sends == 0 && entry.kind == RequestKind::Commands {
                freed += entry.body.len();
                entry.make_empty();
            }
            true
        });
        self.deadline_min = earliest;
        freed
    }

    /// Takes the queue out: the session ends.
    pub(crate) fn take_entries(&mut self, held: &mut Held) -> VecDeque<Entry> {
        self.entries.iter_mut().for_each(|entry| entry.votes.clear(held));
        self.base = self.end();
        self.sent = self.base;
        self.high = self.base;
        self.deadline_min = NEVER;
        self.hold_until = None;
        self.recheck = None;
        std::mem::take(&mut self.entries)
    }

    /// The close in the queue, if its time is up.
    pub(crate) fn close_is_late(&self, now: Time) -> bool {
        self.entries.back().is_some_and(|last| last.kind == RequestKind::CloseSession && last.deadline <= now)
    }

    /// The deadline of the close in the queue; it holds even when nobody waits for it.
    pub(crate) fn close_deadline(&self) -> Time {
        self.entries
            .back()
            .filter(|last| last.kind == RequestKind::CloseSession)
            .map_or(NEVER, |last| last.deadline)
    }

    /// Checks INV-CLIENT-2, 3 and 5, and returns the bytes queued and how many calls wait.
    pub(crate) fn check(&self, window: u32) -> (usize, usize) {
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
        let opening = matches!(&self.phase, Phase::Opening(Opening { call: Some(_), .. }));
        let calls = self.entries.iter().filter(|entry| entry.call.is_some()).count() + usize::from(opening);
        (self.entries.iter().map(Entry::cost).sum(), calls)
    }
}

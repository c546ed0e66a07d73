//! One session: its state, its queue of numbered requests, its timers, and which members got what.

use super::entry::{Entry, Fixed};
use super::queue::Queue;
use super::reached::Reached;
use crate::config::Config;
use crate::effects::CallId;
use crate::step::NEVER;
use crate::votes::{KeptAnswers, Votes};
use quorate_types::{SessionId, Time};
use quorate_wire::{ReplyStatus, RequestKind};
use std::collections::VecDeque;

/// A session that the cluster has not confirmed yet.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(super) nonce: u64,
    pub(super) call: Option<CallId>,
    pub(super) deadline: Time,
    /// Whether it was sent on the present connection.
    pub(super) sent: bool,
    pub(super) open_sends: u32,
    pub(super) refused: Option<ReplyStatus>,
    /// The members' answers so far, where one answer is not enough.
    pub(super) votes: Votes,
}

/// Why a session takes no more calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Death {
    Expired,
    Broken(String),
    Stopped,
}

#[derive(Debug)]
pub(super) enum Phase {
    Opening(Opening),
    Open,
    Dead(Death),
}

/// When a session may send.
#[derive(Debug)]
pub(super) struct Pace {
    /// Nothing is sent before this time, after a refusal.
    pub(super) hold_until: Option<Time>,
    /// How often in a row it was refused.
    pub(super) refusals: u32,
    /// The status of the last refusal.
    pub(super) refused: Option<ReplyStatus>,
    /// How many requests may be under way, if that is fewer than the window: less after a refusal for want of room, more with answers.
    /// Otherwise a cluster without room would be sent everything again and again, and spend its time on refusing.
    pub(super) share: u32,
    /// Answers since the share changed.
    pub(super) answers: u32,
    /// The last number that the cluster said it expects, on this connection.
    pub(super) expected: Option<u64>,
    /// When to send again from this number, unless it is answered by then.
    pub(super) recheck: Option<(Time, u64)>,
    /// When the last answer came, or the first request after quiet was sent.
    pub(super) progress: Time,
    /// How often in a row it was sent again because no answer came.
    pub(super) resends: u32,
}

impl Pace {
    const fn new(now: Time) -> Self {
        Self {
            hold_until: None,
            refusals: 0,
            refused: None,
            share: u32::MAX,
            answers: 0,
            expected: None,
            recheck: None,
            progress: now,
            resends: 0,
        }
    }

    /// The cluster had room for this many and for no more: half of them may be under way, so that sessions get alike.
    pub(super) fn narrow(&mut self, taken: u64) {
        self.share = u32::try_from(taken / 2).unwrap_or(u32::MAX).max(1);
        self.answers = 0;
    }

    /// A request was answered.
    fn answered(&mut self, now: Time) {
        self.answers = self.answers.saturating_add(1);
        if self.answers >= self.share {
            self.share = self.share.saturating_add(1);
            self.answers = 0;
        }
        self.progress = now;
        self.refusals = 0;
        self.resends = 0;
        self.refused = None;
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) phase: Phase,
    pub(super) id: SessionId,
    pub(super) queue: Queue,
    pub(super) pace: Pace,
    /// Which members got what of it, where requests go to all.
    pub(super) reached: Reached,
    /// A close is in the queue, and nothing may follow it.
    pub(super) closing: bool,
    /// It is in the list of sessions that have something to send.
    pub(super) dirty: bool,
    /// No entry has an earlier deadline.
    pub(super) deadline_min: Time,
    /// It is the client's own session, for reads that are ordered (`timers.rs`).
    pub(super) queries: bool,
}

impl Session {
    pub(super) fn new(opening: Opening, now: Time) -> Self {
        Self {
            deadline_min: opening.deadline,
            phase: Phase::Opening(opening),
            id: SessionId::NONE,
            queue: Queue::new(),
            pace: Pace::new(now),
            reached: Reached::default(),
            closing: false,
            dirty: false,
            queries: false,
        }
    }

    /// The cluster's id of it, once it is open.
    pub(crate) const fn id(&self) -> SessionId {
        self.id
    }
    /// The first number without an answer.
    pub(crate) const fn base(&self) -> u64 {
        self.queue.base()
    }
    /// From this number on nothing was sent since the last rewind.
    pub(crate) const fn sent(&self) -> u64 {
        self.queue.sent()
    }
    /// From this number on nothing was ever sent.
    pub(crate) const fn high(&self) -> u64 {
        self.queue.high()
    }
    /// Whether the cluster has not confirmed it yet.
    pub(crate) const fn is_opening(&self) -> bool {
        matches!(self.phase, Phase::Opening(_))
    }

    /// Whether requests were sent on the present connection and are not answered.
    pub(crate) const fn in_flight(&self) -> bool {
        match &self.phase {
            Phase::Opening(opening) => opening.sent,
            Phase::Open => self.queue.sent() > self.queue.base(),
            Phase::Dead(_) => false,
        }
    }

    /// Whether anything waits for an answer.
    pub(crate) fn waits(&self) -> bool {
        self.is_opening() || !self.queue.is_empty()
    }

    /// Whether its next request was refused, or sent before.
    pub(super) const fn sends_again(&self) -> bool {
        self.pace.resends > 0 || self.pace.refusals > 0 || self.queue.sent() < self.queue.high()
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.deadline_min = self.deadline_min.min(entry.deadline);
        self.closing |= entry.kind == RequestKind::CloseSession;
        self.queue.push(entry);
    }

    /// The nonce of the opening, if it must be sent now because it was not sent on this connection. The caller sends it.
    pub(crate) fn send_opening(&mut self) -> Option<u64> {
        let Phase::Opening(opening) = &mut self.phase else { return None };
        if opening.sent {
            return None;
        }
        opening.sent = true;
        opening.open_sends = opening.open_sends.saturating_add(1);
        Some(opening.nonce)
    }

    /// The nonce of the opening that is under way.
    pub(crate) fn opening_under_way(&self) -> Option<u64> {
        match &self.phase {
            Phase::Opening(opening) if opening.sent => Some(opening.nonce),
            _ => None,
        }
    }

    /// Requests of it are sent from now on, so its timers begin.
    pub(crate) fn begin(&mut self, now: Time) {
        self.pace.progress = now;
    }

    /// The next entry to send, with its number.
    pub(crate) fn next_to_send(&mut self, window: u32) -> Option<(u64, &Entry)> {
        self.queue.next_to_send(window.min(self.pace.share))
    }

    /// The entry that [`Self::next_to_send`] named was sent.
    pub(crate) fn mark_sent(&mut self, now: Time) {
        if self.queue.sent() == self.queue.base() {
            self.pace.progress = now;
        }
        self.queue.mark_sent();
    }

    /// The next entry is about to be sent. Returns what all its copies say; if it was never sent, with keys of this epoch.
    pub(crate) fn fix(&mut self, epoch: u64) -> Fixed {
        self.queue.fix(epoch)
    }

    /// The entry with this number, if it is under way: it was sent, is not answered, and is not about to be sent again.
    pub(crate) fn under_way(&self, number: u64) -> Option<&Entry> {
        self.queue.under_way(number)
    }

    /// The entry with this number, if it was sent and is not answered.
    pub(crate) fn sent_entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.queue.sent_entry(number)
    }

    /// The numbers of requests for which all members were asked in vain; they are looked at again from now on.
    pub(crate) fn take_resting(&mut self) -> Vec<u64> {
        self.queue.take_resting()
    }

    /// Later copies of this request name the present lowest unanswered number.
    pub(crate) fn renew_lowest(&mut self, number: u64) {
        if let Some(entry) = self.queue.sent_entry(number) {
            entry.fixed = None;
        }
    }

    /// Sends again from this number on.
    pub(super) fn rewind(&mut self, number: u64) {
        self.queue.rewind(number);
        self.reached.rewound(self.queue.sent());
        if let Phase::Opening(opening) = &mut self.phase {
            opening.sent = false;
        }
    }

    /// The members changed: what they said so far, and what they got, counts no more.
    pub(super) fn count_anew(&mut self, held: &mut KeptAnswers) {
        if let Phase::Opening(opening) = &mut self.phase {
            opening.votes.clear(held);
            opening.votes = Votes::default();
        }
        self.queue.count_anew(held);
        self.reached = Reached::default();
        self.pace.resends = 0;
    }

    /// Later copies of its requests are made anew.
    pub(super) fn say_anew(&mut self) {
        self.queue.say_anew();
    }

    /// The oldest epoch of keys that made tags of a request which is not answered yet.
    pub(super) fn oldest_epoch(&self) -> Option<u64> {
        self.queue.oldest_epoch()
    }

    /// This number is answered; see [`Queue::finish`].
    pub(super) fn finish(
        &mut self,
        number: u64,
        now: Time,
        held: &mut KeptAnswers,
    ) -> Option<(Option<CallId>, usize)> {
        let finished = self.queue.finish(number, held)?;
        self.pace.answered(now);
        Some(finished)
    }

    /// Takes the queue out, since the session ends.
    pub(super) fn take_entries(&mut self, held: &mut KeptAnswers) -> VecDeque<Entry> {
        self.deadline_min = NEVER;
        self.pace.hold_until = None;
        self.pace.recheck = None;
        self.queue.take(held)
    }

    /// When to send again if no answer comes.
    pub(super) fn resend_at(&self, config: &Config) -> Time {
        if !self.in_flight() {
            return NEVER;
        }
        self.pace.progress.plus(config.resend_after.times(1 << self.pace.resends.min(3)))
    }

    /// Whether the deadline of a caller in it has passed.
    pub(super) fn is_late(&self, now: Time) -> bool {
        self.deadline_min <= now || self.close_is_late(now)
    }

    /// The deadline of the close in the queue has passed.
    pub(super) fn close_is_late(&self, now: Time) -> bool {
        self.queue.close_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Bytes of the answers that are kept.
    pub(super) fn held(&self) -> usize {
        self.queue.held()
    }

    /// Checks the queue. Returns the queued bytes and how many calls wait.
    pub(super) fn check(&self, window: u32) -> (usize, usize) {
        let opening = matches!(&self.phase, Phase::Opening(Opening { call: Some(_), .. }));
        let (bytes, calls) = self.queue.check(window);
        (bytes, calls + usize::from(opening))
    }
}

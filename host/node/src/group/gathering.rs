//! How long a leader waits for more requests before it begins the next slot, if its protocol agrees on one slot at a time.
//!
//! A slot costs the same for one request as for a hundred: messages between all replicas, and a signature from each of them. Clients that
//! wait for an answer ask again as soon as they have it. If the leader went on at once, the clients that the last slot answered would
//! always come too late for the next one, and slots would stay small.
//!
//! So the leader waits until there are about as many requests as the last slot had plus those that waited behind it. It waits no longer
//! than that slot took, and only as long as waiting pays: if those clients come later or not at all, it soon hardly waits any more. It
//! never waits for a single client, and a full batch goes at once. Tests: gathering/tests.rs.

use quorate_types::{Span, Time};

/// Waiting in vain halves the patience, down to this part of what a slot takes.
const LEAST_PART: u64 = 16;

/// What a leader knows of its clients' pace: times on its own clock, counts in requests.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// The slot under way: how many requests it has, and when it was proposed.
    under_way: Option<(u32, Time)>,
    /// When the last slot was decided, how long it took, and how many requests waited then.
    since: Time,
    took: Span,
    waited_then: u32,
    /// How many requests are expected soon.
    expected: u32,
    /// How long to wait for them.
    patience: Option<Span>,
    /// When the wait for the next slot ends.
    until: Option<Time>,
    /// Whether the next slot has waited.
    waited: bool,
}

impl Gathering {
    /// Leadership begins, ends or pauses.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.until
    }

    /// Stops waiting until [`Gathering::waits`] begins it again.
    pub(crate) fn stop(&mut self) {
        self.until = None;
    }

    /// No slot is under way, and this many requests wait.
    pub(crate) fn idle(&mut self, now: Time, waiting: u32) {
        if let Some((count, at)) = self.under_way.take() {
            (self.since, self.took) = (now, now.since(at));
            (self.expected, self.waited_then) = (count.saturating_add(waiting), waiting);
        }
    }

    /// A batch of this many requests begins its slot.
    pub(crate) fn proposed(&mut self, now: Time, count: u32) {
        if std::mem::take(&mut self.waited) {
            self.learn(count);
        }
        // Full batches may follow while a slot is under way.
        let before = self.under_way.map_or(0, |(count, _)| count);
        self.under_way = Some((before.saturating_add(count), now));
    }

    /// Whether the next slot waits for more requests. It waits at most `most`, however long the last slot took: a liar may have held that
    /// one up.
    pub(crate) fn waits(&mut self, now: Time, waiting: u32, most: Span) -> bool {
        let patience = self.patience.unwrap_or(self.took).min(self.took).min(most);
        let until = self.since.plus(patience);
        // If only a few requests are missing, waiting for them would hold up all the others.
        let waits = waiting > 0 && waiting < self.expected - self.expected / 8 && until > now;
        self.until = waits.then_some(until);
        self.waited |= waits;
        waits
    }

    /// Learns from a wait that ended with this many requests: did at least half of the expected ones come?
    fn learn(&mut self, count: u32) {
        let wanted = self.expected - self.waited_then;
        let came = count.saturating_sub(self.waited_then);
        let (before, least) = (self.patience.unwrap_or(self.took).nanos(), self.took.nanos() / LEAST_PART);
        let next = if came >= wanted.div_ceil(2) { before.saturating_mul(2) } else { before / 2 };
        self.patience = Some(Span::from_nanos(next.clamp(least, self.took.nanos())));
    }
}

#[cfg(test)]
mod tests;

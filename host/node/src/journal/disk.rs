//! The state of the disk: how long writes take, whether it is full, and whether it has stalled.

use quorate_types::{Durations, Span, Time};
use std::collections::VecDeque;

/// How often to look for room on a full disk.
const PREPARE_RETRY: Span = Span::from_millis(500);
/// How long written data stays without a sync in async mode.
const SYNC_DELAY: Span = Span::from_millis(50);

/// The disk under the log.
#[derive(Debug)]
pub(crate) struct Disk {
    /// A disk that finishes nothing for this long has stalled.
    stall: Span,
    /// When to look for room again, or to sync.
    retry: Option<Time>,
    /// Whether the last segment could not be prepared.
    full: bool,
    /// When each write under way began.
    writes: VecDeque<Time>,
    /// The average time of a write.
    write_time: Span,
    /// How long each write took.
    took: Durations,
    /// Whether the disk has stalled.
    stalled: bool,
}

impl Disk {
    pub(super) const fn new(stall: Span) -> Self {
        Self {
            stall,
            retry: None,
            full: false,
            writes: VecDeque::new(),
            write_time: Span::ZERO,
            took: Durations::NONE,
            stalled: false,
        }
    }

    /// Whether the last segment could not be prepared.
    pub(crate) const fn is_full(&self) -> bool {
        self.full
    }

    /// Whether the disk has finished nothing for long.
    pub(crate) const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// The average time of recent writes.
    pub(crate) const fn write_time(&self) -> Span {
        self.write_time
    }

    /// How long each write took, until it was as durable as it gets.
    pub(crate) const fn took(&self) -> &Durations {
        &self.took
    }

    /// A write begins.
    pub(super) fn writes(&mut self, now: Time) {
        self.writes.push_back(now);
    }

    /// A write completed. Whether the disk had stalled before.
    pub(super) fn wrote(&mut self, now: Time) -> bool {
        if let Some(began) = self.writes.pop_front() {
            // An average in which the last sixteen count most.
            let (before, took) = (self.write_time.nanos(), now.since(began).nanos());
            self.write_time = Span::from_nanos(before - before / 16 + took / 16);
            self.took.add(Span::from_nanos(took));
        }
        std::mem::take(&mut self.stalled)
    }

    /// A segment was prepared, or there was no room for it.
    pub(super) fn prepared(&mut self, now: Time, is_full: bool) {
        self.full = is_full;
        if is_full {
            self.retry = Some(now.plus(PREPARE_RETRY));
        }
    }

    /// Plans a sync of what was written.
    pub(super) fn sync_later(&mut self, now: Time) {
        self.retry.get_or_insert(now.plus(SYNC_DELAY));
    }

    pub(super) const fn retries_at(&self) -> Option<Time> {
        self.retry
    }

    /// Whether it is time to look for room and to sync.
    pub(super) fn retries(&mut self, now: Time) -> bool {
        self.retry.take_if(|at| *at <= now).is_some()
    }

    /// When the disk will have stalled if it finishes nothing.
    pub(crate) fn stalls_at(&self) -> Option<Time> {
        self.writes.front().filter(|_| !self.stalled).map(|began| began.plus(self.stall))
    }

    /// Whether the disk has just stalled.
    pub(super) fn stalls(&mut self, now: Time) -> bool {
        let stalls = self.stalls_at().is_some_and(|at| at <= now);
        self.stalled |= stalls;
        stalls
    }
}

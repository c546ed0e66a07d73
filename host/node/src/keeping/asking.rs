//! Borders out of turn: a replica needs one, and the leader puts it into the log.

use quorate_types::{Span, Time};

/// The shortest time between two requests for a border out of turn.
const ASK_AGAIN: Span = Span::from_secs(2);

/// So many borders free what was deleted before the first one: the log is kept from the border before the last one on.
const SHORT: u8 = 2;

/// How often the time between two requests doubles at most while a disk stays full: each border costs all replicas a checkpoint.
const DOUBLED_MAX: u32 = 5;
/// So often it asks while nothing is delivered here: then this replica can not take what would help.
const TRIES_MAX: u32 = SHORT as u32 + DOUBLED_MAX + 2;

/// Whether this replica must order a border, and when it asked for one.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// Whether this replica leads and must order one.
    wanted: bool,
    /// When this replica last asked for one.
    asked: Option<Time>,
    /// Whether this replica's disk was full when it was looked at last.
    full: bool,
    /// How many more borders may free room on its full disk.
    short: u8,
    /// How often it asked for that since its disk became full.
    tries: u32,
}

impl Asking {
    /// Notes that the leader was asked, or that none is known who could be.
    pub(super) fn asked(&mut self, now: Time, is_led: bool) {
        self.asked = Some(now);
        self.tries += u32::from(self.short > 0 && is_led);
        if self.tries >= TRIES_MAX {
            self.short = 0;
        }
    }

    /// Looks whether the disk is full. `batch`: one was delivered, and whether it asks for a border; `lacks`: a checkpoint was not written.
    pub(super) fn look(&mut self, full: bool, batch: Option<bool>, lacks: bool) {
        self.short = match (full, batch) {
            // On a full disk a border whose checkpoint found no room has freed nothing.
            (_, Some(true)) => self.short.saturating_sub(u8::from(!(full && lacks))),
            (true, Some(false)) => {
                self.tries = self.tries.min(u32::from(SHORT) + DOUBLED_MAX);
                SHORT
            }
            (true, None) if !self.full => SHORT,
            // There is room again, also for the checkpoint that did not fit.
            (false, _) if self.full => u8::from(lacks),
            _ => self.short,
        };
        self.tries = if full { self.tries } else { 0 };
        self.full = full;
    }

    /// Whether the disk is full.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// When to ask for a border that may free room on a full disk: at first as often as for others, then less and less often.
    pub(super) fn short_at(&self) -> Option<Time> {
        let doubled = self.tries.saturating_sub(u32::from(SHORT)).min(DOUBLED_MAX);
        let again = |at: Time| at.plus(Span::from_nanos(ASK_AGAIN.nanos() << doubled));
        (self.short > 0).then(|| self.asked.map_or(Time::ZERO, again))
    }

    /// Whether the leader was asked a short time ago.
    pub(super) fn lately(&self, now: Time) -> bool {
        self.asked.is_some_and(|at| now.since(at) < ASK_AGAIN)
    }

    /// When to ask again, while a border is needed.
    pub(super) fn again_at(&self) -> Time {
        self.asked.map_or(Time::ZERO, |at| at.plus(ASK_AGAIN))
    }

    /// This replica must order a border as soon as it may.
    pub(super) fn order(&mut self) {
        self.wanted = true;
    }

    /// Whether this replica must order a border.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// This replica has ordered it.
    pub(super) fn ordered(&mut self) {
        self.wanted = false;
    }
}

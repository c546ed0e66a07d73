//! Limits the lane's time for clients that send much, while there are others that send little.
//!
//! The cost of a request shows only later: it is ordered, written, executed and answered in other turns. So the whole lane is measured:
//! while it works for more than half of the time, clients that send much are read only now and then. Processor time of other programs
//! counts as work, since the lane has not had it. Tests: `pace/tests.rs`.

use quorate_types::{Span, Time};

/// The largest share of the time, in thousandths.
const MOST: u64 = 500;
/// The span of time that counts most.
const MEMORY: Span = Span::from_millis(10);
/// How often they are read at least, so that they never wait for ever.
const AT_LEAST: Span = Span::from_millis(20);
/// How long to wait before asking again.
const LOOK: Span = Span::from_millis(1);

/// The thousandths of its time in which a lane worked lately, after it has slept for so long.
pub(crate) fn idle_since(busy: u64, slept: Span) -> u64 {
    let memory = MEMORY.nanos();
    busy * memory / memory.saturating_add(slept.nanos())
}

/// How busy the lane is, and when clients that send much were read.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Thousandths of the time in which the lane worked lately.
    busy: u64,
    /// When a client that sends much was last read.
    served: Time,
}

impl Pace {
    /// The lane waited from `began` to `woke`, and worked since.
    pub(crate) fn turned(&mut self, began: Time, woke: Time, now: Time) {
        // No single turn counts for more than ten of the usual length: the clock may jump.
        let all = now.since(began).min(MEMORY.times(10)).nanos().max(1);
        let work = now.since(woke).nanos().min(all);
        let (before, memory) = (self.busy, MEMORY.nanos());
        self.busy = (before * memory + 1000 * work) / (memory + all);
    }

    /// Thousandths of the time in which the lane worked lately.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }

    /// Whether the lane worked for most of the time lately.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy > MOST
    }

    /// Whether a client that sends much may be read.
    pub(crate) fn allows(&self, now: Time) -> bool {
        !self.is_busy() || now.since(self.served) >= AT_LEAST || now < self.served
    }

    /// Notes that one was read.
    pub(crate) fn served(&mut self, now: Time) {
        self.served = now;
    }

    /// How long to wait before asking again.
    pub(crate) fn wait(&self, now: Time) -> Span {
        if self.allows(now) { Span::ZERO } else { LOOK }
    }
}

#[cfg(test)]
mod tests;

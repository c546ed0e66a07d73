//! How much of the lane's time may go to clients that send much, while others, who send little, are there, too.
//!
//! What a request costs shows only later: it is ordered, written, executed and answered in other turns. So it is the whole lane that is
//! looked at: while it works for more than half of the time, clients that send much are read only now and then. What other programs
//! take of the processor counts as work: the lane has not had that time. Tests: `pace/tests.rs`.

use quorate_types::{Span, Time};

/// The part of the time, in thousandths.
const MOST: u64 = 500;
/// The last so much counts most.
const MEMORY: Span = Span::from_millis(10);
/// So often they are read whatever else there is to do: nobody is kept waiting for ever.
const AT_LEAST: Span = Span::from_millis(20);
/// When to look again.
const LOOK: Span = Span::from_millis(1);

/// How busy the lane is.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Thousandths of the time.
    busy: u64,
    /// When one that sends much was read last.
    served: Time,
}

impl Pace {
    /// The lane waited for something since `began`, and worked since `woke`.
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

    /// Whether the lane has worked for most of the last time.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy > MOST
    }

    /// Whether one that sends much may be read.
    pub(crate) fn allows(&self, now: Time) -> bool {
        !self.is_busy() || now.since(self.served) >= AT_LEAST || now < self.served
    }

    /// One of them was read.
    pub(crate) fn served(&mut self, now: Time) {
        self.served = now;
    }

    /// How long to wait before it is asked again.
    pub(crate) fn wait(&self, now: Time) -> Span {
        if self.allows(now) { Span::ZERO } else { LOOK }
    }
}

#[cfg(test)]
mod tests;

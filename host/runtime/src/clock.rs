//! The clock that a lane reads; tests replace it by one that jumps.

use quorate_types::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

/// A monotonic clock. Its zero means nothing.
pub trait Clock: Send + Sync {
    /// The present time.
    fn now(&self) -> Time;
}

/// The operating system's monotonic clock, with its zero at the creation of this value.
#[derive(Debug)]
pub struct MonotonicClock(Instant);

impl MonotonicClock {
    /// A clock that begins at zero now.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// By how much a replica's clock has jumped, for clusters in which one is to jump. Clones are the same value.
#[derive(Clone, Debug, Default)]
pub struct Jumps(Arc<AtomicI64>);

impl Jumps {
    /// The furthest that a clock jumps back in all, in milliseconds: it begins so late that it stays above zero.
    pub const MS_MAX: i64 = 366 * 24 * 3_600_000;

    /// All jumps together, in milliseconds; negative: back.
    pub fn set(&self, ms: i64) {
        self.0.store(ms.clamp(-Self::MS_MAX, Self::MS_MAX), Ordering::Release);
    }

    /// The system's clock with these jumps.
    pub fn over(self, clock: MonotonicClock) -> Arc<dyn Clock> {
        Arc::new(JumpingClock { clock, jumps: self })
    }
}

struct JumpingClock {
    clock: MonotonicClock,
    jumps: Jumps,
}

impl Clock for JumpingClock {
    fn now(&self) -> Time {
        let ms = Jumps::MS_MAX + self.jumps.0.load(Ordering::Relaxed);
        self.clock.now().plus(Span::from_millis(ms.unsigned_abs()))
    }
}

#[cfg(test)]
mod tests;

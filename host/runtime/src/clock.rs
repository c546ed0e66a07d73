//! The clock that a lane reads; tests replace it by one that jumps.

use quorate_types::Time;
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

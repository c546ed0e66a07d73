//! The clock that a lane reads; tests replace it by one that jumps.

use quorate_types::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

/// A monotonic clock. Its zero means nothing.
pub trait Clock: Send + Sync {
    /// The present time.
    fn now(&self) -> Time;
}

/// A clock that went back by more than this did not only look so to two threads that read it at once.
const BACK: Span = Span::from_millis(200);
/// So often is it noted how far the clock is.
const NOTED: Span = Span::from_millis(50);

/// Keeps time from going back: where a clock does, as on a machine that a hypervisor moved, time goes on from where it was. A replica whose
/// timers are set for a time that comes again, perhaps in an hour, would not vote until then.
#[derive(Debug, Default)]
struct Steady {
    /// How far the clock was, in nanoseconds; behind by at most [`NOTED`].
    noted: AtomicU64,
    /// By how much it went back in all.
    back: AtomicU64,
}

impl Steady {
    /// The time when a clock shows this.
    fn now(&self, shown: Time) -> Time {
        let back = self.back.load(Ordering::Relaxed);
        let now = shown.plus(Span::from_nanos(back));
        let noted = Time::from_nanos(self.noted.load(Ordering::Relaxed));
        if now.since(noted) > NOTED {
            self.noted.fetch_max(now.nanos(), Ordering::Relaxed);
        } else if noted.since(now) > BACK {
            return self.went_back(shown, back, noted);
        }
        now
    }

    #[cold]
    fn went_back(&self, shown: Time, back: u64, noted: Time) -> Time {
        let by = noted.since(shown.plus(Span::from_nanos(back)));
        match self.back.compare_exchange(back, back + by.nanos(), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                tracing::warn!(
                    "the clock of this machine went back by {} ms: time goes on from where it was",
                    by.millis()
                );
                noted
            }
            // Another thread saw it as well.
            Err(now) => shown.plus(Span::from_nanos(now)),
        }
    }
}

/// The operating system's monotonic clock, with its zero at the creation of this value.
#[derive(Debug)]
pub struct MonotonicClock {
    began: Instant,
    steady: Steady,
}

impl MonotonicClock {
    /// A clock that begins at zero now.
    pub fn new() -> Self {
        Self { began: Instant::now(), steady: Steady::default() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Time {
        let elapsed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.steady.now(Time::from_nanos(elapsed))
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
        Arc::new(JumpingClock { clock, jumps: self, steady: Steady::default() })
    }
}

struct JumpingClock {
    clock: MonotonicClock,
    jumps: Jumps,
    steady: Steady,
}

impl Clock for JumpingClock {
    fn now(&self) -> Time {
        let ms = Jumps::MS_MAX + self.jumps.0.load(Ordering::Relaxed);
        self.steady.now(self.clock.now().plus(Span::from_millis(ms.unsigned_abs())))
    }
}

#[cfg(test)]
mod tests;

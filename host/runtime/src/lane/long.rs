//! A request that the lane executes for long: the lane can not say so itself, so the thread of its pulse does, in the log and to the endpoint
//! for probes. Tests: `long/tests.rs`, host/quorate/tests/all/long_commands.rs.

use quorate_execute::{UnderWay, Watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// What takes so long is told; and again each time that it has taken twice as long.
const LONG: Duration = Duration::from_secs(1);

/// What the lane executes, and for how long it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Long {
    pub(super) watched: Watched,
    millis: Arc<AtomicU64>,
}

impl Long {
    /// How long the request takes so far that the lane executes; zero while none takes long.
    pub(crate) fn lasts(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }

    /// What takes long, in words.
    pub(crate) fn words(&self) -> Option<String> {
        let lasts = Some(self.lasts()).filter(|lasts| *lasts >= LONG)?;
        Some(words(lasts, &self.watched.look()?))
    }
}

fn words(lasts: Duration, what: &UnderWay) -> String {
    format!("executes one request for {} s: {what}", lasts.as_secs())
}

/// Looks again and again what is executed.
#[derive(Debug)]
pub(super) struct Watcher {
    long: Long,
    seen: Option<(UnderWay, Instant)>,
    /// When it is told next.
    next: Duration,
}

impl Watcher {
    pub(super) fn new(long: Long) -> Self {
        Self { long, seen: None, next: LONG }
    }

    /// One look. Gives what is to be logged.
    pub(super) fn look(&mut self, now: Instant) -> Option<String> {
        let what = self.long.watched.look();
        if let (Some((seen, since)), Some(what)) = (self.seen, what)
            && seen == what
        {
            let lasts = now.saturating_duration_since(since);
            self.long.millis.store(lasts.as_millis() as u64, Ordering::Relaxed);
            if lasts < self.next {
                return None;
            }
            self.next = 2 * lasts.max(LONG);
            return Some(format!(
                "this replica {}. Nothing else is executed meanwhile, and status is not answered; the same request takes as long on the others. \
                 docs/operations/poison.md says what to do",
                words(lasts, &what)
            ));
        }
        let lasted = self.long.lasts();
        let before = self.seen.take().filter(|_| lasted >= LONG);
        (self.seen, self.next) = (what.map(|what| (what, now)), LONG);
        self.long.millis.store(0, Ordering::Relaxed);
        before.map(|(what, _)| format!("over: {what} took {:.1} s", lasted.as_secs_f64()))
    }
}

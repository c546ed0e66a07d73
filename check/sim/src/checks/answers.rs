//! INV-SIM-ANSWERS: once faults are over, and as long as a client waits, the time from one answer to the next is bounded, even while liars
//! lie and without the replicas that are lost.

use super::Failure;

/// A client that waits gets some answer after at most this many nanoseconds.
pub const SILENCE_MAX: u64 = 20_000_000_000;

/// When the last answer came.
#[derive(Debug, Default)]
pub struct Answers {
    count: usize,
    since: u64,
}

impl Answers {
    /// `count`: how many answers came so far; `waits`: whether a client waits.
    ///
    /// # Errors
    /// When no answer came for too long.
    pub fn look(&mut self, now: u64, count: usize, waits: bool) -> Result<(), Failure> {
        if !waits || count != self.count {
            (self.count, self.since) = (count, now);
        }
        let silence = now - self.since;
        if silence <= SILENCE_MAX {
            return Ok(());
        }
        let text =
            format!("nobody was answered for {:.1} s although nothing else fails", silence as f64 / 1e9);
        Err(Failure::new("answers", text))
    }
}

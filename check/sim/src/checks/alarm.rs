//! INV-SIM-ALARM: once faults are over, what a service wants to do at a time is done soon after, even if no client asks for anything and
//! the leader lies.

use super::Failure;
use super::answers::SILENCE_MAX;

/// An alarm rings at most this many nanoseconds late: the longest time without a leader, and as long as liars may hold back time.
const LATE_MAX: u64 = SILENCE_MAX + 10_000_000_000;

/// The alarm that each command sets anew (`service.rs`).
#[derive(Debug)]
pub struct Alarm {
    /// After how many nanoseconds it should ring; 0: there is no alarm.
    after: u64,
    set: Option<u64>,
}

impl Alarm {
    /// An alarm that is not set.
    pub fn new(after: u64) -> Self {
        Self { after, set: None }
    }

    /// A command set the alarm.
    pub fn set(&mut self, now: u64) {
        self.set = Some(now).filter(|_| self.after > 0);
    }

    /// The alarm rang.
    pub fn rang(&mut self) {
        self.set = None;
    }

    /// Checks that the alarm is not overdue. Faults were over at `healed`.
    ///
    /// # Errors
    /// When it is long overdue.
    pub fn look(&self, now: u64, healed: u64) -> Result<(), Failure> {
        let Some(set) = self.set else { return Ok(()) };
        // A liar makes time slower by a tenth.
        let due = set.max(healed) + self.after + self.after / 8 + LATE_MAX;
        if now <= due {
            return Ok(());
        }
        let text = format!("an alarm did not ring for {:.1} s", (now - set) as f64 / 1e9);
        Err(Failure::new("alarm", text))
    }
}

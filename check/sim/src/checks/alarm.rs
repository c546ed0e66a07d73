//! INV-SIM-ALARM: once faults are over, what a service wants to do at a time is done soon after, also if nobody asks for anything and whoever
//! leads lies.

use super::Failure;
use super::answers::SILENCE_MAX;

/// So many nanoseconds later than it should an alarm rings at most: as long as nobody need lead, and as far as liars hold time back.
const LATE_MAX: u64 = SILENCE_MAX + 10_000_000_000;

/// The alarm that each command sets anew (`service.rs`).
#[derive(Debug)]
pub struct Alarm {
    /// After how many nanoseconds it should ring; 0: there is none.
    after: u64,
    set: Option<u64>,
}

impl Alarm {
    /// It is not set.
    pub fn new(after: u64) -> Self {
        Self { after, set: None }
    }

    /// A command set it.
    pub fn set(&mut self, now: u64) {
        self.set = Some(now).filter(|_| self.after > 0);
    }

    /// It rang.
    pub fn rang(&mut self) {
        self.set = None;
    }

    /// Whether it should have rung. Faults were over at `healed`.
    ///
    /// # Errors
    /// When it should have, long ago.
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

//! What a part of the client is given for one step: the time, the settings, randomness, and the list of effects.

use crate::back_off::back_off;
use crate::config::Config;
use crate::effects::Effects;
use quorate_types::{Random, Span, Time};

/// Later than any moment.
pub(crate) const NEVER: Time = Time::from_nanos(u64::MAX);
/// Timers fire at least this far apart, so that a thousand of them cost one look.
pub(crate) const GRAIN: Span = Span::from_nanos(500_000);

/// See the module.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) now: Time,
    pub(crate) config: &'a Config,
    /// One random source for all parts. The order of draws follows from the inputs.
    pub(crate) random: &'a mut Random,
    pub(crate) out: &'a mut Effects,
}

impl Step<'_> {
    /// When to try again after a refusal; it was refused `refusals` times before.
    pub(crate) fn retry_at(&mut self, refusals: u32) -> Time {
        let wait = back_off(self.random, refusals, self.config.retry_min, self.config.retry_max);
        self.now.plus(wait)
    }
}

#[cfg(test)]
pub(crate) mod tests;

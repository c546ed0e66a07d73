//! Sends its messages late.

use super::{Plays, Said, Saying, Voice};
use quorate_order::mod_smart::message::ModSmartBody as Body;

const MS: u64 = 1_000_000;
/// Once the other faults are over, a liar delays everything by at most this much, since a run must end; and delays of checkpoints and of
/// answers to clients are not measured by anyone.
const HEALED_MAX: u64 = 20 * MS;

/// See the module.
#[derive(Debug)]
pub(super) struct Slow {
    by: u64,
    proposals: bool,
}

impl Slow {
    pub(super) fn new(me: &mut Voice) -> Self {
        Self { by: me.rng.spread(MS, 1000 * MS), proposals: false }
    }

    /// Delays only proposals, by this many milliseconds.
    pub(super) fn leader(me: &mut Voice, by: u64) -> Self {
        let drawn = me.rng.spread(MS, 1000 * MS);
        Self { by: if by == 0 { drawn } else { by * MS }, proposals: true }
    }
}

impl Plays for Slow {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let proposes =
            matches!(&said, Said::ModSmart(_, message) if matches!(message.body, Body::Propose { .. }));
        let late = proposes || !self.proposals;
        let by = if me.healed && !self.proposals { self.by.min(HEALED_MAX) } else { self.by };
        vec![Saying { to, after: if late { by } else { 0 }, said }]
    }
}

//! Says what it has to say late.

use super::{Plays, Said, Saying, Voice};
use quorate_wire::mod_smart::ModSmartBody as Body;

const MS: u64 = 1_000_000;
/// Nobody is late by more once the other faults are over: a run has an end, and who is just not late enough to be replaced may lead.
const HEALED_MAX: u64 = 20 * MS;

/// See the module.
#[derive(Debug)]
pub(super) struct Slow {
    by: u64,
    proposals: bool,
}

impl Slow {
    /// `proposals`: these only.
    pub(super) fn new(me: &mut Voice, proposals: bool) -> Self {
        Self { by: me.rng.spread(MS, 1000 * MS), proposals }
    }
}

impl Plays for Slow {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let proposes =
            matches!(&said, Said::Order(_, message) if matches!(message.body, Body::Propose { .. }));
        let late = proposes || !self.proposals;
        let by = if me.healed { self.by.min(HEALED_MAX) } else { self.by };
        vec![Saying { to, after: if late { by } else { 0 }, said }]
    }
}

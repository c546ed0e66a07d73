//! With several instances: which leaders a member hears, and what leaders do that do not hear each other.
//!
//! Each leader may reach a majority, and the cluster may still stand still: what one leader orders must wait for what another one orders,
//! and neither hears of the other. So members tell each other which leaders they hear. A leader that does not hear a leader that another
//! member hears hands over to the member that hears the most. Among several such members it chooses one that leads already, and then the
//! one with the lowest number. The next leader does the same, so leaders gather until each hears all. docs/protocols/merge.md.
//! Tests: sights/tests.rs, check/sim/tests/all/ring.rs.
//!
//! With Mod-SMaRt no leader gathers: a replica that does not hear a leader gets what that one decided from any replica that has it. Where
//! replicas may lie, none of this is done: a liar could draw every instance to itself.

use quorate_types::{ReplicaId, Time};
use quorate_wire::Sight;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What is known of the leaders that members hear.
#[derive(Debug, Default)]
pub(super) struct Sights {
    /// What this replica last told the others.
    pub(super) told: Sight,
    /// What the connected members said.
    pub(super) others: BTreeMap<ReplicaId, Sight>,
    /// Since when another member hears a leader that is not heard here.
    pub(super) blind_since: Option<Time>,
    /// When a leader here last looked for a member that hears more, if nothing was heard since.
    pub(super) looked: Option<Time>,
    /// Whether a majority is connected; unknown after connections or members have changed.
    pub(super) reaches: Option<bool>,
}

impl Sights {
    /// Whether this replica does not hear a leader that a member hears.
    pub(super) fn is_blind(&self, own: &Sight, present: &Sight) -> bool {
        self.others.values().any(|sight| own.misses(sight, present))
    }

    /// The member that hears more leaders than this replica, which leads: the one that hears the most, then one that leads, then the first.
    pub(super) fn best(
        &self,
        (me, own): (ReplicaId, &Sight),
        present: &Sight,
        able: impl Fn(ReplicaId) -> bool,
        leads: impl Fn(ReplicaId) -> bool,
    ) -> Option<ReplicaId> {
        let rank = |id: ReplicaId, sight: &Sight| (sight.shared(present), id == me || leads(id), Reverse(id));
        let others = self.others.iter().filter(|(id, _)| able(**id));
        let best = others.map(|(id, sight)| rank(*id, sight)).max()?;
        (best > rank(me, own)).then_some(best.2.0)
    }

    /// Members or connections have changed.
    pub(super) fn majority_changed(&mut self) {
        self.reaches = None;
    }

    /// Whether a member hears all leaders, as far as it has said.
    pub(super) fn hears_all(&self, member: ReplicaId, present: &Sight) -> bool {
        self.others.get(&member).is_none_or(|sight| sight.shared(present) == present.shared(present))
    }
}

#[cfg(test)]
mod tests;

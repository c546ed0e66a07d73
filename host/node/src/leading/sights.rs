//! Where there are several instances: of which ones a member hears the leader, and what leaders do that do not hear each other.
//!
//! Each leader may reach a majority, and the cluster stand still all the same: what one of them orders has to wait for what the other one
//! orders, and neither hears of it. Members tell each other whose leaders they hear. Who leads, and does not hear a leader that another
//! member hears, hands over to the member that hears the most of them; of several to one that leads already, then to the one with the lowest
//! number. Whoever takes over does the same, so that leaders gather until each hears all. docs/protocols/merge.md.
//! Tests: sights/tests.rs, check/sim/tests/all/ring.rs.
//!
//! With Mod-SMaRt nobody gathers: who does not hear a leader gets what it decided from whoever has it. Where replicas may lie nothing of this is
//! done: a liar could draw every instance to itself.

use quorate_types::{ReplicaId, Time};
use quorate_wire::Sight;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What is known of the members' sight.
#[derive(Debug, Default)]
pub(super) struct Sights {
    /// What this replica told the others last.
    pub(super) told: Sight,
    /// What the connected members told.
    pub(super) others: BTreeMap<ReplicaId, Sight>,
    /// Since when another member hears a leader that is not heard here.
    pub(super) blind_since: Option<Time>,
    /// When a leader here looked last for somebody who hears more, if nothing was heard since.
    pub(super) looked: Option<Time>,
    /// Whether a majority is connected, once that was looked at since connections and members changed.
    pub(super) reaches: Option<bool>,
}

impl Sights {
    /// Whether a member hears a leader that is not heard here.
    pub(super) fn is_blind(&self, own: &Sight, present: &Sight) -> bool {
        self.others.values().any(|sight| own.misses(sight, present))
    }

    /// Who hears more leaders than this replica, which leads: the most, and of several who hear as many one that leads, too, then the first.
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

    /// Others are members, or connected.
    pub(super) fn majority_changed(&mut self) {
        self.reaches = None;
    }

    /// Whether a member hears all leaders, as far as it said.
    pub(super) fn hears_all(&self, member: ReplicaId, present: &Sight) -> bool {
        self.others.get(&member).is_none_or(|sight| sight.shared(present) == present.shared(present))
    }
}

#[cfg(test)]
mod tests;

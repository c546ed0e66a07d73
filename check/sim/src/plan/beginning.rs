//! Which clusters begin with the state of another one: a backup, restored for other replicas, perhaps with another protocol.

use super::{Focus, MS, Plan, Profile, Upgrades};
use crate::random::Rng;
use quorate_log::SyncMode;
use quorate_order::Protocol;
use quorate_wire::FEATURE_LEVEL;

/// From a generator of its own, after everything else was drawn. Not with durability in memory, where the state is gone when a process
/// ends.
pub(super) fn plan_beginning(plan: &mut Plan) {
    let drawn = Rng::of(plan.seed, 27).chance(150) || plan.focus == Some(Focus::Beginnings);
    plan.restored = drawn && plan.log.sync != SyncMode::Memory;
}

impl Plan {
    /// The cluster of the backup: one replica with as many instances, without faults. Its clients wrote nothing, so everything that is read
    /// in the new cluster was written there.
    #[must_use]
    pub fn before(&self) -> Self {
        let protocol = Rng::of(self.seed, 28).pick(&Protocol::ALL);
        let profile = Profile {
            replicas: Some(1),
            protocol: Some(protocol),
            faults: false,
            sync: Some(SyncMode::Group),
            changes: Some(false),
            instances: Some(self.instances),
            resizes: Some(false),
            lanes: Some(1),
            upgrades: Some(false),
            ..Profile::default()
        };
        let mut plan = Self::new(self.seed ^ 1 << 63, &profile);
        (plan.restored, plan.clients, plan.heal_at) = (false, 1, 200 * MS);
        plan.workload.operations = 0;
        // A backup of another kind of cluster will do, too.
        plan.verified = self.verified.filter(|_| self.seed & 1 == 0);
        (plan.window, plan.service, plan.sessions) = (self.window, self.service, self.sessions);
        let made_with = self.upgrades.made_with;
        plan.upgrades = Upgrades { made_with, able: vec![FEATURE_LEVEL], raise_after: None, careless: false };
        plan
    }
}

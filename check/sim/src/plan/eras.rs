//! Runs in which eras end: the cluster moves between fault models and protocols while everything else happens.

use super::{Fault, MS, Plan, Profile};
use crate::random::Rng;
use quorate_log::SyncMode;
use quorate_order::Protocol;
use quorate_types::{FaultModel, Visigoth};
use quorate_wire::{EraFaults, FEATURE_LEVEL};

/// What an era is like, as an operator asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EraKind {
    /// The faults that are survived.
    pub model: FaultModel,
    /// The protocol.
    pub protocol: Protocol,
}

impl EraKind {
    /// The faults, as they stand in commands.
    pub const fn faults(self) -> EraFaults {
        EraFaults { model: self.model, most: None }
    }
}

/// Replicas crash, or one of four lies, or one of four lies and one is slow.
fn kinds() -> [EraKind; 4] {
    let kind = |model, protocol| EraKind { model, protocol };
    let sizes = Visigoth { u: 1, s: 1, o: 1, t_ms: 50 };
    [
        kind(FaultModel::Crash, Protocol::RAFT),
        kind(FaultModel::Byzantine, Protocol::MOD_SMART),
        kind(FaultModel::Crash, Protocol::MOD_SMART),
        kind(FaultModel::Visigoth(sizes), Protocol::MOD_SMART),
    ]
}

impl Profile {
    /// The same for runs with eras: four replicas, of which one lies while that is survived.
    #[must_use]
    pub(super) fn with_eras(self) -> Self {
        if !self.eras {
            return self;
        }
        Self {
            replicas: Some(self.replicas.unwrap_or(4).max(4)),
            fault_model: Some(FaultModel::Byzantine),
            changes: Some(false),
            resizes: Some(false),
            upgrades: Some(false),
            sync: Some(SyncMode::Group),
            verify: false,
            weighted: false,
            ..self
        }
    }
}

/// Draws the first era, and when operators ask for others. Where replicas only crash no replica may lie or have a wrong state: those that lie
/// do so only in the eras that survive it, and faults that make a state or a disk wrong are left out.
pub(super) fn plan_eras(plan: &mut Plan, profile: &Profile) {
    if !profile.eras {
        return;
    }
    let mut rng = Rng::of(plan.seed, 9120);
    let kinds = kinds();
    plan.eras = Some(rng.pick(&kinds[..2]));
    plan.restored = false;
    plan.upgrades.made_with = FEATURE_LEVEL;
    plan.upgrades.able.fill(FEATURE_LEVEL);
    plan.faults.retain(|(_, fault)| {
        let hurts = matches!(
            fault,
            Fault::Corrupt { .. }
                | Fault::RotCheckpoint { .. }
                | Fault::Disk(_)
                | Fault::Moment(_)
                | Fault::CrashInCheckpoint { .. }
        );
        !hurts && !fault.is_final()
    });
    plan.liars.iter_mut().for_each(|liar| liar.since = liar.since.min(plan.heal_at / 2));
    let mut at = rng.range(100, 1_500) * MS;
    while at < plan.heal_at {
        plan.faults.push((at, Fault::Era(rng.pick(&kinds))));
        at += rng.pick(&[50, 300, 1_000, 2_500]) * MS;
    }
    // One more once everything is well, so that each run has some.
    plan.faults.push((plan.heal_at + 200 * MS, Fault::Era(rng.pick(&kinds))));
    plan.faults.sort_by_key(|(at, _)| *at);
}

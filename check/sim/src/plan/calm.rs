//! Quiet clusters for scenarios: nothing goes wrong in them except what a scenario adds.

use super::{MS, Plan, Profile};
use quorate_log::SyncMode;
use quorate_types::FaultModel;

impl Profile {
    /// A cluster of this many replicas and one instance, without faults.
    #[must_use]
    pub fn calm(fault_model: FaultModel, replicas: usize) -> Self {
        Self {
            replicas: Some(replicas),
            fault_model: Some(fault_model),
            liars: Some(0),
            faults: false,
            instances: Some(1),
            sync: Some(SyncMode::Group),
            ..Self::default()
        }
    }
}

impl Plan {
    /// A plan with a quick network and quick disks, right clocks and usual time-outs; four clients write one command after the other.
    #[must_use]
    pub fn calm(seed: u64, profile: &Profile) -> Self {
        let mut plan = Self::new(seed, profile);
        (plan.timing, plan.in_flight, plan.drift) = ((50, 300, 600), (2, 1 << 20), 0);
        (plan.net.delay, plan.net.jitter, plan.net.bandwidth, plan.net.spike) =
            ((MS / 10, MS / 5), MS / 10, None, 0);
        (plan.disk, plan.heal_at, plan.clients) = ((MS / 10, MS), 100 * MS, 4);
        (plan.rotate_after, plan.restored, plan.lease) = (0, false, None);
        let work = &mut plan.workload;
        (work.at_once, work.pause, work.padding) = (2, MS, 0);
        (work.shares, work.deadlines, work.batch) = ([1, 0, 0, 0, 0, 0, 0, 0], 0, 1);
        plan
    }
}

//! Clusters whose execution is late: batches are final some batches later, and some are executed, taken back and executed again.

use quorate_order::Protocol;
use quorate_sim::{Level, Plan, Profile, World};
use quorate_types::FaultModel;

fn clean(seeds: std::ops::Range<u64>, profile: &Profile) -> usize {
    let mut taken_back = 0;
    for seed in seeds {
        let plan = Plan::new(seed, &Profile { late: true, ..*profile });
        let lateness = plan.lateness.expect("execution is late");
        taken_back += usize::from(lateness.takes_back > 0);
        let report = World::new(plan, Level::Hash).run();
        assert!(report.failure.is_none(), "seed {seed}: {:?}", report.failure);
    }
    taken_back
}

#[test]
fn nobody_takes_execution_for_done_with_delivery() {
    assert!(clean(1..41, &Profile::default()) > 0, "in some of them it takes batches back");
}

#[test]
fn so_it_is_where_replicas_lie() {
    clean(1..9, &Profile { fault_model: Some(FaultModel::Byzantine), ..Profile::default() });
}

/// Another replica leads after each slot, before what the last one proposed is final: its clients are answered where they asked.
#[test]
fn whoever_led_answers_what_it_proposed() {
    clean(1447..1448, &Profile { protocol: Some(Protocol::MOD_SMART), ..Profile::default() });
}

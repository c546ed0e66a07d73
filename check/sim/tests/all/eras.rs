//! Clusters that move between fault models: eras end, and others begin, while clients go on.

use crate::count::seeds;
use quorate_sim::{Level, Plan, Profile, World};

fn run(seed: u64) -> World {
    let mut world = World::new(Plan::new(seed, &Profile { eras: true, ..Profile::default() }), Level::Hash);
    let report = world.run();
    assert!(report.failure.is_none(), "seed {seed}: {:?}", report.failure);
    world
}

#[test]
fn clusters_move_from_crash_faults_to_lies_and_back_while_clients_go_on() {
    let entered: usize = (1..=seeds(20)).map(|seed| run(seed).eras()).sum();
    assert!(entered > 20, "only {entered} eras were entered");
}

#[cfg(planted)]
mod bugs {
    use super::*;
    use quorate_types::plant;

    /// The checkers that see a bug in so many runs.
    fn seen(bug: &str, runs: u64) -> Vec<&'static str> {
        plant(Some(bug));
        let plan = |seed| Plan::new(seed, &Profile { eras: true, ..Profile::default() });
        let failed = (1..=runs).filter_map(|seed| {
            let (report, _) = quorate_sim::campaign::run_plan(plan(seed), Level::Hash);
            report.failure.map(|failure| failure.checker)
        });
        let seen = failed.collect();
        plant(None);
        seen
    }

    #[test]
    #[ignore = "alone in its process: the bug in force is the whole process's"]
    fn planted_ends_are_seen() {
        assert!(!seen("era-ends-anywhere", 40).is_empty(), "nothing is delivered behind the end");
        assert!(!seen("era-votes-count", 200).is_empty(), "messages of another era do not count");
    }
}

//! Runs that have to be clean.

use quorate_sim::{Level, Plan, Profile, World};

/// Runs these seeds; `see` looks at each plan before.
pub(crate) fn all_are_clean(profile: &Profile, seeds: std::ops::Range<u64>, mut see: impl FnMut(&Plan)) {
    for seed in seeds {
        let plan = Plan::new(seed, profile);
        see(&plan);
        let report = World::new(plan, Level::Hash).run();
        assert!(report.failure.is_none(), "seed {seed}: {:?}", report.failure);
    }
}

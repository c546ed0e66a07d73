//! How far members want the instances filled that this replica leads, where some of them may lie.
//!
//! What decided work needs, all honest members want sooner or later, each by itself. So the furthest place that f+1 members want is one that
//! an honest one wants; what a liar alone wants would fill the instances as far ahead as their window goes.
//! Tests: wants/tests.rs, check/sim (`Trick::Members`).

use quorate_merge::Place;
use quorate_types::{ReplicaId, planted};
use std::collections::BTreeMap;

/// The furthest place that each member ever wanted.
#[derive(Debug, Default)]
pub(super) struct Wants {
    by: BTreeMap<ReplicaId, Place>,
}

impl Wants {
    /// A member wants everything up to this place; gives the furthest that `one_honest` members want, if there are so many.
    pub(super) fn wants(&mut self, from: ReplicaId, place: Place, one_honest: usize) -> Option<Place> {
        let one_honest = if planted("gap-of-one") { 1 } else { one_honest };
        let furthest = self.by.entry(from).or_insert(place);
        *furthest = place.max(*furthest);
        let mut places: Vec<Place> = self.by.values().copied().collect();
        places.sort_unstable();
        places.iter().rev().nth(one_honest.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests;

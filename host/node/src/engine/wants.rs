//! How far members want the instances of this replica filled, where some members may lie.
//!
//! All honest members want, sooner or later, what decided work needs. So the furthest place that f+1 members want is one that an honest
//! member wants. A single liar could have the instances filled as far ahead as their window goes.
//! Tests: wants/tests.rs, check/sim (`Trick::Members`).

use quorate_merge::Place;
use quorate_types::{ReplicaId, planted};
use std::collections::BTreeMap;

/// The furthest place that each member has ever wanted.
#[derive(Debug, Default)]
pub(super) struct Wants {
    by: BTreeMap<ReplicaId, Place>,
}

impl Wants {
    /// A member wants everything up to this place. Gives the furthest place that `one_honest` members want, if that many want one.
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

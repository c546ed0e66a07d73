//! Where replicas may lie: who leads an instance that decided work waits for, and fills nothing, is complained about there, and nobody else
//! for that.
//!
//! What waits for the merge alone was ordered, so that the leader of its own instance did its part. The place that the merge waits for
//! is watched in its instance, like a request that its leader leaves out. Tests: check/sim/tests/all/liars.rs.

use crate::facts::{Facts, Place};
use crate::intake::Out;
use quorate_types::{Digest, InstanceId, RequestNumber, SessionId, Span, Time, planted};
use std::collections::BTreeSet;

/// The merge waits for longer than this before the leader of that instance is watched.
const LATE_AFTER: Span = Span::from_millis(100);

/// Under which name a place is watched: no request has it, since theirs are hashes.
fn name_of(place: Place) -> Digest {
    let mut name = [0; 32];
    name[..8].copy_from_slice(&place.slot.number().to_le_bytes());
    name[8..10].copy_from_slice(&place.instance.number().to_le_bytes());
    name[31] = 1;
    Digest::new(name)
}

/// The place that the merge waits for, while its leader is watched for that.
#[derive(Debug, Default)]
pub(super) struct Gap(Option<Place>);

impl Gap {
    /// Whether something is watched.
    pub(super) const fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Watches the place that the merge waits for, in its own instance.
    pub(super) fn watch(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) {
        let late = |since: Time| now.since(since) > LATE_AFTER && !planted("gap-unwatched");
        let gap = facts.waits_for().filter(|(_, since)| late(*since)).map(|(place, _)| place);
        if gap == self.0 {
            return;
        }
        if let Some(before) = std::mem::replace(&mut self.0, gap) {
            out.push(Out::Unwatch { instance: before.instance, name: name_of(before) });
        }
        if let Some(place) = gap {
            out.push(Out::Watch { instance: place.instance, name: name_of(place) });
        }
    }

    /// What is decided in an instance, and waits for another one.
    pub(super) fn only_unmerged(
        &self,
        facts: &dyn Facts,
        instance: InstanceId,
    ) -> BTreeSet<(SessionId, RequestNumber)> {
        let mut requests = BTreeSet::new();
        if self.is_watched() {
            facts.unmerged(instance, &mut |batch| {
                requests
                    .extend(batch.requests().flatten().map(|(header, ..)| (header.session, header.number)));
            });
        }
        requests
    }
}

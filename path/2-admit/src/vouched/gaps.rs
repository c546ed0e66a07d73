//! Where replicas may lie: if decided work waits for another instance and its leader fills nothing, replicas complain about that leader,
//! and about no other.
//!
//! Work that waits only for the merge was ordered, so the leader of its own instance did its part. The place that the merge waits for is
//! watched in that place's instance, like a request that the leader leaves out. Tests: check/sim/tests/all/liars.rs.

use crate::facts::{Facts, Place};
use crate::intake::Out;
use quorate_types::{Digest, InstanceId, RequestNumber, SessionId, Span, Time, planted};
use quorate_wire::Batch;
use std::collections::BTreeSet;

/// The leader of an instance is watched once the merge has waited for longer than this.
const LATE_AFTER: Span = Span::from_millis(100);

/// The name under which a place is watched. No request has it, since requests are watched under hashes.
fn name_of(place: Place) -> Digest {
    let mut name = [0; 32];
    name[..8].copy_from_slice(&place.slot.number().to_le_bytes());
    name[8..10].copy_from_slice(&place.instance.number().to_le_bytes());
    name[31] = 1;
    Digest::new(name)
}

/// The place that the merge waits for, while it is watched.
#[derive(Debug, Default)]
pub(super) struct Gap(Option<Place>);

impl Gap {
    /// Whether a place is watched.
    pub(super) const fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Watches the place that the merge waits for, in that place's instance.
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

    /// Requests in batches whose results wait for a ruling. Their leader did its part.
    pub(super) fn unruled(facts: &dyn Facts) -> Named {
        let mut requests = Named::new();
        facts.unruled(&mut |batch| add(batch, &mut requests));
        requests
    }

    /// Requests that an instance decided and that wait only for another instance.
    pub(super) fn only_unmerged(&self, facts: &dyn Facts, instance: InstanceId) -> Named {
        let mut requests = Named::new();
        if self.is_watched() {
            facts.unmerged(instance, &mut |batch| add(batch, &mut requests));
        }
        requests
    }
}

/// Requests, by their names.
pub(super) type Named = BTreeSet<(SessionId, RequestNumber)>;

fn add(batch: &Batch, requests: &mut Named) {
    requests.extend(batch.requests().flatten().map(|(header, ..)| (header.session, header.number)));
}

/// Requests of an instance that are decided, and are executed once other batches are merged or ruled on (V17). A leader that proposed them again
/// would use its slots for nothing: each is executed once.
pub(super) fn pending(facts: &dyn Facts, instance: InstanceId) -> Named {
    let mut requests = Gap::unruled(facts);
    facts.unmerged(instance, &mut |batch| add(batch, &mut requests));
    // Openings have no session, and numbers that other clients may choose, too.
    requests.retain(|(session, _)| *session != SessionId::NONE);
    requests
}

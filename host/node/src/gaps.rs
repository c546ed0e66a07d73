//! Where replicas may lie: who leads an instance that decided work waits for, and fills nothing, is complained about there, and nobody else
//! for that.
//!
//! What waits for the merge alone was ordered, so that the leader of its own instance did its part. The place that the merge waits for
//! is watched in its instance, like a request that its leader leaves out. Tests: check/sim/tests/liars.rs.

use crate::node::Node;
use quorate_merge::Position;
use quorate_order::Input as OrderInput;
use quorate_types::{Digest, RequestNumber, SessionId, Span, Time, planted};
use std::collections::BTreeSet;

/// The merge waits for longer than this before the leader of that instance is watched.
const LATE_AFTER: Span = Span::from_millis(100);

/// Under which name a place is watched: no request has it, since theirs are hashes.
fn name_of(place: Position) -> Digest {
    let mut name = [0; 32];
    name[..8].copy_from_slice(&place.slot.number().to_le_bytes());
    name[8..10].copy_from_slice(&place.instance.number().to_le_bytes());
    name[31] = 1;
    Digest::new(name)
}

impl Node {
    /// Watches the place that the merge waits for, in its own instance.
    pub(crate) fn watch_gap(&mut self, now: Time) {
        let late = |since: Time| now.since(since) > LATE_AFTER && !planted("gap-unwatched");
        let waits = self.merge.waits().filter(|waits| late(waits.since));
        let gap = waits.map(|waits| Position { slot: waits.slot, instance: waits.instance });
        if gap == self.vouching.gap {
            return;
        }
        if let Some(before) = std::mem::replace(&mut self.vouching.gap, gap) {
            self.step_in_place(now, before, OrderInput::Unwatch(name_of(before)));
        }
        if let Some(place) = gap {
            self.step_in_place(now, place, OrderInput::Watch(name_of(place)));
        }
    }

    fn step_in_place(&mut self, now: Time, place: Position, input: OrderInput) {
        let at = usize::from(place.instance.number()).saturating_sub(1);
        if at < self.instances.len() {
            self.step_in(at, now, input);
        }
    }

    /// What is decided in an instance, and waits for another one.
    pub(crate) fn only_unmerged(&self, at: usize) -> BTreeSet<(SessionId, RequestNumber)> {
        let Some(instance) = self.instances.get(at).filter(|_| self.vouching.gap.is_some()) else {
            return BTreeSet::new();
        };
        let requests = self.merge.held(instance.id).flat_map(|batch| batch.requests().flatten());
        requests.map(|(header, ..)| (header.session, header.number)).collect()
    }
}

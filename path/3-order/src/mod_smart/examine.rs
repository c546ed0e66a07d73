//! With Byzantine faults a replica votes for a leader's batch only when it knows that clients sent what is in it.
//!
//! Only the host can tell. It is asked about each proposal, and its answer holds until the slot is decided, whatever the view. Where the
//! host can not tell, f+1 others that wrote the value are enough, since one of them is honest and knows. The host is not asked about the
//! value that binds a view, because f+1 members wrote it before.
//!
//! INV-SMART-10: the remembered answers are bounded. Tests: tests/examine.rs, tests/liars.rs.

use super::core::Core;
use super::normal::{AHEAD_MAX, Tally};
use super::tenures::only_holds;
use crate::mod_smart::message::WRITES_MAX;
use crate::{Effect, Effects, Waited};
use quorate_types::{Digest, Slot, planted};
use quorate_wire::Batch;
use std::collections::BTreeMap;

/// What the host vouched for, by slot, the latest last. A slot keeps only a few values, each of another view; for a value that was dropped,
/// the host is asked again.
#[derive(Debug, Default)]
pub(super) struct Vouched {
    values: BTreeMap<Slot, Vec<(Digest, Option<Waited>)>>,
}

impl Vouched {
    fn contains(&self, slot: Slot, digest: Digest) -> bool {
        self.get(slot, digest).is_some()
    }
    fn get(&self, slot: Slot, digest: Digest) -> Option<Option<Waited>> {
        let values = self.values.get(&slot)?;
        values.iter().find(|(known, _)| *known == digest).map(|(_, waited)| *waited)
    }
    fn insert(&mut self, slot: Slot, digest: Digest, waited: Option<Waited>) {
        let values = self.values.entry(slot).or_default();
        if !values.iter().any(|(known, _)| *known == digest) {
            values.push((digest, waited));
        }
        if values.len() > WRITES_MAX {
            values.remove(0);
        }
    }
    /// Everything up to this slot is decided.
    pub(super) fn forget(&mut self, decided: Slot) {
        self.values.retain(|slot, _| *slot > decided);
    }
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
    /// Whether it holds no more than a few values of a few slots.
    pub(super) fn is_bounded(&self) -> bool {
        self.values.len() as u64 <= AHEAD_MAX && self.values.values().all(|values| values.len() <= WRITES_MAX)
    }

    /// Asks about the first proposal for a slot in a view. [mod_smart L100]
    pub(super) fn examine(&self, slot: Slot, digest: Digest, batch: &Batch, core: &Core, out: &mut Effects) {
        // This replica itself can check what a batch says of the membership.
        if core.may_lie() && !self.contains(slot, digest) && only_holds(batch).is_none() {
            out.push(Effect::Examine { slot, digest, batch: batch.clone() });
        }
    }

    /// The host's answer may come late: in a later view, or after the slot was decided. Returns whether it is still of use. [mod_smart
    /// L101]
    pub(super) fn answer(&mut self, slot: Slot, digest: Digest, waited: Option<Waited>, core: &Core) -> bool {
        let next = core.decided().next();
        let of_use = core.may_lie() && slot >= next && slot.since(next) < AHEAD_MAX;
        if of_use {
            self.insert(slot, digest, waited);
        }
        of_use
    }

    /// How long the proposed requests waited here, if the host said so.
    pub(super) fn waited(&self, slot: Slot, digest: Digest) -> Option<Waited> {
        self.get(slot, digest).flatten()
    }

    /// Whether this replica knows that clients sent what was proposed. [mod_smart L101]
    pub(super) fn may_take(&self, slot: Slot, digest: Digest, tally: &Tally, core: &Core) -> bool {
        if !core.may_lie() || self.contains(slot, digest) || planted("smart-votes-unvouched") {
            return true;
        }
        let proposal = tally.proposal.as_ref().filter(|proposal| proposal.0 == digest);
        let holds = proposal.and_then(|(_, batch)| only_holds(batch));
        if holds.is_some_and(|holds| core.members.vouch_for(&holds)) {
            return true;
        }
        let others = tally.writes.iter().filter(|(id, vote)| **id != core.config.me && **vote == digest);
        others.count() >= core.truth()
    }
}

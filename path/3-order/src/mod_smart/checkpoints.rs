//! Where the log begins: checkpoints of others' making, and forgetting what lies in one's own.
//!
//! An anchor names the membership and nothing else: the slot is the checkpoint's, and in which view, by which votes a slot was
//! decided differs between replicas. INV-SMART-2, INV-SMART-9. Tests: tests/checkpoints.rs.

use super::persist::inconsistent;
use super::{ModSmart, Phase};
use crate::{Anchor, Effect, Effects};
use quorate_types::{Halt, ReplicaId, Slot};
use quorate_wire::Memberships;

/// The anchor with which a cluster of these members begins. [mod_smart L89]
pub(crate) fn first_anchor(members: &[ReplicaId]) -> Anchor {
    let bytes = Memberships::created(members).encode();
    Anchor::decode(&bytes).expect("INV-SMART-9: a list of members fits an anchor")
}

impl ModSmart {
    /// [mod_smart L89]
    pub(super) fn anchor_at(&self, slot: Slot) -> Option<Anchor> {
        let known = slot >= self.log.floor() && slot <= self.log.last().max(self.log.delivered());
        known.then(|| Anchor::decode(&self.membership.encode()).ok()).flatten()
    }

    pub(super) fn read_anchor(&self, anchor: &Anchor) -> Result<(), Halt> {
        if anchor.encode() == self.membership.encode() {
            Ok(())
        } else {
            Err(inconsistent("the checkpoint is of another membership, or of another protocol"))
        }
    }

    /// [mod_smart L90]
    pub(super) fn on_trim(&mut self, slot: Slot, out: &mut Effects) {
        if slot > self.log.delivered() || slot < self.log.floor() {
            return;
        }
        // The checkpoint may be ahead of the log.
        let slot = slot.min(self.log.last());
        let stated = slot == self.log.floor() && !self.floor_records.is_empty();
        if stated || slot == Slot::ZERO {
            return;
        }
        let proof = self.log.proof(slot).cloned();
        self.log.raise_floor(slot, proof);
        self.persist_floor(false, out);
    }

    /// [mod_smart L91-L92]
    pub(super) fn on_installed(&mut self, slot: Slot, anchor: &Anchor, out: &mut Effects) {
        if let Err(why) = self.read_anchor(anchor) {
            return self.halt(why, out);
        }
        assert!(
            slot >= self.log.floor(),
            "INV-SMART-9: no checkpoint from before the log's floor is installed"
        );
        self.loads.forget_delivery();
        if slot <= self.log.last() {
            self.log.set_delivered(slot);
            return self.deliver(out);
        }
        self.begin_after(slot, out);
    }

    /// What this replica lacks it gets nowhere but in a checkpoint. One that it has already, ahead of its log, serves as well. [mod_smart L75, L103]
    pub(super) fn needs_later(&mut self, slot: Slot, out: &mut Effects) {
        match self.log.delivered() {
            ahead if ahead >= slot && ahead > self.log.last() => self.begin_after(ahead, out),
            _ => out.push(Effect::Behind { slot }),
        }
    }

    /// The log begins after a checkpoint beyond it, empty. [mod_smart L92]
    fn begin_after(&mut self, slot: Slot, out: &mut Effects) {
        self.log.reset(slot, None);
        self.open = Default::default();
        self.tallies.retain(|of, _| *of > slot);
        self.vouched.forget(slot);
        // Votes on slots that the checkpoint holds are of no use; a statement about them is made anew.
        self.own.clear();
        if let Phase::Normal { forced, .. } = &mut self.phase {
            *forced = None;
        }
        self.fetching.forget(slot);
        self.watch.slot_is_over();
        self.persist_floor(true, out);
        if matches!(self.phase, Phase::Syncing) {
            self.enter_synchronization(out);
        }
        self.progress(out);
    }
}

//! Where the log begins: checkpoints of others' making, and forgetting what lies in one's own.
//!
//! An anchor names the membership, and where and with which view its tenure began: the slot is the checkpoint's, and in which view, by
//! which votes a slot was decided differs between replicas. INV-SMART-2, INV-SMART-9. Tests: tests/checkpoints.rs.

use super::tenures::Tenures;
use super::{ModSmart, Phase};
use crate::{Anchor, Effect, Effects};
use quorate_types::{Halt, Slot};

impl ModSmart {
    /// [mod_smart L89]
    pub(super) fn anchor_at(&self, slot: Slot) -> Option<Anchor> {
        if slot > self.ledger.last() {
            return self.ledger.ahead().filter(|ahead| ahead.0 == slot).map(|ahead| ahead.1.clone());
        }
        (slot >= self.ledger.floor()).then(|| self.members.tenures.anchor(slot)).flatten()
    }

    /// Which tenures an anchor of this slot names.
    pub(super) fn read_anchor(&self, slot: Slot, anchor: &Anchor) -> Result<Tenures, Halt> {
        Tenures::read(&self.members.created, slot, anchor)
    }

    /// [mod_smart L90]
    pub(super) fn on_trim(&mut self, slot: Slot, out: &mut Effects) {
        if self.ledger.trim(slot) {
            self.members.tenures.forget(self.ledger.floor());
            self.persist_floor(false, out);
        }
    }

    /// [mod_smart L91-L92]
    pub(super) fn on_installed(&mut self, slot: Slot, anchor: &Anchor, out: &mut Effects) {
        let tenures = match self.read_anchor(slot, anchor) {
            Ok(tenures) => tenures,
            Err(why) => return self.halt(why, out),
        };
        if !self.ledger.installed(slot, out) {
            self.ledger.forget_ahead();
            self.begin_after(slot, tenures, out);
        }
    }

    /// What this replica lacks it gets nowhere but in a checkpoint. One that it has already, ahead of its log, serves as well. [mod_smart L75, L103]
    pub(super) fn needs_later(&mut self, slot: Slot, out: &mut Effects) {
        let ahead = self.ledger.ahead().filter(|(ahead, _)| *ahead == self.ledger.delivered()).cloned();
        match ahead {
            Some((ahead, anchor)) if ahead >= slot => match self.read_anchor(ahead, &anchor) {
                Ok(tenures) => self.begin_after(ahead, tenures, out),
                Err(why) => self.halt(why, out),
            },
            _ => out.push(Effect::Behind { slot }),
        }
    }

    /// The log begins after a checkpoint beyond it, empty. [mod_smart L92]
    fn begin_after(&mut self, slot: Slot, tenures: Tenures, out: &mut Effects) {
        let later = tenures.now().number() > self.membership_number();
        self.members.tenures = tenures;
        self.ledger.begin_after(slot);
        self.voting.open = Default::default();
        self.voting.tallies.retain(|of, _| *of > slot);
        self.voting.vouched.forget(slot);
        // Votes on slots that the checkpoint holds are of no use; a statement about them is made anew.
        self.voting.own.clear();
        if let Phase::Normal { forced, .. } = &mut self.office.phase {
            *forced = None;
        }
        self.fetching.forget(slot);
        self.watch.slot_is_over();
        // Before the view: a life that knows the view knows where its log begins.
        self.persist_floor(true, out);
        if later {
            self.enter_tenure(out);
            self.begin_rounds(out);
        }
        self.meet_decision();
        if matches!(self.office.phase, Phase::Syncing) {
            self.enter_synchronization(out);
        }
        self.progress(out);
    }
}

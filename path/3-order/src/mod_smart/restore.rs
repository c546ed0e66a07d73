//! Takes records of an earlier life back, before the start.
//!
//! What they tell of decided slots is the ledger's (`ledger/replay.rs`): what leads to the checkpoint, what follows it, what is missing.
//! Here stand views, votes on the slot that is not decided, and tenures. [mod_smart L81-L88]
//!
//! INV-SMART-9. Tests: tests/restart.rs.

use super::ModSmart;
use super::normal::Open;
use super::persist::{Record, read};
use super::tenures::{Tenures, holds_of, number_of};
use crate::ledger::{Decided, Votes, inconsistent};
use crate::{Anchor, Effects, Stored};
use quorate_types::{Digest, Halt, RecordId, Slot, View, planted};
use quorate_wire::{Batch, Holds};
use std::collections::BTreeMap;

/// What is known of tenures while records are read.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// Slots that changed the membership, as far as they were read.
    changes: BTreeMap<Slot, Holds>,
    /// Who took part after which slot, as the last FLOOR record says, if it is not known without.
    floor_tenures: Option<(Slot, Tenures)>,
}

impl ModSmart {
    pub(super) fn restore_position(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        self.members.tenures = self.read_anchor(slot, anchor)?;
        self.ledger.restore_position(slot, anchor.clone());
        Ok(())
    }

    /// [mod_smart L81-L84]
    pub(super) fn restore_record(&mut self, id: RecordId, record: Stored) -> Result<(), Halt> {
        self.ledger.restore(id)?;
        match read(record)? {
            Record::View(view, stops) => {
                if view <= self.office.view {
                    return Err(inconsistent(format!("{view} follows {}", self.office.view)));
                }
                (self.office.view, self.office.certificate) = (view, stops);
            }
            Record::Wrote(slot, view, digest, batch) => {
                self.restore_view(view)?;
                self.restore_batch(slot, digest, batch, id);
                self.voting.open.note_write(view, digest);
            }
            Record::Locked(slot, view, digest, batch) => {
                self.restore_view(view)?;
                self.restore_batch(slot, digest, batch, id);
                self.voting.open.lock = Some((view, digest));
            }
            Record::Decided(decided) => {
                self.restore_view(decided.view)?;
                self.restore_decision(decided, id)?;
            }
            Record::Floor(floor, stops) => {
                self.restore_view(floor.view)?;
                self.office.certificate = stops;
                let tenures = floor.anchor.map(|anchor| self.read_anchor(floor.slot, &anchor)).transpose()?;
                self.members.replay.floor_tenures = tenures.map(|tenures| (floor.slot, tenures));
                if self.ledger.restore_floor(floor.slot, floor.cleared, floor.proof)? {
                    self.voting.open = Open::default();
                }
            }
        }
        self.ledger.evict_restored();
        Ok(())
    }

    /// A record says in which view we were.
    fn restore_view(&mut self, view: View) -> Result<(), Halt> {
        // Where the log begins, or after a gap, the record that says so may be missing.
        let unknown = self.office.view == View::ZERO || self.ledger.has_gap();
        if view < self.office.view || (view > self.office.view && !unknown) {
            return Err(inconsistent(format!("a record of {view} in {}", self.office.view)));
        }
        if view > self.office.view {
            self.office.view = view;
            self.office.certificate.clear();
        }
        Ok(())
    }

    /// A vote on this slot follows, perhaps with its batch.
    fn restore_batch(&mut self, slot: Slot, digest: Digest, batch: Option<Batch>, id: RecordId) {
        if self.ledger.restore_vote(slot) {
            self.voting.open = Open::default();
        }
        if let Some(batch) = batch {
            self.voting.open.batches.insert(digest, (batch, id));
        }
    }

    /// [mod_smart L86]
    fn restore_decision(&mut self, decided: Decided, id: RecordId) -> Result<(), Halt> {
        let Decided { slot, proof, batch, .. } = decided;
        let votes = std::mem::take(&mut self.voting.open);
        let of_it = self.ledger.votes_are_on(slot);
        let known = votes.batches.get(&proof.digest).filter(|_| of_it).cloned();
        let found = batch.map(|batch| (batch, id)).or(known);
        if let Some(holds) = found.as_ref().and_then(|(batch, _)| holds_of(batch)) {
            self.members.replay.changes.insert(slot, holds);
        }
        self.ledger.restore_decided(slot, proof, found)
    }

    /// [mod_smart L85]
    pub(super) fn restore_lost(&mut self) {
        self.ledger.restore_gap();
        self.voting.open = Open::default();
    }

    /// [mod_smart L87]
    pub(super) fn is_covered_by(&self, slot: Slot, anchor: &Anchor) -> bool {
        self.read_anchor(slot, anchor).is_ok() && slot >= self.ledger.floor()
    }

    /// [mod_smart L87]
    pub(super) fn restore_over(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        assert!(
            self.is_covered_by(slot, anchor),
            "INV-SMART-9: whoever lost records takes part only from a checkpoint on that continues what is left"
        );
        self.members.tenures = self.read_anchor(slot, anchor)?;
        if self.ledger.restore_over(slot, anchor.clone()) {
            self.voting.open = Open::default();
        }
        Ok(())
    }

    /// What is known of the votes that were read last.
    pub(super) fn votes_read(&self) -> Votes {
        let mut all = self.voting.open.writes.iter().chain(&self.voting.open.lock);
        let whole = all.clone().all(|vote| self.voting.open.batches.contains_key(&vote.1));
        Votes { any: all.next().is_some(), whole }
    }

    /// All records were given. [mod_smart L88]
    pub(super) fn finish_restoring(&mut self, out: &mut Effects) -> Result<(), Halt> {
        if self.office.view == View::ZERO && self.ledger.records().last() > RecordId::ZERO {
            return Err(inconsistent("no record says in which view this replica was"));
        }
        // [mod_smart L102]
        if !self.ledger.go_on(self.votes_read()) {
            self.voting.open = Open::default();
        }
        // Of decided slots, and after a gap, the record that holds it may be gone.
        let whole =
            self.voting.open.writes.iter().all(|write| self.voting.open.batches.contains_key(&write.1));
        if !whole && !self.ledger.has_gap() {
            return Err(inconsistent(format!("a vote on {} without its batch", self.ledger.last().next())));
        }
        self.restore_tenures()?;
        if let Some(cleared) = self.ledger.floor_is_due() {
            self.persist_floor(cleared, out);
        }
        Ok(())
    }

    /// Who takes part follows from the checkpoint, or where the log ends before it from where it begins; and from what was decided since.
    /// [mod_smart L124]
    fn restore_tenures(&mut self) -> Result<(), Halt> {
        let (last, checkpoint) = (self.ledger.last(), self.ledger.checkpoint());
        let changes = std::mem::take(&mut self.members.replay.changes);
        let floor = self.members.replay.floor_tenures.take();
        let (at, known) = match floor.unwrap_or_else(|| (Slot::ZERO, self.members.created.clone())) {
            _ if last >= checkpoint => (checkpoint, self.members.tenures.clone()),
            before => before,
        };
        self.members.tenures = known.replayed(at, last, &changes);
        self.members.tenures.forget(self.ledger.floor());
        self.count_by_tenure();
        let (number, view) = (self.membership_number(), self.office.view);
        if view > View::ZERO && number_of(view) > number && !planted("smart-views-go-on") {
            return Err(inconsistent(format!("{view} is no view of membership {number}")));
        }
        Ok(())
    }
}

//! Takes records of an earlier life back, before the start.
//!
//! What lies up to the checkpoint is not handed on again, and what of it leads to the checkpoint without a gap is kept for those who lack
//! it: nobody else may vouch for that checkpoint yet. After records that were lost nothing before them counts; a DECIDED record after the
//! last gap says in which view we were and ends all votes on its slot, so with it every vote that still matters is known. If slots
//! are missing between the checkpoint and what follows the gap, a later checkpoint is needed. [mod_smart L81-L88]
//!
//! INV-SMART-9. Tests: tests/restart.rs.

use super::ModSmart;
use super::log::Entry;
use super::persist::{Record, inconsistent, read};
use super::tenures::{Tenures, holds_of, number_of};
use crate::mod_smart::message::Proof;
use crate::{Anchor, Effects, Stored};
use quorate_types::{Digest, Halt, RecordId, Slot, View, planted};
use quorate_wire::{Batch, Holds};
use std::collections::{BTreeMap, VecDeque};

/// Decided slots up to the checkpoint, without gaps; of the last one the batch, too.
#[derive(Debug, Default)]
struct Earlier {
    last: Slot,
    entries: VecDeque<Entry>,
    /// What the last FLOOR record says of the slot before them.
    proof: Option<Proof>,
}

impl Earlier {
    fn push(&mut self, slot: Slot, entry: Entry) {
        match self.entries.back_mut() {
            Some(last) if self.last.next() == slot => last.kept = None,
            _ => self.entries.clear(),
        }
        self.entries.push_back(entry);
        self.last = slot;
    }
    /// What lies up to this slot was forgotten.
    fn forget(&mut self, slot: Slot, proof: Option<Proof>) {
        let beyond = self.last.number().saturating_sub(slot.number());
        while self.entries.len() as u64 > beyond {
            self.entries.pop_front();
        }
        self.proof = proof;
    }
    /// After which slot the log begins and with which it ends, as far as these records tell. `open`: of which slot the votes are that follow
    /// them, if any follow. A FLOOR alone tells nothing: what came after it may have been deleted for a later one, which was not durable.
    fn ends(&self, open: Slot, votes: bool) -> Option<(Slot, Slot)> {
        let count = self.entries.len() as u64;
        let last = if count > 0 { self.last } else { open.previous() };
        let known = (count > 0 || votes) && open == last.next();
        known.then(|| (Slot::new(last.number() - count), last))
    }
}

/// What is known while records are read.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// A checkpoint that reaches further is lost.
    pub(super) outdated: bool,
    /// The checkpoint's slot.
    anchor: Slot,
    /// Records are missing.
    gap: bool,
    /// A record since the last gap says all that matters of what lies before it.
    vouched: bool,
    /// Of which slot the votes are that are being read.
    open: Slot,
    earlier: Earlier,
    /// Slots that changed the membership, as far as they were read.
    changes: BTreeMap<Slot, Holds>,
    /// Who took part after which slot, as the last FLOOR record says, if it is not known without.
    floor_tenures: Option<(Slot, Tenures)>,
    /// A FLOOR record is to be written at the start; whether it clears the log.
    floor: Option<bool>,
}

impl Replay {
    /// [mod_smart L85]
    pub(super) fn knows_vote(&self) -> bool {
        self.vouched || !self.gap
    }
}

impl ModSmart {
    pub(super) fn restore_position(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        assert!(self.records == RecordId::ZERO, "an anchor is restored before all records");
        self.tenures = self.read_anchor(slot, anchor)?;
        self.members.ahead = Some((slot, anchor.clone()));
        self.log.reset(slot, None);
        self.replay.anchor = slot;
        Ok(())
    }

    /// [mod_smart L81-L84]
    pub(super) fn restore_record(&mut self, id: RecordId, record: Stored) -> Result<(), Halt> {
        if id != self.records.next() {
            return Err(inconsistent(format!("record {id} follows record {}", self.records)));
        }
        (self.records, self.durable) = (id, id);
        match read(record)? {
            Record::View(view, stops) => {
                if view <= self.view {
                    return Err(inconsistent(format!("{view} follows {}", self.view)));
                }
                (self.view, self.certificate) = (view, stops);
            }
            Record::Wrote(slot, view, digest, batch) => {
                self.restore_view(view)?;
                self.restore_batch(slot, digest, batch, id);
                self.open.note_write(view, digest);
            }
            Record::Locked(slot, view, digest, batch) => {
                self.restore_view(view)?;
                self.restore_batch(slot, digest, batch, id);
                self.open.lock = Some((view, digest));
            }
            Record::Decided(slot, view, proof, batch) => {
                self.restore_view(view)?;
                let known =
                    if self.replay.open == slot { self.open.batches.remove(&proof.digest) } else { None };
                let found = batch.map(|batch| (batch, id)).or(known);
                self.replay.open = slot.next();
                self.open = Default::default();
                self.replay.vouched = true;
                self.restore_decision(slot, proof, found, id)?;
            }
            Record::Floor { slot, view, cleared, stops, anchor, proof } => {
                self.restore_view(view)?;
                self.certificate = stops;
                let tenures = anchor.map(|anchor| self.read_anchor(slot, &anchor)).transpose()?;
                self.replay.floor_tenures = tenures.map(|tenures| (slot, tenures));
                self.replay.earlier.forget(slot, proof.clone());
                self.restore_floor(slot, cleared)?;
                if let Some(proof) = proof.filter(|proof| proof.slot == self.log.floor()) {
                    self.log.set_floor_proof(proof);
                }
                self.floor_records.push_back(id);
                while self.floor_records.len() > 1 {
                    self.floor_records.pop_front();
                }
            }
        }
        if self.config.reload {
            let last = self.log.last();
            self.log.evict(self.config.cache_bytes, last, self.durable);
        }
        Ok(())
    }

    /// A record says in which view we were.
    fn restore_view(&mut self, view: View) -> Result<(), Halt> {
        // Where the log begins, or after a gap, the record that says so may be missing.
        let unknown = self.view == View::ZERO || self.replay.gap;
        if view < self.view || (view > self.view && !unknown) {
            return Err(inconsistent(format!("a record of {view} in {}", self.view)));
        }
        if view > self.view {
            self.view = view;
            self.certificate.clear();
        }
        Ok(())
    }

    /// A vote on this slot follows, perhaps with its batch.
    fn restore_batch(&mut self, slot: Slot, digest: Digest, batch: Option<Batch>, id: RecordId) {
        if self.replay.open != slot {
            self.open = Default::default();
            self.replay.open = slot;
        }
        if let Some(batch) = batch {
            self.open.batches.insert(digest, (batch, id));
        }
    }

    fn restore_decision(
        &mut self,
        slot: Slot,
        proof: Proof,
        found: Option<(Batch, RecordId)>,
        record: RecordId,
    ) -> Result<(), Halt> {
        let later = slot > self.replay.anchor;
        if slot == self.log.floor() {
            self.log.set_floor_proof(proof.clone());
        }
        if let Some(holds) = found.as_ref().and_then(|(batch, _)| holds_of(batch)) {
            self.replay.changes.insert(slot, holds);
        }
        let Some((batch, batch_record)) = found else {
            return self.restore_without_batch(slot, proof);
        };
        let entry = Entry { batch_record, record, kept: Some((batch, proof)) };
        if later {
            return self.restore_slot(slot, entry);
        }
        self.replay.earlier.push(slot, entry);
        Ok(())
    }

    /// The record that holds its batch is not there: it lies in the checkpoint, or was lost. [mod_smart L86]
    fn restore_without_batch(&mut self, slot: Slot, proof: Proof) -> Result<(), Halt> {
        if slot <= self.replay.anchor {
            return Ok(());
        }
        if slot <= self.log.last() || !self.replay.gap {
            return Err(inconsistent(format!("{slot} is decided without its batch")));
        }
        self.log.reset(slot, Some(proof));
        Ok(())
    }

    fn restore_slot(&mut self, slot: Slot, entry: Entry) -> Result<(), Halt> {
        if slot != self.log.last().next() {
            if slot <= self.log.last() || !(self.replay.gap || self.replay.outdated) {
                return Err(inconsistent(format!("{slot} follows {}", self.log.last())));
            }
            // What lies between is missing.
            self.log.reset(slot.previous(), None);
        }
        self.log.push(entry);
        Ok(())
    }

    fn restore_floor(&mut self, slot: Slot, cleared: bool) -> Result<(), Halt> {
        if slot > self.replay.anchor && !self.replay.outdated {
            let anchor = self.replay.anchor;
            return Err(inconsistent(format!(
                "the log begins after {slot}, and the checkpoint ends with {anchor}"
            )));
        }
        if cleared {
            let proof = self.log.proof(self.replay.anchor).cloned();
            self.replay.earlier.entries.clear();
            self.log.reset(slot.max(self.replay.anchor), proof.filter(|_| slot <= self.replay.anchor));
            self.open = Default::default();
            self.replay.open = slot.next();
            self.replay.vouched = true;
        }
        Ok(())
    }

    /// [mod_smart L85]
    pub(super) fn restore_lost(&mut self) {
        let anchor = self.replay.anchor;
        let proof = self.log.proof(anchor).filter(|proof| proof.slot == anchor).cloned();
        self.log.reset(anchor, proof);
        self.open = Default::default();
        (self.replay.gap, self.replay.vouched, self.replay.open) = (true, false, Slot::ZERO);
        self.replay.earlier = Earlier::default();
    }

    /// [mod_smart L86]
    pub(super) fn misses_slots(&self) -> bool {
        self.log.floor() > self.replay.anchor
    }

    /// [mod_smart L87]
    pub(super) fn is_covered_by(&self, slot: Slot, anchor: &Anchor) -> bool {
        self.read_anchor(slot, anchor).is_ok() && slot >= self.log.floor()
    }

    /// [mod_smart L87]
    pub(super) fn restore_over(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        assert!(
            self.replay.knows_vote() && self.is_covered_by(slot, anchor),
            "INV-SMART-9: whoever lost records takes part only from a checkpoint on that continues what is left"
        );
        self.tenures = self.read_anchor(slot, anchor)?;
        self.members.ahead = Some((slot, anchor.clone()));
        self.replay.anchor = slot;
        self.replay.earlier = Earlier::default();
        if slot > self.log.last() {
            self.log.reset(slot, None);
            self.replay.floor = Some(true);
            if self.replay.open != slot.next() {
                self.open = Default::default();
            }
        } else {
            self.log.raise_floor(slot, None);
            self.replay.floor = Some(false);
        }
        Ok(())
    }

    /// After which slot the records begin that were given so far: those that lead to the checkpoint are here, and nobody need be given that
    /// checkpoint for them.
    pub(super) fn forgotten_before(&self) -> Slot {
        let Replay { anchor, earlier, .. } = &self.replay;
        if let Some((floor, _)) = self.ends_before_checkpoint() {
            return floor;
        }
        let leads = earlier.last == *anchor && self.log.floor() == *anchor;
        let count = if leads { earlier.entries.len() as u64 } else { 0 };
        Slot::new(self.log.floor().number() - count)
    }

    /// All records were given. [mod_smart L88]
    pub(super) fn finish_restoring(&mut self, out: &mut Effects) -> Result<(), Halt> {
        assert!(
            self.replay.knows_vote() && !self.misses_slots(),
            "INV-SMART-9: whoever lost records takes part only from a checkpoint on that continues what is left"
        );
        if self.view == View::ZERO && self.records > RecordId::ZERO {
            return Err(inconsistent("no record says in which view this replica was"));
        }
        if !self.go_on_before_checkpoint() {
            self.go_on_after_checkpoint();
        }
        // Of decided slots, and after a gap, the record that holds it may be gone.
        let whole = self.open.writes.iter().all(|write| self.open.batches.contains_key(&write.1));
        if !whole && !self.replay.gap {
            return Err(inconsistent(format!("a vote on {} without its batch", self.log.last().next())));
        }
        self.restore_tenures()?;
        if let Some(cleared) = self.replay.floor.take() {
            self.persist_floor(cleared, out);
        }
        Ok(())
    }

    /// Who takes part follows from the checkpoint, or where the log ends before it from where it begins; and from what was decided since.
    /// [mod_smart L124]
    fn restore_tenures(&mut self) -> Result<(), Halt> {
        let (last, checkpoint) = (self.log.last(), self.replay.anchor);
        let changes = std::mem::take(&mut self.replay.changes);
        let floor = self.replay.floor_tenures.take();
        let (at, known) = match floor.unwrap_or_else(|| (Slot::ZERO, self.members.created.clone())) {
            _ if last >= checkpoint => (checkpoint, self.tenures.clone()),
            before => before,
        };
        self.tenures = known.replayed(at, last, &changes);
        self.tenures.forget(self.log.floor());
        self.count_by_tenure();
        let (number, view) = (self.membership_number(), self.view);
        if view > View::ZERO && number_of(view) > number && !planted("smart-views-go-on") {
            return Err(inconsistent(format!("{view} is no view of membership {number}")));
        }
        Ok(())
    }

    fn go_on_after_checkpoint(&mut self) {
        if self.replay.open != self.log.last().next() {
            self.open = Default::default();
        }
        let Earlier { last, entries, proof, .. } = std::mem::take(&mut self.replay.earlier);
        if last == self.log.floor() && !entries.is_empty() {
            self.log.extend_down(entries, proof);
        }
    }

    /// After which slot the records begin and with which they end, if the checkpoint reaches further, and they tell all that they should.
    fn ends_before_checkpoint(&self) -> Option<(Slot, Slot)> {
        let Replay { anchor, gap, outdated, open, earlier, .. } = &self.replay;
        let whole = !gap && !outdated && self.log.floor() == *anchor && self.log.last() == *anchor;
        let votes = || self.open.writes.iter().chain(&self.open.lock);
        let known = votes().all(|vote| self.open.batches.contains_key(&vote.1));
        earlier.ends(*open, votes().next().is_some()).filter(|(_, last)| whole && known && last < anchor)
    }

    /// The checkpoint was durable before the records of the last slots that it holds. Then nobody else may know that they are decided, and
    /// nobody else may vouch for that checkpoint: this replica goes on where its log ends, with its votes, and decides them again with the
    /// others. Whether it is so. [mod_smart L102]
    fn go_on_before_checkpoint(&mut self) -> bool {
        let Some((floor, _)) = self.ends_before_checkpoint() else { return false };
        let Earlier { entries, proof, .. } = std::mem::take(&mut self.replay.earlier);
        self.log.begin_earlier(floor, entries, proof.filter(|proof| proof.slot == floor));
        true
    }
}

//! The ledger of a protocol that decides slot by slot: what is decided, where it lies, what of it was handed on, and what may go.
//!
//! Tests: tests/ledger.rs.

use super::replay::Replay;
use super::slots::{Entry, Slots};
use super::{Decided, Delivery, Floor, Proof, Question, Records, inconsistent};
use crate::{Anchor, Effects, Stored};
use quorate_types::{Digest, Halt, RecordId, Slot, View};
use quorate_wire::Batch;
use std::collections::BTreeMap;

/// One question to the disk asks for so many slots at most.
const LOAD_SLOTS: u64 = 32;

/// A batch that a protocol's own record of this slot holds, by its digest.
pub type RecordedBatch = (Slot, Digest, Batch);

/// The decided slots of one instance.
#[derive(Debug)]
pub struct Ledger {
    pub(super) records: Records,
    pub(super) slots: Slots,
    delivery: Delivery,
    /// The checkpoint with which this life began, or that was installed last: it may be ahead of the log.
    pub(super) ahead: Option<(Slot, Anchor)>,
    /// The first input came: until then a checkpoint may take the place of the one after which the log begins.
    begun: bool,
    /// Bytes of batches kept in memory; none where nothing can be read back.
    cache_bytes: Option<usize>,
    /// Only before the start.
    pub(super) replay: Replay,
}

impl Ledger {
    /// A ledger with nothing in it. `cache_bytes`: how many bytes of batches stay in memory, where old ones can be read back.
    pub fn new(cache_bytes: Option<usize>) -> Self {
        Self {
            records: Records::default(),
            slots: Slots::default(),
            delivery: Delivery::default(),
            ahead: None,
            begun: false,
            cache_bytes,
            replay: Replay::default(),
        }
    }

    /// The slot after which the log begins.
    pub fn floor(&self) -> Slot {
        self.slots.floor()
    }
    /// The last decided slot.
    pub fn last(&self) -> Slot {
        self.slots.last()
    }
    /// The last slot that was handed on, or that the checkpoint holds, which may be ahead of the log.
    pub fn delivered(&self) -> Slot {
        self.delivery.slot()
    }
    /// The last slot that is known to be decided: here, or in a checkpoint ahead of the log.
    pub fn known(&self) -> Slot {
        self.last().max(self.delivered())
    }
    /// Batch and proof of a decided slot. None where it is not decided, or before the floor; an empty place where it is not in memory.
    pub fn get(&self, slot: Slot) -> Option<Option<&(Batch, Proof)>> {
        self.slots.get(slot).map(|entry| entry.kept.as_ref())
    }
    /// Shows that this slot is decided, if that is in memory.
    pub fn proof(&self, slot: Slot) -> Option<&Proof> {
        self.slots.proof(slot)
    }
    /// Shows that the floor is decided.
    pub fn set_floor_proof(&mut self, proof: Proof) {
        self.slots.set_floor_proof(proof);
    }
    /// The records.
    pub fn records(&self) -> &Records {
        &self.records
    }
    /// Writes a record of the protocol's own down.
    pub fn persist(&mut self, record: Stored, vital: bool, out: &mut Effects) -> RecordId {
        self.records.persist(record, vital, out)
    }
    /// Everything up to this record is durable.
    pub fn on_durable(&mut self, record: RecordId) {
        self.records.on_durable(record);
    }
    /// The lowest record that must stay; `open` is the first one of the slot that is not decided.
    pub fn keep_from(&self, open: Option<RecordId>) -> Option<RecordId> {
        self.records.keep_from([self.slots.first_record(), open])
    }
    /// The slot after the last one is decided, in this view. `known`: the record that holds its batch, where there is one.
    pub fn decide(
        &mut self,
        proof: Proof,
        batch: Batch,
        view: View,
        known: Option<RecordId>,
        out: &mut Effects,
    ) {
        let new = Some(&batch).filter(|_| known.is_none());
        // What a vote brought has its batch in the log, so this ends what was begun there, and is small.
        let record = self.records.persist(Decided::record(&proof, view, new), known.is_some(), out);
        let batch_record = known.unwrap_or(record);
        self.slots.push(Entry { batch_record, record, kept: Some((batch, proof)) });
    }

    /// The first input came: decided slots are handed on from now on. Whether it is the first one.
    pub fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }
    /// Whether the first input came.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Hands decided slots on, in order; those that left the memory are read back first.
    pub fn deliver(&mut self, out: &mut Effects) {
        while self.begun && self.delivered() < self.last() {
            let next = self.delivered().next();
            match self.get(next).flatten() {
                Some((batch, _)) => {
                    let batch = batch.clone();
                    self.delivery.hand_on(Some(batch), out);
                }
                None if self.delivery.waits() => return,
                None => {
                    let question = self.load(next, self.last(), out);
                    return self.delivery.wait_for(question);
                }
            }
        }
    }

    /// Asks the disk for decided slots from `first` on, up to `last`.
    pub fn load(&mut self, first: Slot, last: Slot, out: &mut Effects) -> Option<Question> {
        let (mut records, mut slot, mut count) = (Vec::new(), first, 0);
        while slot <= last && count < LOAD_SLOTS {
            let durable = |entry: &&Entry| entry.record <= self.records.durable();
            let Some(entry) = self.slots.get(slot).filter(durable) else { break };
            records.push(entry.batch_record);
            if entry.record != entry.batch_record {
                records.push(entry.record);
            }
            (slot, count) = (slot.next(), count + 1);
        }
        self.records.load(first.number(), count as usize, records, out)
    }

    /// An answer came. What delivery waited for is handed on; where it is another question's, the records are given back for whoever
    /// asked. `held` reads a record of the protocol's own that holds a batch.
    ///
    /// # Errors
    /// When what was read is not what was asked for.
    pub fn on_loaded(
        &mut self,
        load: u64,
        records: Vec<Stored>,
        held: fn(Stored) -> Result<RecordedBatch, Halt>,
        out: &mut Effects,
    ) -> Result<Option<Vec<Stored>>, Halt> {
        self.records.loaded(load);
        let Some(question) = self.delivery.answered(load) else { return Ok(Some(records)) };
        for (_, batch) in read_back(&question, records, held)? {
            self.delivery.hand_on(Some(batch), out);
        }
        self.deliver(out);
        Ok(None)
    }

    /// Drops batches from memory that need not be there.
    pub fn evict(&mut self) {
        self.evict_up_to(self.delivered());
    }

    /// The same while records are read.
    pub fn evict_restored(&mut self) {
        self.evict_up_to(self.last());
    }

    fn evict_up_to(&mut self, needless: Slot) {
        if let Some(bytes) = self.cache_bytes {
            self.slots.evict(bytes, needless, self.records.durable());
        }
    }

    /// A durable checkpoint holds everything up to this slot, which was handed on. Whether a FLOOR record is to be written that says so:
    /// then the log begins after the last slot of it that is decided here, since the checkpoint may be ahead.
    pub fn trim(&mut self, slot: Slot) -> bool {
        if slot > self.delivered() || slot < self.floor() {
            return false;
        }
        let slot = slot.min(self.last());
        let stated = slot == self.floor() && self.records.has_floor();
        if stated || slot == Slot::ZERO {
            return false;
        }
        let proof = self.slots.proof(slot).cloned();
        self.raise_floor(slot, proof);
        true
    }

    pub(super) fn raise_floor(&mut self, slot: Slot, proof: Option<Proof>) {
        self.slots.raise_floor(slot, proof);
        if self.delivered() < slot {
            self.delivery.go_on_after(slot.number(), slot);
        }
    }

    /// Writes down where the log begins, and what else a restart needs of what lies before: with that, older records are not needed.
    pub fn persist_floor(&mut self, floor: &Floor, out: &mut Effects) {
        self.records.persist_floor(floor.record(), floor.slot, out);
    }

    /// A checkpoint of this slot took the place of the state. Whether the log reaches it: then what follows is handed on from there, also
    /// if that goes back. If not, [`Self::begin_after`] follows.
    pub fn installed(&mut self, slot: Slot, out: &mut Effects) -> bool {
        assert!(slot >= self.floor(), "INV-LEDGER-4: no checkpoint from before the log's floor is installed");
        let reaches = slot <= self.last();
        if reaches {
            self.delivery.go_on_after(slot.number(), slot);
            self.deliver(out);
        }
        reaches
    }

    /// The log begins after a checkpoint beyond it, empty.
    pub fn begin_after(&mut self, slot: Slot) {
        self.reset(slot, None);
    }

    /// The checkpoint with which this life began, or that was installed last, if it is ahead of the log.
    pub fn ahead(&self) -> Option<&(Slot, Anchor)> {
        self.ahead.as_ref().filter(|(slot, _)| *slot > self.last())
    }
    /// That checkpoint is not ahead any more.
    pub fn forget_ahead(&mut self) {
        self.ahead = None;
    }

    pub(super) fn reset(&mut self, slot: Slot, proof: Option<Proof>) {
        self.slots.reset(slot, proof);
        self.delivery.go_on_after(slot.number(), slot);
    }

    /// Panics with the name of an invariant that does not hold.
    pub fn check(&self) {
        self.slots.check();
        self.records.check();
        let ahead = self.ahead.as_ref().map_or(Slot::ZERO, |(slot, _)| *slot);
        assert!(
            self.floor() <= self.delivered() && self.delivered() <= self.last().max(ahead),
            "INV-LEDGER-4: {} was handed on",
            self.delivered()
        );
    }
}

/// The decided slots that were read back for this question. `held` reads a record of the protocol's own that holds a batch.
///
/// # Errors
/// When they are not what was asked for.
pub fn read_back(
    question: &Question,
    records: Vec<Stored>,
    held: fn(Stored) -> Result<RecordedBatch, Halt>,
) -> Result<Vec<(Proof, Batch)>, Halt> {
    let (mut list, mut batches) = (Vec::new(), BTreeMap::new());
    let mut slot = Slot::new(question.first);
    let another = |slot: Slot| inconsistent(format!("another record was read than one of {slot}"));
    for record in records {
        if record.kind != super::RECORD_DECIDED {
            let (of, digest, batch) = held(record)?;
            if of != slot {
                return Err(another(slot));
            }
            batches.insert(digest, batch);
            continue;
        }
        let Decided { slot: of, proof, batch, .. } = Decided::read(record)?;
        if of != slot {
            return Err(another(slot));
        }
        let batch = batch.or_else(|| batches.remove(&proof.digest));
        let batch = batch.ok_or_else(|| inconsistent(format!("{slot} was read without its batch")))?;
        list.push((proof, batch));
        slot = slot.next();
    }
    if list.len() == question.count { Ok(list) } else { Err(inconsistent("records are missing")) }
}

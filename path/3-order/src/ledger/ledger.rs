//! The ledger of a protocol that decides slot by slot: which slots are decided, where their records lie, how far they were handed on, and
//! which records may go.
//!
//! Tests: tests/ledger.rs.

use super::replay::Replay;
use super::slots::{Entry, Slots};
use super::{Decided, Delivery, Floor, Proof, Question, Records, inconsistent};
use crate::{Anchor, Effects, Stored};
use quorate_types::{Digest, Halt, RecordId, Slot, View};
use quorate_wire::Batch;
use std::collections::BTreeMap;

/// One question to the disk asks for this many slots at most.
const LOAD_SLOTS: u64 = 32;

/// The batch in one of the protocol's own records: slot, digest, batch.
pub type RecordedBatch = (Slot, Digest, Batch);

/// The decided slots of one instance.
#[derive(Debug)]
pub struct Ledger {
    pub(super) records: Records,
    pub(super) slots: Slots,
    delivery: Delivery,
    /// The checkpoint with which this life began, or that was installed last. It may be ahead of the log.
    pub(super) ahead: Option<(Slot, Anchor)>,
    /// Whether the first input came. Until then a later checkpoint may replace the one after which the log begins.
    begun: bool,
    /// Bytes of batches kept in memory; none where nothing can be read back.
    cache_bytes: Option<usize>,
    /// What is known while records are restored; used only before the start.
    pub(super) replay: Replay,
}

impl Ledger {
    /// An empty ledger. `cache_bytes`: how many bytes of batches stay in memory, where old ones can be read back.
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
    /// The last slot that was handed on, or that the checkpoint holds. It may be ahead of the log.
    pub fn delivered(&self) -> Slot {
        self.delivery.slot()
    }
    /// The last slot that is known to be decided, here or in a checkpoint ahead of the log.
    pub fn known(&self) -> Slot {
        self.last().max(self.delivered())
    }
    /// Batch and proof of a decided slot. `None`: it is not decided, or lies before the floor. `Some(None)`: it is not in memory.
    pub fn get(&self, slot: Slot) -> Option<Option<&(Batch, Proof)>> {
        self.slots.get(slot).map(|entry| entry.kept.as_ref())
    }
    /// The proof that this slot is decided, if it is in memory.
    pub fn proof(&self, slot: Slot) -> Option<&Proof> {
        self.slots.proof(slot)
    }
    /// Gives the proof that the floor's slot is decided.
    pub fn set_floor_proof(&mut self, proof: Proof) {
        self.slots.set_floor_proof(proof);
    }
    /// The records.
    pub fn records(&self) -> &Records {
        &self.records
    }
    /// Writes down one of the protocol's own records.
    pub fn persist(&mut self, record: Stored, vital: bool, out: &mut Effects) -> RecordId {
        self.records.persist(record, vital, out)
    }
    /// Everything up to this record is durable.
    pub fn on_durable(&mut self, record: RecordId) {
        self.records.on_durable(record);
    }
    /// The lowest record that must stay in the log. `open`: the first record of the slot that is not decided yet.
    pub fn keep_from(&self, open: Option<RecordId>) -> Option<RecordId> {
        self.records.keep_from([self.slots.first_record(), open])
    }
    /// The slot after the last one was decided in this view. `known`: the record that already holds its batch, if there is one.
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

    /// The first input came, so decided slots are handed on from now on. Returns whether this was the first call.
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

    /// Asks the disk for the decided slots from `first` to `last`.
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

    /// The disk answered. If delivery waited for this answer, the slots are handed on; otherwise the records are given back to the caller.
    /// `held` reads one of the protocol's own records that holds a batch.
    ///
    /// # Errors
    /// When the records are not those that were asked for.
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

    /// Drops batches from memory that are not needed there.
    pub fn evict(&mut self) {
        self.evict_up_to(self.delivered());
    }

    /// As [`Self::evict`], while records are restored.
    pub fn evict_restored(&mut self) {
        self.evict_up_to(self.last());
    }

    fn evict_up_to(&mut self, needless: Slot) {
        if let Some(bytes) = self.cache_bytes {
            self.slots.evict(bytes, needless, self.records.durable());
        }
    }

    /// A durable checkpoint holds everything up to this slot, which was handed on. Returns whether the protocol is to write a FLOOR record.
    /// The log then begins after the last slot of the checkpoint that is decided here, since the checkpoint may be ahead.
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

    /// Writes a FLOOR record: where the log begins, and what else a restart needs of the slots before. Older records are then not needed.
    pub fn persist_floor(&mut self, floor: &Floor, out: &mut Effects) {
        self.records.persist_floor(floor.record(), floor.slot, out);
    }

    /// A checkpoint of this slot replaced the state. Returns whether the log reaches that slot: delivery then continues after it, even if
    /// that goes back. If not, the caller calls [`Self::begin_after`].
    pub fn installed(&mut self, slot: Slot, out: &mut Effects) -> bool {
        assert!(slot >= self.floor(), "INV-LEDGER-4: no checkpoint from before the log's floor is installed");
        let reaches = slot <= self.last();
        if reaches {
            self.delivery.go_on_after(slot.number(), slot);
            self.deliver(out);
        }
        reaches
    }

    /// Begins an empty log after a checkpoint that lies beyond its end.
    pub fn begin_after(&mut self, slot: Slot) {
        self.reset(slot, None);
    }

    /// The checkpoint with which this life began, or that was installed last, if it is ahead of the log.
    pub fn ahead(&self) -> Option<&(Slot, Anchor)> {
        self.ahead.as_ref().filter(|(slot, _)| *slot > self.last())
    }
    /// The checkpoint is not ahead of the log any more.
    pub fn forget_ahead(&mut self) {
        self.ahead = None;
    }

    pub(super) fn reset(&mut self, slot: Slot, proof: Option<Proof>) {
        self.slots.reset(slot, proof);
        self.delivery.go_on_after(slot.number(), slot);
    }

    /// Panics with the name of the invariant that does not hold.
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

/// The decided slots that the disk read for this question. `held` reads one of the protocol's own records that holds a batch.
///
/// # Errors
/// When the records are not those that were asked for.
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

//! The decided slots since the last checkpoint: where their records lie, and for some of them the batch and the proof in memory.
//!
//! INV-LEDGER-4: slots follow each other without a gap from the floor on. Tests: tests/slots.rs.

use super::Proof;
use quorate_types::{RecordId, Slot};
use quorate_wire::Batch;
use std::collections::VecDeque;

/// A decided slot.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The record that holds the batch.
    pub(crate) batch_record: RecordId,
    /// The record that says the slot is decided, with the proof.
    pub(crate) record: RecordId,
    pub(crate) kept: Option<(Batch, Proof)>,
}

/// All decided slots that are not forgotten.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    floor: Slot,
    /// The proof that the floor's slot is decided, if it is known.
    floor_proof: Option<Proof>,
    entries: VecDeque<Entry>,
    /// The batches of earlier slots are not in memory.
    first_kept: Slot,
    kept_bytes: usize,
}

impl Slots {
    /// The slot after which the log begins.
    pub(crate) fn floor(&self) -> Slot {
        self.floor
    }
    /// The last decided slot.
    pub(crate) fn last(&self) -> Slot {
        self.floor.plus(self.entries.len() as u64)
    }
    /// The decided slot, if it is after the floor.
    pub(crate) fn get(&self, slot: Slot) -> Option<&Entry> {
        let at = slot.number().checked_sub(self.floor.number() + 1)?;
        self.entries.get(at as usize)
    }
    /// The first record after the floor.
    pub(crate) fn first_record(&self) -> Option<RecordId> {
        self.entries.front().map(|entry| entry.batch_record)
    }
    /// The proof that this slot is decided, if it is in memory.
    pub(crate) fn proof(&self, slot: Slot) -> Option<&Proof> {
        if slot == self.floor {
            return self.floor_proof.as_ref();
        }
        self.get(slot)?.kept.as_ref().map(|(_, proof)| proof)
    }
    /// Gives the proof that the floor's slot is decided.
    pub(crate) fn set_floor_proof(&mut self, proof: Proof) {
        assert!(proof.slot == self.floor, "INV-LEDGER-4: the floor's proof is of {}", self.floor);
        self.floor_proof = Some(proof);
    }

    /// The next slot is decided.
    pub(crate) fn push(&mut self, entry: Entry) {
        if let Some((batch, _)) = &entry.kept {
            self.kept_bytes += batch.bytes().len();
            if self.entries.is_empty() || self.first_kept > self.last() {
                self.first_kept = self.last().next();
            }
        }
        self.entries.push_back(entry);
        if self.entries.back().is_some_and(|entry| entry.kept.is_none()) {
            self.first_kept = self.last().next();
        }
    }

    /// Drops batches from memory, the oldest first, while they are more bytes than this. Only slots up to `needless` whose records are
    /// durable are dropped, and never the last: this replica shows its proof when it enters a view.
    pub(crate) fn evict(&mut self, bytes_max: usize, needless: Slot, durable: RecordId) {
        while self.kept_bytes > bytes_max && self.first_kept <= needless && self.first_kept < self.last() {
            let at = (self.first_kept.number() - self.floor.number() - 1) as usize;
            let Some(entry) = self.entries.get_mut(at).filter(|entry| entry.record <= durable) else {
                return;
            };
            if let Some((batch, _)) = entry.kept.take() {
                self.kept_bytes -= batch.bytes().len();
            }
            self.first_kept = self.first_kept.next();
        }
    }

    /// Forgets everything up to `slot`, which is decided. The proof of `slot` itself stays.
    pub(crate) fn raise_floor(&mut self, slot: Slot, proof: Option<Proof>) {
        assert!(slot >= self.floor && slot <= self.last(), "INV-LEDGER-4: only what is decided is forgotten");
        while self.floor < slot {
            if let Some((batch, _)) = self.entries.pop_front().and_then(|entry| entry.kept) {
                self.kept_bytes -= batch.bytes().len();
            }
            self.floor = self.floor.next();
        }
        self.floor_proof = proof;
        self.first_kept = self.first_kept.max(self.floor.next());
    }

    /// The log ends before the checkpoint's slot. It begins where its records do, and the slots in the checkpoint are not handed on.
    /// `entries` are all slots after `floor`; the batch of the last one is in memory.
    pub(crate) fn begin_earlier(
        &mut self,
        floor: Slot,
        entries: VecDeque<Entry>,
        floor_proof: Option<Proof>,
    ) {
        let last = entries.back().and_then(|entry| entry.kept.as_ref());
        let kept_bytes = last.map_or(0, |(batch, _)| batch.bytes().len());
        let first_kept = floor.plus(entries.len() as u64 + u64::from(last.is_none()));
        *self = Self { floor, floor_proof, entries, first_kept, kept_bytes };
    }

    /// The log on disk also has slots before the floor. Members that lack them get them from here, since no other replica may vouch for a
    /// checkpoint that holds them. None of their batches is in memory, except the last one if it is the last of all.
    pub(crate) fn extend_down(&mut self, mut earlier: VecDeque<Entry>, floor_proof: Option<Proof>) {
        if let Some(last) = earlier.back_mut() {
            if !self.entries.is_empty() {
                last.kept = None;
            } else if let Some((batch, _)) = &last.kept {
                self.kept_bytes += batch.bytes().len();
                self.first_kept = self.floor;
            }
        }
        let floor = self.floor.number() - earlier.len() as u64;
        self.floor = Slot::new(floor);
        self.floor_proof = floor_proof.filter(|proof| proof.slot == self.floor);
        earlier.append(&mut self.entries);
        self.entries = earlier;
    }

    /// Begins an empty list after `slot`.
    pub(crate) fn reset(&mut self, slot: Slot, proof: Option<Proof>) {
        *self = Self { floor: slot, floor_proof: proof, first_kept: slot.next(), ..Self::default() };
    }

    /// Compares every slot with its neighbours.
    pub(crate) fn check(&self) {
        let mut bytes = 0;
        let mut record = RecordId::ZERO;
        for (at, entry) in self.entries.iter().enumerate() {
            let slot = self.floor.plus(at as u64 + 1);
            assert!(
                entry.record > record && entry.batch_record > record && entry.batch_record <= entry.record,
                "INV-LEDGER-4: records grow along the log, at {slot}"
            );
            record = entry.record;
            let kept = entry.kept.as_ref();
            assert!(kept.is_none() || slot >= self.first_kept, "INV-LEDGER-4: {slot} is in memory");
            assert!(kept.is_some() || slot < self.first_kept, "INV-LEDGER-4: {slot} is not in memory");
            assert!(kept.is_none_or(|(_, proof)| proof.slot == slot), "INV-LEDGER-4: a proof of {slot}");
            bytes += kept.map_or(0, |(batch, _)| batch.bytes().len());
        }
        assert!(bytes == self.kept_bytes, "INV-LEDGER-4: {bytes} bytes in memory");
    }
}

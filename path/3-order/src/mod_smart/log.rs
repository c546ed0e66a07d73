//! The decided slots since the last checkpoint: where their records lie, and of some the batch and the proof in memory.
//!
//! INV-SMART-2: slots follow each other without a gap from the floor on; each is handed on once between two installed checkpoints.
//! Tests: tests/checkpoints.rs.

use crate::mod_smart::message::Proof;
use quorate_types::{RecordId, Slot};
use quorate_wire::Batch;
use std::collections::VecDeque;

/// A decided slot.
#[derive(Debug)]
pub(super) struct Entry {
    /// The record that holds the batch.
    pub(super) batch_record: RecordId,
    /// The record that says that it is decided, with the proof.
    pub(super) record: RecordId,
    pub(super) kept: Option<(Batch, Proof)>,
}

/// All decided slots that are not forgotten.
#[derive(Debug, Default)]
pub(super) struct Log {
    floor: Slot,
    /// Shows that the floor is decided, where that is known.
    floor_proof: Option<Proof>,
    entries: VecDeque<Entry>,
    delivered: Slot,
    /// The checkpoint with which this began: it may hold more than the log.
    checkpoint: Slot,
    /// Entries before this one have no batch in memory.
    first_kept: Slot,
    kept_bytes: usize,
}

impl Log {
    /// The slot after which the log begins.
    pub(super) fn floor(&self) -> Slot {
        self.floor
    }
    /// The last decided slot.
    pub(super) fn last(&self) -> Slot {
        self.floor.plus(self.entries.len() as u64)
    }
    /// The last one that was handed on, or that the checkpoint holds, which may be ahead of the log.
    pub(super) fn delivered(&self) -> Slot {
        self.delivered
    }
    pub(super) fn set_delivered(&mut self, slot: Slot) {
        assert!(
            slot >= self.floor && slot <= self.last(),
            "INV-SMART-2: {slot} lies between {} and {}",
            self.floor,
            self.last()
        );
        self.delivered = slot;
    }
    pub(super) fn get(&self, slot: Slot) -> Option<&Entry> {
        let at = slot.number().checked_sub(self.floor.number() + 1)?;
        self.entries.get(at as usize)
    }
    pub(super) fn first_record(&self) -> Option<RecordId> {
        self.entries.front().map(|entry| entry.batch_record)
    }
    /// Shows that this slot is decided, if that is in memory.
    pub(super) fn proof(&self, slot: Slot) -> Option<&Proof> {
        if slot == self.floor {
            return self.floor_proof.as_ref();
        }
        self.get(slot)?.kept.as_ref().map(|(_, proof)| proof)
    }
    pub(super) fn set_floor_proof(&mut self, proof: Proof) {
        assert!(proof.slot == self.floor, "INV-SMART-2: the floor's proof is of {}", self.floor);
        self.floor_proof = Some(proof);
    }

    pub(super) fn push(&mut self, entry: Entry) {
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

    /// Drops batches from memory, the oldest first, while there are more bytes than this; only of slots up to `needless` whose records
    /// are durable, and never the last: its proof is what this replica shows when it enters a view.
    pub(super) fn evict(&mut self, bytes_max: usize, needless: Slot, durable: RecordId) {
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

    /// Forgets everything up to `slot`, which is decided. Of it, the proof stays.
    pub(super) fn raise_floor(&mut self, slot: Slot, proof: Option<Proof>) {
        assert!(slot >= self.floor && slot <= self.last(), "INV-SMART-2: only what is decided is forgotten");
        while self.floor < slot {
            if let Some((batch, _)) = self.entries.pop_front().and_then(|entry| entry.kept) {
                self.kept_bytes -= batch.bytes().len();
            }
            self.floor = self.floor.next();
        }
        self.floor_proof = proof;
        self.first_kept = self.first_kept.max(self.floor.next());
        self.delivered = self.delivered.max(self.floor);
    }

    /// The log ends before the checkpoint's slot: it begins where its records do, and what the checkpoint holds is not handed on. `entries` are
    /// all slots after `floor`; of the last one the batch is in memory.
    pub(super) fn begin_earlier(
        &mut self,
        floor: Slot,
        entries: VecDeque<Entry>,
        floor_proof: Option<Proof>,
    ) {
        let last = entries.back().and_then(|entry| entry.kept.as_ref());
        let kept_bytes = last.map_or(0, |(batch, _)| batch.bytes().len());
        let first_kept = floor.plus(entries.len() as u64 + u64::from(last.is_none()));
        *self = Self { floor, floor_proof, entries, first_kept, kept_bytes, ..*self };
    }

    /// Slots before the floor are in the log on disk, too: whoever lacks them gets them from here, since nobody else may vouch for a
    /// checkpoint that holds them. In memory is none but the last, and that only if it is the last of all.
    pub(super) fn extend_down(&mut self, mut earlier: VecDeque<Entry>, floor_proof: Option<Proof>) {
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

    /// Begins after `slot`, with nothing in it.
    pub(super) fn reset(&mut self, slot: Slot, proof: Option<Proof>) {
        *self = Self {
            floor: slot,
            floor_proof: proof,
            delivered: slot,
            first_kept: slot.next(),
            checkpoint: slot,
            ..Self::default()
        };
    }

    pub(super) fn check(&self) {
        let mut bytes = 0;
        let mut record = RecordId::ZERO;
        for (at, entry) in self.entries.iter().enumerate() {
            let slot = self.floor.plus(at as u64 + 1);
            assert!(
                entry.record > record && entry.batch_record > record && entry.batch_record <= entry.record,
                "INV-SMART-2: records grow along the log, at {slot}"
            );
            record = entry.record;
            let kept = entry.kept.as_ref();
            assert!(kept.is_none() || slot >= self.first_kept, "INV-SMART-2: {slot} is in memory");
            assert!(kept.is_some() || slot < self.first_kept, "INV-SMART-2: {slot} is not in memory");
            assert!(kept.is_none_or(|(_, proof)| proof.slot == slot), "INV-SMART-2: a proof of {slot}");
            bytes += kept.map_or(0, |(batch, _)| batch.bytes().len());
        }
        assert!(bytes == self.kept_bytes, "INV-SMART-2: {bytes} bytes in memory");
        assert!(
            self.floor <= self.delivered && self.delivered <= self.last().max(self.checkpoint),
            "INV-SMART-2: {} was handed on",
            self.delivered
        );
    }
}

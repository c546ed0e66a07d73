//! The records of one instance: their numbers, which of them are durable, and the lowest that must stay in the log.
//!
//! A protocol numbers its records itself, from 1, without gaps. A FLOOR record says where the log begins and repeats what else a restart
//! needs, so that older records can go. Of the durable FLOOR records only the last counts; one that is not durable yet stands beside it.
//! Records stay while they are being read back. INV-LEDGER-1, INV-LEDGER-2. Tests: tests/records.rs.

use super::inconsistent;
use super::loads::{Loads, Question};
use crate::{Effect, Effects, Stored};
use quorate_types::{Halt, RecordId, Slot, planted};
use std::collections::VecDeque;

/// The records of one instance, by their numbers.
#[derive(Debug, Default)]
pub struct Records {
    /// The record that was numbered last.
    last: RecordId,
    /// The last record that is known to be durable.
    durable: RecordId,
    /// FLOOR records: the last durable one, and those that are not durable yet.
    floors: VecDeque<RecordId>,
    /// The slot that the last FLOOR record names.
    stated: Slot,
    /// The first record must stay until the second is durable.
    held: Option<(RecordId, RecordId)>,
    /// Questions to the disk.
    loads: Loads,
}

impl Records {
    /// The record that was numbered last; number 0 before the first.
    pub fn last(&self) -> RecordId {
        self.last
    }
    /// The last record that is known to be durable.
    pub fn durable(&self) -> RecordId {
        self.durable
    }
    /// This record, if it is not durable yet; a message about it waits for that.
    pub fn pending(&self, record: RecordId) -> Option<RecordId> {
        (record > self.durable).then_some(record)
    }
    /// The slot in the last FLOOR record; zero before the first.
    pub fn stated(&self) -> Slot {
        self.stated
    }
    /// Whether a FLOOR record is there, durable or not.
    pub fn has_floor(&self) -> bool {
        !self.floors.is_empty()
    }

    /// Writes down a record. `vital`: it may use the room that the log keeps in reserve.
    pub fn persist(&mut self, record: Stored, vital: bool, out: &mut Effects) -> RecordId {
        self.last = self.last.next();
        out.push(Effect::Persist { id: self.last, record, vital });
        self.last
    }

    /// Writes down that the log begins after this slot.
    pub fn persist_floor(&mut self, record: Stored, slot: Slot, out: &mut Effects) {
        let id = self.persist(record, true, out);
        self.floors.push_back(id);
        self.stated = slot;
    }

    /// Takes back a record of an earlier run.
    ///
    /// # Errors
    /// When its number is not the next one.
    pub fn restore(&mut self, id: RecordId) -> Result<(), Halt> {
        if id != self.last.next() {
            return Err(inconsistent(format!("record {id} follows record {}", self.last)));
        }
        (self.last, self.durable) = (id, id);
        Ok(())
    }

    /// The record that was taken back last is a FLOOR with this slot.
    pub fn restore_floor(&mut self, slot: Slot) {
        self.floors.push_back(self.last);
        self.stated = slot;
        self.forget_old_floors();
    }

    /// Everything up to this record is durable. Returns whether that was unknown before.
    pub fn on_durable(&mut self, record: RecordId) -> bool {
        assert!(record <= self.last, "INV-LEDGER-1: only a record that was numbered becomes durable");
        let news = record > self.durable;
        self.durable = self.durable.max(record);
        self.forget_old_floors();
        news
    }

    fn forget_old_floors(&mut self) {
        while self.floors.get(1).is_some_and(|next| *next <= self.durable) {
            self.floors.pop_front();
        }
    }

    /// The next record replaces records that may be durable. Until the next record is durable itself, a restart finds the old ones, so what
    /// a restart needs now must stay. `needed`: what else a restart needs.
    pub fn hold(&mut self, needed: [Option<RecordId>; 2]) {
        if let Some(keep) = self.keep_from(needed) {
            self.held = Some((keep, self.last.next()));
        }
    }

    /// Until the next record is durable, all records found at the start must stay: the next start must find the same.
    pub fn hold_all(&mut self) {
        self.held = Some((RecordId::FIRST, self.last.next()));
    }

    /// The lowest record that a restart needs or that is being read back; none when there are no records. `needed`: the first record of the
    /// log after its floor, and the first record of the slot that is not decided, if they exist.
    pub fn keep_from(&self, needed: [Option<RecordId>; 2]) -> Option<RecordId> {
        if self.last == RecordId::ZERO {
            return None;
        }
        let held = self.held.filter(|(_, until)| *until > self.durable).map(|(keep, _)| keep);
        let floor = self.floors.front().copied().filter(|id| *id <= self.durable);
        let floor = floor.unwrap_or(RecordId::FIRST);
        let floor = if planted("trim-without-vote") { self.last } else { floor };
        let [first, open] = needed;
        [Some(floor), first, open, held, self.loads.lowest()].into_iter().flatten().min()
    }

    /// Asks the disk for these records, all of them durable; they hold `count` entries of the log from position `first` on. Returns the
    /// question, which the caller keeps; none without records.
    pub fn load(
        &mut self,
        first: u64,
        count: usize,
        records: Vec<RecordId>,
        out: &mut Effects,
    ) -> Option<Question> {
        assert!(
            records.iter().all(|record| *record <= self.durable),
            "INV-LEDGER-2: only what is durable is read back"
        );
        self.loads.ask(first, count, records, out)
    }

    /// A question was answered, so its records may go.
    pub fn loaded(&mut self, load: u64) {
        self.loads.answered(load);
    }

    /// Panics when the numbers contradict each other.
    pub fn check(&self) {
        assert!(self.durable <= self.last, "INV-LEDGER-1: {} numbered, {} durable", self.last, self.durable);
        assert!(self.floors.iter().is_sorted(), "INV-LEDGER-1: floors follow each other");
    }
}

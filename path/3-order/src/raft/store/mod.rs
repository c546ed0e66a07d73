//! What a replica knows in any role: its view and vote, the log with its records, how far the log is committed, and how far it was handed
//! on. docs/protocols/raft.md L1-L6, L41-L51, L86-L88.
//!
//! No other part writes a record, replaces an entry, or hands on a slot. A leader, follower or candidate asks this part to do it, and reads
//! what it needs. `members` finds who takes part from the log. Entries that are not needed leave memory, and are read back later if they
//! are.
//!
//! INV-RAFT-3, INV-RAFT-11, INV-RAFT-13. Tests: tests/store.rs, tests/cache.rs, tests/restart.rs.

mod members;

use super::RaftConfig;
use super::log::EntryLog;
use super::persist::{entry_record, floor_record, read_entry, vote_record};
use super::term::Term;
use crate::ledger::{Delivery, Question, Records, inconsistent};
use crate::raft::message::{Entry, EntryBody, Index, Position};
use crate::{Effect, Effects, Stored};
use quorate_types::{Halt, RecordId, Reject, ReplicaId, Slot, View, planted};
use quorate_wire::Memberships;
use std::sync::Arc;

/// What a replica knows; see the module.
#[derive(Debug)]
pub(super) struct Store {
    /// This replica.
    me: ReplicaId,
    /// The members before any entry names some. [raft L108]
    created: Arc<Memberships>,
    term: Term,
    log: EntryLog,
    records: Records,
    commit: Index,
    delivery: Delivery,
    /// Whether the host hears of batches before they are decided.
    tells_proposed: bool,
    /// Whether old entries can be read back.
    reload: bool,
    /// The most bytes of entries that stay in memory, beside those that are needed and can not be read back.
    cache_bytes: u64,
}

/// The purpose for which records were read from the disk.
#[derive(Debug)]
pub(super) enum Loaded {
    /// For delivery; the entries were handed on.
    Delivered,
    /// For another part, which has the question.
    Other(Vec<Stored>),
}

impl Store {
    /// The store of a replica without a history.
    pub(super) fn new(config: &RaftConfig) -> Self {
        Self {
            me: config.me,
            created: Arc::new(Memberships::created(&config.members)),
            term: Term::default(),
            log: EntryLog::new(),
            records: Records::default(),
            commit: Index::ZERO,
            delivery: Delivery::default(),
            tells_proposed: config.tells_proposed,
            reload: config.reload,
            cache_bytes: config.cache_bytes as u64,
        }
    }

    pub(super) fn term(&self) -> &Term {
        &self.term
    }
    pub(super) fn view(&self) -> View {
        self.term.view()
    }
    pub(super) fn log(&self) -> &EntryLog {
        &self.log
    }
    pub(super) fn records(&self) -> &Records {
        &self.records
    }
    /// As far as is known, everything up to here is committed.
    pub(super) fn commit(&self) -> Index {
        self.commit
    }
    /// How many slots are committed.
    pub(super) fn committed_slot(&self) -> Slot {
        Slot::new(self.log.slots_at(self.commit))
    }
    /// Everything up to here was handed on as decided.
    pub(super) fn delivered(&self) -> Index {
        Index::new(self.delivery.position())
    }
    /// The last slot that was handed on.
    pub(super) fn slot(&self) -> Slot {
        self.delivery.slot()
    }
}

/// The view, and its leader.
impl Store {
    /// Enters a higher view, or casts the one vote in the present one, and writes it down. [raft L2-L4]
    pub(super) fn persist_vote(&mut self, view: View, voted: Option<ReplicaId>, out: &mut Effects) {
        self.term.cast(view, voted);
        self.term.written(self.records.persist(vote_record(view, voted), true, out));
    }

    /// This replica was seen leading in this view.
    pub(super) fn see_leading(&mut self, leader: ReplicaId) {
        self.term.see_leading(leader);
    }

    /// A replica leads from now on, or none. Returns whether questions to the leader before are obsolete.
    pub(super) fn set_leader(&mut self, leader: Option<ReplicaId>) -> bool {
        self.term.set_leader(leader)
    }

    /// Tells the other stages who leads, if that changed.
    pub(super) fn announce(&mut self, out: &mut Effects) {
        if let Some(news) = self.term.announce() {
            out.push(news);
        }
    }
}

/// Writing records, and what must be durable before what.
impl Store {
    /// Appends an entry to the log and to the disk. [raft L6]
    pub(super) fn append(&mut self, entry: Entry, out: &mut Effects) -> Index {
        let index = self.log.last().index.next();
        // Without the first record of its view a leader can not even confirm a read.
        let vital = matches!(entry.body, EntryBody::ViewStart);
        let id = self.records.persist(entry_record(index, &entry), vital, out);
        let proposed = match &entry.body {
            EntryBody::Batch(batch) if self.tells_proposed => Some((entry.view, batch.clone())),
            _ => None,
        };
        self.log.push(entry, id);
        let slot = Slot::new(self.log.slots());
        if let Some((view, batch)) = proposed {
            out.push(Effect::Proposed { slot, view, batch });
        }
        index
    }

    /// Takes a leader's entries, which follow `previous`: skips those that are there already, replaces those that differ, appends the rest.
    /// [raft L41-L43]
    pub(super) fn take(
        &mut self,
        previous: Index,
        entries: Vec<Entry>,
        out: &mut Effects,
    ) -> Result<(), Reject> {
        let floor = self.log.floor();
        let mut index = previous;
        for entry in entries {
            index = index.next();
            if index < floor.index {
                continue;
            }
            match self.log.view_at(index) {
                Some(view) if view == entry.view => continue,
                Some(_) if index <= self.commit => {
                    return Err(Reject::NotAllowed("raft: replaces what is committed"));
                }
                Some(_) if planted("conflict-off-by-one") => self.truncate(index),
                Some(_) => self.truncate(index.previous()),
                None => {}
            }
            self.append(entry, out);
        }
        Ok(())
    }

    fn truncate(&mut self, last: Index) {
        assert!(last >= self.commit, "INV-RAFT-11: what is committed is never replaced");
        self.hold_records();
        self.log.truncate(last);
    }

    /// Writes down where the log begins, and the view and vote again; older records are then not needed. With `cleared` the log is empty.
    /// [raft L86]
    fn persist_floor(&mut self, cleared: bool, out: &mut Effects) {
        let (floor, slot) = (self.log.floor(), self.log.floor_slots());
        let record = floor_record(floor, slot, cleared, (self.term.view(), self.term.voted()));
        self.records.persist_floor(record, Slot::new(slot), out);
    }

    /// The next record replaces entries that may be durable. [raft L88]
    fn hold_records(&mut self) {
        self.records.hold([self.first_record(), None]);
    }

    /// The record of the first entry after the log's floor.
    fn first_record(&self) -> Option<RecordId> {
        let first = self.log.record_at(self.log.floor().index.next());
        (first > RecordId::ZERO).then_some(first)
    }

    /// The lowest record that a restart needs, or that is being read back. [raft L87-L88]
    pub(super) fn records_needed_from(&self) -> Option<RecordId> {
        self.records.keep_from([self.first_record(), None])
    }

    /// Everything up to this record is durable. Returns whether that is new.
    pub(super) fn on_durable(&mut self, record: RecordId) -> bool {
        let news = self.records.on_durable(record);
        if news {
            self.log.advance_durable(record);
        }
        news
    }

    /// If the record of the view is not durable yet: that record, for which messages must wait. [raft L5]
    pub(super) fn view_pending(&self) -> Option<RecordId> {
        self.records.pending(self.term.record())
    }

    /// The record for which an acknowledgement of the log up to `index` must wait.
    pub(super) fn pending_up_to(&self, index: Index) -> Option<RecordId> {
        let needed = self.log.record_at(index).max(self.term.record());
        self.records.pending(needed).filter(|_| !planted("ack-before-sync"))
    }
}

/// Committed entries are handed on as decided, slot by slot.
impl Store {
    /// Everything up to `commit` is committed, if that was not known yet.
    pub(super) fn commit_to(&mut self, commit: Index, out: &mut Effects) {
        self.commit = self.commit.max(commit);
        self.deliver(out);
    }

    /// Hands on what is committed, as far as it is in memory, and asks the disk for the rest. [raft L47-L48]
    pub(super) fn deliver(&mut self, out: &mut Effects) {
        while self.delivered() < self.commit {
            let next = self.delivered().next();
            let Some(kept) = self.log.get(next) else {
                if !self.reload {
                    // [raft L101]
                    let slot = Slot::new(self.log.slot_from(self.log.first_kept().previous()));
                    return out.push(Effect::Behind { slot });
                }
                if !self.delivery.waits() {
                    let to = self.commit.min(self.log.first_kept().previous());
                    let question = self.load(next, to, out);
                    self.delivery.wait_for(question);
                }
                return;
            };
            let entry = kept.entry.clone();
            self.deliver_entry(entry, out);
        }
    }

    fn deliver_entry(&mut self, entry: Entry, out: &mut Effects) {
        let batch = match entry.body {
            EntryBody::Batch(batch) => Some(batch),
            EntryBody::ViewStart | EntryBody::Members(_) => None,
        };
        self.delivery.hand_on(batch, out);
        assert!(
            self.delivery.slot() == Slot::new(self.log.slots_at(self.delivered())),
            "INV-RAFT-13: slots are handed on in order, each once"
        );
    }

    /// Asks the disk for entries from `first` up to `to`, all of them durable.
    pub(super) fn load(&mut self, first: Index, to: Index, out: &mut Effects) -> Option<Question> {
        let asked = self.log.records_to_load(first, to);
        self.records.load(first.number(), asked.len(), asked, out)
    }

    /// The disk answered a question.
    pub(super) fn on_loaded(
        &mut self,
        load: u64,
        records: Vec<Stored>,
        out: &mut Effects,
    ) -> Result<Loaded, Halt> {
        self.records.loaded(load);
        let Some(question) = self.delivery.answered(load) else { return Ok(Loaded::Other(records)) };
        for entry in self.loaded_entries(question, records)? {
            self.deliver_entry(entry, out);
        }
        self.deliver(out);
        Ok(Loaded::Delivered)
    }

    /// The entries in an answer of the disk, compared with what the log knows of them.
    pub(super) fn loaded_entries(
        &self,
        question: Question,
        records: Vec<Stored>,
    ) -> Result<Vec<Entry>, Halt> {
        if records.len() != question.count {
            return Err(inconsistent(format!(
                "{} records asked for, {} read",
                question.count,
                records.len()
            )));
        }
        let mut entries = Vec::with_capacity(records.len());
        let mut expected = Index::new(question.first);
        for record in records {
            let (index, entry) = read_entry(record)?;
            let slots = self.log.slots_at(expected) - self.log.slots_at(expected.previous());
            let same_kind = matches!(entry.body, EntryBody::Batch(_)) == (slots == 1);
            if index != expected || self.log.view_at(index) != Some(entry.view) || !same_kind {
                return Err(inconsistent(format!(
                    "index {expected} was asked for, {index} of {} read",
                    entry.view
                )));
            }
            entries.push(entry);
            expected = expected.next();
        }
        Ok(entries)
    }

    /// Whether the first entry in memory may leave it, because it is durable.
    pub(super) fn may_evict(&self) -> bool {
        self.log.first_kept() <= self.log.durable()
    }

    /// Drops entries from memory. Every follower has the entries up to `all_matched`. [raft L49-L51]
    pub(super) fn evict(&mut self, all_matched: Index) {
        while self.may_evict() {
            let first = self.log.first_kept();
            let full = self.log.kept_bytes() > self.cache_bytes;
            let delivered = first <= self.delivered();
            let spare = delivered && (first <= all_matched || full);
            let reloadable = full && self.reload;
            if !(spare || reloadable) {
                break;
            }
            self.log.evict_first();
        }
    }
}

/// Checkpoints replace the log's beginning.
impl Store {
    /// A durable checkpoint holds everything up to this slot. Returns whether the log begins later from now on. [raft L85-L86]
    pub(super) fn forget(&mut self, slot: Slot, out: &mut Effects) -> bool {
        assert!(slot <= self.delivery.slot(), "INV-RAFT-15: only what was decided here is forgotten");
        let mut rose = false;
        if slot.number() > self.log.floor_slots()
            && let Some(index) = self.log.index_of(slot.number())
        {
            let next = index.next();
            let beyond = planted("floor-off-by-one") && next <= self.delivered();
            self.log.raise_floor(if beyond { next } else { index });
            rose = true;
        }
        if self.records.stated().number() < self.log.floor_slots() {
            self.persist_floor(false, out);
        }
        rose
    }

    /// A checkpoint says that these memberships hold at `index`, which lies within the log. False when the log says something else.
    pub(super) fn learn_members(&mut self, index: Index, members: Option<Arc<Memberships>>) -> bool {
        self.log.learn_members(index, members)
    }

    /// A checkpoint replaced the log, which begins anew after it. [raft L98-L99]
    pub(super) fn begin_after(
        &mut self,
        position: Position,
        slot: Slot,
        members: Option<Arc<Memberships>>,
        out: &mut Effects,
    ) {
        self.hold_records();
        self.log.reset(position, slot.number(), members);
        self.commit = position.index;
        self.persist_floor(true, out);
    }

    /// A checkpoint replaced the service's state. Delivery continues after it, even if that goes back.
    pub(super) fn go_on_after(&mut self, position: Position, slot: Slot) {
        self.delivery.go_on_after(position.index.number(), slot);
    }
}

/// Before the start; see `restore`.
impl Store {
    /// The log begins after this checkpoint.
    pub(super) fn restore_anchor(
        &mut self,
        position: Position,
        slot: Slot,
        members: Option<Arc<Memberships>>,
    ) {
        self.log.reset(position, slot.number(), members);
        self.commit = position.index;
        self.go_on_after(position, slot);
    }

    /// Takes back a record of an earlier life.
    pub(super) fn restore_record(&mut self, id: RecordId) -> Result<(), Halt> {
        self.records.restore(id)
    }

    /// The record holds this view and vote.
    pub(super) fn restore_vote(&mut self, id: RecordId, view: View, voted: Option<ReplicaId>) {
        self.term.restore(view, voted, id);
    }

    /// The record is a FLOOR with this slot.
    pub(super) fn restore_floor(&mut self, slot: Slot) {
        self.records.restore_floor(slot);
    }

    /// The record holds this entry of the log.
    pub(super) fn restore_entry(&mut self, id: RecordId, index: Index, entry: Entry) {
        self.log.truncate(index.previous());
        self.log.push(entry, id);
        self.log.advance_durable(id);
        self.evict(Index::ZERO);
    }

    /// The log after its floor is unknown.
    pub(super) fn restore_nothing_after_floor(&mut self) {
        self.log.truncate(self.log.floor().index);
    }

    /// Takes over the entries before the floor, if they fit.
    pub(super) fn extend_down(&mut self, earlier: &EntryLog) -> bool {
        self.log.extend_down(earlier)
    }

    /// What was restored is of no use. It stays in the log until it is durable that the log is empty: until then the next start must find
    /// the same.
    pub(super) fn begin_empty(&mut self, out: &mut Effects) {
        self.records.hold_all();
        self.persist_floor(true, out);
    }

    /// The first entry follows this checkpoint: a replica that has no later checkpoint needs all entries from there on.
    pub(super) fn state_floor(&mut self, out: &mut Effects) {
        self.persist_floor(false, out);
    }

    /// The start.
    pub(super) fn begin(&mut self) {
        self.term.begin();
    }
}

/// The invariants of this part.
impl Store {
    /// Panics with the name of the invariant that does not hold. `thorough` scans everything.
    pub(super) fn check(&self, thorough: bool) {
        let last = self.log.last();
        assert!(self.commit <= last.index, "INV-RAFT-5: commit {} within the log {last}", self.commit);
        assert!(
            self.delivered() <= self.commit,
            "INV-RAFT-13: delivered {} <= {}",
            self.delivered(),
            self.commit
        );
        let floor = self.log.floor();
        assert!(floor.index <= self.delivered(), "INV-RAFT-15: what is forgotten was handed on, {floor}");
        let (numbered, durable) = (self.records.last(), self.records.durable());
        assert!(durable <= numbered, "INV-RAFT-8: {numbered} numbered");
        self.check_durable();
        self.term.check();
        if thorough {
            self.log.check();
            self.records.check();
            assert!(
                self.delivery.slot() == Slot::new(self.log.slots_at(self.delivered())),
                "INV-RAFT-13: {}",
                self.delivery.slot()
            );
        }
    }

    fn check_durable(&self) {
        let durable = self.log.durable();
        assert!(durable <= self.log.last().index, "INV-RAFT-7: durable {durable} within the log");
        let record = self.log.record_at(durable);
        assert!(record <= self.records.durable(), "INV-RAFT-7: index {durable} needs {record}");
        let next = self.log.record_at(durable.next());
        assert!(
            next == RecordId::ZERO || next > self.records.durable(),
            "INV-RAFT-7: index {durable} is the last"
        );
    }
}

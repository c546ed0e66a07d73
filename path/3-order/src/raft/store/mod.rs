//! What a replica knows, whatever it does at the moment: its view and vote, the log with its records, how far that is committed, and how
//! far it was handed on. docs/protocols/raft.md L1-L6, L41-L51, L86-L88.
//!
//! Nobody else writes a record, replaces an entry, or hands on a slot. Whoever leads, follows or stands for an election asks this part for it,
//! and reads what it needs. Who takes part follows from the log: `members`. Entries nobody needs leave the memory, and are read back.
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
    /// Who took part before any entry said so. [raft L108]
    created: Arc<Memberships>,
    term: Term,
    log: EntryLog,
    records: Records,
    commit: Index,
    delivery: Delivery,
    /// Whether old entries can be read back.
    reload: bool,
    /// Bytes of entries in memory, at most, as far as the others can be read back or are not needed.
    cache_bytes: u64,
}

/// What an answer of the disk was for.
#[derive(Debug)]
pub(super) enum Loaded {
    /// For what comes next; it was handed on.
    Delivered,
    /// For somebody else, who holds the question.
    Other(Vec<Stored>),
}

impl Store {
    /// Of a replica without a history.
    pub(super) fn new(config: &RaftConfig) -> Self {
        Self {
            me: config.me,
            created: Arc::new(Memberships::created(&config.members)),
            term: Term::default(),
            log: EntryLog::new(),
            records: Records::default(),
            commit: Index::ZERO,
            delivery: Delivery::default(),
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
    /// Everything up to here is committed, as far as is known.
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
    /// The last slot that was.
    pub(super) fn slot(&self) -> Slot {
        self.delivery.slot()
    }
}

/// The view, and who leads in it.
impl Store {
    /// Enters a higher view, or casts the one vote in the present one, and writes it down. [raft L2-L4]
    pub(super) fn persist_vote(&mut self, view: View, voted: Option<ReplicaId>, out: &mut Effects) {
        self.term.cast(view, voted);
        self.term.written(self.records.persist(vote_record(view, voted), true, out));
    }

    /// This one leads in this view, as was seen.
    pub(super) fn see_leading(&mut self, leader: ReplicaId) {
        self.term.see_leading(leader);
    }

    /// Somebody leads from here on, or nobody. Whether what was asked of the leader before is of no use any more.
    pub(super) fn set_leader(&mut self, leader: Option<ReplicaId>) -> bool {
        self.term.set_leader(leader)
    }

    /// Tells the other stages who leads, if that is news.
    pub(super) fn announce(&mut self, out: &mut Effects) {
        if let Some(news) = self.term.announce() {
            out.push(news);
        }
    }
}

/// Writing down, and what must be durable before what.
impl Store {
    /// Appends an entry to the log and to the disk. [raft L6]
    pub(super) fn append(&mut self, entry: Entry, out: &mut Effects) -> Index {
        let index = self.log.last().index.next();
        // Without the first record of its view a leader can not even confirm a read.
        let vital = matches!(entry.body, EntryBody::ViewStart);
        let id = self.records.persist(entry_record(index, &entry), vital, out);
        self.log.push(entry, id);
        index
    }

    /// Takes a leader's entries, which follow `previous`: skips what is there already, replaces what departs, appends the rest.
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

    /// Writes down where the log begins, and our view and vote again: with that, older records are not needed. With
    /// `cleared` the log is empty. [raft L86]
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

    /// Everything up to this record is durable. Whether that is news.
    pub(super) fn on_durable(&mut self, record: RecordId) -> bool {
        let news = self.records.on_durable(record);
        if news {
            self.log.advance_durable(record);
        }
        news
    }

    /// The record that a message with our view must wait for, if it is not durable yet. [raft L5]
    pub(super) fn view_pending(&self) -> Option<RecordId> {
        self.records.pending(self.term.record())
    }

    /// The record that an acknowledgement of the log up to `index` must wait for.
    pub(super) fn pending_up_to(&self, index: Index) -> Option<RecordId> {
        let needed = self.log.record_at(index).max(self.term.record());
        self.records.pending(needed).filter(|_| !planted("ack-before-sync"))
    }
}

/// What is committed is handed on as decided, slot by slot.
impl Store {
    /// Everything up to `commit` is committed, if it is not known yet.
    pub(super) fn commit_to(&mut self, commit: Index, out: &mut Effects) {
        self.commit = self.commit.max(commit);
        self.deliver(out);
    }

    /// Hands on what is committed, as far as it is in memory; asks for the rest. [raft L47-L48]
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

    /// Asks the disk for entries from `first` on, up to `to`. All of them are durable.
    pub(super) fn load(&mut self, first: Index, to: Index, out: &mut Effects) -> Option<Question> {
        let asked = self.log.records_to_load(first, to);
        self.records.load(first.number(), asked.len(), asked, out)
    }

    /// A question to the disk was answered.
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

    /// The entries that a question to the disk brought, compared with what the log knows of them.
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

    /// Whether an entry is in memory that may leave it: one that is durable.
    pub(super) fn may_evict(&self) -> bool {
        self.log.first_kept() <= self.log.durable()
    }

    /// Drops entries from memory; every follower has those up to `all_matched`. [raft L49-L51]
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

/// Checkpoints take the place of the log's beginning.
impl Store {
    /// A durable checkpoint holds everything up to this slot. Whether the log begins later from now on. [raft L85-L86]
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

    /// These memberships hold at `index`, which lies within the log, says a checkpoint. False when the log says something else.
    pub(super) fn learn_members(&mut self, index: Index, members: Option<Arc<Memberships>>) -> bool {
        self.log.learn_members(index, members)
    }

    /// A checkpoint took the place of the log, which begins anew behind it. [raft L98-L99]
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

    /// A checkpoint took the place of the service's state: what follows is handed on next, also if that goes back.
    pub(super) fn go_on_after(&mut self, position: Position, slot: Slot) {
        self.delivery.go_on_after(position.index.number(), slot);
    }
}

/// Before the start; see `restore`.
impl Store {
    /// The log begins behind this checkpoint.
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

    /// A record of an earlier life was given back.
    pub(super) fn restore_record(&mut self, id: RecordId) -> Result<(), Halt> {
        self.records.restore(id)
    }

    /// It says this of the view and the vote in it.
    pub(super) fn restore_vote(&mut self, id: RecordId, view: View, voted: Option<ReplicaId>) {
        self.term.restore(view, voted, id);
    }

    /// It is a FLOOR with this slot.
    pub(super) fn restore_floor(&mut self, slot: Slot) {
        self.records.restore_floor(slot);
    }

    /// It holds this entry of our log.
    pub(super) fn restore_entry(&mut self, id: RecordId, index: Index, entry: Entry) {
        self.log.truncate(index.previous());
        self.log.push(entry, id);
        self.log.advance_durable(id);
        self.evict(Index::ZERO);
    }

    /// Nothing is known of what follows the log's floor.
    pub(super) fn restore_nothing_after_floor(&mut self) {
        self.log.truncate(self.log.floor().index);
    }

    /// Takes over what comes before the floor, if it fits.
    pub(super) fn extend_down(&mut self, earlier: &EntryLog) -> bool {
        self.log.extend_down(earlier)
    }

    /// What was restored is of no use: until it is durable that the log is empty, all of it is what tells the next start the same.
    pub(super) fn begin_empty(&mut self, out: &mut Effects) {
        self.records.hold_all();
        self.persist_floor(true, out);
    }

    /// What comes first follows this checkpoint: whoever has no later one needs all that comes.
    pub(super) fn state_floor(&mut self, out: &mut Effects) {
        self.persist_floor(false, out);
    }

    /// A life begins.
    pub(super) fn begin(&mut self) {
        self.term.begin();
    }
}

/// What always holds.
impl Store {
    /// Panics with the name of an invariant that does not hold. `thorough` scans everything.
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

//! Reads the records of an earlier run, one after the other, also where the log was trimmed and where records were lost to damage.
//! docs/protocols/raft.md L7-L8, L78-L84, L102-L107, L139-L140.
//!
//! The records by themselves tell a log: its first entry that is still there, and everything after it. The log that is restored continues
//! after the anchor of a checkpoint, and takes from the told log what continues the anchor. Entries that lead to the anchor without a gap
//! are taken, too, so that followers which lack them get them from here: perhaps no other replica vouches for the checkpoint yet. The told
//! log and the anchor may differ in three ways. The told log may begin with left-overs: the disk is trimmed in large pieces, and entries
//! before the first needed record may have been replaced long ago. It may end before the anchor, or hold something else there: the
//! checkpoint came from another replica, and nothing was written since. Or a FLOOR record says that the log begins anew.
//!
//! Where records are missing, the told log begins once more, as if everything before had been trimmed, since a missing record may have
//! replaced any of it. If what follows reaches back to the anchor, everything is known. Otherwise entries that this replica acknowledged
//! may be gone, and with them the majority that held them. Then the replica takes no part until a checkpoint holds everything up to the
//! last index that it can have acknowledged. That is the last index that a record names, or the last entry's index plus the number of
//! missing records after it. The same holds where the log is whole, but the checkpoint after which it begins is lost.
//!
//! INV-RAFT-1, INV-RAFT-3, INV-RAFT-4, INV-RAFT-15, INV-RAFT-17. Tests: tests/restart.rs, tests/checkpoints.rs, tests/gaps.rs,
//! tests/chaos.rs.

use super::checkpoints;
use super::log::EntryLog;
use super::persist::{RECORD_ENTRY, RECORD_FLOOR, RECORD_VOTE, read_entry, read_floor, read_vote};
use super::store::Store;
use crate::ledger::inconsistent;
use crate::raft::message::{Entry, Index, Position};
use crate::{Anchor, Effects, Stored};
use quorate_types::{Halt, RecordId, ReplicaId, Slot, View, planted};

/// The log that the records tell, as far as it matters beside the restored log.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// A checkpoint stands before it, so it may begin anywhere.
    anchored: bool,
    /// The lowest index that has a record; none before the first entry.
    begin: Option<Index>,
    /// Its end.
    end: Index,
    /// The view of its entry at the anchor, when there is one.
    at_anchor: Option<View>,
    /// Its entries up to the anchor, without payloads, except the first of them.
    earlier: Option<EntryLog>,
    /// That first entry.
    first: Option<(RecordId, Entry)>,
    /// Where the log began, as the last FLOOR record says.
    stated: Option<Position>,
    /// Its entry right after the anchor has a lower view than the anchor, so it is not the anchor's successor.
    stale: bool,
    /// A record said in which view this replica was. Before that, views of entries can not be compared with that view.
    vouched: bool,
    /// The highest view of an entry.
    highest: View,
    /// Records are missing before those with which the told log begins.
    gap: bool,
    /// The most records that are missing and that no entry follows.
    missing: u64,
    /// The highest index that a record names.
    named: Index,
    /// A checkpoint that reached further than the anchor is lost. [raft L139]
    outdated: bool,
    /// The log begins after the anchor's slot.
    unreached: bool,
}

impl Replay {
    /// Whether a record since the last gap says in which view this replica was, and how it voted. [raft L103]
    pub(super) fn knows_vote(&self) -> bool {
        self.vouched || !self.gap
    }

    /// Whether the told log continues after the anchor, so that new records may follow it.
    fn continues(&self, anchor: Position) -> bool {
        match self.begin {
            None => true,
            Some(begin) if begin > anchor.index => !self.stale,
            Some(_) => self.at_anchor == Some(anchor.view),
        }
    }

    /// An entry with this index, up to the anchor: it follows the entries told before, or replaces some of them.
    fn push_earlier(&mut self, id: RecordId, index: Index, entry: Entry) {
        let follows = |log: &EntryLog| {
            let (floor, last) = (log.floor(), log.last().index);
            let inside = index > floor.index && index <= last.next();
            inside && log.view_at(index.previous()).is_some_and(|before| before <= entry.view)
        };
        let position = Position::new(index, entry.view);
        match self.earlier.take().filter(follows) {
            Some(mut log) => {
                log.truncate(index.previous());
                log.push(entry, id);
                log.evict_first();
                self.earlier = Some(log);
            }
            None if index.number() == 1 => {
                let mut log = EntryLog::new();
                log.push(entry, id);
                log.evict_first();
                self.earlier = Some(log);
            }
            // It is not known yet what the first one that is there follows.
            None => {
                self.begin_earlier(position);
                self.first = Some((id, entry));
            }
        }
    }

    fn begin_earlier(&mut self, floor: Position) {
        let mut log = EntryLog::new();
        log.reset(floor, 0, None);
        (self.earlier, self.first) = (Some(log), None);
    }

    /// A log that holds only the first entry that is there, if it is known what precedes it. A member that has the checkpoint of that
    /// place, and no later one, needs this entry.
    fn first_log(&self) -> Option<EntryLog> {
        let (id, entry) = self.first.as_ref()?;
        let index = self.earlier.as_ref()?.floor().index;
        let floor = self.stated.filter(|floor| floor.index.next() == index && floor.view <= entry.view)?;
        let mut log = EntryLog::new();
        log.reset(floor, 0, None);
        log.push(entry.clone(), *id);
        log.evict_first();
        Some(log)
    }
}

/// Restoring changes what the replica knows, so each of these is given the store.
impl Replay {
    /// The log continues after this anchor.
    pub(super) fn anchor(&mut self, slot: Slot, anchor: &Anchor, store: &mut Store) -> Result<(), Halt> {
        assert!(store.records().last() == RecordId::ZERO, "an anchor is restored before all records");
        let (position, members) = checkpoints::read_anchor(slot, anchor)?;
        store.restore_anchor(position, slot, members);
        self.anchored = true;
        Ok(())
    }

    /// There was a checkpoint later than the anchor.
    pub(super) fn outdate(&mut self, store: &Store) {
        assert!(store.records().last() == RecordId::ZERO, "it is said before all records");
        self.outdated = true;
    }

    /// [raft L7-L8]
    pub(super) fn record(&mut self, id: RecordId, record: Stored, store: &mut Store) -> Result<(), Halt> {
        store.restore_record(id)?;
        match record.kind {
            RECORD_ENTRY => {
                let (index, entry) = read_entry(record)?;
                self.entry(id, index, entry, store)?;
            }
            RECORD_VOTE => {
                let (view, voted) = read_vote(&record)?;
                let first = view == store.term().view() && store.term().voted().is_none() && voted.is_some();
                if view <= store.term().view() && !first {
                    return Err(inconsistent(format!(
                        "a vote in {view} follows one in {}",
                        store.term().view()
                    )));
                }
                self.vote(id, view, voted, store)?;
            }
            RECORD_FLOOR => {
                let (floor, slot, cleared, (view, voted)) = read_floor(&record)?;
                let same = view == store.term().view()
                    && (voted == store.term().voted() || store.term().voted().is_none());
                let later = self.gap && (view > store.term().view() || same);
                let first = store.term().view() == View::ZERO && store.term().voted().is_none();
                let fits = if self.vouched {
                    (view, voted) == (store.term().view(), store.term().voted())
                } else {
                    first || later
                };
                if !fits {
                    return Err(inconsistent(format!("{view} is restated in {}", store.term().view())));
                }
                self.vote(id, view, voted, store)?;
                self.floor(floor, slot, cleared, store)?;
                store.restore_floor(slot);
            }
            kind => return Err(inconsistent(format!("unknown kind of record {kind}"))),
        }
        Ok(())
    }

    fn vote(
        &mut self,
        id: RecordId,
        view: View,
        voted: Option<ReplicaId>,
        store: &mut Store,
    ) -> Result<(), Halt> {
        if view < self.highest {
            return Err(inconsistent(format!("{view} follows entries of {}", self.highest)));
        }
        store.restore_vote(id, view, voted);
        self.vouched = true;
        Ok(())
    }

    /// A FLOOR record: the log began after `floor` when the record was written. [raft L81]
    fn floor(&mut self, floor: Position, slot: Slot, cleared: bool, store: &mut Store) -> Result<(), Halt> {
        let (anchor, anchor_slot) = (store.log().floor(), Slot::new(store.log().floor_slots()));
        let fits = if slot < anchor_slot { floor.index < anchor.index } else { floor == anchor };
        if self.outdated && slot > anchor_slot && floor.index > anchor.index {
            // [raft L140]
            self.unreached = true;
        } else if slot > anchor_slot || !fits {
            let why = format!(
                "the log begins after {slot} at {floor}, and the checkpoint ends with {anchor_slot} at {anchor}"
            );
            return Err(inconsistent(why));
        }
        self.named = self.named.max(floor.index);
        self.stated = Some(floor);
        if cleared {
            store.restore_nothing_after_floor();
            (self.gap, self.missing) = (false, 0);
            (self.begin, self.end) = (Some(floor.index.next()), floor.index);
            (self.at_anchor, self.stale) = ((floor == anchor).then_some(floor.view), false);
            self.begin_earlier(floor);
        }
        Ok(())
    }

    fn entry(&mut self, id: RecordId, index: Index, entry: Entry, store: &mut Store) -> Result<(), Halt> {
        let anchor = store.log().floor();
        let open = (self.anchored || self.gap) && self.begin.is_none();
        if index == Index::ZERO || (index > self.end.next() && !open) {
            return Err(inconsistent(format!("the entry at index {index} follows index {}", self.end)));
        }
        let known = self.vouched || !(self.anchored || self.gap);
        if entry.view == View::ZERO || (known && entry.view > store.term().view()) {
            let why = format!("the entry at index {index} is of {} in {}", entry.view, store.term().view());
            return Err(inconsistent(why));
        }
        self.highest = self.highest.max(entry.view);
        let begin = self.begin.map_or(index, |begin| begin.min(index));
        (self.begin, self.end) = (Some(begin), index);
        (self.named, self.missing) = (self.named.max(index), 0);
        if index <= anchor.index {
            // [raft L79]
            self.at_anchor = (index == anchor.index).then_some(entry.view);
            self.stale = false;
            self.push_earlier(id, index, entry);
            store.restore_nothing_after_floor();
            return Ok(());
        }
        if index == anchor.index.next() {
            self.stale = self.at_anchor.is_none() && entry.view < anchor.view;
        }
        if begin > anchor.index.next() || !self.continues(anchor) {
            // [raft L80]
            return Ok(());
        }
        let before = store.log().position(index.previous()).view;
        if entry.view < before {
            let why = format!("the entry at index {index} of {} follows one of {before}", entry.view);
            return Err(inconsistent(why));
        }
        store.restore_entry(id, index, entry);
        Ok(())
    }

    /// Nothing that was told so far is certain any more. [raft L102]
    pub(super) fn lose(&mut self, missing: u64, store: &mut Store) {
        store.restore_nothing_after_floor();
        (self.begin, self.end, self.earlier) = (None, Index::ZERO, None);
        (self.first, self.stated) = (None, None);
        (self.at_anchor, self.stale, self.vouched) = (None, false, false);
        (self.gap, self.missing) = (true, self.missing.saturating_add(missing));
    }

    /// Whether entries after the anchor may be missing that this replica acknowledged. [raft L104, L140]
    pub(super) fn misses_entries(&self, log: &EntryLog) -> bool {
        let anchor = log.floor();
        // Right after the anchor is not enough: what lay at the anchor is not known then.
        let reaches = self.begin.is_some_and(|begin| begin <= anchor.index);
        self.unreached || (self.gap && !reaches && !planted("gap-ignored"))
    }

    /// [raft L105]
    pub(super) fn is_covered_by(&self, slot: Slot, anchor: &Anchor, log: &EntryLog) -> bool {
        let Ok((position, _)) = checkpoints::read_anchor(slot, anchor) else { return false };
        let acknowledged = self.named.max(log.floor().index).number();
        acknowledged.checked_add(self.missing).is_some_and(|last| position.index.number() >= last)
    }

    /// [raft L106-L107]
    pub(super) fn install(&mut self, slot: Slot, anchor: &Anchor, store: &mut Store) -> Result<(), Halt> {
        assert!(
            self.knows_vote() && self.is_covered_by(slot, anchor, store.log()),
            "INV-RAFT-17: whoever lost records takes part only from a checkpoint on that holds all it acknowledged"
        );
        let (position, members) = checkpoints::read_anchor(slot, anchor)?;
        store.restore_anchor(position, slot, members);
        let highest = self.highest;
        // What the disk tells is of no use: FLOOR(cleared) follows.
        let told = (Some(Index::new(1)), Index::new(1));
        *self = Self { begin: told.0, end: told.1, highest, ..Self::default() };
        Ok(())
    }

    /// The slot after which the log begins, by the records given so far. A member that lacks that slot, or an earlier one, gets this
    /// replica's checkpoint, whether or not other replicas vouch for it.
    pub(super) fn forgotten_before(&self, log: &EntryLog) -> Slot {
        let end = (log.floor(), log.floor_slots());
        let leads = self.continues(end.0) && self.at_anchor.is_some();
        let earlier = self.earlier.as_ref().filter(|_| leads);
        let Some((floor, slots)) = earlier.and_then(|log| Some((log.floor(), log.begins_after(end)?))) else {
            return Slot::new(end.1);
        };
        let first = self.first_log().and_then(|log| log.begins_after((floor, slots)));
        // What the first one that is there follows is not known: no checkpoint before ours surely leads to it.
        let unknown = if self.first.is_some() { end.1 } else { slots };
        Slot::new(first.unwrap_or(unknown))
    }

    /// All records were given. [raft L82-L84, L107]
    pub(super) fn finish(mut self, store: &mut Store, out: &mut Effects) -> Result<(), Halt> {
        assert!(
            self.knows_vote() && !self.misses_entries(store.log()),
            "INV-RAFT-17: whoever lost records takes part only from a checkpoint on that holds all it acknowledged"
        );
        let anchor = store.log().floor();
        if planted("gap-ignored") && self.gap {
            store.restore_nothing_after_floor();
            (self.begin, self.at_anchor) = (Some(Index::new(1)), None);
        }
        if let Some(begin) = self.begin.filter(|begin| *begin > anchor.index.next()) {
            return Err(inconsistent(format!(
                "the log begins at index {begin}, and the checkpoint ends at {anchor}"
            )));
        }
        if self.highest > store.view() {
            let highest = self.highest;
            return Err(inconsistent(format!("no record says what was voted in or after {highest}")));
        }
        if anchor.view > store.view() {
            store.persist_vote(anchor.view, None, out);
        }
        if !self.continues(anchor) {
            // Until that is durable, all that was found now is what tells the next start the same.
            store.begin_empty(out);
        } else if self.begin.is_none() && self.stated.is_none() && anchor != Position::ZERO {
            // The next record follows this checkpoint: a replica without a later checkpoint needs all records from here on.
            if !planted("floor-as-stated") {
                store.state_floor(out);
            }
        } else if self.at_anchor.is_some() {
            let first = self.first_log();
            let fits = self.earlier.is_some_and(|earlier| store.extend_down(&earlier));
            if let Some(first) = first.filter(|_| fits) {
                store.extend_down(&first);
            }
        }
        Ok(())
    }
}

//! What the records of an earlier run say, one after the other, also where the log was trimmed, and where records were lost to
//! damage. docs/protocols/raft.md L7-L8, L78-L84, L102-L107, L139-L140.
//!
//! The records by themselves tell a log: its first entry that is still there, and all that followed. Ours goes on after the
//! anchor of a checkpoint, and takes of that told log what continues the anchor. What leads to the anchor without a gap is taken,
//! too, so that followers who lack it get it from here: the checkpoint may be one that nobody else vouches for yet. Both may
//! differ in three ways. The told log
//! begins with left-overs: the disk is trimmed in large pieces, and what lies before the first record that is needed may
//! have been replaced long ago. It ends before the anchor, or holds something else there: the checkpoint came from another
//! replica, and nothing was written since. Or a FLOOR record says that the log begins anew.
//!
//! Where records are missing, the told log begins once more, as if everything before had been trimmed: a missing record may have
//! replaced any of it. If what follows reaches back to the anchor, all is known. Otherwise entries that this replica
//! acknowledged may be gone, and with them the majority that held them; so it takes no part before a checkpoint holds
//! everything up to the last index that it can have acknowledged. That is the last one that a record names, or as many more as
//! there are missing records after the last entry. It is the same where the log is whole, and the checkpoint after which it begins
//! is lost.
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

/// The log that the records tell, as far as it matters beside ours.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// It may begin anywhere: a checkpoint stands before it.
    anchored: bool,
    /// The lowest index of which there is a record; none before the first entry.
    begin: Option<Index>,
    /// Its end.
    end: Index,
    /// The view of its entry at the anchor, when there is one.
    at_anchor: Option<View>,
    /// Its entries up to the anchor, without their payloads; all but the first that is there.
    earlier: Option<EntryLog>,
    /// That first one, which those follow.
    first: Option<(RecordId, Entry)>,
    /// Where the log began when that was last stated.
    stated: Option<Position>,
    /// Its entry right after the anchor is of a lower view than the anchor, and so no successor of it.
    stale: bool,
    /// A record said in which view we are. Before that the views of entries can not be compared with ours.
    vouched: bool,
    /// The highest view of an entry.
    highest: View,
    /// Records are missing before those that the told log begins with.
    gap: bool,
    /// So many records at most, and no entry after them.
    missing: u64,
    /// The highest index that a record names.
    named: Index,
    /// A checkpoint that reaches further than the anchor is lost. [raft L139]
    outdated: bool,
    /// The log begins after that one.
    unreached: bool,
}

impl Replay {
    /// Whether a record since the last gap says in which view we are, and how we voted. [raft L103]
    pub(super) fn knows_vote(&self) -> bool {
        self.vouched || !self.gap
    }

    /// Whether the told log is the one after the anchor: what is written next may lean on it.
    fn continues(&self, anchor: Position) -> bool {
        match self.begin {
            None => true,
            Some(begin) if begin > anchor.index => !self.stale,
            Some(_) => self.at_anchor == Some(anchor.view),
        }
    }

    /// The entry with this index, up to the anchor, follows those that were told before it, or replaces some of them.
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

    /// The first entry that is there, if it is known what it follows: where the log begins. Who has the checkpoint of that place, and no
    /// later one, needs it.
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

/// What is given back changes what the replica knows: each of these is told where that is kept.
impl Replay {
    /// The log goes on after this anchor.
    pub(super) fn anchor(&mut self, slot: Slot, anchor: &Anchor, store: &mut Store) -> Result<(), Halt> {
        assert!(store.records().last() == RecordId::ZERO, "an anchor is restored before all records");
        let (position, members) = checkpoints::read_anchor(slot, anchor)?;
        store.restore_anchor(position, slot, members);
        self.anchored = true;
        Ok(())
    }

    /// A later checkpoint than that one was here.
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

    /// The log began after `floor` when this was written. [raft L81]
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

    /// Nothing that was told so far is certain. [raft L102]
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

    /// After which slot the log begins that the records given so far tell: who lacks that slot or one before gets a checkpoint of this
    /// replica, whoever else vouches for it.
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
            // What comes first follows this checkpoint: whoever has no later one needs all that comes.
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

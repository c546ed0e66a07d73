//! Takes back the records of an earlier life, before the start.
//!
//! Slots up to the checkpoint are not handed on again. Those that lead to it without a gap are kept for members that lack them, since no
//! other replica may vouch for that checkpoint yet. After lost records, nothing before them counts. A DECIDED record after the last gap
//! says in which view its writer was, and ends all votes on its slot; with it every vote that still matters is known. If slots are missing
//! between the checkpoint and the records after the gap, a later checkpoint is needed.
//!
//! The votes on the undecided slot belong to the protocol; the replay tells it when the votes read so far are obsolete.
//! INV-LEDGER-5. Tests: tests/replay.rs.

use super::slots::Entry;
use super::{Ledger, Proof, inconsistent};
use crate::{Anchor, Restored};
use quorate_types::{Halt, RecordId, Slot};
use quorate_wire::Batch;
use std::collections::VecDeque;

/// The decided slots up to the checkpoint, without gaps. Only of the last one the batch is kept.
#[derive(Debug, Default)]
struct Earlier {
    last: Slot,
    entries: VecDeque<Entry>,
    /// The proof in the last FLOOR record, of the slot before them.
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
    /// The earlier program forgot everything up to this slot.
    fn forget(&mut self, slot: Slot, proof: Option<Proof>) {
        let beyond = self.last.number().saturating_sub(slot.number());
        while self.entries.len() as u64 > beyond {
            self.entries.pop_front();
        }
        self.proof = proof;
    }
    /// The slots after which and with which the log begins and ends, as far as these records say. `open` and `votes`: the slot of the votes
    /// that follow them, and whether any follow. A FLOOR record alone says nothing: records after it may have been deleted because of a
    /// later FLOOR that was not durable.
    fn ends(&self, open: Slot, votes: bool) -> Option<(Slot, Slot)> {
        let count = self.entries.len() as u64;
        let last = if count > 0 { self.last } else { open.previous() };
        let known = (count > 0 || votes) && open == last.next();
        known.then(|| (Slot::new(last.number() - count), last))
    }
}

/// What is known of the votes that were read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Votes {
    /// There are votes.
    pub any: bool,
    /// The batch of each vote is known.
    pub whole: bool,
}

/// What is known while records are taken back.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// A checkpoint that reaches further was lost.
    outdated: bool,
    /// The checkpoint's slot.
    anchor: Slot,
    /// Records are missing.
    gap: bool,
    /// A record since the last gap says everything that matters of the records before it.
    vouched: bool,
    /// The slot of the votes that are being read.
    open: Slot,
    earlier: Earlier,
    /// Whether a FLOOR record must be written at the start, and whether it clears the log.
    floor: Option<bool>,
}

impl Ledger {
    /// The state comes from a checkpoint of this slot, with this anchor.
    pub fn restore_position(&mut self, slot: Slot, anchor: Anchor) {
        assert!(
            self.records.last() == RecordId::ZERO,
            "INV-LEDGER-5: an anchor is restored before all records"
        );
        self.ahead = Some((slot, anchor));
        self.reset(slot, None);
        self.replay.anchor = slot;
    }

    /// There was a checkpoint that reaches further, and it can not be used any more.
    pub fn restore_outdated(&mut self) {
        assert!(self.records.last() == RecordId::ZERO, "INV-LEDGER-5: it is said before all records");
        self.replay.outdated = true;
    }

    /// Takes back a record.
    ///
    /// # Errors
    /// When its number is not the next one.
    pub fn restore(&mut self, id: RecordId) -> Result<(), Halt> {
        self.records.restore(id)
    }

    /// A vote on this slot follows. Returns whether the slot is a new one, which makes all votes so far obsolete.
    pub fn restore_vote(&mut self, slot: Slot) -> bool {
        std::mem::replace(&mut self.replay.open, slot) != slot
    }

    /// Whether the votes that were read last are on this slot.
    pub fn votes_are_on(&self, slot: Slot) -> bool {
        self.replay.open == slot
    }

    /// This slot is decided; `found` is its batch and the record that holds it, if they are there. All votes so far are obsolete.
    ///
    /// # Errors
    /// When the slot does not continue what was read before.
    pub fn restore_decided(
        &mut self,
        slot: Slot,
        proof: Proof,
        found: Option<(Batch, RecordId)>,
    ) -> Result<(), Halt> {
        (self.replay.open, self.replay.vouched) = (slot.next(), true);
        if slot == self.slots.floor() {
            self.slots.set_floor_proof(proof.clone());
        }
        let Some((batch, batch_record)) = found else {
            return self.restore_without_batch(slot, proof);
        };
        let entry = Entry { batch_record, record: self.records.last(), kept: Some((batch, proof)) };
        if slot > self.replay.anchor {
            return self.restore_slot(slot, entry);
        }
        self.replay.earlier.push(slot, entry);
        Ok(())
    }

    /// As above, when the record with its batch is missing: the batch lies in the checkpoint, or was lost.
    fn restore_without_batch(&mut self, slot: Slot, proof: Proof) -> Result<(), Halt> {
        if slot <= self.replay.anchor {
            return Ok(());
        }
        if slot <= self.slots.last() || !self.replay.gap {
            return Err(inconsistent(format!("{slot} is decided without its batch")));
        }
        self.reset(slot, Some(proof));
        Ok(())
    }

    fn restore_slot(&mut self, slot: Slot, entry: Entry) -> Result<(), Halt> {
        if slot != self.slots.last().next() {
            if slot <= self.slots.last() || !(self.replay.gap || self.replay.outdated) {
                return Err(inconsistent(format!("{slot} follows {}", self.slots.last())));
            }
            // What lies between is missing.
            self.reset(slot.previous(), None);
        }
        self.slots.push(entry);
        Ok(())
    }

    /// A FLOOR record: the log began after this slot when the record was written. Returns whether all votes so far are obsolete.
    ///
    /// # Errors
    /// When no checkpoint holds the slots before.
    pub fn restore_floor(&mut self, slot: Slot, cleared: bool, proof: Option<Proof>) -> Result<bool, Halt> {
        self.replay.earlier.forget(slot, proof.clone());
        let anchor = self.replay.anchor;
        if slot > anchor && !self.replay.outdated {
            return Err(inconsistent(format!(
                "the log begins after {slot}, and the checkpoint ends with {anchor}"
            )));
        }
        if cleared {
            let proof = self.slots.proof(anchor).cloned();
            self.replay.earlier.entries.clear();
            self.reset(slot.max(anchor), proof.filter(|_| slot <= anchor));
            (self.replay.open, self.replay.vouched) = (slot.next(), true);
        } else if slot > self.slots.last() {
            // The checkpoint that held the slots up to it is lost, and so are their records. Votes read so far are on a later slot.
            self.reset(slot, None);
        }
        if let Some(proof) = proof.filter(|proof| proof.slot == self.slots.floor()) {
            self.slots.set_floor_proof(proof);
        }
        self.records.restore_floor(slot);
        Ok(cleared)
    }

    /// Records are missing here. Nothing read so far is certain, and all votes so far are obsolete.
    pub fn restore_gap(&mut self) {
        let anchor = self.replay.anchor;
        let proof = self.slots.proof(anchor).filter(|proof| proof.slot == anchor).cloned();
        self.reset(anchor, proof);
        let replay = &mut self.replay;
        (replay.gap, replay.vouched, replay.open) = (true, false, Slot::ZERO);
        replay.earlier = Earlier::default();
    }

    /// Whether records are missing.
    pub fn has_gap(&self) -> bool {
        self.replay.gap
    }

    /// What can be concluded from all records so far. `votes`: what is known of the votes that were read last.
    pub fn restored(&self, votes: Votes) -> Restored {
        Restored {
            knows_vote: self.knows_vote(),
            needs_checkpoint: self.slots.floor() > self.replay.anchor,
            begins_after: self.replayed_from(votes),
        }
    }

    fn knows_vote(&self) -> bool {
        // A record since the last gap says it.
        self.replay.vouched || !self.replay.gap
    }

    /// There is a checkpoint of this slot, with this anchor, that the remaining records continue. Returns whether all votes so far are
    /// obsolete.
    pub fn restore_over(&mut self, slot: Slot, anchor: Anchor) -> bool {
        assert!(
            self.knows_vote() && slot >= self.slots.floor(),
            "INV-LEDGER-5: whoever lost records takes part only from a checkpoint on that continues what is left"
        );
        self.ahead = Some((slot, anchor));
        self.replay.anchor = slot;
        self.replay.earlier = Earlier::default();
        let beyond = slot > self.slots.last();
        if beyond {
            self.reset(slot, None);
        } else {
            self.raise_floor(slot, None);
        }
        self.replay.floor = Some(beyond);
        beyond && self.replay.open != slot.next()
    }

    /// The slot after which the records so far begin. The slots that lead to the checkpoint are here, so no member need be given the
    /// checkpoint because of them.
    fn replayed_from(&self, votes: Votes) -> Slot {
        let Replay { anchor, earlier, .. } = &self.replay;
        if let Some((floor, _)) = self.ends_before_checkpoint(votes) {
            return floor;
        }
        let leads = earlier.last == *anchor && self.slots.floor() == *anchor;
        let count = if leads { earlier.entries.len() as u64 } else { 0 };
        Slot::new(self.slots.floor().number() - count)
    }

    /// All records were given. Returns whether the votes that were read last are on the undecided slot; if not, they are obsolete.
    pub fn go_on(&mut self, votes: Votes) -> bool {
        assert!(
            self.knows_vote() && self.slots.floor() <= self.replay.anchor,
            "INV-LEDGER-5: whoever lost records takes part only from a checkpoint on that continues what is left"
        );
        let Some((floor, _)) = self.ends_before_checkpoint(votes) else {
            return self.go_on_after_checkpoint();
        };
        // The checkpoint was durable before the records of the last slots that it holds. Then nobody else may know that they are decided,
        // and nobody else may vouch for that checkpoint: this replica goes on where its log ends, with its votes, and decides them again
        // with the others.
        let Earlier { entries, proof, .. } = std::mem::take(&mut self.replay.earlier);
        self.slots.begin_earlier(floor, entries, proof.filter(|proof| proof.slot == floor));
        true
    }

    fn go_on_after_checkpoint(&mut self) -> bool {
        let last = self.slots.last();
        let Earlier { last: leads_to, entries, proof } = std::mem::take(&mut self.replay.earlier);
        if leads_to == self.slots.floor() && !entries.is_empty() {
            self.slots.extend_down(entries, proof);
        }
        self.replay.open == last.next()
    }

    /// Whether a FLOOR record must be written at the start, and whether it clears the log. Answers once.
    pub fn floor_is_due(&mut self) -> Option<bool> {
        self.replay.floor.take()
    }

    /// The slots after which and with which the records begin and end, if the checkpoint reaches further and the records are complete.
    fn ends_before_checkpoint(&self, votes: Votes) -> Option<(Slot, Slot)> {
        let Replay { anchor, gap, outdated, open, earlier, .. } = &self.replay;
        let whole = !gap && !outdated && self.slots.floor() == *anchor && self.slots.last() == *anchor;
        earlier.ends(*open, votes.any).filter(|(_, last)| whole && votes.whole && last < anchor)
    }

    /// The slot of the checkpoint with which this life begins.
    pub fn checkpoint(&self) -> Slot {
        self.replay.anchor
    }
}

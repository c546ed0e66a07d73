//! How far the global log is delivered, and the seq of each of its places. docs/protocols/merge.md L1-L4, L7.
//!
//! The cursor is the next place. Before it lie generations that ended, around it lies the present one, and at most one more follows
//! (INV-MERGE-3, INV-MERGE-4). This part knows nothing of records: the caller that delivers moves the cursor, and is told when a generation
//! begins.
//! Tests: course/tests.rs, tests/merge/changes.rs.

use crate::generation::{Generation, INSTANCES_MAX, Place, SLOT_MAX};
use crate::refused::Refused;
use quorate_types::{Seq, Slot};

/// The way of the cursor through the generations.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    generation: Generation,
    /// The next generation, when a change was executed and its generation border is not reached.
    next: Option<Generation>,
    /// Earlier generations, since the last trim.
    past: Vec<Generation>,
    /// The slot of the cursor, which belongs to the instance at index `at`.
    slot: u64,
    at: usize,
    /// The last seq that was delivered.
    seq: u64,
}

impl Course {
    /// The course after a seq; `cursor` is the next place, in this generation.
    pub(crate) fn behind(seq: Seq, cursor: Place, generation: Generation, next: Option<Generation>) -> Self {
        let at = usize::from(cursor.instance.number()).saturating_sub(1);
        Self { generation, next, past: Vec::new(), slot: cursor.slot.number(), at, seq: seq.number() }
    }

    /// Moves on by one place. Returns the generation that begins there, if one does.
    pub(crate) fn step(&mut self) -> Option<Generation> {
        self.seq += 1;
        self.at += 1;
        if self.at < self.count() {
            return None;
        }
        self.at = 0;
        self.slot += 1;
        self.begin_next()
    }

    /// Moves on by this many whole rounds, from the beginning of a round. None of them reaches across a border.
    pub(crate) fn skip(&mut self, rounds: u64) -> Option<Generation> {
        self.seq += rounds * u64::from(self.generation.instances);
        self.slot += rounds;
        self.begin_next()
    }

    /// Enters the generation that begins at the cursor, if one does. [merge L4]
    fn begin_next(&mut self) -> Option<Generation> {
        let slot = self.slot;
        let next = self.next.take_if(|next| next.first.number() == slot)?;
        self.past.push(std::mem::replace(&mut self.generation, next));
        Some(next)
    }

    /// The next generation, if the batch at `begun` asks for this many instances; and the last slot before it. [merge L3]
    pub(crate) fn plan(
        &self,
        begun: Place,
        window: u64,
        instances: u16,
    ) -> Result<(u64, Generation), Refused> {
        if !(1..=INSTANCES_MAX).contains(&instances) {
            return Err(Refused::Instances);
        }
        // The last batch before a border is executed when the cursor is behind it.
        if self.next.is_some() || begun.slot < self.generation.first {
            return Err(Refused::ChangeUnderWay);
        }
        if instances == self.generation.instances {
            return Err(Refused::NothingChanges);
        }
        let border = begun.slot.number().saturating_add(window);
        let next = self.generation.after(border, instances).filter(|_| border < SLOT_MAX);
        next.map(|next| (border, next)).ok_or(Refused::NoSuchSlot)
    }

    /// Announces the next generation.
    pub(crate) fn announce(&mut self, next: Generation) {
        self.next = Some(next);
    }

    /// Takes over what an earlier course knows of generations before the present one.
    pub(crate) fn remember(&mut self, earlier: &Self) {
        let before = |generation: &&Generation| generation.base < self.generation.base;
        self.past = earlier.past.iter().filter(before).copied().collect();
    }

    /// Forgets generations that end at or before this seq.
    pub(crate) fn trim(&mut self, seq: Seq) {
        let ended = |at: usize| self.past.get(at + 1).unwrap_or(&self.generation).base <= seq;
        let count = (0..self.past.len()).take_while(|at| ended(*at)).count();
        self.past.drain(..count);
    }

    /// The generation at the cursor.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }
    /// The next generation, if it is known.
    pub(crate) fn next(&self) -> Option<Generation> {
        self.next
    }
    /// The instances of the present generation.
    pub(crate) fn count(&self) -> usize {
        usize::from(self.generation.instances)
    }
    /// The slot of the cursor.
    pub(crate) fn slot(&self) -> u64 {
        self.slot
    }
    /// The index in the list of the instance whose slot is the cursor's.
    pub(crate) fn at(&self) -> usize {
        self.at
    }
    /// The last seq that was delivered.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }
    /// The place that is delivered next.
    pub(crate) fn cursor(&self) -> Place {
        Place::at(self.slot, self.at)
    }
    /// The last slot of the present generation, if it ends.
    pub(crate) fn border(&self) -> Option<u64> {
        self.next.map(|next| next.first.number() - 1)
    }
    /// The last slot that every instance has delivered.
    pub(crate) fn delivered(&self) -> Slot {
        Slot::new(self.slot - 1)
    }
    /// How many slots of the instance at this index are delivered, if the instance takes part.
    pub(crate) fn done(&self, at: usize) -> Option<u64> {
        (at < self.count()).then(|| if at < self.at { self.slot } else { self.slot - 1 })
    }

    /// The place with this seq, if its generation is still known. [merge L2]
    pub(crate) fn place(&self, seq: Seq) -> Option<Place> {
        let mut all = self.past.iter().chain([&self.generation]).chain(&self.next);
        all.rfind(|generation| generation.base < seq)?.place(seq)
    }

    /// The seq of this place, if its generation is still known and has it.
    pub(crate) fn seq_of(&self, place: Place) -> Option<Seq> {
        let mut all = self.past.iter().chain([&self.generation]).chain(&self.next);
        all.rfind(|generation| generation.first <= place.slot)?.seq(place)
    }

    /// Panics with the name of the invariant that does not hold.
    pub(crate) fn check(&self) {
        let here = self.generation.seq(self.cursor());
        assert!(
            here == Some(Seq::new(self.seq + 1)),
            "INV-MERGE-3: the cursor is the place behind the last seq"
        );
        if let Some(next) = self.next {
            assert!(
                self.slot < next.first.number()
                    && Some(next) == self.generation.after(next.first.number() - 1, next.instances),
                "INV-MERGE-4: one generation at most is to come, right behind the border"
            );
        }
    }
}

#[cfg(test)]
mod tests;

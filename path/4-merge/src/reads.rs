//! Strong reads through any one instance. docs/protocols/merge.md L17-L20.
//!
//! A leader says how far its instance is decided, and confirms that it led when it was asked. No replica can have executed what that
//! instance decides next, or anything after that place. So a replica that executed everything before that place has seen whatever any
//! replica had answered for before the read came. A read thus waits for one place, of whatever generation, and for nothing else
//! (INV-MERGE-7). Tests: reads/tests.rs; tests/merge/reads.rs proves over all small interleavings that the place is sufficient and minimal.

use crate::generation::{INSTANCES_MAX, Place};
use crate::local::{Local, RecordIndex, Stay};
use quorate_types::planted;

/// How a read's wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// Everything that the read must see is delivered.
    Ready,
    /// The instance whose leader answered leaves, so the answer proves nothing. Ask the leader of another instance.
    AskAnother,
}

/// A confirmed read.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    read: u64,
    at: usize,
    record: u64,
    /// The slot up to which the read waits: it may run once everything before that slot's place is delivered.
    slot: Option<u64>,
    ends: Option<ReadEnd>,
}

/// The reads that wait for their place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    waiting: Vec<Waiting>,
}

impl Reads {
    /// The leader of the instance at this index of the list confirmed a read up to this record; `at` is none if there is no such instance.
    pub(crate) fn confirmed(&mut self, read: u64, at: Option<usize>, record: RecordIndex) {
        let ends = at.is_none().then_some(ReadEnd::AskAnother);
        self.waiting.push(Waiting { read, at: at.unwrap_or_default(), record: record.0, slot: None, ends });
    }

    /// Whether a read waits.
    pub(crate) fn are_there(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Keeps only the reads for which `waits` is true.
    pub(crate) fn retain(&mut self, waits: impl Fn(u64) -> bool) {
        self.waiting.retain(|waiting| waits(waiting.read));
    }

    /// Hands over the reads whose wait is over, in the order in which they were confirmed. Returns the furthest place that the others wait
    /// for. [merge L18, L19]
    pub(crate) fn step<T>(
        &mut self,
        cursor: Place,
        locals: &[Local<T>],
        mut end: impl FnMut(u64, ReadEnd),
    ) -> Option<Place> {
        let mut wanted = None;
        self.waiting.retain_mut(|read| {
            if read.ends.is_none() {
                match read.look(cursor, locals.get(read.at)) {
                    Looked::Ends(how) => read.ends = Some(how),
                    Looked::Wants(place) => wanted = wanted.max(Some(place)),
                    Looked::Nothing => {}
                }
            }
            if let Some(how) = read.ends {
                end(read.read, how);
            }
            read.ends.is_none()
        });
        wanted
    }

    /// Some instances leave with slot `border`. Reads that wait for a later slot of them wait in vain. [merge L20]
    pub(crate) fn forget_behind<T>(&mut self, border: u64, locals: &[Local<T>]) {
        for read in &mut self.waiting {
            let leaves = matches!(locals.get(read.at).map(|local| local.stay), Some(Stay::Leaves(_)));
            if leaves && read.slot.is_some_and(|slot| slot > border) {
                read.ends = Some(ReadEnd::AskAnother);
            }
        }
    }

    /// A checkpoint replaced what was not delivered, so all reads are asked for anew.
    pub(crate) fn forget(&mut self) {
        for read in &mut self.waiting {
            read.ends = Some(ReadEnd::AskAnother);
        }
    }
}

/// What a look at a read found.
enum Looked {
    Ends(ReadEnd),
    /// The read waits for everything up to this place.
    Wants(Place),
    /// The read waits for a record that its instance has not handed in here.
    Nothing,
}

impl Waiting {
    fn look<T>(&mut self, cursor: Place, local: Option<&Local<T>>) -> Looked {
        let Some(local) = local else { return Looked::Nothing };
        if self.slot.is_none() {
            let Some(decided) = local.slot_at(self.record) else { return Looked::Nothing };
            let next = decided + u64::from(!planted("merge-read-off-by-one"));
            // What an instance decides after it left, it never says: others go on without it.
            let stays = match local.stay {
                Stay::Here => true,
                Stay::Leaves(border) => next <= border,
                Stay::Away => next <= local.base,
            };
            if !stays {
                return Looked::Ends(ReadEnd::AskAnother);
            }
            self.slot = Some(next);
        }
        let Some(slot) = self.slot else { return Looked::Nothing };
        let place = Place::at(slot, self.at);
        if cursor >= place || planted("read-before-executed") {
            return Looked::Ends(ReadEnd::Ready);
        }
        // The place before it, of whatever generation.
        Looked::Wants(match self.at {
            0 => Place::new(place.slot.previous().number(), INSTANCES_MAX),
            at => Place::at(place.slot.number(), at - 1),
        })
    }
}

#[cfg(test)]
mod tests;

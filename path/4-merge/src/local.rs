//! One instance's log as the merge sees it: records of one or many slots, decided and not delivered yet. docs/protocols/merge.md L5-L8.
//!
//! A record index is not a slot. A no-op is one record, and stands for every slot up to its target that no earlier record stands for. So
//! the slots of records are summed up here, from a floor that lies between two records, never inside one (INV-MERGE-2).
//! Tests: tests/merge/deliver.rs, tests/merge/model.rs.

use crate::generation::SLOT_MAX;
use crate::propose::Proposer;
use crate::refused::Refused;
use quorate_types::{Slot, Span, planted};
use std::collections::VecDeque;

/// The number of a record of an instance, counting from 1 only the records with a batch or a no-op: what `Order` counts as its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RecordIndex(pub u64);

/// What one record of an instance holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided<T> {
    /// Commands: one slot. The merge does not look into the batch.
    Batch {
        /// The batch, as the host wants it back.
        payload: T,
        /// How many bytes it counts as in memory.
        bytes: usize,
    },
    /// A no-op: it stands for all slots up to `target` that no earlier record stands for, perhaps for none.
    Noop {
        /// The last slot that it stands for.
        target: Slot,
    },
}

/// A record whose slots are known.
#[derive(Clone, Debug)]
pub(crate) struct Item<T> {
    pub(crate) record: u64,
    /// Its last slot.
    pub(crate) end: u64,
    /// The batch, with its bytes; none for a no-op.
    pub(crate) payload: Option<(T, usize)>,
}

/// How long an instance takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// With no known end.
    Here,
    /// Up to this slot.
    Leaves(u64),
    /// It takes no part until a change brings it back.
    Away,
}

/// The result of taking a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A batch at this slot.
    Work(u64),
    /// A no-op for this many slots.
    Noop(u64),
    /// The record was taken before, or its slots are not known yet.
    Nothing,
}

/// The state of one instance.
#[derive(Clone, Debug)]
pub(crate) struct Local<T> {
    /// The last record that was delivered completely and stood for a slot. Later records that stand for no slot do not count, so that this
    /// is the same on all replicas.
    pub(crate) record: u64,
    /// The number of slots that records up to that one stand for.
    pub(crate) base: u64,
    /// Records with known slots that are not delivered completely.
    pub(crate) queue: VecDeque<Item<T>>,
    /// The last slot in the queue, or the base.
    pub(crate) placed: u64,
    /// Records of a later stay than the known one.
    pub(crate) unplaced: VecDeque<(u64, Decided<T>)>,
    /// The last record that was handed in.
    pub(crate) last: u64,
    /// Records up to this one may be handed in again, since a checkpoint was installed.
    pub(crate) again: u64,
    pub(crate) bytes: usize,
    pub(crate) stay: Stay,
    /// Its leader, if that is this replica.
    pub(crate) lead: Option<Proposer>,
    /// The slot up to which its leader elsewhere was asked to fill.
    pub(crate) asked: u64,
    /// How long the merge waited for it while work waited behind.
    pub(crate) waited: Span,
}

impl<T> Local<T> {
    pub(crate) fn new(record: u64, base: u64, stay: Stay) -> Self {
        Self {
            record,
            base,
            queue: VecDeque::new(),
            placed: base,
            unplaced: VecDeque::new(),
            last: record,
            again: 0,
            bytes: 0,
            stay,
            lead: None,
            asked: 0,
            waited: Span::ZERO,
        }
    }

    /// Takes the next record. `done` slots are delivered; `border` is the last slot of the generation, if it ends. [merge L5]
    pub(crate) fn take(
        &mut self,
        record: u64,
        what: Decided<T>,
        done: u64,
        border: Option<u64>,
    ) -> Result<Taken, Refused> {
        if record <= self.last && record <= self.again && record != 0 {
            return Ok(Taken::Nothing);
        }
        let next = self.last.saturating_add(1);
        if record != next || record == u64::MAX {
            return Err(Refused::OutOfOrder { next, came: record });
        }
        let end = self.end(&what);
        let known = matches!(&what, Decided::Noop { target } if target.number() > SLOT_MAX);
        if known || end > SLOT_MAX {
            return Err(Refused::NoSuchSlot);
        }
        let later = match self.stay {
            Stay::Here => false,
            Stay::Leaves(last) => self.placed >= last,
            Stay::Away => true,
        };
        if later || !self.unplaced.is_empty() {
            self.last = record;
            if end > self.placed {
                self.bytes = self.bytes.saturating_add(bytes_of(&what));
                self.unplaced.push_back((record, what));
            }
            return Ok(Taken::Nothing);
        }
        if border.is_some_and(|border| self.placed < border && border < end) {
            return Err(Refused::AcrossBorder);
        }
        if end > self.placed && end <= done {
            // A checkpoint ends inside a record that reaches beyond it; this one does not. [merge L24]
            return Err(Refused::NotContinued);
        }
        self.last = record;
        self.bytes = self.bytes.saturating_add(bytes_of(&what));
        Ok(self.push(record, end, what))
    }

    /// The number of slots that all records up to and including this one stand for. [merge L6]
    fn end(&self, what: &Decided<T>) -> u64 {
        match what {
            Decided::Batch { .. } => self.placed.saturating_add(1),
            Decided::Noop { target } => {
                let target = target.number();
                if planted("merge-noop-counted-twice") {
                    // Slots of records that wait here count for the no-op, too.
                    return self.placed.saturating_add(target.saturating_sub(self.base));
                }
                target.max(self.placed)
            }
        }
    }

    fn push(&mut self, record: u64, end: u64, what: Decided<T>) -> Taken {
        let before = std::mem::replace(&mut self.placed, end);
        match what {
            Decided::Batch { payload, bytes } => {
                self.queue.push_back(Item { record, end, payload: Some((payload, bytes)) });
                Taken::Work(end)
            }
            Decided::Noop { .. } => {
                if end > before {
                    self.queue.push_back(Item { record, end, payload: None });
                }
                Taken::Noop(end - before)
            }
        }
    }

    /// The front record is delivered.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.queue.pop_front()?;
        (self.record, self.base) = (item.record, item.end);
        let (payload, bytes) = item.payload?;
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(payload)
    }

    /// The last slot of the no-op at the front, if one is there.
    pub(crate) fn noop_end(&self) -> Option<u64> {
        self.queue.front().filter(|item| item.payload.is_none()).map(|item| item.end)
    }

    /// The number of slots that the records up to this one stand for; none while that is not known. [merge L17]
    pub(crate) fn slot_at(&self, record: u64) -> Option<u64> {
        let later = self.unplaced.front().is_some_and(|(first, _)| record >= *first);
        if record > self.last || later {
            return None;
        }
        let up_to = self.queue.partition_point(|item| item.record <= record);
        match up_to.checked_sub(1).and_then(|at| self.queue.get(at)) {
            Some(item) => Some(item.end),
            // What came before the last delivered record is delivered; how far it reached does not matter any more.
            None if record < self.record => Some(0),
            None => Some(self.base),
        }
    }

    /// The instance leaves with this slot: later records belong to a later stay.
    pub(crate) fn leave(&mut self, border: u64) -> Result<(), Refused> {
        let keep = self.queue.partition_point(|item| item.end <= border);
        let placed = keep.checked_sub(1).and_then(|at| self.queue.get(at)).map_or(self.base, |item| item.end);
        if placed < border && keep < self.queue.len() {
            return Err(Refused::AcrossBorder);
        }
        self.stay = Stay::Leaves(border);
        self.placed = placed;
        let later: Vec<_> = self.queue.drain(keep..).map(raw).collect();
        for record in later.into_iter().rev() {
            self.unplaced.push_front(record);
        }
        Ok(())
    }

    /// Whether a no-op in the queue reaches across this slot.
    pub(crate) fn crosses(&self, border: u64) -> bool {
        let at = self.queue.partition_point(|item| item.end <= border);
        let before = at.checked_sub(1).and_then(|at| self.queue.get(at)).map_or(self.base, |item| item.end);
        at < self.queue.len() && before < border
    }

    /// The instance is back after slot `base`, so the records of this stay get their slots.
    pub(crate) fn come_back(&mut self, base: u64) -> Vec<u64> {
        self.stay = Stay::Here;
        self.base = base;
        self.placed = base;
        let mut work = Vec::new();
        for (record, what) in std::mem::take(&mut self.unplaced) {
            let end = self.end(&what);
            if let Taken::Work(slot) = self.push(record, end, what) {
                work.push(slot);
            }
        }
        if let Some(lead) = &mut self.lead {
            lead.decided(Slot::new(self.placed));
        }
        work
    }

    /// All records after this one, as they were handed in.
    pub(crate) fn take_after(&mut self, record: u64) -> Vec<(u64, Decided<T>)> {
        let placed = std::mem::take(&mut self.queue).into_iter().map(raw);
        let all = placed.chain(std::mem::take(&mut self.unplaced));
        all.filter(|(index, _)| *index > record).collect()
    }
}

fn raw<T>(item: Item<T>) -> (u64, Decided<T>) {
    let what = match item.payload {
        Some((payload, bytes)) => Decided::Batch { payload, bytes },
        None => Decided::Noop { target: Slot::new(item.end) },
    };
    (item.record, what)
}

pub(crate) fn bytes_of<T>(what: &Decided<T>) -> usize {
    match what {
        Decided::Batch { bytes, .. } => *bytes,
        Decided::Noop { .. } => 0,
    }
}

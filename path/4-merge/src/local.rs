//! One instance's log as the merge sees it: records of one or many slots, decided and not delivered. docs/protocols/merge.md L5-L8.
//!
//! A record index is not a slot: a no-op is one record and stands for every slot up to its target that no record before it stands for.
//! So the slots of records are summed up here, from a floor that lies between two records, never inside one (INV-MERGE-2).
//! Tests: tests/merge/deliver.rs, tests/merge/model.rs.

use crate::generation::SLOT_MAX;
use crate::propose::Proposer;
use crate::refused::Refused;
use quorate_types::{Slot, Span, planted};
use std::collections::VecDeque;

/// Counts the records of an instance that carry a batch or a no-op, from 1: what `Order` counts as its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RecordIndex(pub u64);

/// What one record of an instance holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided<T> {
    /// Commands: one slot. The merge does not look into it.
    Batch {
        /// Whatever the host wants back.
        payload: T,
        /// What it counts for in memory.
        bytes: usize,
    },
    /// Nothing, for all slots up to this one that no record before stands for: perhaps none.
    Noop {
        /// The last slot it stands for.
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
    /// As far as is known.
    Here,
    /// Up to this slot.
    Leaves(u64),
    /// It does not, until a change brings it back.
    Away,
}

/// What a record turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A batch at this slot.
    Work(u64),
    /// A no-op for so many slots.
    Noop(u64),
    /// It came before, or its slots are not known yet.
    Nothing,
}

/// One instance.
#[derive(Clone, Debug)]
pub(crate) struct Local<T> {
    /// The last record delivered whole that stood for a slot. Records after it that stand for none do not count, so that it is the same
    /// on all replicas.
    pub(crate) record: u64,
    /// The slots that records up to it stand for.
    pub(crate) base: u64,
    /// Records with slots that are not delivered whole.
    pub(crate) queue: VecDeque<Item<T>>,
    /// The last slot in the queue, or the base.
    pub(crate) placed: u64,
    /// Records of a later stay than the one that is known.
    pub(crate) unplaced: VecDeque<(u64, Decided<T>)>,
    /// The last record handed in.
    pub(crate) last: u64,
    /// Records up to this one may come again, since a checkpoint was installed.
    pub(crate) again: u64,
    pub(crate) bytes: usize,
    pub(crate) stay: Stay,
    /// Its leader, if that sits here.
    pub(crate) lead: Option<Proposer>,
    /// How far its leader elsewhere was asked to fill.
    pub(crate) asked: u64,
    /// How long the merge waited for it while work waited behind it.
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

    /// Takes the next record. `done` slots are delivered; a generation that ends, ends with slot `border`. [merge L5]
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

    /// The slots that all records stand for once this one is behind them. [merge L6]
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

    /// The slots that the records up to this one stand for; none while it is not known. [merge L17]
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

    /// It leaves with this slot: records behind it belong to a later stay.
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

    /// A no-op in the queue reaches across this slot.
    pub(crate) fn crosses(&self, border: u64) -> bool {
        let at = self.queue.partition_point(|item| item.end <= border);
        let before = at.checked_sub(1).and_then(|at| self.queue.get(at)).map_or(self.base, |item| item.end);
        at < self.queue.len() && before < border
    }

    /// It is back after slot `base`: the records of this stay get their slots.
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

//! Strong reads through any one instance. docs/protocols/merge.md L17-L20.
//!
//! A leader says how far its instance is decided, and confirms that it led when it was asked. Nobody can have executed what that
//! instance decides next, nor anything behind that place: whoever executed everything before it has seen all that anybody answered for
//! before the read came. So a read waits for one place, of whatever generation, and for nothing else (INV-MERGE-7).
//! Tests: tests/merge/reads.rs proves the place sufficient and minimal over all small interleavings.

use crate::generation::{INSTANCES_MAX, Position};
use crate::local::{RecordIndex, Stay};
use crate::merge::Merge;
use quorate_types::{InstanceId, planted};

/// How waiting for a read's place ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// Everything it must see is delivered.
    Ready,
    /// The instance that answered leaves, and proves nothing: ask another one.
    AskAnother,
}

/// A read that was confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    read: u64,
    at: usize,
    record: u64,
    /// The slot that must not be delivered before the read runs: everything before its place must be.
    slot: Option<u64>,
    ends: Option<ReadEnd>,
}

impl<T> Merge<T> {
    /// The instance to ask for a strong read, of those whose leader is known: the one that the merge waits for. When nothing is
    /// undelivered such a read waits for nothing. [merge L17]
    pub fn read_through(&self, has_leader: impl Fn(InstanceId) -> bool) -> Option<InstanceId> {
        let count = usize::from(self.generation.instances);
        let in_order = || (0..count).map(|step| (self.at + step) % count);
        let stays = |at: &usize| self.locals[*at].stay == Stay::Here;
        let leaving = in_order().filter(|at| !stays(at));
        let mut all = in_order().filter(stays).chain(leaving).map(|at| InstanceId::new(at as u16 + 1));
        all.find(|instance| has_leader(*instance))
    }

    /// The leader of an instance confirmed that everything decided there before the read is among the records up to this one.
    pub fn read_confirmed(&mut self, read: u64, instance: InstanceId, record: RecordIndex) {
        let index = self.index(instance);
        let ends = index.is_err().then_some(ReadEnd::AskAnother);
        let at = index.unwrap_or_default();
        self.reads.push(Waiting { read, at, record: record.0, slot: None, ends });
    }

    /// Nobody waits for this read any more.
    pub fn drop_read(&mut self, read: u64) {
        self.reads.retain(|waiting| waiting.read != read);
    }

    /// Whether a read waits for its place in the global log.
    pub fn has_reads(&self) -> bool {
        !self.reads.is_empty()
    }

    /// Nobody waits for the others any more.
    pub fn retain_reads(&mut self, waits: impl Fn(u64) -> bool) {
        self.reads.retain(|waiting| waits(waiting.read));
    }

    /// Hands over the reads whose waiting ends, in the order in which they were confirmed; what the others wait for is filled from now
    /// on. Call it once a turn, before [`Merge::fill`]. [merge L18, L19]
    pub fn reads(&mut self, mut end: impl FnMut(u64, ReadEnd)) {
        if self.reads.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.reads);
        waiting.retain_mut(|read| {
            read.ends = read.ends.or_else(|| self.look(read));
            if let Some(how) = read.ends {
                end(read.read, how);
            }
            read.ends.is_none()
        });
        self.reads = waiting;
    }

    fn look(&mut self, read: &mut Waiting) -> Option<ReadEnd> {
        let local = self.locals.get(read.at)?;
        if read.slot.is_none() {
            let decided = local.slot_at(read.record)?;
            let next = decided + u64::from(!planted("merge-read-off-by-one"));
            // What an instance decides after it left, it never says: others go on without it.
            let stays = match local.stay {
                Stay::Here => true,
                Stay::Leaves(border) => next <= border,
                Stay::Away => next <= local.base,
            };
            if !stays {
                return Some(ReadEnd::AskAnother);
            }
            read.slot = Some(next);
        }
        let place = Position::at(read.slot?, read.at);
        if self.cursor() >= place || planted("read-before-executed") {
            return Some(ReadEnd::Ready);
        }
        // The place before it, of whatever generation.
        let before = match read.at {
            0 => Position::new(place.slot.previous().number(), INSTANCES_MAX),
            at => Position::at(place.slot.number(), at - 1),
        };
        self.want(before, true);
        None
    }

    /// Some instances leave with slot `border`: reads that wait for what they would say behind it wait for nothing.
    /// [merge L20]
    pub(crate) fn forget_reads_behind(&mut self, border: u64) {
        for read in &mut self.reads {
            let leaves = matches!(self.locals.get(read.at).map(|local| local.stay), Some(Stay::Leaves(_)));
            if leaves && read.slot.is_some_and(|slot| slot > border) {
                read.ends = Some(ReadEnd::AskAnother);
            }
        }
    }

    /// A checkpoint took the place of what was not delivered: reads are asked anew.
    pub(crate) fn forget_reads(&mut self) {
        for read in &mut self.reads {
            read.ends = Some(ReadEnd::AskAnother);
        }
    }
}

//! The ring: slots that take turns, so that the order of legs follows from the batches alone, and not from when answers come.
//!
//! Source: Kapritsos (Adam), section 4.3.1, deterministic pipelining, and table 4.1, the events at which the next slot becomes active.

use super::request::Key;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// It takes the batch's next request when it is active.
    Free,
    Taken(Key),
    /// The batch had no request left for it.
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    pub(super) slots: Vec<Slot>,
    /// The active slot.
    pub(super) active: usize,
    /// The batch whose requests run.
    pub(super) batch: u64,
    /// Requests that have no slot yet.
    pub(super) queue: VecDeque<Key>,
}

impl Ring {
    pub(super) fn new(slots: u32) -> Self {
        Self { slots: vec![Slot::Stopped; slots as usize], active: 0, batch: 0, queue: VecDeque::new() }
    }

    /// The request whose turn it is; none once all of them ended.
    pub(super) fn turn(&mut self) -> Option<Key> {
        loop {
            if self.slots.iter().all(|slot| *slot == Slot::Stopped) {
                let next = self.queue.front()?;
                (self.batch, self.active) = (next.seq, 0);
                self.slots.fill(Slot::Free);
            }
            match self.slots[self.active] {
                Slot::Taken(key) => return Some(key),
                Slot::Stopped => self.go_on(),
                Slot::Free => match self.queue.pop_front_if(|next| next.seq == self.batch) {
                    Some(key) => self.slots[self.active] = Slot::Taken(key),
                    None => {
                        self.slots[self.active] = Slot::Stopped;
                        self.go_on();
                    }
                },
            }
        }
    }

    /// The next slot becomes active.
    pub(super) fn go_on(&mut self) {
        self.active = (self.active + 1) % self.slots.len();
    }

    /// The request of the active slot ended.
    pub(super) fn ended(&mut self) {
        self.slots[self.active] = Slot::Free;
    }

    /// All requests in it.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        let taken = self.slots.iter().filter_map(|slot| match slot {
            Slot::Taken(key) => Some(*key),
            Slot::Free | Slot::Stopped => None,
        });
        taken.chain(self.queue.iter().copied())
    }
}

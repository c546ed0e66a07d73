//! What a replica executes, on its way to those who watch: from the lane's thread to the front's.
//!
//! The lane must never wait here: it appends to a queue of bounded bytes under a lock that is held for a moment, and when the queue is
//! full what is in it is dropped; whoever watches then reads what it missed from the store. Nothing is queued while nobody watches.
//! Tests: `hub/tests.rs`.

use quorate_etcd::{LiveEvents, Observer, Wants};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

#[cfg(test)]
mod tests;

/// The queue holds so many bytes at most.
const QUEUE_BYTES_MAX: usize = 32 << 20;

/// The way from the service to the front. Clones are the same one.
#[derive(Clone, Default)]
pub struct Hub {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    wants: AtomicU8,
    revision: AtomicI64,
    compacted: AtomicI64,
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Default)]
struct Queue {
    list: VecDeque<LiveEvents>,
    bytes: usize,
}

impl Hub {
    /// A hub on which nobody listens yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The newest revision that this replica executed, as far as is known; 0: nothing was heard yet.
    pub(crate) fn revision(&self) -> i64 {
        self.shared.revision.load(Ordering::SeqCst)
    }

    /// Somebody read this revision.
    pub(crate) fn saw(&self, revision: i64) {
        self.shared.revision.fetch_max(revision, Ordering::SeqCst);
    }

    /// What is wanted from now on. What is executed after this is queued, or shows in [`Self::revision`] when asked after this.
    pub(crate) fn want(&self, wants: Wants) {
        self.shared.wants.store(number(wants), Ordering::SeqCst);
    }

    /// Waits for something in the queue.
    pub(crate) async fn filled(&self) {
        self.shared.filled.notified().await;
    }

    /// Takes the first of the queue.
    pub(crate) fn take(&self) -> Option<LiveEvents> {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let events = queue.list.pop_front()?;
        queue.bytes -= events.byte_len();
        Some(events)
    }
}

const fn number(wants: Wants) -> u8 {
    match wants {
        Wants::Nothing => 0,
        Wants::Events => 1,
        Wants::EventsAndBefore => 2,
    }
}

impl Observer for Hub {
    fn wants(&self) -> Wants {
        match self.shared.wants.load(Ordering::SeqCst) {
            0 => Wants::Nothing,
            1 => Wants::Events,
            _ => Wants::EventsAndBefore,
        }
    }

    fn executed(&mut self, events: LiveEvents) {
        let shared = &self.shared;
        shared.revision.store(events.revision, Ordering::SeqCst);
        shared.compacted.store(events.compacted, Ordering::SeqCst);
        // Asked again: who came meanwhile must learn that there was something.
        if self.wants() == Wants::Nothing || events.before == events.revision {
            return;
        }
        let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.bytes > QUEUE_BYTES_MAX {
            *queue = Queue::default();
        }
        queue.bytes += events.byte_len();
        queue.list.push_back(events);
        drop(queue);
        shared.filled.notify_one();
    }
}

//! What a replica executes, on its way to those who watch: from the lane's thread to the front's.
//!
//! Whoever hears what is final says how far that is ([`Hub::reached`]) and hands over what changed ([`Hub::publish`]). A service that
//! has a [`Teller`] has to do neither: then the hub is the observer of its ordered events. It looks into none: it keeps them in the order in which
//! they come, each with its size.
//!
//! The lane must never wait here: it appends to a queue of bounded bytes under a lock that is held for a moment, and when the queue is
//! full what is in it is dropped; whoever watches then reads what it missed from the service. So events must say from where to where they
//! lead, for a gap to be seen. Nothing is queued while nobody watches. Tests: `hub/tests.rs`.

use quorate::{Events, Observer, Tells};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

#[cfg(test)]
mod tests;

/// The queue holds so many bytes at most.
pub(crate) const QUEUE_BYTES_MAX: usize = 32 << 20;

/// The way from the service to the front; `T` is what one request of clients changed. Clones are the same one.
pub struct Hub<T> {
    shared: Arc<Shared<T>>,
}

/// A service's end of a hub: what it changes waits here until its batch is final.
pub struct Teller<T> {
    hub: Hub<T>,
    changes: Vec<(i64, usize, T)>,
}

impl<T> Teller<T> {
    /// The end of this hub.
    pub fn new(hub: Hub<T>) -> Self {
        Self { hub, changes: Vec::new() }
    }

    /// A change led to this position; it takes so many bytes of memory.
    pub fn tell(&mut self, position: i64, bytes: usize, change: T) {
        self.changes.push((position, bytes, change));
    }

    /// The position that was told last.
    pub fn position(&self) -> i64 {
        self.changes.last().map_or_else(|| self.hub.position(), |(position, ..)| *position)
    }
}

impl<T: Send + 'static> Tells for Teller<T> {
    fn observer(&mut self) -> Option<Box<dyn Observer>> {
        Some(Box::new(self.hub.clone()))
    }

    fn take_events(&mut self) -> Option<Events> {
        (!self.changes.is_empty()).then(|| Events::new(std::mem::take(&mut self.changes)))
    }
}

impl<T: Send + 'static> Observer for Hub<T> {
    fn told(&mut self, events: Events) {
        for (position, bytes, change) in events.of::<Vec<(i64, usize, T)>>().into_iter().flatten() {
            self.reached(position);
            self.publish(bytes, change);
        }
    }
}

struct Shared<T> {
    wanted: AtomicU8,
    position: AtomicI64,
    queue: Mutex<Queue<T>>,
    filled: Notify,
}

struct Queue<T> {
    list: VecDeque<(usize, T)>,
    bytes: usize,
}

impl<T> Clone for Hub<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T> Default for Hub<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Hub<T> {
    /// A hub on which nobody listens yet.
    pub fn new() -> Self {
        let queue = Mutex::new(Queue { list: VecDeque::new(), bytes: 0 });
        let (wanted, position) = (AtomicU8::new(0), AtomicI64::new(0));
        Self { shared: Arc::new(Shared { wanted, position, queue, filled: Notify::new() }) }
    }

    /// For the service: how much is wanted of what it executes, as [`Self::want`] said; 0 is nothing.
    pub fn wanted(&self) -> u8 {
        self.shared.wanted.load(Ordering::SeqCst)
    }

    /// For the service: it is at this position now. A repaired replica may go back.
    pub fn reached(&self, position: i64) {
        self.shared.position.store(position, Ordering::SeqCst);
    }

    /// For the service: what led to the position that was [reached](Self::reached) just now, which takes so many bytes of memory.
    pub fn publish(&self, bytes: usize, events: T) {
        // Asked again: who came meanwhile must learn that there was something.
        if self.wanted() == 0 {
            return;
        }
        let shared = &self.shared;
        let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.bytes > QUEUE_BYTES_MAX {
            queue.list.clear();
            queue.bytes = 0;
        }
        queue.bytes += bytes;
        queue.list.push_back((bytes, events));
        drop(queue);
        shared.filled.notify_one();
    }

    /// For the front: the newest position that this replica executed, as far as is known; 0: nothing was heard yet.
    pub fn position(&self) -> i64 {
        self.shared.position.load(Ordering::SeqCst)
    }

    /// For the front: somebody read this position.
    pub fn saw(&self, position: i64) {
        self.shared.position.fetch_max(position, Ordering::SeqCst);
    }

    /// For the front: how much is wanted from now on; 0 is nothing. What is executed after this is queued, or shows in [`Self::position`]
    /// when asked after this.
    pub fn want(&self, how_much: u8) {
        self.shared.wanted.store(how_much, Ordering::SeqCst);
    }

    /// For the front: waits for something in the queue.
    pub async fn filled(&self) {
        self.shared.filled.notified().await;
    }

    /// For the front: takes the first of the queue.
    pub fn take(&self) -> Option<T> {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, events) = queue.list.pop_front()?;
        queue.bytes -= bytes;
        Some(events)
    }
}

//! Passes what a replica executes from the lane's thread to the front's, for clients that watch.
//!
//! The one who hears of final batches names the position reached ([`Hub::reached`]) and hands over the changes ([`Hub::publish`]). With a
//! [`Teller`] the service need do neither: the hub is then the observer of its ordered events. The hub keeps events in the order in which
//! they come, each with its size, and does not look into them.
//!
//! The lane must never wait here. It appends to a queue of bounded bytes, under a lock that is held for a moment. A full queue is emptied;
//! a watcher then reads what it missed from the service. To show the gap, each event must name the positions before and after it. Nothing
//! is queued while nothing is wanted. Tests: `hub/tests.rs`.

use quorate::{Events, Observer, Tells};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

#[cfg(test)]
mod tests;

/// The bytes above which the queue is emptied.
pub(crate) const QUEUE_BYTES_MAX: usize = 32 << 20;

/// The way from the service to the front; a `T` holds what one request changed. All clones act as one.
pub struct Hub<T> {
    shared: Arc<Shared<T>>,
}

/// A service's end of a hub. Changes wait here until their batch is final.
pub struct Teller<T> {
    hub: Hub<T>,
    changes: Vec<(i64, usize, T)>,
}

impl<T> Teller<T> {
    /// The service's end of this hub.
    pub fn new(hub: Hub<T>) -> Self {
        Self { hub, changes: Vec::new() }
    }

    /// Reports a change that led to this position and takes this many bytes of memory.
    pub fn tell(&mut self, position: i64, bytes: usize, change: T) {
        self.changes.push((position, bytes, change));
    }

    /// The position that was reported last.
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
    /// A hub of which nothing is wanted yet.
    pub fn new() -> Self {
        let queue = Mutex::new(Queue { list: VecDeque::new(), bytes: 0 });
        let (wanted, position) = (AtomicU8::new(0), AtomicI64::new(0));
        Self { shared: Arc::new(Shared { wanted, position, queue, filled: Notify::new() }) }
    }

    /// For the service: how much of what it executes is wanted, as set by [`Self::want`]; 0 is nothing.
    pub fn wanted(&self) -> u8 {
        self.shared.wanted.load(Ordering::SeqCst)
    }

    /// For the service: sets the present position. A repaired replica may go back.
    pub fn reached(&self, position: i64) {
        self.shared.position.store(position, Ordering::SeqCst);
    }

    /// For the service: hands over the changes that led to the position [reached](Self::reached) just now, and their size in memory.
    pub fn publish(&self, bytes: usize, events: T) {
        // Checked after the position was set: a watcher that came between then sees that something changed.
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

    /// For the front: the newest position that this replica is known to have executed; 0 if none is known.
    pub fn position(&self) -> i64 {
        self.shared.position.load(Ordering::SeqCst)
    }

    /// For the front: notes that this position was read.
    pub fn saw(&self, position: i64) {
        self.shared.position.fetch_max(position, Ordering::SeqCst);
    }

    /// For the front: sets how much is wanted from now on; 0 is nothing. Changes executed after this call are queued, or show in
    /// [`Self::position`] when that is called later.
    pub fn want(&self, how_much: u8) {
        self.shared.wanted.store(how_much, Ordering::SeqCst);
    }

    /// For the front: waits until the queue is not empty.
    pub async fn filled(&self) {
        self.shared.filled.notified().await;
    }

    /// For the front: takes the first entry of the queue.
    pub fn take(&self) -> Option<T> {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, events) = queue.list.pop_front()?;
        queue.bytes -= bytes;
        Some(events)
    }
}

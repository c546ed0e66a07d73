//! A queue from one lane to another: all items of one turn go as one piece, which wakes the other lane only if it sleeps.
//!
//! The queue counts bytes. The sender looks at the count and reads less, so the queue is bounded by the limit plus what one turn reads. A
//! lane that is about to sleep announces that first, then checks its queues once more; a sender checks whether the other lane sleeps only
//! after it has put something in. So one of the two notices the other. Tests: `queue/tests.rs`.

use crossbeam_channel::{Receiver, Sender, unbounded};
use mio::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// A lane that may sleep.
#[derive(Clone, Debug)]
pub(crate) struct Sleeper {
    asleep: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Sleeper {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { asleep: Arc::default(), waker }
    }

    /// Announces sleep. After this the lane checks its queues once more, and then sleeps.
    pub(crate) fn dozes(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Whether the lane sleeps, or is about to.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    /// The lane is awake.
    pub(crate) fn woke(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Wakes the lane, which has something to do that it can see by now.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            let _ = self.waker.wake();
        }
    }
}

/// The sending end of a queue.
pub(crate) struct Outlet<T> {
    list: Vec<T>,
    bytes: usize,
    sender: Sender<(Vec<T>, usize)>,
    inside: Arc<AtomicUsize>,
    sleeper: Sleeper,
}

/// The receiving end of a queue.
pub(crate) struct Inlet<T> {
    receiver: Receiver<(Vec<T>, usize)>,
    inside: Arc<AtomicUsize>,
}

/// A queue to the lane with this sleeper.
pub(crate) fn queue<T>(to: Sleeper) -> (Outlet<T>, Inlet<T>) {
    let (sender, receiver) = unbounded();
    let inside = Arc::new(AtomicUsize::new(0));
    let outlet = Outlet { list: Vec::new(), bytes: 0, sender, inside: inside.clone(), sleeper: to };
    (outlet, Inlet { receiver, inside })
}

impl<T> Outlet<T> {
    /// Adds an item of this many bytes; it leaves with [`Self::flush`].
    pub(crate) fn put(&mut self, item: T, bytes: usize) {
        self.list.push(item);
        self.bytes += bytes;
    }

    /// Sends the added items as one piece.
    pub(crate) fn flush(&mut self) {
        if self.list.is_empty() {
            return;
        }
        let (list, bytes) = (std::mem::take(&mut self.list), std::mem::take(&mut self.bytes));
        self.inside.fetch_add(bytes, Ordering::SeqCst);
        // That fails only when the other lane has ended.
        let _ = self.sender.send((list, bytes));
        self.sleeper.wake();
    }

    /// Bytes that the other lane has not worked off.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.inside.load(Ordering::SeqCst)
    }
}

impl<T> Inlet<T> {
    /// The next piece, with its bytes, which count until [`Self::done`].
    pub(crate) fn take(&self) -> Option<(Vec<T>, usize)> {
        self.receiver.try_recv().ok()
    }

    /// Notes that these bytes are worked off.
    pub(crate) fn done(&self, bytes: usize) {
        self.inside.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Bytes that are not worked off.
    pub(crate) fn bytes(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// The number of pieces in it.
    pub(crate) fn len(&self) -> usize {
        self.receiver.len()
    }
}

#[cfg(test)]
mod tests;

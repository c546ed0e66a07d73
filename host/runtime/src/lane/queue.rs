//! A queue from one lane to another one: what a turn of the one left goes as one piece, and wakes the other only if it sleeps.
//!
//! What is in it is counted in bytes. Who fills it looks at that and reads less; so it is bounded by what one turn reads beyond the
//! limit. A lane that is about to sleep says so first and looks into its queues once more then; whoever puts something in looks
//! whether the other sleeps only after that: one of the two sees the other. Tests: `queue/tests.rs`.

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

    /// The lane sleeps unless it finds something to do when it looks once more, after this.
    pub(crate) fn dozes(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// It is awake.
    pub(crate) fn woke(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// There is something to do for it, which it can see by now.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            let _ = self.waker.wake();
        }
    }
}

/// Where a lane puts something.
pub(crate) struct Outlet<T> {
    list: Vec<T>,
    bytes: usize,
    sender: Sender<(Vec<T>, usize)>,
    inside: Arc<AtomicUsize>,
    sleeper: Sleeper,
}

/// Where the other one takes it.
pub(crate) struct Inlet<T> {
    receiver: Receiver<(Vec<T>, usize)>,
    inside: Arc<AtomicUsize>,
}

/// A queue to the lane that sleeps there.
pub(crate) fn queue<T>(to: Sleeper) -> (Outlet<T>, Inlet<T>) {
    let (sender, receiver) = unbounded();
    let inside = Arc::new(AtomicUsize::new(0));
    let outlet = Outlet { list: Vec::new(), bytes: 0, sender, inside: inside.clone(), sleeper: to };
    (outlet, Inlet { receiver, inside })
}

impl<T> Outlet<T> {
    /// One thing more, of so many bytes; it goes with [`Self::flush`].
    pub(crate) fn put(&mut self, item: T, bytes: usize) {
        self.list.push(item);
        self.bytes += bytes;
    }

    /// What was put goes, as one piece.
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

    /// Bytes that the other one has not worked off.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.inside.load(Ordering::SeqCst)
    }
}

impl<T> Inlet<T> {
    /// The next piece, with its bytes: they count until [`Self::done`].
    pub(crate) fn take(&self) -> Option<(Vec<T>, usize)> {
        self.receiver.try_recv().ok()
    }

    /// These bytes were worked off.
    pub(crate) fn done(&self, bytes: usize) {
        self.inside.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Bytes that were not worked off.
    pub(crate) fn bytes(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// How many pieces are in it.
    pub(crate) fn len(&self) -> usize {
        self.receiver.len()
    }
}

#[cfg(test)]
mod tests;

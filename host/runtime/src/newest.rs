//! The newest state that a replica published, for readers on other threads.
//!
//! While there are readers, the lane takes the lock for a moment, once in a turn. Without readers it reads one number. Old states are
//! dropped outside of the lock. Tests: `newest/tests.rs`.

use quorate_execute::{Published, Publisher};
use quorate_types::Seq;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The place of a replica's newest state. All clones share one place.
#[derive(Clone, Default)]
pub struct Newest(Arc<Place>);

/// Wakes a reader that waits for another state. Called on the lane, so it must be quick.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Place {
    /// The number of readers. Like `seq`, it changes only under the lock.
    readers: AtomicUsize,
    /// The seq of the state, plus one; 0 if there is no state.
    seq: AtomicU64,
    state: Mutex<Option<Published>>,
    /// What wakes readers, in the order of their beginnings.
    wakes: Mutex<Vec<Wake>>,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Option<Published>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wakes(&self) -> MutexGuard<'_, Vec<Wake>> {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.wakes().iter().for_each(|wake| wake());
    }

    fn clear(&self, state: &mut Option<Published>) -> Option<Published> {
        self.seq.store(0, Ordering::Release);
        state.take()
    }
}

impl Newest {
    /// A new reader: from now on the replica publishes at the end of its turns.
    pub fn read(&self) -> NewestReader {
        self.reader(None)
    }

    fn reader(&self, wake: Option<Wake>) -> NewestReader {
        let state = self.0.lock();
        self.0.readers.fetch_add(1, Ordering::Release);
        drop(state);
        NewestReader { place: self.0.clone(), wake }
    }

    /// As [`Self::read`]. The reader is also woken whenever there is another state, or none any more.
    pub fn read_and_wake(&self, wake: Wake) -> NewestReader {
        self.0.wakes().push(wake.clone());
        self.reader(Some(wake))
    }

    /// The replica's end.
    pub fn writer(&self) -> NewestWriter {
        NewestWriter(self.0.clone())
    }
}

/// Puts states into the place. Dropping it, as when the replica stops, also removes the last state.
pub struct NewestWriter(Arc<Place>);

impl Publisher for NewestWriter {
    fn wants(&self, seq: Seq) -> bool {
        self.0.readers.load(Ordering::Acquire) > 0
            && self.0.seq.load(Ordering::Acquire) != seq.number().wrapping_add(1)
    }

    fn publish(&mut self, published: Published) {
        let mut state = self.0.lock();
        if self.0.readers.load(Ordering::Acquire) > 0 {
            self.0.seq.store(published.seq.number().wrapping_add(1), Ordering::Release);
            let before = state.replace(published);
            drop(state);
            drop(before);
            self.0.wake();
        }
    }

    fn withdraw(&mut self) {
        if self.0.seq.load(Ordering::Acquire) > 0 {
            let before = self.0.clear(&mut self.0.lock());
            drop(before);
            self.0.wake();
        }
    }
}

impl Drop for NewestWriter {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// A reader. The replica publishes as long as there is one.
pub struct NewestReader {
    place: Arc<Place>,
    wake: Option<Wake>,
}

impl NewestReader {
    /// The newest state. There is none before the first one is published, while this replica answers no reads, and if its service is not in
    /// the store.
    pub fn newest(&self) -> Option<Published> {
        self.place.lock().clone()
    }
}

impl Drop for NewestReader {
    fn drop(&mut self) {
        if let Some(own) = self.wake.take() {
            self.place.wakes().retain(|wake| !Arc::ptr_eq(wake, &own));
        }
        let mut state = self.place.lock();
        let last = self.place.readers.fetch_sub(1, Ordering::AcqRel) == 1;
        let before = if last { self.place.clear(&mut state) } else { None };
        drop(state);
        drop(before);
    }
}

#[cfg(test)]
mod tests;

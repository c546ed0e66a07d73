//! The newest state that a replica published, for readers on other threads.
//!
//! The lane takes the lock for a moment, once in a turn, while somebody reads; without readers it looks at one number. What is dropped is
//! dropped outside the lock. Tests: `newest/tests.rs`.

use quorate_execute::{Published, Publisher};
use quorate_types::Seq;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a replica puts its newest state. Clones are the same place.
#[derive(Clone, Default)]
pub struct Newest(Arc<Place>);

#[derive(Default)]
struct Place {
    /// Changed under the lock only, as is `seq`.
    readers: AtomicUsize,
    /// That of the state, and one more; 0 where there is none.
    seq: AtomicU64,
    state: Mutex<Option<Published>>,
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, Option<Published>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self, state: &mut Option<Published>) -> Option<Published> {
        self.seq.store(0, Ordering::Release);
        state.take()
    }
}

impl Newest {
    /// From now on the replica publishes, at the end of its turns.
    pub fn read(&self) -> NewestReader {
        let state = self.0.lock();
        self.0.readers.fetch_add(1, Ordering::Release);
        drop(state);
        NewestReader(self.0.clone())
    }

    /// The replica's end.
    pub fn writer(&self) -> NewestWriter {
        NewestWriter(self.0.clone())
    }
}

/// Puts states there. Where it is dropped, as when the replica stops, the last one goes.
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
        }
    }

    fn withdraw(&mut self) {
        if self.0.seq.load(Ordering::Acquire) > 0 {
            let before = self.0.clear(&mut self.0.lock());
            drop(before);
        }
    }
}

impl Drop for NewestWriter {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// As long as there is one, the replica publishes.
pub struct NewestReader(Arc<Place>);

impl NewestReader {
    /// The newest state, once one was published; none while this replica does not answer reads, and where its service is not in the store.
    pub fn newest(&self) -> Option<Published> {
        self.0.lock().clone()
    }
}

impl Drop for NewestReader {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        let last = self.0.readers.fetch_sub(1, Ordering::AcqRel) == 1;
        let before = if last { self.0.clear(&mut state) } else { None };
        drop(state);
        drop(before);
    }
}

#[cfg(test)]
mod tests;

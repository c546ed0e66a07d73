//! Objects that the commands of a wave change at the same time, behind locks. Tests: front/cli/tests (`hurt`).

use quorate_execute::{Cells, Part};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// More parts than threads, so that commands seldom wait for each other.
const PARTS: usize = 64;

/// Cells in parts, each behind a lock.
pub(crate) struct Locked(Vec<Mutex<Part>>);

impl Locked {
    /// Cells that have nothing yet.
    pub(crate) fn make() -> Arc<dyn Cells> {
        Arc::new(Self((0..PARTS).map(|_| Mutex::default()).collect()))
    }

    /// Commands do nothing while they hold a lock, so no panic leaves a part half changed.
    fn lock(&self, part: usize) -> MutexGuard<'_, Part> {
        self.0[part].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cells for Locked {
    fn parts(&self) -> usize {
        self.0.len()
    }

    fn read(&self, _: u64, part: usize, look: &mut dyn FnMut(&Part)) {
        look(&self.lock(part));
    }

    fn write(&self, _: u64, part: usize, change: &mut dyn FnMut(&mut Part)) {
        change(&mut self.lock(part));
    }
}

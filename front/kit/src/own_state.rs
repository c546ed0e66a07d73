//! The state of a front's own member, for reads that the front answers on its own thread.
//!
//! The replica publishes its newest state only while the front reads it, and stops when nothing was read for a while. Publishing has a
//! cost: objects that change after a state was published are copied first. Tests: `own_state/tests.rs`,
//! front/etcd-grpc/tests/all/own_state.rs.

use quorate::{Published, Seq};
use quorate_runtime::{Newest, NewestReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// After this time without reads, or at most twice this time, the replica stops publishing.
const IDLE: Duration = Duration::from_secs(1);

/// The member's state. All clones act as one.
#[derive(Clone)]
pub struct OwnState(Arc<Shared>);

struct Shared {
    newest: Newest,
    reader: Mutex<Option<NewestReader>>,
    /// Whether a read came since the last check.
    used: AtomicBool,
}

impl Shared {
    /// Drops the reader if no read came since the last check.
    fn rest(&self) {
        if !self.used.swap(false, Ordering::Relaxed) {
            *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

impl OwnState {
    /// The state that this replica publishes. Must be called on the front's event loop.
    pub fn start(newest: Newest) -> Self {
        let shared = Arc::new(Shared { newest, reader: Mutex::default(), used: AtomicBool::new(false) });
        let looks = shared.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE).await;
                looks.rest();
            }
        });
        Self(shared)
    }

    /// The newest state, if it has at least this seq. If there is none, the replica must be asked: it has not executed up to there, answers
    /// no reads now, or begins to publish only because of this call.
    pub fn at_least(&self, seq: Seq) -> Option<Published> {
        self.0.used.store(true, Ordering::Relaxed);
        let mut reader = self.0.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let state = reader.get_or_insert_with(|| self.0.newest.read()).newest();
        state.filter(|state| state.seq >= seq)
    }
}

#[cfg(test)]
mod tests;

//! The state of a front's own member, for reads that are answered on the front's own thread.
//!
//! The replica publishes its newest state while somebody reads it, and not otherwise: where nothing is read for a while, that ends. It costs
//! the replica something, since what changes after a state was published is copied first. Tests: `own_state/tests.rs`, front/etcd-grpc/tests/all/own_state.rs.

use quorate::{Published, Seq};
use quorate_runtime::{Newest, NewestReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Without reads for so long, or twice that, the replica publishes no more.
const IDLE: Duration = Duration::from_secs(1);

/// What the member has. Clones are the same one.
#[derive(Clone)]
pub struct OwnState(Arc<Shared>);

struct Shared {
    newest: Newest,
    reader: Mutex<Option<NewestReader>>,
    /// Somebody read since this was looked at last.
    used: AtomicBool,
}

impl Shared {
    /// Ends what nobody uses.
    fn rest(&self) {
        if !self.used.swap(false, Ordering::Relaxed) {
            *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

impl OwnState {
    /// What this replica publishes. Must be called on the front's event loop.
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

    /// The newest state, if it is as new as that. Without one the replica has to be asked: it is not as far, answers no reads now, or begins
    /// to publish with this.
    pub fn at_least(&self, seq: Seq) -> Option<Published> {
        self.0.used.store(true, Ordering::Relaxed);
        let mut reader = self.0.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let state = reader.get_or_insert_with(|| self.0.newest.read()).newest();
        state.filter(|state| state.seq >= seq)
    }
}

#[cfg(test)]
mod tests;

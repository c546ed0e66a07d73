//! Passes the changes that the replica executes to the watches: the service's observer, which fills the hub's queue.
//!
//! Tests: `hub/tests.rs`.

use quorate_etcd::{LiveEvents, Observer, Wants};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

#[cfg(test)]
mod tests;

/// The way from the service to the front. All clones act as one.
#[derive(Clone, Default)]
pub struct Hub {
    kit: quorate_kit::Hub<LiveEvents>,
    /// The newest revision that the front was given; its clients may know of it.
    shown: Arc<AtomicI64>,
}

impl Hub {
    /// A hub of which nothing is wanted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The newest revision that this replica is known to have executed; 0 if none is known.
    pub(crate) fn revision(&self) -> i64 {
        self.show(self.kit.position())
    }

    fn show(&self, revision: i64) -> i64 {
        self.shown.fetch_max(revision, Ordering::Relaxed);
        revision
    }

    /// The newest revision that clients may know from this hub. A repaired replica may have an older state.
    pub(crate) fn shown(&self) -> i64 {
        self.shown.load(Ordering::Relaxed)
    }

    /// Notes that this revision was read here.
    pub(crate) fn saw(&self, revision: i64) {
        self.kit.saw(revision);
    }

    /// Sets what is wanted from now on. Changes executed after this call are queued, or show in [`Self::revision`] when that is called
    /// later.
    pub(crate) fn want(&self, wants: Wants) {
        self.kit.want(match wants {
            Wants::Nothing => 0,
            Wants::Events => 1,
            Wants::EventsAndBefore => 2,
        });
    }

    /// Waits until the queue is not empty.
    pub(crate) async fn filled(&self) {
        self.kit.filled().await;
    }

    /// Takes the first entry of the queue.
    pub(crate) fn take(&self) -> Option<LiveEvents> {
        let events = self.kit.take()?;
        self.show(events.revision);
        Some(events)
    }
}

impl Observer for Hub {
    fn wants(&self) -> Wants {
        match self.kit.wanted() {
            0 => Wants::Nothing,
            1 => Wants::Events,
            _ => Wants::EventsAndBefore,
        }
    }

    fn executed(&mut self, events: LiveEvents) {
        self.kit.reached(events.revision);
        if events.before != events.revision {
            self.kit.publish(events.byte_len(), events);
        }
    }
}

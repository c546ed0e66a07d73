//! Passes what the replica executes on to the watches: the service's observer, which feeds the hub.
//!
//! Tests: `hub/tests.rs`.

use quorate_etcd::{LiveEvents, Observer, Wants};

#[cfg(test)]
mod tests;

/// The way from the service to the front. All clones act as one.
#[derive(Clone, Default)]
pub struct Hub(quorate_kit::Hub<LiveEvents>);

impl Hub {
    /// A hub without listeners.
    pub fn new() -> Self {
        Self::default()
    }

    /// The newest revision that this replica is known to have executed; 0 if none is known.
    pub(crate) fn revision(&self) -> i64 {
        self.0.position()
    }

    /// Notes that this revision was read here.
    pub(crate) fn saw(&self, revision: i64) {
        self.0.saw(revision);
    }

    /// Says what is wanted from now on. Changes executed after this call are queued, or show in [`Self::revision`] when that is called
    /// later.
    pub(crate) fn want(&self, wants: Wants) {
        self.0.want(match wants {
            Wants::Nothing => 0,
            Wants::Events => 1,
            Wants::EventsAndBefore => 2,
        });
    }

    /// Waits until the queue is not empty.
    pub(crate) async fn filled(&self) {
        self.0.filled().await;
    }

    /// Takes the first entry of the queue.
    pub(crate) fn take(&self) -> Option<LiveEvents> {
        self.0.take()
    }
}

impl Observer for Hub {
    fn wants(&self) -> Wants {
        match self.0.wanted() {
            0 => Wants::Nothing,
            1 => Wants::Events,
            _ => Wants::EventsAndBefore,
        }
    }

    fn executed(&mut self, events: LiveEvents) {
        self.0.reached(events.revision);
        if events.before != events.revision {
            self.0.publish(events.byte_len(), events);
        }
    }
}

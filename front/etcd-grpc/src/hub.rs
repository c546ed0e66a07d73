//! What a replica executes, on its way to those who watch: the service's observer, which feeds the hub.
//!
//! Tests: `hub/tests.rs`.

use quorate_etcd::{LiveEvents, Observer, Wants};

#[cfg(test)]
mod tests;

/// The way from the service to the front. Clones are the same one.
#[derive(Clone, Default)]
pub struct Hub(quorate_kit::Hub<LiveEvents>);

impl Hub {
    /// A hub on which nobody listens yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The newest revision that this replica executed, as far as is known; 0: nothing was heard yet.
    pub(crate) fn revision(&self) -> i64 {
        self.0.position()
    }

    /// Somebody read this revision.
    pub(crate) fn saw(&self, revision: i64) {
        self.0.saw(revision);
    }

    /// What is wanted from now on. What is executed after this is queued, or shows in [`Self::revision`] when asked after this.
    pub(crate) fn want(&self, wants: Wants) {
        self.0.want(match wants {
            Wants::Nothing => 0,
            Wants::Events => 1,
            Wants::EventsAndBefore => 2,
        });
    }

    /// Waits for something in the queue.
    pub(crate) async fn filled(&self) {
        self.0.filled().await;
    }

    /// Takes the first of the queue.
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

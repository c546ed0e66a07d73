//! Ordered events: what batches change, for watches. Letters ([`Letter`]) go the same way.
//!
//! Events are no part of the state. A service collects them while it executes. They leave with the outcomes of their batch once that is
//! final, in the order of the global log; events of a batch that is taken back are dropped. Only the service and its observer know their
//! type. Tests: `tests/all/events.rs`.

use crate::letters::Letter;
use std::any::Any;
use std::fmt;

/// The changes of a batch, or a note that another state replaced the present one.
pub struct Events {
    told: Option<Box<dyn Any + Send>>,
    letters: Vec<Letter>,
}

impl Events {
    /// Wraps events of the service's own type.
    pub fn new<T: Any + Send>(events: T) -> Self {
        Self { told: Some(Box::new(events)), letters: Vec::new() }
    }

    /// Both together, if there is something.
    pub(crate) fn with_letters(events: Option<Self>, letters: Vec<Letter>) -> Option<Self> {
        if letters.is_empty() {
            return events;
        }
        Some(Self { told: events.and_then(|events| events.told), letters })
    }

    /// Takes the letters that leave with these events.
    pub fn take_letters(&mut self) -> Vec<Letter> {
        std::mem::take(&mut self.letters)
    }

    /// Whether there is something for the observer.
    pub fn are_told(&self) -> bool {
        self.told.is_some()
    }

    /// Looks at the events, if they have this type.
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.told.as_ref()?.downcast_ref()
    }

    /// The events, if they have this type.
    pub fn of<T: Any>(self) -> Option<T> {
        self.told?.downcast().ok().map(|events| *events)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

/// A service that reports what batches change ([`Service::tells`](crate::Service::tells)).
pub trait Tells {
    /// The observer that gets the events, if there is one. Asked once, before the first batch.
    fn observer(&mut self) -> Option<Box<dyn Observer>>;

    /// The changes since the last call, with those that [`Service::restored`](crate::Service::restored) noted. Called after each batch. The
    /// events of a batch that is taken back are dropped.
    fn take_events(&mut self) -> Option<Events>;
}

/// Gets final events. Called on the lane that executes, so it must be quick and never wait.
pub trait Observer: Send {
    /// The events of the next batch, or of a state that replaced this one.
    fn told(&mut self, events: Events);
}

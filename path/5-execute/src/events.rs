//! Ordered events: what batches change, for those who watch.
//!
//! They are no part of the state. A service collects them while it executes; they leave with the outcomes of their batch, once that is final,
//! in the order of the global log, and what is taken back is never told. Only the service and its observer know what they are. Tests:
//! `tests/all/events.rs`.

use std::any::Any;
use std::fmt;

/// What a batch changed, or that another state took the place of the one that was here.
pub struct Events(Box<dyn Any + Send>);

impl Events {
    /// Events of a service's own kind.
    pub fn new<T: Any + Send>(events: T) -> Self {
        Self(Box::new(events))
    }

    /// The events, if they are of this kind.
    pub fn of<T: Any>(self) -> Option<T> {
        self.0.downcast().ok().map(|events| *events)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

/// A service that tells somebody beside the state what batches change ([`Service::tells`](crate::Service::tells)).
pub trait Tells {
    /// Who hears it, if anybody does. Asked once, before the first batch.
    fn observer(&mut self) -> Option<Box<dyn Observer>>;

    /// What changed since this was asked last; and what [`Service::restored`](crate::Service::restored) found. Asked after each batch. It may be
    /// thrown away: what was executed ahead and is taken back is never told.
    fn take_events(&mut self) -> Option<Events>;
}

/// Hears what is final. Called on the lane that executes, so it must be quick, and never wait.
pub trait Observer: Send {
    /// What the next batch changed; or what another state that took the place of this one is.
    fn told(&mut self, events: Events);
}

//! Which command ran when a service panicked, for whoever catches that.
//!
//! A panic of a command is the same at every replica, and comes again when the log is read back. So an operator has to learn which command it
//! was. What ran is noted while the thread unwinds, so nothing is done for commands that do not panic.

use quorate_types::{ClientId, RequestNumber, Seq};
use std::cell::Cell;

/// What ran when a service panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// The seq of the batch.
    pub seq: Seq,
    /// The client, and the number of its request, if whoever ran it knew that; none when a deadline was reached.
    pub request: Option<(ClientId, Option<RequestNumber>)>,
    /// The bytes of the request's commands together.
    pub bytes: usize,
}

thread_local! {
    static LAST: Cell<Option<Panicked>> = const { Cell::new(None) };
}

impl Panicked {
    /// What ran when a service panicked last on this thread, since the last call.
    pub fn take() -> Option<Self> {
        LAST.take()
    }
}

/// Notes what ran, if it is dropped by a panic.
pub(crate) struct Runs(pub(crate) Panicked);

impl Drop for Runs {
    fn drop(&mut self) {
        if std::thread::panicking() {
            LAST.set(Some(self.0));
        }
    }
}

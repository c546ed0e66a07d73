//! Faults that wait for a moment at which much depends on what happens next.

/// A fault at a moment. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The next replica that votes: its machine stops, and whom it voted for is cut off.
    Voted {
        /// So long after it said so.
        after: u64,
        /// For how long it is down.
        time: u64,
        /// For how long the other one is cut off.
        cut: u64,
    },
    /// The next replica that begins to lead is cut off.
    Leads {
        /// So long after that.
        after: u64,
        /// For how long.
        time: u64,
    },
    /// The next leader that decides what no other replica did: its connections with other replicas break, or one with each, and it is asked to hand over.
    DecidesAlone,
    /// The next replica that says, where a view changes, that it decided what no other one did: its disk is lost for good.
    ClaimsAlone {
        /// So long after that.
        after: u64,
    },
}

//! Faults that wait for a moment at which much depends on what happens next.

/// A fault at a moment. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// For the next replica that votes: its machine stops, and the candidate that it voted for is cut off.
    Voted {
        /// This long after the vote was sent.
        after: u64,
        /// For how long the machine is down.
        time: u64,
        /// For how long the candidate is cut off.
        cut: u64,
    },
    /// The next replica that begins to lead is cut off.
    Leads {
        /// This long after it began.
        after: u64,
        /// For how long it is cut off.
        time: u64,
    },
    /// For the next leader that decides what no other replica has decided: its connections with other replicas break, all or one with each,
    /// and it is asked to hand over.
    DecidesAlone,
    /// For the next replica that says, where a view changes, that it decided what no other one has: its disk is lost for good.
    ClaimsAlone {
        /// So long after it said that.
        after: u64,
    },
}

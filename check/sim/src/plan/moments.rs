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
}

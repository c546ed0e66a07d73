//! How much room a disk has.

/// Which records a replica's log has room for. Ordered: more room is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Room {
    /// Only votes and views.
    Full,
    /// Little room: requests that free room, and records that were under way.
    Frees,
    /// Everything.
    #[default]
    Data,
}

//! How much a disk still takes.

/// What there is room for in a replica's log. Ordered: more room is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Room {
    /// Votes and views only.
    Full,
    /// Little: what makes room, and what was taken before.
    Frees,
    /// Everything.
    #[default]
    Data,
}

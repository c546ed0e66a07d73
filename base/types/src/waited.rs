//! How long a leader let clients wait.

use crate::Time;

/// How long the leader let the requests of its proposal wait, as far as this replica knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// When they were here: the time by which half of the batch's clients had sent theirs.
    pub since: Time,
    /// Whether the batch had no room for more.
    pub full: bool,
}

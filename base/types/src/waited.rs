//! How long a leader let clients wait.

use crate::Time;

/// How long a leader let wait what it proposes, as far as this replica knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// When it was here: the time at which half of the clients in it had sent theirs.
    pub since: Time,
    /// Whether there was no room for more.
    pub full: bool,
}

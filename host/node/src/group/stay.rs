//! The stay of an instance: each time that an instance comes back to the cluster, it begins another one (docs/protocols/merge.md).

use super::Birth;
use quorate_order::Input as OrderInput;
use quorate_types::Seq;

/// One stay of an instance in the cluster.
#[derive(Debug)]
pub(crate) struct Stay {
    /// How often the instance left the cluster and came back before.
    number: u64,
    /// Where this stay begins, if it is not the first one.
    pub(crate) birth: Option<Birth>,
    /// Whether the log does not say yet where the stay begins.
    pub(crate) unborn: bool,
    /// The seq behind which it takes no part, if it has left.
    pub(crate) away: Option<Seq>,
    /// Whether it says nothing any more.
    pub(crate) asleep: bool,
    /// A checkpoint that was installed before the protocol began.
    pub(super) installed: Option<OrderInput>,
}

impl Stay {
    pub(super) const fn new(number: u64) -> Self {
        Self { number, birth: None, unborn: false, away: None, asleep: false, installed: None }
    }

    /// How often the instance left the cluster and came back before.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether it takes part in the cluster. An instance that only leads others to its end does not.
    pub(crate) const fn is_present(&self) -> bool {
        self.away.is_none()
    }

    /// Whether its protocol may start.
    pub(crate) const fn may_begin(&self) -> bool {
        !self.asleep && !self.unborn
    }
}

//! What is done to a replica on purpose, together; nothing in real replicas.

use super::apart::Partition;
use super::late::Lateness;
use crate::disk::Quota;

/// What is done to a replica on purpose.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hurt {
    /// How late leaves what is for members.
    pub(crate) lateness: Option<Lateness>,
    /// From whom it is cut off.
    pub(crate) partition: Option<Partition>,
    /// The limit of what it may put on its disk.
    pub(crate) quota: Option<Quota>,
}

impl Hurt {
    /// The problems to report.
    pub(super) fn problems(&self) -> [Option<String>; 3] {
        [
            self.lateness.as_ref().and_then(Lateness::problem),
            self.partition.as_ref().and_then(Partition::problem),
            self.quota.as_ref().and_then(Quota::problem),
        ]
    }
}

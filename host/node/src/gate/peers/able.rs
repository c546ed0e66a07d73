//! What the programs of members can do, as handshakes said.

use super::Peers;
use quorate_types::ReplicaId;

impl Peers {
    /// The highest feature level of a member's program, while the member is connected in both directions.
    pub(crate) fn level(&self, replica: ReplicaId) -> Option<u32> {
        let [dialed, was_dialed] = self.peers.get(&replica).filter(|peer| peer.up())?.levels;
        Some(dialed.min(was_dialed))
    }

    /// The highest version that a member's program has of the service, while the member is connected in both directions.
    pub(crate) fn service_version(&self, replica: ReplicaId) -> Option<u32> {
        let [dialed, was_dialed] = self.peers.get(&replica).filter(|peer| peer.up())?.versions;
        Some(dialed.min(was_dialed))
    }
}

//! What the protocol is told: `[timing]`, `[reads]`, and sizes.

use super::Config;
use quorate_log::SyncMode;
use quorate_order::raft::RaftConfig;
use quorate_types::{ReplicaId, Span};

/// In memory mode a replica that needs what left the cache is lost, so the caches of all instances have at least this many bytes together.
const MEMORY_CACHE_BYTES: usize = 128 << 20;

impl Config {
    /// For the replica `me` among those with whom the cluster began.
    pub(super) fn raft_config(
        &self,
        me: ReplicaId,
        ids: Vec<ReplicaId>,
        sync: SyncMode,
        seed: u64,
    ) -> RaftConfig {
        let cache_bytes = match sync {
            SyncMode::Memory => self.limits.cache_bytes.max(MEMORY_CACHE_BYTES),
            SyncMode::Group | SyncMode::Async => self.limits.cache_bytes,
        };
        RaftConfig {
            heartbeat: Span::from_millis(self.timing.heartbeat_ms),
            election_min: Span::from_millis(self.timing.election_min_ms),
            election_max: Span::from_millis(self.timing.election_max_ms),
            cache_bytes: cache_bytes / usize::from(self.instances.max(1)),
            reload: sync != SyncMode::Memory,
            lease_drift_percent: self.reads.lease_drift_percent(),
            ..RaftConfig::new(me, ids, seed)
        }
    }
}

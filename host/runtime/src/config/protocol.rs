//! How replicas agree: `protocol` and `fault_model`, and what the protocol is told: `[timing]`, `[reads]`, and sizes.
//! Tests: config/tests.rs.

use super::{Config, ConfigError, invalid};
use quorate_log::SyncMode;
use quorate_order::OrderConfig;
use quorate_order::mod_smart::ModSmartConfig;
use quorate_order::raft::RaftConfig;
use quorate_types::{FaultModel, Faults, Protocol, ReplicaId, Span};

/// In memory mode a replica that needs what left the cache is lost, so the caches of all instances have at least this many bytes together.
const MEMORY_CACHE_BYTES: usize = 128 << 20;

impl Config {
    pub(super) fn check_protocol(&self) -> Result<(), ConfigError> {
        match (self.protocol, self.fault_model) {
            (Protocol::Raft, FaultModel::Byzantine) => invalid(
                "fault_model: the protocol \"raft\" does not survive \"byzantine\" faults: write protocol = \"mod-smart\"",
            ),
            (Protocol::ModSmart, _) if self.reads.lease => invalid(
                "reads: leases are known to the protocol \"raft\" only: write lease = false, or leave it out",
            ),
            (Protocol::Raft, _) if self.rotate_after > 0 => {
                invalid("rotate_after: leaders rotate with the protocol \"mod-smart\" only: leave it out")
            }
            (_, FaultModel::Byzantine) if self.membership > 1 => invalid(
                "membership: nobody joins a cluster that survives \"byzantine\" faults later: make a new cluster from a backup \
                 (`quorate backup`)",
            ),
            _ => self.check_faults(),
        }
    }

    /// The faults that the cluster is made to survive, however many members it has.
    pub fn survives(&self) -> Faults {
        let faults = Faults::of(self.fault_model);
        self.faults.map_or(faults, |most| faults.at_most(most))
    }

    /// Of a cluster that began with other members than are named here nothing is known: whoever joins one names those it asks.
    fn check_faults(&self) -> Result<(), ConfigError> {
        let members = self.members.len().clamp(1, 64) as u32;
        let (model, most) = (self.fault_model.name(), Faults::of(self.fault_model).among(members).faults());
        match self.faults {
            Some(faults) if self.membership <= 1 && !(1..=most).contains(&faults) => invalid(format!(
                "faults: {members} members survive {most} \"{model}\" faults at most: write 1 or more and no more than that, not {faults}, or \
                 leave it out"
            )),
            _ => Ok(()),
        }
    }

    /// For the replica `me` among those with whom the cluster began.
    pub(super) fn order_config(
        &self,
        me: ReplicaId,
        ids: Vec<ReplicaId>,
        sync: SyncMode,
        seed: u64,
    ) -> Result<OrderConfig, ConfigError> {
        let cache_bytes = match sync {
            SyncMode::Memory => self.limits.cache_bytes.max(MEMORY_CACHE_BYTES),
            SyncMode::Group | SyncMode::Async => self.limits.cache_bytes,
        };
        let cache_bytes = cache_bytes / usize::from(self.instances.max(1));
        let (heartbeat, reload) = (Span::from_millis(self.timing.heartbeat_ms), sync != SyncMode::Memory);
        let (low, high) = (self.timing.election_min_ms, self.timing.election_max_ms);
        Ok(match self.protocol {
            Protocol::Raft => OrderConfig::Raft(RaftConfig {
                heartbeat,
                election_min: Span::from_millis(low),
                election_max: Span::from_millis(high),
                cache_bytes,
                reload,
                lease_drift_percent: self.reads.lease_drift_percent(),
                ..RaftConfig::new(me, ids, seed)
            }),
            Protocol::ModSmart => OrderConfig::ModSmart {
                keys: self.signing_keys()?,
                config: ModSmartConfig {
                    cluster: self.cluster_id()?,
                    heartbeat,
                    timeout: Span::from_millis(low),
                    timeout_max: Span::from_millis(high.saturating_mul(4)),
                    repeat: Span::from_millis(low / 3),
                    rotate_after: self.rotate_after,
                    cache_bytes,
                    reload,
                    ..ModSmartConfig::new(me, ids, self.survives(), seed)
                },
            },
        })
    }

    /// What all replicas must have alike of it; nothing where it is what there always was.
    pub(super) fn agreed_protocol(&self) -> String {
        let faults = self.faults.map_or(String::new(), |faults| format!(" faults {faults}"));
        match (self.protocol, self.fault_model) {
            (Protocol::Raft, FaultModel::Crash) => faults,
            (protocol, model) => {
                let mut text = format!(" {} {}{faults}", protocol.name(), model.name());
                for key in self.members.iter().filter_map(|member| member.key.as_deref()) {
                    text.push(' ');
                    text.push_str(key);
                }
                text
            }
        }
    }
}

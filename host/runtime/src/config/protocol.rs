//! How replicas agree: `protocol` and `fault_model`, and what the protocol is told: `[timing]`, `[reads]`, and sizes.
//! Tests: config/tests.rs.

use super::{Config, ConfigError, invalid};
use quorate_auth::Keys;
use quorate_log::SyncMode;
use quorate_order::{Feature, Nature, OrderConfig, Protocol};
use quorate_types::{FaultModel, Faults, ReplicaId, Span};

/// In memory mode a replica that needs what left the cache is lost, so the caches of all instances have at least this many bytes together.
const MEMORY_CACHE_BYTES: usize = 128 << 20;

impl Config {
    pub(super) fn check_protocol(&self) -> Result<(), ConfigError> {
        let able = self.protocol.able();
        let cluster = Nature { lies: self.fault_model.may_lie(), ..able };
        let asked = [
            ("fault_model", cluster.lies, able, Feature::SurviveLies),
            ("reads", self.reads.lease, able, Feature::Leases),
            ("rotate_after", self.rotate_after > 0, able, Feature::Rotate),
            ("membership", self.membership > 1, cluster, Feature::ChangeMembers),
        ];
        for (key, is_asked, nature, feature) in asked {
            if let (true, Err(why)) = (is_asked, nature.can(feature)) {
                return invalid(format!("{key}: {why}{}", instead_of(feature)));
            }
        }
        self.check_faults()
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
        let able = self.protocol.able();
        Ok(OrderConfig {
            // A protocol of crash faults counts majorities, whatever else is written.
            faults: if able.lies { self.survives() } else { Faults::of(self.fault_model) },
            cluster: self.cluster_id()?,
            heartbeat: Span::from_millis(self.timing.heartbeat_ms),
            timeout: Span::from_millis(self.timing.election_min_ms),
            timeout_max: Span::from_millis(self.timing.election_max_ms),
            rotate_after: self.rotate_after,
            lease_drift_percent: self.reads.lease_drift_percent(),
            cache_bytes,
            reload: sync != SyncMode::Memory,
            keys: if able.lies { self.signing_keys()? } else { Keys::Trusting },
            ..OrderConfig::new(self.protocol, me, ids, seed)
        })
    }

    /// What all replicas must have alike of it; nothing where it is what there always was.
    pub(super) fn agreed_protocol(&self) -> String {
        let faults = self.faults.map_or(String::new(), |faults| format!(" faults {faults}"));
        if self.protocol == Protocol::default() && self.fault_model == FaultModel::Crash {
            return faults;
        }
        let mut text = format!(" {} {}{faults}", self.protocol.name(), self.fault_model.name());
        for key in self.members.iter().filter_map(|member| member.key.as_deref()) {
            text.push(' ');
            text.push_str(key);
        }
        text
    }
}

/// What to write instead, where the reason does not say it.
fn instead_of(feature: Feature) -> String {
    match feature {
        Feature::SurviveLies => format!(": write protocol = \"{}\"", feature.protocol().name()),
        Feature::Leases => ": write lease = false, or leave it out".to_owned(),
        Feature::Rotate => format!(": leave it out, or write protocol = \"{}\"", feature.protocol().name()),
        Feature::ChangeMembers | Feature::ChangeInstances | Feature::RaiseLevel => String::new(),
    }
}

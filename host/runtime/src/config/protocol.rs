//! How replicas agree: `protocol`, `fault_model`, and the protocol's settings: `[timing]`, `[reads]`, and sizes.
//! Tests: config/tests.rs.

use super::{Config, ConfigError, invalid};
use quorate_auth::Keys;
use quorate_log::SyncMode;
use quorate_order::{Changes, Feature, Nature, OrderConfig, Protocol};
use quorate_types::{FaultModel, Faults, ReplicaId, Span, Visigoth};

/// The least size of all instances' caches together in memory mode, where a replica that needs entries from before the cache is lost.
const MEMORY_CACHE_BYTES: usize = 128 << 20;

impl Config {
    pub(super) fn check_protocol(&self) -> Result<(), ConfigError> {
        let able = self.protocol.able();
        let (lies, few) = (self.fault_model.may_lie(), self.fault_model.few_are_slow());
        let membership = if lies && few { Changes::Fixed } else { able.membership };
        let cluster = Nature { lies, membership, ..able };
        let asked = [
            ("fault_model", cluster.lies, able, Feature::SurviveLies),
            ("fault_model", self.fault_model.few_are_slow(), able, Feature::CountOnFast),
            ("reads", self.reads.lease, able, Feature::Leases),
            ("rotate_after", self.rotate_after > 0, able, Feature::Rotate),
            ("heavy", !self.heavy.is_empty(), able, Feature::WeighVotes),
            ("membership", self.membership > 1, cluster, Feature::ChangeMembers),
        ];
        for (key, is_asked, nature, feature) in asked {
            if let (true, Err(why)) = (is_asked, nature.can(feature)) {
                return invalid(format!("{key}: {why}{}", instead_of(feature)));
            }
        }
        self.check_faults()
    }

    /// The faults that the cluster is made to survive, whatever the number of its members.
    pub fn survives(&self) -> Faults {
        let faults = Faults::of(self.fault_model);
        let faults = self.faults.map_or(faults, |most| faults.at_most(most));
        if self.heavy.is_empty() { faults } else { faults.weighted() }
    }

    /// Checks `faults`. It can not be checked for a replica that joins, whose list of members is not that of the beginning.
    fn check_faults(&self) -> Result<(), ConfigError> {
        if let Some(numbers) = self.fault_model.visigoth() {
            return self.check_visigoth(numbers);
        }
        let members = self.members.len().clamp(1, 64) as u32;
        let (model, most) = (self.fault_model.name(), Faults::of(self.fault_model).among(members).faults());
        match self.faults {
            Some(faults) if self.membership <= 1 && !(1..=most).contains(&faults) => invalid(format!(
                "faults: {members} members survive {most} \"{model}\" faults at most: write 1 or more and no more than that, not {faults}, or \
                 leave it out"
            )),
            _ => self.check_heavy(),
        }
    }

    /// Checks `heavy`. A replica that joins has another list of members than that of the beginning.
    fn check_heavy(&self) -> Result<(), ConfigError> {
        if self.heavy.is_empty() || self.membership > 1 {
            return Ok(());
        }
        let members = self.members.len().clamp(1, 64) as u32;
        let needed = self.survives().among(members).heavy();
        if needed == 0 {
            return invalid(format!(
                "heavy: {members} members are no more than are needed for the faults that they survive, so all votes count alike: write a \
                 smaller number under faults, add members, or leave heavy out"
            ));
        }
        let mut known: Vec<u16> = self.heavy.clone();
        known.sort_unstable();
        known.dedup();
        known.retain(|id| self.members.iter().any(|member| member.replica == *id));
        if known.len() != self.heavy.len() || known.len() != needed as usize {
            return invalid(format!(
                "heavy: name exactly {needed} of the members, each once: those that reach one another soonest, the first leader among them"
            ));
        }
        Ok(())
    }

    fn check_visigoth(&self, numbers: Visigoth) -> Result<(), ConfigError> {
        if self.faults.is_some() {
            return invalid(
                "faults: with fault_model \"visigoth\" the number of faults is u: leave it out".to_owned(),
            );
        }
        if !self.heavy.is_empty() {
            return invalid(
                "heavy: with fault_model \"visigoth\" all votes count alike: leave it out".to_owned(),
            );
        }
        let t_ms = numbers.t_ms;
        let patience = self.timing.election_min_ms;
        if self.fault_model.few_are_slow() && u64::from(t_ms) * 2 >= patience {
            return invalid(format!(
                "fault_model: t_ms = {t_ms} is too long: a replica complains about its leader after timing: election_min_ms = {patience}, \
                 and the leader must have gone on without slow replicas by then. Write less than half of that, or raise election_min_ms"
            ));
        }
        let members = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        match numbers.check().and_then(|()| numbers.check_members(members)) {
            Err(why) if self.membership <= 1 => invalid(format!("fault_model: {why}")),
            _ => Ok(()),
        }
    }

    /// The configuration of the protocol for the replica `me`, with the members of the beginning.
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
            // A protocol of crash faults counts majorities, whatever number is written; numbers chosen one by one say how many voters stay.
            faults: if able.lies || self.fault_model.visigoth().is_some() {
                self.survives()
            } else {
                Faults::of(FaultModel::Crash)
            },
            heavy: self.heavy.iter().copied().map(ReplicaId::new).collect(),
            oracle: !self.does_without_an_oracle(),
            cluster: self.cluster_id()?,
            heartbeat: Span::from_millis(self.timing.heartbeat_ms),
            timeout: Span::from_millis(self.timing.election_min_ms),
            timeout_max: Span::from_millis(self.timing.election_max_ms),
            adapts: true,
            // Results are final once all told what they did; where batches run early that comes with the votes.
            tells_at_once: self.execution.verify && !self.execution.is_early(self.instances),
            // Others may run batches early although this replica does not.
            tells_proposed: self.execution.verify && !self.fault_model.may_lie(),
            rotate_after: self.rotate_after,
            lease_drift_percent: self.reads.lease_drift_percent(),
            cache_bytes,
            reload: sync != SyncMode::Memory,
            keys: if able.lies { self.signing_keys()? } else { Keys::Trusting },
            ..OrderConfig::new(self.protocol, me, ids, seed)
        })
    }

    /// The settings of the protocol that must be the same on all replicas; empty if they are the defaults.
    pub(super) fn agreed_protocol(&self) -> String {
        let faults = self.faults.map_or(String::new(), |faults| format!(" faults {faults}"));
        if self.protocol == Protocol::default() && self.fault_model == FaultModel::Crash {
            return faults;
        }
        let mut text = format!(" {} {}{faults}", self.protocol.name(), self.fault_model.counting());
        if !self.heavy.is_empty() {
            let mut heavy = self.heavy.clone();
            heavy.sort_unstable();
            text.push_str(&format!(" heavy {heavy:?}"));
        }
        text.push_str(&self.agreed_oracle());
        text.push_str(&self.agreed_administration());
        // Who joins later knows other members.
        let stay = self.fault_model.few_are_slow();
        for key in self.members.iter().filter(|_| stay).filter_map(|member| member.key.as_deref()) {
            text.push(' ');
            text.push_str(key);
        }
        text
    }
}

/// What to write instead, where the reason does not say it.
fn instead_of(feature: Feature) -> String {
    match feature {
        Feature::SurviveLies | Feature::CountOnFast => {
            format!(": write protocol = \"{}\"", feature.protocol().name())
        }
        Feature::Leases => ": write lease = false, or leave it out".to_owned(),
        Feature::Rotate => format!(": leave it out, or write protocol = \"{}\"", feature.protocol().name()),
        Feature::WeighVotes => {
            format!(": leave it out, or write protocol = \"{}\"", feature.protocol().name())
        }
        Feature::ChangeMembers | Feature::ChangeInstances => String::new(),
    }
}

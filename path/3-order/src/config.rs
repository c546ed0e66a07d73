//! Which protocol a replica's instances run, and what each is told: the only place that knows all of them.
//!
//! Tests: config/tests.rs.

use crate::mod_smart::{ModSmart, ModSmartConfig};
use crate::raft::{self, Raft, RaftConfig};
use crate::{Anchor, Order, Stored};
use quorate_auth::{Keys, RequestChecks};
use quorate_types::{FaultModel, Faults, Halt, InstanceId, Protocol, Slot, Span, View};
use quorate_wire::Memberships;

/// What all instances of a replica have in common.
#[derive(Clone, Debug)]
pub enum OrderConfig {
    /// They run Raft.
    Raft(RaftConfig),
    /// They run Mod-SMaRt.
    ModSmart {
        /// What each is told.
        config: ModSmartConfig,
        /// With what each signs.
        keys: Keys,
    },
}

impl OrderConfig {
    /// Which protocol it is.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Raft(_) => Protocol::Raft,
            Self::ModSmart { .. } => Protocol::ModSmart,
        }
    }

    /// Which faults of replicas it survives.
    pub fn faults(&self) -> Faults {
        match self {
            Self::Raft(_) => Faults::of(FaultModel::Crash),
            Self::ModSmart { config, .. } => config.faults,
        }
    }

    /// How the signatures of clients are checked.
    pub fn request_checks(&self) -> RequestChecks {
        match self {
            Self::Raft(_) => RequestChecks::Nothing,
            Self::ModSmart { keys, .. } => RequestChecks::of(keys),
        }
    }

    /// One instance without a history; `stay` counts how often it left the cluster and came back.
    pub fn build(&self, instance: InstanceId, stay: u64) -> Box<dyn Order> {
        // What instances draw at random is not to come at the same moments.
        let salt = u64::from(instance.number() - 1) << 32 ^ stay << 48;
        match self {
            Self::Raft(config) => {
                Box::new(Raft::new(RaftConfig { seed: config.seed ^ salt, ..config.clone() }))
            }
            Self::ModSmart { config, keys } => {
                let config = ModSmartConfig { seed: config.seed ^ salt, instance, ..config.clone() };
                Box::new(ModSmart::new(config, keys.build()))
            }
        }
    }

    /// How often a leader says that it lives.
    pub fn heartbeat(&self) -> Span {
        match self {
            Self::Raft(config) => config.heartbeat,
            Self::ModSmart { config, .. } => config.heartbeat,
        }
    }

    /// After how long without a word of its leader everybody wants another one, while nothing else is wrong.
    pub fn patience(&self) -> Span {
        match self {
            Self::Raft(config) => config.election_max,
            Self::ModSmart { config, .. } => config.timeout.times(2),
        }
    }

    /// Whether leaders change although nothing is wrong.
    pub fn rotates(&self) -> bool {
        matches!(self, Self::ModSmart { config, .. } if config.rotate_after > 0)
    }

    /// Whether members can join and leave while it runs.
    ///
    /// # Errors
    /// What to do where they can not.
    pub fn can_change(&self) -> Result<(), &'static str> {
        if self.faults().may_lie() {
            return Err(
                "a cluster that survives Byzantine faults keeps its members: make a new one from a backup (`quorate backup`)",
            );
        }
        Ok(())
    }

    /// Whether instances can come and go while it runs.
    ///
    /// # Errors
    /// What to do where they can not.
    pub fn can_resize(&self) -> Result<(), &'static str> {
        match self {
            Self::Raft(_) => Ok(()),
            Self::ModSmart { .. } => Err(
                "with mod-smart the number of instances can not change yet: make a new cluster from a backup (`quorate backup`)",
            ),
        }
    }

    /// What grows with each view of an instance, as long as it is in the cluster.
    pub fn rank_of(&self, view: View) -> u64 {
        match self {
            Self::Raft(_) => raft::rank_of(view),
            Self::ModSmart { .. } => view.number(),
        }
    }

    /// Which stay of its instance an anchor of this slot belongs to; the first one is 0.
    ///
    /// # Errors
    /// When the anchor is none of this protocol's.
    pub fn stay_of(&self, slot: Slot, anchor: &Anchor) -> Result<u64, Halt> {
        match self {
            Self::Raft(_) => raft::stay_of(slot, anchor),
            Self::ModSmart { .. } => Ok(0),
        }
    }

    /// Which stay a record belongs to.
    pub fn stay_of_record(&self, record: &Stored) -> u64 {
        match self {
            Self::Raft(_) => raft::stay_of_record(record).unwrap_or(0),
            Self::ModSmart { .. } => 0,
        }
    }

    /// Where the next stay of an instance begins, whose last one ended with this slot and anchor, if there was one; with these members, if
    /// others than the cluster was made with.
    ///
    /// # Errors
    /// When there can be none.
    pub fn next_stay(
        &self,
        last: Option<(Slot, &Anchor)>,
        members: Option<&Memberships>,
    ) -> Result<Anchor, Halt> {
        let none = |why: &str| Halt::LogInconsistent { why: why.into() };
        match (self, last) {
            (Self::Raft(_), Some((slot, anchor))) => raft::next_anchor(slot, anchor, members),
            (Self::Raft(_), None) => raft::first_anchor(members).ok_or_else(|| none("too many members")),
            (Self::ModSmart { .. }, _) => Err(none("an instance of mod-smart came while the cluster ran")),
        }
    }
}

/// The anchor of the same slot for a cluster that is made from this state with this protocol, whatever protocol ordered it before.
pub fn anchor_anew(protocol: Protocol, slot: Slot, anchor: &Anchor) -> Anchor {
    match protocol {
        Protocol::Raft => raft::anchor_anew(slot, anchor),
        Protocol::ModSmart => crate::mod_smart::first_anchor(slot),
    }
}

#[cfg(test)]
mod tests;

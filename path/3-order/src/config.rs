//! What a replica's instances are told, whichever protocol they run: plain data. Each protocol takes of it what it needs.
//!
//! Tests: config/tests.rs.

use crate::{Anchor, Changes, Nature, Order, OrderMessage, Protocol, Stored};
use bytes::Bytes;
use quorate_auth::{Keys, RequestChecks};
use quorate_types::{ClusterId, FaultModel, Faults, Halt, InstanceId, Reject, ReplicaId, Slot, Span, View};
use quorate_wire::Memberships;

/// What all instances of a replica have in common.
#[derive(Clone, Debug)]
pub struct OrderConfig {
    /// Which protocol they run.
    pub protocol: Protocol,
    /// This replica.
    pub me: ReplicaId,
    /// The members with which the cluster began, without repetition, the same everywhere.
    pub members: Vec<ReplicaId>,
    /// Which faults are survived.
    pub faults: Faults,
    /// Part of everything that is signed.
    pub cluster: ClusterId,
    /// All randomness follows from it. Differs between replicas, and between two starts of one.
    pub seed: u64,
    /// How often a leader that has nothing to say says so.
    pub heartbeat: Span,
    /// How long it takes at least until a leader that is not heard is doubted.
    pub timeout: Span,
    /// To how much that grows, as far as the protocol says. Raft draws between the two; Mod-SMaRt goes to four times as much while leader
    /// after leader fails.
    pub timeout_max: Span,
    /// After so many slots the next replica leads; 0: who leads stays as long as nobody complains. Only where [`Nature::rotates`].
    pub rotate_after: u64,
    /// With a number a leader may answer strong reads by a lease, as long as the rates of any two replicas' clocks differ by at most so many
    /// percent. Only where [`Nature::leases`].
    pub lease_drift_percent: Option<u8>,
    /// Bytes sent to one follower and not acknowledged, at most (and one message more). Only where [`Nature::pipelined`].
    pub window_bytes: usize,
    /// Bytes of batches in one message, at most, if it holds more than one.
    pub message_bytes_max: usize,
    /// Bytes of batches kept in memory by each instance. What is still needed and can not be read back comes on top.
    pub cache_bytes: usize,
    /// Whether [`crate::Effect::Load`] works. Without it (memory mode) whoever needs what left the cache needs a checkpoint.
    pub reload: bool,
    /// With what each replica signs. Only where [`Nature::lies`].
    pub keys: Keys,
}

impl OrderConfig {
    /// The usual times and sizes; crash faults.
    pub fn new(protocol: Protocol, me: ReplicaId, members: Vec<ReplicaId>, seed: u64) -> Self {
        Self {
            protocol,
            me,
            members,
            faults: Faults::of(FaultModel::Crash),
            cluster: ClusterId::new(0),
            seed,
            heartbeat: Span::from_millis(50),
            timeout: Span::from_millis(300),
            timeout_max: Span::from_millis(600),
            rotate_after: 0,
            lease_drift_percent: None,
            window_bytes: 16 << 20,
            message_bytes_max: 1 << 20,
            cache_bytes: 64 << 20,
            reload: true,
            keys: Keys::Trusting,
        }
    }

    /// What the protocol is like with these settings: all that it can do and is asked for.
    pub fn nature(&self) -> Nature {
        let able = self.protocol.able();
        let lies = able.lies && self.faults.may_lie();
        Nature {
            rotates: able.rotates && self.rotate_after > 0,
            leases: able.leases && self.lease_drift_percent.is_some(),
            membership: if lies { Changes::Fixed } else { able.membership },
            lies,
            ..able
        }
    }

    /// How the signatures of clients are checked.
    pub fn request_checks(&self) -> RequestChecks {
        RequestChecks::of(&self.keys)
    }

    /// One instance without a history; `stay` counts how often it left the cluster and came back.
    pub fn build(&self, instance: InstanceId, stay: u64) -> Box<dyn Order> {
        // What instances draw at random is not to come at the same moments.
        let salt = u64::from(instance.number() - 1) << 32 ^ stay << 48;
        (self.protocol.row().build)(&Self { seed: self.seed ^ salt, ..self.clone() }, instance)
    }

    /// Reads a message in the payload of a frame.
    ///
    /// # Errors
    /// When the payload is none of this protocol.
    pub fn decode(&self, payload: Bytes) -> Result<(InstanceId, OrderMessage), Reject> {
        self.protocol.decode(payload)
    }

    /// After how long without a word of its leader everybody wants another one, while nothing else is wrong.
    pub fn patience(&self) -> Span {
        (self.protocol.row().patience)(self)
    }

    /// Whether members can join and leave while it runs.
    ///
    /// # Errors
    /// What to do where they can not.
    pub fn can_change(&self) -> Result<(), &'static str> {
        match self.nature() {
            Nature { lies: true, .. } => Err(
                "a cluster that survives Byzantine faults keeps its members: make a new one from a backup (`quorate backup`)",
            ),
            Nature { membership: Changes::Fixed, .. } => Err(
                "with this protocol the members stay: make a new cluster from a backup (`quorate backup`)",
            ),
            _ => Ok(()),
        }
    }

    /// Whether instances can come and go while it runs.
    ///
    /// # Errors
    /// What to do where they can not.
    pub fn can_resize(&self) -> Result<(), String> {
        if self.nature().stays {
            return Ok(());
        }
        let name = self.protocol.name();
        Err(format!(
            "with {name} the number of instances can not change yet: make a new cluster from a backup (`quorate backup`)"
        ))
    }

    /// What grows with each view of an instance, as long as it is in the cluster.
    pub fn rank_of(&self, view: View) -> u64 {
        let stays = &self.protocol.row().stays;
        stays.as_ref().map_or(view.number(), |stays| (stays.rank_of)(view))
    }

    /// Which stay of its instance an anchor of this slot belongs to; the first one is 0.
    ///
    /// # Errors
    /// When the anchor is none of this protocol's.
    pub fn stay_of(&self, slot: Slot, anchor: &Anchor) -> Result<u64, Halt> {
        let stays = &self.protocol.row().stays;
        stays.as_ref().map_or(Ok(0), |stays| (stays.of_anchor)(slot, anchor))
    }

    /// Which stay a record belongs to.
    pub fn stay_of_record(&self, record: &Stored) -> u64 {
        let stays = &self.protocol.row().stays;
        stays.as_ref().and_then(|stays| (stays.of_record)(record)).unwrap_or(0)
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
        let Some(stays) = &self.protocol.row().stays else {
            return Err(none(&format!("an instance of {} came while the cluster ran", self.protocol.name())));
        };
        match last {
            Some((slot, anchor)) => (stays.next)(slot, anchor, members),
            None => (stays.first)(members).ok_or_else(|| none("too many members")),
        }
    }
}

#[cfg(test)]
mod tests;

//! The settings of a replica's instances, whichever protocol they run: plain data. Each protocol reads the fields that it needs.
//!
//! Tests: config/tests.rs.

use crate::{Anchor, Changes, Nature, Order, OrderMessage, Protocol, Stored};
use bytes::Bytes;
use quorate_auth::{Keys, RequestChecks};
use quorate_types::{ClusterId, FaultModel, Faults, Halt, InstanceId, Reject, ReplicaId, Slot, Span, View};
use quorate_wire::Memberships;

/// The settings that all instances of a replica share.
#[derive(Clone, Debug)]
pub struct OrderConfig {
    /// Which protocol they run.
    pub protocol: Protocol,
    /// This replica.
    pub me: ReplicaId,
    /// The members with which the cluster began: no id twice, and the same list on every replica.
    pub members: Vec<ReplicaId>,
    /// Which faults the cluster survives.
    pub faults: Faults,
    /// The members whose votes count more, where [`Faults::weighted`] says that some do; the same list on every replica. If not just as many
    /// of them vote as [`quorate_types::Trust::heavy`] says, all votes count alike. Only where [`Nature::weighs`].
    pub heavy: Vec<ReplicaId>,
    /// Whether there is an oracle, where few members are slow. Without one the members gather small quorums by themselves, and the cluster
    /// splits if ever more than s of them are slow.
    pub oracle: bool,
    /// The cluster's id, which is part of everything that is signed.
    pub cluster: ClusterId,
    /// The seed of all randomness. It differs between replicas, and between two starts of one replica.
    pub seed: u64,
    /// How often an idle leader sends a heartbeat.
    pub heartbeat: Span,
    /// The shortest time after which a replica doubts a leader that it does not hear.
    pub timeout: Span,
    /// The longest such time, where the protocol uses it. Raft draws a time between the two; Mod-SMaRt goes up to four times as much while
    /// one leader after the other fails.
    pub timeout_max: Span,
    /// Whether followers doubt a silent leader sooner than `timeout` while its words come regularly. Only where [`Nature::pipelined`].
    pub adapts: bool,
    /// Whether a leader tells followers at once what is decided, since clients wait for what they do. Only where [`Nature::pipelined`]; elsewhere all
    /// hear the votes.
    pub tells_at_once: bool,
    /// Whether the host hears what is proposed before it is decided ([`crate::Effect::Proposed`]). Only where [`Nature::pipelined`].
    pub tells_proposed: bool,
    /// After this many slots the next replica leads; 0: the leader stays as long as nobody complains. Only where [`Nature::rotates`].
    pub rotate_after: u64,
    /// With a number, a leader may answer strong reads by a lease. The rates of any two replicas' clocks must then differ by at most so
    /// many percent. Only where [`Nature::leases`].
    pub lease_drift_percent: Option<u8>,
    /// At most this many bytes are sent to one follower and not acknowledged, and one message more. Only where [`Nature::pipelined`].
    pub window_bytes: usize,
    /// A message with several batches holds at most this many bytes of batches.
    pub message_bytes_max: usize,
    /// Each instance keeps at most this many bytes of batches in memory. Batches that are still needed and can not be read back are kept on
    /// top of that.
    pub cache_bytes: usize,
    /// Whether [`crate::Effect::Load`] works. Without it (memory mode) a replica that needs a batch which left memory needs a checkpoint.
    pub reload: bool,
    /// How this replica signs. Only where [`Nature::lies`].
    pub keys: Keys,
}

impl OrderConfig {
    /// The usual times and sizes, with crash faults.
    pub fn new(protocol: Protocol, me: ReplicaId, members: Vec<ReplicaId>, seed: u64) -> Self {
        Self {
            protocol,
            me,
            members,
            faults: Faults::of(FaultModel::Crash),
            heavy: Vec::new(),
            oracle: true,
            cluster: ClusterId::new(0),
            seed,
            heartbeat: Span::from_millis(50),
            timeout: Span::from_millis(300),
            timeout_max: Span::from_millis(600),
            adapts: false,
            tells_at_once: false,
            tells_proposed: false,
            rotate_after: 0,
            lease_drift_percent: None,
            window_bytes: 16 << 20,
            message_bytes_max: 1 << 20,
            cache_bytes: 64 << 20,
            reload: true,
            keys: Keys::Trusting,
        }
    }

    /// The protocol's nature under these settings: what it can do and is configured to do.
    pub fn nature(&self) -> Nature {
        let able = self.protocol.able();
        let lies = able.lies && self.faults.may_lie();
        Nature {
            rotates: able.rotates && self.rotate_after > 0,
            leases: able.leases && self.lease_drift_percent.is_some(),
            // Where few are slow, an oracle knows the members that may lie.
            membership: if lies && self.faults.slow_after_ms().is_some() {
                Changes::Fixed
            } else {
                able.membership
            },
            lies,
            ..able
        }
    }

    /// How the signatures of clients are checked.
    pub fn request_checks(&self) -> RequestChecks {
        RequestChecks::of(&self.keys)
    }

    /// One instance without a history. `stay` counts how often the instance left the cluster and came back.
    pub fn build(&self, instance: InstanceId, stay: u64) -> Box<dyn Order> {
        // What instances draw at random is not to come at the same moments.
        let salt = u64::from(instance.number() - 1) << 32 ^ stay << 48;
        (self.protocol.row().build)(&Self { seed: self.seed ^ salt, ..self.clone() }, instance)
    }

    /// Reads a message from the payload of a frame.
    ///
    /// # Errors
    /// When the payload is not a message of this protocol.
    pub fn decode(&self, payload: Bytes) -> Result<(InstanceId, OrderMessage), Reject> {
        self.protocol.decode(payload)
    }

    /// How long replicas wait for a word of their leader before they want another leader, while nothing else is wrong.
    pub fn patience(&self) -> Span {
        (self.protocol.row().patience)(self)
    }

    /// The number that grows with each view of an instance, as long as the instance is in the cluster.
    pub fn rank_of(&self, view: View) -> u64 {
        let stays = &self.protocol.row().stays;
        stays.as_ref().map_or(view.number(), |stays| (stays.rank_of)(view))
    }

    /// Which stay of its instance an anchor of this slot belongs to; the first stay is 0.
    ///
    /// # Errors
    /// When the anchor is not one of this protocol.
    pub fn stay_of(&self, slot: Slot, anchor: &Anchor) -> Result<u64, Halt> {
        let stays = &self.protocol.row().stays;
        stays.as_ref().map_or(Ok(0), |stays| (stays.of_anchor)(slot, anchor))
    }

    /// Which stay a record belongs to.
    pub fn stay_of_record(&self, record: &Stored) -> u64 {
        let stays = &self.protocol.row().stays;
        stays.as_ref().and_then(|stays| (stays.of_record)(record)).unwrap_or(0)
    }

    /// Where the next stay of an instance begins. `last` is the slot and anchor with which the stay before ended, if there was one;
    /// `members` are given if they are not those that the cluster was made with.
    ///
    /// # Errors
    /// When there can be no next stay.
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

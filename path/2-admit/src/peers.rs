//! Checks of connections: whether a hello is acceptable and matches its sender's certificate, and whether a member's message is authentic.

use bytes::Bytes;
use quorate_types::{
    ClusterId, Holder, Identity, Incarnation, InstanceId, MembershipId, Reject, ReplicaId, planted,
};
use quorate_wire::{FORMAT_MAX, FORMAT_MIN, Hello, Refusal, RefusalReason, Role, Verified};
use std::collections::{BTreeMap, BTreeSet};

/// One member of the cluster, as the others know it before it connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownMember {
    /// Its id.
    pub replica: ReplicaId,
    /// Where it listens, `host:port`; resolved at each dial.
    pub address: String,
    /// The incarnation of its data directory.
    pub incarnation: Incarnation,
}

/// The members of a membership, as this replica checks connections against them.
#[derive(Clone, Debug)]
pub struct Members {
    cluster: ClusterId,
    me: ReplicaId,
    list: Vec<KnownMember>,
    parameters: u64,
    number: MembershipId,
    /// How many replicas the cluster began with.
    created: usize,
    /// The lives of the members' data directories, where a membership names them.
    lives: BTreeMap<ReplicaId, u64>,
    /// Ids whose members were removed.
    removed: BTreeSet<ReplicaId>,
}

impl Members {
    /// The members of `cluster`, of which this replica is `me`.
    pub fn new(cluster: ClusterId, me: ReplicaId, mut list: Vec<KnownMember>) -> Self {
        list.sort_by_key(|member| member.replica);
        let (number, created) = (MembershipId::FIRST, list.len());
        let (lives, removed) = (BTreeMap::new(), BTreeSet::new());
        Self { cluster, me, list, parameters: 0, number, created, lives, removed }
    }
    /// For a replica that joined later: its configuration names the members of that time, the number of that membership, and how many
    /// replicas the cluster began with.
    #[must_use]
    pub fn joined(self, number: MembershipId, created: usize) -> Self {
        Self { number, created, ..self }
    }
    /// The number of the membership; during a change the number of the new one.
    pub fn number(&self) -> MembershipId {
        self.number
    }
    /// How many replicas the cluster began with.
    pub fn created(&self) -> usize {
        self.created
    }
    /// Takes over another list. `lives`: the known lives of the members' data directories. `removed`: ids that are never members again.
    pub fn replace(
        &mut self,
        number: MembershipId,
        mut list: Vec<KnownMember>,
        lives: BTreeMap<ReplicaId, u64>,
        removed: BTreeSet<ReplicaId>,
    ) {
        list.sort_by_key(|member| member.replica);
        (self.number, self.list, self.lives, self.removed) = (number, list, lives, removed);
    }
    /// The life that this member's data directory must have, if it is known.
    pub fn life(&self, replica: ReplicaId) -> Option<u64> {
        self.lives.get(&replica).copied()
    }
    /// Adds a digest of all settings that are not in the log and must be equal on all replicas. A member whose digest differs would execute
    /// differently, so it is refused.
    #[must_use]
    pub fn with_parameters(self, parameters: u64) -> Self {
        Self { parameters, ..self }
    }
    /// The digest of the settings that must be equal.
    pub fn parameters(&self) -> u64 {
        self.parameters
    }
    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }
    /// This replica.
    pub fn me(&self) -> ReplicaId {
        self.me
    }
    /// This replica's index among all members, from 0; also 0 if it is not a member.
    pub fn place(&self) -> usize {
        self.list.iter().position(|member| member.replica == self.me).unwrap_or(0)
    }
    /// All members, by id.
    pub fn all(&self) -> &[KnownMember] {
        &self.list
    }
    /// All members but this one, by id.
    pub fn others(&self) -> impl Iterator<Item = &KnownMember> {
        self.list.iter().filter(|member| member.replica != self.me)
    }
    /// The member with this id.
    pub fn get(&self, replica: ReplicaId) -> Option<&KnownMember> {
        self.list.iter().find(|member| member.replica == replica)
    }

    /// Checks a hello. Returns the format to use; a refusal says why not and what to do about it.
    ///
    /// # Errors
    /// The refusal to send back.
    pub fn check(&self, hello: &Hello) -> Result<u16, Refusal> {
        let refuse = |reason, text: String| Err(Refusal { reason, text });
        if let Role::Client(client) = hello.role
            && client.is_reserved()
        {
            let text =
                "no client has this id, since its upper 16 bits are all set: take another one".to_owned();
            return refuse(RefusalReason::NoHello, text);
        }
        let knows_cluster = matches!(hello.role, Role::Peer { .. }) || hello.cluster != ClusterId::default();
        if knows_cluster && hello.cluster != self.cluster {
            return refuse(
                RefusalReason::ForeignCluster,
                format!(
                    "this is replica {} of cluster {}, you belong to cluster {}: correct the addresses or the \
                     cluster id in your configuration",
                    self.me, self.cluster, hello.cluster
                ),
            );
        }
        if hello.format_max < FORMAT_MIN || hello.format_min > FORMAT_MAX {
            return refuse(
                RefusalReason::Format,
                format!(
                    "this replica speaks wire formats {FORMAT_MIN} to {FORMAT_MAX}, you speak {} to {}: upgrade the \
                     older program",
                    hello.format_min, hello.format_max
                ),
            );
        }
        if let Some(to) = hello.to.filter(|to| *to != self.me) {
            return refuse(
                RefusalReason::WrongReplica,
                format!("you meant to reach {to}, this is {}: correct the address of {to}", self.me),
            );
        }
        if let Role::Peer { replica, incarnation } = hello.role {
            if !self.may_know_better(hello) {
                self.check_peer(replica, incarnation)?;
            }
            if hello.parameters != self.parameters {
                let text = format!(
                    "{replica} and {} are configured to execute differently: `service`, `[sessions]` and the cluster's start time \
                     must be the same on all replicas, and so must the program's version",
                    self.me
                );
                return refuse(RefusalReason::Parameters, text);
            }
        }
        Ok(hello.format_max.min(FORMAT_MAX))
    }

    /// Whether a peer that is not a member here knows a later membership; such a peer is let in to tell it.
    pub fn may_know_better(&self, hello: &Hello) -> bool {
        let Role::Peer { replica, .. } = hello.role else { return false };
        let unknown = self.get(replica).is_none() && !self.removed.contains(&replica);
        unknown && hello.membership > self.number
    }

    fn check_peer(&self, replica: ReplicaId, incarnation: Incarnation) -> Result<(), Refusal> {
        let Some(member) = self.get(replica) else {
            let text = if self.removed.contains(&replica) {
                format!(
                    "{replica} was removed from cluster {}, and its id is never used again: stop it; for a new replica use \
                     `quorate member add`",
                    self.cluster
                )
            } else {
                format!("{replica} is no member of cluster {}: `quorate member add` adds it", self.cluster)
            };
            return Err(Refusal { reason: RefusalReason::UnknownReplica, text });
        };
        if replica == self.me {
            let text =
                format!("you say that you are {replica}, and so am I: give each replica an id of its own");
            return Err(Refusal { reason: RefusalReason::Doubled, text });
        }
        if member.incarnation != incarnation {
            let text = format!(
                "{replica} was set up with data directory {}, yours is {incarnation}: a replica that lost its disk is \
                 a new replica and must not vote under the old one's id: `quorate member replace` sets up a replacement",
                member.incarnation
            );
            return Err(Refusal { reason: RefusalReason::Incarnation, text });
        }
        Ok(())
    }
}

/// Whether replicas may connect to other replicas on behalf of clients, because they serve clients by another protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedByReplicas {
    /// Replicas may lie, and serve no other protocol: a replica connects for itself only.
    Nobody,
    /// Replicas may lie, so one that connects for a client could harm the clients that it serves. One that connects for an operator could
    /// harm everybody, which is not allowed.
    Clients,
    /// No replica lies: a replica may connect for clients and operators.
    ClientsAndOperators,
}

/// Checks that a peer is who its certificate says it is. Without a certificate the peer is believed; such connections exist only where the
/// configuration says `plain`. `me` is this replica; `served` says for whom other replicas may connect, beside themselves.
///
/// # Errors
/// The refusal to send back.
pub fn check_identity(
    hello: &Hello,
    identity: Option<&Identity>,
    me: ReplicaId,
    served: ServedByReplicas,
) -> Result<(), Refusal> {
    let Some(identity) = identity else { return Ok(()) };
    let other = matches!(identity.holder, Holder::Replica(replica) if replica != me);
    let (comes_as, remedy) = match (hello.role, &identity.holder) {
        (Role::Peer { replica, .. }, Holder::Replica(own)) if replica == *own => return Ok(()),
        (Role::Client(_), Holder::Replica(_)) if served == ServedByReplicas::Nobody => (
            "a client".to_owned(),
            "where replicas may lie, none may speak for others; replicas that serve clients of another protocol are an exception (`etcd` in \
             their configuration)",
        ),
        // What a replica asks of itself gives nothing to one that lies.
        (Role::Admin, _)
            if other
                && served != ServedByReplicas::ClientsAndOperators
                && !planted("operator-by-replica") =>
        {
            (
                "an operator".to_owned(),
                "where replicas may lie, none may speak for operators: ask with an operator's certificate (`quorate cert issue --admin`)",
            )
        }
        // Operators may look at what clients see. A replica that serves another protocol is a client for those it serves.
        (Role::Client(client), holder) if holder.made(client, hello.own) => return Ok(()),
        // So may it act for the operators of that protocol, once it knows that they are some.
        (Role::Admin, Holder::Admin(_) | Holder::Replica(_)) => return Ok(()),
        (Role::Peer { replica, .. }, _) => (
            format!("replica {}", replica.number()),
            "a replica needs its own certificate (`quorate cert issue --replica`)",
        ),
        (Role::Client(client), _) => (
            format!("{client}, an id that was not made for you"),
            "use a client library of the same version as the replicas",
        ),
        (Role::Admin, _) => (
            "an operator".to_owned(),
            "use an operator's certificate (`admin_certificate` in client.toml; `quorate cert issue --admin` makes one)",
        ),
    };
    let text = format!("you come as {comes_as}, and your certificate is for {}: {remedy}", identity.holder);
    Err(Refusal { reason: RefusalReason::Certificate, text })
}

/// Reads an ordering message that came on the connection of member `from`. With crash faults the connection's handshake is the only
/// authentication. `decode` is the protocol's decoder.
///
/// # Errors
/// When the payload is not an ordering message.
pub fn verify<M>(
    from: ReplicaId,
    payload: Bytes,
    decode: impl FnOnce(Bytes) -> Result<(InstanceId, M), Reject>,
) -> Result<(InstanceId, Verified<M>), Reject> {
    let (instance, message) = decode(payload)?;
    Ok((instance, Verified::vouch(from, message)))
}

#[cfg(test)]
mod tests;

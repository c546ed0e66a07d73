//! The operator of the cluster. It looks at the cluster, and decides what the leader is asked, which replicas join and whose disk is lost.

use super::MS;
use super::cluster::{Cluster, id, place};
use crate::plan::{Change, EraKind};
use crate::replica::{CLUSTER, Join, incarnation};
use bytes::Bytes;
use quorate_auth::{KeyedClient, StatementSigner, administration_statement};
use quorate_node::Node;
use quorate_types::{ClusterId, Digest, MembershipId, ReplicaId, Seq};
use quorate_wire::{
    AdminCommand, Administrators, FRAME_HEADER, FaultsRequest, FrameKind, MemberRequest, MemberRole,
    Membership, OutFrame, RequestSigner, SignedCommand, StateMessage, instances_request, upgrade_request,
};

/// A request to a replica.
pub(super) type Request = (FrameKind, Bytes);

/// The request in a frame.
fn request_of(frame: &OutFrame) -> Request {
    (frame.kind(), Bytes::from(frame.to_vec()).slice(FRAME_HEADER..))
}

/// To hand over to a replica; 0: to any.
pub(super) fn transfer(to: u16) -> Request {
    (FrameKind::TransferRequest, Bytes::copy_from_slice(&to.to_le_bytes()))
}

/// For the highest level that there is.
pub(super) fn raise() -> Request {
    request_of(&upgrade_request(quorate_wire::LevelOf::Cluster, 0))
}

/// For another number of instances.
pub(super) fn instances(count: u16) -> Request {
    request_of(&instances_request(count))
}

/// For the end of the era.
pub(super) fn faults(kind: EraKind) -> Request {
    let request = FaultsRequest { protocol: Some(kind.protocol.row().number), faults: kind.faults() };
    request_of(&request.frame())
}

/// For a border after this seq.
pub(super) fn border(after: u64) -> Request {
    request_of(&StateMessage::WantBorder { seq: Seq::new(after), digest: Digest::new([0; 32]) }.frame())
}

/// An action of the operator concerning members.
#[derive(Debug)]
pub(super) enum Act {
    /// Asks a replica; `joins`: the process of this replica will start then.
    Ask { whom: usize, what: MemberRequest, joins: Option<(usize, Join)> },
    /// Hands a signed command to all replicas.
    Sign { signed: SignedCommand, joins: Option<(usize, Join)> },
    /// Takes a replica's disk away.
    LoseDisk { whose: usize },
}

impl Act {
    /// The request to pass a signed command on.
    pub(super) fn pass_on(signed: &SignedCommand) -> Request {
        request_of(&signed.frame())
    }

    /// The request for this change.
    pub(super) fn request(what: &MemberRequest) -> Request {
        request_of(&what.frame())
    }
}

/// What the operator remembers.
#[derive(Debug, Default)]
pub(super) struct Operator {
    /// The highest number of a membership that was asked for.
    asked: u64,
    /// Until then it asks for nothing.
    quiet_until: u64,
}

impl Operator {
    /// A change of members is due; `pick` chooses the replica. Nothing if it can not be done now.
    pub(super) fn change(&mut self, cluster: &Cluster, now: u64, what: Change, pick: u16) -> Option<Act> {
        let leader = cluster.leader();
        let node = cluster.node(leader).filter(|_| now >= self.quiet_until)?;
        let (current, pick) = (cluster.membership_of(node), usize::from(pick));
        let any = |list: &[ReplicaId]| list.get(pick.checked_rem(list.len()).unwrap_or(0)).copied();
        let of = |role: MemberRole| -> Vec<ReplicaId> {
            current.members().iter().filter(|m| m.role == role).map(|m| m.replica).collect()
        };
        let (voters, learners) = (of(MemberRole::Voter), of(MemberRole::Learner));
        let all: Vec<ReplicaId> = current.members().iter().map(|member| member.replica).collect();
        let mut joins = None;
        let what = match what {
            Change::Add => {
                let who = joiner(cluster, &current)?;
                let join = || Join { number: current.number().next(), members: all };
                joins = cluster.replicas[who].join.is_none().then(|| (who, join()));
                let address = format!("r{}:1", who + 1);
                MemberRequest::Add { replica: id(who), address, incarnation: incarnation(id(who)), key: None }
            }
            Change::Promote => MemberRequest::Promote(any(&learners)?),
            Change::Remove => MemberRequest::Remove(any(&all)?),
            Change::Replace => {
                let lost: Vec<ReplicaId> =
                    voters.iter().copied().filter(|id| is_lost(cluster, *id)).collect();
                let old = any(&lost).or_else(|| any(&voters))?;
                MemberRequest::Replace { old, new: any(&learners)? }
            }
            Change::Move => {
                let replica = any(&all)?;
                let address = format!("r{}:{}", replica.number(), now / MS % 60_000 + 2);
                MemberRequest::Move { replica, address }
            }
            Change::Rekey => {
                let replica = any(&all)?;
                let mut key = [0; 32];
                key[..8].copy_from_slice(&now.to_le_bytes());
                key[8..10].copy_from_slice(&replica.number().to_le_bytes());
                MemberRequest::Rekey { replica, key }
            }
            Change::LoseDisk => return self.lose_disk(cluster, now, pick),
        };
        self.asked = self.asked.max(current.number().number() + 1);
        if cluster.plan.fault_model.may_lie() {
            let (number, change) = quorate_node::draft(node, &what).ok()?;
            let signed = signed(cluster.plan.seed, number, AdminCommand::Change(change));
            return Some(Act::Sign { signed, joins });
        }
        Some(Act::Ask { whom: leader, what, joins })
    }

    /// The end of the era is due, and another one of this kind is wanted. Where replicas may lie administrators sign what the replica that
    /// executed most says it would be.
    pub(super) fn end_era(&self, cluster: &Cluster, kind: EraKind) -> Option<Act> {
        let (who, node) = cluster.honest_nodes().max_by_key(|(_, node)| node.executor().seq())?;
        let whom = cluster.leader();
        if !cluster.replicas[who].may_lie(&cluster.plan) {
            let replica = id(whom);
            return Some(Act::Ask { whom, what: MemberRequest::Promote(replica), joins: None });
        }
        let request = FaultsRequest { protocol: Some(kind.protocol.row().number), faults: kind.faults() };
        let (number, command) = quorate_node::draft_era(node, &request).ok()?;
        Some(Act::Sign { signed: signed(cluster.plan.seed, number, command), joins: None })
    }

    /// A voter's disk is lost for good, if a majority is left and no change is under way.
    fn lose_disk(&mut self, cluster: &Cluster, now: u64, pick: usize) -> Option<Act> {
        // The replica that is asked for changes may have been removed without knowing it.
        let voters: Vec<ReplicaId> = cluster.membership_of(cluster.foremost()?).voters().collect();
        let lost = voters.iter().filter(|id| is_lost(cluster, **id)).count();
        let who = voters.get(pick.checked_rem(voters.len()).unwrap_or(0)).copied();
        // Where replicas lie, those that do are as many as may be faulty.
        let spare = (lost + 1) * 2 < voters.len() && !cluster.plan.fault_model.may_lie();
        let whose = who.map(place).filter(|_| spare)?;
        let nodes = || voters.iter().filter_map(|id| cluster.node(place(*id)));
        let asked = self.asked.max(MembershipId::FIRST.number());
        let settled = |node: &Node| {
            let number = cluster.membership_of(node).number().number();
            node.change().is_none()
                && number == asked
                && node.has_begun()
                && node.executor().seq().number() > 0
        };
        let there = nodes().count() + lost == voters.len();
        if !there || !nodes().all(settled) || cluster.replicas[whose].halt.is_some() {
            return None;
        }
        // A leader must have noticed before it is asked for anything.
        let (_, _, election_max) = cluster.plan.timing;
        self.quiet_until = now + election_max * 4 * MS;
        Some(Act::LoseDisk { whose })
    }
}

/// The administrators' keys in a world with this seed: two of three must sign.
fn keys(seed: u64) -> [KeyedClient; 3] {
    [1, 2, 3].map(|number| KeyedClient::new(CLUSTER, seed, 0xad00 + number))
}

/// Who administers the cluster of a world with this seed, where replicas may lie.
pub(crate) fn administrators(seed: u64) -> Administrators {
    let keys = keys(seed).iter().map(RequestSigner::key).collect();
    Administrators::new(2, keys).expect("three keys")
}

/// A command that two administrators signed.
fn signed(seed: u64, number: u64, command: AdminCommand) -> SignedCommand {
    signed_for(CLUSTER, seed, (number, command))
}

/// The same, for another cluster.
pub(crate) fn signed_for(
    cluster: ClusterId,
    seed: u64,
    (number, command): (u64, AdminCommand),
) -> SignedCommand {
    let mut signed = SignedCommand::new(number, command);
    let statement = administration_statement(cluster, &signed);
    for key in &keys(seed)[..2] {
        signed.add(key.key(), key.sign_statement(&statement)).expect("two");
    }
    signed
}

/// Whether a replica stopped for good.
fn is_lost(cluster: &Cluster, id: ReplicaId) -> bool {
    cluster.replicas[place(id)].halt.is_some()
}

/// A replica that can join.
fn joiner(cluster: &Cluster, current: &Membership) -> Option<usize> {
    let mut spares = cluster.plan.founders..cluster.plan.replicas;
    let fresh = spares.clone().find(|who| cluster.replicas[*who].join.is_none());
    fresh.or_else(|| spares.find(|who| current.get(id(*who)).is_none()))
}

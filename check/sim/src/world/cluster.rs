//! The replicas and clients of a run, as the other parts see them; they read, and change nothing here.

use crate::client::Client;
use crate::plan::Plan;
use crate::random::Rng;
use crate::replica::Replica;
use quorate_node::{LevelConfig, Node};
use quorate_types::{ReplicaId, Seq, Span};
use quorate_wire::{Membership, Memberships};
use std::collections::BTreeSet;

/// A replica's id.
pub(super) fn id(who: usize) -> ReplicaId {
    ReplicaId::new(who as u16 + 1)
}

/// The process of a replica.
pub(super) fn place(id: ReplicaId) -> usize {
    usize::from(id.number()).saturating_sub(1)
}

/// All replicas and clients, with the plan.
pub(super) struct Cluster {
    pub(super) plan: Plan,
    /// What its founders had executed before they began.
    pub(super) begins_at: Seq,
    pub(super) replicas: Vec<Replica>,
    pub(super) clients: Vec<Client>,
}

impl Cluster {
    /// As planned: empty disks, and nothing done yet.
    pub(super) fn new(plan: Plan) -> Self {
        let replica = |n| Replica::new(Rng::of(plan.seed, 100 + n as u64), plan.upgrades.able[n]);
        Self {
            replicas: (0..plan.replicas).map(replica).collect(),
            clients: (0..plan.clients).map(|n| Client::new(&plan, n as u32 + 1)).collect(),
            begins_at: Seq::ZERO,
            plan,
        }
    }

    /// The node of a replica, while it runs.
    pub(super) fn node(&self, who: usize) -> Option<&Node> {
        self.replicas.get(who)?.node.as_ref()
    }

    /// Whether a replica lies now: one of those that do, in an era that survives it.
    pub(super) fn lies(&self, who: usize) -> bool {
        self.plan.is_liar(who) && self.replicas.get(who).is_some_and(|replica| replica.may_lie(&self.plan))
    }

    /// The nodes of replicas that do not lie.
    pub(super) fn honest_nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        let honest = (0..self.plan.replicas).filter(|who| !self.plan.is_liar(*who));
        honest.filter_map(|who| Some((who, self.node(who)?)))
    }

    /// Clients that do not lie.
    pub(super) fn honest_clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(|client| !client.lies())
    }

    /// The client of a process.
    pub(super) fn client(&mut self, who: usize) -> &mut Client {
        &mut self.clients[who - self.plan.replicas]
    }

    /// The leader of the first instance in the highest view, or any leader; the first replica when there is none.
    pub(super) fn leader(&self) -> usize {
        let leads = |who: &usize| self.node(*who).is_some_and(Node::leads);
        let standing = |who: &usize| {
            let node = self.node(*who)?;
            let first = node.leases().first().is_some_and(|(_, leads, _)| *leads);
            Some((first, node.view()))
        };
        (0..self.plan.replicas).filter(leads).max_by_key(standing).unwrap_or_default()
    }

    /// Whether all replicas except one have begun, or stopped for good: a cluster begins when all its members have been there.
    pub(super) fn others_have_begun(&self, who: usize) -> bool {
        self.replicas.iter().enumerate().filter(|(at, _)| *at != who).all(|(_, replica)| {
            let begun = |node: &Node| node.has_begun() && node.executor().seq() > self.begins_at;
            replica.halt.is_some() || replica.node.as_ref().is_some_and(begun)
        })
    }

    /// How far an instance is decided at a replica that runs.
    pub(super) fn decided(&self, who: usize, at: usize) -> u64 {
        let status = self.node(who).map(Node::status);
        let each = status.as_ref().and_then(|status| status.instances.each.get(at));
        each.map_or(0, |instance| instance.decided)
    }

    /// How far it is decided at the other replicas.
    pub(super) fn decided_elsewhere(&self, who: usize, at: usize) -> u64 {
        let others = (0..self.plan.replicas).filter(|other| *other != who);
        others.map(|other| self.decided(other, at)).max().unwrap_or(0)
    }

    /// The configuration of a replica that concerns levels.
    pub(super) fn level_config(&self, who: usize) -> LevelConfig {
        let raise_after = self.plan.upgrades.raise_after.map(Span::from_millis);
        let made = LevelConfig::made_with(self.plan.upgrades.made_with);
        LevelConfig { highest: self.replicas[who].able, raise_after, ..made }
    }

    /// The membership as this replica knows it.
    pub(super) fn membership_of(&self, node: &Node) -> Membership {
        let founders: Vec<ReplicaId> = (0..self.plan.founders).map(id).collect();
        let created = || Memberships::created(&founders).now().clone();
        node.membership().cloned().unwrap_or_else(created)
    }

    /// The honest members in the end, as the replica that executed most knows them.
    pub(super) fn current(&self) -> BTreeSet<usize> {
        let Some(node) = self.foremost() else { return BTreeSet::new() };
        let membership = self.membership_of(node);
        let members = membership.members().iter().map(|member| place(member.replica));
        members.filter(|who| !self.plan.is_liar(*who)).collect()
    }

    /// Whether a replica leads that is no member any more.
    pub(super) fn is_led_by_others(&self) -> bool {
        let current = self.current();
        let mut others = self.honest_nodes().filter(|(who, _)| !current.contains(who));
        others.any(|(_, node)| node.status().leading)
    }

    /// The replica that executed most.
    pub(super) fn foremost(&self) -> Option<&Node> {
        self.honest_nodes().map(|(_, node)| node).max_by_key(|node| node.executor().seq())
    }

    /// Whether a client was cut off until all replicas that it knows, and all that those know, had left: from there nothing leads to the
    /// present members. An operator would give it their addresses.
    pub(super) fn is_lost(&self, client: &Client) -> bool {
        if self.plan.replicas == self.plan.founders {
            return false;
        }
        let current = self.current();
        let mut ask: Vec<usize> = client.core.known().map(place).collect();
        let mut known: BTreeSet<usize> = ask.iter().copied().collect();
        while let Some(who) = ask.pop() {
            let Some(node) = self.node(who) else { continue };
            if current.contains(&who) {
                return false;
            }
            let membership = self.membership_of(node);
            let members = membership.members().iter().map(|member| place(member.replica));
            ask.extend(members.filter(|who| known.insert(*who)));
        }
        true
    }
}

//! The checks of the whole cluster: now and then, and in the end.

use super::Judge;
use crate::checks::{Failure, acked, bounded, linear, reads, suspects};
use crate::client::{Client, Done};
use crate::replica::{CLUSTER, Replica};
use crate::trace::name;
use crate::world::adversary::Adversary;
use crate::world::cluster::Cluster;
use bytes::Bytes;
use quorate_auth::{Authenticator, Keyed};
use quorate_log::SyncMode;
use quorate_node::memberships_in_force;
use quorate_types::ReplicaId;
use quorate_wire::Era;
use std::collections::BTreeSet;

/// Now and then.
impl Judge {
    /// Whether a replica is sound, and its queues are bounded.
    pub(in crate::world) fn look_at(&mut self, cluster: &Cluster, who: usize) {
        let Some(node) = cluster.node(who) else { return };
        node.invariants(true);
        node.executor().invariants(true);
        self.note(bounded::queued(&name(who, cluster.plan.replicas), &cluster.plan, &node.status()));
    }

    /// No honest replica holds evidence against another honest one.
    pub(in crate::world) fn suspects(&mut self, cluster: &Cluster, who: usize) {
        let Some(node) = cluster.node(who).filter(|_| !cluster.plan.is_liar(who)) else { return };
        let lies = |replica| cluster.plan.is_liar(usize::from(replica).saturating_sub(1));
        self.note(suspects::judge(&name(who, cluster.plan.replicas), &node.status().suspects, lies));
    }

    /// A replica proved something against another one. Whoever it is, that must be so.
    pub(in crate::world) fn proved(&mut self, cluster: &Cluster, who: usize, bytes: &Bytes) {
        let mut keys = Keyed::new(ReplicaId::new(1), cluster.plan.seed);
        for memberships in cluster.node(who).map(memberships_in_force).unwrap_or_default() {
            for membership in memberships.all() {
                for member in membership.members().iter().filter(|member| member.key.is_some()) {
                    keys.know(member.replica, membership.number(), &member.key.unwrap_or_default());
                }
            }
        }
        let lies = |replica| cluster.plan.is_liar(usize::from(replica).saturating_sub(1));
        let name = name(who, cluster.plan.replicas);
        let cluster = Era::signed_as(CLUSTER, cluster.replicas[who].era_number());
        self.note(suspects::proved(&name, bytes, (cluster, &keys), lies));
    }

    /// Whether clients are answered and alarms ring, once nothing else fails; and whether replicas know the same members and instances.
    pub(in crate::world) fn look(&mut self, cluster: &Cluster, now: u64) {
        let open = |client: &Client| client.done.iter().any(|done| done.outcome.is_none());
        let waits = |client: &Client| !cluster.is_lost(client) && open(client);
        let waits = self.is_healed && cluster.honest_clients().any(waits);
        let done = cluster.clients.iter().flat_map(|client| &client.done);
        let count = done.filter(|done| done.outcome.is_some()).count();
        let answers = self.answers.look(now, count, waits);
        self.note(answers.map_err(|why| Failure {
            text: format!("{}: {}", why.text, cluster.open(self).join("; ")),
            ..why
        }));
        self.note(self.alarm.look(now, cluster.plan.heal_at));
        let members = self.look_at_members(cluster);
        self.note(members);
        cluster.clients.iter().for_each(|client| client.core.invariants());
    }

    /// Whatever happens, replicas that know a membership know the same one.
    fn look_at_members(&mut self, cluster: &Cluster) -> Result<(), Failure> {
        for (who, node) in cluster.honest_nodes() {
            let name = name(who, cluster.plan.replicas);
            if let Some(membership) = node.membership() {
                self.members.look(&name, membership)?;
            }
            self.instances.look(&name, node)?;
        }
        Ok(())
    }

    /// This many bytes are on their way on one connection.
    pub(in crate::world) fn on_the_way(&mut self, bytes: usize) {
        self.note(bounded::on_the_way(bytes));
    }
}

/// In the end.
impl Judge {
    /// Judges the run.
    pub(in crate::world) fn conclude(&mut self, cluster: &Cluster, adversary: &Adversary) {
        let current = cluster.current();
        let mut found = self.judge_operations(cluster, &current);
        for (who, node) in cluster.honest_nodes() {
            let name = name(who, cluster.plan.replicas);
            let looked = self.states.look(&name, node.executor());
            found = found.and(looked);
            if current.contains(&who) {
                found = found.and_then(|()| self.judge_checkpoints(cluster, who, adversary.has_rot(who)));
            }
        }
        found = found.and_then(|()| self.judge_members(cluster, &current));
        let events = cluster.honest_clients().flat_map(Client::events).collect();
        match found.and_then(|()| linear::judge(events)) {
            Ok(unjudged) => self.unjudged = unjudged,
            Err(failure) => self.fail(failure),
        }
    }

    /// Compares what clients saw with the commands that were executed.
    fn judge_operations(&self, cluster: &Cluster, current: &BTreeSet<usize>) -> Result<(), Failure> {
        let dones: Vec<&Done> = cluster.honest_clients().flat_map(|client| &client.done).collect();
        let rows = self.agreement.rows();
        reads::judge(&dones, rows)?;
        reads::fresh(&dones, rows, |op| self.once.index(op))?;
        reads::own(&dones, rows, |op| self.once.index(op))?;
        for done in &dones {
            self.once.compare(done, rows)?;
            for who in current {
                let Some(node) = cluster.node(*who) else { continue };
                let after = self.agreement.first_from(node.executor().seq().number() + 1);
                let commands = self.true_states[*who].next.unwrap_or(after);
                acked::kept(&name(*who, cluster.plan.replicas), commands, done, &self.once)?;
            }
        }
        Ok(())
    }

    /// What a replica has on its disk. If a checkpoint rots, it may have been the only one of its border.
    fn judge_checkpoints(&self, cluster: &Cluster, who: usize, rots: bool) -> Result<(), Failure> {
        let Replica { node: Some(node), keeping, .. } = &cluster.replicas[who] else { return Ok(()) };
        if cluster.plan.log.sync == SyncMode::Memory {
            return Ok(());
        }
        let any = node.status().checkpoints.durable_seq > 0 && !rots;
        let era = self.true_states[who].era;
        self.checkpoints.at_rest(&name(who, cluster.plan.replicas), era, &keeping.files, any)?;
        cluster.trims(who)
    }

    /// All members agree on the membership, nothing is under way, and only members lead.
    fn judge_members(&self, cluster: &Cluster, current: &BTreeSet<usize>) -> Result<(), Failure> {
        for (who, node) in cluster.honest_nodes() {
            let name = name(who, cluster.plan.replicas);
            self.members.ended(&name, current.contains(&who), node)?;
            if current.contains(&who) {
                self.instances.ended(&name, node)?;
            }
        }
        Ok(())
    }
}

//! Replicas come and go: an operator asks whoever leads, processes of new replicas start, disks are lost for good.

use super::{MS, World};
use crate::checks::Failure;
use crate::client::Client;
use crate::plan::Change;
use crate::queue::Event;
use crate::replica::{Join, incarnation};
use crate::trace::Level;
use bytes::Bytes;
use quorate_node::Node;
use quorate_types::{Halt, MembershipId, ReplicaId};
use quorate_wire::{FRAME_HEADER, FrameKind, MemberRequest, MemberRole, Membership, Memberships};
use std::collections::BTreeSet;

fn id(who: usize) -> ReplicaId {
    ReplicaId::new(who as u16 + 1)
}

fn place(id: ReplicaId) -> usize {
    usize::from(id.number()).saturating_sub(1)
}

impl World {
    /// The membership as this replica knows it.
    pub(super) fn membership_of(&self, node: &Node) -> Membership {
        let founders: Vec<ReplicaId> = (0..self.plan.founders).map(id).collect();
        let created = || Memberships::created(&founders).now().clone();
        node.membership().cloned().unwrap_or_else(created)
    }

    /// The members in the end, as whoever executed most knows them, but for those that lie.
    pub(super) fn current(&self) -> BTreeSet<usize> {
        let Some(node) = self.foremost() else { return BTreeSet::new() };
        let membership = self.membership_of(node);
        let members = membership.members().iter().map(|member| place(member.replica));
        members.filter(|who| !self.plan.is_liar(*who)).collect()
    }

    /// Whoever executed most.
    fn foremost(&self) -> Option<&Node> {
        let honest = (0..self.plan.replicas).filter(|who| !self.plan.is_liar(*who));
        let nodes = honest.filter_map(|who| self.replicas[who].node.as_ref());
        nodes.max_by_key(|node| node.executor().seq())
    }

    /// Whether a client was cut off until all replicas that it knows were gone, and all that those know: from there nothing leads to
    /// the members of today. An operator would give it their addresses.
    pub(super) fn is_lost(&self, client: &Client) -> bool {
        if self.plan.replicas == self.plan.founders {
            return false;
        }
        let current = self.current();
        let mut ask: Vec<usize> = client.core.known().map(place).collect();
        let mut known: BTreeSet<usize> = ask.iter().copied().collect();
        while let Some(who) = ask.pop() {
            let Some(node) = self.replicas.get(who).and_then(|replica| replica.node.as_ref()) else {
                continue;
            };
            if current.contains(&who) {
                return false;
            }
            let membership = self.membership_of(node);
            let members = membership.members().iter().map(|member| place(member.replica));
            ask.extend(members.filter(|who| known.insert(*who)));
        }
        true
    }

    /// What a replica is, for a run that does not end.
    pub(super) fn standing_of(&self, who: usize) -> String {
        let Some(node) = &self.replicas[who].node else { return String::new() };
        let change = node.change().map_or(String::new(), |change| format!(" to {}", change.now().number()));
        format!("in {}{change}", self.membership_of(node).number())
    }

    pub(super) fn change_members(&mut self, what: Change, pick: u16) {
        let leader = self.leader();
        let Some(node) = self.replicas[leader].node.as_ref().filter(|_| self.now >= self.members.quiet_until)
        else {
            return;
        };
        let current = self.membership_of(node);
        let pick = usize::from(pick);
        let any = |list: &[ReplicaId]| list.get(pick.checked_rem(list.len()).unwrap_or(0)).copied();
        let of = |role: MemberRole| -> Vec<ReplicaId> {
            current.members().iter().filter(|m| m.role == role).map(|m| m.replica).collect()
        };
        let (voters, learners) = (of(MemberRole::Voter), of(MemberRole::Learner));
        let all: Vec<ReplicaId> = current.members().iter().map(|member| member.replica).collect();
        let lost: Vec<ReplicaId> =
            voters.iter().copied().filter(|id| self.replicas[place(*id)].halt.is_some()).collect();
        let request = match what {
            Change::Add => self.joiner(&current).map(|who| MemberRequest::Add {
                replica: id(who),
                address: format!("r{}:1", who + 1),
                incarnation: incarnation(id(who)),
            }),
            Change::Promote => any(&learners).map(MemberRequest::Promote),
            Change::Remove => any(&all).map(MemberRequest::Remove),
            Change::Replace => {
                let old = any(&lost).or_else(|| any(&voters));
                old.zip(any(&learners)).map(|(old, new)| MemberRequest::Replace { old, new })
            }
            Change::Move => any(&all).map(|replica| MemberRequest::Move {
                replica,
                address: format!("r{}:{}", replica.number(), self.now / MS % 60_000 + 2),
            }),
            Change::LoseDisk => return self.lose_disk(pick),
        };
        let Some(request) = request else { return };
        self.trace.line(Level::Events, self.now, Some(leader), "asked", || format!("{request:?}"));
        self.members.asked = self.members.asked.max(current.number().number() + 1);
        let payload = Bytes::from(request.frame().to_vec()).slice(FRAME_HEADER..);
        self.operate(leader, FrameKind::MemberRequest, payload);
    }

    /// A replica that is to join, and whose process starts soon, or late.
    fn joiner(&mut self, current: &Membership) -> Option<usize> {
        let mut spares = self.plan.founders..self.plan.replicas;
        let fresh = spares.clone().find(|who| self.replicas[*who].join.is_none());
        let who = fresh.or_else(|| spares.find(|who| current.get(id(*who)).is_none()))?;
        if self.replicas[who].join.is_none() {
            let members = current.members().iter().map(|member| member.replica).collect();
            self.replicas[who].join = Some(Join { number: current.number().next(), members });
            let at = self.now + self.rng.spread(MS, 2_000 * MS);
            let life = self.processes[who].life;
            self.queue.push(at, Event::Start { who, life });
        }
        Some(who)
    }

    /// A voter's disk is lost for good, if a majority is left whatever is under way: nothing may be.
    fn lose_disk(&mut self, pick: usize) {
        // Who is asked for changes may have been removed, and not know.
        let Some(node) = self.foremost() else { return };
        let voters: Vec<ReplicaId> = self.membership_of(node).voters().collect();
        let lost = voters.iter().filter(|id| self.replicas[place(**id)].halt.is_some()).count();
        let who = voters.get(pick.checked_rem(voters.len()).unwrap_or(0)).copied();
        let Some(who) = who.map(place).filter(|_| (lost + 1) * 2 < voters.len()) else { return };
        let nodes = || voters.iter().filter_map(|id| self.replicas[place(*id)].node.as_ref());
        let asked = self.members.asked.max(MembershipId::FIRST.number());
        let settled = |node: &Node| {
            let number = self.membership_of(node).number().number();
            node.change().is_none()
                && number == asked
                && node.has_begun()
                && node.executor().seq().number() > 0
        };
        let there = nodes().count() + lost == voters.len();
        if !there || !nodes().all(settled) || self.replicas[who].halt.is_some() {
            return;
        }
        self.replicas[who].keeping.trap = None;
        if self.processes[who].up {
            self.end_life(who, true);
        }
        let why = "its disk is lost".into();
        self.replicas[who].halt.get_or_insert(Halt::LogInconsistent { why });
        // A leader must have noticed before it is asked for anything.
        let (_, _, election_max) = self.plan.timing;
        self.members.quiet_until = self.now + election_max * 4 * MS;
    }

    /// Whatever happens, replicas that know of a membership know the same.
    pub(super) fn look_at_members(&mut self) -> Result<(), Failure> {
        for (who, replica) in self.replicas.iter().enumerate() {
            let Some(node) = replica.node.as_ref().filter(|_| !self.plan.is_liar(who)) else { continue };
            if let Some(membership) = node.membership() {
                self.members.look(&self.trace.name(who), membership)?;
            }
            self.instances.look(&self.trace.name(who), node)?;
        }
        Ok(())
    }

    /// In the end all members agree on who they are, nothing is under way, and nobody else leads.
    pub(super) fn judge_members(&self, current: &BTreeSet<usize>) -> Result<(), Failure> {
        for (who, replica) in self.replicas.iter().enumerate() {
            let Some(node) = replica.node.as_ref().filter(|_| !self.plan.is_liar(who)) else { continue };
            let name = self.trace.name(who);
            self.members.ended(&name, current.contains(&who), node)?;
            if current.contains(&who) {
                self.instances.ended(&name, node)?;
            }
        }
        Ok(())
    }
}

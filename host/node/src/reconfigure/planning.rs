//! Checks requests of operators. The leader of the first instance does so before it proposes anything: whether the change is possible, and
//! whether no other one is under way. Execution decides again, on all replicas alike.

use super::signed::hex;
use super::{Look, Reconfigure, number_of};
use crate::gate::too_low;
use crate::group::Group;
use crate::status::{LevelStatus, MemberLevel, MembershipMember, MembershipStatus};
use quorate_merge::{Merge, RecordIndex};
use quorate_order::Feature;
use quorate_types::{Incarnation, MembershipId, ReplicaId, Room, View, planted};
use quorate_wire::{
    Batch, FEATURE_LEVEL_MIN, MEMBERS_MAX, Member, MemberRequest, MemberRole, Membership, Memberships,
};
use std::collections::BTreeSet;

/// The most instances that a cluster may have.
const COUNT_MAX: u16 = 64;

/// The other parts, for checks of what may be changed now.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(super) of: &'a Reconfigure,
    pub(super) look: &'a Look<'a>,
}

/// Checks for all changes.
impl<'a> Plan<'a> {
    pub(crate) const fn new(of: &'a Reconfigure, look: &'a Look<'a>) -> Self {
        Self { of, look }
    }

    /// Whether the cluster has this feature.
    pub(super) fn can(&self, feature: Feature) -> Result<(), String> {
        Ok(self.look.config.order.nature().can(feature)?)
    }

    fn level(&self) -> u32 {
        self.look.config.level.cluster
    }

    /// Whether this replica may propose a command to the engine: it leads the first instance, and has executed the commands that were
    /// decided before it led.
    pub(super) fn may_command(&self) -> Result<(), String> {
        let first = self.look.first();
        if !first.standing().leading || !first.standing().settled {
            let me = self.look.me();
            return Err(match first.leader() {
                Some(leader) if leader != me => format!("{leader} leads, ask it"),
                _ => "nobody leads now, try again".into(),
            });
        }
        let before = first.lead().settled_at().map(|slot| RecordIndex(slot.number()));
        let executed =
            before.is_some_and(|record| self.look.engine.merge().has_delivered(first.id(), record));
        if !executed || !may_propose(first, self.look.engine.merge()) {
            return Err("the leader waits for others, try again".into());
        }
        if self.look.room() == Room::Full {
            return Err("the disks have no room for it: free space first".into());
        }
        Ok(())
    }

    /// Whether the number of instances is not changing now.
    pub(super) fn no_instances_change(&self, view: View) -> Result<(), String> {
        if let Some(next) = self.look.engine.merge().next_generation() {
            return Err(format!(
                "the number of instances is changing to {}: wait until it has (`quorate instances show`)",
                next.instances
            ));
        }
        if self.of.begun.instances == Some(view) {
            return Err("another number of instances is about to begin, try again".into());
        }
        Ok(())
    }
}

/// Changes of the membership.
impl Plan<'_> {
    pub(super) fn change(&self, request: &MemberRequest) -> Result<Memberships, String> {
        self.may_command()?;
        let change = self.planned(request)?;
        self.keeps_quorum(change.now())?;
        Ok(change)
    }

    /// The change that an operator asks for, if it may begin now.
    pub(super) fn planned(&self, request: &MemberRequest) -> Result<Memberships, String> {
        self.can(Feature::ChangeMembers)?;
        if let Some(change) = self.of.roster.change() {
            return Err(format!(
                "a change to {} is under way: wait until it is over (`quorate member list` shows it)",
                change.now().number()
            ));
        }
        let begun = self.of.begun.change == Some(self.look.view());
        if begun && !planted("changes-pile-up") {
            return Err("a change is about to begin: look at `quorate member list`, then try again".into());
        }
        if self.of.begun.raise == Some(self.look.view()) {
            return Err("the feature level is about to be raised, try again".into());
        }
        self.no_instances_change(self.look.view())?;
        let before = self.before_a_change()?;
        let mut members = before.members().to_vec();
        self.apply(request, &mut members)?;
        for member in &mut members {
            member.life = self.life_of(member);
        }
        if let Some(unknown) = members.iter().find(|m| m.role == MemberRole::Voter && m.life == 0) {
            return Err(format!("{} was never connected to the leader: start it first", unknown.replica));
        }
        let last = members.iter().all(|member| member.role == MemberRole::Learner);
        if last {
            return Err("that would leave nobody who votes: add and promote another replica first".into());
        }
        let now = Membership::new(before.number().next(), members).map_err(|why| why.to_string())?;
        let voters = now.voters().count();
        if !self.look.config.order.faults.fit(voters as u32) {
            return Err(format!(
                "so few voters ({voters}) do not survive what the cluster was made for: add and promote another replica first"
            ));
        }
        Memberships::change(before, now).map_err(|why| why.to_string())
    }

    /// The life of a member's data directory, if it is known; otherwise 0.
    fn life_of(&self, member: &Member) -> u64 {
        let known = self.look.gate.lives().of(member.replica);
        if member.life != 0 { member.life } else { known.unwrap_or(0) }
    }

    /// The membership with which a change begins, with all known lives.
    pub(super) fn before_a_change(&self) -> Result<Membership, String> {
        let (number, mut members) = match self.of.roster.current() {
            Some(current) => (current.number(), current.members().to_vec()),
            None => {
                let created = self.look.config.members.all().iter().map(|known| Member {
                    replica: known.replica,
                    role: MemberRole::Voter,
                    address: known.address.clone(),
                    incarnation: known.incarnation,
                    life: 0,
                    key: self.look.config.order.keys.public_of(known.replica),
                });
                (MembershipId::FIRST, created.collect())
            }
        };
        if self.of.roster.current().is_none() {
            for member in &mut members {
                member.life = self.life_of(member);
            }
        }
        Membership::new(number, members).map_err(|why| why.to_string())
    }

    fn apply(&self, request: &MemberRequest, members: &mut Vec<Member>) -> Result<(), String> {
        match request {
            MemberRequest::Add { replica, address, incarnation, key } => {
                self.check_new(*replica, address, *incarnation, members)?;
                let (role, address) = (MemberRole::Learner, address.clone());
                let (replica, incarnation, key) = (*replica, *incarnation, *key);
                members.push(Member { replica, role, address, incarnation, life: 0, key });
            }
            MemberRequest::Promote(replica) => self.promote(*replica, members)?,
            MemberRequest::Remove(replica) => {
                find(members, *replica)?;
                members.retain(|member| member.replica != *replica);
            }
            MemberRequest::Replace { old, new } => {
                find(members, *old)?;
                if old == new {
                    return Err(format!(
                        "{old} can not take its own place: a replacement has an id of its own"
                    ));
                }
                self.promote(*new, members)?;
                members.retain(|member| member.replica != *old);
            }
            MemberRequest::Rekey { replica, key } => {
                if !self.look.config.order.faults.may_lie() {
                    return Err("the replicas of this cluster only crash, and sign nothing: there is no key to change".into());
                }
                let member = find(members, *replica)?;
                if member.key == Some(*key) {
                    return Err(format!("{replica} has this key already"));
                }
                member.key = Some(*key);
            }
            MemberRequest::Move { replica, address } => {
                check_address(address, members)?;
                find(members, *replica)?.address.clone_from(address);
            }
        }
        Ok(())
    }

    fn check_new(
        &self,
        replica: ReplicaId,
        address: &str,
        incarnation: Incarnation,
        members: &[Member],
    ) -> Result<(), String> {
        if members.iter().any(|member| member.replica == replica) {
            return Err(format!("{replica} is a member already"));
        }
        let highest = u16::MAX - 1024;
        if replica.number() == 0 || replica.number() > highest {
            return Err(format!("ids of replicas are 1 to {highest}"));
        }
        if self.of.roster.used().contains(&replica) {
            return Err(format!(
                "{replica} was a member before, and ids are never used again: take another one"
            ));
        }
        if incarnation == Incarnation::default() {
            return Err("a new replica needs a data directory of its own, which has an incarnation".into());
        }
        if members.len() >= MEMBERS_MAX {
            return Err(format!("a cluster has at most {MEMBERS_MAX} replicas"));
        }
        check_address(address, members)
    }

    fn promote(&self, replica: ReplicaId, members: &mut [Member]) -> Result<(), String> {
        let caught_up = self.of.caught_up(self.look).contains(&replica);
        let member = find(members, replica)?;
        if member.role == MemberRole::Voter {
            return Err(format!("{replica} votes already"));
        }
        if !caught_up {
            return Err(format!(
                "{replica} has not caught up with the leaders yet: wait until `quorate member list` says so, and see that it runs"
            ));
        }
        member.role = MemberRole::Voter;
        Ok(())
    }

    /// Whether enough voters of the membership are connected to decide in it.
    fn keeps_quorum(&self, now: &Membership) -> Result<(), String> {
        let me = self.look.me();
        let status = self.look.first().status();
        let up: Vec<ReplicaId> =
            self.look.gate.peers().peers().filter(|(_, _, up, _)| *up).map(|(id, ..)| id).collect();
        let heard = |id: ReplicaId| id == me || (status.there.contains(&id) && up.contains(&id));
        if Memberships::one(now.clone()).has_quorum(0, heard) {
            return Ok(());
        }
        let (there, missing): (Vec<_>, Vec<_>) = now.voters().partition(|id| heard(*id));
        let there = if there.is_empty() { "none".to_owned() } else { list(&there) };
        Err(format!(
            "of those who would vote then, {there} can be reached and {} can not: no majority, so nothing could be decided any more. \
             Bring back who is missing, or replace it, first",
            list(&missing)
        ))
    }

    /// The membership in `status`.
    pub(crate) fn membership_status(&self) -> MembershipStatus {
        let (change, caught_up) = (self.of.roster.change(), self.of.caught_up(self.look));
        let me = self.look.me();
        let members = match change.map(Memberships::now).or(self.of.roster.current()) {
            Some(membership) => membership.members().to_vec(),
            None => self.before_a_change().map(|before| before.members().to_vec()).unwrap_or_default(),
        };
        let members = members.into_iter().map(|member| MembershipMember {
            replica: member.replica.number(),
            role: if member.role == MemberRole::Voter { "voter" } else { "learner" },
            incarnation: member.incarnation.to_string(),
            caught_up: member.replica == me || caught_up.contains(&member.replica),
            address: member.address,
            key: member.key.as_ref().map(hex),
        });
        let number = number_of(self.of.roster.current());
        let leaving = change.and_then(Memberships::before).into_iter().flat_map(Membership::members);
        let leaving = leaving.map(|member| member.replica);
        let gone = leaving.filter(|id| change.is_some_and(|change| change.now().get(*id).is_none()));
        MembershipStatus {
            number: number.number(),
            changing_to: change.map(|change| change.now().number().number()),
            members: members.collect(),
            leaving: gone.map(ReplicaId::number).collect(),
            created: self.look.config.members.created(),
            start_time_ns: self.look.config.start_time.nanos(),
            removed: self.of.is_removed(me),
            used: self.of.roster.used().iter().map(|id| id.number()).collect::<BTreeSet<_>>(),
            administration: self.administration_status(),
            lacks_key: self.of.lacks_key(self.look.config).map(hex),
        }
    }
}

/// Changes of the feature level and of the number of instances.
impl Plan<'_> {
    /// The level to raise to; `wanted` is 0 for the highest possible.
    pub(super) fn raise(&self, wanted: u32) -> Result<u32, String> {
        self.may_raise()?;
        let (now, all) = (self.level(), self.highest_of_all()?);
        let level = if wanted == 0 { all } else { wanted };
        if level == now {
            let why = format!("the cluster works at feature level {now} already");
            return Err(if wanted == 0 {
                format!("{why}, the highest that all members can do")
            } else {
                why
            });
        }
        if level < now {
            return Err(format!("the cluster works at feature level {now}, and there is no way back"));
        }
        let members = self.of.ordered_members(self.look);
        let lacking = members.into_iter().find(|member| self.level_of(*member).is_none_or(|l| l < level));
        match lacking.filter(|_| !planted("raised-without-all")) {
            Some(member) => Err(too_low(member, self.level_of(member).unwrap_or_default(), level)),
            None => Ok(level),
        }
    }

    /// Whether all members' programs can work at this level, and the cluster does not yet.
    pub(super) fn is_possible(&self, level: u32) -> Result<(), String> {
        let now = self.level();
        if level <= now {
            return Err(format!(
                "the cluster works at feature level {now} already, and there is no way back"
            ));
        }
        let all = self.highest_of_all()?;
        if level > all {
            return Err(format!(
                "not all members' programs can work at feature level {level}: {all} is the highest"
            ));
        }
        Ok(())
    }

    /// Whether this replica may propose a command about a level now.
    pub(super) fn may_raise(&self) -> Result<(), String> {
        self.may_command()?;
        let view = self.look.view();
        if self.of.roster.change().is_some() || self.of.begun.change == Some(view) {
            return Err("a change of the membership is under way, try again when it is over".into());
        }
        self.no_instances_change(view)?;
        if self.of.begun.raise == Some(view) {
            return Err("a raise is about to happen: look at `quorate upgrade status`".into());
        }
        Ok(())
    }

    /// The highest level that all members' programs can work at.
    fn highest_of_all(&self) -> Result<u32, String> {
        let mut highest = self.look.config.level.highest;
        for member in self.of.ordered_members(self.look) {
            match self.level_of(member) {
                Some(level) => highest = highest.min(level),
                None if planted("raised-without-all") => {}
                None => {
                    return Err(format!(
                        "{member} is not connected, so nobody knows what its program can do: bring it back, or remove it, first"
                    ));
                }
            }
        }
        Ok(if planted("raised-without-all") { self.look.config.level.highest } else { highest })
    }

    /// The highest level of a member's program, if the member is connected.
    fn level_of(&self, member: ReplicaId) -> Option<u32> {
        let me = self.look.me();
        if member == me { Some(self.look.config.level.highest) } else { self.look.gate.peers().level(member) }
    }

    /// The levels in `status`.
    pub(crate) fn level_status(&self) -> LevelStatus {
        let member =
            |replica: ReplicaId| MemberLevel { replica: replica.number(), highest: self.level_of(replica) };
        LevelStatus {
            cluster: self.level(),
            lowest: FEATURE_LEVEL_MIN,
            highest: self.look.config.level.highest,
            automatic: self.look.config.level.raise_after.is_some(),
            members: self.of.ordered_members(self.look).into_iter().map(member).collect(),
        }
    }

    pub(super) fn resize(&self, count: u16) -> Result<(), String> {
        self.may_command()?;
        self.can(Feature::ChangeInstances)?;
        let view = self.look.view();
        if self.of.roster.change().is_some() || self.of.begun.change == Some(view) {
            return Err("a change of the membership is under way: wait until it is over (`quorate member list` shows it)".into());
        }
        self.no_instances_change(view)?;
        if self.of.begun.raise == Some(view) {
            return Err("the feature level is about to be raised, try again".into());
        }
        if !(1..=COUNT_MAX).contains(&count) {
            return Err(format!("there can be 1 to {COUNT_MAX} instances"));
        }
        if count == self.look.engine.merge().generation().instances {
            return Err(format!("the cluster has {count} already"));
        }
        Ok(())
    }
}

/// Whether an instance that leads here may propose one more batch.
pub(crate) fn may_propose(group: &Group, merge: &Merge<Batch>) -> bool {
    group.standing().leading && merge.room(group.id()) > 0
}

/// The ids, with commas.
fn list(ids: &[ReplicaId]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}

fn find(members: &mut [Member], replica: ReplicaId) -> Result<&mut Member, String> {
    let all: Vec<ReplicaId> = members.iter().map(|member| member.replica).collect();
    let found = members.iter_mut().find(|member| member.replica == replica);
    found.ok_or_else(|| format!("{replica} is no member: the members are {}", list(&all)))
}

fn check_address(address: &str, members: &[Member]) -> Result<(), String> {
    let port = address.rsplit_once(':').and_then(|(host, port)| (!host.is_empty()).then_some(port));
    if port.and_then(|port| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
        return Err(format!("`{address}` is no address: host:port"));
    }
    match members.iter().find(|member| member.address == address) {
        Some(other) => Err(format!("{} is reached at {address}", other.replica)),
        None => Ok(()),
    }
}

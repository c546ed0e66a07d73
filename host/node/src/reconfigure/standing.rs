//! There are three sources for who the members are: the log of each instance, the ordered commands (`../roster.rs`), and what other
//! replicas tell this one when it lags. The logs decide. What others tell only says which replicas to dial and to accept, so that a replica
//! that was away for long finds those that have replaced all that it knew.

use super::unnamed;
use crate::roster::Roster;
use quorate_admit::{KnownMember, Members};
use quorate_types::{MembershipId, ReplicaId};
use quorate_wire::{Member, MemberRole, Membership, Memberships};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of memberships, beside what was ordered.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The membership in force in each instance, once an entry of its log says so.
    holds: BTreeMap<usize, Arc<Memberships>>,
    /// The membership that another replica told, if it is later.
    told: Option<Memberships>,
    /// Whether the connections do not fit the memberships yet.
    pub(super) changed: bool,
    /// The highest membership that the connected members were told.
    spread: MembershipId,
    /// Whether there are learners.
    learners: bool,
}

impl Standing {
    /// The latest membership in force in an instance.
    fn newest(&self) -> Option<&Memberships> {
        let newest = self.holds.values().rev().max_by_key(|holds| holds.now().number());
        newest.map(|holds| &**holds)
    }

    fn number(&self) -> MembershipId {
        self.newest().map_or(MembershipId::FIRST, |holds| holds.now().number())
    }

    /// Whether there are learners.
    pub(super) const fn has_learners(&self) -> bool {
        self.learners
    }

    /// An instance takes no part any more.
    pub(super) fn left(&mut self, at: usize) {
        self.holds.remove(&at);
        self.changed = true;
    }

    /// The membership in force in an instance changed; `None` if its log says nothing.
    pub(super) fn in_force(&mut self, at: usize, memberships: Option<Arc<Memberships>>) {
        match memberships {
            Some(memberships) => drop(self.holds.insert(at, memberships)),
            None => drop(self.holds.remove(&at)),
        }
        let learner = |member: &Member| member.role == MemberRole::Learner;
        let all = self.newest().map(|newest| newest.now().members());
        self.learners = all.is_some_and(|members| members.iter().any(learner));
        self.changed = true;
    }

    /// Another replica says who the members are. It may know more than this one.
    pub(super) fn told(&mut self, memberships: Memberships) {
        let number = memberships.now().number();
        let known = self.told.as_ref().map_or(MembershipId::FIRST, |told| told.now().number());
        if number > known && number > self.number() {
            self.told = Some(memberships);
            self.changed = true;
        }
    }

    /// The memberships to tell others, if there are any that they may not know.
    pub(super) fn to_tell(&self) -> Option<&Memberships> {
        let told = self.told.as_ref().filter(|told| told.now().number() > self.number());
        told.or(self.newest())
    }

    /// Whether the connected members were not told of this membership yet.
    pub(super) fn spreads(&mut self, number: MembershipId) -> bool {
        let news = number > self.spread;
        self.spread = self.spread.max(number);
        news
    }

    /// The replicas to dial and to accept: those of the later of the memberships in force here and told by others, and during a change
    /// those of both sides. No replica is dropped for a membership that was not executed here yet (`unexecuted`): a replica that leaves may
    /// still lead an instance, and what it decides is needed to execute the change. None if the configuration says more.
    pub(super) fn directory(
        &self,
        roster: &Roster,
        unexecuted: &[Arc<Memberships>],
        configured: &Members,
    ) -> Option<Directory> {
        let mut sources: Vec<&Memberships> = Vec::new();
        let holds = self.holds.values().map(|holds| &**holds);
        let own = holds.chain(roster.change()).chain(unexecuted.iter().map(|earlier| &**earlier));
        let newest = own.clone().map(|memberships| memberships.now().number()).max();
        let told = self.told.as_ref().filter(|told| newest.is_none_or(|n| told.now().number() > n));
        match told {
            Some(told) => sources.push(told),
            None => sources.extend(own),
        }
        sources.sort_by_key(|memberships| memberships.now().number());
        let number = sources.last()?.now().number();
        if number < configured.number() && self.told.is_none() {
            return None;
        }
        let ordered = roster.change().map(|change| change.now().number());
        let ordered = ordered.or(roster.current().map(Membership::number));
        let mut members = BTreeMap::new();
        if number > ordered.unwrap_or(MembershipId::FIRST) {
            members.extend(configured.all().iter().map(|known| (known.replica, unnamed(known))));
        }
        for membership in sources.iter().flat_map(|memberships| memberships.all()) {
            members.extend(membership.members().iter().map(|member| (member.replica, member.clone())));
        }
        let told = self.told.as_ref().filter(|told| told.now().number() == number);
        let voters = told.or(self.newest()).map(|memberships| memberships.now().voters().collect());
        Some(Directory { number, members, voters })
    }
}

/// The replicas to dial and to accept.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    /// The number of the latest membership in it.
    pub(crate) number: MembershipId,
    pub(crate) members: BTreeMap<ReplicaId, Member>,
    /// The voters, if a membership is known that names them.
    pub(crate) voters: Option<Vec<ReplicaId>>,
}

impl Directory {
    /// Replaces the members as stage 2 knows them. Those that are in `used` and no longer in the directory were removed.
    pub(crate) fn replace(&self, members: &mut Members, used: &BTreeSet<ReplicaId>) {
        let known = self.members.values().map(|member| KnownMember {
            replica: member.replica,
            address: member.address.clone(),
            incarnation: member.incarnation,
        });
        let lives = self.members.values().filter(|member| member.life != 0);
        let lives = lives.map(|member| (member.replica, member.life)).collect();
        let removed = used.iter().filter(|id| !self.members.contains_key(id)).copied().collect();
        members.replace(self.number, known.collect(), lives, removed);
    }
}

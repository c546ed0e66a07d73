//! Three things say who the members are: the log of each instance, what was ordered (`../roster.rs`), and, where this replica lags, what others
//! tell it. The first decides; the last only says whom to dial and whom to let in, so that a replica that was away for long finds those who
//! have replaced everybody it knew.

use super::unnamed;
use crate::roster::Roster;
use quorate_admit::{KnownMember, Members};
use quorate_types::{MembershipId, ReplicaId};
use quorate_wire::{Member, MemberRole, Membership, Memberships};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of memberships beside what was ordered.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// What holds in each instance, once an entry of its log says so.
    holds: BTreeMap<usize, Arc<Memberships>>,
    /// What another replica told, if that is later.
    told: Option<Memberships>,
    /// Connections do not fit that yet.
    pub(super) changed: bool,
    /// The highest membership that those were told of who were connected.
    spread: MembershipId,
    /// Whether there are learners.
    learners: bool,
}

impl Standing {
    /// The latest that holds in an instance; of the first one that has it.
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

    /// What holds in an instance changed; `None` where its log says nothing.
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

    /// Another replica says who the members are. It may know better.
    pub(super) fn told(&mut self, memberships: Memberships) {
        let number = memberships.now().number();
        let known = self.told.as_ref().map_or(MembershipId::FIRST, |told| told.now().number());
        if number > known && number > self.number() {
            self.told = Some(memberships);
            self.changed = true;
        }
    }

    /// What to tell others of the members, if there is anything that they may not know.
    pub(super) fn to_tell(&self) -> Option<&Memberships> {
        let told = self.told.as_ref().filter(|told| told.now().number() > self.number());
        told.or(self.newest())
    }

    /// Whether those who are connected were not told of this membership.
    pub(super) fn spreads(&mut self, number: MembershipId) -> bool {
        let news = number > self.spread;
        self.spread = self.spread.max(number);
        news
    }

    /// Whom to dial and to let in: the later of what holds here and what others told, and as long as a change is not over, both
    /// sides of it. Nobody is dropped for what was not executed here yet (`unexecuted`): an instance may still be led by who leaves, and
    /// what it decides is needed to execute that. None where the configuration says more.
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

/// Whom to dial and to let in.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    /// Of the latest membership in it.
    pub(crate) number: MembershipId,
    pub(crate) members: BTreeMap<ReplicaId, Member>,
    /// Who votes, if a membership is known that says it.
    pub(crate) voters: Option<Vec<ReplicaId>>,
}

impl Directory {
    /// The members as stage 2 knows them from now on; those that are `used` and in it no more were removed.
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

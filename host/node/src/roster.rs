//! The membership as it was ordered: what the executed commands say, the same on all replicas at the same seq. It is in the system part of
//! every checkpoint.
//!
//! An executed command only starts a change. Each instance carries the change out in its own log (path/3-order). Once all have, a second
//! command ends it. There is one change at a time, and the id of a former member is never given to another replica.
//!
//! ```text
//! roster  created u16 | ids count u16, (replica u16) ... | current length u32, memberships | change length u32, memberships
//!         | administration length u32, administration (`roster/administration.rs`)
//!         | keys count u32, (key 32) ...
//! ```
//!
//! The administration is there if `created` has the highest bit: once administrators commanded something. The keys are there if it has the
//! bit below: those that members had and have no more, in ascending order. None of them is ever a member's key again.
//!
//! Until the first change there is only the number of replicas with which the cluster was made; the configuration of each replica then says
//! who they are.
//!
//! INV-ROSTER-1: numbers grow by one; only the change that began can end. Tests: roster/tests.rs.

pub(crate) mod administration;

pub(crate) use administration::{Administration, Signatures};

use quorate_types::{MembershipId, ReplicaId, planted};
use quorate_wire::{Era, Member, Membership, Memberships, SystemCommand};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The bit of the number of founders that says that administrators commanded something.
pub(crate) const COMMANDED: u16 = 1 << 15;
/// The bit of the number of founders that says that members gave up keys.
pub(crate) const GAVE_UP: u16 = 1 << 14;
/// Once so many keys were given up, members get no other ones. Those of members that leave are kept beyond that.
const KEYS_MAX: usize = 1 << 14;

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// A change begins.
    Begun(Memberships),
    /// A change is over.
    Ended(MembershipId),
    /// The command was refused, on all replicas alike: another one came first.
    Refused(&'static str),
}

/// The membership as it was ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roster {
    /// How many replicas the cluster began with.
    created: u16,
    /// The ids of all present and former members, once something changed.
    used: BTreeSet<ReplicaId>,
    /// The present membership; none until the first change.
    current: Option<Membership>,
    change: Option<Memberships>,
    /// The public keys that members had and have no more.
    former_keys: BTreeSet<[u8; 32]>,
    /// What administrators commanded, where replicas may lie.
    administration: Administration,
}

impl Roster {
    /// The roster of a cluster that was made with this many replicas.
    pub(crate) fn new(created: usize) -> Self {
        let (created, administration) = (created as u16, Administration::default());
        let (used, former_keys) = (BTreeSet::new(), BTreeSet::new());
        Self { created, used, current: None, change: None, former_keys, administration }
    }

    /// What administrators commanded.
    pub(crate) fn administration(&self) -> &Administration {
        &self.administration
    }
    /// The same, to execute a command.
    pub(crate) fn administration_mut(&mut self) -> &mut Administration {
        &mut self.administration
    }

    /// The membership that the last change led to.
    pub(crate) fn current(&self) -> Option<&Membership> {
        self.current.as_ref()
    }
    /// The change that is under way.
    pub(crate) fn change(&self) -> Option<&Memberships> {
        self.change.as_ref()
    }
    /// The replicas that may still need what instances decide, as far as is known at this seq: all members, and during a change those of
    /// both sides. One instance may have a later membership while another still needs replicas that leave with it.
    pub(crate) fn audience(&self, founders: impl Iterator<Item = ReplicaId>) -> BTreeSet<ReplicaId> {
        let mut all: BTreeSet<ReplicaId> = match &self.current {
            Some(current) => current.members().iter().map(|member| member.replica).collect(),
            None => founders.collect(),
        };
        all.extend(self.change.iter().flat_map(Memberships::replicas));
        all
    }
    /// The ids of all present and former members.
    pub(crate) fn used(&self) -> &BTreeSet<ReplicaId> {
        &self.used
    }
    /// How many replicas there are.
    pub(crate) fn count(&self) -> usize {
        self.current.as_ref().map_or(usize::from(self.created), |current| current.members().len())
    }

    /// Those of the memberships in logs that were not executed here, with the last executed one; none if all were executed.
    pub(crate) fn unexecuted(&self, mut named: Vec<Arc<Memberships>>) -> Vec<Arc<Memberships>> {
        let executed = self.current.as_ref().map_or(MembershipId::FIRST, Membership::number);
        if named.iter().all(|memberships| memberships.now().number() <= executed) {
            return Vec::new();
        }
        named.retain(|memberships| memberships.now().number() >= executed);
        named.extend(self.current.clone().map(|current| Arc::new(Memberships::one(current))));
        named.sort_by_key(|memberships| memberships.now().number());
        named.dedup();
        named
    }

    /// Whether a change from one membership to the next can begin.
    pub(crate) fn check(&self, change: &Memberships) -> Result<(), &'static str> {
        let Some(before) = change.before() else { return Err("it does not say what it changes") };
        if self.change.is_some() && !planted("two-changes-at-once") {
            return Err("another change is under way");
        }
        let fits = match &self.current {
            Some(current) => current == before,
            None => before.number() == MembershipId::FIRST,
        };
        if !fits {
            return Err("another change came first");
        }
        let new = |id: &ReplicaId| before.get(*id).is_none();
        let mut added = change.now().members().iter().map(|member| member.replica).filter(new);
        if added.any(|id| self.used.contains(&id)) {
            return Err("an id that was used before is never used again");
        }
        self.check_keys(before, change.now())
    }

    /// Whether keys that are new are nobody's and never were. Whoever stole a member's old key must not sign as any member.
    fn check_keys(&self, before: &Membership, now: &Membership) -> Result<(), &'static str> {
        let had = |id, key| before.get(id).is_some_and(|member| member.key == key);
        let all = now.members().iter().filter(|member| !had(member.replica, member.key));
        for key in all.filter_map(|member| member.key) {
            if before.members().iter().any(|member| member.key == Some(key)) {
                return Err("a key is another member's: each member has one of its own");
            }
            if self.former_keys.contains(&key) && !planted("key-used-again") {
                return Err("a key that was a member's before is never used again: make another one");
            }
        }
        let rekeys = |member: &Member| before.get(member.replica).is_some_and(|was| was.key != member.key);
        if self.former_keys.len() >= KEYS_MAX && now.members().iter().any(rekeys) {
            return Err("so many keys were given up that no more are kept: replace the member by a new one");
        }
        Ok(())
    }

    /// Executes an ordered command.
    pub(crate) fn execute(&mut self, command: SystemCommand) -> Done {
        match command {
            SystemCommand::Change(change) => {
                if let Err(why) = self.check(&change) {
                    return Done::Refused(why);
                }
                self.used.extend(change.replicas());
                let keys = |membership: &Membership| -> BTreeSet<[u8; 32]> {
                    membership.members().iter().filter_map(|member| member.key).collect()
                };
                let before = change.before().map(keys).unwrap_or_default();
                self.former_keys.extend(before.difference(&keys(change.now())));
                self.change = Some(change.clone());
                Done::Begun(change)
            }
            SystemCommand::Changed(number) => {
                let Some(change) = self.change.take_if(|change| change.now().number() == number) else {
                    return Done::Refused("it is over already");
                };
                let last = self.current.as_ref().map_or(MembershipId::FIRST, Membership::number);
                assert!(number == last.next(), "INV-ROSTER-1: {number} follows {last}");
                self.current = Some(change.now().clone());
                Done::Ended(number)
            }
            SystemCommand::Raise(_)
            | SystemCommand::RaiseService(_)
            | SystemCommand::Instances(_)
            | SystemCommand::Holds(_)
            | SystemCommand::Back(_)
            | SystemCommand::Era(_)
            | SystemCommand::Neighbour(_)
            | SystemCommand::Signed(_) => Done::Refused("it is not about the membership"),
        }
    }

    /// An era begins: its members are those of a first membership again, and ids and keys that were used stay used.
    pub(crate) fn begin_era(&mut self, era: &Era) {
        self.created = era.members.members().len() as u16;
        (self.current, self.change) = (None, None);
    }

    /// Appends the roster's bytes.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        let commanded = self.administration != Administration::default();
        let gave_up = !self.former_keys.is_empty();
        let created =
            self.created | if commanded { COMMANDED } else { 0 } | if gave_up { GAVE_UP } else { 0 };
        out.extend_from_slice(&created.to_le_bytes());
        out.extend_from_slice(&(self.used.len() as u16).to_le_bytes());
        self.used.iter().for_each(|id| out.extend_from_slice(&id.number().to_le_bytes()));
        let current = self.current.clone().map(Memberships::one);
        for memberships in [&current, &self.change] {
            let bytes = memberships.as_ref().map(Memberships::encode).unwrap_or_default();
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(&bytes);
        }
        if commanded {
            let mut bytes = Vec::new();
            self.administration.write_to(&mut bytes);
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(&bytes);
        }
        if gave_up {
            out.extend_from_slice(&(self.former_keys.len() as u32).to_le_bytes());
            self.former_keys.iter().for_each(|key| out.extend_from_slice(key));
        }
    }

    /// The same with these keys that members gave up, as [`Self::write_to`] wrote them.
    ///
    /// # Errors
    /// When they are none, or not in ascending order.
    pub(crate) fn with_former_keys(self, keys: Vec<[u8; 32]>) -> Result<Self, &'static str> {
        let sorted = keys.is_sorted_by(|one, next| one < next);
        if keys.is_empty() || !sorted || self.used.is_empty() {
            return Err("what it says of members' keys does not fit together");
        }
        Ok(Self { former_keys: keys.into_iter().collect(), ..self })
    }

    /// The roster from its parts, as [`Self::write_to`] wrote them.
    ///
    /// # Errors
    /// When the parts contradict each other.
    pub(crate) fn from_parts(
        created: u16,
        used: Vec<ReplicaId>,
        current: Option<Memberships>,
        change: Option<Memberships>,
        administration: Administration,
    ) -> Result<Self, &'static str> {
        let sorted = used.is_sorted_by(|one, next| one < next);
        let joint = current.as_ref().is_some_and(|current| current.before().is_some());
        let current = current.map(|current| current.now().clone());
        let number = current.as_ref().map_or(MembershipId::FIRST, Membership::number);
        let follows =
            change.as_ref().is_none_or(|change| change.before().is_some_and(|b| b.number() == number));
        let begun = current.is_some() || change.is_some();
        if !sorted || joint || !follows || begun && used.is_empty() || created == 0 {
            return Err("what it says of the membership does not fit together");
        }
        let (used, former_keys) = (used.into_iter().collect(), BTreeSet::new());
        Ok(Self { created, used, current, change, former_keys, administration })
    }
}

#[cfg(test)]
mod tests;

//! Replicas join and leave: what the ordered commands would do is done here.

use super::{Machine, World, place, replica};
use crate::Input;
use crate::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use quorate_types::{FaultModel, Faults, MembershipId, ReplicaId, Slot};
use quorate_wire::{Batch, BatchHeader, Holds, Member, MemberRole, Membership, Memberships, SystemCommand};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// No cluster grows beyond.
const MOST: usize = 8;

/// What the world knows of memberships.
pub(in crate::mod_smart) struct Changes {
    /// The last one that is there.
    pub(in crate::mod_smart) membership: Membership,
    /// What was ordered and is not over.
    pub(in crate::mod_smart) change: Option<Arc<Memberships>>,
    ordered: Vec<Arc<Memberships>>,
    known: BTreeMap<MembershipId, Membership>,
    /// Which membership votes on a slot.
    votes: BTreeMap<Slot, MembershipId>,
    pub(in crate::mod_smart) done: u64,
    pub(in crate::mod_smart) removed: u64,
}

impl Changes {
    pub(super) fn new(members: usize) -> Self {
        let founders: Vec<ReplicaId> = (0..members).map(replica).collect();
        let membership = Memberships::created(&founders).now().clone();
        Self {
            known: [(membership.number(), membership.clone())].into(),
            membership,
            change: None,
            ordered: Vec::new(),
            votes: BTreeMap::new(),
            done: 0,
            removed: 0,
        }
    }

    /// Whether what is decided about the membership was ordered, or says what holds.
    pub(super) fn knows(&self, batch: &Batch) -> bool {
        let command = SystemCommand::of(batch);
        let Holds { change, .. } = match &command {
            Some(holds @ SystemCommand::Holds(said)) if holds.batch(BatchHeader::default()) == *batch => said,
            Some(SystemCommand::Back(_)) => return true,
            _ => return false,
        };
        let known = self.known.get(&change.now().number());
        let repeated = change.before().is_none() && known == Some(change.now());
        repeated || self.ordered.iter().any(|ordered| **ordered == *change)
    }

    /// A slot is voted on by one membership.
    pub(super) fn look(&mut self, from: usize, message: &ModSmartMessage) {
        let (Body::Write { slot, .. } | Body::Accept { slot, .. } | Body::Propose { slot, .. }) =
            &message.body
        else {
            return;
        };
        let first = *self.votes.entry(*slot).or_insert(message.membership);
        assert_eq!(first, message.membership, "replica {from} votes on {slot} in another membership");
    }
}

impl World {
    /// Those whose membership it is now, voters and learners.
    pub(in crate::mod_smart) fn current(&self) -> Vec<usize> {
        self.changes.membership.members().iter().map(|member| place(member.replica)).collect()
    }

    fn new_machine(&mut self) -> ReplicaId {
        // Who proved what there was before is known to who joins only where nobody lies.
        let crash = self.plan.model == FaultModel::Crash;
        let joined = crash.then(|| self.current().into_iter().map(replica).collect());
        self.machines.push(Machine { joined, ..Machine::default() });
        self.lies.push(None);
        let at = self.machines.len() - 1;
        self.start(at);
        replica(at)
    }

    /// Whether so many liars among those who vote are survived.
    fn is_enough(&self, members: &[Member]) -> bool {
        let voters: Vec<_> = members.iter().filter(|member| member.role == MemberRole::Voter).collect();
        let liars = voters.iter().filter(|member| !self.is_honest(place(member.replica))).count();
        let least = if self.plan.model == FaultModel::Byzantine { 4 } else { 1 };
        voters.len() >= least
            && liars <= Faults::of(self.plan.model).among(voters.len() as u32).faults() as usize
    }

    /// A change is ordered, unless one is under way: replicas join, are promoted, leave, one or several at once.
    pub(in crate::mod_smart) fn order_change(&mut self) {
        if self.changes.change.is_some() {
            return;
        }
        let before = self.changes.membership.clone();
        let mut members = before.members().to_vec();
        for _ in 0..1 + self.random.below(3) {
            let which = self.random.below(members.len() as u64) as usize;
            match self.random.below(6) {
                0 | 1 if members.len() < MOST && self.machines.len() < 3 * MOST => {
                    let id = self.new_machine();
                    members.push(Member::learner(id));
                }
                2 | 3 => members[which].role = MemberRole::Voter,
                4 => members[which].role = MemberRole::Learner,
                _ => drop(members.remove(which)),
            }
            if !self.is_enough(&members) {
                return;
            }
        }
        self.order_one(before, members);
    }

    /// Often the leader is the first to execute it.
    fn order_one(&mut self, before: Membership, members: Vec<Member>) {
        let now = Membership::new(before.number().next(), members).expect("somebody votes");
        let change = Arc::new(Memberships::change(before, now).expect("the next one"));
        self.changes.ordered.push(change.clone());
        self.changes.change = Some(change);
        if let Some(leader) = self.leader().filter(|_| self.random.below(2) == 0) {
            self.tell_change(leader);
        }
    }

    /// This replica executed the command that asks for the change; or the one that says that it is over.
    pub(in crate::mod_smart) fn tell_change(&mut self, at: usize) {
        let mut all: Vec<ReplicaId> = self.current().into_iter().map(replica).collect();
        all.extend(self.changes.change.iter().flat_map(|change| change.replicas()));
        self.step(at, Input::Listeners(all.into()));
        if let Some(change) = self.changes.change.clone() {
            self.step(at, Input::Membership(change));
        }
    }

    pub(in crate::mod_smart) fn tell_everybody(&mut self) {
        (0..self.members()).for_each(|at| self.tell_change(at));
    }

    /// A replica says what membership holds there.
    pub(super) fn on_members(&mut self, at: usize, memberships: &Memberships, there: bool) {
        if !self.is_honest(at) {
            return;
        }
        let now = memberships.now();
        match self.changes.known.entry(now.number()) {
            Entry::Vacant(entry) => drop(entry.insert(now.clone())),
            Entry::Occupied(known) => {
                assert_eq!(known.get(), now, "replica {at} has another membership");
            }
        }
        if there && self.changes.change.as_ref().is_some_and(|change| change.now() == now) {
            let left = |member: &&Member| now.get(member.replica).is_none();
            self.changes.removed += self.changes.membership.members().iter().filter(left).count() as u64;
            self.changes.done += 1;
            (self.changes.change, self.changes.membership) = (None, now.clone());
        }
    }

    /// Somebody who is no member any more is switched off for good.
    pub(in crate::mod_smart) fn retire(&mut self) {
        let current = self.current();
        let under_way = self.changes.change.as_ref().map(|change| change.replicas()).unwrap_or_default();
        let over = |at: &usize| !current.contains(at) && !under_way.contains(&replica(*at));
        let left: Vec<usize> = (0..self.members()).filter(over).collect();
        for at in left {
            if self.is_up(at) {
                self.crash(at);
            }
            self.machines[at].retired = true;
        }
    }

    /// Who may be started.
    pub(in crate::mod_smart) fn is_retired(&self, at: usize) -> bool {
        self.machines[at].retired
    }
}

//! Replicas join and leave: what the ordered commands would do is done here.

use super::{Machine, World, place, replica};
use crate::{Input, Order};
use quorate_types::ReplicaId;
use quorate_wire::{Member, MemberRole, Membership, Memberships};
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// No cluster grows beyond.
const MOST: usize = 7;

impl World {
    /// Those whose membership it is now, voters and learners.
    pub(in crate::raft) fn current(&self) -> Vec<usize> {
        self.membership.members().iter().map(|member| place(member.replica)).collect()
    }

    /// A machine that nobody knew so far.
    fn new_machine(&mut self) -> ReplicaId {
        self.machines.push(Machine::default());
        let at = self.machines.len() - 1;
        self.start(at);
        replica(at)
    }

    /// A change is ordered, unless one is under way: replicas join, are promoted, leave, one or several at once.
    pub(in crate::raft) fn order_change(&mut self) {
        if self.change.is_some() {
            return;
        }
        let before = self.membership.clone();
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
            if members.iter().all(|member| member.role == MemberRole::Learner) {
                return;
            }
        }
        let now = Membership::new(before.number().next(), members).expect("somebody votes");
        self.change = Some(Arc::new(Memberships::change(before, now).expect("the next one")));
        // Often the leader is the first to execute.
        if let Some(leader) = self.leader().filter(|_| self.random.below(2) == 0) {
            self.tell_change(leader);
        }
    }

    /// This replica executed the command that asks for the change.
    pub(in crate::raft) fn tell_change(&mut self, at: usize) {
        if let Some(change) = self.change.clone() {
            self.step(at, Input::Membership(change));
        }
    }

    /// A replica says what memberships hold there.
    pub(super) fn on_members(&mut self, at: usize, memberships: &Memberships, committed: bool) {
        let number = memberships.now().number();
        if !committed || memberships.before().is_some() {
            return;
        }
        // A replica that joins knows nothing before its first entry.
        if number.number() > 1 {
            match self.memberships.entry(number.number()) {
                Entry::Vacant(entry) => drop(entry.insert(memberships.now().clone())),
                Entry::Occupied(known) => {
                    assert_eq!(known.get(), memberships.now(), "replica {at} has another membership");
                }
            }
        }
        if self.change.as_ref().is_some_and(|change| change.now().number() == number) {
            self.change = None;
            self.membership = memberships.now().clone();
        }
    }

    /// Tells everybody who is there.
    pub(in crate::raft) fn tell_all(&mut self) {
        (0..self.members()).for_each(|at| self.tell_change(at));
    }

    /// Whether a replica leads that does not vote in what is committed there.
    pub(in crate::raft) fn stranger_leads(&self) -> bool {
        (0..self.members()).any(|at| {
            let raft = self.machines[at].raft.as_ref();
            raft.is_some_and(|raft| {
                raft.standing().leading && !raft.status().membership.is_voter(replica(at))
            })
        })
    }

    /// Where everybody stands, to read when something is stuck.
    pub(in crate::raft) fn describe(&self) -> String {
        let mut text = format!("{:?}\n{:?}\n", self.change, self.membership);
        for (at, machine) in self.machines.iter().enumerate() {
            let status = machine
                .raft
                .as_ref()
                .map(|raft| (raft.status(), raft.store.commit(), raft.store.log().last()));
            text += &format!("{at}: waits {} {status:?}\n", machine.waiting.is_some());
        }
        text
    }
}

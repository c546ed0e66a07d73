//! Which learners have caught up. Each leader knows it for its own instance, and tells the leader of the first instance, which promotes
//! them.

use crate::group::Group;
use quorate_types::ReplicaId;
use std::collections::BTreeMap;

/// What leaders tell each other about learners that have caught up.
#[derive(Debug, Default)]
pub(super) struct CaughtUp {
    /// What the leaders of other instances told: by instance and leader, the replicas that have caught up.
    told: BTreeMap<(usize, ReplicaId), Vec<ReplicaId>>,
    /// What this replica told about the instances that it leads: by instance, to which replica, and the replicas that have caught up.
    said: BTreeMap<usize, (ReplicaId, Vec<ReplicaId>)>,
}

impl CaughtUp {
    /// A replica is connected: what it was told is told again.
    pub(super) fn met(&mut self, replica: ReplicaId) {
        self.said.retain(|_, (to, _)| *to != replica);
    }

    /// A replica is lost: what it said may no longer be true.
    pub(super) fn lost(&mut self, replica: ReplicaId) {
        self.told.retain(|(_, from), _| *from != replica);
    }

    /// A leader says which replicas have caught up with its instance.
    pub(super) fn told(&mut self, at: usize, from: ReplicaId, replicas: Vec<ReplicaId>) {
        self.told.insert((at, from), replicas);
    }

    /// The replicas that have caught up in all instances, as far as the leader of the first one knows.
    pub(super) fn of_all(&self, groups: &[Group], me: ReplicaId) -> Vec<ReplicaId> {
        let Some(first) = groups.first() else { return Vec::new() };
        let mut all = first.status().caught_up;
        let present = |(_, group): &(usize, &Group)| group.stay().is_present();
        for (at, group) in groups.iter().enumerate().skip(1).filter(present) {
            let of = match group.leader() {
                Some(leader) if leader == me => group.status().caught_up,
                Some(leader) => self.told.get(&(at, leader)).cloned().unwrap_or_default(),
                None => Vec::new(),
            };
            // The leader of an instance lacks nothing of it.
            let leads = |replica: &ReplicaId| group.leader() == Some(*replica);
            all.retain(|replica| of.contains(replica) || leads(replica));
        }
        all
    }

    /// What the leader of the first instance was not told yet: instances, and the replicas that have caught up with them.
    pub(super) fn news(&mut self, groups: &[Group], to: ReplicaId) -> Vec<(usize, Vec<ReplicaId>)> {
        let mut news = Vec::new();
        for (at, group) in groups.iter().enumerate().skip(1) {
            if !group.standing().leading {
                self.said.remove(&at);
                continue;
            }
            let said = (to, group.status().caught_up);
            if self.said.get(&at) != Some(&said) {
                news.push((at, said.1.clone()));
                self.said.insert(at, said);
            }
        }
        news
    }
}

//! Which learners have caught up: each leader knows it of its own instance, and tells whoever leads the first one, which promotes them.

use crate::group::Group;
use quorate_types::ReplicaId;
use std::collections::BTreeMap;

/// Who has caught up, as leaders tell each other.
#[derive(Debug, Default)]
pub(super) struct CaughtUp {
    /// In the instances that others lead, as those told.
    told: BTreeMap<(usize, ReplicaId), Vec<ReplicaId>>,
    /// What this replica told of the instances that it leads, and whom.
    said: BTreeMap<usize, (ReplicaId, Vec<ReplicaId>)>,
}

impl CaughtUp {
    /// Another replica is connected anew: what it was told is told again.
    pub(super) fn met(&mut self, replica: ReplicaId) {
        self.said.retain(|_, (to, _)| *to != replica);
    }

    /// It is lost: what it said may not be so any more.
    pub(super) fn lost(&mut self, replica: ReplicaId) {
        self.told.retain(|(_, from), _| *from != replica);
    }

    /// Another leader says who has caught up with it.
    pub(super) fn told(&mut self, at: usize, from: ReplicaId, replicas: Vec<ReplicaId>) {
        self.told.insert((at, from), replicas);
    }

    /// Those that have caught up in all instances, as the leader of the first one knows.
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
            // Who leads there lacks nothing of it.
            let leads = |replica: &ReplicaId| group.leader() == Some(*replica);
            all.retain(|replica| of.contains(replica) || leads(replica));
        }
        all
    }

    /// What whoever leads the first instance is not told yet: the instance, and who has caught up in it.
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

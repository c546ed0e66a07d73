//! What is known of members, by the membership from which it holds. INV-SMART-14. Tests: tests/keys.rs.

use quorate_types::{MembershipId, ReplicaId};
use std::collections::BTreeMap;

/// A value of each member, from some membership on. What was said of one membership stays.
#[derive(Clone, Debug)]
pub(crate) struct ByMembership<T> {
    /// By member: the values and the memberships from which they hold, in ascending order.
    members: BTreeMap<ReplicaId, Vec<(MembershipId, T)>>,
}

impl<T> Default for ByMembership<T> {
    fn default() -> Self {
        Self { members: BTreeMap::new() }
    }
}

impl<T: PartialEq> ByMembership<T> {
    /// The value in a membership; none before the first one of which something is known.
    pub(crate) fn of(&self, member: ReplicaId, membership: MembershipId) -> Option<&T> {
        let list = self.members.get(&member)?;
        list.iter().rev().find(|(since, _)| *since <= membership).map(|(_, value)| value)
    }

    /// The first known value.
    pub(crate) fn first_of(&self, member: ReplicaId) -> Option<&T> {
        self.members.get(&member)?.first().map(|(_, value)| value)
    }

    /// In this membership the member has this value. Values never come back, so that one which holds before and after holds between.
    pub(crate) fn know(&mut self, member: ReplicaId, membership: MembershipId, value: T) {
        let list = self.members.entry(member).or_default();
        let after = list.partition_point(|(since, _)| *since <= membership);
        let before = after.checked_sub(1).map(|at| &list[at]);
        if before.is_none_or(|(since, known)| *since < membership && *known != value) {
            list.insert(after, (membership, value));
        }
    }

    /// The first known value of each member.
    pub(crate) fn first(&self) -> impl Iterator<Item = (ReplicaId, &T)> {
        self.members.iter().filter_map(|(id, list)| list.first().map(|(_, value)| (*id, value)))
    }
}

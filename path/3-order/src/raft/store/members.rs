//! Who takes part. Memberships lie in the log and hold from the moment at which they are appended. An entry that is replaced takes its
//! membership with it. docs/protocols/raft.md L108-L114, L123.
//!
//! Tests: tests/members.rs.

use super::Store;
use crate::raft::message::Index;
use quorate_types::{MembershipId, ReplicaId, planted};
use quorate_wire::Memberships;
use std::sync::Arc;

impl Store {
    /// The memberships that hold here: the last ones in the log, committed or not. [raft L109]
    pub(in crate::raft) fn membership(&self) -> &Arc<Memberships> {
        self.log.members().unwrap_or(&self.created)
    }

    /// All memberships that held since the log's beginning, oldest first.
    pub(in crate::raft) fn named_members(&self) -> Vec<Arc<Memberships>> {
        let first = self.log.members_before(self.log.floor().index).then(|| self.created.clone());
        first.into_iter().chain(self.log.members_from(Index::ZERO).cloned()).collect()
    }

    /// The memberships by which quorums are counted: those that hold.
    pub(in crate::raft) fn counting(&self) -> &Memberships {
        let left = planted("removed-leader-goes-on") && !self.is_voter(self.me);
        if planted("old-quorum-after-change") || left {
            return self.log.first_members().unwrap_or(&self.created);
        }
        self.membership()
    }

    /// Whether a replica votes in the memberships that hold here.
    pub(in crate::raft) fn is_voter(&self, replica: ReplicaId) -> bool {
        self.membership().is_voter(replica)
    }

    /// Whether this replica votes.
    pub(in crate::raft) fn votes(&self) -> bool {
        self.is_voter(self.me)
    }

    /// Whether this replica may stand for election: it votes, or it voted before entries that are not committed yet. In the second case it
    /// may be the only one that can bring the others those entries; it does not count its own vote. [raft L123]
    pub(in crate::raft) fn may_stand(&self) -> bool {
        let me = self.me;
        self.is_voter(me)
            || (!self.membership_is_committed() && {
                let mut later = self.log.members_from(self.commit);
                let created = self.log.members_before(self.commit) && self.created.is_voter(me);
                created || later.any(|memberships| memberships.is_voter(me))
            })
    }

    /// Whether the replicas for which `holds` is true are a quorum, in both memberships if there are two. [raft L110]
    pub(in crate::raft) fn has_quorum(&self, holds: impl Fn(ReplicaId) -> bool) -> bool {
        self.counting().has_quorum(0, holds)
    }

    /// Whether this replica alone is a quorum.
    pub(in crate::raft) fn is_quorum_alone(&self) -> bool {
        self.has_quorum(|id| id == self.me)
    }

    /// Voters beside this replica.
    pub(in crate::raft) fn other_voters(&self) -> Vec<ReplicaId> {
        let (me, memberships) = (self.me, self.membership());
        memberships.replicas().into_iter().filter(|id| *id != me && memberships.is_voter(*id)).collect()
    }

    /// All replicas that are sent the log: the members, those that leave until the change is committed, and those that the host names.
    /// [raft L114, L141]
    pub(in crate::raft) fn audience(&self, listeners: &[ReplicaId]) -> Vec<ReplicaId> {
        let mut all = self.membership().replicas();
        all.extend_from_slice(listeners);
        all.extend(self.log.members_from(self.commit).flat_map(|memberships| memberships.replicas()));
        if self.log.members_before(self.commit) {
            all.extend(self.created.replicas());
        }
        all.retain(|id| *id != self.me);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether the memberships that hold here are committed.
    pub(in crate::raft) fn membership_is_committed(&self) -> bool {
        self.log.members_at().is_none_or(|index| index <= self.commit)
    }

    /// The membership that is committed here; during a change the old one.
    pub(in crate::raft) fn committed_number(&self) -> MembershipId {
        let memberships = self.membership();
        let done = memberships.before().is_none() && self.membership_is_committed();
        let number = memberships.now().number();
        if done { number } else { number.previous() }
    }
}

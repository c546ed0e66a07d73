//! A leader carries out changes of membership by joint consensus. docs/protocols/raft.md L112-L121, L124.
//!
//! A change takes two entries. The first holds both memberships: elections, commits, reads and the leader's office need a quorum of each.
//! Once it is committed, the leader appends the second entry, with the new membership alone. So two disjoint quorums can never decide.
//!
//! Source: Ongaro's dissertation, section 4.3 (joint consensus), 4.2.1 (catching up), 4.2.2 (removing the leader).
//!
//! INV-RAFT-18, INV-RAFT-20. Tests: tests/members.rs, tests/chaos.rs.

use super::progress::Progress;
use super::{Leading, Office, Scene};
use crate::raft::message::{Entry, EntryBody, Index, RaftMessage};
use crate::raft::send;
use quorate_types::{ReplicaId, planted};
use quorate_wire::Memberships;
use std::sync::Arc;

impl Leading {
    /// Takes the next step of a change, if the one before is committed. [raft L116-L121]
    pub(in crate::raft) fn advance_membership(&mut self, scene: &mut Scene<'_>) -> Office {
        let store = &*scene.store;
        if self.handover.is_under_way() || store.commit() < self.start || !store.membership_is_committed() {
            return Office::CachedEntry;
        }
        let current = store.membership().clone();
        if current.before().is_some() {
            self.append_members(Arc::new(current.ended()), scene);
            return Office::CachedEntry;
        }
        let me = scene.config.me;
        if let Some(wanted) = scene.changes.next(&current) {
            if !wanted.now().is_voter(me) && self.hands_over_first(&wanted, scene) {
                return Office::CachedEntry;
            }
            let direct = wanted.keeps_voters();
            self.append_members(if direct { Arc::new(wanted.ended()) } else { wanted }, scene);
            return Office::CachedEntry;
        }
        if !current.now().is_voter(me) && !planted("removed-leader-goes-on") {
            self.leave_office(scene);
            return Office::Left;
        }
        Office::CachedEntry
    }

    /// [raft L112, L114]
    fn append_members(&mut self, memberships: Arc<Memberships>, scene: &mut Scene<'_>) {
        let store = &mut *scene.store;
        assert!(
            store.membership_is_committed()
                && memberships.now().number() >= store.membership().now().number(),
            "INV-RAFT-18: one change after the other"
        );
        store.append(Entry { view: store.view(), body: EntryBody::Members(memberships) }, scene.out);
        self.meet_audience(scene);
        self.replicate(scene);
        // A round of reads under way may need no more answers than it has: replicas that left send none.
        self.confirm_reads(scene);
    }

    /// A leader that will not vote any more hands over before the change, once. [raft L118]
    fn hands_over_first(&mut self, wanted: &Memberships, scene: &mut Scene<'_>) -> bool {
        if !self.handover.tries_for(wanted.now().number()) {
            return false;
        }
        let Some(target) = self.most_advanced(wanted, scene) else { return false };
        self.hand_over(target, scene);
        self.handover.is_under_way()
    }

    /// The most advanced of the voters after the change, among those heard lately.
    fn most_advanced(&self, memberships: &Memberships, scene: &Scene<'_>) -> Option<ReplicaId> {
        let alive = |peer: &&Progress| scene.now.since(peer.heard) < scene.config.election_max;
        let voters = self.peers.iter().filter(|peer| memberships.now().is_voter(peer.id));
        voters.filter(alive).max_by_key(|peer| peer.matched).map(|peer| peer.id)
    }

    /// The leader has no vote any more, and that is committed, so it gives up its office. [raft L121]
    fn leave_office(&mut self, scene: &mut Scene<'_>) {
        self.tell_commit(None, scene);
        if let Some(to) = self.most_advanced(scene.store.membership(), scene) {
            send(scene.out, to, RaftMessage::TimeoutNow { view: scene.store.view() }, None);
        }
    }

    /// The leader committed more entries, so the next step of a change may be due. [raft L113-L114, L119]
    pub(super) fn committed_members(&mut self, before: Index, scene: &mut Scene<'_>) -> Office {
        let store = &*scene.store;
        let news = store.log().members_at().is_some_and(|index| index > before && index <= store.commit());
        if news {
            // A replica that leaves is told so, if it still listens.
            self.tell_commit(None, scene);
            self.meet_audience(scene);
        }
        self.advance_membership(scene)
    }
}

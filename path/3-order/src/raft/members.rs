//! Who takes part: memberships lie in the log, hold from the moment at which they are appended, and change by joint consensus.
//! docs/protocols/raft.md L108-L126.
//!
//! A change takes two entries. The first holds both memberships: elections, commits, reads and the office of the leader need a
//! quorum of each. Once it is committed the leader appends the second, with the new membership alone. So there is no moment at
//! which two disjoint quorums could decide. An entry that is replaced takes its membership with it.
//!
//! Source: Ongaro's dissertation, section 4.3 (joint consensus), 4.2.1 (catching up), 4.2.2 (removing the leader).
//!
//! INV-RAFT-18 to INV-RAFT-20. Tests: tests/members.rs, tests/chaos.rs.

use super::progress::Progress;
use super::{Raft, Role, send};
use crate::raft::message::{Entry, EntryBody, Index, RaftMessage};
use crate::{Effect, Effects};
use quorate_types::{MembershipId, ReplicaId, planted};
use quorate_wire::Memberships;
use std::sync::Arc;

/// What this replica knows of changes beside the log.
#[derive(Debug)]
pub(super) struct Members {
    /// What the instance began with, before any entry said otherwise. [raft L108]
    created: Arc<Memberships>,
    /// A change that the host wants.
    wanted: Option<Arc<Memberships>>,
    /// Whom the host wants to be sent the log, members or not.
    listeners: Arc<[ReplicaId]>,
    /// What the host was told last: how often the memberships in the log changed by then, and whether the last one was committed.
    told: (u64, bool),
}

impl Members {
    pub(super) fn new(voters: &[ReplicaId]) -> Self {
        let created = Arc::new(Memberships::created(voters));
        Self { created, wanted: None, listeners: Arc::from([]), told: (0, true) }
    }
}

impl Raft {
    /// What holds here: the last one in the log, committed or not. [raft L109]
    pub(super) fn membership(&self) -> &Arc<Memberships> {
        self.log.members().unwrap_or(&self.members.created)
    }

    /// All that held since the log's beginning, oldest first.
    pub(super) fn named_members(&self) -> Vec<Arc<Memberships>> {
        let first = self.log.members_before(self.log.floor().index).then(|| self.members.created.clone());
        first.into_iter().chain(self.log.members_from(Index::ZERO).cloned()).collect()
    }

    /// By whom is counted: the same.
    pub(super) fn counting(&self) -> &Memberships {
        let left = planted("removed-leader-goes-on") && !self.is_voter(self.config.me);
        if planted("old-quorum-after-change") || left {
            return self.log.first_members().unwrap_or(&self.members.created);
        }
        self.membership()
    }

    /// Whether this replica votes in what holds here.
    pub(super) fn is_voter(&self, replica: ReplicaId) -> bool {
        self.membership().is_voter(replica)
    }

    /// Whether this replica may stand for an election: it votes, or did before what is not committed yet. Then it may be the only
    /// one that can bring the others what it has. It does not count itself. [raft L123]
    pub(super) fn may_stand(&self) -> bool {
        let me = self.config.me;
        self.is_voter(me)
            || (!self.membership_is_committed() && {
                let mut later = self.log.members_from(self.commit);
                let created = self.log.members_before(self.commit) && self.members.created.is_voter(me);
                created || later.any(|memberships| memberships.is_voter(me))
            })
    }

    /// Whether those of whom `holds` says so are a quorum, of both memberships if there are two. [raft L110]
    pub(super) fn has_quorum(&self, holds: impl Fn(ReplicaId) -> bool) -> bool {
        self.counting().has_quorum(0, holds)
    }

    /// Voters beside this replica.
    pub(super) fn other_voters(&self) -> Vec<ReplicaId> {
        let (me, memberships) = (self.config.me, self.membership());
        memberships.replicas().into_iter().filter(|id| *id != me && memberships.is_voter(*id)).collect()
    }

    /// Everybody who is sent the log: all of what holds, whoever leaves until that is committed, and whom the host names.
    /// [raft L114, L141]
    fn audience(&self) -> Vec<ReplicaId> {
        let mut all = self.membership().replicas();
        all.extend_from_slice(&self.members.listeners);
        all.extend(self.log.members_from(self.commit).flat_map(|memberships| memberships.replicas()));
        if self.log.members_before(self.commit) {
            all.extend(self.members.created.replicas());
        }
        all.retain(|id| *id != self.config.me);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether what holds here is committed.
    fn membership_is_committed(&self) -> bool {
        self.log.members_at().is_none_or(|index| index <= self.commit)
    }

    /// The host executed a command that asks for this change. [raft L115]
    pub(super) fn on_membership(&mut self, change: Arc<Memberships>, out: &mut Effects) {
        self.members.wanted = Some(change);
        self.advance_membership(out);
    }

    /// The host says who else is sent the log. [raft L141]
    pub(super) fn on_listeners(&mut self, listeners: Arc<[ReplicaId]>, out: &mut Effects) {
        if self.members.listeners == listeners {
            return;
        }
        // Whoever is named no more hears at last what is committed.
        self.tell_commit(None, out);
        self.members.listeners = listeners;
        self.meet_audience();
        self.replicate(out);
    }

    /// Takes the next step of a change, if this replica leads and the one before is committed. [raft L116-L121]
    pub(super) fn advance_membership(&mut self, out: &mut Effects) {
        let Role::Leader(lead) = &self.role else { return };
        if lead.transfer.is_some() || self.commit < lead.start || !self.membership_is_committed() {
            return;
        }
        let current = self.membership().clone();
        if current.before().is_some() {
            return self.append_members(Arc::new(current.ended()), out);
        }
        if let Some(wanted) = self.members.wanted.clone() {
            if wanted.now().number() <= current.now().number() {
                self.members.wanted = None;
            } else if fits(&wanted, &current) {
                if !wanted.now().is_voter(self.config.me) && self.hands_over_first(&wanted, out) {
                    return;
                }
                let direct = wanted.keeps_voters();
                return self.append_members(if direct { Arc::new(wanted.ended()) } else { wanted }, out);
            }
        }
        if !current.now().is_voter(self.config.me) && !planted("removed-leader-goes-on") {
            self.leave_office(out);
        }
    }

    /// [raft L112, L114]
    fn append_members(&mut self, memberships: Arc<Memberships>, out: &mut Effects) {
        assert!(
            self.membership_is_committed() && memberships.now().number() >= self.membership().now().number(),
            "INV-RAFT-18: one change after the other"
        );
        self.append(Entry { view: self.term.view(), body: EntryBody::Members(memberships) }, out);
        self.meet_audience();
        self.replicate(out);
        // A round of reads that is out may need no more answers than it has: whoever left sends none.
        self.confirm_reads(out);
    }

    /// A leader that will not vote any more hands over before the change, once. [raft L118]
    fn hands_over_first(&mut self, wanted: &Memberships, out: &mut Effects) -> bool {
        let Role::Leader(lead) = &mut self.role else { return false };
        let number = wanted.now().number();
        if std::mem::replace(&mut lead.handed_over_for, number) == number {
            return false;
        }
        let Some(target) = self.most_advanced(wanted) else { return false };
        self.on_transfer(Some(target), out);
        matches!(&self.role, Role::Leader(lead) if lead.transfer.is_some())
    }

    /// The voter after a change that has most, and was heard lately.
    fn most_advanced(&self, memberships: &Memberships) -> Option<ReplicaId> {
        let Role::Leader(lead) = &self.role else { return None };
        let alive = |peer: &&Progress| self.life.now.since(peer.heard) < self.config.election_max;
        let voters = lead.peers.iter().filter(|peer| memberships.now().is_voter(peer.id));
        voters.filter(alive).max_by_key(|peer| peer.matched).map(|peer| peer.id)
    }

    /// This leader does not vote any more, and that is committed. [raft L121]
    fn leave_office(&mut self, out: &mut Effects) {
        self.tell_commit(None, out);
        if let Some(to) = self.most_advanced(&self.membership().clone()) {
            send(out, to, RaftMessage::TimeoutNow { view: self.term.view() }, None);
        }
        self.become_follower(self.term.view(), None, out);
    }

    /// The followers that the leader keeps track of are those whom it sends the log.
    pub(super) fn meet_audience(&mut self) {
        let audience = self.audience();
        let (now, next) = (self.life.now, self.log.last().index.next());
        let Role::Leader(lead) = &mut self.role else { return };
        lead.peers.retain(|peer| audience.contains(&peer.id));
        for id in audience {
            if lead.peers.iter().all(|peer| peer.id != id) {
                lead.peers.push(Progress::new(id, next, now));
            }
        }
        lead.peers.sort_by_key(|peer| peer.id);
    }

    /// The leader committed more: perhaps the next step of a change. [raft L113-L114, L119]
    pub(super) fn committed_members(&mut self, before: Index, out: &mut Effects) {
        let news = self.log.members_at().is_some_and(|index| index > before && index <= self.commit);
        if news {
            // Whoever leaves hears that it is so, as far as it listens.
            self.tell_commit(None, out);
            self.meet_audience();
        }
        self.advance_membership(out);
    }

    /// Which membership is in force and committed here; the one that a change leads to is not yet.
    pub(super) fn committed_number(&self) -> MembershipId {
        let memberships = self.membership();
        let done = memberships.before().is_none() && self.membership_is_committed();
        let number = memberships.now().number();
        if done { number } else { number.previous() }
    }

    /// Tells the host what holds, if that is news. [raft L111]
    pub(super) fn tell_members(&mut self, out: &mut Effects) {
        let state = (self.log.members_changes(), self.membership_is_committed());
        if state != self.members.told {
            self.members.told = state;
            let (memberships, committed) = (self.membership().clone(), state.1);
            out.push(Effect::Members { memberships, committed });
        }
    }

    pub(super) fn check_members(&self) {
        let me = self.config.me;
        match &self.role {
            Role::PreCandidate(_) | Role::Candidate(_) => {
                assert!(self.may_stand(), "INV-RAFT-19: only a voter stands for an election");
            }
            Role::Leader(lead) => {
                let open =
                    !self.membership_is_committed() || self.commit < lead.start || lead.transfer.is_some();
                assert!(
                    open || self.is_voter(me),
                    "INV-RAFT-20: who does not vote in a committed membership does not lead"
                );
            }
            Role::Follower => {}
        }
    }
}

/// Whether a change begins with what holds.
fn fits(wanted: &Memberships, current: &Memberships) -> bool {
    wanted.before().is_some_and(|before| {
        before.number() == current.now().number() && before.voters().eq(current.now().voters())
    })
}

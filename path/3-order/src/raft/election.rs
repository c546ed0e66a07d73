//! Elections: pre-vote, vote, and every change of role. docs/protocols/raft.md L9-L27.
//!
//! A candidate asks first whether it would win (pre-vote), so that a replica which was cut off does not push the others
//! into a higher view. A voter that heard of a live leader lately refuses, unless the leader itself wants the change. A
//! vote counts, also the candidate's own, once its record is durable.
//!
//! INV-RAFT-1, INV-RAFT-2, INV-RAFT-9. Tests: tests/election.rs, tests/restart.rs.

use super::replication::Leading;
use super::stays::ends_stay;
use super::{Raft, Role, reject, send};
use crate::Effects;
use crate::raft::message::{Entry, EntryBody, Position, RaftMessage};
use quorate_types::{Reject, ReplicaId, View, planted};
use std::collections::BTreeMap;

/// What the voters answered.
#[derive(Debug, Default)]
pub(super) struct Votes {
    answers: BTreeMap<ReplicaId, bool>,
}

impl Raft {
    /// Whether a live leader is known, so that nobody else should be elected. [raft L14]
    fn leader_is_alive(&self) -> bool {
        matches!(self.role, Role::Leader(_)) || self.timer.hears_leader(self.life.now)
    }

    pub(super) fn on_election_timeout(&mut self, out: &mut Effects) {
        if self.timer.bound(self.life.now).is_some() {
            // [raft L129]
            self.timer.wait_for_promise(self.life.now);
            return;
        }
        if matches!(self.role, Role::Candidate(_) | Role::PreCandidate(_)) {
            self.timer.fail();
        }
        if !self.may_stand() {
            // [raft L123] It waits to be found.
            self.set_leader(None, out);
            return self.timer.reset(self.life.now);
        }
        self.become_pre_candidate(out);
    }

    /// [raft L12-L13]
    fn become_pre_candidate(&mut self, out: &mut Effects) {
        if ends_stay(self.term.view()) {
            // No election can follow; only absurd messages lead here.
            self.timer.stop();
            return;
        }
        self.set_leader(None, out);
        self.role = Role::PreCandidate(Votes::default());
        self.timer.reset(self.life.now);
        let message = RaftMessage::RequestVote {
            view: self.term.view().next(),
            last: self.log.last(),
            pre: true,
            transfer: false,
        };
        for to in self.other_voters() {
            send(out, to, message.clone(), self.view_pending());
        }
        self.count_vote(self.config.me, true, out);
        assert!(!matches!(self.role, Role::Leader(_)), "INV-RAFT-9: a pre-vote makes no leader");
    }

    /// [raft L18-L20]
    pub(super) fn become_candidate(&mut self, transfer: bool, out: &mut Effects) {
        if ends_stay(self.term.view()) {
            return;
        }
        let alone = self.has_quorum(|id| id == self.config.me);
        assert!(
            transfer || alone || self.timer.bound(self.life.now).is_none(),
            "INV-RAFT-21: a promise not to vote is kept"
        );
        self.set_leader(None, out);
        self.persist_vote(self.term.view().next(), Some(self.config.me), out);
        self.role = Role::Candidate(Votes::default());
        self.timer.reset(self.life.now);
        let message =
            RaftMessage::RequestVote { view: self.term.view(), last: self.log.last(), pre: false, transfer };
        for to in self.other_voters() {
            send(out, to, message.clone(), Some(self.term.record()));
        }
        assert!(
            self.term.voted() == Some(self.config.me) && self.term.leader().is_none(),
            "INV-RAFT-9: a candidate votes for itself"
        );
    }

    /// Follows `leader`, or nobody, in `view`, which is not below the present one.
    pub(super) fn become_follower(&mut self, view: View, leader: Option<ReplicaId>, out: &mut Effects) {
        assert!(view >= self.term.view(), "INV-RAFT-2: views only grow");
        let was_follower = matches!(self.role, Role::Follower);
        let old = std::mem::replace(&mut self.role, Role::Follower);
        if let Role::Leader(lead) = old {
            self.end_leadership(*lead, out);
        }
        if view > self.term.view() {
            self.persist_vote(view, None, out);
        }
        if !was_follower {
            self.timer.reset(self.life.now);
        }
        self.set_leader(leader, out);
        assert!(
            matches!(self.role, Role::Follower) && self.term.leader() != Some(self.config.me),
            "INV-RAFT-9: it follows"
        );
    }

    /// [raft L25-L27]
    fn become_leader(&mut self, out: &mut Effects) {
        assert!(self.term.voted() == Some(self.config.me), "INV-RAFT-9: a leader voted for itself");
        assert!(
            self.records.pending(self.term.record()).is_none(),
            "INV-RAFT-9: a leader's own vote is durable"
        );
        assert!(self.term.is_led_by_nobody(), "INV-RAFT-2: a view has one leader");
        let start = self.log.last().index.next();
        self.timer.win();
        self.term.see_leading(self.config.me);
        self.role = Role::Leader(Box::new(Leading::new(&self.config, start, self.life.now)));
        self.note_round();
        self.meet_audience();
        self.set_leader(Some(self.config.me), out);
        let appended = self.append(Entry { view: self.term.view(), body: EntryBody::ViewStart }, out);
        if let Role::Leader(lead) = &mut self.role {
            lead.settled = (self.log.slots(), self.log.bytes());
        }
        self.adopt_waiting_reads(out);
        self.replicate(out);
        assert!(
            appended == start && self.log.last().view == self.term.view(),
            "INV-RAFT-10: a view starts with its own record"
        );
    }

    /// Somebody else leads from here on, or nobody.
    fn set_leader(&mut self, leader: Option<ReplicaId>, out: &mut Effects) {
        if self.term.set_leader(leader) {
            self.fail_asked_reads(out);
        }
        if leader.is_none() {
            self.timer.forget_leader();
        }
        self.announce(out);
        self.ask_leader(out);
    }

    pub(super) fn on_request_vote(
        &mut self,
        from: ReplicaId,
        view: View,
        last: Position,
        pre: bool,
        transfer: bool,
        out: &mut Effects,
    ) {
        if view == View::ZERO || last.view >= view {
            reject(out, from, Reject::Malformed("raft: vote for a view that its own log reached"));
            return;
        }
        let up_to_date = last >= self.log.last() || planted("log-not-compared");
        // [raft L14] Neither votes nor goes to the higher view.
        let alive = view > self.term.view() && self.leader_is_alive();
        // [raft L129] Whoever the leader itself wants is no surprise to it.
        let refused =
            view < self.term.view() || (!transfer && (alive || self.timer.bound(self.life.now).is_some()));
        if pre {
            // [raft L16-L17]
            let granted = !refused && view > self.term.view() && up_to_date && !self.leader_is_alive();
            if granted {
                self.timer.hold_back(self.life.now);
            }
            let view = if granted { view } else { self.term.view() };
            send(out, from, RaftMessage::RequestVoteReply { view, granted, pre }, self.view_pending());
            return;
        }
        if refused {
            let reply = RaftMessage::RequestVoteReply { view: self.term.view(), granted: false, pre };
            send(out, from, reply, self.view_pending());
            return;
        }
        // [raft L21-L23]
        let first = self.term.is_free(view);
        if first && up_to_date {
            self.persist_vote(view, Some(from), out);
            self.become_follower(view, None, out);
            self.timer.reset(self.life.now);
        } else if view > self.term.view() {
            self.become_follower(view, None, out);
        }
        let granted = self.term.voted() == Some(from);
        let after = self.view_pending().filter(|_| !planted("vote-before-sync"));
        send(out, from, RaftMessage::RequestVoteReply { view, granted, pre }, after);
    }

    pub(super) fn on_request_vote_reply(
        &mut self,
        from: ReplicaId,
        view: View,
        granted: bool,
        pre: bool,
        out: &mut Effects,
    ) {
        if view > self.term.view() && !(pre && granted) {
            self.become_follower(view, None, out);
            return;
        }
        let counts = match &self.role {
            // A refusal carries the voter's view, which may be lower.
            Role::PreCandidate(_) => pre && (!granted || view == self.term.view().next()),
            Role::Candidate(_) => !pre && view == self.term.view(),
            Role::Follower | Role::Leader(_) => false,
        };
        if counts {
            self.count_vote(from, granted, out);
        }
    }

    /// The candidate's own vote counts when it is durable. [raft L19]
    pub(super) fn count_own_vote(&mut self, out: &mut Effects) {
        if matches!(self.role, Role::Candidate(_)) && self.view_pending().is_none() {
            self.count_vote(self.config.me, true, out);
        }
    }

    /// [raft L24]
    fn count_vote(&mut self, voter: ReplicaId, granted: bool, out: &mut Effects) {
        if !self.is_voter(voter) && voter != self.config.me {
            return;
        }
        let (pre, votes) = match &mut self.role {
            Role::PreCandidate(votes) => (true, votes),
            Role::Candidate(votes) => (false, votes),
            Role::Follower | Role::Leader(_) => return,
        };
        let answer = votes.answers.entry(voter).or_insert(granted);
        *answer |= granted;
        let answers = votes.answers.clone();
        let given = |id: ReplicaId| answers.get(&id).copied();
        let twice = usize::from(planted("vote-counted-twice"));
        let for_it = self.counting().has_quorum(twice, |id| given(id) == Some(true));
        let own_counts = given(self.config.me) == Some(true);
        if for_it && pre {
            self.become_candidate(false, out);
        } else if for_it && own_counts {
            self.become_leader(out);
        } else if !self.has_quorum(|id| given(id) != Some(false)) {
            // It can not win any more.
            self.timer.fail();
            self.become_follower(self.term.view(), None, out);
        }
    }
}

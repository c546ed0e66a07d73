//! Elections: pre-vote, vote, and every change of role. docs/protocols/raft.md L9-L27.
//!
//! A candidate asks first whether it would win (pre-vote), so that a replica which was cut off does not push the others into a higher view.
//! A voter that lately heard of a live leader refuses, unless that leader itself wants the election. A vote, even the candidate's own,
//! counts once its record is durable.
//!
//! INV-RAFT-1, INV-RAFT-2, INV-RAFT-9, INV-RAFT-19. Tests: tests/votes.rs, tests/election.rs, tests/restart.rs.

use super::stays::ends_stay;
use super::store::Store;
use super::{Leading, Raft, Role, Scene, reject, send};
use crate::Effects;
use crate::raft::message::{Position, RaftMessage};
use quorate_types::{Reject, ReplicaId, View, planted};
use std::collections::BTreeMap;

/// The voters' answers.
#[derive(Debug, Default)]
pub(super) struct Votes {
    answers: BTreeMap<ReplicaId, bool>,
}

/// The result of the answers so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VoteResult {
    /// A quorum voted for it.
    Won,
    /// No quorum can vote for it any more.
    Lost,
    Open,
}

impl Votes {
    /// Counts the answer of one voter. A granted vote is never taken back. In an election the candidate's own vote must be among them.
    /// [raft L24]
    pub(super) fn count(
        &mut self,
        voter: ReplicaId,
        granted: bool,
        store: &Store,
        own: ReplicaId,
    ) -> VoteResult {
        *self.answers.entry(voter).or_insert(granted) |= granted;
        let given = |id: ReplicaId| self.answers.get(&id).copied();
        let twice = usize::from(planted("vote-counted-twice"));
        let for_it = store.counting().has_quorum(twice, |id| given(id) == Some(true));
        if for_it && given(own) == Some(true) {
            VoteResult::Won
        } else if store.has_quorum(|id| given(id) != Some(false)) {
            VoteResult::Open
        } else {
            VoteResult::Lost
        }
    }
}

impl Raft {
    /// Whether a live leader is known, so that no other replica should be elected. [raft L14]
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
        if !self.store.may_stand() {
            // [raft L123] It waits to be found.
            self.set_leader(None, out);
            return self.timer.reset(self.life.now);
        }
        self.become_pre_candidate(out);
    }

    /// [raft L12-L13]
    fn become_pre_candidate(&mut self, out: &mut Effects) {
        if ends_stay(self.store.view()) {
            // No election can follow; only absurd messages lead here.
            self.timer.stop();
            return;
        }
        self.set_leader(None, out);
        self.role = Role::PreCandidate(Votes::default());
        self.timer.reset(self.life.now);
        let message = RaftMessage::RequestVote {
            view: self.store.view().next(),
            last: self.store.log().last(),
            pre: true,
            transfer: false,
        };
        for to in self.store.other_voters() {
            send(out, to, message.clone(), self.store.view_pending());
        }
        self.count_vote(self.config.me, true, out);
        assert!(!matches!(self.role, Role::Leader(_)), "INV-RAFT-9: a pre-vote makes no leader");
    }

    /// [raft L18-L20]
    pub(super) fn become_candidate(&mut self, transfer: bool, out: &mut Effects) {
        if ends_stay(self.store.view()) {
            return;
        }
        let alone = self.store.is_quorum_alone();
        assert!(
            transfer || alone || self.timer.bound(self.life.now).is_none(),
            "INV-RAFT-21: a promise not to vote is kept"
        );
        self.set_leader(None, out);
        self.store.persist_vote(self.store.view().next(), Some(self.config.me), out);
        self.role = Role::Candidate(Votes::default());
        self.timer.reset(self.life.now);
        let message = RaftMessage::RequestVote {
            view: self.store.view(),
            last: self.store.log().last(),
            pre: false,
            transfer,
        };
        for to in self.store.other_voters() {
            send(out, to, message.clone(), Some(self.store.term().record()));
        }
        assert!(
            self.store.term().voted() == Some(self.config.me) && self.store.term().leader().is_none(),
            "INV-RAFT-9: a candidate votes for itself"
        );
    }

    /// Follows `leader`, if one is given, in `view`, which is not below the present view.
    pub(super) fn become_follower(&mut self, view: View, leader: Option<ReplicaId>, out: &mut Effects) {
        assert!(view >= self.store.view(), "INV-RAFT-2: views only grow");
        let was_follower = matches!(self.role, Role::Follower);
        let old = std::mem::replace(&mut self.role, Role::Follower);
        if let Role::Leader(lead) = old {
            lead.end(&self.store, out);
        }
        if view > self.store.view() {
            self.store.persist_vote(view, None, out);
        }
        if !was_follower {
            self.timer.reset(self.life.now);
        }
        self.set_leader(leader, out);
        assert!(
            matches!(self.role, Role::Follower) && self.store.term().leader() != Some(self.config.me),
            "INV-RAFT-9: it follows"
        );
    }

    /// [raft L25-L27]
    fn become_leader(&mut self, out: &mut Effects) {
        assert!(self.store.term().voted() == Some(self.config.me), "INV-RAFT-9: a leader voted for itself");
        assert!(self.store.view_pending().is_none(), "INV-RAFT-9: a leader's own vote is durable");
        assert!(self.store.term().is_led_by_nobody(), "INV-RAFT-2: a view has one leader");
        self.timer.win();
        self.store.see_leading(self.config.me);
        self.set_leader(Some(self.config.me), out);
        let reads = self.asking.take_waiting();
        let mut scene = Scene {
            now: self.life.now,
            config: &self.config,
            store: &mut self.store,
            changes: &mut self.changes,
            counts: &mut self.counts,
            out,
        };
        self.role = Role::Leader(Box::new(Leading::begin(reads, &mut scene)));
    }

    /// Another replica leads from now on, or none.
    fn set_leader(&mut self, leader: Option<ReplicaId>, out: &mut Effects) {
        if self.store.set_leader(leader) {
            self.asking.fail_asked(out);
        }
        if leader.is_none() {
            self.timer.forget_leader();
        }
        self.store.announce(out);
        self.asking.ask(self.life.now, &self.store, out);
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
        let up_to_date = last >= self.store.log().last() || planted("log-not-compared");
        // [raft L14] Neither votes nor goes to the higher view.
        let alive = view > self.store.view() && self.leader_is_alive();
        // [raft L129] The replica that the leader itself names may be elected.
        let refused =
            view < self.store.view() || (!transfer && (alive || self.timer.bound(self.life.now).is_some()));
        if pre {
            // [raft L16-L17]
            let granted = !refused && view > self.store.view() && up_to_date && !self.leader_is_alive();
            if granted {
                self.timer.hold_back(self.life.now);
            }
            let view = if granted { view } else { self.store.view() };
            send(out, from, RaftMessage::RequestVoteReply { view, granted, pre }, self.store.view_pending());
            return;
        }
        if refused {
            let reply = RaftMessage::RequestVoteReply { view: self.store.view(), granted: false, pre };
            send(out, from, reply, self.store.view_pending());
            return;
        }
        // [raft L21-L23]
        let first = self.store.term().is_free(view);
        if first && up_to_date {
            self.store.persist_vote(view, Some(from), out);
            self.become_follower(view, None, out);
            self.timer.reset(self.life.now);
        } else if view > self.store.view() {
            self.become_follower(view, None, out);
        }
        let granted = self.store.term().voted() == Some(from);
        let after = self.store.view_pending().filter(|_| !planted("vote-before-sync"));
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
        if view > self.store.view() && !(pre && granted) {
            self.become_follower(view, None, out);
            return;
        }
        let counts = match &self.role {
            // A refusal carries the voter's view, which may be lower.
            Role::PreCandidate(_) => pre && (!granted || view == self.store.view().next()),
            Role::Candidate(_) => !pre && view == self.store.view(),
            Role::Follower | Role::Leader(_) => false,
        };
        if counts {
            self.count_vote(from, granted, out);
        }
    }

    /// Counts the candidate's own vote once it is durable. [raft L19]
    pub(super) fn count_own_vote(&mut self, out: &mut Effects) {
        if matches!(self.role, Role::Candidate(_)) && self.store.view_pending().is_none() {
            self.count_vote(self.config.me, true, out);
        }
    }

    /// [raft L24]
    fn count_vote(&mut self, voter: ReplicaId, granted: bool, out: &mut Effects) {
        let me = self.config.me;
        if !self.store.is_voter(voter) && voter != me {
            return;
        }
        let (pre, result) = match &mut self.role {
            Role::PreCandidate(votes) => (true, votes.count(voter, granted, &self.store, me)),
            Role::Candidate(votes) => (false, votes.count(voter, granted, &self.store, me)),
            Role::Follower | Role::Leader(_) => return,
        };
        match result {
            VoteResult::Won if pre => self.become_candidate(false, out),
            VoteResult::Won => self.become_leader(out),
            VoteResult::Lost => {
                self.timer.fail();
                self.become_follower(self.store.view(), None, out);
            }
            VoteResult::Open => {}
        }
    }

    /// An earlier life may have promised not to vote. A replica that never entered a view promised nothing. [raft L130]
    pub(super) fn promise_again(&mut self) {
        if self.store.view() > View::ZERO && !planted("restarted-votes-early") {
            self.timer.promise(self.life.now);
        }
    }

    /// [raft L64-L65]
    pub(super) fn on_timeout_now(&mut self, from: ReplicaId, view: View, out: &mut Effects) {
        if view != self.store.view() || !matches!(self.role, Role::Follower) || !self.store.may_stand() {
            return;
        }
        if self.store.term().is_led_by_another(from) {
            return reject(out, from, Reject::NotAllowed("raft: only the leader hands on its office"));
        }
        self.become_candidate(true, out);
    }
}

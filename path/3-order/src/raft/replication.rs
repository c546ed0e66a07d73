//! The leader's part: entries flow to the followers while they go to its own disk, heartbeats keep it in office, and what
//! a quorum holds durably is committed. docs/protocols/raft.md L25-L36, L52-L60.
//!
//! INV-RAFT-7, INV-RAFT-10, INV-RAFT-14. Tests: tests/replication.rs, tests/commit.rs.

use super::leases::Lease;
use super::log::Log;
use super::progress::{Flow, Progress};
use super::reads::LeaderReads;
use super::transfer::Transfer;
use super::{Raft, RaftConfig, Role, reject, send};
use crate::ledger::Records;
use crate::raft::message::{AppendOutcome, ENTRIES_MAX, Entry, EntryBody, Index, RaftMessage};
use crate::{Effects, Stored};
use quorate_types::{MembershipId, Reject, ReplicaId, Span, Time, View, planted};
use quorate_wire::Batch;

/// What a replica keeps only while it leads.
#[derive(Debug)]
pub(super) struct Leading {
    /// The index of this view's first record.
    pub(super) start: Index,
    /// Everybody who is sent the log.
    pub(super) peers: Vec<Progress>,
    /// Slots and bytes of the log up to the commit index, or to `start` where that is later.
    pub(super) settled: (u64, u64),
    /// Rounds of heartbeats begun so far; each message carries it, each answer repeats it.
    pub(super) round: u64,
    pub(super) reads: LeaderReads,
    pub(super) lease: Lease,
    pub(super) transfer: Option<Transfer>,
    /// The change before which it tried to hand over.
    pub(super) handed_over_for: MembershipId,
    pub(super) heartbeat_due: Time,
    /// When followers are told of a commit that no entry carried to them.
    pub(super) commit_due: Option<Time>,
}

impl Leading {
    pub(super) fn new(config: &RaftConfig, start: Index, now: Time) -> Self {
        Self {
            start,
            peers: Vec::new(),
            settled: (0, 0),
            round: 0,
            reads: LeaderReads::default(),
            lease: Lease::default(),
            transfer: None,
            handed_over_for: MembershipId::ZERO,
            heartbeat_due: now.plus(config.heartbeat),
            commit_due: None,
        }
    }

    pub(super) fn deadline(&self) -> Time {
        let transfer = self.transfer.as_ref().map(|transfer| transfer.due);
        [self.commit_due, transfer].into_iter().flatten().fold(self.heartbeat_due, Time::min)
    }

    fn peer_mut(&mut self, id: ReplicaId) -> Option<&mut Progress> {
        self.peers.iter_mut().find(|peer| peer.id == id)
    }
}

/// What it takes to send entries, borrowed apart from the followers' progress.
struct Sender<'a> {
    view: View,
    commit: Index,
    round: u64,
    log: &'a Log,
    config: &'a RaftConfig,
    records: &'a mut Records,
    out: &'a mut Effects,
}

impl Sender<'_> {
    /// Sends what the follower lacks, as far as its window allows. [raft L30-L33]
    fn entries(&mut self, peer: &mut Progress) {
        match peer.flow {
            Flow::Probe { sent: true } | Flow::Checkpoint => {}
            Flow::Probe { sent: false } => {
                let entries = self.log.take(peer.next, self.config.message_bytes_max, ENTRIES_MAX);
                self.append(peer, entries);
                peer.flow = Flow::Probe { sent: true };
            }
            Flow::Stream => {
                while peer.next <= self.log.last().index && peer.in_flight() < self.config.window_bytes as u64
                {
                    if peer.next < self.log.first_kept() {
                        self.load(peer);
                        break;
                    }
                    let entries = self.log.take(peer.next, self.config.message_bytes_max, ENTRIES_MAX);
                    self.stream(peer, entries);
                }
            }
        }
    }

    fn stream(&mut self, peer: &mut Progress, entries: Vec<Entry>) {
        let next = peer.next.plus(entries.len() as u64);
        self.append(peer, entries);
        peer.set_next(next, self.log);
    }

    /// Old entries come from the disk, if there is one. [raft L33, L89]
    fn load(&mut self, peer: &mut Progress) {
        if !self.config.reload {
            peer.fall_behind(self.log.first_kept().previous(), self.log);
        } else if peer.load.is_none() {
            let to = self.log.first_kept().previous();
            peer.load = Raft::load(self.log, self.records, peer.next, to, self.out);
        }
    }

    /// Sends entries that were read back, in messages of the usual size.
    fn loaded(&mut self, peer: &mut Progress, entries: Vec<Entry>) {
        let (mut message, mut bytes) = (Vec::new(), 0);
        for entry in entries {
            let size = super::log::entry_bytes(&entry);
            let full = bytes + size > self.config.message_bytes_max as u64 || message.len() == ENTRIES_MAX;
            if full && !message.is_empty() {
                self.stream(peer, std::mem::take(&mut message));
                bytes = 0;
            }
            bytes += size;
            message.push(entry);
        }
        if !message.is_empty() {
            self.stream(peer, message);
        }
    }

    /// An empty message: it keeps the office, and asks whether what was sent arrived. [raft L56, L90]
    fn heartbeat(&mut self, peer: &mut Progress) {
        if peer.flow != Flow::Checkpoint {
            return self.append(peer, Vec::new());
        }
        let reach =
            if self.config.reload { self.log.floor().index } else { self.log.first_kept().previous() };
        peer.fall_behind(reach, self.log);
        let (view, round, slot) = (self.view, self.round, self.log.slot_from(reach));
        let previous = self.log.position(reach);
        send(self.out, peer.id, RaftMessage::NeedsCheckpoint { view, previous, round, slot }, None);
    }

    /// One message with these entries, which follow what was sent before; with none it is a heartbeat.
    fn append(&mut self, peer: &mut Progress, entries: Vec<Entry>) {
        let previous = self.log.position(peer.next.previous());
        let reached = previous.index.plus(entries.len() as u64);
        peer.commit_sent = peer.commit_sent.max(self.commit.min(reached));
        let (view, commit, round) = (self.view, self.commit, self.round);
        send(self.out, peer.id, RaftMessage::AppendEntries { view, previous, commit, round, entries }, None);
    }
}

impl Raft {
    /// Runs `work` on the leader's state, if this replica leads.
    fn lead(&mut self, out: &mut Effects, work: impl FnOnce(&mut Leading, &mut Sender<'_>)) {
        let Role::Leader(lead) = &mut self.role else { return };
        let mut sender = Sender {
            view: self.term.view(),
            commit: self.commit,
            round: lead.round,
            log: &self.log,
            config: &self.config,
            records: &mut self.records,
            out,
        };
        work(lead, &mut sender);
    }

    /// [raft L28-L29]
    pub(super) fn on_propose(&mut self, batch: Batch, out: &mut Effects) {
        if !matches!(&self.role, Role::Leader(lead) if lead.transfer.is_none()) {
            return;
        }
        self.append(Entry { view: self.term.view(), body: EntryBody::Batch(batch) }, out);
        self.replicate(out);
    }

    /// Sends every follower what it lacks.
    pub(super) fn replicate(&mut self, out: &mut Effects) {
        self.lead(out, |lead, sender| {
            for peer in &mut lead.peers {
                sender.entries(peer);
            }
        });
    }

    /// What was sent to this follower may be lost. [raft L34]
    pub(super) fn probe_again(&mut self, peer: ReplicaId, out: &mut Effects) {
        self.lead(out, |lead, sender| {
            if let Some(peer) = lead.peer_mut(peer) {
                peer.probe_again(sender.log);
                sender.entries(peer);
            }
        });
    }

    /// A heartbeat to every follower; carries the round.
    pub(super) fn heartbeat(&mut self, out: &mut Effects) {
        let due = self.life.now.plus(self.config.heartbeat);
        self.lead(out, |lead, sender| {
            lead.heartbeat_due = due;
            for peer in &mut lead.peers {
                sender.heartbeat(peer);
            }
        });
    }

    /// The log begins later from now on. [raft L89]
    pub(super) fn floor_rose(&mut self) {
        if let Role::Leader(lead) = &mut self.role {
            lead.peers.iter_mut().for_each(|peer| peer.floor_rose(&self.log));
        }
    }

    /// Tells `who`, or everybody, of a commit that did not reach it yet. [raft L36]
    pub(super) fn tell_commit(&mut self, who: Option<ReplicaId>, out: &mut Effects) {
        self.lead(out, |lead, sender| {
            for peer in lead.peers.iter_mut().filter(|peer| who.is_none_or(|id| id == peer.id)) {
                let told = peer.flow != Flow::Checkpoint;
                if told && peer.commit_sent < sender.commit.min(peer.next.previous()) {
                    sender.append(peer, Vec::new());
                }
            }
        });
    }

    pub(super) fn on_leader_deadline(&mut self, out: &mut Effects) {
        let Role::Leader(lead) = &mut self.role else { return };
        let heartbeat = self.life.now >= lead.heartbeat_due;
        let commit = lead.commit_due.is_some_and(|due| self.life.now >= due);
        if heartbeat || commit {
            lead.commit_due = None;
        }
        if heartbeat {
            if !self.hears_quorum() {
                return self.become_follower(self.term.view(), None, out);
            }
            self.begin_heartbeat_round();
            self.heartbeat(out);
            self.repeat_transfer(out);
            self.deliver(out);
        } else if commit {
            self.tell_commit(None, out);
        }
        self.expire_transfer();
        self.advance_membership(out);
    }

    /// [raft L55]
    fn hears_quorum(&self) -> bool {
        let Role::Leader(lead) = &self.role else { return false };
        let heard = |peer: &Progress| self.life.now.since(peer.heard) < self.config.election_max;
        self.has_quorum(|id| {
            id == self.config.me || lead.peers.iter().any(|peer| peer.id == id && heard(peer))
        })
    }

    pub(super) fn on_append_entries_reply(
        &mut self,
        from: ReplicaId,
        view: View,
        round: u64,
        outcome: AppendOutcome,
        out: &mut Effects,
    ) {
        // [raft L58]
        if view > self.term.view() {
            return self.become_follower(view, None, out);
        }
        let Role::Leader(lead) = &mut self.role else { return };
        if view < self.term.view() {
            return;
        }
        // [raft L59]
        let beyond = match outcome {
            AppendOutcome::Matched(index) => index > self.log.last().index,
            // Answers a message of an older view.
            AppendOutcome::Rejected { asked: Index::ZERO, .. } => return,
            AppendOutcome::Rejected { asked, hint } => hint.index > asked,
        };
        if beyond || round > lead.round {
            return reject(out, from, Reject::Malformed("raft: answer to nothing that was sent"));
        }
        let (begun, mut ask_again) = (lead.round, false);
        let Some(peer) = lead.peer_mut(from) else { return };
        peer.heard = self.life.now;
        peer.round = peer.round.max(round);
        match outcome {
            AppendOutcome::Matched(index) => {
                peer.accept(index, begun, &self.log);
                peer.catch_up(&self.log, self.life.now, self.config.election_min);
            }
            AppendOutcome::Rejected { asked, hint } => {
                // [raft L35] The leader's last position that the follower may have, too.
                let limit = hint.index.min(asked.previous());
                let found = self.log.last_with_view_up_to(limit, hint.view);
                match peer.contradicts(asked, round).filter(|_| !planted("lost-tail-is-late")) {
                    None => peer.reject(asked, found, &self.log),
                    Some(true) => {
                        let lost = peer.lose(found, &self.log);
                        *self.lost.entry(from).or_default() += lost;
                    }
                    Some(false) => ask_again = true,
                }
            }
        }
        if ask_again {
            self.ask_in_a_new_round(from, out);
        }
        self.note_promise(from, round);
        self.advance_commit(out);
        self.lead(out, |lead, sender| {
            if let Some(peer) = lead.peer_mut(from) {
                sender.entries(peer);
            }
        });
        self.confirm_reads(out);
        self.advance_transfer(out);
    }

    /// Only the answer to a question that is asked now tells a late rejection from one of a log that lost its end. [raft L150]
    fn ask_in_a_new_round(&mut self, who: ReplicaId, out: &mut Effects) {
        if let Role::Leader(lead) = &mut self.role {
            lead.round += 1;
        }
        self.note_round();
        self.lead(out, |lead, sender| {
            if let Some(peer) = lead.peer_mut(who).filter(|peer| peer.flow != Flow::Checkpoint) {
                sender.append(peer, Vec::new());
            }
        });
    }

    /// Commits what a quorum holds durably, if it is of this view. [raft L52-L54]
    pub(super) fn advance_commit(&mut self, out: &mut Effects) {
        let Role::Leader(lead) = &self.role else { return };
        let (me, own) = (self.config.me, self.log.durable());
        let extra = usize::from(planted("minority-decides"));
        // The highest index that a quorum reached: the members are few, so each is tried.
        let mut reached = Index::ZERO;
        for candidate in lead.peers.iter().map(|peer| peer.matched).chain([own]) {
            let holds = |id: ReplicaId| {
                let peer = lead.peers.iter().find(|peer| peer.id == id);
                peer.map_or(id == me && own >= candidate, |peer| peer.matched >= candidate)
            };
            if candidate > reached && self.counting().has_quorum(extra, holds) {
                reached = candidate;
            }
        }
        let older = reached < lead.start && !planted("older-view-by-counting");
        if reached <= self.commit || older {
            return;
        }
        assert!(
            self.log.view_at(reached) == Some(self.term.view()) || planted("older-view-by-counting"),
            "INV-RAFT-10: a leader counts entries of its own view"
        );
        self.learn_commit(reached, out);
    }

    /// Everything up to `reached` is committed: a quorum has it, or a checkpoint that was installed.
    pub(super) fn learn_commit(&mut self, reached: Index, out: &mut Effects) {
        let Role::Leader(lead) = &mut self.role else { return self.commit_to(reached, out) };
        if reached <= self.commit {
            return;
        }
        let (before, first) = (self.commit, self.commit < lead.start && reached >= lead.start);
        if reached >= lead.start {
            lead.settled = (self.log.slots_at(reached), self.log.bytes_at(reached));
        }
        if !lead.peers.is_empty() {
            // Others wait for a no-op: it is proposed for no other reason.
            let fills = self.log.has_no_op(before.next(), reached);
            let delay = if fills { Span::ZERO } else { self.config.commit_delay };
            let due = self.life.now.plus(delay);
            lead.commit_due = Some(lead.commit_due.map_or(due, |before| before.min(due)));
        }
        self.commit_to(reached, out);
        if first {
            self.begin_held_reads(out);
        }
        self.committed_members(before, out);
    }

    /// This replica leads no more. [raft L60]
    pub(super) fn end_leadership(&mut self, lead: Leading, out: &mut Effects) {
        self.fail_leader_reads(lead.reads, out);
    }

    pub(super) fn on_loaded_for_follower(&mut self, load: u64, records: Vec<Stored>, out: &mut Effects) {
        let Role::Leader(lead) = &mut self.role else { return };
        let asked = |peer: &&mut Progress| peer.load.is_some_and(|question| question.load == load);
        let Some(peer) = lead.peers.iter_mut().find(asked) else { return };
        let (id, Some(question)) = (peer.id, peer.load.take()) else { return };
        let entries = match self.loaded_entries(question, records) {
            Ok(entries) => entries,
            Err(why) => return self.halt(why, out),
        };
        self.lead(out, |lead, sender| {
            if let Some(peer) = lead.peer_mut(id) {
                // It may have been sent back, or have got ahead, since.
                if peer.flow == Flow::Stream && peer.next.number() == question.first {
                    sender.loaded(peer, entries);
                }
                sender.entries(peer);
            }
        });
    }

    /// Batches proposed in this view and not decided, with their bytes.
    pub(super) fn proposed_and_open(&self) -> (usize, usize) {
        let Role::Leader(lead) = &self.role else { return (0, 0) };
        let (slots, bytes) = lead.settled;
        ((self.log.slots() - slots) as usize, self.log.bytes().saturating_sub(bytes) as usize)
    }

    /// In memory mode entries that leave the cache are gone. Before a live follower loses its place that way, the leader
    /// waits for it; one that is silent holds nobody up. [raft L77]
    pub(super) fn strains_a_follower(&self) -> bool {
        let Role::Leader(lead) = &self.role else { return false };
        if self.config.reload {
            return false;
        }
        let all = self.log.bytes();
        lead.peers.iter().any(|peer| {
            let live = self.life.now.since(peer.heard) < self.config.election_max;
            let reachable = peer.flow != Flow::Checkpoint && peer.matched.next() >= self.log.first_kept();
            live && reachable && peer.lag(all) > self.config.cache_bytes as u64 / 2
        })
    }

    /// [raft L124]
    pub(super) fn caught_up(&self) -> Vec<ReplicaId> {
        let Role::Leader(lead) = &self.role else { return Vec::new() };
        let heard = |peer: &&Progress| self.life.now.since(peer.heard) < self.config.election_max;
        let near = |peer: &&Progress| peer.caught_up && peer.flow == Flow::Stream;
        lead.peers.iter().filter(heard).filter(near).map(|peer| peer.id).collect()
    }

    /// A new leader takes everybody for alive at first; who accepted something from it is.
    pub(super) fn there(&self) -> Vec<ReplicaId> {
        let Role::Leader(lead) = &self.role else { return Vec::new() };
        let heard = |peer: &&Progress| self.life.now.since(peer.heard) < self.config.election_max;
        let accepted = lead.peers.iter().filter(|peer| peer.matched > Index::ZERO);
        accepted.filter(heard).map(|peer| peer.id).collect()
    }

    pub(super) fn member_status(&self) -> Vec<(ReplicaId, u64, bool)> {
        let Role::Leader(lead) = &self.role else { return Vec::new() };
        let all = self.log.bytes();
        let describe = |peer: &Progress| {
            let lacks = all.saturating_sub(self.log.bytes_at(peer.matched));
            let heard = self.life.now.since(peer.heard) < self.config.election_max;
            (peer.id, if peer.flow == Flow::Checkpoint { u64::MAX } else { lacks }, heard)
        };
        lead.peers.iter().map(describe).collect()
    }
}

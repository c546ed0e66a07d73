//! What a leader does: it sends entries to the followers while they go to its own disk, stays in office by heartbeats, and commits what a
//! quorum holds durably. docs/protocols/raft.md L25-L36, L52-L60.
//!
//! It exists only while this replica leads. Each call gets a [`Scene`]: what the replica knows, and where effects go. When the leader must
//! give up its office, the call returns [`Office::Left`] and the caller drops it. `sending` gets one follower what it lacks, `progress` is
//! what is known of one follower; `reads`, `leases`, `transfer` and `changes` are what else a leader does.
//!
//! INV-RAFT-7, INV-RAFT-10, INV-RAFT-14. Tests: tests/leading.rs, tests/replication.rs, tests/commit.rs.

mod changes;
mod leases;
pub(super) mod progress;
mod reads;
mod sending;
mod transfer;

use super::changes::Changes;
use super::store::Store;
use super::{RaftConfig, reject};
use crate::raft::message::{AppendOutcome, Entry, EntryBody, Index, RaftMessage};
use crate::raft::send;
use crate::{Effects, Stored};
use leases::Lease;
use progress::{Flow, Progress};
use quorate_types::{Halt, Reject, ReplicaId, Span, Time, planted};
use quorate_wire::Batch;
use reads::LeaderReads;
use std::collections::BTreeMap;
use transfer::Handover;
pub(super) use transfer::Heirs;

/// Totals since the start, over all times in which this replica led.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Followers that lost entries which they had acknowledged, and how many entries.
    pub(super) lost: BTreeMap<ReplicaId, u64>,
    /// How many questions for reads were answered by leases.
    pub(super) leased: u64,
}

/// What a leader sees, and what it acts on.
pub(super) struct Scene<'a> {
    pub(super) now: Time,
    pub(super) config: &'a RaftConfig,
    pub(super) store: &'a mut Store,
    pub(super) changes: &'a mut Changes,
    pub(super) counts: &'a mut Counts,
    pub(super) out: &'a mut Effects,
}

/// Whether a leader stays in office.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Office {
    CachedEntry,
    /// It does not lead any more, and follows no leader from now on.
    Left,
}

/// So many times `election_max` count at most when a leader's turn comes late: its machine may have slept.
const LATE_MAX: u64 = 10;

/// What a replica keeps only while it leads.
#[derive(Debug)]
pub(super) struct Leading {
    /// The index of this view's first record.
    start: Index,
    /// All replicas that are sent the log.
    peers: Vec<Progress>,
    /// Slots and bytes of the log up to the commit index, or up to `start` if that is later.
    settled: (u64, u64),
    /// The number of the last round of heartbeats. Each message carries it, and each answer repeats it.
    round: u64,
    reads: LeaderReads,
    lease: Lease,
    handover: Handover,
    heartbeat_due: Time,
    /// Until when nobody needs to be heard, if this replica itself was busy for long: followers execute the same commands, and say nothing
    /// meanwhile.
    patient: Option<Time>,
    /// Whether no quorum was heard at the last heartbeat.
    alone: bool,
    /// When followers are told of a commit that no entry told them.
    commit_due: Option<Time>,
}

/// From the beginning of an office to its end.
impl Leading {
    /// This replica leads from now on: its view's first record goes into the log and to all followers. `reads` waited for a leader. [raft
    /// L25-L27]
    pub(super) fn begin(reads: Vec<u64>, scene: &mut Scene<'_>) -> Self {
        let start = scene.store.log().last().index.next();
        let mut lead = Self {
            start,
            peers: Vec::new(),
            settled: (0, 0),
            round: 0,
            reads: LeaderReads::default(),
            lease: Lease::default(),
            handover: Handover::default(),
            heartbeat_due: scene.now.plus(scene.config.heartbeat),
            patient: None,
            alone: false,
            commit_due: None,
        };
        lead.note_round(scene);
        lead.meet_audience(scene);
        let view = scene.store.view();
        let appended = scene.store.append(Entry { view, body: EntryBody::ViewStart }, scene.out);
        lead.settled = (scene.store.log().slots(), scene.store.log().bytes());
        for read in reads {
            lead.read(read, scene);
        }
        lead.replicate(scene);
        assert!(
            appended == start && scene.store.log().last().view == view,
            "INV-RAFT-10: a view starts with its own record"
        );
        lead
    }

    /// This replica does not lead any more, so reads that wait here fail. [raft L60]
    pub(super) fn end(self, store: &Store, out: &mut Effects) {
        self.reads.fail(store, out);
    }

    pub(super) fn deadline(&self) -> Time {
        let transfer = self.handover.due();
        [self.commit_due, transfer].into_iter().flatten().fold(self.heartbeat_due, Time::min)
    }

    pub(super) fn on_deadline(&mut self, scene: &mut Scene<'_>) -> Office {
        let heartbeat = scene.now >= self.heartbeat_due;
        let commit = self.commit_due.is_some_and(|due| scene.now >= due);
        if heartbeat || commit {
            self.commit_due = None;
        }
        if heartbeat {
            if !self.hears_enough(scene) {
                return Office::Left;
            }
            self.begin_heartbeat_round(scene);
            self.heartbeat(scene);
            self.repeat_transfer(scene);
            scene.store.deliver(scene.out);
        } else if commit {
            self.tell_commit(None, scene);
        }
        self.handover.expire(scene.now);
        self.advance_membership(scene)
    }

    /// Whether it leads although it heard no quorum at the last heartbeat. [raft L155]
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Whether a quorum is heard, or need not be: a turn that comes much too late gives the others time, though not again before a quorum is
    /// heard. [raft L55, L155]
    fn hears_enough(&mut self, scene: &Scene<'_>) -> bool {
        let most = scene.config.election_max.times(LATE_MAX);
        let late = scene.now.since(self.heartbeat_due).min(most);
        let heard = self.hears_quorum(scene);
        self.alone = !heard;
        // The clock may have jumped forward, and back.
        self.patient.take_if(|until| *until > scene.now.plus(most.times(2)));
        if late > scene.config.heartbeat.times(2) && (heard || self.patient.is_none()) {
            self.patient = self.patient.max(Some(scene.now.plus(late.times(2))));
        }
        if heard {
            self.patient.take_if(|until| *until <= scene.now);
        }
        heard || self.patient.is_some_and(|until| scene.now < until)
    }

    /// [raft L55]
    fn hears_quorum(&self, scene: &Scene<'_>) -> bool {
        let heard = |peer: &Progress| scene.now.since(peer.heard) < scene.config.election_max;
        scene.store.has_quorum(|id| {
            id == scene.config.me || self.peers.iter().any(|peer| peer.id == id && heard(peer))
        })
    }
}

/// Entries to followers.
impl Leading {
    /// [raft L28-L29]
    pub(super) fn propose(&mut self, batch: Batch, scene: &mut Scene<'_>) {
        if self.handover.is_under_way() {
            return;
        }
        let view = scene.store.view();
        scene.store.append(Entry { view, body: EntryBody::Batch(batch) }, scene.out);
        self.replicate(scene);
    }

    /// Sends each follower the entries that it lacks.
    pub(super) fn replicate(&mut self, scene: &mut Scene<'_>) {
        for peer in &mut self.peers {
            scene.entries(peer, self.round);
        }
    }

    fn peer_mut(&mut self, id: ReplicaId) -> Option<&mut Progress> {
        self.peers.iter_mut().find(|peer| peer.id == id)
    }

    /// Sends this follower the entries that it lacks.
    fn replicate_to(&mut self, id: ReplicaId, scene: &mut Scene<'_>) {
        let round = self.round;
        if let Some(peer) = self.peer_mut(id) {
            scene.entries(peer, round);
        }
    }

    /// What was sent to this follower may be lost. [raft L34]
    pub(super) fn probe_again(&mut self, id: ReplicaId, scene: &mut Scene<'_>) {
        let round = self.round;
        if let Some(peer) = self.peer_mut(id) {
            peer.probe_again(scene.store.log());
            scene.entries(peer, round);
        }
    }

    /// Sends a heartbeat to every follower; it carries the round.
    fn heartbeat(&mut self, scene: &mut Scene<'_>) {
        self.heartbeat_due = scene.now.plus(scene.config.heartbeat);
        for peer in &mut self.peers {
            scene.heartbeat(peer, self.round);
        }
    }

    /// The heartbeats of the last round once more. [raft L154]
    pub(super) fn heartbeats(&self, store: &Store, out: &mut Effects) {
        let (view, commit) = (store.view(), store.commit());
        for peer in self.peers.iter().filter(|peer| peer.flow != Flow::Checkpoint) {
            let previous = store.log().position(peer.next.previous());
            let (round, entries) = (self.round, Vec::new());
            send(out, peer.id, RaftMessage::AppendEntries { view, previous, commit, round, entries }, None);
        }
    }

    /// The log begins later from now on. [raft L89]
    pub(super) fn floor_rose(&mut self, store: &Store) {
        self.peers.iter_mut().for_each(|peer| peer.floor_rose(store.log()));
    }

    /// Tells `who`, or all followers, of a commit that was not told them yet. [raft L36]
    pub(super) fn tell_commit(&mut self, who: Option<ReplicaId>, scene: &mut Scene<'_>) {
        for peer in self.peers.iter_mut().filter(|peer| who.is_none_or(|id| id == peer.id)) {
            let told = peer.flow != Flow::Checkpoint;
            if told && peer.commit_sent < scene.store.commit().min(peer.next.previous()) {
                scene.append(peer, self.round, Vec::new());
            }
        }
    }

    /// Keeps track of exactly the followers that are sent the log.
    pub(super) fn meet_audience(&mut self, scene: &Scene<'_>) {
        let audience = scene.store.audience(scene.changes.listeners());
        let next = scene.store.log().last().index.next();
        self.peers.retain(|peer| audience.contains(&peer.id));
        for id in audience {
            if self.peers.iter().all(|peer| peer.id != id) {
                self.peers.push(Progress::new(id, next, scene.now));
            }
        }
        self.peers.sort_by_key(|peer| peer.id);
    }

    /// The disk answered a question, perhaps one that was asked for a follower.
    pub(super) fn on_loaded(
        &mut self,
        load: u64,
        records: Vec<Stored>,
        scene: &mut Scene<'_>,
    ) -> Result<(), Halt> {
        let asked = |peer: &&mut Progress| peer.load.is_some_and(|question| question.load == load);
        let round = self.round;
        let Some(peer) = self.peers.iter_mut().find(asked) else { return Ok(()) };
        let Some(question) = peer.load.take() else { return Ok(()) };
        let entries = scene.store.loaded_entries(question, records)?;
        // It may have been sent back, or have got ahead, since.
        if peer.flow == Flow::Stream && peer.next.number() == question.first {
            scene.loaded(peer, round, entries);
        }
        scene.entries(peer, round);
        Ok(())
    }
}

/// Answers of followers, and what they commit.
impl Leading {
    /// A follower answered in this view. [raft L57, L59]
    pub(super) fn on_reply(
        &mut self,
        from: ReplicaId,
        round: u64,
        outcome: AppendOutcome,
        scene: &mut Scene<'_>,
    ) -> Office {
        let beyond = match outcome {
            AppendOutcome::Matched(index) => index > scene.store.log().last().index,
            // Answers a message of an older view.
            AppendOutcome::Rejected { asked: Index::ZERO, .. } => return Office::CachedEntry,
            AppendOutcome::Rejected { asked, hint } => hint.index > asked,
        };
        if beyond || round > self.round {
            reject(scene.out, from, Reject::Malformed("raft: answer to nothing that was sent"));
            return Office::CachedEntry;
        }
        let (begun, mut ask_again) = (self.round, false);
        let Some(peer) = self.peer_mut(from) else { return Office::CachedEntry };
        peer.heard = scene.now;
        peer.round = peer.round.max(round);
        let log = scene.store.log();
        match outcome {
            AppendOutcome::Matched(index) => {
                peer.accept(index, begun, log);
                peer.catch_up(log, scene.now, scene.config.election_min);
            }
            AppendOutcome::Rejected { asked, hint } => {
                // [raft L35] The leader's last position that the follower may have, too.
                let limit = hint.index.min(asked.previous());
                let found = log.last_with_view_up_to(limit, hint.view);
                match peer.contradicts(asked, round).filter(|_| !planted("lost-tail-is-late")) {
                    None => peer.reject(asked, found, log),
                    Some(true) => *scene.counts.lost.entry(from).or_default() += peer.lose(found, log),
                    Some(false) => ask_again = true,
                }
            }
        }
        if ask_again {
            self.ask_in_a_new_round(from, scene);
        }
        self.note_promise(from, round, scene.now);
        if self.advance_commit(scene) == Office::Left {
            return Office::Left;
        }
        self.replicate_to(from, scene);
        self.confirm_reads(scene);
        self.advance_transfer(scene);
        Office::CachedEntry
    }

    /// Asks in a new round: only an answer to a question asked now tells a late rejection from that of a log which lost its end. [raft
    /// L150]
    fn ask_in_a_new_round(&mut self, who: ReplicaId, scene: &mut Scene<'_>) {
        self.round += 1;
        self.note_round(scene);
        let round = self.round;
        if let Some(peer) = self.peer_mut(who).filter(|peer| peer.flow != Flow::Checkpoint) {
            scene.append(peer, round, Vec::new());
        }
    }

    /// Commits what a quorum holds durably, if it is of this view. [raft L52-L54]
    pub(super) fn advance_commit(&mut self, scene: &mut Scene<'_>) -> Office {
        let store = &*scene.store;
        let (me, own) = (scene.config.me, store.log().durable());
        let extra = usize::from(planted("minority-decides"));
        // The highest index that a quorum reached: the members are few, so each is tried.
        let mut reached = Index::ZERO;
        for candidate in self.peers.iter().map(|peer| peer.matched).chain([own]) {
            let holds = |id: ReplicaId| {
                let peer = self.peers.iter().find(|peer| peer.id == id);
                peer.map_or(id == me && own >= candidate, |peer| peer.matched >= candidate)
            };
            if candidate > reached && store.counting().has_quorum(extra, holds) {
                reached = candidate;
            }
        }
        let older = reached < self.start && !planted("older-view-by-counting");
        if reached <= store.commit() || older {
            return Office::CachedEntry;
        }
        assert!(
            store.log().view_at(reached) == Some(store.view()) || planted("older-view-by-counting"),
            "INV-RAFT-10: a leader counts entries of its own view"
        );
        self.learn_commit(reached, scene)
    }

    /// Everything up to `reached` is committed: a quorum has it, or an installed checkpoint holds it.
    pub(super) fn learn_commit(&mut self, reached: Index, scene: &mut Scene<'_>) -> Office {
        let before = scene.store.commit();
        if reached <= before {
            return Office::CachedEntry;
        }
        let (log, first) = (scene.store.log(), before < self.start && reached >= self.start);
        if reached >= self.start {
            self.settled = (log.slots_at(reached), log.bytes_at(reached));
        }
        if !self.peers.is_empty() {
            // Others wait for a no-op: it is proposed for no other reason.
            let fills = log.has_no_op(before.next(), reached);
            let delay = if fills { Span::ZERO } else { scene.config.commit_delay };
            let due = scene.now.plus(delay);
            self.commit_due = Some(self.commit_due.map_or(due, |before| before.min(due)));
        }
        scene.store.commit_to(reached, scene.out);
        if first {
            self.begin_held_reads(scene);
        }
        self.committed_members(before, scene)
    }
}

/// What others may know of the leader.
impl Leading {
    /// Whether it may propose: no transfer is under way.
    pub(super) fn may_propose(&self) -> bool {
        !self.handover.is_under_way()
    }

    /// Every follower's log equals the leader's up to this index; none without followers.
    pub(super) fn all_matched(&self) -> Option<Index> {
        self.peers.iter().map(|peer| peer.matched).min()
    }

    /// How many batches were proposed in this view and are not decided, and their bytes.
    pub(super) fn proposed_and_open(&self, store: &Store) -> (usize, usize) {
        let (slots, bytes) = self.settled;
        ((store.log().slots() - slots) as usize, store.log().bytes().saturating_sub(bytes) as usize)
    }

    /// In memory mode, entries that leave memory are gone. The leader waits for a live follower that would lose its place in the log that
    /// way; it does not wait for a silent one. [raft L77]
    pub(super) fn strains_a_follower(&self, now: Time, config: &RaftConfig, store: &Store) -> bool {
        if config.reload {
            return false;
        }
        let log = store.log();
        self.peers.iter().any(|peer| {
            let live = now.since(peer.heard) < config.election_max;
            let reachable = peer.flow != Flow::Checkpoint && peer.matched.next() >= log.first_kept();
            live && reachable && peer.lag(log.bytes()) > config.cache_bytes as u64 / 2
        })
    }

    /// All replicas that are sent the log.
    pub(super) fn peers(&self) -> &[Progress] {
        &self.peers
    }

    /// Panics with the name of the invariant that does not hold.
    pub(super) fn check(&self, store: &Store) {
        let (last, floor) = (store.log().last(), store.log().floor());
        assert!(self.start <= last.index, "INV-RAFT-12: a leader keeps its log");
        assert!(last.view == store.view(), "INV-RAFT-10: a leader's log ends in its view");
        let open =
            !store.membership_is_committed() || store.commit() < self.start || self.handover.is_under_way();
        assert!(
            open || store.votes(),
            "INV-RAFT-20: who does not vote in a committed membership does not lead"
        );
        for peer in &self.peers {
            let (matched, next) = (peer.matched, peer.next);
            assert!(matched < next && next <= last.index.next(), "INV-RAFT-5: {}: {next}", peer.id);
            assert!(next > floor.index, "INV-RAFT-15: {}: {next} comes after the floor", peer.id);
        }
    }
}

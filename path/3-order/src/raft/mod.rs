//! Raft: one leader per view appends batches; a batch that a majority holds durably is decided. Crash faults, n = 2f+1.
//!
//! Stage 3 (order). Before: admit's batches. After: merge. One call of [`Order::step`] is one input.
//!
//! Source: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", USENIX ATC 2014; pre-vote,
//! check-quorum, leader transfer and ReadIndex from Ongaro's dissertation, sections 9.6, 6.2, 3.10 and 6.4, membership changes from 4.3. Retold line by
//! line in docs/protocols/raft.md, with the deviations and what is not implemented; a citation such as `[raft L1]` (what is kept) names a line there.
//!
//! Its parts: `store` is what a replica knows in any role, made of `log` (entries in memory, and a compact table of all others), `term`,
//! and `persist` (how records lie on disk); `timer` says when it wants an election; `asking` holds reads that wait for the leader;
//! `leading` is all that a leader does, and exists only while this replica leads; `restore` takes records back before the start; `changes`
//! is what the host wants of the membership. A part returns what came of a step. This file, `election` (every change of role) and
//! `follower` (messages of leaders, checkpoints) act on that, in order. `checkpoints` reads and writes anchors, `stays` those of an
//! instance that left the cluster and comes back; `status` and `invariants` only read.
//!
//! Invariants: INV-RAFT-1 to INV-RAFT-21, see `invariants`. Tests: tests/ beside this file (one file for each delicate point; `chaos` runs
//! thousands of random schedules), scripts in check/script/scripts.

mod asking;
mod changes;
mod checkpoints;
mod election;
mod follower;
mod invariants;
mod leading;
mod log;
pub mod message;
mod persist;
mod restore;
mod status;
mod stays;
mod store;
mod term;
mod timer;

pub(crate) use checkpoints::anchor_anew;
pub use persist::{RECORD_ENTRY, RECORD_FLOOR, RECORD_VOTE};
pub(crate) use stays::{first_anchor, next_anchor, rank_of, stay_of, stay_of_record};

use crate::OrderMessage;
use crate::life::Life;
use crate::raft::message::{AppendOutcome, Index, RaftMessage};
use crate::{Anchor, Effect, Effects, Input, Order, OrderConfig, Random, Restored, Standing, Status, Stored};
use asking::Asking;
use changes::Changes;
use election::Votes;
use leading::{Counts, Heirs, Leading, Office, Scene};
use quorate_types::{Halt, RecordId, Reject, ReplicaId, Slot, Span, Time, View, planted};
use restore::Replay;
use stays::stay_of_view;
use std::sync::Arc;
use store::{Loaded, Store};
use timer::Timer;

/// No view is higher. A peer that names a higher view is refused.
pub const VIEW_MAX: View = View::new(1 << 62);

/// The settings of one instance of Raft.
#[derive(Clone, Debug)]
pub struct RaftConfig {
    /// This replica.
    pub me: ReplicaId,
    /// The voters with which the cluster began, no id twice. A replica that joins later is not among them; it learns the members from the
    /// log or a checkpoint.
    pub members: Vec<ReplicaId>,
    /// The seed of all randomness. It must differ between replicas, and should differ between two starts of one replica.
    pub seed: u64,
    /// How often an idle leader sends a heartbeat.
    pub heartbeat: Span,
    /// The shortest time without a word of a leader after which a follower asks for an election. The time is drawn at random.
    pub election_min: Span,
    /// The longest such time. A leader that hears no quorum for this long steps down.
    pub election_max: Span,
    /// Whether these times are shorter while the leader's words come regularly. [raft L152]
    pub adapts: bool,
    /// When the connection to the leader closes, a follower asks for an election after a random time up to this.
    pub hint_delay_max: Span,
    /// At most this many bytes are sent to one follower and not acknowledged, and one message more.
    pub window_bytes: usize,
    /// A message with several entries holds at most this many bytes of entries.
    pub message_bytes_max: usize,
    /// This many bytes of entries stay in memory. Entries that are still needed and can not be read back are kept on top of that.
    pub cache_bytes: usize,
    /// Whether [`Effect::Load`] works. Without it (memory mode) a follower needs a checkpoint if it lacks entries that left memory.
    pub reload: bool,
    /// An idle leader waits this long before it tells its followers of a commit.
    pub commit_delay: Span,
    /// Whether [`Effect::Proposed`] is wanted.
    pub tells_proposed: bool,
    /// With a number, a leader may answer strong reads by a lease: as long as it knows that no other replica can have been elected. That is
    /// right only while the rates of any two replicas' clocks differ by at most this many percent. This number and `election_min` must then
    /// be the same on all replicas.
    pub lease_drift_percent: Option<u8>,
}

impl RaftConfig {
    /// Takes the general settings that concern Raft.
    pub fn of(config: &OrderConfig) -> Self {
        let new = Self::new(config.me, config.members.clone(), config.seed);
        Self {
            tells_proposed: config.tells_proposed,
            commit_delay: if config.tells_at_once { Span::ZERO } else { new.commit_delay },
            heartbeat: config.heartbeat,
            election_min: config.timeout,
            election_max: config.timeout_max,
            adapts: config.adapts,
            window_bytes: config.window_bytes,
            message_bytes_max: config.message_bytes_max,
            cache_bytes: config.cache_bytes,
            reload: config.reload,
            lease_drift_percent: config.lease_drift_percent,
            ..new
        }
    }

    /// The usual times and sizes.
    pub fn new(me: ReplicaId, members: Vec<ReplicaId>, seed: u64) -> Self {
        Self {
            me,
            members,
            seed,
            heartbeat: Span::from_millis(50),
            election_min: Span::from_millis(300),
            election_max: Span::from_millis(600),
            adapts: false,
            hint_delay_max: Span::from_millis(20),
            window_bytes: 16 << 20,
            message_bytes_max: 1 << 20,
            cache_bytes: 64 << 20,
            reload: true,
            tells_proposed: false,
            commit_delay: Span::from_millis(5),
            lease_drift_percent: None,
        }
    }
}

/// The replica's present role.
#[derive(Debug)]
enum Role {
    Follower,
    /// It asks whether it would win an election.
    PreCandidate(Votes),
    Candidate(Votes),
    Leader(Box<Leading>),
}

/// One Raft instance on one replica.
#[derive(Debug)]
pub struct Raft {
    config: RaftConfig,
    life: Life,
    store: Store,
    timer: Timer,
    role: Role,
    /// Strong reads here that wait for another replica, the leader.
    asking: Asking,
    changes: Changes,
    counts: Counts,
    /// Used only before the start.
    replay: Replay,
}

impl Raft {
    /// An instance without a history; [`Order::restore`] gives it one.
    ///
    /// # Panics
    /// When `members` is empty or names one twice.
    pub fn new(config: RaftConfig) -> Self {
        Self {
            life: Life::default(),
            store: Store::new(&config),
            timer: Timer::new(&config),
            role: Role::Follower,
            asking: Asking::new(config.me, config.election_min),
            changes: Changes::default(),
            counts: Counts::default(),
            replay: Replay::default(),
            config,
        }
    }

    fn halt(&mut self, why: Halt, out: &mut Effects) {
        self.life.halt(why, out);
    }

    /// Does `work` if this replica leads; otherwise nothing.
    fn lead<T>(
        &mut self,
        out: &mut Effects,
        work: impl FnOnce(&mut Leading, &mut Scene<'_>) -> T,
    ) -> Option<T> {
        let Role::Leader(lead) = &mut self.role else { return None };
        let mut scene = Scene {
            now: self.life.now,
            config: &self.config,
            store: &mut self.store,
            changes: &mut self.changes,
            counts: &mut self.counts,
            out,
        };
        Some(work(lead, &mut scene))
    }

    /// Does `work` as the leader. If that ends its office, the replica follows no leader from then on.
    fn lead_on(&mut self, out: &mut Effects, work: impl FnOnce(&mut Leading, &mut Scene<'_>) -> Office) {
        if self.lead(out, work) == Some(Office::Left) {
            self.become_follower(self.store.view(), None, out);
        }
    }

    fn on_receive(&mut self, from: ReplicaId, message: OrderMessage, out: &mut Effects) {
        let Some(message) = message.take::<RaftMessage>() else {
            return reject(out, from, Reject::Malformed("raft: another protocol's message"));
        };
        // A replica that the host vouches for is heard, even if it is no member here: it may know a later membership. [raft L122]
        if from == self.config.me {
            reject(out, from, Reject::UnknownPeer);
            return;
        }
        if message.view() > VIEW_MAX {
            reject(out, from, Reject::Malformed("raft: view"));
            return;
        }
        // [raft L144] From another stay of this instance: one of the two does not know yet.
        if stay_of_view(message.view()) != stay_of_view(self.store.view()) && !planted("stays-meet") {
            return;
        }
        match message {
            RaftMessage::RequestVote { view, last, pre, transfer } => {
                self.on_request_vote(from, view, last, pre, transfer, out);
            }
            RaftMessage::RequestVoteReply { view, granted, pre } => {
                self.on_request_vote_reply(from, view, granted, pre, out);
            }
            RaftMessage::AppendEntries { view, previous, commit, round, entries } => {
                self.on_append_entries(from, view, previous, commit, round, entries, out);
            }
            RaftMessage::AppendEntriesReply { view, round, outcome } => {
                self.on_append_entries_reply(from, view, round, outcome, out);
            }
            RaftMessage::NeedsCheckpoint { view, previous, round, slot } => {
                self.on_needs_checkpoint(from, view, previous, round, slot, out);
            }
            RaftMessage::TimeoutNow { view } => self.on_timeout_now(from, view, out),
            RaftMessage::ReadIndex { view, read } => self.on_read_index(from, view, read, out),
            RaftMessage::ReadIndexReply { view, read, slot } => {
                self.asking.on_reply((from, view, read, slot), self.life.now, &self.store, out);
            }
        }
    }

    fn on_append_entries_reply(
        &mut self,
        from: ReplicaId,
        view: View,
        round: u64,
        outcome: AppendOutcome,
        out: &mut Effects,
    ) {
        // [raft L58]
        if view > self.store.view() {
            self.become_follower(view, None, out);
        } else if view == self.store.view() {
            self.lead_on(out, |lead, scene| lead.on_reply(from, round, outcome, scene));
        }
    }

    fn on_durable(&mut self, record: RecordId, out: &mut Effects) {
        if !self.store.on_durable(record) {
            return;
        }
        match self.role {
            Role::Candidate(_) => self.count_own_vote(out),
            Role::Leader(_) => self.lead_on(out, Leading::advance_commit),
            Role::Follower | Role::PreCandidate(_) => {}
        }
    }

    fn on_loaded(&mut self, load: u64, records: Vec<Stored>, out: &mut Effects) {
        let answered = match self.store.on_loaded(load, records, out) {
            Ok(Loaded::Delivered) => Ok(()),
            Ok(Loaded::Other(records)) => {
                let answered = self.lead(out, |lead, scene| lead.on_loaded(load, records, scene));
                answered.unwrap_or(Ok(()))
            }
            Err(why) => Err(why),
        };
        if let Err(why) = answered {
            self.halt(why, out);
        }
    }

    fn on_connected(&mut self, peer: ReplicaId, out: &mut Effects) {
        if let Role::Leader(_) = self.role {
            self.lead(out, |lead, scene| lead.probe_again(peer, scene));
        } else if self.store.term().leader().is_none() && self.store.is_voter(peer) {
            // [raft L11] What failed for want of a peer may work now.
            self.timer.try_again(self.life.now);
        }
    }

    fn on_disconnected(&mut self, peer: ReplicaId, out: &mut Effects) {
        if let Role::Leader(_) = self.role {
            self.lead(out, |lead, scene| lead.probe_again(peer, scene));
        } else if self.store.term().leader() == Some(peer) {
            // [raft L15]
            self.timer.lose_leader(self.life.now);
        }
    }

    fn on_read(&mut self, read: u64, out: &mut Effects) {
        if self.lead(out, |lead, scene| lead.read(read, scene)).is_none() {
            self.asking.read(read, self.life.now, &self.store, out);
        }
    }

    fn on_read_index(&mut self, from: ReplicaId, view: View, read: u64, out: &mut Effects) {
        let leads = matches!(self.role, Role::Leader(_)) && view == self.store.view();
        if !leads {
            let reply = RaftMessage::ReadIndexReply { view: self.store.view(), read, slot: None };
            return send(out, from, reply, self.store.view_pending());
        }
        self.lead(out, |lead, scene| lead.on_read_index(from, read, scene));
    }

    /// [raft L61]
    fn on_transfer(&mut self, target: Option<ReplicaId>, out: &mut Effects) {
        let heirs = self.lead(out, |lead, scene| lead.may_propose().then(|| lead.heirs(scene)));
        let Some(heirs) = heirs.flatten() else { return };
        let target = target.or_else(|| match heirs {
            Heirs::Any(all) => Some(all[self.timer.draw(all.len() as u64) as usize]),
            Heirs::Most(heir) => heir,
        });
        if let Some(target) = target {
            self.lead(out, |lead, scene| lead.hand_over(target, scene));
        }
    }

    /// The host names the replicas that are also sent the log. [raft L141]
    fn on_listeners(&mut self, listeners: Arc<[ReplicaId]>, out: &mut Effects) {
        if !self.changes.listen(listeners) {
            return;
        }
        self.lead(out, |lead, scene| {
            // A replica that is no longer named is told the last commit.
            lead.tell_commit(None, scene);
            lead.meet_audience(scene);
            lead.replicate(scene);
        });
    }

    fn on_deadline(&mut self, out: &mut Effects) {
        if let Role::Leader(_) = self.role {
            self.lead_on(out, Leading::on_deadline);
        } else if self.timer.is_over(self.life.now) {
            self.on_election_timeout(out);
        }
        self.asking.expire(self.life.now, &self.store, out);
    }

    /// Drops entries from memory that are not needed there.
    fn evict(&mut self) {
        if !self.store.may_evict() {
            return;
        }
        let all_matched = match &self.role {
            Role::Leader(lead) => lead.all_matched().unwrap_or(self.store.log().durable()),
            _ => Index::ZERO,
        };
        self.store.evict(all_matched);
    }
}

impl Order for Raft {
    fn restore_anchor(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        assert!(!self.life.started, "an anchor is restored before the start");
        self.replay.anchor(slot, anchor, &mut self.store)
    }

    fn restore(&mut self, id: RecordId, record: Stored) -> Result<(), Halt> {
        assert!(!self.life.started, "records are restored before the start");
        self.replay.record(id, record, &mut self.store)
    }

    fn restore_outdated(&mut self) {
        self.replay.outdate(&self.store);
    }

    fn restore_gap(&mut self, missing: u64) {
        assert!(!self.life.started, "records are restored before the start");
        self.replay.lose(missing, &mut self.store);
    }

    fn restored(&self) -> Restored {
        status::restored(self)
    }

    fn covers(&self, slot: Slot, anchor: &Anchor) -> bool {
        self.replay.is_covered_by(slot, anchor, self.store.log())
    }

    fn restore_installed(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        assert!(!self.life.started, "a checkpoint takes the place of lost records before the start");
        self.replay.install(slot, anchor, &mut self.store)
    }

    fn start(&mut self, now: Time, out: &mut Effects) {
        self.life.start(now);
        if let Err(why) = std::mem::take(&mut self.replay).finish(&mut self.store, out) {
            return self.halt(why, out);
        }
        self.store.begin();
        // A late answer to a read of an earlier life must not answer one of this life.
        let last = self.store.records().last().number();
        let mut numbers = Random::new(self.config.seed ^ now.nanos() ^ last.rotate_left(32));
        self.asking.begin(numbers.next() >> 1);
        self.promise_again();
        // [raft L9-L10]
        if self.store.is_quorum_alone() && self.store.votes() {
            self.become_candidate(false, out);
        } else {
            self.timer.reset(self.life.now);
        }
        self.changes.tell(&self.store, out);
        self.life.standing = status::standing(self);
        self.invariants(false);
    }

    fn step(&mut self, now: Time, input: Input, out: &mut Effects) {
        // [raft L138] Read after the input arrived.
        if !self.life.step(now) {
            return;
        }
        match input {
            Input::Propose(batch) => {
                self.lead(out, |lead, scene| lead.propose(batch, scene));
            }
            Input::Receive(verified) => {
                let (from, message) = verified.into_parts();
                self.on_receive(from, message, out);
            }
            Input::Durable(record) => self.on_durable(record, out),
            Input::Loaded { load, records } => self.on_loaded(load, records, out),
            Input::Connected(peer) => self.on_connected(peer, out),
            Input::Disconnected(peer) => self.on_disconnected(peer, out),
            Input::Read(read) => self.on_read(read, out),
            Input::Transfer(target) => self.on_transfer(target, out),
            Input::Trim { slot } => self.on_trim(slot, out),
            Input::Installed { slot, anchor } => self.on_installed(slot, &anchor, out),
            Input::Membership(change) => {
                self.changes.want(change);
                self.lead_on(out, Leading::advance_membership);
            }
            Input::Listeners(listeners) => self.on_listeners(listeners, out),
            // Nothing is signed. Only leaders take requests, and a silent one is noticed without that.
            Input::Hold(_)
            | Input::Watch(_)
            | Input::Unwatch(_)
            | Input::Vouched { .. }
            | Input::Oracle(_)
            | Input::Busy(_)
            | Input::Met => {}
            Input::Deadline => self.on_deadline(out),
        }
        self.changes.tell(&self.store, out);
        self.evict();
        self.life.standing = status::standing(self);
        self.invariants(false);
    }

    fn deadline(&self) -> Option<Time> {
        if self.life.halted || !self.life.started {
            return None;
        }
        let own = match &self.role {
            Role::Leader(lead) => Some(lead.deadline()),
            _ => self.timer.due(),
        };
        [own, self.asking.deadline()].into_iter().flatten().min()
    }

    fn anchor(&self, slot: Slot) -> Option<Anchor> {
        checkpoints::anchor_at(slot, &self.store)
    }

    fn keep_from(&self) -> Option<RecordId> {
        self.store.records_needed_from()
    }

    fn heartbeats(&self, out: &mut Effects) {
        if let Role::Leader(lead) = &self.role {
            lead.heartbeats(&self.store, out);
        }
    }

    fn standing(&self) -> Standing {
        self.life.standing
    }

    fn status(&self) -> Status {
        status::status(self)
    }

    fn invariants(&self, thorough: bool) {
        invariants::check(self, thorough);
    }
}

fn send(out: &mut Effects, to: ReplicaId, message: RaftMessage, after: Option<RecordId>) {
    out.push(Effect::Send { to, message: OrderMessage::of(message), after });
}

fn reject(out: &mut Effects, from: ReplicaId, why: Reject) {
    out.push(Effect::Rejected { from, why });
}

#[cfg(test)]
mod tests;

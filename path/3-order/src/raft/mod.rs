//! Raft: one leader per view appends batches; what a majority holds durably is decided. Crash faults, n = 2f+1.
//!
//! Stage 3 (order). Before: admit's batches. After: merge. One call of [`Order::step`] is one input.
//!
//! Source: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm", USENIX ATC 2014; pre-vote,
//! check-quorum, leader transfer and ReadIndex from Ongaro's dissertation, sections 9.6, 6.2, 3.10 and 6.4, membership changes from 4.3. Retold line by
//! line in docs/protocols/raft.md, with the deviations and what is not implemented; a citation such as `[raft L1]` (what is kept) names a line there.
//!
//! Where to look: `log` (entries in memory and a compact table of all others), `persist` (records), `restore` (taking them
//! back), `election`, `replication` (the leader), `progress` (one follower as its leader sees it), `follower`, `delivery`
//! (decided slots, reading back old entries), `checkpoints` (where the log begins), `members` (who takes part), `reads`,
//! `leases`, `transfer`, `stays` (an instance leaves the cluster and comes back), `invariants`.
//!
//! Invariants: INV-RAFT-1 to INV-RAFT-21, see `invariants`. Tests: tests/ beside this file (each delicate point by
//! itself; `chaos` runs thousands of random schedules), scripts in check/script/scripts.

mod checkpoints;
mod delivery;
mod election;
mod follower;
mod invariants;
mod leases;
mod log;
mod members;
pub mod message;
mod persist;
mod progress;
mod reads;
mod replication;
mod restore;
mod stays;
mod term;
mod timer;
mod transfer;

pub(crate) use checkpoints::anchor_anew;
pub use persist::{RECORD_ENTRY, RECORD_FLOOR, RECORD_VOTE};
pub(crate) use stays::{first_anchor, next_anchor, rank_of, stay_of, stay_of_record};

use crate::OrderMessage;
use crate::ledger::{Delivery, Records};
use crate::life::Life;
use crate::raft::message::{Index, RaftMessage};
use crate::{Anchor, Effect, Effects, Input, Order, OrderConfig, Random, Restored, Standing, Status, Stored};
use election::Votes;
use log::Log;
use members::Members;
use quorate_types::{Halt, RecordId, Reject, ReplicaId, Slot, Span, Time, View, planted};
use reads::FollowerReads;
use replication::Leading;
use restore::Replay;
use stays::stay_of_view;
use std::collections::BTreeMap;
use term::Term;
use timer::Timer;

/// No view is higher: a peer that names an absurd one is refused instead of followed to the end of the numbers.
pub const VIEW_MAX: View = View::new(1 << 62);

/// What a Raft instance is told once.
#[derive(Clone, Debug)]
pub struct RaftConfig {
    /// This replica.
    pub me: ReplicaId,
    /// The voters with whom the cluster began, without repetition. A replica that joins later is none of them, and learns from
    /// the log or a checkpoint who takes part.
    pub members: Vec<ReplicaId>,
    /// All randomness follows from it. Differs between the replicas; should differ between two starts of one, too.
    pub seed: u64,
    /// How often a leader that has nothing to say says so.
    pub heartbeat: Span,
    /// A follower that hears nothing for a random time between this ...
    pub election_min: Span,
    /// ... and this asks for an election. A leader that hears no quorum for this long steps down.
    pub election_max: Span,
    /// When the connection to the leader closes, the election begins after a random time up to this.
    pub hint_delay_max: Span,
    /// Bytes sent to one follower and not acknowledged, at most (and one message more).
    pub window_bytes: usize,
    /// Bytes of entries in one message, at most, if it holds more than one.
    pub message_bytes_max: usize,
    /// Bytes of entries kept in memory. Entries that are still needed and can not be read back come on top.
    pub cache_bytes: usize,
    /// Whether [`Effect::Load`] works. Without it (memory mode) a follower that needs entries which left the cache needs a
    /// checkpoint.
    pub reload: bool,
    /// An idle leader tells its followers of a commit after this.
    pub commit_delay: Span,
    /// Where there is a number, a leader may answer strong reads by a lease: as long as it knows that nobody else can have been
    /// elected. That holds only while the rates of any two replicas' clocks differ by at most so many percent. With a number, this
    /// and `election_min` are the same on all replicas.
    pub lease_drift_percent: Option<u8>,
}

impl RaftConfig {
    /// What of the general settings concerns Raft.
    pub fn of(config: &OrderConfig) -> Self {
        Self {
            heartbeat: config.heartbeat,
            election_min: config.timeout,
            election_max: config.timeout_max,
            window_bytes: config.window_bytes,
            message_bytes_max: config.message_bytes_max,
            cache_bytes: config.cache_bytes,
            reload: config.reload,
            lease_drift_percent: config.lease_drift_percent,
            ..Self::new(config.me, config.members.clone(), config.seed)
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
            hint_delay_max: Span::from_millis(20),
            window_bytes: 16 << 20,
            message_bytes_max: 1 << 20,
            cache_bytes: 64 << 20,
            reload: true,
            commit_delay: Span::from_millis(5),
            lease_drift_percent: None,
        }
    }
}

/// What this replica does at the moment.
#[derive(Debug)]
enum Role {
    Follower,
    /// Asks whether it would win an election.
    PreCandidate(Votes),
    Candidate(Votes),
    Leader(Box<Leading>),
}

/// One Raft instance on one replica.
#[derive(Debug)]
pub struct Raft {
    config: RaftConfig,
    members: Members,
    life: Life,
    term: Term,
    timer: Timer,
    role: Role,
    log: Log,
    commit: Index,
    delivery: Delivery,
    records: Records,
    /// Followers that lost what they had acknowledged while this replica led, and how many entries, since the start.
    lost: BTreeMap<ReplicaId, u64>,
    /// Only before the start.
    replay: Replay,
    reads: FollowerReads,
}

impl Raft {
    /// An instance without a history; [`Order::restore`] gives it one.
    ///
    /// # Panics
    /// When `members` is empty or names one twice.
    pub fn new(config: RaftConfig) -> Self {
        Self {
            members: Members::new(&config.members),
            timer: Timer::new(&config),
            config,
            life: Life::default(),
            term: Term::default(),
            role: Role::Follower,
            log: Log::new(),
            commit: Index::ZERO,
            delivery: Delivery::default(),
            records: Records::default(),
            lost: BTreeMap::new(),
            replay: Replay::default(),
            reads: FollowerReads::default(),
        }
    }

    fn halt(&mut self, why: Halt, out: &mut Effects) {
        self.life.halt(why, out);
    }

    /// Tells the other stages who leads, if that is news.
    fn announce(&mut self, out: &mut Effects) {
        if let Some(news) = self.term.announce() {
            out.push(news);
        }
    }

    fn on_receive(&mut self, from: ReplicaId, message: OrderMessage, out: &mut Effects) {
        let Some(message) = message.take::<RaftMessage>() else {
            return reject(out, from, Reject::Malformed("raft: another protocol's message"));
        };
        // Whoever the host vouches for is heard, also who is no member of what holds here: it may know better. [raft L122]
        if from == self.config.me {
            reject(out, from, Reject::UnknownPeer);
            return;
        }
        if message.view() > VIEW_MAX {
            reject(out, from, Reject::Malformed("raft: view"));
            return;
        }
        // [raft L144] From another stay of this instance: one of the two does not know yet.
        if stay_of_view(message.view()) != stay_of_view(self.term.view()) && !planted("stays-meet") {
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
                self.on_read_index_reply(from, view, read, slot, out);
            }
        }
    }

    fn on_durable(&mut self, record: RecordId, out: &mut Effects) {
        if !self.records.on_durable(record) {
            return;
        }
        self.log.advance_durable(record);
        match self.role {
            Role::Candidate(_) => self.count_own_vote(out),
            Role::Leader(_) => self.advance_commit(out),
            Role::Follower | Role::PreCandidate(_) => {}
        }
    }

    fn on_connected(&mut self, peer: ReplicaId, out: &mut Effects) {
        if let Role::Leader(_) = self.role {
            self.probe_again(peer, out);
        } else if self.term.leader().is_none() && self.is_voter(peer) {
            // [raft L11] What failed for want of a peer may work now.
            self.timer.try_again(self.life.now);
        }
    }

    fn on_disconnected(&mut self, peer: ReplicaId, out: &mut Effects) {
        if let Role::Leader(_) = self.role {
            self.probe_again(peer, out);
        } else if self.term.leader() == Some(peer) {
            // [raft L15]
            self.timer.lose_leader(self.life.now);
        }
    }

    fn on_deadline(&mut self, out: &mut Effects) {
        if let Role::Leader(_) = self.role {
            self.on_leader_deadline(out);
        } else if self.timer.is_over(self.life.now) {
            self.on_election_timeout(out);
        }
        self.expire_reads(out);
    }
}

impl Raft {
    /// How the step leaves it behind.
    fn stand(&mut self) {
        let leading =
            matches!(&self.role, Role::Leader(lead) if lead.transfer.is_none()) && !self.life.halted;
        // The first record of a view follows everything that was committed before.
        let settled = leading && self.log.view_at(self.delivered()) == Some(self.term.view());
        let (in_flight, in_flight_bytes) = self.proposed_and_open();
        let holds_back = self.strains_a_follower();
        self.life.standing =
            Standing { view: self.term.view(), leading, settled, holds_back, in_flight, in_flight_bytes };
    }

    /// The slot after which the log begins.
    fn begins_after(&self) -> Slot {
        if planted("floor-as-stated") {
            return self.records.stated();
        }
        if self.life.started { Slot::new(self.log.floor_slots()) } else { self.forgotten_before() }
    }
}

impl Order for Raft {
    fn restore_anchor(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        assert!(!self.life.started, "an anchor is restored before the start");
        self.restore_position(slot, anchor)
    }

    fn restore(&mut self, id: RecordId, record: Stored) -> Result<(), Halt> {
        assert!(!self.life.started, "records are restored before the start");
        self.restore_record(id, record)
    }

    fn restore_outdated(&mut self) {
        assert!(self.records.last() == RecordId::ZERO, "it is said before all records");
        self.replay.outdated = true;
    }

    fn restore_gap(&mut self, missing: u64) {
        assert!(!self.life.started, "records are restored before the start");
        self.restore_lost(missing);
    }

    fn restored(&self) -> Restored {
        Restored {
            knows_vote: self.replay.knows_vote(),
            needs_checkpoint: self.misses_entries(),
            begins_after: self.begins_after(),
        }
    }

    fn covers(&self, slot: Slot, anchor: &Anchor) -> bool {
        self.is_covered_by(slot, anchor)
    }

    fn restore_installed(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        assert!(!self.life.started, "a checkpoint takes the place of lost records before the start");
        self.restore_over(slot, anchor)
    }

    fn start(&mut self, now: Time, out: &mut Effects) {
        self.life.start(now);
        if let Err(why) = self.finish_restoring(out) {
            return self.halt(why, out);
        }
        self.term.begin();
        // A late answer to a read of an earlier life must not answer one of this life.
        let mut numbers =
            Random::new(self.config.seed ^ now.nanos() ^ self.records.last().number().rotate_left(32));
        self.reads.begin(numbers.next() >> 1);
        self.promise_again();
        // [raft L9-L10]
        let me = self.config.me;
        if self.has_quorum(|id| id == me) && self.is_voter(me) {
            self.become_candidate(false, out);
        } else {
            self.timer.reset(self.life.now);
        }
        self.tell_members(out);
        self.stand();
        self.invariants(false);
    }

    fn step(&mut self, now: Time, input: Input, out: &mut Effects) {
        // [raft L138] Read after the input arrived.
        if !self.life.step(now) {
            return;
        }
        match input {
            Input::Propose(batch) => self.on_propose(batch, out),
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
            Input::Membership(change) => self.on_membership(change, out),
            Input::Listeners(listeners) => self.on_listeners(listeners, out),
            // Only leaders take requests, and a silent one is noticed without that.
            Input::Watch(_) | Input::Unwatch(_) | Input::Vouched { .. } => {}
            Input::Deadline => self.on_deadline(out),
        }
        self.tell_members(out);
        self.trim();
        self.stand();
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
        [own, self.reads.deadline()].into_iter().flatten().min()
    }

    fn anchor(&self, slot: Slot) -> Option<Anchor> {
        self.anchor_at(slot)
    }

    fn keep_from(&self) -> Option<RecordId> {
        self.records_needed_from()
    }

    fn standing(&self) -> Standing {
        self.life.standing
    }

    fn status(&self) -> Status {
        Status {
            view: self.term.view(),
            leader: self.term.leader(),
            decided: self.delivery.slot(),
            members: self.member_status(),
            caught_up: self.caught_up(),
            there: self.there(),
            lost: self.lost.iter().map(|(replica, entries)| (*replica, *entries)).collect(),
            open: Vec::new(),
            lease: self.config.lease_drift_percent.map(|_| self.holds_lease()),
            answered_by_lease: self.reads.leased,
            membership: self.membership().clone(),
            committed_membership: self.committed_number(),
            memberships: self.named_members(),
        }
    }

    fn invariants(&self, thorough: bool) {
        self.check_invariants(thorough);
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

//! Mod-SMaRt: a leader proposes one batch after the other; WRITE and ACCEPT votes of a quorum decide it, and a quorum of signed STOPs
//! replaces the leader. Byzantine faults, n = 3f+1; or crash faults, n = 2f+1, without the WRITE step.
//!
//! Stage 3 (order). Before: admit's batches. After: merge. One call of [`Order::step`] is one input.
//!
//! Source: Sousa and Bessani, "From Byzantine Consensus to BFT State Machine Replication: A Latency-Optimal Transformation", EDCC
//! 2012; Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014. Retold line by line in
//! docs/protocols/mod_smart.md, with the deviations and what is not implemented; `[mod_smart L1]` (who leads) names a line there.
//!
//! Where to look: `normal` (PROPOSE, WRITE, ACCEPT), `examine` (whether clients sent it), `stops` (complaints, STOP, views), `sync` (STOP-DATA, SYNC), `rules` (what binds
//! a view), `statements` (what is signed, and its checks), `watch` (who waits for what), `rates` (slow leaders), `rotation` (leaders that rotate), `fetch` (decided slots from
//! others), `tenures` and `members` (who takes part, and how that changes), `log` (decided slots), `delivery`, `checkpoints`, `persist` and
//! `restore` (records), `reads`, `invariants`.
//!
//! Invariants: INV-SMART-1 to INV-SMART-12, see `invariants`. Tests: tests/ beside this file (`chaos` runs random schedules,
//! `liars` adversaries), the common suite in check/script/tests/all/order_suite.rs.

mod checkpoints;
mod delivery;
mod examine;
mod fetch;
mod invariants;
mod members;
pub mod message;
mod normal;
mod persist;
mod rates;
mod reads;
mod restore;
mod rotation;
mod rules;
mod statements;
mod stops;
mod sync;
mod tenures;
mod watch;

pub use crate::ledger::{RECORD_DECIDED, RECORD_FLOOR};
pub use persist::{RECORD_LOCKED, RECORD_VIEW, RECORD_WROTE};
pub(crate) use tenures::first_anchor;

use crate::OrderMessage;
use crate::ledger::Ledger;
use crate::life::Life;
use crate::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use crate::{Anchor, Effect, Effects, Input, Order, OrderConfig, Random, Restored, Standing, Status, Stored};
use examine::Vouched;
use fetch::Fetching;
use members::Members;
use normal::{Open, Own, Tally};
use quorate_auth::Authenticator;
use quorate_auth::Signed;
use quorate_types::{
    ClusterId, Digest, Faults, Halt, InstanceId, MembershipId, RecordId, Reject, ReplicaId, Slot, Span, Time,
    View, planted,
};
use quorate_wire::{Batch, Verified};
use rates::Rates;
use reads::Reads;
use rotation::Rotation;
pub use statements::{Statements, digest_of};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stops::Stops;
use sync::Gathered;
use tenures::{Tenures, number_of};
use watch::Watch;

/// No view is higher: a peer that names an absurd one is refused instead of followed to the end of the numbers.
pub const VIEW_MAX: View = View::new(1 << 62);
/// No slot is higher (path/4-merge).
pub const SLOT_MAX: Slot = Slot::new(1 << 48);

/// What an instance of Mod-SMaRt is told once.
#[derive(Clone, Debug)]
pub struct ModSmartConfig {
    /// This replica.
    pub me: ReplicaId,
    /// The members with which the cluster began, without repetition, the same everywhere. A replica that joins later is none of them, and
    /// may not know them: any members serve.
    pub members: Vec<ReplicaId>,
    /// Which faults are survived.
    pub faults: Faults,
    /// Part of everything that is signed.
    pub cluster: ClusterId,
    /// The same; and instances have different leaders in the same view.
    pub instance: InstanceId,
    /// Differs between two starts of one replica.
    pub seed: u64,
    /// How often a leader says that it lives, and how often everybody looks at what is late.
    pub heartbeat: Span,
    /// How long a complaint takes to form, while everything is well.
    pub timeout: Span,
    /// To how much that grows, at most, while leader after leader fails.
    pub timeout_max: Span,
    /// So many slots a leader leads, then the next one does; 0: as long as nobody complains.
    pub rotate_after: u64,
    /// How long a message may stay without effect before it is sent again.
    pub repeat: Span,
    /// Bytes of decided batches kept in memory, at most, where they can be read back.
    pub cache_bytes: usize,
    /// Whether [`Effect::Load`] works. Without it (memory mode) everything after the last checkpoint stays in memory.
    pub reload: bool,
}

impl ModSmartConfig {
    /// What of the general settings concerns this instance of Mod-SMaRt.
    pub fn of(config: &OrderConfig, instance: InstanceId) -> Self {
        Self {
            cluster: config.cluster,
            instance,
            heartbeat: config.heartbeat,
            timeout: config.timeout,
            timeout_max: config.timeout_max.times(4),
            repeat: Span::from_millis(config.timeout.millis() / 3),
            rotate_after: config.rotate_after,
            cache_bytes: config.cache_bytes,
            reload: config.reload,
            ..Self::new(config.me, config.members.clone(), config.faults, config.seed)
        }
    }

    /// The usual times and sizes.
    pub fn new(me: ReplicaId, members: Vec<ReplicaId>, faults: impl Into<Faults>, seed: u64) -> Self {
        Self {
            me,
            members,
            faults: faults.into(),
            cluster: ClusterId::new(0),
            instance: InstanceId::new(1),
            seed,
            heartbeat: Span::from_millis(50),
            timeout: Span::from_millis(300),
            timeout_max: Span::from_millis(2400),
            rotate_after: 0,
            repeat: Span::from_millis(100),
            cache_bytes: 64 << 20,
            reload: true,
        }
    }
}

/// Whether votes are cast.
#[derive(Debug)]
enum Phase {
    /// The view is entered, and what binds it is not known.
    Syncing,
    /// Its first slot is known; if a value binds that, it is here until it is decided.
    /// `settled`: everything that may have been decided before lies up to there.
    Normal { base: Slot, forced: Option<(Digest, Batch)>, settled: Slot },
}

/// The view, what made it, and what binds it.
#[derive(Debug)]
struct Office {
    view: View,
    /// The STOPs that made the view.
    certificate: Signed,
    /// The record that says in which view this replica is.
    record: RecordId,
    /// It led this view and does not any more: in an earlier life, of which it does not know what it proposed, or because it reached
    /// nobody.
    barred: bool,
    phase: Phase,
    /// What [`Effect::LeaderChanged`] said last.
    announced: (View, Option<ReplicaId>),
}

/// What is voted on: the slot after the last decided one, and a few after that.
#[derive(Debug, Default)]
struct Voting {
    /// This replica's votes on the slot after the last decided one.
    open: Open,
    /// The votes of this view, by slot.
    tallies: BTreeMap<Slot, Tally>,
    /// Proposals of which the host knows that clients sent them.
    vouched: Vouched,
    /// Own votes that count when their record is durable.
    own: VecDeque<(RecordId, Own)>,
    /// Batches proposed here and not yet taken up.
    queue: VecDeque<Batch>,
}

/// What is done once in a while, and for whom it was done since the last tick.
#[derive(Debug, Default)]
struct Pace {
    tick: Time,
    /// When something was last sent again.
    repeated: Time,
    /// Who was shown a certificate, or asked for one, since the last tick.
    shown: BTreeSet<ReplicaId>,
    /// Who was sent a decided slot for a complaint, since the last tick.
    helped: BTreeSet<ReplicaId>,
}

/// One Mod-SMaRt instance on one replica.
#[derive(Debug)]
pub struct ModSmart {
    config: ModSmartConfig,
    auth: Box<dyn Authenticator>,
    life: Life,
    /// Who takes part, by slot.
    members: Members,
    office: Office,
    voting: Voting,
    ledger: Ledger,
    stops: Stops,
    gathered: Gathered,
    watch: Watch,
    rates: Rates,
    rotation: Rotation,
    fetching: Fetching,
    reads: Reads,
    pace: Pace,
}

impl ModSmart {
    /// An instance without a history; [`Order::restore`] gives it one.
    ///
    /// # Panics
    /// When `members` is empty or names one twice.
    pub fn new(mut config: ModSmartConfig, auth: Box<dyn Authenticator>) -> Self {
        config.members.sort_unstable();
        let founded = config.members.contains(&config.me);
        let tenures = Tenures::created(&config.members, config.instance, config.faults, founded);
        Self {
            members: Members::new(tenures, config.faults),
            ledger: Ledger::new(config.reload.then_some(config.cache_bytes)),
            config,
            auth,
            life: Life::default(),
            office: Office {
                view: View::ZERO,
                certificate: Signed::new(),
                record: RecordId::ZERO,
                barred: false,
                phase: Phase::Syncing,
                announced: (View::ZERO, None),
            },
            voting: Voting::default(),
            stops: Stops::default(),
            gathered: Gathered::default(),
            watch: Watch::default(),
            rates: Rates::default(),
            rotation: Rotation::default(),
            fetching: Fetching::default(),
            reads: Reads::default(),
            pace: Pace::default(),
        }
    }

    fn leader_of(&self, view: View) -> ReplicaId {
        rules::leader_of(&self.members.voters, self.config.instance.number(), view)
    }
    fn leader(&self) -> ReplicaId {
        self.leader_of(self.office.view)
    }
    /// Whether this view is ours to lead, begun or not.
    fn is_mine(&self) -> bool {
        self.leader() == self.config.me && !self.office.barred
    }
    fn decided(&self) -> Slot {
        self.ledger.last()
    }
    fn may_lie(&self) -> bool {
        self.config.faults.may_lie()
    }
    fn membership_number(&self) -> MembershipId {
        self.members.tenures.now().number()
    }
    /// Whether this replica votes on the open slot.
    fn votes(&self) -> bool {
        self.is_member(self.config.me)
    }

    fn send(&self, out: &mut Effects, to: ReplicaId, body: Body, after: Option<RecordId>) {
        if to != self.config.me {
            let message =
                ModSmartMessage { membership: self.membership_number(), view: self.office.view, body };
            // A message says in which view we are: that must be durable, too.
            let after =
                after.max(Some(self.office.record)).and_then(|record| self.ledger.records().pending(record));
            out.push(Effect::Send { to, message: OrderMessage::of(message), after });
        }
    }
    fn send_all(&self, out: &mut Effects, body: &Body, after: Option<RecordId>) {
        for to in &self.members.voters {
            self.send(out, *to, body.clone(), after);
        }
    }
    /// The same, also to those who only listen.
    fn tell_all(&self, out: &mut Effects, body: &Body) {
        self.send_all(out, body, None);
        for to in self.hearers() {
            self.send(out, to, body.clone(), None);
        }
    }

    fn halt(&mut self, why: Halt, out: &mut Effects) {
        self.life.halt(why, out);
    }

    /// Tells the other stages who leads, if that is news.
    fn announce(&mut self, out: &mut Effects) {
        let known = matches!(self.office.phase, Phase::Normal { .. }) && self.members.tenures.is_known();
        let leader = match self.leader() {
            me if me == self.config.me => self.leads().then_some(me),
            other => Some(other).filter(|_| known && self.hears_leader()),
        };
        let news = leader != self.office.announced.1
            || (leader.is_some() && self.office.view != self.office.announced.0);
        if news {
            self.office.announced = (self.office.view, leader);
            let rotated = self.follows_whole_shift();
            out.push(Effect::LeaderChanged { view: self.office.view, leader, rotated });
        }
    }

    /// Leads a view that has begun.
    fn leads(&self) -> bool {
        self.is_mine()
            && matches!(self.office.phase, Phase::Normal { .. })
            && !self.life.halted
            && self.life.started
    }

    fn on_receive(&mut self, verified: Verified<OrderMessage>, out: &mut Effects) {
        let (from, message) = verified.into_parts();
        let Some(message) = message.take::<ModSmartMessage>() else {
            return reject(out, from, Reject::Malformed("mod-smart: another protocol's message"));
        };
        let ModSmartMessage { membership, view, body } = message;
        if from == self.config.me {
            return reject(out, from, Reject::UnknownPeer);
        }
        if view > VIEW_MAX || view < View::FIRST || !is_view_of(view, membership) {
            return reject(out, from, Reject::Malformed("mod-smart: view"));
        }
        if membership != self.membership_number() {
            return self.on_other_membership(from, membership, body, out);
        }
        if !self.may_say(from, &body) {
            return reject(out, from, Reject::UnknownPeer);
        }
        if view < self.office.view {
            self.show_certificate(from, out);
        } else if view > self.office.view {
            self.ask_for_certificate(from, &body, out);
        }
        self.on_body(from, view, body, out);
    }

    fn on_body(&mut self, from: ReplicaId, view: View, body: Body, out: &mut Effects) {
        // These mean the same whatever view we are in. [mod_smart L7]
        match body {
            Body::Stop { asked, why, decided, signature } => {
                self.help_or_follow(from, decided, out);
                return self.on_stop(from, asked, why, signature, out);
            }
            Body::Certificate { stops } => return self.on_certificate(from, view, stops, out),
            Body::Sync { stops, collects, last, value } => {
                return self.on_sync(from, view, stops, collects, last, value, out);
            }
            Body::Fetch { slot, count } => return self.on_fetch(from, slot, count, out),
            Body::Decision { proof, batch } => return self.on_decision(from, proof, batch, out),
            Body::Gone { slot, proof } => return self.on_gone(from, slot, proof, out),
            _ if view != self.office.view => return,
            _ => {}
        }
        match body {
            Body::Propose { slot, batch } => self.on_propose(from, slot, batch, out),
            Body::Write { slot, digest } => self.on_write(from, slot, digest, out),
            Body::Accept { slot, digest, signature } => self.on_accept(from, slot, digest, signature, out),
            Body::StopData { collect, last, batches } => self.on_stop_data(from, collect, last, batches, out),
            Body::Alive { decided, round } => self.on_alive(from, decided, round, out),
            Body::AliveReply { decided, round } => self.on_alive_reply(from, decided, round, out),
            Body::Read { read } => self.on_read_question(from, read, out),
            Body::ReadReply { read, slot } => self.on_read_reply(from, read, slot, out),
            _ => {}
        }
    }

    fn on_durable(&mut self, record: RecordId, out: &mut Effects) {
        self.ledger.on_durable(record);
        self.count_own(out);
    }

    fn on_tick(&mut self, out: &mut Effects) {
        if self.life.now < self.pace.tick {
            return;
        }
        self.pace.tick = self.life.now.plus(self.config.heartbeat);
        self.pace.shown.clear();
        self.pace.helped.clear();
        self.step_down_alone(out);
        self.beat(out);
        self.look_at_the_clock(out);
        self.repeat(out);
        self.fetch_on(out);
        self.expire_reads(out);
    }
}

impl ModSmart {
    /// How the step leaves it behind.
    fn stand(&mut self) {
        let leading = self.leads() && self.stops.leaving.is_none() && !self.shift_is_full();
        let handed_on = match &self.office.phase {
            Phase::Normal { settled, .. } => self.ledger.delivered() >= *settled,
            Phase::Syncing => false,
        };
        let settled = leading && handed_on && self.is_confirmed();
        let (in_flight, in_flight_bytes) = self.proposed_and_open();
        self.life.standing = Standing {
            view: self.office.view,
            leading,
            settled,
            holds_back: false,
            in_flight,
            in_flight_bytes,
        };
    }
}

impl Order for ModSmart {
    fn restore_anchor(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        assert!(!self.life.started, "an anchor is restored before the start");
        self.restore_position(slot, anchor)
    }

    fn restore_outdated(&mut self) {
        self.ledger.restore_outdated();
    }

    fn restore(&mut self, id: RecordId, record: Stored) -> Result<(), Halt> {
        assert!(!self.life.started, "records are restored before the start");
        self.restore_record(id, record)
    }

    fn restore_gap(&mut self, _missing: u64) {
        assert!(!self.life.started, "records are restored before the start");
        self.restore_lost();
    }

    fn restored(&self) -> Restored {
        let restored = self.ledger.restored(self.votes_read());
        let begins_after = if self.life.started { self.ledger.floor() } else { restored.begins_after };
        Restored { begins_after, ..restored }
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
        // A late answer to a read of an earlier life must not answer one of this life.
        let mut numbers = Random::new(
            self.config.seed ^ now.nanos() ^ self.ledger.records().last().number().rotate_left(32),
        );
        self.reads.begin(numbers.next() >> 1);
        self.pace.tick = now.plus(self.config.heartbeat);
        self.begin_life(out);
        self.announce(out);
        self.tell_members(out);
        self.stand();
        self.invariants(false);
    }

    fn step(&mut self, now: Time, input: Input, out: &mut Effects) {
        if !self.life.step(now) {
            return;
        }
        self.watch.has_turn(self.life.now.since(self.pace.tick), self.config.timeout_max);
        let first = self.ledger.begin();
        match input {
            Input::Propose(batch) => self.on_batch(batch, out),
            Input::Receive(verified) => self.on_receive(verified, out),
            Input::Durable(record) => self.on_durable(record, out),
            Input::Loaded { load, records } => self.on_loaded(load, records, out),
            Input::Connected(peer) => self.on_connected(peer, out),
            Input::Disconnected(peer) => self.on_disconnected(peer),
            Input::Read(read) => self.on_read(read, out),
            Input::Transfer(target) => self.on_transfer(target),
            Input::Trim { slot } => self.on_trim(slot, out),
            Input::Installed { slot, anchor } => self.on_installed(slot, &anchor, out),
            Input::Membership(change) => self.on_membership(change, out),
            Input::Listeners(listeners) => self.on_listeners(listeners),
            Input::Watch(request) => self.on_watch(request),
            Input::Unwatch(request) => self.watch.forget(&request),
            Input::Vouched { slot, digest, waited } => self.on_vouched(slot, digest, waited, out),
            Input::Deadline => self.on_tick(out),
        }
        if first {
            self.deliver(out);
        }
        self.end_shift(out);
        self.leave_if_idle(out);
        self.announce(out);
        self.tell_members(out);
        self.evict();
        self.stand();
        self.invariants(false);
    }

    fn deadline(&self) -> Option<Time> {
        let next = if self.ledger.has_begun() { self.pace.tick } else { self.life.now };
        (self.life.started && !self.life.halted).then_some(next)
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
            view: self.office.view,
            leader: self.office.announced.1,
            decided: self.ledger.delivered(),
            members: self.member_status(),
            caught_up: self.caught_up(),
            there: self.there(),
            lost: Vec::new(),
            open: self.voting.open.batches.values().map(|(batch, _)| batch.clone()).collect(),
            lease: None,
            answered_by_lease: 0,
            membership: self.members.tenures.now().members.clone(),
            committed_membership: self.established_number(),
            memberships: self.members.tenures.all().iter().map(|tenure| tenure.members.clone()).collect(),
        }
    }

    fn invariants(&self, thorough: bool) {
        self.check_invariants(thorough);
    }
}

/// Whether this is one of the views of a membership.
fn is_view_of(view: View, membership: MembershipId) -> bool {
    number_of(view) == membership || planted("smart-views-go-on")
}

fn reject(out: &mut Effects, from: ReplicaId, why: Reject) {
    out.push(Effect::Rejected { from, why });
}

#[cfg(test)]
mod tests;

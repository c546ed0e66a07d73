//! Mod-SMaRt: a leader proposes one batch after the other; WRITE and ACCEPT votes of a quorum decide it, and a quorum of signed STOPs
//! replaces the leader. Byzantine faults, n = 3f+1; or crash faults, n = 2f+1, without the WRITE step.
//!
//! Stage 3 (order). Before: admit's batches. After: merge. One call of [`Order::step`] is one input.
//!
//! Source: Sousa and Bessani, "From Byzantine Consensus to BFT State Machine Replication: A Latency-Optimal Transformation", EDCC
//! 2012; Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014. Retold line by line in
//! docs/protocols/mod_smart.md, with the deviations and what is not implemented; `[mod_smart L1]` (which member leads) names a line there.
//!
//! The parts read what the replica knows (`core`, with `members` and `tenures` for who takes part, `statements` for what is signed,
//! `persist` for records). Each part keeps what only it needs: `normal` votes on slots; `examine` asks whether clients sent what is
//! proposed; `stops` asks for views; `sync` gathers what binds a view, by the `rules`; `watch` measures how long things wait; `rates` finds
//! slow leaders; `rotation` counts shifts; `fetch` gets decided slots from others; `reads` confirms reads; `testimony` finds who
//! contradicts itself, and makes `evidence` of it; `restore` takes records back. A
//! part returns what came of a step. This file, `slots` and `views` act on that, in order; `status` and `invariants` only read.
//!
//! Invariants: INV-SMART-1 to INV-SMART-13, see `invariants`. Tests: tests/ beside this file (`chaos` runs random schedules,
//! `liars` adversaries), the common suite in check/script/tests/all/order_suite.rs.

mod core;
pub mod evidence;
mod examine;
mod fetch;
mod few;
mod group;
mod invariants;
mod members;
pub mod message;
mod normal;
mod office;
mod persist;
mod rates;
mod reads;
mod referee;
mod restore;
mod rotation;
pub(crate) mod rules;
mod slots;
mod statements;
mod status;
mod stops;
mod sync;
mod tenures;
mod testimony;
mod unaided;
mod views;
mod watch;

pub use crate::ledger::{RECORD_DECIDED, RECORD_FLOOR};
pub use persist::{RECORD_LOCKED, RECORD_VIEW, RECORD_WROTE};
pub(crate) use tenures::first_anchor;

use self::core::Core;
use crate::OrderMessage;
use crate::mod_smart::message::{ModSmartBody as Body, ModSmartMessage};
use crate::{Anchor, Effect, Effects, Input, Order, OrderConfig, Random, Restored, Standing, Status, Stored};
use fetch::Fetching;
use few::Few;
pub use group::Group;
use normal::Voting;
use quorate_auth::Authenticator;
use quorate_types::{
    ClusterId, Faults, Halt, InstanceId, MembershipId, RecordId, Reject, ReplicaId, Slot, Span, Time, View,
    planted,
};
use quorate_wire::Verified;
use rates::Rates;
use reads::{Look, Reads};
pub use referee::Referee;
use restore::Replay;
use rotation::Rotation;
pub use statements::{Statements, digest_of};
use std::collections::BTreeSet;
use stops::Stops;
use sync::Gathered;
use tenures::number_of;
use testimony::Testimony;
use unaided::Unaided;
use watch::Watch;

/// No view is higher. A peer that names a higher view is refused.
pub const VIEW_MAX: View = View::new(1 << 62);
/// No slot is higher (path/4-merge).
pub const SLOT_MAX: Slot = Slot::new(1 << 48);

/// The settings of one instance of Mod-SMaRt.
#[derive(Clone, Debug)]
pub struct ModSmartConfig {
    /// This replica.
    pub me: ReplicaId,
    /// The members with which the cluster began: no id twice, and the same list on every replica. A replica that joins later is not among
    /// them and may not know them; then any list will do.
    pub members: Vec<ReplicaId>,
    /// Which faults the cluster survives.
    pub faults: Faults,
    /// The members whose votes count more, where `faults` says that some do.
    pub heavy: Vec<ReplicaId>,
    /// Whether there is an oracle, where few members are slow.
    pub oracle: bool,
    /// The cluster's id, which is part of everything that is signed.
    pub cluster: ClusterId,
    /// The instance, which is also signed. Instances have different leaders in the same view.
    pub instance: InstanceId,
    /// The seed of all randomness; it differs between two starts of one replica.
    pub seed: u64,
    /// How often a leader sends a heartbeat, and how often every replica looks for what is late.
    pub heartbeat: Span,
    /// How long a replica waits before it complains, while everything is well.
    pub timeout: Span,
    /// The most to which that time grows while one leader after the other fails.
    pub timeout_max: Span,
    /// A leader leads this many slots, then the next member leads; 0: the leader stays as long as nobody complains.
    pub rotate_after: u64,
    /// A message that had no effect is sent again after this time.
    pub repeat: Span,
    /// At most this many bytes of decided batches stay in memory, where they can be read back.
    pub cache_bytes: usize,
    /// Whether [`Effect::Load`] works. Without it (memory mode) everything after the last checkpoint stays in memory.
    pub reload: bool,
}

impl ModSmartConfig {
    /// Takes the general settings that concern this instance.
    pub fn of(config: &OrderConfig, instance: InstanceId) -> Self {
        Self {
            cluster: config.cluster,
            heavy: config.heavy.clone(),
            oracle: config.oracle,
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
            heavy: Vec::new(),
            oracle: true,
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

/// When periodic work was done last, and for which members since the last tick.
#[derive(Debug, Default)]
struct Pace {
    tick: Time,
    /// When something was last sent again.
    repeated: Time,
    /// Members that were shown a certificate, or asked for one, since the last tick.
    shown: BTreeSet<ReplicaId>,
    /// Members that complained and were sent a decided slot for that, since the last tick.
    helped: BTreeSet<ReplicaId>,
}

/// One Mod-SMaRt instance on one replica.
#[derive(Debug)]
pub struct ModSmart {
    core: Core,
    voting: Voting,
    stops: Stops,
    gathered: Gathered,
    watch: Watch,
    rates: Rates,
    rotation: Rotation,
    fetching: Fetching,
    reads: Reads,
    /// What members signed, to find who contradicts itself.
    testimony: Testimony,
    /// Small quorums, where few members are slow.
    few: Few,
    /// The same, where there is no oracle.
    unaided: Unaided,
    pace: Pace,
    /// Used only before the start.
    replay: Replay,
}

impl ModSmart {
    /// An instance without a history; [`Order::restore`] gives it one.
    ///
    /// # Panics
    /// When `members` is empty or names one twice.
    pub fn new(config: ModSmartConfig, auth: Box<dyn Authenticator>) -> Self {
        let seed = config.seed;
        Self {
            core: Core::new(config, auth),
            voting: Voting::default(),
            stops: Stops::default(),
            gathered: Gathered::default(),
            watch: Watch::default(),
            rates: Rates::default(),
            rotation: Rotation::default(),
            fetching: Fetching::default(),
            reads: Reads::default(),
            testimony: Testimony::default(),
            few: Few::new(seed),
            unaided: Unaided::new(seed),
            pace: Pace::default(),
            replay: Replay::default(),
        }
    }

    fn halt(&mut self, why: Halt, out: &mut Effects) {
        self.core.life.halt(why, out);
    }

    /// Tells the other stages who leads, if that changed.
    fn announce(&mut self, out: &mut Effects) {
        let core = &self.core;
        let leader = match core.leader() {
            me if me == core.config.me => core.leads().then_some(me),
            other => Some(other).filter(|_| {
                core.has_begun() && core.members.tenures().is_known() && self.watch.hears_leader(core)
            }),
        };
        if self.core.office.announce(leader) {
            let (view, planned) = (self.core.office.view(), self.rotation.follows_no_failure(&self.core));
            out.push(Effect::LeaderChanged { view, leader, planned });
        }
    }

    fn on_receive(&mut self, verified: Verified<OrderMessage>, out: &mut Effects) {
        let (from, message) = verified.into_parts();
        let Some(message) = message.take::<ModSmartMessage>() else {
            return reject(out, from, Reject::Malformed("mod-smart: another protocol's message"));
        };
        let ModSmartMessage { membership, view, body } = message;
        if from == self.core.config.me {
            return reject(out, from, Reject::UnknownPeer);
        }
        if view > VIEW_MAX || !is_view_of(view, membership) {
            return reject(out, from, Reject::Malformed("mod-smart: view"));
        }
        if membership != self.core.membership_number() {
            return self.on_other_membership(from, membership, body, out);
        }
        if !self.core.members.may_say(from, &body) {
            return reject(out, from, Reject::UnknownPeer);
        }
        if view < self.core.office.view() {
            self.show_certificate(from, out);
        } else if view > self.core.office.view() {
            self.ask_for_certificate(from, &body, out);
        }
        self.on_body(from, view, body, out);
    }

    fn on_body(&mut self, from: ReplicaId, view: View, body: Body, out: &mut Effects) {
        if self.few.must_read_first(&body, &self.core, out) {
            return;
        }
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
            // [visigoth L29]
            Body::Probe { tag } if self.core.looks_for_others() => {
                return self.core.send(out, from, Body::Probed { tag }, None);
            }
            Body::Probed { tag } if self.core.looks_for_others() => return self.few.on_probed(from, tag),
            Body::Probe { tag } => return self.on_probe(from, view, tag, out),
            Body::Probed { tag } => return self.on_probed(from, view, tag, out),
            _ if view != self.core.office.view() => return,
            _ => {}
        }
        match body {
            Body::Propose { slot, batch } => self.on_propose(from, slot, batch, out),
            Body::Write { slot, digest } => self.on_write(from, slot, digest, out),
            Body::Accept { slot, digest, signature } => self.on_accept(from, slot, digest, signature, out),
            Body::StopData { collect, last, batches } => self.on_stop_data(from, collect, last, batches, out),
            Body::Alive { decided, round } => self.on_alive(from, decided, round, out),
            Body::AliveReply { decided, round } => self.on_alive_reply(from, decided, round, out),
            Body::Read { read } => {
                let look = Look { core: &self.core, voting: &self.voting };
                self.reads.on_question(from, read, look, out);
            }
            Body::ReadReply { read, slot } => self.reads.on_reply(from, read, slot, &self.core, out),
            Body::Granted { sets, since } => self.on_granted(from, sets, since, out),
            Body::Ask { tag } => self.few.on_ask(from, tag, &self.core, out),
            Body::Back { tag } => self.on_back(from, tag, out),
            Body::Misses { tag, ids, signature } => {
                self.few.on_misses(from, (tag, ids, signature), &self.core, out);
            }
            _ => {}
        }
    }

    /// [mod_smart L59]
    fn on_alive(&mut self, from: ReplicaId, decided: Slot, round: u64, out: &mut Effects) {
        if from != self.core.leader() {
            return;
        }
        self.watch.heard_leader(from, &self.core);
        let own = self.core.decided();
        self.fetching.hint(from, decided, own);
        let decided = self.core.members.keeps_up_to(own);
        self.core.send(out, from, Body::AliveReply { decided, round }, None);
        if self.core.may_lie() && !self.core.votes() {
            // All who decide whether it votes have to know how far it is. [mod_smart L121]
            let voters = self.core.members.voters().iter().filter(|voter| **voter != from);
            voters.for_each(|to| self.core.send(out, *to, Body::AliveReply { decided, round }, None));
        }
    }

    /// [mod_smart L94]
    fn on_alive_reply(&mut self, from: ReplicaId, decided: Slot, round: u64, out: &mut Effects) {
        let (leads, learner) = (self.core.is_mine(), self.core.may_lie() && !self.core.is_member(from));
        if (!leads && !learner) || (leads && round > self.reads.round()) {
            return;
        }
        self.watch.note_heard(from, self.core.now());
        let own = self.core.decided();
        self.core.members.note_decided(from, decided, own);
        if !leads {
            return;
        }
        self.fetching.hint(from, decided, own);
        let look = Look { core: &self.core, voting: &self.voting };
        self.reads.answered(from, round, look, out);
    }

    fn on_durable(&mut self, record: RecordId, out: &mut Effects) {
        self.core.ledger.on_durable(record);
        self.count_own(out);
    }

    fn on_read(&mut self, read: u64, out: &mut Effects) {
        let look = Look { core: &self.core, voting: &self.voting };
        self.reads.on_read(read, look, out);
    }

    fn on_tick(&mut self, out: &mut Effects) {
        let now = self.core.now();
        if now < self.pace.tick {
            return;
        }
        self.pace.tick = now.plus(self.core.config.heartbeat);
        self.pace.shown.clear();
        self.pace.helped.clear();
        self.step_down_alone(out);
        self.count_all_again(out);
        self.ask_to_count(out);
        self.reads.beat(&self.core, out);
        self.look_at_the_clock(out);
        self.repeat(out);
        self.fetching.go_on(&self.core, out);
        self.reads.expire(&self.core, out);
        self.testimony.tick(&self.core, out);
    }
}

impl Order for ModSmart {
    fn restore_anchor(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        assert!(!self.core.life.started, "an anchor is restored before the start");
        Replay::anchor(slot, anchor, &mut self.core)
    }

    fn restore_outdated(&mut self) {
        self.core.ledger.restore_outdated();
    }

    fn restore(&mut self, id: RecordId, record: Stored) -> Result<(), Halt> {
        assert!(!self.core.life.started, "records are restored before the start");
        self.replay.record(id, record, &mut self.core, &mut self.voting.open)
    }

    fn restore_gap(&mut self, _missing: u64) {
        assert!(!self.core.life.started, "records are restored before the start");
        restore::lose(&mut self.core, &mut self.voting.open);
    }

    fn restored(&self) -> Restored {
        status::restored(self)
    }

    fn covers(&self, slot: Slot, anchor: &Anchor) -> bool {
        restore::is_covered_by(slot, anchor, &self.core)
    }

    fn restore_installed(&mut self, slot: Slot, anchor: &Anchor) -> Result<(), Halt> {
        assert!(!self.core.life.started, "a checkpoint takes the place of lost records before the start");
        restore::install(slot, anchor, &mut self.core, &mut self.voting.open)
    }

    fn start(&mut self, now: Time, out: &mut Effects) {
        self.core.life.start(now);
        let replay = std::mem::take(&mut self.replay);
        if let Err(why) = replay.finish(&mut self.core, &mut self.voting.open, out) {
            return self.halt(why, out);
        }
        // A late answer to a read of an earlier life must not answer one of this life.
        let last = self.core.ledger.records().last().number();
        let mut numbers = Random::new(self.core.config.seed ^ now.nanos() ^ last.rotate_left(32));
        self.reads.begin(numbers.next() >> 1);
        self.pace.tick = now.plus(self.core.config.heartbeat);
        self.begin_life(out);
        self.announce(out);
        self.core.members.tell(self.core.ledger.last(), out);
        self.core.life.standing = status::standing(self);
        self.invariants(false);
    }

    fn step(&mut self, now: Time, input: Input, out: &mut Effects) {
        if !self.core.life.step(now) {
            return;
        }
        self.watch.has_turn(self.core.life.now.since(self.pace.tick), self.core.config.timeout_max);
        self.unaided.has_turn(&self.core);
        let first = self.core.ledger.begin();
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
            Input::Listeners(listeners) => self.core.members.listen(listeners, self.core.ledger.last()),
            Input::Hold(secret) => self.on_hold(&secret, out),
            Input::Watch(request) => self.watch.on_watch(request, self.core.now()),
            Input::Unwatch(request) => self.watch.forget(&request),
            Input::Vouched { slot, digest, waited } => self.on_vouched(slot, digest, waited, out),
            Input::Oracle(answer) => self.on_oracle(answer, out),
            Input::Busy(busy) => self.core.members.busy = busy,
            Input::Met => self.core.members.met = true,
            Input::Deadline => self.on_tick(out),
        }
        if first {
            // [mod_smart L28]
            self.core.ledger.deliver(out);
        }
        self.end_shift(out);
        self.leave_if_idle(out);
        self.go_on_with_few(out);
        self.core.say_granted(out);
        self.announce(out);
        self.core.members.tell(self.core.ledger.last(), out);
        // [mod_smart L29]
        self.core.ledger.evict();
        self.core.life.standing = status::standing(self);
        self.invariants(false);
    }

    fn deadline(&self) -> Option<Time> {
        let tick = if self.core.ledger.has_begun() { self.pace.tick } else { self.core.life.now };
        let few = [self.few.deadline(self.awaited()), self.unaided.deadline(&self.core)];
        let next = few.into_iter().flatten().fold(tick, Time::min);
        (self.core.life.started && !self.core.life.halted).then_some(next)
    }

    fn anchor(&self, slot: Slot) -> Option<Anchor> {
        self.anchor_at(slot)
    }

    fn keep_from(&self) -> Option<RecordId> {
        // [mod_smart L80]
        self.core.ledger.keep_from(self.voting.open.first_record())
    }

    fn heartbeats(&self, out: &mut Effects) {
        self.reads.beat_again(&self.core, out);
    }

    fn standing(&self) -> Standing {
        self.core.life.standing
    }

    fn status(&self) -> Status {
        status::status(self)
    }

    fn invariants(&self, thorough: bool) {
        invariants::check(self, thorough);
    }
}

/// Whether this view is one of this membership.
fn is_view_of(view: View, membership: MembershipId) -> bool {
    view >= View::FIRST && number_of(view) == membership || planted("smart-views-go-on")
}

fn reject(out: &mut Effects, from: ReplicaId, why: Reject) {
    out.push(Effect::Rejected { from, why });
}

#[cfg(test)]
mod tests;

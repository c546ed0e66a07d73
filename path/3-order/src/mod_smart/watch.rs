//! Complaints about the leader: what waits, and for how long.
//!
//! A complaint ends only when the thing that it waits for is decided. So if a leader ignores one client and serves the others, replicas
//! complain until that client is served. Time-outs grow while one leader after the other decides nothing, and shrink again as slots are
//! decided. [mod_smart L60-L67]
//!
//! On an overloaded machine all replicas are slow, and no leader is to blame. A replica notices that by its own clock: it wants a turn at
//! every tick, and gets it later. Then it gives others several times as long. No other replica has a say in that, so none can lie about it.
//! [mod_smart L156]
//!
//! Tests: tests/parts.rs, tests/stops.rs.

use super::ModSmartConfig;
use super::core::Core;
use super::office::Phase;
use crate::mod_smart::message::Complaint;
use crate::{Effect, Effects};
use quorate_auth::digest_of_request;
use quorate_types::{Digest, ReplicaId, Span, Time, planted};
use quorate_wire::Batch;
use std::collections::BTreeMap;

/// At most this many requests are watched at a time; the host admits fewer.
const WATCHED_MAX: usize = 1 << 16;
/// A time-out that had grown is halved after this many slots were decided in one view.
const GOOD_SLOTS: u32 = 4;
/// Time-outs are doubled at most this often.
const DOUBLINGS_MAX: u32 = 16;
/// A view begins after this many messages, each of which may arrive just after a replica had its turn.
const TURNS: u64 = 4;
/// With each tick this part of the measured lateness is forgotten.
const FORGOTTEN: u64 = 32;

/// A request that is watched.
#[derive(Clone, Copy, Debug)]
struct Watched {
    since: Time,
    /// Whether the host was told to send it to the leader.
    forwarded: bool,
}

/// What this replica waits for, and since when.
#[derive(Debug, Default)]
pub(super) struct Watch {
    requests: BTreeMap<Digest, Watched>,
    /// Since when the slot after the last decided one is under way, as far as is known.
    open_since: Option<Time>,
    /// When the view was entered.
    entered: Time,
    /// When the leader of this view was last heard, or the view was entered.
    leader_heard: Time,
    /// When each member was last heard in this view.
    heard: BTreeMap<ReplicaId, Time>,
    /// How many views in a row decided nothing.
    failures: u32,
    /// How many slots were decided in this view.
    good: u32,
    /// How late this replica got its turns lately.
    late: Span,
}

impl Watch {
    pub(super) fn slot_is_open(&mut self, now: Time) {
        self.open_since.get_or_insert(now);
    }
    pub(super) fn slot_is_over(&mut self) {
        self.open_since = None;
    }
    pub(super) fn entered(&self) -> Time {
        self.entered
    }
    /// How late this replica got its turns lately. [mod_smart L156, visigoth L10]
    pub(super) fn late(&self) -> Span {
        self.late
    }
    pub(super) fn open_since(&self) -> Option<Time> {
        self.open_since
    }

    /// Nothing waits any more for the requests in this batch. [mod_smart L62, L66]
    pub(super) fn decided(&mut self, batch: &Batch) {
        self.open_since = None;
        self.good += 1;
        if self.good.is_multiple_of(GOOD_SLOTS) {
            self.failures = self.failures.saturating_sub(1);
        }
        if self.requests.is_empty() {
            return;
        }
        for (_, _, bytes) in batch.requests().flatten() {
            self.requests.remove(&digest_of_request(bytes));
        }
    }

    /// The host no longer watches this request. [mod_smart L62]
    pub(super) fn forget(&mut self, request: &Digest) {
        self.requests.remove(request);
    }

    /// The leader counts as not heard for a long time.
    pub(super) fn lose_leader(&mut self) {
        self.leader_heard = Time::ZERO;
    }

    /// The leader must be heard within this grace, which is shorter than the patience.
    pub(super) fn expect_leader(&mut self, now: Time, patience: Span, grace: Span) {
        let spent = patience.nanos().saturating_sub(grace.nanos());
        let at = Time::from_nanos(now.nanos().saturating_sub(spent));
        self.leader_heard = self.leader_heard.min(at);
    }

    /// This replica got a turn, this long after it wanted one. Lateness beyond the greatest patience makes no difference. [mod_smart L156]
    pub(super) fn has_turn(&mut self, late: Span, patience_max: Span) {
        self.late = self.late.max(late.min(patience_max.divided(TURNS)));
    }

    /// A peer came back, so the failures that came from its absence are forgotten.
    pub(super) fn forget_failures(&mut self) {
        self.failures = 0;
    }

    /// The leader led its whole shift, which counts as full success. [mod_smart L66]
    pub(super) fn shift_was_whole(&mut self) {
        self.failures = self.failures.saturating_sub(1);
    }

    /// Another view was entered: everything begins to wait anew. It is no failure if the leader before gave up its office. [mod_smart L65]
    pub(super) fn enter(&mut self, now: Time, left: bool) {
        if self.good == 0 && !left {
            self.failures = (self.failures + 1).min(DOUBLINGS_MAX);
        }
        (self.good, self.open_since, self.leader_heard, self.entered) = (0, None, now, now);
        self.heard.clear();
        for watched in self.requests.values_mut() {
            *watched = Watched { since: now, forwarded: false };
        }
    }

    /// How long this replica waits at present before it complains. [mod_smart L65, L156]
    pub(super) fn patience(&self, config: &ModSmartConfig) -> Span {
        let (base, max) = (config.timeout, config.timeout_max);
        let grown = base.times(1 << self.failures.saturating_sub(1).min(20));
        let late = if planted("smart-late-by-others") { Span::ZERO } else { self.late };
        grown.max(late.times(TURNS)).min(max.max(base))
    }

    /// [mod_smart L60]
    pub(super) fn on_watch(&mut self, request: Digest, now: Time) {
        if self.requests.len() < WATCHED_MAX {
            let watched = Watched { since: now, forwarded: false };
            self.requests.entry(request).or_insert(watched);
        }
    }

    /// Notes that the leader was heard, if this member is the leader.
    pub(super) fn heard_leader(&mut self, from: ReplicaId, core: &Core) {
        if from == core.leader() && core.has_begun() {
            self.leader_heard = core.now();
        }
        self.note_heard(from, core.now());
    }

    pub(super) fn note_heard(&mut self, from: ReplicaId, now: Time) {
        self.heard.insert(from, now);
    }

    pub(super) fn hears_leader(&self, core: &Core) -> bool {
        core.now().since(self.leader_heard) <= self.patience(&core.config)
    }

    pub(super) fn hears(&self, id: ReplicaId, core: &Core) -> bool {
        let heard = self.heard.get(&id).copied();
        heard.is_some_and(|heard| core.now().since(heard) <= self.patience(&core.config))
    }

    /// Whether this leader hears no quorum. It then gives up its office and does not take it again in this view: late answers must not make
    /// it a leader beside a later one. [mod_smart L70]
    pub(super) fn leads_alone(&self, core: &Core) -> bool {
        if !core.leads() || self.hears_leader(core) {
            return false;
        }
        let heard = |id: ReplicaId| id == core.config.me || self.hears(id, core);
        let count = core.members.voters().iter().filter(|id| heard(**id)).count();
        count < core.members.trust().smallest() as usize
    }

    /// The reason to ask for another leader, if something is late enough. [mod_smart L61-L64]
    pub(super) fn complaint(&self, core: &Core) -> Option<Complaint> {
        let (now, patience) = (core.now(), self.patience(&core.config));
        let twice = Span::from_nanos(patience.nanos().saturating_mul(2));
        let late = |since: &Time| now.since(*since) > twice;
        let request = self.requests.iter().find(|(_, watched)| watched.forwarded && late(&watched.since));
        if let Some((digest, _)) = request {
            return Some(Complaint::Request(*digest));
        }
        if self.open_since.as_ref().is_some_and(late) {
            return Some(Complaint::Slot(core.decided().next()));
        }
        let silent = now.since(self.leader_heard) > patience;
        let waits = !core.is_leader() || !core.has_begun();
        (silent && waits).then_some(Complaint::Silence)
    }

    /// Whether something is late, but not enough for a complaint. With crash faults a replica joins others' complaints only if it has such
    /// a doubt. [mod_smart L34]
    pub(super) fn doubts(&self, core: &Core) -> bool {
        let late = |since: Time| core.now().since(since) > self.patience(&core.config);
        self.requests.values().any(|watched| watched.forwarded) || self.open_since.is_some_and(late)
    }

    /// A replica that lacks a slot before the view's first one can neither vote nor lead. So it waits for that slot as it waits for a
    /// proposal. If it awaits a checkpoint, that takes its time, and the leader is not to blame. [mod_smart L64]
    fn watch_the_base(&mut self, core: &Core, awaits_checkpoint: bool) {
        if let Phase::Normal { base, .. } = core.office.phase()
            && core.decided().next() < *base
            && !awaits_checkpoint
            && !planted("smart-nothing-to-wait-for")
        {
            self.slot_is_open(core.now());
        }
    }

    /// Time passed. [mod_smart L61-L64]
    pub(super) fn look_at_the_clock(&mut self, core: &Core, awaits_checkpoint: bool, out: &mut Effects) {
        self.late = self.late.minus(self.late.divided(FORGOTTEN));
        let (now, patience) = (core.now(), self.patience(&core.config));
        for (request, watched) in &mut self.requests {
            if !watched.forwarded && now.since(watched.since) > patience {
                watched.forwarded = true;
                out.push(Effect::Overdue { request: *request });
            }
        }
        self.watch_the_base(core, awaits_checkpoint);
    }
}

//! The membership changes: a batch of its own kind is decided in a slot of the present tenure, and the next slot belongs to another one.
//!
//! One slot is open at a time, so there is never a slot of which it is not known who votes on it, and no two memberships count at once. The
//! new tenure begins in a view of its own, of which everybody knows that nobody voted before in its slots: it needs no STOPs and no
//! statements. Whoever leaves goes on as one who listens. [mod_smart L110-L125]
//!
//! A tenure is there when a slot of its own is decided: then a quorum of its members has all that was decided before, and who left may go.
//!
//! INV-SMART-12. Tests: tests/members.rs, tests/tenures.rs, tests/chaos.rs.

use super::restore::Replay;
use super::tenures::{Tenure, Tenures, holds_of};
use super::{ModSmart, Phase, reject};
use crate::ledger::Proof;
use crate::mod_smart::message::ModSmartBody as Body;
use crate::{Effect, Effects};
use quorate_types::{Faults, MembershipId, Reject, ReplicaId, Slot, Trust, planted};
use quorate_wire::{Batch, Holds, Memberships};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Whoever lacks no more slots than this has caught up: it gets them with one question.
const NEAR: u64 = 32;
/// Whoever was sent so many more than it said that it has is not sent more: it asks for them.
const SENT_MAX: u64 = 512;

/// How far somebody got, as the leader knows.
#[derive(Clone, Copy, Debug)]
struct Follower {
    /// The last slot that it said it decided.
    decided: Slot,
    /// The last one that it was sent.
    sent: Slot,
    /// Whether it had nearly all when it said so.
    near: bool,
}

/// What this replica knows of changes beside the log.
#[derive(Debug)]
pub(super) struct Members {
    /// Who takes part, by slot.
    pub(super) tenures: Tenures,
    /// Those who vote on the open slot, in the order of their ids.
    pub(super) voters: Vec<ReplicaId>,
    /// How they are counted.
    pub(super) trust: Trust,
    /// What the instance began with.
    pub(super) created: Tenures,
    /// Only before the start.
    pub(super) replay: Replay,
    /// A change that the host wants.
    wanted: Option<Arc<Memberships>>,
    /// Whom the host wants to hear of what is decided, members or not.
    listeners: Arc<[ReplicaId]>,
    /// All who hear of it and do not vote.
    hearers: Vec<ReplicaId>,
    followers: BTreeMap<ReplicaId, Follower>,
    /// Who is connected.
    pub(super) connected: BTreeSet<ReplicaId>,
    /// What the host was told last, and whether that was there.
    told: (MembershipId, bool),
}

impl Members {
    pub(super) fn new(tenures: Tenures, faults: Faults) -> Self {
        Self {
            voters: tenures.now().voters(),
            trust: tenures.now().trust(faults),
            created: tenures.clone(),
            tenures,
            replay: Replay::default(),
            wanted: None,
            listeners: Arc::from([]),
            hearers: Vec::new(),
            followers: BTreeMap::new(),
            connected: BTreeSet::new(),
            told: (MembershipId::FIRST, true),
        }
    }
    /// Another view: what is known of the others is of no use.
    pub(super) fn forget_followers(&mut self) {
        self.followers.clear();
    }
    /// No more is kept than of each that hears or votes.
    pub(super) fn is_bounded(&self, voters: usize) -> bool {
        self.followers.len() <= voters + self.hearers.len()
    }
}

impl ModSmart {
    /// The host executed a command that asks for this change. [mod_smart L112]
    pub(super) fn on_membership(&mut self, change: Arc<Memberships>, out: &mut Effects) {
        if change.now().number() > self.membership_number() {
            self.members.wanted = Some(change);
            self.progress(out);
        }
    }

    /// The host says who else is to hear of what is decided. [mod_smart L120]
    pub(super) fn on_listeners(&mut self, listeners: Arc<[ReplicaId]>) {
        self.members.listeners = listeners;
        self.meet_hearers();
    }

    /// Those who hear and do not vote: learners, whom the host names, and until the tenure is there who voted before it.
    pub(super) fn meet_hearers(&mut self) {
        let mut all: Vec<ReplicaId> = self.members.listeners.to_vec();
        let earlier = if self.is_established() { 0 } else { 2 };
        let tenures = self.members.tenures.all();
        for tenure in tenures.iter().rev().take(1.max(earlier)) {
            all.extend(tenure.members.replicas());
        }
        all.retain(|id| *id != self.config.me && !self.is_member(*id));
        all.sort_unstable();
        all.dedup();
        let known = |id: &ReplicaId| self.members.voters.contains(id) || all.contains(id);
        self.members.followers.retain(|id, _| known(id));
        self.members.hearers = all;
    }

    pub(super) fn hearers(&self) -> impl Iterator<Item = ReplicaId> {
        self.members.hearers.iter().copied()
    }

    /// Whether this replica has to do with somebody who does not vote now.
    fn knows(&self, id: ReplicaId) -> bool {
        let wanted = self.members.wanted.as_ref().is_some_and(|wanted| wanted.get(id).is_some());
        let before = || self.members.tenures.all().iter().any(|tenure| tenure.members.get(id).is_some());
        wanted || self.members.hearers.contains(&id) || before()
    }

    /// Who does not vote asks and answers, and no more. [mod_smart L7]
    pub(super) fn may_say(&self, from: ReplicaId, body: &Body) -> bool {
        let harmless = matches!(
            body,
            Body::Fetch { .. }
                | Body::Decision { .. }
                | Body::Gone { .. }
                | Body::AliveReply { .. }
                | Body::Read { .. }
        );
        self.is_member(from) || (harmless && self.knows(from))
    }

    /// A message of an earlier or a later membership. What is decided is so in any; who is behind is shown what comes next; who is ahead
    /// is asked for it. Nothing else is heard. [mod_smart L118-L119]
    pub(super) fn on_other_membership(
        &mut self,
        from: ReplicaId,
        membership: MembershipId,
        body: Body,
        out: &mut Effects,
    ) {
        let later = membership > self.membership_number();
        if !later && !self.knows(from) && !self.is_member(from) {
            return reject(out, from, Reject::UnknownPeer);
        }
        let theirs = decided_by(&body);
        match body {
            Body::Decision { proof, batch } => return self.on_decision(from, proof, batch, out),
            Body::Gone { slot, proof } => return self.on_gone(from, slot, proof, out),
            Body::Fetch { slot, count } => self.on_fetch(from, slot, count, out),
            _ if !later => self.show_next(from, theirs, out),
            _ => {}
        }
        if later {
            let decided = self.decided();
            self.fetching.hint(from, theirs.unwrap_or_default().max(decided.next()), decided);
            self.fetch_on(out);
        }
    }

    /// Whoever is in an earlier membership lacks the slot that ended it. [mod_smart L118]
    fn show_next(&mut self, to: ReplicaId, theirs: Option<Slot>, out: &mut Effects) {
        let Some(theirs) = theirs else { return };
        if theirs < self.decided() && self.pace.helped.insert(to) {
            self.on_fetch(to, theirs.next(), 1, out);
        }
    }

    /// Whether a quorum of the present members is known to have what was decided before them. [mod_smart L117]
    fn is_established(&self) -> bool {
        let now = self.members.tenures.now();
        now.number() == MembershipId::FIRST || self.decided() > now.since
    }

    /// The last membership that is there.
    pub(super) fn established_number(&self) -> MembershipId {
        let number = self.membership_number();
        if self.is_established() { number } else { number.previous() }
    }

    /// What this leader proposes on its own: a change that is wanted, or that a new tenure is there. [mod_smart L112, L117]
    pub(super) fn own_proposal(&self) -> Option<Batch> {
        if self.stops.leaving.is_some() {
            return None;
        }
        if !self.is_established() {
            return Some(self.members.tenures.batch(None, self.config.me));
        }
        let wanted = self.members.wanted.as_ref().filter(|wanted| self.members.tenures.fits(wanted))?;
        Some(self.members.tenures.batch(Some(wanted), self.first_leader(wanted)))
    }

    /// Who leads first after a change: who leads now, or else somebody who was heard lately and has most. [mod_smart L111]
    fn first_leader(&self, change: &Memberships) -> ReplicaId {
        let me = self.config.me;
        if change.now().is_voter(me) {
            return me;
        }
        let has = |id: &ReplicaId| self.members.followers.get(id).map(|follower| follower.decided);
        let alive = change.now().voters().filter(|id| self.hears(*id));
        alive.max_by_key(has).or_else(|| change.now().voters().next()).unwrap_or(me)
    }

    /// Whether a proposal about the membership is what this replica would say itself. [mod_smart L122]
    pub(super) fn vouches_for(&self, holds: &Holds) -> bool {
        let now = self.members.tenures.now();
        let continues = holds.since == now.since && holds.begins == now.begins;
        let wanted = self.members.wanted.as_ref().is_some_and(|wanted| **wanted == holds.change);
        let change = wanted && continues && self.members.tenures.fits(&holds.change);
        (change && holds.change.now().is_voter(holds.leader)) || self.members.tenures.is_shown_by(holds)
    }

    /// The tenure that begins with this decision, if one does. [mod_smart L110, L113]
    pub(super) fn tenure_after(&self, slot: Slot, batch: &Batch) -> Option<(Tenure, Holds)> {
        let holds = holds_of(batch)?;
        self.members.tenures.next(&holds, slot).map(|tenure| (tenure, holds))
    }

    /// The slot before this tenure is decided. [mod_smart L110, L114]
    pub(super) fn begin_tenure(&mut self, tenure: Tenure, holds: &Holds, out: &mut Effects) {
        self.members.tenures.push_after(tenure, holds);
        self.enter_tenure(out);
        self.begin_rounds(out);
    }

    /// The present tenure is another one than a moment ago: it begins in its first view. [mod_smart L114]
    pub(super) fn enter_tenure(&mut self, out: &mut Effects) {
        self.count_by_tenure();
        let now = self.members.tenures.now();
        let (since, begins) = (now.since, now.begins);
        let view = if planted("smart-views-go-on") { self.office.view.next() } else { begins };
        assert!(view > self.office.view, "INV-SMART-7: views only grow, from {} to {view}", self.office.view);
        self.office.view = view;
        self.office.certificate.clear();
        self.office.barred = false;
        self.persist_view(out);
        self.voting.tallies.clear();
        self.voting.own.clear();
        self.voting.queue.clear();
        self.voting.open = Default::default();
        self.stops.forget();
        self.rotation.begin();
        self.rates.forget_leaders();
        self.gathered = Default::default();
        self.members.forget_followers();
        self.watch.enter(self.life.now, true);
        self.enter_rates();
        self.fail_reads(out);
        self.office.phase = Phase::Normal { base: since.next(), forced: None, settled: since };
        self.begin_rates();
    }

    /// Who votes, and how they are counted, follows from the tenure.
    pub(super) fn count_by_tenure(&mut self) {
        let now = self.members.tenures.now();
        (self.members.voters, self.members.trust) = (now.voters(), now.trust(self.config.faults));
        self.meet_hearers();
    }

    /// Something was decided: a tenure may be there, and a change done.
    pub(super) fn meet_decision(&mut self) {
        let number = self.membership_number();
        if self.members.wanted.as_ref().is_some_and(|wanted| wanted.now().number() <= number) {
            self.members.wanted = None;
        }
        if self.is_established() && !self.members.told.1 {
            self.meet_hearers();
        }
    }

    /// Tells the host what holds, if that is news. [mod_smart L115]
    pub(super) fn tell_members(&mut self, out: &mut Effects) {
        let state = (self.membership_number(), self.is_established());
        if state != self.members.told {
            self.members.told = state;
            let memberships = self.members.tenures.now().members.clone();
            out.push(Effect::Members { memberships, committed: state.1 });
        }
    }

    /// The leader decided a slot: those who do not vote are told, as long as they keep up. [mod_smart L120]
    pub(super) fn send_decision(&mut self, proof: &Proof, batch: &Batch, out: &mut Effects) {
        if self.members.hearers.is_empty() || !self.is_mine() {
            return;
        }
        let mut due = Vec::new();
        for id in &self.members.hearers {
            let Some(follower) = self.members.followers.get_mut(id) else { continue };
            let near = follower.decided.plus(NEAR) >= proof.slot || follower.sent.next() == proof.slot;
            if near && follower.decided.plus(SENT_MAX) >= proof.slot {
                follower.sent = proof.slot;
                due.push(*id);
            }
        }
        for to in due {
            self.send(out, to, Body::Decision { proof: proof.clone(), batch: batch.clone() }, None);
        }
    }

    /// Somebody says how far it got. [mod_smart L121]
    pub(super) fn note_decided(&mut self, from: ReplicaId, decided: Slot) {
        if self.is_member(from) || self.members.hearers.contains(&from) {
            let near = decided.plus(NEAR) >= self.decided();
            let follower =
                self.members.followers.entry(from).or_insert(Follower { decided, sent: decided, near });
            (follower.decided, follower.near) = (decided, near);
        }
    }

    /// Those who have nearly all, as far as this leader knows. [mod_smart L121]
    pub(super) fn caught_up(&self) -> Vec<ReplicaId> {
        if !self.leads() {
            return Vec::new();
        }
        let near = self.members.followers.iter().filter(|(_, follower)| follower.near);
        near.map(|(id, _)| *id).filter(|id| self.hears(*id)).collect()
    }

    /// All that this replica has to do with, but itself.
    pub(super) fn others(&self) -> Vec<ReplicaId> {
        let voters = self.members.voters.iter().copied().filter(|id| *id != self.config.me);
        let mut all: Vec<_> = voters.chain(self.hearers()).collect();
        all.sort_unstable();
        all
    }
}

/// What the sender of this seems to have decided.
fn decided_by(body: &Body) -> Option<Slot> {
    match body {
        Body::Stop { decided, .. } | Body::Alive { decided, .. } | Body::AliveReply { decided, .. } => {
            Some(*decided)
        }
        Body::StopData { collect, .. } => Some(collect.decided),
        Body::Propose { slot, .. } | Body::Write { slot, .. } | Body::Accept { slot, .. }
            if *slot > Slot::ZERO =>
        {
            Some(slot.previous())
        }
        _ => None,
    }
}

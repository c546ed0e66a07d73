//! Changes of membership: a batch of its own kind is decided in a slot of the present tenure, and the next slot belongs to the next tenure.
//!
//! Only one slot is open at a time, so it is always known who votes on a slot, and two memberships never count at once. A new tenure begins
//! in a view of its own, in which nobody can have voted on its slots before; so it needs no STOPs and no statements. Members that leave
//! continue as listeners. [mod_smart L110-L125]
//!
//! A tenure is established when one of its own slots is decided. Then a quorum of its members has everything that was decided before, and
//! members that left may go.
//!
//! INV-SMART-12. Tests: tests/parts.rs, tests/members.rs, tests/tenures.rs, tests/chaos.rs.

use super::tenures::{Tenure, Tenures, holds_of};
use crate::mod_smart::message::ModSmartBody as Body;
use crate::{Effect, Effects};
use quorate_types::{Faults, MembershipId, ReplicaId, Slot, Trust};
use quorate_wire::{Batch, Holds, Memberships};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A member that lacks at most this many slots has caught up: one question gets it the rest.
const NEAR: u64 = 32;
/// A replica that lags by more slots than this is not sent more; it asks for them.
const SENT_MAX: u64 = 512;

/// How far a replica got, as the leader knows.
#[derive(Clone, Copy, Debug)]
struct Follower {
    /// The last slot that it says it decided.
    decided: Slot,
    /// The last slot that it was sent.
    sent: Slot,
    /// Whether it lacked at most [`NEAR`] slots when it said so.
    near: bool,
}

/// The members by slot, and what is known of changes that are not in the log.
#[derive(Debug)]
pub(super) struct Participants {
    me: ReplicaId,
    /// The members, by slot.
    tenures: Tenures,
    /// The voters on the open slot, in the order of their ids.
    voters: Vec<ReplicaId>,
    /// The quorum sizes.
    trust: Trust,
    /// The tenures that the instance began with.
    created: Tenures,
    /// A change that the host wants.
    wanted: Option<Arc<Memberships>>,
    /// Replicas that the host wants to be told what is decided, members or not.
    listeners: Arc<[ReplicaId]>,
    /// All replicas that are told what is decided and do not vote.
    hearers: Vec<ReplicaId>,
    followers: BTreeMap<ReplicaId, Follower>,
    /// This replica still has much to execute of what was decided.
    pub(super) busy: bool,
    /// Another instance shows that the usual quorum of the first members met.
    pub(super) met: bool,
    /// The replicas that were connected since this one started.
    seen: BTreeSet<ReplicaId>,
    /// The members that are connected.
    connected: BTreeSet<ReplicaId>,
    /// The membership that the host was told last, and whether it was established then.
    told: (MembershipId, bool),
}

impl Participants {
    pub(super) fn new(me: ReplicaId, tenures: Tenures, faults: Faults) -> Self {
        Self {
            me,
            voters: tenures.now().voters(),
            trust: tenures.now().trust(faults),
            created: tenures.clone(),
            tenures,
            wanted: None,
            listeners: Arc::from([]),
            hearers: Vec::new(),
            followers: BTreeMap::new(),
            busy: false,
            met: false,
            seen: BTreeSet::new(),
            connected: BTreeSet::new(),
            told: (MembershipId::FIRST, true),
        }
    }
    /// Another view began, so what is known of the followers is out of date.
    pub(super) fn forget_followers(&mut self) {
        self.followers.clear();
    }
    /// Whether it keeps no more than one entry for each hearer and voter.
    pub(super) fn is_bounded(&self, voters: usize) -> bool {
        self.followers.len() <= voters + self.hearers.len()
    }

    /// The members, by slot.
    pub(super) fn tenures(&self) -> &Tenures {
        &self.tenures
    }
    /// The voters on the open slot, in the order of their ids.
    pub(super) fn voters(&self) -> &[ReplicaId] {
        &self.voters
    }
    /// The quorum sizes.
    pub(super) fn trust(&self) -> Trust {
        self.trust
    }
    /// The tenures that the instance began with.
    pub(super) fn created(&self) -> &Tenures {
        &self.created
    }
    /// The members that are connected.
    pub(super) fn connected(&self) -> &BTreeSet<ReplicaId> {
        &self.connected
    }

    /// Whether the usual quorum compared what it was configured with: its members did when they connected. [visigoth L27]
    pub(super) fn have_met(&self) -> bool {
        let seen = self.voters.iter().filter(|id| **id == self.me || self.seen.contains(id)).count();
        seen >= self.trust.agreement() as usize
    }

    pub(super) fn connect(&mut self, id: ReplicaId) {
        self.connected.insert(id);
        self.seen.insert(id);
    }
    pub(super) fn disconnect(&mut self, id: ReplicaId) {
        self.connected.remove(&id);
    }

    /// Takes over tenures that were found in records or in a checkpoint.
    pub(super) fn set_tenures(&mut self, tenures: Tenures) {
        self.tenures = tenures;
    }
    /// The slot before this tenure is decided. [mod_smart L110]
    pub(super) fn begin(&mut self, tenure: Tenure, holds: &Holds) {
        self.tenures.push_after(tenure, holds);
    }
    /// The log begins after this slot. Tenures that ended before are forgotten.
    pub(super) fn forget(&mut self, floor: Slot) {
        self.tenures.forget(floor);
    }

    pub(super) fn is_voter(&self, id: ReplicaId) -> bool {
        self.voters.contains(&id)
    }

    /// The host executed a command that asks for this change. Returns whether the change is new. [mod_smart L112]
    pub(super) fn want(&mut self, change: Arc<Memberships>) -> bool {
        let news = change.now().number() > self.tenures.now().number();
        if news {
            self.wanted = Some(change);
        }
        news
    }

    /// The host names the replicas that are also to be told what is decided. [mod_smart L120]
    pub(super) fn listen(&mut self, listeners: Arc<[ReplicaId]>, decided: Slot) {
        self.listeners = listeners;
        self.meet_hearers(decided);
    }

    /// Computes the hearers: learners, those that the host names, and, until the tenure is established, the voters of the one before.
    fn meet_hearers(&mut self, decided: Slot) {
        let mut all: Vec<ReplicaId> = self.listeners.to_vec();
        let earlier = if self.are_established(decided) { 0 } else { 2 };
        for tenure in self.tenures.all().iter().rev().take(1.max(earlier)) {
            all.extend(tenure.members.replicas());
        }
        all.retain(|id| *id != self.me && !self.is_voter(*id));
        all.sort_unstable();
        all.dedup();
        let known = |id: &ReplicaId| self.voters.contains(id) || all.contains(id);
        self.followers.retain(|id, _| known(id));
        self.hearers = all;
    }

    /// All replicas that are told what is decided and do not vote.
    pub(super) fn hearers(&self) -> &[ReplicaId] {
        &self.hearers
    }

    /// All voters and hearers, except this replica.
    pub(super) fn others(&self) -> Vec<ReplicaId> {
        let voters = self.voters.iter().copied().filter(|id| *id != self.me);
        let mut all: Vec<_> = voters.chain(self.hearers.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    /// Whether a replica is known here: a hearer, a member of the wanted change, or a member of an earlier tenure.
    pub(super) fn knows(&self, id: ReplicaId) -> bool {
        let wanted = self.wanted.as_ref().is_some_and(|wanted| wanted.get(id).is_some());
        let before = || self.tenures.all().iter().any(|tenure| tenure.members.get(id).is_some());
        wanted || self.hearers.contains(&id) || before()
    }

    /// A replica without a vote may ask and answer, and nothing else. [mod_smart L7]
    pub(super) fn may_say(&self, from: ReplicaId, body: &Body) -> bool {
        let harmless = matches!(
            body,
            Body::Fetch { .. }
                | Body::Decision { .. }
                | Body::Gone { .. }
                | Body::AliveReply { .. }
                | Body::Read { .. }
        );
        self.is_voter(from) || (harmless && self.knows(from))
    }

    /// Whether a quorum of the present members is known to have what was decided before them. [mod_smart L117]
    pub(super) fn are_established(&self, decided: Slot) -> bool {
        let now = self.tenures.now();
        now.number() == MembershipId::FIRST || decided > now.since
    }

    /// The last membership that is established.
    pub(super) fn established_number(&self, decided: Slot) -> MembershipId {
        let number = self.tenures.now().number();
        if self.are_established(decided) { number } else { number.previous() }
    }

    /// The leader's own proposal, if it has one: a change that the host wants, or that a new tenure is established. [mod_smart L112, L117]
    pub(super) fn own_proposal(&self, decided: Slot, hears: impl Fn(ReplicaId) -> bool) -> Option<Batch> {
        if !self.are_established(decided) {
            return Some(self.tenures.batch(None, self.me));
        }
        let wanted = self.wanted.as_ref().filter(|wanted| self.tenures.fits(wanted))?;
        Some(self.tenures.batch(Some(wanted), self.first_leader(wanted, hears)))
    }

    /// The first leader after a change: the present leader if it stays, otherwise the most advanced member among those heard lately.
    /// [mod_smart L111]
    fn first_leader(&self, change: &Memberships, hears: impl Fn(ReplicaId) -> bool) -> ReplicaId {
        if change.now().is_voter(self.me) {
            return self.me;
        }
        let has = |id: &ReplicaId| self.followers.get(id).map(|follower| follower.decided);
        let alive = change.now().voters().filter(|id| hears(*id));
        alive.max_by_key(has).or_else(|| change.now().voters().next()).unwrap_or(self.me)
    }

    /// Whether this replica itself would make this proposal about the membership. [mod_smart L122]
    pub(super) fn vouch_for(&self, holds: &Holds) -> bool {
        let now = self.tenures.now();
        let continues = holds.since == now.since && holds.begins == now.begins;
        let wanted = self.wanted.as_ref().is_some_and(|wanted| **wanted == holds.change);
        let change = wanted && continues && self.tenures.fits(&holds.change);
        (change && holds.change.now().is_voter(holds.leader)) || self.tenures.is_shown_by(holds)
    }

    /// The tenure that begins with this decision, if one does. [mod_smart L110, L113]
    pub(super) fn tenure_after(&self, slot: Slot, batch: &Batch) -> Option<(Tenure, Holds)> {
        let holds = holds_of(batch)?;
        self.tenures.next(&holds, slot).map(|tenure| (tenure, holds))
    }

    /// Computes the voters and quorum sizes from the tenure.
    pub(super) fn count_by_tenure(&mut self, faults: Faults, decided: Slot) {
        let now = self.tenures.now();
        (self.voters, self.trust) = (now.voters(), now.trust(faults));
        self.meet_hearers(decided);
    }

    /// A slot was decided: a tenure may be established now, and a change complete, which is returned.
    pub(super) fn meet_decision(&mut self, decided: Slot) -> Option<Arc<Memberships>> {
        let number = self.tenures.now().number();
        let over = self.wanted.take_if(|wanted| wanted.now().number() <= number);
        if !self.told.1 && self.are_established(decided) {
            self.meet_hearers(decided);
        }
        over
    }

    /// Tells the host which membership holds, if that changed. [mod_smart L115]
    pub(super) fn tell(&mut self, decided: Slot, out: &mut Effects) {
        let state = (self.tenures.now().number(), self.are_established(decided));
        if state != self.told {
            self.told = state;
            let memberships = self.tenures.now().members.clone();
            out.push(Effect::Members { memberships, committed: state.1 });
        }
    }

    /// The hearers that are told that this slot is decided: those that keep up. [mod_smart L120]
    pub(super) fn who_hears(&mut self, slot: Slot) -> Vec<ReplicaId> {
        let mut due = Vec::new();
        for id in &self.hearers {
            let Some(follower) = self.followers.get_mut(id) else { continue };
            let near = follower.decided.plus(NEAR) >= slot || follower.sent.next() == slot;
            if near && follower.decided.plus(SENT_MAX) >= slot {
                follower.sent = slot;
                due.push(*id);
            }
        }
        due
    }

    /// A replica says how far it got; `own` is the last slot decided here. [mod_smart L121]
    pub(super) fn note_decided(&mut self, from: ReplicaId, decided: Slot, own: Slot) {
        if self.is_voter(from) || self.hearers.contains(&from) {
            let near = decided.plus(NEAR) >= own;
            let follower = self.followers.entry(from).or_insert(Follower { decided, sent: decided, near });
            (follower.decided, follower.near) = (decided, near);
        }
    }

    /// The last slot that this replica says it decided. One that has much to execute is not to be taken for one that keeps up: whoever asks
    /// next would wait for it. [visigoth L22]
    pub(super) fn keeps_up_to(&self, own: Slot) -> Slot {
        if self.busy { Slot::new(own.number().saturating_sub(NEAR + 1)) } else { own }
    }

    /// Whether this member lacks at most [`NEAR`] slots, as far as it said.
    pub(super) fn keeps_up(&self, id: ReplicaId) -> bool {
        self.followers.get(&id).is_some_and(|follower| follower.near)
    }

    /// The hearers that lack at most [`NEAR`] slots, as far as they said. [mod_smart L121]
    pub(super) fn near(&self) -> impl Iterator<Item = ReplicaId> {
        self.followers.iter().filter(|(_, follower)| follower.near).map(|(id, _)| *id)
    }
}

/// The last slot that the sender of this message seems to have decided.
pub(super) fn decided_by(body: &Body) -> Option<Slot> {
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

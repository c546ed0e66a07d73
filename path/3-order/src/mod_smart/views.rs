//! From view to view: complaints, certificates, the synchronization phase, tenures, checkpoints beyond the log, and the start.
//!
//! Each of these ends what every part knew of the view before, in one order. The parts decide: `stops` who asks for which view, `watch` and
//! `rates` what is late, `rotation` whose shift it is, `sync` and `rules` what binds a view.
//!
//! INV-SMART-9. Tests: tests/stops.rs, tests/sync.rs, tests/checkpoints.rs, tests/members.rs.

use super::office::Phase;
use super::restore::read_anchor;
use super::rotation::{self, Ended};
use super::statements::digest_of;
use super::sync::{SHOWS_TOO_LITTLE, check_sync, collect, of_tenure};
use super::tenures::{Tenure, Tenures, views_to};
use super::{ModSmart, reject};
use crate::ledger::Proof;
use crate::mod_smart::message::{Collect, Complaint, ModSmartBody as Body};
use crate::{Anchor, Effect, Effects};
use quorate_auth::{Secret, Signature, Signed};
use quorate_types::{Reject, ReplicaId, Slot, View, planted};
use quorate_wire::{Batch, Holds};

/// Complaints.
impl ModSmart {
    /// Whether something is late enough to be a reason to ask for another leader. [mod_smart L61-L64, L145, L150]
    fn complaint(&self) -> Option<Complaint> {
        if self.core.office.is_barred() || self.stops.left() {
            return Some(Complaint::Leaves);
        }
        if let Some(why) = self.watch.complaint(&self.core) {
            return Some(why);
        }
        self.rates.is_slow(&self.core).then_some(Complaint::Rate).or(rotation::complaint(&self.core))
    }

    /// Asks, or asks again, for the wanted view, or stops asking. [mod_smart L32-L37]
    pub(super) fn ask_for_view(&mut self, out: &mut Effects) {
        let (core, complaint) = (&self.core, self.complaint());
        let own = complaint.map(|why| {
            let target = self.stops.leaves_for().filter(|view| *view > core.office.view());
            (target.unwrap_or(self.rotation.view_after(why, core)), why)
        });
        // With crash faults nobody joins others' complaints without a doubt of its own. [mod_smart L34]
        let doubts = || core.may_lie() || complaint.is_some() || self.watch.doubts(core);
        if let Some(view) = self.stops.ask(own, doubts, core, out) {
            self.install_if_certified(view, out);
        }
    }

    /// [mod_smart L38-L39]
    pub(super) fn on_stop(
        &mut self,
        from: ReplicaId,
        asked: View,
        why: Complaint,
        signature: Signature,
        out: &mut Effects,
    ) {
        if asked > views_to(self.core.membership_number()) {
            return reject(out, from, Reject::Malformed("mod-smart: view"));
        }
        if asked <= self.core.office.view() {
            return self.show_certificate(from, out);
        }
        if self.stops.hear(from, (asked, why, signature), &self.core, out) {
            self.ask_for_view(out);
            self.install_if_certified(asked, out);
        }
    }

    /// [mod_smart L40]
    fn install_if_certified(&mut self, view: View, out: &mut Effects) {
        if let Some(stops) = self.stops.certificate(view, &self.core) {
            self.install(view, stops, out);
        }
    }

    /// [mod_smart L61-L64]
    pub(super) fn look_at_the_clock(&mut self, out: &mut Effects) {
        self.watch.look_at_the_clock(&self.core, self.fetching.awaits_checkpoint(), out);
        self.rates.look(self.core.now(), self.core.config.timeout);
        self.ask_for_view(out);
    }

    /// A leader that hears no quorum gives up its office. [mod_smart L70]
    pub(super) fn step_down_alone(&mut self, out: &mut Effects) {
        if self.watch.leads_alone(&self.core) {
            self.core.office.bar();
            self.voting.forget_queue();
            self.stops.stay();
            self.reads.fail(out);
        }
    }

    /// Asks for the next leader as soon as the shift is over. [mod_smart L150]
    pub(super) fn end_shift(&mut self, out: &mut Effects) {
        if self.rotation.ends(&self.core) {
            // A replica that an operator wants as leader waits for its shift.
            self.stops.stay();
            self.ask_for_view(out);
        }
    }

    /// The leader is to hand over. [mod_smart L71]
    pub(super) fn on_transfer(&mut self, target: Option<ReplicaId>) {
        if !rotation::is_over(&self.core) {
            self.stops.leave(target, self.watch.patience(&self.core.config), &self.core);
        }
    }

    /// [mod_smart L71]
    pub(super) fn leave_if_idle(&mut self, out: &mut Effects) {
        if !self.stops.is_leaving() {
            return;
        }
        let (voting, core) = (&self.voting, &self.core);
        let idle =
            || voting.proposed_and_open(core).0 == 0 && voting.open.taken(core.office.view()).is_none();
        if self.stops.leaves_now(idle, core.now()) {
            self.ask_for_view(out);
        }
        self.stops.stay_at_last(self.core.now());
    }

    pub(super) fn on_connected(&mut self, peer: ReplicaId, out: &mut Effects) {
        self.core.members.connect(peer);
        if !self.core.may_lie() {
            self.watch.forget_failures();
        }
        if self.core.is_member(peer) && peer != self.core.config.me {
            self.pace.shown.remove(&peer);
            // What was lost on the connection before is sent again.
            if !self.core.has_begun() && peer == self.core.leader() {
                self.send_stop_data(out);
            }
        }
    }

    /// The connection to the leader closed. With crash faults the leader is probably dead. Where replicas may lie, a complaint costs more,
    /// since others join it; so the leader has the time of one heartbeat to connect again. [mod_smart L63]
    pub(super) fn on_disconnected(&mut self, peer: ReplicaId) {
        self.core.members.disconnect(peer);
        self.fetching.lose(peer);
        if peer != self.core.leader() || planted("smart-closed-is-nothing") {
            return;
        }
        let now = self.core.now();
        if self.core.may_lie() {
            // A little less than that: the next tick but one is to see it.
            let grace = self.core.config.heartbeat.times(3).divided(4);
            self.watch.expect_leader(now, self.watch.patience(&self.core.config), grace);
        } else {
            self.watch.lose_leader();
        }
        self.pace.tick = now;
    }
}

/// Views.
impl ModSmart {
    /// Enters a view that a quorum asked for. [mod_smart L41]
    pub(super) fn install(&mut self, view: View, stops: Signed, out: &mut Effects) {
        let leader = self.core.leader();
        let left = self.core.office.is_barred() || self.stops.left() || self.stops.says_leaves(leader);
        let blames =
            self.complaint().is_some_and(|why| !matches!(why, Complaint::Leaves | Complaint::Rotation));
        let rotates = self.stops.say_rotates(view, self.core.members.trust().truth());
        if self.rotation.note(Ended { blames, rotates, left }, &self.core) {
            self.watch.shift_was_whole();
            self.rates.keep(leader);
        }
        if self.core.may_lie() {
            self.testimony.keep(self.voting.accepts_of_open(&self.core));
        }
        self.core.enter(view, stops, self.core.first_phase(), out);
        self.voting.enter();
        self.stops.enter(view);
        self.core.members.forget_followers();
        self.few.enter();
        self.unaided.enter();
        self.watch.enter(self.core.now(), left || self.rotation.was_whole());
        self.rates.enter(self.core.now(), self.core.leader());
        self.reads.fail(out);
        self.enter_synchronization(out);
    }

    /// Sends a replica in an older view the certificate of this one. [mod_smart L43]
    pub(super) fn show_certificate(&mut self, to: ReplicaId, out: &mut Effects) {
        let office = &self.core.office;
        // After records were lost the view may be known without the STOPs that made it.
        let known =
            office.view() == self.core.members.tenures().now().begins || !office.certificate().is_empty();
        if known && self.pace.shown.insert(to) {
            self.core.send(out, to, Body::Certificate { stops: office.certificate().clone() }, None);
        }
    }

    /// A replica is in a newer view. This replica asks it something, and the answer will be the certificate of that view. [mod_smart L43]
    pub(super) fn ask_for_certificate(&mut self, from: ReplicaId, body: &Body, out: &mut Effects) {
        let helps = matches!(body, Body::Certificate { .. } | Body::Sync { .. });
        if !helps && self.pace.shown.insert(from) {
            let slot = self.core.decided().next();
            self.core.send(out, from, Body::Fetch { slot, count: 1 }, None);
        }
    }

    /// [mod_smart L44]
    pub(super) fn on_certificate(&mut self, from: ReplicaId, view: View, stops: Signed, out: &mut Effects) {
        if view <= self.core.office.view() {
            return;
        }
        if !self.core.certifies(view, &stops) {
            return reject(out, from, Reject::NotAllowed("a view without a certificate"));
        }
        self.install(view, stops, out);
    }

    /// A view was entered, or this life begins in it. [mod_smart L45]
    fn enter_synchronization(&mut self, out: &mut Effects) {
        self.gathered = Default::default();
        if !self.core.votes() {
            return;
        }
        if self.core.is_mine() {
            self.voting.push_collect(collect(&self.core, &self.voting.open), &self.core);
        } else if !self.core.is_leader() {
            self.send_stop_data(out);
        }
        let records = self.core.ledger.records();
        if records.pending(records.last()).is_none() {
            self.count_own(out);
        }
    }

    fn send_stop_data(&mut self, out: &mut Effects) {
        let (core, open) = (&self.core, &self.voting.open);
        self.gathered.send_stop_data(collect(core, open), open, core, out);
    }

    /// The leader's own statement is durable.
    pub(super) fn add_own_collect(&mut self, collect: Collect, out: &mut Effects) {
        if self.core.is_mine() && !self.core.has_begun() {
            let last = of_tenure(self.core.ledger.proof(self.core.decided()).cloned(), &self.core);
            let batches = self.voting.open.batches.values().map(|(batch, _)| batch.clone()).collect();
            self.add_collect(collect, last, batches, out);
        }
    }

    /// [mod_smart L46-L48]
    pub(super) fn on_stop_data(
        &mut self,
        from: ReplicaId,
        collect: Collect,
        last: Option<Proof>,
        batches: Vec<Batch>,
        out: &mut Effects,
    ) {
        let hears = (&self.core, &mut self.testimony);
        if let Some((collect, last)) = self.gathered.on_stop_data(from, collect, last, hears, out) {
            self.add_collect(collect, last, batches, out);
        }
    }

    fn add_collect(&mut self, collect: Collect, last: Option<Proof>, batches: Vec<Batch>, out: &mut Effects) {
        if self.core.has_begun() {
            return;
        }
        let from = collect.from;
        if let Some(proof) = self.gathered.add(collect, last, batches) {
            self.fetching.hint(from, proof.slot, self.core.decided());
            self.learn_who_has(&proof);
        }
        if let Some(proof) = self.gathered.last().cloned()
            && self.decide_shown(&proof, out)
        {
            return;
        }
        self.try_to_begin_view(out);
    }

    /// If the leader knows enough, its view begins.
    pub(super) fn try_to_begin_view(&mut self, out: &mut Effects) {
        if self.core.has_begun() || !self.core.is_mine() {
            return;
        }
        if let Some((decided, value)) = self.gathered.begin_view(&self.core, out) {
            self.adopt(decided, value, out);
        }
    }

    /// The view begins after the last slot that is shown to be decided. A replica that has that slot's batch decides it at once, and the
    /// others fetch it: the member that showed it may keep the batch, or be dead. Returns whether that ended this view. [mod_smart L154]
    fn decide_shown(&mut self, proof: &Proof, out: &mut Effects) -> bool {
        // Where replicas crash at most either bug alone stops nobody: the second one brings the first.
        if proof.slot != self.core.decided().next()
            || planted("smart-shown-is-not-had")
            || planted("smart-nothing-to-wait-for")
        {
            return false;
        }
        let own = self.voting.open.batches.get(&proof.digest).map(|(batch, _)| batch);
        let Some(batch) = own.or_else(|| self.gathered.batch(proof.digest)).cloned() else { return false };
        let view = self.core.office.view();
        self.decide(proof.clone(), batch, out);
        self.core.office.view() != view
    }

    /// Notes that the members that accepted this slot have its batch, or will once they learn that it is decided. [mod_smart L154]
    fn learn_who_has(&mut self, proof: &Proof) {
        let decided = self.core.decided();
        for (id, _) in &proof.accepts {
            if *id != self.core.config.me {
                self.fetching.hint(*id, proof.slot, decided);
            }
        }
    }

    /// [mod_smart L54-L56]
    #[allow(clippy::too_many_arguments, reason = "the parts of one message")]
    pub(super) fn on_sync(
        &mut self,
        from: ReplicaId,
        view: View,
        stops: Signed,
        collects: Vec<Collect>,
        last: Option<Proof>,
        value: Option<Batch>,
        out: &mut Effects,
    ) {
        if view < self.core.office.view() || from != self.core.leader_of(view) {
            return;
        }
        if view > self.core.office.view() {
            if !self.core.certifies(view, &stops) {
                return reject(out, from, Reject::NotAllowed("a SYNC without a certificate"));
            }
            self.install(view, stops, out);
        }
        if self.core.has_begun() {
            return;
        }
        let last = of_tenure(last, &self.core);
        match check_sync(&self.core, &collects, last.as_ref(), value.as_ref()) {
            Ok(decided) => {
                for collect in &collects {
                    self.testimony.hear(view, collect, &self.core, out);
                }
                if let Some(proof) = last {
                    if self.decide_shown(&proof, out) {
                        return;
                    }
                    self.fetching.hint(from, proof.slot, self.core.decided());
                    self.learn_who_has(&proof);
                }
                self.fetching.hint(from, decided, self.core.decided());
                self.adopt(decided, value, out);
            }
            Err(SHOWS_TOO_LITTLE) if self.core.slow_after().is_some() => {}
            Err(why) => {
                let own = collects.iter().find(|collect| collect.from == from);
                if let Some(own) = own.filter(|own| self.core.collect_is_signed(view, own)) {
                    self.testimony.hear(view, own, &self.core, out);
                }
                reject(out, from, Reject::NotAllowed(why));
            }
        }
    }

    /// The view begins: `decided` is the last slot before it. [mod_smart L56-L57]
    fn adopt(&mut self, decided: Slot, value: Option<Batch>, out: &mut Effects) {
        let base = decided.next();
        let settled = if value.is_some() { base } else { decided };
        let forced = value.map(|batch| (digest_of(&batch), batch)).filter(|_| self.core.decided() < base);
        self.core.office.begin(Phase::Normal { base, forced, settled });
        self.watch.heard_leader(self.core.leader(), &self.core);
        self.rates.begin(self.core.now());
        self.reads.begin_rounds(&self.core, out);
        self.progress(out);
    }

    /// Sends again what had no effect. [mod_smart L27, L58]
    pub(super) fn repeat(&mut self, out: &mut Effects) {
        let (core, records) = (&self.core, self.core.ledger.records());
        // Before it is durable it has not left the first time.
        if records.pending(records.last()).is_some()
            || core.now().since(self.pace.repeated) < core.config.repeat
        {
            return;
        }
        self.pace.repeated = core.now();
        if core.has_begun() {
            let late = |since| core.now().since(since) >= core.config.repeat;
            if self.watch.open_since().is_some_and(late) {
                if core.is_mine() {
                    core.tell_granted(None, out);
                }
                self.voting.repeat(self.gathered.bound(), core, out);
            }
        } else if !core.is_leader() {
            self.send_stop_data(out);
        }
    }
}

/// Tenures.
impl ModSmart {
    /// The slot before this tenure is decided. [mod_smart L110, L114]
    pub(super) fn begin_tenure(&mut self, tenure: Tenure, holds: &Holds, out: &mut Effects) {
        self.core.members.begin(tenure, holds);
        self.enter_tenure(out);
        self.reads.begin_rounds(&self.core, out);
    }

    /// The tenure changed just now; the new one begins in its first view. [mod_smart L114]
    fn enter_tenure(&mut self, out: &mut Effects) {
        self.core.know_members();
        self.core.members.count_by_tenure(self.core.config.faults, self.core.ledger.last());
        let (since, begins) = self.core.members.tenures().now().bounds();
        let view = if planted("smart-views-go-on") { self.core.office.view().next() } else { begins };
        self.core.enter(view, Signed::new(), Phase::free_after(since), out);
        self.voting.enter();
        self.voting.open = Default::default();
        self.testimony.forget();
        self.stops.forget();
        self.rotation.begin();
        self.rates.forget_leaders();
        self.gathered = Default::default();
        self.few.begin(self.core.config.seed);
        self.unaided.enter();
        self.core.members.forget_followers();
        self.watch.enter(self.core.now(), true);
        self.rates.enter(self.core.now(), self.core.leader());
        self.reads.fail(out);
        self.rates.begin(self.core.now());
    }
}

/// Checkpoints. An anchor names the membership, and the slot and view with which its tenure began. The view and the votes by which a slot
/// was decided differ between replicas, so an anchor does not name them.
impl ModSmart {
    /// [mod_smart L89]
    pub(super) fn anchor_at(&self, slot: Slot) -> Option<Anchor> {
        let ledger = &self.core.ledger;
        if slot > ledger.last() {
            return ledger.ahead().filter(|ahead| ahead.0 == slot).map(|ahead| ahead.1.clone());
        }
        (slot >= ledger.floor()).then(|| self.core.members.tenures().anchor(slot)).flatten()
    }

    /// [mod_smart L90]
    pub(super) fn on_trim(&mut self, slot: Slot, out: &mut Effects) {
        if self.core.ledger.trim(slot) {
            self.core.members.forget(self.core.ledger.floor());
            self.core.persist_floor(false, out);
        }
    }

    /// [mod_smart L91-L92]
    pub(super) fn on_installed(&mut self, slot: Slot, anchor: &Anchor, out: &mut Effects) {
        let tenures = match read_anchor(slot, anchor, &self.core) {
            Ok(tenures) => tenures,
            Err(why) => return self.halt(why, out),
        };
        if !self.core.ledger.installed(slot, out) {
            self.core.ledger.forget_ahead();
            self.begin_after(slot, tenures, out);
        }
    }

    /// What this replica lacks exists only in a checkpoint. A checkpoint that it has already, ahead of its log, will do.
    /// [mod_smart L75, L103]
    pub(super) fn needs_later(&mut self, slot: Slot, out: &mut Effects) {
        let ledger = &self.core.ledger;
        let ahead = ledger.ahead().filter(|(ahead, _)| *ahead == ledger.delivered()).cloned();
        match ahead {
            Some((ahead, anchor)) if ahead >= slot => match read_anchor(ahead, &anchor, &self.core) {
                Ok(tenures) => self.begin_after(ahead, tenures, out),
                Err(why) => self.halt(why, out),
            },
            _ => out.push(Effect::Behind { slot }),
        }
    }

    /// The log begins, empty, after a checkpoint that lies beyond its end. [mod_smart L92]
    fn begin_after(&mut self, slot: Slot, tenures: Tenures, out: &mut Effects) {
        let later = tenures.now().number() > self.core.membership_number();
        self.core.members.set_tenures(tenures);
        self.core.know_members();
        self.core.ledger.begin_after(slot);
        self.voting.begin_after(slot);
        self.unaided.skipped_slots(&mut self.core);
        self.core.office.release(slot);
        self.fetching.forget(slot);
        self.watch.slot_is_over();
        // Before the view: a life that knows the view knows where its log begins.
        self.core.persist_floor(true, out);
        if later {
            self.enter_tenure(out);
            self.reads.begin_rounds(&self.core, out);
        }
        self.core.members.meet_decision(self.core.ledger.last());
        if !self.core.has_begun() {
            self.enter_synchronization(out);
        }
        self.progress(out);
    }
}

/// The start.
impl ModSmart {
    /// A replica that led its view in an earlier life does not know what it proposed, and asks to be replaced. [mod_smart L8]
    pub(super) fn begin_life(&mut self, out: &mut Effects) {
        let now = self.core.now();
        self.watch.enter(now, true);
        self.rates.enter(now, self.core.leader());
        self.watch.forget_failures();
        let (since, begins) = self.core.members.tenures().now().bounds();
        if self.core.office.view() < begins {
            // The durable records end before this tenure, or a checkpoint says so: this replica sent nothing in it.
            self.voting.open = Default::default();
            self.core.enter(begins, Signed::new(), Phase::free_after(since), out);
        } else if self.core.is_leader() && !planted("smart-leads-again") {
            self.core.office.bar();
        }
        if self.core.begins_late() && !self.core.ledger.records().has_floor() {
            // A later checkpoint may be lost, or name another membership: before all votes the log says where it begins.
            self.core.persist_floor(false, out);
        }
        self.take_part(out);
    }

    /// This replica is given a secret key. If that is the one that it lacks, it takes part from now on, as after a restart. [mod_smart L175]
    pub(super) fn on_hold(&mut self, secret: &Secret, out: &mut Effects) {
        let silent = !self.core.can_sign();
        self.core.auth.hold(secret);
        if silent && self.core.can_sign() && self.core.life.started {
            if self.core.is_leader() {
                self.core.office.bar();
            }
            self.take_part(out);
        }
    }

    /// Begins to take part in the present view, of which this life knows nothing yet. In the first view of a tenure nobody can have voted
    /// before.
    fn take_part(&mut self, out: &mut Effects) {
        let (now, (since, begins)) = (self.core.now(), self.core.members.tenures().now().bounds());
        if self.core.office.view() == begins {
            self.core.office.begin(Phase::free_after(since));
        } else {
            self.core.office.begin(self.core.first_phase());
            self.enter_synchronization(out);
        }
        self.reads.begin_rounds(&self.core, out);
        if self.voting.recount_own(&self.core) {
            self.watch.slot_is_open(now);
        }
        if self.core.office.is_barred() {
            self.ask_for_view(out);
        }
        self.progress(out);
    }
}

//! Complaints become views: STOP, joining others' STOPs, and the certificate that a quorum of them is.
//!
//! A STOP counts towards joining as long as it is repeated, and its sender repeats it as long as its complaint stands. One that
//! was right once and is not any more does not help to depose a leader later.
//!
//! INV-SMART-7: a view is entered with a certificate, and views only grow. Tests: tests/stops.rs, tests/chaos.rs.

use super::normal::Accepted;
use super::tenures::views_to;
use super::{ModSmart, Phase, reject};
use crate::Effects;
use crate::mod_smart::message::{Complaint, ModSmartBody as Body};
use quorate_auth::{Signature, Signed};
use quorate_types::{Reject, ReplicaId, Slot, Span, Time, View, planted};
use std::collections::BTreeMap;

/// The last STOP of a member.
#[derive(Clone, Copy, Debug)]
struct Heard {
    asked: View,
    why: Complaint,
    signature: Signature,
    at: Time,
}

/// A leader that is about to leave its office, for a view: when it asks for that whatever is open, and until when it waits for the view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    target: View,
    due: Time,
    until: Time,
    asked: bool,
}

/// Who asks for which view.
#[derive(Debug, Default)]
pub(super) struct Stops {
    heard: BTreeMap<ReplicaId, Heard>,
    /// What this replica asks for, and when it said so last.
    asking: Option<(View, Complaint, Time)>,
    pub(super) leaving: Option<Leaving>,
}

impl Stops {
    /// Whether this member said that it gives its office up.
    fn says_leaves(&self, leader: ReplicaId) -> bool {
        self.heard.get(&leader).is_some_and(|heard| heard.why == Complaint::Leaves)
    }
    /// Whether so many ask for this view since the shift before it is over.
    pub(super) fn say_rotates(&self, view: View, needed: u32) -> bool {
        let says = |heard: &&Heard| heard.asked == view && heard.why == Complaint::Rotation;
        self.heard.values().filter(says).count() >= needed as usize
    }
    /// Whether the leader has finished and wants to go.
    pub(super) fn left(&self) -> bool {
        self.leaving.is_some_and(|leaving| leaving.asked)
    }
    /// Others vote from now on.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl ModSmart {
    /// A STOP counts towards joining for so long. [mod_smart L36]
    fn stop_counts_for(&self) -> Span {
        Span::from_nanos(self.config.repeat.nanos().saturating_mul(4))
    }

    /// The highest view that so many others ask for on their own account that one of them is right; or the one that the leader leaves for.
    /// `complains`: this replica has a reason of its own. Then a leader that may lie, and names another view to each, has no say any more.
    /// [mod_smart L33-L35]
    fn view_to_join(&self, complains: bool) -> Option<(View, Complaint)> {
        let fresh = |heard: &Heard| {
            self.life.now.since(heard.at) <= self.stop_counts_for() || planted("smart-stops-stand-for-ever")
        };
        let leader = self.leader();
        // Whom the leader itself wants to follow it needs no other reason. It can not ask for itself that way.
        let left = self.stops.heard.get(&leader).filter(|heard| {
            let near = heard.asked > self.office.view
                && heard.asked.since(self.office.view) < self.members.voters.len() as u64;
            leader != self.config.me && heard.why == Complaint::Leaves && near && fresh(heard)
        });
        let left = left.map(|heard| (heard.asked, Complaint::Joined));
        if left.is_some() && !self.may_lie() {
            return left;
        }
        let left = left.filter(|_| !complains);
        let mut asked: Vec<View> = self
            .stops
            .heard
            .iter()
            .filter(|(id, heard)| {
                let own = heard.why != Complaint::Joined || planted("smart-stops-stand-for-ever");
                **id != self.config.me && heard.asked > self.office.view && own && fresh(heard)
            })
            .map(|(_, heard)| heard.asked)
            .collect();
        asked.sort_unstable_by(|one, next| next.cmp(one));
        let needed = self.members.trust.truth() as usize;
        let needed = if planted("smart-join-one") { 1 } else { needed };
        let view = asked.get(needed - 1).copied().filter(|_| self.doubts());
        view.map(|view| (view, Complaint::Joined)).or(left)
    }

    /// Says, or says again, which view is wanted; or stops saying so. [mod_smart L32-L37]
    pub(super) fn ask_for_view(&mut self, out: &mut Effects) {
        let own = self.complaint().map(|why| {
            let target =
                self.stops.leaving.map(|leaving| leaving.target).filter(|view| *view > self.office.view);
            (target.unwrap_or(self.view_after(why)), why)
        });
        let joined = self.view_to_join(own.is_some());
        let wanted = match (own, joined) {
            // Whoever asks for more than it would by itself only joins: else a few could keep each other there, beside the rest.
            (Some((view, _)), Some(joined)) if joined.0 > view && !planted("smart-lifted-keeps-reason") => {
                Some(joined)
            }
            (Some((view, why)), Some(joined)) => Some((view.max(joined.0), why)),
            (own, joined) => own.or(joined),
        };
        let last = views_to(self.membership_number());
        let Some((view, why)) = wanted.filter(|(view, _)| *view <= last && self.votes()) else {
            self.stops.asking = None;
            return;
        };
        let due = match self.stops.asking {
            Some((before, said, at)) => {
                before != view || said != why || self.life.now.since(at) >= self.config.repeat
            }
            None => true,
        };
        if !due {
            return;
        }
        self.stops.asking = Some((view, why, self.life.now));
        let signature = self.auth.sign(&self.stop_statement(view));
        let me = self.config.me;
        self.stops.heard.insert(me, Heard { asked: view, why, signature, at: self.life.now });
        let decided = self.decided();
        self.send_all(out, &Body::Stop { asked: view, why, decided, signature }, None);
        self.install_if_certified(view, out);
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
        if asked > views_to(self.membership_number()) {
            return reject(out, from, Reject::Malformed("mod-smart: view"));
        }
        if asked <= self.office.view {
            return self.show_certificate(from, out);
        }
        let before = self.stops.heard.get(&from).copied();
        let known = before.is_some_and(|heard| heard.asked == asked && heard.signature == signature);
        if !known && !self.auth.verify(from, &self.stop_statement(asked), &signature) {
            return reject(out, from, Reject::NotAllowed("a STOP with a wrong signature"));
        }
        // Whoever asked for a higher one before does not any more.
        self.stops.heard.insert(from, Heard { asked, why, signature, at: self.life.now });
        self.ask_for_view(out);
        self.install_if_certified(asked, out);
    }

    /// [mod_smart L40]
    fn install_if_certified(&mut self, view: View, out: &mut Effects) {
        let stops: Signed = self
            .stops
            .heard
            .iter()
            .filter(|(_, heard)| heard.asked == view)
            .map(|(id, heard)| (*id, heard.signature))
            .collect();
        let needed = self.members.trust.agreement() as usize;
        let needed = if planted("smart-view-by-few") { self.members.trust.truth() as usize } else { needed };
        if view > self.office.view && stops.len() >= needed {
            self.install(view, stops, out);
        }
    }

    /// Enters a view that a quorum asked for. [mod_smart L41]
    pub(super) fn install(&mut self, view: View, stops: Signed, out: &mut Effects) {
        assert!(view > self.office.view, "INV-SMART-7: views only grow, from {} to {view}", self.office.view);
        let left = self.office.barred || self.stops.left() || self.stops.says_leaves(self.leader());
        self.note_shift(left, view);
        self.office.view = view;
        self.office.certificate = stops;
        self.office.barred = false;
        self.office.phase = self.first_phase();
        self.persist_view(out);
        self.voting.tallies.clear();
        self.voting.own.clear();
        self.voting.queue.clear();
        self.stops.heard.retain(|_, heard| heard.asked > view);
        (self.stops.asking, self.stops.leaving) = (None, None);
        self.members.forget_followers();
        let whole = self.was_whole_shift();
        self.watch.enter(self.life.now, left || whole);
        self.enter_rates();
        self.fail_reads(out);
        self.enter_synchronization(out);
    }

    /// Shows whoever is in an older view why there is a newer one. [mod_smart L43]
    pub(super) fn show_certificate(&mut self, to: ReplicaId, out: &mut Effects) {
        // After records were lost the view may be known without the STOPs that made it.
        let known =
            self.office.view == self.members.tenures.now().begins || !self.office.certificate.is_empty();
        if known && self.pace.shown.insert(to) {
            self.send(out, to, Body::Certificate { stops: self.office.certificate.clone() }, None);
        }
    }

    /// Somebody is in a newer view: a question that shows in which one we are gets its certificate. [mod_smart L43]
    pub(super) fn ask_for_certificate(&mut self, from: ReplicaId, body: &Body, out: &mut Effects) {
        let helps = matches!(body, Body::Certificate { .. } | Body::Sync { .. });
        if !helps && self.pace.shown.insert(from) {
            self.send(out, from, Body::Fetch { slot: self.decided().next(), count: 1 }, None);
        }
    }

    /// [mod_smart L44]
    pub(super) fn on_certificate(&mut self, from: ReplicaId, view: View, stops: Signed, out: &mut Effects) {
        if view <= self.office.view {
            return;
        }
        if !self.certifies(view, &stops) {
            return reject(out, from, Reject::NotAllowed("a view without a certificate"));
        }
        self.install(view, stops, out);
    }

    /// Whoever complains may only lack what is decided here, or know more than is. [mod_smart L69]
    pub(super) fn help_or_follow(&mut self, from: ReplicaId, decided: Slot, out: &mut Effects) {
        self.fetching.hint(from, decided, self.decided());
        // A liar must not turn small complaints into large answers.
        if decided < self.decided() && self.pace.helped.insert(from) {
            self.on_fetch(from, decided.next(), 1, out);
        }
    }

    /// The leader is to hand over. [mod_smart L71]
    pub(super) fn on_transfer(&mut self, target: Option<ReplicaId>) {
        if !self.leads()
            || self.stops.leaving.is_some()
            || self.members.voters.len() == 1
            || self.shift_is_over()
        {
            return;
        }
        let n = self.members.voters.len() as u64;
        let view = (1..n)
            .map(|step| self.office.view.plus(step))
            .find(|view| target.is_none_or(|target| self.leader_of(*view) == target));
        let Some(target) = view else { return };
        let due = self.life.now.plus(self.patience());
        let until = due.plus(self.config.timeout_max);
        self.stops.leaving = Some(Leaving { target, due, until, asked: false });
    }

    /// What was begun is finished first, unless that takes too long: the next view goes on with it. If nobody else comes to lead, the leader
    /// stays. [mod_smart L71]
    pub(super) fn leave_if_idle(&mut self, out: &mut Effects) {
        let Some(leaving) = self.stops.leaving else { return };
        let idle = self.proposed_and_open().0 == 0 && self.voting.open.taken(self.office.view).is_none();
        let late = self.life.now >= leaving.due && !planted("smart-leaves-when-idle");
        if !leaving.asked && (idle || late) {
            self.stops.leaving = Some(Leaving { asked: true, ..leaving });
            self.ask_for_view(out);
        }
        if self.stops.leaving.is_some_and(|leaving| self.life.now >= leaving.until) {
            self.stops.leaving = None;
        }
    }

    pub(super) fn on_connected(&mut self, peer: ReplicaId, out: &mut Effects) {
        self.members.connected.insert(peer);
        if !self.config.faults.may_lie() {
            self.watch.forget_failures();
        }
        if self.is_member(peer) && peer != self.config.me {
            self.pace.shown.remove(&peer);
            self.repeat_to(peer, out);
        }
    }

    /// The connection to the leader closed: with crash faults it is probably dead. Where replicas may lie a complaint costs more, since
    /// others join it, so that an honest leader has the time of one heartbeat to connect again. [mod_smart L63]
    pub(super) fn on_disconnected(&mut self, peer: ReplicaId) {
        self.members.connected.remove(&peer);
        self.fetching.lose(peer);
        if peer != self.leader() || planted("smart-closed-is-nothing") {
            return;
        }
        if self.may_lie() {
            // A little less than that: the next tick but one is to see it.
            let grace = self.config.heartbeat.times(3).divided(4);
            self.watch.expect_leader(self.life.now, self.patience(), grace);
        } else {
            self.watch.lose_leader();
        }
        self.pace.tick = self.life.now;
    }

    /// A life begins. Who led its view in an earlier one does not know what it proposed, and asks to be replaced. [mod_smart L8]
    pub(super) fn begin_life(&mut self, out: &mut Effects) {
        self.watch.enter(self.life.now, true);
        self.enter_rates();
        self.watch.forget_failures();
        let now = self.members.tenures.now();
        let (since, begins) = (now.since, now.begins);
        if self.office.view < begins {
            // What is durable ends with the slot before this tenure, or a checkpoint tells of it: nothing was said in it.
            self.office.view = begins;
            self.office.certificate.clear();
            self.voting.open = Default::default();
            self.persist_view(out);
        } else {
            self.office.barred = self.leader() == self.config.me && !planted("smart-leads-again");
        }
        if self.members.tenures.now().is_of_state() && !self.ledger.records().has_floor() {
            // A later checkpoint may be lost, or name another membership: before all votes the log says where it begins.
            self.persist_floor(false, out);
        }
        if self.office.view == begins {
            self.office.phase = Phase::Normal { base: since.next(), forced: None, settled: since };
        } else {
            self.office.phase = self.first_phase();
            self.enter_synchronization(out);
        }
        self.begin_rounds(out);
        self.recount_own();
        if self.office.barred {
            self.ask_for_view(out);
        }
        self.progress(out);
    }

    /// Votes of an earlier life, in the present view, count: they are durable.
    fn recount_own(&mut self) {
        let (slot, me) = (self.decided().next(), self.config.me);
        let wrote =
            self.voting.open.writes.iter().find(|write| write.0 == self.office.view).map(|write| write.1);
        let locked = self.voting.open.lock.filter(|lock| lock.0 == self.office.view).map(|lock| lock.1);
        if wrote.is_none() && locked.is_none() {
            return;
        }
        self.watch.slot_is_open(self.life.now);
        let signature = locked.map(|digest| self.sign_accept(self.office.view, slot, digest));
        let tally = self.voting.tallies.entry(slot).or_default();
        if let Some(digest) = wrote {
            tally.writes.insert(me, digest);
        }
        if let Some((digest, signature)) = locked.zip(signature) {
            tally.accepts.insert(me, Accepted::own(digest, signature));
        }
    }
}

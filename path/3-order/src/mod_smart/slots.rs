//! What happens in each slot: proposals, votes, decisions; and decided slots from other members.
//!
//! Voting is a part of its own (`normal`), and so is fetching (`fetch`). This file passes results from part to part. A decision ends what
//! the watch waits for, is measured, is written down, is sent to listeners, and may begin a tenure.
//!
//! Tests: tests/normal.rs, tests/fetch.rs, tests/members.rs.

use super::fetch::Got;
use super::few::Awaited;
use super::members::decided_by;
use super::normal::{AHEAD_MAX, Next};
use super::persist::held;
use super::reads::Look;
use super::{ModSmart, SLOT_MAX, reject};
use crate::ledger::Proof;
use crate::mod_smart::message::ModSmartBody as Body;
use crate::visigoth::Grant;
use crate::visigoth::OracleAnswer;
use crate::{Effect, Effects, Stored, Waited};
use quorate_auth::Signature;
use quorate_types::{Digest, MembershipId, Reject, ReplicaId, Slot, View, planted};
use quorate_wire::{Batch, Memberships};
use std::sync::Arc;

/// The name under which a change is watched.
fn name_of(change: &Memberships) -> Digest {
    Digest::new(*blake3::hash(&change.encode()).as_bytes())
}

/// Proposals and votes.
impl ModSmart {
    /// [mod_smart L9]
    pub(super) fn on_batch(&mut self, batch: Batch, out: &mut Effects) {
        if self.core.leads() && !self.stops.is_leaving() {
            self.voting.queue(batch);
            self.progress(out);
        }
    }

    /// The host executed a command that asks for this change. [mod_smart L112]
    pub(super) fn on_membership(&mut self, change: Arc<Memberships>, out: &mut Effects) {
        if self.core.may_lie() && !planted("smart-change-unwatched") {
            // No leader may leave the change out. [mod_smart L160]
            self.watch.on_watch(name_of(&change), self.core.now());
        }
        if self.core.members.want(change) {
            self.progress(out);
        }
    }

    /// The host's answer about a proposal. [mod_smart L101]
    pub(super) fn on_vouched(
        &mut self,
        slot: Slot,
        digest: Digest,
        waited: Option<Waited>,
        out: &mut Effects,
    ) {
        if self.voting.vouched.answer(slot, digest, waited, &self.core) {
            self.progress(out);
        }
    }

    /// [mod_smart L12-L13]
    pub(super) fn on_propose(&mut self, from: ReplicaId, slot: Slot, batch: Batch, out: &mut Effects) {
        if from != self.core.leader() && !planted("smart-anybody-proposes") {
            return reject(out, from, Reject::NotAllowed("a proposal of who does not lead"));
        }
        if self.keeps_votes_on(from, slot) && self.voting.on_propose(from, (slot, batch), &self.core, out) {
            self.watch.heard_leader(from, &self.core);
            self.progress(out);
        }
    }

    /// [mod_smart L16]
    pub(super) fn on_write(&mut self, from: ReplicaId, slot: Slot, digest: Digest, out: &mut Effects) {
        if self.keeps_votes_on(from, slot) && self.voting.on_write(from, (slot, digest), &self.core, out) {
            self.progress(out);
        }
    }

    /// [mod_smart L20-L21]
    pub(super) fn on_accept(
        &mut self,
        from: ReplicaId,
        slot: Slot,
        digest: Digest,
        signature: Signature,
        out: &mut Effects,
    ) {
        if !self.keeps_votes_on(from, slot) {
            return;
        }
        let signed = (&self.core, &mut self.testimony);
        if self.voting.on_accept(from, (slot, digest), signature, signed, out) {
            self.progress(out);
        }
    }

    /// Whether votes on this slot are kept. A member that votes on a slot has decided the slots before: only a hint. [mod_smart L26, L68]
    fn keeps_votes_on(&mut self, from: ReplicaId, slot: Slot) -> bool {
        let decided = self.core.decided();
        let next = decided.next();
        if slot > SLOT_MAX || slot < next {
            return false;
        }
        self.fetching.hint(from, slot.previous(), decided);
        if slot == next {
            self.watch.slot_is_open(self.core.now());
        }
        slot.since(next) < AHEAD_MAX || planted("smart-votes-without-end")
    }

    /// Does everything that is possible now, whatever order the votes came in. [mod_smart L12-L25]
    pub(super) fn progress(&mut self, out: &mut Effects) {
        loop {
            self.propose_next(out);
            if let Some((slot, waited)) = self.voting.take(&mut self.core, out) {
                self.watch.slot_is_open(self.core.now());
                self.rates.take(slot, waited, &self.core);
            }
            self.voting.lock(&mut self.core, out);
            if planted("smart-own-vote-before-sync") {
                self.voting.count_own(&self.core);
            }
            match self.voting.next(&self.core, out) {
                Next::Open => return,
                Next::Decided(proof, batch) => self.decide(proof, batch, out),
                Next::With(known) => {
                    let decided = self.core.decided();
                    known.into_iter().for_each(|id| self.fetching.hint(id, decided.next(), decided));
                    return;
                }
            }
        }
    }

    /// The leader proposes its own proposal, or a batch that waits. [mod_smart L10-L11]
    fn propose_next(&mut self, out: &mut Effects) {
        let (stops, watch, core, unaided) = (&self.stops, &self.watch, &self.core, &self.unaided);
        let own = || {
            let members = &core.members;
            if stops.is_leaving() {
                None
            } else {
                let own = members.own_proposal(core.decided(), |id| watch.hears(id, core));
                own.or_else(|| unaided.proposes(core))
            }
        };
        if self.voting.propose_next(own, core, out) {
            self.watch.slot_is_open(self.core.now());
        }
    }

    /// Counts own votes whose records are durable.
    pub(super) fn count_own(&mut self, out: &mut Effects) {
        let before = self.voting.waiting();
        if let Some(collect) = self.voting.count_own(&self.core) {
            self.add_own_collect(collect, out);
        }
        if self.voting.waiting() < before {
            self.progress(out);
        }
    }
}

/// Small quorums, where few members are slow.
impl ModSmart {
    /// What a leader may lack.
    pub(super) fn awaited(&self) -> Awaited<'_> {
        let Self { core, voting, gathered, reads, watch, .. } = self;
        Awaited { core, voting, gathered, reads, watch }
    }

    /// [visigoth L11-L15, L40-L43]
    pub(super) fn go_on_with_few(&mut self, out: &mut Effects) {
        let Self { core, voting, gathered, reads, watch, .. } = self;
        let awaited = Awaited { core, voting, gathered, reads, watch };
        if core.config.oracle {
            self.few.say_whom_it_misses(core, out);
            let asked = self.few.ask(awaited, out);
            if planted("goes-on-ungranted") {
                self.take_granted(asked.into_iter().collect(), out);
            }
        } else if let Some(set) = self.unaided.gather(awaited, out) {
            self.take_granted(vec![set], out);
        }
    }

    /// [visigoth L16-L18]
    pub(super) fn on_oracle(&mut self, answer: OracleAnswer, out: &mut Effects) {
        let sets = self.few.told(answer, &self.core);
        if self.core.may_lie() {
            // What small quorums of earlier views decided is shown by their accepts. [visigoth L38]
            let view = self.core.office.view();
            for Grant { view, set } in self.few.grants().filter(|grant| grant.view != view) {
                self.core.granted.add(view, set);
            }
        }
        self.take_granted(sets, out);
        self.few.note(&self.core);
    }

    /// [visigoth L19-L21]
    pub(super) fn on_granted(
        &mut self,
        from: ReplicaId,
        sets: Vec<Vec<ReplicaId>>,
        since: Slot,
        out: &mut Effects,
    ) {
        // What was gathered before or after others counted than here is said again. [visigoth L43]
        if since != self.core.granted.since() {
            return;
        }
        let sets = self.few.heard(from, sets, &self.core, out);
        self.take_granted(sets, out);
    }

    /// These sets are quorums of the present view: whatever waited for one goes on.
    fn take_granted(&mut self, sets: Vec<Vec<ReplicaId>>, out: &mut Effects) {
        let view = self.core.office.view();
        let mut news = false;
        for set in sets {
            news |= self.core.granted.add(view, set);
        }
        if !news {
            return;
        }
        if self.core.is_mine() {
            self.few.is_in_use(self.core.now());
            self.core.tell_granted(None, out);
            self.try_to_begin_view(out);
        }
        self.few.note(&self.core);
        self.progress(out);
        let look = Look { core: &self.core, voting: &self.voting };
        self.reads.confirm(look, out);
    }

    /// [visigoth L22-L24]
    pub(super) fn count_all_again(&mut self, out: &mut Effects) {
        if let Some(next) = self.few.hands_over(&self.core, &self.watch) {
            self.on_transfer(Some(next));
        }
        let idle = self.voting.proposed_and_open(&self.core).0 == 0 && !self.stops.is_leaving();
        let shows = if idle { self.few.shows_that_all_count(&self.core, out) } else { None };
        if let Some(batch) = shows {
            self.voting.queue(batch);
            self.progress(out);
        }
    }

    /// [visigoth L41]
    pub(super) fn on_probe(&mut self, from: ReplicaId, view: View, tag: u64, out: &mut Effects) {
        self.unaided.on_probe(from, tag, &self.core, out);
        self.meet_at_once(from, view, &Body::Probe { tag }, out);
    }

    /// [visigoth L41]
    pub(super) fn on_probed(&mut self, from: ReplicaId, view: View, tag: u64, out: &mut Effects) {
        self.unaided.on_probed(from, tag, view == self.core.office.view());
        self.meet_at_once(from, view, &Body::Probed { tag }, out);
    }

    /// One of two that look for each other is in an older view, and is to follow, whatever it was shown lately.
    fn meet_at_once(&mut self, from: ReplicaId, view: View, body: &Body, out: &mut Effects) {
        let own = self.core.office.view();
        if view != own && self.core.gathers_after().is_some() {
            self.pace.shown.remove(&from);
            if view < own {
                self.show_certificate(from, out);
            } else {
                self.ask_for_certificate(from, body, out);
            }
        }
    }

    /// [visigoth L46]
    pub(super) fn on_back(&mut self, from: ReplicaId, tag: u64, out: &mut Effects) {
        self.unaided.on_back(from, tag, &self.core, out);
        self.progress(out);
    }

    /// [visigoth L45]
    pub(super) fn ask_to_count(&mut self, out: &mut Effects) {
        self.unaided.asks_to_count(&self.core, out);
        if self.core.gathers_after().is_some() {
            self.progress(out);
        }
    }
}

/// Decisions.
impl ModSmart {
    /// The next slot is decided. [mod_smart L25]
    pub(super) fn decide(&mut self, proof: Proof, batch: Batch, out: &mut Effects) {
        let slot = proof.slot;
        assert!(slot == self.core.decided().next(), "INV-SMART-6: slots are decided in order, {slot}");
        self.watch.decided(&batch);
        self.rates.decide(slot, self.core.now());
        self.testimony.decided(&proof, &self.voting, &self.core, out);
        self.testimony.note_odd(self.voting.odd(&proof, &self.core));
        self.send_decision(&proof, &batch, out);
        let tenure = self.core.members.tenure_after(slot, &batch);
        let link = tenure.is_some().then(|| self.core.link(&proof, &batch)).flatten();
        link.into_iter().for_each(|link| out.push(Effect::Link(Box::new(link))));
        // [mod_smart L78]
        let known = self.voting.open.batches.get(&proof.digest).map(|(_, record)| *record);
        self.unaided.decided(slot, &batch, &mut self.core);
        self.core.ledger.decide(proof, batch, self.core.office.view(), known, out);
        self.voting.decided(slot);
        self.core.forget_few();
        self.few.note(&self.core);
        self.core.office.release(slot);
        self.fetching.forget(slot);
        self.core.ledger.deliver(out);
        if let Some((tenure, holds)) = tenure {
            self.begin_tenure(tenure, &holds, out);
        }
        if let Some(over) = self.core.members.meet_decision(self.core.ledger.last()) {
            self.watch.forget(&name_of(&over));
        }
    }

    /// The leader decided a slot and sends it to the hearers that keep up. [mod_smart L120]
    fn send_decision(&mut self, proof: &Proof, batch: &Batch, out: &mut Effects) {
        if self.core.members.hearers().is_empty() || !self.core.is_mine() {
            return;
        }
        for to in self.core.members.who_hears(proof.slot) {
            let body = Body::Decision { proof: proof.clone(), batch: batch.clone() };
            self.core.send(out, to, body, None);
        }
    }

    /// Old slots were read back: for delivery, or for a member that asked. [mod_smart L28]
    pub(super) fn on_loaded(&mut self, load: u64, records: Vec<Stored>, out: &mut Effects) {
        match self.core.ledger.on_loaded(load, records, held, out) {
            Ok(None) => return,
            Ok(Some(records)) => {
                if let Err(why) = self.fetching.answer_loaded(load, records, &self.core, out) {
                    self.halt(why, out);
                }
            }
            Err(why) => return self.halt(why, out),
        }
        self.core.ledger.deliver(out);
    }
}

/// Decided slots from others, and for them.
impl ModSmart {
    /// [mod_smart L73]
    pub(super) fn on_fetch(&mut self, from: ReplicaId, slot: Slot, count: u16, out: &mut Effects) {
        self.fetching.on_fetch(from, (slot, count), &mut self.core, out);
    }

    /// [mod_smart L74]
    pub(super) fn on_decision(&mut self, from: ReplicaId, proof: Proof, batch: Batch, out: &mut Effects) {
        self.testimony.shown(&proof, &self.core, out);
        let got = self.fetching.on_decision(from, (proof, batch), &mut self.core, out);
        match got {
            Got::Nothing => {}
            Got::Decided(proof, batch) => {
                self.decide(proof, batch, out);
                self.fetching.came(self.core.now());
                self.progress(out);
                self.fetching.came_from(from, &self.core, out);
            }
            Got::Gone(slot) => self.needs_later(slot, out),
        }
    }

    /// [mod_smart L75]
    pub(super) fn on_gone(&mut self, from: ReplicaId, slot: Slot, proof: Option<Proof>, out: &mut Effects) {
        let open = &self.voting.open;
        match self.fetching.on_gone(from, (slot, proof), open, &mut self.core, out) {
            Got::Nothing => {}
            Got::Decided(proof, batch) => {
                self.decide(proof, batch, out);
                self.progress(out);
            }
            Got::Gone(slot) => self.needs_later(slot, out),
        }
    }

    /// A replica that complains may only lack slots that are decided here, or may have decided more. [mod_smart L69]
    pub(super) fn help_or_follow(&mut self, from: ReplicaId, decided: Slot, out: &mut Effects) {
        self.fetching.hint(from, decided, self.core.decided());
        self.help(from, decided, out);
    }

    /// Sends the next slot to a replica that lacks decided slots. A liar must not turn small messages into large answers.
    fn help(&mut self, to: ReplicaId, decided: Slot, out: &mut Effects) {
        if decided < self.core.decided() && self.pace.helped.insert(to) {
            self.on_fetch(to, decided.next(), 1, out);
        }
    }

    /// A message of an earlier or a later membership. A decision is valid in any membership. A replica that is behind is sent the next
    /// slot; one that is ahead is asked for it. Everything else is ignored. [mod_smart L118-L119]
    pub(super) fn on_other_membership(
        &mut self,
        from: ReplicaId,
        membership: MembershipId,
        body: Body,
        out: &mut Effects,
    ) {
        let later = membership > self.core.membership_number();
        if !later && !self.core.members.knows(from) && !self.core.is_member(from) {
            return reject(out, from, Reject::UnknownPeer);
        }
        let theirs = decided_by(&body);
        match body {
            Body::Decision { proof, batch } => return self.on_decision(from, proof, batch, out),
            Body::Gone { slot, proof } => return self.on_gone(from, slot, proof, out),
            Body::Fetch { slot, count } => self.on_fetch(from, slot, count, out),
            // [visigoth L41]
            Body::Probe { tag } => self.unaided.on_probe(from, tag, &self.core, out),
            Body::Probed { tag } => self.unaided.on_probed(from, tag, false),
            // A replica in an earlier membership lacks the slot that ended it. [mod_smart L118]
            _ if !later => theirs.into_iter().for_each(|theirs| self.help(from, theirs, out)),
            _ => {}
        }
        if later {
            let decided = self.core.decided();
            self.fetching.hint(from, theirs.unwrap_or_default().max(decided.next()), decided);
            self.fetching.go_on(&self.core, out);
        }
    }
}

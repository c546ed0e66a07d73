//! The normal phase: PROPOSE, WRITE, ACCEPT, one slot after the other.
//!
//! With crash faults nobody writes: whoever takes a proposal locks it and accepts at once.
//!
//! INV-SMART-4: in one view a replica writes, locks and accepts one value of a slot at most, and what it did so is never replaced.
//! INV-SMART-5: an own vote counts, and leaves, when its record is durable. INV-SMART-6: a slot is decided by a quorum of accepts of
//! one value in one view, or by a proof of that. Tests: tests/normal.rs, tests/liars.rs, tests/chaos.rs.

use super::statements::digest_of;
use super::{ModSmart, Phase, SLOT_MAX, reject};
use crate::Effects;
use crate::ledger::Proof;
use crate::mod_smart::message::{Collect, ModSmartBody as Body, WRITES_MAX};
use quorate_auth::Claim;
use quorate_auth::Signature;
use quorate_types::{Digest, RecordId, Reject, ReplicaId, Slot, View, planted};
use quorate_wire::Batch;
use std::collections::BTreeMap;

/// Votes on so many slots after the last decided one are kept: others may be ahead by a moment. [mod_smart L26]
pub(super) const AHEAD_MAX: u64 = 4;

/// What this replica did in the slot after the last decided one.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// The value that it locked last.
    pub(super) lock: Option<(View, Digest)>,
    /// The values that it wrote, each with the highest view in which it did; in the order of those.
    pub(super) writes: Vec<(View, Digest)>,
    /// Their batches, with the records that hold them.
    pub(super) batches: BTreeMap<Digest, (Batch, RecordId)>,
}

impl Open {
    /// What it took in this view. [mod_smart L14]
    pub(super) fn taken(&self, view: View) -> Option<Digest> {
        let locked = self.lock.filter(|lock| lock.0 == view).map(|lock| lock.1);
        locked.or_else(|| self.writes.iter().find(|write| write.0 == view).map(|write| write.1))
    }
    /// Notes a write; a value that was written before takes the new view. [mod_smart L15]
    pub(super) fn note_write(&mut self, view: View, digest: Digest) {
        self.writes.retain(|write| write.1 != digest);
        self.writes.push((view, digest));
        if self.writes.len() > WRITES_MAX {
            // That can only keep a later view waiting, never bind it to something wrong.
            let (_, gone) = self.writes.remove(0);
            if self.lock.is_none_or(|lock| lock.1 != gone) {
                self.batches.remove(&gone);
            }
        }
    }
    /// The first record that a restart needs to know this.
    pub(super) fn first_record(&self) -> Option<RecordId> {
        self.batches.values().map(|(_, record)| *record).min()
    }
}

/// An accept of this view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    digest: Digest,
    signature: Signature,
    /// The signature is right. Until a quorum could decide with it, nobody looks.
    checked: bool,
}

impl Accepted {
    /// Our own.
    pub(super) fn own(digest: Digest, signature: Signature) -> Self {
        Self { digest, signature, checked: true }
    }
}

/// The votes on one slot in the present view.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) proposal: Option<(Digest, Batch)>,
    pub(super) writes: BTreeMap<ReplicaId, Digest>,
    pub(super) accepts: BTreeMap<ReplicaId, Accepted>,
    /// Who leads was found to have proposed another value to others.
    two_faced: bool,
}

impl Tally {
    /// The value that so many accepted, if there is one.
    fn accepted(&self, quorum: usize) -> Option<Digest> {
        let count = |digest: &Digest| self.accepts.values().filter(|vote| vote.digest == *digest).count();
        self.accepts.values().map(|vote| vote.digest).find(|digest| count(digest) >= quorum)
    }
    fn written(&self, digest: Digest) -> usize {
        self.writes.values().filter(|vote| **vote == digest).count()
    }
}

/// An own vote, or statement, that counts once its record is durable.
#[derive(Clone, Debug)]
pub(super) enum Own {
    Write(Slot, Digest),
    Accept(Slot, Digest, Signature),
    Collect(Collect),
}

impl ModSmart {
    /// [mod_smart L9]
    pub(super) fn on_batch(&mut self, batch: Batch, out: &mut Effects) {
        if self.leads() && self.stops.leaving.is_none() {
            self.voting.queue.push_back(batch);
            self.progress(out);
        }
    }

    /// Takes the next batch up if nothing is open. [mod_smart L10-L11]
    fn propose_next(&mut self, out: &mut Effects) {
        let Phase::Normal { base, forced: None, .. } = &self.office.phase else { return };
        let slot = self.decided().next();
        let fresh = self.voting.tallies.get(&slot).is_none_or(|tally| tally.proposal.is_none());
        if !self.is_mine()
            || self.shift_is_over()
            || slot < *base
            || !fresh
            || self.voting.open.taken(self.office.view).is_some()
        {
            return;
        }
        let Some(batch) = self.own_proposal().or_else(|| self.voting.queue.pop_front()) else { return };
        let digest = digest_of(&batch);
        self.voting.tallies.entry(slot).or_default().proposal = Some((digest, batch.clone()));
        self.examine(slot, digest, &batch, out);
        self.send_all(out, &Body::Propose { slot, batch }, None);
        self.watch.slot_is_open(self.life.now);
    }

    /// [mod_smart L12-L13]
    pub(super) fn on_propose(&mut self, from: ReplicaId, slot: Slot, batch: Batch, out: &mut Effects) {
        if from != self.leader() && !planted("smart-anybody-proposes") {
            return reject(out, from, Reject::NotAllowed("a proposal of who does not lead"));
        }
        if !self.keeps_votes_on(from, slot) {
            return;
        }
        let digest = digest_of(&batch);
        let tally = self.voting.tallies.entry(slot).or_default();
        match &tally.proposal {
            Some((first, _)) if *first != digest && !planted("smart-second-proposal") => {
                return reject(out, from, Reject::NotAllowed("another proposal for the same slot"));
            }
            Some((same, _)) if *same == digest => {}
            _ => {
                tally.proposal = Some((digest, batch.clone()));
                self.examine(slot, digest, &batch, out);
            }
        }
        self.compare_faces(slot, out);
        self.heard_leader(from);
        self.progress(out);
    }

    /// Whether votes on this slot are of use. Who votes on a slot decided those before: a hint, no more. [mod_smart L26, L68]
    fn keeps_votes_on(&mut self, from: ReplicaId, slot: Slot) -> bool {
        let next = self.decided().next();
        if slot > SLOT_MAX || slot < next {
            return false;
        }
        self.fetching.hint(from, slot.previous(), self.decided());
        if slot == next {
            self.watch.slot_is_open(self.life.now);
        }
        slot.since(next) < AHEAD_MAX || planted("smart-votes-without-end")
    }

    /// [mod_smart L16]
    pub(super) fn on_write(&mut self, from: ReplicaId, slot: Slot, digest: Digest, out: &mut Effects) {
        if !self.keeps_votes_on(from, slot) {
            return;
        }
        let writes = &mut self.voting.tallies.entry(slot).or_default().writes;
        let first = *writes.entry(from).or_insert(digest);
        if planted("smart-last-vote-counts") {
            writes.insert(from, digest);
        }
        if first != digest {
            return reject(out, from, Reject::NotAllowed("two different writes in one view"));
        }
        self.compare_faces(slot, out);
        self.progress(out);
    }

    /// Of f+1 that wrote a value one is honest, and got it from who leads: if that proposed another one here, it has two faces.
    /// [mod_smart L155]
    fn compare_faces(&mut self, slot: Slot, out: &mut Effects) {
        let (honest, leader) = (self.members.trust.truth() as usize, self.leader());
        let Phase::Normal { base, forced, .. } = &self.office.phase else { return };
        // Who lacks slots before its view may write what binds that, whatever is proposed.
        let free = slot > *base || (slot == *base && forced.is_none());
        if !self.may_lie() || !free || leader == self.config.me || planted("smart-two-faces-unseen") {
            return;
        }
        let Some(tally) = self.voting.tallies.get_mut(&slot) else { return };
        let Some((proposed, _)) = &tally.proposal else { return };
        let mut others = tally.writes.values().filter(|value| *value != proposed);
        if !tally.two_faced && others.any(|value| tally.written(*value) >= honest) {
            tally.two_faced = true;
            reject(out, leader, Reject::NotAllowed("different proposals to different replicas"));
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
        let known = self.voting.tallies.get(&slot).and_then(|tally| tally.accepts.get(&from));
        if let Some(first) = known {
            if first.digest != digest {
                reject(out, from, Reject::NotAllowed("two different accepts in one view"));
            }
            return;
        }
        let vote = Accepted { digest, signature, checked: false };
        self.voting.tallies.entry(slot).or_default().accepts.insert(from, vote);
        self.progress(out);
    }

    /// The value that a quorum accepted with signatures that are right, if there is one. No more of them are looked at than are needed,
    /// and those together. Wrong ones go. [mod_smart L20, L22]
    fn accepted(&mut self, slot: Slot, out: &mut Effects) -> Option<Digest> {
        let quorum = self.members.trust.agreement() as usize;
        loop {
            let tally = self.voting.tallies.get(&slot)?;
            let digest = tally.accepted(quorum)?;
            let of_it = tally.accepts.iter().filter(|(_, vote)| vote.digest == digest);
            let checked = of_it.clone().filter(|(_, vote)| vote.checked).count();
            let new: Vec<(ReplicaId, Signature)> = of_it
                .filter(|(_, vote)| !vote.checked)
                .take(quorum.saturating_sub(checked))
                .map(|(id, vote)| (*id, vote.signature))
                .collect();
            let statement = self.accept_statement(self.office.view, slot, digest);
            let claims: Vec<Claim<'_>> = new.iter().map(|(id, sig)| (*id, &statement[..], sig)).collect();
            let all = planted("smart-accept-unsigned") || self.auth.verify_all(&claims);
            let right = |(id, signature): &(ReplicaId, Signature)| {
                all || self.auth.verify(*id, &statement, signature)
            };
            let (right, wrong): (Vec<_>, Vec<_>) = new.into_iter().partition(right);
            let tally = self.voting.tallies.entry(slot).or_default();
            for (id, _) in right {
                tally.accepts.entry(id).and_modify(|vote| vote.checked = true);
            }
            if wrong.is_empty() {
                return Some(digest);
            }
            for (id, _) in wrong {
                tally.accepts.remove(&id);
                reject(out, id, Reject::NotAllowed("an accept with a wrong signature"));
            }
        }
    }

    /// Does all that has become possible, in whatever order the votes came. [mod_smart L12-L25]
    pub(super) fn progress(&mut self, out: &mut Effects) {
        loop {
            self.propose_next(out);
            self.take(out);
            self.lock(out);
            if planted("smart-own-vote-before-sync") {
                self.count_own_now();
            }
            if !self.decide_if_accepted(out) {
                return;
            }
        }
    }

    /// Takes what the view is bound to, or else what the leader proposed. [mod_smart L12-L15, L57, L101]
    fn take(&mut self, out: &mut Effects) {
        let slot = self.decided().next();
        let Phase::Normal { base, forced, .. } = &self.office.phase else { return };
        if slot < *base || self.voting.open.taken(self.office.view).is_some() || !self.votes() {
            return;
        }
        let forced = forced.as_ref().filter(|_| slot == *base);
        let proposed = self.voting.tallies.get(&slot).and_then(|tally| tally.proposal.as_ref());
        // What binds the view was examined by who wrote it first.
        let proposed = proposed.filter(|(digest, _)| self.may_take(slot, *digest));
        // Nor is who leads to blame for the time that it takes.
        let waited = proposed.filter(|_| forced.is_none()).and_then(|(digest, _)| self.waited(slot, *digest));
        let Some((digest, batch)) = forced.or(proposed).cloned() else { return };
        self.watch.slot_is_open(self.life.now);
        self.note_taken(slot, waited);
        if self.may_lie() {
            self.voting.open.note_write(self.office.view, digest);
            let record = self.persist_write(slot, digest, batch, out);
            self.voting.own.push_back((record, Own::Write(slot, digest)));
            self.send_all(out, &Body::Write { slot, digest }, self.vote_after(record));
        } else {
            self.accept(slot, digest, Some(batch), out);
        }
    }

    /// Votes are sent after their record.
    fn vote_after(&self, record: RecordId) -> Option<RecordId> {
        (!planted("smart-vote-before-sync")).then_some(record)
    }

    /// Locks a value and accepts it. [mod_smart L18-L19]
    fn accept(&mut self, slot: Slot, digest: Digest, batch: Option<Batch>, out: &mut Effects) {
        assert!(
            self.voting.open.lock.is_none_or(|(view, _)| view < self.office.view),
            "INV-SMART-4: one lock in a view"
        );
        self.voting.open.lock = Some((self.office.view, digest));
        let record = self.persist_lock(slot, digest, batch, out);
        let signature = self.sign_accept(self.office.view, slot, digest);
        self.voting.own.push_back((record, Own::Accept(slot, digest, signature)));
        self.send_all(out, &Body::Accept { slot, digest, signature }, self.vote_after(record));
    }

    /// A quorum wrote what we wrote: lock it. [mod_smart L17-L19]
    fn lock(&mut self, out: &mut Effects) {
        let slot = self.decided().next();
        let wrote =
            self.voting.open.writes.iter().find(|write| write.0 == self.office.view).map(|write| write.1);
        let (Some(digest), Some(tally)) = (wrote, self.voting.tallies.get(&slot)) else { return };
        let few = planted("smart-lock-early") && tally.written(digest) >= self.members.trust.truth() as usize;
        let enough = tally.written(digest) >= self.members.trust.agreement() as usize || few;
        if enough && self.voting.open.lock.is_none_or(|lock| lock.0 < self.office.view) {
            self.accept(slot, digest, None, out);
        }
    }

    /// [mod_smart L22-L25, L30]
    fn decide_if_accepted(&mut self, out: &mut Effects) -> bool {
        let slot = self.decided().next();
        let Some(digest) = self.accepted(slot, out) else { return false };
        let Some(tally) = self.voting.tallies.get(&slot) else { return false };
        let proposed = tally.proposal.as_ref().filter(|proposal| proposal.0 == digest);
        let forced = match &self.office.phase {
            Phase::Normal { base, forced, .. } if *base == slot => forced.as_ref(),
            _ => None,
        };
        let own = self.voting.open.batches.get(&digest).map(|(batch, _)| batch.clone());
        let batch = own.or_else(|| {
            proposed.or(forced.filter(|forced| forced.0 == digest)).map(|(_, batch)| batch.clone())
        });
        let accepted = tally.accepts.iter().filter(|(_, vote)| vote.digest == digest && vote.checked);
        let Some(batch) = batch else {
            // Whoever accepted has the batch. [mod_smart L23]
            let known: Vec<_> = accepted.map(|(id, _)| *id).collect();
            known.into_iter().for_each(|id| self.fetching.hint(id, slot, self.decided()));
            return false;
        };
        let accepts = accepted.map(|(id, vote)| (*id, vote.signature)).collect();
        self.decide(Proof { slot, view: self.office.view, digest, accepts }, batch, out);
        true
    }

    /// The next slot is decided. [mod_smart L25]
    pub(super) fn decide(&mut self, proof: Proof, batch: Batch, out: &mut Effects) {
        let slot = proof.slot;
        assert!(slot == self.decided().next(), "INV-SMART-6: slots are decided in order, {slot}");
        self.watch.decided(&batch);
        self.rate_decided(slot);
        self.send_decision(&proof, &batch, out);
        let tenure = self.tenure_after(slot, &batch);
        self.persist_decision(proof, batch, out);
        self.voting.open = Open::default();
        self.voting.tallies.retain(|of, _| *of > slot);
        self.voting.vouched.forget(slot);
        self.voting.own.retain(|(_, own)| match own {
            Own::Write(of, _) | Own::Accept(of, ..) => *of > slot,
            Own::Collect(_) => true,
        });
        if let Phase::Normal { base, forced, .. } = &mut self.office.phase
            && *base <= slot
        {
            *forced = None;
        }
        self.fetching.forget(slot);
        self.deliver(out);
        if let Some((tenure, holds)) = tenure {
            self.begin_tenure(tenure, &holds, out);
        }
        self.meet_decision();
    }

    /// Own votes whose records are durable count now.
    pub(super) fn count_own(&mut self, out: &mut Effects) {
        let before = self.voting.own.len();
        let collect = self.count_own_now();
        if let Some(collect) = collect {
            self.add_own_collect(collect, out);
        }
        if self.voting.own.len() < before {
            self.progress(out);
        }
    }

    fn count_own_now(&mut self) -> Option<Collect> {
        let mut last = None;
        while let Some((record, _)) = self.voting.own.front() {
            if *record > self.ledger.records().durable() && !planted("smart-own-vote-before-sync") {
                break;
            }
            let Some((_, own)) = self.voting.own.pop_front() else { break };
            let me = self.config.me;
            match own {
                Own::Write(slot, digest) => {
                    self.voting.tallies.entry(slot).or_default().writes.insert(me, digest);
                }
                Own::Accept(slot, digest, signature) => {
                    self.voting
                        .tallies
                        .entry(slot)
                        .or_default()
                        .accepts
                        .insert(me, Accepted::own(digest, signature));
                }
                Own::Collect(collect) => last = Some(collect),
            }
        }
        last
    }

    /// What was sent for the open slot and had no effect is sent again. [mod_smart L27]
    pub(super) fn repeat_votes(&mut self, out: &mut Effects) {
        let slot = self.decided().next();
        let Phase::Normal { base, .. } = &self.office.phase else { return };
        let taken = self.voting.open.taken(self.office.view);
        let bound = slot == *base && taken.is_some() && self.gathered.bound() == taken;
        if self.is_mine() && !bound {
            let proposal = self.voting.tallies.get(&slot).and_then(|tally| tally.proposal.clone());
            if let Some((_, batch)) = proposal {
                self.send_all(out, &Body::Propose { slot, batch }, None);
            }
        }
        let Some(digest) = taken else { return };
        // All votes so far are durable or wait for the last record.
        let after = Some(self.ledger.records().last());
        if self.may_lie() {
            self.send_all(out, &Body::Write { slot, digest }, after);
        }
        if let Some((view, digest)) = self.voting.open.lock
            && view == self.office.view
        {
            let signature = self.sign_accept(view, slot, digest);
            self.send_all(out, &Body::Accept { slot, digest, signature }, after);
        }
    }

    /// Batches proposed here and not decided, and their bytes.
    pub(super) fn proposed_and_open(&self) -> (usize, usize) {
        if !self.is_mine() {
            return (0, 0);
        }
        let slot = self.decided().next();
        let open = self.voting.tallies.get(&slot).and_then(|tally| tally.proposal.as_ref());
        let all = self.voting.queue.iter().chain(open.map(|(_, batch)| batch));
        all.fold((0, 0), |(count, bytes), batch| (count + 1, bytes + batch.bytes().len()))
    }
}

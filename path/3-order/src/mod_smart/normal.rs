//! The normal phase: PROPOSE, WRITE, ACCEPT, one slot after the other.
//!
//! With crash faults there is no WRITE: a replica that takes a proposal locks it and accepts at once.
//!
//! INV-SMART-4: in one view a replica writes, locks and accepts at most one value of a slot, and never replaces it. INV-SMART-5: an own
//! vote counts, and is sent, once its record is durable. INV-SMART-6: a slot is decided by a quorum of accepts of one value in one view, or
//! by a proof of that. Tests: tests/parts.rs, tests/normal.rs, tests/liars.rs, tests/chaos.rs.

use super::core::Core;
use super::evidence::SignedAccept;
use super::examine::Vouched;
use super::office::Phase;
use super::persist::{RECORD_LOCKED, RECORD_WROTE, vote_head};
use super::statements::digest_of;
use super::testimony::Testimony;
use super::{reject, rotation};
use crate::ledger::{Proof, Votes};
use crate::mod_smart::message::{Collect, ModSmartBody as Body, WRITES_MAX};
use crate::quorums::Quorums;
use crate::{Effects, Waited};
use bytes::Bytes;
use quorate_auth::{Claim, Signature};
use quorate_types::{Digest, RecordId, Reject, ReplicaId, Slot, View, planted};
use quorate_wire::Batch;
use std::collections::{BTreeMap, VecDeque};

/// Votes on this many slots after the last decided one are kept, since other replicas may be slightly ahead. [mod_smart L26]
pub(super) const AHEAD_MAX: u64 = 4;

/// What this replica did in the slot after the last decided one.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// The value that it locked last, with the view.
    pub(super) lock: Option<(View, Digest)>,
    /// The values that it wrote, each with the highest view in which it wrote it; ordered by view.
    pub(super) writes: Vec<(View, Digest)>,
    /// Their batches, with the records that hold them.
    pub(super) batches: BTreeMap<Digest, (Batch, RecordId)>,
}

impl Open {
    /// The value that it took in this view. [mod_smart L14]
    pub(super) fn taken(&self, view: View) -> Option<Digest> {
        self.locked(view).or_else(|| self.wrote(view))
    }
    /// Notes a write. A value that was written before gets the new view. [mod_smart L15]
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
    /// What it wrote in this view.
    fn wrote(&self, view: View) -> Option<Digest> {
        self.writes.iter().find(|write| write.0 == view).map(|write| write.1)
    }
    /// What it locked in this view.
    fn locked(&self, view: View) -> Option<Digest> {
        self.lock.filter(|lock| lock.0 == view).map(|lock| lock.1)
    }
    /// What is known of the votes that were restored last, before the start.
    pub(super) fn read(&self) -> Votes {
        let mut all = self.writes.iter().chain(&self.lock);
        let whole = all.clone().all(|vote| self.batches.contains_key(&vote.1));
        Votes { any: all.next().is_some(), whole }
    }
    /// The first record that a restart needs to know this replica's votes.
    pub(super) fn first_record(&self) -> Option<RecordId> {
        self.batches.values().map(|(_, record)| *record).min()
    }
}

/// A member's accept in this view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    digest: Digest,
    signature: Signature,
    /// Whether the signature was checked and is right. It is checked only when a quorum could decide with it.
    checked: bool,
}

impl Accepted {
    /// This replica's own accept.
    fn own(digest: Digest, signature: Signature) -> Self {
        Self { digest, signature, checked: true }
    }
}

/// The votes on one slot in the present view.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) proposal: Option<(Digest, Batch)>,
    pub(super) writes: BTreeMap<ReplicaId, Digest>,
    pub(super) accepts: BTreeMap<ReplicaId, Accepted>,
    /// Whether the leader was found to have proposed another value to other members.
    two_faced: bool,
}

impl Tally {
    /// The value that a quorum accepted, if there is one.
    fn accepted(&self, quorums: Quorums<'_>) -> Option<Digest> {
        let count = |digest: &Digest| self.accepts.values().filter(|vote| vote.digest == *digest).count();
        let has = |id, digest: &Digest| self.accepts.get(&id).is_some_and(|vote| vote.digest == *digest);
        let mut values = self.accepts.values().map(|vote| vote.digest);
        values.find(|digest| quorums.hold(count(digest), |id| has(id, digest)))
    }
    /// The accepts of this value whose signatures are still to be checked, so that a quorum of right ones is known.
    fn unchecked(&self, digest: Digest, quorums: Quorums<'_>) -> Vec<(ReplicaId, Signature)> {
        let of_it = self.accepts.iter().filter(|(_, vote)| vote.digest == digest);
        let checked = of_it.clone().filter(|(_, vote)| vote.checked).count();
        let new = of_it.clone().filter(|(_, vote)| !vote.checked).map(|(id, vote)| (*id, vote.signature));
        if of_it.clone().count() >= quorums.usual() {
            return new.take(quorums.usual().saturating_sub(checked)).collect();
        }
        let accepted = |id| self.accepts.get(&id).is_some_and(|vote| vote.digest == digest);
        if quorums.weighs(of_it.count(), accepted) {
            return new.collect();
        }
        let small = quorums.small(accepted);
        new.filter(|(id, _)| small.is_some_and(|small| small.contains(id))).collect()
    }
    fn written(&self, digest: Digest) -> usize {
        self.writes.values().filter(|vote| **vote == digest).count()
    }
}

/// An own vote or statement, which counts once its record is durable.
#[derive(Clone, Debug)]
enum Own {
    Write(Slot, Digest),
    Accept(Slot, Digest, Signature),
    Collect(Collect),
}

/// The voting on the slot after the last decided one, and on a few slots after that.
#[derive(Debug, Default)]
pub(super) struct Voting {
    /// This replica's votes on the slot after the last decided one.
    pub(super) open: Open,
    /// The votes of this view, by slot.
    pub(super) tallies: BTreeMap<Slot, Tally>,
    /// Proposals that the host vouched for: clients sent them.
    pub(super) vouched: Vouched,
    /// Own votes that wait for their record to be durable.
    own: VecDeque<(RecordId, Own)>,
    /// Batches of this leader that were not proposed yet.
    queue: VecDeque<Batch>,
}

/// The state of the votes on the next slot.
#[derive(Debug)]
pub(super) enum Next {
    Open,
    /// The slot is decided.
    Decided(Proof, Batch),
    /// A quorum accepted a value whose batch is not here. These members have it.
    With(Vec<ReplicaId>),
}

impl Voting {
    /// A batch waits to be proposed. [mod_smart L9]
    pub(super) fn queue(&mut self, batch: Batch) {
        self.queue.push_back(batch);
    }
    /// Drops the batches that wait; this replica does not propose any more.
    pub(super) fn forget_queue(&mut self) {
        self.queue.clear();
    }

    /// Proposes the next batch if no slot is open: the leader's own proposal, or a batch that waits. Returns whether it did. [mod_smart
    /// L10-L11]
    pub(super) fn propose_next(
        &mut self,
        own: impl FnOnce() -> Option<Batch>,
        core: &Core,
        out: &mut Effects,
    ) -> bool {
        let Phase::Normal { base, forced: None, .. } = core.office.phase() else { return false };
        let slot = core.decided().next();
        let fresh = self.tallies.get(&slot).is_none_or(|tally| tally.proposal.is_none());
        if !core.is_mine()
            || rotation::is_over(core)
            || slot < *base
            || !fresh
            || self.open.taken(core.office.view()).is_some()
        {
            return false;
        }
        let Some(batch) = own().or_else(|| self.queue.pop_front()) else { return false };
        let digest = digest_of(&batch);
        self.tallies.entry(slot).or_default().proposal = Some((digest, batch.clone()));
        self.vouched.examine(slot, digest, &batch, core, out);
        core.send_all(out, &Body::Propose { slot, batch }, None);
        true
    }

    /// The leader proposed this. Returns whether it is the first proposal for the slot, or the same one again. [mod_smart L12-L13]
    pub(super) fn on_propose(
        &mut self,
        from: ReplicaId,
        (slot, batch): (Slot, Batch),
        core: &Core,
        out: &mut Effects,
    ) -> bool {
        let digest = digest_of(&batch);
        let tally = self.tallies.entry(slot).or_default();
        match &tally.proposal {
            Some((first, _)) if *first != digest && !planted("smart-second-proposal") => {
                reject(out, from, Reject::NotAllowed("another proposal for the same slot"));
                return false;
            }
            Some((same, _)) if *same == digest => {}
            _ => {
                tally.proposal = Some((digest, batch.clone()));
                self.vouched.examine(slot, digest, &batch, core, out);
            }
        }
        self.compare_faces(slot, core, out);
        true
    }

    /// A member wrote this. Returns whether the write counts. [mod_smart L16]
    pub(super) fn on_write(
        &mut self,
        from: ReplicaId,
        (slot, digest): (Slot, Digest),
        core: &Core,
        out: &mut Effects,
    ) -> bool {
        let writes = &mut self.tallies.entry(slot).or_default().writes;
        let said = writes.get(&from).copied();
        if said.is_none() || planted("smart-last-vote-counts") {
            writes.insert(from, digest);
        }
        if said.is_some_and(|first| first != digest) {
            reject(out, from, Reject::NotAllowed("two different writes in one view"));
            return false;
        }
        if said.is_none() && self.was_not_proposed(slot, digest, core) {
            reject(out, from, Reject::NotAllowed("a write of what its leader did not propose"));
        }
        self.compare_faces(slot, core, out);
        true
    }

    /// Whether nothing binds this slot in this view, so that its members write what they are proposed, and nothing else.
    fn is_free(slot: Slot, core: &Core) -> bool {
        let Phase::Normal { base, forced, .. } = core.office.phase() else { return false };
        // A replica that lacks slots before its view may write the value that binds it, whatever is proposed.
        slot > *base || (slot == *base && forced.is_none())
    }

    /// Whether this replica leads, and proposed something else than this. [mod_smart L158]
    fn was_not_proposed(&self, slot: Slot, digest: Digest, core: &Core) -> bool {
        let proposal = self.tallies.get(&slot).and_then(|tally| tally.proposal.as_ref());
        let other = proposal.is_some_and(|(proposed, _)| *proposed != digest);
        other
            && core.may_lie()
            && core.leader() == core.config.me
            && Self::is_free(slot, core)
            && !planted("smart-false-writes-unseen")
    }

    /// If f+1 members wrote a value, one of them is honest and got it from the leader. If the leader proposed another value here, it is
    /// two-faced. [mod_smart L155]
    fn compare_faces(&mut self, slot: Slot, core: &Core, out: &mut Effects) {
        let (honest, leader) = (core.truth(), core.leader());
        let silent = planted("smart-two-faces-unseen");
        if !core.may_lie() || !Self::is_free(slot, core) || leader == core.config.me || silent {
            return;
        }
        let Some(tally) = self.tallies.get_mut(&slot) else { return };
        let Some((proposed, _)) = &tally.proposal else { return };
        let mut others = tally.writes.values().filter(|value| *value != proposed);
        if !tally.two_faced && others.any(|value| tally.written(*value) >= honest) {
            tally.two_faced = true;
            reject(out, leader, Reject::NotAllowed("different proposals to different replicas"));
        }
    }

    /// A member accepted this. Returns whether the accept is new. [mod_smart L20-L21]
    pub(super) fn on_accept(
        &mut self,
        from: ReplicaId,
        (slot, digest): (Slot, Digest),
        signature: Signature,
        (core, testimony): (&Core, &mut Testimony),
        out: &mut Effects,
    ) -> bool {
        if let Some(first) = self.accept_of(from, slot, core) {
            if first.digest != digest {
                reject(out, from, Reject::NotAllowed("two different accepts in one view"));
                testimony.accepts(from, first, SignedAccept { digest, signature, ..first }, core, out);
            }
            return false;
        }
        let vote = Accepted { digest, signature, checked: false };
        self.tallies.entry(slot).or_default().accepts.insert(from, vote);
        true
    }

    /// What this member accepted for this slot in the present view. Its signature may be wrong.
    pub(super) fn accept_of(&self, member: ReplicaId, slot: Slot, core: &Core) -> Option<SignedAccept> {
        let vote = self.tallies.get(&slot)?.accepts.get(&member)?;
        let (digest, signature) = (vote.digest, vote.signature);
        Some(SignedAccept { view: core.office.view(), slot, digest, signature })
    }

    /// Who accepted something else for this slot, in the present view, which is that of the proof.
    pub(super) fn odd(&self, proof: &Proof, core: &Core) -> impl Iterator<Item = (ReplicaId, SignedAccept)> {
        let (slot, view) = (proof.slot, core.office.view());
        let here = self.tallies.get(&slot).filter(|_| proof.view == view && core.may_lie());
        let accepts = here.map(|tally| &tally.accepts).into_iter().flatten();
        let others = accepts.filter(|(_, vote)| vote.digest != proof.digest);
        others.map(move |(member, Accepted { digest, signature, .. })| {
            (*member, SignedAccept { view, slot, digest: *digest, signature: *signature })
        })
    }

    /// What members accepted for the open slot in the view that ends, `core` being in that view still.
    pub(super) fn accepts_of_open(&self, core: &Core) -> impl Iterator<Item = (ReplicaId, SignedAccept)> {
        let (slot, view) = (core.decided().next(), core.office.view());
        let accepts = self.tallies.get(&slot).map(|tally| &tally.accepts).into_iter().flatten();
        accepts.map(move |(member, Accepted { digest, signature, .. })| {
            (*member, SignedAccept { view, slot, digest: *digest, signature: *signature })
        })
    }

    /// The value that a quorum accepted with right signatures, if there is one. Only as many signatures are checked as are needed, all at
    /// once. Accepts with wrong ones are dropped. [mod_smart L20, L22]
    fn accepted(&mut self, slot: Slot, core: &Core, out: &mut Effects) -> Option<Digest> {
        loop {
            let tally = self.tallies.get(&slot)?;
            let digest = tally.accepted(core.quorums())?;
            let new = tally.unchecked(digest, core.quorums());
            let statement = core.accept_statement(core.office.view(), slot, digest);
            let claims: Vec<Claim<'_>> = new.iter().map(|(id, sig)| (*id, &statement, sig)).collect();
            let all = planted("smart-accept-unsigned") || core.auth.verify_all(&claims);
            let right = |(id, signature): &(ReplicaId, Signature)| {
                all || core.auth.verify(*id, &statement, signature)
            };
            let (right, wrong): (Vec<_>, Vec<_>) = new.into_iter().partition(right);
            let tally = self.tallies.entry(slot).or_default();
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

    /// Takes the value that the view is bound to, or else the leader's proposal. Returns the slot, and how long its requests waited here,
    /// as far as the leader is to blame for that. [mod_smart L12-L15, L57, L101]
    pub(super) fn take(&mut self, core: &mut Core, out: &mut Effects) -> Option<(Slot, Option<Waited>)> {
        let slot = core.decided().next();
        let Phase::Normal { base, forced, .. } = core.office.phase() else { return None };
        if slot < *base || self.open.taken(core.office.view()).is_some() || !core.votes() {
            return None;
        }
        let forced = forced.as_ref().filter(|_| slot == *base);
        let tally = self.tallies.get(&slot);
        let proposed = tally.and_then(|tally| Some((tally, tally.proposal.as_ref()?)));
        // The value that binds the view was examined by the replicas that wrote it first.
        let may_take = |tally: &Tally, digest| self.vouched.may_take(slot, digest, tally, core);
        let proposed = proposed.filter(|(tally, (digest, _))| may_take(tally, *digest));
        let proposed = proposed.map(|(_, proposed)| proposed);
        // Nor is the leader to blame for the time that it takes.
        let waited = proposed.filter(|_| forced.is_none());
        let waited = waited.and_then(|(digest, _)| self.vouched.waited(slot, *digest));
        let (digest, batch) = forced.or(proposed).cloned()?;
        if core.may_lie() {
            self.open.note_write(core.office.view(), digest);
            let record = self.persist(RECORD_WROTE, (slot, digest), Some(batch), core, out);
            self.own.push_back((record, Own::Write(slot, digest)));
            core.send_all(out, &Body::Write { slot, digest }, vote_after(record));
        } else {
            self.accept(slot, digest, Some(batch), core, out);
        }
        Some((slot, waited))
    }

    /// Locks a value and accepts it. [mod_smart L18-L19]
    fn accept(
        &mut self,
        slot: Slot,
        digest: Digest,
        batch: Option<Batch>,
        core: &mut Core,
        out: &mut Effects,
    ) {
        let view = core.office.view();
        assert!(self.open.lock.is_none_or(|lock| lock.0 < view), "INV-SMART-4: one lock in a view");
        self.open.lock = Some((view, digest));
        let record = self.persist(RECORD_LOCKED, (slot, digest), batch, core, out);
        let signature = core.sign_accept(view, slot, digest);
        self.own.push_back((record, Own::Accept(slot, digest, signature)));
        core.send_all(out, &Body::Accept { slot, digest, signature }, vote_after(record));
    }

    /// Writes a vote down, with its batch unless the log has that already. [mod_smart L77]
    fn persist(
        &mut self,
        kind: u8,
        (slot, digest): (Slot, Digest),
        batch: Option<Batch>,
        core: &mut Core,
        out: &mut Effects,
    ) -> RecordId {
        let head = vote_head(slot, core.office.view(), digest);
        let new = batch.filter(|_| !self.open.batches.contains_key(&digest));
        let payload = new.as_ref().map_or_else(Bytes::new, |batch| batch.bytes().clone());
        let record = core.write(kind, head, payload, new.is_none(), out);
        if let Some(batch) = new {
            self.open.batches.insert(digest, (batch, record));
        }
        record
    }

    /// If a quorum wrote the value that this replica wrote, locks it. [mod_smart L17-L19]
    pub(super) fn lock(&mut self, core: &mut Core, out: &mut Effects) {
        if !core.votes() {
            return;
        }
        let slot = core.decided().next();
        let wrote = self.open.wrote(core.office.view());
        let (Some(digest), Some(tally)) = (wrote, self.tallies.get(&slot)) else { return };
        let few = planted("smart-lock-early") && tally.written(digest) >= core.truth();
        let has = |id| tally.writes.get(&id) == Some(&digest);
        let enough = core.quorums().hold(tally.written(digest), has) || few;
        if enough && self.open.lock.is_none_or(|lock| lock.0 < core.office.view()) {
            self.accept(slot, digest, None, core, out);
        }
    }

    /// Whether a quorum accepted something for the next slot. [mod_smart L22-L25, L30]
    pub(super) fn next(&mut self, core: &Core, out: &mut Effects) -> Next {
        let slot = core.decided().next();
        let Some(digest) = self.accepted(slot, core, out) else { return Next::Open };
        let Some(tally) = self.tallies.get(&slot) else { return Next::Open };
        let proposed = tally.proposal.as_ref().filter(|proposal| proposal.0 == digest);
        let forced = match core.office.phase() {
            Phase::Normal { base, forced, .. } if *base == slot => forced.as_ref(),
            _ => None,
        };
        let own = self.open.batches.get(&digest).map(|(batch, _)| batch.clone());
        let batch = own.or_else(|| {
            proposed.or(forced.filter(|forced| forced.0 == digest)).map(|(_, batch)| batch.clone())
        });
        let accepted = tally.accepts.iter().filter(|(_, vote)| vote.digest == digest && vote.checked);
        let Some(batch) = batch else {
            // A replica that accepted has the batch. [mod_smart L23]
            return Next::With(accepted.map(|(id, _)| *id).collect());
        };
        let accepts = accepted.map(|(id, vote)| (*id, vote.signature)).collect();
        Next::Decided(Proof { slot, view: core.office.view(), digest, accepts }, batch)
    }

    /// This slot is decided.
    pub(super) fn decided(&mut self, slot: Slot) {
        self.open = Open::default();
        self.tallies.retain(|of, _| *of > slot);
        self.vouched.forget(slot);
        self.own.retain(|(_, own)| match own {
            Own::Write(of, _) | Own::Accept(of, ..) => *of > slot,
            Own::Collect(_) => true,
        });
    }

    /// A checkpoint holds everything up to this slot. Votes on those slots are dropped; the statement about them is made anew.
    pub(super) fn begin_after(&mut self, slot: Slot) {
        self.decided(slot);
        self.own.clear();
    }

    /// Another view was entered, so votes of the one before do not count any more.
    pub(super) fn enter(&mut self) {
        self.tallies.clear();
        self.own.clear();
        self.queue.clear();
    }

    /// This replica's own statement, which counts when all records so far are durable.
    pub(super) fn push_collect(&mut self, collect: Collect, core: &Core) {
        self.own.push_back((core.ledger.records().last(), Own::Collect(collect)));
    }

    /// How many own votes and statements wait for their records.
    pub(super) fn waiting(&self) -> usize {
        self.own.len()
    }

    /// Counts own votes whose records are durable. Returns the statement among them.
    pub(super) fn count_own(&mut self, core: &Core) -> Option<Collect> {
        let (mut last, me) = (None, core.config.me);
        while let Some((record, _)) = self.own.front() {
            if *record > core.ledger.records().durable() && !planted("smart-own-vote-before-sync") {
                break;
            }
            let Some((_, own)) = self.own.pop_front() else { break };
            match own {
                Own::Write(slot, digest) => {
                    self.tallies.entry(slot).or_default().writes.insert(me, digest);
                }
                Own::Accept(slot, digest, signature) => {
                    let vote = Accepted::own(digest, signature);
                    self.tallies.entry(slot).or_default().accepts.insert(me, vote);
                }
                Own::Collect(collect) => last = Some(collect),
            }
        }
        last
    }

    /// Counts votes of an earlier life in the present view, which are durable. Returns whether there are any. Without its key this replica
    /// stands by none of them.
    pub(super) fn recount_own(&mut self, core: &Core) -> bool {
        let (slot, view, me) = (core.decided().next(), core.office.view(), core.config.me);
        let (wrote, locked) = (self.open.wrote(view), self.open.locked(view));
        if (wrote.is_none() && locked.is_none()) || !core.votes() {
            return false;
        }
        let signature = locked.map(|digest| core.sign_accept(view, slot, digest));
        let tally = self.tallies.entry(slot).or_default();
        if let Some(digest) = wrote {
            tally.writes.insert(me, digest);
        }
        if let Some((digest, signature)) = locked.zip(signature) {
            tally.accepts.insert(me, Accepted::own(digest, signature));
        }
        true
    }

    /// How many messages follow each other until votes for what this replica took are here; none if it took nothing.
    pub(super) fn chain(&self, core: &Core) -> Option<u64> {
        let chain = if core.may_lie() { 2 } else { 1 };
        self.open.taken(core.office.view()).map(|_| chain)
    }

    /// The members that wrote what this replica took for the open slot.
    pub(super) fn writers(&self, core: &Core) -> Vec<ReplicaId> {
        let tally = self.tallies.get(&core.decided().next());
        let Some((digest, tally)) = self.open.taken(core.office.view()).zip(tally) else { return Vec::new() };
        tally.writes.iter().filter(|(_, value)| **value == digest).map(|(id, _)| *id).collect()
    }

    /// Who voted for what this replica took.
    pub(super) fn supporters(&self, core: &Core) -> Vec<ReplicaId> {
        let tally = self.tallies.get(&core.decided().next());
        match self.open.locked(core.office.view()).zip(tally) {
            Some((digest, tally)) => {
                let accepted = tally.accepts.iter().filter(|(_, vote)| vote.digest == digest);
                accepted.map(|(id, _)| *id).collect()
            }
            None => self.writers(core),
        }
    }

    /// Sends again what was sent for the open slot and had no effect. `bound`: the value that the leader's view began with. [mod_smart L27]
    pub(super) fn repeat(&self, bound: Option<Digest>, core: &Core, out: &mut Effects) {
        let (slot, view) = (core.decided().next(), core.office.view());
        let Phase::Normal { base, .. } = core.office.phase() else { return };
        if !core.votes() {
            return;
        }
        let taken = self.open.taken(view);
        let bound = slot == *base && taken.is_some() && bound == taken;
        if core.is_mine() && !bound {
            let proposal = self.tallies.get(&slot).and_then(|tally| tally.proposal.clone());
            if let Some((_, batch)) = proposal {
                core.send_all(out, &Body::Propose { slot, batch }, None);
            }
        }
        let Some(digest) = taken else { return };
        // All votes so far are durable or wait for the last record.
        let after = Some(core.ledger.records().last());
        if core.may_lie() {
            core.send_all(out, &Body::Write { slot, digest }, after);
        }
        if let Some(digest) = self.open.locked(view) {
            let signature = core.sign_accept(view, slot, digest);
            core.send_all(out, &Body::Accept { slot, digest, signature }, after);
        }
    }

    /// How many batches were proposed here and are not decided, and their bytes.
    pub(super) fn proposed_and_open(&self, core: &Core) -> (usize, usize) {
        if !core.is_mine() {
            return (0, 0);
        }
        let slot = core.decided().next();
        let open = self.tallies.get(&slot).and_then(|tally| tally.proposal.as_ref());
        let all = self.queue.iter().chain(open.map(|(_, batch)| batch));
        all.fold((0, 0), |(count, bytes), batch| (count + 1, bytes + batch.bytes().len()))
    }

    /// Panics with the name of the invariant that does not hold.
    pub(super) fn check(&self, core: &Core, thorough: bool) {
        let (next, view) = (core.decided().next(), core.office.view());
        assert!(self.open.lock.is_none_or(|lock| lock.0 <= view), "INV-SMART-4: no lock of a later view");
        assert!(self.open.writes.iter().all(|write| write.0 <= view), "INV-SMART-4: no vote in a later view");
        if core.has_begun() && core.may_lie() {
            let (locked, wrote) = (self.open.locked(view), self.open.wrote(view));
            assert!(
                locked.is_none() || wrote.is_none() || locked == wrote,
                "INV-SMART-4: what is locked is what was written"
            );
        }
        for (record, own) in &self.own {
            assert!(
                *record <= core.ledger.records().last(),
                "INV-SMART-5: a vote waits for a record that was numbered"
            );
            let fits = match own {
                Own::Write(slot, _) | Own::Accept(slot, ..) => *slot == next,
                Own::Collect(_) => true,
            };
            assert!(fits, "INV-SMART-5: own votes are on {next}");
        }
        assert!(self.vouched.is_bounded(), "INV-SMART-10: a few values of a few slots");
        assert!(
            core.is_member(core.config.me) || (self.open.taken(view).is_none() && self.own.is_empty()),
            "INV-SMART-12: who is no member votes for nothing"
        );
        if thorough {
            let beyond = self.tallies.keys().any(|slot| *slot < next);
            assert!(!beyond, "INV-SMART-6: votes on decided slots are forgotten");
        }
    }
}

/// The record after which a vote is sent.
fn vote_after(record: RecordId) -> Option<RecordId> {
    (!planted("smart-vote-before-sync")).then_some(record)
}

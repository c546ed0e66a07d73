//! Fetches decided slots from other members. A replica that lacks a slot asks a member that seems to have it, and believes the proof, not
//! the member.
//!
//! What members seem to have decided is only a hint. A liar may name an absurd slot; it is asked in vain, and then another member is asked.
//! [mod_smart L68-L69, L72-L75]
//!
//! Tests: tests/parts.rs, tests/fetch.rs.

use super::core::Core;
use super::normal::Open;
use super::persist::held;
use super::statements::digest_of;
use super::tenures::number_of;
use super::{SLOT_MAX, reject};
use crate::ledger::{Proof, Question, read_back};
use crate::mod_smart::message::{FETCH_MAX, ModSmartBody as Body};
use crate::{Effects, Stored};
use quorate_types::{Halt, Reject, ReplicaId, Slot, Span, Time, View, planted};
use quorate_wire::Batch;
use std::collections::{BTreeMap, BTreeSet};

/// A question asks for this many slots.
const WINDOW: u16 = 32;
/// An answer ends with the batch that makes it longer than this.
const ANSWER_BYTES: usize = 4 << 20;

/// Answers to one member take at most this many bytes per second, whatever it asks.
const GIVE_RATE: u64 = 64 << 20;
/// A member may be given so much in advance of that rate: two answers.
const GIVE_AHEAD: Span = Span::from_millis(125);
/// A question itself counts as this many bytes.
const QUESTION_BYTES: usize = 4 << 10;

/// A question to a member.
#[derive(Clone, Copy, Debug)]
struct Asked {
    last: Slot,
    at: Time,
    /// Bytes of batches that came since.
    bytes: usize,
}

impl Asked {
    fn up_to(last: Slot, at: Time) -> Self {
        Self { last, at, bytes: 0 }
    }

    /// Whether everything came that an answer can hold.
    fn is_answered(&self, decided: Slot) -> bool {
        decided >= self.last || self.bytes > ANSWER_BYTES
    }
}

/// What one member was given here. [mod_smart L73]
#[derive(Clone, Copy, Debug)]
struct Given {
    /// Its last question, and when it came.
    slot: Slot,
    count: u16,
    at: Time,
    /// When everything given to it would have been sent at [`GIVE_RATE`].
    paid: Time,
}

/// Which member is asked for which slots, and what members ask here.
#[derive(Debug, Default)]
pub(super) struct Fetching {
    /// For each member, the last slot that it seems to have decided, if that is more than is decided here.
    sources: BTreeMap<ReplicaId, Slot>,
    /// The last question, if it is not answered.
    asked: Option<Asked>,
    /// The member that was asked last.
    last: Option<ReplicaId>,
    /// Members that have only a checkpoint, and its slot.
    gone: BTreeMap<ReplicaId, Slot>,
    /// Members that were asked since the last slot was decided.
    tried: BTreeSet<ReplicaId>,
    /// When a member was asked last.
    looked: Time,
    /// When a slot last came.
    came: Time,
    /// Members that asked here.
    given: BTreeMap<ReplicaId, Given>,
    /// What is being read back for each member: one question at a time.
    reading: BTreeMap<ReplicaId, Question>,
}

/// The result of an answer.
#[derive(Debug)]
pub(super) enum Got {
    Nothing,
    /// This slot follows what is decided here, and is decided.
    Decided(Proof, Batch),
    /// What is missing can only be had in a checkpoint of this slot or a later one.
    Gone(Slot),
}

impl Fetching {
    /// A member seems to have decided this slot.
    pub(super) fn hint(&mut self, from: ReplicaId, slot: Slot, decided: Slot) {
        if slot > decided && slot <= SLOT_MAX {
            let known = self.sources.entry(from).or_insert(slot);
            *known = (*known).max(slot);
        }
    }

    /// Everything up to here is decided.
    pub(super) fn forget(&mut self, decided: Slot) {
        self.sources.retain(|_, slot| *slot > decided);
        self.gone.retain(|_, slot| *slot > decided);
        self.tried.clear();
    }

    /// The connection to this member is gone. It may not come back, so what it lacks does not matter.
    pub(super) fn lose(&mut self, peer: ReplicaId) {
        self.gone.remove(&peer);
    }

    /// Whether a member said that what is missing exists only in a checkpoint.
    pub(super) fn awaits_checkpoint(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Whether a member gets an answer now. The same question is not answered again within `repeat`, and the rate is limited. [mod_smart
    /// L73]
    fn gives(&mut self, to: ReplicaId, (slot, count): (Slot, u16), now: Time, repeat: Span) -> bool {
        if planted("smart-answers-floods") {
            return true;
        }
        let given = self.given.entry(to).or_insert(Given { slot: Slot::ZERO, count: 0, at: now, paid: now });
        let again = given.slot == slot && given.count >= count && now.since(given.at) < repeat;
        if again || given.paid > now.plus(GIVE_AHEAD) {
            return false;
        }
        (given.slot, given.count, given.at) = (slot, count, now);
        self.charge(to, QUESTION_BYTES, now);
        true
    }

    /// The member was sent this many bytes.
    pub(super) fn charge(&mut self, to: ReplicaId, bytes: usize, now: Time) {
        if let Some(given) = self.given.get_mut(&to) {
            let nanos = (bytes as u64).saturating_mul(1_000_000_000) / GIVE_RATE;
            given.paid = given.paid.max(now).plus(Span::from_nanos(nanos));
        }
    }

    /// Forgets members that asked nothing for a while.
    fn forget_askers(&mut self, now: Time, repeat: Span) {
        self.given.retain(|_, given| given.paid > now || now.since(given.at) < repeat);
    }

    /// Whether there is a member that seems to have what is missing and was not asked yet.
    fn can_ask_more(&self) -> bool {
        self.sources.keys().any(|id| !self.tried.contains(id))
    }

    /// Asks the next member that seems to have what is missing here. [mod_smart L72]
    pub(super) fn go_on(&mut self, core: &Core, out: &mut Effects) {
        let (decided, now) = (core.decided(), core.now());
        let unproven = core.may_lie() && decided > Slot::ZERO && core.ledger.proof(decided).is_none();
        self.forget_askers(now, core.config.repeat);
        if self.asked.is_some_and(|asked| now.since(asked.at) < core.config.repeat) {
            return;
        }
        let first = if unproven { decided } else { decided.next() };
        self.asked = None;
        // A replica that does not vote hears no votes. [mod_smart L123]
        let patience = core.config.timeout;
        let silent = !core.votes()
            && now.since(self.came) >= patience
            && (!self.sources.is_empty() || now.since(self.looked) >= patience);
        let mut others: Vec<_> = self.sources.keys().copied().collect();
        if unproven || silent {
            others.extend(core.members.voters());
            others.extend(core.members.connected().iter().filter(|_| silent));
            others.sort_unstable();
            others.dedup();
        }
        others.retain(|id| *id != core.config.me);
        let after = others.iter().find(|id| Some(**id) > self.last).or(others.first());
        let Some(to) = after.copied() else { return };
        self.last = Some(to);
        self.tried.insert(to);
        self.ask(to, first, core, out);
    }

    fn ask(&mut self, to: ReplicaId, first: Slot, core: &Core, out: &mut Effects) {
        let count = WINDOW.min(FETCH_MAX);
        self.looked = core.now();
        self.asked = Some(Asked::up_to(first.plus(u64::from(count) - 1), core.now()));
        core.send(out, to, Body::Fetch { slot: first, count }, None);
    }

    /// [mod_smart L73]
    pub(super) fn on_fetch(
        &mut self,
        from: ReplicaId,
        (slot, count): (Slot, u16),
        core: &mut Core,
        out: &mut Effects,
    ) {
        if slot > core.decided() || slot == Slot::ZERO {
            return;
        }
        if !self.gives(from, (slot, count), core.now(), core.config.repeat) {
            return;
        }
        let floor = core.ledger.floor();
        if slot <= floor {
            let proof = core.ledger.proof(floor).cloned();
            return core.send(out, from, Body::Gone { slot: floor, proof }, None);
        }
        let last = slot.plus(u64::from(count) - 1).min(core.decided());
        let (mut next, mut bytes) = (slot, 0);
        while next <= last {
            let Some(kept) = core.ledger.get(next) else { return };
            let Some((batch, proof)) = kept else {
                return self.read_for(from, next, last, core, out);
            };
            bytes += batch.bytes().len();
            self.charge(from, batch.bytes().len(), core.now());
            let body = Body::Decision { proof: proof.clone(), batch: batch.clone() };
            core.send(out, from, body, None);
            if bytes > ANSWER_BYTES {
                return;
            }
            next = next.next();
        }
    }

    /// Asks the disk for what a member asked for, unless that is already being read. [mod_smart L28]
    fn read_for(&mut self, to: ReplicaId, first: Slot, last: Slot, core: &mut Core, out: &mut Effects) {
        if !self.reading.contains_key(&to) {
            let question = core.ledger.load(first, last, out);
            self.reading.extend(question.map(|question| (to, question)));
        }
    }

    /// Sends what was read back to the member that asked.
    pub(super) fn answer_loaded(
        &mut self,
        load: u64,
        records: Vec<Stored>,
        core: &Core,
        out: &mut Effects,
    ) -> Result<(), Halt> {
        let asked = self.reading.iter().find(|(_, question)| question.load == load);
        let Some((to, question)) = asked.map(|(to, question)| (*to, *question)) else { return Ok(()) };
        self.reading.remove(&to);
        for (proof, batch) in read_back(&question, records, held)? {
            self.charge(to, batch.bytes().len(), core.now());
            core.send(out, to, Body::Decision { proof, batch }, None);
        }
        Ok(())
    }

    /// [mod_smart L74]
    pub(super) fn on_decision(
        &mut self,
        from: ReplicaId,
        (proof, batch): (Proof, Batch),
        core: &mut Core,
        out: &mut Effects,
    ) -> Got {
        let decided = core.decided();
        let floor =
            proof.slot == decided && core.ledger.proof(decided).is_none() && decided == core.ledger.floor();
        if proof.slot != decided.next() && !floor {
            self.hint(from, proof.slot, decided);
            return Got::Nothing;
        }
        let whole = proof.digest == digest_of(&batch);
        // A joining replica may not know who decided this. Then only a checkpoint helps, which others vouch for. [mod_smart L159]
        if whole && !core.members.tenures().is_known() && core.may_lie() && !core.proves(&proof) {
            return Got::Gone(proof.slot);
        }
        if !whole || !core.proves(&proof) {
            reject(out, from, Reject::NotAllowed("a decision without a proof"));
            return Got::Nothing;
        }
        if let Some(asked) = &mut self.asked {
            asked.bytes += batch.bytes().len();
        }
        if floor {
            core.ledger.set_floor_proof(proof);
            return Got::Nothing;
        }
        self.hint(from, proof.slot, decided);
        Got::Decided(proof, batch)
    }

    /// The slot that this member sent was decided, so the next question may be due.
    pub(super) fn came_from(&mut self, from: ReplicaId, core: &Core, out: &mut Effects) {
        let decided = core.decided();
        if self.asked.is_some_and(|asked| asked.is_answered(decided)) {
            self.asked = None;
            self.go_on(core, out);
            if self.asked.is_none() {
                // A replica that had as much as an answer holds may have more, and one that does not vote seldom hears of that.
                self.ask(from, decided.next(), core, out);
            }
        }
    }

    /// A slot came.
    pub(super) fn came(&mut self, now: Time) {
        self.came = now;
    }

    /// A member has only a checkpoint of what is missing. Others may still have the slots, and one member's checkpoint is worth less than
    /// decided slots. So the replica waits until nobody seems to have the slots and this member proves that the checkpoint's slot is
    /// decided; or until enough members say so, of which one tells the truth. [mod_smart L75]
    pub(super) fn on_gone(
        &mut self,
        from: ReplicaId,
        (slot, proof): (Slot, Option<Proof>),
        open: &Open,
        core: &mut Core,
        out: &mut Effects,
    ) -> Got {
        let decided = core.decided();
        // The replicas that decided a slot so far ahead may not be known here.
        let number = core.membership_number();
        let learnt = core.members.tenures().is_known() || !core.may_lie();
        let known = |proof: &Proof| learnt && proof.view >= View::FIRST && number_of(proof.view) <= number;
        let proof = proof.filter(|proof| proof.slot == slot && slot >= decided && known(proof));
        if proof.as_ref().is_some_and(|proof| !core.proves(proof)) {
            reject(out, from, Reject::NotAllowed("a decision without a proof"));
            return Got::Nothing;
        }
        if slot == decided && slot == core.ledger.floor() && core.ledger.proof(slot).is_none() {
            proof.into_iter().for_each(|proof| core.ledger.set_floor_proof(proof));
            // Nobody may have that proof any more. What follows is proven by itself.
            if self.sources.contains_key(&from) {
                self.ask(from, decided.next(), core, out);
            }
            return Got::Nothing;
        }
        if slot <= decided || slot > SLOT_MAX {
            return Got::Nothing;
        }
        if slot == decided.next()
            && let Some(proof) = &proof
            && let Some((batch, _)) = open.batches.get(&proof.digest)
        {
            // This replica voted for it, and may be the only one that still has it.
            return Got::Decided(proof.clone(), batch.clone());
        }
        self.asked = None;
        self.sources.remove(&from);
        if core.is_member(from) || !core.may_lie() {
            self.gone.insert(from, slot);
        }
        if self.can_ask_more() {
            self.go_on(core, out);
            return Got::Nothing;
        }
        // Where no replica lies, this one says where its log begins. Earlier answers may be from replicas that are gone.
        if proof.is_some() || !core.may_lie() {
            return Got::Gone(slot);
        }
        let mut floors: Vec<_> = self.gone.values().copied().collect();
        floors.sort_unstable_by(|one, next| next.cmp(one));
        floors.get(core.truth() - 1).copied().map_or(Got::Nothing, Got::Gone)
    }
}

//! What waits: proposals until this replica vouches for them, and requests until a leader proposes them.

use super::gaps::{Gap, Named, pending};
use super::heard::Late;
use super::proposals::HeldProposal;
use super::signed::SignatureCheck;
use super::{AHEAD_MAX, CLAIM_TIME, LOOK_EVERY, Vouched, all_instances, first_of, instance_of};
use crate::facts::{Facts, Lookup, Sessions};
use crate::intake::Out;
use bytes::Bytes;
use quorate_auth::digest_of_request;
use quorate_types::{Digest, InstanceId, RequestNumber, SessionKey, Slot, Span, Time, Waited, planted};
use quorate_wire::{Batch, RequestHeader, RequestKind, RequestProof, SystemCommand};
use std::collections::{BTreeMap, BTreeSet};

/// A request that has waited for longer than this is watched.
const LATE_AFTER: Span = Span::from_millis(100);
/// At one look, at most this many requests begin to be watched.
const LATE_MAX: usize = 256;
/// At one look, at most this many late requests, with those behind them, are given to a leader here again.
const GIVEN_MAX: usize = 1024;
/// The agreed time may run behind this replica's own by this much: a leader must not hold time back.
const BEHIND_MAX: Span = Span::from_secs(5);
/// How many proposals of one instance may wait; the protocol asks about few slots at a time.
const HELD_MAX: usize = 8;
/// This many requests of a batch are looked at to estimate how long it waited.
const SAMPLES_MAX: usize = 64;

impl Vouched {
    /// The protocol asks whether every request in a batch is from the client that it names.
    pub fn examine(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        (instance, slot, digest): (InstanceId, Slot, Digest),
        batch: Batch,
        out: &mut Vec<Out>,
    ) {
        let Some(held) = self.held.get_mut(usize::from(instance.number()).wrapping_sub(1)) else { return };
        held.retain(|other| (other.slot, other.digest) != (slot, digest));
        held.push(HeldProposal::new(slot, digest, batch));
        if held.len() > HELD_MAX {
            held.remove(0);
        }
        self.vouch_in(now, facts, instance, out);
    }

    /// Looks again at the proposals that this replica has not vouched for.
    pub fn vouch(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) {
        for instance in all_instances(facts.instances()) {
            self.vouch_in(now, facts, instance, out);
        }
    }

    fn vouch_in(&mut self, now: Time, facts: &dyn Facts, instance: InstanceId, out: &mut Vec<Out>) {
        let at = usize::from(instance.number()).wrapping_sub(1);
        let Some(list) = self.held.get_mut(at).filter(|list| !list.is_empty()) else { return };
        let decided = facts.decided(instance);
        let mut list = std::mem::take(list);
        list.retain(|held| held.slot > decided);
        list.retain_mut(|held| {
            let known = self.may_vouch(now, facts, instance, held);
            if known {
                let (slot, digest) = (held.slot, held.digest);
                let waited = self.waited(facts, &held.batch);
                out.push(Out::Vouched { instance, slot, digest, waited });
            }
            !known
        });
        self.held[at] = list;
    }

    fn may_vouch(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        instance: InstanceId,
        held: &mut HeldProposal,
    ) -> bool {
        if let Some(target) = held.batch.no_op_target() {
            return facts.instances() > 1 && facts.needs_no_op(instance, target);
        }
        let (own, time) = (facts.agreed_time(), held.batch.header().time);
        // Execution takes the larger of a batch's time and the time before: a leader that proposes 0 only lets time stand still.
        let behind = own.since(time.max(facts.executed_time()));
        // If the difference is larger, this replica's own time may be wrong.
        let held_back = behind > BEHIND_MAX && behind <= AHEAD_MAX && !planted("time-held-back");
        if held_back || !self.may_be_ahead(now, time.since(own)) {
            return false;
        }
        if held.batch.header().ruling.is_some_and(|ruling| !facts.may_rule(instance, &ruling)) {
            return false;
        }
        match SystemCommand::of(&held.batch) {
            Some(command) => facts.may_command(instance, &command) || planted("vouches-for-anything"),
            None => self.knows_all(facts.sessions(), facts.signatures_count(), held),
        }
    }

    pub(super) fn may_be_ahead(&self, now: Time, by: Span) -> bool {
        by == Span::ZERO || self.pulled.max(now).plus(by) <= now.plus(AHEAD_MAX)
    }

    /// Since when the requests of a batch wait here, if they are not executed yet: the time by which half of the batch's clients had sent
    /// theirs. So one client alone can not make a leader look slow that also serves others.
    pub(super) fn waited(&self, facts: &dyn Facts, batch: &Batch) -> Option<Waited> {
        let sessions = facts.sessions();
        let fresh = |header: &RequestHeader| {
            header.kind == RequestKind::OpenSession
                || matches!(sessions.lookup(header.session, header.number), Lookup::Fresh)
        };
        let step = (batch.header().count as usize).div_ceil(SAMPLES_MAX).max(1);
        let (mut since, mut bytes) = (Vec::new(), 0);
        for (header, body, whole) in batch.requests().flatten().step_by(step) {
            if let Some(known) = self.heard.since(&header, body).filter(|_| fresh(&header)) {
                since.push(known);
                bytes += whole.len() * step;
            }
        }
        since.sort_unstable();
        since.dedup_by_key(|(client, _)| *client);
        since.sort_unstable_by_key(|(_, since)| *since);
        let (_, since) = *since.get(since.len() / 2)?;
        Some(Waited { since, full: bytes * 2 >= self.config.batch_bytes })
    }

    /// Counts how many requests of a proposal are known here, continuing from the last call. Returns whether all are. `by_signature`:
    /// whether signatures count.
    pub(super) fn knows_all(
        &mut self,
        sessions: &dyn Sessions,
        by_signature: bool,
        held: &mut HeldProposal,
    ) -> bool {
        let batch = held.batch.clone();
        for (header, body, whole) in batch.requests().flatten().skip(held.known) {
            let known = match header.kind {
                // Commands to the engine stand alone.
                RequestKind::System => false,
                RequestKind::OpenSession => self.heard_it(held, &header, body, whole),
                _ => match sessions.lookup(header.session, header.number) {
                    Lookup::UnknownSession => false,
                    // Whatever it says, it is not executed.
                    Lookup::Ended | Lookup::Done { .. } | Lookup::UnderWay | Lookup::Forgotten => true,
                    Lookup::Fresh => {
                        self.heard_it(held, &header, body, whole)
                            || (by_signature
                                && (self.is_tagged(sessions, held, &header, whole)
                                    || self.is_signed(sessions, held, &header, whole)))
                    }
                },
            };
            if !known && !planted("vouches-for-anything") {
                return false;
            }
            held.known += 1;
        }
        true
    }

    /// Whether the next request of a proposal came from its client.
    fn heard_it(&self, held: &HeldProposal, header: &RequestHeader, body: &[u8], whole: &[u8]) -> bool {
        held.seen.contains(&held.known) || self.heard.knows(header, body, whole, self.one_honest())
    }

    /// Whether the next request of a proposal has a right tag for this replica. A wrong tag is looked at again only when another key came.
    fn is_tagged(
        &self,
        sessions: &dyn Sessions,
        held: &mut HeldProposal,
        header: &RequestHeader,
        whole: &[u8],
    ) -> bool {
        let looked = Some((held.known, self.tags.came()));
        if !matches!(header.proof, RequestProof::Macs { .. }) || held.wrong_tag == looked {
            return false;
        }
        let client = sessions.client(header.session);
        let right = client.is_some_and(|client| self.tags.is_right(client, header, whole));
        if !right {
            held.wrong_tag = looked;
        }
        right
    }

    /// Whether the next request of a proposal is signed with its session's key.
    fn is_signed(
        &mut self,
        sessions: &dyn Sessions,
        held: &mut HeldProposal,
        header: &RequestHeader,
        whole: &[u8],
    ) -> bool {
        let Some(key) = sessions.key(header.session) else { return false };
        if held.wrong == Some(held.known) {
            return false;
        }
        if !std::mem::replace(&mut held.together, true) {
            self.check_together(sessions, held);
        }
        let right = match self.signed.known(key, header, whole) {
            SignatureCheck::Right => true,
            SignatureCheck::Wrong => false,
            SignatureCheck::Unchecked(claim) => {
                let right = self.signed.check_one(&claim);
                if right {
                    self.signed.remember(header, whole);
                }
                right
            }
        };
        if !right {
            held.wrong = Some(held.known);
        }
        right
    }

    /// Checks together the signatures of all requests of a proposal that were not heard here.
    fn check_together(&mut self, sessions: &dyn Sessions, held: &HeldProposal) {
        let (mut claims, mut requests) = (Vec::new(), Vec::new());
        for (at, (header, body, whole)) in held.batch.requests().flatten().enumerate().skip(held.known) {
            let Some(key) = sessions.key(header.session) else { continue };
            let open = matches!(sessions.lookup(header.session, header.number), Lookup::Fresh)
                && !held.seen.contains(&at)
                && !self.heard.knows(&header, body, whole, self.one_honest());
            if open && let SignatureCheck::Unchecked(claim) = self.signed.known(key, &header, whole) {
                claims.push(claim);
                requests.push((header, whole));
            }
        }
        self.signed.check_together(&claims, &requests);
    }

    /// The leader had time enough, so all members are told of the request.
    pub fn overdue(&self, request: Digest, out: &mut Vec<Out>) {
        let Some((_, late)) = self.watched.get(&request) else { return };
        out.push(Out::Overdue { session: late.session, number: late.number });
        out.push(Out::Say(late.bytes.clone()));
    }

    /// Looks at what has waited for long, if it is time for that: it is watched, and given again to an instance that is led here. Returns
    /// whether it was time.
    pub fn look(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) -> bool {
        if self.look_at.is_none_or(|at| at > now) {
            return false;
        }
        self.checking.give_up(now);
        self.admit_checked(facts, out);
        let unruled = if planted("unruled-watched") { BTreeSet::new() } else { Gap::unruled(facts) };
        let mut late = self.late(now, facts);
        late.retain(|late| !unruled.contains(&(late.session, late.number)));
        self.openings.say_what_waits(now, &self.heard);
        self.say_again(now, facts);
        let late = self.rightly_late(facts.sessions(), late);
        self.gap.watch(now, facts, out);
        self.watch_late(now, facts, late, out);
        let over: Vec<(Digest, InstanceId)> = self
            .watched
            .iter()
            .filter(|(_, (_, late))| {
                !self.heard.waits(late)
                    || !self.is_due(now, facts, &late.bytes)
                    || unruled.contains(&(late.session, late.number))
            })
            .map(|(digest, (instance, _))| (*digest, *instance))
            .collect();
        for (name, instance) in over {
            self.watched.remove(&name);
            out.push(Out::Unwatch { instance, name });
        }
        let sessions = facts.sessions();
        let is_over = |session| matches!(sessions.lookup(session, RequestNumber::FIRST), Lookup::Ended);
        self.heard.tidy(now, is_over, CLAIM_TIME);
        let waits = !self.watched.is_empty() || self.gap.is_watched();
        let idle = self.heard.byte_len() == 0 && !waits && self.checking.is_empty();
        self.look_at = (!idle).then(|| now.plus(LOOK_EVERY));
        true
    }

    /// What has waited for long and a leader must know of.
    fn late(&self, now: Time, facts: &dyn Facts) -> Vec<Late> {
        let sessions = facts.sessions();
        let next = |session| sessions.last_number(session).map(RequestNumber::next);
        let late = self.heard.late(now, LATE_AFTER, next);
        // No leader has to know of an opening that too few said.
        let late = late.filter(|late| self.is_everywhere(&late.bytes));
        // Nor of anything while care is taken.
        let late = late.filter(|late| self.is_due(now, facts, &late.bytes));
        late.take(LATE_MAX).collect()
    }

    /// The late requests for which this replica may call a leader slow: not those that a leader must not propose.
    fn rightly_late(&mut self, sessions: &dyn Sessions, late: Vec<Late>) -> Vec<Late> {
        let keys: Vec<Option<SessionKey>> = late.iter().map(|late| sessions.key(late.session)).collect();
        let keyed = late.iter().zip(&keys).filter_map(|(late, key)| Some(((*key)?, &late.bytes[..])));
        let mut are_right = self.signed.check(&keyed.collect::<Vec<_>>()).into_iter();
        let mut rightly = Vec::with_capacity(late.len());
        for (late, key) in late.into_iter().zip(keys) {
            if key.is_none() || are_right.next().unwrap_or(false) {
                rightly.push(late);
            } else {
                self.heard.forget(late.session, late.number);
            }
        }
        rightly
    }

    fn watch_late(&mut self, now: Time, facts: &dyn Facts, late: Vec<Late>, out: &mut Vec<Out>) {
        let (mut unmerged, mut decided) = (BTreeMap::<InstanceId, Named>::new(), BTreeMap::new());
        let mut given = 0;
        for late in late {
            let Some(header) = first_of(&late.bytes) else { continue };
            let name = digest_of_request(&late.bytes);
            let instance = instance_of(&header, facts.instances());
            let pending = decided.entry(instance).or_insert_with(|| pending(facts, instance));
            given += self.admit_from(now, facts, &late, (pending, GIVEN_MAX - given), out);
            let only = unmerged.entry(instance).or_insert_with(|| self.gap.only_unmerged(facts, instance));
            if only.contains(&(header.session, header.number)) {
                continue;
            }
            if self.watched.insert(name, (instance, late)).is_none() {
                out.push(Out::Watch { instance, name });
            }
        }
    }

    /// Gives a late request, and those behind it in its session, to its instance, if that is led here: given one at a time, they would
    /// never catch up with what the client sends. What is `pending` is decided already. Returns how many were given, at most `most`.
    fn admit_from(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        late: &Late,
        (pending, most): (&Named, usize),
        out: &mut Vec<Out>,
    ) -> usize {
        if late.opener.is_some() {
            self.admit_known(now, facts, &late.bytes, out);
            return 0;
        }
        let is_new = |bytes: &&Bytes| {
            first_of(bytes).is_some_and(|header| !pending.contains(&(header.session, header.number)))
        };
        let waits = self.heard.of_session(late.session).filter(is_new).take(most);
        let waits: Vec<Bytes> = waits.cloned().collect();
        waits.iter().for_each(|bytes| self.admit_known(now, facts, bytes, out));
        waits.len()
    }
}

//! Which requests leaders here may propose, and what the other members are told so that all can vouch for it.

use super::gaps::pending;
use super::openings::opening;
use super::signed::Given;
use super::{LOOK_EVERY, Vouched, all_instances, first_of, instance_of};
use crate::facts::Facts;
use crate::intake::Out;
use bytes::Bytes;
use quorate_types::{ConnId, InstanceId, ReplicaId, RequestNumber, SessionId, SessionKey, Time};
use quorate_wire::{RequestHeader, RequestKind, Requests};
use std::collections::BTreeMap;

/// At the beginning of a view, at most this many waiting requests are told.
const SAID_MAX: usize = 4096;
/// The most of them for each session, and for each client that opens sessions.
const SAID_OF_EACH: usize = 64;

/// Whether replicas that did not hear a request can vouch for it without being told.
fn speaks_for_itself(facts: &dyn Facts, header: &RequestHeader, whole: &[u8]) -> bool {
    let signed = || facts.signatures_count() && facts.sessions().key(header.session).is_some();
    opening(whole).is_some() || signed()
}

impl Vouched {
    /// If this many members tell a request, all replicas can come to know it.
    pub(super) const fn enough(&self) -> usize {
        self.trust.spreads() as usize
    }

    /// The least number of members of which one does not lie.
    pub(super) const fn one_honest(&self) -> usize {
        self.trust.truth() as usize
    }

    /// Whether enough others know a request for a leader to propose it: true except for openings with a key that too few told.
    pub(super) fn is_everywhere(&self, bytes: &[u8]) -> bool {
        self.openings.said_by(&self.heard, bytes).is_none_or(|members| members >= self.enough())
    }

    /// Whether it opened a session lately; proposed again it would open another one.
    pub(super) fn is_opened(&self, bytes: &[u8]) -> bool {
        opening(bytes).is_some_and(|(client, nonce)| self.heard.opened_by(client, nonce).is_some())
    }

    /// Whether a request may be proposed only if enough members heard it.
    pub(super) fn needs_care(
        &self,
        now: Time,
        facts: &dyn Facts,
        instance: InstanceId,
        header: &RequestHeader,
        whole: &[u8],
    ) -> bool {
        self.caring.is_careful(now, instance) && !speaks_for_itself(facts, header, whole)
    }

    /// Whether this replica may call a leader slow that leaves this out.
    pub(super) fn is_due(&self, now: Time, facts: &dyn Facts, whole: &[u8]) -> bool {
        let Some(header) = first_of(whole) else { return false };
        let instance = instance_of(&header, facts.instances());
        self.heard.told_by(whole) >= self.enough()
            || !self.caring.helps(now, instance)
            || speaks_for_itself(facts, &header, whole)
    }

    /// Tells the others what waits for an instance.
    pub(super) fn say_waiting(&mut self, now: Time, facts: &dyn Facts, instance: InstanceId) {
        self.caring.says_all(now, instance);
        let concerns = |bytes: &Bytes| {
            let Some(header) = first_of(bytes) else { return false };
            instance_of(&header, facts.instances()) == instance && !speaks_for_itself(facts, &header, bytes)
        };
        let waiting = self.heard.firsts(SAID_OF_EACH, SAID_MAX, concerns);
        for whole in waiting {
            let Some(header) = first_of(&whole) else { continue };
            if self.caring.says_more() {
                self.say_held(now, facts, &header, &whole);
            }
        }
    }

    /// Tells again what waits, now and then, since connections break.
    pub(super) fn say_again(&mut self, now: Time, facts: &dyn Facts) {
        self.caring.forget_said(now);
        for instance in all_instances(facts.instances()) {
            if self.caring.says_again(now, instance) {
                self.say_waiting(now, facts, instance);
            }
        }
    }

    /// A client sent this and this replica holds it now; where care is taken, all members must learn of it. A replica tells only what it
    /// holds: a client that claims a session which is not open here may not own it, and of two requests with one number only one is held.
    pub(super) fn say_held(&mut self, now: Time, facts: &dyn Facts, header: &RequestHeader, whole: &[u8]) {
        if self.heard.holds(whole) {
            self.say(now, facts, header, whole);
        }
    }

    fn say(&mut self, now: Time, facts: &dyn Facts, header: &RequestHeader, whole: &[u8]) {
        let instance = instance_of(header, facts.instances());
        if !self.caring.helps(now, instance) || speaks_for_itself(facts, header, whole) {
            return;
        }
        if self.caring.say(now, whole) {
            self.heard.told(now, self.config.me, whole);
        }
    }

    /// A member says that it heard this from a client. Returns whether a leader may now propose it because of what members told.
    pub(super) fn was_told_enough(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        from: ReplicaId,
        header: &RequestHeader,
        whole: &[u8],
    ) -> bool {
        let told = self.heard.told(now, from, whole);
        if opening(whole).is_some() {
            if told >= self.one_honest() && !self.is_opened(whole) {
                self.openings.told(now, whole);
            }
            return self.is_everywhere(whole);
        }
        let instance = instance_of(header, facts.instances());
        let helped = self.caring.helps(now, instance);
        self.caring.is_told(now, from, self.one_honest());
        if !helped && self.caring.helps(now, instance) {
            self.say_waiting(now, facts, instance);
        }
        // One of f+1 is honest: this replica says so, too, if it can remember that.
        if told >= self.one_honest() && self.caring.remembers() {
            self.say(now, facts, header, whole);
        }
        told >= self.enough() || self.shows_itself(now, facts, from, header)
    }

    /// Whether a leader here may be given a request that a member forwarded, because of its signature alone.
    fn shows_itself(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        from: ReplicaId,
        header: &RequestHeader,
    ) -> bool {
        facts.signatures_count()
            && facts.sessions().key(header.session).is_some()
            && self.signed.may_send_on(now, from)
    }

    /// Gives requests of one session each to an instance, if it is led here: at once, or after their signatures are checked.
    pub(super) fn give(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        to: InstanceId,
        conn: Option<ConnId>,
        bytes: &Bytes,
        out: &mut Vec<Out>,
    ) {
        let Some(header) = first_of(bytes) else { return };
        if !self.is_everywhere(bytes) || self.is_opened(bytes) {
            return;
        }
        if self.needs_care(now, facts, to, &header, bytes) {
            self.give_with_care(facts, to, &header, bytes, out);
        } else if facts.sessions().key(header.session).is_some() {
            let view = facts.view(to);
            self.signed.check_later(Given { to, view, conn, whole: bytes.clone() });
        } else {
            out.push(Out::Admit { instance: to, requests: bytes.clone() });
        }
    }

    /// Admits what may be proposed with care, now that this request, or a member's word for it, has come.
    fn give_with_care(
        &mut self,
        facts: &dyn Facts,
        to: InstanceId,
        header: &RequestHeader,
        whole: &Bytes,
        out: &mut Vec<Out>,
    ) {
        let enough = self.enough();
        let due = || facts.sessions().last_number(header.session).unwrap_or_default().next();
        let (mut sure, alone) = match header.kind {
            RequestKind::OpenSession => (Vec::new(), true),
            _ => (self.heard.sure(header.session, due(), header.number, enough), due() == header.number),
        };
        if sure.is_empty() && alone && self.heard.told_by(whole) >= enough {
            sure.push(whole.clone());
        }
        if facts.sessions().key(header.session).is_some() {
            let view = facts.view(to);
            let given = |whole| Given { to, view, conn: None, whole };
            sure.into_iter().map(given).for_each(|given| self.signed.check_later(given));
        } else if !sure.is_empty() {
            out.push(Out::Admit { instance: to, requests: sure.concat().into() });
        }
    }

    /// Gives a request that was heard, or forwarded by enough members, to its instance, if that is led here.
    pub(super) fn admit_known(&mut self, now: Time, facts: &dyn Facts, bytes: &Bytes, out: &mut Vec<Out>) {
        let Some(header) = first_of(bytes) else { return };
        let to = instance_of(&header, facts.instances());
        if facts.leads(to) {
            self.give(now, facts, to, None, bytes, out);
        }
    }

    /// Gives everything that was heard for an instance to it, since it is led here now. What is decided already is not proposed again.
    fn admit_all(&mut self, now: Time, facts: &dyn Facts, to: InstanceId, out: &mut Vec<Out>) {
        let pending = pending(facts, to);
        let goes = |bytes: &&Bytes| {
            let is_new = |header: &RequestHeader| !pending.contains(&(header.session, header.number));
            first_of(bytes).filter(is_new).is_some_and(|header| instance_of(&header, facts.instances()) == to)
        };
        let all: Vec<Bytes> = self.heard.all().filter(goes).cloned().collect();
        for bytes in all {
            self.give(now, facts, to, None, &bytes, out);
        }
    }

    /// The turn ends: checks signatures of given requests, and sends what must be told.
    pub fn turn_end(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) {
        // The merge may wait although no client asked for anything, as for a border that an operator wants.
        if facts.waits_for().is_some() {
            self.look_at.get_or_insert(now.plus(LOOK_EVERY));
        }
        for session in std::mem::take(&mut self.woken) {
            let bytes: Vec<Bytes> = self.heard.of_session(session).cloned().collect();
            for bytes in &bytes {
                if let Some(header) = first_of(bytes) {
                    self.say_held(now, facts, &header, bytes);
                }
                self.admit_known(now, facts, bytes, out);
            }
        }
        for instance in std::mem::take(&mut self.began) {
            if facts.leads(instance) {
                self.admit_all(now, facts, instance, out);
            } else if facts.announced(instance) {
                self.began.push(instance);
            }
        }
        self.check_given(now, facts, out);
        self.say_openings(now, facts, out);
        out.extend(self.caring.take_saying().into_iter().map(|frame| Out::Say(frame.into())));
    }

    /// Sends the other members what must be told of openings.
    fn say_openings(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) {
        let saying = Bytes::from(self.openings.take_saying());
        if saying.is_empty() {
            return;
        }
        out.push(Out::Say(saying.clone()));
        // Its own word may have been the last one that was needed.
        for (_, _, whole) in Requests::new(&saying).flatten() {
            if self.is_everywhere(whole) {
                self.admit_known(now, facts, &saying.slice_ref(whole), out);
            }
        }
    }

    /// Checks the signatures of requests given since the last turn, here or elsewhere.
    fn check_given(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) {
        let waiting = self.signed.take_given();
        if waiting.is_empty() {
            return;
        }
        let key_of = |given: &Given| facts.sessions().key(first_of(&given.whole)?.session);
        let keyed: Vec<(SessionKey, Given)> =
            waiting.into_iter().filter_map(|given| key_of(&given).map(|key| (key, given))).collect();
        let requests: Vec<(SessionKey, &[u8])> =
            keyed.iter().map(|(key, given)| (*key, &given.whole[..])).collect();
        let looked = self.signed.look_over(&requests);
        if self.checking.takes(now, looked.claims.len()) {
            let given = keyed.into_iter().map(|(_, given)| given).collect();
            out.extend(self.checking.take(now, given, looked).into_iter().map(Out::Check));
            self.look_at.get_or_insert(now.plus(LOOK_EVERY));
            return self.admit_checked(facts, out);
        }
        let right = self.signed.check_here(&looked.claims);
        let are_right = self.signed.conclude(looked, &right, |_| true, |at| requests[at].1);
        let given = keyed.iter().map(|(_, given)| given);
        self.admit_right(facts, given.zip(are_right), |_| true, out);
    }

    /// Others checked signatures, or it is known that nobody will.
    pub fn checked(&mut self, facts: &dyn Facts, id: u64, right: Option<Vec<bool>>, out: &mut Vec<Out>) {
        self.checking.answered(id, right);
        self.admit_checked(facts, out);
    }

    /// Admits the requests whose signatures others checked, as far as it is their turn.
    pub(super) fn admit_checked(&mut self, facts: &dyn Facts, out: &mut Vec<Out>) {
        while let Some(piece) = self.checking.next() {
            // A request may have been executed meanwhile, and its session may be over.
            let last = |session| facts.sessions().last_number(session);
            let matter =
                |header: &RequestHeader| last(header.session).is_some_and(|last| last < header.number);
            let given = &piece.given;
            let are_right = self.signed.conclude(piece.looked, &piece.right, matter, |at| &given[at].whole);
            // What was given in an earlier view was given again when this one began, and must not come before what was given there.
            let stands = |given: &Given| facts.view(given.to) == given.view;
            self.admit_right(facts, given.iter().zip(are_right), stands, out);
        }
    }

    /// Admits the requests whose signatures are right and that still stand. A client that sent a wrong one over its own connection loses the
    /// connection.
    fn admit_right<'a>(
        &mut self,
        facts: &dyn Facts,
        checked: impl Iterator<Item = (&'a Given, bool)>,
        stands: impl Fn(&Given) -> bool,
        out: &mut Vec<Out>,
    ) {
        let mut runs: BTreeMap<InstanceId, Vec<u8>> = BTreeMap::new();
        let mut wrong: Vec<(Option<ConnId>, bool, SessionId, RequestNumber)> = Vec::new();
        for (given, right) in checked {
            if right {
                if stands(given) {
                    runs.entry(given.to).or_default().extend_from_slice(&given.whole);
                }
            } else if let Some(header) = first_of(&given.whole) {
                // What a member sends on under this number may be wrong where what came from the client is not.
                let forget = self.heard.holds(&given.whole);
                wrong.push((given.conn, forget, header.session, header.number));
            }
        }
        for (instance, run) in runs {
            if facts.leads(instance) {
                out.push(Out::Admit { instance, requests: run.into() });
            }
        }
        for (conn, forget, session, number) in wrong {
            if forget {
                self.heard.forget(session, number);
            }
            if let Some(conn) = conn {
                let why = format!("request {number} of {session} is not signed by its key");
                out.push(Out::Reject { conn, why });
            }
        }
    }
}

//! After a leader that failed, for a while: a leader proposes only what enough others heard as well.
//!
//! A client that does not sign may tell each replica something else, or only one of them anything. A leader that proposes what nobody else heard
//! finds no votes and loses its office; with a few such clients each one would, one after the other, and nobody would be served. So
//! when a view ends, all take care in the next one: whoever hears a request says so to all, and says it, too, once f+1 did; a leader proposes
//! what 2f+1 said, itself among them: f+1 of these are honest, so that everybody can come to vouch. What fewer said waits, and a session's
//! requests wait for those before them; nobody calls a leader slow for that. It is what `openings` does for openings with a key.
//!
//! Care costs a message for each request and pair of replicas, so it ends: after a second, and each time that it was not enough after twice
//! that. Then a few lying clients can take a leader's office once in a minute. What clients sign needs none. Tests: check/sim
//! (`tests/liars.rs`), path/2-admit.

use super::Vouching;
use super::openings::opening;
use crate::effects::Effects;
use crate::node::Node;
use bytes::Bytes;
use quorate_order::mod_smart::digest_of_request;
use quorate_types::{ReplicaId, Span, Time, View};
use quorate_wire::{FrameKind, OutFrame, RequestHeader, RequestKind, Requests};

/// Care lasts so long at first.
const CARE_FIRST: Span = Span::from_secs(1);
/// And no longer than this.
const CARE_MAX: Span = Span::from_secs(60);
/// No leader takes care for longer that began before this replica started.
const YOUNG: Span = Span::from_secs(75);
/// Of what waits already no more requests, or bytes, are said at the beginning of a view.
const SAID_MAX: usize = 4096;
const SAID_BYTES: usize = 4 << 20;
/// Of each session, or client that opens some.
const SAID_OF_EACH: usize = 64;
/// And once more after so long.
const SAY_AGAIN: Span = Span::from_secs(1);
/// So many requests are known to have been said lately.
const KNOWN_MAX: usize = 1 << 14;
/// They leave in frames of about this size.
const FRAME_BYTES: usize = 256 << 10;

/// How careful this replica is about what goes through one instance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Care {
    view: View,
    span: Span,
    until: Time,
    /// When all that waits was said last.
    said: Time,
}

impl Care {
    /// Another view began. Those between that one and the last failed, too, whether this replica saw that or not.
    pub(super) fn begin(&mut self, now: Time, view: View) {
        let views = view.number().saturating_sub(self.view.number());
        let soon = self.span != Span::ZERO && (views > 1 || now <= self.until.plus(self.span));
        let longer = self.span.times(1 << views.min(6)).min(CARE_MAX);
        self.span = if soon { longer } else { CARE_FIRST };
        (self.view, self.until) = (view, now.plus(self.span));
    }

    #[cfg(test)]
    pub(super) const fn span(&self) -> Span {
        self.span
    }
}

impl Vouching {
    /// Whether a leader here takes care.
    fn is_careful(&self, now: Time, at: usize) -> bool {
        self.care.get(at).is_some_and(|care| now < care.until)
    }

    /// Whether a leader elsewhere does: replicas do not enter a view at one moment.
    pub(super) fn helps_to_care(&self, now: Time, at: usize) -> bool {
        let late = |care: &Care| care.until.plus(Span::from_nanos(care.span.nanos() / 4));
        self.care
            .get(at)
            .is_some_and(|care| now < late(care) || (care.view > View::FIRST && now < self.helps_until))
    }

    /// How many replicas have to say that they heard a request.
    fn enough(&self) -> usize {
        2 * self.trust.faults() as usize + 1
    }

    /// Members say what they heard. Who started lately may not know that they take care: where f+1 do, it helps for a moment. Who knows goes by
    /// what it knows: else those who help would keep each other at it.
    pub(super) fn is_told(&mut self, now: Time, from: ReplicaId) {
        let young = now.since(*self.born.get_or_insert(now)) <= YOUNG;
        if !young {
            return;
        }
        self.tellers.insert(from, now);
        let lately = self.tellers.values().filter(|told| now.since(**told) <= CARE_FIRST).count();
        if lately >= self.trust.truth() as usize {
            self.helps_until = now.plus(CARE_FIRST);
        }
    }
}

impl Node {
    /// Whether a request may be proposed only if enough others heard it.
    pub(super) fn needs_care(&self, now: Time, at: usize, header: &RequestHeader, whole: &[u8]) -> bool {
        self.vouching.is_careful(now, at) && !self.speaks_for_itself(header, whole)
    }

    /// Whether replicas that did not hear a request come to know of it without that.
    fn speaks_for_itself(&self, header: &RequestHeader, whole: &[u8]) -> bool {
        let signed = || self.signatures_count() && self.executor.key(header.session).is_some();
        opening(whole).is_some() || signed()
    }

    /// A new view of an instance has its leader. `rotated`: nothing failed in the one before.
    pub(crate) fn take_care(&mut self, now: Time, at: usize, rotated: bool) {
        let (view, _) = self.instances[at].leader;
        let rotates = self.config.order.nature().rotates;
        let Some(care) = self.vouching.care.get_mut(at) else { return };
        // The first view follows no other.
        if view == View::FIRST || view == care.view {
            return;
        }
        if rotated {
            care.view = view;
            return;
        }
        if rotates {
            // Views that this replica did not see need not have failed.
            care.view = View::new(view.number() - 1);
        }
        care.begin(now, view);
        self.vouching.heard.begin_anew();
        self.say_waiting(now, at);
    }

    /// Says what waits and goes through an instance.
    fn say_waiting(&mut self, now: Time, at: usize) {
        if let Some(care) = self.vouching.care.get_mut(at) {
            care.said = now;
        }
        let instances = self.instances.len();
        let concerns = |bytes: &Bytes| {
            let Some(Ok((header, ..))) = Requests::new(bytes).next() else { return false };
            super::instance_of(&header, instances) == at && !self.speaks_for_itself(&header, bytes)
        };
        let waiting = self.vouching.heard.firsts(SAID_OF_EACH, SAID_MAX, concerns);
        for whole in waiting {
            let Some(Ok((header, ..))) = Requests::new(&whole).next() else { continue };
            if self.vouching.saying.len() < SAID_BYTES {
                self.say_held(now, &header, &whole);
            }
        }
    }

    /// Now and then what waits is said once more: connections break.
    pub(super) fn say_again(&mut self, now: Time) {
        self.vouching.said.retain(|_, said| now.since(*said) <= SAY_AGAIN);
        for at in 0..self.instances.len() {
            let said = self.vouching.care.get(at).map_or(now, |care| care.said);
            if now.since(said) > SAY_AGAIN && self.vouching.helps_to_care(now, at) {
                self.say_waiting(now, at);
            }
        }
    }

    /// A client asked this of this replica, which holds it now: where care is taken, all have to know. Nobody says what it does not hold: who claims
    /// a session that is not open here may not be whose it is, and of two requests with one number only one is heard.
    pub(super) fn say_held(&mut self, now: Time, header: &RequestHeader, whole: &[u8]) {
        if self.vouching.heard.holds(whole) {
            self.say(now, header, whole);
        }
    }

    /// So many members say that they heard this. One of f+1 is honest: this replica says so, too, if it can remember that.
    pub(super) fn say_told(&mut self, now: Time, header: &RequestHeader, whole: &[u8], members: usize) {
        let one_honest = self.vouching.trust.truth() as usize;
        if members >= one_honest && self.vouching.said.len() < KNOWN_MAX {
            self.say(now, header, whole);
        }
    }

    /// Not everything that is sent again is said again at once.
    fn say(&mut self, now: Time, header: &RequestHeader, whole: &[u8]) {
        let at = super::instance_of(header, self.instances.len());
        if !self.vouching.helps_to_care(now, at) || self.speaks_for_itself(header, whole) {
            return;
        }
        let digest = digest_of_request(whole);
        let said = self.vouching.said.get(&digest);
        if said.is_some_and(|said| now.since(*said) <= SAY_AGAIN) {
            return;
        }
        if self.vouching.said.len() < KNOWN_MAX {
            self.vouching.said.insert(digest, now);
        }
        self.vouching.heard.told(now, self.config.members.me(), whole);
        self.vouching.saying.extend_from_slice(whole);
    }

    /// A member says that it heard this of a client; so many did.
    pub(super) fn on_said(
        &mut self,
        now: Time,
        from: ReplicaId,
        (header, whole): (&RequestHeader, &[u8]),
        members: usize,
    ) {
        let at = super::instance_of(header, self.instances.len());
        let helped = self.vouching.helps_to_care(now, at);
        self.vouching.is_told(now, from);
        if !helped && self.vouching.helps_to_care(now, at) {
            self.say_waiting(now, at);
        }
        self.say_told(now, header, whole, members);
    }

    /// At the end of a turn: what is said leaves.
    pub(super) fn send_saying(&mut self, out: &mut Effects) {
        let bytes = std::mem::take(&mut self.vouching.saying);
        let (mut from, mut end) = (0, 0);
        let mut frames = Vec::new();
        for (.., whole) in Requests::new(&bytes).flatten() {
            end += whole.len();
            if end - from >= FRAME_BYTES {
                frames.push(&bytes[from..end]);
                from = end;
            }
        }
        frames.extend(Some(&bytes[from..end]).filter(|rest| !rest.is_empty()));
        let members: Vec<_> =
            self.config.members.all().iter().filter_map(|m| self.peers.to(m.replica)).collect();
        for frame in frames {
            for conn in &members {
                out.send(*conn, OutFrame::new(FrameKind::Requests, frame, vec![]));
            }
        }
    }

    /// Admits what may be proposed with care, now that this request, or somebody's word for it, has come.
    pub(super) fn give_with_care(
        &mut self,
        now: Time,
        at: usize,
        header: &RequestHeader,
        whole: &Bytes,
        out: &mut Effects,
    ) {
        let enough = self.vouching.enough();
        let mut sure = match header.kind {
            RequestKind::OpenSession => Vec::new(),
            _ => {
                let due = self.executor.last_number(header.session).unwrap_or_default().next();
                self.vouching.heard.sure(header.session, due, header.number, enough)
            }
        };
        let alone = match header.kind {
            RequestKind::OpenSession => true,
            _ => self.executor.last_number(header.session).unwrap_or_default().next() == header.number,
        };
        if sure.is_empty() && alone && self.vouching.heard.told_by(whole) >= enough {
            sure.push(whole.clone());
        }
        if self.executor.key(header.session).is_some() {
            sure.into_iter().for_each(|bytes| self.vouching.check_later(at, bytes));
        } else if !sure.is_empty() {
            self.admit(now, at, None, &sure.concat(), out);
        }
    }

    /// Whether this replica may call a leader slow for leaving this out.
    pub(super) fn is_due(&self, now: Time, whole: &[u8]) -> bool {
        let Some(Ok((header, ..))) = Requests::new(whole).next() else { return false };
        let at = super::instance_of(&header, self.instances.len());
        let enough = self.vouching.enough();
        self.vouching.heard.told_by(whole) >= enough
            || !self.vouching.helps_to_care(now, at)
            || self.speaks_for_itself(&header, whole)
    }
}

//! Care: for a while after a leader failed, the next leader proposes only requests that enough members heard.
//!
//! A client that does not sign may tell each replica something else, or tell only one of them. A leader that proposes what no other member
//! heard gets no votes and loses its office. A few such clients could do that to one leader after the other, and no client would be served.
//! So when a view ends, all take care in the next one. A replica that hears a request tells all others, and repeats a request that f+1
//! others told. A leader proposes what 2f+1 members told, itself among them: f+1 of these are honest, so every replica can come to vouch.
//! (Other faults have other sizes, [`Trust::spreads`](quorate_types::Trust::spreads). They are never more than must be there.)
//! Requests that fewer told wait, and later requests of the session wait behind them; no leader counts as slow for that. `openings` does
//! the same for openings with a key.
//!
//! Care costs a message for each request and pair of replicas, so it ends: after a second, and each time that it was not enough after twice
//! as long. Then a few lying clients can depose a leader at most once a minute. Signed requests need no care. Tests: care/tests.rs,
//! check/sim/tests/all/liars.rs.

use quorate_auth::digest_of_request;
use quorate_types::{Digest, InstanceId, ReplicaId, Span, Time, View};
use quorate_wire::Requests;
use std::collections::BTreeMap;

/// How long care lasts at first.
const CARE_FIRST: Span = Span::from_secs(1);
/// How long care lasts at most.
const CARE_MAX: Span = Span::from_secs(60);
/// For this long after its first request this replica may not know of earlier failures, since care never lasts longer.
const YOUNG: Span = Span::from_secs(75);
/// At the beginning of a view, at most this many bytes of waiting requests are told.
const SAID_BYTES: usize = 4 << 20;
/// What was told is told again after this time.
const SAY_AGAIN: Span = Span::from_secs(1);
/// The most requests that are remembered as told lately.
const KNOWN_MAX: usize = 1 << 14;
/// Told requests leave in frames of about this size.
const FRAME_BYTES: usize = 256 << 10;

/// How careful this replica is in one instance.
#[derive(Clone, Copy, Debug, Default)]
struct Care {
    view: View,
    span: Span,
    until: Time,
    /// When everything that waits was last told.
    said: Time,
}

impl Care {
    /// Another view began. All views since the last known one failed, whether or not this replica saw that.
    fn begin(&mut self, now: Time, view: View) {
        let views = view.number().saturating_sub(self.view.number());
        let soon = self.span != Span::ZERO && (views > 1 || now <= self.until.plus(self.span));
        let longer = self.span.times(1 << views.min(6)).min(CARE_MAX);
        self.span = if soon { longer } else { CARE_FIRST };
        (self.view, self.until) = (view, now.plus(self.span));
    }
}

/// How careful this replica is, and what it tells the others that it heard.
#[derive(Debug)]
pub(super) struct Caring {
    /// By instance.
    by: Vec<Care>,
    /// What is told at the end of the turn, and what was told lately.
    saying: Vec<u8>,
    said: BTreeMap<Digest, Time>,
    /// For each member, when it last told what it heard, and until when that is a reason for this replica to do the same.
    tellers: BTreeMap<ReplicaId, Time>,
    helps_until: Time,
    /// When the first request came.
    born: Option<Time>,
}

impl Caring {
    pub(super) fn new(instances: u16) -> Self {
        Self {
            by: vec![Care::default(); usize::from(instances)],
            saying: Vec::new(),
            said: BTreeMap::new(),
            tellers: BTreeMap::new(),
            helps_until: Time::ZERO,
            born: None,
        }
    }

    fn of(&self, instance: InstanceId) -> Option<&Care> {
        self.by.get(usize::from(instance.number()).wrapping_sub(1))
    }

    fn of_mut(&mut self, instance: InstanceId) -> Option<&mut Care> {
        self.by.get_mut(usize::from(instance.number()).wrapping_sub(1))
    }

    /// A client's request is here, so this replica has begun to hear.
    pub(super) fn heard(&mut self, now: Time) {
        self.born.get_or_insert(now);
    }

    /// Whether a leader here takes care.
    pub(super) fn is_careful(&self, now: Time, instance: InstanceId) -> bool {
        self.of(instance).is_some_and(|care| now < care.until)
    }

    /// Whether a leader elsewhere may take care: replicas do not enter a view at the same moment.
    pub(super) fn helps(&self, now: Time, instance: InstanceId) -> bool {
        let late = |care: &Care| care.until.plus(Span::from_nanos(care.span.nanos() / 4));
        self.of(instance)
            .is_some_and(|care| now < late(care) || (care.view > View::FIRST && now < self.helps_until))
    }

    /// An instance has a leader in a new view. `planned`: nothing failed in the view before; `rotates`: leaders change although nothing
    /// fails. Returns whether care begins.
    pub(super) fn begin(
        &mut self,
        now: Time,
        instance: InstanceId,
        view: View,
        (planned, rotates): (bool, bool),
    ) -> bool {
        let Some(care) = self.of_mut(instance) else { return false };
        // The first view follows no other.
        if view == View::FIRST || view == care.view {
            return false;
        }
        if planned {
            care.view = view;
            return false;
        }
        if rotates {
            // Views that this replica did not see need not have failed.
            care.view = View::new(view.number() - 1);
        }
        care.begin(now, view);
        true
    }

    /// A member tells what it heard. A replica that started lately may not know that the others take care; if `one_honest` members tell, it
    /// does so too for a moment. A replica that can know ignores this, since otherwise the helpers would keep each other going.
    pub(super) fn is_told(&mut self, now: Time, from: ReplicaId, one_honest: usize) {
        let young = now.since(*self.born.get_or_insert(now)) <= YOUNG;
        if !young {
            return;
        }
        self.tellers.insert(from, now);
        let lately = self.tellers.values().filter(|told| now.since(**told) <= CARE_FIRST).count();
        if lately >= one_honest {
            self.helps_until = now.plus(CARE_FIRST);
        }
    }

    /// Tells a request at the end of the turn, unless it was told lately. Returns whether it is told.
    pub(super) fn say(&mut self, now: Time, whole: &[u8]) -> bool {
        let digest = digest_of_request(whole);
        let said = self.said.get(&digest);
        if said.is_some_and(|said| now.since(*said) <= SAY_AGAIN) {
            return false;
        }
        if self.remembers() {
            self.said.insert(digest, now);
        }
        self.saying.extend_from_slice(whole);
        true
    }

    /// Whether one more told request can be remembered.
    pub(super) fn remembers(&self) -> bool {
        self.said.len() < KNOWN_MAX
    }

    /// Whether more of what waits may be told in this turn.
    pub(super) fn says_more(&self) -> bool {
        self.saying.len() < SAID_BYTES
    }

    /// Everything that waits for this instance is told now.
    pub(super) fn says_all(&mut self, now: Time, instance: InstanceId) {
        if let Some(care) = self.of_mut(instance) {
            care.said = now;
        }
    }

    /// Whether what waits is due to be told again, since connections break.
    pub(super) fn says_again(&self, now: Time, instance: InstanceId) -> bool {
        let said = self.of(instance).map_or(now, |care| care.said);
        now.since(said) > SAY_AGAIN && self.helps(now, instance)
    }

    /// Forgets what was told long ago.
    pub(super) fn forget_said(&mut self, now: Time) {
        self.said.retain(|_, said| now.since(*said) <= SAY_AGAIN);
    }

    /// What is told at the end of a turn, in frames.
    pub(super) fn take_saying(&mut self) -> Vec<Vec<u8>> {
        let bytes = std::mem::take(&mut self.saying);
        let (mut from, mut end) = (0, 0);
        let mut frames = Vec::new();
        for (.., whole) in Requests::new(&bytes).flatten() {
            end += whole.len();
            if end - from >= FRAME_BYTES {
                frames.push(bytes[from..end].to_vec());
                from = end;
            }
        }
        frames.extend(Some(bytes[from..end].to_vec()).filter(|rest| !rest.is_empty()));
        frames
    }
}

#[cfg(test)]
mod tests;

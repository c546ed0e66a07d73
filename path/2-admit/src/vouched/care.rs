//! After a leader that failed, for a while: a leader proposes only what enough others heard as well.
//!
//! A client that does not sign may tell each replica something else, or only one of them anything. A leader that proposes what nobody else heard
//! finds no votes and loses its office; with a few such clients each one would, one after the other, and nobody would be served. So
//! when a view ends, all take care in the next one: whoever hears a request says so to all, and says it, too, once f+1 did; a leader proposes
//! what 2f+1 said, itself among them: f+1 of these are honest, so that everybody can come to vouch. What fewer said waits, and a session's
//! requests wait for those before them; nobody calls a leader slow for that. It is what `openings` does for openings with a key.
//!
//! Care costs a message for each request and pair of replicas, so it ends: after a second, and each time that it was not enough after twice
//! that. Then a few lying clients can take a leader's office once in a minute. What clients sign needs none. Tests: care/tests.rs,
//! check/sim/tests/all/liars.rs.

use quorate_auth::digest_of_request;
use quorate_types::{Digest, InstanceId, ReplicaId, Span, Time, View};
use quorate_wire::Requests;
use std::collections::BTreeMap;

/// Care lasts so long at first.
const CARE_FIRST: Span = Span::from_secs(1);
/// And no longer than this.
const CARE_MAX: Span = Span::from_secs(60);
/// No leader takes care for longer that began before this replica started.
const YOUNG: Span = Span::from_secs(75);
/// No more bytes are said of what waits already at the beginning of a view.
const SAID_BYTES: usize = 4 << 20;
/// What was said is said once more after so long.
const SAY_AGAIN: Span = Span::from_secs(1);
/// So many requests are known to have been said lately.
const KNOWN_MAX: usize = 1 << 14;
/// They leave in frames of about this size.
const FRAME_BYTES: usize = 256 << 10;

/// How careful this replica is about what goes through one instance.
#[derive(Clone, Copy, Debug, Default)]
struct Care {
    view: View,
    span: Span,
    until: Time,
    /// When all that waits was said last.
    said: Time,
}

impl Care {
    /// Another view began. Those between that one and the last failed, too, whether this replica saw that or not.
    fn begin(&mut self, now: Time, view: View) {
        let views = view.number().saturating_sub(self.view.number());
        let soon = self.span != Span::ZERO && (views > 1 || now <= self.until.plus(self.span));
        let longer = self.span.times(1 << views.min(6)).min(CARE_MAX);
        self.span = if soon { longer } else { CARE_FIRST };
        (self.view, self.until) = (view, now.plus(self.span));
    }
}

/// How careful this replica is, and what it says of what it heard.
#[derive(Debug)]
pub(super) struct Caring {
    /// By instance.
    by: Vec<Care>,
    /// What is said at the end of the turn, and what was lately.
    saying: Vec<u8>,
    said: BTreeMap<Digest, Time>,
    /// When each member said last what it had heard; until when that is a reason to do so as well.
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

    /// A client's request is here: this replica has begun to hear.
    pub(super) fn heard(&mut self, now: Time) {
        self.born.get_or_insert(now);
    }

    /// Whether a leader here takes care.
    pub(super) fn is_careful(&self, now: Time, instance: InstanceId) -> bool {
        self.of(instance).is_some_and(|care| now < care.until)
    }

    /// Whether a leader elsewhere does: replicas do not enter a view at one moment.
    pub(super) fn helps(&self, now: Time, instance: InstanceId) -> bool {
        let late = |care: &Care| care.until.plus(Span::from_nanos(care.span.nanos() / 4));
        self.of(instance)
            .is_some_and(|care| now < late(care) || (care.view > View::FIRST && now < self.helps_until))
    }

    /// A new view of an instance has its leader. `rotated`: nothing failed in the one before; `rotates`: leaders change although nothing fails.
    /// Whether care begins with it.
    pub(super) fn begin(
        &mut self,
        now: Time,
        instance: InstanceId,
        view: View,
        (rotated, rotates): (bool, bool),
    ) -> bool {
        let Some(care) = self.of_mut(instance) else { return false };
        // The first view follows no other.
        if view == View::FIRST || view == care.view {
            return false;
        }
        if rotated {
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

    /// Members say what they heard. Who started lately may not know that they take care: where `one_honest` do, it helps for a moment. Who knows
    /// goes by what it knows: else those who help would keep each other at it.
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

    /// Says a request at the end of the turn; not everything that is sent again is said again at once. Whether it is said.
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

    /// Whether it can remember one more that it said.
    pub(super) fn remembers(&self) -> bool {
        self.said.len() < KNOWN_MAX
    }

    /// Whether more of what waits is said in this turn.
    pub(super) fn says_more(&self) -> bool {
        self.saying.len() < SAID_BYTES
    }

    /// All that waits and goes through an instance is said now.
    pub(super) fn says_all(&mut self, now: Time, instance: InstanceId) {
        if let Some(care) = self.of_mut(instance) {
            care.said = now;
        }
    }

    /// Now and then what waits is said once more: connections break.
    pub(super) fn says_again(&self, now: Time, instance: InstanceId) -> bool {
        let said = self.of(instance).map_or(now, |care| care.said);
        now.since(said) > SAY_AGAIN && self.helps(now, instance)
    }

    /// Forgets what was not said lately.
    pub(super) fn forget_said(&mut self, now: Time) {
        self.said.retain(|_, said| now.since(*said) <= SAY_AGAIN);
    }

    /// What is said at the end of a turn, in frames.
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

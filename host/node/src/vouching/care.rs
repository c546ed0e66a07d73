//! After a leader that failed, for a while: a leader proposes only what enough others heard as well.
//!
//! A client that does not sign may tell each replica something else, or only one of them anything. A leader that proposes what nobody else heard
//! finds no votes and loses its office; with a few such clients each one would, one after the other, and nobody would be served. So
//! when a view ends, all take care in the next one: whoever hears a request passes it on to the leader at once, and the leader proposes what
//! it heard itself and 2f others passed on, or 2f+1 did. f+1 of those are honest, and vote for it. What fewer heard waits; a session's requests
//! wait for those before them.
//!
//! Care costs a message for each request and replica, so it ends: after a second, and each time that it was not enough after twice that.
//! Then a few lying clients can take a leader's office once in a minute. What clients sign needs none. Tests: check/sim
//! (`tests/liars.rs`), path/2-admit.

use super::Vouching;
use super::openings::opening;
use crate::effects::Effects;
use crate::node::Node;
use bytes::Bytes;
use quorate_types::{ReplicaId, Span, Time, View};
use quorate_wire::{FrameKind, OutFrame, RequestHeader, RequestKind, Requests};
use std::collections::BTreeMap;

/// Care lasts so long at first.
const CARE_FIRST: Span = Span::from_secs(1);
/// And no longer than this.
const CARE_MAX: Span = Span::from_secs(60);
/// Of what waits already no more requests, or bytes, are passed on to a new leader.
const PASSED_MAX: usize = 4096;
const PASSED_BYTES: usize = 4 << 20;
/// They leave in frames of about this size.
const FRAME_BYTES: usize = 256 << 10;

/// How careful this replica is about what goes through one instance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Care {
    view: View,
    span: Span,
    until: Time,
}

impl Care {
    /// Another view began.
    pub(super) fn begin(&mut self, now: Time, view: View) {
        let soon = self.span != Span::ZERO && now <= self.until.plus(self.span);
        self.span = if soon { self.span.times(2).min(CARE_MAX) } else { CARE_FIRST };
        (self.view, self.until) = (view, now.plus(self.span));
    }
}

/// What is to be passed on at the end of the turn, by leader.
pub(super) type Passing = BTreeMap<ReplicaId, Vec<u8>>;

impl Vouching {
    /// Whether a leader here takes care.
    fn is_careful(&self, now: Time, at: usize) -> bool {
        self.care.get(at).is_some_and(|care| now < care.until)
    }

    /// Whether a leader elsewhere does: replicas do not enter a view at one moment.
    fn passes_on(&self, now: Time, at: usize) -> bool {
        let late = |care: &Care| care.until.plus(Span::from_nanos(care.span.nanos() / 4));
        self.care.get(at).is_some_and(|care| now < late(care))
    }

    /// What may be proposed now, of a session that this request belongs to: as much of it as others heard, too, and was not known to be so.
    fn sure(&mut self, header: &RequestHeader, whole: &Bytes) -> Vec<Bytes> {
        let others = 2 * self.quorums.f() as usize;
        let told = self.heard.told_by(whole);
        if header.kind == RequestKind::OpenSession {
            return if told >= others { vec![whole.clone()] } else { Vec::new() };
        }
        let mut sure = self.heard.sure(header.session, header.number, others);
        if sure.is_empty() && told > others {
            sure.push(whole.clone());
        }
        sure
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

    /// A new view of an instance has its leader.
    pub(crate) fn take_care(&mut self, now: Time, at: usize) {
        let (view, leader) = self.instances[at].leader;
        let Some(care) = self.vouching.care.get_mut(at) else { return };
        // The first view follows no other.
        if view == View::FIRST || view == care.view {
            return;
        }
        care.begin(now, view);
        let waiting: Vec<Bytes> = self.vouching.heard.all().take(PASSED_MAX).cloned().collect();
        let mut bytes = 0;
        for whole in &waiting {
            let Some(Ok((header, ..))) = Requests::new(whole).next() else { continue };
            if super::instance_of(&header, self.instances.len()) == at && bytes < PASSED_BYTES {
                bytes += whole.len();
                self.pass_on(now, at, leader, &header, whole);
            }
        }
    }

    /// A client asks this, and somebody else leads: that has to know that this replica heard it.
    pub(super) fn pass_on(
        &mut self,
        now: Time,
        at: usize,
        leader: Option<ReplicaId>,
        header: &RequestHeader,
        whole: &[u8],
    ) {
        let other = leader.filter(|leader| *leader != self.config.members.me());
        let passes = self.vouching.passes_on(now, at);
        if let Some(leader) = other.filter(|_| passes && !self.speaks_for_itself(header, whole)) {
            self.vouching.passing.entry(leader).or_default().extend_from_slice(whole);
        }
    }

    /// At the end of a turn: what is passed on leaves.
    pub(super) fn send_passing(&mut self, out: &mut Effects) {
        for (to, bytes) in std::mem::take(&mut self.vouching.passing) {
            let Some(conn) = self.peers.to(to) else { continue };
            let (mut from, mut end) = (0, 0);
            for (.., whole) in Requests::new(&bytes).flatten() {
                end += whole.len();
                if end - from >= FRAME_BYTES {
                    out.send(conn, OutFrame::new(FrameKind::Requests, &bytes[from..end], vec![]));
                    from = end;
                }
            }
            if from < end {
                out.send(conn, OutFrame::new(FrameKind::Requests, &bytes[from..end], vec![]));
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
        for bytes in self.vouching.sure(header, whole) {
            self.admit(now, at, None, &bytes, out);
        }
    }
}

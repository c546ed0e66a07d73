//! Signed requests: a right signature counts as much as having heard the request, and a leader proposes no request with a wrong one.
//!
//! A session's key comes with its opening. The opening must be heard from the client and is signed with that key, which becomes part of the
//! session's state. From then on a request in a proposal is known here when it came from its client, or when its signature is right. So a
//! client that sends a request only to the leader does not block a slot, and a leader risks nothing by proposing the request.
//!
//! Each request is checked once; a right signature is remembered until the request is executed. Signatures are checked together: those of
//! all requests that a leader admits in a turn, and those of all requests of a proposal that were not heard here. If that fails, they are
//! checked one by one; of a proposal, one at each look. So a leader that proposes wrong ones causes no more work than it does itself.
//! What a leader admits may also be checked on other threads (`checking`).
//!
//! A replica that only vouches does not check requests that came over their client's own connection. It does check those that have waited
//! for long, before it calls a leader slow for leaving them out. Where replicas know clients with limited rights, signatures count for
//! nothing: the replica that heard a request may not have checked the client's rights. Tests: signed/tests.rs,
//! check/sim/tests/all/signed.rs.

use super::LOOK_EVERY;
use bytes::Bytes;
use quorate_auth::{RequestChecks, RequestClaim, digest_of_request, request_statement};
use quorate_types::{
    ClusterId, ConnId, Digest, InstanceId, ReplicaId, RequestNumber, SessionId, SessionKey, Time, View,
    planted,
};
use quorate_wire::{RequestHeader, Requests, SIGNATURE_BYTES};
use std::collections::BTreeMap;

/// At most this many right signatures are remembered; when there are more, those of the first sessions are checked again.
const RIGHT_MAX: usize = 1 << 16;

/// The most signatures under requests forwarded by one member that are checked between two looks at what waits.
const SENT_ON_MAX: u32 = 64;

/// Right signatures, and requests that wait until theirs is checked.
#[derive(Debug)]
pub(super) struct Signed {
    checks: RequestChecks,
    cluster: ClusterId,
    /// Whether sessions without a key are refused.
    required: bool,
    /// Requests that are not executed yet and whose signature is right, by the digest of all their bytes.
    right: BTreeMap<(SessionId, RequestNumber), Digest>,
    /// Requests that go to an instance led here once their signature is checked.
    waiting: Vec<Given>,
    /// How many signatures were checked.
    checked: u64,
    /// How many were checked for each member that forwarded a request, since this time.
    sent_on: (Time, BTreeMap<ReplicaId, u32>),
}

/// A request that goes to an instance led here once its signature is checked.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// The instance.
    pub(super) to: InstanceId,
    /// The view in which it is led here.
    pub(super) view: View,
    /// The connection over which it came, if that was its client's.
    pub(super) conn: Option<ConnId>,
    /// The whole request.
    pub(super) whole: Bytes,
}

/// What is known of the signatures of some requests, and what has to be checked.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Whether it is known that a request's signature is right, for each request.
    pub(super) are_right: Vec<bool>,
    /// The requests whose signatures have to be checked, by index.
    pub(super) open: Vec<(usize, RequestHeader)>,
    /// What has to be checked for each of them.
    pub(super) claims: Vec<RequestClaim>,
}

/// The result of checking one signature.
pub(super) enum SignatureCheck {
    Right,
    Wrong,
    Unchecked(RequestClaim),
}

impl Signed {
    pub(super) const fn new(checks: RequestChecks, cluster: ClusterId, required: bool) -> Self {
        Self {
            checks,
            cluster,
            required,
            right: BTreeMap::new(),
            waiting: Vec::new(),
            checked: 0,
            sent_on: (Time::ZERO, BTreeMap::new()),
        }
    }

    /// Whether sessions without a key are refused.
    pub(super) const fn required(&self) -> bool {
        self.required
    }

    /// How many signatures were checked.
    pub(super) const fn checked(&self) -> u64 {
        self.checked
    }

    /// This request goes to its instance once its signature is checked.
    pub(super) fn check_later(&mut self, given: Given) {
        self.waiting.push(given);
    }

    /// Takes what was given since the last turn.
    pub(super) fn take_given(&mut self) -> Vec<Given> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether an opening is signed with the key that it names, and the key is valid.
    pub(super) fn opens(&self, key: SessionKey, header: &RequestHeader, whole: &[u8]) -> bool {
        let right = self.claim(key, header, whole).is_some_and(|claim| self.checks.one(&claim));
        right && self.checks.is_key(&key)
    }

    /// Whether one more signature is checked under a request that this member forwards. Only a few are, so that a member's wrong ones cost
    /// little.
    pub(super) fn may_send_on(&mut self, now: Time, from: ReplicaId) -> bool {
        let (since, checked) = &mut self.sent_on;
        if now.since(*since) > LOOK_EVERY {
            *since = now;
            checked.clear();
        }
        let of_member = checked.entry(from).or_default();
        *of_member += 1;
        *of_member <= SENT_ON_MAX
    }

    /// What is known of the signature under a request of a session with this key.
    pub(super) fn known(&self, key: SessionKey, header: &RequestHeader, whole: &[u8]) -> SignatureCheck {
        if planted("signature-unchecked") {
            return SignatureCheck::Right;
        }
        match self.claim(key, header, whole) {
            None => SignatureCheck::Wrong,
            Some(_) if self.remembers(header, whole) => SignatureCheck::Right,
            Some(claim) => SignatureCheck::Unchecked(claim),
        }
    }

    fn remembers(&self, header: &RequestHeader, whole: &[u8]) -> bool {
        self.right
            .get(&(header.session, header.number))
            .is_some_and(|right| *right == digest_of_request(whole))
    }

    /// What must be checked, if the request is signed.
    pub(super) fn claim(
        &self,
        key: SessionKey,
        header: &RequestHeader,
        whole: &[u8],
    ) -> Option<RequestClaim> {
        let (signed, signature) = header.split(whole);
        let signature = *signature.first_chunk::<SIGNATURE_BYTES>()?;
        Some(RequestClaim { key, statement: request_statement(self.cluster, signed, b""), signature })
    }

    pub(super) fn remember(&mut self, header: &RequestHeader, whole: &[u8]) {
        if self.right.len() >= RIGHT_MAX {
            self.right.pop_first();
        }
        self.right.insert((header.session, header.number), digest_of_request(whole));
    }

    pub(super) fn executed(&mut self, session: SessionId, number: RequestNumber) {
        let up_to = (session, RequestNumber::ZERO)..=(session, number);
        while let Some(key) = self.right.range(up_to.clone()).next().map(|(key, _)| *key) {
            self.right.remove(&key);
        }
    }

    pub(super) fn invariants(&self) {
        assert!(self.right.len() <= RIGHT_MAX, "INV-HEARD-3 {} signatures are remembered", self.right.len());
    }

    /// Checks a signature now. Returns whether it is right.
    pub(super) fn check_one(&mut self, claim: &RequestClaim) -> bool {
        self.checked += 1;
        self.checks.one(claim)
    }

    /// Checks these together. If one is wrong, none of them is known to be right.
    pub(super) fn check_together(&mut self, claims: &[RequestClaim], requests: &[(RequestHeader, &[u8])]) {
        self.checked += claims.len() as u64;
        if self.checks.all(claims) {
            requests.iter().for_each(|(header, whole)| self.remember(header, whole));
        }
    }

    /// Which of these requests, each with its session's key, have a right signature.
    pub(super) fn check(&mut self, requests: &[(SessionKey, &[u8])]) -> Vec<bool> {
        let looked = self.look_over(requests);
        let right = self.check_here(&looked.claims);
        self.conclude(looked, &right, |_| true, |at| requests[at].1)
    }

    /// Which of these are right.
    pub(super) fn check_here(&self, claims: &[RequestClaim]) -> Vec<bool> {
        self.checks.each(claims)
    }

    /// What is known of the signatures of these requests, each with its session's key.
    pub(super) fn look_over(&self, requests: &[(SessionKey, &[u8])]) -> Looked {
        let mut looked = Looked { are_right: Vec::with_capacity(requests.len()), ..Looked::default() };
        for (at, (key, whole)) in requests.iter().enumerate() {
            let header = Requests::new(whole).flatten().next().map(|(header, ..)| header);
            let known = header.map_or(SignatureCheck::Wrong, |header| self.known(*key, &header, whole));
            looked.are_right.push(matches!(known, SignatureCheck::Right));
            if let (SignatureCheck::Unchecked(claim), Some(header)) = (known, header) {
                looked.open.push((at, header));
                looked.claims.push(claim);
            }
        }
        looked
    }

    /// Which requests have a right signature, now that it is known which of the claims are `right`. Those that still `matter` are
    /// remembered. `whole`: the request at an index.
    pub(super) fn conclude<'a>(
        &mut self,
        looked: Looked,
        right: &[bool],
        matter: impl Fn(&RequestHeader) -> bool,
        whole: impl Fn(usize) -> &'a [u8],
    ) -> Vec<bool> {
        let Looked { mut are_right, open, .. } = looked;
        self.checked += open.len() as u64;
        for ((at, header), right) in open.iter().zip(right) {
            are_right[*at] = *right;
            if *right && matter(header) {
                self.remember(header, whole(*at));
            }
        }
        are_right
    }
}

#[cfg(test)]
mod tests;

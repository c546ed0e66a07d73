//! Requests whose clients sign them: right signatures are as good as having heard a request, and a leader proposes no wrong ones.
//!
//! A session's key comes with its opening, which has to be heard from its client and is signed with that key, and becomes a part of the
//! session's state. From then on a proposal's request is known here when it came from its client, or when its signature is right. So a client
//! that tells the leader only does not hold up a slot, and a leader has nothing to fear from proposing what it was told.
//!
//! Each request is checked once: what was right is remembered until the request is executed. Signatures are checked together, those of all
//! requests that a leader admits in a turn, and those of all requests in a proposal that were not heard here. Where that fails they are
//! checked one by one, of a proposal one for each look at it: who proposes wrong ones gets no more work done than it makes.
//!
//! What came over its client's own link is not checked by who only vouches for it. What waits for long is, before this replica calls a
//! leader slow for leaving it out. Where replicas know clients that may not do everything, signatures count for nothing: whoever heard the
//! request may not have asked what its client may do. Tests: signed/tests.rs, check/sim/tests/all/signed.rs.

use super::LOOK_EVERY;
use bytes::Bytes;
use quorate_auth::{RequestChecks, RequestClaim, digest_of_request, request_statement};
use quorate_types::{
    ClusterId, ConnId, Digest, InstanceId, ReplicaId, RequestNumber, SessionId, SessionKey, Time, planted,
};
use quorate_wire::{RequestHeader, Requests, SIGNATURE_BYTES};
use std::collections::BTreeMap;

/// No more right signatures are remembered; of more the first sessions' are checked again.
const RIGHT_MAX: usize = 1 << 16;

/// No more signatures are checked for one member between two looks at what waits, under requests that it sends on.
const SENT_ON_MAX: u32 = 64;

/// Which signatures were right, and which requests wait for theirs to be checked.
#[derive(Debug)]
pub(super) struct Signed {
    checks: RequestChecks,
    cluster: ClusterId,
    /// Sessions without a key are refused.
    required: bool,
    /// Requests that are not executed yet and whose signature is right, by the digest of all their bytes.
    right: BTreeMap<(SessionId, RequestNumber), Digest>,
    /// What goes to an instance that leads here once its signature is checked.
    waiting: Vec<Given>,
    /// How many signatures were checked.
    checked: u64,
    /// How many were checked for each member since then, which said that a client asked this.
    sent_on: (Time, BTreeMap<ReplicaId, u32>),
}

/// A request that goes to an instance which leads here once its signature is checked.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// The instance.
    pub(super) to: InstanceId,
    /// The connection that it came over, if it was its client's.
    pub(super) conn: Option<ConnId>,
    /// The whole request.
    pub(super) whole: Bytes,
}

/// What is known of one signature.
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

    /// What goes to an instance once its signature is checked.
    pub(super) fn check_later(&mut self, given: Given) {
        self.waiting.push(given);
    }

    /// What was given since the last turn.
    pub(super) fn take_given(&mut self) -> Vec<Given> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether an opening is signed with the key that it names, and that is one.
    pub(super) fn opens(&self, key: SessionKey, header: &RequestHeader, whole: &[u8]) -> bool {
        let right = self.claim(key, header, whole).is_some_and(|claim| self.checks.one(&claim));
        right && self.checks.is_key(&key)
    }

    /// Whether one more signature is checked for a member, under a request that it sends on. Of each member few are, so that its wrong ones cost
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

    /// What is to be checked, if anything was signed.
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

    /// Whether a signature is right that is checked now.
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

    /// Which of these requests, each of a session with this key, are signed right.
    pub(super) fn check(&mut self, requests: &[(SessionKey, &[u8])]) -> Vec<bool> {
        let mut are_right = Vec::with_capacity(requests.len());
        let mut open: Vec<(usize, RequestHeader, RequestClaim)> = Vec::new();
        for (at, (key, whole)) in requests.iter().enumerate() {
            let header = Requests::new(whole).flatten().next().map(|(header, ..)| header);
            let known = header.map_or(SignatureCheck::Wrong, |header| self.known(*key, &header, whole));
            are_right.push(matches!(known, SignatureCheck::Right));
            if let (SignatureCheck::Unchecked(claim), Some(header)) = (known, header) {
                open.push((at, header, claim));
            }
        }
        let claims: Vec<RequestClaim> = open.iter().map(|(.., claim)| *claim).collect();
        self.checked += claims.len() as u64;
        for ((at, header, _), right) in open.iter().zip(self.checks.each(&claims)) {
            are_right[*at] = right;
            if right {
                self.remember(header, requests[*at].1);
            }
        }
        are_right
    }
}

#[cfg(test)]
mod tests;

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
//! request may not have asked what its client may do. Tests: `vouching/signed/tests.rs`, check/sim (`tests/signed.rs`).

use super::{Held, LOOK_EVERY, Vouching};
use crate::effects::Effects;
use crate::node::Node;
use bytes::Bytes;
use quorate_admit::Late;
use quorate_execute::{Executor, Lookup};
use quorate_order::auth::{RequestChecks, RequestClaim, request_statement};
use quorate_order::mod_smart::digest_of_request;
use quorate_types::{
    ClientId, ClusterId, ConnId, Digest, ReplicaId, RequestNumber, SessionId, SessionKey, Time, planted,
};
use quorate_wire::{RequestHeader, RequestKind, RequestProof, Requests, SIGNATURE_BYTES, read_opening};
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
    /// What goes to an instance that leads here once its signature is checked, and the connection it came over, if it was its client's.
    waiting: Vec<(usize, Option<ConnId>, Bytes)>,
    /// How many signatures were checked.
    checked: u64,
    /// How many were checked for each member since then, which said that a client asked this.
    sent_on: (Time, BTreeMap<ReplicaId, u32>),
}

/// What is known of one signature.
enum Known {
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

    pub(super) const fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// What is known of the signature under a request of a session with this key.
    fn known(&self, key: SessionKey, header: &RequestHeader, whole: &[u8]) -> Known {
        if planted("signature-unchecked") {
            return Known::Right;
        }
        match self.claim(key, header, whole) {
            None => Known::Wrong,
            Some(_) if self.remembers(header, whole) => Known::Right,
            Some(claim) => Known::Unchecked(claim),
        }
    }

    fn remembers(&self, header: &RequestHeader, whole: &[u8]) -> bool {
        self.right
            .get(&(header.session, header.number))
            .is_some_and(|right| *right == digest_of_request(whole))
    }

    /// What is to be checked, if anything was signed.
    fn claim(&self, key: SessionKey, header: &RequestHeader, whole: &[u8]) -> Option<RequestClaim> {
        let (signed, signature) = header.split(whole);
        let signature = *signature.first_chunk::<SIGNATURE_BYTES>()?;
        Some(RequestClaim { key, statement: request_statement(self.cluster, signed, b""), signature })
    }

    fn remember(&mut self, header: &RequestHeader, whole: &[u8]) {
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
    fn check_one(&mut self, claim: &RequestClaim) -> bool {
        self.checked += 1;
        self.checks.one(claim)
    }

    /// Which of these requests, each of a session with this key, are signed right.
    fn check(&mut self, requests: &[(SessionKey, &[u8])]) -> Vec<bool> {
        let mut verdicts = Vec::with_capacity(requests.len());
        let mut open: Vec<(usize, RequestHeader, RequestClaim)> = Vec::new();
        for (at, (key, whole)) in requests.iter().enumerate() {
            let header = Requests::new(whole).flatten().next().map(|(header, ..)| header);
            let known = header.map_or(Known::Wrong, |header| self.known(*key, &header, whole));
            verdicts.push(matches!(known, Known::Right));
            if let (Known::Unchecked(claim), Some(header)) = (known, header) {
                open.push((at, header, claim));
            }
        }
        let claims: Vec<RequestClaim> = open.iter().map(|(.., claim)| *claim).collect();
        self.checked += claims.len() as u64;
        for ((at, header, _), right) in open.iter().zip(self.checks.each(&claims)) {
            verdicts[*at] = right;
            if right {
                self.remember(header, requests[*at].1);
            }
        }
        verdicts
    }
}

impl Vouching {
    /// What goes to an instance once its signature is checked.
    pub(super) fn check_later(&mut self, at: usize, bytes: Bytes) {
        self.signed.waiting.push((at, None, bytes));
    }

    /// How many signatures of clients were checked.
    pub(crate) const fn signatures_checked(&self) -> u64 {
        self.signed.checked
    }

    /// How far a proposal's requests are known here, from where that was left; whether all are. `by_signature`: whether signatures count.
    pub(super) fn knows_all(&mut self, executor: &Executor, by_signature: bool, held: &mut Held) -> bool {
        let batch = held.batch.clone();
        for (header, body, whole) in batch.requests().flatten().skip(held.known) {
            let known = match header.kind {
                // Only leaders give commands to the engine, and here nobody takes a leader's word.
                RequestKind::System => false,
                RequestKind::OpenSession => self.heard_it(held, &header, body, whole),
                _ => match executor.lookup(header.session, header.number) {
                    Lookup::UnknownSession => false,
                    // Whatever it says, it is not executed.
                    Lookup::Ended | Lookup::Done { .. } | Lookup::Forgotten => true,
                    Lookup::Fresh => {
                        self.heard_it(held, &header, body, whole)
                            || (by_signature
                                && (self.is_tagged(executor, held, &header, whole)
                                    || self.is_signed(executor, held, &header, whole)))
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
    fn heard_it(&self, held: &Held, header: &RequestHeader, body: &[u8], whole: &[u8]) -> bool {
        let one_honest = self.trust.truth() as usize;
        held.seen.contains(&held.known) || self.heard.knows(header, body, whole, one_honest)
    }

    /// Whether the next request of a proposal is signed by its session's key.
    fn is_signed(
        &mut self,
        executor: &Executor,
        held: &mut Held,
        header: &RequestHeader,
        whole: &[u8],
    ) -> bool {
        let Some(key) = executor.key(header.session) else { return false };
        if held.wrong == Some(held.known) {
            return false;
        }
        if !std::mem::replace(&mut held.together, true) {
            self.check_together(executor, held);
        }
        let right = match self.signed.known(key, header, whole) {
            Known::Right => true,
            Known::Wrong => false,
            Known::Unchecked(claim) => {
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

    /// Checks the signatures of all requests of a proposal that were not heard here. If one is wrong, none is known to be right.
    fn check_together(&mut self, executor: &Executor, held: &Held) {
        let (mut claims, mut requests) = (Vec::new(), Vec::new());
        let one_honest = self.trust.truth() as usize;
        for (at, (header, body, whole)) in held.batch.requests().flatten().enumerate().skip(held.known) {
            let Some(key) = executor.key(header.session) else { continue };
            let open = matches!(executor.lookup(header.session, header.number), Lookup::Fresh)
                && !held.seen.contains(&at)
                && !self.heard.knows(&header, body, whole, one_honest);
            if open && let Known::Unchecked(claim) = self.signed.known(key, &header, whole) {
                claims.push(claim);
                requests.push((header, whole));
            }
        }
        self.signed.checked += claims.len() as u64;
        if self.signed.checks.all(&claims) {
            requests.iter().for_each(|(header, whole)| self.signed.remember(header, whole));
        }
    }
}

impl Node {
    /// Whether openings may be kept that this client sends: those with a key are signed with it, and it is one.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn check_openings(&self, client: ClientId, payload: &[u8]) -> Result<(), String> {
        let Signed { checks, required, .. } = self.vouching.signed;
        for (header, body, whole) in Requests::new(payload).flatten() {
            if header.kind != RequestKind::OpenSession {
                continue;
            }
            let (_, key) = read_opening(body);
            let Some(key) = key else {
                if required {
                    return Err("the replicas take signed requests only: write authentication = \"signatures\" in client.toml".into());
                }
                continue;
            };
            if self.vouching.heard.opened_by(client, header.number).is_some()
                || self.vouching.heard.knows(&header, body, whole, usize::MAX)
            {
                continue;
            }
            let right =
                self.vouching.signed.claim(key, &header, whole).is_some_and(|claim| checks.one(&claim));
            if !right || !checks.is_key(&key) {
                return Err(format!("{client} opens a session with a key that did not sign the opening"));
            }
        }
        Ok(())
    }

    /// Gives requests of one session each to an instance that leads here, if it does: at once, or when their signatures are checked.
    pub(super) fn give(
        &mut self,
        now: Time,
        at: usize,
        conn: Option<ConnId>,
        bytes: &Bytes,
        out: &mut Effects,
    ) {
        let Some(Ok((header, ..))) = Requests::new(bytes).next() else { return };
        if !self.vouching.is_everywhere(bytes) || self.vouching.is_opened(bytes) {
            return;
        }
        if self.needs_care(now, at, &header, bytes) {
            self.give_with_care(now, at, &header, bytes, out);
        } else if self.executor.key(header.session).is_some() {
            self.vouching.signed.waiting.push((at, conn, bytes.clone()));
        } else {
            self.admit(now, at, None, bytes, out);
        }
    }

    /// Checks what was given since the last turn, and admits what is signed right. Whoever sent anything else over its own link loses it.
    pub(super) fn check_given(&mut self, now: Time, out: &mut Effects) {
        let waiting = std::mem::take(&mut self.vouching.signed.waiting);
        if waiting.is_empty() {
            return;
        }
        let key_of = |bytes: &Bytes| {
            let (header, ..) = Requests::new(bytes).flatten().next()?;
            self.executor.key(header.session)
        };
        let keyed: Vec<_> =
            waiting.iter().filter_map(|given| key_of(&given.2).map(|key| (key, given))).collect();
        let requests: Vec<(SessionKey, &[u8])> =
            keyed.iter().map(|(key, (.., bytes))| (*key, &bytes[..])).collect();
        let verdicts = self.vouching.signed.check(&requests);
        let mut runs: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let mut wrong: Vec<(Option<ConnId>, bool, SessionId, RequestNumber)> = Vec::new();
        let heard = &self.vouching.heard;
        for ((_, (at, conn, bytes)), right) in keyed.iter().zip(verdicts) {
            if right {
                runs.entry(*at).or_default().extend_from_slice(bytes);
            } else if let Some((header, ..)) = Requests::new(bytes).flatten().next() {
                // What a member sends on under this number may be wrong where what came from the client is not.
                let forget = heard.holds(bytes);
                wrong.push((*conn, forget, header.session, header.number));
            }
        }
        for (at, run) in runs {
            if self.instances[at].order.standing().leading {
                self.admit(now, at, None, &run, out);
            }
        }
        for (conn, forget, session, number) in wrong {
            if forget {
                self.vouching.heard.forget(session, number);
            }
            if let Some(conn) = conn.filter(|conn| self.peers.conn(*conn).is_some()) {
                self.reject(
                    now,
                    conn,
                    format!("request {number} of {session} is not signed by its key"),
                    out,
                );
            }
        }
    }

    /// Of what waits for long, what this replica may call a leader slow for: not what a leader must not propose.
    pub(super) fn rightly_late(&mut self, late: Vec<Late>) -> Vec<Late> {
        let keys: Vec<Option<SessionKey>> = late.iter().map(|late| self.executor.key(late.session)).collect();
        let keyed = late.iter().zip(&keys).filter_map(|(late, key)| Some(((*key)?, &late.bytes[..])));
        let mut verdicts = self.vouching.signed.check(&keyed.collect::<Vec<_>>()).into_iter();
        let mut rightly = Vec::with_capacity(late.len());
        for (late, key) in late.into_iter().zip(keys) {
            if key.is_none() || verdicts.next().unwrap_or(false) {
                rightly.push(late);
            } else {
                self.vouching.heard.forget(late.session, late.number);
            }
        }
        rightly
    }

    /// Whether a request that a member sends on may be given to a leader here by its signature alone. Of each member few are, so that its
    /// wrong ones cost little.
    pub(super) fn shows_itself(&mut self, now: Time, from: ReplicaId, header: &RequestHeader) -> bool {
        if !self.signatures_count() || self.executor.key(header.session).is_none() {
            return false;
        }
        let (since, checked) = &mut self.vouching.signed.sent_on;
        if now.since(*since) > LOOK_EVERY {
            *since = now;
            checked.clear();
        }
        let of_member = checked.entry(from).or_default();
        *of_member += 1;
        *of_member <= SENT_ON_MAX
    }

    /// Whether a right signature is as good as having heard a request.
    pub(super) fn signatures_count(&self) -> bool {
        self.access.named.is_empty() && self.access.others.is_none()
    }
}

/// Whether clients may send such a request to replicas that only crash.
pub(crate) const fn is_plain(header: &RequestHeader) -> bool {
    matches!(header.proof, RequestProof::None)
}

#[cfg(test)]
mod tests;

//! The intake where replicas may lie: what this replica heard from clients itself, which proposals it vouches for, and what it waits for.
//!
//! Every client sends its requests to every replica. A request is kept ([`heard`]) until it is executed. This replica votes for a leader's
//! batch when it knows every request in it, the batch's time is not ahead of this replica's own, and a no-op stands for slots that decided
//! work needs. This part never calls a batch wrong; it only holds back this replica's own vote (docs/protocols/mod_smart.md).
//!
//! The protocol watches what waits for long. If that does not help, the request is sent to all members, since the leader may never have
//! heard of it.
//!
//! This file takes what comes in. `giving.rs` gives leaders here what they may propose, and tells members what they must know. `waiting.rs`
//! looks at proposals and requests that wait. Tests: tests.rs, check/sim (`--fault-model byzantine`).

mod care;
mod checking;
mod gaps;
mod giving;
pub(crate) mod heard;
mod openings;
mod proposals;
mod signed;
mod tags;
mod waiting;

use crate::facts::{Facts, Lookup, Sessions};
use crate::intake::{Out, Sender};
use bytes::Bytes;
use care::Caring;
use checking::Checking;
pub use checking::ChecksAway;
use gaps::Gap;
use heard::{Heard, HeardLimits, Late, Owner};
use openings::Openings;
use proposals::HeldProposal;
use quorate_auth::RequestChecks;
use quorate_types::{
    ClientId, ClusterId, Digest, Faults, InstanceId, Reject, ReplicaId, RequestNumber, SessionId, Span, Time,
    Trust, planted,
};
use quorate_wire::{Reply, ReplyStatus, RequestHeader, RequestKind, Requests, SharedKey, read_opening};
use signed::Signed;
use std::collections::BTreeMap;
use tags::Tags;

/// How often the kept requests are looked through.
const LOOK_EVERY: Span = Span::from_millis(50);
/// A member that did what no honest replica does is suspected for this long after the last time.
const SUSPECTED_FOR: Span = Span::from_secs(10);
/// The claim to own a session that nobody opens is forgotten after this time.
const CLAIM_TIME: Span = Span::from_secs(30);
/// The agreed time may run ahead of this replica's own by so much at once, and for long at most twice as fast.
pub const AHEAD_MAX: Span = Span::from_secs(10);
/// At most this many bytes of answers are put together for one frame of requests.
const ANSWER_BYTES: usize = 1 << 20;

/// The settings of the intake.
#[derive(Clone, Debug)]
pub struct VouchedConfig {
    /// The cluster's id, which is part of everything that clients sign.
    pub cluster: ClusterId,
    /// This replica.
    pub me: ReplicaId,
    /// All members.
    pub members: Vec<ReplicaId>,
    /// Which faults the cluster survives.
    pub faults: Faults,
    /// How many instances there are.
    pub instances: u16,
    /// Limits of what is kept.
    pub heard: HeardLimits,
    /// How signatures of clients are checked.
    pub checks: RequestChecks,
    /// How many of them others check.
    pub checks_away: ChecksAway,
    /// Sessions without a key are refused.
    pub signed_only: bool,
    /// The largest request, in bytes.
    pub request_bytes_max: usize,
    /// A batch of this many bytes is full.
    pub batch_bytes: usize,
    /// Leaders change although nothing is wrong.
    pub rotates: bool,
}

/// A member that did what no honest replica does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// The member.
    pub replica: ReplicaId,
    /// How many times it did such a thing.
    pub times: u64,
    /// The last thing that it did, in words.
    pub what: String,
}

/// What a member did that no honest replica does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Evidence {
    count: u64,
    /// The last thing, in words, and when that was.
    what: String,
    at: Time,
}

/// The intake of a replica where replicas may lie; see the module.
#[derive(Debug)]
pub struct Vouched {
    config: VouchedConfig,
    trust: Trust,
    heard: Heard,
    signed: Signed,
    checking: Checking,
    tags: Tags,
    openings: Openings,
    caring: Caring,
    /// Proposals that wait until this replica vouches for them, by instance.
    held: Vec<Vec<HeldProposal>>,
    /// What the protocol watches for this replica, and in which instance.
    watched: BTreeMap<Digest, (InstanceId, Late)>,
    gap: Gap,
    /// Sessions for which requests came before they were open here.
    woken: Vec<SessionId>,
    /// Instances that this replica began to lead; what it heard for them is given to them.
    began: Vec<InstanceId>,
    look_at: Option<Time>,
    /// How far the agreed time was taken ahead of real time so far (a leaky bucket).
    pulled: Time,
    evidence: BTreeMap<ReplicaId, Evidence>,
}

/// The instance that a request goes through: a function of its session, so that no replica chooses it.
fn instance_of(header: &RequestHeader, instances: u16) -> InstanceId {
    let key = match header.kind {
        RequestKind::OpenSession => header.number.number(),
        _ => u64::from(header.session.index),
    };
    InstanceId::new((key % u64::from(instances.max(1))) as u16 + 1)
}

/// All instances, in order.
fn all_instances(instances: u16) -> impl Iterator<Item = InstanceId> {
    (1..=instances).map(InstanceId::new)
}

/// The header of the first request in these bytes, if it can be read.
fn first_of(bytes: &[u8]) -> Option<RequestHeader> {
    Requests::new(bytes).next()?.ok().map(|(header, ..)| header)
}

impl Vouched {
    /// With nothing received.
    pub fn new(config: VouchedConfig) -> Self {
        let members = u32::try_from(config.members.len()).unwrap_or(u32::MAX).max(1);
        Self {
            trust: config.faults.among(members),
            heard: Heard::new(config.heard),
            signed: Signed::new(config.checks, config.cluster, config.signed_only),
            checking: Checking::new(config.checks, config.checks_away),
            tags: Tags::new(config.cluster, config.me, config.members.iter().copied()),
            openings: Openings::default(),
            caring: Caring::new(config.instances),
            held: (0..config.instances).map(|_| Vec::new()).collect(),
            watched: BTreeMap::new(),
            gap: Gap::default(),
            woken: Vec::new(),
            began: Vec::new(),
            look_at: None,
            pulled: Time::ZERO,
            evidence: BTreeMap::new(),
            config,
        }
    }

    /// A client sends this to all replicas, and to this one. A request that was executed before is answered. Any other is kept, and given
    /// to its instance if this replica leads it.
    pub fn arrived(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        from: &Sender<'_>,
        requests: &Bytes,
        out: &mut Vec<Out>,
    ) {
        let conn = from.conn;
        if let Err(why) = self.check_openings(from.client, requests) {
            return out.push(Out::Reject { conn, why });
        }
        self.caring.heard(now);
        self.look_at.get_or_insert(now.plus(LOOK_EVERY));
        let (mut run, mut replies) = (None, Vec::new());
        let mut at = 0;
        for (header, body, whole) in Requests::new(requests).flatten() {
            let end = at + whole.len();
            let bytes = requests.slice(at..end);
            let kept = self.hear_one(now, facts, from, (&header, body), bytes.clone(), &mut replies);
            if kept {
                self.openings.hear(now, &self.heard, whole);
            }
            let through = instance_of(&header, facts.instances());
            let mut to = Some(through).filter(|to| kept && facts.leads(*to));
            // What has to be checked, or said by others, is not admitted at once.
            let waits = facts.sessions().key(header.session).is_some()
                || !self.is_everywhere(whole)
                || self.needs_care(now, facts, through, &header, whole);
            if let Some(to) = to.take_if(|_| waits) {
                self.give(now, facts, to, Some(conn), &bytes, out);
            }
            // Neighbours that go through the same instance are admitted together.
            run = match (run, to) {
                (Some((to_before, start)), Some(to)) if to_before == to => Some((to, start)),
                (before, to) => {
                    admit_run(before, at, requests, out);
                    to.map(|to| (to, at))
                }
            };
            at = end;
        }
        admit_run(run, at, requests, out);
        if !replies.is_empty() {
            out.push(Out::Answer { conn, replies });
        }
    }

    /// Checks the openings that a client sends. An opening with a key must be signed with that key, and the key must be valid.
    fn check_openings(&self, client: ClientId, requests: &[u8]) -> Result<(), String> {
        for (header, body, whole) in Requests::new(requests).flatten() {
            if header.kind != RequestKind::OpenSession {
                continue;
            }
            let (_, key) = read_opening(body);
            let Some(key) = key else {
                if self.signed.required() {
                    return Err("the replicas take signed requests only: write authentication = \"signatures\" in client.toml".into());
                }
                continue;
            };
            if self.heard.opened_by(client, header.number).is_some()
                || self.heard.knows(&header, body, whole, usize::MAX)
            {
                continue;
            }
            if !self.signed.opens(key, &header, whole) {
                return Err(format!("{client} opens a session with a key that did not sign the opening"));
            }
        }
        Ok(())
    }

    /// The session that a client opened with this nonce, if the opening was executed. A replica that began with a checkpoint knows such a
    /// session only from the state. A remembered session that is over must not keep the client from opening another: replicas that began
    /// later know nothing of it.
    fn opened_by(
        &mut self,
        sessions: &dyn Sessions,
        client: ClientId,
        nonce: RequestNumber,
    ) -> Option<SessionId> {
        if let Some(session) = self.heard.opened_by(client, nonce) {
            if sessions.client(session).is_some() {
                return Some(session);
            }
            self.heard.forget_opened(client, nonce);
        }
        sessions.opened(client, nonce)
    }

    /// Keeps a request if it was not executed yet. Returns whether it is kept.
    fn hear_one(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        from: &Sender<'_>,
        (header, body): (&RequestHeader, &[u8]),
        whole: Bytes,
        replies: &mut Vec<u8>,
    ) -> bool {
        let (client, sessions) = (from.client, facts.sessions());
        let mut say = |status, body: &[u8]| {
            let reply = Reply { session: header.session, number: header.number, status, body };
            let (decided, mut digest) = (status == ReplyStatus::Done, [0; Digest::BYTES]);
            let shaped = if decided { from.mode.shape(reply, &mut digest) } else { Some(reply) };
            if replies.len() < ANSWER_BYTES
                && let Some(reply) = shaped
            {
                reply.write_to(replies);
            }
            false
        };
        if body.len() > self.config.request_bytes_max {
            return say(ReplyStatus::TooLarge, b"not executed: the request is over the size limit");
        }
        let owner = match header.kind {
            RequestKind::OpenSession => match self.opened_by(sessions, client, header.number) {
                Some(session) => {
                    let (status, number) = (ReplyStatus::SessionOpened, header.number);
                    Reply { session, number, status, body: b"" }.write_to(replies);
                    return false;
                }
                None => Owner::Open(client),
            },
            _ => match sessions.lookup(header.session, header.number) {
                Lookup::Fresh => Owner::Open(client),
                Lookup::UnknownSession => Owner::Claims(client),
                Lookup::Ended => return say(ReplyStatus::SessionExpired, b""),
                Lookup::UnderWay => return false,
                Lookup::Forgotten => return say(ReplyStatus::ReplyForgotten, b""),
                Lookup::Done { status, body } => {
                    let own = Some(body).filter(|_| status == ReplyStatus::Done);
                    let own = own.and_then(|body| sessions.own_reply(body));
                    return say(status, own.as_deref().unwrap_or(body));
                }
            },
        };
        if !(from.permits)(header, body) {
            return say(ReplyStatus::Forbidden, b"not executed: this client may not use these keys");
        }
        let opens = header.kind == RequestKind::OpenSession;
        let own = owner == Owner::Open(client) && (!opens || read_opening(body).0 == client);
        let kept = self.heard.hear(now, owner, header, whole.clone());
        if kept {
            self.say_held(now, facts, header, &whole);
            return true;
        }
        for held in self.held.iter_mut().flatten().filter(|_| own) {
            held.see(header, &whole);
        }
        // Its client need not wait until it is time to send it once more.
        say(ReplyStatus::Overloaded, b"not kept")
    }

    /// Enough members of another service say this to this replica, and it is what a client's own word is: it is kept until it is executed, and
    /// given to its instance if this replica leads it. `client` owns the session.
    pub fn gathered(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        client: ClientId,
        requests: &Bytes,
        out: &mut Vec<Out>,
    ) {
        self.caring.heard(now);
        self.look_at.get_or_insert(now.plus(LOOK_EVERY));
        for (header, _, whole) in Requests::new(requests).flatten() {
            let sessions = facts.sessions();
            let is_fresh = matches!(sessions.lookup(header.session, header.number), Lookup::Fresh);
            if !is_fresh || sessions.client(header.session) != Some(client) {
                continue;
            }
            let bytes = requests.slice_ref(whole);
            if self.heard.hear(now, Owner::Open(client), &header, bytes.clone()) {
                self.say_held(now, facts, &header, whole);
                self.admit_known(now, facts, &bytes, out);
            } else {
                self.held.iter_mut().flatten().for_each(|held| held.see(&header, whole));
            }
        }
    }

    /// A member forwards clients' requests.
    pub fn from_member(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        from: ReplicaId,
        requests: &Bytes,
        out: &mut Vec<Out>,
    ) {
        for (header, body, whole) in Requests::new(requests).flatten() {
            let sessions = facts.sessions();
            let fresh = match header.kind {
                RequestKind::OpenSession => {
                    self.opened_by(sessions, read_opening(body).0, header.number).is_none()
                }
                // The replica that tells of it may have executed more than this one.
                _ => matches!(
                    sessions.lookup(header.session, header.number),
                    Lookup::Fresh | Lookup::UnknownSession
                ),
            };
            let fits = body.len() <= self.config.request_bytes_max;
            if !fresh || !fits {
                continue;
            }
            let to = instance_of(&header, facts.instances());
            let enough = self.was_told_enough(now, facts, from, &header, whole);
            if enough || self.needs_care(now, facts, to, &header, whole) {
                self.admit_known(now, facts, &requests.slice_ref(whole), out);
            }
        }
    }

    /// A request was executed, or refused by execution. `opening`: the client, if the request opened a session.
    pub fn executed(
        &mut self,
        opening: Option<ClientId>,
        session: SessionId,
        number: RequestNumber,
        status: ReplyStatus,
    ) {
        match (opening, status) {
            (Some(client), _) => {
                self.openings.opened(client, number);
                if self.heard.opened(client, number, session) {
                    self.woken.push(session);
                }
            }
            // Proposed before the one that was due, which still waits, as this one does: a leader must not rid itself of either so.
            (None, ReplyStatus::ExpectedNumber) => {}
            (None, _) => {
                self.heard.executed(session, number);
                self.signed.executed(session, number);
            }
        }
    }

    /// Execution continues from a checkpoint of another replica: requests executed before that do not wait any more.
    pub fn caught_up(&mut self, sessions: &dyn Sessions) {
        if planted("claims-outlive-jumps") {
            return;
        }
        let of = |session| sessions.client(session).zip(sessions.last_number(session));
        let by: BTreeMap<_, _> = sessions.openings().collect();
        let woken = self.heard.caught_up(of, |client, nonce| by.get(&(client, nonce)).copied());
        self.woken.extend(woken);
    }

    /// An instance has another leader, or none. `planned`: nothing failed in the view before.
    pub fn led(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        instance: InstanceId,
        leader: Option<ReplicaId>,
        planned: bool,
    ) {
        if leader == Some(self.config.me) && !self.began.contains(&instance) {
            self.began.push(instance);
        }
        let rotates = self.config.rotates;
        if leader.is_some() && self.caring.begin(now, instance, facts.view(instance), (planned, rotates)) {
            self.heard.begin_anew();
            self.say_waiting(now, facts, instance);
        }
    }

    /// A client tells the keys of its tags.
    pub fn learn_keys(&mut self, client: ClientId, keys: &[SharedKey]) {
        self.tags.learn(client, keys);
    }

    /// The agreed time was taken this much ahead of this replica's own.
    pub fn pulled(&mut self, now: Time, by: Span) {
        self.pulled = self.pulled.max(now).plus(by).min(now.plus(AHEAD_MAX));
    }

    /// A member did what no honest replica does.
    pub fn note(&mut self, now: Time, from: ReplicaId, what: &Reject) {
        // Who joins or leaves speaks before others know that it is a member, and after they forgot it.
        if *what == Reject::UnknownPeer {
            return;
        }
        let evidence = self.evidence.entry(from).or_default();
        evidence.count += 1;
        evidence.what = what.to_string();
        evidence.at = now;
    }

    /// These are the voters from now on, in the order of their ids.
    pub fn meet(&mut self, voters: &[ReplicaId]) {
        if voters != self.config.members && !voters.is_empty() {
            self.config.members = voters.to_vec();
            self.trust = self.config.faults.among(voters.len() as u32);
            self.tags.meet(self.config.me, voters.iter().copied());
        }
    }

    /// Members that did what no honest replica does.
    pub fn suspects(&self) -> Vec<Suspect> {
        let suspect = |(replica, Evidence { count, what, .. }): (&ReplicaId, &Evidence)| Suspect {
            replica: *replica,
            times: *count,
            what: what.clone(),
        };
        self.evidence.iter().map(suspect).collect()
    }

    /// Whether this member did that lately.
    pub fn suspects_lately(&self, now: Time, member: ReplicaId) -> bool {
        self.evidence.get(&member).is_some_and(|evidence| now.since(evidence.at) < SUSPECTED_FOR)
    }

    /// When to call [`Self::look`].
    pub const fn deadline(&self) -> Option<Time> {
        self.look_at
    }

    /// Bytes of the requests that are kept.
    pub const fn byte_len(&self) -> usize {
        self.heard.byte_len()
    }

    /// How many of the clients' signatures were checked.
    pub const fn signatures_checked(&self) -> u64 {
        self.signed.checked()
    }

    /// Whether as many signatures are being checked elsewhere as may be at once.
    pub const fn checks_much(&self) -> bool {
        self.checking.is_full()
    }

    /// How many proposals wait until this replica vouches for them.
    pub fn held_back(&self) -> usize {
        self.held.iter().map(Vec::len).sum()
    }

    /// Panics with the name of the invariant that does not hold. Goes through everything.
    pub fn invariants(&self) {
        self.heard.invariants();
        self.signed.invariants();
        self.checking.invariants();
        self.tags.invariants();
    }
}

/// Admits a run of requests in a frame to an instance that is led here.
fn admit_run(run: Option<(InstanceId, usize)>, end: usize, requests: &Bytes, out: &mut Vec<Out>) {
    if let Some((instance, start)) = run {
        out.push(Out::Admit { instance, requests: requests.slice(start..end) });
    }
}

#[cfg(test)]
mod tests;

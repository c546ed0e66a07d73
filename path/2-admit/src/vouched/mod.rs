//! While replicas may lie: what this one heard of clients itself, which proposals it vouches for, and what it waits for.
//!
//! Every client sends its requests to every replica. What came is kept ([`heard`]) until it is executed. A leader's batch gets this
//! replica's vote when every request in it is known here, its time is not ahead of this replica's own, and a no-op stands for slots that
//! decided work needs. Nothing here calls a batch wrong: it holds this replica's own vote back, and no more (docs/protocols/mod_smart.md).
//!
//! What waits for long is watched by the protocol. If that does not help, it is sent to all: the leader may never have heard of it.
//!
//! This file takes what comes in; `giving.rs` gives leaders here what they may propose and tells members what they have to know;
//! `waiting.rs` looks at proposals and requests that wait. Tests: tests.rs, check/sim (`--fault-model byzantine`).

mod care;
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

/// What clients asked is looked through this often.
const LOOK_EVERY: Span = Span::from_millis(50);
/// A member that did what no honest one does is suspected for so long after the last time.
const SUSPECTED_FOR: Span = Span::from_secs(10);
/// Who says that a session is theirs that nobody opens is forgotten after this.
const CLAIM_TIME: Span = Span::from_secs(30);
/// The agreed time may run ahead of this replica's own by so much at once, and no faster than twice as fast for long.
pub const AHEAD_MAX: Span = Span::from_secs(10);
/// More bytes of answers than this are not put together for one frame of requests.
const ANSWER_BYTES: usize = 1 << 20;

/// What the intake is told once.
#[derive(Clone, Debug)]
pub struct VouchedConfig {
    /// Part of everything that clients sign.
    pub cluster: ClusterId,
    /// This replica.
    pub me: ReplicaId,
    /// All members.
    pub members: Vec<ReplicaId>,
    /// Which faults are survived.
    pub faults: Faults,
    /// How many instances there are.
    pub instances: u16,
    /// How much is kept.
    pub heard: HeardLimits,
    /// How signatures of clients are checked.
    pub checks: RequestChecks,
    /// Sessions without a key are refused.
    pub signed_only: bool,
    /// The largest request, in bytes.
    pub request_bytes_max: usize,
    /// A batch of so many bytes has no room for more.
    pub batch_bytes: usize,
    /// Leaders change although nothing is wrong.
    pub rotates: bool,
}

/// A member that did what no honest one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Who.
    pub replica: ReplicaId,
    /// How often.
    pub times: u64,
    /// The last of it, in words.
    pub what: String,
}

/// What a member did that no honest one does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Evidence {
    count: u64,
    /// The last of it, and when that was.
    what: String,
    at: Time,
}

/// The intake of a replica among others that may lie; see the module.
#[derive(Debug)]
pub struct Vouched {
    config: VouchedConfig,
    trust: Trust,
    heard: Heard,
    signed: Signed,
    tags: Tags,
    openings: Openings,
    caring: Caring,
    /// Proposals that wait for a word, by instance.
    held: Vec<Vec<HeldProposal>>,
    /// What the protocol watches for this replica, and through which instance it goes.
    watched: BTreeMap<Digest, (InstanceId, Late)>,
    gap: Gap,
    /// Sessions of which something came before they were open here.
    woken: Vec<SessionId>,
    /// Instances that this replica began to lead: what it heard goes there.
    began: Vec<InstanceId>,
    look_at: Option<Time>,
    /// How far ahead of real time the agreed time was taken so far (a leaky bucket).
    pulled: Time,
    evidence: BTreeMap<ReplicaId, Evidence>,
}

/// Which instance a request goes through: a function of its session, so that no replica chooses.
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

/// The first request of some, if it is one.
fn first_of(bytes: &[u8]) -> Option<RequestHeader> {
    Requests::new(bytes).next()?.ok().map(|(header, ..)| header)
}

impl Vouched {
    /// Nothing came yet.
    pub fn new(config: VouchedConfig) -> Self {
        let members = u32::try_from(config.members.len()).unwrap_or(u32::MAX).max(1);
        Self {
            trust: config.faults.among(members),
            heard: Heard::new(config.heard),
            signed: Signed::new(config.checks, config.cluster, config.signed_only),
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

    /// A client asks this of all replicas, and of this one among them. What was executed before is answered, what was not is kept, and
    /// given to the instances that this replica leads.
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

    /// Whether openings may be kept that this client sends: those with a key are signed with it, and it is one.
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

    /// The session that a client opened with this nonce, if that was executed. Who began with a checkpoint knows it by its state only; and who
    /// remembers one that is over must not keep it from being opened anew: those who began later say nothing of it.
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

    /// Whether it was not executed yet, and is kept.
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

    /// A member sends on what clients asked of it.
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
                // Who tells of it may be further than this replica.
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

    /// A request was executed, or refused by execution. `opening`: who opened a session with it.
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

    /// Execution goes on from a state that others reached: what clients asked before that waits no more.
    pub fn caught_up(&mut self, sessions: &dyn Sessions) {
        if planted("claims-outlive-jumps") {
            return;
        }
        let of = |session| sessions.client(session).zip(sessions.last_number(session));
        let by: BTreeMap<_, _> = sessions.openings().collect();
        let woken = self.heard.caught_up(of, |client, nonce| by.get(&(client, nonce)).copied());
        self.woken.extend(woken);
    }

    /// An instance has another leader, or none; `rotated`: nothing failed in the view before.
    pub fn led(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        instance: InstanceId,
        leader: Option<ReplicaId>,
        rotated: bool,
    ) {
        if leader == Some(self.config.me) && !self.began.contains(&instance) {
            self.began.push(instance);
        }
        let rotates = self.config.rotates;
        if leader.is_some() && self.caring.begin(now, instance, facts.view(instance), (rotated, rotates)) {
            self.heard.begin_anew();
            self.say_waiting(now, facts, instance);
        }
    }

    /// A client names the keys of its tags.
    pub fn learn_keys(&mut self, client: ClientId, keys: &[SharedKey]) {
        self.tags.learn(client, keys);
    }

    /// The agreed time went so much ahead of this replica's own.
    pub fn pulled(&mut self, now: Time, by: Span) {
        self.pulled = self.pulled.max(now).plus(by).min(now.plus(AHEAD_MAX));
    }

    /// A member did what no honest one does.
    pub fn note(&mut self, now: Time, from: ReplicaId, what: &Reject) {
        let evidence = self.evidence.entry(from).or_default();
        evidence.count += 1;
        evidence.what = what.to_string();
        evidence.at = now;
    }

    /// Members that did what no honest one does.
    pub fn suspects(&self) -> Vec<Suspect> {
        let suspect = |(replica, Evidence { count, what, .. }): (&ReplicaId, &Evidence)| Suspect {
            replica: *replica,
            times: *count,
            what: what.clone(),
        };
        self.evidence.iter().map(suspect).collect()
    }

    /// Whether a member did that, and was not silent about it for long since.
    pub fn suspects_lately(&self, now: Time, member: ReplicaId) -> bool {
        self.evidence.get(&member).is_some_and(|evidence| now.since(evidence.at) < SUSPECTED_FOR)
    }

    /// When to call [`Self::look`].
    pub const fn deadline(&self) -> Option<Time> {
        self.look_at
    }

    /// Bytes of requests that are kept.
    pub const fn byte_len(&self) -> usize {
        self.heard.byte_len()
    }

    /// How many signatures of clients were checked.
    pub const fn signatures_checked(&self) -> u64 {
        self.signed.checked()
    }

    /// How many proposals wait for this replica's word.
    pub fn held_back(&self) -> usize {
        self.held.iter().map(Vec::len).sum()
    }

    /// Panics with the name of an invariant that does not hold; goes through everything.
    pub fn invariants(&self) {
        self.heard.invariants();
        self.signed.invariants();
        self.tags.invariants();
    }
}

/// Requests from one place to another in a frame go to an instance that leads here.
fn admit_run(run: Option<(InstanceId, usize)>, end: usize, requests: &Bytes, out: &mut Vec<Out>) {
    if let Some((instance, start)) = run {
        out.push(Out::Admit { instance, requests: requests.slice(start..end) });
    }
}

#[cfg(test)]
mod tests;

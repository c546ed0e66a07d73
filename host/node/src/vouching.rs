//! While replicas may lie: what this one heard of clients itself, which proposals it vouches for, and what it waits for.
//!
//! Every client sends its requests to every replica. What came is kept (`path/2-admit`, `Heard`) until it is executed. A leader's batch gets
//! this replica's vote when every request in it is known here, its time is not ahead of this replica's own, and a no-op stands for slots
//! that decided work needs. Nothing here calls a batch wrong: it holds this replica's own vote back, and no more
//! (docs/protocols/mod_smart.md).
//!
//! What waits for long is watched by the protocol. If that does not help, it is sent to all: the leader may never have heard of it.
//! Tests: `vouching/tests.rs`, check/sim (`--fault-model byzantine`).

mod care;
mod openings;
mod signed;
mod tags;

pub(crate) use signed::is_plain;

use crate::clients::may_run;
use crate::config::NodeConfig;
use crate::effects::{Effects, Event};
use crate::node::Node;
use crate::status::SuspectStatus;
use crate::wants::Wants;
use bytes::Bytes;
use care::Care;
use openings::Openings;
use quorate_admit::{Heard, HeardLimits, Late, Owner};
use quorate_execute::{Lookup, Outcome};
use quorate_merge::Position;
use quorate_order::Input as OrderInput;
use quorate_order::Waited;
use quorate_order::mod_smart::digest_of_request;
use quorate_types::{
    ClientId, ConnId, Digest, Faults, Reject, ReplicaId, RequestNumber, SessionId, Slot, Span, Time, Trust,
    planted,
};
use quorate_wire::{
    Batch, ClientMessage, Frame, FrameKind, OutFrame, Reply, ReplyStatus, RequestHeader, RequestKind,
    Requests, SharedKey, read_opening, write_position,
};
use signed::Signed;
use std::collections::{BTreeMap, BTreeSet};
use tags::Tags;

/// What clients asked is looked through this often.
const LOOK_EVERY: Span = Span::from_millis(50);
/// Whoever waits for longer than this is watched.
const LATE_AFTER: Span = Span::from_millis(100);
/// No more of it is watched with one look.
const LATE_MAX: usize = 256;
/// No more of it, and of what waits behind it, is given to a leader here once more with one look.
const GIVEN_MAX: usize = 1024;
/// A member that did what no honest one does is suspected for so long after the last time.
const SUSPECTED_FOR: Span = Span::from_secs(10);
/// Who says that a session is theirs that nobody opens is forgotten after this.
const CLAIM_TIME: Span = Span::from_secs(30);
/// The agreed time may run ahead of this replica's own by so much at once, and no faster than twice as fast for long.
pub(crate) const AHEAD_MAX: Span = Span::from_secs(10);
/// And behind it by so much: a leader must not hold time back.
const BEHIND_MAX: Span = Span::from_secs(5);
/// Proposals of one instance that wait for a word; the protocol asks about few slots at a time.
const HELD_MAX: usize = 8;
/// So many requests of a batch tell how long it waited.
const SAMPLES_MAX: usize = 64;
/// More bytes of answers than this are not put together for one frame of requests.
const ANSWER_BYTES: usize = 1 << 20;

/// A proposal that the protocol asked about.
#[derive(Debug)]
struct Held {
    slot: Slot,
    digest: Digest,
    batch: Batch,
    /// So many of its requests are known.
    known: usize,
    /// Those that came from their clients when there was no room to keep them.
    seen: BTreeSet<usize>,
    /// The signatures of those that were not heard here were checked together.
    together: bool,
    /// The signature of the next one is wrong: it has to be heard.
    wrong: Option<usize>,
    /// The tag of this one was wrong when so many keys were known.
    wrong_tag: Option<(usize, u64)>,
    /// Where its requests stand, once that was needed.
    places: BTreeMap<(SessionId, RequestNumber), usize>,
}

impl Held {
    fn new(slot: Slot, digest: Digest, batch: Batch) -> Self {
        let (seen, places) = (BTreeSet::new(), BTreeMap::new());
        Self { slot, digest, batch, known: 0, seen, together: false, wrong: None, wrong_tag: None, places }
    }

    /// A client sends this, and there is no room to keep it.
    fn see(&mut self, header: &RequestHeader, whole: &[u8]) {
        if self.places.is_empty() {
            let headers = self.batch.requests().flatten().map(|(header, ..)| (header.session, header.number));
            self.places = headers.enumerate().map(|(at, key)| (key, at)).collect();
        }
        if let Some(at) = self.places.get(&(header.session, header.number))
            && self.batch.requests().flatten().nth(*at).is_some_and(|(.., own)| own == whole)
        {
            self.seen.insert(*at);
        }
    }
}

/// What a member did that no honest one does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Evidence {
    count: u64,
    /// The last of it, and when that was.
    what: String,
    at: Time,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Vouching {
    faults: Faults,
    trust: Trust,
    heard: Heard,
    signed: Signed,
    tags: Tags,
    openings: Openings,
    /// By instance.
    care: Vec<Care>,
    /// What is said at the end of the turn, and what was lately.
    saying: Vec<u8>,
    said: BTreeMap<Digest, Time>,
    /// When each member said last what it had heard; until when that is a reason to do so as well.
    tellers: BTreeMap<ReplicaId, Time>,
    helps_until: Time,
    /// When the first request came.
    born: Option<Time>,
    /// By instance.
    held: Vec<Vec<Held>>,
    /// What the protocol watches for this replica, and through which instance it goes.
    watched: BTreeMap<Digest, (usize, Late)>,
    /// The place that the merge waits for, which is watched, too.
    pub(crate) gap: Option<Position>,
    /// Sessions of which something came before they were open here.
    woken: Vec<SessionId>,
    /// Instances that this replica began to lead: what it heard goes there.
    began: Vec<usize>,
    look_at: Option<Time>,
    /// How far ahead of real time the agreed time was taken so far (a leaky bucket).
    pulled: Time,
    evidence: BTreeMap<ReplicaId, Evidence>,
    wants: Wants,
}

impl Vouching {
    /// As the configuration says.
    pub(crate) fn of(config: &NodeConfig) -> Self {
        let bytes_max = config.admission.queue_bytes_max;
        let limits =
            HeardLimits { bytes_max, client_bytes_max: bytes_max / 4, window: config.sessions.window };
        let checks = config.order.request_checks();
        let signed = Signed::new(checks, config.members.cluster(), config.signed_only);
        let members = config.members.all().len();
        let all = config.members.all().iter().map(|member| member.replica);
        let tags = Tags::new(config.members.cluster(), config.members.me(), all);
        let faults = config.order.faults;
        Self { tags, ..Self::new(faults, members, usize::from(config.instances), limits, signed) }
    }

    fn new(faults: Faults, members: usize, instances: usize, limits: HeardLimits, signed: Signed) -> Self {
        Self {
            faults,
            trust: faults.among(u32::try_from(members).unwrap_or(u32::MAX).max(1)),
            heard: Heard::new(limits),
            tags: Tags::new(signed.cluster(), ReplicaId::new(0), std::iter::empty()),
            signed,
            openings: Openings::default(),
            care: vec![Care::default(); instances],
            saying: Vec::new(),
            said: BTreeMap::new(),
            tellers: BTreeMap::new(),
            helps_until: Time::ZERO,
            born: None,
            held: (0..instances).map(|_| Vec::new()).collect(),
            watched: BTreeMap::new(),
            gap: None,
            woken: Vec::new(),
            began: Vec::new(),
            look_at: None,
            pulled: Time::ZERO,
            evidence: BTreeMap::new(),
            wants: Wants::default(),
        }
    }

    /// Whether replicas may lie here. If not, nothing of this module is used.
    pub(crate) fn is_on(&self) -> bool {
        self.faults.may_lie()
    }

    /// How many replicas answer a request when it is executed: so many that f+1 of them are there and do not lie.
    pub(crate) fn repliers(&self) -> usize {
        if self.is_on() { 2 * self.trust.faults() as usize + 1 } else { usize::MAX }
    }

    /// Whether a leader may propose a command to the engine: nobody would vouch for it.
    pub(crate) fn may_command(&self) -> Result<(), String> {
        if self.is_on() {
            return Err("a cluster that survives Byzantine faults keeps the feature level that it was made with: make a new one from a \
                        backup (`quorate backup`)"
                .into());
        }
        Ok(())
    }

    pub(crate) fn note(&mut self, now: Time, from: ReplicaId, what: &Reject) {
        let evidence = self.evidence.entry(from).or_default();
        evidence.count += 1;
        evidence.what = what.to_string();
        evidence.at = now;
    }

    /// A member wants everything up to this place. How far an honest one does, as far as is known.
    pub(crate) fn wanted(&mut self, from: ReplicaId, place: Position) -> Option<Position> {
        let one_honest = if planted("gap-of-one") { 1 } else { self.trust.truth() as usize };
        self.wants.wants(from, place, one_honest)
    }

    /// Since when what is in a batch waits here, if it is not done yet: what half of the clients in it sent. One of them alone can not make
    /// a leader look slow that serves others as well. `room`: bytes of a batch to which nothing more is added.
    fn waited(&self, batch: &Batch, fresh: impl Fn(&RequestHeader) -> bool, room: usize) -> Option<Waited> {
        let step = (batch.header().count as usize).div_ceil(SAMPLES_MAX).max(1);
        let (mut since, mut bytes) = (Vec::new(), 0);
        for (header, body, whole) in batch.requests().flatten().step_by(step) {
            if let Some(known) = self.heard.since(&header, body).filter(|_| fresh(&header)) {
                since.push(known);
                bytes += whole.len() * step;
            }
        }
        since.sort_unstable();
        since.dedup_by_key(|(client, _)| *client);
        since.sort_unstable_by_key(|(_, since)| *since);
        let (_, since) = *since.get(since.len() / 2)?;
        Some(Waited { since, full: bytes * 2 >= room })
    }

    /// A client names the keys of its tags.
    pub(crate) fn learn_keys(&mut self, client: ClientId, keys: &[SharedKey]) {
        if self.is_on() {
            self.tags.learn(client, keys);
        }
    }

    pub(crate) fn began_to_lead(&mut self, at: usize) {
        if self.is_on() && !self.began.contains(&at) {
            self.began.push(at);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.look_at
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.heard.byte_len()
    }

    /// The agreed time went so much ahead of this replica's own.
    pub(crate) fn pulled(&mut self, now: Time, by: Span) {
        self.pulled = self.pulled.max(now).plus(by).min(now.plus(AHEAD_MAX));
    }

    fn executed(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            match (outcome.opening, outcome.status) {
                (Some(client), _) => {
                    self.openings.opened(client, outcome.number);
                    if self.heard.opened(client, outcome.number, outcome.session) {
                        self.woken.push(outcome.session);
                    }
                }
                // Proposed before the one that was due, which still waits, as this one does: a leader must not rid itself of either so.
                (None, ReplyStatus::ExpectedNumber) => {}
                (None, _) => {
                    self.heard.executed(outcome.session, outcome.number);
                    self.signed.executed(outcome.session, outcome.number);
                }
            }
        }
    }

    fn may_be_ahead(&self, now: Time, by: Span) -> bool {
        by == Span::ZERO || self.pulled.max(now).plus(by) <= now.plus(AHEAD_MAX)
    }

    pub(crate) fn invariants(&self) {
        self.heard.invariants();
        self.signed.invariants();
        self.tags.invariants();
    }
}

/// Which instance a request goes through: a function of its session, so that no replica chooses.
fn instance_of(header: &RequestHeader, instances: usize) -> usize {
    let key = match header.kind {
        RequestKind::OpenSession => header.number.number(),
        _ => u64::from(header.session.index),
    };
    (key % instances.max(1) as u64) as usize
}

impl Node {
    /// A client asks this of all replicas, and of this one among them. What was executed before is answered, what was not is kept, and
    /// given to the instances that this replica leads.
    pub(crate) fn on_heard(
        &mut self,
        now: Time,
        (conn, client): (ConnId, ClientId),
        payload: &Bytes,
        out: &mut Effects,
    ) {
        let bound = self.bind(conn, client, payload);
        if let Err(text) = bound.and_then(|()| self.check_openings(client, payload)) {
            return self.reject(now, conn, text, out);
        }
        self.vouching.born.get_or_insert(now);
        self.vouching.look_at.get_or_insert(now.plus(LOOK_EVERY));
        let (count, mut run, mut answer) =
            (self.instances.len(), None, std::mem::take(&mut self.turn.answer));
        let mut at = 0;
        for (header, body, whole) in Requests::new(payload).flatten() {
            let end = at + whole.len();
            let bytes = payload.slice(at..end);
            let kept = self.hear_one(now, (conn, client), (&header, body), bytes.clone(), &mut answer);
            if kept {
                self.vouching.hear_opening(now, whole);
            }
            let through = instance_of(&header, count);
            let mut to = Some(through).filter(|to| kept && self.instances[*to].order.standing().leading);
            // What has to be checked, or said by others, is not admitted at once.
            let waits = self.executor.key(header.session).is_some()
                || !self.vouching.is_everywhere(whole)
                || self.needs_care(now, through, &header, whole);
            if let Some(at) = to.take_if(|_| waits) {
                self.give(now, at, Some(conn), &bytes, out);
            }
            // Neighbours that go through the same instance are admitted together.
            run = match (run, to) {
                (Some((to_before, from)), Some(to)) if to_before == to => Some((to, from)),
                (before, to) => {
                    self.admit_run(now, before, at, payload, out);
                    to.map(|to| (to, at))
                }
            };
            at = end;
        }
        self.admit_run(now, run, at, payload, out);
        if !answer.is_empty() {
            write_position(&mut answer, self.executor.seq());
            out.send(conn, OutFrame::new(FrameKind::Replies, &answer, vec![]));
            answer.clear();
        }
        self.turn.answer = answer;
    }

    fn admit_run(
        &mut self,
        now: Time,
        run: Option<(usize, usize)>,
        end: usize,
        payload: &[u8],
        out: &mut Effects,
    ) {
        if let Some((to, from)) = run {
            self.admit(now, to, None, &payload[from..end], out);
        }
    }

    /// The session that a client opened with this nonce, if that was executed. Who began with a checkpoint knows it by its state only; and who
    /// remembers one that is over must not keep it from being opened anew: those who began later say nothing of it.
    fn opened_by(&mut self, client: ClientId, nonce: RequestNumber) -> Option<SessionId> {
        if let Some(session) = self.vouching.heard.opened_by(client, nonce) {
            if self.executor.client(session).is_some() {
                return Some(session);
            }
            self.vouching.heard.forget_opened(client, nonce);
        }
        self.executor.opened(client, nonce)
    }

    /// Whether it was not executed yet, and is kept.
    fn hear_one(
        &mut self,
        now: Time,
        (conn, client): (ConnId, ClientId),
        (header, body): (&RequestHeader, &[u8]),
        whole: Bytes,
        answer: &mut Vec<u8>,
    ) -> bool {
        let mode = self.routes.mode(conn);
        let mut say = |status, body: &[u8]| {
            let reply = Reply { session: header.session, number: header.number, status, body };
            let (decided, mut digest) = (status == ReplyStatus::Done, [0; Digest::BYTES]);
            let shaped = if decided { mode.shape(reply, &mut digest) } else { Some(reply) };
            if answer.len() < ANSWER_BYTES
                && let Some(reply) = shaped
            {
                reply.write_to(answer);
            }
            false
        };
        if body.len() > self.config.admission.request_bytes_max {
            return say(ReplyStatus::TooLarge, b"not executed: the request is over the size limit");
        }
        let owner = match header.kind {
            RequestKind::OpenSession => match self.opened_by(client, header.number) {
                Some(session) => {
                    let (status, number) = (ReplyStatus::SessionOpened, header.number);
                    Reply { session, number, status, body: b"" }.write_to(answer);
                    return false;
                }
                None => Owner::Open(client),
            },
            _ => match self.executor.lookup(header.session, header.number) {
                Lookup::Fresh => Owner::Open(client),
                Lookup::UnknownSession => Owner::Claims(client),
                Lookup::Ended => return say(ReplyStatus::SessionExpired, b""),
                Lookup::Forgotten => return say(ReplyStatus::ReplyForgotten, b""),
                Lookup::Done { status, body } => {
                    let own = Some(body).filter(|_| status == ReplyStatus::Done);
                    let own = own.and_then(|body| self.executor.own_replies(body));
                    return say(status, own.as_deref().unwrap_or(body));
                }
            },
        };
        let limits = self.access.of(self.peers.identity(conn));
        let permitted = limits.is_none_or(|limits| match header.kind {
            RequestKind::Commands => may_run(&self.executor, body, limits),
            RequestKind::Query => self.executor.uses_only(body, true, |used| limits.cover(used)),
            _ => true,
        });
        if !permitted {
            return say(ReplyStatus::Forbidden, b"not executed: this client may not use these keys");
        }
        let opens = header.kind == RequestKind::OpenSession;
        let own = owner == Owner::Open(client) && (!opens || read_opening(body).0 == client);
        let kept = self.vouching.heard.hear(now, owner, header, whole.clone());
        if kept {
            self.say_held(now, header, &whole);
            return true;
        }
        for held in self.vouching.held.iter_mut().flatten().filter(|_| own) {
            held.see(header, &whole);
        }
        // Its client need not wait until it is time to send it once more.
        say(ReplyStatus::Overloaded, b"not kept")
    }

    /// The protocol asks whether everything in a batch is from whom it says.
    pub(crate) fn on_examine(&mut self, at: usize, slot: Slot, digest: Digest, batch: Batch) {
        let held = &mut self.vouching.held[at];
        held.retain(|other| (other.slot, other.digest) != (slot, digest));
        held.push(Held::new(slot, digest, batch));
        if held.len() > HELD_MAX {
            held.remove(0);
        }
        self.vouch_in(at, self.now);
    }

    /// Looks again at what was not vouched for.
    pub(crate) fn vouch(&mut self, now: Time, out: &mut Effects) {
        if !self.vouching.is_on() {
            return;
        }
        for session in std::mem::take(&mut self.vouching.woken) {
            let bytes: Vec<Bytes> = self.vouching.heard.of_session(session).cloned().collect();
            for bytes in &bytes {
                if let Some((header, ..)) = Requests::new(bytes).flatten().next() {
                    self.say_held(now, &header, bytes);
                }
                self.admit_known(now, bytes, out);
            }
        }
        for at in std::mem::take(&mut self.vouching.began) {
            if self.instances[at].order.standing().leading {
                self.admit_all(now, at, out);
            } else if self.instances[at].leader.1 == Some(self.config.members.me()) {
                self.vouching.began.push(at);
            }
        }
        self.check_given(now, out);
        self.say_openings(now, out);
        self.send_saying(out);
        let mut any = false;
        for at in 0..self.instances.len() {
            any |= self.vouch_in(at, now);
        }
        if any {
            self.after_order(now, out);
        }
    }

    /// Whether anything was vouched for.
    fn vouch_in(&mut self, at: usize, now: Time) -> bool {
        if self.vouching.held[at].is_empty() {
            return false;
        }
        let decided = self.instances[at].decided;
        let mut held = std::mem::take(&mut self.vouching.held[at]);
        held.retain(|held| held.slot > decided);
        let mut any = false;
        held.retain_mut(|held| {
            let known = self.may_vouch(at, now, held);
            if known {
                any = true;
                let (slot, digest, waited) = (held.slot, held.digest, self.waited(&held.batch));
                self.instances[at].step(now, OrderInput::Vouched { slot, digest, waited });
            }
            !known
        });
        self.vouching.held[at] = held;
        any
    }

    fn may_vouch(&mut self, at: usize, now: Time, held: &mut Held) -> bool {
        if let Some(target) = held.batch.no_op_target() {
            return self.instances.len() > 1 && self.merge.is_needed(self.instances[at].id, target);
        }
        let (own, time) = (self.clock.read(now), held.batch.header().time);
        // Execution takes the larger one of a batch's time and the time before: who proposes 0 lets time stand still, and no more.
        let behind = own.since(time.max(self.executor.time()));
        // Who is further off than that may be off itself.
        let held_back = behind > BEHIND_MAX && behind <= AHEAD_MAX && !planted("time-held-back");
        if held_back || !self.vouching.may_be_ahead(now, time.since(own)) {
            return false;
        }
        let by_signature = self.signatures_count();
        self.vouching.knows_all(&self.executor, by_signature, held)
    }

    fn waited(&self, batch: &Batch) -> Option<Waited> {
        let fresh = |header: &RequestHeader| {
            header.kind == RequestKind::OpenSession
                || matches!(self.executor.lookup(header.session, header.number), Lookup::Fresh)
        };
        self.vouching.waited(batch, fresh, self.config.admission.batch_bytes)
    }

    /// A batch was executed: what it answered waits no more.
    pub(crate) fn heard_executed(&mut self) {
        if !self.vouching.is_on() {
            return;
        }
        self.vouching.executed(self.outcomes.list());
    }

    /// Execution goes on from a state that others reached: what clients asked before that waits no more.
    pub(crate) fn heard_caught_up(&mut self) {
        if !self.vouching.is_on() || planted("claims-outlive-jumps") {
            return;
        }
        let executor = &self.executor;
        let of = |session| executor.client(session).zip(executor.last_number(session));
        let by: BTreeMap<_, _> = executor.sessions().openings().collect();
        let woken = self.vouching.heard.caught_up(of, |client, nonce| by.get(&(client, nonce)).copied());
        self.vouching.woken.extend(woken);
    }

    /// Everything that was heard and goes through an instance that leads here now.
    fn admit_all(&mut self, now: Time, at: usize, out: &mut Effects) {
        let count = self.instances.len();
        let goes = |bytes: &&Bytes| {
            Requests::new(bytes)
                .flatten()
                .next()
                .is_some_and(|(header, ..)| instance_of(&header, count) == at)
        };
        let all: Vec<Bytes> = self.vouching.heard.all().filter(goes).cloned().collect();
        for bytes in all {
            self.give(now, at, None, &bytes, out);
        }
    }

    /// A request that was heard, or sent on by enough members, goes to its instance, if that leads here.
    fn admit_known(&mut self, now: Time, bytes: &Bytes, out: &mut Effects) {
        let Some(Ok((header, ..))) = Requests::new(bytes).next() else { return };
        let at = instance_of(&header, self.instances.len());
        if self.instances[at].order.standing().leading {
            self.give(now, at, None, bytes, out);
        }
    }

    /// What waits for long goes to its instance, if that leads here, and so does what waits behind it in its session: given one at a time it
    /// would never catch up with what its client sends. How many did, of so many at most.
    fn admit_from(&mut self, now: Time, late: &Late, most: usize, out: &mut Effects) -> usize {
        if late.opener.is_some() {
            self.admit_known(now, &late.bytes, out);
            return 0;
        }
        let waits = self.vouching.heard.of_session(late.session).take(most);
        let waits: Vec<Bytes> = waits.cloned().collect();
        waits.iter().for_each(|bytes| self.admit_known(now, bytes, out));
        waits.len()
    }

    /// Looks at what waits for long: it is watched, and given to an instance that leads here once more.
    pub(crate) fn look_at_late(&mut self, now: Time, out: &mut Effects) {
        if self.vouching.look_at.is_none_or(|at| at > now) {
            return;
        }
        let executor = &self.executor;
        let next = |session| executor.last_number(session).map(RequestNumber::next);
        let late = self.vouching.heard.late(now, LATE_AFTER, next);
        // No leader has to know of an opening that too few said.
        let late = late.filter(|late| self.vouching.is_everywhere(&late.bytes));
        // Nor of anything while care is taken.
        let late = late.filter(|late| self.is_due(now, &late.bytes));
        let late: Vec<Late> = late.take(LATE_MAX).collect();
        self.vouching.say_what_waits(now);
        self.say_again(now);
        let late = self.rightly_late(late);
        let count = self.instances.len();
        self.watch_gap(now);
        let unmerged: Vec<_> = (0..count).map(|at| self.only_unmerged(at)).collect();
        let mut given = 0;
        for late in late {
            given += self.admit_from(now, &late, GIVEN_MAX - given, out);
            let Some(Ok((header, ..))) = Requests::new(&late.bytes).next() else { continue };
            let digest = digest_of_request(&late.bytes);
            let at = instance_of(&header, count);
            if unmerged[at].contains(&(header.session, header.number)) {
                continue;
            }
            if self.vouching.watched.insert(digest, (at, late)).is_none() {
                self.step_in(at, now, OrderInput::Watch(digest));
            }
        }
        let over: Vec<(Digest, usize)> = self
            .vouching
            .watched
            .iter()
            .filter(|(_, (_, late))| !self.vouching.heard.waits(late) || !self.is_due(now, &late.bytes))
            .map(|(digest, (at, _))| (*digest, *at))
            .collect();
        for (digest, at) in over {
            self.vouching.watched.remove(&digest);
            self.step_in(at, now, OrderInput::Unwatch(digest));
        }
        let executor = &self.executor;
        let is_over = |session| matches!(executor.lookup(session, RequestNumber::FIRST), Lookup::Ended);
        self.vouching.heard.tidy(now, is_over, CLAIM_TIME);
        let waits = !self.vouching.watched.is_empty() || self.vouching.gap.is_some();
        let idle = self.vouching.heard.byte_len() == 0 && !waits;
        self.vouching.look_at = (!idle).then(|| now.plus(LOOK_EVERY));
        self.after_order(now, out);
    }

    /// The leader was given time enough: all hear of it.
    pub(crate) fn on_overdue(&mut self, request: Digest, out: &mut Effects) {
        let Some((_, late)) = self.vouching.watched.get(&request) else { return };
        out.event(Event::Overdue { session: late.session, number: late.number });
        for member in self.config.members.all() {
            if let Some(conn) = self.peers.to(member.replica) {
                out.send(conn, OutFrame::new(FrameKind::Requests, &late.bytes, vec![]));
            }
        }
    }

    /// A member sends on what a client asked of it.
    pub(crate) fn on_sent_on(
        &mut self,
        now: Time,
        (conn, from): (ConnId, ReplicaId),
        frame: Frame,
        out: &mut Effects,
    ) {
        let bytes = match ClientMessage::decode(frame) {
            Ok(ClientMessage::Requests(bytes)) if self.vouching.is_on() => bytes,
            Ok(_) => return self.reject(now, conn, "a member sends requests of clients".into(), out),
            Err(why) => return self.reject(now, conn, why.to_string(), out),
        };
        for (header, body, whole) in Requests::new(&bytes).flatten() {
            let fresh = match header.kind {
                RequestKind::OpenSession => self.opened_by(read_opening(body).0, header.number).is_none(),
                // Who tells of it may be further than this replica.
                _ => matches!(
                    self.executor.lookup(header.session, header.number),
                    Lookup::Fresh | Lookup::UnknownSession
                ),
            };
            let fits = body.len() <= self.config.admission.request_bytes_max;
            if !fresh || !fits {
                continue;
            }
            let at = instance_of(&header, self.instances.len());
            let enough = self.was_told_enough(now, from, &header, whole);
            if enough || self.needs_care(now, at, &header, whole) {
                self.admit_known(now, &bytes.slice_ref(whole), out);
            }
        }
    }

    /// Whether the member at the other end of a connection did what no honest one does, and was not silent about it for long since: the
    /// host gives it a small part of its time.
    pub fn suspects_lately(&self, now: Time, conn: ConnId) -> bool {
        self.vouching.is_on()
            && self
                .member_at(conn)
                .and_then(|member| self.vouching.evidence.get(&member))
                .is_some_and(|evidence| now.since(evidence.at) < SUSPECTED_FOR)
    }

    /// Members that did what no honest one does.
    pub(crate) fn suspects(&self) -> Vec<SuspectStatus> {
        let evidence = self.vouching.evidence.iter().filter(|_| self.vouching.is_on());
        let suspect = |(id, Evidence { count, what, .. }): (&ReplicaId, &Evidence)| SuspectStatus {
            replica: id.number(),
            times: *count,
            what: what.clone(),
        };
        evidence.map(suspect).collect()
    }

    /// How many votes of proposals are held back here now.
    pub(crate) fn held_back(&self) -> usize {
        self.vouching.held.iter().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests;

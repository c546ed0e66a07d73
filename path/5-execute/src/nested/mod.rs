//! Requests that ask other services: they halt, others run meanwhile, and they go on when the answer stands in the order.
//!
//! In: requests and answers, in the order of the log. Out: nested requests, and the outcomes of requests, in the batch in which they end.
//! A command runs in legs, from one halt to the next. Each leg counts as a whole or not at all, and runs while no other does. What a command
//! did so far is its journal, a part of the replicated state; the future that runs is a cache of it ([`runner`]).
//!
//! Source: Kapritsos, "Replicating Multithreaded Web Services" (Adam), chapter 4. The rules, and what differs: docs/protocols/adam.md; why
//! futures: docs/decisions/0066-futures-as-syntax.md.
//! Invariants: INV-NESTED-1 (`runner.rs`), INV-NESTED-2 (`locks.rs`), INV-NESTED-3 (`outgoing.rs`), INV-NESTED-4 to 6 (here).
//! Tests: `tests/all/nested/`, `runner/tests.rs`, and the golden scripts in `check/script/scripts/nested`.

mod call;
mod chain;
mod checkpoint;
mod codec;
mod journal;
mod legs;
mod locks;
mod outgoing;
mod request;
mod ring;
mod rules;
mod runner;
mod service;

use crate::around::SessionEnd;
use crate::context::Context;
use crate::outcomes::Outcomes;
use crate::parallel::{no_replies, of_query, write_replies};
use crate::service::{BatchReplies, Service};
use crate::sessions::SessionTable;
use bytes::Bytes;
pub use call::Call;
pub use chain::{Chain, Refusal, ServiceId};
pub(crate) use checkpoint::NestedPart;
use locks::Locks;
pub use outgoing::{Answered, NestedRequest};
use outgoing::{Member, Outgoing};
use quorate_types::{AgreedTime, RequestNumber, SessionId, planted};
use quorate_wire::{ReplyStatus, RequestHeader, RequestKind};
use request::{Halt, Key, Request};
use ring::Ring;
pub use rules::{NestedRules, Schedule};
use serde::Serialize;
pub use service::{Answer, AnyJournaled, Deadlock, Failure, Journaled, JournaledService, Ticket};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a batch brings from other services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The answer to a nested request of this service.
    Answer(Answered),
    /// A nested request of another service, in a session that it has here.
    Request(SessionId, NestedRequest),
}

/// Numbers for the status, since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NestedCounts {
    /// Legs that ran.
    pub legs: u64,
    /// Commands that ran again from their journals.
    pub replays: u64,
    /// Legs that were taken back, since another command held a lock.
    pub taken_back: u64,
    /// Locks that were not given, since their holders waited for the one that asked.
    pub deadlocks: u64,
    /// Answers that are none: doubled, never asked for, or of a status after which the request is sent again.
    pub unasked: u64,
    /// Answers to nested requests that were given up.
    pub late: u64,
    /// Nested requests without an answer in time.
    pub timed_out: u64,
    /// Commands that were ended.
    pub failed: u64,
}

/// A command that was ended, for whoever has to mend the service. No part of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestedReport {
    /// The session and number of its request.
    pub session: SessionId,
    /// The number of its request.
    pub number: RequestNumber,
    /// Its index in the request.
    pub command: u32,
    /// Why it was ended.
    pub why: Failure,
    /// More about it, such as the words of a panic; replicas may have other ones.
    pub words: String,
}

/// How many reports wait to be taken.
const REPORTS_MAX: usize = 64;

/// What is around the requests under way while they run.
pub(crate) struct Ground<'a> {
    pub(crate) service: &'a mut dyn Service,
    pub(crate) sessions: &'a mut SessionTable,
    pub(crate) out: &'a mut Outcomes,
    pub(crate) time: AgreedTime,
}

impl Ground<'_> {
    /// The most bytes in the replies to one request.
    fn replies_max(&self) -> usize {
        usize::try_from(self.sessions.limits().reply_bytes_per_request_max).unwrap_or(usize::MAX - 1)
    }
}

/// What only this replica has: nothing here changes what a command does.
struct Own {
    counts: NestedCounts,
    reports: Vec<NestedReport>,
    /// How many commands may stay running between their legs, and how many do.
    running_max: usize,
    running: usize,
}

/// The present batch.
#[derive(Clone, Copy)]
struct Present {
    ctx: Context,
    /// The index of its next request from another service.
    next: u32,
}

/// All requests under way, with their locks, and the nested requests without an answer.
pub(crate) struct Nested {
    service: Arc<dyn AnyJournaled>,
    rules: Arc<NestedRules>,
    requests: BTreeMap<Key, Request>,
    by_session: BTreeMap<(SessionId, RequestNumber), Key>,
    locks: Locks,
    /// Requests that can go on, in the order in which they do, with the lock that they waited for.
    ready: VecDeque<(Key, Option<Bytes>)>,
    ring: Option<Ring>,
    outgoing: Outgoing,
    /// Bytes of all requests under way.
    bytes: u64,
    present: Present,
    own: Own,
}

impl Nested {
    pub(crate) fn new(service: Arc<dyn AnyJournaled>, rules: NestedRules) -> Self {
        let ring = rules.schedule.slots().map(Ring::new);
        let own =
            Own { counts: NestedCounts::default(), reports: Vec::new(), running_max: 1 << 16, running: 0 };
        let present = Present { ctx: Context::at(quorate_types::Seq::ZERO, AgreedTime::ZERO), next: 0 };
        Self {
            service,
            rules: Arc::new(rules),
            requests: BTreeMap::new(),
            by_session: BTreeMap::new(),
            locks: Locks::default(),
            ready: VecDeque::new(),
            ring,
            outgoing: Outgoing::default(),
            bytes: 0,
            present,
            own,
        }
    }

    /// A batch begins, which has so many requests of clients.
    pub(crate) fn begin(&mut self, ctx: Context, count: u32) {
        self.present = Present { ctx, next: count };
    }

    /// The context of the next request of another service in the present batch.
    pub(crate) fn next_ctx(&mut self) -> Context {
        let next = self.present.next;
        self.present.next += 1;
        self.present.ctx.with_request(next)
    }

    /// Whether a request would begin for which there is no room.
    pub(crate) fn is_full(&self, body: &[u8]) -> bool {
        let bytes = self.bytes + self.outgoing.bytes() + body.len() as u64;
        self.requests.len() >= self.rules.requests_max as usize || bytes > self.rules.journal_bytes_max / 2
    }

    /// A request that its session takes comes under way. `ctx` has its session and its place.
    pub(crate) fn accept(
        &mut self,
        header: &RequestHeader,
        body: &[u8],
        (ctx, chain): (Context, Chain),
        ground: &mut Ground<'_>,
    ) {
        let key = Key { seq: ctx.seq().number(), index: ctx.request_index() };
        let number = header.number;
        let before = (ctx.session(), RequestNumber::new(number.number().saturating_sub(1)));
        let mut request = Request::new((number, header.kind), Bytes::copy_from_slice(body), ctx, chain);
        let waits =
            self.by_session.contains_key(&before) && !planted("next-request-before-the-one-under-way");
        if waits && self.ring.is_none() {
            request.halt = Halt::Session;
        }
        self.bytes += request.bytes();
        self.by_session.insert((ctx.session(), number), key);
        self.requests.insert(key, request);
        ground.sessions.begin(ctx.session());
        match &mut self.ring {
            Some(ring) => ring.queue.push_back(key),
            None if waits => {}
            None => {
                self.ready.push_back((key, None));
                self.run_ready(ground);
            }
        }
    }

    /// An answer has its place in the order.
    pub(crate) fn answered(&mut self, answered: &Answered, ground: &mut Ground<'_>) {
        let sent = answered.is_final().then(|| self.outgoing.answered(answered.backend, answered.number));
        let Some(sent) = sent.flatten() else {
            self.own.counts.unasked += 1;
            return;
        };
        self.own.counts.late += u64::from(sent.deadline.is_none());
        let answers = sent.answers(answered, &self.rules);
        self.hand_out(&sent.members, answers, ground);
    }

    /// Nested requests whose time is up have no known outcome.
    pub(crate) fn due(&mut self, now: AgreedTime, ground: &mut Ground<'_>) {
        for members in self.outgoing.give_up(now) {
            self.own.counts.timed_out += 1;
            self.hand_out(&members, vec![Answer::Unknown; members.len()], ground);
        }
    }

    fn hand_out(&mut self, members: &[Member], answers: Vec<Answer>, ground: &mut Ground<'_>) {
        for (member, mut answer) in members.iter().zip(answers) {
            let Some(request) = self.requests.get_mut(&member.key) else { continue };
            let asks = request.command() == member.command
                && (request.open.remove(&member.ticket) || planted("answer-resumes-twice"));
            if !asks {
                continue;
            }
            if self.bytes + self.outgoing.bytes() + answer.content_len() as u64 > self.rules.journal_bytes_max
            {
                answer = Answer::Status(ReplyStatus::TooLarge);
            }
            self.bytes += answer.content_len() as u64;
            request.answers.insert(member.ticket, answer);
            if self.ring.is_none() && request.halt == Halt::Answer(member.ticket) {
                self.ready.push_back((member.key, None));
            }
        }
        self.run_ready(ground);
    }

    /// The batch ends: gives what leaves for other services.
    pub(crate) fn close(&mut self, ground: &mut Ground<'_>) -> Vec<NestedRequest> {
        self.run_ring(ground);
        self.outgoing.close(ground.time, &self.rules)
    }

    /// Runs what can go on, and what that lets go on.
    fn run_ready(&mut self, ground: &mut Ground<'_>) {
        while let Some((key, lock)) = self.ready.pop_front() {
            let mut freed = self.run(key, ground);
            freed.extend(lock);
            for name in freed {
                self.wake(&name);
            }
        }
    }

    /// The oldest request that waits for this lock runs again, if the lock is free.
    fn wake(&mut self, name: &Bytes) {
        let Some(key) = self.locks.next(name) else { return };
        if let Some(request) = self.requests.get_mut(&key) {
            request.halt = Halt::Turn;
            self.ready.push_back((key, Some(name.clone())));
        }
    }

    /// Runs slots in their turn, until the active one waits for an answer, or all requests ended.
    fn run_ring(&mut self, ground: &mut Ground<'_>) {
        let mut passed = 0;
        while let Some(ring) = &mut self.ring {
            let Some(key) = ring.turn() else { return };
            let slots = ring.slots.len();
            let request = self.requests.get(&key).expect("INV-NESTED-4: a slot has a request under way");
            let (halt, before) = (request.halt.clone(), RequestNumber::new(request.number.number() - 1));
            let passes = match &halt {
                Halt::Answer(ticket) if request.answers.contains_key(ticket) => false,
                Halt::Answer(_) if planted("ring-skips-who-waits") && passed < slots => true,
                Halt::Answer(_) => return,
                Halt::Lock(name) => self.locks.holder(name, key).is_some(),
                Halt::Turn | Halt::Session => self.by_session.contains_key(&(request.session(), before)),
            };
            if passes {
                passed += 1;
                assert!(passed <= 2 * slots, "INV-NESTED-5: a ring goes on, or waits for an answer");
            } else {
                passed = 0;
                self.run(key, ground);
            }
            let ended = !self.requests.contains_key(&key);
            if let Some(ring) = &mut self.ring {
                if ended { ring.ended() } else { ring.go_on() }
            }
        }
    }

    /// Runs a request until it halts or ends. Gives the locks that became free.
    fn run(&mut self, key: Key, ground: &mut Ground<'_>) -> Vec<Bytes> {
        let Some(mut request) = self.requests.remove(&key) else { return Vec::new() };
        self.bytes -= request.bytes();
        let mut freed = Vec::new();
        let ended = self.go_on(key, &mut request, &mut freed, ground);
        if ended {
            self.end(request, ground);
        } else {
            self.bytes += request.bytes();
            self.requests.insert(key, request);
        }
        freed
    }

    /// Whether the request ended.
    fn go_on(
        &mut self,
        key: Key,
        request: &mut Request,
        freed: &mut Vec<Bytes>,
        ground: &mut Ground<'_>,
    ) -> bool {
        if ground.sessions.client(request.session()).is_none() || request.kind != RequestKind::Commands {
            return true;
        }
        let refused = request.chain.refusal(self.rules.service, self.rules.chain_max as usize);
        for command in request.commands() {
            if let Some(why) = refused {
                request.end_command(self.service.failed(Failure::Refused(why)), ground.replies_max());
            } else if !self.leg((key, request), command, freed, ground) {
                return false;
            }
        }
        true
    }

    /// A request ended, or needs no leg: its reply takes its place, and the session's next one may begin.
    fn end(&mut self, request: Request, ground: &mut Ground<'_>) {
        let (id, number) = (request.session(), request.number);
        self.by_session.remove(&(id, number));
        let limits = ground.sessions.limits();
        let is_full = ground.out.arena().len() as u64 > limits.reply_bytes_per_batch_max;
        if ground.sessions.client(id).is_none() {
            ground.out.push(id, number, |_| ReplyStatus::SessionExpired);
        } else if request.kind == RequestKind::CloseSession {
            ground.sessions.remove(id);
            ground.service.session_ended(SessionEnd::Closed, &request.ctx);
            ground.out.push(id, number, no_replies);
        } else {
            let mut body = Vec::new();
            let status = answer(&request, ground.service, ground.replies_max(), &mut body);
            ground.sessions.record(id, number, status, &body, ground.time);
            if is_full {
                ground.out.push_withheld(id, number, status);
            } else {
                ground.out.push(id, number, |arena| {
                    arena.extend_from_slice(&body);
                    status
                });
            }
        }
        let next = self.by_session.get(&(id, number.next())).copied();
        if let Some(next) = next
            && let Some(request) = self.requests.get_mut(&next)
            && request.halt == Halt::Session
        {
            request.halt = Halt::Turn;
            self.ready.push_back((next, None));
        }
    }

    pub(crate) fn service_id(&self) -> ServiceId {
        self.rules.service
    }

    pub(crate) fn next_deadline(&self) -> Option<AgreedTime> {
        self.outgoing.next_deadline()
    }

    pub(crate) fn unanswered(&self) -> impl Iterator<Item = NestedRequest> {
        self.outgoing.unanswered()
    }

    pub(crate) fn counts(&self) -> NestedCounts {
        self.own.counts
    }

    pub(crate) fn take_reports(&mut self) -> Vec<NestedReport> {
        std::mem::take(&mut self.own.reports)
    }

    pub(crate) fn under_way(&self) -> usize {
        self.requests.len()
    }

    /// Another state took the place of that one: what only this replica has goes on.
    pub(crate) fn go_on_from(&mut self, before: &Self) {
        self.own.counts = before.own.counts;
        self.own.reports.clone_from(&before.own.reports);
        self.own.running_max = before.own.running_max;
    }

    /// At most so many commands stay running between their legs from now on; the others run again from their journals.
    pub(crate) fn keep_running(&mut self, most: usize) {
        self.own.running_max = most;
    }

    pub(crate) fn invariants(&self) {
        let bytes: u64 = self.requests.values().map(Request::bytes).sum();
        assert_eq!(bytes, self.bytes, "INV-NESTED-6: the bytes of requests under way are counted");
        assert_eq!(
            self.by_session.len(),
            self.requests.len(),
            "INV-NESTED-6: each request is found by its session"
        );
        assert!(self.ready.is_empty(), "INV-NESTED-6: what can go on has gone on");
        self.locks.invariants(&self.requests);
        self.outgoing.invariants();
    }
}

/// Appends the reply to a request that ended.
fn answer(request: &Request, service: &dyn Service, replies_max: usize, out: &mut Vec<u8>) -> ReplyStatus {
    let mut replies = BatchReplies::new(replies_max);
    match request.kind {
        RequestKind::Commands => request.replies.iter().for_each(|reply| replies.push(reply)),
        RequestKind::Query => {
            replies.push_with(|reply| service.query(&request.body, &of_query(&request.ctx), reply));
        }
        _ => return no_replies(out),
    }
    write_replies(&replies, out)
}

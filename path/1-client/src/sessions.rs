//! Sessions: numbering, sending in order, refusals, expiry and keep-alive.
//!
//! INV-CLIENT-3: a request that may have run is never replaced by another under its number, and never repeated under
//! another number or in another session.
//!
//! Timers of sessions are not kept one by one: `due` is a lower bound of all of them, and when it comes all sessions are
//! looked at. Deadlines are long and seldom reached, so that is far cheaper than a queue of timers.

use crate::back_off::back_off;
use crate::config::Config;
use crate::core::{ClientCore, GRAIN};
use crate::effects::{CallId, Completion, Effect, Effects, SessionHandle};
use crate::error::Error;
use crate::queries::query_result;
use crate::session::{Death, Entry, NEVER, Opening, Phase, Session, TooLarge, cost};
use crate::votes::{Held, Votes};
use bytes::Bytes;
use quorate_types::{Items, ReplicaId, Seq, SessionId, Time, planted};
use quorate_wire::{Reply, ReplyStatus, RequestKind};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) generation: u32,
    pub(crate) session: Option<Session>,
}

/// All sessions of a client.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) places: Vec<Place>,
    free: Vec<u32>,
    pub(crate) by_id: BTreeMap<SessionId, u32>,
    pub(crate) by_nonce: BTreeMap<u64, u32>,
    /// Sessions with something to send, in turn.
    pub(crate) dirty: VecDeque<u32>,
    /// No timer of a session is earlier.
    pub(crate) due: Time,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            by_id: BTreeMap::new(),
            by_nonce: BTreeMap::new(),
            dirty: VecDeque::new(),
            due: NEVER,
        }
    }
}

impl Sessions {
    fn get(&mut self, handle: SessionHandle) -> Option<&mut Session> {
        let place = self.places.get_mut(handle.index as usize)?;
        if place.generation == handle.generation { place.session.as_mut() } else { None }
    }

    pub(crate) fn at(&mut self, index: u32) -> Option<&mut Session> {
        self.places.get_mut(index as usize)?.session.as_mut()
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Session> {
        self.places.iter().filter_map(|place| place.session.as_ref())
    }

    fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, session: Session) -> u32 {
        if let Some(index) = self.free.pop() {
            self.places[index as usize].session = Some(session);
            return index;
        }
        self.places.push(Place { generation: 1, session: Some(session) });
        (self.places.len() - 1) as u32
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Session> {
        let place = &mut self.places[index as usize];
        let session = place.session.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.by_id.remove(&session.id);
        if let Phase::Opening(opening) = &session.phase {
            self.by_nonce.remove(&opening.nonce);
        }
        self.free.push(index);
        Some(session)
    }

    pub(crate) fn mark_dirty(&mut self, index: u32) {
        if let Some(session) = self.places[index as usize].session.as_mut()
            && !session.dirty
        {
            session.dirty = true;
            self.dirty.push_back(index);
        }
    }

    /// Everything unanswered is to be sent again.
    pub(crate) fn rewind_all(&mut self) {
        for index in 0..self.places.len() as u32 {
            let Some(session) = self.at(index) else { continue };
            session.rewind(0);
            session.expected = None;
            session.recheck = None;
            if session.waits() {
                self.mark_dirty(index);
            }
        }
    }

    pub(crate) fn any_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    pub(crate) fn any_waits(&self) -> bool {
        self.live().any(Session::waits)
    }

    pub(crate) fn any_in_flight(&self) -> bool {
        self.live().any(Session::in_flight)
    }

    pub(crate) fn check(&self, window: u32) -> (usize, usize) {
        self.live().map(|session| session.check(window)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Ends all sessions; returns the bytes that became free.
    pub(crate) fn stop(&mut self, held: &mut Held, out: &mut Effects) -> usize {
        let mut freed = 0;
        for place in &mut self.places {
            if let Some(session) = &mut place.session {
                freed += end(session, Death::Stopped, held, out);
            }
        }
        self.by_id.clear();
        self.by_nonce.clear();
        freed
    }
}

/// Ends a session: all that wait are told. Returns the bytes that became free.
fn end(session: &mut Session, death: Death, held: &mut Held, out: &mut Effects) -> usize {
    if let Phase::Opening(opening) = &session.phase {
        out.complete(opening.call, Err(death_error(&death, opening.open_sends > 0)));
    }
    let mut freed = 0;
    for entry in session.take_entries(held) {
        freed += entry.cost();
        let closed = entry.kind == RequestKind::CloseSession && death == Death::Expired;
        let unknown = entry.may_run();
        out.complete(
            entry.call,
            if closed { Ok(Completion::Closed) } else { Err(death_error(&death, unknown)) },
        );
    }
    session.phase = Phase::Dead(death);
    freed
}

fn death_error(death: &Death, outcome_unknown: bool) -> Error {
    match death {
        Death::Expired => Error::SessionExpired { outcome_unknown },
        Death::Broken(detail) => Error::SessionBroken { outcome_unknown, detail: detail.clone() },
        Death::Stopped => Error::Stopped { outcome_unknown },
    }
}

/// What a caller is told whose time is up.
pub(crate) fn late_error(refused: Option<ReplyStatus>, outcome_unknown: bool, detail: &str) -> Error {
    match refused {
        Some(ReplyStatus::Overloaded) => Error::Overloaded { outcome_unknown },
        Some(ReplyStatus::DiskFull) => Error::DiskFull { outcome_unknown },
        _ => Error::DeadlineExceeded { outcome_unknown, detail: detail.to_owned() },
    }
}

/// Until when what was refused so is tried again, if its deadline is not earlier.
fn give_up(config: &Config, now: Time, status: ReplyStatus) -> Time {
    let patience = config.full_patience.filter(|_| status == ReplyStatus::DiskFull);
    patience.filter(|_| !planted("full-disk-waited-for")).map_or(NEVER, |patience| now.plus(patience))
}

/// Whether a reply is a list of nothing.
fn is_empty_list(body: &[u8]) -> bool {
    Items::parse(body).is_ok_and(|replies| replies.is_empty())
}

// What callers ask.
impl ClientCore {
    pub(crate) fn open(&mut self, now: Time, call: CallId, deadline: Option<Time>, out: &mut Effects) {
        if self.stopped {
            return out.complete(Some(call), Err(Error::Stopped { outcome_unknown: false }));
        }
        if self.sessions.count() >= self.config.sessions_max {
            return out.complete(Some(call), Err(Error::SessionLimit));
        }
        self.begin_session(now, Some(call), deadline.unwrap_or(NEVER));
    }

    /// A new session, which is to be opened; returns its place.
    pub(crate) fn begin_session(&mut self, now: Time, call: Option<CallId>, deadline: Time) -> u32 {
        let mut nonce = self.random.next();
        while nonce == 0 || nonce == self.probe_nonce || self.sessions.by_nonce.contains_key(&nonce) {
            nonce = self.random.next();
        }
        let votes = Votes::default();
        let opening = Opening { nonce, call, deadline, sent: false, open_sends: 0, refused: None, votes };
        let index = self.sessions.insert(Session::new(opening, now));
        self.sessions.by_nonce.insert(nonce, index);
        self.sessions.due = self.sessions.due.min(deadline);
        self.sessions.mark_dirty(index);
        index
    }

    pub(crate) fn call(
        &mut self,
        now: Time,
        call: CallId,
        handle: SessionHandle,
        commands: Bytes,
        deadline: Option<Time>,
        out: &mut Effects,
    ) {
        if let Err(error) = self.check_call(handle, &commands) {
            return out.complete(Some(call), Err(error));
        }
        let deadline = deadline.unwrap_or(NEVER);
        self.enqueue(now, handle.index, Entry::new(Some(call), RequestKind::Commands, commands, deadline));
    }

    fn check_call(&mut self, handle: SessionHandle, commands: &Bytes) -> Result<(), Error> {
        if self.stopped {
            return Err(Error::Stopped { outcome_unknown: false });
        }
        let session = self.sessions.get(handle).ok_or(Error::SessionClosed)?;
        match &session.phase {
            Phase::Dead(death) => return Err(death_error(death, false)),
            Phase::Open if !session.closing => {}
            _ => return Err(Error::SessionClosed),
        }
        let max = self.config.frame_bytes_max as usize;
        if commands.len() + self.around() > max {
            let detail = format!("{} bytes of commands in one call, the limit is {max}", commands.len());
            return Err(Error::TooLarge { outcome_unknown: false, detail });
        }
        Items::parse(commands).map_err(|_| Error::Malformed("not a list of commands"))?;
        if self.queued_bytes + cost(commands.len()) > self.config.queue_bytes_max {
            return Err(Error::Overloaded { outcome_unknown: false });
        }
        Ok(())
    }

    pub(crate) fn enqueue(&mut self, now: Time, index: u32, entry: Entry) {
        self.queued_bytes += entry.cost();
        self.sessions.due = self.sessions.due.min(entry.deadline);
        let window = self.config.window;
        if let Some(session) = self.sessions.at(index) {
            if !session.in_flight() {
                session.progress = now;
            }
            session.push(entry);
            if session.next_to_send(window).is_some() {
                self.sessions.mark_dirty(index);
            }
        }
    }

    pub(crate) fn close(
        &mut self,
        now: Time,
        call: Option<CallId>,
        handle: SessionHandle,
        deadline: Option<Time>,
        out: &mut Effects,
    ) {
        let Some(session) = self.sessions.get(handle).filter(|session| !session.closing) else {
            return out.complete(call, Err(Error::SessionClosed));
        };
        if !matches!(session.phase, Phase::Open) {
            self.sessions.remove(handle.index);
            return out.complete(call, Ok(Completion::Closed));
        }
        let deadline = deadline.unwrap_or(now.plus(self.config.session_ttl));
        self.enqueue(now, handle.index, Entry::new(call, RequestKind::CloseSession, Bytes::new(), deadline));
    }

    /// All replicas refuse us: what was never sent fails at once.
    pub(crate) fn fail_unsent(&mut self, replica: ReplicaId, text: &str, out: &mut Effects) {
        let error = || Error::Refused { replica, text: text.to_owned() };
        for index in 0..self.sessions.places.len() as u32 {
            if let Some(Session { phase: Phase::Opening(opening), .. }) = self.sessions.at(index)
                && opening.open_sends == 0
            {
                out.complete(opening.call.take(), Err(error()));
                self.drop_session(index, &error(), out);
            }
        }
        self.queued_bytes -= self.reads.fail_all(&error(), out);
        self.unordered.release_all();
    }
}

// What replicas answer.
impl ClientCore {
    pub(crate) fn replies(&mut self, now: Time, from: usize, payload: &Bytes, out: &mut Effects) {
        for reply in Reply::walk(payload) {
            let Ok(reply) = reply else { return };
            let taken = if self.may_lie() {
                self.vote(now, from, &reply, payload, out)
            } else {
                self.reply(now, from, &reply, payload, out)
            };
            if !taken {
                self.stats.replies_ignored += 1;
            }
        }
    }

    /// Handles one reply that is true; false when it fits nothing that waits.
    pub(crate) fn reply(
        &mut self,
        now: Time,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
        out: &mut Effects,
    ) -> bool {
        if reply.status == ReplyStatus::Position {
            if reply.session != SessionId::NONE || !reply.body.is_empty() {
                return false;
            }
            self.reads.wrote(Seq::new(reply.number.number()));
            return true;
        }
        if reply.status == ReplyStatus::SessionOpened {
            return self.opened(now, reply, out);
        }
        if reply.session == SessionId::NONE {
            return self.open_refused(now, from, reply, out);
        }
        let Some(&index) = self.sessions.by_id.get(&reply.session) else { return false };
        let number = reply.number.number();
        match reply.status {
            ReplyStatus::Done => {
                // Replies that do not read as a list are as good as lost.
                let result = match Items::parse(reply.body) {
                    Ok(_) => Ok(Completion::Replies(payload.slice_ref(reply.body))),
                    Err(_) => Err(Error::ReplyForgotten),
                };
                self.answered(now, index, number, result, out)
            }
            ReplyStatus::ReplyForgotten => self.answered(now, index, number, Err(Error::ReplyForgotten), out),
            ReplyStatus::SessionExpired => {
                self.end_session(now, index, Death::Expired, out);
                self.progress(now);
                true
            }
            ReplyStatus::ExpectedNumber => self.expected(now, index, number, reply.body, out),
            ReplyStatus::Overloaded | ReplyStatus::DiskFull => self.no_room(now, index, number, reply.status),
            ReplyStatus::TooLarge | ReplyStatus::Forbidden => {
                let forbidden = reply.status == ReplyStatus::Forbidden;
                self.too_large(now, index, number, (reply.body, forbidden), out)
            }
            ReplyStatus::SessionOpened
            | ReplyStatus::SessionLimit
            | ReplyStatus::Position
            | ReplyStatus::DoneDigest => false,
        }
    }

    pub(crate) fn answered(
        &mut self,
        now: Time,
        index: u32,
        number: u64,
        result: Result<Completion, Error>,
        out: &mut Effects,
    ) -> bool {
        let (window, many, needed) = (self.config.window, self.may_lie(), self.needed);
        let Some(session) = self.sessions.at(index) else { return false };
        let Some(entry) = session.sent_entry(number) else { return false };
        // A single member's answer, where it is enough, is not kept.
        assert!(needed <= 1 || entry.votes.most() >= needed, "INV-CLIENT-9: one honest member says so");
        let close = entry.kind == RequestKind::CloseSession;
        // Commands have replies: where there is none, the empty one that took their place ran.
        let ran_empty = many && matches!(&result, Ok(Completion::Replies(body)) if is_empty_list(body));
        let result = match entry.too_large.take() {
            Some(TooLarge { forbidden: true, outcome_unknown, .. }) => {
                Err(Error::Forbidden { outcome_unknown: outcome_unknown && !ran_empty })
            }
            Some(TooLarge { detail, outcome_unknown, .. }) => {
                Err(Error::TooLarge { outcome_unknown: outcome_unknown && !ran_empty, detail })
            }
            None if entry.kind == RequestKind::Query => query_result(entry.seen, result),
            None => result,
        };
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return false };
        let Some((call, freed)) = session.finish(number, now, &mut self.held) else { return false };
        let more = session.next_to_send(window).is_some();
        // The last answer starts the clock of the keep-alive.
        let idle_at = (!session.waits()).then(|| now.plus(self.config.session_ttl.divided(3)));
        self.queued_bytes -= freed;
        if close {
            out.complete(call, Ok(Completion::Closed));
            self.sessions.remove(index);
        } else {
            out.complete(call, result);
            if more {
                self.sessions.mark_dirty(index);
            }
            self.sessions.due = self.sessions.due.min(idle_at.unwrap_or(NEVER));
        }
        self.progress(now);
        true
    }

    fn end_session(&mut self, now: Time, index: u32, death: Death, out: &mut Effects) {
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return };
        if death == Death::Expired && self.config.faults.may_lie() {
            let say_so = session.expired.count_ones();
            assert!(say_so >= self.needed, "INV-CLIENT-9: one honest member says that it expired");
        }
        if session.queries {
            return self.ask_again(now, index);
        }
        let (id, closing) = (session.id, session.closing);
        self.queued_bytes -= end(session, death, &mut self.held, out);
        self.sessions.by_id.remove(&id);
        if closing {
            self.sessions.remove(index);
        }
    }

    pub(crate) fn opened(&mut self, now: Time, reply: &Reply<'_>, out: &mut Effects) -> bool {
        let nonce = reply.number.number();
        let Some(&index) = self.sessions.by_nonce.get(&nonce) else { return false };
        if reply.session == SessionId::NONE || self.sessions.by_id.contains_key(&reply.session) {
            return false;
        }
        let place = &mut self.sessions.places[index as usize];
        let Some(session) = &mut place.session else { return false };
        let Phase::Opening(opening) = &mut session.phase else { return false };
        let call = opening.call.take();
        session.phase = Phase::Open;
        session.id = reply.session;
        session.hold_until = None;
        session.refusals = 0;
        session.progress = now;
        session.deadline_min = session.earliest();
        let (queries, due) = (session.queries, session.deadline_min);
        let handle = SessionHandle { index, generation: place.generation };
        self.sessions.by_nonce.remove(&nonce);
        self.sessions.by_id.insert(reply.session, index);
        self.sessions.due = self.sessions.due.min(now.plus(self.config.session_ttl.divided(3))).min(due);
        self.progress(now);
        if queries {
            self.sessions.mark_dirty(index);
        } else if call.is_some() {
            out.complete(call, Ok(Completion::Opened(handle)));
        } else {
            // Whoever asked gave up: nobody will ever use it.
            self.close(now, None, handle, None, out);
        }
        true
    }

    /// A reply without a session: to an opening, or to a question of ours who leads.
    pub(crate) fn open_refused(
        &mut self,
        now: Time,
        from: usize,
        reply: &Reply<'_>,
        out: &mut Effects,
    ) -> bool {
        let nonce = reply.number.number();
        if nonce == self.probe_nonce {
            // Only a leader takes requests.
            if self.known.leader.is_none() {
                self.known.leader = Some(from);
            }
            return true;
        }
        let Some(&index) = self.sessions.by_nonce.get(&nonce) else { return false };
        let (config, copies) = (&self.config, self.copies_refused());
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return false };
        let Phase::Opening(opening) = &mut session.phase else { return false };
        match reply.status {
            ReplyStatus::Overloaded | ReplyStatus::DiskFull => {
                opening.open_sends = opening.open_sends.saturating_sub(copies);
                opening.refused = Some(reply.status);
                opening.deadline = opening.deadline.min(give_up(config, now, reply.status));
                session.deadline_min = session.deadline_min.min(opening.deadline);
                self.sessions.due = self.sessions.due.min(opening.deadline);
                opening.sent = false;
                let until = now.plus(back_off(
                    &mut self.random,
                    session.refusals,
                    config.retry_min,
                    config.retry_max,
                ));
                session.refusals = session.refusals.saturating_add(1);
                session.hold_until = Some(until);
                self.sessions.due = self.sessions.due.min(until);
            }
            ReplyStatus::SessionLimit => {
                out.complete(opening.call.take(), Err(Error::SessionLimit));
                self.drop_session(index, &Error::SessionLimit, out);
            }
            _ => return false,
        }
        self.progress(now);
        true
    }

    /// No room for this one; the replica refuses the later ones, too, so all of them are sent again after a while.
    fn no_room(&mut self, now: Time, index: u32, number: u64, status: ReplyStatus) -> bool {
        let (config, copies) = (&self.config, self.copies_refused());
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return false };
        let Some(entry) = session.sent_entry(number) else { return false };
        entry.open_sends = entry.open_sends.saturating_sub(copies);
        entry.refused = Some(status);
        entry.deadline = entry.deadline.min(give_up(config, now, status));
        let deadline = entry.deadline;
        session.deadline_min = session.deadline_min.min(deadline);
        self.sessions.due = self.sessions.due.min(deadline);
        session.refused = Some(status);
        session.rewind(number);
        if session.hold_until.is_none() {
            let wait = back_off(&mut self.random, session.refusals, config.retry_min, config.retry_max);
            session.refusals = session.refusals.saturating_add(1);
            let until = now.plus(wait);
            session.hold_until = Some(until);
            self.sessions.due = self.sessions.due.min(until);
        }
        self.progress(now);
        true
    }

    /// The cluster expects another number. The first such answer sends again from there; more of the same may be old
    /// news of what was sent before that, so they only set a timer.
    fn expected(&mut self, now: Time, index: u32, number: u64, body: &[u8], out: &mut Effects) -> bool {
        let (config, copies) = (&self.config, self.copies_refused());
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return false };
        let Some(entry) = session.sent_entry(number) else { return false };
        entry.open_sends = entry.open_sends.saturating_sub(copies);
        let Some(wanted) = body.first_chunk::<8>().map(|word| u64::from_le_bytes(*word)) else {
            return false;
        };
        if wanted > session.end() {
            let detail = format!("the cluster expects #{wanted}, and only {} were used", session.end() - 1);
            self.end_session(now, index, Death::Broken(detail), out);
            return true;
        }
        if wanted < session.base() {
            return false;
        }
        if wanted < number && session.expected.is_none_or(|before| before < wanted) {
            session.expected = Some(wanted);
            session.rewind(wanted);
            self.sessions.mark_dirty(index);
        } else if session.recheck.is_none() {
            let wait = back_off(&mut self.random, session.refusals, config.retry_min, config.retry_max);
            session.refusals = session.refusals.saturating_add(1);
            session.recheck = Some((now.plus(wait), wanted));
            self.sessions.due = self.sessions.due.min(now.plus(wait));
        }
        true
    }

    /// Over a limit, or not allowed: an empty one is sent in its place, and its answer tells whether the number was used. If the cluster
    /// took the empty one, the commands did not run; if it answers the same again, the number was used by the commands.
    fn too_large(
        &mut self,
        now: Time,
        index: u32,
        number: u64,
        (body, forbidden): (&[u8], bool),
        out: &mut Effects,
    ) -> bool {
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return false };
        let Some(entry) = session.sent_entry(number) else { return false };
        entry.open_sends = entry.open_sends.saturating_sub(1);
        let detail = String::from_utf8_lossy(&body[..body.len().min(256)]).into_owned();
        if let Some(before) = entry.too_large.as_mut().filter(|before| before.copies > 0) {
            before.copies -= 1;
            let wait =
                back_off(&mut self.random, session.refusals, self.config.retry_min, self.config.retry_max);
            session.recheck.get_or_insert((now.plus(wait), number));
            self.sessions.due = self.sessions.due.min(now.plus(wait));
            return true;
        }
        if entry.kind != RequestKind::Commands {
            entry.too_large = None;
            let error = Error::TooLarge { outcome_unknown: true, detail };
            return self.answered(now, index, number, Err(error), out);
        }
        let copies = entry.open_sends;
        entry.too_large = Some(TooLarge { detail, forbidden, outcome_unknown: copies > 0, copies });
        let freed = entry.body.len();
        entry.make_empty();
        session.rewind(number);
        self.queued_bytes -= freed;
        self.sessions.mark_dirty(index);
        true
    }
}

// Time.
impl ClientCore {
    pub(crate) fn resend_at(&self, session: &Session) -> Time {
        if !session.in_flight() {
            return NEVER;
        }
        session.progress.plus(self.config.resend_after.times(1 << session.resends.min(3)))
    }

    pub(crate) fn sessions_due(&mut self, now: Time, out: &mut Effects) {
        let mut due = NEVER;
        let mut detail = None;
        for index in 0..self.sessions.places.len() as u32 {
            if self.sessions.places[index as usize].session.is_some() {
                due = due.min(self.session_due(now, index, &mut detail, out));
            }
        }
        self.sessions.due = due.max(now.plus(GRAIN));
    }

    /// Looks at one session's timers; returns when to look again.
    fn session_due(&mut self, now: Time, index: u32, detail: &mut Option<String>, out: &mut Effects) -> Time {
        self.give_up_late(now, index, detail, out);
        self.look_at_alone(now, index);
        let (ttl, window) = (self.config.session_ttl, self.config.window);
        let Some(session) = self.sessions.places[index as usize].session.as_ref() else { return NEVER };
        let resend = self.resend_at(session) <= now;
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return NEVER };
        let mut dirty = false;
        if session.hold_until.is_some_and(|until| until <= now) {
            session.hold_until = None;
            dirty = true;
        }
        if let Some((_, wanted)) = session.recheck.filter(|(at, _)| *at <= now) {
            session.recheck = None;
            if wanted >= session.base() {
                session.rewind(wanted);
                dirty = true;
            }
        }
        if resend {
            session.rewind(0);
            session.resends = session.resends.saturating_add(1);
            session.progress = now;
            dirty = true;
        }
        if resend {
            self.ask_all(now);
            self.look_again(now, index);
        }
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return NEVER };
        let mut idle_due = NEVER;
        if matches!(session.phase, Phase::Open) && !session.waits() && !session.queries {
            idle_due = session.progress.plus(ttl.divided(3));
            if idle_due <= now {
                let entry = Entry::new(None, RequestKind::Empty, Bytes::new(), NEVER);
                self.queued_bytes += entry.cost();
                session.push(entry);
                session.progress = now;
                dirty = true;
            }
        }
        dirty |= session.hold_until.is_none() && session.next_to_send(window).is_some();
        let timers = [session.hold_until, session.recheck.map(|(at, _)| at)];
        let due = timers.into_iter().flatten().min().unwrap_or(NEVER);
        let due = due.min(session.deadline_min).min(session.close_deadline());
        let idle_due = if idle_due <= now { NEVER } else { idle_due };
        if dirty {
            self.sessions.mark_dirty(index);
        }
        let Some(session) = self.sessions.places[index as usize].session.as_ref() else { return NEVER };
        due.min(idle_due).min(self.resend_at(session)).min(self.alone_until(session))
    }

    /// Tells the callers whose time is up.
    fn give_up_late(&mut self, now: Time, index: u32, detail: &mut Option<String>, out: &mut Effects) {
        let Some(session) = self.sessions.places[index as usize].session.as_ref() else { return };
        if session.deadline_min > now && !session.close_is_late(now) {
            return;
        }
        let detail = detail.get_or_insert_with(|| self.detail()).as_str();
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return };
        if let Phase::Opening(opening) = &mut session.phase
            && !session.queries
        {
            // The cluster may still open it; then it is closed at once. If no answer ever comes, it expired there.
            let unknown = opening.open_sends > 0;
            let error = late_error(opening.refused, unknown, detail);
            let abandoned = opening.call.is_none();
            out.complete(opening.call.take(), Err(error));
            opening.deadline = now.plus(self.config.session_ttl);
            session.deadline_min = opening.deadline;
            if abandoned || !unknown {
                self.sessions.remove(index);
            }
            return;
        }
        let held = session.refused;
        let late_close = session.close_is_late(now);
        let mut tell = |call: CallId, entry: &Entry| {
            let error =
                late_error(entry.refused.or(held), entry.may_run() || entry.too_large.is_some(), detail);
            out.push(Effect::Completed { call, result: Err(error) });
        };
        self.queued_bytes -= session.give_up_late(now, &mut tell);
        if late_close {
            self.forget_session(index, detail, out);
        }
    }

    /// The close of this session was not answered in time: it is left to expire in the cluster.
    fn forget_session(&mut self, index: u32, detail: &str, out: &mut Effects) {
        let Some(mut session) = self.sessions.remove(index) else { return };
        for entry in session.take_entries(&mut self.held) {
            self.queued_bytes -= entry.cost();
            out.complete(entry.call, Err(late_error(entry.refused, entry.may_run(), detail)));
        }
    }
}

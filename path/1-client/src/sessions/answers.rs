//! What an answer that counts does to a session. The reach has decided before that it counts.

use super::entry::{Entry, TooLarge};
use super::session::{Death, Phase, Session};
use super::{Sessions, end};
use crate::config::Config;
use crate::effects::{Completion, Effect, SessionHandle};
use crate::error::Error;
use crate::step::{NEVER, Step};
use bytes::Bytes;
use quorate_types::{Items, RequestNumber, Seq, SessionId, Time, planted};
use quorate_wire::{Reply, ReplyStatus, RequestKind};

/// The effect of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It fits nothing that waits.
    No,
    /// It says something about a request that waits.
    Yes,
    /// It is what a request waited for, so the replica that gave it does its work.
    Progress,
}

impl Taken {
    /// Whether it fits something that waits.
    pub(crate) fn is_taken(self) -> bool {
        self != Self::No
    }
}

/// Until when a request that was refused so is tried again, if its deadline is not earlier.
fn give_up_at(config: &Config, now: Time, status: ReplyStatus) -> Time {
    let patience = config.full_patience.filter(|_| status == ReplyStatus::DiskFull);
    patience.filter(|_| !planted("full-disk-waited-for")).map_or(NEVER, |patience| now.plus(patience))
}

/// Whether a reply is an empty list.
fn is_empty_list(body: &[u8]) -> bool {
    Items::parse(body).is_ok_and(|replies| replies.is_empty())
}

/// A replica's text for people, or its beginning.
pub(crate) fn detail_of(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(256)]).into_owned()
}

/// What a reader is told when the answer to its query counts.
fn query_result(seen: Seq, result: Result<Completion, Error>) -> Result<Completion, Error> {
    match result {
        Ok(Completion::Replies(list)) => match Items::parse(&list).ok().and_then(|items| items.iter().next())
        {
            Some(answer) => Ok(Completion::Read { seq: seen, body: list.slice_ref(answer) }),
            None => Err(Error::ReplyForgotten),
        },
        Err(Error::TooLarge { detail, .. }) => Err(Error::TooLarge { outcome_unknown: false, detail }),
        other => other,
    }
}

/// What a caller is told when this is the answer to its request's number.
fn result_of(entry: &mut Entry, result: Result<Completion, Error>) -> Result<Completion, Error> {
    let Some(TooLarge { detail, forbidden, outcome_unknown, answer_tells, .. }) = entry.too_large.take()
    else {
        return if entry.kind == RequestKind::Query { query_result(entry.seen, result) } else { result };
    };
    // Commands have replies: where there is none, the empty one that took their place ran.
    let ran_empty = answer_tells && matches!(&result, Ok(Completion::Replies(body)) if is_empty_list(body));
    let outcome_unknown = outcome_unknown && !ran_empty;
    Err(if forbidden {
        Error::Forbidden { outcome_unknown }
    } else {
        Error::TooLarge { outcome_unknown, detail }
    })
}

// Openings, and final answers.
impl Sessions {
    /// Handles one reply that counts.
    pub(crate) fn reply(&mut self, step: &mut Step<'_>, reply: &Reply<'_>, payload: &Bytes) -> Taken {
        if reply.status == ReplyStatus::SessionOpened {
            return self.opened(step, reply);
        }
        if reply.session == SessionId::NONE {
            return self.open_refused(step, reply);
        }
        let Some(index) = self.cell_of(reply.session) else { return Taken::No };
        let number = reply.number.number();
        match reply.status {
            ReplyStatus::Done => {
                // Replies that do not read as a list are as good as lost.
                let result = match Items::parse(reply.body) {
                    Ok(_) => Ok(Completion::Replies(payload.slice_ref(reply.body))),
                    Err(_) => Err(Error::ReplyForgotten),
                };
                self.answered(step, index, number, result)
            }
            ReplyStatus::ReplyForgotten => self.answered(step, index, number, Err(Error::ReplyForgotten)),
            ReplyStatus::SessionExpired => {
                self.end_session(step, index, Death::Expired);
                Taken::Progress
            }
            ReplyStatus::ExpectedNumber => self.expected(step, index, number, reply.body),
            ReplyStatus::Overloaded | ReplyStatus::DiskFull => {
                self.no_room(step, index, number, reply.status)
            }
            ReplyStatus::TooLarge | ReplyStatus::Forbidden => self.too_large(step, index, reply),
            ReplyStatus::SessionOpened
            | ReplyStatus::SessionLimit
            | ReplyStatus::Position
            | ReplyStatus::DoneDigest => Taken::No,
        }
    }

    /// This is what execution decided about a number, or equivalent to that.
    pub(crate) fn answered(
        &mut self,
        step: &mut Step<'_>,
        index: u32,
        number: u64,
        result: Result<Completion, Error>,
    ) -> Taken {
        let needed = self.rules.needed;
        let Some(session) = self.cells[index as usize].session.as_mut() else { return Taken::No };
        let Some(entry) = session.sent_entry(number) else { return Taken::No };
        // A single member's answer, where it is enough, is not kept.
        assert!(needed <= 1 || entry.votes.most() >= needed, "INV-CLIENT-9: one honest member says so");
        let close = entry.kind == RequestKind::CloseSession;
        let result = result_of(entry, result);
        let Some((call, freed)) = session.finish(number, step.now, &mut self.held) else { return Taken::No };
        if step.config.tells_replies && !session.queries {
            let (session, number) = (session.id, RequestNumber::new(number));
            let replies = match &result {
                Ok(Completion::Replies(body)) => Some(body.clone()),
                _ => None,
            };
            step.out.push(Effect::Believed { session, number, replies });
        }
        let more = session.next_to_send(step.config.window).is_some();
        // The last answer starts the clock of the keep-alive.
        let idle_at = (!session.waits()).then(|| step.now.plus(step.config.session_ttl.divided(3)));
        self.queued -= freed;
        if close {
            step.out.complete(call, Ok(Completion::Closed));
            self.remove(index);
        } else {
            step.out.complete(call, result);
            if more {
                self.mark_dirty(index);
            }
            self.due = self.due.min(idle_at.unwrap_or(NEVER));
        }
        Taken::Progress
    }

    pub(super) fn end_session(&mut self, step: &mut Step<'_>, index: u32, death: Death) {
        let needed = self.rules.needed;
        let Some(session) = self.cells[index as usize].session.as_mut() else { return };
        if death == Death::Expired && needed > 1 {
            assert!(session.say_expired() >= needed, "INV-CLIENT-9: one honest member says that it expired");
        }
        if session.queries {
            return self.ask_again(step, index);
        }
        let (id, closing) = (session.id, session.closing);
        self.queued -= end(step, session, death, &mut self.held);
        self.by_id.remove(&id);
        if closing {
            self.remove(index);
        }
    }

    /// The cluster opened a session.
    pub(crate) fn opened(&mut self, step: &mut Step<'_>, reply: &Reply<'_>) -> Taken {
        let nonce = reply.number.number();
        let Some(index) = self.opening_cell(nonce) else { return Taken::No };
        if reply.session == SessionId::NONE || self.by_id.contains_key(&reply.session) {
            return Taken::No;
        }
        let cell = &mut self.cells[index as usize];
        let Some(session) = &mut cell.session else { return Taken::No };
        let Phase::Opening(opening) = &mut session.phase else { return Taken::No };
        let call = opening.call.take();
        session.phase = Phase::Open;
        session.id = reply.session;
        session.pace.hold_until = None;
        session.pace.refusals = 0;
        session.pace.progress = step.now;
        session.deadline_min = session.queue.earliest();
        let (queries, due) = (session.queries, session.deadline_min);
        let handle = SessionHandle { index, generation: cell.generation };
        self.by_nonce.remove(&nonce);
        self.by_id.insert(reply.session, index);
        self.due = self.due.min(step.now.plus(step.config.session_ttl.divided(3))).min(due);
        if queries {
            self.mark_dirty(index);
        } else if call.is_some() {
            if step.config.letters.is_some() {
                self.fresh.push(reply.session);
            }
            step.out.complete(call, Ok(Completion::Opened(handle, reply.session)));
        } else {
            // The caller gave up, so the session will never be used.
            self.close(step, None, handle, None);
        }
        Taken::Progress
    }

    /// An opening was refused.
    pub(crate) fn open_refused(&mut self, step: &mut Step<'_>, reply: &Reply<'_>) -> Taken {
        let Some(index) = self.opening_cell(reply.number.number()) else { return Taken::No };
        let takes_back = self.rules.takes_back;
        let Some(session) = self.cells[index as usize].session.as_mut() else { return Taken::No };
        let Phase::Opening(opening) = &mut session.phase else { return Taken::No };
        match reply.status {
            ReplyStatus::Overloaded | ReplyStatus::DiskFull => {
                opening.open_sends = opening.open_sends.saturating_sub(takes_back);
                opening.refused = Some(reply.status);
                opening.deadline = opening.deadline.min(give_up_at(step.config, step.now, reply.status));
                session.deadline_min = session.deadline_min.min(opening.deadline);
                self.due = self.due.min(opening.deadline);
                opening.sent = false;
                let until = step.retry_at(session.pace.refusals);
                session.pace.refusals = session.pace.refusals.saturating_add(1);
                session.pace.hold_until = Some(until);
                self.due = self.due.min(until);
            }
            ReplyStatus::SessionLimit => {
                step.out.complete(opening.call.take(), Err(Error::SessionLimit));
                self.drop_session(step, index, &Error::SessionLimit);
            }
            _ => return Taken::No,
        }
        Taken::Progress
    }

    /// Gives up a session that was never opened. Callers that wait in it are told why.
    fn drop_session(&mut self, step: &mut Step<'_>, index: u32, why: &Error) {
        let Some(mut session) = self.remove(index) else { return };
        if session.queries {
            self.query_session = None;
        }
        for entry in session.take_entries(&mut self.held) {
            self.queued -= entry.cost();
            step.out.complete(entry.call, Err(why.clone()));
        }
    }

    /// All replicas refuse the client, so everything that was never sent fails at once.
    pub(crate) fn fail_unsent(&mut self, step: &mut Step<'_>, error: &Error) {
        for index in self.cells() {
            if let Some(Session { phase: Phase::Opening(opening), .. }) = self.at(index)
                && opening.open_sends == 0
            {
                step.out.complete(opening.call.take(), Err(error.clone()));
                self.drop_session(step, index, error);
            }
        }
    }
}

// Refusals.
impl Sessions {
    /// The cluster had no room for this request. It refuses later ones, too, so all of them are sent again after a while.
    fn no_room(&mut self, step: &mut Step<'_>, index: u32, number: u64, status: ReplyStatus) -> Taken {
        let takes_back = self.rules.takes_back;
        let Some(session) = self.cells[index as usize].session.as_mut() else { return Taken::No };
        let Some(entry) = session.sent_entry(number) else { return Taken::No };
        entry.open_sends = entry.open_sends.saturating_sub(takes_back);
        entry.refused = Some(status);
        entry.deadline = entry.deadline.min(give_up_at(step.config, step.now, status));
        let deadline = entry.deadline;
        session.deadline_min = session.deadline_min.min(deadline);
        self.due = self.due.min(deadline);
        session.pace.refused = Some(status);
        // Only the first of those that were refused together says how many there was room for. Where requests go to all members, they
        // refuse each by itself, and some may have kept it.
        if status == ReplyStatus::Overloaded && takes_back > 0 && number < session.queue.sent() {
            session.pace.narrow(number - session.base());
        }
        session.rewind(number);
        if session.pace.hold_until.is_none() {
            let until = step.retry_at(session.pace.refusals);
            session.pace.refusals = session.pace.refusals.saturating_add(1);
            session.pace.hold_until = Some(until);
            self.due = self.due.min(until);
        }
        Taken::Progress
    }

    /// The cluster expects another number. The first such answer sends again from there; more of the same may be old
    /// news of what was sent before that, so they only set a timer.
    fn expected(&mut self, step: &mut Step<'_>, index: u32, number: u64, body: &[u8]) -> Taken {
        let takes_back = self.rules.takes_back;
        let Some(session) = self.cells[index as usize].session.as_mut() else { return Taken::No };
        let Some(entry) = session.sent_entry(number) else { return Taken::No };
        entry.open_sends = entry.open_sends.saturating_sub(takes_back);
        let Some(wanted) = body.first_chunk::<8>().map(|word| u64::from_le_bytes(*word)) else {
            return Taken::No;
        };
        let end = session.queue.end();
        if wanted > end {
            let detail = format!("the cluster expects #{wanted}, and only {} were used", end - 1);
            self.end_session(step, index, Death::Broken(detail));
            return Taken::Yes;
        }
        if wanted < session.base() {
            return Taken::No;
        }
        if wanted < number && session.pace.expected.is_none_or(|before| before < wanted) {
            session.pace.expected = Some(wanted);
            session.rewind(wanted);
            self.mark_dirty(index);
        } else if session.pace.recheck.is_none() {
            let until = step.retry_at(session.pace.refusals);
            session.pace.refusals = session.pace.refusals.saturating_add(1);
            session.pace.recheck = Some((until, wanted));
            self.due = self.due.min(until);
        }
        Taken::Yes
    }

    /// One member, whose word is enough, says that this request is over a limit or not allowed. An empty request is sent in its place, and
    /// the answer to that tells whether the number was used. If the cluster took the empty one, the commands did not run. If it answers the
    /// same again, the commands used the number.
    fn too_large(&mut self, step: &mut Step<'_>, index: u32, reply: &Reply<'_>) -> Taken {
        let number = reply.number.number();
        let Some(session) = self.cells[index as usize].session.as_mut() else { return Taken::No };
        let Some(entry) = session.queue.sent_entry(number) else { return Taken::No };
        entry.open_sends = entry.open_sends.saturating_sub(1);
        let detail = detail_of(reply.body);
        if let Some(before) = entry.too_large.as_mut().filter(|before| before.copies > 0) {
            before.copies -= 1;
            let until = step.retry_at(session.pace.refusals);
            session.pace.recheck.get_or_insert((until, number));
            self.due = self.due.min(until);
            return Taken::Yes;
        }
        if entry.kind != RequestKind::Commands {
            entry.too_large = None;
            let error = Error::TooLarge { outcome_unknown: true, detail };
            return self.answered(step, index, number, Err(error));
        }
        let (copies, forbidden) = (entry.open_sends, reply.status == ReplyStatus::Forbidden);
        let outcome_unknown = copies > 0;
        entry.too_large = Some(TooLarge { detail, forbidden, outcome_unknown, answer_tells: false, copies });
        self.replace(index, number);
        Taken::Yes
    }

    /// Enough members will never take this request: one of them is honest. An empty request takes its number. Other members that might order
    /// the first one have copies, so the answer to the number tells which of the two ran.
    pub(crate) fn declined(&mut self, step: &mut Step<'_>, index: u32, reply: &Reply<'_>) -> Taken {
        let number = reply.number.number();
        let forbidden = reply.status == ReplyStatus::Forbidden;
        let Some((entry, _)) = self.sent_entry(index, number) else { return Taken::No };
        match entry.kind {
            RequestKind::Query => {
                let (outcome_unknown, detail) = (false, detail_of(reply.body));
                let error = if forbidden {
                    Error::Forbidden { outcome_unknown }
                } else {
                    Error::TooLarge { outcome_unknown, detail }
                };
                step.out.complete(entry.call.take(), Err(error));
            }
            RequestKind::Commands => {
                let (detail, copies) = (detail_of(reply.body), 0);
                entry.too_large =
                    Some(TooLarge { detail, forbidden, outcome_unknown: true, answer_tells: true, copies });
            }
            // Said of what the empty one replaced; or of what anybody may ask.
            _ => return Taken::Yes,
        }
        self.replace(index, number);
        Taken::Progress
    }

    /// An empty request takes the number of this one, and is sent.
    fn replace(&mut self, index: u32, number: u64) {
        let Some(session) = self.cells[index as usize].session.as_mut() else { return };
        let Some(entry) = session.queue.sent_entry(number) else { return };
        self.queued -= entry.make_empty();
        session.rewind(number);
        self.mark_dirty(index);
    }
}

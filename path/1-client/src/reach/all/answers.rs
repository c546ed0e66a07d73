//! What an answer does where any f members may lie: nothing, until f+1 say the same (`votes.rs`).
//!
//! What that means for the question whether a request may run (INV-CLIENT-3):
//! - A request is sent to all members, and any of them may order it. If f+1 refuse it, one honest member does, but that says nothing about
//!   the others. So a refusal takes nothing back: a request that was sent once may run until f+1 say what execution decided about its
//!   number. A caller that gives up earlier is told that the outcome is unknown, and the request keeps its number, its body and its bytes.
//! - A request that f+1 refuse for its size, or because its client has no right to it, would block its session for ever. An empty request
//!   takes over its number. The answer that f+1 give to that number tells which of the two ran: an empty list means the empty one, and then
//!   the commands never run. Anything else means the commands ran, and the caller is told "unknown".
//! - The copies of a request are equal to the last byte, with the lowest unanswered number in them, since replicas compare what they got
//!   with what a leader proposes. Only after f+1 had no room for a request, its later copies name a newer lowest number: perhaps room is
//!   lacking because of the very replies that the client has by now.
//!
//! One member's word about the membership (`told.rs`), the cluster or how far it executed does not count either.

use super::ToAll;
use crate::error::Error;
use crate::parts::Parts;
use crate::sessions::detail_of;
use crate::step::Step;
use crate::votes::{Tally, is_final};
use bytes::Bytes;
use quorate_types::{Digest, Seq, SessionId};
use quorate_wire::{Reply, ReplyStatus};

impl ToAll {
    /// Counts one member's answer. False when it fits nothing that waits or waited.
    pub(super) fn vote(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
    ) -> bool {
        if reply.status == ReplyStatus::Position {
            return self.executed(parts, from, reply);
        }
        let fits = reply.body.len() == Digest::BYTES && step.config.combiner.is_none();
        if reply.status == ReplyStatus::DoneDigest && !fits {
            return false;
        }
        if reply.status == ReplyStatus::SessionOpened || reply.session == SessionId::NONE {
            return self.vote_on_opening(step, parts, from, reply, payload);
        }
        let Some(cell) = parts.sessions.cell_of(reply.session) else { return false };
        if reply.status == ReplyStatus::SessionExpired {
            return self.vote_on_end(step, parts, cell, from, reply);
        }
        self.vote_on_request(step, parts, (cell, from), reply, payload)
    }

    fn vote_on_request(
        &mut self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        (cell, from): (u32, usize),
        reply: &Reply<'_>,
        payload: &Bytes,
    ) -> bool {
        let number = reply.number.number();
        let Some((entry, held)) = parts.sessions.sent_entry(cell, number) else {
            // Others answered faster.
            return parts.sessions.at(cell).is_some_and(|session| number < session.high());
        };
        let combiner = step.config.combiner.as_ref();
        match entry.votes.add(from, reply, payload, (self.needed, combiner), held) {
            Tally::Counts if is_final(reply) => {
                let (since, liars) = (entry.votes.since, entry.votes.others(reply, combiner));
                let taken = if let (Some(combiner), ReplyStatus::Done) = (combiner, reply.status) {
                    // One of them may only seem to say the same.
                    let Some(body) = entry.votes.combined(reply, combiner) else { return true };
                    agreed(step, parts, cell, &Reply { body: &body, ..*reply }, &body)
                } else if reply.status == ReplyStatus::DoneDigest {
                    let body = entry.votes.whole(reply);
                    let whole = Reply { status: ReplyStatus::Done, body: &body, ..*reply };
                    agreed(step, parts, cell, &whole, &body)
                } else {
                    agreed(step, parts, cell, reply, payload)
                };
                self.repliers.judged(step.now, &mut parts.sessions, since, liars);
                taken
            }
            Tally::Counts => agreed(step, parts, cell, reply, payload),
            Tally::Begins => {
                entry.votes.since = step.now;
                self.repliers.begun(step.now, &parts.sessions, cell, number);
                true
            }
            Tally::Waits => true,
            Tally::Contradicts => {
                parts.stats.contradictions += 1;
                false
            }
        }
    }

    /// A member says that a session is over, whatever number its answer names.
    fn vote_on_end(
        &self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        cell: u32,
        from: usize,
        reply: &Reply<'_>,
    ) -> bool {
        let Some(session) = parts.sessions.at(cell) else { return false };
        if !reply.body.is_empty() || reply.number.number() >= session.high() {
            return false;
        }
        if session.says_expired(from) < self.needed {
            return true;
        }
        parts.sessions.reply(step, reply, &Bytes::new()).is_taken()
    }

    /// A member answers an opening. Its newest answer counts: when the first session expired before any answer arrived, the cluster rightly
    /// names another one.
    fn vote_on_opening(
        &self,
        step: &mut Step<'_>,
        parts: &mut Parts,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
    ) -> bool {
        let Some(cell) = parts.sessions.opening_cell(reply.number.number()) else {
            return parts.sessions.cell_of(reply.session).is_some();
        };
        let opens = reply.status == ReplyStatus::SessionOpened && reply.session != SessionId::NONE;
        let refuses = matches!(
            reply.status,
            ReplyStatus::Overloaded | ReplyStatus::DiskFull | ReplyStatus::SessionLimit
        );
        if !(opens || refuses) || !reply.body.is_empty() {
            return false;
        }
        let Some((votes, held)) = parts.sessions.opening_votes(cell) else { return false };
        match votes.add(from, reply, payload, (self.needed, None), held) {
            Tally::Counts if opens => parts.sessions.opened(step, reply).is_taken(),
            Tally::Counts => parts.sessions.open_refused(step, reply).is_taken(),
            Tally::Waits | Tally::Begins => true,
            Tally::Contradicts => false,
        }
    }

    /// A member says how far it executed. What f+1 say becomes the newest known state. Nothing else depends on it, since reads are ordered,
    /// or answered by a quorum.
    fn executed(&mut self, parts: &mut Parts, from: usize, reply: &Reply<'_>) -> bool {
        if reply.session != SessionId::NONE || !reply.body.is_empty() {
            return false;
        }
        if let Some(newest) = self.notices.executed(from, Seq::new(reply.number.number())) {
            parts.reads.reached(newest);
        }
        true
    }
}

/// Enough members gave this answer to a request of a session.
fn agreed(step: &mut Step<'_>, parts: &mut Parts, cell: u32, reply: &Reply<'_>, payload: &Bytes) -> bool {
    let number = reply.number.number();
    match reply.status {
        ReplyStatus::TooLarge if is_final(reply) => {
            let result = Err(Error::TooLarge { outcome_unknown: true, detail: detail_of(reply.body) });
            return parts.sessions.answered(step, cell, number, result).is_taken();
        }
        ReplyStatus::TooLarge | ReplyStatus::Forbidden => {
            return parts.sessions.declined(step, cell, reply).is_taken();
        }
        ReplyStatus::Overloaded | ReplyStatus::DiskFull => {
            // With a text it was not kept, and never ordered: the copies that others keep stay as they are.
            if reply.body.is_empty()
                && let Some(session) = parts.sessions.at(cell)
            {
                session.renew_lowest(number);
            }
        }
        _ => {}
    }
    parts.sessions.reply(step, reply, payload).is_taken()
}

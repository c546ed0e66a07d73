//! What answers do where any f members may lie: nothing, until f+1 say the same (`votes.rs`).
//!
//! What that means for whether a request may run (INV-CLIENT-3):
//! - A request is sent to all members, and any of them may order it. That f+1 refuse it shows that one honest member does, and nothing
//!   about the others. So a refusal takes back nothing: what was sent once may run until f+1 say what execution decided of its number.
//!   A caller that gives up before is told that the outcome is unknown, and the request keeps its number, its body and its bytes.
//! - What f+1 will not take for its size, or because its client may not, would hold up its session for ever. An empty request takes its
//!   number, and what f+1 answer to that number tells what ran: an empty list is the empty one's, and then the commands never run;
//!   anything else is the commands' own, and their caller is told "unknown".
//! - The copies of a request are equal to the last byte, the lowest unanswered number among them, since replicas compare what they got with
//!   what a leader proposes. Only when f+1 had no room for it, later copies of it name a newer one: room may be lacking for the very
//!   replies that the client has by now.
//!
//! One member's word about the membership, the cluster or how far it executed counts for nothing, either.

use crate::core::{ClientCore, Known};
use crate::effects::Effects;
use crate::error::Error;
use crate::session::{Phase, TooLarge};
use crate::votes::{Tally, is_final};
use bytes::Bytes;
use quorate_types::{Digest, ReplicaId, Seq, SessionId, Time, View};
use quorate_wire::{REQUEST_HEADER, Reply, ReplyStatus, RequestKind, RequestProof};

impl ClientCore {
    /// Whether members may lie.
    pub(crate) fn may_lie(&self) -> bool {
        self.config.faults.may_lie()
    }

    /// Bytes of a request beside its body.
    pub(crate) fn around(&self) -> usize {
        REQUEST_HEADER + self.proof().byte_len()
    }

    /// What stands behind the bodies of requests.
    pub(crate) fn proof(&self) -> RequestProof {
        match &self.tagging {
            _ if !self.may_lie() => RequestProof::None,
            _ if self.config.signer.is_some() => RequestProof::Signature,
            Some(tagging) => tagging.proof(),
            None => RequestProof::None,
        }
    }

    /// How many copies of a request a refusal takes back: the one that it answers; none of many copies to many replicas.
    pub(crate) fn copies_refused(&self) -> u32 {
        u32::from(!self.may_lie())
    }

    /// One member's answer; false when it fits nothing that waits or waited.
    pub(crate) fn vote(
        &mut self,
        now: Time,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
        out: &mut Effects,
    ) -> bool {
        if reply.status == ReplyStatus::Position {
            return self.executed(from, reply);
        }
        let fits = reply.body.len() == Digest::BYTES && self.config.combiner.is_none();
        if reply.status == ReplyStatus::DoneDigest && !fits {
            return false;
        }
        if reply.status == ReplyStatus::SessionOpened || reply.session == SessionId::NONE {
            return self.vote_on_opening(now, from, reply, payload, out);
        }
        let Some(&index) = self.sessions.by_id.get(&reply.session) else { return false };
        if reply.status == ReplyStatus::SessionExpired {
            return self.vote_on_end(now, index, from, reply, out);
        }
        let needed = self.needed;
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return false };
        let number = reply.number.number();
        let Some(entry) = session.sent_entry(number) else {
            // Others answered faster.
            return number < session.high();
        };
        let combiner = self.config.combiner.as_ref();
        match entry.votes.add(from, reply, payload, (needed, combiner), &mut self.held) {
            Tally::Counts if is_final(reply) => {
                let (since, liars) = (entry.votes.since, entry.votes.others(reply, combiner));
                let taken = if let (Some(combiner), ReplyStatus::Done) = (combiner, reply.status) {
                    // One of them may only seem to say the same.
                    let Some(body) = entry.votes.combined(reply, combiner) else { return true };
                    let whole = Reply { body: &body, ..*reply };
                    self.agreed(now, index, from, &whole, &body, out)
                } else if reply.status == ReplyStatus::DoneDigest {
                    let body = entry.votes.whole(reply);
                    let whole = Reply { status: ReplyStatus::Done, body: &body, ..*reply };
                    self.agreed(now, index, from, &whole, &body, out)
                } else {
                    self.agreed(now, index, from, reply, payload, out)
                };
                self.judged(now, since, liars);
                taken
            }
            Tally::Counts => self.agreed(now, index, from, reply, payload, out),
            Tally::Begins => {
                entry.votes.since = now;
                self.begun(now, index, number);
                true
            }
            Tally::Waits => true,
            Tally::Contradicts => {
                self.stats.contradictions += 1;
                false
            }
        }
    }

    /// Enough members gave this answer to a request of a session.
    fn agreed(
        &mut self,
        now: Time,
        index: u32,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
        out: &mut Effects,
    ) -> bool {
        let number = reply.number.number();
        match reply.status {
            ReplyStatus::TooLarge if is_final(reply) => {
                let result = Err(Error::TooLarge { outcome_unknown: true, detail: detail_of(reply) });
                return self.answered(now, index, number, result, out);
            }
            ReplyStatus::TooLarge | ReplyStatus::Forbidden => {
                return self.declined(now, index, reply, out);
            }
            ReplyStatus::Overloaded | ReplyStatus::DiskFull => {
                // With a text it was not kept, and never ordered: the copies that others keep stay as they are.
                if reply.body.is_empty()
                    && let Some(session) = self.sessions.at(index)
                {
                    session.renew_lowest(number);
                }
            }
            _ => {}
        }
        self.reply(now, from, reply, payload, out)
    }

    /// Enough members will never take this request: an empty one takes its number.
    fn declined(&mut self, now: Time, index: u32, reply: &Reply<'_>, out: &mut Effects) -> bool {
        let number = reply.number.number();
        let forbidden = reply.status == ReplyStatus::Forbidden;
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return false };
        let Some(entry) = session.sent_entry(number) else { return false };
        match entry.kind {
            RequestKind::Query => {
                let (outcome_unknown, detail) = (false, detail_of(reply));
                let error = if forbidden {
                    Error::Forbidden { outcome_unknown }
                } else {
                    Error::TooLarge { outcome_unknown, detail }
                };
                out.complete(entry.call.take(), Err(error));
            }
            RequestKind::Commands => {
                let detail = detail_of(reply);
                entry.too_large = Some(TooLarge { detail, forbidden, outcome_unknown: true, copies: 0 });
            }
            // Said of what the empty one replaced; or of what anybody may ask.
            _ => return true,
        }
        let freed = entry.body.len();
        entry.make_empty();
        session.rewind(number);
        self.queued_bytes -= freed;
        self.sessions.mark_dirty(index);
        self.progress(now);
        true
    }

    /// A member says that a session is over. It is a word about the session, whatever number it names.
    fn vote_on_end(
        &mut self,
        now: Time,
        index: u32,
        from: usize,
        reply: &Reply<'_>,
        out: &mut Effects,
    ) -> bool {
        let needed = self.needed;
        let Some(session) = self.sessions.at(index) else { return false };
        if !reply.body.is_empty() || reply.number.number() >= session.high() {
            return false;
        }
        session.expired |= 1 << from;
        if session.expired.count_ones() < needed {
            return true;
        }
        self.reply(now, from, reply, &Bytes::new(), out)
    }

    /// A member answers an opening. Its newest word counts: when the first session expired before anybody heard of it, the cluster
    /// rightly names another one.
    fn vote_on_opening(
        &mut self,
        now: Time,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
        out: &mut Effects,
    ) -> bool {
        let needed = self.needed;
        let Some(&index) = self.sessions.by_nonce.get(&reply.number.number()) else {
            return self.sessions.by_id.contains_key(&reply.session);
        };
        let opens = reply.status == ReplyStatus::SessionOpened && reply.session != SessionId::NONE;
        let refuses = matches!(
            reply.status,
            ReplyStatus::Overloaded | ReplyStatus::DiskFull | ReplyStatus::SessionLimit
        );
        if !(opens || refuses) || !reply.body.is_empty() {
            return false;
        }
        let Some(session) = self.sessions.places[index as usize].session.as_mut() else { return false };
        let Phase::Opening(opening) = &mut session.phase else { return false };
        match opening.votes.add(from, reply, payload, (needed, None), &mut self.held) {
            Tally::Counts if opens => self.opened(now, reply, out),
            Tally::Counts => self.open_refused(now, from, reply, out),
            Tally::Waits | Tally::Begins => true,
            Tally::Contradicts => false,
        }
    }

    /// A member says how far it executed. What f+1 say is what the newest state is known to be, and nothing else depends on it: reads
    /// are ordered.
    fn executed(&mut self, from: usize, reply: &Reply<'_>) -> bool {
        if reply.session != SessionId::NONE || !reply.body.is_empty() {
            return false;
        }
        let seq = Seq::new(reply.number.number());
        if seq <= self.links[from].executed {
            return true;
        }
        self.links[from].executed = seq;
        // The highest one that enough members reach.
        let reached = |seq: Seq| self.links.iter().filter(|link| link.executed >= seq).count() as u32;
        let newest = self.links.iter().map(|link| link.executed).filter(|seq| reached(*seq) >= self.needed);
        let newest = newest.max().unwrap_or(Seq::ZERO);
        self.reads.newest = self.reads.newest.max(newest);
        true
    }

    /// A member says who leads. What f+1 say is shown, and who gets requests first.
    pub(crate) fn noticed(&mut self, now: Time, from: usize, view: View, leader: Option<ReplicaId>) {
        self.links[from].notice = Some((view, leader));
        let says = |notice| self.links.iter().filter(|link| link.notice == Some(notice)).count() as u32;
        let known = self.links.iter().filter_map(|link| link.notice);
        let known = known.filter(|notice| says(*notice) >= self.needed).max_by_key(|(view, _)| *view);
        if let Some((view, leader)) = known {
            let leader = leader.and_then(|id| self.links.iter().position(|link| link.replica == id));
            let before = std::mem::replace(&mut self.known, Known { view, leader });
            self.leads_now(now, before);
        }
    }

    /// Whether so many members refuse our connection that no answer can count any more.
    pub(crate) fn all_refuse(&self) -> bool {
        let refusing = self.links.iter().filter(|link| link.refused).count();
        let left = self.links.len() - refusing;
        left == 0 || (self.may_lie() && left < self.needed as usize)
    }

    /// What stands in the way of requests, for people.
    pub(crate) fn detail_of_all(&self) -> String {
        let up = self.links.iter().filter(|link| link.up().is_some()).count();
        format!(
            "{up} of {} replicas are connected, {} equal answers are needed",
            self.links.len(),
            self.needed
        )
    }
}

fn detail_of(reply: &Reply<'_>) -> String {
    String::from_utf8_lossy(&reply.body[..reply.body.len().min(256)]).into_owned()
}

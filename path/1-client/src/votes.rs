//! When an answer counts. This file is the comparison, and nothing else compares answers.
//!
//! With crash faults any member's answer is true. With Byzantine faults any one of them may lie: an answer counts once f+1 different
//! members gave equal ones (same session, number, status and body, byte by byte). One of them is honest, and says what was agreed on.
//!
//! - What execution decided is final, and the same at all honest members for ever. So each member has one such vote: its first. Another
//!   one that differs is evidence of a lie, and counts for nothing.
//! - A refusal is a member's word about now. Its newest word counts, until it says something final. What f+1 refused in the same way
//!   takes effect once, and is forgotten then; the next time f+1 must say it again.
//!
//! A member may send the digest of a long answer instead of it (`repliers.rs`). It stands by the answer as well as who sends it whole, and
//! the answer counts when enough stand by it and one of them sent it whole.
//!
//! A client that compares in a way of its own ([`Combines`]) keeps the answer of each member of a group, and digests count for nothing.
//!
//! Votes on one request are one group for each answer. The first group lies in the request's entry, so that two equal answers cost no
//! allocation. What a member makes us keep is bounded ([`KeptAnswers`]): a vote that does not fit is not counted, and comes again when
//! the request is sent again.
//!
//! INV-CLIENT-9: no answer takes effect that fewer than f+1 different members gave.
//! INV-CLIENT-10: what is kept of answers is counted, and bounded for each member.
//! Tests: tests/byzantine.rs, votes/tests.rs.

use crate::combiner::Combines;
use bytes::Bytes;
use quorate_types::{Digest, SessionId, Time};
use quorate_wire::{Reply, ReplyStatus, reply_digest};

/// A body is kept as a slice of the frame that it came in, unless that keeps more than this alive for little of it.
const PINNED_MAX: usize = 64 << 10;

/// How many bytes of answers are kept for each member, by contact.
#[derive(Debug)]
pub(crate) struct KeptAnswers {
    bytes: Vec<usize>,
    max: usize,
}

impl KeptAnswers {
    /// At most `max` bytes for each of `members`.
    pub(crate) fn new(members: usize, max: usize) -> Self {
        Self { bytes: vec![0; members], max }
    }

    /// One answer always fits, however large.
    pub(crate) fn take(&mut self, from: usize, bytes: usize) -> bool {
        let Some(held) = self.bytes.get_mut(from) else { return false };
        let fits = bytes == 0 || *held == 0 || *held + bytes <= self.max;
        if fits {
            *held += bytes;
        }
        fits
    }

    pub(crate) fn give(&mut self, from: usize, bytes: usize) {
        if let Some(held) = self.bytes.get_mut(from) {
            *held -= bytes;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.fill(0);
    }

    pub(crate) fn total(&self) -> usize {
        self.bytes.iter().sum()
    }
}

/// Equal answers, and who gave them.
#[derive(Debug)]
struct Group {
    /// As bits, by contact.
    members: u64,
    /// Whose answer is kept.
    kept_for: usize,
    session: SessionId,
    status: ReplyStatus,
    /// Empty as long as only the digest is known.
    body: Bytes,
    /// Those of others that say the same in other bytes, with whose they are; with a combiner only.
    own: Vec<(usize, Bytes)>,
    /// The body is here.
    whole: bool,
    /// The body's, once it is needed.
    digest: Option<Digest>,
    last: bool,
}

impl Group {
    fn new(bit: u64, from: usize, reply: &Reply<'_>, payload: &Bytes) -> Self {
        let (session, last) = (reply.session, is_final(reply));
        let whole = reply.status != ReplyStatus::DoneDigest;
        let status = if whole { reply.status } else { ReplyStatus::Done };
        let body = if whole { keep(reply.body, payload) } else { Bytes::new() };
        let digest = if whole { None } else { digest_in(reply) };
        Self { members: bit, kept_for: from, session, status, body, own: Vec::new(), whole, digest, last }
    }

    fn is(&mut self, reply: &Reply<'_>, combiner: Option<&Combines>) -> bool {
        let by_digest = reply.status == ReplyStatus::DoneDigest;
        let status = if by_digest { ReplyStatus::Done } else { reply.status };
        if self.session != reply.session || self.status != status {
            return false;
        }
        if let (Some(combiner), ReplyStatus::Done) = (combiner, self.status) {
            return !by_digest && combiner.same(&self.body, reply.body);
        }
        match (self.whole, by_digest) {
            (true, false) => self.body[..] == *reply.body,
            (true, true) => Some(self.digest()) == digest_in(reply),
            (false, true) => self.digest == digest_in(reply),
            (false, false) => self.digest == Some(reply_digest(reply.body)),
        }
    }

    fn digest(&mut self) -> Digest {
        *self.digest.get_or_insert_with(|| reply_digest(&self.body))
    }

    /// A member that stands by this does so in its own words. Whether there is room for them.
    fn keep_own(&mut self, from: usize, reply: &Reply<'_>, payload: &Bytes, held: &mut KeptAnswers) -> bool {
        let known = self.kept_for == from || self.own.iter().any(|(of, _)| *of == from);
        let fits = known || held.take(from, reply.body.len());
        if fits && !known {
            self.own.push((from, keep(reply.body, payload)));
        }
        fits
    }

    fn give(&self, held: &mut KeptAnswers) {
        held.give(self.kept_for, self.body.len());
        self.own.iter().for_each(|(from, body)| held.give(*from, body.len()));
    }

    fn held(&self) -> usize {
        self.body.len() + self.own.iter().map(|(_, body)| body.len()).sum::<usize>()
    }

    /// A member that stands by this sends it whole.
    fn fill(&mut self, from: usize, reply: &Reply<'_>, payload: &Bytes, held: &mut KeptAnswers) {
        let whole = reply.status != ReplyStatus::DoneDigest;
        if !self.whole && whole && held.take(from, reply.body.len()) {
            (self.kept_for, self.body, self.whole) = (from, keep(reply.body, payload), true);
        }
    }
}

/// The digest that a reply consists of.
fn digest_in(reply: &Reply<'_>) -> Option<Digest> {
    reply.body.try_into().ok().map(Digest::new)
}

/// What became of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tally {
    /// Enough members say so: it is true.
    Counts,
    /// More are needed, or somebody who sends it whole.
    Waits,
    /// The same; it is the first word of what execution decided.
    Begins,
    /// This member said something else before, and can not take it back.
    Contradicts,
}

/// All votes on one request.
#[derive(Debug, Default)]
pub(crate) struct Votes {
    first: Option<Group>,
    others: Vec<Group>,
    /// When the first one came.
    pub(crate) since: Time,
    /// Others were asked in vain, and nobody looks any more (`repliers.rs`).
    pub(crate) rests: bool,
}

/// Whether a reply tells what execution decided about its request.
pub(crate) fn is_final(reply: &Reply<'_>) -> bool {
    match reply.status {
        ReplyStatus::Done | ReplyStatus::DoneDigest | ReplyStatus::ReplyForgotten => true,
        ReplyStatus::TooLarge => reply.body.starts_with(b"executed"),
        _ => false,
    }
}

impl Votes {
    /// Enters the answer of the member behind contact `from`, which came in `payload`; `needed` equal ones count.
    pub(crate) fn add(
        &mut self,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
        (needed, combiner): (u32, Option<&Combines>),
        held: &mut KeptAnswers,
    ) -> Tally {
        let (bit, last) = (1 << from, is_final(reply));
        if let Some(before) = self.groups_mut().find(|group| group.last && group.members & bit != 0) {
            if !last {
                return Tally::Waits;
            }
            if !before.is(reply, combiner) {
                return Tally::Contradicts;
            }
            // Who gave the digest may give the answer itself later.
            let lacked = !before.whole;
            before.fill(from, reply, payload, held);
            let counts = lacked && before.whole && before.members.count_ones() >= needed;
            return if counts { Tally::Counts } else { Tally::Waits };
        }
        let begins = last && self.groups().all(|group| !group.last);
        self.groups_mut().for_each(|group| group.members &= !bit);
        let (mut votes, mut whole) = self.join(from, reply, payload, combiner, held);
        if votes == 0 && (needed <= 1 || held.take(from, body_len(reply))) {
            (votes, whole) = (1, reply.status != ReplyStatus::DoneDigest);
            if needed > 1 {
                self.found(Group::new(bit, from, reply, payload));
            }
        }
        self.drop_groups(held, |group| group.members == 0);
        if votes < needed || !whole {
            return if begins && votes > 0 { Tally::Begins } else { Tally::Waits };
        }
        if !last {
            self.drop_groups(held, |group| group.is(reply, combiner));
        }
        Tally::Counts
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        self.first.iter().chain(&self.others)
    }

    fn groups_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.first.iter_mut().chain(&mut self.others)
    }

    /// Joins those who said the same; how many there are then, and whether one of them said it whole.
    fn join(
        &mut self,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
        combiner: Option<&Combines>,
        held: &mut KeptAnswers,
    ) -> (u32, bool) {
        let Some(group) = self.groups_mut().find_map(|group| group.is(reply, combiner).then_some(group))
        else {
            return (0, false);
        };
        if combiner.is_some() && group.last && !group.keep_own(from, reply, payload, held) {
            return (0, false);
        }
        group.members |= 1 << from;
        group.fill(from, reply, payload, held);
        (group.members.count_ones(), group.whole)
    }

    fn found(&mut self, group: Group) {
        if self.first.is_none() {
            self.first = Some(group);
        } else {
            self.others.push(group);
        }
    }

    fn drop_groups(&mut self, held: &mut KeptAnswers, mut over: impl FnMut(&mut Group) -> bool) {
        if let Some(group) = self.first.take_if(|group| over(group)) {
            group.give(held);
        }
        self.others.retain_mut(|group| {
            let over = over(group);
            if over {
                group.give(held);
            }
            !over
        });
    }

    /// The request is over: nothing is kept any more.
    pub(crate) fn clear(&mut self, held: &mut KeptAnswers) {
        self.drop_groups(held, |_| true);
    }

    /// What those stand by who said this, whole; empty if nobody sent it.
    pub(crate) fn whole(&mut self, reply: &Reply<'_>) -> Bytes {
        let group = self.groups_mut().find_map(|group| group.is(reply, None).then_some(group));
        group.map(|group| group.body.clone()).unwrap_or_default()
    }

    /// What a combiner makes of the answers of those who said the same as this.
    pub(crate) fn combined(&mut self, reply: &Reply<'_>, combiner: &Combines) -> Option<Bytes> {
        let group = self.groups_mut().find_map(|group| group.is(reply, Some(combiner)).then_some(group))?;
        let bodies: Vec<&Bytes> =
            std::iter::once(&group.body).chain(group.own.iter().map(|(_, body)| body)).collect();
        combiner.combine(&bodies)
    }

    /// The members, as bits, that said what execution decided.
    pub(crate) fn decided(&self) -> u64 {
        self.groups().filter(|group| group.last).fold(0, |all, group| all | group.members)
    }

    /// The members, as bits, that said of it something else than this.
    pub(crate) fn others(&mut self, reply: &Reply<'_>, combiner: Option<&Combines>) -> u64 {
        if self.others.is_empty() {
            return 0; // nearly always all say the same
        }
        let others =
            self.groups_mut().filter_map(|group| (group.last && !group.is(reply, combiner)).then_some(group));
        others.fold(0, |all, group| all | group.members)
    }

    /// Whether so many stand by an answer that nobody sent whole.
    pub(crate) fn lacks(&self, needed: u32) -> bool {
        self.groups().any(|group| !group.whole && group.members.count_ones() >= needed)
    }

    /// How many members stand by the answer that most of them gave.
    pub(crate) fn most(&self) -> u32 {
        self.groups().map(|group| group.members.count_ones()).max().unwrap_or(0)
    }

    /// Bytes of answers that are kept.
    pub(crate) fn held(&self) -> usize {
        self.groups().map(Group::held).sum()
    }
}

/// Bytes that are kept of a reply.
fn body_len(reply: &Reply<'_>) -> usize {
    if reply.status == ReplyStatus::DoneDigest { 0 } else { reply.body.len() }
}

/// The body to keep. A small part of a large frame is copied: a liar may pack one answer of use into each large frame.
pub(crate) fn keep(body: &[u8], payload: &Bytes) -> Bytes {
    if payload.len() > PINNED_MAX && body.len() < payload.len() / 8 {
        Bytes::copy_from_slice(body)
    } else {
        payload.slice_ref(body)
    }
}

#[cfg(test)]
mod tests;

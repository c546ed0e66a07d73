//! When an answer counts. All comparing of answers is in this file.
//!
//! With crash faults any member's answer counts. With Byzantine faults any member may lie: an answer counts once f+1 different members gave
//! equal ones (same session, number, status and body, byte by byte). One of these members is honest and says what was agreed on.
//!
//! - What execution decided is final, and the same at all honest members for ever. So each member has one such vote: its first. A later one
//!   that differs shows that the member lies, and does not count.
//! - A refusal says what a member does now. Its newest one counts, until it says something final. A refusal that f+1 gave takes effect once
//!   and is then forgotten; the next time f+1 must give it again.
//!
//! A member may send the digest of a long answer instead of the answer (`repliers.rs`). The digest counts like the answer itself. The
//! answer counts when enough members gave it and one of them sent it whole.
//!
//! With a combiner ([`Combines`]), the answer of each member of a group is kept, and digests do not count.
//!
//! The votes on one request are one group for each different answer. The first group lies in the request's entry, so that two equal answers
//! cost no allocation. What one member makes the client keep is bounded ([`KeptAnswers`]): a vote that does not fit is not counted, and
//! comes again when the request is sent again.
//!
//! INV-CLIENT-9: an answer takes effect only if f+1 or more different members gave it.
//! INV-CLIENT-10: the bytes of kept answers are counted, and bounded for each member.
//! Tests: tests/byzantine.rs, votes/tests.rs.

use crate::combiner::Combines;
use bytes::Bytes;
use quorate_types::{Digest, SessionId, Time};
use quorate_wire::{Reply, ReplyStatus, reply_digest};

/// A body is kept as a slice of the frame that it came in, unless that would keep more than this alive for a small body.
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

    /// Counts this many bytes, if they fit. One answer always fits, however large.
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

    /// There is a contact with this index.
    pub(crate) fn reach(&mut self, contact: usize) {
        self.bytes.resize(self.bytes.len().max(contact + 1), 0);
    }

    pub(crate) fn total(&self) -> usize {
        self.bytes.iter().sum()
    }
}

/// Equal answers, and the members that gave them.
#[derive(Debug)]
struct Group {
    /// The members, as bits by contact.
    members: u64,
    /// The member for which the kept body is counted.
    kept_for: usize,
    session: SessionId,
    status: ReplyStatus,
    /// Empty while only the digest is known.
    body: Bytes,
    /// With a combiner: the other members' answers, which say the same in other bytes.
    own: Vec<(usize, Bytes)>,
    /// Whether the body is here.
    whole: bool,
    /// The body's digest, once it is needed.
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

    /// Keeps a member's own form of the answer. Returns whether there was room for it.
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

    /// A member that gave this answer sends it whole.
    fn fill(&mut self, from: usize, reply: &Reply<'_>, payload: &Bytes, held: &mut KeptAnswers) {
        let whole = reply.status != ReplyStatus::DoneDigest;
        if !self.whole && whole && held.take(from, reply.body.len()) {
            (self.kept_for, self.body, self.whole) = (from, keep(reply.body, payload), true);
        }
    }
}

/// The digest in a reply that has only that.
fn digest_in(reply: &Reply<'_>) -> Option<Digest> {
    reply.body.try_into().ok().map(Digest::new)
}

/// The effect of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tally {
    /// Enough members gave this answer, so it counts.
    Counts,
    /// More members are needed, or one that sends the answer whole.
    Waits,
    /// As [`Self::Waits`], and it is the first vote about what execution decided.
    Begins,
    /// This member gave another final answer before.
    Contradicts,
}

/// All votes on one request.
#[derive(Debug, Default)]
pub(crate) struct Votes {
    first: Option<Group>,
    others: Vec<Group>,
    /// When the first vote came.
    pub(crate) since: Time,
    /// All members were asked in vain, and the request is not looked at any more (`repliers.rs`).
    pub(crate) rests: bool,
}

/// Whether a reply says what execution decided about its request.
pub(crate) fn is_final(reply: &Reply<'_>) -> bool {
    match reply.status {
        ReplyStatus::Done | ReplyStatus::DoneDigest | ReplyStatus::ReplyForgotten => true,
        ReplyStatus::TooLarge => reply.body.starts_with(b"executed"),
        _ => false,
    }
}

impl Votes {
    /// Counts the answer of the member at contact `from`, which came in `payload`. The answer counts if `needed` members give equal ones.
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
            // A member that gave the digest may later give the answer itself.
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

    /// Joins the group of equal answers. Returns how many members it has now, and whether one of them sent it whole.
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

    /// The request is over, so nothing is kept any more.
    pub(crate) fn clear(&mut self, held: &mut KeptAnswers) {
        self.drop_groups(held, |_| true);
    }

    /// The whole answer that equals this one; empty if no member sent it whole.
    pub(crate) fn whole(&mut self, reply: &Reply<'_>) -> Bytes {
        let group = self.groups_mut().find_map(|group| group.is(reply, None).then_some(group));
        group.map(|group| group.body.clone()).unwrap_or_default()
    }

    /// The combiner's result for the answers that say the same as this one.
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

    /// The members, as bits, that gave another final answer than this.
    pub(crate) fn others(&mut self, reply: &Reply<'_>, combiner: Option<&Combines>) -> u64 {
        if self.others.is_empty() {
            return 0; // nearly always all say the same
        }
        let others =
            self.groups_mut().filter_map(|group| (group.last && !group.is(reply, combiner)).then_some(group));
        others.fold(0, |all, group| all | group.members)
    }

    /// Whether `needed` members gave an answer that none of them sent whole.
    pub(crate) fn lacks(&self, needed: u32) -> bool {
        self.groups().any(|group| !group.whole && group.members.count_ones() >= needed)
    }

    /// If members gave different answers: how many members answered, and in how many ways.
    pub(crate) fn differ(&self) -> Option<(u32, usize)> {
        let last = || self.groups().filter(|group| group.last);
        let ways = last().count();
        (ways > 1).then(|| (last().map(|group| group.members.count_ones()).sum(), ways))
    }

    /// How many members gave the most frequent answer.
    pub(crate) fn most(&self) -> u32 {
        self.groups().map(|group| group.members.count_ones()).max().unwrap_or(0)
    }

    /// Bytes of the answers that are kept.
    pub(crate) fn held(&self) -> usize {
        self.groups().map(Group::held).sum()
    }
}

/// Bytes that are kept of a reply.
fn body_len(reply: &Reply<'_>) -> usize {
    if reply.status == ReplyStatus::DoneDigest { 0 } else { reply.body.len() }
}

/// The body to keep. A small part of a large frame is copied, since a liar may put one useful answer into each large frame.
pub(crate) fn keep(body: &[u8], payload: &Bytes) -> Bytes {
    if payload.len() > PINNED_MAX && body.len() < payload.len() / 8 {
        Bytes::copy_from_slice(body)
    } else {
        payload.slice_ref(body)
    }
}

#[cfg(test)]
mod tests;

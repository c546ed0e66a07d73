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
//! Votes on one request are one group for each answer. The first group lies in the request's entry, so that two equal answers cost no
//! allocation. What a member makes us keep is bounded ([`Held`]): a vote that does not fit is not counted, and comes again when
//! the request is sent again.
//!
//! INV-CLIENT-9: no answer takes effect that fewer than f+1 different members gave.
//! Tests: tests/byzantine.rs, votes/tests.rs.

use bytes::Bytes;
use quorate_types::SessionId;
use quorate_wire::{Reply, ReplyStatus};

/// A body is kept as a slice of the frame that it came in, unless that keeps more than this alive for little of it.
const PINNED_MAX: usize = 64 << 10;

/// How many bytes of answers are kept for each member, by link.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: Vec<usize>,
    max: usize,
}

impl Held {
    /// At most `max` bytes for each of `members`.
    pub(crate) fn new(members: usize, max: usize) -> Self {
        Self { bytes: vec![0; members], max }
    }

    /// One answer always fits, however large.
    fn take(&mut self, from: usize, bytes: usize) -> bool {
        let Some(held) = self.bytes.get_mut(from) else { return false };
        let fits = *held == 0 || *held + bytes <= self.max;
        if fits {
            *held += bytes;
        }
        fits
    }

    fn give(&mut self, from: usize, bytes: usize) {
        if let Some(held) = self.bytes.get_mut(from) {
            *held -= bytes;
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.bytes.iter().sum()
    }
}

/// Equal answers, and who gave them.
#[derive(Debug)]
struct Group {
    /// As bits, by link.
    members: u64,
    /// Whose answer is kept.
    kept_for: usize,
    session: SessionId,
    status: ReplyStatus,
    body: Bytes,
    last: bool,
}

impl Group {
    fn is(&self, reply: &Reply<'_>) -> bool {
        self.status == reply.status && self.session == reply.session && self.body[..] == *reply.body
    }
}

/// What became of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tally {
    /// Enough members say so: it is true.
    Counts,
    /// More are needed.
    Waits,
    /// This member said something else before, and can not take it back.
    Contradicts,
}

/// All votes on one request.
#[derive(Debug, Default)]
pub(crate) struct Votes {
    first: Option<Group>,
    others: Vec<Group>,
}

/// Whether a reply tells what execution decided about its request.
pub(crate) fn is_final(reply: &Reply<'_>) -> bool {
    match reply.status {
        ReplyStatus::Done | ReplyStatus::ReplyForgotten => true,
        ReplyStatus::TooLarge => reply.body.starts_with(b"executed"),
        _ => false,
    }
}

impl Votes {
    /// Enters the answer of the member behind link `from`, which came in `payload`; `needed` equal ones count.
    pub(crate) fn add(
        &mut self,
        from: usize,
        reply: &Reply<'_>,
        payload: &Bytes,
        needed: u32,
        held: &mut Held,
    ) -> Tally {
        let (bit, last) = (1 << from, is_final(reply));
        if let Some(before) = self.groups().find(|group| group.last && group.members & bit != 0) {
            return if last && !before.is(reply) { Tally::Contradicts } else { Tally::Waits };
        }
        self.groups_mut().for_each(|group| group.members &= !bit);
        let mut votes = self.join(bit, reply);
        if votes == 0 && (needed <= 1 || held.take(from, reply.body.len())) {
            votes = 1;
            if needed > 1 {
                let (session, status, body) = (reply.session, reply.status, keep(reply.body, payload));
                self.found(Group { members: bit, kept_for: from, session, status, body, last });
            }
        }
        self.drop_groups(held, |group| group.members == 0);
        if votes < needed {
            return Tally::Waits;
        }
        if !last {
            self.drop_groups(held, |group| group.is(reply));
        }
        Tally::Counts
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        self.first.iter().chain(&self.others)
    }

    fn groups_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.first.iter_mut().chain(&mut self.others)
    }

    /// Joins those who said the same; how many there are then.
    fn join(&mut self, bit: u64, reply: &Reply<'_>) -> u32 {
        let Some(group) = self.groups_mut().find(|group| group.is(reply)) else { return 0 };
        group.members |= bit;
        group.members.count_ones()
    }

    fn found(&mut self, group: Group) {
        if self.first.is_none() {
            self.first = Some(group);
        } else {
            self.others.push(group);
        }
    }

    fn drop_groups(&mut self, held: &mut Held, over: impl Fn(&Group) -> bool) {
        if let Some(group) = self.first.take_if(|group| over(group)) {
            held.give(group.kept_for, group.body.len());
        }
        self.others.retain(|group| {
            let over = over(group);
            if over {
                held.give(group.kept_for, group.body.len());
            }
            !over
        });
    }

    /// The request is over: nothing is kept any more.
    pub(crate) fn clear(&mut self, held: &mut Held) {
        self.drop_groups(held, |_| true);
    }

    /// Bytes of answers that are kept.
    pub(crate) fn held(&self) -> usize {
        self.groups().map(|group| group.body.len()).sum()
    }
}

/// The body to keep. A small part of a large frame is copied: a liar may pack one answer of use into each large frame.
fn keep(body: &[u8], payload: &Bytes) -> Bytes {
    if payload.len() > PINNED_MAX && body.len() < payload.len() / 8 {
        Bytes::copy_from_slice(body)
    } else {
        payload.slice_ref(body)
    }
}

#[cfg(test)]
mod tests;

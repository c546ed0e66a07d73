//! What was ruled and is not what this replica did: it asks members for it, one after the other, and answers those that ask. If none has it, but one
//! has a checkpoint that does, the replica fetches that one.
//!
//! Only where results may come out differently when they run again. Docs: docs/protocols/speculative.md (S14 to S16). Tests: exchange/tests.rs,
//! check/sim (`--executor speculative`).

use quorate_execute::Worth;
use quorate_types::{ReplicaId, Span, Time};
use quorate_wire::{Memos, MemosWanted};
use std::collections::BTreeMap;

/// A member answers at once, or not at all.
const PATIENCE: Span = Span::from_millis(200);
/// A member gets the next answer so long after the last one: an answer has many more bytes than a question.
const PAUSE: Span = Span::from_millis(10);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Whom this replica asks, while it lacks something.
    asking: Option<Asking>,
    /// The question of each member that waits for an answer.
    asked: BTreeMap<ReplicaId, MemosWanted>,
    /// When each got the last one.
    served: BTreeMap<ReplicaId, Time>,
    /// The answer to this replica's question.
    answer: Option<Memos>,
}

#[derive(Debug)]
struct Asking {
    wanted: MemosWanted,
    member: ReplicaId,
    since: Time,
    /// How many members had nothing to say since the last one that had.
    in_vain: usize,
    /// Whether nobody is asked until the time is up: all were.
    rests: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// Ask this member.
    Ask(ReplicaId),
    /// A member has a checkpoint that will do.
    GiveUp,
}

impl Exchange {
    /// A member asks. Its last question counts.
    pub(super) fn asked(&mut self, from: ReplicaId, wanted: MemosWanted) {
        self.asked.insert(from, wanted);
    }

    /// A member answers.
    pub(super) fn answered(&mut self, from: ReplicaId, memos: Memos) {
        let is_answer =
            |asking: &Asking| asking.member == from && asking.wanted == memos.wanted && !asking.rests;
        if self.asking.as_ref().is_some_and(is_answer) {
            self.answer = Some(memos);
        }
    }

    /// When to ask the next member, or to answer one.
    pub(super) fn deadline(&self) -> Option<Time> {
        let ask = self.asking.as_ref().map(|asking| asking.since.plus(PATIENCE));
        ask.into_iter().chain(self.asked.keys().map(|member| self.serves(*member))).min()
    }

    /// From when on a member gets an answer.
    fn serves(&self, member: ReplicaId) -> Time {
        self.served.get(&member).map_or(Time::ZERO, |last| last.plus(PAUSE))
    }

    /// The questions that are answered now.
    pub(super) fn due(&mut self, now: Time) -> Vec<(ReplicaId, MemosWanted)> {
        let due: Vec<_> = self.asked.keys().copied().filter(|member| self.serves(*member) <= now).collect();
        due.into_iter().filter_map(|member| Some((member, self.asked.remove(&member)?))).collect()
    }

    /// A member got an answer.
    pub(super) fn served(&mut self, now: Time, member: ReplicaId) {
        self.served.insert(member, now);
    }

    /// The answer to this replica's question.
    pub(super) fn answer(&mut self) -> Option<Memos> {
        self.answer.take()
    }

    /// What to do now: this is lacked, and the last answer was worth so much. `offered`: one has a
    /// checkpoint that will do.
    pub(super) fn next(
        &mut self,
        now: Time,
        (wanted, worth): (Option<MemosWanted>, Option<Worth>),
        (members, offered): (&[ReplicaId], bool),
    ) -> Next {
        let Some(wanted) = wanted else {
            self.asking = None;
            return Next::Nothing;
        };
        let in_vain = match (&mut self.asking, worth) {
            (Some(asking), _) if asking.wanted.up_to != wanted.up_to => 0,
            (Some(asking), Some(Worth::Some)) => {
                (asking.wanted, asking.since, asking.in_vain) = (wanted, now, 0);
                return Next::Ask(asking.member);
            }
            (Some(asking), None) if now < asking.since.plus(PATIENCE) => return Next::Nothing,
            (Some(asking), _) if !asking.rests => asking.in_vain + 1,
            _ => 0,
        };
        let rests = in_vain >= members.len();
        if rests && offered {
            self.asking = None;
            return Next::GiveUp;
        }
        let last = self.asking.as_ref().map(|asking| asking.member);
        let next = members.iter().copied().find(|member| Some(*member) > last).or(members.first().copied());
        let member = if rests { last.or(next) } else { next };
        self.asking = member.map(|member| Asking { wanted, member, since: now, in_vain, rests });
        member.filter(|_| !rests).map_or(Next::Nothing, Next::Ask)
    }
}

#[cfg(test)]
mod tests;

//! What was ruled and is not what this replica did: it asks members for it, one after the other, and answers those that ask. If none has it, but one
//! has a checkpoint that does, the replica fetches that one.
//!
//! Only where results may come out differently when they run again. Docs: docs/protocols/speculative.md (S14 to S16). Tests: exchange/tests.rs,
//! check/sim (`--executor speculative`).

use quorate_execute::Worth;
use quorate_types::{ReplicaId, Span, Time};
use quorate_wire::{Memos, MemosWanted};
use std::collections::{BTreeMap, BTreeSet};

/// The next member is asked after so long. After each round in vain it is twice as long, up to the second: links may be slow.
const PATIENCE: (Span, Span) = (Span::from_millis(200), Span::from_secs(10));
/// A member that began to answer has so long for each further part.
const PATIENCE_FOR_MORE: Span = Span::from_secs(5);
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
    /// An answer to this replica's question.
    answer: Option<(ReplicaId, Memos)>,
    /// How many rounds were in vain.
    rounds: u32,
}

#[derive(Debug)]
struct Asking {
    wanted: MemosWanted,
    member: ReplicaId,
    /// When the next one is asked.
    until: Time,
    /// Those that were asked this and did not answer: they may still.
    open: BTreeSet<ReplicaId>,
    /// How many members had nothing to say since the last one that had.
    in_vain: usize,
    /// Whether nobody is asked until the time is up: all were.
    rests: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// Ask this member, from the beginning.
    Ask(ReplicaId),
    /// Ask this member for what comes behind.
    More(ReplicaId),
    /// A member has a checkpoint that will do.
    GiveUp,
}

impl Exchange {
    /// A member asks. Its last question counts.
    pub(super) fn asked(&mut self, from: ReplicaId, wanted: MemosWanted) {
        self.asked.insert(from, wanted);
    }

    /// A member answers. Each answers a question once.
    pub(super) fn answered(&mut self, from: ReplicaId, memos: Memos) {
        let Some(asking) = &mut self.asking else { return };
        if asking.wanted == memos.wanted && self.answer.is_none() && asking.open.remove(&from) {
            self.answer = Some((from, memos));
        }
    }

    /// When to ask the next member, or to answer one.
    pub(super) fn deadline(&self) -> Option<Time> {
        let ask = self.asking.as_ref().map(|asking| asking.until);
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

    /// An answer to this replica's question.
    pub(super) fn answer(&mut self) -> Option<(ReplicaId, Memos)> {
        self.answer.take()
    }

    /// What to do now: this is lacked, and the last answer was worth so much. `offered`: a member has a checkpoint to go on from.
    pub(super) fn next(
        &mut self,
        now: Time,
        (wanted, worth): (Option<MemosWanted>, Option<(ReplicaId, Worth)>),
        (members, offered): (&[ReplicaId], bool),
    ) -> Next {
        let Some(wanted) = wanted else {
            (self.asking, self.rounds) = (None, 0);
            return Next::Nothing;
        };
        let in_vain = match (&mut self.asking, worth) {
            (Some(asking), _) if asking.wanted.up_to != wanted.up_to => 0,
            (Some(asking), Some((from, Worth::Some))) => {
                let (open, until) = (BTreeSet::from([from]), now.plus(PATIENCE_FOR_MORE));
                *asking = Asking { wanted, member: from, until, open, in_vain: 0, rests: false };
                return Next::More(from);
            }
            (Some(asking), Some((from, _))) if from == asking.member && !asking.rests => asking.in_vain + 1,
            (Some(asking), _) if now < asking.until => return Next::Nothing,
            (Some(asking), _) if !asking.rests => asking.in_vain + 1,
            _ => 0,
        };
        self.ask(now, (wanted, in_vain), (members, offered))
    }

    /// Asks the next member. Once all had nothing to say, it waits before it asks them again.
    fn ask(
        &mut self,
        now: Time,
        (wanted, in_vain): (MemosWanted, usize),
        (members, offered): (&[ReplicaId], bool),
    ) -> Next {
        let rests = in_vain >= members.len();
        if rests && offered {
            self.asking = None;
            return Next::GiveUp;
        }
        self.rounds = (self.rounds + u32::from(rests)).min(8);
        let (least, most) = PATIENCE;
        let until = now.plus(least.times(1 << self.rounds).min(most));
        let before = self.asking.take();
        let last = before.as_ref().map(|asking| asking.member);
        let next = members.iter().copied().find(|member| Some(*member) > last).or(members.first().copied());
        let Some(member) = last.filter(|_| rests).or(next) else { return Next::Nothing };
        // From the beginning the question is the same.
        let mut open =
            before.filter(|asking| asking.wanted.wants_steps()).map_or(BTreeSet::new(), |asking| asking.open);
        if !rests {
            open.insert(member);
        }
        let wanted = MemosWanted { from: wanted.after.next(), ..wanted };
        self.asking = Some(Asking { wanted, member, until, open, in_vain, rests });
        if rests { Next::Nothing } else { Next::Ask(member) }
    }
}

#[cfg(test)]
mod tests;

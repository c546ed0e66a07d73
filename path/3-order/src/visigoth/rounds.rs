//! Two rounds of questions, where no oracle says which small quorums there are.
//!
//! The leader asks all members for a sign of life, and waits as long as those that are not slow may take; then it waits until the smallest
//! quorum answered. Of those that did not answer all have stopped but s. One of those that did may stop right after it, so that another
//! leader gathers without it. So the leader asks a second time, with another tag: late answers of the first round are no answers of the
//! second. Those that answered at all are the set. Any two such sets share a member, as long as members that stopped do not answer later
//! ([`super::Counted`]), and no more than s are slow: whoever ends its first round later finds in its second one only members that are there
//! still. A member that is there, but in another view, is no answer, and has not stopped either: then the round says nothing.
//!
//! Source: Visigoth Fault Tolerance, EuroSys 2015, section 3.2.2. Tests: tests/rounds.rs, mod_smart/tests/unaided.rs.

use quorate_types::{Random, ReplicaId, Span, Time, planted};
use std::collections::BTreeSet;

/// A question, and who answered.
#[derive(Debug)]
struct Round {
    tag: u64,
    at: Time,
    heard: BTreeSet<ReplicaId>,
    /// Who answered in the first round, once that is over.
    first: Option<BTreeSet<ReplicaId>>,
    /// Whether a member is there, and in another view: it is neither in the set, nor has it stopped.
    elsewhere: bool,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gathering {
    /// All members are asked for a sign of life with this tag.
    Ask(u64),
    /// These answered: they are a small quorum of the view.
    Gathered(Vec<ReplicaId>),
}

/// The rounds of a leader in its view.
#[derive(Debug)]
pub struct Rounds {
    tags: Random,
    round: Option<Round>,
    /// When the last rounds began.
    begun: Option<Time>,
}

impl Rounds {
    /// `seed` differs between two starts of a replica: its tags of before are not used again.
    pub fn new(seed: u64) -> Self {
        Self { tags: Random::new(seed), round: None, begun: None }
    }

    /// What was gathered so far says nothing any more: another view was entered, or members count that did not.
    pub fn end(&mut self) {
        (self.round, self.begun) = (None, None);
    }

    /// Begins, unless it began less than this long ago. Returns the tag. [visigoth L40]
    pub fn begin(&mut self, now: Time, pause: Span) -> Option<u64> {
        if self.begun.is_some_and(|begun| now.since(begun) < pause) {
            return None;
        }
        self.begun = Some(now);
        let tag = self.tags.next();
        self.round = Some(Round { tag, at: now, heard: BTreeSet::new(), first: None, elsewhere: false });
        Some(tag)
    }

    /// A member that counts gave the sign of life that this tag asked for.
    pub fn answered(&mut self, from: ReplicaId, tag: u64) {
        if let Some(round) = self.round.as_mut().filter(|round| round.tag == tag) {
            round.heard.insert(from);
        }
    }

    /// A member that counts answered from another view, or another membership. The round says nothing, since silence would not mean that
    /// those that are silent have stopped; once that member is here, or the leader there, another one will. [visigoth L41]
    pub fn answered_elsewhere(&mut self, tag: u64) {
        if let Some(round) = self.round.as_mut().filter(|round| round.tag == tag) {
            round.elsewhere |= !planted("visigoth-elsewhere-is-gone");
        }
    }

    /// When to go on, if nothing is heard before. `wait`: twice T.
    pub fn due(&self, wait: Span) -> Option<Time> {
        self.round.as_ref().map(|round| round.at.plus(wait))
    }

    /// Ends a round that lasted long enough, and in which this many members answered. [visigoth L41-L42]
    pub fn go_on(&mut self, now: Time, wait: Span, smallest: usize) -> Option<Gathering> {
        let wait = if planted("visigoth-timer-short") { wait.divided(2) } else { wait };
        let over = |round: &mut Round| {
            now >= round.at.plus(wait) && round.heard.len() >= smallest && !round.elsewhere
        };
        let Round { tag, heard, first, .. } = self.round.take_if(over)?;
        match first {
            None if !planted("visigoth-one-round") => {
                let tag = if planted("visigoth-tag-reused") { tag } else { self.tags.next() };
                let (first, heard) = (Some(heard), BTreeSet::new());
                self.round = Some(Round { tag, at: now, heard, first, elsewhere: false });
                Some(Gathering::Ask(tag))
            }
            first => {
                let all: BTreeSet<ReplicaId> = first.into_iter().flatten().chain(heard).collect();
                Some(Gathering::Gathered(all.into_iter().collect()))
            }
        }
    }
}

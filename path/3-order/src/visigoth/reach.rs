//! Whom members miss, where members may lie: a small quorum is granted only if its members say so themselves.
//!
//! A leader that lies could name those as silent that are not, and so use up what may be granted. So the leader asks all members whom they
//! miss. Each of them asks all others for a sign of life, waits as long as those that are not slow may take, and signs who gave none. Every
//! question has a tag of its own, so that no statement serves twice (section 3.2.3).
//!
//! Tests: tests/reach.rs.

use super::Here;
use super::claim::{Claim, Missing};
use crate::ledger::Proof;
use quorate_auth::Signature;
use quorate_types::{Random, Reject, ReplicaId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// So many sets are looked at, each without one more member.
const SETS_MAX: usize = 64;

/// The leader's question, and who answered.
#[derive(Debug)]
struct Round {
    tag: u64,
    at: Time,
    said: BTreeMap<ReplicaId, Missing>,
}

/// The question that this member answers.
#[derive(Debug)]
struct Asked {
    tag: u64,
    at: Time,
    /// Who gave a sign of life.
    alive: BTreeSet<ReplicaId>,
    answered: bool,
}

/// Questions whom members miss.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    tags: Option<Random>,
    round: Option<Round>,
    asked: Option<Asked>,
}

impl Reach {
    /// `seed` differs between two starts of a replica: its tags of before are not used again.
    pub(crate) fn new(seed: u64) -> Self {
        Self { tags: Some(Random::new(seed)), ..Self::default() }
    }

    /// Another view was entered.
    pub(crate) fn enter(&mut self) {
        (self.round, self.asked) = (None, None);
    }

    /// The leader asks, if it did not ask for this long. Returns the tag. [visigoth L28]
    pub(crate) fn ask(&mut self, now: Time, pause: Span) -> Option<u64> {
        if self.round.as_ref().is_some_and(|round| now.since(round.at) < pause) {
            return None;
        }
        let tag = self.tags.get_or_insert(Random::new(0)).next();
        self.round = Some(Round { tag, at: now, said: BTreeMap::new() });
        Some(tag)
    }

    /// The leader asks this member. Returns whether it is to look for the others: not if it does so already, for less long than they may
    /// take. [visigoth L29]
    pub(crate) fn on_ask(&mut self, tag: u64, now: Time, wait: Span) -> bool {
        let looks = |asked: &Asked| asked.tag == tag || (!asked.answered && now.since(asked.at) < wait);
        if self.asked.as_ref().is_some_and(looks) {
            return false;
        }
        self.asked = Some(Asked { tag, at: now, alive: BTreeSet::new(), answered: false });
        true
    }

    /// A member gave the sign of life that this tag asked for.
    pub(crate) fn on_probed(&mut self, from: ReplicaId, tag: u64) {
        if let Some(asked) = self.asked.as_mut().filter(|asked| asked.tag == tag) {
            asked.alive.insert(from);
        }
    }

    /// When this member is to say whom it misses.
    pub(crate) fn due(&self, wait: Span) -> Option<Time> {
        self.asked.as_ref().filter(|asked| !asked.answered).map(|asked| asked.at.plus(wait))
    }

    /// Whom this member misses, with the tag, once the others had the time to answer. [visigoth L30]
    pub(crate) fn states(
        &mut self,
        me: ReplicaId,
        voters: &[ReplicaId],
        now: Time,
        wait: Span,
    ) -> Option<(u64, Vec<ReplicaId>)> {
        let asked = self.asked.as_mut().filter(|asked| !asked.answered && now >= asked.at.plus(wait))?;
        asked.answered = true;
        let misses = voters.iter().filter(|id| **id != me && !asked.alive.contains(id)).copied();
        Some((asked.tag, misses.collect()))
    }

    /// A member says to the leader whom it misses; `signed` tells whether it signed that. [visigoth L31]
    ///
    /// # Errors
    /// When it can not be.
    pub(crate) fn said(
        &mut self,
        from: ReplicaId,
        (tag, misses, signature): (u64, Vec<ReplicaId>, Signature),
        voters: &[ReplicaId],
        signed: impl FnOnce(&[ReplicaId]) -> bool,
    ) -> Result<(), Reject> {
        let Some(round) = self.round.as_mut().filter(|round| round.tag == tag) else {
            // The question was asked anew meanwhile.
            return Ok(());
        };
        let missing = Missing { from, misses, signature };
        if !missing.can_be(voters) || !signed(&missing.misses) {
            return Err(Reject::NotAllowed("a statement of missing members that can not be"));
        }
        round.said.insert(from, missing);
        Ok(())
    }

    /// The sets among these members whose members all answered the present question and miss none of their set: all of them, or those near
    /// one of them; and what is left of these without some of them, `liars` at most, who may keep the others waiting. The largest first.
    /// [visigoth L32]
    pub(crate) fn near(&self, of: &[ReplicaId], liars: usize) -> Vec<Vec<ReplicaId>> {
        let Some(Round { said, .. }) = &self.round else { return Vec::new() };
        let misses = |one: &ReplicaId, other: &ReplicaId| said[one].misses.contains(other);
        let all: Vec<ReplicaId> = of.iter().copied().filter(|id| said.contains_key(id)).collect();
        let near = all.iter().map(|at| {
            let near = all.iter().filter(|id| !misses(at, id) && !misses(id, at));
            near.copied().collect::<Vec<_>>()
        });
        let mut sets: Vec<Vec<ReplicaId>> = near.collect();
        sets.retain(|set| set.iter().all(|one| !set.iter().any(|other| misses(one, other))));
        let mut last = 0;
        for _ in 0..liars {
            let whole = std::mem::replace(&mut last, sets.len())..sets.len();
            for at in whole.take(SETS_MAX) {
                let without = |left: usize| {
                    let kept = sets[at].iter().enumerate().filter(move |(place, _)| *place != left);
                    kept.map(|(_, id)| *id).collect()
                };
                let smaller: Vec<Vec<ReplicaId>> = (0..sets[at].len()).map(without).collect();
                sets.extend(smaller);
            }
        }
        sets.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        sets.dedup();
        sets
    }

    /// What shows that this set may be a small quorum, if its members said enough. [visigoth L32]
    pub(crate) fn claim(&self, set: &[ReplicaId], here: Here<'_>, proof: Option<Proof>) -> Option<Claim> {
        let round = self.round.as_ref()?;
        let said: Option<Vec<Missing>> = set.iter().map(|id| round.said.get(id).cloned()).collect();
        let claim = Claim { view: here.view, tag: round.tag, set: set.to_vec(), said: said?, proof };
        claim.misses_enough(here.voters, here.trust).then_some(claim)
    }
}

//! Which sets of members are quorums in a view.
//!
//! Usually the size decides. Where few members are slow ([`Trust`] with s < u), a smaller set may be a quorum of one view as well: it was
//! granted (visigoth). Where there are more members than the faults need, the votes of some may count more (WHEAT): then these with one other
//! are a quorum, too. Any two quorums share a member that tells the truth, whatever their sizes.
//!
//! Tests: tests of the protocols; visigoth/tests.

use crate::visigoth::Grant;
use quorate_types::{ReplicaId, Slot, Trust, View};
use std::collections::BTreeMap;

/// So many small quorums of one view are kept.
const SETS_MAX: usize = 512;
/// Of so many views small quorums are kept.
const VIEWS_MAX: usize = 64;

/// The small quorums that were granted, by view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Granted {
    sets: BTreeMap<View, Vec<Vec<ReplicaId>>>,
    /// The last slot that ended those before it; 0: none is known. Only where there is no oracle.
    since: Slot,
}

impl Granted {
    /// This set is a quorum of this view. Returns whether that is news.
    pub(crate) fn add(&mut self, view: View, set: Vec<ReplicaId>) -> bool {
        let sets = self.sets.entry(view).or_default();
        let news = !sets.contains(&set) && sets.len() < SETS_MAX;
        if news {
            sets.push(set);
        }
        while self.sets.len() > VIEWS_MAX {
            self.sets.pop_first();
        }
        news
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }
    /// The last slot that ended those before it.
    pub(crate) fn since(&self) -> Slot {
        self.since
    }
    /// This slot ends those that lack one of these members: they may have taken it for stopped.
    pub(crate) fn end_without(&mut self, members: &[ReplicaId], since: Slot) {
        let has = |set: &Vec<ReplicaId>| members.iter().all(|id| set.contains(id));
        self.sets.values_mut().for_each(|sets| sets.retain(has));
        self.sets.retain(|_, sets| !sets.is_empty());
        self.since = since;
    }
    /// It is not known any more which slots ended what.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }
    /// Forgets those of earlier views than this.
    pub(crate) fn forget(&mut self, view: View) {
        self.sets = self.sets.split_off(&view);
    }
    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = Grant> + '_ {
        let grants = |(view, sets): (&View, &'_ Vec<Vec<ReplicaId>>)| {
            let view = *view;
            sets.clone().into_iter().map(move |set| Grant { view, set })
        };
        self.sets.iter().flat_map(grants)
    }
    /// Those of this view.
    pub(crate) fn of(&self, view: View) -> &[Vec<ReplicaId>] {
        self.sets.get(&view).map_or(&[], |sets| &sets[..])
    }
}

/// The quorums of one view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quorums<'a> {
    trust: Trust,
    /// So many members are a quorum.
    usual: usize,
    /// Small sets that are quorums of this view, too.
    granted: &'a [Vec<ReplicaId>],
    /// The members whose votes count more; none if all count alike.
    heavy: &'a [ReplicaId],
}

impl<'a> Quorums<'a> {
    /// The quorums among members that are trusted so far, with these small ones.
    pub(crate) const fn new(trust: Trust, granted: &'a [Vec<ReplicaId>]) -> Self {
        Self { trust, usual: trust.agreement() as usize, granted, heavy: &[] }
    }

    /// The same, where the votes of these members count more. If not just as many of them vote as the trust says, all votes count alike: no
    /// other number of heavy votes is safe.
    pub(crate) fn weighing(self, heavy: &'a [ReplicaId], voters: &[ReplicaId]) -> Self {
        let voting = || heavy.iter().filter(|id| voters.contains(id)).count();
        let fits = self.trust.heavy() > 0 && voting() == self.trust.heavy() as usize;
        Self { heavy: if fits { heavy } else { &[] }, ..self }
    }

    /// As if every small set was granted: what could be concluded then.
    pub(crate) const fn as_if_granted(trust: Trust) -> Self {
        Self { trust, usual: trust.smallest() as usize, granted: &[], heavy: &[] }
    }

    /// So many members are a quorum, whoever they are.
    pub(crate) const fn usual(self) -> usize {
        self.usual
    }

    /// The trust in each member.
    pub(crate) const fn trust(self) -> Trust {
        self.trust
    }

    /// Whether a set of `count` members is a quorum, or holds one; `has` tells which members are in the set.
    pub(crate) fn hold(self, count: usize, has: impl Fn(ReplicaId) -> bool) -> bool {
        count >= self.usual || self.weighs(count, &has) || self.small(has).is_some()
    }

    /// Whether a set of `count` members is a quorum by weight.
    pub(crate) fn weighs(self, count: usize, has: impl Fn(ReplicaId) -> bool) -> bool {
        if self.heavy.is_empty() {
            return false;
        }
        let heavy = self.heavy.iter().filter(|id| has(**id)).count();
        self.trust.weigh_enough(count as u32, heavy as u32)
    }

    /// The highest number that a quorum reached; `of` tells how far a member got.
    pub(crate) fn reach(self, members: &[ReplicaId], of: impl Fn(ReplicaId) -> Option<u64>) -> u64 {
        let mut all: Vec<u64> = members.iter().filter_map(|id| of(*id)).collect();
        all.sort_unstable_by(|one, next| next.cmp(one));
        let usual = all.get(self.usual - 1).copied().max(self.reach_by_weight(&all, &of));
        let least = |set: &Vec<ReplicaId>| set.iter().map(|id| of(*id)).min().flatten();
        usual.max(self.granted.iter().filter_map(least).max()).unwrap_or(0)
    }

    /// The same by weight; `all`: how far members got, the highest first.
    fn reach_by_weight(self, all: &[u64], of: impl Fn(ReplicaId) -> Option<u64>) -> Option<u64> {
        if self.heavy.is_empty() {
            return None;
        }
        let got = |number: u64| {
            let count = all.iter().filter(|reached| **reached >= number).count();
            self.weighs(count, |id| of(id).is_some_and(|reached| reached >= number))
        };
        all.iter().copied().find(|number| got(*number))
    }

    /// The granted quorum that the set holds, if there is one.
    pub(crate) fn small(self, has: impl Fn(ReplicaId) -> bool) -> Option<&'a [ReplicaId]> {
        self.granted.iter().find(|set| set.iter().all(|id| has(*id))).map(|set| &set[..])
    }
}

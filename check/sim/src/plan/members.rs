//! Which runs let replicas come and go, and what operators ask for in them.

use super::{Fault, MS, Plan, Profile};
use crate::random::Rng;

/// What an operator asks for about the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new replica joins as a learner; its process starts at some time.
    Add,
    /// A learner becomes a voter.
    Promote,
    /// A member leaves. Its process continues, since it was not told.
    Remove,
    /// A learner replaces a member; preferably one whose disk is lost.
    Replace,
    /// A member has another address.
    Move,
    /// A member signs with another key. Only where replicas may lie.
    Rekey,
    /// Not a request: a voter's disk is lost for good, if a majority of the voters is left.
    LoseDisk,
}

/// With how many replicas a cluster begins, unless replicas come and go. `usual`: where faults are crashes. Fewer than the numbers of a
/// fault model ask for survive nothing.
pub(super) fn founders(seed: u64, profile: &Profile, usual: usize) -> usize {
    let mut rng = Rng::of(seed, 20);
    let Some(numbers) = profile.model().visigoth() else {
        let drawn = if profile.model().may_lie() { rng.pick(&[4, 4, 4, 5, 7]) } else { usual };
        return profile.replicas.unwrap_or(drawn);
    };
    let least = numbers.members_min() as usize;
    profile.replicas.unwrap_or(least + rng.pick(&[0, 0, 0, 1])).max(least)
}

/// With how many replicas it begins, and how many may join. From a generator of its own.
pub(super) fn joiners(seed: u64, profile: &Profile, founders: usize) -> (usize, usize) {
    let mut rng = Rng::of(seed, 7);
    let drawn = rng.chance(250) && profile.replicas.is_none();
    if !profile.faults || !profile.changes.unwrap_or(drawn) {
        return (founders, 0);
    }
    let (few, chosen) = (rng.chance(300), profile.model().visigoth().is_some());
    let founders = match few {
        _ if chosen => founders,
        // As many liars as there are stay within what fewer members survive.
        _ if profile.model().may_lie() => founders.min(6),
        true => 1,
        false => founders.min(5),
    };
    (founders, rng.range(2, 6) as usize)
}

/// Plans changes of the membership. Faults that take away a replica for good, or whose repair needs most replicas, are planned only here,
/// since the present voters decide how many may be lost.
pub(super) fn plan_members(plan: &mut Plan, rng: &mut Rng) {
    plan.faults.retain(|(_, fault)| !fault.is_final() && !fault.needs_others());
    plan.log_bytes_max = if rng.chance(500) { plan.log_bytes_max } else { 1 << 30 };
    let styles: [&[Change]; 5] = [
        &[Change::Add, Change::Promote, Change::Promote],
        &[Change::Add, Change::Promote, Change::Remove, Change::Remove],
        &[Change::Add, Change::Replace, Change::Replace],
        &[Change::Add, Change::Replace, Change::LoseDisk, Change::Replace, Change::Move],
        &[
            Change::Add,
            Change::Add,
            Change::Promote,
            Change::Promote,
            Change::Remove,
            Change::Replace,
            Change::Move,
        ],
    ];
    let style = rng.pick(&styles);
    let every = rng.spread(30 * MS, 600 * MS);
    let mut at = rng.range(0, 500) * MS;
    while at < plan.heal_at {
        let rekeys = plan.fault_model.may_lie() && rng.chance(250);
        let what = if rekeys { Change::Rekey } else { rng.pick(style) };
        plan.faults.push((at, Fault::Member { what, pick: rng.number() as u16 }));
        // Some ask twice at once.
        at += if rng.chance(100) { MS } else { rng.range(0, every * 2) };
    }
    plan.faults.sort_by_key(|(at, _)| *at);
}

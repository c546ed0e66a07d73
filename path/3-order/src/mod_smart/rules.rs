//! What binds a new view: a pure function of the statements that members made when they entered the view.
//!
//! Source: Cachin, Guerraoui, Rodrigues, "Introduction to Reliable and Secure Distributed Programming", section 5.6.4 (Byzantine epoch
//! consensus); Cachin, "Yet Another Visit to Paxos". Views here begin with 1, and "none" is below all of them. In the code that inspired
//! this one, "locked in the first epoch" (paper: epoch 0) and "never locked" are one value, so that a decided batch can be lost.
//!
//! INV-SMART-3: a new view is bound to any value that may be decided in an earlier view. Tests: tests/rules.rs compares with a search over
//! all possible histories.

use crate::mod_smart::message::Collect;
use crate::quorums::Quorums;
use quorate_types::{Digest, ReplicaId, Slot, View, planted};

/// What the statements say about the first slot that is not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Only this value may be proposed.
    Bound(Digest),
    /// Anything may be proposed.
    Free,
    /// Not enough is known: wait for more.
    Unsound,
}

/// The leader of a view of an instance. [mod_smart L1]
pub(super) fn leader_of<T: Copy>(members: &[T], instance: u16, view: View) -> T {
    let n = members.len() as u64;
    let place = (view.number() % n + u64::from(instance) + n - 1) % n;
    members[place as usize]
}

/// What one member says about the slot after `decided`.
struct Said<'a> {
    from: ReplicaId,
    lock: Option<(View, Digest)>,
    writes: &'a [(View, Digest)],
}

/// What binds the slot after `decided`, which is the last slot shown to be decided. The statements are of distinct members, and all are
/// signed for the view. [mod_smart L46-L52]
pub(crate) fn binding_of(quorums: Quorums<'_>, collects: &[Collect], decided: Slot) -> Binding {
    judged(quorums, collects, decided).0
}

/// As [`binding_of`], with the members on whose statements it rests: a quorum, if it is sound.
pub(super) fn judged(quorums: Quorums<'_>, collects: &[Collect], decided: Slot) -> (Binding, Vec<ReplicaId>) {
    // A replica that claims more than is shown speaks of another slot. One that knows less has not voted on this slot.
    let said: Vec<Said<'_>> = collects
        .iter()
        .filter(|collect| collect.decided <= decided)
        .map(|collect| {
            let speaks = collect.decided == decided;
            let writes = if speaks { &collect.writes[..] } else { &[] };
            Said { from: collect.from, lock: collect.lock.filter(|_| speaks), writes }
        })
        .collect();
    if said.len() < quorums.trust().collect() as usize {
        return (Binding::Unsound, Vec::new());
    }
    let mut candidates: Vec<(View, Digest)> = said.iter().filter_map(|said| said.lock).collect();
    candidates.sort_unstable();
    candidates.dedup();
    // The highest view first; within one view any order serves, as long as all have the same.
    for (view, digest) in candidates.iter().rev() {
        if let Some(by) = binds(quorums, &said, *view, *digest) {
            return (Binding::Bound(*digest), by);
        }
    }
    let unlocked = members(&said, |said| said.lock.is_none() || first_is_none(said));
    if quorums.hold(unlocked.len(), |id| unlocked.contains(&id)) {
        (Binding::Free, unlocked)
    } else {
        (Binding::Unsound, Vec::new())
    }
}

/// The defect that beginning with view 1 avoids (planted for tests).
fn first_is_none(said: &Said<'_>) -> bool {
    planted("smart-first-view-is-none") && said.lock.is_some_and(|(view, _)| view == View::FIRST)
}

/// The members whose statements satisfy this.
fn members(said: &[Said<'_>], of: impl Fn(&&Said<'_>) -> bool) -> Vec<ReplicaId> {
    said.iter().filter(of).map(|said| said.from).collect()
}

/// The members that locked nothing later and nothing else in that view, if they are a quorum, and a correct member wrote the value then or
/// later. [mod_smart L49-L50]
fn binds(quorums: Quorums<'_>, said: &[Said<'_>], view: View, digest: Digest) -> Option<Vec<ReplicaId>> {
    let none_is_lower = !(planted("smart-first-view-is-none") && view == View::FIRST);
    let not_beyond =
        |said: &&Said<'_>| said.lock.map_or(none_is_lower, |lock| lock.0 < view || lock == (view, digest));
    let highest = members(said, not_beyond);
    let written = |said: &&Said<'_>| {
        said.writes.iter().any(|(when, what)| *when >= view && *what == digest)
            || said.lock.is_some_and(|lock| lock.0 >= view && lock.1 == digest)
    };
    let writers = if planted("smart-writes-counted-as-pairs") {
        said.iter()
            .flat_map(|said| said.writes)
            .filter(|(when, what)| *when >= view && *what == digest)
            .count()
    } else {
        said.iter().filter(written).count()
    };
    let enough = quorums.hold(highest.len(), |id| highest.contains(&id));
    (enough && writers >= quorums.trust().truth() as usize).then_some(highest)
}

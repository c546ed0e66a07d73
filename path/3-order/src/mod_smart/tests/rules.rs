//! What binds a view, against examples that once went wrong elsewhere, and against all histories of a small world.

use crate::mod_smart::message::Collect;
use crate::mod_smart::rules::{self, Binding, leader_of};
use crate::quorums::Quorums;
use quorate_auth::Signature;
use quorate_types::{Digest, FaultModel, Faults, ReplicaId, Slot, Trust, View};
use std::collections::BTreeSet;

fn digest(value: u8) -> Digest {
    Digest::new([value; 32])
}

type Value = (u64, u8);

/// What member `from` says of the slot after `decided`.
fn collect(from: usize, decided: u64, lock: Option<Value>, writes: &[Value]) -> Collect {
    let value = |(view, value): &Value| (View::new(*view), digest(*value));
    Collect {
        from: ReplicaId::new(from as u16),
        decided: Slot::new(decided),
        lock: lock.as_ref().map(value),
        writes: writes.iter().map(value).collect(),
        signature: Signature::NONE,
    }
}

fn binding_of(trust: Trust, collects: &[Collect], decided: Slot) -> Binding {
    rules::binding_of(Quorums::new(trust, &[]), collects, decided)
}

const V: u8 = 1;
const W: u8 = 2;
const X: u8 = 3;

fn four() -> Trust {
    Faults::of(FaultModel::Byzantine).among(4)
}

fn three() -> Trust {
    Faults::of(FaultModel::Crash).among(3)
}

/// T1: "locked in the first view" is not "never locked". The fourth replica, which says nothing, may have decided V.
#[test]
pub(super) fn a_lock_of_the_first_view_binds() {
    let said = [
        collect(1, 0, Some((1, V)), &[(1, V)]),
        collect(2, 0, Some((1, V)), &[(1, V)]),
        collect(3, 0, None, &[(1, V)]),
    ];
    assert_eq!(binding_of(four(), &said, Slot::ZERO), Binding::Bound(digest(V)));
    let said = [collect(1, 0, Some((1, V)), &[]), collect(2, 0, None, &[])];
    assert_eq!(binding_of(three(), &said, Slot::ZERO), Binding::Bound(digest(V)));
}

/// T2: a member that names its value twice is one member all the same, and the highest number does not win by being high.
#[test]
pub(super) fn one_liar_binds_nothing() {
    let said = [
        collect(0, 0, Some((3, X)), &[(3, X), (4, X)]),
        collect(1, 0, Some((1, V)), &[(1, V)]),
        collect(2, 0, Some((1, V)), &[(1, V)]),
    ];
    assert_ne!(binding_of(four(), &said, Slot::ZERO), Binding::Bound(digest(X)));
    // With the third honest one it is sound, whatever the liar says.
    let all = [said.as_slice(), &[collect(3, 0, None, &[(1, V)])]].concat();
    assert_eq!(binding_of(four(), &all, Slot::ZERO), Binding::Bound(digest(V)));
}

/// T4: who claims more than is shown is not heard; too few are left.
#[test]
fn claims_beyond_what_is_shown_do_not_count() {
    let said = [collect(0, 1 << 40, None, &[]), collect(1, 4, None, &[]), collect(2, 5, None, &[])];
    assert_eq!(binding_of(four(), &said, Slot::new(5)), Binding::Unsound);
    let all = [said.as_slice(), &[collect(3, 5, None, &[])]].concat();
    assert_eq!(binding_of(four(), &all, Slot::new(5)), Binding::Free);
}

/// What somebody says of an earlier slot, which is decided since, is nothing about this one.
#[test]
fn locks_of_decided_slots_do_not_bind() {
    let said = [
        collect(1, 4, Some((1, V)), &[(1, V)]),
        collect(2, 5, None, &[]),
        collect(3, 4, Some((1, V)), &[(1, V)]),
    ];
    assert_eq!(binding_of(four(), &said, Slot::new(5)), Binding::Free);
    assert_eq!(binding_of(four(), &said, Slot::new(4)), Binding::Unsound, "one of them knows more");
}

/// T5: with seven replicas five must be heard, not four.
#[test]
fn enough_is_n_minus_f() {
    for (n, needed) in [(4u32, 3), (5, 4), (6, 5), (7, 5), (10, 7), (13, 9)] {
        let trust = Faults::of(FaultModel::Byzantine).among(n);
        let said: Vec<_> = (0..n as usize).map(|from| collect(from, 0, None, &[])).collect();
        assert_eq!(binding_of(trust, &said[..needed], Slot::ZERO), Binding::Free, "n={n}");
        assert_eq!(binding_of(trust, &said[..needed - 1], Slot::ZERO), Binding::Unsound, "n={n}");
    }
}

/// The higher of two locks that may both stand.
#[test]
fn the_highest_view_counts() {
    let said = [
        collect(1, 0, Some((1, V)), &[(1, V), (2, W)]),
        collect(2, 0, Some((2, W)), &[(2, W)]),
        collect(3, 0, None, &[(1, V), (2, W)]),
    ];
    assert_eq!(binding_of(four(), &said, Slot::ZERO), Binding::Bound(digest(W)));
}

/// T8: who leads follows from the view and nothing else; instances have different leaders.
#[test]
fn leaders_follow_from_the_view() {
    let members = [10, 20, 30, 40];
    let leaders: Vec<_> = (1..=5).map(|view| leader_of(&members, 1, View::new(view))).collect();
    assert_eq!(leaders, [20, 30, 40, 10, 20]);
    let spread: BTreeSet<_> = (1..=4).map(|instance| leader_of(&members, instance, View::FIRST)).collect();
    assert_eq!(spread.len(), 4);
    leader_of(&members, u16::MAX, View::new(u64::MAX));
}

/// An honest replica in the small world: what it locked, and the last view in which it wrote each value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Honest {
    lock: Option<Value>,
    wrote: [u64; 2],
}

impl Honest {
    fn says(&self, from: usize) -> Collect {
        let writes: Vec<Value> = [V, W]
            .into_iter()
            .zip(self.wrote)
            .filter(|(_, view)| *view > 0)
            .map(|(v, view)| (view, v))
            .collect();
        collect(from, 0, self.lock, &writes)
    }
}

/// All that three honest replicas may have come to, and which values may be decided.
type State = ([Honest; 3], [bool; 2]);

/// Everything that a liar may say on entering a view.
fn liars_words(view: u64) -> Vec<Collect> {
    let mut list = Vec::new();
    let mut locks: Vec<Option<Value>> = vec![None];
    locks.extend((1..view).flat_map(|view| [V, W].map(|value| Some((view, value)))));
    for lock in locks {
        for one in 0..view {
            for other in 0..view {
                let writes = [(one, V), (other, W)].into_iter().filter(|(view, _)| *view > 0);
                list.push(collect(3, 0, lock, &writes.collect::<Vec<_>>()));
            }
        }
    }
    list
}

/// The values that some set of statements, which the leader chose, lets an honest replica take.
fn allowed(trust: Trust, honest: &[Honest; 3], words: &[Collect]) -> [bool; 2] {
    let mut allowed = [false; 2];
    let mut note = |binding| match binding {
        Binding::Bound(digest) => allowed[usize::from(digest.bytes()[0] - 1)] = true,
        Binding::Free => allowed = [true; 2],
        Binding::Unsound => {}
    };
    for set in 1u8..8 {
        let said: Vec<_> = (0..3).filter(|at| set & (1 << at) != 0).map(|at| honest[at].says(at)).collect();
        note(binding_of(trust, &said, Slot::ZERO));
        for lie in words {
            note(binding_of(trust, &[said.as_slice(), std::slice::from_ref(lie)].concat(), Slot::ZERO));
        }
    }
    allowed
}

/// Each honest replica takes one of the values that are allowed, or none; then those may lock for whose value enough wrote, each or not.
fn after(view: u64, state: &State, allowed: [bool; 2], liars: usize, writes: bool) -> BTreeSet<State> {
    let choices: Vec<Option<usize>> =
        std::iter::once(None).chain((0..2).filter(|value| allowed[*value]).map(Some)).collect();
    let quorum = if writes { 3 } else { 2 };
    let mut found = BTreeSet::new();
    let count = choices.len();
    for which in 0..count.pow(3) {
        let taken = [which % count, which / count % count, which / count / count].map(|at| choices[at]);
        // A leader that does not lie proposes one value.
        let values: BTreeSet<_> = taken.iter().flatten().collect();
        if liars == 0 && values.len() > 1 {
            continue;
        }
        for locks in 0u8..8 {
            let (mut honest, mut decided) = *state;
            let mut fits = true;
            for at in 0..3 {
                let locked = locks & (1 << at) != 0;
                if let Some(value) = taken[at] {
                    honest[at].wrote[value] = if writes { view } else { 0 };
                    let writers = taken.iter().filter(|other| **other == Some(value)).count() + liars;
                    fits &= !locked || !writes || writers >= quorum;
                    fits &= locked || writes;
                    if locked {
                        honest[at].lock = Some((view, [V, W][value]));
                    }
                } else {
                    fits &= !locked;
                }
            }
            for (value, decided) in decided.iter_mut().enumerate() {
                let lockers = (0..3).filter(|at| locks & (1 << at) != 0 && taken[*at] == Some(value)).count();
                *decided |= lockers + liars >= quorum;
            }
            if fits {
                found.insert((honest, decided));
            }
        }
    }
    found
}

/// Explores everything up to so many views. Gives how many states there are.
fn explore(trust: Trust, liars: usize, views: u64) -> usize {
    let writes = liars > 0;
    let mut states: BTreeSet<State> = BTreeSet::from([Default::default()]);
    let mut all = states.len();
    for view in 1..=views {
        let words = if liars > 0 { liars_words(view) } else { vec![] };
        let mut next = BTreeSet::new();
        for state in &states {
            let may = if view == 1 { [true; 2] } else { allowed(trust, &state.0, &words) };
            if view > 1 {
                let said: Vec<_> = (0..3).map(|at| state.0[at].says(at)).collect();
                let sound = |said: &[Collect]| binding_of(trust, said, Slot::ZERO) != Binding::Unsound;
                assert!(sound(&said), "all honest ones together show enough: {state:?}");
                let with = |lie: &Collect| sound(&[said.as_slice(), std::slice::from_ref(lie)].concat());
                assert!(words.iter().all(with), "whatever the liar adds: {state:?}");
            }
            next.extend(after(view, state, may, liars, writes));
        }
        for (honest, decided) in &next {
            assert!(*decided != [true; 2], "two values may be decided by view {view}: {honest:?}");
        }
        all += next.len();
        states = next;
    }
    all
}

/// Four replicas, one of which lies in every way, also as leader that shows each of the others something else; two values, three views.
#[test]
pub(super) fn no_history_of_four_with_a_liar_decides_two_values() {
    let count = explore(four(), 1, 3);
    println!("{count} states");
    assert!(count > 1000, "{count} states");
}

/// Three replicas that at most crash, four views.
#[test]
pub(super) fn no_history_of_three_without_lies_decides_two_values() {
    let count = explore(three(), 0, 4);
    println!("{count} states");
    assert!(count > 50, "{count} states");
}

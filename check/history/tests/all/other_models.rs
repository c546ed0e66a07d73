//! The search takes any sequential object: a counter and a set, without a guide, against all permutations.

use crate::common::Rng;
use quorate_history::Budget;
use quorate_history::model::{Model, NoGuide, Operation};
use quorate_history::search::{Finding, search};
use std::collections::BTreeSet;

/// Adds return nothing, reads return the sum.
struct Counter;

#[derive(Clone, Copy, Debug)]
enum CounterOp {
    Add(u32),
    Sum(u32),
}

impl Model for Counter {
    type State = u32;
    type Op = CounterOp;

    fn initial() -> u32 {
        0
    }

    fn step(state: &u32, op: &CounterOp) -> Option<u32> {
        match *op {
            CounterOp::Add(by) => Some(state + by),
            CounterOp::Sum(is) => (*state == is).then_some(is),
        }
    }
}

/// Insert and remove answer whether they changed anything.
struct Set;

#[derive(Clone, Copy, Debug)]
enum SetOp {
    Insert(u8, bool),
    Remove(u8, bool),
}

impl Model for Set {
    type State = BTreeSet<u8>;
    type Op = SetOp;

    fn initial() -> BTreeSet<u8> {
        BTreeSet::new()
    }

    fn step(state: &BTreeSet<u8>, op: &SetOp) -> Option<BTreeSet<u8>> {
        let mut after = state.clone();
        match *op {
            SetOp::Insert(item, is_new) => (after.insert(item) == is_new).then_some(after),
            SetOp::Remove(item, was_there) => (after.remove(&item) == was_there).then_some(after),
        }
    }
}

fn by_force<M: Model>(ops: &[Operation<M::Op>], placed: &mut Vec<usize>, state: &M::State) -> bool {
    let left: Vec<usize> = (0..ops.len()).filter(|i| !placed.contains(i)).collect();
    if left.iter().all(|&i| ops[i].ret.is_none()) {
        return true;
    }
    for &next in &left {
        if left.iter().any(|&other| ops[other].ret.is_some_and(|ret| ret < ops[next].call)) {
            continue;
        }
        let Some(after) = M::step(state, &ops[next].op) else { continue };
        placed.push(next);
        let found = by_force::<M>(ops, placed, &after);
        placed.pop();
        if found {
            return true;
        }
    }
    false
}

/// The order that the search returns must itself be legal and respect real time.
fn assert_legal<M: Model>(ops: &[Operation<M::Op>], order: &[usize]) {
    let mut state = M::initial();
    for (at, &op) in order.iter().enumerate() {
        state = M::step(&state, &ops[op].op).expect("each step of the order is legal");
        let is_late = |&&later: &&usize| ops[later].ret.is_some_and(|ret| ret < ops[op].call);
        assert!(order[at + 1..].iter().find(is_late).is_none(), "real time is broken: {order:?}");
    }
    let is_placed = |op: usize| order.contains(&op) || ops[op].ret.is_none();
    assert!((0..ops.len()).all(is_placed), "an operation is missing: {order:?}");
}

fn compare<M: Model>(seed: u64, mut op: impl FnMut(&mut Rng) -> M::Op) {
    let mut rng = Rng(seed);
    let mut counts = [0, 0];
    for _ in 0..3000 {
        let ops: Vec<Operation<M::Op>> = (0..6)
            .map(|_| {
                let (x, y) = (rng.below(8), rng.below(8));
                let ret = (!rng.chance(20)).then_some(x.max(y));
                Operation { op: op(&mut rng), call: x.min(y), ret }
            })
            .collect();
        let expected = by_force::<M>(&ops, &mut Vec::new(), &M::initial());
        counts[usize::from(expected)] += 1;
        match search::<M, _>(&ops, &mut NoGuide, Budget::default()).finding {
            Finding::Ordered(order) => {
                assert!(expected);
                assert_legal::<M>(&ops, &order);
            }
            Finding::Impossible { .. } => assert!(!expected),
            Finding::OutOfBudget { what, .. } => panic!("{what}"),
        }
    }
    assert!(counts.iter().all(|&count| count > 300), "the mix is too thin: {counts:?}");
}

#[test]
fn a_counter_is_searched_like_by_force() {
    compare::<Counter>(1, |rng| match rng.below(2) {
        0 => CounterOp::Add(1 + rng.below(2) as u32),
        _ => CounterOp::Sum(rng.below(4) as u32),
    });
}

#[test]
fn a_set_is_searched_like_by_force() {
    compare::<Set>(2, |rng| {
        let (item, flag) = (rng.below(3) as u8, rng.chance(60));
        if rng.chance(60) { SetOp::Insert(item, flag) } else { SetOp::Remove(item, flag) }
    });
}

/// 64 operations per word: sets of more than one word, with full words left out, must not be mixed up.
#[test]
fn a_long_history_needs_several_words_of_bits() {
    let mut ops = Vec::new();
    for i in 0..500u64 {
        ops.push(Operation { op: CounterOp::Add(1), call: i * 10, ret: Some(i * 10 + 25) });
        if i % 200 == 0 {
            ops.push(Operation { op: CounterOp::Add(1000), call: i * 10, ret: None });
        }
    }
    ops.push(Operation { op: CounterOp::Sum(500 + 2 * 1000), call: 10_000, ret: Some(10_001) });
    let Finding::Ordered(order) = search::<Counter, _>(&ops, &mut NoGuide, Budget::default()).finding else {
        panic!("two of the three optional adds happened");
    };
    assert_legal::<Counter>(&ops, &order);
}

/// The same budget gives the same finding, and a small one is admitted to be small.
#[test]
fn a_small_budget_is_said_to_be_small() {
    let mut ops: Vec<Operation<CounterOp>> =
        (0..24).map(|i| Operation { op: CounterOp::Add(1 << i), call: 0, ret: Some(100) }).collect();
    ops.push(Operation { op: CounterOp::Sum(1), call: 200, ret: Some(201) });
    for budget in
        [Budget { steps: 5000, ..Budget::default() }, Budget { cache_words: 5000, ..Budget::default() }]
    {
        let first = search::<Counter, _>(&ops, &mut NoGuide, budget);
        assert!(matches!(first.finding, Finding::OutOfBudget { .. }), "{first:?}");
        assert!(first.steps < 100_000, "it stopped late: {} steps", first.steps);
        assert_eq!(first, search::<Counter, _>(&ops, &mut NoGuide, budget));
    }
}

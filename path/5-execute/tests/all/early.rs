//! Batches that run before they are decided: what is decided counts, and nothing of what is not. Whole histories are in `verified.rs`.

use crate::ordered::{Step, finals};
use crate::support::{batch, commands, open, seq};
use crate::verified::{Entry, ONE, Replica, bytes, ran, session};
use quorate_execute::{Execution, Ordered, Verified};
use quorate_types::{Random, View};
use quorate_wire::{Batch, Ruling};

/// The view in which an entry of the log was proposed.
pub(crate) fn view_of(number: u64) -> View {
    View::new(1 + number / 40)
}

/// A replica hears of entries of the log before they are decided, and now and then of one that never is.
pub(crate) fn foresee(stage: &mut Verified, strays: &mut bool, rest: &[Entry], random: &mut Random) {
    *strays &= stage.foreseen() > 0;
    for _ in 0..random.next() % 4 {
        // One with a change of the membership has no proposal that may run early. And a view has one log: nothing that is decided in it stands
        // behind what is not.
        let Some((Step::Batch(number, batch, false), _)) = rest.get(stage.foreseen()) else { return };
        if *strays || !stage.may_foresee(batch) {
            return;
        }
        *strays = random.next().is_multiple_of(5);
        let (view, batch) = if *strays { never(*number, random) } else { (view_of(*number), batch.clone()) };
        stage.foresee(view, &batch);
    }
}

/// A proposal that is never decided, the same at each replica that hears of it. It leaves a session, if anybody counts it.
fn never(number: u64, random: &mut Random) -> (View, Batch) {
    let which = random.next() % 2;
    (View::new(1000 + 2 * number + which), batch(number * 10, number, &[open(50 + which, number)]))
}

fn put(number: u64, value: u8) -> Batch {
    batch(number * 10, number, &[commands(session(), number - 1, 1, &[&[0, 1, value]])])
}

/// A replica in which a session is open.
fn opened() -> Verified {
    let mut stage = Replica::new(0, 1, ONE).stage;
    let whole: &mut (dyn Execution + 'static) = &mut stage;
    whole.batch(seq(1), batch(10, 1, &[open(0, 1)]));
    assert_eq!(ran(&mut stage), 1);
    drop(stage.take_tokens());
    stage
}

/// Orders a batch, with a ruling.
fn decide(stage: &mut Verified, number: u64, batch: Batch, ruling: Option<Ruling>) {
    let whole: &mut (dyn Execution + 'static) = stage;
    whole.batch(seq(number), batch);
    if let Some(ruling) = ruling {
        stage.deliver(Ordered::Ruled(seq(number), ruling));
    }
}

/// A planted bug takes what was foreseen for what is delivered.
#[test]
pub(crate) fn what_was_not_decided_leaves_nothing() {
    let (mut stage, mut other) = (opened(), opened());
    stage.foresee(View::new(3), &put(2, 5));
    stage.foresee(View::new(3), &put(3, 6));
    assert_eq!(ran(&mut stage), 0, "it is not even delivered");
    let (view, early) = stage.take_early().expect("both ran");
    assert_eq!((view, early.attempt, early.list.len(), stage.foreseen()), (View::new(3), 0, 2, 2));
    assert!(stage.take_tokens().is_none() && stage.take_early().is_none());

    for stage in [&mut stage, &mut other] {
        decide(stage, 2, put(2, 7), None);
    }
    assert_eq!((ran(&mut stage), ran(&mut other), stage.foreseen()), (0, 0, 0));
    let (own, same) = (stage.take_tokens().expect("it ran"), other.take_tokens().expect("it ran"));
    assert_eq!(own, same);
    assert_ne!(own.list[0], early.list[0]);
    let (_, token) = own.list[0];
    for stage in [&mut stage, &mut other] {
        decide(stage, 3, batch(30, 3, &[]), Some(Ruling::Final { attempt: 0, seq: seq(2), token }));
        assert_eq!(ran(stage), 2);
        stage.invariants();
    }
    assert_eq!(bytes(stage.state()), bytes(other.state()));
}

#[test]
fn what_was_foreseen_runs_once() {
    let mut stage = opened();
    stage.proposed(1, View::new(3), put(2, 5));
    assert!(stage.foresees(0) && stage.foresee_behind(0) && !stage.foresees(0));
    assert_eq!(ran(&mut stage), 0);
    let (_, early) = stage.take_early().expect("it ran");
    decide(&mut stage, 2, put(2, 5), None);
    stage.is_placed(seq(2), 1, &put(2, 5));
    assert_eq!(stage.take_placed(), [(seq(2), View::new(3))]);
    assert_eq!(stage.take_tokens().expect("it counts now").list, early.list);
    let (_, token) = early.list[0];
    decide(&mut stage, 3, put(3, 6), Some(Ruling::Final { attempt: 0, seq: seq(2), token }));
    assert_eq!((ran(&mut stage), stage.counts().reruns), (1, 0));
    stage.deliver(Ordered::Border);
    stage.foresee(View::new(3), &put(4, 6));
    let mut all = Vec::new();
    finals(&mut stage, &mut all);
    assert!(all.is_empty() && !stage.is_settled(), "the border waits for the ruling about 3: {all:?}");
}

#[test]
fn only_so_much_runs_early() {
    let mut stage = opened();
    let next = |stage: &Verified| put(2 + stage.foreseen() as u64, 5);
    while stage.may_foresee(&next(&stage)) {
        let batch = next(&stage);
        stage.foresee(View::new(1), &batch);
    }
    assert_eq!(stage.foreseen(), 64);
    assert_eq!(stage.behind().0, 0, "none is delivered");
    assert!(!stage.is_behind() && stage.has_room());
}

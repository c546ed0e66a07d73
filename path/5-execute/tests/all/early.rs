//! Batches that run before they are decided: what is decided counts, and nothing of what is not. Whole histories are in `verified.rs`.

use crate::ordered::{Step, finals};
use crate::support::{batch, commands, open, seq};
use crate::verified::{Entry, ONE, Replica, bytes, ran, session};
use quorate_execute::{Execution, Ordered, Verified};
use quorate_types::{InstanceId, Random, Slot, View};
use quorate_wire::{Batch, Ruling};

/// The view in which an entry of the log was proposed.
pub(crate) fn view_of(number: u64) -> View {
    View::new(1 + number / 40)
}

/// The log of a replica's instance: how far it goes, and from where on it has what is never decided. Each step of the history is a record.
#[derive(Clone, Copy, Default)]
pub(crate) struct Log {
    last: usize,
    strays: Option<usize>,
}

impl Log {
    /// The next steps come into the log, and now and then something else, whose place they take later.
    pub(crate) fn grow(&mut self, stage: &mut Verified, all: &[Entry], random: &mut Random) {
        for _ in 0..random.next() % 4 {
            if random.next().is_multiple_of(5) {
                let number = all.iter().rev().find_map(|(step, _)| number(step)).unwrap_or(0);
                self.last += 1;
                self.strays.get_or_insert(self.last);
                let (view, batch) = never(number + 1, self.last, random);
                stage.proposed(self.last as u64, view, batch);
            } else if !self.append(stage, all) {
                break;
            }
        }
        if random.next().is_multiple_of(2) {
            stage.end_turn();
        }
    }

    /// The step behind what is right in the log comes into it. Whether there is one.
    fn append(&mut self, stage: &mut Verified, all: &[Entry]) -> bool {
        let next = self.strays.unwrap_or(self.last + 1);
        let Some((step, _)) = all.get(next - 1) else { return false };
        (self.last, self.strays) = (next, None);
        let (view, batch) = match step {
            Step::Batch(number, batch, false) => (view_of(*number), batch.clone()),
            // What is more than a batch does not run early.
            _ => (View::new(1), Batch::no_op(Slot::new(1))),
        };
        stage.proposed(next as u64, view, batch);
        true
    }

    /// This record is decided.
    pub(crate) fn decide(&mut self, stage: &mut Verified, record: usize, all: &[Entry]) {
        while self.last < record || self.strays.is_some_and(|from| from <= record) {
            self.append(stage, all);
        }
    }
}

fn number(step: &Step) -> Option<u64> {
    match step {
        Step::Batch(number, ..) | Step::Pass(number) => Some(*number),
        _ => None,
    }
}

/// A proposal that is never decided. It leaves a session, if anybody counts it. A view has one log, so each has a view of its own.
fn never(number: u64, record: usize, random: &mut Random) -> (View, Batch) {
    let which = random.next() % 2;
    let view = View::new(1000 + 2 * record as u64 + which);
    (view, batch(number * 10, number, &[open(50 + which, record as u64)]))
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

/// The place of the next batch, in a cluster with one instance.
fn next(stage: &Verified) -> (InstanceId, Slot) {
    (InstanceId::new(1), Slot::new(stage.state().agreed().seq().next().number()))
}

/// Batches that were proposed in view 3 run, from this record on.
fn foresee(stage: &mut Verified, record: u64, batches: impl IntoIterator<Item = Batch>) {
    for (record, batch) in (record..).zip(batches) {
        stage.proposed(record, View::new(3), batch);
    }
    stage.end_turn();
    let next = next(stage);
    stage.foresee_behind(record - 1, next);
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
    foresee(&mut stage, 1, [put(2, 5), put(3, 6)]);
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
    let place = next(&stage);
    stage.proposed(1, View::new(3), put(2, 5));
    assert!(!stage.foresees(0) && !stage.foresee_behind(0, place), "messages about it leave first");
    stage.end_turn();
    assert!(stage.foresees(0) && stage.foresee_behind(0, place) && !stage.foresees(0));
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
    foresee(&mut stage, 3, [put(4, 6)]);
    let mut all = Vec::new();
    finals(&mut stage, &mut all);
    assert!(all.is_empty() && !stage.is_settled(), "the border waits for the ruling about 3: {all:?}");
}

#[test]
fn only_so_much_runs_early() {
    let mut stage = opened();
    foresee(&mut stage, 1, (2..102).map(|number| put(number, 5)));
    assert_eq!(stage.foreseen(), 64);
    assert_eq!(stage.behind().0, 0, "none is delivered");
    assert!(!stage.is_behind() && stage.has_room() && !stage.foresees(0));
    let mut late = opened();
    late.waits_for_delivery();
    foresee(&mut late, 1, [put(2, 5)]);
    assert_eq!((late.foreseen(), late.foresees(0)), (0, false));
    decide(&mut late, 2, put(2, 5), None);
    late.is_placed(seq(2), 1, &put(2, 5));
    assert_eq!(late.take_placed(), [(seq(2), View::new(3))], "others are heard all the same");
}

/// A planted bug runs what a new leader proposes behind what it took out of the log.
#[test]
pub(crate) fn what_a_new_leader_proposes_runs_on_its_own_past() {
    let (mut stage, mut other) = (opened(), opened());
    foresee(&mut stage, 1, [put(2, 5)]);
    assert_eq!(ran(&mut stage), 0);
    drop(stage.take_early());
    for (record, batch) in [(1, put(2, 7)), (2, put(3, 8))] {
        stage.proposed(record, View::new(4), batch);
    }
    stage.end_turn();
    let place = next(&stage);
    assert!(stage.foresee_behind(0, place) && ran(&mut stage) == 0);
    let told = stage.take_early().map(|(view, own)| (view, own.list)).expect("both ran");
    decide(&mut other, 2, put(2, 7), None);
    decide(&mut other, 3, put(3, 8), None);
    ran(&mut other);
    assert_eq!(told, (View::new(4), other.take_tokens().expect("both ran").list));
}

/// A batch without commands waits for no ruling, and for its delivery all the same.
#[test]
fn a_quiet_batch_waits_until_it_is_delivered() {
    let mut stage = Replica::new(0, 1, ONE).stage;
    let quiet = || batch(10, 1, &[open(0, 1)]);
    foresee(&mut stage, 1, [quiet()]);
    assert_eq!((ran(&mut stage), stage.foreseen()), (0, 1));
    decide(&mut stage, 1, quiet(), None);
    assert_eq!((ran(&mut stage), stage.state().seq()), (1, seq(1)));
}

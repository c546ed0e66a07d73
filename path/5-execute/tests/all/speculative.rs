//! Speculative execution beside sequential execution of the same batches: equal as long as no requests met, which right hints never let happen.
#![allow(clippy::disallowed_types, reason = "cells that several views share need a lock")]

use crate::ordered::{AHEAD, Cells, Clients, Hints, Says, Step, Workers, deliver, finals, limits};
use crate::support::{batch, commands, open, seq};
use quorate_execute::{
    Ahead, Execution, Executor, InStore, Outcomes, Parallel, Parallelism, Part, Sequential, SessionLimits,
    Speculative, Work,
};
use quorate_types::{AgreedTime, Random, SessionId, Time};
use std::sync::{Arc, Mutex};

/// Cells in which a run that has not written yet may still see what was there before the wave.
struct Shared(Mutex<(Part, Random, Vec<u64>)>);

impl quorate_execute::Cells for Shared {
    fn parts(&self) -> usize {
        1
    }
    fn read(&self, who: u64, _: usize, look: &mut dyn FnMut(&Part)) {
        let (part, random, late) = &mut *self.0.lock().expect("no panic");
        if !late.contains(&who) && random.next().is_multiple_of(2) {
            return look(&Part::default());
        }
        late.push(who);
        look(part);
    }
    fn write(&self, who: u64, _: usize, change: &mut dyn FnMut(&mut Part)) {
        let (part, _, late) = &mut *self.0.lock().expect("no panic");
        late.push(who);
        change(part);
    }
}

fn executor(hints: Hints, limits: SessionLimits) -> Executor {
    Executor::new(Box::new(InStore::new(Parallel::new(Cells { hints }))), limits, AgreedTime::ZERO)
}

fn stage(seed: u64, hints: Hints, limits: SessionLimits) -> Speculative {
    let cells = move || -> Arc<dyn quorate_execute::Cells> {
        Arc::new(Shared(Mutex::new((Part::default(), Random::new(seed), Vec::new()))))
    };
    let ahead = Ahead { long: 0, ..AHEAD };
    let made = Speculative::new(executor(hints, limits), ahead, Box::new(Says(0, 1000)), Box::new(cells));
    made.unwrap_or_else(|_| panic!("it is parallel"))
}

/// One history under both, until the result of a batch may be another one. Gives the numbers of the one that speculates, and whether it came to its end.
fn play(seed: u64, hints: Hints) -> (Parallelism, bool) {
    let (mut clients, mut random) = (Clients::new(seed), Random::new(seed ^ 0xabc));
    let mut one = Sequential::new(executor(hints, limits()));
    let mut other = stage(seed, hints, limits());
    let (mut number, mut workers) = (0, Workers::default());
    for at in 0..80 {
        let step = clients.step(&mut number);
        deliver(&mut one, &step);
        deliver(&mut other, &step);
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        finals(&mut one, &mut expected);
        for _ in 0..10_000 {
            finals(&mut other, &mut found);
            if !other.is_behind() {
                break;
            }
            workers.turn(&mut other, &mut random, &mut Says(0, 1000));
        }
        if other.has_varied() {
            assert!(
                hints != Hints::Right && hints != Hints::Same,
                "seed {seed}: right hints keep them apart"
            );
            return (other.parallelism().expect("it is parallel"), false);
        }
        assert_eq!(expected, found, "seed {seed} {hints:?}: step {at}");
        if let Step::Batch(..) = step {
            let image = |stage: &mut dyn Execution| {
                let image = stage.state_mut().image().expect("it gives its state");
                (image.system, image.objects.root())
            };
            assert!(
                image(&mut one) == image(&mut other),
                "seed {seed} {hints:?}: another state after step {at}"
            );
        }
    }
    (other.parallelism().expect("it is parallel"), true)
}

/// So many histories with each kind of hints.
pub(crate) fn histories(seeds: u64) {
    for hints in [Hints::Right, Hints::Wrong(5), Hints::Wrong(60), Hints::Nothing, Hints::Same] {
        let (mut all, mut whole) = (Parallelism::default(), 0);
        for seed in 0..seeds {
            let (one, is_whole) = play(seed, hints);
            whole += u64::from(is_whole);
            (all.adopted, all.void, all.runs) =
                (all.adopted + one.adopted, all.void + one.void, all.runs + one.runs);
            (all.waves, all.met) = (all.waves + one.waves, all.met + one.met);
        }
        println!("{hints:?}: {all:?}, {whole} of {seeds} without a meeting");
        assert!(all.adopted > 5 * seeds, "{hints:?}: {all:?}");
        match hints {
            Hints::Right => assert!(all.waves * 10 < all.runs * 9, "some share a wave: {all:?}"),
            Hints::Wrong(_) => assert!(whole < seeds && all.void > 0, "{hints:?}: {all:?}, {whole}"),
            // One by one.
            Hints::Nothing | Hints::Same => assert_eq!((all.met, whole), (0, seeds), "{hints:?}: {all:?}"),
        }
    }
}

#[test]
fn without_meetings_it_is_as_one_after_the_other() {
    histories(std::env::var("QUORATE_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(100));
}

fn session(index: u32) -> SessionId {
    SessionId { index, generation: 1 }
}

/// A batch in which each session asks once for one of these commands.
fn asked(stage: &mut Speculative, list: &[[u8; 3]]) {
    let opens: Vec<_> = (0..list.len() as u64).map(|client| open(client, 1)).collect();
    let asks: Vec<_> =
        (0..).zip(list).map(|(at, command)| commands(session(at), 1, 1, &[&command[..]])).collect();
    let whole: &mut (dyn Execution + 'static) = stage;
    whole.batch(seq(1), batch(1, 1, &opens));
    whole.batch(seq(2), batch(2, 2, &asks));
    finals(stage, &mut Vec::new());
}

fn given(stage: &mut Speculative) -> Vec<Work> {
    std::iter::from_fn(|| stage.work()).collect()
}

#[test]
fn requests_that_share_nothing_share_a_wave() {
    let mut stage = stage(1, Hints::Right, limits());
    asked(&mut stage, &[[1, 1, 5], [1, 2, 6], [1, 3, 7], [1, 1, 8]]);
    let mut all = Vec::new();
    // Three of one wave, with one for each worker; then the one that writes the first key again runs alone.
    let works = given(&mut stage);
    assert_eq!(works.iter().map(Work::len).collect::<Vec<_>>(), [1, 1, 1]);
    for work in works.into_iter().rev() {
        finals(&mut stage, &mut all);
        assert!(all.is_empty(), "others of the wave are on their way");
        stage.worked(work.run(&mut Says(0, 1)));
    }
    finals(&mut stage, &mut all);
    assert_eq!(all.len(), 1);
    assert_eq!(stage.state().published().expect("it is in the store").objects.get(&[1]), Some(&[8, 0][..]));
    assert_eq!(stage.parallelism().map(|counts| (counts.waves, counts.adopted)), Some((2, 4)));
}

/// A worker that never answers holds up a batch for a while; then it runs without workers, and the late answer counts for nothing.
#[test]
fn a_worker_that_never_answers_is_given_up() {
    let mut stage = stage(1, Hints::Right, limits());
    asked(&mut stage, &[[1, 1, 5], [1, 2, 6]]);
    let mut works = given(&mut stage);
    let late = works.pop().expect("two");
    stage.worked(works.pop().expect("one").run(&mut Says(0, 1)));
    let (mut outcomes, mut all) = (Outcomes::new(), Vec::new());
    let deadline = stage.deadline().expect("someone is waited for");
    assert!(stage.next(Time::from_nanos(deadline.nanos() - 1), &mut outcomes).is_none());
    assert!(stage.next(deadline, &mut outcomes).is_some());
    assert!(!stage.has_varied() && stage.deadline().is_none());
    stage.worked(late.run(&mut Says(0, 1)));
    let whole: &mut (dyn Execution + 'static) = &mut stage;
    let again = [[1, 2, 9], [1, 4, 9]];
    let asks: Vec<_> = (0..).zip(&again).map(|(at, ask)| commands(session(at), 2, 1, &[&ask[..]])).collect();
    whole.batch(seq(3), batch(3, 3, &asks));
    finals(&mut stage, &mut all);
    for work in given(&mut stage) {
        stage.worked(work.run(&mut Says(0, 1)));
    }
    finals(&mut stage, &mut all);
    assert_eq!(all.len(), 1, "new work is given out");
    assert_eq!(stage.state().published().expect("it is in the store").objects.get(&[2]), Some(&[9, 0][..]));
}

/// Where replies may have no room, the batch runs one request after the other, so that one without room changes nothing.
#[test]
fn requests_without_room_for_their_replies_change_nothing() {
    let small = SessionLimits { reply_bytes_per_batch_max: 10, ..limits() };
    let (mut one, mut other) =
        (Sequential::new(executor(Hints::Right, small.clone())), stage(1, Hints::Right, small));
    let list: Vec<[u8; 3]> = (0..8).map(|at| [7, at, 9]).collect();
    let opens: Vec<_> = (0..8).map(|client| open(client, 1)).collect();
    let asks: Vec<_> =
        (0..).zip(&list).map(|(at, command)| commands(session(at), 1, 1, &[&command[..]])).collect();
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    let one_whole: &mut (dyn Execution + 'static) = &mut one;
    one_whole.batch(seq(1), batch(1, 1, &opens));
    one_whole.batch(seq(2), batch(2, 2, &asks));
    finals(&mut one, &mut expected);
    let whole: &mut (dyn Execution + 'static) = &mut other;
    whole.batch(seq(1), batch(1, 1, &opens));
    whole.batch(seq(2), batch(2, 2, &asks));
    for _ in 0..3 {
        finals(&mut other, &mut found);
        given(&mut other).into_iter().for_each(|work| other.worked(work.run(&mut Says(0, 1))));
    }
    assert_eq!(expected, found);
    assert!(expected[1].contains("Overloaded"), "{}", expected[1]);
    assert_eq!(other.parallelism().map(|counts| counts.void), Some(1));
}

/// After some rollbacks commands run one after the other for a while.
#[test]
fn rollbacks_are_followed_by_a_pause() {
    let mut stage = stage(1, Hints::Right, limits());
    for failed in [5, 9, 13] {
        stage.failed(seq(failed));
    }
    asked(&mut stage, &[[1, 1, 5], [1, 2, 6]]);
    assert!(!stage.is_behind() && stage.work().is_none(), "they ran at once");
    assert_eq!(stage.parallelism().map(|counts| counts.waves), Some(0));
}

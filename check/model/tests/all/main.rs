//! Exhaustive searches. The large ones are ignored: `cargo xtask campaign model-visigoth` runs them.

mod explore;
mod gathering;
mod large;
mod planted;
mod small;

use quorate_model::{Bounds, Explored, State, Stopped, Visigoth, explore};
use std::time::Instant;

/// More states than a small search has.
const MANY: usize = 3_000_000;

/// Searches all of it, and says how much that was.
fn search(name: &str, bounds: Bounds, most: usize, look: impl FnMut(&Visigoth, &State)) -> Explored {
    let (world, began, mut look) = (Visigoth::new(bounds), Instant::now(), look);
    match explore(&world, most, |state| look(&world, state)) {
        Ok(explored) => {
            let Explored { states, steps } = explored;
            println!("{name}: {states} states, histories of up to {steps} steps, {:.1?}", began.elapsed());
            explored
        }
        Err(wrong) => panic!("{name}: {wrong}"),
    }
}

/// The history that a planted bug leads to, printed.
fn found(bounds: Bounds) -> String {
    let plant = bounds.plant;
    match explore(&Visigoth::new(bounds), MANY, |_| {}) {
        Err(wrong @ Stopped::Wrong { .. }) => {
            println!("{plant:?}: {wrong}");
            wrong.to_string()
        }
        other => panic!("{plant:?} was not found: {other:?}"),
    }
}

/// All sets of members that may be there: honest ones, at least the smallest quorum.
fn alive(bounds: &Bounds) -> Vec<u8> {
    let honest = bounds.honest().fold(0u8, |set, member| set | 1 << member);
    let enough = |set: &u8| set & !honest == 0 && set.count_ones() >= bounds.trust.smallest();
    (0..=honest).filter(enough).collect()
}

/// How often the last view went on with those that were there. Panics where it was stuck.
fn goes_on_everywhere(name: &str, bounds: &Bounds, most: usize) -> usize {
    let (sets, mut went) = (alive(bounds), 0);
    search(name, bounds.clone(), most, |world, state| {
        for set in &sets {
            match world.goes_on(state, *set) {
                Some(Ok(())) => went += 1,
                Some(Err(stuck)) => panic!("{name}: {stuck}: {state:?}"),
                None => {}
            }
        }
    });
    went
}

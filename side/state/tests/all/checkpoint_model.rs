//! Random histories in all modes, with the keeper's steps and execution in any order, crashes at any operation, and full disks: what
//! is loaded is exactly the image of the newest border that was written, or of a newer one. (INV-KEEP-4, INV-KEEP-6)

use crate::checkpoint_common::{History, Mode, Replica, Rng};
use quorate_state::checkpoint::{Job, Report};
use quorate_types::Seq;

const MODES: [Mode; 4] = [Mode::Fuzzy, Mode::Stop, Mode::Differential, Mode::Staggered];

fn crash_sometimes(replica: &mut Replica<'_>, rng: &mut Rng) {
    match rng.below(60) {
        0 => replica.crash(rng),
        1 => replica.disk.crash_in = Some(rng.below(40)),
        _ => {}
    }
    if replica.disk.crashed() {
        replica.crash(rng);
    }
}

/// A run of one seed.
fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let mode = MODES[seed as usize % MODES.len()];
    let history = History::random(&mut rng, mode, 8);
    let mut replica = Replica::new(&history);
    let (eager, full) = (1 + rng.below(12), rng.one_in(3));
    while !replica.is_done() {
        match rng.below(20) {
            0..=9 => replica.execute(),
            10..=16 => (0..rng.below(eager)).for_each(|_| {
                replica.step();
            }),
            17 if replica.written > 0 => {
                replica.keeper.submit(Job::Forget { keep: Seq::new(replica.written) });
            }
            18 if rng.one_in(4) => replica.keeper.submit(Job::Scrub),
            19 if full => {
                let capacity = rng.below(3_000_000);
                replica.disk.capacity = rng.one_in(2).then_some(capacity);
            }
            _ => {}
        }
        crash_sometimes(&mut replica, &mut rng);
    }
    (replica.disk.capacity, replica.disk.crash_in) = (None, None);
    replica.settle();
    if rng.one_in(2) {
        replica.crash(&mut rng);
    } else {
        replica.reopen();
    }
    let newest = replica.history.borders.iter().rev().find(|border| border.write.is_some());
    let newest = newest.map_or(0, |border| border.seq);
    let reached = replica.at as u64;
    assert!(reached >= replica.written && reached <= newest, "seed {seed}: {reached} of {newest}");
    if !replica.deviates {
        assert_eq!(reached, newest, "seed {seed}: nothing was in the way of the last checkpoint");
    }
    let rotten = replica.reports.iter().find(|report| matches!(report, Report::Rot { .. }));
    assert!(rotten.is_none(), "seed {seed}: {rotten:?}");
}

#[test]
fn what_is_loaded_was_written() {
    let seeds = std::env::var("QUORATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(240);
    for seed in 0..seeds {
        run(seed);
    }
}

//! Bugs put back on purpose: the tests of this package find each of them. Only with `--cfg planted`.
#![cfg(planted)]

mod checkpoint_common;

use std::panic::catch_unwind;

use checkpoint_common::{History, Mode, Replica, Rng};
use quorate_types::plant;

/// Executes everything, loads what was written after a crash, and compares.
fn write_and_load(seed: u64, mode: Mode, rot: bool) {
    let mut rng = Rng::new(seed);
    let history = History::random(&mut rng, mode, 4);
    let mut replica = Replica::new(&history);
    while !replica.is_done() {
        replica.execute();
        (0..rng.below(8)).for_each(|_| {
            replica.step();
        });
        if rng.one_in(6) {
            replica.crash(&mut rng);
        }
    }
    replica.settle();
    replica.crash(&mut rng);
    if rot {
        for _ in 0..20 {
            let name = replica.disk.names().pop().expect("a file");
            let len = replica.disk.content(&name).len() as u64;
            replica.disk.flip(&name, rng.below(len) as usize, 1);
        }
        replica.reopen();
    }
}

fn found(bug: Option<&str>) -> u32 {
    plant(bug);
    let mut found = 0;
    for seed in 0..60 {
        let mode = if seed % 2 == 0 { Mode::Differential } else { Mode::Fuzzy };
        let rot = bug == Some("unverified-chunk") || seed % 3 == 0;
        found += u32::from(catch_unwind(|| write_and_load(seed, mode, rot)).is_err());
    }
    plant(None);
    found
}

#[test]
fn every_planted_bug_is_found() {
    assert_eq!(found(None), 0);
    for bug in ["change-lost-after-copy", "chain-order", "unverified-chunk", "unpublished-trim"] {
        let times = found(Some(bug));
        assert!(times > 0, "{bug} was not found");
    }
}

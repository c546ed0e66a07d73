//! Bugs put back on purpose: the tests of this package find each of them. Only with `--cfg planted`.

use std::panic::catch_unwind;

use crate::checkpoint_common::{History, Mode, Replica, Rng};
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

/// Whether one of these seeds fails with the bug in force.
fn is_found(bug: Option<&str>) -> bool {
    plant(bug);
    let found = (0..60).any(|seed| {
        let mode = if seed % 2 == 0 { Mode::Differential } else { Mode::Fuzzy };
        let rot = bug == Some("unverified-chunk") || seed % 3 == 0;
        catch_unwind(|| write_and_load(seed, mode, rot)).is_err()
    });
    plant(None);
    found
}

#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn every_planted_bug_is_found() {
    assert!(!is_found(None));
    for bug in ["change-lost-after-copy", "chain-order", "unverified-chunk", "unpublished-trim"] {
        assert!(is_found(Some(bug)), "{bug} was not found");
    }
}

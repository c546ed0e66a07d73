//! Replicas against the merge written naively: any number of instances, changes of it, no-ops of all sizes, repeated ones, records in
//! any order between instances, restarts and jumps to checkpoints anywhere, also in the middle of a no-op.

use crate::common::{Logs, Naive, Replica, logs, seeds};
use quorate_merge::Checkpoint;
use quorate_types::Random;
use std::collections::BTreeMap;

fn scenario(seed: u64) -> (Random, u64, u16, Logs) {
    let mut random = Random::new(seed);
    let (window, instances) = (random.below(6) + 2, random.below(8) as u16 + 1);
    let records = 50 + random.below(500) as usize;
    let logs = logs(&mut random, window, instances, records);
    (random, window, instances, logs)
}

fn step(replica: &mut Replica, logs: &Logs, random: &mut Random) {
    let at = random.below(replica.known() as u64) as usize;
    // Often one instance is far ahead of the others.
    let count = if random.below(4) == 0 { random.below(60) } else { 1 };
    for _ in 0..=count {
        replica.give(logs, at);
    }
    let limit = [0, 1, 2, usize::MAX][random.below(4) as usize];
    replica.pull(limit);
}

fn finish(replica: &mut Replica, logs: &Logs, naive: &Naive, seed: u64) {
    replica.pull(usize::MAX);
    while (0..replica.known()).any(|at| replica.give(logs, at)) {
        replica.pull(usize::MAX);
    }
    assert_eq!(replica.log, naive.log, "seed {seed}: something is missing");
}

pub(crate) fn order(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let (mut random, window, instances, logs) = scenario(seed);
        let naive = Naive::of(window, instances, &logs);
        let mut checkpoints = BTreeMap::new();
        for _ in 0..2 {
            let mut replica = Replica::new(window, instances);
            for _ in 0..100 {
                step(&mut replica, &logs, &mut random);
                replica.compare(&naive, &mut checkpoints, seed);
            }
            finish(&mut replica, &logs, &naive, seed);
        }
    }
}

pub(crate) fn restarts(seeds: std::ops::Range<u64>) {
    let mut inside = 0;
    for seed in seeds {
        let (mut random, window, instances, logs) = scenario(seed);
        let naive = Naive::of(window, instances, &logs);
        let mut replica = Replica::new(window, instances);
        let mut checkpoints = BTreeMap::new();
        let mut durable: Option<Checkpoint> = None;
        for _ in 0..150 {
            step(&mut replica, &logs, &mut random);
            replica.compare(&naive, &mut checkpoints, seed);
            if random.below(4) == 0 {
                durable = Some(replica.merge.checkpoint());
            }
            if random.below(6) == 0
                && let Some(from) = &durable
            {
                inside += u64::from(from.instances.iter().any(|part| part.offset > 0));
                replica.restart(from);
                replica.compare(&naive, &mut checkpoints, seed);
            }
        }
        finish(&mut replica, &logs, &naive, seed);
    }
    assert!(inside > 100, "checkpoints lie inside no-ops, too: {inside}");
}

pub(crate) fn jumps(seeds: std::ops::Range<u64>) {
    let (mut forth, mut back, mut kept) = (0, 0, 0);
    for seed in seeds {
        let (mut random, window, instances, logs) = scenario(seed);
        let naive = Naive::of(window, instances, &logs);
        let mut replicas = [0; 2].map(|_| Replica::new(window, instances));
        let mut checkpoints = BTreeMap::new();
        for _ in 0..150 {
            let who = random.below(2) as usize;
            step(&mut replicas[who], &logs, &mut random);
            replicas[who].compare(&naive, &mut checkpoints, seed);
            if random.below(8) == 0 {
                let (to, log) = (replicas[1 - who].merge.checkpoint(), replicas[1 - who].log.clone());
                let before = replicas[who].given.clone();
                let forward = to.seq >= replicas[who].merge.seq();
                replicas[who].jump(&to, &log, random.below(2) == 0);
                replicas[who].compare(&naive, &mut checkpoints, seed);
                replicas[who].merge.invariants(true);
                let ahead = |(at, part): (usize, &quorate_merge::InstanceAt)| {
                    before.get(at).is_some_and(|given| *given as u64 > part.record.0)
                };
                kept += u64::from(forward && to.instances.iter().enumerate().any(ahead));
                *(if forward { &mut forth } else { &mut back }) += 1;
            }
        }
        for replica in &mut replicas {
            finish(replica, &logs, &naive, seed);
        }
    }
    assert!(
        forth.min(back).min(kept) > 100,
        "jumps go both ways, and find logs that go beyond: {forth} {back} {kept}"
    );
}

#[test]
fn the_order_is_the_naive_one() {
    order(seeds(0, 600));
}

#[test]
fn a_restart_anywhere_changes_nothing() {
    restarts(seeds(1 << 32, 600));
}

#[test]
fn a_jump_anywhere_changes_nothing() {
    jumps(seeds(2 << 32, 600));
}

/// What the tests above try is there often enough.
#[test]
fn scenarios_are_rich() {
    let (mut changes, mut returns, mut noops, mut long) = (0, 0, 0, 0);
    for seed in 0..600 {
        let (_, window, instances, logs) = scenario(seed);
        let naive = Naive::of(window, instances, &logs);
        let mut counts: Vec<usize> =
            naive.places.chunk_by(|a, b| a.0 == b.0).map(<[(u64, usize)]>::len).collect();
        counts.dedup();
        changes += counts.len() - 1;
        returns += counts.windows(3).filter(|three| three[0] > three[1] && three[1] < three[2]).count();
        noops += naive.log.iter().filter(|place| place.is_none()).count();
        long += usize::from(naive.log.len() > 100);
    }
    assert!(
        changes > 300 && returns > 100 && noops > 10_000 && long > 200,
        "{changes} {returns} {noops} {long}"
    );
}

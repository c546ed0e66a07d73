//! Random appends, group commits, trims and crashes, many lives long. After each crash the log holds all durable
//! records and exactly a prefix of the appended ones, and never halts. A block that was cut never comes back: every
//! record is different, and the model forgets what was cut, so an old one would not match.

use crate::common::{Rng, World, small_config};
use proptest::prelude::*;
use quorate_log::{Class, LogConfig, SyncMode};
use quorate_types::RecordId;

#[derive(Clone, Debug)]
enum Op {
    Append {
        head: usize,
        payload: usize,
        vital: bool,
    },
    Poll,
    Execute,
    Complete,
    Sync,
    Trim {
        back: u64,
    },
    /// The lowest segment that is on the way out.
    Delete {
        recycle: bool,
    },
    Crash {
        machine: bool,
        seed: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (8usize..60, prop_oneof![3 => 8usize..200, 1 => 200usize..1500], any::<bool>())
            .prop_map(|(head, payload, vital)| Op::Append { head, payload, vital }),
        5 => Just(Op::Poll),
        3 => Just(Op::Execute),
        4 => Just(Op::Complete),
        1 => Just(Op::Sync),
        1 => (0u64..20).prop_map(|back| Op::Trim { back }),
        2 => any::<bool>().prop_map(|recycle| Op::Delete { recycle }),
        1 => (any::<bool>(), any::<u64>()).prop_map(|(machine, seed)| Op::Crash { machine, seed }),
    ]
}

fn run(config: LogConfig, ops: &[Op]) -> World {
    let mut world = World::new(config);
    for op in ops {
        match *op {
            Op::Append { head, payload, vital } => {
                world.append(head, payload, if vital { Class::Vital } else { Class::Data });
            }
            Op::Poll => world.poll(),
            Op::Execute => world.execute_one(),
            Op::Complete => world.complete_one(),
            Op::Sync => {
                world.log.sync_soon();
                world.poll();
            }
            Op::Delete { recycle } => {
                if let Some(segment) = world.deleting.pop_front() {
                    world.disk.delete(segment, recycle);
                }
            }
            Op::Trim { back } => {
                let keep = RecordId::new(world.survives_power_loss().number().saturating_sub(back).max(1));
                world.kept_from = world.kept_from.max(keep);
                let trimmed = world.log.trim(keep);
                world.deleting.extend(trimmed);
            }
            Op::Crash { machine, seed } => world.crash(machine, &mut Rng(seed)),
        }
        world.log.invariants();
    }
    world.settle();
    world.check_places();
    world.crash(true, &mut Rng(ops.len() as u64));
    world
}

fn many(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(many(500))]

    /// Group commit, the default.
    #[test]
    fn crashes_lose_nothing_durable(ops in prop::collection::vec(op(), 1..250)) {
        run(small_config(), &ops);
    }

    /// More writes in flight and more segments ahead.
    #[test]
    fn crashes_with_many_writes_in_flight(ops in prop::collection::vec(op(), 1..250)) {
        run(LogConfig { in_flight_max: 5, segments_ahead: 3, ..small_config() }, &ops);
    }

    /// Async: after a power loss only what was synced must be there, after a killed process all that was written.
    #[test]
    fn crashes_in_async_mode(ops in prop::collection::vec(op(), 1..250)) {
        run(LogConfig { sync: SyncMode::Async, unsynced_bytes_max: 6000, ..small_config() }, &ops);
    }
}

/// The same world over and over: each life appends a little, is cut somewhere, and goes on over what lies there.
#[test]
fn hundreds_of_short_lives_over_the_same_bytes() {
    let mut world = World::new(small_config());
    let mut rng = Rng(7);
    let mut cuts = 0;
    for _ in 0..800 {
        // Sizes that repeat, so that blocks of different lives begin and end at the same places.
        for _ in 0..rng.below(6) {
            world.append(8, [8, 400, 900][rng.below(3) as usize], Class::Data);
            if rng.coin() {
                world.poll();
            }
            match rng.below(6) {
                0 => world.complete_one(),
                1 | 2 => world.execute_one(),
                _ => {}
            }
        }
        let appended = world.model.len();
        let machine = rng.below(4) != 0;
        world.crash(machine, &mut rng);
        cuts += usize::from(world.model.len() < appended);
    }
    assert!(cuts > 100, "this test is about cuts, and had {cuts}");
    assert!(world.model.len() > 100, "and about what survives them: {}", world.model.len());
}

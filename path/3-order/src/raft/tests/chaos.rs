//! Random schedules: a phase in which everything goes wrong and nothing wrong may be decided, then healing, after which
//! everything must go on.

use super::world::{Lossy, World, replica};
use crate::raft::RaftConfig;
use crate::{Input, Order};
use quorate_types::Span;

/// Small enough that windows fill, messages split and entries have to be read back.
fn tight(config: RaftConfig) -> RaftConfig {
    RaftConfig { window_bytes: 1500, message_bytes_max: 400, cache_bytes: 1200, ..config }
}

/// Elections all the time, and candidates that stand at the same moment.
fn hasty(config: RaftConfig) -> RaftConfig {
    let (heartbeat, hint_delay_max) = (Span::from_millis(8), Span::from_millis(1));
    let (election_min, election_max) = (Span::from_millis(16), Span::from_millis(30));
    RaftConfig { heartbeat, hint_delay_max, election_min, election_max, ..tight(config) }
}

/// Reads by leases. Time is the same for all here, and the last bit of it counts.
fn leased(config: RaftConfig) -> RaftConfig {
    RaftConfig { lease_drift_percent: Some(0), ..tight(config) }
}

fn hasty_leased(config: RaftConfig) -> RaftConfig {
    RaftConfig { lease_drift_percent: Some(0), ..hasty(config) }
}

fn memory(config: RaftConfig) -> RaftConfig {
    RaftConfig { reload: false, ..config }
}

/// One thing goes wrong, or right again.
fn mischief(world: &mut World) {
    let members = world.members() as u64;
    let (one, other) = (world.random.below(members) as usize, world.random.below(members) as usize);
    match world.random.below(14) {
        0 | 1 => {
            // Preferably where it hurts; sometimes back at once.
            let hurt = (0..world.members()).find(|at| world.is_up(*at) && world.has_unsynced(*at));
            let victim = hurt.unwrap_or(one);
            if world.is_up(victim) {
                world.crash(victim);
                if world.random.below(2) == 0 {
                    world.start(victim);
                }
            }
        }
        2 | 3 => {
            if !world.is_up(one) {
                world.start(one);
            }
        }
        4 => {
            world.cut.insert((one, other));
        }
        5 => {
            for peer in 0..world.members() {
                world.cut.insert((one, peer));
                world.cut.insert((peer, one));
            }
        }
        6 | 7 => world.cut.clear(),
        8 => world.connection(one, other, false),
        9 => world.connection(one, other, true),
        10 => {
            let target = (world.random.below(2) == 0).then(|| replica(other));
            world.step(one, Input::Transfer(target));
        }
        11 => world.delay_max = Span::from_millis(1 + world.random.below(4) * world.random.below(30)),
        12 => world.sync_max = Span::from_millis(1 + world.random.below(3) * world.random.below(100)),
        _ => world.lost = world.random.below(3) * world.random.below(150),
    }
}

fn work(world: &mut World) {
    for _ in 0..world.random.below(6) {
        let at = world.random.below(world.members() as u64) as usize;
        if world.is_up(at) && world.raft(at).status().leader.is_some() {
            match world.random.below(3) {
                0 => world.read(at),
                _ => {
                    // Also where nobody leads: it must be dropped.
                    let at = world.leader().filter(|_| world.random.below(8) > 0).unwrap_or(at);
                    let size = world.random.below(300) as usize;
                    world.propose(at, size);
                }
            }
        }
    }
}

fn heal(world: &mut World, context: &str) {
    (world.lost, world.doubled, world.may_crash) = (0, 0, false);
    world.delay_max = Span::from_millis(2);
    world.sync_max = Span::from_millis(4);
    world.cut.clear();
    for at in 0..world.members() {
        if !world.is_up(at) {
            world.start(at);
        }
    }
    for at in 0..world.members() {
        for peer in 0..at {
            world.connection(at, peer, true);
        }
    }
    world.tell_all();
    world.run(Span::from_secs(5));
    assert!(!world.stranger_leads(), "who is no member leads, {context}");
    assert!(world.change.is_none(), "the change is not over, {context}: {}", world.describe());
    let leader = world.leader().unwrap_or_else(|| panic!("nobody leads, {context}"));
    let before = world.decided();
    for _ in 0..5 {
        world.propose(leader, 100);
    }
    let confirmed = world.reads_confirmed;
    let open = world.reads_open() as u64;
    let members = world.current();
    for at in &members {
        world.read(*at);
    }
    world.run(Span::from_secs(2));
    assert_eq!(world.decided(), before + 5, "{context}");
    for at in &members {
        assert_eq!(world.decided_at(*at), before + 5, "replica {at}, {context}");
    }
    let all = open + members.len() as u64;
    assert!(
        open == 0 && world.reads_confirmed - confirmed == all,
        "reads are answered, {context}: {open} open, {} of {all} confirmed",
        world.reads_confirmed - confirmed
    );
    assert!(world.read_up_to <= world.decided() as u64, "a read waits for ever, {context}");
    world.check();
}

/// Rounds of up to so many milliseconds each.
#[derive(Clone, Copy)]
struct Pace {
    rounds: u64,
    millis: u64,
    crashes: bool,
    checkpoints: bool,
    /// Disks lose records that were durable.
    losses: bool,
    /// Replicas join and leave.
    changes: bool,
}

const USUAL: Pace =
    Pace { rounds: 60, millis: 120, crashes: true, checkpoints: false, losses: false, changes: false };
const FAST: Pace = Pace { rounds: 250, millis: 12, ..USUAL };
const NO_CRASHES: Pace = Pace { crashes: false, ..USUAL };

/// Checkpoints are made, fetched and installed, and what they hold is forgotten, in memory and on disk.
fn keep_house(world: &mut World) {
    for _ in 0..world.random.below(4) {
        let members = world.members() as u64;
        let (at, from) = (world.random.below(members) as usize, world.random.below(members) as usize);
        if !world.is_up(at) {
            continue;
        }
        match world.random.below(8) {
            0..3 => {
                let slot = (world.decided_at(at) as u64).saturating_sub(world.random.below(4));
                world.checkpoint(at, slot);
            }
            3 | 4 => world.forget(at),
            5 | 6 => world.trim_disk(at),
            _ => world.jump(at, from),
        }
    }
}

/// A replica goes down, loses some of what it had on disk, and comes back, at once or later.
fn lose_some(world: &mut World) {
    let at = world.random.below(world.members() as u64) as usize;
    if world.is_up(at) {
        world.crash(at);
    }
    world.lose(at);
    if world.random.below(3) > 0 {
        world.start(at);
    }
}

/// Now and then a change is ordered; whoever executed that says so to its protocol, sooner or later.
fn change_members(world: &mut World) {
    if world.random.below(4) == 0 {
        world.order_change();
    }
    let at = world.random.below(world.members() as u64) as usize;
    if world.is_up(at) {
        world.tell_change(at);
    }
}

/// Gives the world as it is at the end.
fn schedule(seed: u64, members: usize, configure: fn(RaftConfig) -> RaftConfig, pace: Pace) -> World {
    let context = format!("seed {seed}, {members} members");
    println!("{context}");
    let mut world = World::new(seed, members, configure);
    world.doubled = world.random.below(2) * 30;
    world.may_crash = pace.crashes;
    for round in 0..pace.rounds {
        let span = world.random.below(pace.millis);
        world.run(Span::from_millis(span));
        work(&mut world);
        if pace.checkpoints {
            keep_house(&mut world);
        }
        if pace.losses && world.random.below(12) == 0 {
            lose_some(&mut world);
        }
        if pace.changes {
            change_members(&mut world);
        }
        if world.random.below(3) == 0 {
            if pace.crashes {
                mischief(&mut world);
            } else {
                quiet_mischief(&mut world);
            }
        }
        if round % 10 == 0 {
            world.check();
        }
    }
    heal(&mut world, &context);
    world
}

/// Without crashes, for the mode in which a crash forgets everything.
fn quiet_mischief(world: &mut World) {
    let before: Vec<_> = (0..world.members()).map(|at| world.is_up(at)).collect();
    if world.random.below(2) == 0 {
        world.lost = world.random.below(200);
    } else {
        let (one, other) = (world.random.below(3) as usize, world.random.below(3) as usize);
        world.cut.insert((one, other));
    }
    if world.random.below(3) == 0 {
        world.cut.clear();
    }
    assert!(before.iter().all(|up| *up));
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("RAFT_SEED").unwrap_or(0);
    first..first + number("RAFT_SEEDS").unwrap_or(default)
}

/// Three members, everything goes wrong, entries have to be read back all the time.
#[test]
fn three_members_survive_random_schedules() {
    seeds(500).for_each(|seed| {
        schedule(seed, 3, tight, USUAL);
    });
}

/// Five members, the usual sizes.
#[test]
fn five_members_survive_random_schedules() {
    seeds(300).for_each(|seed| {
        schedule(seed, 5, |config| config, USUAL);
    });
}

/// Time-outs as long as the links and disks are slow: split votes, votes lost in crashes, leaders that do not know yet
/// that they are none.
#[test]
fn hasty_elections_survive_random_schedules() {
    seeds(150).for_each(|seed| {
        schedule(seed, 3, hasty, FAST);
        schedule(seed, 5, hasty, FAST);
    });
}

/// Reads that no round confirms, while leaders come and go, also by transfers, and replicas restart within the time of a promise.
#[test]
fn leases_survive_random_schedules() {
    let changes = Pace { changes: true, ..USUAL };
    seeds(200).for_each(|seed| {
        schedule(seed, 3, leased, USUAL);
        schedule(seed, 3, hasty_leased, FAST);
        schedule(seed, 5, hasty_leased, FAST);
        schedule(seed, 5, leased, changes);
    });
}

/// One and two members: the smallest quorums.
#[test]
fn the_smallest_clusters_survive_random_schedules() {
    seeds(150).for_each(|seed| {
        schedule(seed, 1, tight, USUAL);
        schedule(seed, 2, tight, USUAL);
    });
}

/// Without a disk to read back from, as long as the cache holds what a follower lacks.
#[test]
fn memory_mode_survives_lossy_links() {
    seeds(200).for_each(|seed| {
        schedule(seed, 3, memory, NO_CRASHES);
    });
}

/// Logs that begin after checkpoints: replicas fall behind, jump forward and back, and restart from what is left.
#[test]
fn checkpoints_survive_random_schedules() {
    let mut installed = (0, 0);
    let mut count = |world: World| {
        installed = (installed.0 + world.installed.0, installed.1 + world.installed.1);
    };
    let usual = Pace { checkpoints: true, ..USUAL };
    let fast = Pace { checkpoints: true, ..FAST };
    seeds(150).for_each(|seed| {
        count(schedule(seed, 3, tight, usual));
        count(schedule(seed, 3, hasty, fast));
    });
    seeds(60).for_each(|seed| {
        count(schedule(seed, 1, tight, usual));
        count(schedule(seed, 2, tight, usual));
        count(schedule(seed, 5, hasty, fast));
    });
    assert!(installed.0 > 100 && installed.1 > 100, "{installed:?} checkpoints were installed");
}

/// Without a disk to read back from: who lacks what left the cache gets a checkpoint.
#[test]
fn checkpoints_serve_memory_mode() {
    let small = |config| RaftConfig { cache_bytes: 2000, ..memory(config) };
    seeds(200).for_each(|seed| {
        schedule(seed, 3, small, Pace { checkpoints: true, ..NO_CRASHES });
    });
}

/// Disks lose records in the middle of the log: whoever can not know any more what it acknowledged stays out until a checkpoint
/// covers it. Gives the seeds, and what came of all the losses.
pub(super) fn losses(count: u64, done: &mut dyn FnMut(World)) {
    let usual = Pace { checkpoints: true, losses: true, ..USUAL };
    let fast = Pace { checkpoints: true, losses: true, ..FAST };
    seeds(count).for_each(|seed| {
        done(schedule(seed, 3, tight, usual));
        done(schedule(seed, 3, hasty, fast));
        done(schedule(seed, 5, hasty, fast));
    });
}

#[test]
fn lost_records_survive_random_schedules() {
    let mut all = Lossy::default();
    losses(120, &mut |world| {
        let Lossy { forsaken, harmless, lacking, refused, covered } = world.lossy;
        all = Lossy {
            forsaken: all.forsaken + forsaken,
            harmless: all.harmless + harmless,
            lacking: all.lacking + lacking,
            refused: all.refused + refused,
            covered: all.covered + covered,
        };
    });
    println!("{all:?}");
    let Lossy { forsaken, harmless, lacking, refused, covered } = all;
    assert!([forsaken, harmless, lacking, refused, covered].iter().all(|count| *count > 100), "{all:?}");
}

/// Clusters that grow and shrink, also to others than those that began: learners, changes of several voters at once, leaders that
/// leave, replicas that were removed and do not know it, and all else that goes wrong.
#[test]
fn changes_of_membership_survive_random_schedules() {
    let (mut done, mut removed) = (0, 0);
    let mut count = |world: World| {
        done += world.membership.number().number() - 1;
        removed += world.members() - world.current().len();
    };
    let usual = Pace { changes: true, ..USUAL };
    let fast = Pace { changes: true, ..FAST };
    seeds(120).for_each(|seed| {
        count(schedule(seed, 3, tight, usual));
        count(schedule(seed, 1, hasty, fast));
        count(schedule(seed, 3, hasty, fast));
        count(schedule(seed, 5, |config| config, usual));
    });
    let checkpoints = Pace { changes: true, checkpoints: true, ..USUAL };
    let both = Pace { changes: true, checkpoints: true, ..FAST };
    seeds(120).for_each(|seed| {
        count(schedule(seed, 3, tight, checkpoints));
        count(schedule(seed, 2, hasty, both));
        count(schedule(seed, 4, hasty, both));
    });
    assert!(done > 1000 && removed > 500, "{done} changes, {removed} replicas removed");
}

//! Random schedules: messages are delivered in any order of links, lost and repeated, disks are slow, replicas crash and
//! lose what was not durable, links are cut. Then everything heals, and the cluster must go on.
//!
//! Beside the world's invariants: a confirmed read sees everything decided before it was asked; a leader that calls itself
//! settled decided everything that was decided before it led; what was once decided is decided by all in the end.

use super::{Protocol, leader, proposal};
use quorate_order::{Input, Random};
use quorate_script::world::{Event, World};
use quorate_types::{RecordId, ReplicaId, Slot, Span};
use std::collections::BTreeMap;

/// Runs many schedules.
pub(crate) fn chaos_is_survived(protocol: Protocol, n: u16) {
    let seeds = std::env::var("QUORATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60);
    for seed in 1..=seeds {
        println!("seed {seed}");
        run(super::world(protocol, n, seed), seed);
    }
}

/// Candidates everywhere, and replicas that restart between two votes: still no view gets two leaders (INV-SCRIPT-2).
pub(crate) fn votes_survive_restarts(protocol: Protocol, n: u16) {
    let mut elected = 0;
    for seed in 1..=2000 {
        let (mut world, mut random) = (super::world(protocol, n, seed), Random::new(seed));
        let members = world.members().to_vec();
        let pick = |random: &mut Random| members[random.below(members.len() as u64) as usize];
        for _ in 0..60 {
            let one = pick(&mut random);
            match random.below(20) {
                0..4 => {
                    world.expire(one);
                }
                4 => world.bounce(one),
                _ => {
                    for _ in 0..n * n {
                        world.deliver(pick(&mut random), pick(&mut random));
                    }
                }
            }
        }
        elected += usize::from(world.leader().is_some());
    }
    assert!(elected > 100, "too much goes wrong for anybody to be elected: {elected} of 2000");
}

#[derive(Default)]
struct Watch {
    /// Reads without an answer: what was decided when they were asked.
    reads: BTreeMap<(ReplicaId, u64), Slot>,
    /// Who leads: what was decided when it began to.
    led_from: BTreeMap<ReplicaId, Slot>,
    confirmed: usize,
}

impl Watch {
    fn look(&mut self, world: &mut World) {
        let decided = world.decided().keys().max().copied().unwrap_or_default();
        for event in world.take_events() {
            match event {
                Event::ReadConfirmed(id, read, slot) => {
                    let asked = self.reads.remove(&(id, read)).expect("a read is answered once");
                    assert!(
                        slot >= asked,
                        "read {read} at {id} sees {slot}, and {asked} was decided before it"
                    );
                    self.confirmed += 1;
                }
                Event::ReadFailed(id, read) => {
                    self.reads.remove(&(id, read)).expect("a read is answered once");
                }
                Event::Leader(id, _, who) if who == Some(id) => {
                    self.led_from.insert(id, decided);
                }
                Event::Leader(id, ..) => {
                    self.led_from.remove(&id);
                }
                Event::Rejected(id, from, why) => panic!("{id} refuses what {from} sent: {why}"),
                Event::Halted(id, why) => panic!("{id} halts: {why}"),
                _ => {}
            }
        }
        for id in world.members() {
            let Some(order) = world.order(*id).filter(|order| order.standing().settled) else { continue };
            let (own, needed) = (order.status().decided, self.led_from.get(id).copied().unwrap_or_default());
            assert!(own >= needed, "{id} is settled at {own}, and {needed} was decided before it led");
        }
    }

    fn forget(&mut self, id: ReplicaId) {
        self.reads.retain(|(at, _), _| *at != id);
        self.led_from.remove(&id);
    }
}

/// One schedule, all of whose randomness follows from `seed`.
pub(crate) fn run(mut world: World, seed: u64) {
    let (mut random, mut watch, mut number) = (Random::new(seed), Watch::default(), 0);
    let steps = 300 + random.below(500);
    for _ in 0..steps {
        act(&mut world, &mut random, &mut watch, &mut number);
        watch.look(&mut world);
    }
    let decided = world.decided().clone();
    settle(&mut world, &mut watch);
    number += 1;
    let leader = leader(&mut world);
    world.step(leader, Input::Propose(proposal(number)));
    watch.reads.insert((leader, u64::MAX), world.decided().keys().max().copied().unwrap_or_default());
    world.step(leader, Input::Read(u64::MAX));
    world.wait(Span::from_secs(2), true);
    watch.look(&mut world);
    let end = *world.decided().keys().max().expect("something is decided after the healing");
    for id in world.members() {
        let own = world.order(*id).expect("up").status().decided;
        assert_eq!(own, end, "{id} decided everything");
    }
    for (slot, batch) in decided {
        assert_eq!(world.decided().get(&slot), Some(&batch), "what is decided stays");
    }
    assert!(watch.confirmed > 0, "the last read at least is confirmed");
    assert_eq!(world.decided().get(&end), Some(&proposal(number)), "the last proposal is decided last");
}

/// The faults end: all are up, connected and in time.
fn settle(world: &mut World, watch: &mut Watch) {
    world.heal();
    world.set_autoload(true);
    world.set_autofetch(true);
    let members = world.members().to_vec();
    for id in &members {
        world.set_autosync(*id, true);
        if world.order(*id).is_none() {
            watch.forget(*id);
            world.restart(*id);
        }
    }
    for (at, a) in members.iter().enumerate() {
        for b in &members[at + 1..] {
            world.connect(*a, *b);
        }
    }
    world.wait(Span::from_secs(5), true);
    watch.look(world);
}

/// Checkpoints are made and installed, and what they hold is forgotten.
fn keep_house(world: &mut World, random: &mut Random, a: ReplicaId, b: ReplicaId) {
    let Some(decided) = world.order(a).map(|order| order.status().decided) else { return };
    match random.below(6) {
        0 | 1 => {
            world.checkpoint(a, Some(Slot::new(decided.number().saturating_sub(random.below(3)))));
        }
        2 => {
            world.trim(a, None);
        }
        3 => world.delete_records(a),
        // Forward, as far as another one is.
        4 if a != b && world.disk(b).checkpoint.is_some_and(|(slot, _)| slot > decided) => {
            world.fetch(a, b);
            if random.below(4) > 0 {
                world.install(a);
            }
        }
        // Back, to where it could have been.
        5 if world.disk(a).checkpoint.is_some_and(|(slot, _)| slot <= decided) => {
            world.install(a);
        }
        _ => world.set_autofetch(random.below(2) > 0),
    }
}

fn act(world: &mut World, random: &mut Random, watch: &mut Watch, number: &mut u64) {
    let members = world.members().to_vec();
    let pick = |random: &mut Random| members[random.below(members.len() as u64) as usize];
    let (a, b) = (pick(random), pick(random));
    match random.below(110) {
        100..110 => keep_house(world, random, a, b),
        0..45 => {
            for _ in 0..=random.below(4) {
                world.deliver(pick(random), pick(random));
            }
        }
        45..48 => world.run(),
        48..56 => world.wait(Span::from_millis(random.below(120)), random.below(3) == 0),
        56..60 => {
            world.drop_first(a, b);
        }
        60..62 => {
            world.duplicate(a, b);
        }
        62..74 => {
            let to = world.leader().filter(|_| random.below(8) > 0).unwrap_or(a);
            *number += 1;
            world.step(to, Input::Propose(proposal(*number)));
        }
        74..79 if world.order(a).is_some() => {
            *number += 1;
            watch.reads.insert((a, *number), world.decided().keys().max().copied().unwrap_or_default());
            world.step(a, Input::Read(*number));
        }
        79..81 => world.set_autosync(a, random.below(3) > 0),
        81..86 => {
            let written = world.written(a).number();
            world.sync(a, Some(RecordId::new(random.below(written + 1))));
        }
        86..88 => world.set_autoload(random.below(2) > 0),
        88..90 => {
            world.load(a);
        }
        90..92 => {
            watch.forget(a);
            world.crash(a);
        }
        92..95 if world.order(a).is_none() => world.restart(a),
        95..96 if a != b => world.cut(a, b),
        96..97 => world.heal(),
        97..98 if a != b => world.disconnect(a, b),
        98..99 if a != b && world.order(a).is_some() && world.order(b).is_some() => world.connect(a, b),
        99..100 => world.step(a, Input::Transfer((random.below(2) == 0).then_some(b))),
        _ => {}
    }
}

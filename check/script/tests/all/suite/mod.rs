//! The bodies of the suite. See tests/all/order_suite.rs.

mod chaos;
pub(crate) mod garbage;
mod recorder;

pub(crate) use chaos::{chaos_is_survived, votes_survive_restarts};
pub(crate) use garbage::garbage_never_panics;

use proptest::strategy::BoxedStrategy;
use quorate_order::OrderMessage;
use quorate_order::{Input, Order};
use quorate_script::raft::batch;
use quorate_script::world::{CheckSend, Event, World};
use quorate_types::{ReplicaId, Slot, Span};
use quorate_wire::Batch;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Makes one replica.
pub(crate) type Make = fn(ReplicaId, &[ReplicaId], u64) -> Box<dyn Order>;

/// What the suite must know of a protocol.
#[derive(Clone, Copy)]
pub(crate) struct Protocol {
    /// Makes one replica.
    pub(crate) make: Make,
    /// Looks at what must be durable before a message leaves.
    pub(crate) check_send: CheckSend,
    /// Makes messages that mean nothing.
    pub(crate) garbage: fn() -> BoxedStrategy<OrderMessage>,
}

fn world(protocol: Protocol, n: u16, seed: u64) -> World {
    let mut world = World::new(n, seed, true, Box::new(protocol.make));
    world.check_sends(protocol.check_send);
    world
}

/// Lets time pass until somebody leads.
fn leader(world: &mut World) -> ReplicaId {
    for _ in 0..100 {
        if let Some(leader) = world.leader() {
            return leader;
        }
        world.wait(Span::from_millis(100), true);
    }
    panic!("nobody leads after ten seconds");
}

fn proposal(number: u64) -> Batch {
    batch(number, format!("command {number}").as_bytes())
}

/// What each replica decided according to events, slot by slot.
fn decisions(events: &[Event]) -> BTreeMap<ReplicaId, Vec<(Slot, Batch)>> {
    let mut decided: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in events {
        if let Event::Decided(id, slot, batch) = event {
            decided.entry(*id).or_default().push((*slot, batch.clone()));
        }
    }
    decided
}

/// Everything proposed is decided by all, in the order of proposing, from slot 1 on.
pub(crate) fn all_decide_the_same_in_the_order_of_proposing(protocol: Protocol, n: u16) {
    let mut world = world(protocol, n, 11);
    let leader = leader(&mut world);
    for number in 1..=50 {
        world.step(leader, Input::Propose(proposal(number)));
        if number % 7 == 0 {
            world.run();
        }
    }
    world.wait(Span::from_secs(1), true);
    let want: Vec<(Slot, Batch)> = (1..=50).map(|number| (Slot::new(number), proposal(number))).collect();
    let decided = decisions(&world.take_events());
    for id in world.members() {
        assert_eq!(decided.get(id), Some(&want), "{id}");
        assert_eq!(world.order(*id).map(|order| order.status().decided), Some(Slot::new(50)));
    }
    assert_eq!(world.order(leader).map(|order| order.standing().in_flight), Some(0), "nothing is open");
}

/// All lose power and come back: everything decided is decided again, from the first slot, by all.
pub(crate) fn everything_is_decided_again_after_a_restart(protocol: Protocol, n: u16) {
    let mut world = world(protocol, n, 12);
    let leader = leader(&mut world);
    (1..=20).for_each(|number| world.step(leader, Input::Propose(proposal(number))));
    world.wait(Span::from_secs(1), true);
    let before = decisions(&world.take_events());
    let members = world.members().to_vec();
    members.iter().for_each(|id| world.crash(*id));
    members.iter().for_each(|id| world.restart(*id));
    world.wait(Span::from_secs(5), true);
    assert_eq!(decisions(&world.take_events()), before);
    assert_eq!(before.len(), usize::from(n));
}

/// All restart from checkpoints, with no more records than they need: nothing is decided again, nothing is lost, and all have the
/// same to say of the same slot.
pub(crate) fn nothing_is_decided_again_after_a_checkpoint(protocol: Protocol, n: u16) {
    let mut world = world(protocol, n, 18);
    let first = leader(&mut world);
    (1..=20).for_each(|number| world.step(first, Input::Propose(proposal(number))));
    world.wait(Span::from_secs(1), true);
    let members = world.members().to_vec();
    for (at, id) in members.iter().enumerate() {
        let slot = Slot::new(20 - at as u64);
        assert!(world.checkpoint(*id, Some(Slot::new(9))) && world.checkpoint(*id, Some(slot)));
        assert!(world.trim(*id, None));
        world.delete_records(*id);
        assert!(world.disk(*id).records.len() < 12, "most records are superfluous");
    }
    world.take_events();
    members.iter().for_each(|id| world.crash(*id));
    members.iter().for_each(|id| world.restart(*id));
    let second = leader(&mut world);
    world.step(second, Input::Propose(proposal(21)));
    world.wait(Span::from_secs(1), true);
    let decided = decisions(&world.take_events());
    for (at, id) in members.iter().enumerate() {
        let from = 21 - at as u64;
        let want: Vec<_> = (from..=21).map(|number| (Slot::new(number), proposal(number))).collect();
        assert_eq!(decided.get(id), Some(&want), "{id}");
    }
}

/// One that was away while the others forgot what it lacks asks for a checkpoint, gets one, and goes on from there.
pub(crate) fn who_lacks_what_is_forgotten_gets_a_checkpoint(protocol: Protocol, n: u16) {
    if n == 1 {
        return;
    }
    let mut world = world(protocol, n, 19);
    let leader = leader(&mut world);
    let away = *world.members().iter().find(|id| **id != leader).expect("another member");
    world.step(leader, Input::Propose(proposal(1)));
    world.wait(Span::from_secs(1), true);
    world.crash(away);
    (2..=20).for_each(|number| world.step(leader, Input::Propose(proposal(number))));
    world.wait(Span::from_secs(1), true);
    for id in world.members().to_vec() {
        assert_eq!(world.checkpoint(id, None) && world.trim(id, None), id != away);
    }
    world.take_events();
    world.restart(away);
    world.wait(Span::from_secs(1), true);
    let events = world.take_events();
    assert!(events.contains(&Event::Behind(away, Slot::new(20))), "it says so");
    let known = decisions(&events).remove(&away).unwrap_or_default();
    assert!(
        known.iter().all(|(slot, _)| *slot == Slot::FIRST),
        "nothing is decided across the hole: {known:?}"
    );
    assert!(world.fetch(away, leader) && world.install(away));
    world.step(leader, Input::Propose(proposal(21)));
    world.wait(Span::from_secs(1), true);
    let decided = decisions(&world.take_events());
    assert_eq!(decided.get(&away), Some(&vec![(Slot::new(21), proposal(21))]));
}

/// A checkpoint that leads back hands the same slots on again.
pub(crate) fn a_checkpoint_leads_back(protocol: Protocol, n: u16) {
    let mut world = world(protocol, n, 20);
    let leader = leader(&mut world);
    (1..=10).for_each(|number| world.step(leader, Input::Propose(proposal(number))));
    world.wait(Span::from_secs(1), true);
    for id in world.members().to_vec() {
        assert!(world.checkpoint(id, Some(Slot::new(4))) && world.trim(id, None));
        world.take_events();
        assert!(world.install(id));
        let want: Vec<_> = (5..=10).map(|number| (Slot::new(number), proposal(number))).collect();
        assert_eq!(decisions(&world.take_events()).get(&id), Some(&want));
        assert_eq!(world.order(id).map(|order| order.status().decided), Some(Slot::new(10)));
    }
}

/// A leader that reaches nobody decides nothing new, confirms no read, and leaves its office; the others go on.
pub(crate) fn a_leader_alone_decides_nothing_and_confirms_no_read(protocol: Protocol, n: u16) {
    if n == 1 {
        return;
    }
    let mut world = world(protocol, n, 13);
    let old = leader(&mut world);
    world.step(old, Input::Propose(proposal(1)));
    world.wait(Span::from_secs(1), true);
    world.take_events();
    for other in world.members().to_vec() {
        world.cut(old, other);
        world.cut(other, old);
    }
    world.step(old, Input::Propose(proposal(2)));
    world.step(old, Input::Read(7));
    world.wait(Span::from_secs(5), true);
    let events = world.take_events();
    assert!(!decisions(&events).contains_key(&old), "it decided alone");
    assert!(!events.iter().any(|e| matches!(e, Event::ReadConfirmed(..))), "it confirmed a read alone");
    assert!(events.contains(&Event::ReadFailed(old, 7)), "the host learns that the read failed");
    assert!(world.order(old).is_some_and(|order| !order.standing().leading), "it left its office");
    // What it proposed alone may be decided later or never; the others decide something else meanwhile.
    let new = leader(&mut world);
    assert_ne!(new, old);
    world.step(new, Input::Propose(proposal(3)));
    world.wait(Span::from_secs(1), true);
    world.heal();
    world.wait(Span::from_secs(2), true);
    let decided: Vec<&Batch> = world.decided().values().collect();
    assert_eq!(decided, [&proposal(1), &proposal(3)]);
    assert_eq!(world.order(old).map(|order| order.status().decided), Some(Slot::new(2)));
}

/// A strong read, asked anywhere, is confirmed with a slot not below anything decided before it was asked.
pub(crate) fn a_read_sees_what_was_decided_before(protocol: Protocol, n: u16) {
    let mut world = world(protocol, n, 14);
    let leader = leader(&mut world);
    (1..=10).for_each(|number| world.step(leader, Input::Propose(proposal(number))));
    world.run();
    let before = *world.decided().keys().max().expect("something is decided");
    for id in world.members().to_vec() {
        world.step(id, Input::Read(u64::from(id.number())));
        world.step(id, Input::Read(100 + u64::from(id.number())));
    }
    world.wait(Span::from_secs(1), true);
    let mut confirmed = Vec::new();
    for event in world.take_events() {
        if let Event::ReadConfirmed(id, read, slot) = event {
            assert!(slot >= before, "read {read} at {id} sees {slot}, and {before} was decided");
            confirmed.push(read);
        }
    }
    confirmed.sort_unstable();
    let n = u64::from(n);
    assert_eq!(confirmed, (1..=n).chain(101..=100 + n).collect::<Vec<_>>(), "each is confirmed, once");
}

/// Delivers everything under way between these replicas, and nothing else.
fn run_among(world: &mut World, some: &[ReplicaId]) {
    let mut busy = true;
    while std::mem::take(&mut busy) {
        for from in some {
            some.iter().for_each(|to| busy |= world.deliver(*from, *to));
        }
    }
}

/// A leader is asked to read while answers to what it said before are still under way to it, and meanwhile another was elected
/// and decided more: those answers must not confirm the read.
pub(crate) fn answers_from_before_a_read_do_not_confirm_it(protocol: Protocol, n: u16) {
    if n == 1 {
        return;
    }
    let mut world = world(protocol, n, 17);
    let old = leader(&mut world);
    world.wait(Span::from_secs(1), true);
    world.take_events();
    let others: Vec<ReplicaId> = world.members().iter().copied().filter(|id| *id != old).collect();
    world.expire(old);
    for other in &others {
        while world.deliver(old, *other) {}
    }
    for attempt in 0..100 {
        if world.leader() != Some(old) {
            break;
        }
        world.expire(others[attempt % others.len()]);
        run_among(&mut world, &others);
    }
    let new = world.leader().expect("the others elect one of them");
    assert_ne!(new, old);
    world.step(new, Input::Propose(proposal(1)));
    run_among(&mut world, &others);
    assert_eq!(world.decided().len(), 1);
    world.step(old, Input::Read(7));
    for other in &others {
        while world.deliver(*other, old) {}
    }
    world.run();
    for event in world.take_events() {
        assert!(!matches!(event, Event::ReadConfirmed(_, 7, slot) if slot < Slot::FIRST), "a stale read");
    }
}

/// A batch proposed to a replica that does not lead leaves no trace.
pub(crate) fn proposals_elsewhere_are_dropped(protocol: Protocol, n: u16) {
    let mut world = world(protocol, n, 15);
    let leader = leader(&mut world);
    world.wait(Span::from_secs(1), true);
    world.take_events();
    for id in world.members().to_vec() {
        if id != leader {
            world.step(id, Input::Propose(proposal(1)));
        }
    }
    assert_eq!(world.take_events(), [], "an effect of a proposal that was dropped");
    world.wait(Span::from_secs(1), true);
    assert!(world.decided().is_empty());
}

/// A leader that is asked to hands over to the replica that is named; nothing in flight is lost.
pub(crate) fn office_is_handed_over(protocol: Protocol, n: u16) {
    if n == 1 {
        return;
    }
    let mut world = world(protocol, n, 16);
    let old = leader(&mut world);
    let target = *world.members().iter().find(|id| **id != old).expect("another member");
    world.step(old, Input::Propose(proposal(1)));
    world.step(old, Input::Transfer(Some(target)));
    assert!(
        world.order(old).is_some_and(|order| !order.standing().leading),
        "no proposals during the transfer"
    );
    world.run();
    assert_eq!(world.leader(), Some(target));
    world.wait(Span::from_secs(1), true);
    assert_eq!(world.decided().values().collect::<Vec<_>>(), [&proposal(1)]);
}

/// Two runs of the same schedule, chaos included: the same inputs, the same effects, bit for bit.
pub(crate) fn the_same_inputs_give_the_same_effects(protocol: Protocol, n: u16) {
    let run = |seed| {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&lines);
        let recorded = move |me, members: &[ReplicaId], seed| -> Box<dyn Order> {
            Box::new(recorder::Recorder::new((protocol.make)(me, members, seed), me, Arc::clone(&shared)))
        };
        chaos::run(World::new(n, seed, true, Box::new(recorded)), seed);
        std::mem::take(&mut *lines.lock().expect("nobody panicked"))
    };
    let (first, second) = (run(3), run(3));
    assert!(first.len() > 100, "the schedule does something");
    for (at, (a, b)) in first.iter().zip(&second).enumerate() {
        assert_eq!(a, b, "line {at}");
    }
    assert_eq!(first.len(), second.len());
    assert_ne!(first, run(4), "another seed makes another schedule");
}

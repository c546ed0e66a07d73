//! When a run is over.

use super::*;
use crate::plan::{Plan, Profile};

/// A run that only waits for the last border, and has it. Its client did nothing yet, and finds its way.
fn at_the_border() -> World {
    let profile = Profile { replicas: Some(3), faults: false, ..Profile::default() };
    let mut world = World::new(Plan::new(1, &profile), Level::Hash);
    (world.phase, world.last_border) = (Phase::CatchUp, (0, 1, true));
    world.now = world.plan.heal_at + world.plan.bound;
    world
}

/// It was cut off when the others had ended, from all that it knew. What it is answered now, all replicas have to execute.
#[test]
fn a_client_that_finds_its_way_after_all_is_waited_for() {
    let mut world = at_the_border();
    assert!(!world.clients[0].is_done());
    assert!(!world.is_over());
    assert_eq!(world.phase, Phase::Liveness);
    assert!(!world.is_over());
    assert_eq!(world.phase, Phase::Liveness, "until it has done its work");
}

/// Its work is done, and it reads everything once more.
#[test]
fn a_client_whose_last_reads_are_open_is_waited_for() {
    let mut world = at_the_border();
    for client in &mut world.clients {
        client.final_reads(world.now, quorate_types::Time::ZERO);
    }
    assert!(!world.is_over());
    assert_eq!(world.phase, Phase::Reads);
}

/// With nobody to wait for it ends.
#[test]
fn without_clients_the_last_border_is_the_end() {
    let mut world = at_the_border();
    world.clients.clear();
    assert!(world.is_over());
}

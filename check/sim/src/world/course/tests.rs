//! When a run is over.

use super::*;
use crate::plan::{Plan, Profile};

/// A run that only waits for the last border, and has it. Its client did nothing yet, and finds its way.
fn at_the_border() -> (Course, Cluster, u64) {
    let profile = Profile { replicas: Some(3), faults: false, ..Profile::default() };
    let cluster = Cluster::new(Plan::new(1, &profile));
    let now = cluster.plan.heal_at + cluster.plan.bound;
    (Course { phase: Phase::CatchUp, after: 0, looks: 1, is_everywhere: true }, cluster, now)
}

/// It was cut off when the others had ended, from all that it knew. What it is answered now, all replicas have to execute.
#[test]
fn a_client_that_finds_its_way_after_all_is_waited_for() {
    let (mut course, cluster, now) = at_the_border();
    assert!(!cluster.clients[0].is_done());
    assert_eq!(course.step(&cluster, now), Next::Phase("a client goes on"));
    assert_eq!(course.phase, Phase::Liveness);
    assert_eq!(course.step(&cluster, now), Next::Same, "until it has done its work");
}

/// Its work is done, and it reads everything once more.
#[test]
fn a_client_whose_last_reads_are_open_is_waited_for() {
    let (mut course, mut cluster, now) = at_the_border();
    for client in &mut cluster.clients {
        client.final_reads(now, quorate_types::Time::ZERO);
    }
    assert_eq!(course.step(&cluster, now), Next::Phase("last reads"));
    assert_eq!(course.phase, Phase::Reads);
}

/// With nobody to wait for it ends.
#[test]
fn without_clients_the_last_border_is_the_end() {
    let (mut course, mut cluster, now) = at_the_border();
    cluster.clients.clear();
    assert_eq!(course.step(&cluster, now), Next::End);
}

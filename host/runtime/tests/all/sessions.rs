//! Sessions outlive leaders and restarts, in each durability mode.

use crate::common::{self, RawClient};
use quorate_runtime::Durability;
use quorate_wire::{ReadConsistency, ReadStatus};
use std::time::Instant;

fn run(durability: Durability) {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = common::cluster(directory.path(), 3, durability);
    let (first, mut client) = cluster.leader();
    let session = client.open(1);
    assert_eq!(client.open(1), session, "opening again gives the same session");
    assert_eq!(client.add(session, 1, &[1, 2, 3]), Some(vec![1, 3, 6]));
    assert_eq!(client.add(session, 1, &[1, 2, 3]), Some(vec![1, 3, 6]), "sent again, executed once");
    assert_eq!(client.add(session, 2, &[4]), Some(vec![10]));

    // A follower reads what the leader acknowledged.
    let follower = (first + 1) % 3;
    let mut reader = RawClient::connect(cluster.configs[follower].listen_address()).unwrap();
    let (status, seq, value) = reader.read(ReadConsistency::Strong, 0);
    assert_eq!((status, value), (ReadStatus::Done, 10));
    assert_eq!(reader.read(ReadConsistency::Weak, seq).2, 10);

    // The leader stops; the session goes on at the next one, which remembers what was answered.
    let before = Instant::now();
    cluster.stop(first).unwrap();
    let (second, mut client) = cluster.leader();
    println!("another leader after {:?}", before.elapsed());
    assert_ne!(first, second);
    assert_eq!(client.add(session, 2, &[4]), Some(vec![10]), "sent again to the new leader, executed once");
    assert_eq!(client.add(session, 3, &[5]), Some(vec![15]));
    if durability == Durability::Memory {
        return;
    }

    // Everybody stops, everybody comes back.
    (0..3).for_each(|at| cluster.stop(at).unwrap());
    (0..3).for_each(|at| cluster.start(at));
    let (_, mut client) = cluster.leader();
    // A leader knows a session once it executed what was decided before. Until then clients send again, which this one does not: it
    // asks for something that is answered after that.
    let mut read = || Some(client.read(ReadConsistency::Strong, 0)).filter(|read| read.0 == ReadStatus::Done);
    assert_eq!((0..20).find_map(|_| read()).map(|read| read.2), Some(15));
    assert_eq!(
        client.add(session, 3, &[5]),
        Some(vec![15]),
        "sent again after a restart of all, executed once"
    );
    assert_eq!(client.add(session, 4, &[6]), Some(vec![21]));
    assert_eq!(client.read(ReadConsistency::Strong, 0).2, 21);
}

#[test]
fn a_session_outlives_its_leader_and_a_restart_of_all_with_group_durability() {
    run(Durability::Group);
}

#[test]
fn a_session_outlives_its_leader_and_a_restart_of_all_with_async_durability() {
    run(Durability::Async);
}

#[test]
fn a_session_outlives_its_leader_in_memory() {
    run(Durability::Memory);
}

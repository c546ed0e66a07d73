//! The client over sockets where one of four replicas lies, and then one is dead as well.

use crate::fake::{CLUSTER, Fake};
use quorate::client::{BlockingClient, Client, ClientBuilder, FaultModel, ReadOptions};
use std::time::{Duration, Instant};

fn cluster_with_a_liar(with: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Fake, BlockingClient) {
    let fake = Fake::start(4);
    fake.state.lock().expect("no panic").liar = Some(0);
    let builder = Client::builder().members(fake.members.clone()).cluster(CLUSTER);
    let client = with(builder.fault_model(FaultModel::Byzantine)).build_blocking().expect("builds");
    (fake, client)
}

fn as_it_comes(builder: ClientBuilder) -> ClientBuilder {
    builder
}

fn with_ordered_reads(builder: ClientBuilder) -> ClientBuilder {
    builder.configure(|config| config.ordered_reads = true)
}

/// Whether one of some reads was answered without being ordered.
fn reads_out_of_order(with: impl FnOnce(ClientBuilder) -> ClientBuilder) -> bool {
    let (fake, client) = cluster_with_a_liar(with);
    let ordered = || fake.state.lock().expect("no panic").ordered();
    // The first ones are ordered, since not all connections are there yet.
    (0..100).any(|_| {
        let before = ordered();
        assert_eq!(client.read(&b"query"[..], ReadOptions::STRONG).expect("reads").body, &b"query"[..]);
        std::thread::sleep(Duration::from_millis(1));
        ordered() == before
    })
}

#[test]
fn reads_are_not_ordered_unless_one_wants_it() {
    assert!(reads_out_of_order(as_it_comes));
    assert!(!reads_out_of_order(with_ordered_reads));
}

#[test]
fn a_liar_is_not_believed_and_a_dead_replica_not_waited_for() {
    let (fake, client) = cluster_with_a_liar(as_it_comes);
    let session = client.open_session().expect("opens");
    for round in 0..50_u64 {
        let text = round.to_le_bytes();
        assert_eq!(session.call_one(&text).expect("runs").first(), Some(&text[..]));
        assert_eq!(client.read(&b"query"[..], ReadOptions::STRONG).expect("reads").body, &b"query"[..]);
        if round == 20 {
            fake.fail_over(2, 1);
        }
    }
    let state = fake.state.lock().expect("no panic");
    assert_eq!(state.sessions.values().map(|session| session.ran.len()).sum::<usize>(), 50);
}

#[test]
fn the_session_for_reads_is_closed_with_the_client() {
    let (fake, client) = cluster_with_a_liar(with_ordered_reads);
    client.read(&b"query"[..], ReadOptions::STRONG).expect("reads");
    drop(client);
    let end = Instant::now() + Duration::from_secs(10);
    while fake.state.lock().expect("no panic").sessions.values().any(|session| !session.closed) {
        assert!(Instant::now() < end, "it is left open");
        std::thread::sleep(Duration::from_millis(2));
    }
}

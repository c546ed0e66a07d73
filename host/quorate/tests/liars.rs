//! The client over sockets where one of four replicas lies, and then one is dead as well.

mod fake;

use fake::{CLUSTER, Fake};
use quorate::client::{BlockingClient, Client, FaultModel, ReadOptions};
use std::time::{Duration, Instant};

fn cluster_with_a_liar() -> (Fake, BlockingClient) {
    let fake = Fake::start(4);
    fake.state.lock().expect("no panic").liar = Some(0);
    let builder = Client::builder().members(fake.members.clone()).cluster(CLUSTER);
    let client = builder.fault_model(FaultModel::Byzantine).build_blocking().expect("builds");
    (fake, client)
}

#[test]
fn a_liar_is_not_believed_and_a_dead_replica_not_waited_for() {
    let (fake, client) = cluster_with_a_liar();
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
    let (fake, client) = cluster_with_a_liar();
    client.read(&b"query"[..], ReadOptions::STRONG).expect("reads");
    drop(client);
    let end = Instant::now() + Duration::from_secs(10);
    while fake.state.lock().expect("no panic").sessions.values().any(|session| !session.closed) {
        assert!(Instant::now() < end, "it is left open");
        std::thread::sleep(Duration::from_millis(2));
    }
}

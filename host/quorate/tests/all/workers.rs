//! A cluster on real sockets whose replicas have their clients' signatures checked by workers.

use crate::count::Count;
use quorate::client::{Authentication, BlockingClient, Client, FaultModel};
use quorate::{Config, InStore, LocalCluster, Options, ReplicaId, Service};
use quorate_order::Protocol;
use quorate_runtime::WorkerCount;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How many sessions call at the same time, and how often each.
const SESSIONS: u64 = 16;
const CALLS: u64 = 25;
/// Nothing here takes longer on a machine that does anything at all.
const PATIENCE: Duration = Duration::from_secs(60);

fn cluster(directory: &std::path::Path, workers: u16) -> LocalCluster {
    let service = || -> Box<dyn Service> { Box::new(InStore::new(Count)) };
    let configure = |config: &mut Config| {
        (config.fault_model, config.protocol) = (FaultModel::Byzantine, Protocol::MOD_SMART);
        (config.workers, config.sessions.require_signed) = (WorkerCount::Count(workers), true);
    };
    LocalCluster::start_with(directory, 4, service, configure, |_| Options::default()).expect("a cluster")
}

fn client(cluster: &LocalCluster) -> BlockingClient {
    let config = cluster.config(ReplicaId::new(1)).expect("a replica");
    let builder = Client::builder().members(cluster.members()).fault_model(FaultModel::Byzantine);
    let builder = builder.cluster(config.cluster_id().expect("an id")).timeout(PATIENCE);
    builder.authentication(Authentication::Signatures).build_blocking().expect("a client")
}

/// All sessions call at the same time. Gives the counts that they got, in the order of each session's calls.
fn count(client: &BlockingClient) -> Vec<Vec<u64>> {
    let session = || {
        let session = client.open_session().expect("a session");
        let call = |_| {
            let replies = session.call_one(b"count").expect("an answer");
            let reply = replies.first().and_then(|reply| reply.first_chunk());
            u64::from_le_bytes(*reply.expect("a number"))
        };
        (0..CALLS).map(call).collect::<Vec<u64>>()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SESSIONS).map(|_| scope.spawn(session)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// A number in the workers' part of a replica's status.
fn of_workers(client: &BlockingClient, replica: u16, key: &str) -> u64 {
    let status = client.status(ReplicaId::new(replica)).expect("a status");
    let (_, workers) = status.split_once("\"workers\":{").expect("it names the workers");
    let (_, value) = workers.split_once(&format!("\"{key}\":")).expect("and this of them");
    value.split([',', '}']).next().and_then(|value| value.parse().ok()).expect("a number")
}

fn checked(client: &BlockingClient) -> u64 {
    (1..=4).map(|replica| of_workers(client, replica, "checked")).sum()
}

#[test]
fn workers_check_what_clients_sign_and_everything_runs_once_and_in_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = cluster(directory.path(), 2);
    let client = client(&cluster);
    let (mut all, until) = (BTreeSet::new(), Instant::now() + PATIENCE);
    // How many requests come in one turn is the machine's matter.
    while all.is_empty() || checked(&client) == 0 {
        assert!(Instant::now() < until, "workers get nothing to do");
        for counts in count(&client) {
            assert!(counts.is_sorted(), "a session's calls run in their order: {counts:?}");
            all.extend(counts);
        }
        let so_far = all.len() as u64;
        assert!(so_far.is_multiple_of(SESSIONS * CALLS) && all.iter().copied().eq(1..=so_far), "each once");
    }
    assert_eq!((of_workers(&client, 1, "count"), of_workers(&client, 1, "panics")), (2, 0));
}

#[test]
fn without_workers_lanes_check() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = cluster(directory.path(), 0);
    let client = client(&cluster);
    let all: BTreeSet<u64> = count(&client).into_iter().flatten().collect();
    assert!(all.into_iter().eq(1..=SESSIONS * CALLS));
    assert_eq!((of_workers(&client, 1, "count"), checked(&client)), (0, 0));
}

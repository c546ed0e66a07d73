//! A command that is refused at once cuts its line before the next one of it is sent.

use quorate::{
    Client, Context, InStore, LocalCluster, Parallel, ParallelService, ReplicaId, ReplySink, StateView,
};
use quorate_kit::{Command, Line, OwnCluster};

/// The most bytes that wait for the client's thread: less than the second command has, and more than the other two.
const WAITING_BYTES: usize = 1 << 10;
/// How often it is tried. The client's thread has often taken the first command before the second one comes.
const ROUNDS: usize = 300;

/// A service that does everything that it is told.
struct Obeys;

impl ParallelService for Obeys {
    fn execute(&self, _: &mut StateView<'_>, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(b"done");
    }
    fn query(&self, _: &StateView<'_>, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

async fn refusals(client: Client) -> usize {
    let cluster = OwnCluster::start(client, ReplicaId::new(1), None);
    let mut refused = 0;
    for _ in 0..ROUNDS {
        let line = Line::default();
        let command = |bytes: usize, line: Option<&Line>| {
            cluster.begin(Command { alone: true, line: line.cloned(), ..Command::new(vec![7; bytes]) })
        };
        // Each goes alone, so three requests are made one after the other.
        let first = command(100, None);
        let (second, third) = (command(2 * WAITING_BYTES, Some(&line)), command(1, Some(&line)));
        let (first, second, third) = (first.await, second.await, third.await);
        assert!(first.is_ok(), "{first:?}");
        if second.is_err() {
            refused += 1;
            assert!(third.is_err(), "done behind one that was not: {second:?}");
        } else {
            assert!(third.is_ok(), "{third:?}");
        }
    }
    refused
}

#[test]
fn nothing_is_done_behind_what_was_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let service = || -> Box<dyn quorate::Service> { Box::new(InStore::new(Parallel::new(Obeys))) };
    let cluster = LocalCluster::start(&directory.path().join("cluster"), 1, service).expect("a cluster");
    let id = cluster.config(ReplicaId::new(1)).expect("it is there").cluster_id().expect("an id");
    let client = Client::builder().members(cluster.members()).cluster(id);
    let client = client.queue_bytes_max(WAITING_BYTES).build().expect("a client");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let refused = runtime.block_on(refusals(client));
    println!("{refused} of {ROUNDS} were refused");
    assert!(refused > 0, "nothing was ever refused at once");
}

//! Commands that take longer than leaders may be silent: nobody is replaced for that.

use quorate::{
    BlockingClient, CheckpointError, CheckpointSink, CheckpointSource, Client, Context, LocalCluster,
    ReplicaId, ReplySink, Service,
};
use std::sync::Mutex;
use std::time::Duration;

/// Much longer than a leader may be silent.
const LONG: Duration = Duration::from_secs(2);
/// Nothing that a test waits for takes longer on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Each command takes long. The replicas of this test have one processor for that, so that none executes while another one does.
struct Slow;

static PROCESSOR: Mutex<()> = Mutex::new(());

impl Service for Slow {
    fn execute(&mut self, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let _one = PROCESSOR.lock().expect("nobody panics");
        std::thread::sleep(LONG);
        reply.write(b"done");
    }
    fn query(&self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn checkpoint(&self, _: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
}

/// The view of each replica.
fn views(client: &BlockingClient, cluster: &LocalCluster) -> Vec<u64> {
    let view = |replica: u16| {
        let status = client.status(ReplicaId::new(replica)).expect("a status");
        let status: serde_json::Value = serde_json::from_str(&status).expect("a document");
        status["view"].as_u64().expect("a view")
    };
    (1..=cluster.members().len() as u16).map(view).collect()
}

#[test]
fn a_long_command_costs_no_leadership() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = LocalCluster::start(&directory.path().join("cluster"), 3, || Box::new(Slow));
    let cluster = cluster.expect("a cluster");
    let client = Client::builder().members(cluster.members()).timeout(PATIENCE);
    let client = client.build_blocking().expect("a client");
    let session = client.open_session().expect("a session");
    // On a machine that does much else a leader may be replaced for that.
    let stays = || {
        let before = views(&client, &cluster);
        session.call_one(b"work").expect("a reply");
        before == views(&client, &cluster)
    };
    assert!((0..5).any(|_| stays()), "somebody was replaced each time");
}

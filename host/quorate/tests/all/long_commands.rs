//! Commands that take longer than leaders may be silent: nobody is replaced for that, and who probes the replica is told what it executes.

use quorate::{
    BlockingClient, CheckpointError, CheckpointSink, CheckpointSource, Client, Context, LocalCluster,
    Options, ReplicaId, ReplySink, Service,
};
use quorate_runtime::free_ports;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

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

/// What the replica says to this probe.
fn probe(address: &str, path: &str) -> String {
    let mut visit = TcpStream::connect(address).expect("it listens");
    visit.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    write!(visit, "GET {path} HTTP/1.1\r\n\r\n").expect("it can be asked");
    let mut said = String::new();
    visit.read_to_string(&mut said).expect("an answer");
    said
}

/// A door that is opened once.
#[derive(Default)]
struct Door(Mutex<bool>, Condvar);

/// Opens it, also if the test fails.
struct Opens<'a>(&'a Door);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().expect("nobody panics") = true;
        self.0.1.notify_all();
    }
}

/// Executes each command until a test opens the door.
struct Held(Arc<Door>);

impl Service for Held {
    fn execute(&mut self, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let Door(is_open, opened) = &*self.0;
        let door = is_open.lock().expect("nobody panics");
        let _open = opened.wait_while(door, |is_open| !*is_open).expect("nobody panics");
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

#[test]
fn whoever_probes_the_replica_is_told_what_takes_long() {
    let door = Arc::new(Door::default());
    let held = door.clone();
    let address = format!("127.0.0.1:{}", free_ports(1).expect("a port")[0]);
    let health = |config: &mut quorate::Config| config.health = Some(address.clone());
    let service = move || Box::new(Held(held.clone())) as Box<dyn Service>;
    let cluster = LocalCluster::temporary_with(1, service, health, |_| Options::default());
    let cluster = cluster.expect("a cluster");
    let client = cluster.client().timeout(PATIENCE).build_blocking().expect("a client");
    let session = client.open_session().expect("a session");
    let idle = "quorate_executing_seconds 0\n";
    assert!(probe(&address, "/metrics").contains(idle));
    std::thread::scope(|scope| {
        let opens = Opens(&door);
        let call = scope.spawn(|| session.call_one(b"12345"));
        let waits = Instant::now();
        let said = loop {
            let said = probe(&address, "/readyz");
            if said.contains("executes one request") {
                break said;
            }
            assert!(waits.elapsed() < PATIENCE, "{said}");
        };
        assert!(
            said.starts_with("HTTP/1.1 503 ") && said.contains(" of client ") && said.contains("at seq "),
            "{said}"
        );
        assert!(probe(&address, "/livez").starts_with("HTTP/1.1 200 "));
        let metrics = probe(&address, "/metrics");
        assert!(metrics.contains("\nquorate_executing_seconds ") && !metrics.contains(idle), "{metrics}");
        drop(opens);
        call.join().expect("no panic").expect("a reply");
    });
    let waits = Instant::now();
    while !probe(&address, "/metrics").contains(idle) {
        assert!(waits.elapsed() < PATIENCE);
    }
}

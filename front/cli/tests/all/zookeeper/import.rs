//! `quorate zookeeper import`, from the files of a ZooKeeper 3.9.4 to clients of a cluster.

use super::plain::Client;
use crate::harness::{Cluster, Server, free_ports, quorate, wait_until};
use std::path::Path;

/// The files of a ZooKeeper; what is in them stands in front/zookeeper/tests/all/import.rs.
fn files() -> String {
    let place = Path::new(env!("CARGO_MANIFEST_DIR"));
    place.join("../zookeeper/tests/fixtures/zookeeper-3.9.4").display().to_string()
}

#[test]
fn a_cluster_begins_with_what_a_zookeeper_had() {
    let temporary = tempfile::tempdir().expect("a directory");
    let out = temporary.path().join("again");
    let to = out.display().to_string();
    let said = quorate(&["zookeeper", "import", &files(), "--out", &to, "--json"]).ok();
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&said["nodes"], &said["zxid"], &said["sessions"]), (&19.into(), &"0x16".into(), &1.into()));
    let cluster = Cluster::at(&out);
    let servers: Vec<&str> = cluster.ready["zookeeper"]
        .as_array()
        .expect("addresses")
        .iter()
        .filter_map(|server| server.as_str())
        .collect();
    for server in &servers {
        let mut client = Client::new(server);
        client.sync();
        assert_eq!(client.data("/app/config"), "{\"a\":2}");
        assert_eq!(client.data("/counted"), "c");
    }
    let mut client = Client::new(servers[0]);
    client.create("/app/job-", 2).expect("a sequential node");
    assert_eq!(client.data("/app/job-0000000007"), "x", "numbers go on");
    // It is a cluster like others: a replica that joins gets the state, there are instances, and backups of it.
    let ports = free_ports(2);
    let [address, front] = [ports[0], ports[1]].map(|port| format!("127.0.0.1:{port}"));
    cluster.ok(&["member", "add", "4", "--address", &address, "--front", &front]);
    let joins = Server::start(&out.join("replica-4/replica.toml"));
    wait_until("it has caught up", || {
        let list: serde_json::Value =
            serde_json::from_str(&cluster.ok(&["member", "list", "--json"])).expect("JSON");
        let members = list["members"].as_array().expect("members").iter();
        members.clone().any(|member| member["replica"] == 4 && member["caught_up"] == true)
    });
    let mut there = Client::new(&front);
    there.sync();
    assert_eq!(there.data("/app/config"), "{\"a\":2}");
    drop(joins);
    cluster.ok(&["member", "remove", "4"]);
    cluster.ok(&["instances", "set", "2"]);
    let backup = temporary.path().join("backup").display().to_string();
    cluster.ok(&["backup", "create", "--fresh", &backup]);
    quorate(&["backup", "verify", &backup]).ok();
    // The state is on disk everywhere: it outlives all replicas at once.
    cluster.ok(&["chaos", "kill", "all"]);
    cluster.ok(&["chaos", "restart", "all"]);
    cluster.wait_for_leader();
    let mut client = Client::new(servers[1]);
    client.sync();
    assert_eq!(client.data("/app/job-0000000007"), "x");
    assert_eq!(client.data("/app"), "two");
    quorate(&["zookeeper", "import", &files(), "--out", &to]).fails(2, &["is not empty"]);
    let other = temporary.path().join("other").display().to_string();
    let empty = temporary.path().display().to_string();
    quorate(&["zookeeper", "import", &empty, "--out", &other]).fails(1, &["no whole snapshot", "dataDir"]);
    assert!(!Path::new(&other).exists(), "nothing is left");
}

//! The admin server of a replica: what it answers over HTTP, beside clients at the other port.

use super::plain::Client;
use crate::harness::{Cluster, free_ports, quorate};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// No answer takes longer on a machine that does anything at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the admin server answers: the status, and what it says.
fn visit(address: &str, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer, and the end");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

fn command(address: &str, name: &str) -> Value {
    let (status, text) = visit(address, "GET", &format!("/commands/{name}"));
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_admin_server_answers_beside_clients() {
    let admin = format!("127.0.0.1:{}", free_ports(1)[0]);
    let set = format!("front.zookeeper.admin={admin}");
    let cluster = Cluster::start(&["--service", "zookeeper", "--replicas", "1", "--set", &set]);
    let server = cluster.ready["zookeeper"][0].as_str().expect("an address").to_owned();
    let mut client = Client::new(&server);
    client.create("/mine", 1).expect("it is made");
    client.sync();

    let stats = command(&admin, "stats");
    assert_eq!(stats["server_stats"]["server_state"], "standalone");
    assert_eq!((stats["node_count"].as_u64(), stats["error"].is_null()), (Some(6), true));
    assert!(stats["server_stats"]["data_dir_size"].as_u64().is_some_and(|bytes| bytes > 0), "{stats}");
    let connections = stats["connections"].as_array().expect("a list");
    let is_client = |one: &Value| {
        let address = one["remote_socket_address"].as_str().unwrap_or_default();
        address.starts_with("127.0.0.1:") && one["packets_received"].as_u64() > Some(2)
    };
    assert!(connections.iter().any(is_client), "{stats}");
    let monitor = command(&admin, "mntr");
    assert_eq!(
        (monitor["command"].as_str(), monitor["ephemerals_count"].as_u64()),
        (Some("monitor"), Some(1))
    );
    assert!(command(&admin, "dump")["session_id_to_ephemeral_paths"].to_string().contains("[\"/mine\"]"));
    let port = server.rsplit_once(':').and_then(|(_, port)| port.parse::<u64>().ok());
    assert_eq!(command(&admin, "configuration")["client_port"].as_u64(), port);
    command(&admin, "stat_reset");
    assert!(command(&admin, "server_stats")["server_stats"]["packets_received"].as_u64() < Some(3));

    let (status, list) = visit(&admin, "GET", "/commands");
    assert!(status == 200 && list.contains("<a href=\"/commands/ruok\">ruok</a>"), "{list}");
    let (status, metrics) = visit(&admin, "GET", "/metrics");
    assert!(status == 200 && metrics.contains("# TYPE znode_count gauge\nznode_count 6\n"), "{metrics}");
    assert_eq!(visit(&admin, "HEAD", "/commands/ruok"), (200, String::new()));
    assert_eq!(visit(&admin, "POST", "/commands/ruok").0, 405);
    for name in ["what", "set_trace_mask?traceMask=1"] {
        let (status, text) = visit(&admin, "GET", &format!("/commands/{name}"));
        assert!(status == 404 && text.contains("/commands lists"), "{text}");
    }
    client.create("/more", 0).expect("clients are served all along");
}

#[test]
fn a_port_that_somebody_has_is_told_before_the_cluster_counts_as_ready() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it has one");
    let set = format!("front.zookeeper.admin={address}");
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("cluster").display().to_string();
    let ran = quorate(&["dev", "--dir", &place, "--service", "zookeeper", "--replicas", "1", "--set", &set]);
    assert_eq!(ran.out, "");
    ran.fails(1, &[&format!("admin: can not listen on {address}"), "why they ended stands above"]);
}

//! What replicas tell Prometheus: with real replicas, each name that the dashboard shows.

use crate::harness::Cluster;
use quorate_etcd_grpc::pb::etcdserverpb::PutRequest;
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;
use tonic::transport::Endpoint;

/// No answer takes longer on a machine that does anything at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// The metrics of a replica.
fn metrics(cluster: &Cluster, replica: u16) -> String {
    let config = cluster.replica_directory(replica).join("replica.toml");
    let text = fs::read_to_string(config).expect("it can be read");
    let address = text.lines().find_map(|line| line.strip_prefix("health = ")).expect("dev says where");
    let mut stream = TcpStream::connect(address.trim_matches('"')).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: replica\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    body.to_owned()
}

/// The value of a metric without labels.
fn value(text: &str, name: &str) -> Option<f64> {
    let of = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(of)
}

/// Puts three values by the first replica's front, and calls it twice in vain.
fn call_etcd(cluster: &Cluster) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let address = format!("http://{}", cluster.ready["etcd"][0].as_str().expect("an address"));
    let channel = {
        let _context = runtime.enter();
        Endpoint::from_shared(address).expect("an address").timeout(PATIENCE).connect_lazy()
    };
    for number in 0..5 {
        let key = if number < 3 { b"key".to_vec() } else { Vec::new() };
        let put = PutRequest { key: key.into(), ..PutRequest::default() };
        let done = runtime.block_on(KvClient::new(channel.clone()).put(put));
        assert_eq!(done.is_ok(), number < 3, "{done:?}");
    }
}

#[test]
fn each_replica_tells_what_the_dashboard_shows() {
    let cluster = Cluster::start(&["--service", "etcd", "--instances", "2", "--plain"]);
    call_etcd(&cluster);
    for number in 0..20 {
        cluster.ok(&["kv", "put", &format!("key{number}"), "value"]);
    }
    let texts: Vec<String> = cluster.ids().into_iter().map(|id| metrics(&cluster, id)).collect();
    let sum = |name: &str| texts.iter().filter_map(|text| value(text, name)).sum::<f64>();
    assert_eq!((sum("quorate_leading"), sum("quorate_has_leader")), (1.0, 3.0));
    assert_eq!((sum("etcd_server_is_leader"), sum("etcd_server_has_leader")), (1.0, 3.0));
    assert!(sum("quorate_requests_total") >= 20.0 && sum("process_cpu_seconds_total") > 0.0);
    assert!(sum("quorate_ordered_seconds_count") >= 20.0 && sum("quorate_log_write_seconds_sum") > 0.0);
    assert!(texts.iter().any(|text| text.contains("quorate_instance_leading{ordering_instance=\"2\"} 1")));

    let told = |line: &str| texts[0].lines().any(|other| other == line);
    assert!(told("quorate_etcd_call_seconds_count{call=\"Put\"} 5"), "{}", texts[0]);
    assert!(told("quorate_etcd_calls_failed_total{call=\"Put\"} 2"), "{}", texts[0]);
    assert!(!texts[1].contains("quorate_etcd_call_seconds"), "nobody called the others");

    let page = include_str!("../../../../docs/operations/grafana.json");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = page.split(|c| !is_word(c));
    let shown: BTreeSet<&str> =
        words.filter(|word| word.starts_with("quorate_") || word.starts_with("process_")).collect();
    let shown: BTreeSet<&str> =
        shown.into_iter().filter(|word| !word.starts_with("quorate_zookeeper_")).collect();
    assert!(shown.len() > 15, "{shown:?}");
    for name in shown {
        let told = texts
            .iter()
            .any(|text| text.contains(&format!("\n{name} ")) || text.contains(&format!("\n{name}{{")));
        assert!(told, "the dashboard shows {name}, and nobody tells it");
    }
}

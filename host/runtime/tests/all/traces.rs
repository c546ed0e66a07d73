//! Traces of a real cluster: all replicas send spans of one batch under one trace, to a collector that is a thread here.

use crate::common::{RawClient, cluster_of};
use quorate_runtime::{Config, Durability, Options};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The spans that a collector has.
type Spans = Arc<Mutex<Vec<Value>>>;

/// Takes everything, until the test ends.
fn collector() -> (SocketAddr, Spans) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, spans) = (listener.local_addr().unwrap(), Spans::default());
    let taken = spans.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut bytes, mut room) = (Vec::new(), [0; 16 << 10]);
            let body = loop {
                let read = stream.read(&mut room).unwrap();
                bytes.extend_from_slice(&room[..read]);
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                if let Ok(body) = serde_json::from_slice::<Value>(&bytes[end + 4..]) {
                    break body;
                }
                assert!(read > 0, "cut off");
            };
            stream
                .write_all(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                )
                .unwrap();
            for resource in body["resourceSpans"].as_array().unwrap() {
                for scope in resource["scopeSpans"].as_array().unwrap() {
                    taken.lock().unwrap().extend(scope["spans"].as_array().unwrap().iter().cloned());
                }
            }
        }
    });
    (address, spans)
}

fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a str> {
    let attributes = span["attributes"].as_array()?;
    let value = &attributes.iter().find(|attribute| attribute["key"] == key)?["value"];
    value["intValue"].as_str().or(value["stringValue"].as_str())
}

fn times(span: &Value) -> (u64, u64) {
    let time = |key: &str| span[key].as_str().unwrap().parse().unwrap();
    (time("startTimeUnixNano"), time("endTimeUnixNano"))
}

/// The spans of each trace.
fn by_trace(spans: &Spans) -> BTreeMap<String, Vec<Value>> {
    let mut traces: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for span in spans.lock().unwrap().iter() {
        traces.entry(span["traceId"].as_str().unwrap().to_owned()).or_default().push(span.clone());
    }
    traces
}

/// Whether a trace has what three replicas say of a batch with this many commands.
fn is_whole(spans: &[Value], commands: &str) -> bool {
    let replicas = spans.iter().filter(|span| span["name"] == "replica");
    let of_ours = spans.iter().any(|span| attribute(span, "quorate.commands") == Some(commands));
    of_ours && replicas.count() == 3 && spans.iter().any(|span| span["name"] == "batch")
}

fn check(spans: &[Value]) {
    let batch = spans.iter().find(|span| span["name"] == "batch").expect("the leader's");
    assert_eq!(attribute(batch, "quorate.role"), Some("leader"));
    let mut roles = BTreeSet::new();
    for replica in spans.iter().filter(|span| span["name"] == "replica") {
        assert_eq!(replica["parentSpanId"], batch["spanId"]);
        let number = attribute(replica, "quorate.replica").unwrap();
        let role = attribute(replica, "quorate.role").unwrap();
        assert_eq!(attribute(replica, "quorate.clients"), Some("1"), "{replica}");
        assert!(roles.insert((role.to_owned(), number.to_owned())));
        let own = |span: &&Value| span["parentSpanId"] == replica["spanId"];
        let stages: BTreeMap<&str, (u64, u64)> =
            spans.iter().filter(own).map(|span| (span["name"].as_str().unwrap(), times(span))).collect();
        let names: Vec<&str> = stages.keys().copied().collect();
        let all = ["admit", "execute", "log", "merge", "order", "reply"];
        assert_eq!(names, if role == "leader" { &all[..] } else { &all[1..] }, "{role} {number}");
        let (began, ended) = times(replica);
        assert!(stages.values().all(|(from, to)| began <= *from && from <= to && *to <= ended), "{stages:?}");
        // What is read from one clock at one moment may be a nanosecond apart.
        let follows = |before: &str, after: &str| stages[before].1 <= stages[after].0 + 1000;
        for pair in [["order", "merge"], ["merge", "execute"], ["execute", "reply"]] {
            assert!(follows(pair[0], pair[1]), "{pair:?} {stages:?}");
        }
        if role == "leader" {
            assert!(follows("admit", "order"), "{stages:?}");
        }
    }
    let roles: Vec<&str> = roles.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["follower", "follower", "leader"]);
}

/// As many as 33 commands in one request: no other batch of this cluster has so many.
fn writes(client: &mut RawClient, nonce: u64) {
    let session = client.open(nonce);
    assert!(client.add(session, 1, &[1; 33]).is_some());
    assert!(client.add(session, 2, &[2]).is_some());
}

fn traced_at(endpoint: String) -> impl Fn(&mut Config) {
    move |config| (config.telemetry.traces, config.telemetry.trace_one_in) = (Some(endpoint.clone()), 1)
}

fn all_replicas_tell_one_trace(lanes: u16) {
    let directory = tempfile::tempdir().unwrap();
    let (address, spans) = collector();
    let set = traced_at(format!("http://{address}"));
    let options = Box::new(|_| Options::default());
    let cluster = cluster_of(directory.path(), 3, Durability::Group, options, |config| {
        set(config);
        config.lanes = lanes;
    });
    let (_, mut client) = cluster.leader();
    writes(&mut client, 1);
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(spans) = by_trace(&spans).values().find(|spans| is_whole(spans, "33")) {
            return check(spans);
        }
        assert!(Instant::now() < until, "{:#?}", spans.lock().unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn all_replicas_tell_one_trace_of_a_batch() {
    all_replicas_tell_one_trace(1);
}

/// Requests come in and are proposed on a lane of their own.
#[test]
fn pillars_on_lanes_tell_it_too() {
    all_replicas_tell_one_trace(2);
}

#[test]
fn writes_go_on_while_the_collector_is_dead_or_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for endpoint in ["http://127.0.0.1:1".to_owned(), format!("http://{}", silent.local_addr().unwrap())] {
        let directory = tempfile::tempdir().unwrap();
        let options = Box::new(|_| Options::default());
        let cluster = cluster_of(directory.path(), 1, Durability::Group, options, traced_at(endpoint));
        let (_, mut client) = cluster.leader();
        let session = client.open(1);
        let before = Instant::now();
        (1..=1500).for_each(|number| assert!(client.add(session, number, &[1]).is_some()));
        assert!(before.elapsed() < Duration::from_secs(60));
    }
}

use super::document::document;
use super::{Endpoint, Origin, StageSpan, Trace, Traces};
use crate::config::TelemetryConfig;
use quorate_types::{ClusterId, InstanceId, ReplicaId, Seq, View};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

fn origin(replica: u16) -> Origin {
    Origin { cluster: ClusterId::new(77), replica: ReplicaId::new(replica), service: "kv".into() }
}

fn trace(seq: u64, whole: Option<(u64, u64)>) -> Trace {
    let stage = |name, began, ended| StageSpan { name, began, ended };
    let stages =
        [stage("order", 20, 70), stage("log", 20, 95), stage("merge", 70, 71), stage("execute", 72, 80)];
    Trace {
        seq: Seq::new(seq),
        instance: InstanceId::new(1),
        view: View::new(3),
        requests: 2,
        commands: 5,
        clients: 1,
        bytes: 300,
        whole,
        stages: stages.into(),
    }
}

fn read(origin: &Origin, traces: &[Trace]) -> Value {
    serde_json::from_slice(&document(origin, traces)).unwrap()
}

fn spans(document: &Value) -> &Vec<Value> {
    document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap()
}

fn is_hex(value: &Value, digits: usize) -> bool {
    let digit = |c: char| c.is_ascii_hexdigit() && !c.is_ascii_uppercase();
    value
        .as_str()
        .is_some_and(|text| text.len() == digits && text.chars().all(digit) && text.contains(|c| c != '0'))
}

/// The form is that of `ExportTraceServiceRequest` in JSON: ids in hexadecimal digits, 64-bit numbers as texts.
#[test]
fn the_document_is_otlp() {
    let document = read(&origin(1), &[trace(8, Some((10, 90)))]);
    let resource = document["resourceSpans"][0]["resource"]["attributes"].as_array().unwrap();
    assert!(
        resource.contains(&serde_json::json!({"key": "service.name", "value": {"stringValue": "quorate"}}))
    );
    let spans = spans(&document);
    let names: Vec<&str> = spans.iter().filter_map(|span| span["name"].as_str()).collect();
    assert_eq!(names, ["batch", "replica", "order", "log", "merge", "execute"]);
    for span in spans {
        assert!(is_hex(&span["traceId"], 32) && is_hex(&span["spanId"], 16), "{span}");
        assert_eq!(span["traceId"], spans[0]["traceId"]);
        assert!(span["startTimeUnixNano"].is_string() && span["endTimeUnixNano"].is_string(), "{span}");
    }
    let [batch, replica, order] = [&spans[0], &spans[1], &spans[2]];
    assert!(batch.get("parentSpanId").is_none());
    assert_eq!((&replica["parentSpanId"], &order["parentSpanId"]), (&batch["spanId"], &replica["spanId"]));
    let times = |span: &Value| [span["startTimeUnixNano"].clone(), span["endTimeUnixNano"].clone()];
    assert_eq!((times(batch), times(replica)), (["10".into(), "90".into()], ["20".into(), "95".into()]));
    let attributes = replica["attributes"].as_array().unwrap();
    for wanted in
        [("quorate.seq", "8"), ("quorate.view", "3"), ("quorate.commands", "5"), ("quorate.clients", "1")]
    {
        let wanted = serde_json::json!({"key": wanted.0, "value": {"intValue": wanted.1}});
        assert!(attributes.contains(&wanted), "{wanted}");
    }
    assert!(
        attributes.contains(&serde_json::json!({"key": "quorate.role", "value": {"stringValue": "leader"}}))
    );
}

#[test]
fn replicas_agree_on_the_trace_and_on_no_other_id() {
    let documents = [
        read(&origin(1), &[trace(8, Some((10, 90)))]),
        read(&origin(2), &[trace(8, None)]),
        read(&origin(1), &[trace(9, Some((10, 90)))]),
    ];
    let [leader, follower, next] = documents.each_ref().map(spans);
    assert_eq!(leader[0]["traceId"], follower[0]["traceId"]);
    assert_ne!(leader[0]["traceId"], next[0]["traceId"]);
    assert_eq!(follower[0]["parentSpanId"], leader[0]["spanId"], "the follower hangs below the leader's");
    let ids: Vec<&str> =
        [leader, follower, next].into_iter().flatten().filter_map(|span| span["spanId"].as_str()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    let elsewhere = Origin { cluster: ClusterId::new(78), ..origin(1) };
    assert_ne!(spans(&read(&elsewhere, &[trace(8, None)]))[0]["traceId"], leader[0]["traceId"]);
}

#[test]
fn an_endpoint_is_a_host_with_a_port() {
    let path = |text: &str| Endpoint::parse(text).map(|endpoint| (endpoint.address, endpoint.path));
    let plain = Ok(("10.0.0.1:4318".to_owned(), "/v1/traces".to_owned()));
    for text in ["http://10.0.0.1:4318", "http://10.0.0.1:4318/", "http://10.0.0.1:4318/v1/traces"] {
        assert_eq!(path(text), plain, "{text}");
    }
    assert_eq!(path("http://[::1]:4318/otel"), Ok(("[::1]:4318".into(), "/otel/v1/traces".into())));
    for (wrong, says) in [
        ("", "http://"),
        ("10.0.0.1:4318", "http://HOST:PORT"),
        ("grpc://h:4317", "http://"),
        ("https://h:4318", "let it pass the traces on with TLS"),
        ("http://h", "names no port"),
        ("http://h:0", "names no port from 1"),
        ("http://h:99999", "names no port from 1"),
        ("http://:4318", "names no host"),
        ("http://::1:4318", "names no host"),
        ("http://h:4318/my path", "spaces"),
        ("http://h:4318/\r\nX: y", "spaces"),
        ("http://h:4318/ä", "characters"),
        ("http://user:secret@h:4318", "more than a host"),
        ("http://h:4318/?a=b", "more than a host"),
    ] {
        let said = Endpoint::parse(wrong).expect_err(wrong);
        assert!(said.contains(says), "{wrong}: {said}");
    }
}

/// Traces of a replica for a collector that answers each request with this.
struct Sent {
    traces: Traces,
    counts: super::TracesCounts,
}

fn sent_to(address: &str) -> Sent {
    let traces = Some(format!("http://{address}"));
    let config = TelemetryConfig { traces, trace_one_in: 3, ..TelemetryConfig::default() };
    let (traces, counts) = Traces::start(&config, origin(1)).unwrap().expect("there is a collector");
    Sent { traces, counts }
}

impl Sent {
    fn until(&self, is: impl Fn(&super::TracesStatus) -> bool) -> super::TracesStatus {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.counts.status();
            if is(&status) || Instant::now() > until {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Reads a request to its end, and answers.
fn serve(stream: &mut TcpStream, answer: &str) -> (String, Vec<u8>) {
    let (mut bytes, mut room) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut room).unwrap();
        bytes.extend_from_slice(&room[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
            let body = bytes.split_off(head.len() + 4);
            if Some(body.len()) == length {
                stream.write_all(answer.as_bytes()).unwrap();
                return (head.to_owned(), body);
            }
            bytes.extend_from_slice(&body);
        }
        assert!(read > 0, "cut off");
    }
}

/// A collector that fails, talks nonsense, and works again: what it does not take is counted, and the rest arrives.
#[test]
fn losses_are_counted_and_what_comes_later_arrives() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sent = sent_to(&listener.local_addr().unwrap().to_string());
    assert!(sent.traces.wants(Seq::new(6)) && !sent.traces.wants(Seq::new(7)));
    let bad = ["HTTP/1.1 503 Busy\r\n\r\nlater", "good day\r\n"];
    for (lost, answer) in (1..).zip(bad) {
        sent.traces.take(trace(3, None));
        serve(&mut listener.accept().unwrap().0, answer);
        let status = sent.until(|status| status.lost == lost);
        assert_eq!((status.sent, status.lost, status.failing), (0, lost, true), "{answer}");
    }
    sent.traces.take(trace(6, None));
    sent.traces.take(trace(9, None));
    let (head, body) =
        serve(&mut listener.accept().unwrap().0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: application/json"), "{head}");
    assert_eq!(spans(&serde_json::from_slice(&body).unwrap()).len(), 2 * 5);
    let status = sent.until(|status| status.sent == 2);
    assert_eq!((status.sent, status.lost, status.failing), (2, 2, false));
}

/// A collector that takes connections and never answers: the queue has an end, and a lane that hands over traces never waits.
#[test]
fn a_silent_collector_holds_nobody_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sent = sent_to(&listener.local_addr().unwrap().to_string());
    let before = Instant::now();
    (0..10_000).for_each(|seq| sent.traces.take(trace(seq, None)));
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    let status = sent.counts.status();
    assert!(status.sent == 0 && status.lost >= 10_000 - super::WAITING_MAX as u64 - 200, "{status:?}");
    // Nobody waits for the thread at the end either.
    let before = Instant::now();
    drop(sent);
    assert!(before.elapsed() < Duration::from_secs(1));
}

#[test]
fn without_a_collector_there_is_no_thread() {
    assert!(Traces::start(&TelemetryConfig::default(), origin(1)).unwrap().is_none());
}

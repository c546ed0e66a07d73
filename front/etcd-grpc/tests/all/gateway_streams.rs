//! Calls that stream, as JSON over HTTP/1.1: the same to a cluster of ours and to a real etcd, where there is one; and what must not harm.

use crate::gateway::{post, token};
use crate::support::peer::{Peer, etcd};
use crate::support::{PATIENCE, World, run};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// A call whose body comes piece by piece.
struct Call {
    out: TcpStream,
    input: BufReader<TcpStream>,
    /// The status of the response, once it has begun.
    status: u16,
}

impl Call {
    fn begin(socket: &str, path: &str, token: Option<&str>, rest: &str) -> Self {
        let mut out = TcpStream::connect(socket).expect("it listens");
        out.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let token = token.map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
        let text = format!("POST {path} HTTP/1.1\r\nHost: it\r\n{token}{rest}");
        out.write_all(text.as_bytes()).expect("it reads");
        let input = BufReader::new(out.try_clone().expect("a handle"));
        Self { out, input, status: 0 }
    }

    fn open(socket: &str, path: &str) -> Self {
        Self::begin(socket, path, None, "Transfer-Encoding: chunked\r\n\r\n")
    }

    /// All requests at once: over HTTP/1.1 a real etcd reads none after its first answer.
    fn whole(socket: &str, path: &str, token: Option<&str>, requests: &str) -> Self {
        Self::begin(socket, path, token, &format!("Content-Length: {}\r\n\r\n{requests}", requests.len()))
    }

    fn send(&mut self, text: &str) {
        self.write(&format!("{:x}\r\n{text}\r\n", text.len()));
    }

    /// Sends the last requests: in one piece, as the server closes the connection at an error.
    fn send_last(&mut self, text: &str) {
        self.write(&format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len()));
    }

    /// Ends the requests.
    fn end(&mut self) {
        self.write("0\r\n\r\n");
    }

    fn write(&mut self, text: &str) {
        self.out.write_all(text.as_bytes()).expect("it reads");
    }

    fn head_line(&mut self) -> String {
        let mut line = String::new();
        self.input.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    /// The next line of the response; none at its end. Each line is a chunk of its own.
    fn next(&mut self) -> Option<Value> {
        if self.status == 0 {
            let head: Vec<String> =
                std::iter::repeat_with(|| self.head_line()).take_while(|line| !line.is_empty()).collect();
            self.status = head[0].split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
            let is_cut = head.iter().any(|line| line.eq_ignore_ascii_case("transfer-encoding: chunked"));
            if !is_cut {
                let length = head
                    .iter()
                    .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
                let mut text = vec![0; length.expect("a length").parse().expect("a number")];
                self.input.read_exact(&mut text).expect("the body");
                return Some(serde_json::from_slice(&text).expect("JSON"));
            }
        }
        let length = self.head_line();
        let mut text = vec![0; usize::from_str_radix(&length, 16).expect("a chunk") + 2];
        self.input.read_exact(&mut text).expect("the chunk");
        if text.len() == 2 {
            return None;
        }
        let text = String::from_utf8(text).expect("a text");
        assert!(text.ends_with("}\n\r\n") && text.matches('\n').count() == 2, "one line: {text:?}");
        Some(serde_json::from_str(&text).expect("JSON"))
    }

    /// The next message, without what differs between members.
    fn result(&mut self) -> Value {
        let mut line = self.next().expect("the stream is open");
        let mut result = line["result"].take();
        assert!(result.is_object(), "{line}");
        // A real etcd leaves out the revision of what it says of compacted ones.
        let compacted = result.get("compact_revision").is_some();
        result["header"] = if compacted { Value::Null } else { result["header"]["revision"].take() };
        result
    }

    /// So many messages, and their events in one list: how many come at once is open.
    fn results(&mut self, events: usize) -> Value {
        let mut first = self.result();
        while first["events"].as_array().map_or(0, Vec::len) < events {
            let mut next = self.result();
            assert_eq!(first["watch_id"], next["watch_id"]);
            first["header"] = next["header"].take();
            let next = std::mem::take(next["events"].as_array_mut().expect("events"));
            first["events"].as_array_mut().expect("events").extend(next);
        }
        first
    }
}

/// What holds of a cluster of ours, and of a real etcd.
fn at_both(check: impl Fn(&str) -> Vec<Value>) -> Vec<Value> {
    let world = World::start(1);
    let ours = check(&world.socket(0));
    let Some(program) = etcd() else {
        quorate_skipped::skipped(
            "in part: there is no etcd; front/cli/tests/all/etcd/build.sh builds one where Go is",
        );
        return ours;
    };
    let peer = Peer::start(&program);
    run(async { drop(peer.channel().await) });
    let theirs = check(&peer.socket());
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "message {at}: ours, then etcd's");
    }
    assert_eq!(ours.len(), theirs.len());
    ours
}

fn done(socket: &str, path: &str, body: &str) {
    let (status, answer) = post(socket, path, None, body);
    assert_eq!(status, 200, "{path} {body}: {answer}");
}

fn put(socket: &str, key: &str, value: &str) {
    done(socket, "/v3/kv/put", &json!({ "key": key, "value": value }).to_string());
}

#[test]
fn watches_see_what_they_see_at_etcd() {
    let seen = at_both(|socket| {
        for value in ["MQ==", "Mg==", "Mw=="] {
            put(socket, "YQ==", value);
        }
        done(socket, "/v3/kv/compaction", r#"{"revision":"3"}"#);
        let watch = |requests: &str| Call::whole(socket, "/v3/watch", None, requests);
        let mut compacted = watch(r#"{"create_request":{"key":"YQ==","start_revision":"2"}} "#);
        let mut seen = vec![compacted.result(), compacted.result()];
        let request = r#"{"createRequest":{"key":"YQ==","rangeEnd":"Yg==","startRevision":3,"prevKv":true}}"#;
        let mut past = watch(request);
        seen.extend([past.result(), past.results(2)]);
        put(socket, "YWE=", "/w==");
        seen.push(past.result());
        let create = r#"{"create_request":{"key":"Yg==","watch_id":"7","filters":["NOPUT"]}}"#;
        let mut own = watch(&format!(
            "{create}\n{}{}{{}} {}",
            r#"{"create_request":{"key":"Yw==","watch_id":7}}"#,
            r#"{"create_request":{"key":"Yg==","range_end":"YQ=="}}"#,
            r#"{"cancel_request":{"watch_id":"7"}} {"cancel_request":{"watch_id":"8"}}"#,
        ));
        seen.extend([own.result(), own.result(), own.result(), own.result()]);
        let mut filtered = watch(create);
        seen.push(filtered.result());
        put(socket, "Yg==", "");
        done(socket, "/v3/kv/deleterange", r#"{"key":"Yg=="}"#);
        seen.push(filtered.result());
        seen
    });
    let created = |revision: &str, id: &str| json!({ "header": revision, "watch_id": id, "created": true });
    assert_eq!(seen[0], json!({ "header": "4", "created": true }));
    assert_eq!(seen[1], json!({ "header": null, "canceled": true, "compact_revision": "3" }));
    let entry = |value: &str, revision: &str, version: &str| {
        let (created, key) = ("2", "YQ==");
        json!({ "key": key, "create_revision": created, "mod_revision": revision, "version": version, "value": value })
    };
    let event = json!({ "kv": entry("Mw==", "4", "3"), "prev_kv": entry("Mg==", "3", "2") });
    assert_eq!(seen[3]["events"][1], event);
    assert_eq!((&seen[5], &seen[9]), (&created("5", "7"), &created("5", "7")));
    let deleted = json!({ "type": "DELETE", "kv": { "key": "Yg==", "mod_revision": "7" } });
    assert_eq!(seen[10], json!({ "header": "7", "watch_id": "7", "events": [deleted] }));
    assert_eq!(seen.len(), 11);
}

#[test]
fn answers_come_while_requests_come_and_a_watch_goes_on_after_them() {
    let world = World::start(1);
    let socket = world.socket(0);
    let mut watch = Call::open(&socket, "/v3/watch");
    for key in ["YQ==", "Yg=="] {
        watch.send(&json!({ "create_request": { "key": key } }).to_string());
        assert_eq!(watch.result()["created"], true);
    }
    put(&socket, "YQ==", "");
    assert_eq!(watch.result()["events"][0]["kv"]["key"], "YQ==");
    watch.send(r#"{"progress_request":{}}"#);
    assert_eq!(watch.result(), json!({ "header": "2", "watch_id": "-1" }));
    watch.send(r#"{"unknown":"}","cancel_request":{"watch_id":"0"}}"#);
    assert_eq!(watch.result(), json!({ "header": "2", "canceled": true }));
    watch.end();
    put(&socket, "YQ==", "");
    put(&socket, "Yg==", "");
    let event =
        json!({ "kv": { "key": "Yg==", "create_revision": "4", "mod_revision": "4", "version": "1" } });
    assert_eq!(watch.result(), json!({ "header": "4", "watch_id": "1", "events": [event] }));
    let mut kept = Call::open(&socket, "/v3/lease/keepalive");
    for _ in 0..2 {
        kept.send(r#"{"ID":"77"}"#);
        assert_eq!(kept.result(), json!({ "header": "4", "ID": "77" }));
    }
    kept.end();
    assert_eq!(kept.next(), None);
}

#[test]
fn leases_leaders_and_rights_are_those_of_etcd() {
    at_both(|socket| {
        done(socket, "/v3/lease/grant", r#"{"ID":"77","TTL":"600"}"#);
        let requests = r#"{"ID":"77"}{"ID":78} {"ID":"77"}"#;
        let mut kept = Call::whole(socket, "/v3/lease/keepalive", None, requests);
        let mut seen = vec![kept.result(), kept.result(), kept.result()];
        // The order of answers is open.
        seen.sort_by_key(|result| result["ID"].to_string());
        assert_eq!(kept.next(), None);

        let mut observed = Call::whole(socket, "/v3/election/observe", None, r#"{"name":"ZWw="}"#);
        done(socket, "/v3/election/campaign", r#"{"name":"ZWw=","lease":"77","value":"MQ=="}"#);
        seen.push(observed.result());
        let leader = r#"{"name":"ZWw=","key":"ZWwvNGQ=","rev":"2","lease":"77"}"#;
        done(socket, "/v3/election/proclaim", &format!(r#"{{"leader":{leader},"value":"Mg=="}}"#));
        seen.push(observed.result());
        for request in ["5", "{"] {
            seen.push(Value::from(post(socket, "/v3/election/observe", None, request).0));
        }

        for (path, body) in [
            ("role/add", r#"{"name":"some"}"#),
            ("role/grant", r#"{"name":"some","perm":{"permType":"READ","key":"YQ=="}}"#),
            ("user/add", r#"{"name":"root","password":"top"}"#),
            ("user/add", r#"{"name":"ann","password":"secret"}"#),
            ("user/grant", r#"{"user":"root","role":"root"}"#),
            ("user/grant", r#"{"user":"ann","role":"some"}"#),
            ("enable", "{}"),
        ] {
            done(socket, &format!("/v3/auth/{path}"), body);
        }
        let ann = token(socket);
        for token in [None, Some("nobody's"), Some(ann.as_str())] {
            let requests = r#"{"create_request":{"key":"YQ=="}}{"create_request":{"key":"Yg=="}}"#;
            let mut watch = Call::whole(socket, "/v3/watch", token, requests);
            seen.extend([watch.result(), watch.result()]);
            let mut saved = Call::whole(socket, "/v3/maintenance/snapshot", token, "");
            seen.extend([saved.next().expect("an error"), Value::from(saved.status)]);
            let mut kept = Call::whole(socket, "/v3/lease/keepalive", token, r#"{"ID":"77"}"#);
            let kept_line = kept.next().expect("a line");
            seen.extend([kept_line["error"].clone(), Value::from(kept.status)]);
        }
        seen
    });
}

#[test]
fn a_stream_with_what_is_no_request_ends_and_says_why() {
    let world = World::start(1);
    let socket = world.socket(0);
    for (path, good) in
        [("/v3/watch", r#"{"create_request":{"key":"YQ=="}}"#), ("/v3/lease/keepalive", r#"{"ID":"77"}"#)]
    {
        for (bad, why) in [
            ("5", "an object is wanted"),
            (", {}", "an object is wanted"),
            ("{\"ID\":true,\"create_request\":5}", "is wanted, not"),
            ("{\"ID", "the body ends within it"),
        ] {
            let mut call = Call::open(&socket, path);
            call.send(good);
            assert!(call.next().expect("an answer")["result"].is_object());
            call.send_last(bad);
            let last = call.next().expect("an error");
            assert_eq!(last["error"]["code"], 3, "{last}");
            let text = last["error"]["message"].as_str().expect("a text");
            assert!(
                text.starts_with("request 2 of the stream: ") && text.contains(why),
                "{path} {bad}: {text}"
            );
            assert_eq!((call.status, call.next()), (200, None));
            // Nothing was answered yet: the status says it, too.
            let mut call = Call::open(&socket, path);
            call.send_last(bad);
            assert!(call.next().expect("an error")["error"]["message"].is_string());
            assert_eq!(call.status, 400);
        }
        let (status, answer) = post(&socket, path, None, &format!("{{\"x\":\"{}", "A".repeat(5 << 20)));
        assert!(status == 429 && answer.contains("request 1 of the stream is longer"), "{status} {answer}");
    }
}

/// The connections that are open, that of the question among them.
fn connections(socket: &str) -> usize {
    let mut stream = TcpStream::connect(socket).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let line = text.lines().find_map(|line| line.strip_prefix("etcd_network_client_connections "));
    line.expect("the metric").parse().expect("a number")
}

#[test]
fn streams_of_clients_that_go_leave_nothing_behind() {
    let world = World::start(1);
    let socket = world.socket(0);
    let mut calls = Vec::new();
    for number in 0..100 {
        // Before the first answer; within a request; after its end; and with all that may come.
        let (path, begun, is_over) = match number % 4 {
            0 => ("/v3/watch", "{} ", false),
            1 => ("/v3/watch", r#"{"create_request":{"key":"YQ=="}} {"cancel"#, false),
            2 => ("/v3/watch", r#"{"create_request":{"key":"YQ=="}}"#, true),
            _ => ("/v3/election/observe", r#"{"name":"ZWw="}"#, true),
        };
        let mut call = Call::open(&socket, path);
        call.send(begun);
        if is_over {
            call.end();
        }
        if [1, 2].contains(&(number % 4)) {
            assert_eq!(call.result()["created"], true);
        }
        calls.push(call);
    }
    assert_eq!(connections(&socket), 101);
    done(&socket, "/v3/kv/put", r#"{"key":"YQ=="}"#);
    assert_eq!(calls[1].result()["events"][0]["kv"]["key"], "YQ==");
    for call in calls {
        call.out.shutdown(Shutdown::Both).expect("it is open");
    }
    let end = Instant::now() + PATIENCE;
    while connections(&socket) > 1 {
        assert!(Instant::now() < end, "{} are left", connections(&socket));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn whoever_reads_nothing_misses_nothing_and_holds_up_nobody() {
    let world = World::start(1);
    let socket = world.socket(0);
    let mut slow = Call::open(&socket, "/v3/watch");
    slow.send(r#"{"create_request":{"key":"aw=="}}"#);
    assert_eq!(slow.result()["created"], true);
    // More than the connection takes. What happens when all room is used: `watch.rs`.
    let value = "A".repeat(1 << 20);
    let body = format!(r#"{{"key":"aw==","value":"{value}"}}"#);
    (0..30).for_each(|_| done(&socket, "/v3/kv/put", &body));
    let mut revisions: Vec<i64> = Vec::new();
    while revisions.len() < 30 {
        let events = slow.result()["events"].take();
        for event in events.as_array().expect("events") {
            revisions.push(event["kv"]["mod_revision"].as_str().expect("a number").parse().expect("digits"));
        }
    }
    assert_eq!(revisions, (2..32).collect::<Vec<_>>());
}

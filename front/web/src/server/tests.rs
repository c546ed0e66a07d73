//! The server, asked by programs: who may see and do what.

use super::*;
use crate::Verb;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// No answer takes longer on a machine that does anything at all.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Toy {
    looks: AtomicU64,
    acts: Mutex<Vec<Act>>,
}

impl Source for Toy {
    fn state(&self) -> Value {
        json!({ "look": self.looks.fetch_add(1, Ordering::Relaxed), "text": "<b>\n\"" })
    }

    fn act(&self, act: Act) -> Result<String, String> {
        self.acts.lock().unwrap().push(act);
        if act.replica > 3 { Err("there is no such replica".into()) } else { Ok("it was killed".into()) }
    }
}

fn start() -> (Running, Arc<Toy>, SocketAddr) {
    let toy = Arc::new(Toy::default());
    let web = Web { listen: "127.0.0.1:0".into(), token: "secret".into(), source: toy.clone() };
    let running = web.start().unwrap();
    let address = running.address();
    (running, toy, address)
}

fn connect(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// The head and the body of an answer.
fn ask(address: SocketAddr, line: &str, heads: &[&str], body: &str) -> (String, String) {
    let heads: String = heads.iter().map(|head| format!("{head}\r\n")).collect();
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{heads}Content-Length: {length}\r\n\r\n{body}"
    );
    let mut text = String::new();
    connect(address, &request).read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn status(head: &str) -> &str {
    head.split(' ').nth(1).unwrap()
}

const BEARER: &str = "Authorization: Bearer secret";
const KILL: &str = "{\"verb\":\"kill\",\"replica\":2}";

#[test]
fn the_page_is_there_for_everybody_and_comes_with_its_policy() {
    let (_running, toy, address) = start();
    let (head, body) = ask(address, "GET /", &[], "");
    assert_eq!((status(&head), body.as_str()), ("200", PAGE));
    let head = head.to_lowercase();
    for part in [
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "nosniff",
        "cache-control: no-store",
    ] {
        assert!(head.contains(part), "{part} in {head}");
    }
    assert_eq!(ask(address, "HEAD /", &[], "").1, "");
    for (line, expected) in
        [("GET /other", "404"), ("POST /", "405"), ("GET /api/chaos", "405"), ("PUT /api/events", "405")]
    {
        assert_eq!(status(&ask(address, line, &[], "").0), expected, "{line}");
    }
    assert_eq!(toy.looks.load(Ordering::Relaxed), 0, "nobody looks, so nobody is asked");
}

#[test]
fn events_come_to_who_shows_the_token() {
    let (_running, toy, address) = start();
    for wrong in [
        "GET /api/events",
        "GET /api/events?token=secre",
        "GET /api/events?token=",
        "GET /api/events?x=secret",
    ] {
        let (head, body) = ask(address, wrong, &[], "");
        assert_eq!(status(&head), "401", "{wrong}");
        assert!(body.contains("#token="), "{body}");
    }
    let request = "GET /api/events?token=secret HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut lines = BufReader::new(connect(address, request)).lines();
    let mut data = || lines.find_map(|line| line.unwrap().strip_prefix("data: ").map(str::to_owned)).unwrap();
    let looks: Vec<Value> = (0..3).map(|_| serde_json::from_str(&data()).unwrap()).collect();
    assert_eq!(
        looks.iter().map(|look| look["look"].as_u64()).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2)]
    );
    assert_eq!(looks[0]["text"], "<b>\n\"", "an event is one line, whatever it says");
    drop(lines);
    // The end is noticed with the next event; after that it is quiet.
    std::thread::sleep(Duration::from_millis(2500));
    let asked = toy.looks.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(2500));
    assert!(toy.looks.load(Ordering::Relaxed) <= asked + 1, "nobody looks any more");
}

#[test]
fn viewers_share_one_look_and_too_many_are_refused() {
    let (_running, toy, address) = start();
    let request = "GET /api/events?token=secret HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut viewers: Vec<_> = (0..100).map(|_| BufReader::new(connect(address, request))).collect();
    for viewer in &mut viewers {
        let line = viewer.lines().map(Result::unwrap).find(|line| line.starts_with("data: "));
        assert!(line.is_some());
    }
    assert!(toy.looks.load(Ordering::Relaxed) < 50, "not one for each");
    let (head, body) = ask(address, "GET /api/events", &[BEARER], "");
    assert_eq!((status(&head), body.contains("too many look already")), ("503", true));
}

#[test]
fn buttons_are_pressed_by_the_page_alone() {
    let (_running, toy, address) = start();
    for (heads, body, expected) in [
        (&["X-Quorate: 1"][..], KILL, "401"),
        (&["X-Quorate: 1", "Authorization: Bearer other"], KILL, "401"),
        (&[BEARER], KILL, "403"),
        (&[BEARER, "X-Quorate: 1"], "", "400"),
        (&[BEARER, "X-Quorate: 1"], "{\"verb\":\"format\",\"replica\":2}", "400"),
        (&[BEARER, "X-Quorate: 1"], "{\"verb\":\"kill\",\"replica\":70000}", "400"),
        (&[BEARER, "X-Quorate: 1"], &"x".repeat(5000), "400"),
    ] {
        assert_eq!(status(&ask(address, "POST /api/chaos", heads, body).0), expected, "{heads:?} {body}");
    }
    assert!(toy.acts.lock().unwrap().is_empty());
    let (head, body) = ask(address, "POST /api/chaos", &[BEARER, "X-Quorate: 1"], KILL);
    assert_eq!((status(&head), body.as_str()), ("200", "{\"ok\":true,\"text\":\"it was killed\"}"));
    assert_eq!(*toy.acts.lock().unwrap(), [Act { verb: Verb::Kill, replica: 2 }]);
    let (head, body) =
        ask(address, "POST /api/chaos", &[BEARER, "X-Quorate: 1"], "{\"verb\":\"pause\",\"replica\":4}");
    assert_eq!((status(&head), body.contains("there is no such replica")), ("409", true));
}

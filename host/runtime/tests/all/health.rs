//! The health endpoint of a replica at work, asked politely and otherwise.

use crate::common::{Sum, config};
use quorate_runtime::{Replica, Running};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Nothing takes longer on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(directory: &std::path::Path) -> (Running, SocketAddr) {
    let mut config = config(directory);
    config.health = Some("127.0.0.1:0".into());
    let running = Replica::new(config, Box::new(Sum::default())).start().unwrap();
    let address = running.health_address().unwrap();
    (running, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Everything that comes until the other side closes; a connection that is reset has nothing more.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut room = [0; 1024];
    while let Ok(read @ 1..) = stream.read(&mut room) {
        bytes.extend_from_slice(&room[..read]);
    }
    String::from_utf8(bytes).unwrap()
}

fn send(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    stream.write_all(request).unwrap();
    rest(&mut stream)
}

fn get(address: SocketAddr, path: &str) -> String {
    send(address, format!("GET {path} HTTP/1.1\r\nHost: replica\r\n\r\n").as_bytes())
}

fn wait_until_ready(address: SocketAddr) {
    let until = Instant::now() + PATIENCE;
    while !get(address, "/readyz").starts_with("HTTP/1.1 200 OK\r\n") {
        assert!(Instant::now() < until, "{}", get(address, "/readyz"));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_replica_says_that_it_is_alive_and_ready() {
    let directory = tempfile::tempdir().unwrap();
    let (running, address) = start(directory.path());
    wait_until_ready(address);
    assert!(get(address, "/livez").ends_with("\r\n\r\nok\n"));
    let metrics = get(address, "/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{metrics}");
    assert!(
        metrics.contains("\nquorate_leading 1\n") && metrics.contains("\nquorate_ordered_seconds_count "),
        "{metrics}"
    );
    assert!(get(address, "/metric").starts_with("HTTP/1.1 404 "));
    running.stop().unwrap();
    assert!(TcpStream::connect(address).is_err(), "it ends with the replica");
}

#[test]
fn one_of_three_alone_is_alive_and_not_ready() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path());
    for replica in [2, 3] {
        let mut member = config.members[0].clone();
        member.replica = replica;
        member.address = "127.0.0.1:1".into();
        config.members.push(member);
    }
    config.health = Some("127.0.0.1:0".into());
    let running = Replica::new(config, Box::new(Sum::default())).start().unwrap();
    let address = running.health_address().unwrap();
    assert!(get(address, "/livez").starts_with("HTTP/1.1 200 "));
    let ready = get(address, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 ") && ready.ends_with("knows no leader\n"), "{ready}");
    running.stop().unwrap();
}

#[test]
fn garbage_and_giants_are_refused_and_harm_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let (running, address) = start(directory.path());
    assert!(send(address, b"\x00\x01\x02\xff\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(
        send(address, b"POST /livez HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello").starts_with("HTTP/1.1 405 ")
    );
    // Two at once: the first is answered, and the connection is over.
    let twice = send(address, b"GET /livez HTTP/1.1\r\n\r\nGET /livez HTTP/1.1\r\n\r\n");
    assert_eq!(twice.matches("HTTP/1.1 200 ").count(), 1, "{twice}");
    let long = [b"GET /livez HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 8192]].concat();
    assert!(send(address, &long).starts_with("HTTP/1.1 431 "));
    // One that never ends is cut off, so that not all of it can be sent.
    let mut endless = connect(address);
    let chunk = [b'x'; 64 << 10];
    let sent = (0..10_000).take_while(|_| endless.write_all(&chunk).is_ok()).count();
    assert!(sent < 10_000);
    wait_until_ready(address);
    running.stop().unwrap();
}

#[test]
fn slow_visitors_keep_nobody_out_and_have_to_leave() {
    let directory = tempfile::tempdir().unwrap();
    let (running, address) = start(directory.path());
    let mut slow: Vec<TcpStream> = (0..200).map(|_| connect(address)).collect();
    for stream in &mut slow {
        // Those who were there first may have had to leave already.
        let _ = stream.write_all(b"GET /live");
    }
    wait_until_ready(address);
    assert!(get(address, "/livez").starts_with("HTTP/1.1 200 "));
    for stream in &mut slow {
        assert_eq!(rest(stream), "", "half a request has no answer");
    }
    running.stop().unwrap();
}

/// A replica serves although nobody can ask how it is.
#[test]
fn a_taken_address_keeps_no_replica_from_running() {
    let directory = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config(directory.path());
    config.health = Some(taken.local_addr().unwrap().to_string());
    let running = Replica::new(config.clone(), Box::new(Sum::default())).start().unwrap();
    assert_eq!(running.health_address(), None);
    running.stop().unwrap();
    config.health = Some("8080".into());
    let error = Replica::new(config, Box::new(Sum::default())).start().err().unwrap().to_string();
    assert!(error.contains("health: an address is host:port"), "{error}");
}

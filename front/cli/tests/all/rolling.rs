//! Replicas that are stopped without anybody noticing, probes, and a log that says more while a replica runs.

use crate::harness::{Cluster, Made, Server, edit, free_ports, quorate, wait_until};
use quorate::client::ClientFile;
use quorate_kv::{KvCommand, Operation};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Longer than anything that a request may wait for here.
const REQUEST: Duration = Duration::from_secs(60);

/// Writes one value after the other until it is told to stop; every one of them must succeed. The last value.
fn write(client_toml: &Path, writer: usize, stop: &AtomicBool, written: &AtomicU64) -> u64 {
    let file = ClientFile::read(client_toml).expect("client.toml can be read");
    let client = file.builder().timeout(REQUEST).build_blocking().expect("a client");
    let session = client.open_session().expect("a session");
    let key = format!("writer-{writer}");
    let mut count = 0u64;
    while !stop.load(Ordering::Acquire) {
        count += 1;
        let (mut command, value) = (Vec::new(), count.to_string());
        let put = Operation::Put { key: key.as_bytes(), value: value.as_bytes() };
        KvCommand::One(put).encode(&mut command);
        session.call_one(&command).unwrap_or_else(|why| panic!("write {count} of {key} failed: {why}"));
        written.fetch_add(1, Ordering::AcqRel);
    }
    session.close().expect("the session ends");
    count
}

#[test]
fn all_replicas_restart_one_by_one_and_no_request_fails() {
    let cluster = Cluster::start(&[]);
    let before = cluster.pids();
    let client_toml = cluster.directory().join("client.toml");
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let (restarted, last) = std::thread::scope(|scope| {
        let (client_toml, stop, written) = (&client_toml, &stop, &written);
        let begin = |writer| scope.spawn(move || write(client_toml, writer, stop, written));
        let writers: Vec<_> = (0..4).map(begin).collect();
        wait_until("writes flow", || written.load(Ordering::Acquire) > 100);
        let restarted = cluster.run(&["restart", "--json"]);
        let then = written.load(Ordering::Acquire);
        // Whatever came of it, so that the writers end.
        let flows = (0..3000).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            written.load(Ordering::Acquire) > then + 100
        });
        stop.store(true, Ordering::Release);
        assert!(flows, "writes flow afterwards");
        let last: Vec<u64> =
            writers.into_iter().map(|writer| writer.join().expect("no write failed")).collect();
        (restarted.ok(), last)
    });
    for (writer, value) in last.iter().enumerate() {
        assert_eq!(cluster.ok(&["kv", "get", &format!("writer-{writer}")]), value.to_string());
    }
    let restarted: Value = serde_json::from_str(&restarted).expect("JSON");
    let restarted = restarted.as_array().expect("a list");
    let mut ids: Vec<u64> = restarted.iter().filter_map(|one| one["replica"].as_u64()).collect();
    // Whoever led came last; leadership may have moved by itself meanwhile.
    assert!(restarted.iter().any(|one| one["handed_over"] == true), "{restarted:?}");
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
    let after = cluster.pids();
    assert_eq!(after.len(), 3);
    assert!(before.iter().all(|pid| !after.contains(pid)), "each is a new process");
    cluster.wait_until_equal();
    assert_eq!(cluster.dev_said(), "", "nobody ended by itself");
}

#[test]
fn a_leader_hands_over_and_the_last_of_a_majority_stays() {
    let cluster = Cluster::start(&[]);
    let leader = cluster.wait_for_leader();
    let drained: Value =
        serde_json::from_str(&cluster.ok(&["drain", &leader.to_string(), "--json"])).expect("JSON");
    assert_eq!(drained["handed_over"], true, "{drained}");
    assert_ne!(drained["leader"], leader);
    let led_by = drained["leader"].as_u64().expect("a number") as u16;
    let follower = cluster.ids().into_iter().find(|id| *id != led_by).expect("there are three");
    let said = cluster.ok(&["drain", &follower.to_string()]);
    assert!(said.contains("can be stopped now"), "{said}");

    cluster.kill(follower);
    let last = led_by.to_string();
    let says =
        ["should not be stopped now", "1 of 3 replicas would be left, and 2 are needed", "does not answer"];
    cluster.run(&["drain", &last, "--timeout", "1"]).fails(1, &says);
    let pids = cluster.pids();
    cluster.run(&["restart", &last, "--timeout", "1"]).fails(1, &says);
    assert_eq!(cluster.pids(), pids, "nobody was stopped");
    cluster.run(&["drain", "9"]).fails(2, &["no replica 9"]);
    cluster.run(&["restart", "9"]).fails(2, &["no replica 9"]);
    cluster.ok(&["kv", "put", "key", "value"]);
}

#[test]
fn clusters_that_dev_does_not_run_are_left_alone() {
    let made = Made::three();
    let client_toml = made.path().join("client.toml");
    let client_toml = client_toml.to_str().expect("UTF-8");
    quorate(&["restart", "--config", client_toml]).fails(2, &["quorate drain", "not ours"]);
    quorate(&["drain", "1", "--timeout", "1", "--config", client_toml])
        .fails(1, &["replica 2 does not answer", "replica 3 does not answer"]);
}

/// A replica that is alone, with an address for probes.
fn alone() -> (Made, String) {
    let ports = free_ports(2);
    let made = Made::new(&[(1, format!("127.0.0.1:{}", ports[0]))]);
    let health = format!("127.0.0.1:{}", ports[1]);
    let config = made.config(1);
    edit(&config, "replica = 1\ndata", &format!("replica = 1\nhealth = \"{health}\"\ndata"));
    (made, health)
}

#[test]
fn probes_see_how_a_replica_is() {
    let (made, health) = alone();
    let config = made.config(1);
    let config = config.to_str().expect("UTF-8");
    let probe = |more: &[&str]| quorate(&[&["health", "--config", config], more].concat());
    probe(&[]).fails(1, &["replica 1 at", &health]);
    let server = Server::start(&made.config(1));
    wait_until("it is ready", || probe(&[]).code == Some(0));
    assert_eq!(probe(&["--live"]).ok(), "ok");
    hostile(&health);
    assert_eq!(probe(&[]).ok(), "ok");
    // Stopped where it is, it answers nothing.
    server.signal(Signal::STOP);
    // On a busy machine that takes a moment.
    wait_until("it stands still", || probe(&["--live", "--timeout", "1"]).code == Some(1));
    probe(&["--live", "--timeout", "1"]).fails(1, &["no answer in time"]);
    server.signal(Signal::CONT);
    assert_eq!(server.stop().code, Some(0));
    probe(&["--live"]).fails(1, &[]);
    edit(&made.config(1), &format!("health = \"{health}\"\n"), "");
    probe(&[]).fails(2, &["has no key `health`"]);
}

/// Garbage, half requests and giants, more at once than there is room for.
fn hostile(address: &str) {
    let mut open = Vec::new();
    for round in 0..150 {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let bytes = match round % 3 {
            0 => vec![0xff; 100],
            1 => b"GET /ready".to_vec(),
            _ => vec![b'x'; 1 << 20],
        };
        // It may be shown out before all is sent.
        let _ = stream.write_all(&bytes);
        open.push(stream);
    }
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(b"DELETE / HTTP/1.1\r\n\r\n").expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
}

#[test]
fn a_signal_makes_the_log_say_more_and_another_less() {
    let (made, _) = alone();
    let server = Server::start(&made.config(1));
    wait_until("it is ready", || server.log().contains("is ready on"));
    assert!(!server.log().contains("DEBUG"), "{}", server.log());
    server.signal(Signal::USR1);
    wait_until("it says more", || server.log().contains("the log level is debug now"));
    let client_toml = made.path().join("client.toml");
    let status = ["status", "--config", client_toml.to_str().expect("UTF-8")];
    wait_until("a connection is seen", || {
        quorate(&status);
        server.log().contains("DEBUG")
    });
    server.signal(Signal::USR2);
    wait_until("it says less", || server.log().contains("as at the start again: info"));
    let lines = |log: &str| log.lines().filter(|line| line.contains("DEBUG")).count();
    // The level changes after the line that says so; what was under way may still be seen.
    std::thread::sleep(Duration::from_millis(200));
    let before = lines(&server.log());
    quorate(&status).ok();
    assert_eq!(lines(&server.log()), before);
    assert_eq!(server.stop().code, Some(0));
}

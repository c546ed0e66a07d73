//! The number of instances changes up and down while clients work, with real processes; replicas are killed in between, and one joins.
//! Clients spread evenly over instances, also after a leader was lost.

use crate::harness::kv::{client, has, put};
use crate::harness::{Ends, Made, Server, free_ports, quorate, wait_until};
use quorate::client::{BlockingClient, BlockingSession};
use serde_json::Value;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn run(made: &Path, arguments: &[&str]) -> crate::harness::Ran {
    let mut all = arguments.to_vec();
    all.extend(["--dir", made.to_str().expect("UTF-8")]);
    quorate(&all)
}

fn show(made: &Path) -> Value {
    let text = run(made, &["instances", "show", "--json"]).ok();
    serde_json::from_str(&text).expect("a JSON document")
}

#[test]
fn their_number_changes_under_load() {
    let made = Made::three();
    let directory = made.path();
    let mut servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    wait_until("the cluster leads", || {
        run(&directory, &["kv", "put", "begin", "now", "--timeout", "3"]).code == Some(0)
    });
    assert_eq!(show(&directory)["count"], 1);
    run(&directory, &["instances", "set", "1"]).fails(1, &["has 1 already"]);
    let client = client(&directory);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let more = |than: u64| {
        let before = written.load(Ordering::Relaxed);
        wait_until("the clients go on", || written.load(Ordering::Relaxed) > before + than);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let session = client.open_session().expect("a session");
            while !stop.load(Ordering::Relaxed) {
                let number = written.load(Ordering::Relaxed) + 1;
                session.call_one(&put(&format!("key-{number}"), &number.to_string())).expect("written");
                written.store(number, Ordering::Relaxed);
            }
            session.close().expect("closed");
        });
        let ends = Ends(&stop);
        more(20);
        // 4 come, 2 of them go, and one comes back: that takes a checkpoint of after it went.
        for (count, victim) in [(4, 0), (2, 1), (3, 2)] {
            let text = run(&directory, &["instances", "set", &count.to_string()]).ok();
            assert!(text.contains(&format!("{count} instances")), "{text}");
            more(20);
            drop(servers.remove(victim));
            servers.insert(victim, Server::start(&made.config(victim as u16 + 1)));
            more(20);
            assert_eq!(show(&directory)["count"], count);
        }
        // Who joins begins with what the cluster has now, whatever its configuration says.
        let address = format!("127.0.0.1:{}", free_ports(1)[0]);
        run(&directory, &["member", "add", "4", "--address", &address]).ok();
        servers.push(Server::start(&made.config(4)));
        // While clients write it may fall behind a little again.
        wait_until("it has caught up, and votes", || {
            run(&directory, &["member", "promote", "4"]).code == Some(0)
        });
        more(20);
        drop(ends);
    });
    for number in 1..=written.load(Ordering::Relaxed) {
        assert!(has(&client, &format!("key-{number}"), &number.to_string()), "key {number}");
    }
    let states: Vec<Value> = show(&directory)["each"]
        .as_array()
        .expect("instances")
        .iter()
        .map(|one| one["state"].clone())
        .collect();
    assert_eq!(states, ["here", "here", "here", "away"]);
    drop(client);
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
}

/// What each replica says of each instance.
fn each_of_all(made: &Path) -> Vec<Value> {
    // It says so, too, when something is wrong.
    let text = run(made, &["status", "--json"]).out;
    let status: Value = serde_json::from_str(&text).unwrap_or_default();
    let replicas = status["replicas"].as_array().into_iter().flatten();
    replicas
        .filter_map(|replica| replica["status"]["instances"]["each"].as_array().cloned())
        .flatten()
        .collect()
}

/// How many clients each instance has, as its leader says; nothing while one has no leader.
fn clients_of_instances(made: &Path) -> Option<Vec<u64>> {
    let each = each_of_all(made);
    let of = |instance: u64| {
        let mut led = each.iter().filter(|one| one["instance"] == instance && one["leading"] == true);
        led.next().and_then(|one| one["clients"].as_u64())
    };
    (1..=4).map(of).collect()
}

/// Sixteen clients, each with a session.
fn sixteen(directory: &Path) -> (Vec<BlockingClient>, Vec<BlockingSession>) {
    let clients: Vec<BlockingClient> = (0..16).map(|_| client(directory)).collect();
    let sessions = clients.iter().map(|client| client.open_session().expect("a session")).collect();
    (clients, sessions)
}

/// All write until each instance has about so many of them.
fn write_until_spread(directory: &Path, sessions: &[&BlockingSession], each: RangeInclusive<u64>) {
    let spread = || {
        for (at, session) in sessions.iter().enumerate() {
            session.call_one(&put("key", &at.to_string())).expect("written");
        }
        clients_of_instances(directory).is_some_and(|clients| {
            let all: u64 = clients.iter().sum();
            all == sessions.len() as u64 && clients.iter().all(|count| each.contains(count))
        })
    };
    wait_until("the clients are spread over the instances", spread);
}

fn begun(made: &Made) -> Vec<Server> {
    let servers = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    // Nobody asks anything: a session that ends while others begin would change whose turn it is.
    wait_until("the cluster leads", || clients_of_instances(&made.path()).is_some());
    servers
}

#[test]
fn clients_spread_evenly_over_instances() {
    let made = Made::three_with(4);
    let directory = made.path();
    let mut servers = begun(&made);
    let (clients, sessions) = sixteen(&directory);
    let all: Vec<&BlockingSession> = sessions.iter().collect();
    // On a busy machine the reply to who opens a session may be lost with its leader: that client stays where it is.
    write_until_spread(&directory, &all, 2..=6);
    // Whoever leads is lost, and leads again when it is back for a while.
    drop(servers.remove(1));
    for session in &sessions {
        session.call_one(&put("key", "without")).expect("written");
    }
    servers.insert(1, Server::start(&made.config(2)));
    write_until_spread(&directory, &all, 4..=4);
    drop(sessions);
    drop(clients);
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
}

/// Each instance has a lane of its own. Instances leave and come back at once: what comes in is for their new stays, not for the old ones.
#[test]
fn instances_that_come_back_work_on_lanes_of_their_own() {
    let made = Made::three_with(4);
    for id in 1..=3 {
        let text = std::fs::read_to_string(made.config(id)).expect("a configuration");
        let text = format!("lanes = 5\npillars = \"lanes\"\n{text}");
        std::fs::write(made.config(id), text).expect("it is written");
    }
    let directory = made.path();
    let servers = begun(&made);
    let client = client(&directory);
    let session = client.open_session().expect("a session");
    for (round, count) in ["4", "2", "4"].into_iter().enumerate() {
        if round > 0 {
            wait_until("the number of instances is changed", || {
                run(&directory, &["instances", "set", count]).code == Some(0)
            });
        }
        for number in 0..30 {
            session.call_one(&put(count, &number.to_string())).expect("written");
        }
    }
    wait_until("all instances are led", || {
        let each = each_of_all(&directory);
        (1..=4).all(|id| each.iter().any(|one| one["instance"] == id && one["leading"] == true))
    });
    session.call_one(&put("all", "led")).expect("written");
    drop((session, client));
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
}

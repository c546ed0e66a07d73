//! `quorate lanes`: instances move between the lanes of running replicas, which clients do not notice.

use crate::harness::kv::{client, has, put};
use crate::harness::{Ends, Made, Server, edit, quorate, wait_until};
use quorate_types::ReplicaId;
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn run(made: &Path, arguments: &[&str]) -> crate::harness::Ran {
    let mut all = arguments.to_vec();
    all.extend(["--dir", made.to_str().expect("UTF-8")]);
    quorate(&all)
}

/// The instances on each lane of a replica.
fn lanes(made: &Path, replica: usize) -> Vec<Value> {
    let text = run(made, &["lanes", "show", "--json"]).ok();
    let all: Value = serde_json::from_str(&text).expect("a JSON document");
    let lanes = all[replica - 1]["lanes"].as_array().cloned().unwrap_or_default();
    lanes.into_iter().map(|lane| lane["instances"].clone()).collect()
}

#[test]
fn instances_are_shown_and_moved_while_clients_write() {
    let made = Made::three_with(4);
    let directory = made.path();
    // Each replica has another number of them.
    for (id, line) in [(1, "lanes = 3"), (2, "cores = 5"), (3, "lanes = 1")] {
        edit(&made.config(id), "level = 3", &format!("level = 3\n{line}"));
    }
    let servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    wait_until("the cluster leads", || {
        run(&directory, &["kv", "put", "begin", "now", "--timeout", "3"]).code == Some(0)
    });
    let all = |lists: &[&[u16]]| lists.iter().map(|list| Value::from(list.to_vec())).collect::<Vec<_>>();
    assert_eq!(lanes(&directory, 1), all(&[&[], &[1, 3], &[2, 4]]));
    assert_eq!(lanes(&directory, 2), all(&[&[], &[1], &[2], &[3], &[4]]));
    assert_eq!(lanes(&directory, 3), all(&[&[1, 2, 3, 4]]));

    run(&directory, &["lanes", "set", "2=9", "--replica", "1"]).fails(1, &["replica 1: it has lanes 1 to 3"]);
    run(&directory, &["lanes", "set", "9=1", "--replica", "1"]).fails(1, &["instances 1 to 4"]);
    run(&directory, &["lanes", "set", "2=1", "--replica", "3"]).fails(1, &["it has one lane", "restart it"]);
    run(&directory, &["lanes", "set", "2=1", "--replica", "7"]).fails(2, &["no such replica"]);
    run(&directory, &["lanes", "set", "2=1", "auto"]).fails(2, &["either auto"]);
    run(&directory, &["lanes", "set", "2"]).fails(2, &["INSTANCE=LANE"]);

    let client = client(&directory);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let session = client.open_session().expect("a session");
            while !stop.load(Ordering::Relaxed) {
                let number = written.load(Ordering::Relaxed) + 1;
                session.call_one(&put(&format!("key-{number}"), &number.to_string())).expect("written");
                written.store(number, Ordering::Relaxed);
            }
        });
        let ends = Ends(&stop);
        for (places, then) in [
            (&["2=1", "4=1"][..], [&[2, 4][..], &[1, 3], &[]]),
            (&["1=3", "2=3", "3=3", "4=3"], [&[], &[], &[1, 2, 3, 4]]),
            (&["1=2", "2=2"], [&[], &[1, 2], &[3, 4]]),
        ] {
            let before = written.load(Ordering::Relaxed);
            run(&directory, &[&["lanes", "set", "--replica", "1"], places].concat()).ok();
            assert_eq!(lanes(&directory, 1), all(&then));
            wait_until("the client goes on", || written.load(Ordering::Relaxed) > before + 50);
        }
        let said = run(&directory, &["lanes", "set", "auto"]).ok();
        assert!(said.contains("replica 1 places instances by itself"), "{said}");
        drop(ends);
    });
    for number in 1..=written.load(Ordering::Relaxed) {
        assert!(has(&client, &format!("key-{number}"), &number.to_string()), "key {number}");
    }
    drop(client);
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
}

/// Each step of a staged replica's work has a lane, and stays there.
#[test]
fn a_staged_replica_shows_which_lane_does_which_step() {
    let made = Made::three_with(2);
    let directory = made.path();
    for (id, line) in [(1, "lanes = 3"), (2, "lanes = 4"), (3, "lanes = 5")] {
        edit(&made.config(id), "level = 3", &format!("level = 3\nplacement = \"staged\"\n{line}"));
    }
    let servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    wait_until("the cluster leads", || {
        run(&directory, &["kv", "put", "begin", "now", "--timeout", "3"]).code == Some(0)
    });
    let client = client(&directory);
    let session = client.open_session().expect("a session");
    for number in 1..=50 {
        session.call_one(&put("key", &number.to_string())).expect("written");
    }
    let text = run(&directory, &["lanes", "show", "--json"]).ok();
    let all: Value = serde_json::from_str(&text).expect("a JSON document");
    for (at, count) in [(0, 3), (1, 4), (2, 5)] {
        let lanes = all[at]["lanes"].as_array().expect("a list");
        let steps: Vec<&str> = lanes.iter().filter_map(|lane| lane["step"].as_str()).collect();
        let expected: Vec<&str> = ["execution", "agreement"]
            .into_iter()
            .chain(std::iter::repeat("connections"))
            .take(count)
            .collect();
        assert_eq!(steps, expected);
        assert_eq!(lanes[0]["instances"], Value::from(Vec::<u16>::new()), "{text}");
        assert_eq!(lanes[1]["instances"], Value::from(vec![1, 2]), "{text}");
        assert_eq!(lanes[1]["connections"], 0, "{text}");
        // One of each instance to and from each other member.
        let connected: u64 = lanes[2..].iter().filter_map(|lane| lane["connections"].as_u64()).sum();
        assert!(connected >= 8, "{text}");
    }
    wait_until("lanes say what they sent to members", || {
        let text = client.status(ReplicaId::new(3)).expect("a status");
        let status: Value = serde_json::from_str(&text).expect("a JSON document");
        let sent = |at: usize| status["lanes"][at]["member_bytes"].as_u64().expect("a number");
        (2..5).map(sent).sum::<u64>() > 0
    });
    let shown = run(&directory, &["lanes", "show"]).ok();
    assert!(shown.contains("- (execution)") && shown.contains("1, 2 (agreement)"), "{shown}");
    run(&directory, &["lanes", "set", "2=3"]).fails(1, &["replica 1: it is staged", "remove `placement`"]);
    drop((session, client));
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
    edit(&made.config(1), "lanes = 3", "lanes = 2");
    let config = made.config(1).to_str().expect("UTF-8").to_owned();
    quorate(&["serve", "--config", &config])
        .fails(2, &["a staged replica needs 3 lanes or more: one executes, one agrees"]);
}

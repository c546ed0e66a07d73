//! A cluster moves between fault models with real processes: three replicas that crash become four, of which one may lie, and go back, while
//! a client writes all the time. No write that it got an answer to is lost.

use crate::harness::kv::{client, has, put};
use crate::harness::{Made, Server, free_ports, quorate, wait_until};
use serde_json::Value;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn ran(made: &Path, arguments: &[&str]) -> String {
    let mut all = arguments.to_vec();
    all.extend(["--dir", made.to_str().expect("UTF-8")]);
    quorate(&all).ok()
}

fn refused(made: &Path, arguments: &[&str], says: &[&str]) {
    let mut all = arguments.to_vec();
    all.extend(["--dir", made.to_str().expect("UTF-8")]);
    quorate(&all).fails(1, says);
}

fn json(made: &Path, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.push("--json");
    serde_json::from_str(&ran(made, &all)).expect("a JSON document")
}

/// Ends a load when it is dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_cluster_moves_from_crash_faults_to_lies_and_back_under_load() {
    let made = Made::three_with_keys();
    let directory = made.path();
    let mut servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    wait_until("the cluster leads", || {
        let directory = directory.to_str().expect("UTF-8");
        quorate(&["kv", "put", "begin", "now", "--dir", directory, "--timeout", "3"]).code == Some(0)
    });
    refused(&directory, &["faults", "set", "byzantine"], &["a cluster needs 4; here are 3"]);
    let client = client(&directory);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let stops = Stops(&stop);
        scope.spawn(|| {
            let session = client.open_session().expect("a session");
            while !stop.load(Ordering::Relaxed) {
                let number = written.load(Ordering::Relaxed) + 1;
                session.call_one(&put(&format!("key-{number}"), &number.to_string())).expect("written");
                written.store(number, Ordering::Relaxed);
            }
            session.close().expect("closed");
        });
        let goes_on = |what: &str| {
            let before = written.load(Ordering::Relaxed);
            wait_until(what, || written.load(Ordering::Relaxed) > before + 10);
        };
        let address = format!("127.0.0.1:{}", free_ports(1)[0]);
        ran(&directory, &["member", "add", "4", "--address", &address]);
        servers.push(Server::start(&made.config(4)));
        wait_until("it votes", || {
            let directory = directory.to_str().expect("UTF-8");
            quorate(&["member", "promote", "4", "--dir", directory]).code == Some(0)
        });
        let text = ran(&directory, &["faults", "set", "byzantine"]);
        assert!(text.starts_with("era 2, since seq "), "{text}");
        goes_on("the client goes on where one may lie");
        let era = json(&directory, &["faults", "show"]);
        assert_eq!((&era["number"], &era["may_lie"]), (&2.into(), &true.into()), "{era}");
        refused(
            &directory,
            &["faults", "set", "byzantine"],
            &["survives byzantine faults already", "--protocol"],
        );
        // Not even all of them may say it for everybody: administrators sign.
        let text = ran(&directory, &["faults", "set", "crash"]);
        assert!(text.starts_with("era 3, since seq ") && text.contains("ordered by raft"), "{text}");
        goes_on("the client goes on where none lies");
        // A replica that starts again is in the era that its disk says.
        assert_eq!(servers.remove(0).stop().code, Some(0));
        servers.push(Server::start(&made.config(1)));
        goes_on("the client goes on after a restart");
        drop(stops);
    });
    let last = written.load(Ordering::Relaxed);
    for number in (1..=last).rev().step_by(7).take(60) {
        assert!(has(&client, &format!("key-{number}"), &number.to_string()), "{number} of {last}");
    }
    for id in 1..=4 {
        let here = made.data(id);
        wait_until("what was of other eras is gone", || {
            !here.join("log").exists() && here.join("era-3").exists()
        });
    }
}

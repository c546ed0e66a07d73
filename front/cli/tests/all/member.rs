//! Replicas join, are promoted, take each other's places and leave, with real processes, while clients work.

use crate::harness::kv::{client, has, put};
use crate::harness::{Made, Server, edit, free_ports, quorate, wait_until};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

fn ok(made: &Path, arguments: &[&str]) -> String {
    let directory = made.to_str().expect("UTF-8");
    let mut all = arguments.to_vec();
    all.extend(["--dir", directory]);
    quorate(&all).ok()
}

/// Under load whoever has caught up may lag again for a moment, or somebody else come to lead: then nothing is changed, and it is asked again.
fn replace(made: &Path, from: &str, to: &str) {
    wait_until("it is replaced", || {
        let ran = quorate(&["member", "replace", from, to, "--dir", made.to_str().expect("UTF-8")]);
        let again = ["has not caught up", "nobody leads"].iter().any(|why| ran.err.contains(why));
        assert!(ran.code == Some(0) || again, "{}", ran.err);
        ran.code == Some(0)
    });
}

fn fails(made: &Path, arguments: &[&str], says: &[&str]) {
    let directory = made.to_str().expect("UTF-8");
    let mut all = arguments.to_vec();
    all.extend(["--dir", directory]);
    quorate(&all).fails(1, says);
}

fn list(made: &Path) -> Value {
    serde_json::from_str(&ok(made, &["member", "list", "--json"])).expect("a JSON document")
}

fn roles(made: &Path) -> Vec<(u64, String)> {
    let list = list(made);
    let members = list["members"].as_array().expect("members").iter();
    let role = |member: &Value| member["role"].as_str().expect("a role").to_owned();
    members.map(|member| (member["replica"].as_u64().expect("an id"), role(member))).collect()
}

fn caught_up(made: &Path, replica: u64) -> bool {
    let list = list(made);
    let members = list["members"].as_array().expect("members").iter();
    members.clone().any(|member| member["replica"] == replica && member["caught_up"] == true)
}

/// Whether this replica leads an instance, as it says.
fn leads_something(made: &Path, replica: u64) -> bool {
    let status: Value = serde_json::from_str(&ok(made, &["status", "--json"])).expect("a JSON document");
    let leads =
        |answer: &Value| answer["replica"] == replica && answer.to_string().contains("\"leading\":true");
    status["replicas"].as_array().expect("replicas").iter().any(leads)
}

fn config(made: &Path, replica: u16) -> PathBuf {
    made.join(format!("replica-{replica}/replica.toml"))
}

fn ids(made: &Path) -> Vec<u64> {
    roles(made).into_iter().map(|(id, _)| id).collect()
}

/// All three replicas of a cluster are replaced, one after the other, while a client that knew only the first three goes on
/// writing; what it wrote is all there.
#[test]
fn every_replica_is_replaced_under_load() {
    replaces_all(1, "raft");
}

/// The same where the replicas share the work: each leads some instances, also the one that leaves.
#[test]
fn every_replica_is_replaced_under_load_with_four_instances() {
    replaces_all(4, "raft");
}

/// The same where replicas agree by Mod-SMaRt.
#[test]
fn every_replica_is_replaced_under_load_with_mod_smart() {
    replaces_all(1, "mod-smart");
}

#[test]
fn every_replica_is_replaced_under_load_with_four_instances_of_mod_smart() {
    replaces_all(4, "mod-smart");
}

/// Ends a load when it is dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn replaces_all(instances: u16, protocol: &str) {
    // Each has four replicas and a client that never rests: one after the other.
    static ONE: Mutex<()> = Mutex::new(());
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = Made::three_with(instances);
    let directory = made.path();
    for id in (1..=3).filter(|_| protocol != "raft") {
        let with = format!("data = \"data\"\nprotocol = \"{protocol}\"");
        edit(&made.config(id), "data = \"data\"", &with);
    }
    let mut servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    wait_until("the cluster leads", || {
        let directory = directory.to_str().expect("UTF-8");
        quorate(&["kv", "put", "begin", "now", "--dir", directory, "--timeout", "3"]).code == Some(0)
    });
    let ports = free_ports(3);
    let client = client(&directory);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        // Whatever fails here ends the load as well: nobody waits for ever.
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
        for (old, new, port) in [(1u16, 4u16, ports[0]), (2, 5, ports[1]), (3, 6, ports[2])] {
            let address = format!("127.0.0.1:{port}");
            let (from, to) = (old.to_string(), new.to_string());
            ok(&directory, &["member", "add", &to, "--address", &address]);
            servers.push(Server::start(&config(&directory, new)));
            wait_until("it has caught up", || caught_up(&directory, u64::from(new)));
            replace(&directory, &from, &to);
            // Who was removed is told so, and is of no use any more.
            let gone = servers.remove(0);
            gone.wait_until_it_says("was removed");
            let next = u64::from(old) + 1;
            wait_until("whoever leaves next leads something", || {
                instances == 1 || next > 3 || leads_something(&directory, next)
            });
            assert_eq!(gone.stop().code, Some(0));
        }
        let before = written.load(Ordering::Relaxed);
        wait_until("the client goes on", || written.load(Ordering::Relaxed) > before + 10);
        drop(stops);
    });
    assert_eq!(ids(&directory), [4, 5, 6]);
    for number in 1..=written.load(Ordering::Relaxed) {
        assert!(has(&client, &format!("key-{number}"), &number.to_string()), "key {number}");
    }
    drop(client);
    // Whoever starts now finds them by client.toml.
    assert_eq!(ok(&directory, &["kv", "get", "begin"]).trim(), "now");
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
}

/// What can not be done is refused with the reason.
#[test]
fn what_would_stop_the_cluster_is_refused() {
    let made = Made::three();
    let directory = made.path();
    let mut servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    wait_until("somebody answers", || {
        let directory = directory.to_str().expect("UTF-8");
        quorate(&["member", "list", "--dir", directory]).code == Some(0)
    });
    wait_until("somebody leads", || {
        list(&directory)["members"].as_array().is_some_and(|m| m.iter().any(|member| member["leads"] == true))
    });
    fails(&directory, &["member", "promote", "2"], &["votes already"]);
    fails(&directory, &["member", "remove", "9"], &["no member"]);
    let out = directory.join("again");
    let out = out.to_str().expect("UTF-8");
    let address = format!("127.0.0.1:{}", free_ports(1)[0]);
    fails(&directory, &["member", "add", "3", "--address", &address, "--out", out], &["a member already"]);
    fails(&directory, &["member", "move", "1", "--address", "nowhere"], &["no address"]);
    ok(&directory, &["member", "add", "7", "--address", &address]);
    assert_eq!(roles(&directory)[3], (7, "learner".to_owned()));
    fails(&directory, &["member", "promote", "7"], &["has not caught up"]);
    // With one of three gone, removing another that works would leave one of two.
    let third = servers.pop().expect("three");
    assert_eq!(third.stop().code, Some(0));
    wait_until("the leader has noticed", || {
        let directory = directory.to_str().expect("UTF-8");
        let ran = quorate(&["member", "remove", "2", "--dir", directory]);
        assert_ne!(ran.code, Some(0), "nothing may be removed now");
        ran.err.contains("no majority") || ran.err.contains("can not")
    });
    ok(&directory, &["member", "remove", "3"]);
    ok(&directory, &["member", "remove", "7"]);
    assert_eq!(ids(&directory), [1, 2]);
    fails(&directory, &["member", "add", "3", "--address", &address, "--out", out], &["never used again"]);
    assert!(!Path::new(out).exists(), "nothing is left of it");
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
}

/// A replica that lost its disk is replaced: the one command waits until the new one has caught up.
#[test]
fn a_lost_disk_is_replaced() {
    let made = Made::three();
    let directory = made.path();
    let mut servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    wait_until("the cluster leads", || {
        let directory = directory.to_str().expect("UTF-8");
        quorate(&["kv", "put", "key", "value", "--dir", directory, "--timeout", "3"]).code == Some(0)
    });
    let lost = servers.remove(0);
    assert_eq!(lost.stop().code, Some(0));
    std::fs::remove_dir_all(made.data(1)).expect("removed");
    // It may have led.
    wait_until("one of the others leads", || {
        let directory = directory.to_str().expect("UTF-8");
        quorate(&["kv", "put", "other", "value", "--dir", directory, "--timeout", "3"]).code == Some(0)
    });
    let address = format!("127.0.0.1:{}", free_ports(1)[0]);
    std::thread::scope(|scope| {
        let replaced = scope.spawn(|| {
            ok(&directory, &["member", "replace", "1", "8", "--address", &address, "--timeout", "60"])
        });
        let file = config(&directory, 8);
        wait_until("its directory is there", || file.exists() && ids(&directory).contains(&8));
        servers.push(Server::start(&file));
        assert!(replaced.join().expect("it ends").contains("taken the place"));
    });
    assert_eq!(roles(&directory), [2, 3, 8].map(|id| (id, "voter".to_owned())));
    assert_eq!(ok(&directory, &["kv", "get", "key"]).trim(), "value");
    for server in servers {
        assert_eq!(server.stop().code, Some(0));
    }
}

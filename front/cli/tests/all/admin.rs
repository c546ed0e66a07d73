//! Members of a cluster whose replicas may lie, changed by what administrators sign, with real processes.

use crate::harness::kv::{client, has, put};
use crate::harness::{Made, Ran, Server, free_ports, quorate, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

fn run(made: &Path, arguments: &[&str]) -> Ran {
    let mut all = arguments.to_vec();
    all.extend(["--dir", made.to_str().expect("UTF-8")]);
    quorate(&all)
}

fn members(made: &Path) -> Vec<(u64, bool)> {
    let ran = run(made, &["member", "list", "--json"]);
    let Ok(list) = serde_json::from_str::<Value>(&ran.out) else { return Vec::new() };
    let each = list["members"].as_array().into_iter().flatten();
    each.map(|m| (m["replica"].as_u64().unwrap_or_default(), m["caught_up"] == true)).collect()
}

/// Four replicas that survive one that lies.
fn four() -> (Made, Vec<Server>) {
    let made = Made::byzantine();
    let servers = (1..=4).map(|id| Server::start(&made.config(id))).collect();
    wait_until("the cluster answers", || run(&made.path(), &["kv", "put", "begin", "now"]).code == Some(0));
    (made, servers)
}

/// A replica that lies is replaced while a client goes on that knew only the first four; then another one by a command that was signed
/// elsewhere. What was written is all there.
#[test]
fn a_liar_is_replaced_by_what_administrators_sign() {
    let (made, mut servers) = four();
    let directory = made.path();
    let lies = directory.join("replica-3/lies");
    drop(servers.remove(2).stop());
    std::fs::write(&lies, "equivocate").expect("written");
    servers.insert(
        2,
        Server::start_with(&made.config(3), &["--lies", lies.to_str().expect("UTF-8"), "--die-with-parent"]),
    );
    let client = client(&directory);
    let session = client.open_session().expect("a session");
    let write = |number: u32| session.call_one(&put(&format!("key-{number}"), &number.to_string())).map(drop);
    write(1).expect("written");

    let address = format!("127.0.0.1:{}", free_ports(1)[0]);
    run(&directory, &["member", "add", "5", "--address", &address]).ok();
    run(&directory, &["member", "promote", "5"]).fails(1, &["has not caught up"]);
    servers.push(Server::start(&made.config(5)));
    wait_until("it has caught up", || members(&directory).contains(&(5, true)));
    run(&directory, &["member", "replace", "3", "5"]).ok();
    let ids: Vec<u64> = members(&directory).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [1, 2, 4, 5]);
    drop(servers.remove(2).stop());
    write(2).expect("written");

    // Without a key at hand nothing is changed; a file is signed where the key is.
    let key = directory.join("administrator.key");
    let (away, later) = (directory.join("away.key"), directory.join("later.toml"));
    std::fs::rename(&key, &away).expect("moved");
    let (away, later) = (away.to_str().expect("UTF-8"), later.to_str().expect("UTF-8"));
    run(&directory, &["member", "move", "2", "--address", "127.0.0.1:1"])
        .fails(2, &["--admin-key", "--sign-later"]);
    let address = format!("127.0.0.1:{}", free_ports(1)[0]);
    run(&directory, &["member", "add", "6", "--address", &address, "--sign-later", later]).ok();
    run(&directory, &["admin", "submit", later]).fails(1, &["the signatures of 1 of the 1 administrators"]);
    assert!(quorate(&["admin", "show", later]).ok().contains("r6 at"), "it says what it does");
    quorate(&["admin", "sign", later, "--admin-key", away]).ok();
    run(&directory, &["admin", "submit", later]).ok();
    run(&directory, &["admin", "submit", later]).fails(1, &["was executed before"]);
    // It joins after members left, and begins with a checkpoint.
    servers.push(Server::start(&made.config(6)));
    wait_until("it has caught up", || members(&directory).contains(&(6, true)));
    write(3).expect("written");

    // A restart finds the members in the log.
    drop(servers.remove(0).stop());
    servers.insert(0, Server::start(&made.config(1)));
    for number in 1..=3 {
        assert!(has(&client, &format!("key-{number}"), &number.to_string()), "key {number}");
    }
    session.close().expect("closed");
    drop(client);
    assert_eq!(run(&directory, &["kv", "get", "begin"]).ok().trim(), "now");
}

/// All four that founded the cluster are replaced, one after the other, and stopped. Who has the first `client.toml` is led by proofs to those that
/// took their places, from one of them that it is told of; then its file names them.
#[test]
fn an_old_file_leads_to_members_that_replaced_all_in_it() {
    let (made, mut servers) = four();
    let directory = made.path();
    let (first, old) = (directory.join("client.toml"), directory.join("old.toml"));
    std::fs::copy(&first, &old).expect("copied");
    let text = std::fs::read_to_string(&old).expect("the file");
    assert!(text.contains("membership = 1") && text.matches("key = \"").count() >= 4, "{text}");
    let mut address = String::new();
    for id in 5..=8_u16 {
        address = format!("127.0.0.1:{}", free_ports(1)[0]);
        let (new, gone) = (id.to_string(), (id - 4).to_string());
        run(&directory, &["member", "add", &new, "--address", &address]).ok();
        let learns = std::fs::read_to_string(&first).expect("the file");
        assert!(learns.contains("learner = true"), "{learns}");
        servers.push(Server::start(&made.config(id)));
        wait_until("it has caught up", || members(&directory).contains(&(u64::from(id), true)));
        run(&directory, &["member", "replace", &gone, &new]).ok();
        drop(servers.remove(0).stop());
    }
    let history = |arguments: &[&str]| {
        let file = old.to_str().expect("UTF-8");
        quorate(&[&["member", "history", "--config", file], arguments].concat())
    };
    history(&[]).fails(1, &["none of these replicas answers", "--ask"]);
    let place = format!("8={address}");
    let shown = history(&["--ask", &place, "--json", "--keep"]).ok();
    let shown: Value = serde_json::from_str(&shown).expect("a document");
    let all = shown["memberships"].as_array().expect("a list");
    assert_eq!((all.len(), &all[8]["number"], &all[8]["proved"]), (9, &9.into(), &true.into()));
    assert_eq!(std::fs::read_to_string(&old).expect("the file"), text, "it is kept");
    let said = history(&["--ask", &place]).ok();
    for part in [
        "membership 1, from client.toml: r1, r2, r3, r4",
        "membership 9, proved by membership 8: r4 leaves, r8 votes",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let client =
        quorate::client::ClientBuilder::from_file(&old).expect("usable").build_blocking().expect("a client");
    drop(client.open_session().expect("the present members take it"));
    let links = std::fs::read_dir(directory.join("replica-8/data/chain")).expect("r8 keeps the chain");
    assert_eq!(links.count(), 8, "also of changes from before it joined");
}

/// From then on both have to sign.
#[test]
fn administrators_are_replaced() {
    let (made, servers) = four();
    let directory = made.path();
    let file = |name: &str| directory.join(name).to_str().expect("UTF-8").to_owned();
    let (anna, bert) = (file("anna.key"), file("bert.key"));
    let keys = [&anna, &bert].map(|file| quorate(&["admin", "keygen", file]).ok().trim().to_owned());
    quorate(&["admin", "keygen", &anna]).fails(2, &["a key is never replaced"]);
    run(&directory, &["admin", "replace", "--key", &keys[0], "--key", &keys[1], "--threshold", "2"]).ok();
    let add = ["member", "add", "5", "--address", "127.0.0.1:7"];
    let alone = [&add[..], &["--admin-key", &anna]].concat();
    run(&directory, &alone).fails(1, &["the signatures of 2 of the 2 administrators"]);
    run(&directory, &add).fails(1, &["the signatures of 2 of the 2 administrators"]);
    assert!(!directory.join("replica-5").exists(), "nothing is left of it");
    run(&directory, &[&alone[..], &["--admin-key", &bert]].concat()).ok();
    let status = run(&directory, &["admin", "status"]).ok();
    for part in
        ["2 of 2 administrators must sign", &keys[0], "2 commands were executed", "the change to m2 begins"]
    {
        assert!(status.contains(part), "`{part}` is missing in: {status}");
    }
    drop(servers);
    let crash = Made::three();
    run(&crash.path(), &["admin", "status"]).fails(2, &["survives crashes only"]);
}

/// The file of a key that a replica was given later.
fn later_key(made: &Path, replica: u16) -> PathBuf {
    let entries = std::fs::read_dir(made.join(format!("replica-{replica}"))).expect("a directory").flatten();
    let is_key = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("signing.key."))
    };
    entries.map(|entry| entry.path()).find(is_key).expect("a later key")
}

/// The problems that a replica reports, as one text.
fn problems(made: &Path, replica: u16) -> String {
    let ran = run(made, &["status", "--json"]);
    let Ok(status) = serde_json::from_str::<Value>(&ran.out) else { return String::new() };
    let all = status["replicas"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|one| one["replica"] == replica);
    found.map(|one| one["status"]["problems"].to_string()).unwrap_or_default()
}

/// The key of a replica is changed under a client's writes. Then it is killed, and comes back with the right key; only as many others run as
/// need its vote. Without the new key it would not vote, and says so.
#[test]
fn a_signing_key_is_changed_under_writes() {
    let (made, mut servers) = four();
    let directory = made.path();
    let client = client(&directory);
    let session = client.open_session().expect("a session");
    let write = |number: u32| session.call_one(&put(&format!("key-{number}"), &number.to_string())).map(drop);
    let (done, over) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1.. {
                write(number).expect("written");
                done.store(number, Ordering::SeqCst);
                if over.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        let list: Value =
            serde_json::from_str(&run(&directory, &["member", "list", "--json"]).ok()).expect("JSON");
        let of_two = list["members"][1]["key"].as_str().expect("a key").to_owned();
        run(&directory, &["member", "rekey", "3", "--key", &of_two]).fails(1, &["the same public key"]);
        let said = run(&directory, &["member", "rekey", "3"]).ok();
        assert!(said.contains("r3 signs with its new key from membership 2 on"), "{said}");
        over.store(true, Ordering::SeqCst);
    });
    let mut last = done.load(Ordering::SeqCst);
    assert!(last > 1, "writes went on");
    let mut next = || {
        last += 1;
        write(last).expect("written");
        last
    };

    let (three, key) = (servers.remove(2), later_key(&directory, 3));
    three.signal(Signal::KILL);
    drop(three.wait());
    servers.insert(2, Server::start(&made.config(3)));
    drop(servers.remove(0).stop());
    let needs_three = next();
    assert!(has(&client, &format!("key-{needs_three}"), &needs_three.to_string()), "replica 3 votes");

    servers.insert(0, Server::start(&made.config(1)));
    drop(servers.remove(2).stop());
    let away = directory.join("away.key");
    std::fs::rename(&key, &away).expect("moved");
    servers.insert(2, Server::start(&made.config(3)));
    wait_until("it says what it lacks", || problems(&directory, 3).contains("lacks the secret half"));
    next();
    std::fs::rename(&away, &key).expect("moved");
    wait_until("it is back", || {
        let problems = problems(&directory, 3);
        !problems.is_empty() && !problems.contains("lacks the secret half")
    });
    drop(servers.remove(0).stop());
    let needs_three = next();
    assert!(has(&client, &format!("key-{needs_three}"), &needs_three.to_string()), "replica 3 votes again");
    session.close().expect("closed");
    drop(client);
}

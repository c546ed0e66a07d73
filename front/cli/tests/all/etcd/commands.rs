//! Every command of etcdctl that a cluster answers, and what it prints: options of get, put and del, members, leadership, and a state that
//! is saved and restored.

use super::{World, printed};
use crate::harness::{Cluster, Server, free_ports, quorate, wait_until};
use std::fs;
use std::path::Path;

#[test]
fn get_put_and_del_with_every_option() {
    let Some(world) = World::start() else { return };
    // Revisions 2 to 6: b is created first, c written twice.
    for (key, value) in [("b", "3"), ("a", "1"), ("c", "x"), ("c", "2"), ("d/1", "4")] {
        world.run(&["put", key, value]);
    }
    let get = |arguments: &[&str]| {
        let all: Vec<&str> = ["get"].iter().chain(arguments).copied().collect();
        world.run(&all)
    };
    let keys = |arguments: &[&str]| {
        let all: Vec<&str> = arguments.iter().chain(&["--keys-only"]).copied().collect();
        get(&all).split_whitespace().collect::<String>()
    };
    assert_eq!(keys(&["a", "c"]), "ab");
    assert_eq!(keys(&["b", "--from-key"]), "bcd/1");
    assert_eq!(keys(&["d/", "--prefix"]), "d/1");
    assert_eq!(keys(&["", "--prefix", "--limit", "2"]), "ab");
    assert_eq!(keys(&["", "--prefix", "--order", "DESCEND"]), "d/1cba");
    for (by, order) in [
        ("KEY", "abcd/1"),
        ("CREATE", "bacd/1"),
        ("MODIFY", "bacd/1"),
        ("VALUE", "acbd/1"),
        ("VERSION", "abd/1c"),
    ] {
        assert_eq!(keys(&["", "--prefix", "--sort-by", by, "--order", "ASCEND"]), order, "{by}");
    }
    assert_eq!(keys(&["", "--prefix", "--rev", "4"]), "abc");
    assert_eq!(keys(&["", "--prefix", "--min-mod-rev", "5"]), "cd/1");
    assert_eq!(keys(&["", "--prefix", "--max-mod-rev", "3"]), "ab");
    assert_eq!(keys(&["", "--prefix", "--min-create-rev", "4"]), "cd/1");
    assert_eq!(keys(&["", "--prefix", "--max-create-rev", "2"]), "b");
    assert_eq!(get(&["c", "--print-value-only"]), "2");
    assert_eq!(get(&["c", "--hex"]), "\\x63\n\\x32");
    assert_eq!(get(&["c", "--consistency", "s"]), "c\n2");
    assert!(get(&["", "--prefix", "--count-only", "-w", "fields"]).contains("\"Count\" : 4"));
    let json: serde_json::Value = serde_json::from_str(&get(&["c", "-w", "json"])).expect("JSON");
    assert_eq!((&json["kvs"][0]["mod_revision"], &json["kvs"][0]["version"]), (&5.into(), &2.into()));

    let lease = world.run(&["lease", "grant", "600"]);
    let lease = lease.split(' ').nth(1).expect("an id");
    world.run(&["put", "c", "3", "--lease", lease]);
    assert_eq!(world.run(&["put", "c", "4", "--ignore-lease", "--prev-kv"]), "OK\nc\n3");
    world.run(&["put", "c", "--ignore-value", "--lease", lease]);
    assert!(world.run(&["lease", "timetolive", lease, "--keys"]).contains("attached keys([c])"));
    assert!(world.fail(&["put", "none", "--ignore-value"]).contains("key not found"));

    assert_eq!(world.run(&["del", "a", "c", "--prev-kv"]), "2\na\n1\nb\n3");
    assert_eq!(world.run(&["del", "d/", "--prefix"]), "1");
    assert_eq!(world.run(&["del", "none"]), "0");
    assert_eq!(world.run(&["del", "", "--from-key"]), "1");
    assert_eq!(keys(&["", "--prefix"]), "");
    assert_eq!(world.run(&["compaction", "5", "--physical"]), "compacted revision 5");
    assert_eq!(world.run(&["defrag"]).lines().count(), 3);
    assert_eq!(world.run(&["alarm", "disarm"]), "");
}

/// What `member list` says of each: its number, whether it started, its address, whether it is a learner.
fn members(world: &World) -> Vec<(String, String, String, bool)> {
    let list = world.run(&["member", "list"]);
    let member = |line: &str| {
        let words: Vec<&str> = line.split(", ").collect();
        (words[0].to_owned(), words[1].to_owned(), words[3].to_owned(), words[5] == "true")
    };
    list.lines().map(member).collect()
}

fn number_of(world: &World, address: &str) -> Option<String> {
    let url = format!("https://{address}");
    members(world).into_iter().find(|(_, _, peer, _)| *peer == url).map(|(number, ..)| number)
}

/// Makes the directory of a replica that was added, and runs it.
fn start(world: &World, id: &str, etcd: u16) -> Server {
    let directory = world.cluster.directory();
    let place = directory.to_str().expect("UTF-8");
    let etcd = format!("127.0.0.1:{etcd}");
    quorate(&["member", "make", id, "--dir", place, "--etcd", &etcd]).ok();
    Server::start(&directory.join(format!("replica-{id}/replica.toml")))
}

#[test]
fn members_are_added_updated_promoted_and_removed() {
    let Some(world) = World::start() else { return };
    world.run(&["put", "before", "1"]);
    let ports = free_ports(5);
    let [wrong, right, other] = [0, 1, 2].map(|at| format!("127.0.0.1:{}", ports[at]));
    let peer = |address: &str| format!("--peer-urls=https://{address}");
    let add = ["member", "add", "four", "--learner", &peer(&wrong)];
    assert!(world.fail(&add).contains("permission denied"), "a client's certificate is not enough");
    let said = world.operate(&add);
    assert!(said.contains(" added as learner to cluster ") && said.contains("ETCD_NAME=\"four\""), "{said}");
    assert_eq!(members(&world).len(), 4);
    let number = number_of(&world, &wrong).expect("it is a member");
    assert!(world.operate(&["member", "update", &number, &peer(&right)]).contains("updated in cluster"));
    assert_eq!(number_of(&world, &right).as_ref(), Some(&number));
    let unready = world.operator(&["member", "promote", &number]).output().expect("etcdctl runs");
    assert!(String::from_utf8_lossy(&unready.stderr).contains("in sync with leader"), "{unready:?}");
    let place = world.cluster.directory().to_str().expect("UTF-8");
    quorate(&["member", "make", "1", "--dir", place]).fails(2, &["votes already"]);
    quorate(&["member", "make", "4", "--dir", place]).fails(2, &["--front"]);
    let four = start(&world, "4", ports[3]);
    wait_until("it is promoted", || {
        world.operator(&["member", "promote", &number]).output().expect("etcdctl runs").status.success()
    });
    wait_until("it says where it serves", || {
        let list = members(&world);
        list.iter().any(|(id, state, _, learner)| *id == number && state == "started" && !learner)
    });
    let endpoint = format!("https://127.0.0.1:{}", ports[3]);
    let mut get = world.command(&["get", "before", "--print-value-only"]);
    get.env("ETCDCTL_ENDPOINTS", &endpoint);
    assert_eq!(printed(get), "1");
    let again = world.operator(&["member", "promote", &number]).output().expect("etcdctl runs");
    assert!(String::from_utf8_lossy(&again.stderr).contains("can only promote a learner"), "{again:?}");

    // One that is to vote does so by itself when it has caught up.
    world.operate(&["member", "add", "five", &peer(&other)]);
    let five = start(&world, "5", ports[4]);
    wait_until("it votes", || members(&world).iter().all(|(_, _, _, learner)| !learner));
    assert_eq!(members(&world).len(), 5);
    for (address, server) in [(&right, four), (&other, five)] {
        let number = number_of(&world, address).expect("it is a member");
        assert!(world.operate(&["member", "remove", &number]).contains("removed from cluster"));
        server.stop();
        let gone = world.operator(&["member", "remove", &number]).output().expect("etcdctl runs");
        assert!(String::from_utf8_lossy(&gone.stderr).contains("member not found"), "{gone:?}");
    }
    assert_eq!(world.run(&["member", "list"]).lines().count(), 3);
    assert_eq!(world.run(&["get", "before", "--print-value-only"]), "1");
}

#[test]
fn leadership_moves() {
    let Some(world) = World::start() else { return };
    world.run(&["put", "before", "1"]);
    let leader = |world: &World| {
        let status: serde_json::Value =
            serde_json::from_str(&world.run(&["endpoint", "status", "-w", "json"])).expect("JSON");
        status[0]["Status"]["leader"].as_u64().expect("somebody leads")
    };
    let before = leader(&world);
    let numbers = members(&world).into_iter().map(|(number, ..)| number);
    let to = numbers.into_iter().find(|number| *number != format!("{before:x}")).expect("another one");
    assert!(world.fail(&["move-leader", &to]).contains("permission denied"));
    assert_eq!(
        world.operate(&["move-leader", &to]),
        format!("Leadership transferred from {before:x} to {to}")
    );
    wait_until("all know", || format!("{:x}", leader(&world)) == to);
    let unknown = world.operator(&["move-leader", "77"]).output().expect("etcdctl runs");
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("bad leader transferee"), "{unknown:?}");

    // With users, root is an operator, and whoever has an operator's certificate is none by that alone.
    world.run(&["user", "add", "root:top"]);
    world.run(&["user", "grant-role", "root", "root"]);
    world.run(&["auth", "enable"]);
    let back = format!("{before:x}");
    let refused = world.operator(&["move-leader", &back]).output().expect("etcdctl runs");
    assert!(!refused.status.success(), "{refused:?}");
    let moved = world.run(&["--user", "root:top", "move-leader", &back]);
    assert_eq!(moved, format!("Leadership transferred from {to} to {back}"));
    world.run(&["--user", "root:top", "auth", "disable"]);
    assert_eq!(world.run(&["get", "before", "--print-value-only"]), "1");
}

/// The addresses of another cluster as etcdctl takes them.
fn endpoints(cluster: &Cluster) -> String {
    let addresses = cluster.ready["etcd"].as_array().expect("addresses").iter();
    let urls = addresses.map(|address| format!("https://{}", address.as_str().expect("an address")));
    urls.collect::<Vec<_>>().join(",")
}

#[test]
fn what_is_saved_becomes_a_cluster_with_the_same_keys() {
    let Some(world) = World::start() else { return };
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name).to_str().expect("UTF-8").to_owned();
    // More than one message of the stream, and not a multiple of anything.
    for key in 0..40 {
        world.run(&["put", &format!("key-{key:02}"), &format!("{key}").repeat(1500)]);
    }
    world.run(&["del", "key-07"]);
    let (file, out) = (path("state.db"), path("again"));
    let one = world.endpoints.split(',').next().expect("an address");
    let mut refused = world.command(&["snapshot", "save", &path("none")]);
    let refused = refused.env("ETCDCTL_ENDPOINTS", one).output().expect("etcdctl runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("PermissionDenied"), "{said}");
    let mut save = world.operator(&["snapshot", "save", &file]);
    save.env("ETCDCTL_ENDPOINTS", one);
    assert!(printed(save).contains("saved at"));
    world.run(&["put", "later", "x"]);
    let shown = quorate(&["backup", "show", &file]).ok();
    assert!(shown.contains("objects"), "{shown}");
    quorate(&["backup", "verify", &file]).ok();
    let left = world.cluster.ids().into_iter().map(|id| world.cluster.replica_directory(id));
    assert!(left.map(|place| place.join("data/etcd-backup")).all(|place| !place.exists()));

    quorate(&["backup", "restore", &file, "--out", &out, "--service", "etcd"]).ok();
    let again = Cluster::at(Path::new(&out));
    let clients = again.directory().join("clients");
    let get = |arguments: &[&str]| {
        let mut get = world.command(arguments);
        get.env("ETCDCTL_ENDPOINTS", endpoints(&again))
            .env("ETCDCTL_CACERT", clients.join("ca.pem"))
            .env("ETCDCTL_CERT", clients.join("default.pem"))
            .env("ETCDCTL_KEY", clients.join("default.key"));
        printed(get)
    };
    let all = ["get", "key-", "--prefix"];
    assert_eq!(get(&all), world.run(&all));
    assert_eq!(get(&["get", "key-03", "--rev", "10"]), world.run(&["get", "key-03", "--rev", "10"]));
    assert_eq!(get(&["get", "later"]), "");
    assert_eq!(get(&["put", "later", "y"]), "OK");
    assert_eq!(get(&["member", "list"]).lines().count(), 3);

    let mut bytes = fs::read(&file).expect("it is there");
    let at = bytes.len() - 5;
    bytes[at] ^= 1;
    fs::write(&file, bytes).expect("written");
    quorate(&["backup", "verify", &file]).fails(1, &["SHA-256"]);
}

//! Backups of real clusters: made, verified, damaged, restored; with a replica down, with one replica, without disks. And what lies
//! at rest on a replica, damaged and mended.

use crate::harness::kv::client;
use crate::harness::{Cluster, Ran, Server, free_ports, program, quorate, wait_until};
use quorate::client::ReadOptions;
use quorate_kv::{KvCommand, KvQuery, KvReply, Operation};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const KEYS: u64 = 48;
/// So that a state has many chunks, and they come from several replicas.
const VALUE_BYTES: usize = 128 << 10;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn json(ran: Ran) -> Value {
    serde_json::from_str(&ran.ok()).expect("JSON")
}

/// Makes a cluster of the key-value service of a backup.
fn restore(backup: &Path, out: &Path, more: &[&str]) -> Ran {
    let all = ["backup", "restore", text(backup), "--service", "kv", "--out", text(out)];
    quorate(&[&all, more].concat())
}

fn value_of(key: u64) -> Vec<u8> {
    (0..VALUE_BYTES as u64).map(|at| (at.wrapping_mul(key + 1) >> 3) as u8).collect()
}

fn put_many(directory: &Path) {
    let session = client(directory).open_session().expect("a session");
    for key in 0..KEYS {
        let (name, value) = (format!("many/{key:03}"), value_of(key));
        let mut bytes = Vec::new();
        KvCommand::One(Operation::Put { key: name.as_bytes(), value: &value }).encode(&mut bytes);
        session.call_one(&bytes).expect("it is written");
    }
    session.close().expect("it is closed");
}

#[track_caller]
fn check_many(directory: &Path) {
    let client = client(directory);
    for key in 0..KEYS {
        let mut query = Vec::new();
        KvQuery::Get { key: format!("many/{key:03}").as_bytes() }.encode(&mut query);
        let read = client.read(query, ReadOptions::STRONG).expect("it is read");
        let found = KvReply::decode(&read.body).expect("a reply");
        assert!(matches!(found, KvReply::Value(Some(value)) if value == value_of(key)), "key {key}");
    }
}

/// Nothing but these files is in a directory.
#[track_caller]
fn holds_only(directory: &Path, names: &[&str]) {
    let entries = fs::read_dir(directory).expect("it can be read");
    let mut found: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    assert_eq!(found, names);
}

#[test]
fn a_backup_becomes_a_new_cluster_with_the_same_state() {
    let (cluster, place) = (Cluster::start(&[]), tempfile::tempdir().expect("a directory"));
    let path = |name: &str| place.path().join(name);
    put_many(cluster.directory());
    cluster.ok(&["kv", "put", "before", "yes"]);
    let first = path("first.qbk");
    let made = json(cluster.run(&["backup", "create", "--fresh", "--json", text(&first)]));
    assert_eq!(made["objects"], KEYS + 1);
    assert_eq!(made["vouched_by"].as_array().expect("a list").len(), 3);
    assert!(!made["fetched_from"].as_array().expect("a list").is_empty(), "{made}");
    assert!(made["objects_bytes"].as_u64() >= Some(KEYS * VALUE_BYTES as u64));

    // Written later: not in it. And a second one without a new checkpoint is the same file, byte for byte.
    cluster.ok(&["kv", "put", "after", "yes"]);
    let second = path("second.qbk");
    wait_until("all replicas have it on their disks", || {
        let status = cluster.status();
        let replicas = status["replicas"].as_array().expect("a list");
        replicas.iter().all(|replica| replica["status"]["checkpoints"]["durable_seq"] == made["seq"])
    });
    let again = json(cluster.run(&["backup", "create", "--json", text(&second)]));
    assert_eq!((&again["seq"], &again["digest"]), (&made["seq"], &made["digest"]));
    assert!(again["fetched_from"].as_array().expect("a list").len() >= 2, "{again}");
    assert!(fs::read(&first).expect("it is there") == fs::read(&second).expect("it is there"));
    holds_only(place.path(), &["first.qbk", "second.qbk"]);
    let verified = json(quorate(&["backup", "verify", "--json", text(&first)]));
    let shown = json(quorate(&["backup", "show", "--json", text(&first)]));
    for key in ["cluster", "seq", "border", "digest", "sessions", "agreed_time_ns", "file_bytes"] {
        assert_eq!((&verified[key], &shown[key]), (&made[key], &made[key]), "{key}");
    }
    assert_eq!((&verified["objects"], &shown["objects"]), (&made["objects"], &Value::Null));

    // More replicas than before, while the old cluster goes on.
    let out = path("restored");
    let said = restore(&first, &out, &["--replicas", "5"]).ok();
    assert!(said.contains("is not in it") && said.contains("quorate dev --dir"), "{said}");
    holds_only(place.path(), &["first.qbk", "restored", "second.qbk"]);
    restore(&first, &out, &[]).fails(2, &["exists and is not empty"]);
    let own = path("own");
    let own_service = ["backup", "restore", text(&first), "--own-service", "bank", "--out", text(&own)];
    for more in [&[][..], &["--members", "1=a:1,2=b:2,3=c:3"]] {
        let refused = quorate(&[&own_service[..], more].concat());
        refused.fails(1, &["the service kv", "was to run bank", "--service kv"]);
    }
    assert!(!own.exists(), "nothing is made");
    let restored = Cluster::at(&out);
    assert_ne!(restored.status()["cluster"], cluster.status()["cluster"]);
    check_many(&out);
    assert_eq!(restored.ok(&["kv", "get", "before"]), "yes");
    assert_eq!(restored.run(&["kv", "get", "after"]).code, Some(1));
    restored.ok(&["kv", "put", "later", "yes"]);
    restored.ok(&["kv", "put", "before", "changed"]);

    // It lives on its own: after a crash of everything, and in a backup of its own.
    let third = path("third.qbk");
    let its = json(restored.run(&["backup", "create", "--fresh", "--json", text(&third)]));
    assert!(its["seq"].as_u64() > made["seq"].as_u64() && its["border"].as_u64() > made["border"].as_u64());
    assert_eq!((&its["cluster"], &its["objects"]), (&restored.status()["cluster"], &Value::from(KEYS + 2)));
    for id in restored.ids() {
        restored.kill(id);
    }
    restored.ids().into_iter().for_each(|id| restored.restart(id));
    restored.wait_for_leader();
    check_many(&out);
    assert_eq!(restored.ok(&["kv", "get", "before"]), "changed");
    assert_eq!(restored.ok(&["kv", "get", "later"]), "yes");
    assert_eq!(cluster.ok(&["kv", "get", "before"]), "yes", "the old one has nothing to do with it");
}

#[test]
fn old_backups_go_once_the_newest_is_sound() {
    let (cluster, place) = (Cluster::start(&["--replicas", "1"]), tempfile::tempdir().expect("a directory"));
    let path = |name: &str| place.path().join(name);
    for name in ["one.qbk", "three.qbk", "two.qbk"] {
        cluster.ok(&["kv", "put", "key", name]);
        cluster.ok(&["backup", "create", "--fresh", text(&path(name))]);
    }
    fs::write(path("notes.qbk"), "no backup").expect("it can be written");
    fs::write(path("other.txt"), "of somebody else").expect("it can be written");
    let all = ["notes.qbk", "one.qbk", "other.txt", "three.qbk", "two.qbk"];
    let prune = |more: &[&str]| quorate(&[&["backup", "prune", text(place.path())], more].concat());

    // It only says what it would do, and all of them are of one day.
    let said = prune(&["--keep-daily", "7"]).ok();
    assert!(said.contains("1 kept, 2 would go") && said.contains("left     notes.qbk"), "{said}");
    let plan = json(prune(&["--keep-last", "2", "--json"]));
    let kept =
        |at: usize| (&plan["backups"][at]["file"], plan["backups"][at]["kept"].as_array().map(Vec::len));
    assert_eq!(kept(0), (&Value::from(text(&path("two.qbk"))), Some(2)));
    assert_eq!(kept(2), (&Value::from(text(&path("one.qbk"))), Some(0)));
    prune(&["--delete"]).fails(2, &["--keep-last"]);
    holds_only(place.path(), &all);

    // As long as the newest is damaged, nothing goes.
    let sound = fs::read(path("two.qbk")).expect("it is there");
    let mut bytes = sound.clone();
    bytes[sound.len() / 3] ^= 1;
    fs::write(path("two.qbk"), bytes).expect("it can be written");
    prune(&["--keep-last", "1", "--delete"]).fails(1, &["nothing was deleted", "two.qbk"]);
    holds_only(place.path(), &all);
    fs::write(path("two.qbk"), sound).expect("it can be written");

    assert!(prune(&["--keep-last", "2", "--delete"]).ok().contains("2 kept, 1 deleted"));
    holds_only(place.path(), &["notes.qbk", "other.txt", "three.qbk", "two.qbk"]);
    quorate(&["backup", "verify", text(&path("two.qbk"))]).ok();
}

#[test]
fn damage_anywhere_in_a_backup_is_found() {
    let (cluster, place) = (Cluster::start(&["--replicas", "1"]), tempfile::tempdir().expect("a directory"));
    for at in 0..20 {
        cluster.ok(&["kv", "put", &format!("key{at}"), &"value".repeat(at)]);
    }
    let file = place.path().join("sound.qbk");
    cluster.ok(&["backup", "create", "--fresh", text(&file)]);
    let sound = fs::read(&file).expect("it is there");
    let damaged = place.path().join("damaged.qbk");
    let out = place.path().join("out");
    // Every byte of the parts, and of header and manifest; the footers are pages of which most bytes are zero.
    let places = (0..sound.len()).filter(|at| *at + 2 * 4096 < sound.len() || at % 41 == 0);
    for at in places.chain([sound.len() - 1]) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&damaged, bytes).expect("it can be written");
        let ran: Ran = program().args(["backup", "verify", text(&damaged)]).output().expect("it runs").into();
        let err = ran.fails(1, &["damaged.qbk"]);
        assert!(err.contains("is damaged"), "byte {at}: {err}");
    }
    for (bytes, says) in [
        (&sound[..sound.len() - 1], "its end is gone"),
        (&sound[..sound.len() / 2], "its end is gone"),
        (b"something else", "it is no checkpoint"),
        (b"", "it is no checkpoint"),
    ] {
        fs::write(&damaged, bytes).expect("it can be written");
        quorate(&["backup", "verify", text(&damaged)]).fails(1, &[says]);
        quorate(&["backup", "show", text(&damaged)]).fails(1, &[says]);
        restore(&damaged, &out, &[]).fails(1, &[says]);
    }
    let missing = place.path().join("missing.qbk");
    quorate(&["backup", "verify", text(&missing)]).fails(1, &["can not read", "missing.qbk"]);
    // Nothing was made of damaged ones, and the sound one is as it was.
    holds_only(place.path(), &["damaged.qbk", "sound.qbk"]);
    quorate(&["backup", "verify", text(&file)]).ok();
    assert!(fs::read(&file).expect("it is there") == sound);
}

#[test]
fn a_majority_is_enough_and_less_is_not() {
    let (cluster, place) = (Cluster::start(&[]), tempfile::tempdir().expect("a directory"));
    cluster.ok(&["kv", "put", "first", "1"]);
    let leader = cluster.wait_for_leader();
    let others: Vec<u16> = cluster.ids().into_iter().filter(|id| *id != leader).collect();
    cluster.kill(others[0]);
    cluster.ok(&["kv", "put", "second", "2"]);
    let file = place.path().join("two.qbk");
    let made = json(cluster.run(&["backup", "create", "--fresh", "--json", text(&file)]));
    assert_eq!(made["objects"], 2, "what the two acknowledged is in it");
    assert_eq!(made["vouched_by"].as_array().expect("a list").len(), 2);
    assert_eq!(made["not_asked"][0]["replica"], others[0]);
    quorate(&["backup", "verify", text(&file)]).ok();

    let before = fs::read(&file).expect("it is there");
    cluster.run(&["backup", "create", text(&file)]).fails(2, &["exists", "choose another name"]);
    let nowhere = place.path().join("nowhere/file.qbk");
    cluster.run(&["backup", "create", text(&nowhere)]).fails(1, &["can not make", "nowhere"]);
    cluster.kill(others[1]);
    let one = place.path().join("one.qbk");
    let why = cluster.run(&["backup", "create", text(&one)]).fails(1, &["2 must agree"]);
    assert!(why.contains(&format!("r{}", others[0])) && why.contains(&format!("r{}", others[1])), "{why}");
    cluster
        .run(&["backup", "create", "--fresh", text(&one)])
        .fails(1, &["a majority of the replicas must be up"]);
    holds_only(place.path(), &["two.qbk"]);
    assert!(fs::read(&file).expect("it is there") == before);
}

#[test]
fn a_cluster_without_disks_comes_back_from_its_backup_on_other_machines() {
    let cluster = Cluster::start(&["--durability", "memory", "--replicas", "1"]);
    let place = tempfile::tempdir().expect("a directory");
    cluster.ok(&["kv", "put", "kept", "in memory"]);
    let file = place.path().join("memory.qbk");
    cluster.ok(&["backup", "create", "--fresh", text(&file)]);
    drop(cluster);
    let out = place.path().join("machines");
    let restore = |members: &str| restore(&file, &out, &["--members", members]);
    restore("127.0.0.1:1,2=127.0.0.1:2").fails(2, &["give an id to every member, or to none"]);
    restore("somewhere").fails(2, &["the port is missing"]);
    let addresses: Vec<String> = free_ports(2).iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let said = restore(&addresses.join(",")).ok();
    assert!(said.contains("quorate serve --config") && !said.contains("quorate dev"), "{said}");
    let servers: Vec<Server> =
        [1, 2].iter().map(|id| Server::start(&out.join(format!("replica-{id}/replica.toml")))).collect();
    servers.iter().for_each(|server| server.wait_until_it_says("is ready on"));
    wait_until("it answers", || {
        let ran = quorate(&["kv", "get", "kept", "--dir", text(&out)]);
        ran.code == Some(0) && ran.out.trim() == "in memory"
    });
    quorate(&["kv", "put", "and", "on", "--dir", text(&out)]).ok();
    servers.into_iter().for_each(|server| assert_eq!(server.stop().code, Some(0)));
}

/// The only checkpoint of a replica.
fn checkpoint(cluster: &Cluster, id: u16) -> PathBuf {
    let directory = cluster.replica_directory(id).join("data/checkpoints");
    let entries = fs::read_dir(directory).expect("it is there").map(|entry| entry.expect("an entry").path());
    let mut full: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "full")).collect();
    assert_eq!(full.len(), 1, "{full:?}");
    full.remove(0)
}

#[test]
fn what_rots_at_rest_is_found_and_mended() {
    let cluster = Cluster::start(&[]);
    let place = tempfile::tempdir().expect("a directory");
    put_many(cluster.directory());
    cluster.ok(&["backup", "create", "--fresh", text(&place.path().join("a.qbk"))]);
    // Also the third replica has written its file by now, or will soon.
    wait_until("three durable checkpoints", || {
        let status = cluster.status();
        let durable = |at: usize| status["replicas"][at]["status"]["checkpoints"]["durable_seq"].as_u64();
        (0..3).all(|at| durable(at) > Some(0))
    });
    let sound = fs::read(checkpoint(&cluster, 1)).expect("it is there");
    for id in [2, 3] {
        let same = fs::read(checkpoint(&cluster, id)).expect("it is there") == sound;
        assert!(same, "replica {id} has the same file");
    }
    let said = cluster.ok(&["scrub"]);
    assert_eq!(said.matches("all of it is sound").count(), 3, "{said}");

    // In a part, in a copy of the manifest, in the last footer.
    let mut rotten = sound.clone();
    let len = rotten.len();
    for at in [40, len / 2, len - 2 * 4096 - 100, len - 4000] {
        rotten[at] ^= 0x10;
    }
    let file = checkpoint(&cluster, 2);
    let on_disk = fs::OpenOptions::new().write(true).open(&file).expect("it can be opened");
    std::os::unix::fs::FileExt::write_all_at(&on_disk, &rotten, 0).expect("it can be written");
    let scrubbed = json(cluster.run(&["scrub", "--json", "2"]));
    assert_eq!(scrubbed[0]["damaged"], 0, "{scrubbed}");
    assert!(scrubbed[0]["mended"].as_u64() >= Some(3), "{scrubbed}");
    assert!(fs::read(&file).expect("it is there") == sound, "it is as it was");
    assert!(cluster.log(2).contains("is damaged on this disk"), "{}", cluster.log(2));

    cluster.kill(3);
    let ran = cluster.run(&["scrub"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("replica 1:") && ran.out.contains("replica 3: no connection"), "{}", ran.out);
    cluster.run(&["scrub", "9"]).fails(2, &["no such replica"]);
}

//! Files, keys, and what is said of them, with the files that pin the format.

use super::Grounds;
use super::ask::{self, Held, together};
use super::keys::{self, Known};
use super::show;
use quorate::client::Authentication;
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_order::mod_smart::evidence::Evidence;
use quorate_types::{ClusterId, FaultModel, ReplicaId};
use std::fs;
use std::path::{Path, PathBuf};

/// The key of the replica in these files.
const KEY: &str = "ed4928c628d1c2c6eae90338905995612959273a5c63f93636c14614ac8737d1";
const OTHER_KEY: &str = "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29";

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/evidence")
}

fn seed(name: &str) -> Evidence {
    ask::read(&corpus().join(name)).expect("a file of the corpus")
}

fn config(cluster: u128, key: &str) -> String {
    let member = |replica: u16, key: &str| {
        format!("[[members]]\nreplica = {replica}\naddress = \"a:1\"\nkey = \"{key}\"\n")
    };
    format!("cluster = \"{cluster:032x}\"\nreplica = 1\n{}{}", member(1, OTHER_KEY), member(3, key))
}

/// The keys that a configuration in a directory of its own has.
fn known(text: &str) -> Known {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("replica.toml");
    fs::write(&file, text).expect("it is written");
    keys::find(&ClusterArgs { dir: None, config: Some(file) }).unwrap_or_else(|_| panic!("usable: {text}"))
}

#[test]
fn a_proof_is_checked_with_the_keys_that_are_known() {
    let proof = seed("seed_two_accepts");
    assert_eq!(known(&config(7, KEY)).judge(&proof), Ok(()));
    let refused = |known: Known, says: &str| {
        let why = known.judge(&proof).expect_err("it proves nothing");
        assert!(why.contains(says), "{why}");
    };
    refused(known(&config(7, OTHER_KEY)), "another key");
    refused(known(&config(8, KEY)), "of another one");
    refused(known("cluster = \"00000000000000000000000000000007\"\n"), "no key of r3");
    assert!(known(&config(7, KEY)).judge(&seed("seed_nothing")).is_err());
    let by_hand = |key: &str| Known::of(&proof, key).map(|known| known.judge(&proof));
    assert!(matches!(by_hand(KEY), Ok(Ok(()))) && matches!(by_hand(OTHER_KEY), Ok(Err(_))));
    assert!(
        by_hand("ed49").is_err() && by_hand(&"é".repeat(32)).is_err() && by_hand(&"0".repeat(64)).is_err()
    );
    // Without a key in the file, nothing changes: that key was never what counts.
    assert_eq!(known(&config(7, KEY)).judge(&seed("seed_without_key")), Ok(()));
}

/// A directory of `quorate dev` has the configurations of the replicas below it.
#[test]
fn keys_are_found_beside_a_client_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let client = directory.path().join("client.toml");
    fs::write(&client, "cluster = \"00000000000000000000000000000007\"\nmembers = []\n")
        .expect("it is written");
    let find = |args: &ClusterArgs| keys::find(args).map(|known| known.judge(&seed("seed_accept_denied")));
    let args = ClusterArgs { dir: None, config: Some(client) };
    let why = keys::find(&args).expect_err("no keys are there").to_string();
    assert!(why.contains("--key"), "{why}");
    let replica = directory.path().join("replica-1");
    fs::create_dir(&replica).expect("it is made");
    fs::write(replica.join("replica.toml"), config(7, KEY)).expect("it is written");
    assert!(matches!(find(&args), Ok(Ok(()))));
    assert!(matches!(find(&ClusterArgs { dir: Some(directory.path().into()), config: None }), Ok(Ok(()))));
}

/// A cluster, by what of it counts here.
fn cluster(id: u128) -> Cluster {
    Cluster {
        id: ClusterId::new(id),
        fault_model: FaultModel::Byzantine,
        members: Vec::new(),
        learners: Vec::new(),
        membership: None,
        keys: [].into(),
        faults: None,
        era: 1,
        weighted: false,
        authentication: Authentication::Links,
        tls: None,
        directory: PathBuf::new(),
    }
}

/// Nobody is replaced for what another replica did, in another cluster, or for what somebody made up.
#[test]
fn evidence_is_a_reason_only_against_who_signed_it() {
    let (three, five) = (ReplicaId::new(3), ReplicaId::new(5));
    let prove = |file: &str, of: u128, old: u16, key: Option<&str>| {
        let judged = Grounds(seed(file)).prove(&cluster(of), ReplicaId::new(old), key);
        judged.map_err(|why| why.to_string())
    };
    assert_eq!(prove("seed_two_accepts", 7, 3, Some(KEY)), Ok(()));
    let proof = Grounds(seed("seed_two_accepts"));
    assert_eq!(
        proof.reason(three, five),
        "r5 replaces r3 on the evidence r3-two-accepts-i1-v2-s17.proof: r3 signed two different accepts for slot 17 in view 2"
    );
    for (file, of, old, key, says) in [
        ("seed_two_accepts", 7, 2, Some(KEY), "it is against r3, and says nothing of r2"),
        ("seed_two_accepts", 8, 3, Some(KEY), "and this one is 00000000000000000000000000000008"),
        ("seed_two_accepts", 7, 3, None, "the members name no key of it"),
        // Whoever made it signed with a key of his own, and put that into the file.
        (
            "seed_two_accepts",
            7,
            3,
            Some(OTHER_KEY),
            "it was signed with another key than the one in the membership",
        ),
        ("seed_nothing", 7, 3, Some(KEY), "it proves nothing"),
    ] {
        let why = prove(file, of, old, key).expect_err(says);
        assert!(why.contains(says) && why.contains(&format!("r{old} is not replaced")), "{why}");
    }
    assert!(prove("seed_two_accepts", 7, 3, Some("7")).is_err(), "that is no key");
}

#[test]
fn what_several_replicas_hold_is_listed_once() {
    let (one, other) = (seed("seed_two_accepts"), seed("seed_impossible_statement"));
    let answers = vec![
        (ReplicaId::new(1), Ok(vec![one.clone()])),
        (ReplicaId::new(2), Err("no answer in time".to_owned())),
        (ReplicaId::new(4), Ok(vec![other.clone(), one.clone()])),
    ];
    let (held, silent) = together(answers);
    assert_eq!(silent, [(2, "no answer in time".to_owned())]);
    let by: Vec<(String, String)> = held.iter().map(|held| (held.name(), held.by.join(" "))).collect();
    assert_eq!(by[0].1, "r4");
    assert_eq!(by[1], ("r3-two-accepts-i1-v2-s17.proof".into(), "r1 r4".into()));
    assert!(held[1].text().starts_with("r3 signed two different accepts for slot 17 in view 2\n"));
    assert_eq!(held[1].json()["held_by"][1], "r4");
}

#[test]
fn a_directory_is_listed() {
    let data = tempfile::tempdir().expect("a directory");
    let inner = data.path().join("evidence");
    fs::create_dir(&inner).expect("it is made");
    fs::copy(corpus().join("seed_two_accepts"), inner.join("a.proof")).expect("it is copied");
    fs::write(inner.join("b.proof"), b"QEVIDENC").expect("it is written");
    for directory in [data.path(), &inner] {
        let held: Vec<Held> = ask::in_directory(directory).unwrap_or_else(|_| panic!("it can be read"));
        assert_eq!(held.len(), 1);
        assert_eq!(held[0].evidence, seed("seed_two_accepts"));
    }
    assert!(ask::in_directory(&data.path().join("nowhere")).is_err());
}

/// Each kind is shown with who, when, what, and the values that were signed.
#[test]
fn evidence_is_shown_in_words() {
    let text = show::text(&seed("seed_two_accepts"));
    for part in [
        "r3 signed two different accepts for slot 17 in view 2.",
        "A replica accepts one value for a slot in a view.",
        "cluster      00000000000000000000000000000007",
        KEY,
        "ACCEPT for slot 17 in view 2",
        &"01".repeat(32),
        &"02".repeat(32),
    ] {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
    let text = show::text(&seed("seed_accept_denied"));
    for part in
        ["denied it in view 3", "statement on entering view 3", "up to slot 16; of slot 17", "in view 1"]
    {
        assert!(text.contains(part), "`{part}` is missing in:\n{text}");
    }
    let json = show::json(&seed("seed_two_statements"));
    assert_eq!((json["kind"].as_str(), json["slot"].as_u64()), (Some("two-statements"), Some(17)));
    assert_eq!(json["statements"][0]["locked"]["view"], 2);
    assert!(json["statements"][1]["locked"].is_null());
}

//! `--empty`: the settings of a cluster, for a new one.

use super::{CLUSTER, IDS, KINDS, SECRET, cluster, export, exported, files};
use crate::harness::{edit, quorate};
use quorate_runtime::{Config, DataDirectory};
use std::fs;
use std::path::Path;

/// A replica with this configuration opens the data directory.
#[track_caller]
pub(super) fn opens(config: &str, data: &Path) -> Config {
    let mut config: Config = toml::from_str(config).expect("a configuration");
    config.data = data.to_owned();
    DataDirectory::open(&config).unwrap_or_else(|why| panic!("{why}"));
    config
}

#[test]
fn a_new_cluster_has_the_settings_and_nothing_else() {
    for kind in KINDS {
        let directory = cluster();
        // It needs no key of the old authority.
        fs::remove_dir_all(directory.path().join("cluster/ca")).expect("it is there");
        let (out, ran) = export(directory.path(), kind, &["--empty"]);
        let said = ran.ok();
        assert!(said.contains(&out.join("ca").display().to_string()), "{said}");
        let all = files(&out);
        for (name, text) in &all {
            let old = [CLUSTER, "1111111111111111", SECRET].into_iter().find(|old| text.contains(old));
            assert_eq!(old, None, "{kind}/{name}");
        }
        assert!(all["ca/ca.key"].contains("PRIVATE KEY"));
        assert_eq!(all["replica-1/tls/ca.pem"], all["ca/ca.pem"]);
        assert!(
            !all["README.md"].contains("DIR/replica"),
            "there is nothing to be moved: {}",
            all["README.md"]
        );
        assert_eq!(all.contains_key("replica-1/data/identity.toml"), kind != "kubernetes");
        assert_eq!(all.contains_key("begin/begin.yaml"), kind == "kubernetes");
        if kind == "kubernetes" {
            continue;
        }
        let mut clusters = Vec::new();
        for id in IDS {
            let place = out.join(format!("replica-{id}"));
            let text = fs::read_to_string(place.join("replica.toml")).expect("text");
            let config = opens(&text, &place.join("data"));
            assert_eq!(config.checkpoints.interval_bytes, 64 << 20, "a setting");
            clusters.push(config.cluster);
        }
        assert!(clusters.iter().all(|cluster| *cluster == clusters[0]));
    }
}

/// Keys that configurations name come along; where replicas may lie, each new one signs with a new key.
#[test]
fn replicas_that_may_lie_take_their_keys_along() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let dir = directory.path().join("cluster");
    let made = dir.display().to_string();
    let members = "1=127.0.0.1:7001,2=127.0.0.1:7002,3=127.0.0.1:7003,4=127.0.0.1:7004";
    quorate(&[
        "init",
        "--dir",
        &made,
        "--members",
        members,
        "--service",
        "etcd",
        "--fault-model",
        "byzantine",
    ])
    .ok();
    fs::write(dir.join("replica-1/tokens"), SECRET).expect("a file can be written");
    let tokens = "[front.etcd.tokens]\nsign_method = \"HS256\"\nkey = \"tokens\"\n\n[durability]";
    edit(&dir.join("replica-1/replica.toml"), "[durability]", tokens);
    let key = |out: &Path| fs::read_to_string(out.join("replica-1/tls/signing.key")).expect("a key");
    let old = fs::read_to_string(dir.join("replica-1/signing.key")).expect("a key");
    let (out, ran) = export(directory.path(), "systemd", &[]);
    ran.ok();
    assert_eq!((key(&out), files(&out)["replica-1/tls/tokens.key"].as_str()), (old.clone(), SECRET));
    let config = Config::read(&out.join("replica-1/replica.toml")).expect("a configuration");
    let signing = config.signing.expect("a key");
    assert_eq!(signing.key, Path::new("/etc/quorate/replica-1/tls/signing.key"));
    let tokens = config.front["etcd"]["tokens"]["key"].as_str();
    assert_eq!(tokens, Some("/etc/quorate/replica-1/tls/tokens.key"));

    let (out, ran) = export(directory.path(), "compose", &["--empty"]);
    ran.ok();
    assert_ne!(key(&out), old);
    let text = fs::read_to_string(out.join("replica-1/replica.toml")).expect("text");
    let config = opens(&text, &out.join("replica-1/data"));
    let own = config.members[0].key.clone().expect("a key");
    let bytes: Vec<u8> = (0..64)
        .step_by(2)
        .map(|at| u8::from_str_radix(&key(&out)[at..at + 2], 16).expect("digits"))
        .collect();
    let secret: [u8; 32] = bytes.try_into().expect("32 bytes");
    assert_eq!(quorate_runtime::SigningKey::new(secret).public(), own, "others know it");
}

/// What `init` made and nobody ran needs no `--empty`: Kubernetes makes its volumes.
#[test]
fn a_cluster_that_never_ran_begins_in_kubernetes() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let dir = directory.path().join("cluster");
    let made = dir.display().to_string();
    quorate(&["init", "--dir", &made, "--members", "1=a:7000,2=b:7000,3=c:7000", "--service", "etcd"]).ok();
    let (out, ran) = export(directory.path(), "kubernetes", &[]);
    ran.ok();
    let identity = fs::read_to_string(dir.join("replica-3/data/identity.toml")).expect("text");
    let begin = fs::read_to_string(out.join("begin/begin.yaml")).expect("text");
    assert!(identity.lines().all(|line| begin.contains(&format!("    {line}\n"))), "{begin}");
    assert!(dir.join("replica-3/data/fresh").exists(), "it stays as it is");
    // A replica that ran keeps its data, and so do the others.
    fs::write(dir.join("replica-1/data/run.toml"), "").expect("a file can be written");
    fs::remove_dir_all(&out).expect("it is there");
    let (out, ran) = export(directory.path(), "kubernetes", &[]);
    ran.ok();
    assert!(!out.join("begin").exists());
    let (_directory, out) = exported("kubernetes", &[]);
    assert!(
        fs::read_to_string(out.join("README.md")).expect("text").contains("kubectl --namespace default cp")
    );
}

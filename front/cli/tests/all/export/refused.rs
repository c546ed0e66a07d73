//! What can not be deployed.

use super::{cluster, export};
use crate::harness::{copy, edit, quorate};
use std::fs;

#[test]
fn what_can_not_be_deployed_is_refused() {
    let directory = cluster();
    let systemd = |more: &[&str]| export(directory.path(), "systemd", more);
    let (out, ran) = systemd(&["--members", "1=10.0.0.1:7000"]);
    ran.fails(2, &["the address of replica 2 is missing"]);
    assert!(!out.exists());
    systemd(&["--members", "1=a:1,2=b:1,3=c:1,4=d:1"]).1.fails(2, &["there is no replica 4"]);
    systemd(&["--members", "1=a:1,2=b:1,3=c:1,1=d:1"]).1.fails(2, &["replica 1 is at a:1 and at d:1"]);
    let (out, _) = export(directory.path(), "compose", &[]);
    assert!(out.exists());
    export(directory.path(), "compose", &[]).1.fails(2, &["is not empty"]);
    export(directory.path(), "kubernetes", &["--image", "a\"b"]).1.fails(2, &["may stand here"]);
    let dir = directory.path().join("cluster").display().to_string();
    quorate(&["dev", "export", "--dir", &dir]).fails(2, &["--systemd"]);
    quorate(&["dev", "export", "--compose", "--kubernetes", "--dir", &dir])
        .fails(2, &["cannot be used with"]);
    quorate(&["dev", "export", "--compose", "--dir", "/nowhere"]).fails(2, &["/nowhere/client.toml"]);

    edit(&directory.path().join("cluster/client.toml"), "replica = 3", "replica = 5");
    let five = directory.path().join("cluster/replica-5");
    copy(&directory.path().join("cluster/replica-3"), &five);
    edit(&five.join("replica.toml"), "replica = 3\ndata", "replica = 5\ndata");
    edit(&five.join("replica.toml"), "[[members]]\nreplica = 3", "[[members]]\nreplica = 5");
    export(directory.path(), "kubernetes", &[]).1.fails(2, &["replica 2 is followed by replica 5"]);
    edit(&five.join("replica.toml"), "mode = \"group\"", "mode = \"memory\"");
    export(directory.path(), "systemd", &[]).1.fails(2, &["nothing to deploy"]);
}

#[test]
fn names_ports_and_sizes_that_can_not_be_are_refused() {
    let directory = cluster();
    let many = vec!["h"; 33].join(",");
    for (kind, more, says) in [
        ("systemd", &["--hosts", "bad host"][..], "as in db.example.org"),
        ("systemd", &["--hosts", "a:2379"], "no port belongs there"),
        ("systemd", &["--hosts", "10.0.0.300"], "it is neither"),
        ("kubernetes", &["--hosts", &many], "33 are too many"),
        ("systemd", &["--front-plain"], "only clients of ZooKeeper"),
        ("compose", &["--front-port", "21001"], "wanted by replica 1 and by clients of etcd at replica 1"),
        (
            "compose",
            &["--health-port", "2379"],
            "wanted by probes of replica 1 and by clients of etcd at replica 1",
        ),
        ("kubernetes", &["--front-port", "7000"], "wanted by replicas and by clients of etcd"),
        ("kubernetes", &["--health-port", "0"], "containers are probed"),
        ("systemd", &["--members", "1=a:2379,2=b:1,3=c:1"], "the port 2379 of a is wanted by replica 1"),
        (
            "systemd",
            &["--members", "1=a:1,2=a:1,3=c:1"],
            "the port 1 of a is wanted by replica 1 and by replica 2",
        ),
        ("compose", &["--memory", "4G"], "as in 4Gi"),
        ("compose", &["--publish", "somewhere"], "invalid"),
        ("compose", &["--publish", "0.0.0.0"], "say with --hosts"),
        ("compose", &["--publish", "0.0.0.0", "--hosts", "*.example.org"], "say with --hosts"),
        ("kubernetes", &["--storage", "much"], "as in 50Gi"),
        ("kubernetes", &["--namespace", "Db"], "small letters"),
        ("systemd", &["--namespace", "db"], "cannot be used with"),
        ("systemd", &["--empty", "--ca", "ca"], "cannot be used with"),
    ] {
        let (out, ran) = export(directory.path(), kind, more);
        ran.fails(2, &[says]);
        assert!(!out.exists(), "{more:?}");
    }
    let (_, ran) = export(directory.path(), "compose", &["--memory", "1Gi"]);
    let said = ran.ok();
    assert!(said.contains("more than 1024Mi") && said.contains("add up to 6784Mi"), "{said}");
}

#[test]
fn without_the_key_of_the_authority_there_are_no_certificates() {
    let directory = cluster();
    let safe = directory.path().join("safe");
    fs::rename(directory.path().join("cluster/ca"), &safe).expect("it can be moved");
    let (out, ran) = export(directory.path(), "systemd", &[]);
    let why = ran.fails(2, &["cluster/ca/ca.key", "--ca", "quorate cert new-authority --ca"]);
    assert!(!out.exists(), "{why}");
    let safe = safe.display().to_string();
    let (out, ran) = export(directory.path(), "systemd", &["--ca", &safe]);
    ran.ok();
    super::holds_for(&out, 1, &["127.0.0.1"]);

    // With a lost key a new authority helps, and those who trust the old one are trusted still.
    let old = fs::read_to_string(format!("{safe}/ca.pem")).expect("text");
    fs::remove_file(format!("{safe}/ca.key")).expect("it is there");
    quorate(&["cert", "new-authority", "--ca", &safe]).ok();
    let (out, ran) = export(directory.path(), "kubernetes", &["--ca", &safe]);
    ran.ok();
    let trusted = fs::read_to_string(out.join("clients/ca.pem")).expect("text");
    assert!(
        trusted.contains(old.trim_end()) && trusted.matches("BEGIN CERTIFICATE").count() == 2,
        "{trusted}"
    );

    let other = directory.path().join("other").display().to_string();
    quorate(&["init", "--dir", &other, "--members", "1=127.0.0.1:7000"]).ok();
    let (out, ran) = export(directory.path(), "compose", &["--ca", &format!("{other}/ca")]);
    ran.fails(2, &["name the right one with --ca"]);
    assert!(!out.exists());
}

#[test]
fn a_plain_cluster_has_no_certificates() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let dir = directory.path().join("cluster").display().to_string();
    quorate(&[
        "init",
        "--dir",
        &dir,
        "--members",
        "1=a:7000,2=b:7000,3=c:7000",
        "--service",
        "etcd",
        "--plain",
    ])
    .ok();
    export(directory.path(), "compose", &["--hosts", "a"])
        .1
        .fails(2, &["connections of this cluster are plain"]);
    let (out, ran) = export(directory.path(), "kubernetes", &[]);
    let said = ran.ok();
    assert!(!said.contains("Keys are"), "{said}");
    assert!(
        !out.join("secrets.yaml").exists()
            && !out.join("replica-1").exists()
            && !out.join("clients").exists()
    );
    let text = fs::read_to_string(out.join("quorate.yaml")).expect("text");
    assert!(!text.contains("take-keys") && !text.contains("emptyDir"), "{text}");
    assert!(
        fs::read_to_string(out.join("README.md"))
            .expect("text")
            .contains("http://quorate-client.default.svc:2379")
    );
}

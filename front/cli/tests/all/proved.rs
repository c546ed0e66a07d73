//! Backups of a cluster in which a replica may lie: signed when they are made, proved where they are restored, and refused where somebody
//! took signatures from another one. (What liars sign: src/backup/proof/tests.rs and front/kit/src/backups/proving/tests.rs.)

use crate::harness::{Cluster, quorate};
use quorate_auth::CheckpointProof;
use quorate_kit::backups::{NewFile, write_image};
use quorate_runtime::CheckpointFiles;
use quorate_state::checkpoint::{Image, Single};
use quorate_types::Digest;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The image in a backup, and its proof.
fn read(place: &Path, name: &str) -> (Image, CheckpointProof) {
    let mut files = CheckpointFiles::new(place).expect("a directory");
    let single = Single::open(&mut files, name).expect("a backup");
    let note = single.note(&mut files).expect("it is sound").expect("it is signed");
    let image = single.load(&mut files, &mut |_| ()).expect("it is sound");
    (image, CheckpointProof::decode(&note).expect("a proof"))
}

/// A whole backup of this image, with a proof of somebody's choice.
fn made_up(place: &Path, name: &str, image: &Image, proof: &CheckpointProof) -> PathBuf {
    let path = place.join(name);
    let mut file = NewFile::begin(&path).expect("a new file");
    file.note(proof.encode());
    write_image(&mut file, image, &mut |_| ()).expect("it is written");
    path
}

#[test]
fn a_backup_is_proved_where_replicas_may_lie() {
    let cluster = Cluster::start(&["--fault-model", "byzantine", "--service", "kv"]);
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name).to_str().expect("UTF-8").to_owned();
    let keys = cluster.directory().join("client.toml");
    let keys = keys.to_str().expect("UTF-8");
    let create = |name: &str| -> Value {
        let made = cluster.ok(&["backup", "create", "--fresh", "--json", &path(name)]);
        serde_json::from_str(&made).expect("JSON")
    };
    cluster.ok(&["kv", "put", "key", "first"]);
    let first = create("first.qbk");
    cluster.ok(&["kv", "put", "key", "second"]);
    let second = create("second.qbk");
    assert_eq!(first["proof"]["membership"], 1, "{first}");
    let signers = |made: &Value| made["proof"]["signed_by"].as_array().map_or(0, Vec::len);
    assert!(signers(&first) >= 2 && signers(&second) >= 2, "{first} {second}");
    assert!(signers(&first).max(signers(&second)) >= 3, "not only those that are needed: {first} {second}");
    assert_ne!(first["digest"], second["digest"]);
    let shown = quorate(&["backup", "show", &path("second.qbk")]).ok();
    assert!(shown.contains("signed by") && shown.contains("in membership 1"), "{shown}");

    let verified = quorate(&["backup", "verify", "--json", "--keys", keys, &path("second.qbk")]).ok();
    let verified: Value = serde_json::from_str(&verified).expect("JSON");
    assert_eq!((&verified["proved"], &verified["proof"]), (&Value::Bool(true), &second["proof"]));
    let said = quorate(&["backup", "verify", &path("second.qbk")]).ok();
    assert!(said.contains("its signatures were not checked (--keys)"), "{said}");

    // The signatures of the first under the state of the second; and one that was made up.
    let (image, own) = read(place.path(), "second.qbk");
    let (_, of_first) = read(place.path(), "first.qbk");
    made_up(place.path(), "swapped.qbk", &image, &of_first);
    let flipped = CheckpointProof { digest: Digest::new([7; 32]), ..own };
    made_up(place.path(), "flipped.qbk", &image, &flipped);
    let out = path("again");
    let restore = |file: &str, more: &[&str]| {
        let all = [
            "backup",
            "restore",
            &path(file),
            "--service",
            "kv",
            "--fault-model",
            "byzantine",
            "--out",
            &out,
        ];
        quorate(&[&all, more].concat())
    };
    for (file, says) in [("swapped.qbk", "of another checkpoint"), ("flipped.qbk", "of another state")] {
        quorate(&["backup", "verify", &path(file)]).ok();
        let why =
            quorate(&["backup", "verify", "--keys", keys, &path(file)]).fails(1, &["is not proved", says]);
        assert!(why.contains("use another backup"), "{why}");
        restore(file, &["--keys", keys]).fails(1, &["is not proved", says]);
    }
    restore("second.qbk", &[]).fails(1, &["nobody has checked that", "--keys", "--unproved"]);
    restore("second.qbk", &["--keys", keys, "--unproved"]).fails(2, &["cannot be used with"]);
    assert!(!Path::new(&out).exists(), "nothing was made");

    let said = restore("second.qbk", &["--keys", keys]).ok();
    assert!(said.contains("signed it"), "{said}");
    drop(cluster);
    let restored = Cluster::at(Path::new(&out));
    assert_eq!(restored.ok(&["kv", "get", "key"]), "second");
}

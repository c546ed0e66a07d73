//! Backups made by hand, with and without signatures, and what becomes of them with keys from elsewhere.

use super::super::look;
use super::{Judged, KeyArgs, admit, judge};
use crate::backup::facts::BackupFacts;
use quorate_auth::{CheckpointProof, Secret, checkpoint_statement};
use quorate_execute::{Executor, InStore, Parallel, SessionLimits};
use quorate_kit::backups::{NewFile, write_image};
use quorate_kv::{Kv, KvConfig};
use quorate_node::System;
use quorate_order::Protocol;
use quorate_state::checkpoint::Image;
use quorate_state::store::Store;
use quorate_types::{AgreedTime, ClusterId, MembershipId, ReplicaId, Seq};
use std::fs;
use std::path::{Path, PathBuf};

const CLUSTER: ClusterId = ClusterId::new(7);

fn r(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn secret(number: u16) -> Secret {
    Secret::new([number as u8; 32])
}

fn hex(number: u16) -> String {
    secret(number).public().bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first state of a cluster of four, with this one object.
fn image(protocol: Protocol, value: &[u8]) -> Image {
    let service = Box::new(InStore::new(Parallel::new(Kv::new(KvConfig::default()))));
    let mut executor = Executor::new(service, SessionLimits::default(), AgreedTime::ZERO);
    let half = executor.image().expect("it gives its state").system;
    let mut system = System::beginning(CLUSTER, protocol, 4, 2, half.into());
    let mut objects = Store::new();
    objects.put(b"key", value);
    // The half of execution is that of an executor before its first batch.
    system.seq = Seq::ZERO;
    Image { seq: system.seq, border: system.border, system: system.encode(), objects: objects.version() }
}

fn signed((cluster, seq, image): (ClusterId, Seq, &Image), signers: &[(u16, u16)]) -> CheckpointProof {
    let (membership, digest) = (MembershipId::FIRST, image.digest());
    let text = checkpoint_statement(cluster, membership, (seq, digest));
    let sign = |(id, with): &(u16, u16)| (r(*id), secret(*with).sign(&text.bytes));
    CheckpointProof { cluster, membership, seq, digest, signed: signers.iter().map(sign).collect() }
}

/// Writes a backup, and reads it back.
fn backup(
    directory: &Path,
    name: &str,
    image: &Image,
    proof: Option<&CheckpointProof>,
) -> (PathBuf, BackupFacts) {
    let path = directory.join(name);
    let mut file = NewFile::begin(&path).expect("a new file");
    proof.iter().for_each(|proof| file.note(proof.encode()));
    write_image(&mut file, image, &mut |_| ()).expect("it is written");
    let (facts, read) = look::load(&path).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(read.digest(), image.digest());
    assert_eq!(facts.proof.as_ref(), proof);
    (path, facts)
}

/// A `client.toml` of a cluster of these members.
fn client_toml(directory: &Path, name: &str, cluster: ClusterId, more: &str, members: &[u16]) -> PathBuf {
    let member =
        |id: &u16| format!("[[members]]\nreplica = {id}\naddress = \"a:{id}\"\nkey = \"{}\"\n", hex(*id));
    let members: String = members.iter().map(member).collect();
    let path = directory.join(name);
    let text = format!("cluster = \"{cluster}\"\nplain = true\n{more}\n{members}");
    fs::write(&path, text).expect("it is written");
    path
}

fn keys(file: &Path) -> KeyArgs {
    KeyArgs { keys: Some(file.to_owned()), ..KeyArgs::default() }
}

fn by_hand(keys: &[(u16, u16)], signatures: Option<u16>) -> KeyArgs {
    let key = keys.iter().map(|(id, with)| format!("r{id}={}", hex(*with))).collect();
    KeyArgs { keys: None, key, signatures }
}

fn judged((path, facts): &(PathBuf, BackupFacts), keys: &KeyArgs) -> Result<Judged, String> {
    let known = keys.known().map_err(|why| why.to_string())?;
    judge(path, facts, known.as_ref()).map_err(|why| why.to_string())
}

#[track_caller]
fn refused(backup: &(PathBuf, BackupFacts), keys: &KeyArgs, says: &[&str]) {
    let why = judged(backup, keys).expect_err("it is not proved");
    assert!(says.iter().all(|says| why.contains(says)), "{why}");
}

const BYZANTINE: &str = "fault_model = \"byzantine\"\nmembership = 1";

#[test]
fn signatures_are_judged_by_the_keys_that_the_operator_has() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let image = image(Protocol::MOD_SMART, b"true");
    let own = keys(&client_toml(dir, "client.toml", CLUSTER, BYZANTINE, &[1, 2, 3, 4]));
    let of = (CLUSTER, image.seq, &image);
    let good = backup(dir, "good", &image, Some(&signed(of, &[(1, 1), (3, 3), (4, 4)])));
    assert_eq!(judged(&good, &own), Ok(Judged::Proved(vec![r(1), r(3), r(4)])));
    assert_eq!(judged(&good, &by_hand(&[(1, 1), (3, 3)], Some(2))), Ok(Judged::Proved(vec![r(1), r(3)])));
    assert_eq!(judged(&good, &KeyArgs::default()), Ok(Judged::Unchecked));
    // One lying replica that signs what it likes, in all names, or once.
    let one = backup(dir, "one", &image, Some(&signed(of, &[(1, 1), (2, 1), (3, 1), (4, 1)])));
    refused(&one, &own, &["1 signature is right, and 2 are needed", "r2, r3, r4", "use another backup"]);
    let alone = backup(dir, "alone", &image, Some(&signed(of, &[(1, 1)])));
    refused(&alone, &own, &["1 signature is right, and 2 are needed"]);
    // Signatures of something else: taken from another backup, of another cluster.
    let later = signed((CLUSTER, Seq::new(9), &image), &[(1, 1), (2, 2)]);
    refused(&backup(dir, "later", &image, Some(&later)), &own, &["of another checkpoint, of seq 9"]);
    let foreign = signed((ClusterId::new(8), image.seq, &image), &[(1, 1), (2, 2)]);
    refused(&backup(dir, "foreign", &image, Some(&foreign)), &own, &["its proof is of another cluster"]);
    let other = self::image(Protocol::MOD_SMART, b"made up");
    let swapped = backup(dir, "swapped", &other, Some(&signed(of, &[(1, 1), (2, 2), (3, 3)])));
    refused(&swapped, &own, &["its proof is of another state", "took its signatures from another one"]);
    // None at all.
    refused(&backup(dir, "bare", &image, None), &own, &["no replica signed it", "without --unproved"]);
    // The keys of another cluster.
    let theirs = keys(&client_toml(dir, "theirs.toml", ClusterId::new(8), BYZANTINE, &[1, 2, 3, 4]));
    refused(&good, &theirs, &["of cluster 00000000000000000000000000000008"]);
}

/// Members that changed since, and keys.
#[test]
fn keys_of_another_time_are_said_to_be_such() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let image = image(Protocol::MOD_SMART, b"true");
    let proof = signed((CLUSTER, image.seq, &image), &[(1, 11), (2, 2), (5, 5)]);
    let good = backup(dir, "good", &image, Some(&proof));
    let later = "fault_model = \"byzantine\"\nmembership = 3";
    let later = keys(&client_toml(dir, "later.toml", CLUSTER, later, &[1, 2, 3, 4]));
    let says = ["1 signature is right", "r1; no key is known of r5", "in membership 1", "--key r1=KEY"];
    refused(&good, &later, &says);
    let with = |more: &[(u16, u16)]| KeyArgs { key: by_hand(more, None).key, ..later.clone() };
    assert_eq!(judged(&good, &with(&[(1, 11)])), Ok(Judged::Proved(vec![r(1), r(2)])), "the key of then");
    assert_eq!(judged(&good, &with(&[(5, 5)])), Ok(Judged::Proved(vec![r(2), r(5)])), "one that left");
}

#[test]
fn a_new_cluster_begins_with_what_is_proved() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let (lies, crashes) = (image(Protocol::MOD_SMART, b"x"), image(Protocol::RAFT, b"x"));
    let own = keys(&client_toml(dir, "client.toml", CLUSTER, BYZANTINE, &[1, 2, 3, 4]));
    let plain = keys(&client_toml(dir, "plain.toml", CLUSTER, "", &[1, 2, 3]));
    let nothing = KeyArgs::default();
    let good = signed((CLUSTER, lies.seq, &lies), &[(1, 1), (2, 2)]);
    let good = backup(dir, "good", &lies, Some(&good));
    let bare = backup(dir, "bare", &lies, None);
    let raft = backup(dir, "raft", &crashes, None);
    let admits = |(path, facts): &(PathBuf, BackupFacts), keys: &KeyArgs, unproved, may_lie| {
        let known = keys.known().expect("keys");
        admit(path, facts, known.as_ref(), (unproved, may_lie)).map_err(|why| why.to_string())
    };
    for may_lie in [false, true] {
        assert_eq!(admits(&good, &own, false, may_lie), Ok(Judged::Proved(vec![r(1), r(2)])));
        assert_eq!(admits(&good, &nothing, true, may_lie), Ok(Judged::Unchecked));
        assert_eq!(admits(&bare, &nothing, true, may_lie), Ok(Judged::Unchecked));
        let why = admits(&good, &nothing, false, may_lie).expect_err("nobody looked");
        assert!(why.contains("signed in the names of r1, r2") && why.contains("--keys"), "{why}");
        let why = admits(&bare, &nothing, false, may_lie).expect_err("nobody signed");
        assert!(why.contains("has no proof") && why.contains("--unproved"), "{why}");
        assert!(admits(&bare, &own, false, may_lie).is_err());
        // Mod-SMaRt is also for replicas that only crash; then an operator says so.
        assert_eq!(admits(&bare, &plain, false, may_lie), Ok(Judged::NotNeeded));
        assert_eq!(admits(&raft, &plain, false, may_lie), Ok(Judged::NotNeeded));
    }
    assert_eq!(admits(&raft, &nothing, false, false), Ok(Judged::Unchecked), "as ever");
    let why = admits(&raft, &nothing, false, true).expect_err("the new one would trust it");
    assert!(why.contains("replicas of the new cluster may lie") && why.contains("--unproved"), "{why}");
}

/// A file without keys has them beside it, in the configuration of a replica; what is no key is refused.
#[test]
fn keys_are_found_or_it_is_said_what_to_give() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let image = image(Protocol::MOD_SMART, b"x");
    let good = backup(dir, "good", &image, Some(&signed((CLUSTER, image.seq, &image), &[(1, 1), (2, 2)])));
    let client = dir.join("client.toml");
    let bare = "[[members]]\nreplica = 1\naddress = \"a:1\"\n";
    fs::write(&client, format!("cluster = \"{CLUSTER}\"\nfault_model = \"byzantine\"\nplain = true\n{bare}"))
        .expect("it is written");
    refused(&good, &keys(&client), &["has no public keys", "replica.toml"]);
    fs::create_dir(dir.join("replica-1")).expect("it is made");
    client_toml(dir, "replica-1/replica.toml", CLUSTER, "fault_model = \"byzantine\"", &[1, 2, 3, 4]);
    assert_eq!(judged(&good, &keys(&client)), Ok(Judged::Proved(vec![r(1), r(2)])));
    refused(&good, &by_hand(&[(1, 1), (2, 2)], None), &["--signatures"]);
    refused(&good, &by_hand(&[], Some(2)), &["--signatures: whose?"]);
    let fewer = KeyArgs { signatures: Some(1), ..keys(&client) };
    refused(&good, &fewer, &["--signatures 1", "2 are needed"]);
    let more = KeyArgs { signatures: Some(3), ..keys(&client) };
    refused(&good, &more, &["2 signatures are right, and 3 are needed"]);
    for wrong in
        ["r1", "r1=77", "r0=77", &format!("x={}", hex(1)), &hex(1), &format!("r1={}", "0".repeat(64))]
    {
        let args = KeyArgs { key: vec![wrong.to_owned()], signatures: Some(1), keys: None };
        refused(&good, &args, &["as r1=KEY"]);
    }
    let lost = keys(&dir.join("nowhere.toml"));
    refused(&good, &lost, &["nowhere.toml is not usable"]);
}

/// A signature that rots is damage, as every other byte.
#[test]
fn damage_in_the_proof_is_found() {
    let place = tempfile::tempdir().expect("a directory");
    let image = image(Protocol::MOD_SMART, b"x");
    let proof = signed((CLUSTER, image.seq, &image), &[(1, 1), (2, 2)]);
    let (path, _) = backup(place.path(), "good", &image, Some(&proof));
    let (bytes, note) = (fs::read(&path).expect("it is there"), proof.encode());
    let at = bytes.windows(note.len()).position(|part| part == note).expect("it is in the file");
    for at in at - 8..at + note.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 2;
        fs::write(&path, damaged).expect("it is written");
        let why = look::load(&path).map(drop).expect_err("it is damaged").to_string();
        assert!(why.contains("is damaged"), "byte {at}: {why}");
    }
}

//! `quorate dev export`: the files are as expected, and what reads them would take them.
//!
//! The golden files are in tests/all/export. QUORATE_UPDATE=1 writes them anew; look at the difference before it is committed. Keys and
//! certificates differ each time, so they are looked at instead.

mod compose;
mod empty;
mod kubernetes;
mod refused;
mod systemd;

use crate::harness::{Ran, copy, quorate};
use quorate_command::authority::Office;
use quorate_runtime::Config;
use quorate_tls::{Certificate, certificates_in};
use quorate_types::ClusterId;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const KINDS: [&str; 3] = ["systemd", "compose", "kubernetes"];
/// What stands in for a key: it must be nowhere else afterwards.
const SECRET: &str = "only-the-owner-knows-this";
const IDS: [u16; 3] = [1, 2, 3];
const CLUSTER: &str = "0123456789abcdef0123456789abcdef";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/export")
}

/// A `dev` directory that does not run, with keys.
fn cluster() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    copy(&fixtures().join("cluster"), &directory.path().join("cluster"));
    let id = ClusterId::parse(CLUSTER).expect("an id");
    Office::create(&directory.path().join("cluster/ca"), id).expect("an authority");
    for id in IDS {
        let tls = directory.path().join(format!("cluster/replica-{id}/tls"));
        fs::create_dir_all(&tls).expect("a directory can be made");
        fs::write(tls.join("replica.key"), SECRET).expect("a file can be written");
    }
    directory
}

/// Exports as `kind`; where to, and how it ended.
fn export(directory: &Path, kind: &str, more: &[&str]) -> (PathBuf, Ran) {
    let (dir, out) = (directory.join("cluster"), directory.join(kind));
    let (dir, shown) = (dir.display().to_string(), out.display().to_string());
    let kind = format!("--{kind}");
    let ran = quorate(&[&["dev", "export", &kind, "--dir", &dir, "--out", &shown], more].concat());
    (out, ran)
}

/// All files below a directory, by their names.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory can be read") {
        let path = entry.expect("a directory can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        if path.is_dir() {
            files.extend(
                self::files(&path).into_iter().map(|(below, text)| (format!("{name}/{below}"), text)),
            );
        } else {
            files.insert(name, fs::read_to_string(&path).expect("text"));
        }
    }
    files
}

fn exported(kind: &str, more: &[&str]) -> (tempfile::TempDir, PathBuf) {
    exported_from(cluster(), kind, more)
}

fn exported_from(directory: tempfile::TempDir, kind: &str, more: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let (out, ran) = export(directory.path(), kind, more);
    let said = ran.ok();
    assert!(said.contains("README.md") && !said.contains(SECRET), "{said}");
    (directory, out)
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

/// Whether a file has keys or certificates, which are new each time.
fn is_drawn(name: &str) -> bool {
    name.ends_with(".key") || name.ends_with(".pem") || name == "secrets.yaml"
}

/// The hosts of the certificate in a file.
fn hosts(file: &Path) -> Vec<String> {
    let text = fs::read(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let found = certificates_in(&text).expect("a certificate");
    Certificate::decode(&found[0]).expect("a certificate").own_hosts()
}

/// All of these hosts are in the certificate of this replica.
#[track_caller]
fn holds_for(out: &Path, id: u16, wanted: &[&str]) {
    let hosts = hosts(&out.join(format!("replica-{id}/tls/replica.pem")));
    for host in wanted {
        assert!(hosts.iter().any(|other| other == host), "{host} is missing in {hosts:?}");
    }
}

#[test]
fn the_files_are_the_golden_ones_and_secrets_are_their_owners() {
    for kind in KINDS {
        let (directory, out) = exported(kind, &[]);
        let (drawn, written): (BTreeMap<_, _>, BTreeMap<_, _>) =
            files(&out).into_iter().partition(|(name, _)| is_drawn(name));
        let golden = fixtures().join(kind);
        if std::env::var_os("QUORATE_UPDATE").is_some_and(|value| value == "1") {
            let _ = fs::remove_dir_all(&golden);
            for (name, text) in &written {
                let file = golden.join(name);
                fs::create_dir_all(file.parent().expect("a directory")).expect("a directory can be made");
                fs::write(file, text).expect("a file can be written");
            }
        }
        let golden = files(&golden);
        assert_eq!(written.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>(), "{kind}");
        for (name, text) in &written {
            assert_eq!(*text, golden[name], "{kind}/{name}");
            assert!(
                !text.contains(SECRET) && !text.contains("{{") && !text.contains("PRIVATE"),
                "{kind}/{name}"
            );
        }
        for (name, text) in &drawn {
            assert!(!text.contains(SECRET), "the replica has a new key: {kind}/{name}");
            let mode = fs::metadata(out.join(name)).expect("a file").permissions().mode() & 0o777;
            let expected = if name.ends_with(".pem") { 0o644 } else { 0o600 };
            assert_eq!(mode, expected, "{kind}/{name}");
        }
        assert!(drawn.contains_key("replica-3/tls/replica.key") && drawn.contains_key("clients/admin.key"));
        assert!(!drawn.contains_key("ca/ca.key"), "the authority stays where it is");
        // What was there is as it was.
        let key = directory.path().join("cluster/replica-1/tls/replica.key");
        assert_eq!(fs::read_to_string(key).expect("text"), SECRET);
        assert!(!directory.path().join("cluster/replica-1/tls/replica.pem").exists());
    }
}

#[test]
fn replicas_take_their_configurations() {
    for kind in ["systemd", "compose"] {
        let (_directory, out) = exported(kind, &[]);
        for id in IDS {
            check_config(&out.join(format!("replica-{id}/replica.toml")), id);
        }
        quorate::client::ClientFile::read(&out.join("client.toml")).expect("clients can read it");
    }
    let (directory, out) = exported("kubernetes", &[]);
    let manifest = documents(&fs::read_to_string(out.join("quorate.yaml")).expect("text"));
    for id in IDS {
        let text = manifest[0]["data"][format!("quorate-{id}.toml")].as_str().expect("a configuration");
        let file = directory.path().join("replica.toml");
        fs::write(&file, text).expect("a file can be written");
        check_config(&file, id);
    }
}

/// It is complete, is this replica's, and names the same cluster with the same settings.
fn check_config(file: &Path, id: u16) {
    let config = Config::read(file).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!((config.replica, config.cluster.as_str()), (id, CLUSTER));
    assert_eq!(config.checkpoints.interval_bytes, 64 << 20);
    assert_eq!(config.members[1].incarnation, "2222222222222222");
    assert!(config.data.is_absolute());
    assert!(config.tls.as_ref().is_some_and(|tls| tls.key.starts_with("/etc/quorate")));
    let listen = config.front["etcd"]["listen"].as_str().expect("an address");
    assert!(listen.contains(":23") && !config.front_addresses()["etcd"].starts_with("0.0.0.0"), "{listen}");
}

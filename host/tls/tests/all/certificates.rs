//! Certificates: what is written into them is read back, nothing breaks the reader, and files that change take effect or not.

use crate::common::{CLUSTER, authority, client, credentials, put, replica};
use proptest::prelude::*;
use quorate_tls::{
    Bundle, Certificate, Credentials, Validity, Watched, certificates_in, fuzzing, write_public,
};
use quorate_types::{ClusterId, Identity};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tls_certificate")
}

#[test]
fn what_stands_in_a_certificate() {
    let (authority, _) = authority(CLUSTER);
    let hosts = ["10.0.0.3", "[::1]", "db3.example.org"].map(str::to_owned);
    let issued = authority.issue(&replica(3), &hosts, Validity::days(7)).expect("issued");
    let found = certificates_in(issued.certificate.as_bytes()).expect("a certificate");
    let certificate = Certificate::decode(&found[0]).expect("a certificate");
    assert_eq!(certificate.identity, Some(Identity { cluster: CLUSTER, holder: replica(3) }));
    assert_eq!(certificate.own_hosts(), ["10.0.0.3", "::1", "db3.example.org"]);
    // Whoever signs can not promise more than it has itself.
    assert!((6..=7).contains(&certificate.days_left(SystemTime::now())));
    let long = authority.issue(&replica(3), &[], Validity::days(5000)).expect("issued");
    let long =
        Certificate::decode(&certificates_in(long.certificate.as_bytes()).expect("PEM")[0]).expect("one");
    assert!((9..=10).contains(&long.days_left(SystemTime::now())));
    assert!(!certificate.is_authority);
    assert_ne!(certificate.serial, long.serial);
}

#[test]
fn keys_are_for_their_owner_only() {
    let (authority, files) = authority(CLUSTER);
    let directory = tempfile::tempdir().expect("a directory");
    let issued = authority.issue(&client("a"), &[], Validity::days(1)).expect("issued");
    let files = put(directory.path(), &files.certificate, &issued);
    let mode = |path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&files.key), mode(&files.certificate)), (0o600, 0o644));
}

#[test]
fn files_that_do_not_belong_together_are_named() {
    let ((authority, files), (other, _)) = (authority(CLUSTER), authority(CLUSTER));
    let (foreign, _) = crate::common::authority(ClusterId::new(7));
    let directory = tempfile::tempdir().expect("a directory");
    let issued =
        |by: &quorate_tls::Authority| by.issue(&client("a"), &[], Validity::days(1)).expect("issued");
    let mut mixed = issued(&authority);
    mixed.key = issued(&authority).key;
    let fails = |issued: &quorate_tls::Issued, says: &str| {
        let why = Credentials::load(&put(directory.path(), &files.certificate, issued))
            .expect_err("they do not fit");
        assert!(why.to_string().contains(says), "{why}");
    };
    fails(&mixed, "does not go with the key");
    fails(&issued(&other), "That authority was replaced");
    fails(&issued(&foreign), "is of another cluster");
    fails(&issued(&foreign), "quorate cert issue --ca DIR/ca --client a");
    let mut empty = issued(&authority);
    empty.certificate = "nothing".into();
    fails(&empty, "no certificate in it");
    empty = issued(&authority);
    empty.key = empty.certificate.clone();
    fails(&empty, "no private key");
}

#[test]
fn changed_files_are_taken_when_they_rest_and_work() {
    let (authority, files) = authority(CLUSTER);
    let directory = tempfile::tempdir().expect("a directory");
    let issue = || authority.issue(&client("a"), &[], Validity::days(1)).expect("issued");
    let paths = put(directory.path(), &files.certificate, &issue());
    let mut watched = Watched::load(paths.clone()).expect("credentials");
    let first = watched.current().certificate().serial.clone();
    assert!(watched.look(false).is_none());
    // A certificate without its key: the old ones stay, which is said once.
    let second = issue();
    write_public(&paths.certificate, &second.certificate).expect("written");
    assert!(watched.look(false).is_none(), "it was changed a moment ago");
    assert!(watched.look(false).expect("a change").is_err());
    assert!(watched.look(false).is_none());
    assert!(watched.look(true).expect("it was asked for").is_err());
    assert_eq!(watched.current().certificate().serial, first);
    // The key comes, too.
    put(directory.path(), &files.certificate, &second);
    assert!(watched.look(false).is_none());
    assert!(watched.look(false).expect("a change").is_ok());
    assert_ne!(watched.current().certificate().serial, first);
    assert!(watched.look(false).is_none());
    // Somebody else's files are not taken.
    let other = authority.issue(&client("b"), &[], Validity::days(1)).expect("issued");
    put(directory.path(), &files.certificate, &other);
    let why = watched.look(true).expect("a change").expect_err("another holder");
    assert!(why.to_string().contains("client b of cluster"), "{why}");
}

#[test]
fn two_authorities_can_be_trusted_at_once() {
    let ((old, old_files), (new, new_files)) = (authority(CLUSTER), authority(CLUSTER));
    let mut both = Bundle::default();
    both.add(&new_files.certificate);
    both.add(&old_files.certificate);
    for by in [&old, &new] {
        let issued = by.issue(&client("a"), &[], Validity::days(1)).expect("issued");
        let credentials = credentials(&both.pem, &issued);
        assert_eq!(credentials.cluster(), CLUSTER);
    }
}

/// The seeds of the fuzz target; written with `QUORATE_APPROVE=1`, since certificates differ each time.
#[test]
fn the_corpus_of_the_fuzz_target() {
    let folder = corpus();
    if std::env::var_os("QUORATE_APPROVE").is_some() {
        let (authority, files) = authority(CLUSTER);
        std::fs::create_dir_all(&folder).expect("a folder");
        let own = authority.issue(&replica(3), &["10.0.0.3".into()], Validity::days(7)).expect("issued");
        for (name, text) in [("seed_authority", &files.certificate), ("seed_replica", &own.certificate)] {
            let der = certificates_in(text.as_bytes()).expect("PEM");
            std::fs::write(folder.join(name), &der[0]).expect("a seed can be written");
        }
        let uri = Identity { cluster: CLUSTER, holder: client("shop") }.uri();
        std::fs::write(folder.join("seed_uri"), uri).expect("a seed can be written");
    }
    let files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the corpus is there")
        .map(|file| file.expect("an entry").path())
        .collect();
    assert!(files.len() >= 3, "the corpus is empty");
    for file in files {
        fuzzing::certificate(&std::fs::read(file).expect("a readable file"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::certificate(&bytes);
    }

    #[test]
    fn no_change_of_a_certificate_breaks_the_reader(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = std::fs::read(corpus().join("seed_replica")).expect("a seed");
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fuzzing::certificate(&bytes);
    }

    #[test]
    fn no_text_breaks_the_reader_of_identities(text in "(quorate://)?[0-9a-f]{0,33}/?(replica|client|admin)?/?.{0,70}") {
        fuzzing::certificate(text.as_bytes());
    }
}

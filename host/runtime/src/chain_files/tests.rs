//! Links are written once and read back in order; what is none is left alone.

use super::{DIRECTORY, files, problem, read};
use bytes::Bytes;
use std::fs;
use std::path::Path;

/// A file of the corpus that pins the format.
fn seed(name: &str) -> Bytes {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/membership_link");
    fs::read(Path::new(path).join(name)).expect("the corpus is there").into()
}

#[test]
fn what_is_written_is_read_back_in_order() {
    let data = tempfile::tempdir().expect("a directory");
    assert_eq!(read(data.path()), [], "nothing ever changed");
    let mut links = files(data.path());
    links.keep("membership-10.link".into(), seed("seed_first"));
    links.keep("membership-9.link".into(), seed("seed_second"));
    links.keep("membership-10.link".into(), seed("seed_second"));
    assert_eq!(problem(&links), None);
    let directory = data.path().join(DIRECTORY);
    fs::write(directory.join("cut.link"), &seed("seed_first")[..50]).expect("it is written");
    let found: Vec<Bytes> = read(data.path()).iter().map(|link| link.encode()).collect();
    assert_eq!(found, [seed("seed_first"), seed("seed_second")], "by number, whatever the names");
    assert!(directory.join("cut.link").exists());
}

#[test]
fn what_can_not_be_written_is_told() {
    let data = tempfile::tempdir().expect("a directory");
    // A file where the directory should be: nothing can be written there, by whatever user.
    fs::write(data.path().join(DIRECTORY), b"in the way").expect("it is written");
    let mut links = files(data.path());
    links.keep("membership-2.link".into(), seed("seed_first"));
    let text = problem(&links).expect("a problem");
    assert!(text.starts_with("membership links are not on disk (1 files, "), "{text}");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/alarms.md");
    let page = fs::read_to_string(page).expect("the page is there");
    assert!(page.contains("`membership links are not on disk (X files, X)`"), "the page of alarms lists it");
}

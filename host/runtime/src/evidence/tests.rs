//! Files that are written once, later, and read back.

use super::{DIRECTORY, files, problem, read};
use bytes::Bytes;
use std::fs;
use std::path::Path;

/// A file of the corpus that pins the format.
fn seed(name: &str) -> Bytes {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/evidence");
    fs::read(Path::new(path).join(name)).expect("the corpus is there").into()
}

fn names(data: &Path) -> Vec<String> {
    let entries = fs::read_dir(data.join(DIRECTORY)).expect("the directory is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort_unstable();
    names
}

#[test]
fn what_is_written_is_read_back() {
    let data = tempfile::tempdir().expect("a directory");
    assert_eq!(read(data.path()), [], "nothing was ever found");
    let mut files = files(data.path());
    let proof = seed("seed_two_accepts");
    files.keep("r3-a.proof".into(), proof.clone());
    files.keep("r3-a.proof".into(), seed("seed_accept_denied"));
    assert_eq!(problem(&files), None);
    let found = read(data.path());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].evidence.encode(), proof, "the first stays");
    assert!(found[0].at.nanos() > 0, "it says when it was written");
}

/// Files that are no evidence are not listed, and stay.
#[test]
fn other_files_are_left_alone() {
    let data = tempfile::tempdir().expect("a directory");
    let directory = data.path().join(DIRECTORY);
    fs::create_dir(&directory).expect("it is made");
    fs::write(directory.join("cut.proof"), &seed("seed_two_accepts")[..50]).expect("it is written");
    fs::write(directory.join("large.proof"), vec![0; 1 << 20]).expect("it is written");
    fs::write(directory.join("half.new"), b"QEVIDENC").expect("it is written");
    fs::create_dir(directory.join("folder.proof")).expect("it is made");
    fs::write(directory.join("right.proof"), seed("seed_two_statements")).expect("it is written");
    assert_eq!(read(data.path()).len(), 1);
    assert_eq!(names(data.path()), ["cut.proof", "folder.proof", "half.new", "large.proof", "right.proof"]);
}

/// A disk that refuses stops nothing; once it takes files again, all are written.
#[test]
fn what_can_not_be_written_waits() {
    let data = tempfile::tempdir().expect("a directory");
    // A file where the directory should be: nothing can be written there, by whatever user.
    fs::write(data.path().join(DIRECTORY), b"in the way").expect("it is written");
    let mut files = files(data.path());
    files.keep("r3-a.proof".into(), seed("seed_two_accepts"));
    files.keep("r3-b.proof".into(), seed("seed_accept_denied"));
    let text = problem(&files).expect("a problem");
    assert!(text.starts_with("evidence is not on disk (2 files, "), "{text}");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/alarms.md");
    let page = fs::read_to_string(page).expect("the page is there");
    assert!(page.contains("`evidence is not on disk (X files, X)`"), "the page of alarms lists it");
    files.write();
    assert!(problem(&files).is_some(), "still");
    fs::remove_file(data.path().join(DIRECTORY)).expect("it goes");
    files.write();
    assert_eq!(problem(&files), None);
    assert_eq!(names(data.path()), ["r3-a.proof", "r3-b.proof"]);
}

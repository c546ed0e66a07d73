//! Runs every script in scripts/raft, and checks that together they are complete and listed.

use quorate_script::raft::Cluster;
use quorate_script::{check_file, updates_wanted};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

fn scripts() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/raft");
    let files =
        fs::read_dir(folder).expect("the scripts are there").map(|file| file.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "txt")).collect();
    files.sort();
    files
}

#[test]
fn every_script_prints_what_it_says() {
    let check = |path: &PathBuf| check_file(path, &mut Cluster::default(), updates_wanted()).err();
    let failures: Vec<String> = scripts().iter().filter_map(check).collect();
    assert!(failures.is_empty(), "{} scripts fail\n\n{}", failures.len(), failures.join("\n\n"));
}

/// A message that no script shows is one that no reader meets.
#[test]
fn every_message_occurs() {
    let all: String = scripts().iter().map(|path| fs::read_to_string(path).expect("readable")).collect();
    let output: Vec<&str> = all.lines().filter(|line| line.contains(" > ")).collect();
    for form in [
        "  RequestVote v",
        " pre",
        " transfer",
        "  RequestVoteReply v",
        "granted",
        "refused",
        "  AppendEntries v",
        "  AppendEntriesReply v",
        "matched=",
        "rejected asked=",
        "  NeedsCheckpoint v",
        "  TimeoutNow v",
        "  ReadIndex v",
        "  ReadIndexReply v",
        "not leading",
    ] {
        assert!(output.iter().any(|line| line.contains(form)), "no script shows a message with '{form}'");
    }
}

/// The reading order names each script once, and nothing else.
#[test]
fn the_reading_order_is_complete() {
    let readme = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/raft/README.md");
    let readme = fs::read_to_string(readme).expect("the reading order");
    let listed =
        readme.lines().filter_map(|line| line.strip_prefix("- [")?.split_once("](")?.1.split_once(')'));
    let listed: Vec<String> = listed.map(|(file, _)| file.to_string()).collect();
    let files: BTreeSet<String> = scripts()
        .iter()
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), files);
    assert_eq!(listed.len(), files.len(), "a script is listed twice");
}

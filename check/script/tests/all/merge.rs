//! Runs every script in scripts/merge, and checks that they are listed.

use quorate_script::merge::Replicas;
use quorate_script::{check_file, updates_wanted};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/merge")
}

fn scripts() -> Vec<PathBuf> {
    let files = fs::read_dir(folder()).expect("the scripts are there");
    let files = files.map(|file| file.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "txt")).collect();
    files.sort();
    files
}

#[test]
fn every_script_prints_what_it_says() {
    let check = |path: &PathBuf| check_file(path, &mut Replicas::default(), updates_wanted()).err();
    let failures: Vec<String> = scripts().iter().filter_map(check).collect();
    assert!(failures.is_empty(), "{} scripts fail\n\n{}", failures.len(), failures.join("\n\n"));
}

/// The reading order names each script once, and nothing else.
#[test]
fn the_reading_order_is_complete() {
    let readme = fs::read_to_string(folder().join("README.md")).expect("the reading order");
    let listed =
        readme.lines().filter_map(|line| line.strip_prefix("- [")?.split_once("](")?.1.split_once(')'));
    let listed: Vec<String> = listed.map(|(file, _)| file.to_string()).collect();
    let files: BTreeSet<String> = scripts()
        .iter()
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert!(files.len() >= 18, "scripts are missing");
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), files);
    assert_eq!(listed.len(), files.len(), "a script is listed twice");
}

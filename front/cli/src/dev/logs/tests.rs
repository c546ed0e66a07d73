use super::{ERROR_CHARS, TAIL_LINES, last_error, tail};
use std::fs;

#[test]
fn the_last_error_of_the_last_run_counts() {
    let place = tempfile::tempdir().expect("a directory");
    let log = place.path().join("log.txt");
    let says = |text: &str, began| {
        fs::write(&log, text).expect("written");
        last_error(&log, began)
    };
    assert_eq!(last_error(&log, 0), None, "there is no log");
    assert_eq!(says("INFO r1 leads view 1\n", 0), None);
    let before = "error: the port is taken\n";
    assert_eq!(says(before, 0).as_deref(), Some("the port is taken"));
    assert_eq!(says(before, before.len() as u64), None, "that was the run before");
    let now = format!("{before}2026-01-01T00:00:00Z ERROR the disk is full.\nINFO bye\n");
    assert_eq!(says(&now, before.len() as u64).as_deref(), Some("the disk is full"));
    assert_eq!(says(before, 1 << 20).as_deref(), Some("the port is taken"), "the log was moved meanwhile");
    let panicked = "thread 'main' panicked at a.rs:1:2:\nINV-LOG-1\n";
    assert_eq!(says(panicked, 0).as_deref(), Some("thread 'main' panicked at a.rs:1:2:"));
    assert_eq!(says("error: a\u{1b}[2Jb\n", 0).as_deref(), Some("a\\u{1b}[2Jb"), "no terminal obeys it");
    let long = says(&format!("error: {}\n", "x".repeat(2 * ERROR_CHARS)), 0).expect("an error");
    assert_eq!(long.len(), ERROR_CHARS);
}

#[test]
fn the_last_lines_are_shown() {
    let place = tempfile::tempdir().expect("a directory");
    let log = place.path().join("log.txt");
    fs::write(&log, (1..=20).map(|line| format!("line {line}\n")).collect::<String>()).expect("written");
    let shown = tail(&log);
    assert_eq!(shown.lines().count(), TAIL_LINES);
    assert!(shown.starts_with("  | line 13\n") && shown.ends_with("  | line 20\n"), "{shown}");
}

//! Histories whose verdict is known: `tests/histories/<verdict>/<sentence>.jsonl`.
//!
//! The folder is the verdict; it is checked against the report, and for keys without appends against all
//! orders, too. Beside each rejected or undecided history stands its `.report`, what people see. To write the
//! reports anew: `UPDATE_REPORTS=1 cargo test -p quorate-history --test all known_histories`; then read the diff.

use crate::common;
use quorate_history::report::Conclusion;
use quorate_history::{History, Op, Options, check};
use std::fs;
use std::path::{Path, PathBuf};

fn histories(verdict: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories").join(verdict);
    let entries = fs::read_dir(&folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    assert!(files.len() >= 2, "no histories in {}", folder.display());
    files
}

fn judge(verdict: &str, expected: Conclusion) {
    for path in histories(verdict) {
        let name = path.display();
        let text = fs::read(&path).expect("readable");
        let history = History::read(text.as_slice()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let report = check(&history, Options::default());
        assert_eq!(report.conclusion, expected, "{name}\n{report}");
        if !history.events().iter().any(|event| matches!(event.op, Op::Append { .. })) {
            let has_order = common::is_linearizable_by_force(history.events());
            assert_eq!(has_order, expected == Conclusion::Ok, "{name}: the folder is wrong");
        }
        let json = serde_json::to_value(&report).expect("a report is JSON");
        assert_eq!(json["conclusion"], serde_json::to_value(expected).expect("a word"), "{name}");
        if expected != Conclusion::Ok {
            compare_report(&path.with_extension("report"), &report.to_string());
        }
    }
}

fn compare_report(path: &Path, report: &str) {
    if std::env::var_os("UPDATE_REPORTS").is_some() {
        fs::write(path, report).expect("writable");
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(report, expected, "{} differs; see the head of this file", path.display());
}

#[test]
fn accepted_histories_are_in_order() {
    judge("accepted", Conclusion::Ok);
}

#[test]
fn rejected_histories_break_a_promise() {
    judge("rejected", Conclusion::Violation);
}

#[test]
fn undecided_histories_lack_something() {
    judge("undecided", Conclusion::Unknown);
}

use super::{Args, Plan, run};
use crate::backup::keep::Rules;
use clap::Parser;
use std::fs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn args(line: &[&str]) -> Args {
    Line::parse_from([&["prune"], line].concat()).args
}

#[test]
fn a_rule_is_needed() {
    let place = tempfile::tempdir().expect("a directory");
    let directory = place.path().to_str().expect("UTF-8");
    for line in [vec![directory], vec![directory, "--delete", "--keep-last", "0"]] {
        let why = run(&args(&line)).expect_err("it is refused").to_string();
        assert!(why.contains("--keep-last"), "{why}");
    }
}

#[test]
fn what_is_no_backup_is_named_and_stays() {
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    for name in ["notes.qbk", "empty.qbk", "other.txt", ".monday.qbk.17.unfinished", ".hidden.qbk"] {
        let text = if name == "empty.qbk" { "" } else { "no backup at all" };
        fs::write(at(name), text).expect("it can be written");
    }
    fs::create_dir(at("folder.qbk")).expect("it can be made");
    std::os::unix::fs::symlink(at("notes.qbk"), at("link.qbk")).expect("it can be made");
    let plan = Plan::of(place.path(), Rules { last: 1, ..Rules::default() }).expect("it can be read");
    let left: Vec<&str> = plan.left.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(left, ["empty.qbk", "notes.qbk"]);
    assert!(plan.backups.is_empty());
    let count = || fs::read_dir(place.path()).expect("it can be read").count();
    let before = count();
    plan.delete(place.path()).expect("there is nothing to delete");
    assert_eq!(count(), before);
    assert!(plan.text(true).ends_with("0 kept, nothing to delete"), "{}", plan.text(true));
}

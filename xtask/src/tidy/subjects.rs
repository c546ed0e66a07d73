//! The subjects of commits: one line that is shown whole in every list.

use super::Findings;
use std::path::Path;
use std::process::Command;

/// The most characters of a subject.
const LENGTH: usize = 72;
/// How many of the newest commits are checked.
const NEWEST: usize = 40;

pub(super) fn check(root: &Path, out: &mut Findings) {
    let log = Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s", &format!("-{NEWEST}")])
        .current_dir(root)
        .output();
    match log {
        Ok(log) if log.status.success() => judge(&String::from_utf8_lossy(&log.stdout), out),
        _ => out.note("there is no history here to look at"),
    }
}

fn judge(log: &str, out: &mut Findings) {
    for (commit, subject) in log.lines().filter_map(|line| line.split_once(' ')) {
        let length = subject.chars().count();
        if length > LENGTH {
            out.file(commit, format!("the subject has {length} characters, {LENGTH} are allowed: {subject}"));
        }
    }
}

#[cfg(test)]
mod tests;

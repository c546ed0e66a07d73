//! The faults that a cluster survives are a value (base/types/src/trust.rs). A fault model is named where something is configured or shown,
//! and compared nowhere else.

use super::repo::Repo;
use super::{Findings, rust};

/// Files in which a model becomes a value, or is chosen.
const CONFIGURATION: [&str; 8] = [
    "base/types/src/trust.rs",
    "base/wire/src/era.rs",
    "host/runtime/src/config",
    "front/command/src/ordering.rs",
    "check/floor/",
    "check/script/src/raft.rs",
    "check/sim/src/plan",
    "check/sim/src/replica.rs",
];

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    for (path, text) in repo.ending(".rs") {
        let exempt = CONFIGURATION.iter().any(|folder| path.starts_with(folder)) || is_test(path);
        if exempt {
            continue;
        }
        for (at, line) in rust::code(text).lines().enumerate() {
            if compares(line) {
                out.at(path, at + 1, "compares a fault model: ask `may_lie()`, or a `Trust` for a size");
            }
        }
    }
}

/// Whether a file holds tests.
pub(super) fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains("/examples/")
}

fn compares(line: &str) -> bool {
    let Some(at) = line.find("FaultModel::") else { return false };
    let (before, after) = (line[..at].trim_end(), &line[at + "FaultModel::".len()..]);
    let name = after.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(after.len());
    let arm = after[name..].trim_start().starts_with("=>");
    before.ends_with("==") || before.ends_with("!=") || after[name..].trim_start().starts_with("==") || arm
}

#[cfg(test)]
mod tests;

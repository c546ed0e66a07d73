//! Which part of a replica may import which: each imports earlier parts, and none imports the modules that join them. A look has references
//! to such parts (docs/decisions/0035), so the same order says which parts may look at which.

use super::models::is_test;
use super::repo::Repo;
use super::{Findings, rust};

/// The parts of a replica, in their order.
const PARTS: &[&str] = &["journal", "gate", "engine", "group", "keeping", "leading", "guide", "reconfigure"];
/// The modules that join them.
const JOINS: &[&str] = &["intake", "node", "pipeline", "problems", "report", "restoring", "together"];
/// The folder of the parts.
const NODE: &str = "host/node/src/";

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    let mut seen = 0;
    for (path, text) in repo.ending(".rs") {
        let Some(within) = path.strip_prefix(NODE).filter(|_| !is_test(path)) else { continue };
        let part = within.split(['/', '.']).next().unwrap_or_default();
        let Some(at) = PARTS.iter().position(|known| *known == part) else { continue };
        seen += 1;
        for (line, text) in rust::code(text).lines().enumerate() {
            for other in imported(text) {
                if JOINS.contains(&other) || PARTS[at + 1..].contains(&other) {
                    let text =
                        format!("{part} imports {other}, and may know only the parts before it: {PARTS:?}");
                    out.at(path, line + 1, text);
                }
            }
        }
    }
    if seen == 0 {
        out.file(NODE, "there is no part of a replica here");
    }
}

/// The modules of the package that a line of code names.
fn imported(line: &str) -> impl Iterator<Item = &str> {
    line.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

#[cfg(test)]
mod tests;

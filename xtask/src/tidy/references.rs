//! No file speaks of things outside the repository that its readers cannot see.

use super::Findings;
use super::repo::Repo;

/// Looked for in upper and lower case. Each is written in two pieces, since this file is checked, too.
const FORBIDDEN: [(&str, &str); 6] = [
    (concat!("..", "/shared"), "a path outside the repository"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("issue", " #"), "say it here instead of pointing at a tracker"),
    (concat!("cla", "ude"), "a tool's name"),
    (concat!("as an", " ai "), "a tool's phrase"),
    (concat!("crates", ".io"), "a registry host"),
];

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    for (path, text) in repo.texts() {
        // cargo writes the registry into lock files
        if path.ends_with("Cargo.lock") {
            continue;
        }
        for (i, line) in text.lines().enumerate() {
            let lower = format!("{} ", line.to_lowercase());
            for (needle, why) in FORBIDDEN.iter().filter(|(needle, _)| lower.contains(needle)) {
                out.at(path, i + 1, format!("{needle:?}: {why}"));
            }
        }
    }
}

#[cfg(test)]
mod tests;

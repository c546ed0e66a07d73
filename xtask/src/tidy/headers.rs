//! Every Markdown file begins with its title; every source file of the core begins with a header (`//!`) that says
//! what it does. Files of tests need none.

use super::Findings;
use super::repo::Repo;

const CORE: [&str; 4] = ["base/", "path/", "host/", "side/"];

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    for (path, text) in repo.ending(".md") {
        if !text.lines().find(|l| !l.trim().is_empty()).is_some_and(|l| l.starts_with("# ")) {
            out.at(path, 1, "a Markdown file begins with its title: `# ...`");
        }
    }
    for (path, text) in repo.ending(".rs") {
        let core = CORE.iter().any(|c| path.starts_with(c)) && path.contains("/src/");
        let tests = path.ends_with("/tests.rs") || path.contains("/tests/");
        if core
            && !tests
            && !text.lines().find(|l| !l.trim().is_empty()).is_some_and(|l| l.starts_with("//!"))
        {
            out.at(path, 1, "begin the file with a header: `//! What it does ...`");
        }
    }
}

#[cfg(test)]
mod tests;

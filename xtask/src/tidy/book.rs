//! The book: `docs/SUMMARY.md` names every page of `docs/`, once, since a page that it does not name is not in the book. And fences of code end
//! with a line of their own: with text behind it, what follows would be code, too. Pages link to nothing outside of `docs/`, which a reader of the
//! book does not have.

use super::Findings;
use super::markdown;
use super::repo::Repo;
use std::collections::BTreeMap;

const SUMMARY: &str = "docs/SUMMARY.md";

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    for (path, text) in repo.ending(".md") {
        for (number, line) in text.lines().enumerate() {
            let behind = line.trim_start().strip_prefix("```").unwrap_or_default();
            if behind.contains([' ', '`']) && !behind.trim().is_empty() {
                out.at(
                    path,
                    number + 1,
                    "a fence stands in a line of its own, with no more than the name of a language",
                );
            }
        }
    }
    for (path, text) in repo.ending(".md") {
        let Some(page) = path.strip_prefix("docs/") else { continue };
        for (line, prose) in markdown::prose(text) {
            for target in markdown::links(prose).into_iter().filter(|target| leaves(page, target)) {
                out.at(
                    path,
                    line,
                    format!("{target} is not in the book: name the file as code, without a link"),
                );
            }
        }
    }
    let Some((_, summary)) = repo.ending(".md").find(|(path, _)| *path == SUMMARY) else {
        return out.note("there is no book yet");
    };
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for line in summary.lines() {
        if let Some(at) = line.find("](") {
            *named.entry(line[at + 2..].trim_end_matches(')')).or_default() += 1;
        }
    }
    for (path, _) in repo.ending(".md").filter(|(path, _)| *path != SUMMARY) {
        let Some(page) = path.strip_prefix("docs/") else { continue };
        match named.get(page) {
            None => out.file(path, format!("add this page to {SUMMARY}: else it is not in the book")),
            Some(1) => {}
            Some(_) => out.file(path, format!("name this page once in {SUMMARY}")),
        }
    }
}

/// Whether a relative link of a page leads out of the folder of the book.
fn leaves(page: &str, target: &str) -> bool {
    let folders = page.matches('/').count();
    target.split('/').take_while(|part| *part == "..").count() > folders
}

#[cfg(test)]
mod tests;

//! Every path and function that the documents name exists, and every relative link leads somewhere.
//!
//! A code span counts as a path when it looks like one and begins with a folder of the layout (`base/`, `path/` ...).
//! `ARCHITECTURE.md` must have the table "life of a request" with rows `| stage | file | function |`.

use super::repo::Repo;
use super::{Findings, markdown, rust};

/// The first part of a repository path.
const TOP: [&str; 12] =
    ["base", "path", "side", "host", "front", "check", "xtask", "fuzz", "docs", "packaging", ".ci", ".cargo"];
const MAP: &str = "ARCHITECTURE.md";

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    for required in [MAP, "README.md", "GLOSSARY.md"] {
        if repo.text(required).is_none() {
            out.file(required, "is missing");
        }
    }
    for (path, text) in repo.ending(".md") {
        for (line, prose) in markdown::prose(text) {
            for span in markdown::spans(prose).filter_map(repository_path) {
                if !alternatives(span).iter().all(|p| exists(repo, p)) {
                    out.at(path, line, format!("`{span}` does not exist"));
                }
            }
            for target in markdown::links(prose) {
                if let Err(why) = link(repo, path, target) {
                    out.at(path, line, why);
                }
            }
        }
    }
    if let Some(map) = repo.text(MAP) {
        life_of_a_request(repo, map, out);
    }
}

/// The path that a code span names, if it names one.
fn repository_path(span: &str) -> Option<&str> {
    let span = span.split_once(':').map_or(span, |(path, _)| path).trim_end_matches('/');
    let (first, rest) = span.split_once('/')?;
    let sign = |c: char| c.is_ascii_alphanumeric() || "_-./{},*".contains(c);
    (TOP.contains(&first) && !rest.is_empty() && span.chars().all(sign)).then_some(span)
}

/// `a/{b,c}.rs` stands for `a/b.rs` and `a/c.rs`.
fn alternatives(path: &str) -> Vec<String> {
    let braces = path.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)));
    match braces {
        None => vec![path.to_string()],
        Some((head, (list, tail))) => {
            list.split(',').flat_map(|one| alternatives(&format!("{head}{one}{tail}"))).collect()
        }
    }
}

/// A `*` stands for anything inside one part of the path.
fn exists(repo: &Repo, pattern: &str) -> bool {
    if !pattern.contains('*') {
        return repo.exists(pattern);
    }
    repo.paths().any(|path| {
        path.matches('/').count() == pattern.matches('/').count()
            && path.split('/').zip(pattern.split('/')).all(|(part, p)| match p.split_once('*') {
                None => part == p,
                Some((head, tail)) => {
                    part.len() >= head.len() + tail.len() && part.starts_with(head) && part.ends_with(tail)
                }
            })
    })
}

fn link(repo: &Repo, from: &str, target: &str) -> Result<(), String> {
    let foreign = ["http://", "https://", "mailto:"].iter().any(|p| target.starts_with(p));
    if foreign {
        return Ok(());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { from.to_string() } else { resolve(from, file)? };
    if !repo.exists(&path) {
        return Err(format!("the link to {target} leads nowhere"));
    }
    let heading = |text| markdown::anchors(text).iter().any(|a| a == anchor);
    if !anchor.is_empty() && path.ends_with(".md") && !repo.text(&path).is_some_and(heading) {
        return Err(format!("the link to {target}: {path} has no such heading"));
    }
    Ok(())
}

/// The path that `file` means in a document at `from`.
fn resolve(from: &str, file: &str) -> Result<String, String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop().ok_or(format!("the link to {file} leaves the repository"))?),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

fn life_of_a_request(repo: &Repo, map: &str, out: &mut Findings) {
    let Some(section) = markdown::section(map, "life of a request") else {
        out.file(MAP, "has no heading \"life of a request\"");
        return;
    };
    let rows = section.iter().filter_map(|(n, line)| Some((*n, markdown::row(line)?)));
    let mut count = 0;
    for (line, cells) in rows.skip(1) {
        count += 1;
        let [_, file, function, ..] = cells.as_slice() else {
            out.at(MAP, line, "a row is `| stage | file | function |`");
            continue;
        };
        let files: Vec<&str> = markdown::spans(file).filter(|s| repo.text(s).is_some()).collect();
        if files.is_empty() {
            out.at(MAP, line, format!("{file} names no file of this repository"));
            continue;
        }
        let mut named = 0;
        for name in markdown::spans(function).map(function_name) {
            named += 1;
            let there = |f: &&str| repo.text(f).is_some_and(|t| rust::has_function(&rust::code(t), name));
            if !files.iter().any(there) {
                out.at(MAP, line, format!("there is no `fn {name}` in {}", files.join(", ")));
            }
        }
        if named == 0 {
            out.at(MAP, line, "a row names a function as a code span");
        }
    }
    if count == 0 {
        out.file(MAP, "the table under \"life of a request\" has no rows");
    }
}

/// `Raft::step()` is called `step`.
fn function_name(span: &str) -> &str {
    let bare = span.split('(').next().unwrap_or(span);
    bare.rsplit("::").next().unwrap_or(bare)
}

#[cfg(test)]
mod tests;

//! Files and functions stay short. The exceptions in `xtask/ratchet.toml` name a limit each, which must be the
//! present length exactly: so it shrinks with the code and can't grow unseen. Tests stand in files of their own.

use super::repo::Repo;
use super::{Findings, rust};

/// A file has fewer lines than this.
const FILE: usize = 800;
/// A function has fewer lines than this.
const FUNCTION: usize = 70;
const RATCHET: &str = "xtask/ratchet.toml";

/// A file, or a function in it, that may be longer.
struct Exception {
    path: String,
    function: Option<String>,
    limit: usize,
    used: bool,
}

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    let mut exceptions = match repo.text(RATCHET).ok_or("is missing".into()).and_then(read) {
        Ok(exceptions) => exceptions,
        Err(why) => return out.file(RATCHET, why),
    };
    for (path, text) in repo.ending(".rs") {
        let code = rust::code(text);
        judge(path, None, 1, text.lines().count(), FILE, &mut exceptions, out);
        for f in rust::functions(&code) {
            judge(path, Some(&f.name), f.line, f.lines, FUNCTION, &mut exceptions, out);
        }
        inline_tests(path, &code, out);
    }
    for e in exceptions.iter().filter(|e| !e.used) {
        let what = e.function.as_ref().map_or(e.path.clone(), |f| format!("{} {f}", e.path));
        out.file(RATCHET, format!("the exception for {what} is not needed any more"));
    }
}

fn judge(
    path: &str,
    function: Option<&str>,
    line: usize,
    lines: usize,
    limit: usize,
    exceptions: &mut [Exception],
    out: &mut Findings,
) {
    if lines < limit {
        return;
    }
    let what = function.map_or("the file".into(), |f| format!("fn {f}"));
    match exceptions.iter_mut().find(|e| e.path == path && e.function.as_deref() == function) {
        None => out.at(path, line, format!("{what} has {lines} lines; fewer than {limit} are allowed")),
        Some(e) => {
            e.used = true;
            if lines > e.limit {
                out.at(path, line, format!("{what} has {lines} lines; its exception allows {}", e.limit));
            } else if lines < e.limit {
                out.file(RATCHET, format!("{path}, {what}: lower the limit from {} to {lines}", e.limit));
            }
        }
    }
}

/// `[[file]]` with `path`, `limit`, `reason`; `[[function]]` with `function`, too.
fn read(text: &str) -> Result<Vec<Exception>, String> {
    let table: toml::Table = text.parse().map_err(|e| format!("{e}"))?;
    let mut exceptions = Vec::new();
    for (kind, entries) in &table {
        if kind != "file" && kind != "function" {
            return Err(format!("{kind}: only [[file]] and [[function]] are known"));
        }
        for entry in entries.as_array().ok_or(format!("{kind}: write [[{kind}]]"))? {
            let word = |key: &str| entry.get(key).and_then(toml::Value::as_str).filter(|s| !s.is_empty());
            let need = |key: &str| word(key).ok_or(format!("[[{kind}]]: {key} is missing"));
            let limit = entry.get("limit").and_then(toml::Value::as_integer);
            need("reason")?;
            exceptions.push(Exception {
                path: need("path")?.into(),
                function: if kind == "function" { Some(need("function")?.into()) } else { None },
                limit: limit
                    .and_then(|l| usize::try_from(l).ok())
                    .ok_or(format!("[[{kind}]]: limit is missing"))?,
                used: false,
            });
        }
    }
    Ok(exceptions)
}

/// Tests stand in files of their own: no module of tests in place, no test in a module's root file.
fn inline_tests(path: &str, code: &str, out: &mut Findings) {
    let root = path.ends_with("/lib.rs") || path.ends_with("/mod.rs");
    for (i, line) in code.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let module = words.windows(2).any(|w| w[0] == "mod" && w[1].trim_end_matches('{').contains("test"));
        if module && line.contains('{') {
            out.at(path, i + 1, "tests stand in a file of their own: `mod tests;`");
        } else if root && line.trim_start().starts_with("#[test]") {
            out.at(path, i + 1, "no tests in lib.rs or mod.rs");
        }
    }
}

#[cfg(test)]
mod tests;

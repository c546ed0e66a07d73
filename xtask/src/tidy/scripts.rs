//! Every message kind of Raft appears in at least one golden script.

use super::repo::Repo;
use super::{Findings, rust};

const MESSAGES: &str = "path/3-order/src/raft/message.rs";
const ENUM: &str = "RaftMessage";
const SCRIPTS: &str = "check/script/scripts/raft";

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    if !repo.exists(SCRIPTS) {
        return out.note(format!("{SCRIPTS} does not exist yet: no golden script to look at"));
    }
    let Some(text) = repo.text(MESSAGES) else { return out.file(MESSAGES, "is missing") };
    let kinds = variants(&rust::code(text), ENUM);
    if kinds.is_empty() {
        return out.file(MESSAGES, format!("has no enum {ENUM}"));
    }
    let scripts: Vec<&str> =
        repo.ending(".txt").filter(|(path, _)| path.starts_with(SCRIPTS)).map(|(_, text)| text).collect();
    // what a script's comments say was not sent
    let said =
        |text: &str, kind: &str| text.lines().any(|l| rust::has_word(l.split('#').next().unwrap_or(l), kind));
    for kind in kinds {
        if !scripts.iter().any(|text| said(text, &kind)) {
            out.file(SCRIPTS, format!("no script shows the message {kind}"));
        }
    }
}

/// The names of an enum's variants.
fn variants(code: &str, name: &str) -> Vec<String> {
    let needle = format!("enum {name}");
    let whole =
        |at: &usize| !code[at + needle.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let at = code.match_indices(&needle).map(|(at, _)| at).find(whole);
    let Some(open) = at.and_then(|at| Some(at + code[at..].find('{')?)) else { return Vec::new() };
    let inside = &code[open + 1..rust::matching_brace(code, open)];
    let mut names = Vec::new();
    let (mut depth, mut expected, mut current) = (0i32, true, String::new());
    for c in inside.chars() {
        if depth == 0 && expected && (c.is_alphanumeric() || c == '_') {
            current.push(c);
            continue;
        }
        if !current.is_empty() {
            names.push(std::mem::take(&mut current));
            expected = false;
        }
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            ',' if depth == 0 => expected = true,
            _ => {}
        }
    }
    names.extend(Some(current).filter(|c| !c.is_empty()));
    names
}

#[cfg(test)]
mod tests;

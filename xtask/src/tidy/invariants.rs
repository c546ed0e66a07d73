//! Invariants: each id in the code is a row of the table in `docs/invariants.md`, and each row is enforced by code
//! that names the id outside a comment. A row that says "by construction" needs only a comment at the place.

use super::repo::Repo;
use super::{Findings, markdown, rust};
use std::collections::BTreeMap;

const TABLE: &str = "docs/invariants.md";
const PREFIX: &str = concat!("INV", "-");

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    let Some(table) = repo.text(TABLE) else { return out.file(TABLE, "is missing") };
    let mut documented: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for (line, text) in markdown::prose(table) {
        let Some(cells) = markdown::row(text) else { continue };
        let Some(id) = cells.first().and_then(|c| ids(c).into_iter().next()) else { continue };
        if let Some((first, _)) = documented.get(id) {
            out.at(TABLE, line, format!("{id} is documented in line {first}, too"));
            continue;
        }
        documented.insert(id, (line, text.to_lowercase().contains("by construction")));
    }
    // xtask's own tests make ids up
    let code: Vec<_> = repo.ending(".rs").filter(|(path, _)| !path.starts_with("xtask/")).collect();
    for (path, text) in code.iter().copied().chain(repo.ending(".md")) {
        for (i, line) in text.lines().enumerate() {
            for id in ids(line).into_iter().filter(|id| !documented.contains_key(id)) {
                out.at(path, i + 1, format!("{id} is not in the table of {TABLE}"));
            }
        }
    }
    let mut enforced: Vec<&str> = Vec::new();
    let mut mentioned: Vec<&str> = Vec::new();
    let texts: Vec<String> = code.iter().map(|(_, text)| rust::without_comments(text)).collect();
    texts.iter().for_each(|text| enforced.extend(ids(text)));
    code.iter().for_each(|(_, text)| mentioned.extend(ids(text)));
    for (id, (line, by_construction)) in &documented {
        let found = if *by_construction { &mentioned } else { &enforced };
        if !found.contains(id) {
            out.at(TABLE, *line, format!("no code enforces {id}: no assert, checker or error names it"));
        }
    }
}

/// The invariant ids in a text.
fn ids(text: &str) -> Vec<&str> {
    text.match_indices(PREFIX).filter_map(|(at, _)| id(&text[at..])).collect()
}

/// The id at the start of `text`: capitals, a hyphen, a number.
fn id(text: &str) -> Option<&str> {
    let area = text[PREFIX.len()..].find(|c: char| !c.is_ascii_uppercase())?;
    let number = text[PREFIX.len() + area..].strip_prefix('-')?;
    let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    (area > 0 && digits > 0).then(|| &text[..PREFIX.len() + area + 1 + digits])
}

#[cfg(test)]
mod tests;

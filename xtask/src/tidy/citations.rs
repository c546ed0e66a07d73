//! Code and pseudo-code point at each other. The code blocks of `docs/protocols/<name>.md` begin their lines with a
//! label, `L14`; the code in `path/3-order/src/<name>`, or the merge's package, cites it as `[<name> L14]`, `[<name> L14-L17]` or
//! `[<name> L3, L9]`. Each line is cited at least once, or stands under a heading "Lines without a citation".

use super::repo::Repo;
use super::{Findings, markdown};
use std::collections::BTreeMap;

/// Each with the folder of its code.
const PROTOCOLS: [(&str, &str); 4] = [
    ("raft", "path/3-order/src/raft"),
    ("mod_smart", "path/3-order/src/mod_smart"),
    ("visigoth", "path/3-order/src/visigoth"),
    ("merge", "path/4-merge/src"),
];

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    for (name, folder) in PROTOCOLS {
        check_protocol(repo, name, folder, out);
    }
}

fn check_protocol(repo: &Repo, name: &str, folder: &str, out: &mut Findings) {
    let document = format!("docs/protocols/{name}.md");
    if !repo.exists(folder) {
        return out.note(format!("{folder} does not exist yet: nothing to compare {document} with"));
    }
    let Some(text) = repo.text(&document) else { return out.file(&document, "is missing") };
    let mut lines: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, line) in markdown::fenced(text) {
        let Some(number) =
            label(line.trim_start()).filter(|(_, rest)| !rest.starts_with(char::is_alphanumeric))
        else {
            continue;
        };
        if let Some(first) = lines.insert(number.0, at) {
            out.at(&document, at, format!("L{} is the label of line {first}, too", number.0));
        }
    }
    if lines.is_empty() {
        return out.file(&document, "no line of its code blocks begins with a label like L1");
    }
    let cited = citations(repo, name, folder, out);
    for (number, (path, line)) in &cited {
        if !lines.contains_key(number) {
            out.at(path, *line, format!("{document} has no L{number}"));
        }
    }
    let exempt: Vec<(usize, u32)> = markdown::section(text, "lines without a citation")
        .unwrap_or_default()
        .into_iter()
        .flat_map(|(at, line)| numbers(line).into_iter().map(move |n| (at, n)))
        .collect();
    for (at, number) in &exempt {
        if cited.contains_key(number) {
            out.at(&document, *at, format!("L{number} is cited: take it off this list"));
        } else if !lines.contains_key(number) {
            out.at(&document, *at, format!("there is no L{number}"));
        }
    }
    for (number, at) in &lines {
        if !cited.contains_key(number) && !exempt.iter().any(|(_, n)| n == number) {
            out.at(&document, *at, format!("L{number} is cited nowhere in {folder}: [{name} L{number}]"));
        }
    }
}

/// The lines that the protocol's code cites, each with one place.
fn citations<'a>(
    repo: &'a Repo,
    name: &str,
    folder: &str,
    out: &mut Findings,
) -> BTreeMap<u32, (&'a str, usize)> {
    let open = format!("[{name} L");
    let mut cited = BTreeMap::new();
    for (path, text) in repo.ending(".rs").filter(|(p, _)| p.starts_with(folder)) {
        for (i, line) in text.lines().enumerate() {
            for (at, _) in line.match_indices(&open) {
                let closed = line[at + open.len() - 1..].split_once(']');
                let numbers = closed.map(|(inside, _)| numbers(inside)).unwrap_or_default();
                if numbers.is_empty() {
                    out.at(
                        path,
                        i + 1,
                        format!("write a citation in one line: [{name} L14-L17], [{name} L3, L9]"),
                    );
                }
                cited.extend(numbers.into_iter().map(|n| (n, (path, i + 1))));
            }
        }
    }
    cited
}

/// `L14` at the start: its number and what follows.
fn label(text: &str) -> Option<(u32, &str)> {
    let digits = text.strip_prefix('L')?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    Some((digits[..end].parse().ok()?, &digits[end..]))
}

/// All labels of a text; a range stands for all between.
fn numbers(text: &str) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let mut range = false;
    let word = |c: char| c.is_alphanumeric() || c == '-';
    for token in text.split(|c| !word(c)).flat_map(|t| t.split_inclusive('-')) {
        let (bare, opens) = token.strip_suffix('-').map_or((token, false), |t| (t, true));
        let number = label(bare).filter(|(_, rest)| rest.is_empty()).map(|(n, _)| n);
        // the second number of a range may lack its L
        let number = number.or_else(|| if range { bare.parse().ok() } else { None });
        if let Some(number) = number {
            match found.last() {
                Some(&from) if range => found.extend(from + 1..=number.min(from + 1000)),
                _ => found.push(number),
            }
        }
        range = opens && number.is_some();
    }
    found
}

#[cfg(test)]
mod tests;

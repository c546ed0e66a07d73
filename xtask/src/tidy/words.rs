//! One word per idea. `GLOSSARY.md` has a section "Words we do not use" with rows `| banned | say instead |`; code, comments and documents
//! have none of these words. `lever arm` is found in `LeverArm` and `lever_arms`, too.
//!
//! Not checked: `GLOSSARY.md`, `docs/protocols` (which quote papers), text about etcd's interface and files and about those of a ZooKeeper, and
//! lines that cite with `(paper:`.

use super::repo::Repo;
use super::{Findings, markdown};

const GLOSSARY: &str = "GLOSSARY.md";
const CITES: &str = "(paper:";

/// Where other systems are spoken of, in their words.
const OTHERS: [&str; 13] = [
    "docs/protocols/",
    "docs/etcd.md",
    "docs/zookeeper.md",
    "docs/operations/metrics.md",
    "host/runtime/src/metrics/table.rs",
    "front/etcd-grpc/",
    "front/etcd/src/moving/",
    "front/cli/src/etcd/",
    "front/cli/tests/all/etcd",
    "front/cli/src/zookeeper/",
    "front/cli/tests/all/zookeeper/",
    "front/zookeeper/src/import/",
    "front/zookeeper/tests/all/import",
];

/// A word or phrase, in parts, and what to say instead.
struct Banned {
    parts: Vec<String>,
    instead: String,
}

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    let Some(glossary) = repo.text(GLOSSARY) else { return out.file(GLOSSARY, "is missing") };
    let banned = match read(glossary) {
        Ok(banned) => banned,
        Err(why) => return out.file(GLOSSARY, why),
    };
    for (path, text) in repo.texts() {
        let looked_at = path.ends_with(".rs") || path.ends_with(".md");
        let speaks_of_others = OTHERS.iter().any(|place| path.starts_with(place));
        if !looked_at || path == GLOSSARY || speaks_of_others {
            continue;
        }
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.contains(CITES)) {
            let words = parts(line);
            for ban in banned.iter().filter(|b| occurs(&b.parts, &words)) {
                let word = ban.parts.join(" ");
                out.at(path, i + 1, format!("\"{word}\" is a word we do not use; say {}", ban.instead));
            }
        }
    }
}

fn read(glossary: &str) -> Result<Vec<Banned>, String> {
    let section =
        markdown::section(glossary, "words we do not use").ok_or("has no heading \"Words we do not use\"")?;
    let rows = section.iter().filter_map(|(_, line)| markdown::row(line));
    let mut banned = Vec::new();
    for cells in rows.skip(1) {
        let [words, instead, ..] = cells.as_slice() else {
            return Err("a row of \"Words we do not use\" is `| banned | say instead |`".into());
        };
        for word in words.split(',') {
            // a remark in brackets is no part of the word
            let parts = parts(word.split('(').next().unwrap_or(word));
            if !parts.is_empty() {
                banned.push(Banned { parts, instead: (*instead).into() });
            }
        }
    }
    if banned.is_empty() { Err("\"Words we do not use\" has no rows".into()) } else { Ok(banned) }
}

/// The words of a line in lower case; `LeverArm` and `lever_arm` are two words each.
fn parts(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for c in line.chars() {
        let boundary = !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase());
        if boundary && parts.last().is_some_and(|p| !p.is_empty()) {
            parts.push(String::new());
        }
        if let (true, Some(part)) = (c.is_alphanumeric(), parts.last_mut()) {
            part.extend(c.to_lowercase());
        }
        before = c;
    }
    parts.retain(|p| !p.is_empty());
    parts
}

/// Whether the phrase occurs among the words. The last word may be a plural.
fn occurs(phrase: &[String], words: &[String]) -> bool {
    words.windows(phrase.len()).any(|window| {
        window.iter().zip(phrase).enumerate().all(|(i, (word, part))| {
            let plural = i + 1 == phrase.len() && word.strip_suffix('s') == Some(part);
            word == part || plural
        })
    })
}

#[cfg(test)]
mod tests;

//! A type that is stepped is a part: it has few fields, and its code stands in few files. In a larger type methods write each other's
//! fields, and it is impossible to say what one of them may touch. Stages, the node and the simulator are checked (`path/`, `host/node`,
//! `check/sim`).

use super::models::is_test;
use super::repo::Repo;
use super::{Findings, rust};
use std::collections::{BTreeMap, BTreeSet};

/// The most fields of a type that is stepped.
const FIELDS: usize = 15;
/// The most files with its `impl`s.
const FILES: usize = 3;
/// The file that connects the parts of a replica, and its most lines: it decides nothing, and is read as a whole.
const PIPELINE: (&str, usize) = ("host/node/src/pipeline.rs", 500);

/// A type of a package.
#[derive(Debug, Default)]
struct Type {
    /// The file and line of its fields, and their number.
    fields: Option<(String, usize, usize)>,
    files: BTreeSet<String>,
    is_stepped: bool,
}

pub(super) fn check(repo: &Repo, out: &mut Findings) {
    judge(repo, out);
    pipeline(repo, PIPELINE, out);
}

fn pipeline(repo: &Repo, (path, lines_max): (&str, usize), out: &mut Findings) {
    let Some((_, text)) = repo.ending(".rs").find(|(known, _)| *known == path) else {
        return out.file(path, "the pipeline is not there: it says who hands what to whom");
    };
    let lines = text.lines().count();
    if lines > lines_max {
        out.file(
            path,
            format!("the pipeline has {lines} lines, and {lines_max} are allowed: parts decide, it hands on"),
        );
    }
}

fn judge(repo: &Repo, out: &mut Findings) {
    let mut types: BTreeMap<(String, String), Type> = BTreeMap::new();
    for (path, text) in repo.ending(".rs") {
        let Some(package) = package(path).filter(|_| !is_test(path)) else { continue };
        read(path, package, &rust::code(text), &mut types);
    }
    for ((_, name), found) in types.iter().filter(|(_, found)| found.is_stepped) {
        let Some((path, line, fields)) = &found.fields else { continue };
        let files = found.files.len();
        if *fields > FIELDS {
            out.at(path, *line, format!("{name} is stepped and has {fields} fields; {FIELDS} are allowed"));
        }
        if files > FILES {
            let list: Vec<&str> = found.files.iter().map(String::as_str).collect();
            let list = list.join(", ");
            out.at(path, *line, format!("{name} is stepped, and its impls stand in {files} files: {list}"));
        }
    }
}

/// The package of a source file of a stage, the node or the simulator.
fn package(path: &str) -> Option<&str> {
    let (package, _) = path.split_once("/src/")?;
    (package.starts_with("path/") || ["host/node", "check/sim"].contains(&package)).then_some(package)
}

fn read(path: &str, package: &str, code: &str, types: &mut BTreeMap<(String, String), Type>) {
    let mut of: Option<String> = None;
    let mut fields: Option<(String, usize, usize)> = None;
    for (at, line) in code.lines().enumerate() {
        if let Some(name) = implemented(line) {
            let key = (package.to_owned(), name.clone());
            types.entry(key).or_default().files.insert(path.to_owned());
            of = Some(name);
        } else if let Some(name) = declared(line) {
            fields = Some((name, at + 1, 0));
        } else if line.starts_with('}') {
            of = None;
            if let Some((name, line, count)) = fields.take() {
                types.entry((package.to_owned(), name)).or_default().fields =
                    Some((path.to_owned(), line, count));
            }
        } else if let Some((.., count)) = &mut fields {
            *count += usize::from(is_field(line));
        } else if let Some(name) = of.as_ref().filter(|_| is_step(line)) {
            types.entry((package.to_owned(), name.clone())).or_default().is_stepped = true;
        }
    }
}

/// The type of the `impl` that begins here, if one does.
fn implemented(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generics) => generics.split_once('>')?.1,
        None => rest.strip_prefix(' ')?,
    };
    let of = rest.split_once(" for ").map_or(rest, |(_, of)| of);
    Some(word(of.trim_start())).filter(|name| !name.is_empty())
}

/// The type whose fields begin here, if they do.
fn declared(line: &str) -> Option<String> {
    let rest = line.split_once("struct ")?;
    let outer = rest.0.is_empty() || rest.0.starts_with("pub");
    (outer && line.trim_end().ends_with('{')).then(|| word(rest.1))
}

fn is_field(line: &str) -> bool {
    let Some(field) = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' ')) else { return false };
    field.split_once(": ").is_some_and(|(name, _)| !name.contains('#') && !name.contains("//"))
}

/// Whether a method begins here that steps: it is called `step` and changes its receiver.
fn is_step(line: &str) -> bool {
    line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ").starts_with("fn step(")
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests;

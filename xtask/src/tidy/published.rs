//! Packages that are published can be built from what is published: they say what they are, depend on nothing private, name the versions that
//! they go with, and read no file outside of their folder.
//!
//! Published are all packages whose manifest does not say `publish = false`. Their tests may need more: nobody runs them elsewhere.

use super::repo::Repo;
use super::{Findings, rust};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Macros that read a file at a build.
const READERS: [&str; 3] = ["include_str!(", "include_bytes!(", "include!("];

/// One package, as `cargo metadata` lists it.
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    folder: String,
    is_published: bool,
    row: &'a Value,
}

pub(super) fn check(root: &Path, metadata: &Value, repo: &Repo, out: &mut Findings) {
    let packages = packages(root, metadata);
    let by_name: BTreeMap<&str, &Package<'_>> =
        packages.iter().map(|package| (package.name, package)).collect();
    for package in packages.iter().filter(|package| package.is_published) {
        let manifest = format!("{}/Cargo.toml", package.folder);
        for key in ["description", "license"] {
            if package.row[key].as_str().is_none_or(str::is_empty) {
                out.file(&manifest, format!("is published and says no {key}"));
            }
        }
        for dependency in package.row["dependencies"].as_array().into_iter().flatten() {
            if let Some(other) = dependency["name"].as_str().and_then(|name| by_name.get(name))
                && let Some(why) = wrong(dependency, other)
            {
                out.file(&manifest, why);
            }
        }
        let inside = format!("{}/", package.folder);
        for (path, text) in repo.ending(".rs").filter(|(path, _)| path.starts_with(&inside)) {
            if !is_for_tests(&path[inside.len()..]) {
                leaves(path, text, &inside, out);
            }
        }
    }
}

fn packages<'a>(root: &Path, metadata: &'a Value) -> Vec<Package<'a>> {
    let rows = metadata["packages"].as_array().into_iter().flatten();
    let packages = rows.filter_map(|row| {
        let manifest = Path::new(row["manifest_path"].as_str()?);
        let folder = manifest.parent()?.strip_prefix(root).ok()?;
        Some(Package {
            name: row["name"].as_str()?,
            version: row["version"].as_str()?,
            folder: folder.to_string_lossy().replace('\\', "/"),
            // A list of registries, of which there are none.
            is_published: row["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
            row,
        })
    });
    packages.collect()
}

/// Why a published package may not have this dependency on a package of ours.
fn wrong(dependency: &Value, other: &Package<'_>) -> Option<String> {
    let (name, version) = (other.name, other.version);
    let required = dependency["req"].as_str().unwrap_or_default();
    if other.is_published {
        let exact = format!("={version}");
        return (required != exact).then(|| {
            format!(
                "should need {name} {exact}, and needs {required:?}: set it in the Cargo.toml of the root"
            )
        });
    }
    if dependency["kind"].as_str() != Some("dev") {
        return Some(format!("is published and needs {name}, which is not"));
    }
    // Cargo leaves dependencies of tests out where they have no version.
    (required != "*").then(|| format!("names a version of {name}, which is not published: leave it out"))
}

/// Whether a file of a package is compiled for its tests and benchmarks alone.
fn is_for_tests(path: &str) -> bool {
    let beside = ["tests/", "benches/", "examples/"];
    beside.iter().any(|folder| path.starts_with(folder))
        || path.ends_with("/tests.rs")
        || path.contains("/tests/")
}

/// Finds files outside of the package that a source file reads.
fn leaves(path: &str, text: &str, inside: &str, out: &mut Findings) {
    let text = rust::without_comments(text);
    let mut before = "";
    for (at, line) in text.lines().enumerate() {
        let is_tested = before.trim() == "#[cfg(doctest)]";
        before = line;
        let named = READERS.iter().find_map(|reader| line.split_once(reader)?.1.split('"').nth(1));
        let goes_out = named.is_some_and(|name| !is_inside(path, name, inside));
        let from_manifest = line.contains("CARGO_MANIFEST_DIR") && line.contains("..");
        if (goes_out || from_manifest) && !is_tested {
            out.at(path, at + 1, "reads a file outside of its package, which is not published with it");
        }
    }
}

/// Whether a path that a file names leads into its own package.
fn is_inside(from: &str, name: &str, inside: &str) -> bool {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            part => parts.push(part),
        }
    }
    parts.join("/").starts_with(inside)
}

#[cfg(test)]
mod tests;

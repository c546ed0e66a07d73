//! Dependencies point one way: `base < side < path < host < front`; `check` may import all, nobody imports `check`;
//! a stage imports no later stage; protocols do not import each other; the laboratory is the program's alone; what fronts and commands share
//! imports none of them.

use super::repo::Repo;
use super::{Findings, rust};
use std::path::Path;

/// The folders of packages with their ranks. A package imports only packages of its own rank and below.
const RANKS: [(&str, u32); 6] =
    [("base", 0), ("side", 1), ("path", 2), ("host", 3), ("front", 4), ("check", 5)];
const CHECK: u32 = 5;
const PACKAGES_MAX: usize = 36;

/// Imports against the rule, with the reasons. `dev`: for tests only.
const ALLOWED: [(&str, &str, Allowed, &str); 9] = [
    ("front/lab", "check/floor", Allowed::Always, "`bench floor` is a command"),
    (
        "front/lab",
        "check/sim",
        Allowed::Always,
        "`sim` and `bench gate` are commands, and its liars are those of `chaos lie`",
    ),
    (
        "host/quorate",
        "check/sim",
        Allowed::Always,
        "`quorate::sim` is its feature, with which a service's author tests it",
    ),
    ("front/etcd-grpc", "check/skipped", Allowed::Tests, "tests beside a real etcd say when there is none"),
    ("front/zookeeper", "check/skipped", Allowed::Tests, "so do tests beside a real ZooKeeper"),
    ("front/web", "check/skipped", Allowed::Tests, "a test in a browser says when there is none"),
    ("front/zookeeper", "check/sim", Allowed::Tests, "its servers are tested on simulated replicas"),
    ("front/oracle", "check/skipped", Allowed::Tests, "so do tests with a real etcd or ZooKeeper"),
    ("front/cli", "check/*", Allowed::Tests, "the tests with real processes live in front/cli"),
];

/// The laboratory, and the program, which alone may import it: programs that run clusters must work without it.
const LABORATORY: (&str, &str) = ("front/lab", "front/cli");
/// Packages that several others of front share; they import nothing else of front.
const SHARED: [&str; 2] = ["front/command", "front/kit"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Always,
    Tests,
}

/// The protocols of the order stage, each a module of it.
const PROTOCOLS: [&str; 2] = ["raft", "mod_smart"];
const ORDER: &str = "path/3-order/src";

/// One package of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its folder below the root.
    pub(crate) folder: String,
    /// Folders of the packages that it imports, and whether only tests do.
    pub(crate) imports: Vec<(String, bool)>,
}

/// The packages that `cargo metadata` lists.
pub(super) fn packages(root: &Path, metadata: &serde_json::Value) -> Result<Vec<Package>, String> {
    let missing = |what: &str| format!("cargo metadata: no {what}");
    let folder = |path: &str| {
        let relative = Path::new(path).strip_prefix(root).ok()?;
        Some(relative.to_string_lossy().replace('\\', "/"))
    };
    let mut packages = Vec::new();
    for package in metadata["packages"].as_array().ok_or_else(|| missing("packages"))? {
        let manifest = package["manifest_path"].as_str().ok_or_else(|| missing("manifest_path"))?;
        let imports = package["dependencies"].as_array().ok_or_else(|| missing("dependencies"))?;
        let imports = imports
            .iter()
            .filter_map(|d| Some((folder(d["path"].as_str()?)?, d["kind"].as_str() == Some("dev"))));
        packages.push(Package {
            name: package["name"].as_str().ok_or_else(|| missing("name"))?.into(),
            folder: folder(manifest.trim_end_matches("/Cargo.toml")).ok_or_else(|| missing("folder"))?,
            imports: imports.collect(),
        });
    }
    Ok(packages)
}

pub(super) fn check(packages: &[Package], out: &mut Findings) {
    if packages.len() > PACKAGES_MAX {
        out.file("Cargo.toml", format!("{} packages; {PACKAGES_MAX} are the most", packages.len()));
    }
    for package in packages {
        if package.name.contains(|c: char| c.is_ascii_digit()) {
            out.file(&package.folder, format!("the name {} carries a number", package.name));
        }
        if rank(&package.folder).is_none() && package.folder != "xtask" {
            out.file(&package.folder, "lies in none of the layout's folders");
        }
        for (import, tests_only) in &package.imports {
            if allowed(&package.folder, import, *tests_only) {
                continue;
            }
            if let Some(why) = wrong(&package.folder, import) {
                out.file(&package.folder, format!("imports {import}: {why}"));
            }
        }
    }
}

fn rank(folder: &str) -> Option<u32> {
    let first = folder.split('/').next()?;
    RANKS.iter().find(|(name, _)| *name == first).map(|(_, rank)| *rank)
}

/// The number of a stage: `path/3-order` is 3.
fn stage(folder: &str) -> Option<u32> {
    folder.strip_prefix("path/")?.split('-').next()?.parse().ok()
}

fn allowed(from: &str, to: &str, tests_only: bool) -> bool {
    ALLOWED.iter().any(|(a, b, when, _)| {
        let same = b.strip_suffix('*').map_or(*b == to, |folder| to.starts_with(folder));
        *a == from && same && (*when == Allowed::Always || tests_only)
    })
}

/// Why `from` may not import `to`.
fn wrong(from: &str, to: &str) -> Option<String> {
    if from == "xtask" {
        return Some("xtask imports none of ours, so that it builds fast and always".into());
    }
    if from == "base/types" {
        return Some("base/types depends on nothing".into());
    }
    if to == LABORATORY.0 && from != LABORATORY.1 {
        return Some("the laboratory is imported by the program alone".into());
    }
    if SHARED.contains(&from) && to.starts_with("front/") {
        return Some("what fronts or commands share imports none of them".into());
    }
    match (rank(from), rank(to)) {
        (Some(CHECK), Some(_)) => None,
        (_, Some(CHECK)) => Some("nobody imports check (exceptions: xtask/src/tidy/deps.rs)".into()),
        (Some(a), Some(b)) if b > a => {
            Some("dependencies point down: base < side < path < host < front".into())
        }
        (Some(_), Some(_)) => match (stage(from), stage(to)) {
            (Some(a), Some(b)) if b > a => Some("a stage never imports a later one".into()),
            _ => None,
        },
        _ => Some("lies in none of the layout's folders".into()),
    }
}

/// A protocol's files name no other protocol's module.
pub(super) fn check_protocols(repo: &Repo, out: &mut Findings) {
    for (path, text) in repo.ending(".rs") {
        let Some(inside) = path.strip_prefix(ORDER).map(|p| p.trim_start_matches('/')) else { continue };
        let first = inside.split('/').next().unwrap_or("").trim_end_matches(".rs");
        if !PROTOCOLS.contains(&first) {
            continue;
        }
        for (i, line) in rust::code(text).lines().enumerate() {
            for other in PROTOCOLS.iter().filter(|p| **p != first) {
                let named = [format!("{other}::"), format!("::{other}")];
                if named.iter().any(|n| line.contains(n.as_str())) && rust::has_word(line, other) {
                    out.at(
                        path,
                        i + 1,
                        format!("{first} imports {other}: protocols never import each other"),
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

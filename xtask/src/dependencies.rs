//! `cargo xtask dependencies`: licenses, versions and sources of the packages that we borrow, by the rules in `deny.toml`.
//!
//! It asks cargo for the locked packages and needs no network and no other program, so the gate runs it in a second. Where `cargo deny` is
//! installed it runs as well, with the same rules; what became known of holes (`cargo deny check advisories`) needs the network.

mod license;

use crate::commands::{Done, cargo, cargo_command, linux_metadata};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::Table;

const RULES: &str = "deny.toml";
/// Where packages may come from.
const REGISTRY: &str = concat!("registry+https://github.com/rust-lang/", "crates", ".io-index");

/// The rules.
struct Rules {
    /// Licenses that every package may have.
    allowed: BTreeSet<String>,
    /// Licenses that single packages may have, too.
    exceptions: BTreeMap<String, BTreeSet<String>>,
    /// Versions that may stand beside a newer one: a name, and how the version begins.
    skipped: Vec<(String, String)>,
}

/// A package that we borrow.
struct Borrowed {
    name: String,
    version: String,
    license: Option<String>,
    source: String,
}

pub(crate) fn dependencies(root: &Path) -> Done {
    let file = root.join(RULES);
    let text =
        std::fs::read_to_string(&file).map_err(|e| format!("dependencies: {}: {e}", file.display()))?;
    let rules = Rules::parse(&text)?;
    let borrowed = borrowed(&linux_metadata(root)?);
    let problems = problems(&borrowed, &rules);
    if !problems.is_empty() {
        return Err(format!("dependencies: {}", problems.join("\ndependencies: ")));
    }
    println!("dependencies: {} packages, no problem", borrowed.len());
    let deny = cargo_command(root, &["deny", "--version"]).output();
    if !deny.is_ok_and(|output| output.status.success()) {
        println!(
            "skipped: cargo-deny is not installed, which would check the same and more (`cargo install cargo-deny`)"
        );
        return Ok(());
    }
    // It knows better which features are on, and so it finds fewer versions side by side than cargo lists.
    let check = ["deny", "--workspace", "check", "--allow", "unmatched-skip", "licenses", "bans", "sources"];
    cargo(root, &check)
}

impl Rules {
    fn parse(text: &str) -> Result<Self, String> {
        let table: Table = text.parse().map_err(|e| format!("dependencies: {RULES}: {e}"))?;
        let list = |section: &str, key: &str| {
            let found = table.get(section).and_then(|section| section.get(key)?.as_array().cloned());
            found.ok_or(format!("dependencies: {RULES} has no list {section}.{key}"))
        };
        let texts = |list: &[toml::Value]| -> BTreeSet<String> {
            list.iter().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
        };
        let row = |row: &toml::Value| Some((row.get("crate")?.as_str()?.to_owned(), row.clone()));
        let exceptions = list("licenses", "exceptions")?;
        let exceptions = exceptions.iter().filter_map(row).map(|(name, row)| {
            let allowed = row.get("allow").and_then(toml::Value::as_array).map(Vec::as_slice);
            (name, texts(allowed.unwrap_or_default()))
        });
        let skip = list("bans", "skip")?;
        let skipped: Option<Vec<_>> = skip
            .iter()
            .map(|skipped| {
                let (name, version) = skipped.get("crate")?.as_str()?.split_once('@')?;
                Some((name.to_owned(), version.to_owned()))
            })
            .collect();
        Ok(Self {
            allowed: texts(&list("licenses", "allow")?),
            exceptions: exceptions.collect(),
            skipped: skipped.ok_or(format!(
                "dependencies: {RULES}: a row of bans.skip is {{ crate = \"NAME@VERSION\" }}"
            ))?,
        })
    }
}

/// The packages of the graph that are not ours.
fn borrowed(metadata: &Value) -> Vec<Borrowed> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let borrowed = packages.filter_map(|package| {
        let text = |key: &str| package[key].as_str().map(str::to_owned);
        Some(Borrowed {
            source: text("source")?,
            name: text("name")?,
            version: text("version")?,
            license: text("license"),
        })
    });
    borrowed.collect()
}

/// All that is against the rules, and rules that nothing needs.
fn problems(borrowed: &[Borrowed], rules: &Rules) -> Vec<String> {
    let mut problems = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in borrowed {
        let shown = format!("{} {}", package.name, package.version);
        if package.source != REGISTRY {
            problems
                .push(format!("{shown} comes from {}: only the usual registry is allowed", package.source));
        }
        versions.entry(&package.name).or_default().insert(&package.version);
        let own = rules.exceptions.get(&package.name);
        let allowed =
            |license: &str| rules.allowed.contains(license) || own.is_some_and(|own| own.contains(license));
        let verdict = match &package.license {
            None => Err("it names none".to_owned()),
            Some(text) => license::satisfied(text, &allowed).and_then(|satisfied| {
                if satisfied { Ok(()) } else { Err(format!("{text} is not allowed by {RULES}")) }
            }),
        };
        if let Err(why) = verdict {
            problems.push(format!("the license of {shown}: {why}"));
        }
    }
    let skips = |(of, begins): &(String, String), name: &str, version: &str| {
        of == name
            && version
                .strip_prefix(begins.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    for (name, versions) in &versions {
        let left =
            versions.iter().filter(|version| !rules.skipped.iter().any(|row| skips(row, name, version)));
        let left: Vec<&str> = left.copied().collect();
        if left.len() > 1 {
            problems.push(format!(
                "{name} is there in several versions, {}: let them be one, or add the older ones to bans.skip in {RULES}",
                left.join(" and ")
            ));
        }
    }
    for row in &rules.skipped {
        let used = versions.get(row.0.as_str()).is_some_and(|versions| {
            versions.len() > 1 && versions.iter().any(|version| skips(row, &row.0, version))
        });
        if !used {
            problems.push(format!("{}@{} in bans.skip of {RULES} is not needed any more", row.0, row.1));
        }
    }
    let unused = rules.exceptions.keys().filter(|name| !versions.contains_key(name.as_str()));
    problems.extend(unused.map(|name| format!("the exception for {name} in {RULES} is not needed any more")));
    problems
}

#[cfg(test)]
mod tests;

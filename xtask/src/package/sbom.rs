//! The list of what the program is made of, as CycloneDX 1.5 in JSON: each package with version, license and checksum, and who needs whom.
//!
//! It has what the program is linked from. Tools that only build or test are not in it. It has no serial number and no time but that of the
//! commit: the same commit gives the same bytes.

use super::facts::{Facts, dependencies};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The document.
///
/// # Errors
/// When something about a package is missing.
pub(crate) fn document(facts: &Facts) -> Result<String, String> {
    let linked = facts.linked();
    let names: BTreeMap<&str, String> =
        linked.iter().filter_map(|package| Some((package["id"].as_str()?, purl(package)))).collect();
    let (program, others): (Vec<&Value>, Vec<&Value>) =
        linked.iter().partition(|package| package["name"] == "quorate-cli" && package["source"].is_null());
    let program = program.first().ok_or("package: cargo lists no program")?;
    let components: Result<Vec<Value>, String> =
        others.iter().map(|package| component(package, "library", facts)).collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(facts.time),
            "component": component(program, "application", facts)?,
        },
        "components": components?,
        "dependencies": graph(facts, &names),
    });
    Ok(format!("{document:#}\n"))
}

fn component(package: &Value, kind: &str, facts: &Facts) -> Result<Value, String> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let purl = purl(package);
    let mut component = Map::new();
    let mut set = |key: &str, value: Value| drop(component.insert(key.into(), value));
    set("type", kind.into());
    set("bom-ref", purl.clone().into());
    set("name", text("name").into());
    set("version", text("version").into());
    set("purl", purl.into());
    if let Some(license) = package["license"].as_str() {
        // Old manifests separate alternatives by a slash.
        set("licenses", json!([{ "expression": license.replace('/', " OR ") }]));
    }
    if !package["source"].is_null() {
        let missing =
            || format!("package: Cargo.lock has no checksum of {} {}", text("name"), text("version"));
        let checksum = checksum(&facts.lock, text("name"), text("version")).ok_or_else(missing)?;
        set("hashes", json!([{ "alg": "SHA-256", "content": checksum }]));
    }
    Ok(Value::Object(component))
}

/// The name of a package that others understand.
fn purl(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version").replace('+', "%2B"))
}

fn checksum<'a>(lock: &'a toml::Table, name: &str, version: &str) -> Option<&'a str> {
    let is = |row: &&toml::Value, key: &str, value: &str| {
        row.get(key).and_then(toml::Value::as_str) == Some(value)
    };
    let mut rows = lock.get("package")?.as_array()?.iter();
    rows.find(|row| is(row, "name", name) && is(row, "version", version))?.get("checksum")?.as_str()
}

/// Who is linked with whom.
fn graph(facts: &Facts, names: &BTreeMap<&str, String>) -> Vec<Value> {
    let nodes = facts.metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let rows = nodes.filter_map(|node| {
        let own = names.get(node["id"].as_str()?)?;
        let on: BTreeSet<&String> = dependencies(node).filter_map(|id| names.get(id)).collect();
        Some((own, json!({ "ref": own, "dependsOn": on })))
    });
    let rows: BTreeMap<&String, Value> = rows.collect();
    rows.into_values().collect()
}

/// A time as CycloneDX writes it.
fn timestamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, in which leap days are at the end of a year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests;

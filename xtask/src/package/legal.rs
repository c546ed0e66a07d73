//! The licenses of what the program is linked from. Most of them ask that their text goes along with a program.

use super::facts::Facts;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// How the names of files begin that hold licenses, in lower case.
const BEGINNINGS: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// The text of the file THIRD-PARTY.txt: which packages the program is linked from, and the texts of their licenses, each once.
///
/// # Errors
/// When a package can not be read.
pub(crate) fn third_parties(facts: &Facts) -> Result<String, String> {
    let mut list = String::new();
    // Who has it, by text.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in facts.linked().into_iter().filter(|package| !package["source"].is_null()) {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let name = format!("{} {}", text("name"), text("version"));
        list.push_str(&format!("{name}: {}\n", text("license")));
        for license in licenses(package).map_err(|e| format!("package: the licenses of {name}: {e}"))? {
            texts.entry(license).or_default().push(name.clone());
        }
    }
    let mut texts: Vec<(String, String)> =
        texts.into_iter().map(|(text, names)| (names.join(", "), text)).collect();
    texts.sort_unstable();
    let mut all = format!("The program `quorate` {} is linked from these packages.\n\n{list}", facts.version);
    for (names, text) in texts {
        all.push_str(&format!("\n{}\n{names}\n\n{}\n", "-".repeat(80), text.trim_end()));
    }
    Ok(all)
}

/// The texts in a package's directory.
fn licenses(package: &Value) -> std::io::Result<Vec<String>> {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let mut texts = Vec::new();
    for entry in manifest.parent().unwrap_or(manifest).read_dir()? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type()?.is_file() && BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) {
            texts.push(String::from_utf8_lossy(&std::fs::read(entry.path())?).replace("\r\n", "\n"));
        }
    }
    texts.sort_unstable();
    Ok(texts)
}

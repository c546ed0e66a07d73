//! The Helm chart: the folder `packaging/helm/quorate`, which also works as it is.

use super::facts::Facts;
use super::tree::Tree;
use super::{read, read_text};
use std::path::Path;

/// Where the chart is.
pub(crate) const CHART: &str = "packaging/helm/quorate";

/// The files of the chart.
///
/// # Errors
/// When a file can not be read, or the chart has another version than the program.
pub(crate) fn files(root: &Path, facts: &Facts) -> Result<Tree, String> {
    let text = read_text(root, &format!("{CHART}/Chart.yaml"))?;
    same_version(&text, &facts.version)?;
    let mut files = Tree::default();
    for folder in ["", "templates/"] {
        let place = root.join(CHART).join(folder);
        let failed = |e: std::io::Error| format!("package: {}: {e}", place.display());
        for entry in place.read_dir().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_file() {
                let name = format!("{folder}{}", entry.file_name().to_string_lossy());
                let data = std::fs::read(entry.path()).map_err(failed)?;
                files.file(&name, 0o644, data);
            }
        }
    }
    files.file("LICENSE", 0o644, read(root, "LICENSE")?);
    Ok(files)
}

/// Refuses a chart whose versions differ from this one.
///
/// # Errors
/// Which ones.
pub(crate) fn same_version(chart: &str, version: &str) -> Result<(), String> {
    for key in ["version", "appVersion"] {
        let lines = chart.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        let found: Vec<&str> = lines.map(|value| value.trim_matches('"')).collect();
        if found != [version] {
            return Err(format!(
                "package: {CHART}/Chart.yaml: {key} should be {version}, as in Cargo.toml, and is {found:?}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! What the manifests say about the program: version, license, maintainer, dependencies.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program's package.
const PROGRAM: &str = "quorate-cli";
/// The library's package, whose description says what the whole is.
const LIBRARY: &str = "quorate";

/// What all packages say.
pub(crate) struct Facts {
    /// As in `Cargo.toml`.
    pub(crate) version: String,
    /// One sentence without a point.
    pub(crate) description: String,
    pub(crate) license: String,
    /// `NAME <ADDRESS>`
    pub(crate) maintainer: String,
    /// When the commit was made, in seconds since 1970, so that packages of one commit are the same bytes.
    pub(crate) time: u64,
    /// Cargo's target directory.
    pub(crate) target: PathBuf,
    /// All packages with all dependencies, for the system that this runs on.
    pub(crate) metadata: Value,
    /// The lock file.
    pub(crate) lock: toml::Table,
    /// Names and versions of what the program is linked from.
    linked: BTreeSet<(String, String)>,
}

impl Facts {
    /// Asks cargo and git.
    ///
    /// # Errors
    /// When a manifest lacks something.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let metadata = crate::commands::full_metadata(root)?;
        let of = |package: &str, key: &str| {
            let found = packages(&metadata).find(|p| p["name"] == package && p["source"].is_null());
            let text = found.and_then(|found| found[key].as_str());
            text.map(str::to_owned).ok_or(format!("package: {package} has no {key} in its manifest"))
        };
        let manifest = metadata["metadata"]["package"]["maintainer"].as_str();
        let maintainer =
            manifest.ok_or("package: Cargo.toml has no workspace.metadata.package.maintainer")?;
        let target =
            metadata["target_directory"].as_str().ok_or("package: cargo names no target directory")?;
        let lock = super::read_text(root, "Cargo.lock")?;
        Ok(Self {
            version: of(PROGRAM, "version")?,
            description: of(LIBRARY, "description")?.trim_end_matches('.').to_owned(),
            license: of(PROGRAM, "license")?,
            maintainer: maintainer.to_owned(),
            time: time(root),
            target: target.into(),
            lock: lock.parse().map_err(|e| format!("package: Cargo.lock: {e}"))?,
            linked: linked(root)?,
            metadata,
        })
    }

    /// The version as Debian orders it: what comes before a release has a `~`.
    pub(crate) fn debian_version(&self) -> String {
        self.version.replacen('-', "~", 1)
    }

    /// The packages that the program is linked from, itself among them: what only tests and builds need is not, nor what macros are made of.
    pub(crate) fn linked(&self) -> Vec<&Value> {
        let is_linked = |package: &&Value| {
            let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
            self.linked.contains(&(text("name"), text("version")))
        };
        let mut linked: Vec<&Value> = packages(&self.metadata).filter(is_linked).collect();
        linked.sort_by_key(|p| (p["name"].as_str(), p["version"].as_str()));
        linked
    }
}

/// Names and versions of what the program is linked from. The metadata would not do: it has no word for features that are off.
fn linked(root: &Path) -> Result<BTreeSet<(String, String)>, String> {
    let host = crate::commands::host(root)?;
    let mut args = vec!["tree", "--locked", "--package", PROGRAM, "--edges", "normal,no-proc-macro"];
    args.extend(["--prefix", "none", "--format", "{p}", "--target", &host]);
    let output =
        crate::commands::cargo_command(root, &args).output().map_err(|e| format!("cargo tree: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let row = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
    };
    Ok(text.lines().filter_map(row).collect())
}

/// All packages of the metadata.
pub(crate) fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// The ids of what a node of the graph is linked with.
pub(crate) fn dependencies(node: &Value) -> impl Iterator<Item = &str> {
    let is_linked = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array().map(Vec::as_slice).unwrap_or_default();
        kinds.iter().any(|kind| kind["kind"].is_null())
    };
    node["deps"].as_array().into_iter().flatten().filter(is_linked).filter_map(|d| d["pkg"].as_str())
}

/// When the commit was made; `SOURCE_DATE_EPOCH` overrides it, as packagers expect.
fn time(root: &Path) -> u64 {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|time| time.parse().ok());
    given.unwrap_or_else(|| {
        let log = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root).output();
        let log = log.map(|log| String::from_utf8_lossy(&log.stdout).into_owned()).unwrap_or_default();
        log.trim().parse().unwrap_or_default()
    })
}

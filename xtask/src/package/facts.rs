//! What the manifests say about the program: version, license, maintainer, dependencies.

use serde_json::Value;
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
            metadata,
        })
    }

    /// The version as Debian orders it: what comes before a release has a `~`.
    pub(crate) fn debian_version(&self) -> String {
        self.version.replacen('-', "~", 1)
    }

    /// The packages that the program is linked from, itself among them, by their ids: what it needs beyond tests and builds.
    pub(crate) fn linked(&self) -> Vec<&Value> {
        let nodes = self.metadata["resolve"]["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_program = |p: &&Value| p["name"] == PROGRAM && p["source"].is_null();
        let mut wanted: Vec<&str> =
            packages(&self.metadata).find(is_program).and_then(|p| p["id"].as_str()).into_iter().collect();
        let mut at = 0;
        while let Some(id) = wanted.get(at).copied() {
            at += 1;
            let node = nodes.iter().find(|node| node["id"] == id);
            let found = node.into_iter().flat_map(dependencies).filter(|id| !wanted.contains(id));
            let found: Vec<&str> = found.collect();
            wanted.extend(found);
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut linked: Vec<&Value> =
            packages(&self.metadata).filter(|p| wanted.iter().any(|id| p["id"] == *id)).collect();
        linked.sort_by_key(|p| (p["name"].as_str(), p["version"].as_str()));
        linked
    }
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

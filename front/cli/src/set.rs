//! `--set KEY=VALUE`: lines of the replicas' configurations, for the commands that make clusters. A line with which no replica would start is
//! written nowhere.
//!
//! Tests: `set/tests.rs`.

use crate::services;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{REPLICA_FILE, replica_directory};
use std::path::Path;
use std::str::FromStr;
use toml::Value;

#[cfg(test)]
mod tests;

/// Lines of configurations that a command sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct SetArgs {
    /// A line of every replica's configuration, such as front.zookeeper.words='["*"]'; see docs/configuration.md
    #[arg(long = "set", value_name = "KEY=VALUE")]
    list: Vec<Setting>,
}

/// A line: its table, nothing for the top, its key, and its value as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    table: String,
    key: String,
    value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) =
            text.split_once('=').ok_or("give a key and a value, as in service.tick_ms=2000")?;
        let is_name = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        };
        if !name.split('.').all(is_name) {
            return Err(format!("\"{name}\" is no key: keys look like front.zookeeper.words"));
        }
        let (table, key) = name.rsplit_once('.').unwrap_or(("", name));
        // Texts may come without quotes.
        let value = match toml::from_str::<toml::Table>(&format!("value = {value}")) {
            Ok(_) => value.to_owned(),
            Err(_) => Value::String(value.to_owned()).to_string(),
        };
        Ok(Self { table: table.to_owned(), key: key.to_owned(), value })
    }
}

impl Setting {
    /// The text of a configuration with this line in it.
    fn put_into(&self, text: &str) -> String {
        let Self { table, key, value } = self;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let is_header = |line: &String| line.trim_start().starts_with('[');
        let begin = if table.is_empty() {
            Some(0)
        } else {
            let header = format!("[{table}]");
            lines.iter().position(|line| line.trim() == header).map(|at| at + 1)
        };
        let line = format!("{key} = {value}");
        let Some(begin) = begin else {
            // Tables of a list come last, and what stands behind them belongs to them.
            let at = lines.iter().position(|line| line.starts_with("[[")).unwrap_or(lines.len());
            lines.splice(at..at, [format!("[{table}]"), line, String::new()]);
            return lines.join("\n") + "\n";
        };
        let end = lines[begin..].iter().position(is_header).map_or(lines.len(), |at| begin + at);
        let is_it = |line: &String| line.split_once('=').is_some_and(|(name, _)| name.trim() == key);
        match lines[begin..end].iter().position(is_it) {
            Some(at) => lines[begin + at] = line,
            None => {
                let blank = lines[begin..end].iter().rposition(|line| !line.trim().is_empty());
                lines.insert(blank.map_or(begin, |at| begin + at + 1), line);
            }
        }
        lines.join("\n") + "\n"
    }
}

impl SetArgs {
    /// Puts the lines into the configurations of these replicas of a cluster: into all that are here, or into none.
    ///
    /// # Errors
    /// When a file can not be read or written, or would be no configuration that a replica starts with.
    pub(crate) fn apply(&self, cluster: &Path, replicas: impl IntoIterator<Item = u16>) -> Outcome<()> {
        if self.list.is_empty() {
            return Ok(());
        }
        let mut written = Vec::new();
        for replica in replicas {
            let file = replica_directory(cluster, replica).join(REPLICA_FILE);
            // A member that was removed may have no directory any more.
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            let text = self.list.iter().fold(text, |text, setting| setting.put_into(&text));
            // Paths in it begin where it is.
            let next = file.with_extension("toml.next");
            std::fs::write(&next, text).doing(format_args!("write {}", next.display()))?;
            written.push((next, file));
        }
        let checked = written.iter().try_for_each(|(next, _)| services::read_config(next).map(drop));
        if let Err(why) = checked {
            written.iter().for_each(|(next, _)| drop(std::fs::remove_file(next)));
            return Err(Failure::usage(format!("with --set no replica would start: {why}")));
        }
        written.iter().try_for_each(|(next, file)| {
            std::fs::rename(next, file).doing(format_args!("write {}", file.display()))
        })
    }

    /// Refuses limits of sessions, which stand in the state with which a cluster begins.
    ///
    /// # Errors
    /// When there is one.
    pub(crate) fn refuse_limits(&self) -> Outcome<()> {
        match self.list.iter().find(|setting| setting.table == "sessions") {
            Some(setting) => Err(Failure::usage(format!(
                "--set sessions.{}: the limits of sessions are part of the state with which the cluster begins",
                setting.key
            ))),
            None => Ok(()),
        }
    }

    /// Refuses lines that hold from the first start of a cluster on.
    ///
    /// # Errors
    /// When there is one.
    pub(crate) fn refuse_first(&self) -> Outcome<()> {
        let first = |setting: &&Setting| ["", "service", "sessions"].contains(&setting.table.as_str());
        let Some(Setting { table, key, .. }) = self.list.iter().find(first) else { return Ok(()) };
        let name = if table.is_empty() { key.clone() } else { format!("{table}.{key}") };
        Err(Failure::usage(format!(
            "--set {name}: the cluster in this directory began without it, and this holds from the first start on. Start over with \
             `quorate dev --fresh`, or choose another directory with --dir"
        )))
    }
}

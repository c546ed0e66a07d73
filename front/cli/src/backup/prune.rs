//! `quorate backup prune`: which backups of a directory are old enough to go, and deletes them if it is told to.
//!
//! It never deletes what it can not read as a backup, and never the newest backup of a cluster. Before it deletes anything it reads the
//! newest one whole: as long as that is damaged, the older ones may be needed. Backups of several clusters in one directory are looked at
//! apart. A backup is complete in itself, so none needs another one. Tests: `prune/tests.rs`, `tests/all/backup.rs`.

use super::facts::{BackupFacts, utc};
use super::keep::{Reason, Rules, newest_first, reasons};
use super::look;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[cfg(test)]
mod tests;

/// Delete backups that are older than needed, and keep the last of each day, week or month.
///
/// Looks at the files of a directory whose names end in `.qbk`, not below it. Only says what it would do, unless --delete is given.
/// The newest backup of each cluster always stays, and so does every file that can not be read as a backup. With --delete the newest
/// ones are verified first; if one is damaged, nothing is deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate backup prune /backup --keep-daily 7 --keep-weekly 4              says what would go
  quorate backup prune /backup --keep-daily 7 --keep-weekly 4 --delete
  quorate backup prune /backup --keep-last 10 --json | jq '.backups[] | select(.kept == []) | .file'

A backup that several rules keep counts for each of them. Days are those of the backups' agreed time, in UTC; weeks begin on
Monday; those without a backup do not count.
Exit codes: 0 done, 1 the newest backup is damaged or a file could not be deleted, 2 wrong command line.")]
pub(super) struct Args {
    /// The directory of the backups
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Keep so many of the newest
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    keep_last: usize,
    /// Keep the newest of each of so many days
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    keep_daily: usize,
    /// Keep the newest of each of so many weeks
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    keep_weekly: usize,
    /// Keep the newest of each of so many months
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    keep_monthly: usize,
    /// Delete what no rule keeps
    #[arg(long)]
    delete: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The end of the names that are looked at.
const ENDING: &str = "qbk";

pub(super) fn run(args: &Args) -> Outcome {
    let rules = Rules {
        last: args.keep_last,
        daily: args.keep_daily,
        weekly: args.keep_weekly,
        monthly: args.keep_monthly,
    };
    if rules == Rules::default() {
        return Err(Failure::usage(
            "no rule says what to keep: give --keep-last, --keep-daily, --keep-weekly or --keep-monthly with a number above 0",
        ));
    }
    let plan = Plan::of(&args.directory, rules)?;
    if args.delete {
        plan.delete(&args.directory)?;
    }
    print::line(if args.json { plan.json(args).to_string() } else { plan.text(args.delete) })?;
    Ok(ExitCode::SUCCESS)
}

/// A file that is a backup.
struct Found {
    name: String,
    path: PathBuf,
    facts: BackupFacts,
    /// Device and inode: which file was looked at.
    file: (u64, u64),
    kept: Vec<Reason>,
}

/// What there is, and what becomes of it.
struct Plan {
    /// By cluster, and of each the newest first.
    backups: Vec<Found>,
    /// Files that can not be read as a backup, with the reason.
    left: Vec<(String, String)>,
}

impl Plan {
    fn of(directory: &Path, rules: Rules) -> Outcome<Self> {
        let reading = || format!("read the directory {}", directory.display());
        let mut clusters: BTreeMap<String, Vec<Found>> = BTreeMap::new();
        let mut left = Vec::new();
        for entry in fs::read_dir(directory).doing(reading())? {
            let entry = entry.doing(reading())?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            // Links are left out: what they name may be the only copy that somebody else has.
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let is_hidden = name.starts_with('.');
            if !is_file || is_hidden || path.extension().is_none_or(|ending| ending != ENDING) {
                continue;
            }
            match find(path, &name) {
                Ok(found) => clusters.entry(found.facts.cluster.to_string()).or_default().push(found),
                Err(why) => left.push((name, why.to_string())),
            }
        }
        let mut backups = Vec::new();
        for (_, mut found) in clusters {
            found.sort_by(|one, other| newest_first(one.age(), other.age()));
            let times: Vec<_> = found.iter().map(|backup| backup.facts.time).collect();
            for (backup, kept) in found.iter_mut().zip(reasons(&times, rules)) {
                backup.kept = kept;
            }
            backups.extend(found);
        }
        left.sort();
        Ok(Self { backups, left })
    }

    fn goes(&self) -> impl Iterator<Item = &Found> {
        self.backups.iter().filter(|backup| backup.kept.is_empty())
    }

    /// Deletes what no rule keeps, once the newest backup of each cluster that loses one is verified.
    fn delete(&self, directory: &Path) -> Outcome<()> {
        let loses = |newest: &&Found| self.goes().any(|goes| goes.facts.cluster == newest.facts.cluster);
        for newest in self.backups.iter().filter(|backup| backup.kept.contains(&Reason::Newest)).filter(loses)
        {
            look::load(&newest.path).map_err(|why| {
                Failure::new(format!(
                    "nothing was deleted, since the newest backup must be sound before older ones go: {why}"
                ))
            })?;
        }
        for backup in self.goes() {
            let deleting = || format!("delete {}", backup.path.display());
            if id(&backup.path).doing(deleting())? != backup.file {
                return Err(Failure::new(format!(
                    "{} was replaced meanwhile, and stays: run the command again",
                    backup.path.display()
                )));
            }
            fs::remove_file(&backup.path).doing(deleting())?;
        }
        File::open(directory)
            .and_then(|opened| opened.sync_all())
            .doing(format_args!("sync {}", directory.display()))
    }

    fn text(&self, deleted: bool) -> String {
        let goes = if deleted { "deleted" } else { "goes" };
        let width = self.backups.iter().map(|backup| backup.name.len()).max().unwrap_or_default();
        let mut lines: Vec<String> = Vec::new();
        for backup in &self.backups {
            let why: Vec<&str> = backup.kept.iter().map(|reason| reason.word()).collect();
            let word = if backup.kept.is_empty() { goes } else { "kept" };
            let (name, time) = (&backup.name, utc(backup.facts.time));
            lines.push(format!("{word:<8} {name:<width$}  {time}  {}", why.join(", ")).trim_end().to_owned());
        }
        lines.extend(self.left.iter().map(|(name, why)| format!("left     {name}: {why}")));
        let (count, bytes) =
            self.goes().fold((0, 0), |(count, bytes), backup| (count + 1, bytes + backup.facts.file_bytes));
        let (kept, bytes) = (self.backups.len() - count, print::size(bytes));
        lines.push(match (deleted, count) {
            (_, 0) => format!("{kept} kept, nothing to delete"),
            (true, _) => format!("{kept} kept, {count} deleted ({bytes})"),
            (false, _) => {
                format!("{kept} kept, {count} would go ({bytes}); nothing was deleted: --delete does it")
            }
        });
        lines.join("\n")
    }

    fn json(&self, args: &Args) -> Value {
        let backup = |backup: &Found| {
            json!({
                "file": backup.path.display().to_string(),
                "cluster": backup.facts.cluster.to_string(),
                "seq": backup.facts.seq.number(),
                "agreed_time_ns": backup.facts.time.nanos(),
                "file_bytes": backup.facts.file_bytes,
                "kept": backup.kept.iter().map(|reason| reason.word()).collect::<Vec<_>>(),
            })
        };
        let left = |(name, why): &(String, String)| json!({ "file": args.directory.join(name).display().to_string(), "why": why });
        json!({
            "deleted": args.delete,
            "backups": self.backups.iter().map(backup).collect::<Vec<_>>(),
            "left": self.left.iter().map(left).collect::<Vec<_>>(),
        })
    }
}

impl Found {
    fn age(&self) -> (quorate_types::Seq, quorate_types::AgreedTime, &str) {
        (self.facts.seq, self.facts.time, &self.name)
    }
}

fn find(path: PathBuf, name: &str) -> Outcome<Found> {
    let file = id(&path).doing(format_args!("read {}", path.display()))?;
    let facts = look::facts(&path)?;
    Ok(Found { name: name.to_owned(), path, facts, file, kept: Vec::new() })
}

fn id(path: &Path) -> std::io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|about| (about.dev(), about.ino()))
}

//! `quorate backup create`: the command line, and what is printed. `quorate_kit::backups` makes the backup.

use super::facts::BackupFacts;
use super::names;
use super::progress::Progress;
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_kit::backups::{self, Absent, NewFile, Wanted, absent};
use quorate_types::ReplicaId;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Write the state of a cluster to a file.
///
/// Takes the newest checkpoint that a majority of the replicas agrees on, and fetches it from all that hold it; every part is
/// compared with the digest that they agree on before it is used. Where replicas may lie, so many of them sign it that one tells the truth, and
/// the signatures stand in the file. The cluster goes on working. With --fresh a new
/// checkpoint is made first, so that every write that was acknowledged before this command began is in the backup. The file
/// appears when it is whole and durable, and is never written over another one. Takes as much memory as the state has.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate backup create --fresh monday.qbk
  quorate backup create --config prod/client.toml --fresh --json /backup/monday.qbk

A majority of the replicas must be reachable from here; with --fresh one of them must lead. Look at the backup with
`quorate backup verify`, begin a new cluster with it with `quorate backup restore`.")]
pub(super) struct Args {
    /// The file to make
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Make a new checkpoint first: everything acknowledged until now will be in the backup
    #[arg(long)]
    fresh: bool,
    /// Where replicas may lie: make it also if too few of them sign it. Nobody can prove later that it is true
    #[arg(long)]
    unproved: bool,
    /// Give up when nothing has moved for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    // First, so that nobody waits for minutes to hear that the disk can not be written.
    let mut file = begin(&args.file)?;
    let patience = Duration::from_secs(args.timeout);
    let wanted = Wanted { fresh: args.fresh, patience, unproved: args.unproved };
    let progress = Progress::new();
    let made = backups::make(&cluster.file(), &wanted, &mut file, &args.file, &|now| progress.follow(now));
    let made = made.map_err(|why| Failure::new(why.to_string()))?;
    drop(progress);
    let (system, objects) = (&made.image.system, Some(&made.image.objects));
    let facts = BackupFacts::of(&made.manifest, system, objects, made.bytes)?.proved_by(made.proof.clone());
    let backups::Made { vouched, from, absent, .. } = made;
    let made = Made { file: &args.file, facts, vouched, from, absent };
    print::line(if args.json { made.json() } else { made.text() })?;
    Ok(ExitCode::SUCCESS)
}

fn begin(path: &Path) -> Outcome<NewFile> {
    NewFile::begin(path).map_err(|why| match why.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::usage(format!(
            "{} exists, and a backup never overwrites: choose another name",
            path.display()
        )),
        _ => Failure::new(format!("can not make {}: {why}", path.display())),
    })
}

/// What is printed after a backup was made.
pub(super) struct Made<'a> {
    file: &'a Path,
    facts: BackupFacts,
    vouched: Vec<ReplicaId>,
    from: Vec<ReplicaId>,
    absent: Vec<Absent>,
}

impl Made<'_> {
    fn text(&self) -> String {
        format!(
            "backup {} is made\n{}\n  {:<13} {}\n  {:<13} {}{}",
            self.file.display(),
            self.facts.text(),
            "vouched by",
            names(&self.vouched),
            "fetched from",
            names(&self.from),
            if self.absent.is_empty() {
                String::new()
            } else {
                format!("\nnot asked:{}", absent(&self.absent))
            },
        )
    }

    fn json(&self) -> String {
        let numbers = |replicas: &[ReplicaId]| replicas.iter().map(|r| r.number()).collect::<Vec<_>>();
        let absent = |absent: &Absent| json!({ "replica": absent.replica.number(), "address": absent.address, "error": absent.why });
        let mut document = self.facts.json();
        document["file"] = json!(self.file.display().to_string());
        document["vouched_by"] = json!(numbers(&self.vouched));
        document["fetched_from"] = json!(numbers(&self.from));
        document["not_asked"] = self.absent.iter().map(absent).collect();
        document.to_string()
    }
}

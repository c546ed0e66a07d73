//! `quorate evidence`: what was proved against replicas: which files there are, what they say, and whether they prove it.
//!
//! A file is checked alone, with a public key that whoever checks it knows already. Replicas are asked only for files. What they send is
//! shown as what it is, bytes of somebody who may lie. docs/formats/evidence.md. Tests: evidence/tests.rs, tests/all/lies.rs.

mod ask;
mod grounds;
mod keys;
mod show;
#[cfg(test)]
mod tests;

pub(crate) use grounds::Grounds;
pub(crate) use keys::configurations;

use ask::{Held, NAME};
use keys::Known;
use quorate_command::cluster::ClusterArgs;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print;
use quorate_order::mod_smart::evidence::Evidence;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show and check what replicas signed that no honest replica signs.
///
/// Where replicas may lie, a replica that signs what contradicts itself can be shown to lie: the file with its statements convinces
/// anybody who has its public key. Replicas keep such files in `evidence` in their data directories.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate evidence list
  quorate evidence show r3-two-accepts-i1-v2-s17.proof
  quorate evidence fetch --to /tmp
  quorate evidence verify /tmp/r3-two-accepts-i1-v2-s17.proof --config replica.toml

What it means, and what to do: docs/operations/alarms.md")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(ListArgs),
    Fetch(FetchArgs),
    Show(ShowArgs),
    Verify(VerifyArgs),
}

/// List the evidence that the replicas hold, or that a directory holds.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate evidence list
  quorate evidence list --json | jq '.evidence[].file'
  quorate evidence list --data /var/lib/quorate

Exit codes: 0 listed, 1 no replica could be asked.")]
struct ListArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// List the files in this data directory, or in this directory of files, and ask nobody
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dir", "config"])]
    data: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Get files of evidence from running replicas.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate evidence fetch
  quorate evidence fetch r3-two-accepts-i1-v2-s17.proof --to /tmp

Files that exist are not replaced.")]
struct FetchArgs {
    /// The name of one file [default: all]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Where to write them
    #[arg(long, value_name = "DIR", default_value = ".")]
    to: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Say in words what a file of evidence holds. This checks nothing: see `quorate evidence verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate evidence show /tmp/r3-two-accepts-i1-v2-s17.proof
  quorate evidence show r3-two-accepts-i1-v2-s17.proof      from the replicas, if there is no such file here

Exit codes: 0 shown, 2 no such file, or no evidence.")]
struct ShowArgs {
    /// The file, or the name of one that a replica holds
    #[arg(value_name = "FILE|NAME")]
    file: PathBuf,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Check a file of evidence: that the statements contradict each other, and that the replica signed them.
///
/// The replica's public key must be known from somewhere else than the file: from the `replica.toml` of any member, or from --key.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate evidence verify /tmp/r3-two-accepts-i1-v2-s17.proof --config /etc/quorate/replica.toml
  quorate evidence verify /tmp/r3-two-accepts-i1-v2-s17.proof --key ed4928c6... --json
  quorate evidence verify r3-two-accepts-i1-v2-s17.proof    a cluster of `quorate dev`, whose directory has the keys

Exit codes: 0 proved, 1 not proved, with the reason, 2 no such file, or no evidence.")]
struct VerifyArgs {
    /// The file, or the name of one that a replica holds
    #[arg(value_name = "FILE|NAME")]
    file: PathBuf,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The public key of the accused replica, 64 hexadecimal digits
    #[arg(long, value_name = "KEY", conflicts_with_all = ["dir", "config"])]
    key: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::List(args) => list(args),
        Command::Fetch(args) => fetch(args),
        Command::Show(args) => show(args),
        Command::Verify(args) => verify(args),
    }
}

fn list(args: &ListArgs) -> Outcome {
    let (held, silent) = match &args.data {
        Some(directory) => (ask::in_directory(directory)?, Vec::new()),
        None => ask::replicas(&args.cluster)?,
    };
    let nobody = held.is_empty() && !silent.is_empty() && ask::members(&args.cluster)? == silent.len();
    if args.json {
        let why = |(replica, why): &(u16, String)| json!({ "replica": replica, "error": why });
        let all: Vec<Value> = held.iter().map(Held::json).collect();
        let silent: Vec<Value> = silent.iter().map(why).collect();
        print::line(print::json(&json!({ "evidence": all, "not_asked": silent }))?)?;
    } else {
        let mut lines: Vec<String> = held.iter().map(Held::text).collect();
        if held.is_empty() && !nobody {
            lines.push("No evidence: nothing is proved against any replica.".into());
        }
        lines.extend(
            silent
                .iter()
                .map(|(replica, why)| format!("replica {replica} was not asked: {}", print::clean(why))),
        );
        print::line(lines.join("\n"))?;
    }
    Ok(if nobody { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn fetch(args: &FetchArgs) -> Outcome {
    let (mut held, silent) = ask::replicas(&args.cluster)?;
    held.retain(|held| args.name.as_ref().is_none_or(|name| held.name() == *name));
    // Replicas that were told different things hold different statements under one name, which all prove the same.
    held.dedup_by_key(|held| held.name());
    if held.is_empty() {
        let silent = if silent.is_empty() { "" } else { ", as far as they answer" };
        return Err(Failure::new(format!(
            "the replicas hold no such evidence{silent}: `quorate evidence list` lists it"
        )));
    }
    let mut paths = Vec::new();
    for held in &held {
        let path = args.to.join(held.name());
        write_new(&path, &held.evidence.encode())?;
        paths.push(path.display().to_string());
    }
    print::line(if args.json { print::json(&paths)? } else { paths.join("\n") })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a file that is not there yet, or is the same.
fn write_new(path: &Path, bytes: &[u8]) -> Outcome<()> {
    match std::fs::read(path) {
        Ok(found) if found == bytes => Ok(()),
        Ok(_) => Err(Failure::new(format!(
            "{} exists and holds something else: choose another directory with --to",
            path.display()
        ))),
        Err(_) => std::fs::write(path, bytes).doing(format_args!("write {}", path.display())),
    }
}

/// The evidence in this file; or, if there is no such file and this is a name, as a replica holds it.
fn find(file: &Path, cluster: &ClusterArgs) -> Outcome<Evidence> {
    if file.exists() {
        return ask::read(file).map_err(|why| Failure::usage(format!("{}: {why}", file.display())));
    }
    let name = file.to_str().filter(|name| name.ends_with(NAME) && !name.contains(['/', '\\']));
    let Some(name) = name else {
        return Err(Failure::usage(format!(
            "there is no file {}: name one, or one that `quorate evidence list` lists",
            file.display()
        )));
    };
    let (held, silent) = ask::replicas(cluster)?;
    let found = held.into_iter().find(|held| held.name() == name);
    found.map(|held| held.evidence).ok_or_else(|| {
        let silent = silent.iter().map(|(replica, why)| format!("\nreplica {replica} was not asked: {}", print::clean(why)));
        let silent: String = silent.collect();
        Failure::usage(format!("neither a file {name} is here, nor does a replica hold it: `quorate evidence list` lists all{silent}"))
    })
}

fn show(args: &ShowArgs) -> Outcome {
    let evidence = find(&args.file, &args.cluster)?;
    print::line(if args.json { print::json(&show::json(&evidence))? } else { show::text(&evidence) })?;
    Ok(ExitCode::SUCCESS)
}

fn verify(args: &VerifyArgs) -> Outcome {
    let evidence = find(&args.file, &args.cluster)?;
    let known = match &args.key {
        Some(text) => Known::of(&evidence, text)?,
        None => keys::find(&args.cluster)?,
    };
    let judged = known.judge(&evidence);
    if args.json {
        let mut document = show::json(&evidence);
        document["proved"] = judged.is_ok().into();
        document["why_not"] = judged.clone().err().into();
        document["keys_from"] = known.from.clone().into();
        print::line(print::json(&document)?)?;
    } else {
        print::line(match &judged {
            Ok(()) => {
                format!("PROVED: {evidence}.\nThe signatures are right under the key in {}.", known.from)
            }
            Err(why) => format!("NOT PROVED that {evidence}: {why}."),
        })?;
    }
    Ok(if judged.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! `quorate doctor`: measures the disk, checks the machine and the configuration, and says what to expect.
//!
//! It writes to nothing that belongs to a cluster, so it can run beside one. Each finding comes with its remedy. A finding that keeps a
//! replica from running is a problem, and makes the exit code 1.
//!
//! Files: `subject` (what is examined), `disk` (the measurement), `place` (file systems), `checks` (limits, clock, processors, space),
//! `own` (data directory, certificate), `ports` (addresses), `expect` (plain words), `report` (what is printed), `visigoth` (another measurement, of a group of processes).
//! Tests: `tests.rs` here, and front/cli/tests/all/doctor.rs with the real program.

mod checks;
mod disk;
mod expect;
mod own;
mod place;
mod ports;
mod report;
mod subject;
#[cfg(test)]
mod tests;
mod visigoth;

use quorate_command::arguments::seconds;
use quorate_command::failure::Outcome;
use quorate_command::machine::Machine;
use quorate_command::print;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use subject::Subject;

/// Measure the disk, look for what is wrong, and say what to expect.
///
/// Looks at the replicas of a cluster on this machine, or at one of them, or only at the disk of a directory. Works beside a
/// running cluster, too: it writes to a file of its own, which is gone however it ends. The disk is then shared, so its
/// figures are worse than those of an idle one.
///
/// Exit code 1 when there is a problem that keeps a replica from running.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  quorate doctor
  quorate doctor --config prod/replica-1/replica.toml
  quorate doctor --dir /mnt/new-disk --seconds 30
  quorate doctor --json | jq .disks[0].syncs
  quorate doctor visigoth

Columns: `p99` is the time that 99 of 100 syncs do not exceed; `per second` is how many of them fit, one after the other."
)]
pub(crate) struct Args {
    /// A directory that `quorate dev` or `quorate init` made, or any other, whose disk is then measured
    /// [default: ./.quorate/dev, else the working directory]
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    pub(crate) dir: Option<PathBuf>,
    /// The configuration of one replica, replica.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How long to measure syncs, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 6.0)]
    seconds: f64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Visigoth(visigoth::Args),
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// A replica can not run.
    Problem,
    /// A replica can run, but not as well as it should.
    Warning,
}

/// Something wrong, and its remedy.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) text: String,
    pub(super) remedy: String,
}

/// The findings in order.
#[derive(Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn problem(&mut self, text: impl Into<String>, remedy: impl Into<String>) {
        self.add(Level::Problem, text.into(), remedy.into());
    }

    pub(super) fn warning(&mut self, text: impl Into<String>, remedy: impl Into<String>) {
        self.add(Level::Warning, text.into(), remedy.into());
    }

    fn add(&mut self, level: Level, text: String, remedy: String) {
        // Replicas on one machine have much in common.
        if !self.0.iter().any(|other| other.text == text) {
            self.0.push(Finding { level, text, remedy });
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    if let Some(Command::Visigoth(args)) = &args.command {
        return visigoth::run(args);
    }
    let length = seconds("--seconds", args.seconds)?;
    let mut findings = Findings::default();
    let subject = Subject::find(args, &mut findings)?;
    let machine = Machine::ask(&subject.places[0]);
    let system = checks::system(&subject, &mut findings);
    let replicas = ports::look(&subject, &mut findings);
    let mut disks = Vec::new();
    for group in subject.disks()? {
        let disk = place::look(&group, &mut findings)?;
        checks::room(&subject, &group, &disk, &replicas, &mut findings);
        let speed = disk::measure(&group.directory, disk.free_bytes, length, &mut findings)?;
        if let Some(speed) = &speed {
            checks::speed(&subject, &group, speed, &disk, &mut findings);
        }
        disks.push(report::DiskReport { disk, speed });
    }
    let fastest = disks.iter().filter_map(|disk| disk.speed.as_ref()).next();
    let expectations = expect::say(&subject, fastest, &replicas);
    let healthy = !findings.0.iter().any(|finding| finding.level == Level::Problem);
    let document =
        report::Document { healthy, machine, system, disks, replicas, expectations, findings: findings.0 };
    print::line(if args.json { print::json(&document)? } else { report::text(&document) })?;
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! `bench stages`: runs the stages of one replica in this process, put together in different ways.
//!
//! - `direct`: one thread does all stages, and decided batches are executed at once;
//! - `merged`: as `direct`, but through the merge of one instance: what the merge costs where it has nothing to merge;
//! - `staged`: a thread for each stage with queues between them, as task-oriented parallelization does it.
//!
//! The ways are compared by processor time per command, of the replica's threads alone; another thread is the client. The stages are the
//! product's own: TLS, frames and admission, Raft with a single voter, the log up to its blocks (which are not written), execution,
//! replies, TLS. The cost of followers and of the kernel's sockets is in none of the ways, so their differences look larger than they would
//! be.
//!
//! Files: `steps` (the stages), `ways` (how they are put together), `watch` (what each stage takes), `caller` (the client).

mod caller;
mod steps;
mod watch;
mod ways;

pub(in crate::bench) use watch::Stage;

use super::draw::{Mark, Page, Row, Rows, about_machine};
use super::median::Median;
use super::options::StagesArgs;
use super::output::Output;
use super::report;
use clap::ValueEnum;
use quorate_command::arguments::seconds;
use quorate_command::authority::DAYS;
use quorate_command::authority::{Destination, Office};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::machine::Machine;
use quorate_command::print::amount;
use quorate_tls::{Credentials, TlsFiles};
use quorate_types::{ClusterId, Holder, Name, ReplicaId};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// How the stages are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// One thread, without the merge
    Direct,
    /// One thread, through the merge
    Merged,
    /// A thread for each stage, without the merge
    Staged,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Direct, Self::Merged, Self::Staged];
}

/// The plan of a run.
#[derive(Clone, Copy)]
struct Plan {
    bytes: usize,
    commands_per_call: usize,
    /// Calls under way.
    calls: usize,
    until: Until,
    /// Whether each stage is watched.
    each: bool,
}

/// What ends a run.
#[derive(Clone, Copy)]
enum Until {
    Seconds(f64),
    Calls(u64),
}

/// One run.
struct Run {
    commands: u64,
    seconds: f64,
    /// Processor seconds of the replica's threads.
    cpu_s: f64,
    /// The share of each stage, if they were watched.
    stages: Vec<(Stage, f64)>,
}

/// What a stage takes.
#[derive(Serialize)]
struct Part {
    stage: Stage,
    cpu_us_per_command: Median,
}

#[derive(Serialize)]
struct Found {
    way: Way,
    commands_per_s: Median,
    cpu_us_per_command: Median,
    /// That time divided by that of the first way, turn by turn.
    cpu_times_the_first: Median,
    /// Empty if stages were not watched.
    stages: Vec<Part>,
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    version: &'static str,
    payload: String,
    bytes: usize,
    commands_per_call: usize,
    calls: usize,
    rounds: u32,
    machine: Machine,
    ways: Vec<Found>,
}

pub(super) fn run(args: &StagesArgs, output: &Output) -> Outcome {
    let document = measure(args)?;
    output.show(&document, || table(&document), || page(&document))?;
    Ok(ExitCode::SUCCESS)
}

/// What each stage takes where one thread does them all, in microseconds per command.
pub(super) fn each(args: &StagesArgs) -> Outcome<Vec<(Stage, f64)>> {
    let document = measure(args)?;
    let parts = document.ways.iter().flat_map(|way| &way.stages);
    Ok(parts.map(|part| (part.stage, part.cpu_us_per_command.median)).collect())
}

fn measure(args: &StagesArgs) -> Outcome<Document> {
    let plan = check(args)?;
    fs::create_dir_all(&args.scratch).doing(format_args!("make {}", args.scratch.display()))?;
    let machine = Machine::ask(&args.scratch);
    let certificates = Certificates::make(&args.scratch)?;
    let mut runs: Vec<Vec<Run>> = args.ways.iter().map(|_| Vec::new()).collect();
    for round in 0..args.rounds {
        for step in 0..args.ways.len() {
            // Every other time the other way round: what changes steadily favours nobody.
            let at = if round % 2 == 0 { step } else { args.ways.len() - 1 - step };
            runs[at].push(ways::run(args.ways[at], plan, &certificates)?);
        }
    }
    let found = args.ways.iter().zip(&runs).map(|(way, own)| found(*way, own, &runs[0]));
    Ok(Document {
        benchmark: "stages",
        version: env!("CARGO_PKG_VERSION"),
        payload: format!("{} B commands, {} in a call and in a batch", args.bytes, args.commands_per_call),
        bytes: args.bytes,
        commands_per_call: args.commands_per_call,
        calls: args.calls,
        rounds: args.rounds,
        machine,
        ways: found.collect::<Option<_>>().ok_or_else(|| Failure::new("nothing was measured"))?,
    })
}

/// Refuses what can not run, and says why.
fn check(args: &StagesArgs) -> Outcome<Plan> {
    if args.bytes < 16 || !args.bytes.is_multiple_of(8) {
        return Err(Failure::usage("--bytes is at least 16 and a multiple of 8"));
    }
    if !(1..=2 << 20).contains(&args.commands_per_call.saturating_mul(args.bytes)) {
        return Err(Failure::usage("--commands-per-call times --bytes is at most 2 MiB"));
    }
    if !(1..=500).contains(&args.calls) {
        return Err(Failure::usage("--calls is 1 to 500, what a session may leave unanswered"));
    }
    let until = match args.count {
        Some(count) => Until::Calls(count),
        None => Until::Seconds(seconds("--secs", args.secs)?.as_secs_f64()),
    };
    let (bytes, commands_per_call, calls) = (args.bytes, args.commands_per_call, args.calls);
    Ok(Plan { bytes, commands_per_call, calls, until, each: args.each })
}

/// The certificates of the two sides.
struct Certificates {
    replica: Credentials,
    client: Credentials,
}

impl Certificates {
    /// Makes them in files, which are read and removed.
    fn make(scratch: &Path) -> Outcome<Self> {
        let directory = scratch.join(format!("stages-{}", std::process::id()));
        let made = Self::make_in(&directory);
        let _ = fs::remove_dir_all(&directory);
        made
    }

    fn make_in(directory: &Path) -> Outcome<Self> {
        let office = Office::create(directory, ClusterId::new(1))?;
        let issue = |name: &str, holder: Holder| -> Outcome<Credentials> {
            let files =
                office.issue(&Destination { directory, name }, &holder, &["localhost".to_owned()], DAYS)?;
            let files = TlsFiles { ca: files.ca, certificate: files.certificate, key: files.key };
            Credentials::load(&files).doing("read certificates that were just made")
        };
        let name = Name::parse("bench").ok_or_else(|| Failure::new("a name of our own is none"))?;
        Ok(Self {
            replica: issue("replica", Holder::Replica(ReplicaId::new(1)))?,
            client: issue("client", Holder::Client(name))?,
        })
    }
}

fn found(way: Way, own: &[Run], first: &[Run]) -> Option<Found> {
    let cpu_us = |run: &Run| run.cpu_s / run.commands.max(1) as f64 * 1e6;
    let times = own.iter().zip(first).map(|(own, first)| cpu_us(own) / cpu_us(first).max(f64::MIN_POSITIVE));
    Some(Found {
        way,
        commands_per_s: Median::of(own.iter().map(|run| run.commands as f64 / run.seconds).collect())?,
        cpu_us_per_command: Median::of(own.iter().map(cpu_us).collect())?,
        cpu_times_the_first: Median::of(times.collect())?,
        stages: parts(own)?,
    })
}

fn parts(own: &[Run]) -> Option<Vec<Part>> {
    let cpu_us =
        |run: &Run, at: usize| Some(run.stages.get(at)?.1 * run.cpu_s / run.commands.max(1) as f64 * 1e6);
    let stages = own.first()?.stages.iter().enumerate();
    let part = |(at, (stage, _)): (usize, &(Stage, f64))| {
        let median = Median::of(own.iter().filter_map(|run| cpu_us(run, at)).collect())?;
        Some(Part { stage: *stage, cpu_us_per_command: median })
    };
    stages.map(part).collect()
}

fn table(document: &Document) -> String {
    let mut lines = vec![format!(
        "stages: one replica's in this process, TLS, {}, {} calls under way; {} turns; medians, in brackets what bounds them with {:.1} % \
         confidence",
        document.payload,
        document.calls,
        document.rounds,
        document.ways.first().map_or(0.0, |found| found.cpu_us_per_command.confidence)
    )];
    for found in &document.ways {
        lines.push(format!(
            "  {:<8}  {} commands/s  {} us per command, {} times the first",
            quorate_command::arguments::name(found.way),
            found.commands_per_s.text(amount),
            found.cpu_us_per_command.text(|us| format!("{us:.3}")),
            found.cpu_times_the_first.text(|times| format!("{times:.3}"))
        ));
        for part in &found.stages {
            let us = part.cpu_us_per_command.text(|us| format!("{us:.4}"));
            lines.push(format!("            {:<8}  {us} us", format!("{:?}", part.stage).to_lowercase()));
        }
    }
    lines.push(report::machine_lines(&document.machine));
    lines.join("\n")
}

fn page(document: &Document) -> Page {
    let name = |found: &Found| quorate_command::arguments::name(found.way);
    let rows = |of: fn(&Found) -> &Median| {
        let row = |found: &Found| Row { name: name(found), marks: vec![Mark::bounded(of(found))] };
        document.ways.iter().map(row).collect()
    };
    let confidence = document.ways.first().map_or(0.0, |found| found.cpu_us_per_command.confidence);
    let mut about = vec![
        ("durability", "none: blocks of the log are not written".to_owned()),
        ("payload", document.payload.clone()),
        ("callers", format!("one client in this process, {} calls under way", document.calls)),
        ("replicas", "the stages of one, crash faults, with TLS".to_owned()),
        ("rounds", document.rounds.to_string()),
        ("floor", "not run: the ways are compared with the first of them".to_owned()),
    ];
    about.extend(about_machine(&document.machine));
    let mut all = vec![
        Rows::new(
            "Processor time beside the first way, turn by turn",
            "times the first",
            &["ratio"],
            rows(|found| &found.cpu_times_the_first),
        )
        .beside_one(),
        Rows::new(
            "Processor time for each command",
            "microseconds",
            &["time"],
            rows(|found| &found.cpu_us_per_command),
        ),
        Rows::new("Rate", "commands per second", &["rate"], rows(|found| &found.commands_per_s)),
    ];
    for found in document.ways.iter().filter(|found| !found.stages.is_empty()) {
        let part = |part: &Part| Row {
            name: format!("{:?}", part.stage).to_lowercase(),
            marks: vec![Mark::bounded(&part.cpu_us_per_command)],
        };
        let parts = found.stages.iter().map(part).collect();
        all.push(Rows::new(
            &format!("Stages of {}", name(found)),
            "microseconds for each command",
            &["time"],
            parts,
        ));
    }
    Page {
        title: "What the stages of a replica take".into(),
        intro: format!(
            "Medians of rounds in turns; lines are bounds that hold with a confidence of {confidence:.1} %."
        ),
        rows: all,
        about,
        ..Page::default()
    }
}

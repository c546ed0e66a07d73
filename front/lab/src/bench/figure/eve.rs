//! The figure `eve-4`: how much faster a service becomes when its commands run side by side, by the number of workers and by how long a command
//! takes.
//!
//! After figure 3.4 of Kapritsos' dissertation (section 3.5.2). There commands compute, on 16 cores; here they sleep unless told otherwise, since a
//! thread that sleeps needs no core. Tests: `tests.rs` beside this file.

use super::page::{Page, Table};
use super::plot::{Chart, Line, colour};
use super::{Drawn, FigureArgs, refuse, shares};
use crate::bench::bft;
use crate::bench::load::{self, Call, Plan, Work};
use crate::bench::median::{self, Median};
use crate::bench::options::Measurement;
use crate::bench::report::{self, Check, Durability};
use crate::bench::target::Target;
use crate::bench::temporary::Settings;
use quorate::client::{Answer, Encoded};
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_command::machine::Machine;
use quorate_command::print::{amount, json};
use quorate_kv::{WorkCommand, compute};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Replicas of each cluster; one where commands compute, since replicas on one machine share its cores.
const fn replicas(computes: bool) -> u16 {
    if computes { 1 } else { 3 }
}

/// Callers for each of the most workers, so that none waits.
const CALLERS_EACH: usize = 4;
/// The objects; few callers hit the same one by chance.
const OBJECTS: u32 = 1 << 20;

/// The options of this figure alone.
#[derive(Debug, clap::Args)]
pub(crate) struct EveArgs {
    /// For eve-4: how long a command takes, in microseconds
    #[arg(long, value_name = "US", value_delimiter = ',', default_values_t = [10_000, 1000, 100])]
    command_us: Vec<u32>,
    /// For eve-4: how many workers each replica has
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16])]
    workers: Vec<u16>,
    /// For eve-4: commands compute rather than sleep
    #[arg(long)]
    computes: bool,
    /// For eve-4: the size of the object that a command changes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    object_bytes: u32,
    /// For eve-4: in how many of 1000 commands the object is the same one
    #[arg(long, value_name = "SHARE", default_value_t = 0)]
    conflicts: u32,
}

impl EveArgs {
    fn check(&self) -> Outcome<()> {
        if self.command_us.is_empty() || self.command_us.iter().any(|us| !(1..=1_000_000).contains(us)) {
            return refuse("--command-us is a list of numbers from 1 to 1000000");
        }
        if self.workers.is_empty() || self.workers.iter().any(|count| !(1..=1024).contains(count)) {
            return refuse("--workers is a list of numbers from 1 to 1024");
        }
        if self.object_bytes > 1 << 20 || self.conflicts > 1000 {
            return refuse("--object-bytes is at most 1048576, and --conflicts at most 1000");
        }
        Ok(())
    }
}

/// A way to execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Sequential,
    Workers(u16),
}

impl Way {
    fn settings(self) -> Settings {
        match self {
            Self::Sequential => Vec::new(),
            Self::Workers(count) => vec![
                ("execution", "executor", toml::Value::String("ordered".into())),
                ("execution", "workers", toml::Value::Integer(count.into())),
            ],
        }
    }

    fn name(self) -> String {
        match self {
            Self::Sequential => "sequential".into(),
            Self::Workers(1) => "1 worker".into(),
            Self::Workers(count) => format!("{count} workers"),
        }
    }
}

/// Commands that take long.
struct Long {
    command: WorkCommand,
    conflicts: u32,
    next: u32,
    answered: u64,
}

impl Work for Long {
    fn next(&mut self, _: usize) -> Call {
        self.next = self.next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let shared = (self.next >> 12) % 1000 < self.conflicts;
        self.command.objects[0] = if shared { OBJECTS } else { (self.next >> 8) % OBJECTS };
        Call::Commands(Encoded::one(&self.command.encode()))
    }

    fn answered(&mut self, _: usize, answer: &Answer) -> Outcome<()> {
        self.answered += 1;
        match answer.first() {
            Some(reply) if reply.len() == 8 => Ok(()),
            other => Err(Failure::new(format!("a command was answered with {other:?}"))),
        }
    }
}

/// One run.
struct Run {
    per_s: f64,
    p50_ms: f64,
    cpu_us: f64,
    errors: u64,
    check: Check,
}

/// What was measured of a way with commands of one length.
#[derive(Serialize)]
struct Point {
    command_us: u32,
    /// 0: sequential.
    workers: u16,
    per_s: Median,
    /// Beside one command at a time in the same round: sequential execution, or one worker, whichever was faster.
    speedup: Median,
    p50_ms: Median,
    /// Processor time of all replicas for each command, in microseconds.
    cpu_us: Median,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    replicas: u16,
    computes: bool,
    object_bytes: u32,
    conflicts_of_1000: u32,
    callers: usize,
    rounds: u32,
    seconds: f64,
    valid: bool,
    trouble: Vec<String>,
    points: Vec<Point>,
    machine: Machine,
}

/// How many rounds of computing take a microsecond here.
fn rounds_per_us() -> f64 {
    let (began, rounds) = (Instant::now(), 20_000_000);
    std::hint::black_box(compute(rounds));
    rounds as f64 / (began.elapsed().as_secs_f64() * 1e6)
}

/// Measures and draws.
pub(super) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    args.eve.check()?;
    let measurement = Measurement { replicas: Some(replicas(args.eve.computes)), ..args.measurement() };
    let ways: Vec<Way> = std::iter::once(Way::Sequential)
        .chain(args.eve.workers.iter().map(|count| Way::Workers(*count)))
        .collect();
    let callers = CALLERS_EACH * usize::from(args.eve.workers.iter().copied().max().unwrap_or(1));
    let pace = if args.eve.computes { rounds_per_us() } else { 0.0 };
    let (mut points, mut trouble) = (Vec::new(), Vec::new());
    for us in &args.eve.command_us {
        let mut runs: Vec<Vec<Run>> = ways.iter().map(|_| Vec::new()).collect();
        for round in 1..=args.rounds {
            for at in median::order(round, ways.len()) {
                let title = format!("{us} us, {} {round}/{}", ways[at].name(), args.rounds);
                runs[at].push(once(args, &measurement, (ways[at], *us, pace), callers, &title)?);
            }
        }
        let one = one_at_a_time(&ways, &runs);
        points.extend(ways.iter().zip(&runs).filter_map(|(way, own)| point(*us, *way, own, &one)));
        let wrong = |(way, runs): (&Way, &Vec<Run>)| {
            let run = runs.iter().find(|run| run.errors > 0 || !run.check.is_passed())?;
            Some(format!(
                "NOT VALID, {us} us, {}: {} calls failed; {}",
                way.name(),
                run.errors,
                run.check.text()
            ))
        };
        trouble.extend(ways.iter().zip(&runs).filter_map(wrong));
    }
    let document = Document {
        figure: "eve-4",
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&measurement),
        replicas: replicas(args.eve.computes),
        computes: args.eve.computes,
        object_bytes: args.eve.object_bytes,
        conflicts_of_1000: args.eve.conflicts,
        callers,
        rounds: args.rounds,
        seconds: args.secs,
        valid: trouble.is_empty(),
        trouble,
        points,
        machine: Machine::ask(&measurement.scratch),
    };
    let page = page(&document, &args.eve);
    let valid = if document.valid { "" } else { "NOT VALID, see below. " };
    let mut lines = vec![format!("{valid}eve-4: {}", page.title), page.table.text()];
    lines.extend(page.facts.iter().map(|fact| format!("  {fact}")));
    Ok(Drawn { html: page.html(), json: json(&document)?, text: lines.join("\n"), valid: document.valid })
}

fn once(
    args: &FigureArgs,
    own: &Measurement,
    (way, us, pace): (Way, u32, f64),
    callers: usize,
    title: &str,
) -> Outcome<Run> {
    let mut target = Target::configured(own, ServiceChoice::Work, way.settings())?;
    let plan = Plan {
        sessions: callers,
        slots: callers,
        commands_per_call: 1,
        warm: Duration::from_secs_f64(own.warm),
        measure: seconds("--secs", own.secs)?,
    };
    let (sleep_us, rounds) = if args.eve.computes { (0, (f64::from(us) * pace) as u64) } else { (us, 0) };
    let command = WorkCommand { sleep_us, rounds, object_bytes: args.eve.object_bytes, objects: vec![0] };
    let mut work = Long { command, conflicts: args.eve.conflicts, next: 1, answered: 0 };
    let measured = load::run(&mut target, &plan, &mut work, title)?;
    let check = match measured.errors {
        0 => bft::verify(&target, work.answered)?,
        _ => Check::not_done("some calls failed"),
    };
    let cpu_s: f64 = measured.replicas_cpu.iter().map(|cpu| cpu.total_s()).sum();
    Ok(Run {
        per_s: measured.commands as f64 / measured.seconds,
        p50_ms: measured.latency.value_at_quantile(0.5) as f64 / 1e6,
        cpu_us: cpu_s * 1e6 / (measured.commands as f64).max(1.0),
        errors: measured.errors,
        check,
    })
}

/// The rate of one command at a time in each round. Sequential execution shares a thread with agreement, which waits while a command sleeps;
/// so one worker can be faster, and that one counts.
fn one_at_a_time(ways: &[Way], runs: &[Vec<Run>]) -> Vec<f64> {
    let alone = |way: &Way| matches!(way, Way::Sequential | Way::Workers(1));
    let those: Vec<&Vec<Run>> =
        ways.iter().zip(runs).filter(|(way, _)| alone(way)).map(|(_, runs)| runs).collect();
    let rounds = those.first().map_or(0, |runs| runs.len());
    let fastest = |round: usize| those.iter().map(|runs| runs[round].per_s).fold(1e-9, f64::max);
    (0..rounds).map(fastest).collect()
}

/// The medians of a way; its rounds are compared with one command at a time.
fn point(command_us: u32, way: Way, own: &[Run], one: &[f64]) -> Option<Point> {
    let all = |value: fn(&Run) -> f64| Median::of(own.iter().map(value).collect());
    let speedup = own.iter().zip(one).map(|(own, one)| own.per_s / one);
    let workers = if let Way::Workers(count) = way { count } else { 0 };
    Some(Point {
        command_us,
        workers,
        per_s: all(|run| run.per_s)?,
        speedup: Median::of(speedup.collect())?,
        p50_ms: all(|run| run.p50_ms)?,
        cpu_us: all(|run| run.cpu_us)?,
    })
}

fn page(document: &Document, args: &EveArgs) -> Page {
    let how = if document.computes { "computes" } else { "sleeps" };
    Page {
        title: "Speed-up by workers, for commands of different lengths".into(),
        intro: format!(
            "Each command {how} for the given time and changes one object of {} B; {} callers, each with one command outstanding; {}, {} s each.",
            document.object_bytes,
            document.callers,
            shares::rounds(document.rounds),
            document.seconds
        ),
        charts: vec![Chart {
            title: "Requests per second beside one command at a time".into(),
            x_label: "workers of each replica".into(),
            y_label: "times".into(),
            logarithmic: false,
            x_most: args.workers.iter().copied().max().unwrap_or(1).into(),
            lines: args.command_us.iter().enumerate().map(|(at, us)| line(document, at, *us)).collect(),
            bars_label: None,
        }],
        table: table(document),
        facts: facts(document),
    }
}

fn line(document: &Document, at: usize, us: u32) -> Line {
    let own = document.points.iter().filter(move |point| point.command_us == us && point.workers > 0);
    let values = own.map(|point| (f64::from(point.workers), Some(point.speedup)));
    shares::line(format!("{us} us"), colour(at), values)
}

fn table(document: &Document) -> Table {
    let head = ["command", "workers", "requests/s", "times one at a time", "p50 ms", "CPU us, all replicas"];
    let mut lengths: Vec<u32> = document.points.iter().map(|point| point.command_us).collect();
    lengths.dedup();
    let row = |point: &Point| {
        let at = lengths.iter().position(|us| *us == point.command_us).unwrap_or(0);
        let workers = if point.workers == 0 { "sequential".to_owned() } else { point.workers.to_string() };
        let cells = vec![
            format!("{} us", point.command_us),
            workers,
            shares::cell(&point.per_s, amount),
            shares::cell(&point.speedup, |times| format!("{times:.2}")),
            shares::cell(&point.p50_ms, |ms| format!("{ms:.2}")),
            shares::cell(&point.cpu_us, |us| format!("{us:.0}")),
        ];
        (colour(at), cells)
    };
    Table { head: head.map(str::to_owned).to_vec(), rows: document.points.iter().map(row).collect() }
}

fn facts(document: &Document) -> Vec<String> {
    let mut facts = document.trouble.clone();
    facts.push(format!(
        "{} replicas, crash faults, durability {}; quorate {}; in {} of 1000 commands the object is the same one",
        document.replicas, document.durability, document.version, document.conflicts_of_1000
    ));
    facts.push(
        "the paper, 16 workers on 16 cores, results verified: 12.5 times for 10 ms, 10 times for 1 ms, 3.3 times for 0.1 ms, where replication \
         is the limit"
            .into(),
    );
    facts.push(
        "one at a time: sequential execution or one worker, whichever was faster in that round; a command that sleeps on the main lane holds up \
         agreement"
            .into(),
    );
    if !document.computes {
        facts.push("commands sleep, so workers need no cores of their own; with --computes they do".into());
    }
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}

//! The figures `eve-4` to `eve-7`: how much faster a service becomes when its commands run side by side; `eve-8`, a pair of which one is away;
//! `eve-9`, bugs of threads that are masked; and `eve-3`, `eve-10` and `eve-11`, a bookshop.
//!
//! After figures 3.4 to 3.7 of Kapritsos' dissertation (section 3.5.2). There commands compute, on 16 cores; here they sleep unless told otherwise, since a
//! thread that sleeps needs no core. Files: `cases` (what each figure measures), `way` (executors, and hints that are wrong), `pair` (eve-8), `masked`
//! (eve-9), `shop` (the bookshop), `plain` (servers that it is compared with). Tests: `tests.rs` beside this folder, `masked/tests.rs`, `plain/tests.rs`.

mod cases;
pub(super) mod masked;
pub(super) mod pair;
mod plain;
pub(super) mod shop;
mod way;

use super::{Drawn, FigureArgs, refuse, shares};
use crate::bench::bft;
use crate::bench::draw::{Chart, Page, Table, colour};
use crate::bench::load::{self, Plan};
use crate::bench::median::{self, Median};
use crate::bench::options::Measurement;
use crate::bench::report::{self, Check, Durability};
use crate::bench::target::Target;
use cases::Case;
pub(super) use cases::What;
use clap::ValueEnum;
use quorate_command::arguments::seconds;
use quorate_command::failure::Outcome;
use quorate_command::layout::ServiceChoice;
use quorate_command::machine::Machine;
use quorate_command::print::amount;
use quorate_kv::{WorkCommand, compute};
use serde::Serialize;
use serde_json::Value;
use std::time::{Duration, Instant};
use way::{Errors, Long, Way};

/// Replicas of each cluster; one where commands compute, since replicas on one machine share its cores.
const fn replicas(computes: bool) -> u16 {
    if computes { 1 } else { 3 }
}

/// Callers for each of the most workers, so that none waits; with conflicts more, so that batches are large.
const CALLERS_EACH: (usize, usize) = (4, 8);

/// An executor that uses workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Parallel {
    Ordered,
    Speculative,
}

/// The options of these figures alone.
#[derive(Debug, clap::Args)]
pub(crate) struct EveArgs {
    /// For eve-4 to eve-9: how long a command takes, in microseconds; eve-5 to eve-9 take the second one
    #[arg(long, value_name = "US", value_delimiter = ',', default_values_t = [10_000, 1000, 100])]
    command_us: Vec<u32>,
    /// For eve-3 to eve-7: how many workers each replica has; eve-6, eve-7, eve-10 and eve-11 take the most
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16])]
    workers: Vec<u16>,
    /// For eve-4: commands compute rather than sleep
    #[arg(long)]
    computes: bool,
    /// For eve-4 and eve-6 to eve-9: the size of the object that a command changes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    object_bytes: u32,
    /// For eve-4: in how many of 1000 commands the object is the same one
    #[arg(long, value_name = "SHARE", default_value_t = 0)]
    conflicts: u32,
    /// For eve-4, eve-5, eve-8, eve-10 and eve-11: how commands run side by side
    #[arg(long, value_enum, default_value_t = Parallel::Ordered)]
    side_by_side: Parallel,
    /// For eve-4 to eve-8: replicas compare results; with speculative they do so anyway
    #[arg(long)]
    verified: bool,
    /// For eve-6 and eve-7: in how many of 100,000 pairs two requests conflict
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_values_t = [100, 1000, 10_000])]
    pair_conflicts: Vec<u32>,
    /// For eve-6: of 100,000 pairs that conflict, how many hints do not show; for eve-7: of other pairs, how many they show
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_values_t = [0, 1000, 10_000])]
    mixer_errors: Vec<u32>,
    /// For eve-9: how many requests are simulated with each mixer
    #[arg(long, value_name = "COUNT", default_value_t = 750_000)]
    requests: u64,
    #[command(flatten)]
    shop: shop::ShopArgs,
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
        let is_share =
            |list: &[u32], least| !list.is_empty() && list.iter().all(|of| (least..=100_000).contains(of));
        if !is_share(&self.pair_conflicts, 1) || !is_share(&self.mixer_errors, 0) {
            return refuse(
                "--pair-conflicts and --mixer-errors are lists of shares of 100000; the first is not 0",
            );
        }
        self.shop.check()
    }

    /// With so many workers.
    const fn way(&self, workers: u16) -> Way {
        match self.side_by_side {
            Parallel::Ordered => Way::Ordered(workers),
            Parallel::Speculative => Way::Speculative(workers),
        }
    }
}

/// One run.
struct Run {
    per_s: f64,
    p50_ms: f64,
    cpu_us: f64,
    seen: Seen,
    errors: u64,
    check: Check,
}

/// What the first replica says of itself at the end.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Seen {
    /// How often everything that was not final ran again.
    rollbacks: u64,
    /// Waves, those in which requests met, and batches that ran again at this replica alone.
    waves: u64,
    met: u64,
    void: u64,
}

impl Seen {
    fn of(status: &str) -> Self {
        let status: Value = serde_json::from_str(status).unwrap_or_default();
        let number = |part: &str, name: &str| status[part][name].as_u64().unwrap_or(0);
        let of = |name| number("execution", name);
        Self {
            rollbacks: number("verification", "attempt"),
            waves: of("waves"),
            met: of("met"),
            void: of("void"),
        }
    }
}

/// What was measured of a point.
#[derive(Serialize)]
struct Point {
    line: Option<String>,
    x: f64,
    executor: &'static str,
    /// 0: sequential.
    workers: u16,
    command_us: u32,
    object_bytes: u32,
    hints: Errors,
    per_s: Median,
    /// Beside one command at a time in the same round: sequential execution, or one worker, whichever was faster.
    speedup: Median,
    p50_ms: Median,
    /// Processor time of all replicas for each command, in microseconds.
    cpu_us: Median,
    /// In the last round.
    seen: Seen,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    replicas: u16,
    computes: bool,
    verified: bool,
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
pub(super) fn draw(args: &FigureArgs, what: What) -> Outcome<Drawn> {
    args.eve.check()?;
    let own = &args.eve;
    let measurement = Measurement { replicas: Some(replicas(own.computes)), ..args.measurement() };
    let cases = what.cases(own);
    let each = if matches!(what, What::Missed | What::Imagined) { CALLERS_EACH.1 } else { CALLERS_EACH.0 };
    let callers = each * usize::from(own.workers.iter().copied().max().unwrap_or(1));
    let pace = if own.computes { rounds_per_us() } else { 0.0 };
    let mut runs: Vec<Vec<Run>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 1..=args.rounds {
        for at in median::order(round, cases.len()) {
            let line = cases[at].line.as_deref().unwrap_or("one at a time");
            let title =
                format!("{line}, {}, {} {round}/{}", cases[at].x, cases[at].way.executor(), args.rounds);
            runs[at].push(once(args, &measurement, (&cases[at], pace), callers, &title)?);
        }
    }
    let wrong = |(case, runs): (&Case, &Vec<Run>)| {
        let run = runs.iter().find(|run| run.errors > 0 || !run.check.is_passed())?;
        let line = case.line.as_deref().unwrap_or("one at a time");
        Some(format!("NOT VALID, {line} at {}: {} calls failed; {}", case.x, run.errors, run.check.text()))
    };
    let trouble: Vec<String> = cases.iter().zip(&runs).filter_map(wrong).collect();
    let point = |(case, own): (&Case, &Vec<Run>)| point(case, own, &one_at_a_time(case.group, &cases, &runs));
    let document = Document {
        figure: what.name(),
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&measurement),
        replicas: replicas(own.computes),
        computes: own.computes,
        verified: own.verified,
        callers,
        rounds: args.rounds,
        seconds: args.secs,
        valid: trouble.is_empty(),
        trouble,
        points: cases.iter().zip(&runs).filter_map(point).collect(),
        machine: Machine::ask(&measurement.scratch),
    };
    Drawn::of((what.name(), document.valid), &page(&document, what), &document)
}

fn once(
    args: &FigureArgs,
    own: &Measurement,
    (case, pace): (&Case, f64),
    callers: usize,
    title: &str,
) -> Outcome<Run> {
    let settings = case.way.settings(args.eve.verified);
    let mut target = Target::configured(own, ServiceChoice::Work, settings)?;
    let plan = Plan {
        sessions: callers,
        slots: callers,
        commands_per_call: 1,
        warm: Duration::from_secs_f64(own.warm),
        measure: seconds("--secs", own.secs)?,
    };
    let us = case.command_us;
    let (sleep_us, rounds) = if args.eve.computes { (0, (f64::from(us) * pace) as u64) } else { (us, 0) };
    let object_bytes = case.object_bytes;
    let command = WorkCommand { sleep_us, rounds, object_bytes, objects: vec![0], ..WorkCommand::default() };
    let mut work = Long::new(command, case.errors);
    let measured = load::run(&mut target, &plan, &mut work, title)?;
    let check = match measured.errors {
        0 => bft::verify(&target, work.answered)?,
        _ => Check::not_done("some calls failed"),
    };
    let status = target.here().next().and_then(|first| target.client.status(first).ok());
    let cpu_s: f64 = measured.replicas_cpu.iter().map(|cpu| cpu.total_s()).sum();
    Ok(Run {
        per_s: measured.commands as f64 / measured.seconds,
        p50_ms: measured.latency.value_at_quantile(0.5) as f64 / 1e6,
        cpu_us: cpu_s * 1e6 / (measured.commands as f64).max(1.0),
        seen: status.as_deref().map(Seen::of).unwrap_or_default(),
        errors: measured.errors,
        check,
    })
}

/// The rate of one command at a time in each round. Sequential execution shares a thread with agreement, which waits while a command sleeps;
/// so one worker can be faster, and that one counts.
fn one_at_a_time(group: usize, cases: &[Case], runs: &[Vec<Run>]) -> Vec<f64> {
    let those = cases.iter().zip(runs).filter(|(case, _)| case.group == group && case.is_base());
    let those: Vec<&Vec<Run>> = those.map(|(_, runs)| runs).collect();
    let rounds = those.first().map_or(0, |runs| runs.len());
    let fastest = |round: usize| those.iter().map(|runs| runs[round].per_s).fold(1e-9, f64::max);
    (0..rounds).map(fastest).collect()
}

/// The medians of a point; its rounds are compared with one command at a time.
fn point(case: &Case, own: &[Run], one: &[f64]) -> Option<Point> {
    let all = |value: fn(&Run) -> f64| Median::of(own.iter().map(value).collect());
    let speedup = own.iter().zip(one).map(|(own, one)| own.per_s / one);
    Some(Point {
        line: case.line.clone(),
        x: case.x,
        executor: case.way.executor(),
        workers: case.way.workers(),
        command_us: case.command_us,
        object_bytes: case.object_bytes,
        hints: case.errors,
        per_s: all(|run| run.per_s)?,
        speedup: Median::of(speedup.collect())?,
        p50_ms: all(|run| run.p50_ms)?,
        cpu_us: all(|run| run.cpu_us)?,
        seen: own.last()?.seen,
    })
}

/// The names of the lines, in their order.
fn lines_of(document: &Document) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in document.points.iter().filter_map(|point| point.line.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn page(document: &Document, what: What) -> Page {
    let how = if document.computes { "computes" } else { "sleeps" };
    let line = |(at, name): (usize, &&str)| {
        let own = document.points.iter().filter(|point| point.line.as_deref() == Some(*name));
        shares::line((*name).to_owned(), colour(at), own.map(|point| (point.x, Some(point.speedup))))
    };
    let x_most = document.points.iter().map(|point| point.x).fold(0.0, f64::max);
    Page {
        title: what.title().into(),
        intro: format!(
            "Each command {how} for its time and changes one object; {} callers, each with one command outstanding; {}, {} s each.",
            document.callers,
            shares::rounds(document.rounds),
            document.seconds
        ),
        charts: vec![Chart {
            title: "Requests per second beside one command at a time".into(),
            x_label: what.x_label().into(),
            y_label: "times".into(),
            logarithmic: false,
            x_most,
            lines: lines_of(document).iter().enumerate().map(line).collect(),
            bars_label: None,
        }],
        table: table(document),
        facts: facts(document, what),
        ..Page::default()
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "line",
        "x",
        "executor",
        "requests/s",
        "times one at a time",
        "p50 ms",
        "CPU us, all replicas",
        "rollbacks",
        "waves: all, met",
        "ran again alone",
    ];
    let names = lines_of(document);
    let row = |point: &Point| {
        let name = point.line.as_deref().unwrap_or("one at a time");
        let at = names.iter().position(|of| *of == name).unwrap_or(0);
        let executor = match point.workers {
            0 => point.executor.to_owned(),
            workers => format!("{}, {workers} workers", point.executor),
        };
        let Seen { rollbacks, waves, met, void } = point.seen;
        let cells = vec![
            name.to_owned(),
            format!("{}", point.x),
            executor,
            shares::cell(&point.per_s, amount),
            shares::cell(&point.speedup, |times| format!("{times:.2}")),
            shares::cell(&point.p50_ms, |ms| format!("{ms:.2}")),
            shares::cell(&point.cpu_us, |us| format!("{us:.0}")),
            rollbacks.to_string(),
            format!("{waves}, {met}"),
            void.to_string(),
        ];
        (colour(at), cells)
    };
    Table { head: head.map(str::to_owned).to_vec(), rows: document.points.iter().map(row).collect() }
}

fn facts(document: &Document, what: What) -> Vec<String> {
    let mut facts = document.trouble.clone();
    let verified = if document.verified { ", results verified" } else { "" };
    facts.push(format!(
        "{} replicas, crash faults, durability {}{verified}; quorate {}",
        document.replicas, document.durability, document.version
    ));
    facts.push(what.paper().into());
    facts.push(
        "one at a time: sequential execution or one worker, whichever was faster in that round; a command that sleeps on the main lane holds up \
         agreement"
            .into(),
    );
    if what == What::Missed || what == What::Imagined {
        facts.push(
            "rollbacks: of all replicas; waves, and batches that ran again at one replica alone: at the first replica, in the last round; with \
             ordered, runs that did not count"
                .into(),
        );
    }
    if !document.computes {
        facts.push("commands sleep, so workers need no cores of their own; with --computes they do".into());
    }
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}

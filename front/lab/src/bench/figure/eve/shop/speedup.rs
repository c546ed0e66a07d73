//! The figure `eve-3`: throughput of the shop by the number of threads that run transactions.

use super::super::plain::{Server, Shipping, call, kept};
use super::super::way::Way;
use super::super::{Run, Seen};
use super::{Shopping, open, verify};
use crate::bench::draw::{Chart, Page, Table, colour};
use crate::bench::figure::{Drawn, FigureArgs, shares};
use crate::bench::load::{self, Plan};
use crate::bench::median::{self, Median};
use crate::bench::options::Measurement;
use crate::bench::report::{self, Check, Durability};
use crate::bench::target::Target;
use quorate_command::arguments::seconds;
use quorate_command::failure::Outcome;
use quorate_command::layout::ServiceChoice;
use quorate_command::machine::Machine;
use quorate_command::ordering::OrderArgs;
use quorate_command::print::amount;
use quorate_order::Feature;
use quorate_types::{FaultModel, Visigoth};
use serde::Serialize;
use std::time::Duration;

/// Callers for each of the most workers.
const CALLERS_EACH: usize = 4;

/// What runs the shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Sequential,
    Ordered,
    Verified,
    Speculative,
    Pair,
    /// A server without replication.
    Alone,
}

impl Kind {
    const LINES: [Self; 5] = [Self::Ordered, Self::Verified, Self::Speculative, Self::Pair, Self::Alone];

    const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Ordered => "ordered",
            Self::Verified => "ordered, verified",
            Self::Speculative => "speculative, verified",
            Self::Pair => "pair, verified",
            Self::Alone => "not replicated",
        }
    }

    fn way(self, workers: u16) -> (Way, bool) {
        match self {
            Self::Sequential => (Way::Sequential, false),
            Self::Verified | Self::Pair => (Way::Ordered(workers), true),
            Self::Speculative => (Way::Speculative(workers), true),
            Self::Ordered | Self::Alone => (Way::Ordered(workers), false),
        }
    }
}

/// One point: a kind with so many threads.
type Case = (Kind, u16);

/// What was measured of a point.
#[derive(Serialize)]
struct Point {
    kind: Kind,
    workers: u16,
    per_s: Median,
    /// Beside one transaction at a time in the same round: a server without replication and with one thread, or sequential execution, whichever was
    /// faster.
    speedup: Median,
    /// Beside a server without replication and with as many threads, in the same round.
    share: Option<Median>,
    p50_ms: Median,
    /// Processor time of all replicas for each transaction, in microseconds.
    cpu_us: Median,
    /// At the first replica, in the last round.
    seen: Seen,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    load: String,
    callers: usize,
    rounds: u32,
    seconds: f64,
    valid: bool,
    trouble: Vec<String>,
    points: Vec<Point>,
    machine: Machine,
}

/// Measures and draws.
pub(in super::super::super) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    args.eve.check()?;
    let workers = &args.eve.workers;
    let callers = CALLERS_EACH * usize::from(workers.iter().copied().max().unwrap_or(1));
    let mut cases: Vec<Case> = vec![(Kind::Sequential, 0)];
    if !workers.contains(&1) {
        cases.push((Kind::Alone, 1));
    }
    cases.extend(Kind::LINES.iter().flat_map(|kind| workers.iter().map(|count| (*kind, *count))));
    let mut runs: Vec<Vec<Run>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 1..=args.rounds {
        for at in median::order(round, cases.len()) {
            let (kind, workers) = cases[at];
            let title = format!("{}, {workers} {round}/{}", kind.name(), args.rounds);
            let run = match kind {
                Kind::Alone => alone(args, workers, callers)?,
                _ => replicated(args, (kind, workers), callers, &title)?,
            };
            runs[at].push(run);
        }
    }
    let wrong = |((kind, workers), runs): (&Case, &Vec<Run>)| {
        let run = runs.iter().find(|run| run.errors > 0 || !run.check.is_passed())?;
        let name = kind.name();
        Some(format!(
            "NOT VALID, {name}, {workers} threads: {} calls failed; {}",
            run.errors,
            run.check.text()
        ))
    };
    let trouble: Vec<String> = cases.iter().zip(&runs).filter_map(wrong).collect();
    let document = Document {
        figure: "eve-3",
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&args.measurement()),
        load: args.eve.shop.load(),
        callers,
        rounds: args.rounds,
        seconds: args.secs,
        valid: trouble.is_empty(),
        trouble,
        points: cases
            .iter()
            .zip(&runs)
            .filter_map(|(case, own)| point(*case, own, (&cases, &runs)))
            .collect(),
        machine: Machine::ask(&args.scratch),
    };
    Drawn::of((document.figure, document.valid), &page(&document), &document)
}

/// Two replicas of which one may stop.
pub(super) fn pair(args: &FigureArgs) -> Outcome<Measurement> {
    let (t_ms, _) = args.few.pair()?;
    let model = FaultModel::Visigoth(Visigoth { t_ms, ..Visigoth::PAIR });
    let order = OrderArgs::surviving_by(model, Feature::CountOnFast.protocol());
    Ok(Measurement { order, replicas: Some(2), ..args.measurement() })
}

fn replicated(args: &FigureArgs, (kind, workers): Case, callers: usize, title: &str) -> Outcome<Run> {
    let own = if kind == Kind::Pair {
        pair(args)?
    } else {
        Measurement { replicas: Some(3), ..args.measurement() }
    };
    let (way, verified) = kind.way(workers);
    let mut target = Target::configured(&own, ServiceChoice::Shop, way.settings(verified))?;
    let size = args.eve.shop.size();
    open(&mut target, size)?;
    let plan = Plan {
        sessions: callers,
        slots: callers,
        commands_per_call: 1,
        warm: Duration::from_secs_f64(own.warm),
        measure: seconds("--secs", own.secs)?,
    };
    let mut shopping = Shopping::new(size, callers, args.eve.shop.transaction_us);
    let measured = load::run(&mut target, &plan, &mut shopping, title)?;
    let check = match measured.errors {
        0 => verify(&target, &shopping.sold)?,
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

fn alone(args: &FigureArgs, workers: u16, callers: usize) -> Outcome<Run> {
    let size = args.eve.shop.size();
    let server = Server::start(size, workers, Shipping::NONE)?;
    let mut shopping = Shopping::new(size, callers, args.eve.shop.transaction_us);
    let window = (Duration::from_secs_f64(args.warm), seconds("--secs", args.secs)?);
    let called = call(server.address, callers, window, &mut shopping, &mut || ())?;
    Ok(Run {
        per_s: called.per_s,
        p50_ms: called.latency.value_at_quantile(0.5) as f64 / 1e6,
        cpu_us: 0.0,
        seen: Seen::default(),
        errors: 0,
        check: kept(server, &shopping.sold)?,
    })
}

/// The medians of a point; each round is compared with one transaction at a time, and with a server that is not replicated.
fn point(case: Case, own: &[Run], (cases, runs): (&[Case], &[Vec<Run>])) -> Option<Point> {
    let (kind, workers) = case;
    let all = |value: fn(&Run) -> f64| Median::of(own.iter().map(value).collect());
    let rates = |of: &dyn Fn(&Case) -> bool, round: usize| {
        let those = cases.iter().zip(runs).filter(|(case, _)| of(case));
        those.map(|(_, runs)| runs[round].per_s).fold(0.0, f64::max)
    };
    let beside = |of: &dyn Fn(&Case) -> bool| {
        let each = own.iter().enumerate().map(|(round, run)| (run.per_s, rates(of, round)));
        Median::of(each.filter(|(_, other)| *other > 0.0).map(|(own, other)| own / other).collect())
    };
    Some(Point {
        kind,
        workers,
        per_s: all(|run| run.per_s)?,
        speedup: beside(&|case| *case == (Kind::Alone, 1) || case.0 == Kind::Sequential)?,
        share: beside(&|case| *case == (Kind::Alone, workers)),
        p50_ms: all(|run| run.p50_ms)?,
        cpu_us: all(|run| run.cpu_us)?,
        seen: own.last()?.seen,
    })
}

fn page(document: &Document) -> Page {
    let line = |(at, kind): (usize, &Kind)| {
        let own = document.points.iter().filter(|point| point.kind == *kind);
        let points = own.map(|point| (f64::from(point.workers), Some(point.speedup)));
        shares::line(kind.name().to_owned(), colour(at), points)
    };
    let x_most = document.points.iter().map(|point| point.workers).max().unwrap_or(1);
    Page {
        title: "Speed-up of a bookshop by threads".into(),
        intro: format!(
            "{}; {} callers, each with one transaction outstanding; {}, {} s each.",
            document.load,
            document.callers,
            shares::rounds(document.rounds),
            document.seconds
        ),
        charts: vec![Chart {
            title: "Transactions per second beside one at a time".into(),
            x_label: "threads of each server that run transactions".into(),
            y_label: "times".into(),
            logarithmic: false,
            x_most: x_most.into(),
            lines: Kind::LINES.iter().enumerate().map(line).collect(),
            bars_label: None,
        }],
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "what runs it",
        "threads",
        "transactions/s",
        "times one at a time",
        "beside not replicated",
        "p50 ms",
        "CPU us, all replicas",
        "rollbacks",
        "waves: all, met",
        "ran again alone",
    ];
    let row = |point: &Point| {
        let at = Kind::LINES.iter().position(|kind| *kind == point.kind);
        let Seen { rollbacks, waves, met, void } = point.seen;
        let times = |value: &Median| shares::cell(value, |times| format!("{times:.2}"));
        let of_replicas = |text: String| if point.kind == Kind::Alone { "-".to_owned() } else { text };
        let cells = vec![
            point.kind.name().to_owned(),
            if point.workers == 0 { "-".to_owned() } else { point.workers.to_string() },
            shares::cell(&point.per_s, amount),
            times(&point.speedup),
            point.share.as_ref().map_or("-".to_owned(), times),
            shares::cell(&point.p50_ms, |ms| format!("{ms:.2}")),
            of_replicas(shares::cell(&point.cpu_us, |us| format!("{us:.0}"))),
            of_replicas(rollbacks.to_string()),
            of_replicas(format!("{waves}, {met}")),
            of_replicas(void.to_string()),
        ];
        (at.map_or("#888888", colour), cells)
    };
    Table { head: head.map(str::to_owned).to_vec(), rows: document.points.iter().map(row).collect() }
}

fn facts(document: &Document) -> Vec<String> {
    let mut facts = document.trouble.clone();
    facts.push(format!(
        "3 replicas, of which one may stop, durability {}; pair: 2 replicas, of which one may stop, with ordered execution and an {}; quorate {}",
        document.durability,
        report::oracle(),
        document.version
    ));
    facts.push(
        "the paper, H2 with TPC-W's browsing mix, 16 threads on 16 cores: 6.5 times one at a time, both with three replicas of which one may lie and with a \
         pair; a server that is not replicated 7.5 times, so 0.87 of it; no rollbacks. Goals: both, and no rollback"
            .into(),
    );
    facts.push(
        "not replicated: threads of the benchmark's own process that take requests from sockets on loopback, each caller with a connection of its own, \
         and hold the locks of a transaction's tables while it runs, readers together; no sessions, no log, no TLS"
            .into(),
    );
    facts.push(
        "one at a time: that server with one thread, or sequential execution, whichever was faster in that round; rollbacks: of all replicas; waves, and batches \
         that ran again at one replica alone: at the first replica, in the last round; with ordered, runs that did not count"
            .into(),
    );
    facts.push("transactions sleep, so threads need no cores of their own; what each computes itself, and where it waits for a core, others hide".into());
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}

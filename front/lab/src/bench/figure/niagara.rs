//! The figures `niagara-3` and `niagara-4`: the rate of appends that are answered, and the 90th percentile of their latency, against the
//! rate that is asked for, by the number of instances, or by the number of lanes of a single instance. All lanes get the same share of a core.
//!
//! Each curve is measured with a cluster of its own, once in each round; each rate is a window of its own. The rate grows until the cluster
//! answers clearly less than that. After figures 3 and 4 of "In Search of a Scalable Raft-based Replication Architecture" (PaPoC 2019).

use super::shares::{self, lanes};
use super::{Drawn, FigureArgs};
use crate::bench::append::{Append, strong, verify};
use crate::bench::draw::{Chart, Made, Page, Table, colour};
use crate::bench::median::{self, Median};
use crate::bench::options::Measurement;
use crate::bench::paced::{self, Pace};
use crate::bench::report::{self, Check, Durability, counted};
use crate::bench::target::Target;
use crate::bench::temporary::REPLICAS;
use clap::ValueEnum;
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_command::machine::Machine;
use quorate_command::print::{amount, json};
use quorate_command::progress::Progress;
use serde::Serialize;
use std::time::Duration;

/// The first rate, and the factor from one to the next.
const FIRST_PER_S: f64 = 1000.0;
const GROWTH: f64 = 1.5;
/// A cluster that answers less than this share of the rate is over its limit; and the number of such rates in a row that ends a curve.
const OVER: f64 = 0.9;
const OVER_RATES: usize = 2;
/// Sessions, spread over the clients; a client has one connection, and that has one instance.
const SESSIONS: usize = 64;
const CLIENTS: usize = 32;
/// The most calls under way: no more than a good client lets wait.
const OUTSTANDING: usize = 2000;
/// How long a call waits for its answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Commands in one call.
const COMMANDS: usize = 10;

/// What is drawn first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Provided,
    Latency,
}

/// What the curves differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    /// The number of instances, each with a lane
    Instances,
    /// The number of lanes, with one instance
    Lanes,
}

impl By {
    /// The instances and lanes of a replica.
    fn shape(self, number: u16) -> (u16, u16) {
        match self {
            Self::Instances => (number, lanes(number)),
            Self::Lanes => (1, number),
        }
    }

    fn counted(self, number: u16) -> String {
        match (self, number) {
            (Self::Instances, number) => counted(number),
            (Self::Lanes, 1) => "1 lane".into(),
            (Self::Lanes, many) => format!("{many} lanes"),
        }
    }
}

/// A rate in one round.
struct Step {
    requested_per_s: f64,
    provided_per_s: f64,
    /// `None` when nothing was answered.
    p50_ms: Option<f64>,
    p90_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// The share of calls that were not sent, since too many were under way.
    skipped_share: f64,
}

/// One round of a curve.
struct Run {
    most_per_s: f64,
    errors: u64,
    first_error: Option<String>,
    check: Check,
    steps: Vec<Step>,
}

/// A rate in all rounds that came to it.
#[derive(Serialize)]
struct Point {
    /// Commands per second.
    requested_per_s: f64,
    provided_per_s: Median,
    /// Null when nothing was answered.
    p50_ms: Option<Median>,
    p90_ms: Option<Median>,
    p99_ms: Option<Median>,
    skipped_share: Median,
}

#[derive(Serialize)]
struct Curve {
    #[serde(skip)]
    name: String,
    instances: u16,
    lanes: u16,
    most_per_s: Median,
    /// The most that this curve reaches, divided by that of the first curve, round by round.
    times: Median,
    errors: u64,
    first_error: Option<String>,
    check: Check,
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    tls: bool,
    fault_model: &'static str,
    protocol: &'static str,
    replicas: u16,
    payload: String,
    by: By,
    /// The percentage of a core that each lane gets; null: no limit.
    quota_percent: Option<u32>,
    rounds: u32,
    seconds: f64,
    valid: bool,
    machine: Machine,
    curves: Vec<Curve>,
}

/// Measures and draws.
pub(super) fn draw(args: &FigureArgs, what: What) -> Outcome<Drawn> {
    shares::check(args)?;
    let measurement = args.measurement();
    let machine = Machine::ask(&measurement.scratch);
    let shapes: Vec<(u16, u16)> = args.instances.iter().map(|number| args.curve.shape(*number)).collect();
    let lanes_most = shapes.iter().map(|(_, lanes)| *lanes).max().unwrap_or(1);
    shares::check_cores(args.quota, lanes_most, REPLICAS, machine.cores)?;
    let mut runs: Vec<Vec<Run>> = shapes.iter().map(|_| Vec::new()).collect();
    for round in 1..=args.rounds {
        for at in median::order(round, shapes.len()) {
            let title = format!("{} {round}/{}", args.curve.counted(args.instances[at]), args.rounds);
            runs[at].push(measure(args, &measurement, shapes[at], &title)?);
        }
    }
    let curves =
        args.instances.iter().zip(&runs).map(|(number, own)| curve(args.curve, *number, own, &runs[0]));
    let curves = curves.collect::<Option<Vec<_>>>().ok_or_else(|| Failure::new("nothing was measured"))?;
    let document = Document {
        figure: if what == What::Provided { "niagara-3" } else { "niagara-4" },
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&measurement),
        tls: !measurement.plain,
        fault_model: "crash",
        protocol: "raft",
        replicas: REPLICAS,
        payload: format!("appends of {} B, {} per call", args.command_bytes, commands(args)),
        by: args.curve,
        quota_percent: (args.quota > 0).then_some(args.quota),
        rounds: args.rounds,
        seconds: args.secs,
        valid: curves.iter().all(|curve| curve.errors == 0 && curve.check.is_passed()),
        machine,
        curves,
    };
    let page = page(&document, what);
    let valid = if document.valid { "" } else { "NOT VALID, see below. " };
    let mut lines = vec![format!("{valid}{}: {}", document.figure, page.title), page.table.text()];
    lines.extend(page.facts.iter().map(|fact| format!("  {fact}")));
    Ok(Drawn {
        html: page.html(&Made::now()),
        json: json(&document)?,
        text: lines.join("\n"),
        valid: document.valid,
    })
}

fn commands(args: &FigureArgs) -> usize {
    args.commands_per_call.unwrap_or(COMMANDS)
}

fn measure(
    args: &FigureArgs,
    measurement: &Measurement,
    (instances, lanes): (u16, u16),
    title: &str,
) -> Outcome<Run> {
    let shaped = Measurement { instances, lanes, ..measurement.clone() };
    let mut target = Target::open(&shaped, ServiceChoice::Tally)?;
    target.have_clients(CLIENTS)?;
    // They outlive the cluster, whose threads lie in them.
    let quotas = shares::limit(&target, lanes, args.quota)?;
    let sent = strong(&target)?;
    let mut work = Append { commands: commands(args), bytes: args.command_bytes, sent };
    let none = Check::not_done("nothing was measured");
    let mut run = Run { most_per_s: 0.0, errors: 0, first_error: None, check: none, steps: Vec::new() };
    let mut rate = args.rate_first.unwrap_or(FIRST_PER_S);
    let length = Duration::from_secs_f64(measurement.warm + measurement.secs);
    let (mut over, progress) = (0, Progress::new(title, length * 16));
    while over < OVER_RATES {
        let pace = Pace {
            sessions: SESSIONS,
            calls_per_s: rate / commands(args) as f64,
            outstanding_max: OUTSTANDING,
            timeout: TIMEOUT,
            warm: Duration::from_secs_f64(measurement.warm),
            measure: seconds("--secs", measurement.secs)?,
        };
        let provided = paced::run(&mut target, &pace, &mut work)?;
        let per_s = (provided.answered * commands(args) as u64) as f64 / provided.seconds;
        let at = |quantile: f64| {
            let some = !provided.latency.is_empty();
            some.then(|| provided.latency.value_at_quantile(quantile) as f64 / 1e6)
        };
        run.steps.push(Step {
            requested_per_s: rate,
            provided_per_s: per_s,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            skipped_share: provided.skipped as f64 / provided.due.max(1) as f64,
        });
        progress.at(length * run.steps.len() as u32, || {
            format!("{} of {} per second", amount(per_s), amount(rate))
        });
        run.most_per_s = run.most_per_s.max(per_s);
        run.errors += provided.errors;
        run.first_error = run.first_error.or(provided.first_error);
        over = if per_s < rate * OVER { over + 1 } else { 0 };
        rate *= GROWTH;
    }
    drop(progress);
    run.check = match run.errors {
        0 => verify(&target, work.sent)?,
        _ => Check::not_done("some calls failed"),
    };
    drop(target);
    drop(quotas);
    Ok(run)
}

/// All rounds of a curve, beside those of the first one.
fn curve(by: By, number: u16, own: &[Run], first: &[Run]) -> Option<Curve> {
    let (instances, lanes) = by.shape(number);
    let times = own.iter().zip(first).map(|(own, first)| own.most_per_s / first.most_per_s.max(1.0));
    let rates = own.iter().map(|run| run.steps.len()).max()?;
    Some(Curve {
        name: by.counted(number),
        instances,
        lanes,
        most_per_s: Median::of(own.iter().map(|run| run.most_per_s).collect())?,
        times: Median::of(times.collect())?,
        errors: own.iter().map(|run| run.errors).sum(),
        first_error: own.iter().find_map(|run| run.first_error.clone()),
        check: shares::worst(own.iter().map(|run| &run.check)),
        points: (0..rates).map(|at| point(own, at)).collect::<Option<_>>()?,
    })
}

/// The rate with this number, in the rounds that came to it.
fn point(own: &[Run], at: usize) -> Option<Point> {
    let steps = || own.iter().filter_map(|run| run.steps.get(at));
    let some = |value: fn(&Step) -> Option<f64>| Median::of(steps().filter_map(value).collect());
    Some(Point {
        requested_per_s: steps().next()?.requested_per_s,
        provided_per_s: some(|step| Some(step.provided_per_s))?,
        p50_ms: some(|step| step.p50_ms),
        p90_ms: some(|step| step.p90_ms),
        p99_ms: some(|step| step.p99_ms),
        skipped_share: some(|step| Some(step.skipped_share))?,
    })
}

fn page(document: &Document, what: What) -> Page {
    let most = document.curves.iter().flat_map(|curve| &curve.points).map(|point| point.requested_per_s);
    let x_most = most.fold(0.0, f64::max);
    let chart = |title: &str, y_label: &str, logarithmic, value: fn(&Point) -> Option<Median>| Chart {
        title: title.into(),
        x_label: "appends asked for, per second".into(),
        y_label: y_label.into(),
        logarithmic,
        lines: (document.curves.iter().enumerate())
            .map(|(at, curve)| {
                let values = curve.points.iter().map(|point| (point.requested_per_s, value(point)));
                shares::line(curve.name.clone(), colour(at), values)
            })
            .collect(),
        x_most,
        bars_label: None,
    };
    let provided = chart("Appends that were answered", "per second", false, |at| Some(at.provided_per_s));
    let latency = chart("90th percentile of the latency", "milliseconds (logarithmic)", true, |at| at.p90_ms);
    Page {
        title: match what {
            What::Provided => {
                format!("Appends asked for and appends answered, by the number of {}", by(document))
            }
            What::Latency => format!("Latency by load and by the number of {}", by(document)),
        },
        intro: format!(
            "{} replicas; {}; {}; {}. Latencies count from the moment at which a call was due.",
            document.replicas,
            document.payload,
            shares::text(document.quota_percent),
            shares::rounds(document.rounds)
        ),
        charts: if what == What::Provided { vec![provided, latency] } else { vec![latency, provided] },
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn by(document: &Document) -> &'static str {
    match document.by {
        By::Instances => "instances",
        By::Lanes => "lanes of one instance",
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "instances",
        "lanes",
        "most appends/s",
        "times the first",
        "p90 ms at the first rate",
        "at half the most",
    ];
    let row = |(at, curve): (usize, &Curve)| {
        let ms = |point: Option<&Point>| {
            point.and_then(|point| point.p90_ms).map_or("-".into(), |ms| format!("{:.2}", ms.median))
        };
        let half = curve.points.iter().rfind(|point| point.requested_per_s <= curve.most_per_s.median / 2.0);
        let cells = vec![
            curve.instances.to_string(),
            curve.lanes.to_string(),
            shares::cell(&curve.most_per_s, amount),
            format!("{:.2}", curve.times.median),
            ms(curve.points.first()),
            ms(half),
        ];
        (colour(at), cells)
    };
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows: document.curves.iter().enumerate().map(row).collect(),
    }
}

fn facts(document: &Document) -> Vec<String> {
    let mut facts = vec![
        format!(
            "durability {}, {}, fault model {}, {}, {} replicas; quorate {}",
            document.durability,
            if document.tls { "TLS" } else { "without TLS" },
            document.fault_model,
            document.protocol,
            document.replicas,
            document.version
        ),
        format!("{}; {}", document.payload, shares::text(document.quota_percent)),
        format!("{}, {} s for each rate", shares::rounds(document.rounds), document.seconds),
        format!("{CLIENTS} clients with a connection each, {SESSIONS} sessions; at most {OUTSTANDING} calls wait; what is due beyond them is not sent"),
        "the paper, 12 cores and 16 B: one instance about as much as plain Raft, which has less with several cores than with one; eight and \
         twelve instances about five times as much; 90th percentile clearly lower with several"
            .into(),
    ];
    for curve in document.curves.iter().filter(|curve| curve.errors > 0 || !curve.check.is_passed()) {
        let first = curve.first_error.as_deref().unwrap_or("none");
        facts.push(format!(
            "NOT VALID, {}: {} calls failed (the first: {first}); {}",
            curve.name,
            curve.errors,
            curve.check.text()
        ));
    }
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}

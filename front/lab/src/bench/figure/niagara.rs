//! The figures `niagara-3` and `niagara-4`: the rate of appends that are answered, and the 90th percentile of their latency, against the
//! rate that is asked for, by the number of instances. All lanes get the same share of a core.
//!
//! Each number of instances is measured with a cluster of its own; each rate is a window of its own. The rate grows until the cluster
//! answers clearly less than that. With one instance a replica has one lane; with more it has one lane per instance and one for what
//! instances share. After figures 3 and 4 of "In Search of a Scalable Raft-based Replication Architecture" (PaPoC 2019).

use super::page::{Page, Table};
use super::plot::{Chart, Line, colour};
use super::{Drawn, FigureArgs, refuse};
use crate::bench::append::{Append, strong, verify};
use crate::bench::options::Measurement;
use crate::bench::paced::{self, Pace};
use crate::bench::quota::Quotas;
use crate::bench::report::{self, Check, Durability, counted};
use crate::bench::target::Target;
use quorate_command::arguments::seconds;
use quorate_command::failure::Outcome;
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
/// The beginning of the lanes' thread names.
const LANE: &str = "lane-";

/// What is drawn first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Provided,
    Latency,
}

#[derive(Serialize)]
struct Point {
    /// Commands per second.
    requested_per_s: f64,
    provided_per_s: f64,
    /// Null when nothing was answered.
    p50_ms: Option<f64>,
    p90_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// The share of calls that were not sent, since too many were under way.
    skipped_share: f64,
}

#[derive(Serialize)]
struct Curve {
    instances: u16,
    lanes: u16,
    most_per_s: f64,
    /// The most that this curve reaches, divided by that of the first curve.
    times: f64,
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
    replicas: usize,
    payload: String,
    /// The percentage of a core that each lane gets; null: no limit.
    quota_percent: Option<u32>,
    valid: bool,
    machine: Machine,
    curves: Vec<Curve>,
}

/// Measures and draws.
pub(super) fn draw(args: &FigureArgs, what: What) -> Outcome<Drawn> {
    check(args)?;
    let measurement = args.measurement();
    let machine = Machine::ask(&measurement.scratch);
    let mut curves: Vec<Curve> = Vec::new();
    for instances in &args.instances {
        let mut curve = measure(args, &measurement, *instances)?;
        let first = curves.first().map_or(curve.most_per_s, |first| first.most_per_s);
        curve.times = curve.most_per_s / first.max(1.0);
        curves.push(curve);
    }
    let document = Document {
        figure: if what == What::Provided { "niagara-3" } else { "niagara-4" },
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&measurement),
        tls: !measurement.plain,
        fault_model: "crash",
        protocol: "raft",
        replicas: usize::from(crate::bench::temporary::REPLICAS),
        payload: format!("appends of {} B, {} per call", args.command_bytes, args.commands_per_call),
        quota_percent: (args.quota > 0).then_some(args.quota),
        valid: curves.iter().all(|curve| curve.errors == 0 && curve.check.is_passed()),
        machine,
        curves,
    };
    let page = page(&document, what);
    let valid = if document.valid { "" } else { "NOT VALID, see below. " };
    let mut lines = vec![format!("{valid}{}: {}", document.figure, page.title), page.table.text()];
    lines.extend(page.facts.iter().map(|fact| format!("  {fact}")));
    Ok(Drawn { html: page.html(), json: json(&document)?, text: lines.join("\n"), valid: document.valid })
}

fn check(args: &FigureArgs) -> Outcome<()> {
    if args.instances.is_empty() || args.instances.iter().any(|instances| !(1..=32).contains(instances)) {
        return refuse("--instances is a list of numbers from 1 to 32");
    }
    if args.command_bytes < 16 || !args.command_bytes.is_multiple_of(8) || args.command_bytes > 64 << 10 {
        return refuse("--command-bytes is 16 to 65536 and a multiple of 8");
    }
    if !(1..=1000).contains(&args.commands_per_call) {
        return refuse("--commands-per-call is 1 to 1000");
    }
    if args.quota != 0 && !(5..=100).contains(&args.quota) {
        return refuse("--quota is 5 to 100 percent of a core, or 0 for no limit");
    }
    Ok(())
}

fn lanes(instances: u16) -> u16 {
    if instances == 1 { 1 } else { instances + 1 }
}

fn measure(args: &FigureArgs, measurement: &Measurement, instances: u16) -> Outcome<Curve> {
    let lanes = lanes(instances);
    let shaped = Measurement { instances, lanes, ..measurement.clone() };
    let mut target = Target::open(&shaped, ServiceChoice::Tally)?;
    target.have_clients(CLIENTS)?;
    // They outlive the cluster, whose threads lie in them.
    let mut quotas = (args.quota > 0).then(|| Quotas::new(args.quota)).transpose()?;
    if let Some(quotas) = &mut quotas {
        for pid in target.pids.clone() {
            quotas.limit_all(pid, LANE)?;
        }
    }
    let sent = strong(&target)?;
    let mut work = Append { commands: args.commands_per_call, bytes: args.command_bytes, sent };
    let mut curve = Curve {
        instances,
        lanes,
        most_per_s: 0.0,
        times: 1.0,
        errors: 0,
        first_error: None,
        check: Check::not_done("nothing was measured"),
        points: Vec::new(),
    };
    let mut rate = args.rate_first.unwrap_or(FIRST_PER_S);
    let length = Duration::from_secs_f64(measurement.warm + measurement.secs);
    let (mut over, progress) = (0, Progress::new(&format!("{instances} instances"), length * 16));
    while over < OVER_RATES {
        let pace = Pace {
            sessions: SESSIONS,
            calls_per_s: rate / args.commands_per_call as f64,
            outstanding_max: OUTSTANDING,
            timeout: TIMEOUT,
            warm: Duration::from_secs_f64(measurement.warm),
            measure: seconds("--secs", measurement.secs)?,
        };
        let provided = paced::run(&mut target, &pace, &mut work)?;
        let per_s = (provided.answered * args.commands_per_call as u64) as f64 / provided.seconds;
        let at = |quantile: f64| {
            let some = !provided.latency.is_empty();
            some.then(|| provided.latency.value_at_quantile(quantile) as f64 / 1e6)
        };
        curve.points.push(Point {
            requested_per_s: rate,
            provided_per_s: per_s,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            skipped_share: provided.skipped as f64 / provided.due.max(1) as f64,
        });
        progress.at(length * curve.points.len() as u32, || {
            format!("{} of {} per second", amount(per_s), amount(rate))
        });
        curve.most_per_s = curve.most_per_s.max(per_s);
        curve.errors += provided.errors;
        curve.first_error = curve.first_error.or(provided.first_error);
        over = if per_s < rate * OVER { over + 1 } else { 0 };
        rate *= GROWTH;
    }
    drop(progress);
    curve.check = match curve.errors {
        0 => verify(&target, work.sent)?,
        _ => Check::not_done("some calls failed"),
    };
    drop(target);
    drop(quotas);
    Ok(curve)
}

fn page(document: &Document, what: What) -> Page {
    let most = document.curves.iter().flat_map(|curve| &curve.points).map(|point| point.requested_per_s);
    let x_most = most.fold(0.0, f64::max);
    let chart = |title: &str, y_label: &str, logarithmic, value: fn(&Point) -> Option<f64>| Chart {
        title: title.into(),
        x_label: "appends asked for, per second".into(),
        y_label: y_label.into(),
        logarithmic,
        lines: document.curves.iter().enumerate().map(|(at, curve)| line(at, curve, value)).collect(),
        x_most,
        bars_label: None,
    };
    let provided = chart("Appends that were answered", "per second", false, |at| Some(at.provided_per_s));
    let latency = chart("90th percentile of the latency", "milliseconds (logarithmic)", true, |at| at.p90_ms);
    Page {
        title: match what {
            What::Provided => "Appends asked for and appends answered, by the number of instances".into(),
            What::Latency => "Latency by load and by the number of instances".into(),
        },
        intro: format!(
            "{} replicas; {}; {}. Latencies count from the moment at which a call was due.",
            document.replicas,
            document.payload,
            shares(document.quota_percent)
        ),
        charts: if what == What::Provided { vec![provided, latency] } else { vec![latency, provided] },
        table: table(document),
        facts: facts(document),
    }
}

fn shares(quota: Option<u32>) -> String {
    match quota {
        Some(percent) => format!("every lane of every replica gets {percent} % of a core"),
        None => "lanes get as much of the cores as there is".into(),
    }
}

fn line(at: usize, curve: &Curve, value: fn(&Point) -> Option<f64>) -> Line {
    Line {
        name: counted(curve.instances),
        colour: colour(at),
        points: curve.points.iter().map(|point| (point.requested_per_s, value(point))).collect(),
        bars: Vec::new(),
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
            point.and_then(|point| point.p90_ms).map_or("-".into(), |ms| format!("{ms:.2}"))
        };
        let half = curve.points.iter().rfind(|point| point.requested_per_s <= curve.most_per_s / 2.0);
        let cells = vec![
            curve.instances.to_string(),
            curve.lanes.to_string(),
            amount(curve.most_per_s),
            format!("{:.2}", curve.times),
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
        format!("{}; {}", document.payload, shares(document.quota_percent)),
        format!("{CLIENTS} clients with a connection each, {SESSIONS} sessions; at most {OUTSTANDING} calls wait; what is due beyond them is not sent"),
        "the paper, 12 cores and 16 B: one instance about as much as plain Raft, eight and twelve about five times as much; \
         90th percentile clearly lower with several"
            .into(),
    ];
    for curve in document.curves.iter().filter(|curve| curve.errors > 0 || !curve.check.is_passed()) {
        let first = curve.first_error.as_deref().unwrap_or("none");
        facts.push(format!(
            "NOT VALID, {}: {} calls failed (the first: {first}); {}",
            counted(curve.instances),
            curve.errors,
            curve.check.text()
        ));
    }
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}

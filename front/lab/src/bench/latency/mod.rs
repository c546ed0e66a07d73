//! `bench latency`: puts that come at a given rate, and how long they take.
//!
//! First a closed loop (each caller waits for its answer) finds the most that the cluster answers. Then each rate is measured alone, on the
//! same cluster; or, with `--during`, one rate while something happens, each time with a cluster of its own.
//!
//! Files: `options` (the command line), `during` (what happens meanwhile), `page` (what is drawn). Tests: `tests.rs` here, and front/cli/tests/all/bench_latency.rs
//! with real processes.

mod during;
mod options;
mod page;
#[cfg(test)]
mod tests;

pub(super) use options::LatencyArgs;

use super::draw::Table;
use super::kv::{self, Puts};
use super::load::{self, Plan};
use super::output::Output;
use super::paced::{self, LATE, Pace, Provided};
use super::quota::Quotas;
use super::report::{self, Check, Durability, FloorRun};
use super::series::{floor_config, floor_run};
use super::target::Target;
use hdrhistogram::Histogram;
use quorate_command::arguments::seconds;
use quorate_command::failure::Outcome;
use quorate_command::layout::ServiceChoice;
use quorate_command::machine::Machine;
use quorate_command::ordering::OrderChoice;
use quorate_command::print::{amount, size};
use quorate_command::progress::Progress;
use quorate_floor::Config as FloorConfig;
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;

/// The shares of the most that the cluster answers, at which it is measured.
const SHARES: [f64; 7] = [0.10, 0.25, 0.50, 0.75, 0.90, 1.50, 2.00];
/// The share for `--during`.
const HALF: f64 = 0.5;
/// The most calls under way. It is far above what the clients accept, so it is they and the cluster that say when there is no room.
const OUTSTANDING: usize = 4 << 20;
/// The beginning of the lanes' thread names.
const LANE: &str = "lane-";
/// How long the most is looked for.
const SEARCH: Duration = Duration::from_secs(3);

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Quantiles {
    calls: u64,
    p50: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
    p99_99: f64,
    max: f64,
}

impl Quantiles {
    /// From a histogram in nanoseconds.
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e6;
        Self {
            calls: histogram.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: histogram.max() as f64 / 1e6,
        }
    }
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
struct Row {
    /// Puts per second that were due, and as a share of the most.
    rate: f64,
    share: Option<f64>,
    /// What happened meanwhile, and what there was of it.
    event: Option<String>,
    note: Option<String>,
    due: u64,
    /// Puts per second answered in the measured time.
    answered_per_s: f64,
    /// Of the puts that were due: refused since there was no room, without an answer in time, failed otherwise, not sent at all.
    overloaded: u64,
    timed_out: u64,
    failed: u64,
    not_sent: u64,
    longest_failure_ms: f64,
    first_error: Option<String>,
    /// Of the puts that were due: sent a millisecond or more after that; and the latest of all.
    sent_late: u64,
    latest_ms: f64,
    /// So many were sent late that the load generator was a limit, too.
    fell_behind: bool,
    /// Of those that were answered, from the moment at which they were due.
    latency_ms: Quantiles,
    /// Processor time of all replicas for each answered put; null when a replica came or went.
    cpu_us_per_put: Option<f64>,
    /// Processor seconds of the oracle for each second, beside that; null where the cluster was started without one.
    oracle_cpu: Option<f64>,
    /// Processor seconds of the load generator for each second.
    load_cpu: Option<f64>,
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    tls: bool,
    fault_model: String,
    protocol: &'static str,
    replicas: usize,
    payload: String,
    load: String,
    /// The percentage of a core that each lane gets; null: no limit.
    quota_percent: Option<u32>,
    /// The bytes of requests that a replica lets wait, if not its own limit.
    queue_bytes: Option<u64>,
    /// The most puts per second that the cluster answers when each caller waits for its answer; null when it was not looked for.
    most_per_s: Option<f64>,
    rows: Vec<Row>,
    checks: Vec<Check>,
    /// False when a check or a put failed, except for want of room or time: then the figures mean nothing.
    valid: bool,
    machine: Machine,
    floors: Vec<FloorRun>,
}

pub(super) fn run(args: &LatencyArgs, output: &Output) -> Outcome {
    args.check()?;
    let machine = Machine::ask(&args.measurement.scratch);
    let mut floors = Vec::new();
    floors.extend(floor(args)?);
    let found = measure(args)?;
    floors.extend(floor(args)?);
    let document = Document {
        benchmark: "latency",
        version: env!("CARGO_PKG_VERSION"),
        durability: found.durability,
        tls: !args.measurement.plain,
        fault_model: found.order.fault_model.to_string(),
        protocol: found.order.protocol.name(),
        replicas: found.replicas,
        payload: format!("puts of {} B under 16 B, {} keys", args.value_bytes, args.keys),
        load: format!("{} callers, {} clients", args.callers, args.clients),
        quota_percent: (args.quota > 0).then_some(args.quota),
        queue_bytes: args.queue_bytes,
        most_per_s: found.most_per_s,
        valid: found.checks.iter().all(Check::is_passed) && found.rows.iter().all(|row| row.failed == 0),
        rows: found.rows,
        checks: found.checks,
        machine,
        floors,
    };
    output.show(&document, || text(&document), || page::page(&document))?;
    Ok(if document.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All measurements, and the cluster that they were made on.
struct Found {
    durability: Durability,
    replicas: usize,
    order: OrderChoice,
    most_per_s: Option<f64>,
    rows: Vec<Row>,
    checks: Vec<Check>,
}

fn measure(args: &LatencyArgs) -> Outcome<Found> {
    let mut target = Target::configured(&args.measurement, ServiceChoice::Kv, args.settings())?;
    let mut quotas = (args.quota > 0).then(|| Quotas::new(args.quota)).transpose()?;
    if let Some(quotas) = &mut quotas {
        for pid in target.pids.clone() {
            quotas.limit_all(pid, LANE)?;
        }
    }
    let mut work = Puts::new(args.keys, args.value_bytes);
    let known = !args.rates.is_empty() || args.rate.is_some();
    let mut found = Found {
        durability: Durability::of(&target),
        replicas: target.replicas.len(),
        order: target.order,
        most_per_s: if known { None } else { Some(most(args, &mut target, &mut work)?) },
        rows: Vec::new(),
        checks: Vec::new(),
    };
    if args.during.is_empty() {
        if args.measurement.own_cluster() {
            target.have_crowd(args.clients, args.timeout()?)?;
        }
        for _ in 0..args.measurement.repeat {
            for rate in rates(&args.rates, found.most_per_s.unwrap_or(0.0)) {
                let progress = Progress::waiting(&format!("{} puts/s", amount(rate)));
                let provided = paced::run(&mut target, &pace(args, rate)?, &mut work)?;
                drop(progress);
                found.rows.push(row(rate, found.most_per_s, &provided));
            }
        }
        found.checks.push(kv::verify(&target, &work.sample)?);
        return Ok(found);
    }
    // Each event gets a cluster of its own.
    drop(target);
    let rate = args.rate.unwrap_or(found.most_per_s.unwrap_or(0.0) * HALF).max(1.0);
    for _ in 0..args.measurement.repeat {
        for event in &args.during {
            let (row, check) = during::measure(args, *event, rate)?;
            found.rows.push(Row { share: found.most_per_s.map(|most| rate / most), ..row });
            found.checks.push(check);
        }
    }
    Ok(found)
}

/// The most puts per second that the cluster answers, when each caller waits for its answer.
fn most(args: &LatencyArgs, target: &mut Target, work: &mut Puts) -> Outcome<f64> {
    let plan = Plan {
        sessions: args.callers,
        slots: args.callers,
        commands_per_call: 1,
        warm: Duration::from_secs_f64(args.measurement.warm),
        measure: SEARCH.min(seconds("--secs", args.measurement.secs)?),
    };
    let measured = load::run(target, &plan, work, "the most puts/s")?;
    Ok(measured.commands as f64 / measured.seconds)
}

/// The rates that are asked for, or shares of the most.
fn rates(asked: &[f64], most_per_s: f64) -> Vec<f64> {
    match asked {
        [] => SHARES.iter().map(|share| (share * most_per_s).max(1.0)).collect(),
        some => some.to_vec(),
    }
}

fn pace(args: &LatencyArgs, rate: f64) -> Outcome<Pace> {
    Ok(Pace {
        sessions: args.callers,
        calls_per_s: rate,
        outstanding_max: OUTSTANDING,
        timeout: args.timeout()?,
        warm: Duration::from_secs_f64(args.measurement.warm),
        measure: seconds("--secs", args.measurement.secs)?,
    })
}

fn row(rate: f64, most_per_s: Option<f64>, provided: &Provided) -> Row {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let answered = provided.answered.max(1) as f64;
    Row {
        rate,
        share: most_per_s.map(|most| rate / most.max(1.0)),
        event: None,
        note: None,
        due: provided.due,
        answered_per_s: provided.answered as f64 / provided.seconds,
        overloaded: provided.refused,
        timed_out: provided.timed_out,
        failed: provided.failed,
        not_sent: provided.skipped,
        longest_failure_ms: ms(provided.longest_failure),
        first_error: provided.first_error.clone(),
        sent_late: provided.sent_late,
        latest_ms: ms(provided.latest),
        fell_behind: provided.fell_behind(),
        latency_ms: Quantiles::of(&provided.latency),
        cpu_us_per_put: provided.replicas_cpu.map(|cpu| cpu.total_s() * 1e6 / answered),
        oracle_cpu: provided.oracle_cpu.map(|cpu| cpu.total_s() / provided.seconds),
        load_cpu: provided.load_cpu.map(|cpu| cpu.total_s() / provided.seconds),
    }
}

fn floor(args: &LatencyArgs) -> Outcome<Option<FloorRun>> {
    if args.measurement.no_floor {
        return Ok(None);
    }
    let config = FloorConfig {
        window: args.callers as u64,
        command_bytes: 16 + args.value_bytes.max(1),
        seconds: 3.0,
        ..floor_config(&args.measurement)
    };
    let fault_model = args.measurement.order.choice()?.fault_model;
    let run = floor_run(&config, &Durability::planned(&args.measurement), fault_model)?;
    // What it left is an empty directory.
    let _ = std::fs::remove_dir(&config.dir);
    Ok(Some(run))
}

fn text(document: &Document) -> String {
    let valid = if document.valid { "" } else { "NOT VALID, see below. " };
    let most = document
        .most_per_s
        .map_or(String::new(), |most| format!("; the most when every caller waits: {} puts/s", amount(most)));
    let mut lines = vec![
        format!(
            "{valid}latency: durability {}, {}, {} faults, {}, {} replicas{most}",
            document.durability,
            if document.tls { "TLS" } else { "without TLS" },
            document.fault_model,
            document.protocol,
            document.replicas
        ),
        format!(
            "  {}; {}{}; milliseconds from the moment at which a put was due",
            document.payload,
            document.load,
            limits(document)
        ),
        table(&document.rows).text(),
    ];
    lines.extend(document.rows.iter().filter_map(remark));
    lines.extend(
        document
            .checks
            .iter()
            .filter(|check| !check.is_passed())
            .map(|check| format!("  NOT VALID: {}", check.text())),
    );
    lines.extend(document.floors.iter().map(|floor| {
        format!(
            "  null program ({}), {} outstanding: {}/s, p50 {:.2} ms, p99 {:.2} ms",
            floor.which(),
            floor.window,
            amount(floor.per_s),
            floor.p50_us / 1e3,
            floor.p99_us / 1e3
        )
    }));
    lines.push(report::machine_lines(&document.machine));
    lines.join("\n")
}

/// The limits of this run that replicas do not have by themselves.
fn limits(document: &Document) -> String {
    let quota = document.quota_percent.map(|percent| format!("; each lane gets {percent} % of a core"));
    let queue = document.queue_bytes.map(|bytes| format!("; replicas let {} of requests wait", size(bytes)));
    quota.into_iter().chain(queue).collect()
}

/// What must be known of a row besides its figures.
fn remark(row: &Row) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(note) = row.note.as_ref().filter(|note| *note != "-") {
        parts.push(note.clone());
    }
    if row.fell_behind {
        let share = row.sent_late as f64 / row.due.max(1) as f64;
        parts.push(format!(
            "the load generator fell behind: {:.1} % of the puts were sent {} ms or more late, the latest {:.1} ms",
            share * 100.0,
            LATE.as_millis(),
            row.latest_ms
        ));
    }
    if let Some(why) = row.first_error.as_ref() {
        let longest = row.longest_failure_ms;
        parts.push(format!("the first error: {why}; a put that failed did so within {longest:.0} ms"));
    }
    let name = row.event.clone().unwrap_or_else(|| format!("{}/s", amount(row.rate)));
    (!parts.is_empty()).then(|| format!("  {name}: {}", parts.join("; ")))
}

fn table(rows: &[Row]) -> Table {
    let head = [
        "rate/s",
        "of most",
        "answered/s",
        "overloaded",
        "timed out",
        "not sent",
        "late",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "CPU us",
    ];
    let cells = |row: &Row| {
        let latency = row.latency_ms;
        let ms = [latency.p50, latency.p90, latency.p99, latency.p99_9, latency.p99_99, latency.max];
        let rate = match &row.event {
            Some(event) => format!("{event}, {}", amount(row.rate)),
            None => amount(row.rate),
        };
        let counts = [row.overloaded, row.timed_out, row.not_sent, row.sent_late];
        let mut cells = vec![
            rate,
            row.share.map_or("-".into(), |share| format!("{:.0} %", share * 100.0)),
            amount(row.answered_per_s),
        ];
        cells.extend(counts.map(|count| amount(count as f64)));
        cells.extend(ms.map(|ms| if row.latency_ms.calls == 0 { "-".into() } else { format!("{ms:.2}") }));
        cells.push(row.cpu_us_per_put.map_or("-".into(), |us| format!("{us:.2}")));
        ("", cells)
    };
    Table { head: head.map(str::to_owned).to_vec(), rows: rows.iter().map(cells).collect() }
}

//! The figure `dfc`: throughput and the longest call over time, without checkpoints and with each way of taking them.
//!
//! Each way is measured with a cluster of its own: a state is put, then callers put random keys of it, each with one put outstanding. The
//! first window, without checkpoints, gives the speed, and with it the distance of borders for about four of them in each window of the
//! other ways. After the paper's figure on deterministic fuzzy checkpoints.

use super::filling::{KEY_BYTES, Recorder, keys, put_there, settle};
use super::marks::{Marks, Span, Watch};
use super::samples::{BIN, Bin, Quantiles};
use super::{Drawn, FigureArgs, refuse};
use crate::bench::draw::{Chart, Line, Made, Page, Table, colour};
use crate::bench::kv;
use crate::bench::load::{self, Plan};
use crate::bench::options::Measurement;
use crate::bench::report::{self, Check, Durability, FloorRun};
use crate::bench::series::{floor_config, floor_run};
use crate::bench::target::Target;
use crate::bench::temporary::Settings;
use clap::ValueEnum;
use quorate_command::arguments::{self, seconds};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::ServiceChoice;
use quorate_command::machine::Machine;
use quorate_command::print::size;
use quorate_command::print::{amount, json};
use quorate_floor::{Config as FloorConfig, FaultModel};
use quorate_runtime::CheckpointConfig;
use serde::Serialize;
use std::time::Duration;

/// What a put takes in a batch besides key and value, about, in bytes.
const PUT_BYTES: f64 = 64.0;
/// Borders in each window.
const BORDERS: f64 = 4.0;
/// A distance of borders that is never reached.
const NEVER: u64 = 1 << 40;

/// How checkpoints are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Mode {
    /// Not at all
    None,
    /// Nothing is executed until everything is written
    StopAndCopy,
    /// As stop-and-copy, each replica at a border of its own
    Staggered,
    /// Beside the work, always everything
    Full,
    /// Beside the work, between full ones only what changed
    Differential,
}

impl Mode {
    /// What is measured unless told otherwise.
    pub(super) const DEFAULT: [Self; 4] = [Self::None, Self::StopAndCopy, Self::Full, Self::Differential];
}

/// The result for one way.
#[derive(Serialize)]
struct Run {
    mode: String,
    #[serde(skip)]
    way: Mode,
    interval_bytes: Option<u64>,
    seconds: f64,
    per_s: f64,
    latency_ms: Quantiles,
    /// Latency of calls while any replica wrote a checkpoint, and of the other calls.
    latency_ms_during: Quantiles,
    latency_ms_beside: Quantiles,
    per_s_during: Option<f64>,
    per_s_beside: Option<f64>,
    /// Processor time per put: of all replicas together, and of everything else on the machine but the load generator.
    cpu_us_per_put: f64,
    others_cpu_s: Option<f64>,
    /// Whether the replicas' status says when they wrote checkpoints.
    checkpoints_known: bool,
    /// By replica.
    checkpoints: Vec<Vec<Span>>,
    checkpoints_of_any: Vec<Span>,
    errors: u64,
    first_error: Option<String>,
    check: Check,
    bins: Vec<Bin>,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    fault_model: &'static str,
    protocol: &'static str,
    replicas: usize,
    payload: String,
    load: String,
    state_bytes: u64,
    keys: u64,
    /// Null: the default of the replicas.
    rate_bytes: Option<u64>,
    /// False when a check or a call failed: then the figure means nothing.
    valid: bool,
    machine: Machine,
    floors: Vec<FloorRun>,
    runs: Vec<Run>,
}

/// Measures and draws.
pub(super) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    check(args)?;
    let measurement = args.measurement();
    let machine = Machine::ask(&measurement.scratch);
    let durability = Durability::planned(&measurement);
    let mut floors = Vec::new();
    floors.extend(floor(args, &measurement, &durability)?);
    let mut interval = args.interval_bytes;
    let mut runs: Vec<Run> = Vec::new();
    for mode in &args.modes {
        let mut run = measure(args, &measurement, *mode, interval)?;
        if *mode == Mode::None {
            interval = interval.or(Some(spacing(args, run.per_s)));
        }
        let before = runs.iter().filter(|run| run.way == *mode).count();
        if before > 0 {
            run.mode = format!("{} {}", run.mode, before + 1);
        }
        runs.push(run);
    }
    floors.extend(floor(args, &measurement, &durability)?);
    let valid = runs.iter().all(|run| run.errors == 0 && run.check.is_passed())
        && floors.iter().all(|floor| floor.replicas_agree);
    let document = Document {
        figure: "dfc",
        version: env!("CARGO_PKG_VERSION"),
        durability,
        fault_model: "crash",
        protocol: "raft",
        replicas: usize::from(crate::bench::temporary::REPLICAS),
        payload: format!("puts of {} B under {KEY_BYTES} B, {} keys", args.value_bytes, keys(args)),
        load: format!("{} callers, one put outstanding each, 1 client", args.callers),
        state_bytes: args.state_bytes,
        keys: keys(args),
        rate_bytes: args.rate_bytes,
        valid,
        machine,
        floors,
        runs,
    };
    let page = page(&document);
    let text = text(&document, &page);
    Ok(Drawn { html: page.html(&Made::now()), json: json(&document)?, text, valid })
}

fn check(args: &FigureArgs) -> Outcome<()> {
    if !(1..=10_000).contains(&args.callers) {
        return refuse("--callers is 1 to 10000: a client may have no more sessions");
    }
    if !(1..=64 << 10).contains(&args.value_bytes) {
        return refuse("--value-bytes is 1 to 65536");
    }
    if !(1 << 20..=NEVER).contains(&args.state_bytes) {
        return refuse("--state-bytes is 1MiB to 1TiB");
    }
    if args.interval_bytes.is_none() && args.modes.first() != Some(&Mode::None) {
        return refuse(
            "unless none comes first among --modes, --interval-bytes is needed: nothing else tells how far apart borders are to be",
        );
    }
    Ok(())
}

/// The distance of borders at this rate of puts: about four in a window, but far enough apart to write a full checkpoint.
fn spacing(args: &FigureArgs, per_s: f64) -> u64 {
    let bytes_per_s = per_s * (PUT_BYTES + (KEY_BYTES + args.value_bytes) as f64);
    let rate = args.rate_bytes.unwrap_or(CheckpointConfig::default().rate_bytes);
    let writing_s = if rate == 0 { 0.0 } else { args.state_bytes as f64 / rate as f64 * 1.3 };
    ((bytes_per_s * (args.secs / BORDERS).max(writing_s)) as u64).clamp(64 << 10, NEVER)
}

fn floor(args: &FigureArgs, measurement: &Measurement, durability: &Durability) -> Outcome<Option<FloorRun>> {
    if measurement.no_floor {
        return Ok(None);
    }
    let config = FloorConfig {
        window: args.callers as u64,
        command_bytes: KEY_BYTES + args.value_bytes,
        seconds: 3.0,
        ..floor_config(measurement)
    };
    // as the document says of ours
    let run = floor_run(&config, durability, FaultModel::Crash)?;
    // What it left is an empty directory.
    let _ = std::fs::remove_dir(&config.dir);
    Ok(Some(run))
}

/// The settings of the replicas for this way.
fn settings(args: &FigureArgs, mode: Mode, interval: u64) -> Settings {
    let number = |bytes: u64| toml::Value::Integer(i64::try_from(bytes).unwrap_or(i64::MAX));
    let own = CheckpointConfig::default();
    let mut settings: Settings = vec![
        ("checkpoints", "interval_bytes", number(interval)),
        ("checkpoints", "interval_bytes_max", number(interval)),
        ("checkpoints", "interval_state_percent", number(0)),
        ("checkpoints", "log_bytes_max", number(own.log_bytes_max.max(interval.saturating_mul(4)))),
    ];
    if mode != Mode::None {
        settings.push(("checkpoints", "mode", arguments::name(mode).into()));
    }
    settings.extend(args.rate_bytes.map(|rate| ("checkpoints", "rate_bytes", number(rate))));
    settings
}

fn measure(args: &FigureArgs, measurement: &Measurement, mode: Mode, interval: Option<u64>) -> Outcome<Run> {
    let interval = match mode {
        Mode::None => NEVER,
        _ => interval.unwrap_or(CheckpointConfig::default().interval_bytes),
    };
    let name = arguments::name(mode);
    let mut target = Target::configured(measurement, ServiceChoice::Kv, settings(args, mode, interval))?;
    put_there(&mut target, 0..keys(args), args.value_bytes, &format!("{name}: the state"))?;
    let others = target.replicas.len() - 1;
    settle(&mut target, others)?;

    let plan = Plan {
        sessions: args.callers,
        slots: args.callers,
        commands_per_call: 1,
        warm: Duration::from_secs_f64(measurement.warm),
        measure: seconds("--secs", measurement.secs)?,
    };
    let mut work = kv::Puts::new(keys(args), args.value_bytes);
    let mut recorder = Recorder { length: plan.measure, samples: None };
    let watch = Watch::start(&target.client, &target.replicas);
    let measured = load::run_observed(&mut target, &plan, &mut work, &name, &mut recorder)?;
    let Some(samples) = recorder.samples else { return Err(Failure::new("nothing was measured")) };
    let Marks { known, spans, any } = watch.finish(measured.began);
    let check = kv::verify(&target, &work.sample)?;

    let (during, beside) = samples.apart(&any);
    let (per_s_during, per_s_beside) = samples.rates_apart(&any);
    let cpu_s: f64 = measured.replicas_cpu.iter().map(|cpu| cpu.total_s()).sum();
    Ok(Run {
        mode: name,
        way: mode,
        interval_bytes: (mode != Mode::None).then_some(interval),
        seconds: measured.seconds,
        per_s: samples.per_s(),
        latency_ms: samples.quantiles(),
        latency_ms_during: during,
        latency_ms_beside: beside,
        per_s_during,
        per_s_beside,
        cpu_us_per_put: cpu_s * 1e6 / measured.commands.max(1) as f64,
        others_cpu_s: measured.others_cpu_s,
        checkpoints_known: known,
        checkpoints: spans,
        checkpoints_of_any: any,
        errors: measured.errors,
        first_error: measured.first_error,
        check,
        bins: samples.bins(),
    })
}

fn page(document: &Document) -> Page {
    let line = |run: &Run, number: usize, value: fn(&Bin) -> Option<f64>| Line {
        name: run.mode.clone(),
        colour: colour(number),
        points: run.bins.iter().map(|bin| (bin.at_s, value(bin))).collect(),
        bars: run.checkpoints_of_any.iter().map(|span| (span.from_s, span.to_s)).collect(),
        ranges: Vec::new(),
    };
    let lines = |value: fn(&Bin) -> Option<f64>| {
        document.runs.iter().enumerate().map(|(number, run)| line(run, number, value)).collect()
    };
    let known = document.runs.iter().any(|run| run.checkpoints_known);
    let chart = |title: &str, y_label: &str, logarithmic, value| Chart {
        title: title.into(),
        x_label: "time in s".into(),
        y_label: y_label.into(),
        logarithmic,
        lines: lines(value),
        x_most: document.runs.first().map_or(0.0, |run| run.bins.len() as f64 * BIN.as_secs_f64()),
        bars_label: known.then(|| "checkpoints".into()),
    };
    Page {
        title: "Throughput and the longest call while checkpoints are taken".into(),
        intro: format!(
            "{} of state on each of {} replicas; {}; {}. One window of {:.0} s for each way to take checkpoints, in points of \
             0.1 s. Bars: some replica writes a checkpoint.",
            size(document.state_bytes),
            document.replicas,
            document.payload,
            document.load,
            document.runs.first().map_or(0.0, |run| run.seconds)
        ),
        charts: vec![
            chart("Throughput", "puts per second", false, |bin| Some(bin.per_s)),
            chart("The longest call that was answered", "milliseconds (logarithmic)", true, |bin| bin.max_ms),
        ],
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn table(document: &Document) -> Table {
    let head = ["checkpoints", "calls", "puts/s", "CPU us", "p50 ms", "p99", "p99.9", "p99.99", "max"];
    let row = |name: String, rate: Option<f64>, cpu: Option<f64>, of: &Quantiles| {
        let ms = |value: f64| if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") };
        let rate = rate.map_or("-".into(), amount);
        vec![
            name,
            of.calls.to_string(),
            rate,
            cpu.map_or("-".into(), |us| format!("{us:.1}")),
            ms(of.p50),
            ms(of.p99),
            ms(of.p99_9),
            ms(of.p99_99),
            ms(of.max),
        ]
    };
    let mut rows = Vec::new();
    for (number, run) in document.runs.iter().enumerate() {
        rows.push((
            colour(number),
            row(run.mode.clone(), Some(run.per_s), Some(run.cpu_us_per_put), &run.latency_ms),
        ));
        if !run.checkpoints_of_any.is_empty() {
            let during = format!("{}, during one", run.mode);
            rows.push((colour(number), row(during, run.per_s_during, None, &run.latency_ms_during)));
            let beside = format!("{}, between", run.mode);
            rows.push((colour(number), row(beside, run.per_s_beside, None, &run.latency_ms_beside)));
        }
    }
    Table { head: head.map(str::to_owned).to_vec(), rows }
}

fn facts(document: &Document) -> Vec<String> {
    let mut facts = vec![
        format!(
            "durability {}, fault model {}, {}, {} replicas; quorate {}",
            document.durability, document.fault_model, document.protocol, document.replicas, document.version
        ),
        format!("{}; {}", document.payload, document.load),
        "CPU us: processor time of all replicas together for each put".into(),
    ];
    for run in &document.runs {
        if let Some(others) = run.others_cpu_s.filter(|others| *others > run.seconds / 10.0) {
            facts.push(format!("{}: others used {others:.1} s of processor time in its window", run.mode));
        }
        let Some(interval) = run.interval_bytes else { continue };
        let seen = match run.checkpoints_known {
            true => format!(
                "{} checkpoints in the window, all replicas together",
                run.checkpoints.iter().flatten().filter(|span| span.to_s > 0.0).count()
            ),
            false => "the replicas did not say when they wrote checkpoints".into(),
        };
        facts.push(format!("{}: borders {} of batches apart; {seen}", run.mode, size(interval)));
    }
    let rate = match document.rate_bytes {
        None => format!("at most {} per second, the default", size(CheckpointConfig::default().rate_bytes)),
        Some(0) => "without a limit".into(),
        Some(rate) => format!("at most {} per second", size(rate)),
    };
    facts.push(format!("checkpoints are written {rate}"));
    for floor in &document.floors {
        facts.push(format!(
            "the null program on the same machine, {} outstanding: {}/s, p50 {:.2} ms, p99 {:.2} ms",
            floor.window,
            amount(floor.per_s),
            floor.p50_us / 1000.0,
            floor.p99_us / 1000.0
        ));
    }
    if document.floors.is_empty() {
        facts.push("the null program was not run".into());
    }
    for run in document.runs.iter().filter(|run| run.errors > 0 || !run.check.is_passed()) {
        let first = run.first_error.as_deref().unwrap_or("none");
        facts.push(format!(
            "NOT VALID, {}: {} calls failed (the first: {first}); {}",
            run.mode,
            run.errors,
            run.check.text()
        ));
    }
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}

fn text(document: &Document, page: &Page) -> String {
    let valid = if document.valid { "" } else { "NOT VALID, see below. " };
    let mut lines = vec![format!("{valid}dfc: {}", page.title), page.table.text()];
    lines.extend(page.facts.iter().map(|fact| format!("  {fact}")));
    lines.join("\n")
}

//! The figure `cop`: requests agreed on per second, and processor time for each, by the number of instances. It compares three ways to
//! divide the work of a replica: a lane for each instance (pillars), a lane for each step of the work (staged), and one lane for everything.
//!
//! Replicas are asked for as much as they can do. Each way is measured with a cluster of its own, once in each round. After "Consensus-Oriented
//! Parallelization: How to Earn Your First Million" (Middleware 2015), whose baseline divides the work by steps and has one instance.

use super::shares::{self, cell, lanes};
use super::{Drawn, FigureArgs, refuse};
use crate::bench::append::{Append, strong, verify};
use crate::bench::cpu::Cpu;
use crate::bench::draw::{Chart, Made, Page, Table, colour};
use crate::bench::load::{self, Plan};
use crate::bench::median::{self, Median};
use crate::bench::options::Measurement;
use crate::bench::report::{self, Check, Durability, FloorRun, counted};
use crate::bench::series::{floor_config, floor_run};
use crate::bench::target::Target;
use quorate_command::arguments::seconds;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::{PlacementChoice, ServiceChoice};
use quorate_command::machine::Machine;
use quorate_command::ordering::OrderArgs;
use quorate_command::print::{amount, json};
use quorate_floor::Config as FloorConfig;
use serde::Serialize;
use std::time::Duration;

/// Clients per instance, on average; they take instances in turn.
const CLIENTS: u16 = 4;
/// The most sessions, whatever the number of instances.
const SESSIONS: usize = 256;
/// Commands in one call.
const COMMANDS: usize = 1;
/// The fewest lanes of a staged replica.
const STAGED_LANES: u16 = 3;

/// How the work of a replica is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    Pillars,
    Staged,
    OneLane,
}

impl Way {
    const ALL: [Self; 3] = [Self::Pillars, Self::Staged, Self::OneLane];

    /// The replicas that stand beside those with this number of instances. The staged one has one instance, as in the literature, and as
    /// many lanes.
    pub(super) fn shape(self, instances: u16) -> Shape {
        match self {
            Self::Pillars => Shape { instances, lanes: lanes(instances), staged: false },
            Self::Staged => Shape { instances: 1, lanes: lanes(instances).max(STAGED_LANES), staged: true },
            Self::OneLane => Shape { instances, lanes: 1, staged: false },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pillars => "pillars",
            Self::Staged => "staged, 1 instance",
            Self::OneLane => "one lane",
        }
    }
}

/// What distinguishes one cluster from the others. Ways that have the same are measured once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) instances: u16,
    pub(super) lanes: u16,
    pub(super) staged: bool,
}

impl Shape {
    fn text(self) -> String {
        let staged = if self.staged { ", staged" } else { "" };
        format!("{} on {} lanes{staged}", counted(self.instances), self.lanes)
    }
}

/// One round of a shape.
struct Run {
    per_s: f64,
    cpu_us: f64,
    replicas_cores: f64,
    load_cores: f64,
    requests_per_batch: f64,
    noop_share: f64,
    errors: u64,
    first_error: Option<String>,
    check: Check,
}

#[derive(Serialize)]
struct Point {
    way: Way,
    /// The number of instances beside which it stands.
    beside: u16,
    instances: u16,
    lanes: u16,
    requests_per_s: Median,
    /// The rate divided by that of the first number of instances, each with a lane, round by round; and processor time likewise.
    times_the_first: Median,
    /// Processor time of all replicas together.
    cpu_us_per_request: Median,
    cpu_times_the_first: Median,
    /// How many cores all replicas used, and the load generator.
    replicas_cores: Median,
    load_cores: Median,
    /// Since the cluster was started; and the share of the global log that is empty.
    requests_per_batch: Median,
    noop_share: Median,
    errors: u64,
    first_error: Option<String>,
    check: Check,
}

/// The part of the figure for one kind of faults.
#[derive(Serialize)]
struct Part {
    fault_model: &'static str,
    protocol: &'static str,
    replicas: u16,
    floor: Option<FloorRun>,
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Document {
    figure: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    tls: bool,
    payload: String,
    load: String,
    /// The percentage of a core that each lane gets; null: no limit.
    quota_percent: Option<u32>,
    rounds: u32,
    seconds: f64,
    valid: bool,
    machine: Machine,
    parts: Vec<Part>,
}

/// Measures and draws.
pub(super) fn draw(args: &FigureArgs) -> Outcome<Drawn> {
    check(args)?;
    let base = args.measurement();
    let machine = Machine::ask(&base.scratch);
    let surviving = |word| Measurement { order: OrderArgs::surviving(word), ..base.clone() };
    let lanes_most = shapes(args).iter().map(|shape| shape.lanes).max().unwrap_or(1);
    for word in &args.fault_models {
        shares::check_cores(args.quota, lanes_most, surviving(*word).replicas(), machine.cores)?;
    }
    let parts =
        args.fault_models.iter().map(|word| part(args, &surviving(*word))).collect::<Outcome<Vec<_>>>()?;
    let points = || parts.iter().flat_map(|part| &part.points);
    let agree = parts.iter().filter_map(|part| part.floor.as_ref()).all(|floor| floor.replicas_agree);
    let document = Document {
        figure: "cop",
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&base),
        tls: !base.plain,
        payload: format!("requests of {} B, {} per call", args.command_bytes, commands(args)),
        load: format!(
            "{} calls under way, {} sessions, {} clients",
            args.calls,
            sessions(args),
            clients(args)
        ),
        quota_percent: (args.quota > 0).then_some(args.quota),
        rounds: args.rounds,
        seconds: args.secs,
        valid: agree && points().all(|point| point.errors == 0 && point.check.is_passed()),
        machine,
        parts,
    };
    let page = page(&document);
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

fn check(args: &FigureArgs) -> Outcome<()> {
    shares::check(args)?;
    if args.pillars.is_some() {
        return refuse("cop compares where instances agree: leave out --pillars");
    }
    if args.fault_models.is_empty() {
        return refuse("--fault-models is a list of byzantine and crash");
    }
    Ok(())
}

fn commands(args: &FigureArgs) -> usize {
    args.commands_per_call.unwrap_or(COMMANDS)
}

/// At most one for each call.
fn sessions(args: &FigureArgs) -> usize {
    SESSIONS.min(args.calls as usize)
}

fn clients(args: &FigureArgs) -> usize {
    usize::from(CLIENTS * args.instances.iter().copied().max().unwrap_or(1))
}

/// All shapes that are to be measured, each once; that of the first number of instances, each with a lane, is the first.
fn shapes(args: &FigureArgs) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for shape in args.instances.iter().flat_map(|instances| Way::ALL.map(|way| way.shape(*instances))) {
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    shapes
}

fn part(args: &FigureArgs, measurement: &Measurement) -> Outcome<Part> {
    let order = measurement.order.choice()?;
    let fault_model = order.fault_model;
    let floor = if measurement.no_floor {
        None
    } else {
        let window = u64::from(args.calls) * commands(args) as u64;
        let config = FloorConfig { window, command_bytes: args.command_bytes, ..floor_config(measurement) };
        let run = floor_run(&config, &Durability::planned(measurement), fault_model)?;
        // What it left is an empty directory.
        let _ = std::fs::remove_dir(&config.dir);
        Some(run)
    };
    let shapes = shapes(args);
    let mut runs: Vec<Vec<Run>> = shapes.iter().map(|_| Vec::new()).collect();
    for round in 1..=args.rounds {
        for at in median::order(round, shapes.len()) {
            let title = format!("{}: {} {round}/{}", fault_model.name(), shapes[at].text(), args.rounds);
            runs[at].push(measure(args, measurement, shapes[at], &title)?);
        }
    }
    let mut points = Vec::new();
    for (way, beside) in Way::ALL.iter().flat_map(|way| args.instances.iter().map(|beside| (*way, *beside))) {
        let at = shapes.iter().position(|shape| *shape == way.shape(beside));
        let measured = at.and_then(|at| point(way, beside, &runs[at], &runs[0]));
        points.push(measured.ok_or_else(|| Failure::new("nothing was measured"))?);
    }
    Ok(Part {
        fault_model: fault_model.name(),
        protocol: order.protocol.name(),
        replicas: measurement.replicas(),
        floor,
        points,
    })
}

fn measure(args: &FigureArgs, measurement: &Measurement, shape: Shape, title: &str) -> Outcome<Run> {
    let shaped = Measurement {
        instances: shape.instances,
        lanes: shape.lanes,
        placement: shape.staged.then_some(PlacementChoice::Staged),
        ..measurement.clone()
    };
    let mut target = Target::open(&shaped, ServiceChoice::Tally)?;
    target.have_clients(clients(args))?;
    // They outlive the cluster, whose threads lie in them.
    let quotas = shares::limit(&target, shape.lanes, args.quota)?;
    let plan = Plan {
        sessions: sessions(args),
        slots: args.calls as usize,
        commands_per_call: commands(args) as u64,
        warm: Duration::from_secs_f64(measurement.warm),
        measure: seconds("--secs", measurement.secs)?,
    };
    let sent = strong(&target)?;
    let mut work = Append { commands: commands(args), bytes: args.command_bytes, sent };
    let measured = load::run(&mut target, &plan, &mut work, title)?;
    let check = match measured.errors {
        0 => verify(&target, work.sent)?,
        _ => Check::not_done("some calls failed"),
    };
    let merged = target.merged()?;
    drop(target);
    drop(quotas);
    let cpu = measured.replicas_cpu.iter().fold(Cpu::default(), |all, cpu| all.plus(*cpu)).total_s();
    Ok(Run {
        per_s: measured.commands as f64 / measured.seconds,
        cpu_us: cpu / measured.commands.max(1) as f64 * 1e6,
        replicas_cores: cpu / measured.seconds,
        load_cores: measured.load_cpu.total_s() / measured.seconds,
        requests_per_batch: merged.requests as f64 / merged.batches.max(1) as f64 * commands(args) as f64,
        noop_share: merged.instances.noop_share,
        errors: measured.errors,
        first_error: measured.first_error,
        check,
    })
}

fn point(way: Way, beside: u16, own: &[Run], first: &[Run]) -> Option<Point> {
    let all = |value: fn(&Run) -> f64| Median::of(own.iter().map(value).collect());
    let times = |value: fn(&Run) -> f64| {
        let each = own.iter().zip(first).map(|(own, first)| value(own) / value(first).max(f64::MIN_POSITIVE));
        Median::of(each.collect())
    };
    let Shape { instances, lanes, .. } = way.shape(beside);
    Some(Point {
        way,
        beside,
        instances,
        lanes,
        requests_per_s: all(|run| run.per_s)?,
        times_the_first: times(|run| run.per_s)?,
        cpu_us_per_request: all(|run| run.cpu_us)?,
        cpu_times_the_first: times(|run| run.cpu_us)?,
        replicas_cores: all(|run| run.replicas_cores)?,
        load_cores: all(|run| run.load_cores)?,
        requests_per_batch: all(|run| run.requests_per_batch)?,
        noop_share: all(|run| run.noop_share)?,
        errors: own.iter().map(|run| run.errors).sum(),
        first_error: own.iter().find_map(|run| run.first_error.clone()),
        check: shares::worst(own.iter().map(|run| &run.check)),
    })
}

fn page(document: &Document) -> Page {
    let all = document.parts.iter().flat_map(|part| &part.points);
    let x_most = all.map(|point| f64::from(point.beside)).fold(1.0, f64::max);
    let chart = |part: &Part, title: &str, y_label: &str, value: fn(&Point) -> Median| Chart {
        title: format!("{title}: {} faults, {}, {} replicas", part.fault_model, part.protocol, part.replicas),
        x_label: "instances".into(),
        y_label: y_label.into(),
        logarithmic: false,
        x_most,
        lines: (Way::ALL.iter().enumerate())
            .map(|(at, way)| {
                let own = part.points.iter().filter(move |point| point.way == *way);
                let values = own.map(|point| (f64::from(point.beside), Some(value(point))));
                shares::line(way.name().into(), colour(at), values)
            })
            .collect(),
        bars_label: None,
    };
    let both = |part| {
        [
            chart(part, "Requests agreed on", "per second", |point| point.requests_per_s),
            chart(part, "Processor time for each request", "microseconds, all replicas", |point| {
                point.cpu_us_per_request
            }),
        ]
    };
    Page {
        title: "Agreement by the number of instances, and by how lanes divide the work".into(),
        intro: format!(
            "{}; as many as the replicas can do: {}; {}; {}. Pillars: a lane for each instance. Staged: a lane for each step of the work, for \
             one instance; as many lanes as the pillars have, three at least.",
            document.payload,
            document.load,
            shares::text(document.quota_percent),
            shares::rounds(document.rounds)
        ),
        charts: document.parts.iter().flat_map(both).collect(),
        table: table(document),
        facts: facts(document),
        ..Page::default()
    }
}

fn table(document: &Document) -> Table {
    let head = [
        "way",
        "faults",
        "instances",
        "lanes",
        "requests/s",
        "times the first",
        "CPU us per request",
        "times the first",
        "cores: replicas + load",
    ];
    let row = |part: &Part, point: &Point| {
        let cells = vec![
            point.way.name().to_owned(),
            part.fault_model.to_owned(),
            point.instances.to_string(),
            point.lanes.to_string(),
            cell(&point.requests_per_s, amount),
            format!("{:.2}", point.times_the_first.median),
            cell(&point.cpu_us_per_request, |us| format!("{us:.2}")),
            format!("{:.2}", point.cpu_times_the_first.median),
            format!("{:.2} + {:.2}", point.replicas_cores.median, point.load_cores.median),
        ];
        let at = Way::ALL.iter().position(|way| *way == point.way).unwrap_or(0);
        (colour(at), cells)
    };
    let rows = document.parts.iter().flat_map(|part| part.points.iter().map(move |point| row(part, point)));
    let mut rows: Vec<_> = rows.collect();
    // A staged replica with three lanes stands beside one instance and beside two.
    rows.dedup();
    Table { head: head.map(str::to_owned).to_vec(), rows }
}

fn facts(document: &Document) -> Vec<String> {
    let mut facts = vec![
        format!(
            "durability {}, {}; quorate {}",
            document.durability,
            if document.tls { "TLS" } else { "without TLS" },
            document.version
        ),
        format!("{}; {}; {}", document.payload, document.load, shares::text(document.quota_percent)),
        format!("{}, {} s each", shares::rounds(document.rounds), document.seconds),
    ];
    facts.extend(document.parts.iter().filter_map(|part| few_cores(document, part)));
    facts.push(
        "the paper, 12 cores and 4 network adapters for each replica, Byzantine faults: more than a million requests per second, where \
         90 k had been the most before"
            .into(),
    );
    for floor in document.parts.iter().filter_map(|part| part.floor.as_ref()) {
        let cpu =
            floor.per_replica_cpu_s.map_or("not known".into(), |per_s| format!("{:.3} us", 1e6 / per_s));
        facts.push(format!(
            "the null program ({}), {} outstanding: {}/s, processor time for each: {cpu}",
            floor.which(),
            floor.window,
            amount(floor.per_s)
        ));
    }
    for (part, point) in
        document.parts.iter().flat_map(|part| part.points.iter().map(move |point| (part, point)))
    {
        if point.errors == 0 && point.check.is_passed() {
            continue;
        }
        let first = point.first_error.as_deref().unwrap_or("none");
        facts.push(format!(
            "NOT VALID, {} faults, {}, beside {}: {} calls failed (the first: {first}); {}",
            part.fault_model,
            point.way.name(),
            counted(point.beside),
            point.errors,
            point.check.text()
        ));
    }
    facts.extend(report::machine_lines(&document.machine).lines().map(|line| line.trim().to_owned()));
    facts
}

/// What the rates do not show where lanes have no limit of their own.
fn few_cores(document: &Document, part: &Part) -> Option<String> {
    let lanes = part.points.iter().map(|point| point.lanes).max()?;
    let all = usize::from(lanes) * usize::from(part.replicas);
    (document.quota_percent.is_none() && all > document.machine.cores).then(|| {
        format!(
            "{} faults: {all} lanes share {} cores, so more lanes can not bring more requests per second here; processor time for \
             each request shows what they cost",
            part.fault_model, document.machine.cores
        )
    })
}

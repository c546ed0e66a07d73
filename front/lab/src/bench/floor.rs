//! `bench floor`: the null program alone, with many commands outstanding and with one.

use super::draw::{Mark, Page, Row, Rows, about_machine};
use super::options::{FloorArgs, check_delay};
use super::output::Output;
use super::report::{self, FloorRun};
use super::series::sync_of;
use super::temporary::FLOOR_PREFIX;
use quorate_command::admin::shown_durability;
use quorate_command::arguments::{self, seconds};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::DurabilityChoice;
use quorate_command::machine::Machine;
use quorate_command::print;
use quorate_command::progress::Progress;
use quorate_floor::{Config, FaultModel, HeardBy};
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct Floor {
    durability: String,
    sync_delay_us: u64,
    window: u64,
    per_s_median: f64,
    p50_us_median: f64,
    runs: Vec<FloorRun>,
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    fault_model: &'static str,
    command_bytes: usize,
    batch_kib: usize,
    replicas: usize,
    /// Slots under way at a time, where there are slots.
    in_flight: Option<u64>,
    /// Callers with connections of their own; null for one stream of commands.
    callers: Option<u32>,
    /// Whether all replicas hear their commands, and not only the leader.
    heard_by_all: bool,
    machine: Machine,
    floors: Vec<Floor>,
}

impl Document {
    /// Where the commands come from.
    fn callers(&self) -> String {
        let heard = if self.heard_by_all { "all replicas hear" } else { "the leader hears" };
        match self.callers {
            None => "one caller that keeps as many commands outstanding as each line says".into(),
            Some(count) => {
                format!(
                    "{count} callers with connections of their own, whose commands {heard}, one outstanding each"
                )
            }
        }
    }
}

pub(super) fn run(args: &FloorArgs, output: &Output) -> Outcome {
    seconds("--secs", args.secs)?;
    if !(1..=1000).contains(&args.repeat) {
        return Err(Failure::usage("--repeat is 1 to 1000"));
    }
    let machine = Machine::ask(&args.scratch);
    let default = if args.sync_delay_us > 0 {
        // A delay means nothing where nothing is synced.
        vec![DurabilityChoice::Group]
    } else {
        vec![DurabilityChoice::Memory, DurabilityChoice::Group]
    };
    let durabilities = args.durability.map_or(default, |d| vec![d]);
    for durability in &durabilities {
        check_delay(*durability, args.sync_delay_us)?;
    }
    let window = args.callers.map(u64::from).or(args.window);
    let windows = window.map_or(vec![65_536, 1], |window| vec![window]);
    let mut floors = Vec::new();
    for durability in &durabilities {
        for window in &windows {
            floors.push(measure(args, &arguments::name(*durability), *window)?);
        }
    }
    let fault_model = FaultModel::from(args.fault_model);
    let document = Document {
        benchmark: "floor",
        fault_model: fault_model.name(),
        command_bytes: args.bytes,
        batch_kib: args.batch_kib,
        replicas: 1 + Config::default().surviving(fault_model).followers,
        in_flight: fault_model.may_lie().then_some(args.in_flight),
        callers: args.callers,
        heard_by_all: args.heard_by_all,
        machine,
        floors,
    };
    output.show(&document, || table(&document), || page(&document))?;
    let agree = document.floors.iter().flat_map(|floor| &floor.runs).all(|run| run.replicas_agree);
    Ok(if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn measure(args: &FloorArgs, durability: &str, window: u64) -> Outcome<Floor> {
    let _progress = Progress::waiting(&format!("floor {durability}, {window} outstanding"));
    let config = Config {
        window,
        callers: args.callers.unwrap_or(0) as usize,
        heard_by: if args.heard_by_all { HeardBy::All } else { HeardBy::Leader },
        command_bytes: args.bytes,
        batch_bytes: args.batch_kib.saturating_mul(1 << 10),
        sync: sync_of(durability),
        sync_delay_us: args.sync_delay_us,
        dir: args.scratch.join(format!("{FLOOR_PREFIX}{}", std::process::id())),
        seconds: args.secs,
        warm_up_seconds: args.warm,
        in_flight: args.in_flight,
        ..Config::default().surviving(args.fault_model.into())
    };
    let mut runs = Vec::new();
    for _ in 0..args.repeat {
        let report = quorate_floor::run(&config).map_err(|why| match why {
            quorate_floor::Error::Config(_) => Failure::usage(why.to_string()),
            _ => Failure::new(why.to_string()),
        })?;
        runs.push(FloorRun::of(&report));
    }
    // What the runs left is an empty directory.
    let _ = std::fs::remove_dir(&config.dir);
    Ok(Floor {
        durability: durability.to_owned(),
        sync_delay_us: args.sync_delay_us,
        window,
        per_s_median: report::median(runs.iter().map(|run| run.per_s)),
        p50_us_median: report::median(runs.iter().map(|run| run.p50_us)),
        runs,
    })
}

fn table(document: &Document) -> String {
    let Document { command_bytes, batch_kib, replicas, machine, floors, .. } = document;
    let agreement = document.in_flight.map_or(String::new(), |slots| {
        format!(" that agree as with {} faults (slots under way: {slots})", document.fault_model)
    });
    let callers = document.callers();
    let mut lines = vec![format!(
        "the null program: {replicas} replicas{agreement}, {command_bytes} B commands, frames up to {batch_kib} KiB, {callers}, no faults survived"
    )];
    lines.push(
        "  durability                outstanding   commands/s   p50 us   p99 us   per replica CPU s".into(),
    );
    for floor in floors {
        for run in &floor.runs {
            lines.push(format!(
                "  {:<24}  {:>11}  {:>11}  {:>7.0}  {:>7.0}  {:>18}{}",
                shown_durability(&floor.durability, floor.sync_delay_us),
                floor.window,
                print::amount(run.per_s),
                run.p50_us,
                run.p99_us,
                run.per_replica_cpu_s.map_or("-".into(), print::amount),
                if run.replicas_agree { "" } else { "  REPLICAS DIFFER" },
            ));
        }
    }
    lines.push(report::machine_lines(machine));
    lines.join("\n")
}

fn page(document: &Document) -> Page {
    let named = |floor: &Floor| {
        format!("{}, {} outstanding", shown_durability(&floor.durability, floor.sync_delay_us), floor.window)
    };
    let row = |floor: &Floor, of: &[fn(&FloorRun) -> Option<f64>]| Row {
        name: named(floor),
        marks: of.iter().map(|of| Mark::of(floor.runs.iter().filter_map(of))).collect(),
    };
    let rows =
        |of: &[fn(&FloorRun) -> Option<f64>]| document.floors.iter().map(|floor| row(floor, of)).collect();
    let Document { command_bytes, batch_kib, replicas, fault_model, machine, .. } = document;
    let durabilities =
        document.floors.iter().map(|floor| shown_durability(&floor.durability, floor.sync_delay_us));
    let mut durabilities: Vec<String> = durabilities.collect();
    durabilities.dedup();
    let rounds = document.floors.first().map_or(0, |floor| floor.runs.len());
    let mut about = vec![
        ("durability", durabilities.join("; ")),
        ("payload", format!("commands of {command_bytes} B, frames up to {batch_kib} KiB")),
        ("callers", document.callers()),
        ("replicas", format!("{replicas}, which agree as with {fault_model} faults; none is survived")),
        ("rounds", rounds.to_string()),
        ("floor", "this is the floor: what the machine allows".to_owned()),
    ];
    about.extend(about_machine(machine));
    let agree = document.floors.iter().flat_map(|floor| &floor.runs).all(|run| run.replicas_agree);
    Page {
        title: "The null program: what this machine allows".into(),
        intro: "The fastest program that only replicates: without sessions, elections, recovery or a service. Points are medians of rounds, with \
                lines from the lowest to the highest."
            .into(),
        rows: vec![
            Rows::new("Rate", "commands per second", &["per second", "per replica CPU second"], rows(&[
                |run| Some(run.per_s),
                |run| run.per_replica_cpu_s,
            ]))
            .logarithmic(),
            Rows::new("Latency of a command", "microseconds", &["p50", "p99"], rows(&[
                |run| Some(run.p50_us),
                |run| Some(run.p99_us),
            ]))
            .logarithmic(),
        ],
        about,
        facts: if agree { Vec::new() } else { vec!["the null program's replicas DIFFER".to_owned()] },
        ..Page::default()
    }
}

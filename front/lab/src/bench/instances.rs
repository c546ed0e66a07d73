//! `bench instances`: what more instances cost in processor time per command where no leader is at its limit.
//!
//! Batches are the same whatever the number of instances: a call is as large as a batch may be, so each call makes one batch. The numbers
//! take turns and are compared within a turn, since the machine's other work changes from minute to minute.

use super::append::{Append, strong, verify};
use super::cpu::Cpu;
use super::draw::{Mark, Page, Row, Rows, about_machine};
use super::load::{self, Plan};
use super::median::{self, Median};
use super::options::{InstancesArgs, Measurement};
use super::output::Output;
use super::report::{self, Durability, counted};
use super::target::Target;
use quorate_command::arguments::seconds;
use quorate_command::cluster::ClusterArgs;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::{PlacementChoice, ServiceChoice};
use quorate_command::machine::Machine;
use quorate_command::ordering::OrderArgs;
use quorate_command::print::amount;
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;

/// Clients per instance, on average; the instance of each client is partly random.
const CLIENTS: u16 = 4;
/// The limits of a batch, by the configuration.
const BATCH_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=2 << 20;

/// One run.
struct Run {
    per_s: f64,
    cpu_us: f64,
    commands_per_batch: f64,
    noop_share: f64,
}

/// All runs with one number of instances.
#[derive(Serialize)]
struct Way {
    instances: u16,
    commands_per_s: Median,
    /// Processor time of all replicas together per command.
    cpu_us_per_command: Median,
    /// That time divided by that of the first number of instances, turn by turn.
    cpu_times_the_first: Median,
    commands_per_batch: Median,
    /// The share of the global log that is empty.
    noop_share: Median,
}

#[derive(Serialize)]
struct Document {
    benchmark: &'static str,
    version: &'static str,
    #[serde(flatten)]
    durability: Durability,
    tls: bool,
    fault_model: &'static str,
    lanes: u16,
    /// How the work of a replica is divided among its lanes; none: as the configuration has it by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<PlacementChoice>,
    payload: String,
    load: String,
    seconds: f64,
    rounds: u32,
    machine: Machine,
    ways: Vec<Way>,
}

pub(super) fn run(args: &InstancesArgs, output: &Output) -> Outcome {
    let measurement = check(args)?;
    let machine = Machine::ask(&measurement.scratch);
    let most = args.instances.iter().copied().max().unwrap_or(1);
    let clients = usize::from(CLIENTS * most);
    let mut runs: Vec<Vec<Run>> = args.instances.iter().map(|_| Vec::new()).collect();
    for round in 1..=args.rounds {
        for at in median::order(round, args.instances.len()) {
            let instances = args.instances[at];
            let title = format!("{} {round}/{}", counted(instances), args.rounds);
            runs[at].push(measure(args, &Measurement { instances, ..measurement.clone() }, clients, &title)?);
        }
    }
    let ways = args.instances.iter().zip(&runs).map(|(instances, own)| way(*instances, own, &runs[0]));
    let document = Document {
        benchmark: "instances",
        version: env!("CARGO_PKG_VERSION"),
        durability: Durability::planned(&measurement),
        tls: !args.plain,
        fault_model: "crash",
        lanes: args.lanes,
        placement: args.placement,
        payload: format!("{} B commands, {} in a call and in a batch", args.bytes, args.commands_per_call),
        load: format!("{} calls outstanding, {clients} clients", args.calls.max(clients)),
        seconds: args.secs,
        rounds: args.rounds,
        machine,
        ways: ways.collect::<Option<_>>().ok_or_else(|| Failure::new("nothing was measured"))?,
    };
    output.show(&document, || table(&document), || page(&document))?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses what can not run, and says why.
fn check(args: &InstancesArgs) -> Outcome<Measurement> {
    if args.bytes < 16 || !args.bytes.is_multiple_of(8) {
        return Err(Failure::usage("--bytes is at least 16 and a multiple of 8"));
    }
    if !BATCH_BYTES.contains(&args.commands_per_call.saturating_mul(args.bytes)) {
        return Err(Failure::usage("--commands-per-call times --bytes is 1 KiB to 2 MiB, as batches are"));
    }
    if args.calls == 0 || args.calls > 10_000 {
        return Err(Failure::usage("--calls is 1 to 10000"));
    }
    if args.instances.is_empty() || args.instances.iter().any(|count| !(1..=32).contains(count)) {
        return Err(Failure::usage("--instances is a list of numbers from 1 to 32"));
    }
    let measurement = Measurement {
        cluster: ClusterArgs::default(),
        order: OrderArgs::default(),
        replicas: None,
        durability: Some(args.durability),
        plain: args.plain,
        instances: 1,
        lanes: args.lanes,
        pillars: args.pillars,
        placement: args.placement,
        sync_delay_us: 0,
        scratch: args.scratch.clone(),
        secs: args.secs,
        warm: args.warm,
        repeat: 1,
        no_floor: true,
    };
    measurement.check()?;
    Ok(measurement)
}

fn measure(args: &InstancesArgs, measurement: &Measurement, clients: usize, title: &str) -> Outcome<Run> {
    // Whatever is in a call reaches this, so none shares a batch with another one.
    let batch = i64::try_from(args.commands_per_call * args.bytes).unwrap_or(i64::MAX);
    let settings = vec![("limits", "batch_bytes", toml::Value::Integer(batch))];
    let mut target = Target::configured(measurement, ServiceChoice::Tally, settings)?;
    target.have_clients(clients)?;
    let slots = args.calls.max(clients);
    let plan = Plan {
        sessions: clients,
        slots,
        commands_per_call: args.commands_per_call as u64,
        warm: Duration::from_secs_f64(args.warm),
        measure: seconds("--secs", args.secs)?,
    };
    let sent = strong(&target)?;
    let mut work = Append { commands: args.commands_per_call, bytes: args.bytes, sent };
    let measured = load::run(&mut target, &plan, &mut work, title)?;
    let check = verify(&target, work.sent)?;
    if measured.errors > 0 || !check.is_passed() {
        let first = measured.first_error.unwrap_or_default();
        return Err(Failure::new(format!(
            "{title}: {} calls failed {first}; {}",
            measured.errors,
            check.text()
        )));
    }
    let merged = target.merged()?;
    let cpu = measured.replicas_cpu.iter().fold(Cpu::default(), |all, cpu| all.plus(*cpu)).total_s();
    let commands = measured.commands.max(1) as f64;
    Ok(Run {
        per_s: commands / measured.seconds,
        cpu_us: cpu / commands * 1e6,
        commands_per_batch: merged.requests as f64 / merged.batches.max(1) as f64
            * args.commands_per_call as f64,
        noop_share: merged.instances.noop_share,
    })
}

fn way(instances: u16, own: &[Run], first: &[Run]) -> Option<Way> {
    let all = |value: fn(&Run) -> f64| Median::of(own.iter().map(value).collect());
    let times = own.iter().zip(first).map(|(own, first)| own.cpu_us / first.cpu_us.max(f64::MIN_POSITIVE));
    Some(Way {
        instances,
        commands_per_s: all(|run| run.per_s)?,
        cpu_us_per_command: all(|run| run.cpu_us)?,
        cpu_times_the_first: Median::of(times.collect())?,
        commands_per_batch: all(|run| run.commands_per_batch)?,
        noop_share: all(|run| run.noop_share)?,
    })
}

fn table(document: &Document) -> String {
    let mut lines = vec![
        format!(
            "instances: durability {}, {}, fault model {}, {} lanes; {}; {}",
            document.durability,
            if document.tls { "TLS" } else { "without TLS" },
            document.fault_model,
            document.lanes,
            document.payload,
            document.load
        ),
        format!(
            "  {} turns of {} s; medians, in brackets what bounds them with {:.1} % confidence",
            document.rounds,
            document.seconds,
            document.ways.first().map_or(0.0, |way| way.cpu_us_per_command.confidence)
        ),
    ];
    for way in &document.ways {
        lines.push(format!(
            "  {:<12}  {} commands/s  {} us of all replicas per command, {} times the first  {:.0} commands per batch  {:.1} % empty",
            counted(way.instances),
            way.commands_per_s.text(amount),
            way.cpu_us_per_command.text(|us| format!("{us:.2}")),
            way.cpu_times_the_first.text(|times| format!("{times:.3}")),
            way.commands_per_batch.median,
            way.noop_share.median * 100.0
        ));
    }
    lines.push(report::machine_lines(&document.machine));
    lines.join("\n")
}

fn page(document: &Document) -> Page {
    let rows = |of: fn(&Way) -> &Median| {
        let row = |way: &Way| Row { name: counted(way.instances), marks: vec![Mark::bounded(of(way))] };
        document.ways.iter().map(row).collect()
    };
    let confidence = document.ways.first().map_or(0.0, |way| way.cpu_us_per_command.confidence);
    let mut about = vec![
        ("durability", document.durability.to_string()),
        ("payload", document.payload.clone()),
        ("callers", document.load.clone()),
        (
            "replicas",
            format!(
                "3 replicas, {} faults, {} lanes, {}",
                document.fault_model,
                document.lanes,
                if document.tls { "TLS" } else { "without TLS" }
            ),
        ),
        ("rounds", format!("{} of {} s", document.rounds, document.seconds)),
        ("floor", "not run: the numbers of instances are compared with the first of them".to_owned()),
    ];
    about.extend(about_machine(&document.machine));
    Page {
        title: "What more instances cost".into(),
        intro: format!(
            "Medians of rounds in turns; lines are bounds that hold with a confidence of {confidence:.1} %."
        ),
        rows: vec![
            Rows::new(
                "Processor time beside the first, turn by turn",
                "times the first",
                &["ratio"],
                rows(|way| &way.cpu_times_the_first),
            )
            .beside_one(),
            Rows::new(
                "Processor time for each command",
                "microseconds, all replicas",
                &["time"],
                rows(|way| &way.cpu_us_per_command),
            ),
            Rows::new("Rate", "commands per second", &["rate"], rows(|way| &way.commands_per_s)),
            Rows::new("Commands in a batch", "commands", &["commands"], rows(|way| &way.commands_per_batch)),
        ],
        about,
        ..Page::default()
    }
}

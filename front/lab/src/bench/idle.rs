//! `bench idle`: what three unused replicas cost; and, with several instances, how much a rare command waits for the other instances.

use super::cpu::{self, tick_s};
use super::draw::{Mark, Page, Row, Rows, about_machine};
use super::options::{IdleArgs, Measurement};
use super::output::Output;
use super::pulse::{self, Pulse};
use super::report;
use super::target::Target;
use quorate_command::arguments::{self, seconds};
use quorate_command::cluster::ClusterArgs;
use quorate_command::failure::Outcome;
use quorate_command::layout::ServiceChoice;
use quorate_command::machine::Machine;
use quorate_command::ordering::OrderArgs;
use quorate_command::progress::Progress;
use serde::Serialize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long effects of the start may last.
const SETTLE: Duration = Duration::from_secs(2);

#[derive(Serialize)]
pub(super) struct Replica {
    replica: u16,
    pub(super) leads: bool,
    pub(super) memory_mib: f64,
    pub(super) cpu_percent_of_a_core: f64,
}

#[derive(Serialize)]
pub(super) struct Document {
    benchmark: &'static str,
    durability: String,
    fault_model: &'static str,
    seconds: f64,
    /// The resolution of the processor time, in percent.
    cpu_resolution_percent: f64,
    instances: u16,
    /// Slots decided in the measured time, in all instances: none, since there were no requests.
    slots_decided: u64,
    /// Commands to the cluster with several instances, and to one with a single one.
    pulse: Option<Pulse>,
    pub(super) replicas: Vec<Replica>,
    machine: Machine,
}

pub(super) fn run(args: &IdleArgs, output: &Output) -> Outcome {
    let document = measure(args)?;
    output.show(&document, || table(&document), || page(&document))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn measure(args: &IdleArgs) -> Outcome<Document> {
    let length = seconds("--secs", args.secs)?;
    let measurement = Measurement {
        cluster: ClusterArgs::default(),
        order: OrderArgs::default(),
        replicas: None,
        durability: Some(args.durability),
        plain: false,
        instances: args.instances,
        lanes: 1,
        pillars: None,
        placement: None,
        sync_delay_us: 0,
        scratch: args.scratch.clone(),
        secs: args.secs,
        warm: 0.0,
        repeat: 1,
        no_floor: true,
    };
    let machine = Machine::ask(&args.scratch);
    let mut target = Target::open(&measurement, ServiceChoice::Kv)?;
    std::thread::sleep(SETTLE);
    let before = target.pids.iter().map(|pid| cpu::of_process(*pid)).collect::<Outcome<Vec<_>>>()?;
    let decided = target.merged()?.instances.decided();
    let start = Instant::now();
    {
        let progress = Progress::new("idle", length);
        while start.elapsed() < length {
            std::thread::sleep(Duration::from_millis(250).min(length.saturating_sub(start.elapsed())));
            target.check()?;
            progress.at(start.elapsed(), String::new);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let slots_decided = target.merged()?.instances.decided().saturating_sub(decided);
    let leader = target.client.client().leader();
    let mut replicas = Vec::new();
    for ((replica, pid), before) in target.replicas.iter().zip(&target.pids).zip(before) {
        let used = cpu::of_process(*pid)?.since(before).total_s();
        replicas.push(Replica {
            replica: replica.number(),
            leads: leader == Some(*replica),
            memory_mib: cpu::memory_of(*pid)? as f64 / f64::from(1 << 20),
            cpu_percent_of_a_core: used / seconds * 100.0,
        });
    }
    let pulse = match args.instances {
        1 => None,
        _ => {
            let mut one = Target::open(&Measurement { instances: 1, ..measurement }, ServiceChoice::Kv)?;
            std::thread::sleep(SETTLE);
            pulse::compare(&mut target, &mut one, args.pulses)?
        }
    };
    Ok(Document {
        benchmark: "idle",
        instances: args.instances,
        slots_decided,
        pulse,
        durability: arguments::name(args.durability),
        fault_model: "crash",
        seconds,
        cpu_resolution_percent: 2.0 * tick_s() / seconds * 100.0,
        replicas,
        machine,
    })
}

fn table(document: &Document) -> String {
    let mut lines = vec![format!(
        "idle: durability {}, fault model {}, {} replicas, one client connected, {:.1} s",
        document.durability,
        document.fault_model,
        document.replicas.len(),
        document.seconds
    )];
    for replica in &document.replicas {
        lines.push(format!(
            "  r{}{}  {:>6.1} MiB  {:>5.2} % of a core",
            replica.replica,
            if replica.leads { " leads" } else { "      " },
            replica.memory_mib,
            replica.cpu_percent_of_a_core
        ));
    }
    lines.push(format!(
        "  {}: {} slots were decided meanwhile",
        report::counted(document.instances),
        document.slots_decided
    ));
    if let Some(Pulse { several_ms, one_ms, added_ms }) = &document.pulse {
        let ms = |value: f64| format!("{value:.3}");
        lines.push(format!(
            "  one command per second, ms: {}; with one instance {}; more by {} (medians of {}, {:.1} % confidence)",
            several_ms.text(ms),
            one_ms.text(ms),
            added_ms.text(ms),
            added_ms.of,
            added_ms.confidence
        ));
    }
    lines.push(format!("  (processor time is right to within {:.2} %)", document.cpu_resolution_percent));
    lines.push(report::machine_lines(&document.machine));
    lines.join("\n")
}

fn page(document: &Document) -> Page {
    let each = |of: fn(&Replica) -> f64| {
        let row = |replica: &Replica| Row {
            name: format!("r{}{}", replica.replica, if replica.leads { ", leads" } else { "" }),
            marks: vec![Mark::one(of(replica))],
        };
        document.replicas.iter().map(row).collect()
    };
    let mut rows = vec![
        Rows::new(
            "Processor time",
            "percent of a core",
            &["used"],
            each(|replica| replica.cpu_percent_of_a_core),
        ),
        Rows::new("Memory", "MiB", &["held"], each(|replica| replica.memory_mib)),
    ];
    if let Some(pulse) = &document.pulse {
        let named = [
            ("with these instances", &pulse.several_ms),
            ("with one instance", &pulse.one_ms),
            ("more", &pulse.added_ms),
        ];
        let of = named.map(|(name, median)| Row { name: name.into(), marks: vec![Mark::bounded(median)] });
        rows.push(Rows::new(
            "One command per second, medians with bounds",
            "milliseconds",
            &["latency"],
            of.into(),
        ));
    }
    let mut about = vec![
        ("durability", document.durability.clone()),
        ("payload", "none".to_owned()),
        ("callers", "none; one client is connected".to_owned()),
        (
            "replicas",
            format!(
                "{} replicas, {} faults, {}",
                document.replicas.len(),
                document.fault_model,
                report::counted(document.instances)
            ),
        ),
        ("length", format!("{:.1} s", document.seconds)),
        ("floor", "none: the null program does not run without commands".to_owned()),
        ("right to within", format!("{:.2} % of a core", document.cpu_resolution_percent)),
    ];
    about.extend(about_machine(&document.machine));
    Page {
        title: "Replicas that nobody uses".into(),
        intro: format!(
            "What replicas cost without commands; {} slots were decided meanwhile.",
            document.slots_decided
        ),
        rows,
        about,
        ..Page::default()
    }
}

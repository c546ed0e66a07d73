//! The result of a benchmark: as a table for people, as one JSON document for programs, as a page (`page`).

mod page;

use super::cpu::{Cpu, tick_s};
use super::options::Measurement;
use super::output::Output;
use super::signatures::Signatures;
use super::target::Target;
use hdrhistogram::Histogram;
use quorate_command::admin::shown_durability;
use quorate_command::arguments;
use quorate_command::failure::Outcome;
use quorate_command::machine::Machine;
use quorate_command::oracle::OWN_REPLICAS;
use quorate_command::ordering::OrderChoice;
use quorate_command::print::amount;
use quorate_floor::{Config as FloorConfig, HeardBy, Report};
use serde::Serialize;
use std::fmt;

/// The subject of a benchmark.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Subject {
    pub(super) benchmark: &'static str,
    pub(super) payload: String,
    pub(super) load: String,
    /// The unit of the counts.
    pub(super) unit: &'static str,
}

/// When a write counts as durable.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Durability {
    /// The mode.
    pub(super) durability: String,
    /// By how much every sync is delayed, in microseconds.
    pub(super) sync_delay_us: u64,
}

impl Durability {
    /// That of a running cluster.
    pub(super) fn of(target: &Target) -> Self {
        Self { durability: target.durability.clone(), sync_delay_us: target.sync_delay_us }
    }
    /// That of a cluster that is to be started.
    pub(super) fn planned(measurement: &Measurement) -> Self {
        let durability = arguments::name(measurement.durability());
        Self { durability, sync_delay_us: measurement.sync_delay_us }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_durability(&self.durability, self.sync_delay_us))
    }
}

/// Whether the cluster has kept what it acknowledged.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Check {
    /// Null when it could not be checked.
    passed: Option<bool>,
    text: String,
}

impl Check {
    pub(super) fn passed(text: impl Into<String>) -> Self {
        Self { passed: Some(true), text: text.into() }
    }
    pub(super) fn failed(text: impl Into<String>) -> Self {
        Self { passed: Some(false), text: text.into() }
    }
    pub(super) fn not_done(text: impl Into<String>) -> Self {
        Self { passed: None, text: text.into() }
    }
    pub(super) fn is_passed(&self) -> bool {
        self.passed == Some(true)
    }
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct LatencyUs {
    samples: u64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p99_9: f64,
    pub(super) max: f64,
}

impl LatencyUs {
    /// From a histogram in nanoseconds.
    pub(super) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        let samples = histogram.len();
        let max = histogram.max() as f64 / 1000.0;
        Self { samples, p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999), max }
    }
}

impl fmt::Display for LatencyUs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p99, p99_9, max, .. } = self;
        write!(f, "p50 {p50:.0} us, p99 {p99:.0} us, p99.9 {p99_9:.0} us, max {max:.0} us")
    }
}

/// What one replica used in the measured time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ReplicaUse {
    pub(super) replica: u16,
    pub(super) leads: bool,
    pub(super) cpu: Cpu,
    /// At the end.
    pub(super) memory_mib: f64,
}

/// One run of ours.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OwnRun {
    pub(super) seconds: f64,
    pub(super) commands: u64,
    pub(super) per_s: f64,
    pub(super) latency_us: LatencyUs,
    /// Commands per second of processor time of all replicas together; null when the replicas are elsewhere, or used too little.
    pub(super) per_replica_cpu_s: Option<f64>,
    pub(super) replicas: Vec<ReplicaUse>,
    /// What the oracle's replicas used together, beside that; null where the cluster was started without one.
    pub(super) oracle_cpu: Option<Cpu>,
    pub(super) load_cpu: Cpu,
    /// Processor seconds of other processes in the measured time.
    pub(super) others_cpu_s: Option<f64>,
    /// The cost of signatures, where clients sign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signatures: Option<Signatures>,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    pub(super) check: Check,
}

/// One run of the null program.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FloorRun {
    /// Which faults it agreed for.
    pub(super) fault_model: String,
    pub(super) replicas: usize,
    /// Slots under way at a time; null without slots.
    pub(super) in_flight: Option<u64>,
    pub(super) window: u64,
    /// Callers with connections of their own, and who hears their commands; null for one stream of commands.
    pub(super) callers: Option<(usize, HeardBy)>,
    pub(super) batch_bytes: usize,
    pub(super) seconds: f64,
    pub(super) per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) per_replica_cpu_s: Option<f64>,
    pub(super) replicas_agree: bool,
}

impl FloorRun {
    pub(super) fn of(report: &Report) -> Self {
        let cpu = report.replicas_cpu();
        let cpu_s = cpu.user_s + cpu.system_s;
        let FloorConfig { fault_model, in_flight, callers, heard_by, .. } = report.config;
        Self {
            fault_model: fault_model.to_string(),
            replicas: report.replicas.len(),
            in_flight: fault_model.may_lie().then_some(in_flight),
            window: report.config.window,
            callers: Some((callers, heard_by)).filter(|_| callers > 0),
            batch_bytes: report.config.batch_bytes,
            seconds: report.seconds,
            per_s: report.commits_per_s,
            p50_us: report.latency.p50_us,
            p99_us: report.latency.p99_us,
            per_replica_cpu_s: (cpu_s >= 10.0 * tick_s()).then(|| report.commits as f64 / cpu_s),
            replicas_agree: report.agree,
        }
    }

    /// The variant of the null program, as text.
    pub(super) fn which(&self) -> String {
        let Self { fault_model, replicas, .. } = self;
        let slots = match self.in_flight {
            None => String::new(),
            Some(1) => ", 1 slot under way".into(),
            Some(slots) => format!(", {slots} slots under way"),
        };
        let callers = match self.callers {
            None => String::new(),
            Some((_, HeardBy::Leader)) => {
                ", callers with connections of their own whose commands the leader hears".into()
            }
            Some((_, HeardBy::All)) => {
                ", callers with connections of their own whose commands all replicas hear".into()
            }
        };
        format!(
            "{fault_model} faults, {replicas} replicas{slots}, frames up to {} KiB{callers}",
            self.batch_bytes >> 10
        )
    }
}

/// A figure with everything that it depends on.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    #[serde(flatten)]
    subject: Subject,
    #[serde(flatten)]
    durability: Durability,
    fault_model: String,
    protocol: &'static str,
    replicas: usize,
    per_s_median: f64,
    p50_us_median: f64,
    /// False when a check failed or was not possible, or a call failed: then the figure means nothing.
    valid: bool,
    floor_per_s_median: Option<f64>,
    floor_p50_us_median: Option<f64>,
    /// Our figures divided by the floor's, as medians of the runs in turns: the rate, and the median latency.
    rate_ratio: Option<f64>,
    p50_ratio: Option<f64>,
    per_replica_cpu_s_median: Option<f64>,
    /// The resolution of processor time, in seconds.
    cpu_tick_s: f64,
    machine: Machine,
    floors: Vec<FloorRun>,
    runs: Vec<OwnRun>,
}

impl Figure {
    pub(super) fn new(
        subject: Subject,
        durability: Durability,
        (replicas, order): (usize, OrderChoice),
        machine: Machine,
        runs: Vec<impl Into<OwnRun>>,
        floors: Vec<FloorRun>,
    ) -> Self {
        let runs: Vec<OwnRun> = runs.into_iter().map(Into::into).collect();
        let per_s = median(runs.iter().map(|run| run.per_s));
        let p50 = median(runs.iter().map(|run| run.latency_us.p50));
        let floor = |of: fn(&FloorRun) -> f64| (!floors.is_empty()).then(|| median(floors.iter().map(of)));
        let (floor_per_s, floor_p50) = (floor(|run| run.per_s), floor(|run| run.p50_us));
        let valid = runs.iter().all(|run| run.check.passed == Some(true) && run.errors == 0)
            && floors.iter().all(|floor| floor.replicas_agree);
        let per_cpu: Vec<f64> = runs.iter().filter_map(|run| run.per_replica_cpu_s).collect();
        Self {
            subject,
            durability,
            fault_model: order.fault_model.to_string(),
            protocol: order.protocol.name(),
            replicas,
            per_s_median: per_s,
            p50_us_median: p50,
            valid,
            floor_per_s_median: floor_per_s,
            floor_p50_us_median: floor_p50,
            rate_ratio: floor_per_s.map(|floor| per_s / floor),
            p50_ratio: floor_p50.map(|floor| p50 / floor),
            per_replica_cpu_s_median: (!per_cpu.is_empty()).then(|| median(per_cpu.into_iter())),
            cpu_tick_s: tick_s(),
            machine,
            floors,
            runs,
        }
    }

    /// Whether every check passed and no call failed.
    pub(super) fn ok(&self) -> bool {
        self.valid
    }

    /// Prints it, and draws it if that is wanted.
    pub(super) fn show(&self, output: &Output) -> Outcome<()> {
        output.show(self, || self.table(), || page::page(self))
    }

    fn table(&self) -> String {
        let Self { subject, .. } = self;
        let beside = match (self.floor_per_s_median, self.rate_ratio) {
            (Some(floor), Some(ratio)) => format!(", {ratio:.3} of the null program's {}/s", amount(floor)),
            _ => " (the null program was not run)".into(),
        };
        let valid = if self.ok() { "" } else { "NOT VALID, see below. " };
        let mut lines = vec![
            format!("{valid}{}: {} {}/s{beside}", subject.benchmark, amount(self.per_s_median), subject.unit),
            format!(
                "  durability {}, fault model {}, {}, {} replicas",
                self.durability, self.fault_model, self.protocol, self.replicas
            ),
            format!("  {}; {}", subject.payload, subject.load),
        ];
        if let (Some(floor), Some(ratio)) = (self.floor_p50_us_median, self.p50_ratio) {
            let ours = self.p50_us_median;
            lines.push(format!(
                "  median latency {ours:.0} us, {ratio:.2} times the null program's {floor:.0} us"
            ));
        }
        if let Some(per_cpu) = self.per_replica_cpu_s_median {
            lines.push(format!(
                "  {} {} per replica CPU second, all replicas together",
                amount(per_cpu),
                subject.unit
            ));
        }
        for floor in &self.floors {
            lines.push(format!(
                "  null program, which only copies, syncs and answers ({}): {}/s, p50 {:.0} us, p99 {:.0} us, {} per replica CPU second",
                floor.which(),
                amount(floor.per_s),
                floor.p50_us,
                floor.p99_us,
                floor.per_replica_cpu_s.map_or("-".into(), amount)
            ));
        }
        self.runs.iter().for_each(|run| lines.push(run.table()));
        lines.push(machine_lines(&self.machine));
        lines.join("\n")
    }
}

impl OwnRun {
    fn table(&self) -> String {
        let LatencyUs { samples, p50, p90, p99, p99_9, max } = self.latency_us;
        let mut lines = vec![
            format!("  ours: {}/s over {:.1} s", amount(self.per_s), self.seconds),
            format!(
                "    latency of a call in us: p50 {p50:.0}, p90 {p90:.0}, p99 {p99:.0}, p99.9 {p99_9:.0}, max {max:.0} ({samples} calls)"
            ),
        ];
        for replica in &self.replicas {
            let ReplicaUse { replica, leads, cpu, memory_mib } = replica;
            let leads = if *leads { " leads" } else { "" };
            lines.push(format!(
                "    r{replica}{leads}: {:.2} s user + {:.2} s system, {memory_mib:.0} MiB",
                cpu.user_s, cpu.system_s
            ));
        }
        lines.extend(
            self.oracle_cpu.map(|cpu| {
                format!("    {}: {:.2} s user + {:.2} s system", oracle(), cpu.user_s, cpu.system_s)
            }),
        );
        lines.extend(self.signatures.map(|signatures| format!("    {signatures}")));
        let others = self.others_cpu_s.map(|others| format!("; other processes: {others:.2} s"));
        lines.push(format!(
            "    load generator: {:.2} s user + {:.2} s system{}; each CPU time is right to within {:.0} ms",
            self.load_cpu.user_s,
            self.load_cpu.system_s,
            others.unwrap_or_default(),
            2000.0 * tick_s()
        ));
        if let Some(error) = &self.first_error {
            lines.push(format!("    {} calls FAILED, the first one: {error}", self.errors));
        }
        let verdict = match self.check.passed {
            Some(true) => "checked",
            Some(false) => "CHECK FAILED",
            None => "not checked",
        };
        lines.push(format!("    {verdict}: {}", self.check.text));
        lines.join("\n")
    }
}

/// The oracle of a benchmark's own cluster, as text.
pub(super) fn oracle() -> String {
    format!("oracle, beside the replicas: {OWN_REPLICAS} processes of this program, crash faults, raft")
}

/// The machine as text.
pub(super) fn machine_lines(machine: &Machine) -> String {
    let Machine { cpu, cores, memory_gib, kernel, file_system, congestion_control_default, load_average } =
        machine;
    format!(
        "  machine: {cpu}, {cores} cores, {memory_gib} GiB, {kernel}, logs on {file_system}\n  \
         sockets: reno (default of the system: {congestion_control_default}); load average before: {load_average}"
    )
}

/// The median; of an even number of values the mean of the two in the middle; of none, 0.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        len => (values[(len - 1) / 2] + values[len / 2]) / 2.0,
    }
}

/// `1 instance`, `8 instances`.
pub(super) fn counted(instances: u16) -> String {
    match instances {
        1 => "1 instance".into(),
        many => format!("{many} instances"),
    }
}

//! Runs the floor and our cluster in turns, and makes the figure.

use super::cpu::{Cpu, tick_s};
use super::load::Measured;
use super::options::Measurement;
use super::output::Output;
use super::report::{Check, Durability, Figure, FloorRun, LatencyUs, OwnRun, ReplicaUse, Subject};
use super::signatures::Signatures;
use super::target::Target;
use super::temporary::FLOOR_PREFIX;
use quorate::client::Authentication;
use quorate_command::arguments;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::DurabilityChoice;
use quorate_command::machine::Machine;
use quorate_command::ordering::OrderChoice;
use quorate_command::progress::Progress;
use quorate_floor::{Config as FloorConfig, FaultModel, HeardBy, Sync};
use std::process::ExitCode;

/// One run of ours, and the cluster that it ran on.
pub(super) struct Run {
    own: OwnRun,
    durability: Durability,
    replicas: usize,
    order: OrderChoice,
}

impl Run {
    pub(super) fn new(target: &Target, measured: Measured, check: Check) -> Self {
        let leader = target.client.client().leader();
        let total = measured.replicas_cpu.iter().fold(Cpu::default(), |all, cpu| all.plus(*cpu)).total_s();
        let replicas = target.replicas.iter().zip(measured.replicas_cpu.iter().zip(&measured.memory));
        let own = OwnRun {
            seconds: measured.seconds,
            commands: measured.commands,
            per_s: measured.commands as f64 / measured.seconds,
            latency_us: LatencyUs::of(&measured.latency),
            // Below a few ticks the quotient would say more about the clock than about us.
            per_replica_cpu_s: (total >= 10.0 * tick_s()).then(|| measured.commands as f64 / total),
            replicas: replicas
                .map(|(replica, (cpu, memory))| ReplicaUse {
                    replica: replica.number(),
                    leads: leader == Some(*replica),
                    cpu: *cpu,
                    memory_mib: *memory as f64 / f64::from(1 << 20),
                })
                .collect(),
            oracle_cpu: measured.oracle_cpu,
            load_cpu: measured.load_cpu,
            others_cpu_s: measured.others_cpu_s,
            signatures: None,
            errors: measured.errors,
            first_error: measured.first_error,
            check,
        };
        Self { own, durability: Durability::of(target), replicas: target.replicas.len(), order: target.order }
    }
}

impl Run {
    /// Adds how many signatures of clients were checked for how many requests.
    pub(super) fn checked(mut self, signatures: u64, requests: u64) -> Self {
        self.own.signatures = Some(Signatures::of(signatures, requests, self.own.per_s));
        self
    }
}

/// What is measured, how often, and beside which floor.
pub(super) struct Series<'a> {
    pub(super) measurement: &'a Measurement,
    pub(super) subject: Subject,
    pub(super) floor: FloorConfig,
    pub(super) output: &'a Output,
}

impl Series<'_> {
    /// Measures floor, ours, floor, ours, ..., floor, and prints the figure. A failed check is exit code 1.
    pub(super) fn run(self, mut measure: impl FnMut(&str) -> Outcome<Run>) -> Outcome {
        let repeat = self.measurement.repeat;
        let machine = Machine::ask(&self.measurement.scratch);
        let mut floors = Vec::new();
        let mut runs: Vec<Run> = Vec::new();
        // A cluster that runs already has a durability and a fault model of its own, known after the first run only.
        let floor_first = self.measurement.own_cluster();
        if floor_first {
            let fault_model = self.measurement.order.choice()?.fault_model;
            floors.extend(self.floor_run(&Durability::planned(self.measurement), fault_model)?);
        }
        for number in 1..=repeat {
            runs.push(measure(&format!("{} {number}/{repeat}", self.subject.benchmark))?);
            if let Some(run) = runs.last() {
                floors.extend(self.floor_run(&run.durability, run.order.fault_model)?);
            }
        }
        let Some(last) = runs.last() else { return Err(Failure::new("nothing was measured")) };
        let (durability, replicas) = (last.durability.clone(), (last.replicas, last.order));
        // What the null program left is an empty directory, if anything.
        let _ = std::fs::remove_dir(&self.floor.dir);
        let figure = Figure::new(self.subject, durability, replicas, machine, runs, floors);
        figure.show(self.output)?;
        Ok(if figure.ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn floor_run(&self, durability: &Durability, fault_model: FaultModel) -> Outcome<Option<FloorRun>> {
        if self.measurement.no_floor {
            return Ok(None);
        }
        floor_run(&self.floor, durability, fault_model).map(Some)
    }
}

/// Runs the null program with the same durability and for the same faults.
pub(super) fn floor_run(
    config: &FloorConfig,
    durability: &Durability,
    fault_model: FaultModel,
) -> Outcome<FloorRun> {
    run_null_program(&beside(config, durability, fault_model))
}

/// Like [`floor_run`], with this number of replicas.
pub(super) fn floor_run_among(
    replicas: u16,
    config: &FloorConfig,
    durability: &Durability,
    fault_model: FaultModel,
) -> Outcome<FloorRun> {
    let followers = usize::from(replicas).saturating_sub(1);
    run_null_program(&FloorConfig { followers, ..beside(config, durability, fault_model) })
}

fn run_null_program(config: &FloorConfig) -> Outcome<FloorRun> {
    let _progress = Progress::waiting("the null program");
    let report = quorate_floor::run(config).map_err(|why| Failure::new(why.to_string()))?;
    Ok(FloorRun::of(&report))
}

/// The configuration of the null program for this durability and fault model.
pub(super) fn beside(config: &FloorConfig, durability: &Durability, fault_model: FaultModel) -> FloorConfig {
    FloorConfig {
        sync: sync_of(&durability.durability),
        sync_delay_us: durability.sync_delay_us,
        ..config.clone().surviving(fault_model)
    }
}

impl From<Run> for OwnRun {
    fn from(run: Run) -> Self {
        run.own
    }
}

/// The largest frame of the null program. It is more than twice as fast with frames of 1 MiB as with 64 KiB, if the window allows that. Our
/// batches are larger than its default of 64 KiB; beside that default we would seem faster than our bound.
pub(super) const FLOOR_BATCH_BYTES: usize = 1 << 20;

/// The configuration of the null program for a measurement. The caller sets window and sizes; durability and fault model are added when it
/// runs.
pub(super) fn floor_config(measurement: &Measurement) -> FloorConfig {
    FloorConfig {
        dir: measurement.scratch.join(format!("{FLOOR_PREFIX}{}", std::process::id())),
        // Before and after: together it gets as long as ours.
        seconds: (measurement.secs / 2.0).max(0.5),
        batch_bytes: FLOOR_BATCH_BYTES,
        ..FloorConfig::default()
    }
}

/// The same with this many callers who have connections of their own, as clients of such a cluster have, where replicas may lie. Where
/// requests have tags only the leader needs to hear them; elsewhere all replicas do.
pub(super) fn with_callers(config: FloorConfig, order: &OrderChoice, callers: usize) -> FloorConfig {
    if !order.fault_model.may_lie() {
        return config;
    }
    let heard_by = match order.authentication {
        Authentication::Macs => HeardBy::Leader,
        Authentication::Links | Authentication::Signatures => HeardBy::All,
    };
    FloorConfig { callers, heard_by, ..config }
}

/// How the null program syncs to reach this durability.
pub(super) fn sync_of(durability: &str) -> Sync {
    match durability {
        name if name == arguments::name(DurabilityChoice::Memory) => Sync::Memory,
        name if name == arguments::name(DurabilityChoice::Async) => Sync::Write,
        _ => Sync::Fdatasync,
    }
}

//! Prints the result: text for people, one JSON document for programs.

use super::checks::System;
use super::disk::Speed;
use super::place::Disk;
use super::ports::{ReplicaReport, Where};
use super::{Finding, Level};
use quorate_command::machine::Machine;
use quorate_command::print::amount;
use quorate_command::print::size as bytes;
use serde::Serialize;

/// A disk, and how fast it is.
#[derive(Serialize)]
pub(super) struct DiskReport {
    #[serde(flatten)]
    pub(super) disk: Disk,
    /// Null when it could not be measured.
    #[serde(flatten)]
    pub(super) speed: Option<Speed>,
}

/// The whole result.
#[derive(Serialize)]
pub(super) struct Document {
    /// Whether replicas can run: there are no problems, though perhaps warnings.
    pub(super) healthy: bool,
    pub(super) machine: Machine,
    pub(super) system: System,
    pub(super) disks: Vec<DiskReport>,
    pub(super) replicas: Vec<ReplicaReport>,
    pub(super) expectations: Vec<String>,
    pub(super) findings: Vec<Finding>,
}

pub(super) fn text(document: &Document) -> String {
    let mut lines = machine(document);
    for disk in &document.disks {
        lines.extend(one_disk(disk));
    }
    if !document.replicas.is_empty() {
        lines.push("replicas".into());
        lines.extend(document.replicas.iter().map(replica));
    }
    if !document.expectations.is_empty() {
        lines.push("what to expect".into());
        lines.extend(document.expectations.iter().map(|text| format!("  {text}")));
    }
    for Finding { level, text, remedy } in &document.findings {
        let level = match level {
            Level::Problem => "problem",
            Level::Warning => "warning",
        };
        lines.push(format!("{level}: {text}. {remedy}"));
    }
    lines.extend(verdict(document));
    lines.join("\n")
}

/// What it comes to, where nothing above says so.
fn verdict(document: &Document) -> Option<String> {
    let idle = document.replicas.iter().all(|replica| replica.at == Where::Free);
    let idle = if idle && !document.replicas.is_empty() { "; no replica runs" } else { "" };
    document.findings.is_empty().then(|| format!("no problem found{idle}"))
}

fn machine(document: &Document) -> Vec<String> {
    let (machine, system) = (&document.machine, &document.system);
    let processors = if system.usable_processors < system.processors {
        format!("{} of {} processors usable", system.usable_processors, system.processors)
    } else {
        format!("{} processors", system.processors)
    };
    let files = system.open_files_max.map_or("without limit".to_owned(), |files| format!("up to {files}"));
    vec![
        "machine".into(),
        format!("  {}, {processors}, {} GiB, {}", machine.cpu, machine.memory_gib, machine.kernel),
        format!(
            "  clock source {}, open files {files}, load average {}",
            system.clock_source, machine.load_average
        ),
    ]
}

fn one_disk(report: &DiskReport) -> Vec<String> {
    let Disk { directory, file_system, free_bytes, total_bytes, volatile_cache } = &report.disk;
    let cache = match volatile_cache {
        Some(true) => "a write cache that syncs flush",
        Some(false) => "no volatile write cache",
        None => "write cache not known",
    };
    let mut lines = vec![
        format!("disk of {}", directory.display()),
        format!("  {file_system}, {} free of {}, {cache}", bytes(*free_bytes), bytes(*total_bytes)),
    ];
    let Some(speed) = &report.speed else { return lines };
    lines.push("  append and sync    p50 us    p99 us  p99.9 us    max us  per second".into());
    for sync in &speed.syncs {
        lines.push(format!(
            "  {:>8} KiB      {:>8.0}  {:>8.0}  {:>8.0}  {:>8.0}  {:>10}",
            sync.bytes >> 10,
            sync.p50_us,
            sync.p99_us,
            sync.p99_9_us,
            sync.max_us,
            amount(sync.per_s)
        ));
    }
    lines.push(format!(
        "  in one go, over {}: write {:.0} MB/s, read {:.0} MB/s",
        bytes(speed.file_bytes),
        speed.write_mb_s,
        speed.read_mb_s
    ));
    lines
}

fn replica(report: &ReplicaReport) -> String {
    let at = match (report.at, report.pid) {
        (Where::Running, Some(pid)) => format!("runs (pid {pid})"),
        (Where::Running, None) => "runs".into(),
        (Where::Free, _) => "does not run; its port is free".into(),
        (Where::Taken, _) => "does not run; its port is TAKEN".into(),
        (Where::Elsewhere, _) => "belongs to another machine".into(),
        (Where::Unknown, _) => "can not listen".into(),
    };
    let reached = match (report.reached_us.len(), report.not_reached.len()) {
        (0, 0) => String::new(),
        (reached, missing) => format!(", {reached} of {} others answer", reached + missing),
    };
    format!(
        "  {}  {}  {at}, durability {}, log {}, checkpoints {}{reached}",
        report.replica,
        report.listen,
        report.durability,
        bytes(report.log_bytes),
        bytes(report.checkpoint_bytes)
    )
}

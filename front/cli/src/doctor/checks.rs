//! Checks of limits, clock, processors and disk space that can stop or slow a replica.

use super::Findings;
use super::disk::Speed;
use super::place::Disk;
use super::ports::{ReplicaReport, Where};
use super::subject::{Group, Subject};
use quorate_command::print::size as shown;
use quorate_runtime::{Config, Durability};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use std::fs;

/// The fewest open files with which a replica can hold its log, its checkpoints and connections to the other replicas.
const FILES_MIN: u64 = 64;
/// The shortest sync that is plausible: a faster one did not wait for the disk.
const SYNC_US_MIN: f64 = 15.0;

/// The limits and resources that the system gives to a process.
#[derive(Clone, Debug, Serialize)]
pub(super) struct System {
    /// Processors of the machine, and how many of them this process may use.
    pub(super) processors: usize,
    pub(super) usable_processors: usize,
    pub(super) clock_source: String,
    /// The hard limit, to which a replica raises its own; null: no limit.
    pub(super) open_files_max: Option<u64>,
}

pub(super) fn system(subject: &Subject, findings: &mut Findings) -> System {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let clock_source = fs::read_to_string(source).map_or("unknown".into(), |text| text.trim().to_owned());
    let system = System {
        processors: cpuinfo.lines().filter(|line| line.starts_with("processor")).count().max(usable),
        usable_processors: usable,
        clock_source,
        open_files_max: getrlimit(Resource::Nofile).maximum,
    };
    judge(&system, subject.patients.iter().map(|patient| &patient.config), findings);
    system
}

/// Checks the limits for these replicas.
pub(super) fn judge<'a>(system: &System, configs: impl Iterator<Item = &'a Config>, findings: &mut Findings) {
    let connections = configs.map(|config| config.limits.connections).max().unwrap_or(0) as u64;
    match system.open_files_max {
        Some(files) if files < FILES_MIN => findings.problem(
            format!("a process may have only {files} files open"),
            format!("Raise the hard limit to at least {FILES_MIN} (ulimit -Hn, or LimitNOFILE in a systemd unit)"),
        ),
        Some(files) if files / 2 < connections => findings.warning(
            format!("a process may have {files} files open, so a replica takes {} connections, not {connections}", files / 2),
            "Raise the hard limit (ulimit -Hn, or LimitNOFILE in a systemd unit) to twice `connections`, or lower `connections` \
             in `[limits]`",
        ),
        _ => {}
    }
    if ["hpet", "acpi_pm", "jiffies", "pit"].contains(&system.clock_source.as_str()) {
        findings.warning(
            format!("the clock source is {}, which takes microseconds to read", system.clock_source),
            "Find out why the system does not trust its processor's own (`dmesg | grep -i clocksource`)",
        );
    }
    if system.usable_processors < 2 {
        findings.warning(
            "there is one processor: the lane and the threads of the disk take turns on it",
            "Give the replica two processors",
        );
    }
}

/// The most that a replica's log takes, and the free space that its disk must have on top of what the log has already.
pub(super) fn log_bytes(config: &Config) -> u64 {
    match config.durability.mode {
        Durability::Memory => 0,
        // The segment in use, the one ahead, and the one that is made while the oldest is removed.
        Durability::Group | Durability::Async => config
            .checkpoints
            .log_bytes_max
            .saturating_add(config.durability.segment_mib.saturating_mul(3 << 20)),
    }
}

/// Checks that the disk has room for the logs of its replicas.
pub(super) fn room(
    subject: &Subject,
    group: &Group,
    disk: &Disk,
    replicas: &[ReplicaReport],
    findings: &mut Findings,
) {
    let (mut start, mut most) = (0_u64, 0_u64);
    for at in &group.patients {
        let (config, replica) = (&subject.patients[*at].config, &replicas[*at]);
        if replica.at == Where::Elsewhere {
            continue;
        }
        most = most.saturating_add(log_bytes(config).saturating_sub(replica.log_bytes));
        if replica.log_bytes == 0 && config.durability.mode != Durability::Memory {
            start = start.saturating_add(config.durability.segment_mib.saturating_mul(2 << 20));
        }
    }
    let (free, place) = (disk.free_bytes, disk.directory.display());
    if free < start {
        findings.problem(
            format!("there is {} free for {place}, the log's first files take {}", shown(free), shown(start)),
            "Free some space, or lower `segment_mib` in `[durability]` before the first start",
        );
    } else if free < most {
        findings.warning(
            format!("there is {} free for {place}, the log alone may still grow by {}", shown(free), shown(most)),
            "Free some space, or lower `log_bytes_max` in `[checkpoints]`; a replica whose disk is full refuses writes",
        );
    }
}

/// Checks that the disk is as fast as the configuration assumes, and no faster than a disk can be.
pub(super) fn speed(subject: &Subject, group: &Group, speed: &Speed, disk: &Disk, findings: &mut Findings) {
    let Some(small) = speed.syncs.first() else { return };
    let place = disk.directory.display();
    if small.p50_us < SYNC_US_MIN && !matches!(disk.file_system.as_str(), "tmpfs" | "ramfs") {
        findings.warning(
            format!("half of the syncs in {place} take less than {:.0} us, faster than any disk that we know", small.p50_us.ceil()),
            "Make sure that a sync reaches the disk: some virtual disks, and write caches without a battery, only say so",
        );
    }
    for at in &group.patients {
        let config = &subject.patients[*at].config;
        let slowest_ms = small.p99_9_us / 1000.0;
        let election = config.timing.election_min_ms;
        if config.durability.mode == Durability::Group && slowest_ms * 2.0 > election as f64 {
            findings.warning(
                format!("one in a thousand syncs in {place} takes {slowest_ms:.0} ms or more, and elections begin after {election} ms"),
                "Raise `election_min_ms` and `election_max_ms` in `[timing]` on all replicas, or use a disk that nobody else loads",
            );
        }
        let rate = config.checkpoints.rate_bytes;
        if rate as f64 > speed.write_mb_s * 1e6 / 2.0 {
            findings.warning(
                format!(
                    "checkpoints may write {} per second, more than half of what the disk of {place} does ({:.0} MB/s)",
                    shown(rate),
                    speed.write_mb_s
                ),
                "Lower `rate_bytes` in `[checkpoints]`, so that the log keeps its share",
            );
        }
    }
}

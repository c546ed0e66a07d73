//! Says in plain words what to expect of the cluster.

use super::checks::log_bytes;
use super::disk::Speed;
use super::ports::ReplicaReport;
use super::subject::Subject;
use quorate_command::print::amount;
use quorate_command::print::size as bytes;
use quorate_runtime::{Config, Durability};

/// The expectation; without a configuration it is that of the defaults.
pub(super) fn say(subject: &Subject, speed: Option<&Speed>, replicas: &[ReplicaReport]) -> Vec<String> {
    let Some(speed) = speed else { return Vec::new() };
    let config = subject.patients.first().map(|patient| &patient.config);
    let mode = config.map_or(Durability::Group, |config| config.durability.mode);
    let mut said = Vec::new();
    said.extend(writes(mode, config, speed, round_trip_us(replicas)));
    if let Some(config) = config {
        said.push(elections(config, speed));
        said.push(restart(config, speed));
        said.extend(room(config));
    }
    said
}

/// The round trip to the fastest other replica in µs: the leader of three replicas waits for one other.
fn round_trip_us(replicas: &[ReplicaReport]) -> Option<f64> {
    let all = replicas.iter().flat_map(|replica| replica.reached_us.values().copied());
    all.min_by(f64::total_cmp)
}

fn writes(
    mode: Durability,
    config: Option<&Config>,
    speed: &Speed,
    round_trip_us: Option<f64>,
) -> Vec<String> {
    let Some(small) = speed.syncs.first() else { return Vec::new() };
    let network = match round_trip_us {
        Some(us) => format!("the network's round trip ({})", time(us)),
        None => "one round trip of the network (no other replica answers, so it is not known)".to_owned(),
    };
    match mode {
        Durability::Memory => vec![format!(
            "A write is acknowledged after {network}: durability \"memory\" waits for no disk, and a process that ends has lost \
             what it promised."
        )],
        Durability::Async => vec![format!(
            "A write is acknowledged after {network}: durability \"async\" does not wait for the disk, and a machine that stops \
             may lose the last writes."
        )],
        Durability::Group => {
            let delay_us = config.map_or(0.0, |config| config.durability.sync_delay_us as f64);
            let delay = if delay_us > 0.0 {
                format!(" and the configured delay ({})", time(delay_us))
            } else {
                String::new()
            };
            let sync_us = small.p50_us + delay_us;
            vec![
                format!(
                    "A write is acknowledged after about {}: a sync ({}){delay} and {network}. One in a hundred takes {} or more.",
                    time(sync_us + round_trip_us.unwrap_or(0.0)),
                    time(small.p50_us),
                    time(small.p99_us + delay_us + round_trip_us.unwrap_or(0.0)),
                ),
                format!(
                    "At most about {} group commits per second; each takes all writes that wait, so that clients share one.",
                    amount(1e6 / (1e6 / small.per_s.max(1e-3) + delay_us))
                ),
            ]
        }
    }
}

fn elections(config: &Config, speed: &Speed) -> String {
    let (min, max) = (config.timing.election_min_ms, config.timing.election_max_ms);
    let sync_ms = match config.durability.mode {
        Durability::Group => speed.syncs.first().map_or(0.0, |small| small.p99_us) / 1000.0,
        Durability::Async | Durability::Memory => 0.0,
    };
    let twice = config.timing.heartbeat_ms.saturating_mul(2);
    let sooner = if config.protocol.name() == "raft" && twice < min {
        format!(", where replicas hear each other without delays after {twice} to {} ms", twice + twice / 2)
    } else {
        String::new()
    };
    format!(
        "Elections: a leader whose machine is lost is replaced after {min} to {:.0} ms{sooner}; one whose process ends, within some \
         tens of milliseconds. Writes wait that long.",
        max as f64 + 2.0 * sync_ms
    )
}

fn restart(config: &Config, speed: &Speed) -> String {
    let interval = config.checkpoints.interval_bytes as f64 / 1e6;
    format!(
        "A restart reads the last checkpoint (at {:.0} MB/s) and the log behind it, about {:.1} s for {} of log, and executes it; \
         where `interval_state_percent` of the state is more than `interval_bytes`, so much more.",
        speed.read_mb_s,
        2.0 * interval / speed.read_mb_s.max(1e-3),
        bytes(config.checkpoints.interval_bytes.saturating_mul(2))
    )
}

fn room(config: &Config) -> Vec<String> {
    if config.durability.mode == Durability::Memory {
        return Vec::new();
    }
    vec![format!(
        "Room for each replica: at most {} of log, and for checkpoints about three times the state: two full ones, and what \
         changed between them. How large the state gets is up to what clients write.",
        bytes(log_bytes(config))
    )]
}

/// Microseconds, for people.
pub(super) fn time(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.0} us"),
        us if us < 100_000.0 => format!("{:.1} ms", us / 1000.0),
        us => format!("{:.0} ms", us / 1000.0),
    }
}

//! Values that can not work are refused before anything starts, with the key and what would be right.

use crate::common;
use quorate_runtime::{CheckpointMode, Config, Durability};
use std::path::PathBuf;

fn refused(change: impl FnOnce(&mut Config), says: &str) {
    let directory = tempfile::tempdir().unwrap();
    let mut config = common::config(directory.path());
    config.check().expect("the defaults work");
    change(&mut config);
    let said = config.check().expect_err(says).to_string();
    assert!(said.contains(says), "`{says}` is missing in: {said}");
}

fn accepted(change: impl FnOnce(&mut Config)) {
    let directory = tempfile::tempdir().unwrap();
    let mut config = common::config(directory.path());
    change(&mut config);
    config.check().expect("it works");
}

#[test]
fn every_number_has_a_range() {
    refused(|c| c.limits.connections = 0, "limits: connections is at least 1");
    refused(|c| c.limits.connections_per_client = Some(0), "limits: connections_per_client is at least 1");
    refused(|c| c.limits.handshakes = 15, "limits: handshakes is 16 to 1000000, not 15");
    refused(
        |c| c.limits.unsent_bytes = 65_535,
        "limits: unsent_bytes is 65536 to 1073741824 (1 GiB), not 65535",
    );
    refused(|c| c.limits.buffer_bytes = (16 << 20) - 1, "limits: buffer_bytes is at least 16777216 (16 MiB)");
    refused(|c| c.limits.unsent_bytes = 65 << 20, "and 16 times unsent_bytes");
    refused(|c| c.timing.handshake_ms = 0, "timing: handshake_ms is 1 to 3600000");
    refused(|c| c.timing.slow_reader_ms = 3_600_001, "timing: slow_reader_ms is 1 to 3600000");
    refused(|c| c.limits.bytes_in_flight = 65_535, "limits: bytes_in_flight is at least 65536");
    refused(|c| c.limits.batches_in_flight = 0, "limits: batches_in_flight is at least 1");
    refused(|c| c.limits.cache_bytes = (64 << 30) + 1, "limits: cache_bytes is 0 to 68719476736");
    refused(|c| c.limits.queue_bytes = (64 << 30) + 1, "limits: queue_bytes is 0 to 68719476736");
    refused(|c| c.limits.queue_bytes = 1, "limits: queue_bytes is at least batch_bytes");
    refused(|c| c.limits.request_bytes = 1, "limits: request_bytes is 1024 to 4194304 (4 MiB), not 1");
    refused(|c| c.sessions.max = 0, "sessions: max is 1 to 100000, not 0");
    refused(|c| c.sessions.per_client = 0, "sessions: per_client is 1 to");
    refused(|c| c.sessions.window = 0, "sessions: window is 1 to 65536, not 0");
    refused(|c| c.sessions.window = 65_537, "sessions: window is 1 to 65536, not 65537");
    refused(|c| c.sessions.ttl_s = u64::MAX, "sessions: ttl_s is 1 to 315360000");
    refused(|c| c.telemetry.slow_execution_ms = u64::MAX, "telemetry: slow_execution_ms is 0 to 3600000");
    refused(|c| c.telemetry.slow_request_ms = 3_600_001, "telemetry: slow_request_ms is 0 to 3600000");
    for wrong in [0, -5, 1_000_000_001] {
        refused(
            |c| c.telemetry.trace_one_in = wrong,
            &format!(
                "telemetry: trace_one_in is 1 to 1000000000; 1 traces every batch, and without `traces` none is traced, not {wrong}"
            ),
        );
    }
    refused(
        |c| c.telemetry.traces = Some("collector".into()),
        "telemetry: traces: \"collector\" does not begin with http://: write http://HOST:PORT",
    );
    accepted(|c| c.telemetry.traces = Some("http://127.0.0.1:4318".into()));
    accepted(|c| (c.telemetry.slow_execution_ms, c.telemetry.slow_request_ms) = (0, 0));
    accepted(|c| (c.limits.connections, c.limits.bytes_in_flight) = (1, 65_536));
    accepted(|c| (c.sessions.per_client, c.sessions.window, c.sessions.ttl_s) = (1, 65_536, 315_360_000));
}

/// Without an overflow on the way.
#[test]
fn times_are_at_most_an_hour() {
    refused(|c| c.timing.heartbeat_ms = u64::MAX, "timing: heartbeat_ms is 1 to 3600000");
    refused(|c| c.timing.election_min_ms = u64::MAX, "timing: election_min_ms is 1 to 3600000");
    refused(|c| c.timing.election_max_ms = 3_600_001, "timing: election_max_ms is 1 to 3600000");
    refused(|c| c.timing.election_min_ms = 100, "at least three times heartbeat_ms");
    accepted(|c| c.timing.election_max_ms = 3_600_000);
}

#[test]
fn the_data_directory_has_a_name() {
    refused(|c| c.data = PathBuf::new(), "data: name a directory");
    let directory = tempfile::tempdir().unwrap();
    let mut config = common::config(directory.path());
    config.data = PathBuf::new();
    let file = directory.path().join("replica.toml");
    std::fs::write(&file, config.to_toml()).unwrap();
    let said = Config::read(&file).expect_err("no directory").to_string();
    assert!(said.contains("data: name a directory"), "{said}");
}

#[test]
fn checkpoints_have_ranges() {
    refused(|c| c.checkpoints.interval_bytes = 65_535, "checkpoints: interval_bytes is 65536 to");
    refused(|c| c.checkpoints.interval_bytes = u64::MAX, "checkpoints: interval_bytes is 65536 to");
    refused(|c| c.checkpoints.ahead_percent = 91, "checkpoints: ahead_percent is 0 to 90, not 91");
    refused(|c| c.checkpoints.full_every = 0, "checkpoints: full_every is 1 to 64, not 0");
    refused(|c| c.checkpoints.full_every = 65, "checkpoints: full_every is 1 to 64, not 65");
    refused(|c| c.checkpoints.rate_bytes = 1, "checkpoints: rate_bytes is 0, which is no limit, or 65536");
    refused(|c| c.checkpoints.transfer_rate_bytes = u64::MAX, "checkpoints: transfer_rate_bytes is 0, which");
    refused(
        |c| c.checkpoints.log_bytes_max = 1 << 20,
        "checkpoints: log_bytes_max is at least twice interval_bytes_max",
    );
    refused(|c| c.checkpoints.log_bytes_max = u64::MAX, "checkpoints: log_bytes_max is at least twice");
    refused(|c| c.checkpoints.interval_bytes_max = 4 << 30, "and two segments, here 8640266240");
    refused(
        |c| c.checkpoints.interval_bytes = 3 << 30,
        "interval_bytes_max is at least interval_bytes, here 3221225472",
    );
    refused(
        |c| c.checkpoints.interval_state_percent = 10_001,
        "interval_state_percent is 0 to 10000, not 10001",
    );
    accepted(|c| (c.checkpoints.rate_bytes, c.checkpoints.transfer_rate_bytes) = (0, 65_536));
    accepted(|c| (c.checkpoints.ahead_percent, c.checkpoints.full_every) = (90, 64));
    accepted(|c| {
        c.checkpoints.interval_bytes = 65_536;
        c.checkpoints.interval_bytes_max = 65_536;
        c.checkpoints.log_bytes_max = 48 << 20 | 131_072;
    });
}

#[test]
fn a_lease_is_off_by_default_and_lasts_for_two_heartbeats() {
    let directory = tempfile::tempdir().unwrap();
    let config = common::config(directory.path());
    assert!(!config.reads.lease);
    assert!(!config.to_toml().contains("[reads]"), "what nobody changed is not written");
    refused(|c| c.reads.clock_drift_percent = 0, "reads: clock_drift_percent is 1 to 50, not 0");
    refused(|c| c.reads.clock_drift_percent = 51, "reads: clock_drift_percent is 1 to 50, not 51");
    accepted(|c| (c.reads.lease, c.reads.clock_drift_percent) = (true, 40));
    refused(
        |c| (c.reads.lease, c.reads.clock_drift_percent, c.timing.heartbeat_ms) = (true, 50, 80),
        "a lease of 150 ms (election_min_ms less 50 %) would be over before heartbeats every 80 ms",
    );
}

#[test]
fn a_file_names_what_it_changes_of_checkpoints() {
    let directory = tempfile::tempdir().unwrap();
    let config = common::config(directory.path());
    let file = directory.path().join("replica.toml");
    let read = |mode: &str| {
        let text = config.to_toml().replace("mode = \"differential\"", &format!("mode = \"{mode}\""));
        std::fs::write(&file, text).unwrap();
        Config::read(&file)
    };
    for (name, mode) in [
        ("differential", CheckpointMode::Differential),
        ("full", CheckpointMode::Full),
        ("staggered", CheckpointMode::Staggered),
        ("stop-and-copy", CheckpointMode::StopAndCopy),
    ] {
        assert_eq!(read(name).unwrap().checkpoints.mode, mode);
        assert_eq!(mode.name(), name);
    }
    let said = read("sometimes").expect_err("no mode").to_string();
    assert!(said.contains("stop-and-copy") && said.contains("docs/configuration.md"), "{said}");
    std::fs::write(&file, format!("{}\nevery = 7\n", config.to_toml())).unwrap();
    assert!(Config::read(&file).is_err(), "unknown keys are refused");
}

#[test]
fn a_delay_of_syncs_is_shown_and_has_a_limit() {
    refused(
        |c| c.durability.sync_delay_us = 1_000_001,
        "durability: sync_delay_us is 0 to 1000000, which is a second",
    );
    refused(
        |c| (c.durability.sync_delay_us, c.durability.mode) = (1000, Durability::Memory),
        "sync_delay_us does nothing with mode \"memory\"",
    );
    accepted(|c| c.durability.sync_delay_us = 1_000_000);
    let directory = tempfile::tempdir().unwrap();
    let mut config = common::config(directory.path());
    assert_eq!(config.durability.to_string(), "group");
    config.durability.sync_delay_us = 1000;
    assert_eq!(config.durability.to_string(), "group, +1 ms per sync");
    config.durability.sync_delay_us = 1250;
    assert_eq!(config.durability.to_string(), "group, +1.25 ms per sync");
    assert_eq!(config.durability.sync_delay(), std::time::Duration::from_micros(1250));
}

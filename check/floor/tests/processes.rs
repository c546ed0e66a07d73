//! Runs the null program with real processes. The children are this very program, so its `main` is its own.

use quorate_floor::{Config, FaultModel, HeardBy, Report, Sync};
use quorate_types::Visigoth;

fn main() {
    quorate_floor::maybe_child();
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let tests: &[(&str, fn())] = &[
        ("all_replicas_hold_what_was_sent", all_replicas_hold_what_was_sent),
        ("one_command_outstanding_is_answered_one_at_a_time", one_outstanding),
        ("durable_runs_write_and_leave_no_file", durable),
        ("commands_that_do_not_divide_a_batch_arrive_whole", odd_sizes),
        ("five_replicas_work_too", five_replicas),
        ("few_replicas_wait_for_all_but_the_slow_ones", few_replicas),
        ("byzantine_replicas_agree_on_what_was_sent", byzantine),
        ("byzantine_with_many_slots_under_way", byzantine_in_flight),
        ("byzantine_with_odd_sizes_and_seven_replicas", byzantine_sizes),
        ("byzantine_durable_runs_write_each_slot", byzantine_durable),
        ("byzantine_callers_have_connections_of_their_own", callers),
        ("a_configuration_that_cannot_run_is_refused", refused),
        ("a_child_that_fails_ends_the_run_with_its_reason", child_fails),
    ];
    for (name, test) in tests.iter().filter(|(name, _)| name.contains(&filter)) {
        println!("test {name} ...");
        test();
    }
    println!("test result: ok");
}

fn quick() -> Config {
    Config { seconds: 0.4, warm_up_seconds: 0.1, ..Config::default() }
}

fn sound(report: &Report) {
    assert!(report.agree, "{report:?}");
    assert!(report.commits > 0, "{report:?}");
    assert_eq!(report.replicas.len(), report.config.followers + 1);
    assert!(report.replicas.iter().all(|r| r.commands >= report.commits), "{report:?}");
    assert_eq!(report.replicas[0].role, "leader");
    assert!(report.latency.p50_us > 0.0 && report.latency.p50_us <= report.latency.p99_us, "{report:?}");
    assert!(report.latency.samples > 0, "{report:?}");
}

fn all_replicas_hold_what_was_sent() {
    let report = quorate_floor::run(&quick()).unwrap();
    sound(&report);
    assert_ne!(report.replicas[0].sum, 0);
    let cpu = report.replicas_cpu();
    assert!(cpu.user_s + cpu.system_s > 0.0, "{report:?}");
    assert!(report.replicas.iter().all(|r| r.writes == 0), "nothing is written in memory mode");
}

fn one_outstanding() {
    let report = quorate_floor::run_closed_loop(&quick()).unwrap();
    sound(&report);
    assert_eq!(report.config.window, 1);
    // a command a sample, save the one or two at the edges of the measured time
    assert!(report.commits.abs_diff(report.latency.samples) <= 2, "{report:?}");
}

fn durable() {
    let dir = tempfile::tempdir().unwrap();
    for sync in [Sync::Write, Sync::Fdatasync] {
        let config = Config { sync, file_mb: 4, dir: dir.path().join("logs"), window: 4096, ..quick() };
        let report = quorate_floor::run(&config).unwrap();
        sound(&report);
        assert!(report.replicas.iter().all(|r| r.writes > 0), "{report:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path().join("logs")).unwrap().count(), 0);
}

fn odd_sizes() {
    for (command_bytes, batch_bytes, window) in [(17, 1000, 300), (100, 100, 7), (65_535, 65_536, 3)] {
        let config = Config { command_bytes, batch_bytes, window, ..quick() };
        sound(&quorate_floor::run(&config).unwrap());
    }
}

fn five_replicas() {
    sound(&quorate_floor::run(&Config { followers: 4, ..quick() }).unwrap());
}

fn few_replicas() {
    for (o, replicas) in [(0, 4), (1, 5)] {
        let model = FaultModel::Visigoth(Visigoth { u: 2, s: 1, o, t_ms: 50 });
        let report = quorate_floor::run(&quick().surviving(model)).unwrap();
        sound(&report);
        assert_eq!(report.replicas.len(), replicas);
    }
}

/// As much agreement as it takes to survive one liar.
fn quick_byzantine() -> Config {
    quick().surviving(FaultModel::Byzantine)
}

fn byzantine() {
    for window in [1, 65_536] {
        let report = quorate_floor::run(&Config { window, ..quick_byzantine() }).unwrap();
        sound(&report);
        assert_eq!(report.replicas.len(), 4);
        let first = &report.replicas[0];
        assert!(
            report.replicas.iter().all(|r| (r.commands, r.sum) == (first.commands, first.sum)),
            "{report:?}"
        );
        assert!(first.sum != 0 && report.replicas.iter().all(|r| r.writes == 0), "{report:?}");
    }
}

fn byzantine_in_flight() {
    sound(&quorate_floor::run(&Config { in_flight: 16, batch_bytes: 1024, ..quick_byzantine() }).unwrap());
}

fn byzantine_sizes() {
    for (command_bytes, batch_bytes, window, followers) in
        [(17, 1000, 300, 3), (100, 100, 7, 4), (65_535, 65_536, 3, 6), (64, 1 << 20, 65_536, 9)]
    {
        let config = Config { command_bytes, batch_bytes, window, followers, ..quick_byzantine() };
        sound(&quorate_floor::run(&config).unwrap());
    }
}

fn byzantine_durable() {
    let dir = tempfile::tempdir().unwrap();
    for (sync, in_flight, window) in
        [(Sync::Write, 1, 1), (Sync::Fdatasync, 1, 4096), (Sync::Fdatasync, 8, 4096)]
    {
        let logs = dir.path().join("logs");
        let config = Config { sync, in_flight, file_mb: 4, dir: logs.clone(), window, ..quick_byzantine() };
        let report = quorate_floor::run(&config).unwrap();
        sound(&report);
        assert!(report.replicas.iter().all(|r| r.writes > 0 && r.writes <= r.commands), "{report:?}");
        // with a command in each slot the leader writes each; a follower that lags writes several at once
        let leader = &report.replicas[0];
        assert!(window > 1 || leader.writes == leader.commands, "{report:?}");
        assert_eq!(std::fs::read_dir(logs).unwrap().count(), 0);
    }
}

fn callers() {
    for (heard_by, command_bytes, batch_bytes) in
        [(HeardBy::Leader, 16, 64 << 10), (HeardBy::All, 100, 250), (HeardBy::All, 9_000, 20_000)]
    {
        let config = Config { callers: 40, heard_by, command_bytes, batch_bytes, ..quick() };
        let report = quorate_floor::run(&config.surviving(FaultModel::Byzantine)).unwrap();
        sound(&report);
        assert!(report.latency.samples + 40 >= report.commits, "one sample for each command: {report:?}");
    }
}

fn refused() {
    let (base, byzantine) = (quick(), quick_byzantine());
    for config in [
        Config { command_bytes: 15, ..base.clone() },
        Config { batch_bytes: 8, ..base.clone() },
        Config { batch_bytes: 2 << 20, ..base.clone() },
        Config { window: 0, ..base.clone() },
        Config { file_mb: 0, ..base.clone() },
        Config { followers: 0, ..base.clone() },
        Config { in_flight: 2, ..base.clone() },
        Config { in_flight: 0, ..byzantine.clone() },
        Config { in_flight: 1 << 20, ..byzantine.clone() },
        Config { followers: 2, ..byzantine.clone() },
        Config { followers: 10, ..byzantine.clone() },
        Config { callers: 10, ..base.clone() },
        Config { callers: 10_001, ..byzantine.clone() },
        Config { seconds: 0.0, ..base.clone() },
        Config { seconds: f64::NAN, ..base.clone() },
        Config { warm_up_seconds: -1.0, ..base.clone() },
    ] {
        assert!(matches!(quorate_floor::run(&config), Err(quorate_floor::Error::Config(_))), "{config:?}");
    }
}

fn child_fails() {
    let config = Config { congestion_control: "no-such-control".into(), ..quick() };
    let error = quorate_floor::run(&config).unwrap_err().to_string();
    assert!(error.contains("no-such-control"), "{error}");
}

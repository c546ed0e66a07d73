//! Runs the null program with real processes. The children are this very program, so its `main` is its own.

use quorate_floor::{Config, Report, Sync};

fn main() {
    quorate_floor::maybe_child();
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let tests: &[(&str, fn())] = &[
        ("all_replicas_hold_what_was_sent", all_replicas_hold_what_was_sent),
        ("one_command_outstanding_is_answered_one_at_a_time", one_outstanding),
        ("durable_runs_write_and_leave_no_file", durable),
        ("commands_that_do_not_divide_a_batch_arrive_whole", odd_sizes),
        ("five_replicas_work_too", five_replicas),
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

fn refused() {
    let base = quick();
    for config in [
        Config { command_bytes: 15, ..base.clone() },
        Config { batch_bytes: 8, ..base.clone() },
        Config { batch_bytes: 2 << 20, ..base.clone() },
        Config { window: 0, ..base.clone() },
        Config { file_mb: 0, ..base.clone() },
        Config { followers: 0, ..base.clone() },
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

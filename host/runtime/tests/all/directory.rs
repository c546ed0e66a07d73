//! What a data directory was used with decides with what it may be used again.

use crate::common;
use quorate_runtime::{CheckpointMode, Config, DataDirectory, Durability, Replica};
use std::fs;

fn run(config: &Config) {
    let replica = Replica::new(config.clone(), Box::<common::Sum>::default());
    replica.start().expect("it starts").stop().expect("it stops");
}

fn refused(config: &Config, says: &[&str]) {
    let replica = Replica::new(config.clone(), Box::<common::Sum>::default());
    let said = replica.start().err().expect("it is refused").to_string();
    for part in says {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
}

fn with_mode(config: &Config, mode: Durability) -> Config {
    let mut config = config.clone();
    config.durability.mode = mode;
    config
}

#[test]
fn a_log_on_disk_is_not_forgotten_for_memory() {
    let directory = tempfile::tempdir().unwrap();
    let config = common::config(directory.path());
    let [group, asynchronous, memory] =
        [Durability::Group, Durability::Async, Durability::Memory].map(|mode| with_mode(&config, mode));
    run(&group);
    refused(&memory, &["ran with durability \"group\"", "back to \"group\"", "new cluster"]);
    // Being refused changes nothing, and the two that keep a log may follow each other.
    run(&group);
    run(&asynchronous);
    refused(&memory, &["ran with durability \"async\"", "back to \"async\"", "new cluster"]);
    run(&group);
}

#[test]
fn what_was_in_memory_is_lost_whatever_follows() {
    let directory = tempfile::tempdir().unwrap();
    let config = common::config(directory.path());
    run(&with_mode(&config, Durability::Memory));
    for mode in [Durability::Memory, Durability::Async, Durability::Group] {
        refused(&with_mode(&config, mode), &["ran with durability \"memory\"", "anew"]);
    }
    // Nor is it forgotten with the note about it.
    fs::remove_file(config.data.join("run.toml")).unwrap();
    refused(&with_mode(&config, Durability::Memory), &["run.toml is gone", "vote twice"]);
}

#[test]
fn a_log_is_executed_with_what_it_was_executed_with() {
    let directory = tempfile::tempdir().unwrap();
    let config = common::config(directory.path());
    run(&config);
    let changes: [fn(&mut Config); 7] = [
        |c| c.service.name = "tally".into(),
        |c| c.sessions.ttl_s += 1,
        |c| c.sessions.window -= 1,
        |c| drop(c.service.settings.insert("key_bytes".into(), 1.into())),
        |c| drop(c.service.settings.insert("limits".into(), toml::Table::new().into())),
        |c| c.checkpoints.interval_bytes += 1,
        |c| c.checkpoints.interval_state_percent += 1,
    ];
    for change in changes {
        let mut changed = config.clone();
        change(&mut changed);
        refused(&changed, &["`[service]`, `[sessions]`, `[oracle]` or `interval_bytes`", "put them back"]);
    }
    let mut changed = config.clone();
    changed.limits.batch_bytes /= 2;
    changed.durability.mode = Durability::Async;
    // How checkpoints are taken changes nothing that is executed.
    changed.checkpoints.mode = CheckpointMode::StopAndCopy;
    changed.checkpoints.full_every = 1;
    run(&changed);
    run(&config);
}

/// A directory from before this was noted takes what it is started with.
#[test]
fn a_directory_without_a_digest_gets_one() {
    let directory = tempfile::tempdir().unwrap();
    let config = common::config(directory.path());
    run(&config);
    let note = config.data.join("run.toml");
    let text = fs::read_to_string(&note).unwrap();
    let without: String =
        text.lines().filter(|line| !line.starts_with("parameters")).map(|line| format!("{line}\n")).collect();
    assert_ne!(without, text);
    fs::write(&note, without).unwrap();
    run(&config);
    assert!(fs::read_to_string(&note).unwrap().contains("parameters = \""));
    let mut changed = config;
    changed.sessions.max = 5;
    let said = DataDirectory::open(&changed).expect_err("another digest").to_string();
    assert!(said.contains("put them back"), "{said}");
}

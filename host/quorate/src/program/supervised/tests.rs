use super::Supervised;
use std::process::Command;

/// The variables are read by another process: one's own environment belongs to all tests.
#[test]
fn a_started_process_hears_what_is_wanted_of_it() {
    let wanted = Supervised { parent: Some(7), slow: Some("a b".into()), hurt: None };
    let mut command = Command::new("env");
    command.env_clear();
    let said = wanted.tell(&mut command).output().expect("it runs").stdout;
    let mut said: Vec<&str> = std::str::from_utf8(&said).expect("UTF-8").lines().collect();
    said.sort_unstable();
    assert_eq!(said, ["QUORATE_DEV_PARENT=7", "QUORATE_DEV_SLOW=a b"]);
}

#[test]
fn nothing_is_done_to_a_replica_by_itself() {
    let options = Supervised::default().options().expect("no thread is needed");
    assert!(options.lateness.is_none() && options.partition.is_none() && options.quota.is_none());
    Supervised::default().bind().expect("it has nobody to end with");
}

//! The service that takes time, and what it changes.

use crate::support::ctx;
use quorate_execute::{InStore, KeyUse, Parallel, ParallelService, ReplySink, Service};
use quorate_kv::{Tables, Work, WorkCommand};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn ask(service: &mut dyn Service, command: &[u8]) -> Vec<u8> {
    let mut reply = Vec::new();
    service.execute(command, &ctx(), &mut ReplySink::new(&mut reply, 100));
    reply
}

fn total(service: &dyn Service) -> u64 {
    let mut answer = Vec::new();
    service.query(b"", &ctx(), &mut ReplySink::new(&mut answer, 100));
    u64::from_le_bytes(answer.try_into().expect("8 bytes"))
}

#[test]
fn commands_count_what_they_change() {
    let mut service = InStore::new(Parallel::new(Work::default()));
    let one = WorkCommand {
        objects: vec![7],
        object_bytes: 1000,
        rounds: 10,
        sleep_us: 1,
        ..WorkCommand::default()
    };
    let both = WorkCommand { objects: vec![8, 7], ..WorkCommand::default() };
    for (command, count) in [(&one, 1_u64), (&one, 2), (&both, 1), (&both, 2)] {
        assert_eq!(WorkCommand::decode(&command.encode()).as_ref(), Some(command));
        assert_eq!(ask(&mut service, &command.encode()), count.to_le_bytes());
    }
    assert_eq!(total(&service), 6);
    assert_eq!(service.objects().get(&7_u32.to_be_bytes()).map(<[u8]>::len), Some(8), "the last size counts");
}

#[test]
fn what_is_no_command_is_answered_and_changes_nothing() {
    let mut service = InStore::new(Parallel::new(Work::default()));
    let wrong = [
        WorkCommand { objects: vec![], ..WorkCommand::default() },
        WorkCommand { objects: vec![1; 65], ..WorkCommand::default() },
        WorkCommand { objects: vec![1], sleep_us: 1_000_001, ..WorkCommand::default() },
        WorkCommand { objects: vec![1], rounds: u64::MAX, ..WorkCommand::default() },
        WorkCommand { objects: vec![1], object_bytes: (1 << 20) + 1, ..WorkCommand::default() },
        WorkCommand { objects: vec![1], table: Some(64), ..WorkCommand::default() },
    ];
    let odd = [&WorkCommand { objects: vec![1], ..WorkCommand::default() }.encode()[..], &[0]].concat();
    for command in wrong.iter().map(WorkCommand::encode).chain([odd, vec![], vec![0; 24]]) {
        assert_eq!(ask(&mut service, &command), b"no command");
    }
    assert_eq!(total(&service), 0);
}

#[test]
fn the_keys_are_those_of_its_objects() {
    let service = InStore::new(Parallel::new(Work::default()));
    let mut used = Vec::new();
    let command = WorkCommand { objects: vec![1, 2], ..WorkCommand::default() }.encode();
    assert!(service.keys(&command, false, &mut |key| if let KeyUse::Write(key) = key {
        used.push(key.to_vec());
    }));
    assert_eq!(used, [[0, 0, 0, 1], [0, 0, 0, 2]]);
}

/// What hints say is the client's choice; what permissions use is not.
#[test]
fn hints_are_as_wrong_as_the_command_says() {
    let hints = |command: &WorkCommand| {
        let mut used = Vec::new();
        assert!(Work::default().hints(&command.encode(), &mut |key| if let KeyUse::Write(key) = key {
            used.push(key.to_vec());
        }));
        used
    };
    let right = WorkCommand { objects: vec![1], ..WorkCommand::default() };
    let hidden = WorkCommand { hidden: true, ..right.clone() };
    let also = WorkCommand { also: Some(9), ..right.clone() };
    assert_eq!(hints(&right), [[0, 0, 0, 1]]);
    assert!(hints(&hidden).is_empty());
    assert_eq!(hints(&also), [[0, 0, 0, 1], [0, 0, 0, 9]]);
    for command in [hidden, also] {
        assert_eq!(WorkCommand::decode(&command.encode()).as_ref(), Some(&command));
        let mut keys = 0;
        assert!(Work::default().keys(&command.encode(), false, &mut |_| keys += 1));
        assert_eq!(keys, 1);
    }
}

/// Tables of which one is always taken, and the others never.
struct OneTaken(Arc<AtomicU32>);

impl Tables for OneTaken {
    fn take(&self, table: u32) -> bool {
        table != 5
    }
    fn leave(&self, table: u32) {
        self.0.store(table, Ordering::Relaxed);
    }
}

/// The bug on purpose.
#[test]
fn a_command_that_finds_its_table_taken_forgets_to_count() {
    let left = Arc::new(AtomicU32::new(0));
    let mut service = InStore::new(Parallel::new(Work::with(Box::new(OneTaken(left.clone())))));
    let counts = [(None, 1), (Some(5), 1), (Some(6), 2), (Some(5), 2), (None, 3_u64)];
    for (table, count) in counts {
        let command = WorkCommand { objects: vec![1], table, ..WorkCommand::default() };
        assert_eq!(WorkCommand::decode(&command.encode()).as_ref(), Some(&command));
        assert_eq!(ask(&mut service, &command.encode()), count.to_le_bytes(), "{table:?}");
    }
    assert_eq!(left.load(Ordering::Relaxed), 6, "who did not get it does not leave it");
    let both = WorkCommand { objects: vec![1, 2], table: Some(5), ..WorkCommand::default() };
    assert_eq!(ask(&mut service, &both.encode()), 3_u64.to_le_bytes());
    assert_eq!(total(&service), 4, "only the change of the first object is forgotten");
}

//! The order of the steps; the commands themselves are given in front/cli/tests/all/figure.rs.

use super::{Act, Change, Step};
use quorate_types::ReplicaId;
use std::path::Path;
use std::time::Instant;

/// Says that the command was given and succeeded.
fn succeed(change: &mut Change) -> Vec<String> {
    match change.steps.pop_front() {
        Some(Step::Give(words)) => words,
        _ => panic!("a command comes first"),
    }
}

#[test]
fn a_replica_is_a_member_before_it_starts_and_votes_after_that() {
    let now = Instant::now();
    let mut change = Change::joins(ReplicaId::new(5), now).expect("a port is free");
    let added = succeed(&mut change);
    assert_eq!(added[..4], ["member", "add", "5", "--address"]);
    let started = change.step(Path::new(""), now).expect("nothing fails");
    assert_eq!(started, Some(Act::Start(ReplicaId::new(5), added[4].clone())));
    assert!(!change.is_over());
    assert_eq!(succeed(&mut change), ["member", "promote", "5"]);
    assert!(change.is_over() && change.step(Path::new(""), now).expect("nothing fails").is_none());
}

#[test]
fn a_replica_is_stopped_once_it_is_no_member() {
    let now = Instant::now();
    let mut change = Change::leaves(ReplicaId::new(4), now);
    assert_eq!(succeed(&mut change), ["member", "remove", "4"]);
    assert_eq!(change.step(Path::new(""), now).expect("nothing fails"), Some(Act::Stop(ReplicaId::new(4))));
    assert!(change.is_over());
}

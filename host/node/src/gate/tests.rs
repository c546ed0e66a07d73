//! The gate is stepped alone.

use super::*;
use crate::node::tests::{joins, r};

fn conn(id: u64) -> ConnId {
    ConnId::new(id)
}

/// No other replica may hear of a life that a crash could take back: this replica would then come back with another one.
#[test]
fn nobody_is_dialed_before_the_own_life_is_durable() {
    let (config, mut out) = (joins(), Effects::new());
    let mut gate = Gate::new(&config, Lives::default());
    assert!(gate.begin(r(4), 7).is_some(), "it is a new one");
    let id = RecordId::new(1);
    gate.wrote_life(id);
    let dials = |out: &mut Effects| out.drain().filter(|e| matches!(e, Effect::Dial { .. })).count();
    gate.step(Time::ZERO, (&config, RecordId::ZERO), In::Deadline, &mut out);
    assert_eq!((dials(&mut out), gate.deadline(RecordId::ZERO)), (0, None));
    gate.step(Time::ZERO, (&config, id), In::Deadline, &mut out);
    assert_eq!(dials(&mut out), 3, "all the others");
}

#[test]
fn a_life_that_is_known_is_not_written_again() {
    let mut gate = Gate::new(&joins(), Lives::default());
    let record = gate.begin(r(4), 7).expect("it is a new one");
    let mut lives = Lives::default();
    lives.restore(&record).expect("it is one of ours");
    let mut again = Gate::new(&joins(), lives);
    assert!(again.begin(r(4), 8).is_none(), "whatever the seed");
    assert_eq!(again.own_life, (gate.own_life.0, RecordId::ZERO));
}

#[test]
fn what_breaks_a_rule_is_counted_and_closed() {
    let (config, mut out) = (joins(), Effects::new());
    let mut gate = Gate::new(&config, Lives::default());
    gate.step(Time::ZERO, (&config, RecordId::ZERO), In::Accepted { conn: conn(1), from: None }, &mut out);
    gate.reject(conn(1), "nonsense".into(), &mut out);
    gate.count_wrong();
    assert_eq!(gate.rejected(), 2);
    assert!(out.drain().any(|effect| matches!(effect, Effect::Close(closed) if closed == conn(1))));
}

#[test]
fn without_a_word_all_may_do_everything() {
    let mut gate = Gate::new(&joins(), Lives::default());
    assert!(gate.permits_all() && gate.rights(conn(1)).is_none());
    gate.permit(Access { others: Some(Arc::default()), ..Access::default() });
    assert!(!gate.permits_all());
    assert_eq!(gate.rights(conn(1)).map(|rights| rights.read.len()), Some(0), "whoever it is");
}

use super::{Heard, State, Step, Told, What};
use quorate_execute::{Published, Store};
use quorate_types::{AgreedTime, Seq};

/// The state after a transaction.
fn version(zxid: i64) -> Published {
    let mut store = Store::new();
    store.put(b"\xff\xffm", &zxid.to_be_bytes());
    Published {
        objects: store.version(),
        seq: Seq::new(zxid as u64),
        time: AgreedTime::ZERO,
        level: 1,
        service_level: 1,
    }
}

fn nodes(zxid: i64) -> Told {
    Told { zxid, what: What::Nodes(Vec::new()) }
}

/// A state that clients have seen up to this transaction.
fn shown(zxid: i64) -> State {
    let mut state = State::default();
    assert!(matches!(state.adopt(Some(&version(zxid))), Some(Step::First)));
    state
}

fn jumps(step: Option<Step>) -> bool {
    matches!(step, Some(Step::Jump { .. }))
}

#[test]
fn what_is_told_waits_for_its_version() {
    let mut state = shown(10);
    state.hear(Heard { list: vec![nodes(11), nodes(12)], gap: None });
    assert!(matches!(state.adopt(Some(&version(11))), Some(Step::On(told)) if told == [nodes(11)]));
    assert!(state.adopt(Some(&version(11))).is_none(), "it is shown already");
    assert!(matches!(state.adopt(Some(&version(12))), Some(Step::On(told)) if told == [nodes(12)]));
}

/// What is missing may be about states that no version shows yet: each of them is a jump.
#[test]
fn a_gap_ends_with_the_version_behind_it() {
    let mut state = shown(10);
    state.hear(Heard { list: vec![nodes(13)], gap: Some(12) });
    assert!(jumps(state.adopt(Some(&version(11)))));
    assert!(jumps(state.adopt(Some(&version(12)))));
    assert!(matches!(state.adopt(Some(&version(13))), Some(Step::On(told)) if told == [nodes(13)]));
}

/// What was told of a state that another one replaced holds up nothing.
#[test]
fn a_state_that_was_replaced_leaves_nothing_behind() {
    let mut state = shown(10);
    let replaced = Told { zxid: 15, what: What::Replaced };
    state.hear(Heard { list: vec![nodes(20), replaced, nodes(16)], gap: None });
    assert!(jumps(state.adopt(Some(&version(16)))));
    assert!(matches!(state.adopt(Some(&version(9))), Some(Step::Back)));
}

#[test]
fn nothing_is_shown_while_the_replica_answers_no_reads() {
    let mut state = shown(10);
    assert!(state.shows(10) && !state.shows(11));
    assert!(state.adopt(None).is_none());
    assert!(!state.shows(10) && state.view().is_none() && state.has_any());
    assert!(matches!(state.adopt(Some(&version(10))), Some(Step::On(_))), "who waited goes on");
    assert!(state.shows(10));
}

/// A replica that goes back to a checkpoint tells again what clients have seen. Only what is new to them is handed on.
#[test]
fn what_was_seen_before_is_not_told_again() {
    let mut state = shown(10);
    let replaced = Told { zxid: 5, what: What::Replaced };
    state.hear(Heard { list: vec![replaced, nodes(8), nodes(10), nodes(11)], gap: None });
    let Some(Step::Jump { told, .. }) = state.adopt(Some(&version(11))) else { panic!("it jumps") };
    assert_eq!(told, [nodes(11)]);
}

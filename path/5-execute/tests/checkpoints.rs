//! Checkpoints: what they hold comes back, and damaged ones are refused without a panic. That equal histories give
//! equal bytes is tested over random histories in `session_model.rs`.

mod support;

use proptest::prelude::*;
use quorate_execute::{CheckpointError, SessionLimits};
use quorate_types::Span;
use quorate_wire::ReplyStatus;
use support::{Replica, commands, empty, open};

fn replica() -> Replica {
    let limits = SessionLimits { window: 9, ttl: Span::from_nanos(1000), ..SessionLimits::default() };
    let mut replica = Replica::new(limits);
    let id = replica.opened(1, 1);
    replica.run(5, &[open(1, 2), open(2, 1), commands(id, 1, 1, &[b"one"]), commands(id, 2, 1, &[b"two"])]);
    replica.run(6, &[empty(id, 3, 2)]);
    replica
}

/// The cluster's limits come with the state: a replica with other limits in its file decides as the others do.
#[test]
fn limits_travel_in_checkpoints() {
    let before = replica();
    let after = Replica::restored(&before.checkpoint()).expect("a good checkpoint");
    assert_eq!(after.executor.sessions().limits(), before.executor.sessions().limits());
    assert_eq!(after.executor.seq(), before.executor.seq());
    assert_eq!(after.executor.time(), before.executor.time());
    assert_eq!(after.count(), 2);
}

/// Kept replies are part of the state: the retry after a restore gets the first answer.
#[test]
fn a_retry_after_a_restore_gets_the_first_answer() {
    let mut before = replica();
    let mut after = Replica::restored(&before.checkpoint()).expect("a good checkpoint");
    let id = quorate_types::SessionId { index: 0, generation: 1 };
    let retry = [commands(id, 2, 2, &[b"two"]), commands(id, 1, 1, &[b"one"])];
    let seen = after.run(7, &retry);
    assert_eq!(seen, before.run(7, &retry));
    assert_eq!([seen[0].status, seen[1].status], [ReplyStatus::Done, ReplyStatus::ReplyForgotten]);
}

/// Cut off anywhere, a checkpoint is refused.
#[test]
fn a_cut_off_checkpoint_is_refused() {
    let bytes = replica().checkpoint();
    for len in 0..bytes.len() {
        assert!(Replica::restored(&bytes[..len]).is_err(), "cut off at {len}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(Replica::restored(&longer), Err(CheckpointError::Malformed(_))));
}

proptest! {
    /// Damaged bytes are refused, or are another table that holds its invariants; never a panic.
    #[test]
    fn a_damaged_checkpoint_is_no_danger(at in any::<prop::sample::Index>(), value in any::<u8>(), more in any::<u8>()) {
        let mut bytes = replica().checkpoint();
        let at = at.index(bytes.len());
        bytes[at] = value;
        let _ = Replica::restored(&bytes);
        if at + 3 < bytes.len() {
            bytes[at + 3] = more;
        }
        let _ = Replica::restored(&bytes);
    }
}

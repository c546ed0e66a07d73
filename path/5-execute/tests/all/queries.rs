//! Queries that were ordered: answered at their place, once, and nothing changes by them.

use crate::support::{Echo, Replica, Seen, close, commands, list, query};
use quorate_execute::{Context, Outcomes, SessionLimits};
use quorate_types::{AgreedTime, RequestNumber, SessionId};
use quorate_wire::{ReplyStatus, RequestKind};

/// What the service answers after so many commands.
fn answer(count: u64, query: &[u8]) -> Vec<u8> {
    [&count.to_le_bytes()[..], query].concat()
}

fn answers(seen: &Seen) -> Vec<Vec<u8>> {
    assert_eq!(seen.status, ReplyStatus::Done);
    list(&seen.body)
}

/// Each sees what stands before it, in its own batch, too, and one answer comes back for each.
#[test]
fn a_query_sees_what_is_ordered_before_it() {
    let mut replica = Replica::new(SessionLimits::default());
    let id = replica.opened(1, 1);
    let asks = [query(id, 1, 1, b"q"), commands(id, 2, 1, &[b"a", b"b"]), query(id, 3, 1, b"")];
    let seen = replica.run(0, &asks);
    assert_eq!(answers(&seen[0]), [answer(0, b"q")]);
    assert_eq!(answers(&seen[2]), [answer(2, b"")]);
}

/// The service and its objects are as before; only the session moved on.
#[test]
fn a_query_changes_nothing() {
    let mut replica = Replica::new(SessionLimits::default());
    let id = replica.opened(1, 1);
    replica.one(0, commands(id, 1, 1, &[b"a"]));
    let before = replica.image().objects.root();
    for number in 2..20 {
        assert_eq!(answers(&replica.one(0, query(id, number, number, b"L\x01\x01\x01"))).len(), 1);
    }
    assert_eq!((replica.count(), replica.image().objects.root()), (1, before));
    assert_eq!(replica.executor.last_number(id), Some(RequestNumber::new(19)));
}

/// The answer belongs to the number: it is kept, and comes again however much happened since, also from a checkpoint.
#[test]
fn a_repeated_query_is_answered_as_the_first_time() {
    let mut replica = Replica::new(SessionLimits::default());
    let id = replica.opened(1, 1);
    let first = replica.one(0, query(id, 1, 1, b"q"));
    replica.one(0, commands(id, 2, 1, &[b"a"]));
    assert_eq!(replica.one(0, query(id, 1, 1, b"q")), first);
    assert_eq!(replica.copy().one(0, query(id, 1, 1, b"q")), first);
    assert_eq!(
        replica.one(0, query(id, 1, 3, b"q")).status,
        ReplyStatus::Done,
        "never beyond its own number"
    );
    replica.one(0, query(id, 3, 3, b"q"));
    assert_eq!(replica.one(0, query(id, 1, 1, b"q")).status, ReplyStatus::ReplyForgotten);
}

/// It obeys the rules of sessions like a command: gaps, ends, and the limit for replies.
#[test]
fn queries_obey_the_rules_of_sessions() {
    let limits =
        SessionLimits { reply_bytes_per_request_max: 100, reply_bytes_max: 150, ..Default::default() };
    let mut replica = Replica::new(limits);
    let id = replica.opened(1, 1);
    assert_eq!(replica.one(0, query(id, 2, 1, b"q")).status, ReplyStatus::ExpectedNumber);
    let seen = replica.one(0, query(id, 1, 1, &[7; 200]));
    assert_eq!(seen.status, ReplyStatus::TooLarge);
    assert!(seen.body.starts_with(b"executed"));
    replica.one(0, query(id, 2, 2, &[7; 70]));
    replica.one(0, query(id, 3, 2, &[7; 70]));
    assert_eq!(replica.one(0, query(id, 4, 2, b"q")).status, ReplyStatus::Overloaded, "too much is kept");
    assert_eq!(answers(&replica.one(0, query(id, 4, 4, b"q"))), [answer(0, b"q")]);
    replica.one(0, close(id, 5));
    assert_eq!(replica.one(0, query(id, 6, 6, b"q")).status, ReplyStatus::SessionExpired);
}

/// A full disk has no room for them: they take their place in the log, and make none.
#[test]
fn queries_make_no_room() {
    let replica = Replica::new(SessionLimits::default());
    assert!(!replica.executor.frees(RequestKind::Query, b"q"));
}

/// Who asks, and the batch's randomness, are kept from queries, ordered or not.
#[test]
fn a_query_is_told_the_same_however_it_is_asked() {
    use quorate_execute::{CheckpointError, CheckpointSink, CheckpointSource, Executor, ReplySink, Service};
    #[derive(Default)]
    struct Told(Echo);
    impl Service for Told {
        fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
            self.0.execute(command, ctx, reply);
        }
        fn query(&self, _: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
            reply.write(format!("{ctx:?}").as_bytes());
        }
        fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
            self.0.checkpoint(out)
        }
        fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
            self.0.restore(from)
        }
    }
    let executor = Executor::new(Box::new(Told::default()), SessionLimits::default(), AgreedTime::ZERO);
    let mut replica = Replica { executor, out: Outcomes::new() };
    let id: SessionId = replica.opened(9, 1);
    let ordered = answers(&replica.one(3, query(id, 1, 1, b""))).remove(0);
    let mut plain = vec![];
    replica.executor.query(b"", &mut plain).expect("short");
    assert_eq!(String::from_utf8_lossy(&ordered), String::from_utf8_lossy(&plain));
}

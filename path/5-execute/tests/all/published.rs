//! A published state answers as the replica did, whatever is executed afterwards.

use crate::support::{Echo, Replica, batch, commands, open, seq};
use quorate_execute::{Context, Executor, InStore, ObjectService, Outcomes, ReplySink, SessionLimits, Store};
use quorate_types::{AgreedTime, SessionId};

/// Counts commands; a query is answered with the count and what its context says.
struct Counts;

impl ObjectService for Counts {
    fn execute(&mut self, store: &mut Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {
        let count = store.get(b"count").map_or(0, |count| count[0]) + 1;
        store.put(b"count", &[count]);
    }
    fn query(&self, store: &Store, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let count = store.get(b"count").map_or(0, |count| count[0]);
        let text = format!("{count} at {} {:?} level {}: ", ctx.seq(), ctx.time(), ctx.level());
        reply.write(text.as_bytes());
        reply.write(query);
    }
}

#[test]
fn it_answers_as_the_replica_did() {
    let service = Box::new(InStore::new(Counts));
    let (mut executor, mut out) =
        (Executor::new(service, SessionLimits::default(), AgreedTime::ZERO), Outcomes::new());
    executor.set_level(1);
    executor.execute(seq(1), &batch(5, 1, &[open(7, 1)]), &mut out);
    let session = SessionId { index: 0, generation: 1 };
    for number in 1..4 {
        let state = executor.published().expect("a service in the store");
        let mut answer = Vec::new();
        executor.query(b"what", &mut answer).expect("a short answer");
        let asks = [commands(session, number, number, &[b"one", b"two"])];
        executor.execute(seq(number + 1), &batch(number * 10, 1, &asks), &mut out);
        assert_eq!(state.query(&Counts, b"what", 100), Ok(answer.clone()), "what follows does not show");
        assert_eq!(state.seq, seq(number));
        assert!(state.query(&Counts, b"what", answer.len() - 1).is_err(), "over the limit");
    }
}

#[test]
fn other_services_have_none() {
    let replica = Replica::with(Box::new(Echo::default()), SessionLimits::default());
    assert!(replica.executor.published().is_none());
}

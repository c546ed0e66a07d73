//! What a context says, and where it says nothing. That it says the same under every executor is checked by the histories in `ordered.rs`,
//! `speculative.rs` and `verified.rs`, whose service keeps and answers what it sees.

use crate::support::{batch, commands, list, open, query, seq};
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, Execution, Executor, MembershipNow, Ordered,
    Outcomes, ReplySink, Sequential, Service, SessionEnd, SessionLimits,
};
use quorate_types::{AgreedTime, InstanceId, MembershipId, Slot, Time};

/// Keeps a line about each call, and answers with them.
#[derive(Default)]
struct Notes(String);

impl Notes {
    fn note(&mut self, what: &str, ctx: &Context) {
        let line = says(what, ctx);
        self.0.push_str(&line);
    }
}

fn says(what: &str, ctx: &Context) -> String {
    let (who, place) = ((ctx.client(), ctx.session()), (ctx.instance(), ctx.slot()));
    format!("{what} {} {} {} {} {}\n", who.0, who.1, ctx.seq(), place.0, place.1)
}

impl Service for Notes {
    fn execute(&mut self, _: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.note("command", ctx);
        reply.write(self.0.as_bytes());
    }
    fn query(&self, _: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        reply.write(self.0.as_bytes());
        reply.write(says("query", ctx).as_bytes());
    }
    fn checkpoint(&self, _: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn next_deadline(&self) -> Option<AgreedTime> {
        (!self.0.contains("deadline")).then(|| AgreedTime::from_nanos(20))
    }
    fn deadline_reached(&mut self, ctx: &Context) {
        self.note("deadline", ctx);
    }
    fn session_ended(&mut self, _: SessionEnd, ctx: &Context) {
        self.note("ended", ctx);
    }
    fn membership_changed(&mut self, _: &MembershipNow, ctx: &Context) {
        self.note("members", ctx);
    }
}

/// A command sees where its batch was decided; a query, which may be ordered or not and must be answered alike, sees no place.
#[test]
fn a_context_names_the_place_of_its_batch() {
    let executor = Executor::new(Box::new(Notes::default()), SessionLimits::default(), AgreedTime::ZERO);
    let mut stage = Sequential::new(executor);
    let whole: &mut (dyn Execution + 'static) = &mut stage;
    let mut outcomes = Outcomes::new();
    let place = |instance, slot| (InstanceId::new(instance), Slot::new(slot));
    whole.batch_of(seq(1), place(1, 4), batch(10, 1, &[open(7, 1)]));
    whole.next(Time::ZERO, &mut outcomes);
    let session = outcomes.list()[0].session;
    let asks = [commands(session, 1, 1, &[b"a"]), query(session, 2, 1, b"")];
    whole.batch_of(seq(2), place(3, 9), batch(30, 2, &asks));
    whole.deliver(Ordered::Members(MembershipNow { number: MembershipId::new(2), replicas: Vec::new() }));
    whole.next(Time::ZERO, &mut outcomes);
    let replies: Vec<_> = outcomes.replies().flat_map(|(_, reply)| list(reply.body)).collect();
    let ran = "deadline c0 session 0.0 q2 i3 s9\ncommand c7 session 0.1 q2 i3 s9\n";
    assert_eq!(String::from_utf8_lossy(&replies[0]), ran);
    let asked = "query c0 session 0.0 q2 i0 s0\n";
    assert_eq!(String::from_utf8_lossy(&replies[1]), format!("{ran}{asked}"));
    let mut read = Vec::new();
    whole.state().query(b"", &mut read).expect("a short answer");
    let changed = "members c0 session 0.0 q2 i0 s0\n";
    assert_eq!(String::from_utf8_lossy(&read), format!("{ran}{changed}{asked}"));
}
